/* SPDX-License-Identifier: MIT
 * Random graphs: element-by-element ops, views, reductions, indexing. */
#include "ir/random_values.h"

#include <math.h>
#include <string.h>

#define ANY_RANK 0, TCC_MAX_RANK

static double max2(double a, double b) { return a > b ? a : b; }
static double min2(double a, double b) { return a < b ? a : b; }
/* The grid of a sum, or of a choice between the two. */
static int join_grid(int a, int b) { return a < 0 || b < 0 ? -1 : a > b ? a : b; }
static int product_grid(int a, int b) { return a < 0 || b < 0 ? -1 : a + b; }

static tcc_gen_value pick_float(tcc_gen *r, int least_rank, bool exact) {
    return tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT, least_rank, TCC_MAX_RANK, exact});
}

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
    {TCC_OP_TANH, -64, 64, 1, -1, 1},
    {TCC_OP_SIGMOID, -64, 64, 1, 0, 1},
    {TCC_OP_ERF, -8, 8, 1.13, -1, 1},
    {TCC_OP_GELU, -8, 8, 1.13, -0.2, 8},
    {TCC_OP_GELU_TANH, -8, 8, 1.13, -0.2, 8},
    {TCC_OP_SILU, -8, 8, 1.1, -0.3, 8},
    {TCC_OP_SOFTPLUS, -8, 8, 1, 0, 8.01},
};

static bool allows_composites(const tcc_gen *r) {
    return !r->options->classes || r->options->classes >> TCC_FUSION_COMPOSITE & 1;
}

static void add_function(tcc_gen *r) {
    const function *f = &TCC_GEN_ONE_OF(r, functions);
    if (tcc_op_get_info(f->op)->fusion == TCC_FUSION_COMPOSITE && !allows_composites(r)) f = &functions[0];
    tcc_gen_value x = tcc__gen_into(r, pick_float(r, 0, false), f->lo, f->hi);
    tcc__gen_keep(r, tcc__gen_made(tcc_ir_unary(r->g, f->op, x.n), f->least, f->most, x.err * f->slope, -1));
}

static void add_simple_unary(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_NEG, TCC_OP_ABS, TCC_OP_RELU, TCC_OP_LEAKY_RELU, TCC_OP_ISFINITE};
    tcc_op op = TCC_GEN_ONE_OF(r, ops);
    if (tcc_op_get_info(op)->fusion == TCC_FUSION_COMPOSITE && !allows_composites(r)) op = TCC_OP_NEG;
    tcc_gen_value x = pick_float(r, 0, false);
    tcc_gen_value y = x;
    tcc_attrs attrs = {.slope.slope = 0.125};
    y.n = tcc__gen_build(r, op, &x.n, 1, op == TCC_OP_LEAKY_RELU ? &attrs : NULL, NULL);
    switch (op) {
    case TCC_OP_NEG: y = (tcc_gen_value){y.n, -x.hi, -x.lo, x.err, x.grid}; break;
    case TCC_OP_ABS: y = (tcc_gen_value){y.n, 0, tcc__gen_magnitude(x), x.err, x.grid}; break;
    case TCC_OP_RELU: y = (tcc_gen_value){y.n, max2(x.lo, 0), max2(x.hi, 0), x.err, x.grid}; break;
    case TCC_OP_ISFINITE: y = (tcc_gen_value){y.n, 0, 1, 0, 0}; break;
    default: y = tcc__gen_made(y.n, min2(x.lo, x.lo / 8), x.hi, x.err, x.grid < 0 ? -1 : x.grid + 3); break;
    }
    tcc__gen_keep(r, y);
}

