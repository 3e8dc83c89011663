/* SPDX-License-Identifier: MIT
 * A kernel of gpu_plain.cu on the stand-in driver, by the driver's own functions. */
#include "gpu_plain.h"

#include "ptxsim/cuda_api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, TILE = 32, VECTOR = 4, ROWS = 8 };

/* How the kernels of a prefix are launched, for n elements in rows of m. */
typedef struct way {
    const char *prefix;
    int blocks, threads;
} way;

static int fail(const char *what, CUresult result) {
    fprintf(stderr, "gpu-counts: %s: error %d of the driver\n", what, result);
    return -1;
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    char *text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
    if (text) rewind(f);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size) {
        perror(path);
        free(text);
        text = NULL;
    }
    if (f) fclose(f);
    return text;
}

/* The second operand; or else the weights and the bias that a norm begins with, ones and zeros. */
static float *second_operand(const op_bench *b, int m, size_t *bytes) {
    const int64_t n = b->n > 1 ? op_array_numel(&b->x[1]) : 2 * (int64_t)m;
    float *data = calloc((size_t)n, sizeof *data);
    *bytes = (size_t)n * sizeof *data;
    if (data && b->n > 1) memcpy(data, b->x[1].data, *bytes);
    for (int i = 0; data && b->n < 2 && i < m; i++) data[i] = 1;
    return data;
}

static CUresult on_device(CUdeviceptr *at, const void *data, size_t bytes) {
    CUresult result = cuMemAlloc_v2(at, bytes);
    return result || !data ? result : cuMemcpyHtoD_v2(*at, data, bytes);
}

static CUresult launch(CUfunction kernel, const way *way, const op_bench *b, int n, int m, float *result,
                       size_t result_bytes) {
    CUdeviceptr first = 0, second = 0, out = 0;
    size_t second_bytes;
    float *other = second_operand(b, m, &second_bytes);
    if (!other) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = on_device(&first, b->x[0].data, (size_t)n * sizeof(float));
    if (!r) r = on_device(&second, other, second_bytes);
    if (!r) r = on_device(&out, NULL, result_bytes);
    void *arguments[] = {&first, &second, &out, &n, &m};
    if (!r)
        r = cuLaunchKernel(kernel, (unsigned)way->blocks, 1, 1, (unsigned)way->threads, 1, 1, 0, NULL, arguments, NULL);
    if (!r) r = cuMemcpyDtoH_v2(result, out, result_bytes);
    const CUdeviceptr all[] = {first, second, out};
    for (int i = 0; i < 3; i++)
        if (all[i]) cuMemFree_v2(all[i]);
    free(other);
    return r;
}

static double furthest_of(const float *result, const tcc_array *y) {
    double furthest = 0;
    for (int64_t i = 0; i < op_array_numel(y); i++) {
        const double expected = ((const float *)y->data)[i], error = fabs(result[i] - expected);
        const double relative = error / fmax(1, fabs(expected));
        if (!(relative <= furthest)) furthest = relative;
    }
    return furthest;
}

/* 1: it ran; 0: no kernel is the row's; -1. */
static int run_kernel(CUmodule module, const op_bench *b, const tcc_array *y, double *furthest) {
    const tcc_array *x = &b->x[0];
    const int n = (int)op_array_numel(x), m = (int)x->dims[x->rank - 1];
    const way ways[] = {{"point", (n / VECTOR + THREADS - 1) / THREADS, THREADS},
                        {"row", (n / m + ROWS - 1) / ROWS, THREADS},
                        {"column", m / TILE, THREADS},
                        {"tile", n / (TILE * TILE), THREADS}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        CUfunction kernel;
        char name[64];
        snprintf(name, sizeof name, "%s_%s", ways[i].prefix, b->row->name);
        if (cuModuleGetFunction(&kernel, module, name)) continue;
        const size_t bytes = (size_t)op_array_numel(y) * sizeof(float);
        float *result = calloc(1, bytes);
        CUresult r = result ? launch(kernel, &ways[i], b, n, m, result, bytes) : CUDA_ERROR_OUT_OF_MEMORY;
        if (!r) *furthest = furthest_of(result, y);
        free(result);
        return r ? fail(name, r) : 1;
    }
    return 0;
}

int gpu_plain_run(const char *path, const op_bench *b, const tcc_array *y, double *furthest) {
    CUcontext context;
    CUmodule module;
    char *text = read_text(path);
    if (!text) return -1;
    CUresult r = cuInit(0);
    if (!r) r = cuDevicePrimaryCtxRetain(&context, 0);
    if (!r) r = cuCtxSetCurrent(context);
    if (!r) r = cuModuleLoadData(&module, text);
    free(text);
    if (r) return fail(path, r);
    const int status = run_kernel(module, b, y, furthest);
    cuModuleUnload(module);
    cuDevicePrimaryCtxRelease_v2(0);
    return status;
}
