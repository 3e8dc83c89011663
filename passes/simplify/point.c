/* SPDX-License-Identifier: MIT
 * simplify: identities of arithmetic that hold bit for bit in IEEE 754 (but for the sign and payload of a NaN), and of
 * integers, logic and casts. */
#include "passes/simplify/simplify.h"

#include <math.h>

static tcc_node *unary(tcc_simplifier *s, tcc_op op, tcc_node *x) {
    return tcc__simplify(s, tcc_ir_unary(s->g, op, x));
}

static tcc_node *binary(tcc_simplifier *s, tcc_op op, tcc_node *a, tcc_node *b) {
    return tcc__simplify(s, tcc_ir_binary(s->g, op, a, b));
}

static tcc_node *splat_like(tcc_simplifier *s, const tcc_node *like, double value) {
    return tcc_ir_splat_like(s->g, like, value);
}

/* A power of two whose reciprocal is exact too, in every float type. */
static bool is_power_of_two(double c) {
    int exponent;
    return isfinite(c) && frexp(fabs(c), &exponent) == 0.5 && exponent > -14 && exponent < 14;
}

static tcc_node *simplify_add(tcc_simplifier *s, tcc_node *a, tcc_node *b, bool is_float) {
    if (tcc__is_splat_of(b, -0.0) || (!is_float && tcc__is_splat_of(b, 0))) return a;
    if (tcc__is_splat_of(a, -0.0) || (!is_float && tcc__is_splat_of(a, 0))) return b;
    if (b->op == TCC_OP_NEG) return binary(s, TCC_OP_SUB, a, b->operands[0]);
    if (a->op == TCC_OP_NEG) return binary(s, TCC_OP_SUB, b, a->operands[0]);
    return NULL;
}

static tcc_node *simplify_sub(tcc_simplifier *s, tcc_node *a, tcc_node *b, bool is_float) {
    if (tcc__is_splat_of(b, 0)) return a;
    if (tcc__is_splat_of(a, -0.0) || (!is_float && tcc__is_splat_of(a, 0))) return unary(s, TCC_OP_NEG, b);
    if (!is_float && a == b) return splat_like(s, a, 0);
    if (b->op == TCC_OP_NEG) return binary(s, TCC_OP_ADD, a, b->operands[0]);
    return NULL;
}

static tcc_node *simplify_mul(tcc_simplifier *s, tcc_node *a, tcc_node *b, bool is_float) {
    if (tcc__is_splat(a)) { /* a constant goes second */
        tcc_node *swap = a;
        a = b;
        b = swap;
    }
    if (tcc__is_splat_of(b, 1)) return a;
    if (tcc__is_splat_of(b, -1)) return unary(s, TCC_OP_NEG, a);
    if (!is_float && tcc__is_splat_of(b, 0)) return b;
    if (a->op == TCC_OP_NEG && b->op == TCC_OP_NEG) return binary(s, TCC_OP_MUL, a->operands[0], b->operands[0]);
    if (a->op == TCC_OP_NEG && tcc__is_splat(b) && is_float)
        return binary(s, TCC_OP_MUL, a->operands[0], splat_like(s, b, -tcc__splat_value(b)));
    return NULL;
}

static tcc_node *simplify_div(tcc_simplifier *s, tcc_node *a, tcc_node *b, bool is_float) {
    if (tcc__is_splat_of(b, 1)) return a;
    if (!is_float) return NULL;
    if (tcc__is_splat_of(b, -1)) return unary(s, TCC_OP_NEG, a);
    if (tcc__is_splat(b) && is_power_of_two(tcc__splat_value(b)))
        return binary(s, TCC_OP_MUL, a, splat_like(s, b, 1 / tcc__splat_value(b)));
    return NULL;
}