/* Steps: only of values that are known exactly. */
static void add_step(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_SIGN, TCC_OP_FLOOR, TCC_OP_CEIL, TCC_OP_ROUND};
    const tcc_op op = TCC_GEN_ONE_OF(r, ops);
    tcc_gen_value x = pick_float(r, 0, true);
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
    if (to == TCC_F16 || to == TCC_BF16) x = tcc_dtype_is_float(x.n->type.dtype) ? x : (tcc_gen_value){0};
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
    tcc_gen_value a = pick_float(r, 0, false);
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
    case TCC_OP_ADD: y = tcc__gen_made(n, a.lo + b.lo, a.hi + b.hi, err, join_grid(a.grid, b.grid)); break;
    case TCC_OP_SUB: y = tcc__gen_made(n, a.lo - b.hi, a.hi - b.lo, err, join_grid(a.grid, b.grid)); break;
    case TCC_OP_MUL: {
        double p = a.lo * b.lo, q = a.lo * b.hi, s = a.hi * b.lo, t = a.hi * b.hi;
        y = tcc__gen_made(n, min2(min2(p, q), min2(s, t)), max2(max2(p, q), max2(s, t)), ma * b.err + mb * a.err,
                          product_grid(a.grid, b.grid));
        break;
    }
    case TCC_OP_MAX: y = tcc__gen_made(n, max2(a.lo, b.lo), max2(a.hi, b.hi), err, join_grid(a.grid, b.grid)); break;
    case TCC_OP_MIN: y = tcc__gen_made(n, min2(a.lo, b.lo), min2(a.hi, b.hi), err, join_grid(a.grid, b.grid)); break;
    case TCC_OP_DIV: y = tcc__gen_made(n, -2 * ma, 2 * ma, 2 * a.err + 4 * ma * b.err, -1); break;
    case TCC_OP_GELU_TANH_GRAD: /* |f'| <= 1.13, |f''| <= 0.8 */
        y = tcc__gen_made(n, -1.13 * mb, 1.13 * mb, 1.13 * b.err + 0.8 * mb * a.err, -1);
        break;
    default: y = tcc__gen_made(n, 0.25, 4, 16 * a.err + 2.8 * b.err, -1); break;
    }
    tcc__gen_keep(r, y);
}

static void add_remainder(tcc_gen *r) {
    tcc_gen_value a = pick_float(r, 0, true);
    if (!a.n) return;
    tcc_gen_value b = tcc__gen_into(r, tcc__gen_like(r, &a.n->type), 0.5, 4);
    if (b.grid < 0) return;
    const double most = min2(4, tcc__gen_magnitude(a));
    tcc__gen_keep(r,
                  tcc__gen_made(tcc_ir_binary(r->g, TCC_OP_REM, a.n, b.n), -most, most, 0, join_grid(a.grid, b.grid)));
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
    tcc__gen_keep(r, tcc__gen_made(tcc_ir_select(r->g, c.n, a.n, b.n), min2(a.lo, b.lo), max2(a.hi, b.hi),
                                   max2(a.err, b.err), join_grid(a.grid, b.grid)));
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
    if (op == TCC_OP_AND || op == TCC_OP_OR || op == TCC_OP_XOR) most = 2 * max2(ma, mb) + 2;
    if (is_u8 && (op == TCC_OP_SUB || most > UINT8_MAX)) op = TCC_OP_MAX, most = max2(ma, mb);
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
    tcc_gen_value like = pick_float(r, 0, false);
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
    tcc_gen_value like = pick_float(r, 1, false);
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
    else if (at < 95) add_integer_op(r);
    else if (at < 97) add_logic(r);
    else if (at < 98) add_iota(r);
    else add_draw(r);
}

/* -- Views -- */

static tcc_node *reshaped(tcc_gen *r, tcc_node *x) {
    int64_t dims[TCC_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->type.rank; i++) {
        int64_t extent = x->type.dims[i], factor = 2;
        if (rank && tcc__gen_chance(r, 40)) { /* joined to the one before */
            dims[rank - 1] *= extent;
            continue;
        }
        if (extent == 1 && tcc__gen_chance(r, 50)) continue;
        while (factor < extent && extent % factor) factor++;
        bool split = factor < extent && rank + (x->type.rank - i) < TCC_MAX_RANK - 1 && tcc__gen_chance(r, 40);
        if (split) dims[rank++] = tcc__gen_chance(r, 50) ? factor : extent / factor;
        dims[rank] = split ? extent / dims[rank - 1] : extent;
        rank++;
    }
    if (rank + 1 < TCC_MAX_RANK && tcc__gen_chance(r, 20)) {
        int at = (int)tcc__gen_below(r, rank + 1);
        memmove(&dims[at + 1], &dims[at], sizeof dims[0] * (size_t)(rank - at));
        dims[at] = 1;
        rank++;
    }
    return tcc_ir_reshape(r->g, x, rank, dims);
}

