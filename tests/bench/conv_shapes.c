/* SPDX-License-Identifier: MIT
 * Convolutions of a table, each by itself, as by default and tuned: conv_shapes FILE [BUDGET_S [EVERY [train]]].
 *
 * A line of the file has, between tabs: a name, then C H W K R S stride pad dilation groups P Q bias count; what
 * follows is not read, nor are lines that begin with #. Equal problems are one. Of all problems each EVERY-th is timed:
 * an evaluation of one sample, or, with `train`, a training step of it, which has the filter's gradient. Both models
 * run in turns; the lower quartile counts. Prints a line for each problem, and the totals, in which a problem counts as
 * often as the table has it. */
#include "traincc/traincc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIELDS = 13, MOST = 1024, TURNS = 15, MODELS = 2 };
enum { C, H, W, K, R, S, STRIDE, PAD, DILATION, GROUPS, P, Q, BIAS };

typedef struct problem {
    long field[FIELDS];
    long count;
} problem;

static problem problems[MOST];
static int n_problems;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void add(const problem *p) {
    for (int i = 0; i < n_problems; i++)
        if (!memcmp(problems[i].field, p->field, sizeof p->field)) {
            problems[i].count += p->count;
            return;
        }
    if (n_problems < MOST) problems[n_problems++] = *p;
}

static bool read_problems(const char *path) {
    char line[512];
    FILE *f = fopen(path, "r");
    if (!f) return false;
    while (fgets(line, sizeof line, f)) {
        problem p;
        char *at = strchr(line, '\t');
        bool good = *line != '#' && at;
        for (int i = 0; i < FIELDS && good; i++) {
            p.field[i] = strtol(at, &at, 10);
            good = *at == '\t';
        }
        if (good) p.count = strtol(at, &at, 10);
        if (good && p.field[R] == p.field[S]) add(&p);
    }
    fclose(f);
    return true;
}

static void build(tcc_trace *t, void *user) {
    const problem *p = user;
    tcc_tensor y = tcc_conv_layer(tcc_input(t, "x"), "conv", p->field[K], p->field[R], .stride = p->field[STRIDE],
                                  .padding = p->field[PAD], .dilation = p->field[DILATION], .groups = p->field[GROUPS],
                                  .no_bias = !p->field[BIAS]);
    tcc_output(t, "y", y);
    tcc_loss(t, tcc_mean(y, TCC_ALL));
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tcc_status run(tcc_model *m, bool train, const tcc_array *x) {
    if (!train) return tcc_model_evaluate(m, x, 1);
    const tcc_status status = tcc_model_train(m, x, 1);
    tcc_model_loss(m); /* waits */
    return status;
}

/* Milliseconds of both models, in turns. */
static tcc_status time_both(tcc_model *const *m, bool train, const tcc_array *x, double *ms) {
    double times[MODELS][TURNS];
    for (int turn = -1; turn < TURNS; turn++)
        for (int k = 0; k < MODELS; k++) {
            const int which = (turn + 1 + k) % MODELS;
            const double start = now();
            const tcc_status status = run(m[which], train, x);
            if (status != TCC_OK) return status;
            if (turn >= 0) times[which][turn] = 1e3 * (now() - start);
        }
    for (int k = 0; k < MODELS; k++) {
        qsort(times[k], TURNS, sizeof *times[k], ascending);
        ms[k] = times[k][(TURNS - 1) / 4];
    }
    return TCC_OK;
}

static tcc_status measure(tcc_context *cx, problem *p, double budget_s, bool train, double *ms) {
    tcc_model *m[MODELS] = {0};
    tcc_array x = {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {1, p->field[C], p->field[H], p->field[W]}};
    const int64_t n = p->field[C] * p->field[H] * p->field[W];
    float *values = malloc((size_t)n * sizeof *values);
    tcc_status status = values ? TCC_OK : TCC_ENOMEM;
    for (int64_t i = 0; values && i < n; i++) values[i] = (float)(i % 61 - 30) / 30;
    x.data = values;
    for (int k = 0; k < MODELS && status == TCC_OK; k++) {
        tcc_model_options options = {.size = sizeof options, .seed = 1};
        if (k) options.mode = TCC_MODE_MAX_AUTOTUNE, options.autotune_budget_s = budget_s;
        status = tcc_model_create(cx, build, p, &options, &m[k]);
    }
    if (status == TCC_OK) status = time_both(m, train, &x, ms);
    for (int k = 0; k < MODELS; k++) tcc_model_destroy(m[k]);
    free(values);
    return status;
}

static void print_problem(const problem *p, const double *ms) {
    const double flop = 2.0 * (double)(p->field[P] * p->field[Q] * p->field[K] * (p->field[C] / p->field[GROUPS])) *
                        (double)(p->field[R] * p->field[S]);
    for (int i = 0; i < FIELDS; i++) printf("%ld ", p->field[i]);
    printf("x%ld: %.3f ms as by default (%.1f GFLOP/s forward), %.3f ms tuned, %.3f of it\n", p->count, ms[0],
           1e-6 * flop / ms[0], ms[1], ms[1] / ms[0]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    setenv("TCC_CACHE_DISABLE", "1", 0);
    const double budget_s = argc > 2 ? strtod(argv[2], NULL) : 5;
    const int every = argc > 3 ? atoi(argv[3]) : 1;
    const bool train = argc > 4 && !strcmp(argv[4], "train");
    double total[MODELS] = {0};
    int timed = 0;
    tcc_context *cx = NULL;
    if (argc < 2 || !(budget_s > 0) || every < 1 || !read_problems(argv[1])) {
        fputs("usage: conv_shapes FILE [BUDGET_S [EVERY [train]]]\n", stderr);
        return 2;
    }
    if (tcc_context_create(&cx) != TCC_OK) return 1;
    for (int i = 0; i < n_problems; i += every) {
        double ms[MODELS];
        if (measure(cx, &problems[i], budget_s, train, ms) != TCC_OK) {
            fprintf(stderr, "conv_shapes: %s\n", tcc_context_error(cx));
            tcc_context_destroy(cx);
            return 1;
        }
        for (int k = 0; k < MODELS; k++) total[k] += ms[k] * (double)problems[i].count;
        print_problem(&problems[i], ms);
        timed++;
    }
    printf("%d of %d problems: %.3f ms as by default, %.3f ms tuned, %.3f of it\n", timed, n_problems, total[0],
           total[1], total[1] / total[0]);
    tcc_context_destroy(cx);
    return 0;
}
