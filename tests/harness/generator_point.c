/* SPDX-License-Identifier: MIT
 * Random graphs: element-by-element ops, draws and iota. */
#include "harness/generator_values.h"

#include <math.h>

#define ANY_RANK 0, TCC_MAX_RANK

static int product_grid(int a, int b) { return a < 0 || b < 0 ? -1 : a + b; }

/* -- Unary -- */

/* Functions by their safe domain: |f'| <= slope there, and the range of f. */
typedef struct function {
    tcc_op op;
    double lo, hi, slope, least, most;
} function;

static const function functions[] = {
    {TCC_OP_EXP, -4, 3, 20.1, 0.018, 20.1},
    {TCC_OP_EXPM1, -4, 3, 20.1, -1, 19.1},
    {TCC_OP_LOG, 0.25, 8, 4, -1.39, 2.08},
    {TCC_OP_LOG1P, -0.5, 8, 2, -0.7, 2.2},
    {TCC_OP_SQRT, 0.25, 8, 1, 0.5, 2.83},
    {TCC_OP_RSQRT, 0.25, 8, 4, 0.35, 2},
    {TCC_OP_SIN, -6, 6, 1, -1, 1},
    {TCC_OP_COS, -6, 6, 1, -1, 1},
    {TCC_OP_ATAN, -64, 64, 1, -1.6, 1.6},
    {TCC_OP_SINH, -3, 3, 10.1, -10.1, 10.1},
    {TCC_OP_COSH, -3, 3, 10.1, 1, 10.1},
    {TCC_OP_TANH, -64, 64, 1, -1, 1},
    {TCC_OP_SIGMOID, -64, 64, 1, 0, 1},
    {TCC_OP_ERF, -8, 8, 1.13, -1, 1},
    {TCC_OP_ERFINV, -0.9, 0.9, 3.5, -1.17, 1.17},
    {TCC_OP_GELU, -8, 8, 1.13, -0.2, 8},
    {TCC_OP_GELU_TANH, -8, 8, 1.13, -0.2, 8},
    {TCC_OP_SILU, -8, 8, 1.1, -0.3, 8},
    {TCC_OP_SOFTPLUS, -8, 8, 1, 0, 8.01},
    {TCC_OP_NORMAL_DENSITY, -8, 8, 0.25, 0, 0.4},
};

bool tcc__gen_allows_composites(const tcc_gen *r) {
    return !r->options->classes || r->options->classes >> TCC_FUSION_COMPOSITE & 1;
}

static void add_function(tcc_gen *r) {
    const function *f = &TCC_GEN_ONE_OF(r, functions);
    if (tcc_op_get_info(f->op)->fusion == TCC_FUSION_COMPOSITE && !tcc__gen_allows_composites(r)) f = &functions[0];
    tcc_gen_value x = tcc__gen_into(r, tcc__gen_pick_float(r, 0, false), f->lo, f->hi);
    tcc__gen_keep(r, tcc__gen_made(tcc_ir_unary(r->g, f->op, x.n), f->least, f->most, x.err * f->slope, -1));
}

static void add_simple_unary(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_NEG, TCC_OP_ABS, TCC_OP_RELU, TCC_OP_LEAKY_RELU, TCC_OP_ISFINITE};
    tcc_op op = TCC_GEN_ONE_OF(r, ops);
    if (tcc_op_get_info(op)->fusion == TCC_FUSION_COMPOSITE && !tcc__gen_allows_composites(r)) op = TCC_OP_NEG;
    tcc_gen_value x = tcc__gen_pick_float(r, 0, false);
    tcc_gen_value y = x;
    tcc_attrs attrs = {.slope.slope = 0.125};
    y.n = tcc__gen_build(r, op, &x.n, 1, op == TCC_OP_LEAKY_RELU ? &attrs : NULL, NULL);
    switch (op) {
    case TCC_OP_NEG: y = (tcc_gen_value){y.n, -x.hi, -x.lo, x.err, x.grid}; break;
    case TCC_OP_ABS: y = (tcc_gen_value){y.n, 0, tcc__gen_magnitude(x), x.err, x.grid}; break;
    case TCC_OP_RELU: y = (tcc_gen_value){y.n, tcc__gen_max(x.lo, 0), tcc__gen_max(x.hi, 0), x.err, x.grid}; break;
    case TCC_OP_ISFINITE: y = (tcc_gen_value){y.n, 0, 1, 0, 0}; break;
    default: y = tcc__gen_made(y.n, tcc__gen_min(x.lo, x.lo / 8), x.hi, x.err, x.grid < 0 ? -1 : x.grid + 3); break;
    }
    tcc__gen_keep(r, y);
}

