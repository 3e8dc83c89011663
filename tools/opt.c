/* SPDX-License-Identifier: MIT
 * tcc-opt: runs passes on a graph in text and prints the result as text. */
#include "complete.h"
#include "streams.h"

#include "traincc/context.h"
#include "traincc/ir.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tcc-opt [options] [FILE.tir]      (- or nothing: standard input)\n"
    "  --passes=LIST        run these passes, comma-separated; without it only parse, check and print\n"
    "  --pipeline           run the standard pipeline instead\n"
    "  --train              pipeline: with gradients and updates\n"
    "  --optimizer=NAME     train-step:"
#define TCC_OPTIMIZER(id, name, ...) " " name
#include <traincc/optimizer.def>
    "\n"
    "  --momentum --nesterov --clip-norm --keep-gradients\n"
    "                       train-step: what it says\n"
    "  --amp=TYPE           amp: mixed precision with this low type, f16 or bf16; the pipeline has it then\n"
    "  --amp-ops=LIST       amp: other classes of ops, as gelu=fp32,take=fp32; classes low, fp32, opmath, promote\n"
    "  --chunk-rows=N       chunk: cut every product of more rows into chunks of so many; 0: by cost\n"
    "  --checkpointing=MODE remat: auto (default), none or segments; segments computes those that are marked again\n"
    "  --memory-budget=SIZE remat: compute values again until a step takes 1.5GiB, or 50% of its arena, or min\n"
    "  --eager              fuse: every op its own group\n"
    "  --target=NAME        what code would be for, which select asks: host, a CPU's level, as x86-64-v3, or a GPU's\n"
    "                       architecture, as sm_90\n"
    "  --libraries          as if the target's libraries took every call that they are asked about\n"
    "  --print=FORM         tir (default), locs (with source lines), dot, memory, memory-svg, none\n"
    "  --dump-ir=DIR        write the graph before and after every pass to DIR\n"
    "  --time               tell the time of each pass\n"
    "  --no-verify          do not check the graph after every pass\n"
    "  --list-passes, --list-ops, --help, --version\n"
    "A line `// -----` separates graphs of one file; each is run by itself.\n";

typedef struct job {
    tcc_context *cx;
    const char *file, *passes;
    bool pipeline, print;
    tcc_ir_form form;
    tcc_ir_options options;
} job;

/* The whole file, NUL-terminated; NULL with errno set. */
static char *read_file(const char *name, size_t *length) {
    FILE *file = strcmp(name, "-") ? fopen(name, "rb") : stdin;
    if (!file) return NULL;
    size_t capacity = 1 << 16, used = 0;
    char *text = malloc(capacity);
    while (text) {
        size_t got = fread(text + used, 1, capacity - used - 1, file);
        used += got;
        if (got == 0) break;
        if (used + 1 < capacity) continue;
        char *larger = realloc(text, capacity *= 2);
        if (!larger) free(text);
        text = larger;
    }
    bool failed = ferror(file);
    if (file != stdin) fclose(file);
    if (failed || !text) {
        free(text);
        return NULL;
    }
    text[used] = 0;
    *length = used;
    return text;
}

static tcc_status run_one(const job *j, const char *text, size_t length) {
    tcc_ir *ir = NULL;
    tcc_status status = tcc_ir_parse(j->cx, text, length, j->file, &ir);
    if (status == TCC_OK && (j->passes || j->pipeline))
        status = tcc_ir_run(j->cx, &ir, j->pipeline ? NULL : j->passes, &j->options);
    if (status == TCC_OK && j->print) {
        char *out;
        status = tcc_ir_text(j->cx, ir, j->form, &out);
        if (status == TCC_OK) {
            fputs(out, stdout);
            tcc_ir_free_text(out);
        }
    }
    tcc_ir_destroy(ir);
    return status;
}

/* Runs each graph of the text. What was before is blanked to newlines, so that messages have the file's own line
 * numbers. */
