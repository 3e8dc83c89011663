/* SPDX-License-Identifier: MIT
 * Libraries of others that are opened at run time, behind one table of entries. A program's library step names an entry; its
 * params and buffers are documented here, its results never depend on the number of threads.
 *
 * An entry's work is cut into slices by shape alone, and our pool runs the slices; the library itself runs on one thread in each
 * of ours. TCC_LIBRARIES (a list as in "openblas,onednn", or "none") restricts what is opened; TCC_OPENBLAS_PATH
 * names a file to open instead of what the loader finds.
 *
 * cblas.sgemm      C = op(A) op(B) + beta C, f32, row-major, for each of `batch` matrices
 *   buffers        a, b, c
 *   params         tcc_sgemm_params
 */
#ifndef TCC_RUNTIME_LIBRARY_H
#define TCC_RUNTIME_LIBRARY_H

#include "ir/support/context.h"
#include "pool.h"

/* The params of cblas.sgemm in order: an array of int64_t read as this struct. C is m x n, the sum runs over k. Leading
 * dimensions and batch strides count elements; a stride of 0 shares the operand between the matrices. */
typedef struct tcc_sgemm_params {
    int64_t batch, m, n, k;
    int64_t transpose_a, transpose_b; /* 1: A is stored k x m, B is stored n x k */
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    int64_t accumulate; /* 1: add to C */
} tcc_sgemm_params;

typedef struct tcc_libraries tcc_libraries;

typedef struct tcc_library_entry {
    const char *name; /* "cblas.sgemm" */
    int n_params;
    int min_buffers, max_buffers;
    /* Prepare a call with these params. Errors: TCC_EUNSUPPORTED (the library refuses the shape), TCC_EFORMAT, TCC_ENOMEM. */
    tcc_status (*create)(const tcc_libraries *libraries, tcc_diag *d, const int64_t *params, int n_buffers, int threads, void **call);
    void (*destroy)(void *call);
    /* The pool is locked. Errors: TCC_EDEVICE with the library's own words. */
    tcc_status (*run)(void *call, tcc_diag *d, tcc_pool *pool, void *const *buffers);
} tcc_library_entry;

/* Open what is there; a missing library is no error but logged (topic `library`). Errors: TCC_EINVAL for a malformed
 * TCC_LIBRARIES, TCC_ENOMEM. */
tcc_status tcc_libraries_open(tcc_context *cx, tcc_libraries **out);
void tcc_libraries_close(tcc_libraries *libraries); /* NULL is allowed */
/* The entry of that name; NULL if its library is missing or there is no such entry. */
const tcc_library_entry *tcc_libraries_find(const tcc_libraries *libraries, const char *name);
/* One line a library: version and file, or what is lost without it. */
void tcc_libraries_describe(const tcc_libraries *libraries, tcc_strbuf *out);

#endif