static tcc_node *simplify_pow(tcc_simplifier *s, tcc_node *a, tcc_node *b) {
    if (tcc__is_splat_of(b, 1)) return a;
    if (tcc__is_splat_of(b, 2)) return binary(s, TCC_OP_MUL, a, a);
    if (tcc__is_splat_of(b, 0) || tcc__is_splat_of(b, -0.0)) return splat_like(s, a, 1);
    if (tcc__is_splat_of(b, -1)) return binary(s, TCC_OP_DIV, splat_like(s, a, 1), a);
    return NULL;
}

/* and, or, xor of bools and integers. */
static tcc_node *simplify_bits(tcc_simplifier *s, tcc_op op, tcc_node *a, tcc_node *b) {
    if (tcc__is_splat(a)) {
        tcc_node *swap = a;
        a = b;
        b = swap;
    }
    double ones = a->type.dtype == TCC_BOOL ? 1 : a->type.dtype == TCC_U8 ? 255 : -1;
    if (a == b) return op == TCC_OP_XOR ? splat_like(s, a, 0) : a;
    if (tcc__is_splat_of(b, 0)) return op == TCC_OP_AND ? b : a;
    if (!tcc__is_splat_of(b, ones)) return NULL;
    return op == TCC_OP_AND ? a : op == TCC_OP_OR ? b : unary(s, TCC_OP_NOT, a);
}

static tcc_node *simplify_select(tcc_simplifier *s, tcc_node *c, tcc_node *a, tcc_node *b) {
    if (a == b) return a;
    if (tcc__is_splat(c)) return tcc__splat_value(c) != 0 ? a : b;
    if (c->op == TCC_OP_NOT) return tcc__simplify(s, tcc_ir_select(s->g, c->operands[0], b, a));
    if (a->type.dtype == TCC_BOOL && tcc__is_splat_of(a, 1) && tcc__is_splat_of(b, 0)) return c;
    if (a->type.dtype == TCC_BOOL && tcc__is_splat_of(a, 0) && tcc__is_splat_of(b, 1)) return unary(s, TCC_OP_NOT, c);
    return NULL;
}

/* x in a shorter type that holds all of its numbers; NULL: it is not known to be so. */
static tcc_node *in_shorter(tcc_simplifier *s, tcc_node *x, tcc_dtype to) {
    if (x->op == TCC_OP_CAST && x->operands[0]->type.dtype == to) return x->operands[0];
    if (!tcc__is_splat_of(x, 0)) return NULL;
    tcc_type type = x->type;
    type.dtype = to;
    return tcc_ir_splat(s->g, &type, 0);
}

/* Sums in f32 of numbers of a shorter type, rounded to that, are the sums of a scatter in that type: it adds in f32
 * itself, and has no table in f32. */
static tcc_node *scatter_in_shorter(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    const tcc_dtype to = n->type.dtype;
    if (x->op != TCC_OP_SCATTER_ADD || x->type.dtype != TCC_F32 || !tcc_dtype_is_narrow(to)) return NULL;
    if (!tcc__used_once(s, n, 0)) return NULL;
    tcc_node *update = x->operands[2];
    if (update->op != TCC_OP_CAST || update->operands[0]->type.dtype != to) return NULL;
    tcc_node *base = in_shorter(s, x->operands[0], to);
    tcc_node *operands[] = {base, x->operands[1], update->operands[0]};
    return base ? tcc__simplify(s, tcc_ir_build(s->g, TCC_OP_SCATTER_ADD, operands, 3, x->attrs, NULL, x->loc)) : NULL;
}

/* Each part in the shorter type, before they are put together: so a kernel may store the parts where they belong. */
static tcc_node *cast_of_parts(tcc_simplifier *s, tcc_node *n) {
    enum { MOST = 4 };
    tcc_node *x = n->operands[0], *parts[MOST];
    if (x->op != TCC_OP_CONCAT || x->n_operands > MOST || !tcc__used_once(s, n, 0)) return NULL;
    if (tcc_dtype_bytes(n->type.dtype) >= tcc_dtype_bytes(x->type.dtype)) return NULL;
    for (int i = 0; i < x->n_operands; i++) {
        parts[i] = tcc__simplify(s, tcc_ir_cast(s->g, x->operands[i], n->type.dtype));
        if (!parts[i]) return NULL;
    }
    return tcc__simplify(s, tcc_ir_build(s->g, TCC_OP_CONCAT, parts, x->n_operands, x->attrs, NULL, x->loc));
}

