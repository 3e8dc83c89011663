/* SPDX-License-Identifier: MIT
 * Loops without branches, which the compiler turns into vector code. On x86-64 they exist once for each vector width.
 */
#include "ir/noise_loops.h"
#include "ir/support/narrow.h"
#include "ir/support/widths.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

#define SIGN (UINT64_C(1) << 63)
#define EXPONENT UINT64_C(0x7ff0000000000000)

INLINE uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint64_t scrambled(uint64_t x) { /* SplitMix64, Steele et al. 2014 */
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 30) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* All bits, or none. Conditions are these, for a bool would become a branch. */
#define IF(condition) ((condition) ? ~UINT64_C(0) : 0)

INLINE double select(uint64_t condition, double a, double b) {
    return double_of((bits_of(a) & condition) | (bits_of(b) & ~condition));
}

INLINE uint64_t is_finite(double x) { return IF((bits_of(x) & EXPONENT) != EXPONENT); }

/* `alike`: of p->alike and p->too, 1: of the first alone, 0: neither. */
INLINE double push(const tcc_pushes *p, int alike, int64_t e) {
    uint64_t key = (uint64_t)e;
    if (alike == 1) key = scrambled(bits_of(p->alike[e]));
    if (alike == 2) key = scrambled(bits_of(p->alike[e]) + scrambled(bits_of(p->too[e])));
    const uint64_t x = scrambled(p->seed + key), negative = (x & 1) ^ p->reversed;
    return 0.5 * double_of((x >> 12 | UINT64_C(0x3ff) << 52) | negative << 63);
}

double tcc__noise_push(const tcc_pushes *p, int64_t e) { return push(p, p->too ? 2 : p->alike ? 1 : 0, e); }

/* Of what is no NaN: tcc__to_odd_f32, then tcc__narrow_bf16, without a branch. */
INLINE double rounded_bf16(double x) {
    const float f = (float)x;
    const uint64_t even = IF((double)f != x) & IF((double)f - (double)f == 0), far = IF(fabs((double)f) > fabs(x));
    const uint32_t bits = tcc__bits_of(f), odd = bits + (~bits & 1 & (uint32_t)even) * (1 - 2 * ((uint32_t)far & 1));
    return (double)tcc__float_of((odd + 0x7fffu + (odd >> 16 & 1)) & 0xffff0000u);
}

INLINE double rounded(tcc_dtype t, double x) {
    double y = x;
    if (t == TCC_F32) y = (double)(float)x;
    if (t == TCC_BF16) y = rounded_bf16(x);
    if (t == TCC_F16) y = (double)tcc_f16_to_f32(tcc__narrow_f16(tcc__to_odd_f32(x)));
    return y;
}

/* Whether it is not held exactly. The interpreter's own f64 does not tell: whole numbers are. */
INLINE uint64_t is_rounded(tcc_dtype t, double x) {
    return is_finite(x) & (t == TCC_F64 ? IF(x != floor(x)) : IF(x != rounded(t, x)));
}

INLINE double moved_by(const tcc_noise_points *n, double x) {
    const double size = n->unit * fabs(x);
    return n->units * select(IF(size > n->smallest), size, n->smallest);
}

INLINE bool points_of(const tcc_pushes *pushes, const tcc_noise_points *points, double *restrict out, int alike,
                      bool all, tcc_dtype held, int64_t count) {
    const tcc_pushes p = *pushes;
    const tcc_noise_points n = *points;
    uint64_t changed = 0;
    for (int64_t e = 0; e < count; e++) {
        const double x = out[e], by = moved_by(&n, x);
        const double y = x + push(&p, alike, e) * double_of(bits_of(by) | (bits_of(x) & SIGN));
        const uint64_t errs = IF(x != 0) & (all ? is_finite(x) : is_rounded(held, x));
        out[e] = select(errs, y, x);
        changed |= errs;
    }
    return changed != 0;
}

INLINE bool sums_of(const tcc_pushes *pushes, const tcc_noise_sums *sums, double *restrict out, int alike, bool rounds,
                    tcc_dtype held, int64_t count) {
    const tcc_pushes p = *pushes;
    const tcc_noise_sums s = *sums;
    const uint64_t whole = IF(s.whole);
    uint64_t changed = 0;
    for (int64_t e = 0; e < count; e++) {
        const double x = out[e], terms = s.terms[e];
        const uint64_t exact = whole & IF(terms < 0x1p24), own = rounds ? ~exact | is_rounded(held, x) : 0;
        const double by = select(exact, 0, s.units * terms) + select(own, moved_by(&s.own, x), 0);
        const uint64_t errs = IF(terms != 0) & is_finite(terms) & (~exact | own);
        const double y = x + push(&p, alike, e) * by;
        out[e] = select(errs, y, x);
        changed |= errs;
    }
    return changed != 0;
}

