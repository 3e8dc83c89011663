/* SPDX-License-Identifier: MIT
 * Interpreter rules of leaves, random draws and element-by-element operations. */
#include "ir/eval_rules.h"
#include "ir/support/philox.h"

#include <math.h>
#include <string.h>

/* -- Leaves -- */

TCC_EVAL_RULE(constant) {
    const tcc_doubles *values = &n->attrs->constant.values;
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) {
        double v = values->v[values->count == 1 ? 0 : e];
        if (tcc__value_is_float(out)) out->f[e] = v; /* rounded when the node was built */
        else out->i[e] = (int64_t)v;
    }
    return TCC_OK;
}

/* Element e of iota, which goes to element `to` of `out`. */
static void set_iota(const tcc_node *n, int64_t e, tcc_value *out, int64_t to) {
    int64_t strides[TCC_MAX_RANK];
    tcc__strides(&n->type, strides);
    const int64_t index = e / strides[n->attrs->axis.axis] % n->type.dims[n->attrs->axis.axis];
    if (tcc__value_is_float(out)) out->f[to] = tcc_dtype_round(out->type.dtype, (double)index);
    else out->i[to] = tcc__wrap(out->type.dtype, index);
}

TCC_EVAL_RULE(iota) {
    for (int64_t e = 0, count = tcc_type_numel(&out->type); e < count; e++) set_iota(n, e, out, e);
    return TCC_OK;
}

/* -- Random draws: the counter and the key are described at `rng` in attrs.def -- */

void tcc__eval_draw(const tcc_value *key_value, int64_t id, int64_t block, uint32_t words[4]) {
    uint64_t seed = (uint64_t)key_value->i[0], step = (uint64_t)key_value->i[1], at = (uint64_t)block;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)id, (uint32_t)step};
    tcc_philox4x32(key, counter, words);
}

/* Element e of a draw, whose block is `words`. */
static void set_draw(const tcc_node *n, const uint32_t words[4], int64_t e, tcc_value *out, int64_t to) {
    const uint32_t *pair = words + e % 4 / 2 * 2;
    const double u1 = ((double)(pair[0] >> 8) + 1) * 0x1p-24, u2 = (double)(pair[1] >> 8) * 0x1p-24;
    if (n->op == TCC_OP_RNG_BITS) out->i[to] = (int32_t)words[e % 4];
    else if (n->op == TCC_OP_RNG_UNIFORM) out->f[to] = (double)(words[e % 4] >> 8) * 0x1p-24;
    else out->f[to] = sqrt(-2 * log(u1)) * (e % 2 == 0 ? cos(2 * M_PI * u2) : sin(2 * M_PI * u2));
}

static tcc_status eval_draws(const tcc_node *n, const tcc_value *key, tcc_value *out) {
    uint32_t words[4];
    for (int64_t e = 0, count = tcc_type_numel(&out->type); e < count; e++) {
        if (e % 4 == 0) tcc__eval_draw(key, n->attrs->rng.id, e / 4, words);
        set_draw(n, words, e, out, e);
    }
    return TCC_OK;
}

TCC_EVAL_RULE(rng_bits) { return eval_draws(n, in[0], out); }
TCC_EVAL_RULE(rng_uniform) { return eval_draws(n, in[0], out); }
TCC_EVAL_RULE(rng_normal) { return eval_draws(n, in[0], out); }

void tcc__eval_placed(const tcc_node *n, const int64_t *key, int64_t e, tcc_value *out, int64_t to) {
    const tcc_value key_value = {.type = {TCC_I64, 1, {2}}, .i = (int64_t *)key};
    uint32_t words[4];
    switch (n->op) {
    case TCC_OP_CONSTANT:
        if (tcc__value_is_float(out)) out->f[to] = n->attrs->constant.values.v[e];
        else out->i[to] = (int64_t)n->attrs->constant.values.v[e];
        return;
    case TCC_OP_IOTA: set_iota(n, e, out, to); return;
    default:
        tcc__eval_draw(&key_value, n->attrs->rng.id, e / 4, words);
        set_draw(n, words, e, out, to);
        return;
    }
}

/* -- Unary -- */

/* y = expression of x, for floats */
#define UNARY_FLOAT(name, expression)               \
    TCC_EVAL_RULE(name) {                           \
        int64_t count = tcc_type_numel(&out->type); \
        for (int64_t e = 0; e < count; e++) {       \
            double x = in[0]->f[e];                 \
            out->f[e] = (expression);               \
        }                                           \
        return TCC_OK;                              \
    }