static tcc_node *simplify_cast(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    tcc_dtype to = n->type.dtype;
    if (x->type.dtype == to) return x;
    if (x->op == TCC_OP_CAST && tcc_dtype_holds(x->type.dtype, x->operands[0]->type.dtype))
        return tcc__simplify(s, tcc_ir_cast(s->g, x->operands[0], to));
    tcc_node *parts = cast_of_parts(s, n);
    return parts ? parts : scatter_in_shorter(s, n);
}

static tcc_node *simplify_not(tcc_simplifier *s, tcc_node *x) {
    switch (x->op) {
    case TCC_OP_NOT: return x->operands[0];
    case TCC_OP_EQ: return binary(s, TCC_OP_NE, x->operands[0], x->operands[1]);
    case TCC_OP_NE: return binary(s, TCC_OP_EQ, x->operands[0], x->operands[1]);
    default: return NULL; /* not (a < b) is not a >= b when one is NaN */
    }
}

tcc_node *tcc__simplify_point(tcc_simplifier *s, tcc_node *n) {
    if (tcc_op_get_info(n->op)->fusion != TCC_FUSION_POINT || n->n_operands == 0) return NULL;
    tcc_node *a = n->operands[0], *b = n->n_operands > 1 ? n->operands[1] : NULL;
    bool is_float = tcc_dtype_is_float(a->type.dtype);
    switch (n->op) {
    case TCC_OP_ADD: return simplify_add(s, a, b, is_float);
    case TCC_OP_SUB: return simplify_sub(s, a, b, is_float);
    case TCC_OP_MUL: return simplify_mul(s, a, b, is_float);
    case TCC_OP_DIV: return simplify_div(s, a, b, is_float);
    case TCC_OP_POW: return simplify_pow(s, a, b);
    case TCC_OP_MAX:
    case TCC_OP_MIN: return a == b ? a : NULL;
    case TCC_OP_AND:
    case TCC_OP_OR:
    case TCC_OP_XOR: return simplify_bits(s, n->op, a, b);
    case TCC_OP_EQ:
    case TCC_OP_LE:
    case TCC_OP_GE: return a == b && !is_float ? tcc_ir_splat(s->g, &n->type, 1) : NULL;
    case TCC_OP_NE: return a == b && !is_float ? tcc_ir_splat(s->g, &n->type, 0) : NULL;
    case TCC_OP_LT:
    case TCC_OP_GT: return a == b ? tcc_ir_splat(s->g, &n->type, 0) : NULL;
    case TCC_OP_SELECT: return simplify_select(s, a, b, n->operands[2]);
    case TCC_OP_CAST: return simplify_cast(s, n);
    case TCC_OP_NOT: return simplify_not(s, a);
    case TCC_OP_NEG:
        if (a->op == TCC_OP_NEG) return a->operands[0];
        if (a->op == TCC_OP_MUL && tcc__used_once(s, n, 0) && is_float && tcc__is_splat(a->operands[1]))
            return binary(s, TCC_OP_MUL, a->operands[0], splat_like(s, a, -tcc__splat_value(a->operands[1])));
        return NULL;
    case TCC_OP_ABS:
        if (a->op == TCC_OP_ABS) return a;
        return a->op == TCC_OP_NEG && is_float ? unary(s, TCC_OP_ABS, a->operands[0]) : NULL;
    case TCC_OP_ISFINITE: return is_float ? NULL : tcc_ir_splat(s->g, &n->type, 1);
    default: return NULL;
    }
}
