/* SPDX-License-Identifier: MIT
 * Gradient rules of reductions and running sums. */
#include "passes/vjp.h"

TCC_VJP_RULE(reduce_sum) {
    tcc__vjp_give(v, 0, vjp_back(v, v->dy, v->x[0], &v->y->attrs->axes.axes));
}

/* Elements equal to the extremum share dy. */
static void extremum(tcc_vjp *v) {
    const tcc_dims *axes = &v->y->attrs->axes.axes;
    tcc_node *x = v->x[0];
    tcc_node *hit = tcc_ir_binary(v->g, TCC_OP_EQ, x, vjp_back(v, v->y, x, axes));
    tcc_node *hits = vjp_sum(v, vjp_where(v, hit, tcc_ir_splat_like(v->g, x, 1)), axes);
    tcc__vjp_give(v, 0, vjp_where(v, hit, vjp_back(v, vjp_div(v, v->dy, hits), x, axes)));
}

TCC_VJP_RULE(reduce_max) {
    extremum(v);
}
TCC_VJP_RULE(reduce_min) {
    extremum(v);
}

/* x[i] is in all sums from i on: a running sum the other way. */
TCC_VJP_RULE(cumsum) {
    tcc_attrs attrs = {
        .scan = {.axis = v->y->attrs->scan.axis, .reverse = !v->y->attrs->scan.reverse}};
    tcc__vjp_give(v, 0, tcc_ir_build(v->g, TCC_OP_CUMSUM, &v->dy, 1, &attrs, NULL, v->y->loc));
}
