/* SPDX-License-Identifier: MIT
 * Gradient rules of softmax, the norms and cross-entropy, in closed form from x (or y) and the
 * statistics that forward has. */
#include "ir/decompose.h"
#include "passes/gradient/vjp.h"

/* With p = softmax(x): dx = p (dy - sum of dy p). */
TCC_VJP_RULE(softmax) {
    tcc_dims axes = {1, {v->y->attrs->axis.axis}};
    tcc_node *y = tcc_ir_widen(v->g, v->y), *dy = tcc_ir_widen(v->g, v->dy),
             *sum = vjp_sum(v, vjp_mul(v, dy, y), &axes);
    tcc_node *dx = vjp_mul(v, y, vjp_sub(v, dy, vjp_back(v, sum, y, &axes)));
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, dx, v->y->type.dtype));
}

/* dx = dy - p sum of dy. */
TCC_VJP_RULE(log_softmax) {
    tcc_dims axes = {1, {v->y->attrs->axis.axis}};
    tcc_node *y = tcc_ir_widen(v->g, v->y), *dy = tcc_ir_widen(v->g, v->dy);
    tcc_node *sum = vjp_back(v, vjp_sum(v, dy, &axes), y, &axes);
    tcc_node *dx = vjp_sub(v, dy, vjp_mul(v, tcc_ir_unary(v->g, TCC_OP_EXP, y), sum));
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, dx, v->y->type.dtype));
}

/* The dims that are not `axes`. */
static tcc_dims others(int rank, const tcc_dims *axes) {
    tcc_dims rest = {0};
    for (int d = 0, i = 0; d < rank; d++) {
        if (i < axes->count && axes->v[i] == d) i++;
        else rest.v[rest.count++] = d;
    }
    return rest;
}

/* With c = x - mean, s = 1 / sqrt(var + eps), n = c s, y = n w + b, g = dy w:
 *   dx = s (g - mean g - n mean(g n)),   dw = sum dy n,   db = sum dy,
 * where mean(g n) = s mean(g c), for mean(g c) does not wait for s. Without centring (rms_norm) c is x, and the term
 * mean g is not there. */
static tcc_node *norm_dx(tcc_vjp *v, const tcc_ir_normal *n, tcc_node *g, const tcc_dims *axes, bool centred) {
    tcc_node *along = vjp_mul(v, tcc_ir_mean(v->g, vjp_mul(v, g, n->centred), axes), n->scale);
    tcc_node *dx = centred ? vjp_sub(v, g, vjp_back(v, tcc_ir_mean(v->g, g, axes), g, axes)) : g;
    dx = vjp_sub(v, dx, vjp_mul(v, n->value, vjp_back(v, along, g, axes)));
    return vjp_mul(v, dx, vjp_back(v, n->scale, g, axes));
}

static tcc_node *norm_g(tcc_vjp *v) {
    return v->y->n_operands > 1 ? vjp_mul(v, v->dy, tcc_ir_norm_weight(v->g, v->y, v->x[1])) : v->dy;
}

/* `value` is n with the dims of y, `rows` those that weight and bias are broadcast over. */
static void give_weights(tcc_vjp *v, tcc_node *value, const tcc_dims *rows) {
    if (v->y->n_operands > 1 && tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, vjp_sum(v, vjp_mul(v, v->dy, value), rows));
    if (v->y->n_operands > 2 && tcc__vjp_wants(v, 2)) tcc__vjp_give(v, 2, vjp_sum(v, v->dy, rows));
}

static void norm(tcc_vjp *v, bool centred) {
    tcc_node *x = v->x[0];
    const tcc_dims axes = tcc_ir_norm_axes(v->y), rows = others(v->y->type.rank, &axes);
    const double eps = v->y->attrs->norm.eps;
    const tcc_ir_normal n = centred ? tcc_ir_get_normal(v->g, x, &axes, eps)
                                    : tcc_ir_get_rms_normal(v->g, x, &axes, eps);
    if (tcc__vjp_wants(v, 0)) tcc__vjp_give(v, 0, norm_dx(v, &n, norm_g(v), &axes, centred));
    give_weights(v, n.value, &rows);
}

TCC_VJP_RULE(layer_norm) { norm(v, true); }
TCC_VJP_RULE(rms_norm) { norm(v, false); }