static tcc_node *transposed(tcc_gen *r, tcc_node *x) {
    int perm[TCC_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        int at = (int)tcc__gen_below(r, i + 1);
        perm[i] = i;
        int swap = perm[at];
        perm[at] = perm[i];
        perm[i] = swap;
    }
    return tcc_ir_transpose(r->g, x, perm);
}

static tcc_node *broadcast(tcc_gen *r, tcc_node *x) {
    tcc_type type = {.dtype = x->type.dtype};
    int dims[TCC_MAX_RANK];
    for (int i = 0; i <= x->type.rank; i++) {
        if (type.rank + (x->type.rank - i) < TCC_MAX_RANK && tcc__gen_chance(r, 35))
            type.dims[type.rank++] = tcc__gen_extent(r, 40);
        if (i == x->type.rank) break;
        dims[i] = type.rank;
        type.dims[type.rank++] = x->type.dims[i] == 1 && tcc__gen_chance(r, 60) ? tcc__gen_extent(r, 40)
                                                                                : x->type.dims[i];
    }
    return tcc__gen_fits(r, &type) ? tcc_ir_broadcast(r->g, x, type.rank, type.dims, dims) : NULL;
}

static tcc_node *sliced(tcc_gen *r, tcc_node *x) {
    int64_t start[TCC_MAX_RANK], limit[TCC_MAX_RANK], stride[TCC_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        bool whole = tcc__gen_chance(r, 40);
        start[i] = whole ? 0 : tcc__gen_below(r, x->type.dims[i]);
        limit[i] = whole ? x->type.dims[i] : start[i] + 1 + tcc__gen_below(r, x->type.dims[i] - start[i]);
        stride[i] = tcc__gen_chance(r, 75) ? 1 : 2 + tcc__gen_below(r, 2);
    }
    return tcc_ir_slice(r->g, x, start, limit, stride);
}

static void add_pad(tcc_gen *r, tcc_gen_value x) {
    static const double values[] = {0, 0, 1, -0.5};
    const bool is_float = tcc_dtype_is_float(x.n->type.dtype);
    const double value = is_float ? TCC_GEN_ONE_OF(r, values) : 0;
    tcc_type type = x.n->type;
    int64_t lo[TCC_MAX_RANK], hi[TCC_MAX_RANK], interior[TCC_MAX_RANK];
    for (int i = 0; i < type.rank; i++) {
        lo[i] = tcc__gen_chance(r, 50) ? 0 : tcc__gen_below(r, 4);
        hi[i] = tcc__gen_chance(r, 50) ? 0 : tcc__gen_below(r, 4);
        interior[i] = tcc__gen_chance(r, 85) ? 0 : 1;
        type.dims[i] += lo[i] + hi[i] + (type.dims[i] - 1) * interior[i];
    }
    if (!tcc__gen_fits(r, &type)) return;
    tcc_node *n = tcc_ir_pad(r->g, x.n, value, lo, hi, interior);
    tcc__gen_keep(r,
                  (tcc_gen_value){n, min2(x.lo, value), max2(x.hi, value), x.err, is_float ? join_grid(x.grid, 1) : 0});
}

static void add_concat(tcc_gen *r, tcc_gen_value x) {
    enum { MOST_PARTS = 4 };
    if (!x.n->type.rank) return;
    tcc_node *parts[MOST_PARTS] = {x.n};
    const int axis = (int)tcc__gen_below(r, x.n->type.rank), count = 2 + (int)tcc__gen_below(r, MOST_PARTS - 1);
    tcc_type total = x.n->type;
    for (int i = 1; i < count; i++) {
        tcc_type type = x.n->type;
        if (tcc__gen_chance(r, 60)) type.dims[axis] = tcc__gen_extent(r, 20);
        total.dims[axis] += type.dims[axis];
        if (!tcc__gen_fits(r, &total)) return;
        tcc_gen_value part = tcc__gen_like(r, &type);
        parts[i] = part.n;
        x = (tcc_gen_value){x.n, min2(x.lo, part.lo), max2(x.hi, part.hi), max2(x.err, part.err),
                            join_grid(x.grid, part.grid)};
    }
    tcc_attrs attrs = {.axis.axis = axis};
    x.n = tcc__gen_build(r, TCC_OP_CONCAT, parts, count, &attrs, NULL);
    tcc__gen_keep(r, x);
}