static tcc_status run_all(const job *j, char *text, size_t length) {
    static const char separator[] = "// -----";
    char *start = text, *end = text + length;
    for (;;) {
        char *next = start;
        while (next < end && strncmp(next, separator, sizeof separator - 1)) {
            char *line_end = memchr(next, '\n', (size_t)(end - next));
            next = line_end ? line_end + 1 : end;
        }
        tcc_status status = run_one(j, text, (size_t)(next - text));
        if (status != TCC_OK || next == end) return status;
        puts(separator);
        char *line_end = memchr(next, '\n', (size_t)(end - next));
        start = line_end ? line_end : end;
        for (char *c = text; c < start; c++)
            if (*c != '\n') *c = ' ';
    }
}

static int list(bool (*info)(int, const char **, const char **)) {
    const char *name, *doc;
    for (int i = 0; info(i, &name, &doc); i++) printf("%-24s %s\n", name, doc);
    return 0;
}

static bool find_form(const char *name, job *j) {
    static const struct {
        const char *name;
        tcc_ir_form form;
    } forms[] = {{"tir", TCC_IR_TIR},
                 {"locs", TCC_IR_TIR_LOCS},
                 {"dot", TCC_IR_DOT},
                 {"memory", TCC_IR_MEMORY},
                 {"memory-svg", TCC_IR_MEMORY_SVG}};
    j->print = strcmp(name, "none") != 0;
    if (!j->print) return true;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (!strcmp(name, forms[i].name)) {
            j->form = forms[i].form;
            return true;
        }
    fprintf(stderr, "tcc-opt: --print=%s: must be tir, locs, dot, memory, memory-svg or none\n", name);
    return false;
}

static bool parse_count(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    *out = value;
    if (!errno && end != text && !*end && value >= 0) return true;
    fprintf(stderr, "tcc-opt: --chunk-rows=%s: must be a number of rows, or 0\n", text);
    return false;
}

enum {
    PASSES = 256,
    PIPELINE,
    TRAIN,
    OPTIMIZER,
    MOMENTUM,
    NESTEROV,
    CLIP,
    KEEP,
    AMP,
    AMP_OPS,
    CHUNK_ROWS,
    CHECKPOINTING,
    BUDGET,
    EAGER,
    TARGET,
    LIBRARIES,
    PRINT,
    DUMP,
    TIME,
    NO_VERIFY,
    LIST_PASSES,
    LIST_OPS,
    HELP,
    VERSION
};

static const char optimizers[] = /* behind a first bar */
#define TCC_OPTIMIZER(id, name, ...) "|" name
#include <traincc/optimizer.def>
    ;

static const complete_option option_table[] = {
    [PASSES - PASSES] = {"--passes", ""},
    [PIPELINE - PASSES] = {"--pipeline", NULL},
    [TRAIN - PASSES] = {"--train", NULL},
    [OPTIMIZER - PASSES] = {"--optimizer", optimizers + 1},
    [MOMENTUM - PASSES] = {"--momentum", NULL},
    [NESTEROV - PASSES] = {"--nesterov", NULL},
    [CLIP - PASSES] = {"--clip-norm", NULL},
    [KEEP - PASSES] = {"--keep-gradients", NULL},
    [AMP - PASSES] = {"--amp", "f16|bf16"},
    [AMP_OPS - PASSES] = {"--amp-ops", ""},
    [CHUNK_ROWS - PASSES] = {"--chunk-rows", ""},
    [CHECKPOINTING - PASSES] = {"--checkpointing", "auto|none|segments"},
    [BUDGET - PASSES] = {"--memory-budget", "min"},
    [EAGER - PASSES] = {"--eager", NULL},
    [PRINT - PASSES] = {"--print", "tir|locs|dot|memory|memory-svg|none"},
    [TARGET - PASSES] = {"--target", "host|x86-64-v2|x86-64-v3|x86-64-v4|sm_75|sm_80|sm_86|sm_89|sm_90|sm_100|sm_120"},
    [LIBRARIES - PASSES] = {"--libraries", NULL},
    [DUMP - PASSES] = {"--dump-ir", ":folders"},
    [TIME - PASSES] = {"--time", NULL},
    [NO_VERIFY - PASSES] = {"--no-verify", NULL},
    [LIST_PASSES - PASSES] = {"--list-passes", NULL},
    [LIST_OPS - PASSES] = {"--list-ops", NULL},
    [HELP - PASSES] = {"--help", NULL},
    [VERSION - PASSES] = {"--version", NULL},
};
enum { OPTION_COUNT = sizeof option_table / sizeof *option_table };

