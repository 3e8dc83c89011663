/* SPDX-License-Identifier: MIT
 * bench-ops NAME f32|bf16 [SECONDS]: times one row of ops.def, forward and with gradients, for about SECONDS each;
 * prints one JSON line, for ops.py. bench-ops --list prints the rows as JSON lines. TCC_NUM_THREADS is the number of
 * threads. bench-ops NAME TYPE SECONDS --explain prints the table of kernels of both, too. */
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_OPERANDS = 4, MOST_WANTED = 8, WARM_UP = 2, MOST_ROUNDS = 10000 };

#define BENCH(name, operands, in_c, in_pytorch) LAYER(name, operands, "", in_c, "", in_pytorch)
#define CHAIN BENCH
#define BOUND(name, why)
#define LAYER(name, operands, parameters, in_c, module, in_pytorch) \
    static tcc_tensor make_##name(const tcc_tensor *x) { return in_c; }

/* -- What is more than one call -- */

static tcc_tensor counts(tcc_tensor of, int n, double value) {
    return tcc_constant(of.trace, value, TCC_I32, TCC_DIMS(n));
}

static tcc_tensor ctc(tcc_tensor x, tcc_tensor labels) {
    return tcc_ctc_loss(tcc_log_softmax(x, 2), tcc_add_scalar(labels, 1), counts(x, 16, 100), counts(x, 16, 20));
}

static tcc_tensor product_and_sum(const tcc_tensor *x) { return tcc_add(tcc_mul(x[0], x[1]), x[2]); }

static tcc_tensor split_thirds(tcc_tensor x) {
    tcc_tensor parts[3];
    tcc_split(x, 1, parts, TCC_DIMS(512, 512, 512));
    return product_and_sum(parts);
}

static tcc_tensor chunk_thirds(tcc_tensor x) {
    tcc_tensor parts[3];
    tcc_chunk(x, 1, 3, parts);
    return product_and_sum(parts);
}

static tcc_tensor mesh(const tcc_tensor *x) {
    tcc_tensor grid[2];
    tcc_meshgrid(x, 2, grid);
    return tcc_sub(tcc_mul(grid[0], grid[0]), grid[1]);
}

#include "ops.def"
#undef LAYER
#undef CHAIN

typedef struct row {
    const char *name, *operands, *parameters, *module, *in_pytorch;
    bool is_chain;
    tcc_tensor (*make)(const tcc_tensor *x);
} row;

static const row rows[] = {
#define CHAIN(name, operands, in_c, in_pytorch) {#name, operands, "", "", in_pytorch, true, make_##name},
#define LAYER(name, operands, parameters, in_c, module, in_pytorch) \
    {#name, operands, parameters, module, in_pytorch, false, make_##name},
#include "ops.def"
#undef LAYER
#undef CHAIN
#undef BENCH
#undef BOUND
};
enum { ROWS = sizeof rows / sizeof rows[0] };

typedef struct bound {
    const char *name, *why;
} bound;

static const bound bounds[] = {
#define BENCH(name, operands, in_c, in_pytorch)
#define CHAIN(name, operands, in_c, in_pytorch)
#define LAYER(name, operands, parameters, in_c, module, in_pytorch)
#define BOUND(name, why) {#name, why},
#include "ops.def"
};
enum { BOUNDS = sizeof bounds / sizeof bounds[0] };

/* What the model's function gets, and what it tells of the result. */
typedef struct bench {
    const row *row;
    tcc_dtype dtype;
    bool gradients;
    int n;
    char kinds[MOST_OPERANDS], names[MOST_OPERANDS][8];
    tcc_array x[MOST_OPERANDS + 1]; /* with the gradient of the result */
    bool has_gradient;
} bench;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_wanted(char kind) { return kind == 'p' || kind == 'u'; }

/* The layer's parameters, of names and shapes as operands have them, behind the n that are there; their number. */
static int add_parameters(tcc_trace *t, const char *p, tcc_tensor *wanted, int n) {
    while (*p && n < MOST_WANTED) {
        char name[32];
        int64_t dims[TCC_MAX_RANK];
        int rank = 0;
        const int length = (int)strcspn(p, "[");
        snprintf(name, sizeof name, "%.*s", length, p);
        for (p += length; *p && *p != ']';) dims[rank++] = strtoll(p + 1, (char **)&p, 10);
        wanted[n++] = tcc_param(t, name, (tcc_init){0}, rank, dims);
        p += strspn(p, "] ");
    }
    return n;
}

static void build(tcc_trace *t, void *user) {
    bench *b = user;
    tcc_tensor x[MOST_OPERANDS] = {{0}}, wanted[MOST_WANTED], gradients[MOST_WANTED];
    int n = 0;
    tcc_param_type(t, b->dtype);
    for (int i = 0; i < b->n; i++) {
        x[i] = tcc_input(t, b->names[i]);
        if (is_wanted(b->kinds[i])) wanted[n++] = x[i];
    }
    tcc_tensor y = b->row->make(x);
    tcc_output(t, "y", y);
    n = add_parameters(t, b->row->parameters, wanted, n);
    tcc_param_type_end(t);
    const tcc_dtype dtype = tcc_get_dtype(y);
    b->has_gradient = n > 0 && (dtype == TCC_F32 || dtype == TCC_BF16);
    if (!b->gradients || !b->has_gradient) return;
    tcc_gradients(tcc_sum(tcc_mul(y, tcc_input(t, "dy")), TCC_ALL), wanted, n, gradients);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        tcc_output(t, name, gradients[i]);
    }
}

/* -- Operands -- */

static int64_t numel(const tcc_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= a->dims[i];
    return n;
}