/* One expression for floats, another for integers (x is uint64_t there, so that overflow wraps). */
#define UNARY(name, float_expression, int_expression)                              \
    TCC_EVAL_RULE(name) {                                                          \
        int64_t count = tcc_type_numel(&out->type);                                \
        if (tcc__value_is_float(out)) {                                            \
            for (int64_t e = 0; e < count; e++) {                                  \
                double x = in[0]->f[e];                                            \
                out->f[e] = (float_expression);                                    \
            }                                                                      \
        } else {                                                                   \
            for (int64_t e = 0; e < count; e++) {                                  \
                uint64_t x = (uint64_t)in[0]->i[e];                                \
                out->i[e] = tcc__wrap(out->type.dtype, (int64_t)(int_expression)); \
            }                                                                      \
        }                                                                          \
        return TCC_OK;                                                             \
    }

UNARY(neg, -x, 0 - x)
UNARY(abs, fabs(x), (int64_t)x < 0 ? 0 - x : x)
UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x, ((int64_t)x > 0) - ((int64_t)x < 0)) /* keeps NaN */
UNARY_FLOAT(exp, exp(x))
UNARY_FLOAT(expm1, expm1(x))
UNARY_FLOAT(log, log(x))
UNARY_FLOAT(log1p, log1p(x))
UNARY_FLOAT(sqrt, sqrt(x))
UNARY_FLOAT(rsqrt, 1 / sqrt(x))
UNARY_FLOAT(sin, sin(x))
UNARY_FLOAT(cos, cos(x))
UNARY_FLOAT(atan, atan(x))
UNARY_FLOAT(sinh, sinh(x))
UNARY_FLOAT(cosh, cosh(x))
UNARY_FLOAT(tanh, tanh(x))
UNARY_FLOAT(sigmoid, 1 / (1 + exp(-x)))
UNARY_FLOAT(erf, erf(x))

/* Winitzki's approximation, then Newton's method, by what is left to 1 where that is little. */
static double inverse_erf(double y) {
    enum { STEPS = 5 };
    const double a = fabs(y), c = 0.147, l = log1p(-a * a), half = 2 / (M_PI * c) + l / 2;
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, y) : NAN;
    double x = sqrt(sqrt(half * half - l / c) - half);
    for (int i = 0; i < STEPS; i++) {
        const double miss = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x);
        x -= miss * exp(x * x) / M_2_SQRTPI;
    }
    return copysign(x, y);
}
UNARY_FLOAT(erfinv, inverse_erf(x))

UNARY_FLOAT(normal_density, exp(-0.5 * x * x) * (0.5 * M_SQRT1_2 * M_2_SQRTPI))

static double gelu_tanh_inner(double x) { return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }
UNARY_FLOAT(gelu_tanh, 0.5 * x * (1 + gelu_tanh_inner(x)))

UNARY_FLOAT(floor, floor(x))
UNARY_FLOAT(ceil, ceil(x))
UNARY_FLOAT(round, nearbyint(x))

TCC_EVAL_RULE(isfinite) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) out->i[e] = tcc__value_is_float(in[0]) ? isfinite(in[0]->f[e]) : 1;
    return TCC_OK;
}

TCC_EVAL_RULE(not) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++)
        out->i[e] = out->type.dtype == TCC_BOOL ? !in[0]->i[e] : tcc__wrap(out->type.dtype, ~in[0]->i[e]);
    return TCC_OK;
}

TCC_EVAL_RULE(cast) {
    int64_t count = tcc_type_numel(&out->type);
    tcc_dtype to = out->type.dtype;
    bool from_float = tcc__value_is_float(in[0]), to_float = tcc__value_is_float(out);
    if (from_float && to_float) {
        memcpy(out->f, in[0]->f, (size_t)count * sizeof *out->f);
        tcc_value_round(out);
        return TCC_OK;
    }
    for (int64_t e = 0; e < count; e++) {
        double x = from_float ? in[0]->f[e] : (double)in[0]->i[e];
        if (to_float) out->f[e] = tcc_dtype_round(to, x);
        else out->i[e] = from_float ? (int64_t)tcc_dtype_round(to, x) : tcc__wrap(to, in[0]->i[e]);
    }
    return TCC_OK;
}

