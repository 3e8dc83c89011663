/* SPDX-License-Identifier: MIT
 * gpu-counts NAME f32|bf16 [FOLDER [PLAIN]]: what one row of ops.def does on a GPU, forward and with gradients, as
 * the stand-in driver counts it; prints one JSON line, for gpu_counts.py. The PTX of both is written to
 * FOLDER/forward_N.ptx and FOLDER/both_N.ptx. PLAIN is what nvcc made of gpu_plain.cu: where the row has a kernel
 * there, that is counted too. gpu-counts --compile NAME f32|bf16 FOLDER writes the PTX alone: nothing runs, and all
 * counts are 0. gpu-counts --list prints the names. PTXSIM_SM is the GPU. With TCC_LIBRARIES=none nothing
 * is left to libraries, whose work is not counted. */
#include "gpu_plain.h"

#include "frontend/run/model.h"
#include "ir/support/dtype.h"
#include "ptxsim/ptxsim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operands are made no larger than this: the stand-in runs some ten million instructions of threads a second. */
enum { MOST_ELEMENTS = 1 << 18 };

static double bytes_of(const tcc_array *a) { return (double)op_array_numel(a) * (double)tcc_dtype_bytes(a->dtype); }

/* Of the layer's parameters. */
static double parameter_bytes(const op_bench *b) {
    double bytes = 0;
    for (const char *p = strchr(b->row->parameters, '['); p; p = strchr(p, '[')) {
        double elements = 1;
        while (*p && *p != ']') elements *= (double)strtoll(p + 1, (char **)&p, 10);
        bytes += elements * (double)tcc_dtype_bytes(b->dtype);
    }
    return bytes;
}

static void write_modules(const tcc_program *p, const char *folder, const char *what) {
    for (int i = 0; folder && i < p->n_modules; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s_%d.ptx", folder, what, i);
        FILE *f = fopen(path, "w");
        if (!f) {
            perror(path);
            exit(1);
        }
        fputs(p->modules[i].code, f);
        fclose(f);
    }
}

/* Results that the model has, y and d0, d1, ...; `y` is the first. */
static double result_bytes(tcc_model *m, tcc_array *y) {
    tcc_array a;
    double bytes = 0;
    if (tcc_model_output(m, "y", y) != TCC_OK) return 0;
    bytes = bytes_of(y);
    for (int i = 0;; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        if (tcc_model_output(m, name, &a) != TCC_OK) return bytes;
        bytes += bytes_of(&a);
    }
}

static void print_counts(const char *what, const tcc_program *p, double least, double elements) {
    ptxsim_stats s = {0};
    ptxsim_get_stats(NULL, &s);
    double copied = 0;
    int copies = 0;
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind == TCC_STEP_LIBRARY) {
            fprintf(stderr, "gpu-counts: %s is left to a library: TCC_LIBRARIES=none\n", p->steps[i].label);
            exit(1);
        }
        if (p->steps[i].kind == TCC_STEP_COPY) copied += (double)p->steps[i].to.size_bytes, copies++;
    }
    printf(", \"%s\": {\"kernels\": %llu, \"copies\": %d, \"read_sectors_bytes\": %.0f, "
           "\"write_sectors_bytes\": %.0f, "
           "\"read_once_bytes\": %.0f, \"write_once_bytes\": %.0f, \"least_bytes\": %.0f, \"instructions\": %llu, "
           "\"local_bytes\": %llu, \"elements\": %.0f}",
           what, (unsigned long long)s.launches, copies,
           32.0 * (double)(s.global_sectors - s.global_write_sectors) + copied,
           32.0 * (double)s.global_write_sectors + copied, (double)s.global_read_unique_bytes + copied,
           (double)s.global_write_unique_bytes + copied, least, (unsigned long long)s.lane_instructions,
           (unsigned long long)(s.local_read_bytes + s.local_write_bytes), elements);
}