static tcc_node *flipped(tcc_gen *r, tcc_node *x) {
    tcc_attrs attrs = {0};
    for (int i = 0; i < x->type.rank; i++)
        if (tcc__gen_chance(r, 50)) attrs.axes.axes.v[attrs.axes.axes.count++] = i;
    return attrs.axes.axes.count ? tcc__gen_build(r, TCC_OP_FLIP, &x, 1, &attrs, NULL) : NULL;
}

void tcc__gen_view(tcc_gen *r) {
    tcc_gen_value x = tcc__gen_pick(r, (tcc_gen_want){tcc__gen_chance(r, 85) ? TCC_GEN_FLOAT : 0, ANY_RANK, false});
    if (!x.n) return;
    tcc_node *from = x.n;
    switch (tcc__gen_below(r, 8)) {
    case 0: add_pad(r, x); return;
    case 1: add_concat(r, x); return;
    case 2: x.n = sliced(r, x.n); break;
    case 3: x.n = flipped(r, x.n); break;
    case 4: x.n = broadcast(r, x.n); break;
    case 5: x.n = reshaped(r, x.n); break;
    default: x.n = transposed(r, x.n); break;
    }
    /* Often views come in chains. */
    if (x.n && tcc__gen_chance(r, 30)) x.n = tcc__gen_chance(r, 50) ? reshaped(r, x.n) : transposed(r, x.n);
    if (x.n != from) tcc__gen_keep(r, x);
}

/* -- Reductions -- */

static tcc_dims random_axes(tcc_gen *r, int rank) {
    tcc_dims axes = {0};
    /* Rows and columns are the common cases. */
    if (tcc__gen_chance(r, 50)) {
        axes = (tcc_dims){1, {tcc__gen_chance(r, 60) ? rank - 1 : tcc__gen_below(r, rank)}};
        return axes;
    }
    for (int i = 0; i < rank; i++)
        if (tcc__gen_chance(r, 50)) axes.v[axes.count++] = i;
    return axes.count ? axes : tcc_ir_axes_from(0, rank);
}

static double count_of(const tcc_node *x, const tcc_dims *axes) {
    double count = 1;
    for (int i = 0; i < axes->count; i++) count *= (double)x->type.dims[axes->v[i]];
    return count;
}

static tcc_gen_value reduced(tcc_gen *r, tcc_op op, tcc_gen_value x, const tcc_dims *axes) {
    const double count = op == TCC_OP_REDUCE_SUM ? count_of(x.n, axes) : 1;
    tcc_node *n = tcc_ir_reduce(r->g, op, x.n, axes);
    if (op == TCC_OP_REDUCE_MEAN) return tcc__gen_made(n, x.lo, x.hi, x.err, -1);
    if (op == TCC_OP_REDUCE_M2) {
        const double width = x.hi - x.lo, all = count_of(x.n, axes);
        return tcc__gen_made(n, 0, all * width * width, all * 2 * width * x.err, -1);
    }
    const double least = min2(x.lo, count * x.lo), most = max2(x.hi, count * x.hi);
    return tcc__gen_made(n, least, most, count * x.err, x.grid);
}

