/* SPDX-License-Identifier: MIT
 * Runs the examples of the reference manual, and compares what comes out with the comments that say so: run_examples
 * [NAME...]. Those of tools/manual/examples.h. */
#include "examples.h"
#include "harness/exported.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static example *first, **last = &first;
static int failures;

void example_add(example *e) {
    *last = e;
    last = &e->next;
}

__attribute__((format(printf, 2, 3))) static void fail(const example *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: %s: ", e->file, e->line, e->name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    failures++;
}

/* -- What a source says that comes out -- */

/* The example's body, from malloc: up to a brace at a line's begin, or the last one of its first line; NULL: it cannot
 * be read. The compiler may have been given the file's path relative to a folder that is not this one. */
static char *read_body(const example *e) {
    char *body = NULL, path[512], line[512];
    const char *slash = strrchr(e->file, '/');
    snprintf(path, sizeof path, "%s/%s", TCC_EXAMPLES, slash ? slash + 1 : e->file);
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    size_t size = 0;
    FILE *out = open_memstream(&body, &size);
    for (int n = 1; out && fgets(line, sizeof line, f); n++) {
        if (n > e->line && *line == '}') break;
        const bool alone = n == e->line && strcmp(line + strlen(line) - 2, "}\n") == 0;
        if (n > e->line) fputs(line, out);
        else if (n == e->line) fputs(strchr(line, '{') + 1, out);
        if (alone) break;
    }
    fclose(f);
    if (out) fclose(out);
    return body;
}

typedef struct said {
    char statement[512], comment[256];
} said;

/* The next statement that has a comment behind it; the place behind it, or NULL. */
static const char *next_said(const char *at, said *s) {
    for (const char *end; (end = strchr(at, ';')); at = end + 1) {
        const char *comment = end + 1 + strspn(end + 1, " ");
        const char *close = strstr(comment, " */");
        if (strncmp(comment, "/* ", 3) != 0 || !close) continue;
        snprintf(s->statement, sizeof s->statement, "%.*s", (int)(end - at), at);
        snprintf(s->comment, sizeof s->comment, "%.*s", (int)(close - comment - 3), comment + 3);
        return close + 3;
    }
    return NULL;
}

/* -- Outputs of a trace -- */

static double element(const tcc_array *a, int64_t i) {
    switch (a->dtype) {
    case TCC_F64: return ((const double *)a->data)[i];
    case TCC_F32: return ((const float *)a->data)[i];
    case TCC_I64: return (double)((const int64_t *)a->data)[i];
    case TCC_I32: return ((const int32_t *)a->data)[i];
    case TCC_U8:
    case TCC_BOOL: return ((const uint8_t *)a->data)[i];
    default: return NAN;
    }
}

static int64_t count_of(const tcc_array *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

static void print_type(const tcc_array *a, char *text, size_t size) {
    static const char *const names[] = {
#define TCC_DTYPE(id, text, bytes, kind, st, digits, exponent) text,
#include <traincc/dtype.def>
#undef TCC_DTYPE
    };
    size_t used = (size_t)snprintf(text, size, "%s [", names[a->dtype]);
    for (int d = 0; d < a->rank; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", d ? ", " : "", (int)a->dims[d]);
    snprintf(text + used, size - used, "]");
}

static void print_values(const tcc_array *a, char *text, size_t size) {
    size_t used = 0;
    for (int64_t i = 0; i < count_of(a) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.4g", i ? ", " : "", element(a, i) + 0.0);
}

/* Whether these are the values, to the four digits that are printed. */
static bool are_values(const tcc_array *a, const char *text) {
    for (int64_t i = 0; i < count_of(a); i++) {
        char *end;
        const double said = strtod(text, &end), is = element(a, i);
        const bool equal = isfinite(is) ? fabs(said - is) <= 2e-3 * fabs(is) + 1e-6 : isnan(said) == isnan(is);
        if (end == text || !equal) return false;
        text = end + strspn(end, ", ");
    }
    return !*text;
}

static void check_outputs(const example *e, const char *body, tcc_model *m) {
    said s;
    for (const char *at = body; (at = next_said(at, &s));) {
        const char *call = strstr(s.statement, "tcc_output(t, \"");
        if (!call) continue;
        char name[64], text[256];
        tcc_array out;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(call + 15, "\""), call + 15);
        if (tcc_model_output(m, name, &out)) {
            fail(e, "no output %s", name);
            continue;
        }
        const bool type = strchr(s.comment, '[') != NULL;
        if (type) print_type(&out, text, sizeof text);
        else print_values(&out, text, sizeof text);
        if (type ? strcmp(text, s.comment) != 0 : !are_values(&out, s.comment))
            fail(e, "output \"%s\" is /* %s */, but the comment says /* %s */", name, text, s.comment);
    }
    if (strstr(body, "tcc_output(t, \"") && !next_said(body, &s))
        fail(e, "add a comment behind tcc_output: its values, or its type and shape");
}

/* -- Lines that are printed -- */

static void check_lines(const example *e, const char *body, const char *printed) {
    said s;
    for (const char *at = body; (at = next_said(at, &s));) {
        if (!strstr(s.statement, "printf(") && !strstr(s.statement, "puts(")) continue;
        size_t length = strlen(s.comment);
        const bool begins = length > 3 && !strcmp(s.comment + length - 3, "...");
        if (begins) length -= 3;
        const char *line = printed;
        while (line && (strncmp(line, s.comment, length) != 0 || (!begins && line[length] && line[length] != '\n')))
            line = (line = strchr(line, '\n')) ? line + 1 : NULL;
        if (!line) fail(e, "it prints /* %.*s */, not /* %s */", (int)strcspn(printed, "\n"), printed, s.comment);
        else printed = line + length;
    }
}

/* -- Running -- */

/* A program needs an output. */
static void trace(tcc_trace *t, void *user) {
    const example *e = user;
    e->traced(t, NULL);
    tcc_output(t, "one more", tcc_constant(t, 0, TCC_F32, TCC_DIMS(1)));
}

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "fc1", 8));
    tcc_loss(t, tcc_mse_loss(tcc_linear(h, "fc2", 1), tcc_input(t, "y")));
}