/* Steps: only of values that are known exactly. */
static void add_step(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_SIGN, TCC_OP_FLOOR, TCC_OP_CEIL, TCC_OP_ROUND};
    const tcc_op op = TCC_GEN_ONE_OF(r, ops);
    tcc_gen_value x = tcc__gen_pick_float(r, 0, true);
    tcc_gen_value y = tcc__gen_made(tcc_ir_unary(r->g, op, x.n), floor(x.lo), ceil(x.hi), 0, 0);
    if (op == TCC_OP_SIGN) y.lo = -1, y.hi = 1;
    tcc__gen_keep(r, y);
}

static void add_cast(tcc_gen *r) {
    static const tcc_dtype ints[] = {TCC_I32, TCC_I64, TCC_U8, TCC_BOOL};
    tcc_gen_value x = tcc__gen_pick(r, (tcc_gen_want){0, ANY_RANK, false});
    if (!x.n) return;
    tcc_dtype to = tcc__gen_float(r);
    if (x.grid >= 0 && tcc__gen_chance(r, 40)) to = TCC_GEN_ONE_OF(r, ints);
    if (to == TCC_U8 && (x.lo < 0 || x.hi > UINT8_MAX)) to = TCC_I32;
    if (tcc_dtype_is_narrow(to)) x = tcc_dtype_is_float(x.n->type.dtype) ? x : (tcc_gen_value){0};
    if (!x.n) return;
    tcc_node *n = tcc_ir_cast(r->g, x.n, to);
    if (n == x.n) return;
    if (to == TCC_BOOL) tcc__gen_keep(r, (tcc_gen_value){n, 0, 1, 0, 0});
    else if (!tcc_dtype_is_float(to)) tcc__gen_keep(r, (tcc_gen_value){n, trunc(x.lo), trunc(x.hi), 0, 0});
    else tcc__gen_keep(r, tcc__gen_made(n, x.lo, x.hi, x.err, x.grid));
}

/* -- Binary -- */

static void add_binary(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_ADD, TCC_OP_ADD, TCC_OP_SUB, TCC_OP_MUL, TCC_OP_MUL,
                                 TCC_OP_MAX, TCC_OP_MIN, TCC_OP_DIV, TCC_OP_POW, TCC_OP_GELU_TANH_GRAD};
    const tcc_op op = TCC_GEN_ONE_OF(r, ops);
    tcc_gen_value a = tcc__gen_pick_float(r, 0, false);
    if (!a.n) return;
    tcc_gen_value b = tcc__gen_like(r, &a.n->type);
    if (op == TCC_OP_DIV) b = tcc__gen_into(r, b, 0.5, 4);
    if (op == TCC_OP_POW) a = tcc__gen_into(r, a, 0.5, 2), b = tcc__gen_into(r, b, -2, 2);
    if (op == TCC_OP_GELU_TANH_GRAD) a = tcc__gen_into(r, a, -8, 8);
    if (tcc__gen_chance(r, 50) && op != TCC_OP_DIV && op != TCC_OP_POW && op != TCC_OP_GELU_TANH_GRAD) {
        tcc_gen_value swap = a;
        a = b;
        b = swap;
    }
    const double ma = tcc__gen_magnitude(a), mb = tcc__gen_magnitude(b), err = a.err + b.err;
    tcc_node *n = tcc_ir_binary(r->g, op, a.n, b.n);
    tcc_gen_value y = {0};
    switch (op) {
    case TCC_OP_ADD: y = tcc__gen_made(n, a.lo + b.lo, a.hi + b.hi, err, tcc__gen_join_grid(a.grid, b.grid)); break;
    case TCC_OP_SUB: y = tcc__gen_made(n, a.lo - b.hi, a.hi - b.lo, err, tcc__gen_join_grid(a.grid, b.grid)); break;
    case TCC_OP_MUL: {
        double p = a.lo * b.lo, q = a.lo * b.hi, s = a.hi * b.lo, t = a.hi * b.hi;
        y = tcc__gen_made(n, tcc__gen_min(tcc__gen_min(p, q), tcc__gen_min(s, t)),
                          tcc__gen_max(tcc__gen_max(p, q), tcc__gen_max(s, t)), ma * b.err + mb * a.err,
                          product_grid(a.grid, b.grid));
        break;
    }
    case TCC_OP_MAX:
        y = tcc__gen_made(n, tcc__gen_max(a.lo, b.lo), tcc__gen_max(a.hi, b.hi), err,
                          tcc__gen_join_grid(a.grid, b.grid));
        break;
    case TCC_OP_MIN:
        y = tcc__gen_made(n, tcc__gen_min(a.lo, b.lo), tcc__gen_min(a.hi, b.hi), err,
                          tcc__gen_join_grid(a.grid, b.grid));
        break;
    case TCC_OP_DIV: y = tcc__gen_made(n, -2 * ma, 2 * ma, 2 * a.err + 4 * ma * b.err, -1); break;
    case TCC_OP_GELU_TANH_GRAD: /* |f'| <= 1.13, |f''| <= 0.8 */
        y = tcc__gen_made(n, -1.13 * mb, 1.13 * mb, 1.13 * b.err + 0.8 * mb * a.err, -1);
        break;
    default: y = tcc__gen_made(n, 0.25, 4, 16 * a.err + 2.8 * b.err, -1); break;
    }
    tcc__gen_keep(r, y);
}