/* The same over rows that are groups. */
TCC_VJP_RULE(group_norm) {
    const tcc_type *type = &v->y->type;
    const tcc_dims channels = {1, {v->y->attrs->norm.axis}}, rows = others(type->rank, &channels);
    tcc_dims axes;
    const tcc_ir_normal n = tcc_ir_get_normal(v->g, tcc_ir_group_rows(v->g, v->y, v->x[0], &axes), &axes,
                                              v->y->attrs->norm.eps);
    if (tcc__vjp_wants(v, 0)) {
        tcc_node *g = tcc_ir_group_rows(v->g, v->y, norm_g(v), &axes);
        tcc__vjp_give(v, 0, tcc_ir_reshape(v->g, norm_dx(v, &n, g, &axes, true), type->rank, type->dims));
    }
    give_weights(v, tcc_ir_reshape(v->g, n.value, type->rank, type->dims), &rows);
}

/* All gradients are ops on the same operands, whose definitions share their sums; a library may compute them at once.
 */
TCC_VJP_RULE(batch_norm) {
    static const tcc_op grads[] = {TCC_OP_BATCH_NORM_GRAD_X, TCC_OP_BATCH_NORM_GRAD_WEIGHT,
                                   TCC_OP_BATCH_NORM_GRAD_BIAS};
    tcc_node *x = v->x[0], *weight = v->y->n_operands > 1 ? v->x[1] : NULL;
    const tcc_attrs *attrs = v->y->attrs;
    const tcc_type type = {weight ? weight->type.dtype : x->type.dtype, 1, {x->type.dims[attrs->norm.axis]}};
    tcc_node *mean = tcc_ir_build(v->g, TCC_OP_BATCH_NORM_MEAN, &x, 1, attrs, &type, v->y->loc);
    tcc_node *scale = tcc_ir_build(v->g, TCC_OP_BATCH_NORM_SCALE, &x, 1, attrs, &type, v->y->loc);
    tcc_node *operands[] = {v->dy, x, mean, scale, weight};
    for (int i = 0; i < v->y->n_operands; i++)
        if (tcc__vjp_wants(v, i))
            tcc__vjp_give(v, i, tcc_ir_build(v->g, grads[i], operands, weight ? 5 : 4, attrs, NULL, v->y->loc));
}

/* The definition in decompose.c gives, for a valid row with r = dy / denominator,
 *   dx_c = r (p_c ((1 - s) w_t + s/C sum w) - [c = t] (1 - s) w_t - s/C w_c),
 * which is r (p_c - [c = t]) without weights and smoothing. (The class weights' own gradient is
 * taken through the definition.) */
TCC_VJP_RULE(cross_entropy) {
    if (!tcc__vjp_wants(v, 0)) return;
    tcc_node *logits = tcc_ir_widen(v->g, v->x[0]), *dy = tcc_ir_widen(v->g, v->dy),
             *weights = v->y->n_operands > 2 ? tcc_ir_widen(v->g, v->x[2]) : NULL;
    int axis = logits->type.rank - 1;
    tcc_dims axes = {1, {axis}};
    double s = v->y->attrs->cross_entropy.label_smoothing, share = s / (double)logits->type.dims[axis];
    tcc_ir_cross_entropy c = tcc_ir_get_cross_entropy(v->g, v->y, logits, v->x[1], weights);
    tcc_node *p = tcc_ir_softmax_value(v->g, &c.softmax, axis);
    tcc_node *rate = tcc_ir_broadcast_like(v->g, vjp_div(v, dy, c.denominator), c.valid);
    rate = vjp_where(v, c.valid, rate);
    tcc_node *difference;
    if (s == 0) {
        if (weights) rate = vjp_mul(v, rate, c.row_weight);
        difference = tcc_ir_select(v->g, c.onehot, vjp_offset(v, p, -1), p);
    } else if (!weights) {
        difference = vjp_sub(v, p,
                             tcc_ir_select(v->g, c.onehot, tcc_ir_splat_like(v->g, p, 1 - s + share),
                                           tcc_ir_splat_like(v->g, p, share)));
    } else {
        tcc_dims all = {1, {0}};
        tcc_node *hit = vjp_scale(v, c.row_weight, 1 - s);
        tcc_node *total = vjp_scale(v, tcc_ir_broadcast_like(v->g, vjp_sum(v, weights, &all), hit), share);
        tcc_node *pull = vjp_mul(v, p, vjp_back(v, vjp_add(v, hit, total), logits, &axes));
        tcc_node *spread = vjp_scale(v, tcc_ir_broadcast_like(v->g, weights, logits), share);
        difference = vjp_sub(v, vjp_sub(v, pull, vjp_where(v, c.onehot, vjp_back(v, hit, logits, &axes))), spread);
    }
    tcc_node *dx = vjp_mul(v, difference, vjp_back(v, rate, logits, &axes));
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, dx, v->x[0]->type.dtype));
}