static double draw(void) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(state >> 40) * 0x1p-24;
}

static void fill(tcc_array *a, char kind, int modulus) {
    const int64_t n = numel(a);
    a->data = calloc((size_t)n, 4);
    for (int64_t i = 0; a->data && i < n; i++) {
        const double u = draw();
        const float x = (float)(kind == 'u' || kind == 'w' ? 0.999 * u + 0.0005 : 2 * u - 1);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (kind == 'i') ((int32_t *)a->data)[i] = (int32_t)(u * modulus);
        else if (a->dtype == TCC_BF16) ((uint16_t *)a->data)[i] = (uint16_t)(bits >> 16);
        else ((float *)a->data)[i] = x;
    }
}

static void parse(bench *b, tcc_dtype dtype) {
    for (const char *p = b->row->operands; *p && b->n < MOST_OPERANDS; b->n++) {
        tcc_array *a = &b->x[b->n];
        char *end;
        b->kinds[b->n] = *p++;
        const int modulus = (int)strtol(p, &end, 10);
        snprintf(b->names[b->n], sizeof b->names[b->n], "x%d", b->n);
        *a = (tcc_array){.name = b->names[b->n], .dtype = b->kinds[b->n] == 'i' ? TCC_I32 : dtype};
        for (p = end; *p && *p != ']';) a->dims[a->rank++] = strtoll(p + 1, (char **)&p, 10);
        fill(a, b->kinds[b->n], modulus);
        if (*p) p++;
        if (*p) p++;
    }
}

/* -- Measuring -- */

static int ascending(const void *a, const void *b) {
    const double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

typedef struct times {
    double least_ms, median_ms;
} times;

static tcc_status measure(tcc_context *cx, bench *b, double seconds, bool explain, times *out) {
    static double all[MOST_ROUNDS];
    tcc_model *m;
    const tcc_model_options options = {.size = sizeof options};
    tcc_status status = tcc_model_create(cx, build, b, &options, &m);
    if (status != TCC_OK) return status;
    tcc_model_profile(m, explain);
    const int n = b->n + (b->gradients && b->has_gradient);
    int rounds = 0;
    for (int i = 0; i < WARM_UP && status == TCC_OK; i++) status = tcc_model_evaluate(m, b->x, n);
    for (const double begin = now(); status == TCC_OK && rounds < MOST_ROUNDS && now() - begin < seconds;) {
        const double start = now();
        status = tcc_model_evaluate(m, b->x, n);
        if (status == TCC_OK) status = tcc_model_synchronize(m);
        all[rounds++] = 1e3 * (now() - start);
    }
    tcc_array y;
    if (status == TCC_OK) status = tcc_model_output(m, "y", &y);
    if (status == TCC_OK && !b->gradients) { /* its gradient has its shape */
        y.name = "dy";
        b->x[b->n] = y;
        fill(&b->x[b->n], 'p', 0);
    }
    char *report = NULL;
    if (status == TCC_OK && explain && tcc_model_report(m, "kernels", &report) == TCC_OK) puts(report);
    free(report);
    qsort(all, (size_t)rounds, sizeof *all, ascending);
    if (rounds) *out = (times){all[0], all[rounds / 2]};
    tcc_model_destroy(m);
    return status;
}

static const char *bound_of(const row *r) {
    for (int i = 0; i < BOUNDS; i++)
        if (!strcmp(bounds[i].name, r->name)) return bounds[i].why;
    return "";
}

static int list(void) {
    for (int i = 0; i < ROWS; i++)
        printf("{\"name\": \"%s\", \"operands\": \"%s\", \"module\": \"%s\", \"pytorch\": \"%s\", \"chain\": %s, "
               "\"bound\": \"%s\"}\n",
               rows[i].name, rows[i].operands, rows[i].module, rows[i].in_pytorch, rows[i].is_chain ? "true" : "false",
               bound_of(&rows[i]));
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--list")) return list();
    bench b = {0};
    for (int i = 0; i < ROWS && argc > 2; i++)
        if (!strcmp(rows[i].name, argv[1])) b.row = &rows[i];
    if (!b.row || (strcmp(argv[2], "f32") && strcmp(argv[2], "bf16"))) {
        fprintf(stderr, "usage: bench-ops --list | NAME f32|bf16 [SECONDS [--explain]]\n");
        return 2;
    }
    const double seconds = argc > 3 ? strtod(argv[3], NULL) : 1;
    const bool explain = argc > 4 && !strcmp(argv[4], "--explain");
    tcc_context *cx;
    times forward = {0}, both = {0};
    tcc_status status = tcc_context_create(&cx);
    if (status != TCC_OK) return 1;
    b.dtype = strcmp(argv[2], "f32") ? TCC_BF16 : TCC_F32;
    parse(&b, b.dtype);
    status = measure(cx, &b, seconds, explain, &forward);
    b.gradients = true;
    if (status == TCC_OK && b.has_gradient) status = measure(cx, &b, seconds, explain, &both);
    if (status == TCC_OK)
        printf(
            "{\"op\": \"%s\", \"type\": \"%s\", \"forward_ms\": %.4f, \"forward_median_ms\": %.4f, \"both_ms\": %.4f, "
            "\"both_median_ms\": %.4f}\n",
            b.row->name, argv[2], forward.least_ms, forward.median_ms, both.least_ms, both.median_ms);
    else fprintf(stderr, "bench-ops: %s\n", tcc_context_error(cx));
    for (int i = 0; i <= b.n; i++) free(b.x[i].data);
    tcc_context_destroy(cx);
    return status != TCC_OK;
}
