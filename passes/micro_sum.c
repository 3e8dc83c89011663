/* SPDX-License-Identifier: MIT
 * Sums over micro-batches: what is added to them, and the gradient that they are of. */
#include "passes/micro.h"

#include "ir/build.h"

tcc_node *tcc_micro_weigh(tcc_graph *g, tcc_node *weight, tcc_node *x) {
    if (!weight || !x) return x;
    weight = tcc_ir_cast(g, weight, x->type.dtype);
    tcc_node *counts = tcc_ir_binary_c(g, TCC_OP_NE, weight, 0); /* a NaN counts */
    tcc_node *weighed = tcc_ir_binary(g, TCC_OP_MUL, x, tcc_ir_broadcast_like(g, weight, x));
    return tcc_ir_select(g, tcc_ir_broadcast_like(g, counts, x), weighed, tcc_ir_splat_like(g, weighed, 0));
}

tcc_node *tcc_micro_gradient(tcc_graph *g, tcc_node *sum, tcc_node *weight, tcc_node *scale) {
    tcc_node *divisor = weight ? weight : scale;
    if (!divisor || !sum) return sum;
    if (weight && scale) divisor = tcc_ir_binary(g, TCC_OP_MUL, weight, scale);
    tcc_node *factor = tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_splat_like(g, divisor, 1), divisor);
    factor = tcc_ir_cast(g, factor, sum->type.dtype);
    return factor ? tcc_ir_binary(g, TCC_OP_MUL, sum, tcc_ir_broadcast_like(g, factor, sum)) : NULL;
}
