/* SPDX-License-Identifier: MIT
 * Finds the slope of GELU by erf: y = x Phi(x) has dy/dx = Phi(x) + x phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2 and
 * phi(x) = exp(-x^2 / 2) / sqrt(2 pi). Both terms come from one polynomial, where each by itself needs one. */
#include "codegen/body/run.h"

#include <math.h>

#define DENSITY_AT_0 0.3989422804014327 /* 1 / sqrt(2 pi) */

static bool is_f32(const tcc_expr *x, tcc_op op) {
    return x->kind == TCC_EXPR_POINT && x->op == op && x->dtype == TCC_F32;
}

/* To f32's precision. */
static bool is_number(const tcc_expr *x, double value) {
    return x->kind == TCC_EXPR_CONST && fabs(x->number - value) <= 0x1p-24 * fabs(value);
}

/* The operand of a commutative `op` beside `value`; NULL: x is something else. */
static const tcc_expr *beside(const tcc_expr *x, tcc_op op, double value) {
    if (!is_f32(x, op)) return NULL;
    for (int i = 0; i < 2; i++)
        if (is_number(x->operands[i], value)) return x->operands[1 - i];
    return NULL;
}

/* u where x = (1 + erf(u)) / 2, else NULL. */
static const tcc_expr *argument_of_share(const tcc_expr *x) {
    const tcc_expr *sum = beside(x, TCC_OP_MUL, 0.5), *erf = sum ? beside(sum, TCC_OP_ADD, 1) : NULL;
    return erf && is_f32(erf, TCC_OP_ERF) ? erf->operands[0] : NULL;
}

/* Is x = phi(y)? */
static bool is_density(const tcc_expr *x, const tcc_expr *y) {
    const tcc_expr *power = beside(x, TCC_OP_MUL, DENSITY_AT_0);
    if (!power || !is_f32(power, TCC_OP_EXP)) return false;
    const tcc_expr *square = beside(power->operands[0], TCC_OP_MUL, -0.5);
    return square && is_f32(square, TCC_OP_MUL) && square->operands[0] == y && square->operands[1] == y;
}

const tcc_expr *tcc_body_gelu_slope(const tcc_expr *x) {
    if (!is_f32(x, TCC_OP_ADD)) return NULL;
    for (int i = 0; i < 2; i++) {
        const tcc_expr *u = argument_of_share(x->operands[i]), *rest = x->operands[1 - i];
        const tcc_expr *y = u ? beside(u, TCC_OP_MUL, M_SQRT1_2) : NULL;
        if (!y || !is_f32(rest, TCC_OP_MUL)) continue;
        for (int k = 0; k < 2; k++)
            if (rest->operands[k] == y && is_density(rest->operands[1 - k], y)) return u;
    }
    return NULL;
}
