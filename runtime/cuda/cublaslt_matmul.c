/* SPDX-License-Identifier: MIT
 * The entry "cublaslt.matmul": a product, where the library means by its activation what we do. */
#include "runtime/cuda/cublaslt_matmul.h"
#include "runtime/cuda/cublaslt_probe.h"
#include "runtime/cuda/cublaslt_product.h"

#include <string.h>

/* Is the activation what we mean by it? The first product of these types that wants it finds out. */
static tcc_status check_activation(tcc_device_cuda *cuda, tcc_diag *d, const tcc_matmul_params *p) {
    tcc_cublaslt *lt = cuda->cublaslt;
    if (p->activation != TCC_MATMUL_RELU && p->activation != TCC_MATMUL_RELU_GRADIENT) return TCC_OK;
    const bool tf32 = p->allow_tf32 && p->type == TCC_F32;
    int i = 0;
    while (i < lt->n_verdicts && (lt->verdicts[i].activation != p->activation || lt->verdicts[i].type != p->type ||
                                  lt->verdicts[i].type_c != p->type_c || lt->verdicts[i].allow_tf32 != tf32))
        i++;
    if (i == lt->n_verdicts) {
        if (i == TCC_CUBLASLT_MOST_VERDICTS)
            return TCC_BUG(d, "more than %d kinds of products with an activation", TCC_CUBLASLT_MOST_VERDICTS);
        tcc_cublaslt_verdict v = {p->activation, p->type, p->type_c, tf32, NULL};
        TCC_TRY(tcc__cublaslt_probe(cuda, d, p, &v.differs));
        lt->verdicts[lt->n_verdicts++] = v;
    }
    const char *differs = lt->verdicts[i].differs;
    return differs ? tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "cublaslt: %s", differs) : TCC_OK;
}

static tcc_status create(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    *out = NULL;
    tcc_matmul_params p;
    tcc_cublaslt_product *product;
    memcpy(&p, params, sizeof p);
    TCC_TRY(tcc__cublaslt_open(cuda, d));
    TCC_TRY(check_activation(cuda, d, &p));
    TCC_TRY(tcc__cublaslt_product_create(cuda, d, &p, &product));
    memcpy(params, &p, sizeof p);
    *out = product;
    return TCC_OK;
}

static void destroy(void *call) { tcc__cublaslt_product_destroy(call); }

static tcc_status run(void *call, tcc_diag *d, const tcc_cuda_address *buffers) {
    return tcc__cublaslt_product_run(call, d, buffers);
}

const tcc_cuda_entry tcc__cublaslt_matmul = {
    .call = TCC_CALL_MATMUL,
    .create = create,
    .destroy = destroy,
    .run = run,
};
