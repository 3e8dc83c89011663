/* SPDX-License-Identifier: MIT
 * Gradient rules of element-by-element ops and activations. */
#include "ir/decompose.h"
#include "passes/gradient/vjp.h"

#include <math.h>

/* -- Unary: dx = dy f'(x), by y where that is simpler -- */

TCC_VJP_RULE(neg) { tcc__vjp_give(v, 0, vjp_neg(v, v->dy)); }
TCC_VJP_RULE(abs) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, tcc_ir_unary(v->g, TCC_OP_SIGN, v->x[0]))); }
TCC_VJP_RULE(exp) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, v->y)); }
TCC_VJP_RULE(expm1) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, vjp_offset(v, v->y, 1))); }
TCC_VJP_RULE(log) { tcc__vjp_give(v, 0, vjp_div(v, v->dy, v->x[0])); }
TCC_VJP_RULE(log1p) { tcc__vjp_give(v, 0, vjp_div(v, v->dy, vjp_offset(v, v->x[0], 1))); }
TCC_VJP_RULE(sqrt) { tcc__vjp_give(v, 0, vjp_div(v, vjp_scale(v, v->dy, 0.5), v->y)); }

/* -1/2 x^(-3/2) */
TCC_VJP_RULE(rsqrt) {
    tcc_node *cube = vjp_mul(v, vjp_mul(v, v->y, v->y), v->y);
    tcc__vjp_give(v, 0, vjp_mul(v, v->dy, vjp_scale(v, cube, -0.5)));
}

TCC_VJP_RULE(sin) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, tcc_ir_unary(v->g, TCC_OP_COS, v->x[0]))); }
TCC_VJP_RULE(cos) { tcc__vjp_give(v, 0, vjp_neg(v, vjp_mul(v, v->dy, tcc_ir_unary(v->g, TCC_OP_SIN, v->x[0])))); }

TCC_VJP_RULE(sinh) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, tcc_ir_unary(v->g, TCC_OP_COSH, v->x[0]))); }
TCC_VJP_RULE(cosh) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, tcc_ir_unary(v->g, TCC_OP_SINH, v->x[0]))); }

/* dy / (1 + x^2) */
TCC_VJP_RULE(atan) { tcc__vjp_give(v, 0, vjp_div(v, v->dy, vjp_offset(v, vjp_mul(v, v->x[0], v->x[0]), 1))); }

/* 1 - y^2 */
static tcc_node *one_minus_square(tcc_vjp *v, tcc_node *y) {
    return vjp_sub(v, tcc_ir_splat_like(v->g, y, 1), vjp_mul(v, y, y));
}

/* dy times a slope in f32: f16 and bf16 are rounded once. */
static void give_by_slope(tcc_vjp *v, tcc_node *slope) {
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, vjp_mul(v, tcc_ir_widen(v->g, v->dy), slope), v->y->type.dtype));
}

TCC_VJP_RULE(tanh) { give_by_slope(v, one_minus_square(v, tcc_ir_widen(v->g, v->y))); }

static tcc_node *one_minus(tcc_vjp *v, tcc_node *y) { return vjp_sub(v, tcc_ir_splat_like(v->g, y, 1), y); }

TCC_VJP_RULE(sigmoid) {
    tcc_node *y = tcc_ir_widen(v->g, v->y);
    give_by_slope(v, vjp_mul(v, y, one_minus(v, y)));
}

/* c e^(-x^2 / d) */
static tcc_node *bell(tcc_vjp *v, tcc_node *x, double c, double d) {
    return vjp_scale(v, tcc_ir_unary(v->g, TCC_OP_EXP, vjp_scale(v, vjp_mul(v, x, x), -1 / d)), c);
}

TCC_VJP_RULE(erf) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, bell(v, v->x[0], M_2_SQRTPI, 1))); }

TCC_VJP_RULE(normal_density) { tcc__vjp_give(v, 0, vjp_neg(v, vjp_mul(v, v->dy, vjp_mul(v, v->x[0], v->y)))); }

TCC_VJP_RULE(erfinv) { tcc__vjp_give(v, 0, vjp_mul(v, v->dy, bell(v, v->y, 1 / M_2_SQRTPI, -1))); }

