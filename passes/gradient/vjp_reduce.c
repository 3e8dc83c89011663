/* SPDX-License-Identifier: MIT
 * Gradient rules of reductions and running results. */
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

TCC_VJP_RULE(prod) {
    tcc_node *operands[] = {v->x[0], v->dy};
    tcc__vjp_give(v, 0, tcc_ir_build(v->g, TCC_OP_PROD_GRAD, operands, 2, v->y->attrs, NULL, v->y->loc));
}

/* x moved by one element along the axis, to where `later` elements stand, or the earlier ones; `value` comes in. */
static tcc_node *moved(tcc_vjp *v, tcc_node *x, bool to_later, double value) {
    const tcc_attrs_scan *scan = &v->y->attrs->scan;
    const bool up = to_later != scan->reverse;
    int64_t start[TCC_MAX_RANK] = {0}, limit[TCC_MAX_RANK], ones[TCC_MAX_RANK], none[TCC_MAX_RANK] = {0},
            in[TCC_MAX_RANK] = {0};
    if (x->type.dims[scan->axis] == 1) return tcc_ir_splat_like(v->g, x, value);
    for (int i = 0; i < x->type.rank; i++) limit[i] = x->type.dims[i], ones[i] = 1;
    in[scan->axis] = 1;
    if (up) limit[scan->axis]--;
    else start[scan->axis] = 1;
    return tcc_ir_pad(v->g, tcc_ir_slice(v->g, x, start, limit, ones), value, up ? in : none, up ? none : in, none);
}

/* x[i] is in all sums from i on, or in those up to where one begins anew: a running sum the other way. */
TCC_VJP_RULE(cumsum) {
    tcc_attrs attrs = {.scan = {.axis = v->y->attrs->scan.axis, .reverse = !v->y->attrs->scan.reverse}};
    tcc_node *operands[] = {v->dy, v->y->n_operands > 1 ? moved(v, v->x[1], false, 0) : NULL};
    tcc__vjp_give(v, 0, tcc_ir_build(v->g, TCC_OP_CUMSUM, operands, v->y->n_operands, &attrs, NULL, v->y->loc));
}

/* An element that is its own maximum is that of all up to the next such, and has the sum of their dy: one that begins
 * anew before each such element. */
TCC_VJP_RULE(cummax) {
    const tcc_attrs attrs = {.scan = {.axis = v->y->attrs->scan.axis, .reverse = !v->y->attrs->scan.reverse}};
    tcc_node *x = v->x[0], *is_number = tcc_ir_binary(v->g, TCC_OP_EQ, x, x);
    tcc_node *stays = tcc_ir_binary(v->g, TCC_OP_AND, tcc_ir_binary(v->g, TCC_OP_NE, x, v->y), is_number);
    tcc_node *operands[] = {tcc_ir_widen(v->g, v->dy), moved(v, stays, false, 0)};
    tcc_node *sums = tcc_ir_build(v->g, TCC_OP_CUMSUM, operands, 2, &attrs, NULL, v->y->loc);
    tcc_node *share = tcc_ir_cast(v->g, sums, x->type.dtype);
    tcc__vjp_give(v, 0, tcc_ir_select(v->g, stays, vjp_zero(v, share), share));
}

/* b[i] adds to y[i], which the next a carries on: the gradient by b is a linear scan the other way, with each a one
 * element earlier; a[i] multiplies y[i-1]. So nothing is divided, and all is right where a is 0. In f32 at least: a
 * gradient that f16 does not hold may meet a y that is 0. */
TCC_VJP_RULE(linear_scan) {
    const tcc_attrs_scan *scan = &v->y->attrs->scan;
    const tcc_attrs attrs = {.scan = {.axis = scan->axis, .reverse = !scan->reverse}};
    const tcc_dtype dtype = v->y->type.dtype;
    const bool two = v->y->n_operands > 1;
    tcc_node *operands[] = {tcc_ir_widen(v->g, moved(v, v->x[0], false, 0)), tcc_ir_widen(v->g, v->dy)};
    tcc_node *by_b = tcc_ir_build(v->g, TCC_OP_LINEAR_SCAN, operands, 2, &attrs, NULL, v->y->loc);
    if (two && tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, tcc_ir_cast(v->g, by_b, dtype));
    if (!tcc__vjp_wants(v, 0)) return;
    tcc_node *before = tcc_ir_widen(v->g, moved(v, v->y, true, two ? 0 : 1));
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, vjp_mul(v, by_b, before), dtype));
}