/* x - max x, x / sum x, ...: what softmax and the norms are made of. The pattern's result. */
static tcc_gen_value add_row_pattern(tcc_gen *r, tcc_gen_value x, const tcc_dims *axes) {
    tcc_gen_value y = {0};
    switch (tcc__gen_below(r, 3)) {
    case 0: {
        tcc_gen_value top = reduced(r, TCC_OP_REDUCE_MAX, x, axes);
        tcc_node *n = tcc_ir_binary(r->g, TCC_OP_SUB, x.n,
                                    tcc_ir_unreduce(r->g, top.n, x.n->type.rank, x.n->type.dims, axes));
        y = tcc__gen_made(n, x.lo - x.hi, 0, 2 * x.err, x.grid);
        break;
    }
    case 1: {
        x = tcc__gen_into(r, x, 0.5, 4);
        tcc_gen_value sum = reduced(r, TCC_OP_REDUCE_SUM, x, axes);
        if (!x.n) return x;
        const double relative = (x.err + (sum.n ? sum.err / count_of(x.n, axes) : 0)) / 0.5;
        tcc_node *n = tcc_ir_binary(r->g, TCC_OP_DIV, x.n,
                                    tcc_ir_unreduce(r->g, sum.n, x.n->type.rank, x.n->type.dims, axes));
        y = tcc__gen_made(n, 0, 1, relative, -1);
        break;
    }
    default: {
        x = tcc__gen_into(r, x, -2, 2);
        if (!x.n) return x;
        tcc_node *mean = tcc__gen_chance(r, 50) ? tcc_ir_mean(r->g, x.n, axes)
                                                : reduced(r, TCC_OP_REDUCE_MEAN, x, axes).n;
        if (tcc__gen_chance(r, 60)) tcc__gen_keep(r, reduced(r, TCC_OP_REDUCE_M2, x, axes));
        const double width = x.hi - x.lo;
        tcc_node *n = tcc_ir_binary(r->g, TCC_OP_SUB, x.n,
                                    tcc_ir_unreduce(r->g, mean, x.n->type.rank, x.n->type.dims, axes));
        y = tcc__gen_made(n, -width, width, 2 * x.err, -1);
    }
    }
    tcc__gen_keep(r, y);
    return y;
}

/* Work on rows, and column sums of it: what the gradients of norms and biases are made of. */
static void add_column_sums(tcc_gen *r) {
    tcc_type type = {tcc__gen_float(r), 2, {16 + tcc__gen_below(r, 60), 2 + tcc__gen_below(r, 80)}};
    if (tcc__gen_chance(r, 30)) type = (tcc_type){type.dtype, 3, {2, type.dims[0] / 2, type.dims[1]}};
    if (!tcc__gen_fits(r, &type)) return;
    const tcc_dims rows = {1, {type.rank - 1}}, columns = {type.rank - 1, {0, 1}};
    tcc_gen_value x = tcc__gen_input(r, &type), y = add_row_pattern(r, x, &rows);
    if (!x.n || !y.n) return;
    if (tcc__gen_chance(r, 70)) tcc__gen_keep(r, reduced(r, TCC_OP_REDUCE_SUM, y, &columns));
    if (tcc__gen_chance(r, 50)) tcc__gen_keep(r, reduced(r, TCC_OP_REDUCE_SUM, x, &columns));
}

static void add_argmax(tcc_gen *r) {
    tcc_gen_value x = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT | TCC_GEN_INT, 1, TCC_MAX_RANK, true});
    if (!x.n) return;
    tcc_attrs attrs = {.axis.axis = tcc__gen_below(r, x.n->type.rank)};
    tcc_node *n = tcc__gen_build(r, TCC_OP_ARGMAX, &x.n, 1, &attrs, NULL);
    tcc__gen_keep(r, (tcc_gen_value){n, 0, (double)x.n->type.dims[attrs.axis.axis], 0, 0});
}

void tcc__gen_reduce(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_REDUCE_SUM, TCC_OP_REDUCE_SUM, TCC_OP_REDUCE_MAX, TCC_OP_REDUCE_MIN};
    if (tcc__gen_chance(r, 8)) {
        add_argmax(r);
        return;
    }
    if (tcc__gen_chance(r, 15)) {
        add_column_sums(r);
        return;
    }
    tcc_gen_value x =
        tcc__gen_pick(r, (tcc_gen_want){tcc__gen_chance(r, 92) ? TCC_GEN_FLOAT : TCC_GEN_INT, 1, TCC_MAX_RANK, false});
    if (!x.n || x.n->type.dtype == TCC_U8) return; /* sums of bytes overflow */
    const tcc_dims axes = random_axes(r, x.n->type.rank);
    if (tcc_dtype_is_float(x.n->type.dtype) && tcc__gen_chance(r, 35)) add_row_pattern(r, x, &axes);
    else tcc__gen_keep(r, reduced(r, TCC_GEN_ONE_OF(r, ops), x, &axes));
}