/* The gradient takes the way back through the types. */
TCC_VJP_RULE(cast) { tcc__vjp_give(v, 0, tcc_ir_cast(v->g, v->dy, v->x[0]->type.dtype)); }

/* -- Binary -- */

TCC_VJP_RULE(add) {
    tcc__vjp_give(v, 0, v->dy);
    tcc__vjp_give(v, 1, v->dy);
}

TCC_VJP_RULE(sub) {
    tcc__vjp_give(v, 0, v->dy);
    if (tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, vjp_neg(v, v->dy));
}

/* Of a square, dy twice instead of the product twice, where dy is the same for a row: that is done once for all of it,
 * and a sum of the products takes one instruction each. The same bits; f16's range is too short for it. */
TCC_VJP_RULE(mul) {
    const bool of_rows = v->dy->op == TCC_OP_BROADCAST && tcc_type_numel(&v->dy->operands[0]->type) > 1;
    if (v->x[0] == v->x[1] && of_rows && v->y->type.dtype != TCC_F16) {
        tcc__vjp_give(v, 0, vjp_mul(v, vjp_scale(v, v->dy, 2), v->x[0]));
        return;
    }
    for (int i = 0; i < 2; i++)
        if (tcc__vjp_wants(v, i)) tcc__vjp_give(v, i, vjp_mul(v, v->dy, v->x[1 - i]));
}

TCC_VJP_RULE(div) {
    tcc_node *da = vjp_div(v, v->dy, v->x[1]);
    tcc__vjp_give(v, 0, da);
    if (tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, vjp_neg(v, vjp_mul(v, da, v->y)));
}

/* a - b trunc(a / b), and trunc(a / b) = (a - y) / b, which only rounding keeps from being an
 * integer. */
TCC_VJP_RULE(rem) {
    tcc__vjp_give(v, 0, v->dy);
    if (!tcc__vjp_wants(v, 1)) return;
    tcc_node *quotient = tcc_ir_unary(v->g, TCC_OP_ROUND, vjp_div(v, vjp_sub(v, v->x[0], v->y), v->x[1]));
    tcc__vjp_give(v, 1, vjp_neg(v, vjp_mul(v, v->dy, quotient)));
}

/* By a: b a^(b-1), 0 where b is 0 (also at a = 0). By b: y log a, 0 at 0^b for b >= 0, where a^b is
 * constant in b > 0. */
TCC_VJP_RULE(pow) {
    tcc_node *a = v->x[0], *b = v->x[1];
    if (tcc__vjp_wants(v, 0)) {
        tcc_node *slope;
        const tcc_doubles *c = b->op == TCC_OP_CONSTANT && b->attrs->constant.values.count == 1
                                   ? &b->attrs->constant.values
                                   : NULL;
        if (c && c->v[0] == 0) slope = vjp_zero(v, a);
        else if (c && c->v[0] == 1) slope = tcc_ir_splat_like(v->g, a, 1);
        else if (c && c->v[0] == 2) slope = vjp_scale(v, a, 2);
        else {
            slope = vjp_mul(v, b, tcc_ir_binary(v->g, TCC_OP_POW, a, vjp_offset(v, b, -1)));
            if (!c) slope = tcc_ir_select(v->g, tcc_ir_binary_c(v->g, TCC_OP_EQ, b, 0), vjp_zero(v, b), slope);
        }
        tcc__vjp_give(v, 0, vjp_mul(v, v->dy, slope));
    }
    if (tcc__vjp_wants(v, 1)) {
        tcc_node *slope = vjp_mul(v, v->y, tcc_ir_unary(v->g, TCC_OP_LOG, a));
        tcc_node *flat = tcc_ir_binary(v->g, TCC_OP_AND, tcc_ir_binary_c(v->g, TCC_OP_EQ, a, 0),
                                       tcc_ir_binary_c(v->g, TCC_OP_GE, b, 0));
        tcc__vjp_give(v, 1, vjp_mul(v, v->dy, tcc_ir_select(v->g, flat, vjp_zero(v, a), slope)));
    }
}