static void add_remainder(tcc_gen *r) {
    tcc_gen_value a = tcc__gen_pick_float(r, 0, true);
    if (!a.n) return;
    tcc_gen_value b = tcc__gen_into(r, tcc__gen_like(r, &a.n->type), 0.5, 4);
    if (b.grid < 0) return;
    const double most = tcc__gen_min(4, tcc__gen_magnitude(a));
    tcc__gen_keep(r, tcc__gen_made(tcc_ir_binary(r->g, TCC_OP_REM, a.n, b.n), -most, most, 0,
                                   tcc__gen_join_grid(a.grid, b.grid)));
}

static void add_comparison(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_EQ, TCC_OP_NE, TCC_OP_LT, TCC_OP_LE, TCC_OP_GT, TCC_OP_GE};
    tcc_gen_value a = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT | TCC_GEN_INT, ANY_RANK, true});
    if (!a.n) return;
    tcc_gen_value b = tcc__gen_like(r, &a.n->type);
    if (b.grid < 0) return;
    tcc__gen_keep(r, (tcc_gen_value){tcc_ir_binary(r->g, TCC_GEN_ONE_OF(r, ops), a.n, b.n), 0, 1, 0, 0});
}

static void add_select(tcc_gen *r) {
    tcc_gen_value a = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT | TCC_GEN_INT, ANY_RANK, false});
    if (!a.n) return;
    tcc_type bool_type = a.n->type;
    bool_type.dtype = TCC_BOOL;
    tcc_gen_value b = tcc__gen_like(r, &a.n->type), c = tcc__gen_like(r, &bool_type);
    tcc__gen_keep(r,
                  tcc__gen_made(tcc_ir_select(r->g, c.n, a.n, b.n), tcc__gen_min(a.lo, b.lo), tcc__gen_max(a.hi, b.hi),
                                tcc__gen_max(a.err, b.err), tcc__gen_join_grid(a.grid, b.grid)));
}

/* By a few places, so that little overflows; a place out of range gives 0 or the sign. */
static void add_shift(tcc_gen *r) {
    tcc_gen_value a = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_INT, ANY_RANK, false});
    if (!a.n) return;
    const bool is_u8 = a.n->type.dtype == TCC_U8, left = tcc__gen_chance(r, 50);
    const int by = tcc__gen_chance(r, 10) ? 70 : tcc__gen_chance(r, 10) ? 9 : tcc__gen_chance(r, 50) ? 1 : 3;
    const double most = left ? tcc__gen_magnitude(a) * 512 + 1 : tcc__gen_magnitude(a) + 1;
    tcc_node *n = tcc_ir_binary_c(r->g, left ? TCC_OP_SHIFT_LEFT : TCC_OP_SHIFT_RIGHT, a.n, by);
    tcc__gen_keep(r, (tcc_gen_value){n, is_u8 ? 0 : -most, is_u8 ? UINT8_MAX : most, 0, 0});
}

