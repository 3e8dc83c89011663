/* SPDX-License-Identifier: MIT
 * The product has x = a b' with a column of 1, NaN and infinity and a row of small whole numbers of both signs, so that
 * each element is known exactly in any type. It is as large as a tile of tensor cores. */
#include "runtime/cuda/cublaslt_probe.h"
#include "runtime/cuda/cublaslt_product.h"
#include "runtime/cuda/probe_values.h"

#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

enum { M = 128, N = 128, K = 64, ALIGNMENT = 256, OF_NAN = 3, OF_INFINITY = 5, WIDEST = 8, WORKSPACE_BYTES = 4 << 20 };

/* Each part is a multiple of the alignment long, in any type. */
typedef struct product {
    unsigned char a[M * K * WIDEST], b[K * N * WIDEST], c[M * N * WIDEST], bits[M * N / 8];
} product;

static double column(int i) { return i % 16 == OF_NAN ? (double)NAN : i % 16 == OF_INFINITY ? (double)INFINITY : 1; }
static double row(int j) { return j % 3 == 1 ? -(double)(j + 1) : (double)(j + 1); }
static bool bit(int i, int j) {
    return (5 * i + 3 * j + j / 8) % 7 < 3;
} /* differs from itself in any other order of a byte's bits, or of bytes */

static void fill(product *x, int64_t type) {
    memset(x, 0, sizeof *x);
    for (int i = 0; i < M; i++) tcc_probe_put(x->a, type, i * K, column(i));
    for (int j = 0; j < N; j++) tcc_probe_put(x->b, type, j, row(j));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) x->bits[(i * N + j) / 8] |= (unsigned char)(bit(i, j) << j % 8);
}

static const char *compare(const product *x, const tcc_matmul_params *p) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const double got = tcc_probe_get(x->c, p->type_c, i * N + j), plain = column(i) * row(j);
            const bool hidden = p->activation == TCC_MATMUL_RELU ? plain < 0 : !bit(i, j);
            const double expected = hidden ? 0 : plain;
            if (got == expected || (isnan(got) && isnan(expected))) continue;
            if (p->activation == TCC_MATMUL_RELU)
                return isnan(expected) ? "its max(0, x) makes a number of NaN" : "its max(0, x) is another";
            return hidden && isnan(got) ? "what its mask hides is not 0 where it is NaN or infinite"
                                        : "it reads the mask's bits in another order";
        }
    return NULL;
}

static tcc_status compute(tcc_device_cuda *cuda, tcc_diag *d, tcc_cublaslt_product *call, product *x,
                          tcc_cuda_address at) {
    const tcc_cuda_address a = at + offsetof(product, a), b = at + offsetof(product, b),
                           bits = at + offsetof(product, bits), c = at + offsetof(product, c);
    const tcc_cuda_address buffers[] = {a, b, 0, bits, 0, c, at + sizeof *x}; /* without a bias and an addend */
    TCC_CUDA_TRY(cuda, d, copy_to_device, at, x, sizeof *x, cuda->compute);
    TCC_TRY(tcc__cublaslt_product_run(call, d, buffers));
    TCC_CUDA_TRY(cuda, d, copy_to_host, x, at, sizeof *x, cuda->compute);
    TCC_CUDA_TRY(cuda, d, stream_synchronize, cuda->compute);
    return TCC_OK;
}

static tcc_status ask(tcc_device_cuda *cuda, tcc_diag *d, tcc_matmul_params *p, product *x) {
    tcc_cublaslt_product *call;
    TCC_TRY(tcc__cublaslt_product_create(cuda, d, p, &call));
    tcc_cuda_address at = 0;
    tcc_status s = tcc__cuda_alloc(cuda, d, (int64_t)sizeof *x + p->workspace_bytes,
                                   "a product that tries cublaslt's epilogues", &at);
    if (s == TCC_OK) s = compute(cuda, d, call, x, at);
    if (at) cuda->cu.free(at);
    tcc__cublaslt_product_destroy(call);
    return s;
}

tcc_status tcc__cublaslt_probe(tcc_device_cuda *cuda, tcc_diag *d, const tcc_matmul_params *like,
                               const char **differs) {
    const bool bits = like->activation == TCC_MATMUL_RELU_GRADIENT;
    tcc_matmul_params p = {.batch = 1,
                           .m = M,
                           .n = N,
                           .k = K,
                           .lda = K,
                           .ldb = N,
                           .ldc = N,
                           .outer = 1,
                           .type = like->type,
                           .type_c = like->type_c,
                           .allow_tf32 = like->allow_tf32,
                           .activation = like->activation,
                           .aux = bits,
                           .ld_aux = bits ? N : 0,
                           .alignment = ALIGNMENT,
                           .workspace_bytes = WORKSPACE_BYTES};
    product *x = tcc__malloc(sizeof *x);
    if (!x) return tcc_enomem(d);
    fill(x, p.type);
    tcc_status s = ask(cuda, d, &p, x);
    *differs = s == TCC_OK ? compare(x, &p) : NULL;
    tcc__free(x);
    return s;
}