/* The operand that wins gets dy; at ties each gets half. */
static void choice(tcc_vjp *v, tcc_op first_wins, tcc_op second_wins) {
    tcc_node *half = vjp_where(v, tcc_ir_binary(v->g, TCC_OP_EQ, v->x[0], v->x[1]), vjp_scale(v, v->dy, 0.5));
    for (int i = 0; i < 2; i++) {
        if (!tcc__vjp_wants(v, i)) continue;
        tcc_node *wins = tcc_ir_binary(v->g, i == 0 ? first_wins : second_wins, v->x[0], v->x[1]);
        tcc__vjp_give(v, i, tcc_ir_select(v->g, wins, v->dy, half));
    }
}

TCC_VJP_RULE(max) { choice(v, TCC_OP_GT, TCC_OP_LT); }
TCC_VJP_RULE(min) { choice(v, TCC_OP_LT, TCC_OP_GT); }

TCC_VJP_RULE(select) {
    tcc_node *zero = vjp_zero(v, v->dy);
    if (tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, tcc_ir_select(v->g, v->x[0], v->dy, zero));
    if (tcc__vjp_wants(v, 2)) tcc__vjp_give(v, 2, tcc_ir_select(v->g, v->x[0], zero, v->dy));
}

/* -- Activations -- */

/* y > 0 exactly where x > 0, and y is what the next op keeps. */
TCC_VJP_RULE(relu) { tcc__vjp_give(v, 0, vjp_where(v, tcc_ir_binary_c(v->g, TCC_OP_GT, v->y, 0), v->dy)); }

/* Phi(x) + x phi(x) */
TCC_VJP_RULE(gelu) {
    tcc_node *x = v->x[0], *density = tcc_ir_unary(v->g, TCC_OP_NORMAL_DENSITY, x);
    tcc__vjp_give(v, 0, vjp_mul(v, v->dy, vjp_add(v, tcc_ir_normal_cdf(v->g, x), vjp_mul(v, x, density))));
}

TCC_VJP_RULE(gelu_tanh) { tcc__vjp_give(v, 0, tcc_ir_binary(v->g, TCC_OP_GELU_TANH_GRAD, v->x[0], v->dy)); }

/* dy (1 + t + x t') / 2 with t = tanh(u), u = c (x + k x^3): by x, dy (t' + x t'' / 2) with t' = (1 - t^2) u' and
 * t'' = (1 - t^2) (u'' - 2 t u'^2). */
TCC_VJP_RULE(gelu_tanh_grad) {
    tcc_node *x = v->x[0], *square = vjp_mul(v, x, x);
    tcc__vjp_give(v, 1, tcc_ir_binary(v->g, TCC_OP_GELU_TANH_GRAD, x, v->dy));
    if (!tcc__vjp_wants(v, 0)) return;
    const double c = sqrt(2 / M_PI), k = 0.044715;
    tcc_node *t = tcc_ir_unary(v->g, TCC_OP_TANH, vjp_mul(v, x, vjp_offset(v, vjp_scale(v, square, c * k), c)));
    tcc_node *slope = vjp_offset(v, vjp_scale(v, square, 3 * c * k), c); /* u' */
    tcc_node *bend = vjp_sub(v, vjp_scale(v, x, 6 * c * k), vjp_scale(v, vjp_mul(v, t, vjp_mul(v, slope, slope)), 2));
    tcc_node *sum = vjp_add(v, slope, vjp_scale(v, vjp_mul(v, x, bend), 0.5));
    tcc__vjp_give(v, 0, vjp_mul(v, vjp_mul(v, v->dy, v->x[1]), vjp_mul(v, one_minus_square(v, t), sum)));
}

/* With s = sigmoid(x): s (1 + x (1 - s)). */
TCC_VJP_RULE(silu) {
    tcc_node *x = v->x[0], *s = tcc_ir_unary(v->g, TCC_OP_SIGMOID, x);
    tcc_node *slope = vjp_mul(v, s, vjp_offset(v, vjp_mul(v, x, one_minus(v, s)), 1));
    tcc__vjp_give(v, 0, vjp_mul(v, v->dy, slope));
}

TCC_VJP_RULE(dropout) {
    const tcc_attrs_dropout *a = &v->y->attrs->dropout;
    tcc__vjp_give(v, 0, tcc_ir_dropout(v->g, v->dy, v->x[1], a->p, a->id));
}
