/* SPDX-License-Identifier: MIT
 * bench-ops [--most ELEMENTS] NAME f32|bf16 [SECONDS]: times one row of ops.def, forward and with gradients, for about
 * SECONDS each; prints one JSON line, for ops.py. bench-ops [--most ELEMENTS] --list prints the rows as JSON lines.
 * Operands of more than ELEMENTS are cut in the first dimension. TCC_NUM_THREADS is the number of threads. bench-ops
 * NAME TYPE SECONDS --explain prints the table of kernels of both, too. */
#include "op_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 2, MOST_ROUNDS = 10000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* -- Measuring -- */

static int ascending(const void *a, const void *b) {
    const double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

typedef struct times {
    double least_ms, median_ms;
} times;

static tcc_status measure(tcc_context *cx, op_bench *b, double seconds, bool explain, times *out) {
    static double all[MOST_ROUNDS];
    tcc_model *m;
    const tcc_model_options options = {.size = sizeof options};
    tcc_status status = tcc_model_create(cx, op_bench_build, b, &options, &m);
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
    if (status == TCC_OK && !b->gradients) op_bench_result_gradient(b, &y);
    char *report = NULL;
    if (status == TCC_OK && explain && tcc_model_report(m, "kernels", &report) == TCC_OK) puts(report);
    free(report);
    qsort(all, (size_t)rounds, sizeof *all, ascending);
    if (rounds) *out = (times){all[0], all[rounds / 2]};
    tcc_model_destroy(m);
    return status;
}

static int list(int64_t most) {
    for (int i = 0; i < op_rows_count; i++) {
        const op_row *r = &op_rows[i];
        const int divisor = op_row_divisor(r, most);
        char operands[OP_OPERANDS_SIZE];
        op_row_operands(r, divisor, operands);
        printf("{\"name\": \"%s\", \"operands\": \"%s\", \"divisor\": %d, \"module\": \"%s\", \"pytorch\": \"%s\", "
               "\"chain\": %s, \"bound\": \"%s\", \"kind\": \"%s\", \"limit\": \"%s\"}\n",
               r->name, operands, divisor, r->module, r->in_pytorch, r->is_chain ? "true" : "false", op_row_bound(r),
               op_row_kind(r), op_row_limit(r));
    }
    return 0;
}

int main(int argc, char **argv) {
    int64_t most = INT64_MAX;
    if (argc > 2 && !strcmp(argv[1], "--most")) {
        most = strtoll(argv[2], NULL, 10);
        argc -= 2, argv += 2;
    }
    if (argc == 2 && !strcmp(argv[1], "--list")) return list(most);
    op_bench b = {.row = argc > 2 ? op_row_find(argv[1]) : NULL};
    if (!b.row || (strcmp(argv[2], "f32") && strcmp(argv[2], "bf16"))) {
        fprintf(stderr, "usage: bench-ops [--most ELEMENTS] --list | NAME f32|bf16 [SECONDS [--explain]]\n");
        return 2;
    }
    const double seconds = argc > 3 ? strtod(argv[3], NULL) : 1;
    const bool explain = argc > 4 && !strcmp(argv[4], "--explain");
    tcc_context *cx;
    times forward = {0}, both = {0};
    tcc_status status = tcc_context_create(&cx);
    if (status != TCC_OK) return 1;
    b.dtype = strcmp(argv[2], "f32") ? TCC_BF16 : TCC_F32;
    op_bench_operands(&b, op_row_divisor(b.row, most));
    status = measure(cx, &b, seconds, explain, &forward);
    b.gradients = true;
    if (status == TCC_OK && b.has_gradient) status = measure(cx, &b, seconds, explain, &both);
    if (status == TCC_OK)
        printf(
            "{\"op\": \"%s\", \"type\": \"%s\", \"forward_ms\": %.4f, \"forward_median_ms\": %.4f, \"both_ms\": %.4f, "
            "\"both_median_ms\": %.4f}\n",
            b.row->name, argv[2], forward.least_ms, forward.median_ms, both.least_ms, both.median_ms);
    else fprintf(stderr, "bench-ops: %s\n", tcc_context_error(cx));
    op_bench_clear(&b);
    tcc_context_destroy(cx);
    return status != TCC_OK;
}