void tcc__gen_scan(tcc_gen *r) {
    tcc_gen_value x = pick_float(r, 1, false);
    if (!x.n) return;
    tcc_attrs attrs = {.scan = {.axis = tcc__gen_below(r, x.n->type.rank), .reverse = tcc__gen_chance(r, 40)}};
    const double count = (double)x.n->type.dims[attrs.scan.axis];
    tcc_node *n = tcc__gen_build(r, TCC_OP_CUMSUM, &x.n, 1, &attrs, NULL);
    tcc__gen_keep(r, tcc__gen_made(n, min2(x.lo, count * x.lo), max2(x.hi, count * x.hi), count * x.err, x.grid));
}

/* -- Indexing -- */

void tcc__gen_take(tcc_gen *r) {
    tcc_gen_value x = pick_float(r, 1, false);
    if (!x.n) return;
    tcc_type index = x.n->type, result = {0};
    tcc_attrs attrs = {.axis.axis = tcc__gen_below(r, x.n->type.rank)};
    const bool along = tcc__gen_chance(r, 50);
    if (along) {
        result = index;
        result.dims[attrs.axis.axis] = index.dims[attrs.axis.axis] = tcc__gen_extent(r, 40);
    } else {
        index.rank = (int)tcc__gen_below(r, x.n->type.rank > 6 ? 2 : 3);
        for (int i = 0; i < index.rank; i++) index.dims[i] = tcc__gen_extent(r, 40);
        for (int i = 0; i < index.rank; i++) result.dims[result.rank++] = index.dims[i];
        for (int i = 0; i < x.n->type.rank; i++)
            if (i != attrs.axis.axis) result.dims[result.rank++] = x.n->type.dims[i];
    }
    if (!tcc__gen_fits(r, &result)) return;
    tcc_node *operands[] = {x.n, tcc__gen_index(r, index.rank, index.dims)};
    x.n = tcc__gen_build(r, along ? TCC_OP_TAKE_ALONG : TCC_OP_TAKE, operands, 2, &attrs, NULL);
    tcc__gen_keep(r, (tcc_gen_value){x.n, min2(x.lo, 0), max2(x.hi, 0), x.err, x.grid});
}

void tcc__gen_scatter(tcc_gen *r) {
    tcc_gen_value base = pick_float(r, 1, false);
    if (!base.n) return;
    const int axis = (int)tcc__gen_below(r, base.n->type.rank);
    const bool along = tcc__gen_chance(r, 50);
    tcc_attrs attrs = {.axis.axis = axis};
    tcc_type index = base.n->type, updates = base.n->type;
    if (along) {
        updates.dims[axis] = index.dims[axis] = tcc__gen_extent(r, 40);
    } else {
        index = (tcc_type){.rank = 1, .dims = {tcc__gen_extent(r, 40)}};
        updates.dims[axis] = index.dims[0];
    }
    if (!tcc__gen_fits(r, &updates)) return;
    tcc_gen_value u = tcc__gen_like(r, &updates);
    tcc_node *operands[] = {base.n, tcc__gen_index(r, index.rank, index.dims), u.n};
    tcc_node *n = tcc__gen_build(r, along ? TCC_OP_SCATTER_ADD_ALONG : TCC_OP_SCATTER_ADD, operands, 3, &attrs, NULL);
    /* At worst, all go to one place. */
    const double count = (double)updates.dims[axis];
    tcc__gen_keep(r, tcc__gen_made(n, base.lo + min2(0, count * u.lo), base.hi + max2(0, count * u.hi),
                                   base.err + count * u.err, join_grid(base.grid, u.grid)));
}