/* Integers stay small, so that nothing overflows. */
static void add_integer_op(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_ADD, TCC_OP_SUB, TCC_OP_MUL, TCC_OP_DIV, TCC_OP_REM, TCC_OP_MAX,
                                 TCC_OP_MIN, TCC_OP_AND, TCC_OP_OR,  TCC_OP_XOR, TCC_OP_NOT, TCC_OP_ABS};
    tcc_op op = TCC_GEN_ONE_OF(r, ops);
    tcc_gen_value a = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_INT, ANY_RANK, false});
    if (!a.n) return;
    const bool is_u8 = a.n->type.dtype == TCC_U8;
    if (op == TCC_OP_NOT || op == TCC_OP_ABS) {
        double most = tcc__gen_magnitude(a) + 1;
        tcc__gen_keep(r,
                      (tcc_gen_value){tcc_ir_unary(r->g, op, a.n), is_u8 ? 0 : -most, is_u8 ? UINT8_MAX : most, 0, 0});
        return;
    }
    tcc_gen_value b = tcc__gen_like(r, &a.n->type);
    const double ma = tcc__gen_magnitude(a), mb = tcc__gen_magnitude(b);
    double most = op == TCC_OP_MUL ? ma * mb : ma + mb;
    /* Bits: up to the next power of 2. */
    if (op == TCC_OP_AND || op == TCC_OP_OR || op == TCC_OP_XOR) most = 2 * tcc__gen_max(ma, mb) + 2;
    if (is_u8 && (op == TCC_OP_SUB || most > UINT8_MAX)) op = TCC_OP_MAX, most = tcc__gen_max(ma, mb);
    tcc__gen_keep(r, (tcc_gen_value){tcc_ir_binary(r->g, op, a.n, b.n), is_u8 ? 0 : -most, most, 0, 0});
}

static void add_logic(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_AND, TCC_OP_OR, TCC_OP_XOR, TCC_OP_EQ, TCC_OP_NE};
    tcc_gen_value a = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_BOOL, ANY_RANK, false});
    if (!a.n) return;
    tcc_gen_value b = tcc__gen_like(r, &a.n->type);
    tcc_node *n = tcc__gen_chance(r, 20) ? tcc_ir_unary(r->g, TCC_OP_NOT, a.n)
                                         : tcc_ir_binary(r->g, TCC_GEN_ONE_OF(r, ops), a.n, b.n);
    tcc__gen_keep(r, (tcc_gen_value){n, 0, 1, 0, 0});
}

/* -- Draws and iota -- */

static void add_draw(tcc_gen *r) {
    tcc_node *key = tcc__gen_key(r);
    tcc_gen_value like = tcc__gen_pick_float(r, 0, false);
    if (!key || !like.n) return;
    tcc_type type = like.n->type;
    tcc_attrs attrs = {.rng.id = r->draws++};
    type.dtype = TCC_F32;
    switch (tcc__gen_below(r, 3)) {
    case 0:
        tcc__gen_keep(r, (tcc_gen_value){tcc__gen_build(r, TCC_OP_RNG_UNIFORM, &key, 1, &attrs, &type), 0, 1, 0, 24});
        break;
    case 1: /* 2^-24 is the least uniform that is not 0 */
        tcc__gen_keep(r, tcc__gen_made(tcc__gen_build(r, TCC_OP_RNG_NORMAL, &key, 1, &attrs, &type), -6, 6, 1e-6, -1));
        break;
    default: {
        type.dtype = TCC_I32;
        tcc_node *bits = tcc__gen_build(r, TCC_OP_RNG_BITS, &key, 1, &attrs, &type);
        tcc__gen_keep(r, (tcc_gen_value){tcc_ir_binary_c(r->g, TCC_OP_AND, bits, 255), 0, 255, 0, 0});
    }
    }
}

static void add_iota(tcc_gen *r) {
    tcc_gen_value like = tcc__gen_pick_float(r, 1, false);
    if (!like.n) return;
    tcc_type type = like.n->type;
    type.dtype = tcc__gen_chance(r, 50) ? TCC_I32 : TCC_F32;
    const int axis = (int)tcc__gen_below(r, type.rank);
    tcc__gen_keep(r, (tcc_gen_value){tcc_ir_iota(r->g, &type, axis), 0, (double)type.dims[axis], 0, 0});
}

void tcc__gen_point(tcc_gen *r) {
    const int64_t at = tcc__gen_below(r, 100);
    if (at < 25) add_function(r);
    else if (at < 35) add_simple_unary(r);
    else if (at < 70) add_binary(r);
    else if (at < 75) add_comparison(r);
    else if (at < 82) add_select(r);
    else if (at < 85) add_step(r);
    else if (at < 90) add_cast(r);
    else if (at < 92) add_remainder(r);
    else if (at < 95) tcc__gen_chance(r, 80) ? add_integer_op(r) : add_shift(r);
    else if (at < 97) add_logic(r);
    else if (at < 98) add_iota(r);
    else add_draw(r);
}
