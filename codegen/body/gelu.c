/* SPDX-License-Identifier: MIT
 * Finds the slope of GELU by erf: y = x Phi(x) has dy/dx = Phi(x) + x phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2 and
 * phi(x) = exp(-x^2 / 2) / sqrt(2 pi). Both terms come from one polynomial, where each by itself needs one. */
#include "codegen/body/run.h"
#include "codegen/body/trace.h"

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

/* -- The same in the graph, where the share is another group's -- */

static bool node_is_number(const tcc_node *x, double value) {
    return x->op == TCC_OP_CONSTANT && x->attrs->constant.values.count == 1 &&
           fabs(x->attrs->constant.values.v[0] - value) <= 0x1p-24 * fabs(value);
}

static const tcc_node *node_beside(const tcc_node *x, tcc_op op, double value) {
    if (!x || x->op != op || x->type.dtype != TCC_F32) return NULL;
    for (int i = 0; i < 2; i++)
        if (node_is_number(x->operands[i], value)) return x->operands[1 - i];
    return NULL;
}

/* Whether a and b, one of which may be computed again, are the same value. */
static bool same_value(const tcc_node *a, const tcc_node *b, int depth) {
    if (a == b) return true;
    if (!depth || a->op != b->op || a->n_operands != b->n_operands || !tcc_type_equal(&a->type, &b->type) ||
        !tcc_attrs_equal(tcc_op_get_info(a->op)->attrs, a->attrs, b->attrs))
        return false;
    for (int i = 0; i < a->n_operands; i++)
        if (!same_value(a->operands[i], b->operands[i], depth - 1)) return false;
    return a->n_operands > 0;
}

static const tcc_node *argument_of_share_node(const tcc_node *x) {
    const tcc_node *erf = node_beside(node_beside(x, TCC_OP_MUL, 0.5), TCC_OP_ADD, 1);
    return erf && erf->op == TCC_OP_ERF ? node_beside(erf->operands[0], TCC_OP_MUL, M_SQRT1_2) : NULL;
}

static bool is_density_node(const tcc_node *x, const tcc_node *y) {
    const tcc_node *power = node_beside(x, TCC_OP_MUL, DENSITY_AT_0);
    const tcc_node *square = power && power->op == TCC_OP_EXP ? node_beside(power->operands[0], TCC_OP_MUL, -0.5)
                                                              : NULL;
    return square && square->op == TCC_OP_MUL && square->operands[0] == y && square->operands[1] == y;
}

const tcc_node *tcc_body_slope_argument(const tcc_body *b, const tcc_node *n, int k) {
    enum { DEPTH = 8 };
    if (n->op != TCC_OP_ADD || n->type.dtype != TCC_F32 || tcc_body_has(b, n->operands[k])) return NULL;
    const tcc_node *rest = n->operands[1 - k], *y = argument_of_share_node(n->operands[k]);
    if (!y || rest->op != TCC_OP_MUL || !tcc_body_has(b, rest)) return NULL;
    for (int i = 0; i < 2; i++) {
        const tcc_node *density = rest->operands[1 - i];
        if (tcc_body_has(b, density) && is_density_node(density, rest->operands[i]) &&
            same_value(y, rest->operands[i], DEPTH))
            return rest->operands[i];
    }
    return NULL;
}

const tcc_expr *tcc_body_gelu_share(tcc_body *b, const tcc_expr *y) {
    const tcc_expr *x = y, *u[2];
    static const struct {
        tcc_op op;
        double by;
    } steps[] = {{TCC_OP_MUL, M_SQRT1_2}, {TCC_OP_ERF, 0}, {TCC_OP_ADD, 1}, {TCC_OP_MUL, 0.5}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && x; i++) {
        u[0] = x;
        u[1] = steps[i].op == TCC_OP_ERF ? NULL : tcc_expr_number(b, TCC_F32, tcc_dtype_round(TCC_F32, steps[i].by));
        x = tcc_expr_point(b, steps[i].op, TCC_F32, u, steps[i].op == TCC_OP_ERF ? 1 : 2);
    }
    return x;
}