INLINE void factors_of(const tcc_pushes *pushes, double unit, const double *restrict in, double *restrict out,
                       int alike, int64_t count) {
    const tcc_pushes p = *pushes;
    for (int64_t e = 0; e < count; e++) out[e] = in[e] * (1 + unit * push(&p, alike, e));
}

INLINE bool any_beyond(double size, const double *exact, const double *x, int64_t count) {
    uint64_t beyond = 0;
    for (int64_t e = 0; e < count; e++) beyond |= IF(fabs(x[e]) > size) | IF(fabs(2 * exact[e] - x[e]) > size);
    return beyond != 0;
}

INLINE bool round_all_of(double *x, tcc_dtype t, int64_t count) {
    uint64_t changed = 0;
    for (int64_t e = 0; e < count; e++) {
        const double from = x[e], to = select(IF(from != from), (double)NAN, rounded(t, from));
        changed |= IF(to != from);
        x[e] = to;
    }
    return changed != 0;
}

/* A loop for each type. */
#define BY_TYPE(dtype, loop, ...)                               \
    ((dtype) == TCC_F32    ? loop(__VA_ARGS__, TCC_F32, count)  \
     : (dtype) == TCC_BF16 ? loop(__VA_ARGS__, TCC_BF16, count) \
     : (dtype) == TCC_F16  ? loop(__VA_ARGS__, TCC_F16, count)  \
                           : loop(__VA_ARGS__, TCC_F64, count))

INLINE bool points(const tcc_pushes *p, const tcc_noise_points *n, double *out, int64_t count) {
    if (n->all && p->alike) return points_of(p, n, out, 1, true, TCC_F64, count);
    if (n->all) return points_of(p, n, out, 0, true, TCC_F64, count);
    return p->alike ? BY_TYPE(n->held, points_of, p, n, out, 1, false)
                    : BY_TYPE(n->held, points_of, p, n, out, 0, false);
}

INLINE bool sums(const tcc_pushes *p, const tcc_noise_sums *s, double *out, int64_t count) {
    if (!s->rounds && p->alike) return sums_of(p, s, out, 2, false, TCC_F64, count);
    if (!s->rounds) return sums_of(p, s, out, 0, false, TCC_F64, count);
    return p->alike ? BY_TYPE(s->own.held, sums_of, p, s, out, 2, true)
                    : BY_TYPE(s->own.held, sums_of, p, s, out, 0, true);
}

INLINE void factors(const tcc_pushes *p, double unit, const double *in, double *out, int64_t count) {
    if (p->alike) factors_of(p, unit, in, out, 1, count);
    else factors_of(p, unit, in, out, 0, count);
}

INLINE bool round_all(tcc_dtype dtype, double *x, int64_t count) { return BY_TYPE(dtype, round_all_of, x); }

#define VARIANT(scope, name, target)                                                                               \
    target static bool points_##name(const tcc_pushes *p, const tcc_noise_points *n, double *out, int64_t count) { \
        return points(p, n, out, count);                                                                           \
    }                                                                                                              \
    target static bool sums_##name(const tcc_pushes *p, const tcc_noise_sums *s, double *out, int64_t count) {     \
        return sums(p, s, out, count);                                                                             \
    }                                                                                                              \
    target static void factors_##name(const tcc_pushes *p, double unit, const double *in, double *out,             \
                                      int64_t count) {                                                             \
        factors(p, unit, in, out, count);                                                                          \
    }                                                                                                              \
    target static bool any_beyond_##name(double size, const double *exact, const double *x, int64_t count) {       \
        return any_beyond(size, exact, x, count);                                                                  \
    }                                                                                                              \
    target static bool round_all_##name(tcc_dtype dtype, double *x, int64_t count) {                               \
        return round_all(dtype, x, count);                                                                         \
    }                                                                                                              \
    scope const tcc_noise_loops tcc__noise_loops_##name = {points_##name, sums_##name, factors_##name,             \
                                                           any_beyond_##name, round_all_##name};

TCC_FOR_EACH_WIDTH(VARIANT)

const tcc_noise_loops *tcc__noise_loops_best(void) { return TCC_WIDEST(tcc__noise_loops_); }
