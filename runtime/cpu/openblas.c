/* SPDX-License-Identifier: MIT
 * OpenBLAS: matrix products, cut into slices of C by shape, one library thread in each of ours. */
#include "runtime/cpu/library_table.h"

#include "ir/support/alloc.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 }; /* the CBLAS interface's values */
enum { SLICES = 16, SLICE_ROWS = 64, GRAIN_FLOP = 400000 };

const char *tcc__openblas_attach(tcc_libraries *l, char *version, size_t version_bytes) {
    tcc_openblas *b = &l->openblas;
    void (*set_threads)(int);
    char *(*config)(void);
    if (tcc__library_function(&b->info, "openblas_get_config", &config)) {
        const char *text = config(); /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
        if (!strncmp(text, "OpenBLAS ", 9)) text += 9;
        snprintf(version, version_bytes, "%.*s", (int)strcspn(text, " "), text);
    }
    if (!tcc__library_function(&b->info, "cblas_sgemm", &b->sgemm)) return "it lacks cblas_sgemm";
    if (!tcc__library_function(&b->info, "openblas_set_num_threads", &set_threads))
        return "it lacks openblas_set_num_threads";
    set_threads(1);
    return NULL;
}

typedef struct sgemm_call {
    const tcc_openblas *blas;
    tcc_sgemm_params p;
    bool by_rows;          /* slices are rows of C, else columns */
    int64_t slice, slices; /* rows or columns in one, and how many a matrix */
    int64_t grain;
} sgemm_call;

/* The job of one run: the call and its buffers. */
typedef struct sgemm_run {
    const sgemm_call *call;
    const float *a, *b;
    float *c;
} sgemm_run;

static void sgemm_slices(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const sgemm_run *r = user;
    const sgemm_call *call = r->call;
    const tcc_sgemm_params *p = &call->p;
    for (int64_t item = begin; item < end; item++) {
        int64_t matrix = item / call->slices, from = item % call->slices * call->slice;
        int64_t count = (call->by_rows ? p->m : p->n) - from;
        if (count > call->slice) count = call->slice;
        const float *a = r->a + matrix * p->stride_a, *b = r->b + matrix * p->stride_b;
        float *c = r->c + matrix * p->stride_c;
        if (call->by_rows) {
            a += from * (p->transpose_a ? 1 : p->lda);
            c += from * p->ldc;
        } else {
            b += from * (p->transpose_b ? p->ldb : 1);
            c += from;
        }
        call->blas->sgemm(ROW_MAJOR, p->transpose_a ? TRANSPOSED : PLAIN, p->transpose_b ? TRANSPOSED : PLAIN,
                          (int)(call->by_rows ? count : p->m), (int)(call->by_rows ? p->n : count), (int)p->k, 1.0f, a,
                          (int)p->lda, b, (int)p->ldb, p->accumulate ? 1.0f : 0.0f, c, (int)p->ldc);
    }
}

static tcc_status sgemm_create(const tcc_libraries *l, tcc_diag *d, tcc_pool *pool, const int64_t *params, void **out) {
    (void)pool;
    *out = NULL;
    tcc_sgemm_params p;
    memcpy(&p, params, sizeof p);
    bool sizes = p.batch >= 1 && p.m >= 1 && p.n >= 1 && p.k >= 1 && p.m <= INT_MAX && p.n <= INT_MAX && p.k <= INT_MAX;
    if (!sizes || p.lda < (p.transpose_a ? p.m : p.k) || p.ldb < (p.transpose_b ? p.k : p.n) || p.ldc < p.n ||
        p.lda > INT_MAX || p.ldb > INT_MAX || p.ldc > INT_MAX)
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE,
                         "cblas.sgemm: m %lld, n %lld, k %lld with leading dimensions %lld, %lld, %lld", (long long)p.m,
                         (long long)p.n, (long long)p.k, (long long)p.lda, (long long)p.ldb, (long long)p.ldc);
    sgemm_call *call = tcc__calloc(1, sizeof *call);
    if (!call) return tcc_enomem(d);
    call->blas = &l->openblas;
    call->p = p;
    call->by_rows = p.m >= p.n;
    int64_t extent = call->by_rows ? p.m : p.n;
    call->slice = (extent + SLICES - 1) / SLICES;
    call->slice = (call->slice + SLICE_ROWS - 1) / SLICE_ROWS * SLICE_ROWS;
    call->slices = (extent + call->slice - 1) / call->slice;
    double flop = 2.0 * (double)p.k * (double)call->slice * (double)(call->by_rows ? p.n : p.m);
    call->grain = flop < GRAIN_FLOP ? (int64_t)(GRAIN_FLOP / flop) + 1 : 1;
    *out = call;
    return TCC_OK;
}

static tcc_status sgemm_execute(void *state, tcc_diag *d, tcc_pool *pool, void *const *buffers) {
    (void)d;
    const sgemm_call *call = state;
    sgemm_run r = {.call = call, .a = buffers[0], .b = buffers[1], .c = buffers[2]};
    tcc_pool_run(pool, sgemm_slices, &r, call->p.batch * call->slices, call->grain);
    return TCC_OK;
}

const tcc_library_entry tcc__openblas_sgemm = {
    .name = "cblas.sgemm",
    .n_params = TCC_SGEMM_PARAMS,
    .n_buffers = 3,
    .create = sgemm_create,
    .destroy = tcc__free,
    .run = sgemm_execute,
};