/* A list of passes: the last name of it. */
static void complete_passes(const char *current) {
    const char *name, *doc, *comma = strrchr(current, ','), *equals = strchr(current, '=');
    const char *last = comma ? comma : equals;
    char prefix[1024];
    snprintf(prefix, sizeof prefix, "%.*s", last ? (int)(last + 1 - current) : 0, current);
    for (int i = 0; tcc_ir_pass_info(i, &name, &doc); i++) complete_word(prefix, name, current);
}

/* tcc-opt --complete WORD...: what the last word can become. */
static int complete(char *const *words, int count) {
    const char *current = count ? words[count - 1] : "", *before = count > 1 ? words[count - 2] : "";
    if (!strncmp(current, "--passes=", 9) || !strcmp(before, "--passes")) complete_passes(current);
    else if (!complete_option_word(option_table, OPTION_COUNT, before, current))
        complete_choices("", ":files tir", current);
    return 0;
}

/* 0: go on; else the exit status plus 1. */
static int parse_options(int argc, char **argv, job *j) {
    struct option options[OPTION_COUNT + 1] = {{0}};
    for (int i = 0; i < OPTION_COUNT; i++)
        options[i] = (struct option){option_table[i].name + 2, option_table[i].value ? required_argument : no_argument,
                                     NULL, PASSES + i};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case PASSES: j->passes = optarg; break;
        case PIPELINE: j->pipeline = true; break;
        case TRAIN: j->options.train = true; break;
        case OPTIMIZER: j->options.optimizer = optarg; break;
        case MOMENTUM: j->options.momentum = true; break;
        case NESTEROV: j->options.nesterov = true; break;
        case CLIP: j->options.clip_norm = true; break;
        case KEEP: j->options.keep_gradients = true; break;
        case AMP: j->options.amp = optarg; break;
        case AMP_OPS: j->options.amp_ops = optarg; break;
        case CHUNK_ROWS:
            if (!parse_count(optarg, &j->options.chunk_rows)) return 1 + 2;
            break;
        case CHECKPOINTING: j->options.checkpointing = optarg; break;
        case BUDGET: j->options.memory_budget = optarg; break;
        case EAGER: j->options.eager = true; break;
        case TARGET: j->options.target = optarg; break;
        case LIBRARIES: j->options.libraries = true; break;
        case PRINT:
            if (!find_form(optarg, j)) return 1 + 2;
            break;
        case DUMP: j->options.dump_dir = optarg; break;
        case TIME: j->options.time = true; break;
        case NO_VERIFY: j->options.no_verify = true; break;
        case LIST_PASSES: return 1 + list(tcc_ir_pass_info);
        case LIST_OPS: return 1 + list(tcc_ir_op_info);
        case VERSION: puts("tcc-opt " TCC_VERSION); return 1;
        case 'h':
        case HELP: fputs(usage, stdout); return 1;
        default: fputs(usage, stderr); return 1 + 2;
        }
    }
    if (optind < argc) j->file = argv[optind++];
    if (optind == argc) return 0;
    fprintf(stderr, "tcc-opt: one file at a time, not also %s\n", argv[optind]);
    return 1 + 2;
}

static int run(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--complete")) return complete(argv + 2, argc - 2);
    job j = {.file = "-", .print = true, .options.size = sizeof(tcc_ir_options)};
    int done = parse_options(argc, argv, &j);
    if (done) return done - 1;
    size_t length;
    char *text = read_file(j.file, &length);
    if (!text) {
        fprintf(stderr, "tcc-opt: %s: %s\n", j.file, strerror(errno));
        return 1;
    }
    tcc_status status = tcc_context_create(&j.cx);
    if (status == TCC_OK) status = run_all(&j, text, length);
    if (status != TCC_OK) fprintf(stderr, "%s\n", j.cx ? tcc_context_error(j.cx) : "out of memory");
    tcc_context_destroy(j.cx);
    free(text);
    return status == TCC_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    streams_open();
    return streams_close("tcc-opt", run(argc, argv));
}