static tcc_status make_model(example_given *g) {
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.ema_decay = 0.9;
    const tcc_model_options options = {
        .size = sizeof options, .optimizer = &adam, .seed = 1, .keep_gradients = true, .statistics = true};
    tcc_status status = tcc_model_create(g->cx, net, NULL, &options, &g->model);
    return status ? status : tcc_model_train(g->model, g->batch, g->batch_count);
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (f) fputs(text, f), fclose(f);
}

static tcc_status make_files(tcc_context *cx) {
    static float bias[1] = {0.5f};
    const tcc_array array = {.name = "fc2.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = bias};
    const tcc_pair author = {"author", "me"}, epoch = {"epoch", "3"};
    const tcc_checkpoint_contents contents = {
        .size = sizeof contents, .step = 100, .params = &array, .n_params = 1, .values = &epoch, .n_values = 1};
    write_text("input.txt", "to be or not to be that is the question\nwhether tis nobler in the mind to suffer\n");
    write_text("table.csv",
               "height,width,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n9,9,x\n2,3,y\n1,1,x\n8,6,y\n3,3,x\n5,5,y\n");
    tcc_status status = tcc_safetensors_write(cx, "weights.safetensors", &array, 1, &author, 1);
    if (!status) status = exported_make(cx, "table.csv", "exported");
    return status ? status : tcc_checkpoint_save(cx, "checkpoints", &contents);
}

static tcc_status make_given(example_given *g) {
    static const char graph[] =
        "graph @f {\n  %0 = input {name=\"x\"} : f32[4]\n  %1 = neg(%0) : f32[4]\n  output \"y\" %1\n}\n";
    const tcc_data_options from = {.size = sizeof from, .kind = "text", .path = "input.txt", .context = 8};
    const tcc_loader_options how = {.size = sizeof how, .batch_size = 2};
    const tcc_tokenizer_options tokens = {.size = sizeof tokens, .kind = "characters", .vocab = "input.txt"};
    const tcc_metrics_options metrics = {.size = sizeof metrics, .folder = "run"};
    tcc_status status = tcc_context_create(&g->cx);
    if (!status) status = make_files(g->cx);
    if (!status) status = make_model(g);
    if (!status) status = tcc_dataset_open(g->cx, &from, &g->data);
    if (!status) status = tcc_loader_create(g->cx, g->data, &how, &g->loader);
    if (!status) status = tcc_tokenizer_open(g->cx, &tokens, &g->tokenizer);
    if (!status) status = tcc_metrics_open(g->cx, &metrics, &g->metrics);
    if (!status) status = tcc_ir_parse(g->cx, graph, sizeof graph - 1, "graph.tir", &g->ir);
    return status;
}

static void drop_given(example_given *g) {
    tcc_ir_destroy(g->ir);
    tcc_metrics_close(g->metrics);
    tcc_tokenizer_close(g->tokenizer);
    tcc_loader_destroy(g->loader);
    tcc_dataset_close(g->data);
    tcc_model_destroy(g->model);
    tcc_context_destroy(g->cx);
}

static void run(example *e, const example_given *g) {
    static char printed[1 << 16];
    char *body = read_body(e);
    tcc_model *m = NULL;
    tcc_status status = TCC_OK;
    FILE *file = tmpfile();
    const int out = dup(STDOUT_FILENO);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    if (e->run) {
        e->run(g, &status);
    } else {
        status = tcc_model_create(g->cx, trace, e, NULL, &m);
        if (!status) status = tcc_model_evaluate(m, g->batch, g->batch_count);
    }
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(file);
    printed[fread(printed, 1, sizeof printed - 1, file)] = '\0';
    fclose(file);
    if (status) fail(e, "%s", tcc_context_error(g->cx));
    else if (!body) fail(e, "its source cannot be read");
    else {
        check_lines(e, body, printed);
        if (m) check_outputs(e, body, m);
    }
    tcc_model_destroy(m);
    free(body);
}

int main(int argc, char **argv) {
    float x[4] = {-1, 0, 1, 2}, y[4] = {-3, 0, 3, 6};
    const tcc_array batch[] = {{"x", TCC_F32, 2, {4, 1}, x}, {"y", TCC_F32, 2, {4, 1}, y}};
    example_given g = {.batch = batch, .batch_count = 2};
    char folder[] = "examples.XXXXXX";
    int count = 0;
    if (!mkdtemp(folder) || chdir(folder) || mkdir("run", 0700)) return perror(folder), 1;
    setenv("TCC_CACHE_DIR", "cache", 1);
    unsetenv("TCC_CACHE_DISABLE");
    const tcc_status status = make_given(&g);
    if (status) fprintf(stderr, "%s\n", g.cx ? tcc_context_error(g.cx) : tcc_status_text(status)), failures++;
    for (example *e = first; e && !status; e = e->next) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++) wanted |= !strcmp(argv[i], e->name);
        if (!wanted) continue;
        run(e, &g);
        count++;
    }
    drop_given(&g);
    printf("%d examples, %d failures\n", count, failures);
    if (chdir("..") ||
        execlp("sh", "sh", "-c", "rm -rf \"$1\"; exit \"$2\"", "sh", folder, failures || !count ? "1" : "0", NULL))
        perror(folder);
    return 1;
}