/* -- Binary -- */

#define BINARY(name, float_expression, int_type, int_expression)                   \
    TCC_EVAL_RULE(name) {                                                          \
        int64_t count = tcc_type_numel(&out->type);                                \
        if (tcc__value_is_float(out)) {                                            \
            for (int64_t e = 0; e < count; e++) {                                  \
                double a = in[0]->f[e], b = in[1]->f[e];                           \
                out->f[e] = (float_expression);                                    \
            }                                                                      \
        } else {                                                                   \
            for (int64_t e = 0; e < count; e++) {                                  \
                int_type a = (int_type)in[0]->i[e], b = (int_type)in[1]->i[e];     \
                out->i[e] = tcc__wrap(out->type.dtype, (int64_t)(int_expression)); \
            }                                                                      \
        }                                                                          \
        return TCC_OK;                                                             \
    }
#define BINARY_BITS(name, operator)                                                       \
    TCC_EVAL_RULE(name) {                                                                 \
        int64_t count = tcc_type_numel(&out->type);                                       \
        for (int64_t e = 0; e < count; e++) out->i[e] = in[0]->i[e] operator in[1]->i[e]; \
        return TCC_OK;                                                                    \
    }
#define COMPARE(name, operator)                                                                       \
    TCC_EVAL_RULE(name) {                                                                             \
        int64_t count = tcc_type_numel(&out->type);                                                   \
        bool floats = tcc__value_is_float(in[0]);                                                     \
        for (int64_t e = 0; e < count; e++)                                                           \
            out->i[e] = floats ? in[0]->f[e] operator in[1]->f[e] : in[0]->i[e] operator in[1]->i[e]; \
        return TCC_OK;                                                                                \
    }

/* INT64_MIN / -1 overflows in C; the wrapped quotient is the wrapped negative. */
static int64_t divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
static int64_t remain(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }
static double smaller(double a, double b) { return isnan(a) || a < b ? a : b; }

BINARY(add, a + b, uint64_t, a + b)
BINARY(sub, a - b, uint64_t, a - b)
BINARY(mul, a *b, uint64_t, a *b)
BINARY(div, a / b, int64_t, divide(a, b))
BINARY(rem, fmod(a, b), int64_t, remain(a, b))
BINARY(max, larger(a, b), int64_t, a > b ? a : b)
BINARY(min, smaller(a, b), int64_t, a < b ? a : b)
BINARY_BITS(and, &)
BINARY_BITS(or, |)
BINARY_BITS(xor, ^)

/* The places that a shift moves by: all of them where `by` is out of range. */
static int places(const tcc_type *type, int64_t by) {
    const int bits = type->dtype == TCC_I64 ? 64 : type->dtype == TCC_I32 ? 32 : 8;
    return by >= 0 && by < bits ? (int)by : bits;
}

TCC_EVAL_RULE(shift_left) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) {
        const int by = places(&out->type, in[1]->i[e]);
        out->i[e] = by == 64 ? 0 : tcc__wrap(out->type.dtype, (int64_t)((uint64_t)in[0]->i[e] << by));
    }
    return TCC_OK;
}

TCC_EVAL_RULE(shift_right) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) {
        const int64_t a = in[0]->i[e], by = places(&out->type, in[1]->i[e]);
        out->i[e] = by == 64 ? -(a < 0) : a >> by;
    }
    return TCC_OK;
}

COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

TCC_EVAL_RULE(pow) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) out->f[e] = pow(in[0]->f[e], in[1]->f[e]);
    return TCC_OK;
}

/* With t = tanh(c (x + k x^3)): dy ((1 + t) / 2 + x (1 - t^2) c (1 + 3 k x^2) / 2). */
TCC_EVAL_RULE(gelu_tanh_grad) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) {
        double x = in[0]->f[e], t = gelu_tanh_inner(x);
        double slope = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
        out->f[e] = in[1]->f[e] * 0.5 * (1 + t + x * (1 - t * t) * slope);
    }
    return TCC_OK;
}

TCC_EVAL_RULE(select) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) {
        const tcc_value *from = in[in[0]->i[e] ? 1 : 2];
        if (tcc__value_is_float(out)) out->f[e] = from->f[e];
        else out->i[e] = from->i[e];
    }
    return TCC_OK;
}
