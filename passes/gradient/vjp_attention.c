/* SPDX-License-Identifier: MIT
 * Gradient rule of scaled dot-product attention. The gradients of q, k and v come from ops that never hold the T x S
 * scores. The mask's own gradient is a T x S tensor by nature and is written out. */
#include "ir/sdpa.h"
#include "passes/gradient/vjp.h"

#include <math.h>

/* scale q k^T + mask, and which of it a query may see. */
static tcc_node *scores(tcc_vjp *v, const tcc_attrs_dot *pairs, tcc_node *mask) {
    tcc_node *k = tcc_sdpa_spread(v->g, v->y, v->x[1]);
    return vjp_add(v, vjp_scale(v, tcc_ir_dot(v->g, v->x[0], k, pairs), v->y->attrs->sdpa.scale), mask);
}

/* p (dropout(do v^T) - sum of do o over a row) with p = exp(scores - lse), 0 where the query does not
 * see the key. A query whose mask hides all keys has an lse of -inf, as its scores are: p is 0 too. */
static tcc_node *mask_gradient(tcc_vjp *v, tcc_node *mask, tcc_node *lse, tcc_node *key) {
    int rank = v->y->type.rank;
    tcc_attrs_dot pairs = {0};
    for (int d = 0; d < rank - 2; d++) pairs.batch_a.v[d] = pairs.batch_b.v[d] = d;
    pairs.batch_a.count = pairs.batch_b.count = rank - 2;
    pairs.contract_a = pairs.contract_b = (tcc_dims){1, {rank - 1}};
    tcc_dims last = {1, {rank - 1}};
    lse = tcc_ir_cast(v->g, lse, mask->type.dtype);
    lse = vjp_where(v, tcc_ir_binary_c(v->g, TCC_OP_NE, lse, -INFINITY), lse);
    tcc_node *p = tcc_ir_unary(v->g, TCC_OP_EXP, vjp_sub(v, scores(v, &pairs, mask), vjp_back(v, lse, mask, &last)));
    tcc_node *delta = vjp_sum(v, vjp_mul(v, v->dy, v->y), &last);
    tcc_node *dp = tcc_ir_dot(v->g, v->dy, tcc_sdpa_spread(v->g, v->y, v->x[2]), &pairs);
    if (key) {
        tcc_attrs attrs = {.dropout = {.p = v->y->attrs->sdpa.p, .id = v->y->attrs->sdpa.id}};
        dp = tcc_ir_build(v->g, TCC_OP_DROPOUT, (tcc_node *[]){dp, key}, 2, &attrs, NULL, v->y->loc);
    }
    tcc_node *gradient = vjp_mul(v, p, vjp_sub(v, dp, vjp_back(v, delta, mask, &last)));
    if (!v->y->attrs->sdpa.causal) return gradient;
    tcc_type index = mask->type;
    index.dtype = TCC_I32;
    int64_t queries = mask->type.dims[rank - 2], keys = mask->type.dims[rank - 1];
    tcc_node *limit = vjp_offset(v, tcc_ir_iota(v->g, &index, rank - 2), (double)(keys - queries));
    return vjp_where(v, tcc_ir_binary(v->g, TCC_OP_LE, tcc_ir_iota(v->g, &index, rank - 1), limit), gradient);
}

TCC_VJP_RULE(sdpa) {
    tcc_node *mask = tcc_sdpa_mask(v->y) ? v->x[3] : NULL;
    tcc_node *key = tcc_sdpa_draws(v->y) ? v->x[v->y->n_operands - 1] : NULL;
    tcc_attrs whole = *v->y->attrs; /* dropout follows the softmax */
    whole.sdpa.p = 0, whole.sdpa.id = 0;
    tcc_node *lse = tcc_ir_build(v->g, TCC_OP_SDPA_LSE, (tcc_node *[]){v->x[0], v->x[1], mask}, mask ? 3 : 2, &whole,
                                 NULL, v->y->loc);
    static const tcc_op gradients[] = {TCC_OP_SDPA_GRAD_Q, TCC_OP_SDPA_GRAD_K, TCC_OP_SDPA_GRAD_V};
    tcc_node *operands[8] = {v->x[0], v->x[1], v->x[2], v->y, lse, v->dy};
    int n = 6;
    if (mask) operands[n++] = mask;
    if (key) operands[n++] = key;
    for (int i = 0; i < 3; i++)
        if (tcc__vjp_wants(v, i)) tcc__vjp_give(v, i, vjp_build(v, gradients[i], operands, n, NULL));
    if (mask && tcc__vjp_wants(v, 3)) tcc__vjp_give(v, 3, mask_gradient(v, mask, lse, key));
}