/* The row's kernel in plain CUDA, whose result must be ours. */
static void count_plain(const char *path, const op_bench *b, const tcc_array *y) {
    static const double furthest = 1e-4; /* sums in another order */
    double error;
    ptxsim_reset_stats();
    const int ran = gpu_plain_run(path, b, y, &error);
    if (ran > 0 && !(error <= furthest)) fprintf(stderr, "gpu-counts: plain CUDA differs by %g\n", error);
    if (ran < 0 || (ran > 0 && !(error <= furthest))) exit(1);
    ptxsim_stats s = {0};
    ptxsim_get_stats(NULL, &s);
    if (ran) printf(", \"plain\": {\"instructions\": %llu}", (unsigned long long)s.lane_instructions);
}

/* The second evaluation is counted: the first may prepare what stays. */
static tcc_status run_twice(tcc_model *m, const op_bench *b, int n) {
    tcc_status status = TCC_OK;
    for (int i = 0; i < 2 && status == TCC_OK; i++) {
        ptxsim_reset_stats();
        status = tcc_model_evaluate(m, b->x, n);
        if (status == TCC_OK) status = tcc_model_synchronize(m);
    }
    return status;
}

static tcc_status count(tcc_context *cx, op_bench *b, bool runs, const char *folder, const char *plain) {
    tcc_model *m;
    tcc_array y = {0};
    const char *what = b->gradients ? "both" : "forward";
    const tcc_model_options options = {.size = sizeof options, .device = "cuda"};
    tcc_status status = tcc_model_create(cx, op_bench_build, b, &options, &m);
    if (status != TCC_OK) return status;
    const int n = b->n + (b->gradients && b->has_gradient);
    status = runs ? run_twice(m, b, n) : tcc_model_compile(m, false, b->x, n);
    if (status == TCC_OK) {
        double least = parameter_bytes(b) + result_bytes(m, &y);
        for (int i = 0; i < n; i++) least += bytes_of(&b->x[i]);
        print_counts(what, m->last->program, least, (double)op_array_numel(&y));
        write_modules(m->last->program, folder, what);
        if (!b->gradients && plain && b->dtype == TCC_F32) count_plain(plain, b, &y);
        if (!b->gradients) op_bench_result_gradient(b, &y);
    }
    tcc_model_destroy(m);
    return status;
}

int main(int argc, char **argv) {
    for (int i = 0; argc == 2 && !strcmp(argv[1], "--list") && i < op_rows_count; i++) puts(op_rows[i].name);
    if (argc == 2 && !strcmp(argv[1], "--list")) return 0;
    const bool runs = argc < 2 || strcmp(argv[1], "--compile") != 0;
    if (!runs) argc--, argv++;
    op_bench b = {.row = argc > 2 ? op_row_find(argv[1]) : NULL};
    if (!b.row || (strcmp(argv[2], "f32") && strcmp(argv[2], "bf16"))) {
        fprintf(stderr, "usage: gpu-counts --list | [--compile] NAME f32|bf16 [FOLDER [PLAIN]]\n");
        return 2;
    }
    tcc_context *cx;
    if (tcc_context_create(&cx) != TCC_OK) return 1;
    const char *folder = argc > 3 ? argv[3] : NULL, *plain = runs && argc > 4 ? argv[4] : NULL;
    b.dtype = strcmp(argv[2], "f32") ? TCC_BF16 : TCC_F32;
    const int divisor = op_row_divisor(b.row, MOST_ELEMENTS);
    op_bench_operands(&b, divisor);
    printf("{\"op\": \"%s\", \"type\": \"%s\", \"divisor\": %d", b.row->name, argv[2], divisor);
    tcc_status status = count(cx, &b, runs, folder, plain);
    b.gradients = true;
    if (status == TCC_OK && b.has_gradient) status = count(cx, &b, runs, folder, plain);
    puts("}");
    if (status != TCC_OK) fprintf(stderr, "gpu-counts: %s\n", tcc_context_error(cx));
    op_bench_clear(&b);
    tcc_context_destroy(cx);
    return status != TCC_OK;
}
