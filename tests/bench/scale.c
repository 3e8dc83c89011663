/* SPDX-License-Identifier: MIT
 * How the time of compiling grows with the graph: scale SHAPE N [DOUBLINGS] compiles the training step of a graph of
 * SHAPE with N parts, then of 2 N, 4 N, ... and prints the seconds of each pass, so that one that is not linear stands
 * out. Shapes: chain (adds), residual (blocks of two products), gpt (layers), fan (uses of one value), rnn (steps). */
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct shape {
    const char *name;
    void (*build)(tcc_trace *t, int64_t parts);
} shape;

typedef struct job {
    const shape *shape;
    int64_t parts;
} job;

static tcc_tensor input(tcc_trace *t) { return tcc_input(t, "x"); }

static void lose(tcc_trace *t, tcc_tensor h) { tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL)); }

static void chain(tcc_trace *t, int64_t parts) {
    tcc_tensor w = tcc_param(t, "w", (tcc_init){TCC_INIT_NORMAL, .b = 0.1}, TCC_DIMS(16)), h = input(t);
    for (int64_t i = 0; i < parts; i++) h = tcc_add(h, i % 2 ? w : tcc_tanh(h));
    lose(t, h);
}

static void residual(tcc_trace *t, int64_t parts) {
    tcc_tensor h = input(t);
    for (int64_t i = 0; i < parts; i++) {
        char name[32];
        snprintf(name, sizeof name, "block.%lld", (long long)i);
        tcc_scope(t, name);
        h = tcc_add(h, tcc_linear(tcc_relu(tcc_linear(tcc_layer_norm(h, "norm"), "up", 32)), "down", 16));
        tcc_scope_end(t);
    }
    lose(t, h);
}

static void gpt(tcc_trace *t, int64_t parts) {
    const tcc_gpt_options o = {.layers = parts, .heads = 2, .width = 32, .context = 8, .vocab = 65};
    tcc_tensor tokens = tcc_cast(tcc_mul(input(t), tcc_constant(t, 0, TCC_F32, 0, NULL)), TCC_I32);
    lose(t, tcc_gpt(t, tcc_slice(tokens, 1, 0, 8), &o));
}

static void fan(tcc_trace *t, int64_t parts) {
    tcc_tensor h = tcc_linear(input(t), "in", 16), sum = h;
    for (int64_t i = 0; i < parts; i++) sum = tcc_add(sum, tcc_sin(tcc_scale(h, 1 + (double)i / 1024)));
    lose(t, sum);
}

static void rnn(tcc_trace *t, int64_t parts) {
    tcc_tensor x = input(t), h = tcc_scale(x, 0);
    for (int64_t i = 0; i < parts; i++) h = tcc_tanh(tcc_add(tcc_linear(h, "hidden", 16), tcc_linear(x, "in", 16)));
    lose(t, h);
}

static const shape shapes[] = {{"chain", chain}, {"residual", residual}, {"gpt", gpt}, {"fan", fan}, {"rnn", rnn}};

static void build(tcc_trace *t, void *user) {
    const job *j = user;
    j->shape->build(t, j->parts);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run(job j) {
    static float zeros[8 * 16];
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {8, 16}, .data = zeros};
    const tcc_model_options options = {.size = sizeof options, .compile_only = true};
    tcc_context *cx;
    tcc_model *m = NULL;
    char *passes = NULL;
    const double start = now();
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, build, &j, &options, &m);
    if (status == TCC_OK) status = tcc_model_compile(m, true, &batch, 1);
    const double end = now();
    if (status == TCC_OK) status = tcc_model_report(m, "passes", &passes);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (status == TCC_OK)
        printf("%s %lld: %.2f s, at most %ld MiB\n%s\n", j.shape->name, (long long)j.parts, end - start,
               usage.ru_maxrss >> 10, passes);
    else fprintf(stderr, "scale: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    fflush(stdout);
    tcc_string_free(passes);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const shape *s = NULL;
    for (size_t i = 0; argc > 2 && i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(argv[1], shapes[i].name)) s = &shapes[i];
    if (!s) {
        fputs("usage: scale chain|residual|gpt|fan|rnn N [DOUBLINGS]\n", stderr);
        return 2;
    }
    int64_t parts = atoll(argv[2]);
    for (int i = argc > 3 ? atoi(argv[3]) : 0; i >= 0; i--, parts *= 2)
        if (run((job){s, parts}) != EXIT_SUCCESS) return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
