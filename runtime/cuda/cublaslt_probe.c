/* SPDX-License-Identifier: MIT
 * The product has x = a b' with a column of 1, NaN and infinity and a row of both signs, so that each element is known
 * exactly. */
#include "runtime/cuda/cublaslt_probe.h"
#include "runtime/cuda/cublaslt.h"

#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

enum { M = 16, N = 128, K = 16, ALIGNMENT = 16, OF_NAN = 3, OF_INFINITY = 5 };

/* Each part is a multiple of the alignment long. */
typedef struct product {
    float a[M * K], b[K * N], c[M * N];
    unsigned char bits[M * N / 8];
} product;

static float column(int i) { return i == OF_NAN ? NAN : i == OF_INFINITY ? INFINITY : 1; }
static float row(int j) { return j % 3 == 1 ? -(float)(j + 1) : (float)(j + 1); }
static bool bit(int i, int j) {
    return (5 * i + 3 * j + j / 8) % 7 < 3;
} /* differs from itself in any other order of a byte's bits, or of bytes */

static void fill(product *x) {
    memset(x, 0, sizeof *x);
    for (int i = 0; i < M; i++) x->a[i * K] = column(i);
    for (int j = 0; j < N; j++) x->b[j] = row(j);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) x->bits[(i * N + j) / 8] |= (unsigned char)(bit(i, j) << j % 8);
}

static const char *compare(const product *x, tcc_matmul_activation activation) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const float got = x->c[i * N + j], plain = column(i) * row(j);
            const bool hidden = activation == TCC_MATMUL_RELU ? plain < 0 : !bit(i, j);
            const float expected = hidden ? 0 : plain;
            if (got == expected || (isnan(got) && isnan(expected))) continue;
            if (activation == TCC_MATMUL_RELU)
                return isnan(expected) ? "its max(0, x) makes a number of NaN" : "its max(0, x) is another";
            return hidden && isnan(got) ? "what its mask hides is not 0 where it is NaN or infinite"
                                        : "it reads the mask's bits in another order";
        }
    return NULL;
}

static tcc_status compute(tcc_device_cuda *cuda, tcc_diag *d, void *call, product *x, tcc_cuda_address at) {
    const tcc_cuda_address a = at + offsetof(product, a), b = at + offsetof(product, b),
                           bits = at + offsetof(product, bits), c = at + offsetof(product, c);
    const tcc_cuda_address buffers[] = {a, b, 0, bits, 0, c, 0}; /* without a bias, an addend and a workspace */
    TCC_CUDA_TRY(cuda, d, copy_to_device, at, x, sizeof *x, cuda->compute);
    TCC_TRY(tcc__cublaslt_matmul.run(call, d, buffers));
    TCC_CUDA_TRY(cuda, d, copy_to_host, x, at, sizeof *x, cuda->compute);
    TCC_CUDA_TRY(cuda, d, stream_synchronize, cuda->compute);
    return TCC_OK;
}

static tcc_status ask(tcc_device_cuda *cuda, tcc_diag *d, tcc_matmul_params *p, product *x) {
    void *call;
    TCC_TRY(tcc__cublaslt_matmul.create(cuda, d, (int64_t *)p, &call));
    tcc_cuda_address at = 0;
    tcc_status s = tcc__cuda_alloc(cuda, d, sizeof *x, "a product that tries cublaslt's epilogues", &at);
    if (s == TCC_OK) s = compute(cuda, d, call, x, at);
    if (at) cuda->cu.free(at);
    tcc__cublaslt_matmul.destroy(call);
    return s;
}

tcc_status tcc__cublaslt_probe(tcc_device_cuda *cuda, tcc_diag *d, tcc_matmul_activation activation,
                               const char **differs) {
    const bool bits = activation == TCC_MATMUL_RELU_GRADIENT;
    tcc_matmul_params p = {.batch = 1,
                           .m = M,
                           .n = N,
                           .k = K,
                           .lda = K,
                           .ldb = N,
                           .ldc = N,
                           .outer = 1,
                           .type = TCC_F32,
                           .type_c = TCC_F32,
                           .activation = activation,
                           .aux = bits,
                           .ld_aux = bits ? N : 0,
                           .alignment = ALIGNMENT};
    product *x = tcc__malloc(sizeof *x);
    if (!x) return tcc_enomem(d);
    fill(x);
    tcc_status s = ask(cuda, d, &p, x);
    *differs = s == TCC_OK ? compare(x, activation) : NULL;
    tcc__free(x);
    return s;
}
