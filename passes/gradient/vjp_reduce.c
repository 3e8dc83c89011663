/* SPDX-License-Identifier: MIT
 * Gradient rules of reductions and running sums. */
#include "passes/gradient/vjp.h"

TCC_VJP_RULE(reduce_sum) { tcc__vjp_give(v, 0, vjp_back(v, v->dy, v->x[0], &v->y->attrs->axes.axes)); }

TCC_VJP_RULE(reduce_mean) {
    double share = (double)tcc_type_numel(&v->y->type) / (double)tcc_type_numel(&v->x[0]->type);
    tcc__vjp_give(v, 0, vjp_back(v, vjp_scale(v, v->dy, share), v->x[0], &v->y->attrs->axes.axes));
}

/* 2 dy (x - mean): what the mean itself changes cancels. */
TCC_VJP_RULE(reduce_m2) {
    const tcc_dims *axes = &v->y->attrs->axes.axes;
    tcc_node *x = v->x[0], *mean = tcc_ir_reduce(v->g, TCC_OP_REDUCE_MEAN, x, axes);
    tcc_node *centred = vjp_sub(v, x, vjp_back(v, mean, x, axes));
    tcc__vjp_give(v, 0, vjp_mul(v, vjp_back(v, vjp_scale(v, v->dy, 2), x, axes), centred));
}

/* Elements equal to the extremum share dy. There may be more of them than a narrow type can count. */
static void extremum(tcc_vjp *v) {
    const tcc_dims *axes = &v->y->attrs->axes.axes;
    tcc_node *x = v->x[0];
    tcc_node *hit = tcc_ir_binary(v->g, TCC_OP_EQ, x, vjp_back(v, v->y, x, axes));
    tcc_node *ones = tcc_ir_widen(v->g, tcc_ir_splat_like(v->g, x, 1)),
             *hits = vjp_sum(v, vjp_where(v, hit, ones), axes);
    tcc_node *share = tcc_ir_cast(v->g, vjp_div(v, tcc_ir_widen(v->g, v->dy), hits), x->type.dtype);
    tcc__vjp_give(v, 0, vjp_where(v, hit, vjp_back(v, share, x, axes)));
}

TCC_VJP_RULE(reduce_max) { extremum(v); }
TCC_VJP_RULE(reduce_min) { extremum(v); }

/* x[i] is in all sums from i on: a running sum the other way. */
TCC_VJP_RULE(cumsum) {
    tcc_attrs attrs = {.scan = {.axis = v->y->attrs->scan.axis, .reverse = !v->y->attrs->scan.reverse}};
    tcc__vjp_give(v, 0, tcc_ir_build(v->g, TCC_OP_CUMSUM, &v->dy, 1, &attrs, NULL, v->y->loc));
}
