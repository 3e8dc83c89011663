/* SPDX-License-Identifier: MIT
 * Elementary functions on f32 that are shorter with AVX-512. One instruction looks up a table of sixteen entries for
 * every lane. Another multiplies by a power of two that may lie beyond the range of exponents. Others take a number
 * apart.
 *
 * Vectors of other widths are computed as full ones, so that all widths give the same bits. */
#include "codegen/emit/math_ops.h"

enum { LANES = 16, ALL = 0xffff, ROUND_AS_USUAL = 4 };

bool tcc_math_has_avx512(const tcc_emitter *e) { return e->target->lanes == LANES; }

/* Lanes first, first + 1, ... of x as a full vector; those past the end of x hold anything. */
static tcc_emit_value part(tcc_emitter *e, tcc_emit_value x, int first) {
    int indices[LANES], lanes = tcc_emit_lanes_of(tcc_emit_type_of(x));
    if (lanes == LANES) return x;
    if (lanes == 1) {
        tcc_emit_type full = tcc_emit_vector_type(tcc_emit_type_of(x), LANES);
        return tcc_emit_insert(e, tcc_emit_poison(full), x, tcc_emit_i32(e, 0));
    }
    for (int i = 0; i < LANES; i++) indices[i] = first + i < lanes ? first + i : -1;
    return tcc_emit_shuffle(e, x, NULL, indices, LANES);
}

/* f of all lanes of x, and of those of y unless that is NULL. */
static tcc_emit_value by_parts(tcc_emitter *e, tcc_emit_value (*f)(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y),
                               tcc_emit_value x, tcc_emit_value y) {
    enum { MOST = 64 };
    int indices[MOST], lanes = tcc_emit_lanes_of(tcc_emit_type_of(x));
    tcc_emit_value all = f(e, part(e, x, 0), y ? part(e, y, 0) : NULL);
    if (lanes == 1) return tcc_emit_extract(e, all, tcc_emit_i32(e, 0));
    for (int i = 0; i < MOST; i++) indices[i] = i;
    if (lanes < LANES) return tcc_emit_shuffle(e, all, NULL, indices, lanes);
    for (int first = LANES; first < lanes; first += LANES) { /* both operands of a shuffle have one width */
        tcc_emit_value next = f(e, part(e, x, first), y ? part(e, y, first) : NULL);
        if (first > LANES) {
            for (int i = LANES; i < first; i++) indices[i] = -1;
            next = tcc_emit_shuffle(e, next, NULL, indices, first);
        }
        for (int i = LANES; i < MOST; i++) indices[i] = i;
        all = tcc_emit_shuffle(e, all, next, indices, first + LANES);
    }
    return all;
}

/* The entry that the low four bits of each lane's index name. */
static tcc_emit_value look_up(tcc_emitter *e, const float *table, tcc_emit_value index) {
    tcc_emit_value entries[LANES];
    for (int i = 0; i < LANES; i++) entries[i] = LLVMConstReal(e->f32, (double)table[i]);
    tcc_emit_value arguments[] = {LLVMConstVector(entries, LANES), index};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.permvar.sf.512", NULL, arguments, 2);
}

static tcc_emit_value scale(tcc_emitter *e, tcc_emit_value x, tcc_emit_value whole) {
    tcc_emit_value arguments[] = {x, whole, x, LLVMConstInt(e->i16, ALL, false), tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", NULL, arguments, 5);
}

tcc_emit_value tcc_math_avx512_scale(tcc_emitter *e, tcc_emit_value x, tcc_emit_value whole) {
    return by_parts(e, scale, x, whole);
}

/* erf(|x|), and its slope if asked for. On each of sixteen intervals of |x|: value + t p(t) with t = |x| - centre,
 * fitted so that both are near: the slope to 4e-8, erf to 8e-10 beside the rounding of its value. Centres are numbers
 * whose erf is nearly f32. The first value is |x| itself, so that small results keep their relative precision. The last
 * centre is where the intervals end: from there on erf is 1 and its slope 0. */
static tcc_emit_value erf_of_size(tcc_emitter *e, tcc_emit_value size, tcc_emit_value *slope) {
    static const double intervals_per_unit = 3.5714285373687744, end = 4.199999809265137;
    static const float centres[LANES] = {0.0f,       0.27921605f, 0.5625276f, 0.83972937f, 1.1212633f, 1.4003721f,
                                         1.6810067f, 1.9579005f,  2.2412395f, 2.5184948f,  2.7970078f, 3.0817204f,
                                         3.359292f,  3.642999f,   3.923f,     4.2f};
    static const float values[LANES] = {0.0f,       0.307062f,   0.57369715f, 0.7649919f, 0.8871939f,  0.95234424f,
                                        0.9825602f, 0.9943752f,  0.99847347f, 0.9996315f, 0.99992365f, 0.9999869f,
                                        0.999998f,  0.99999976f, 1.0f,        1.0f};
    /* The coefficients of p, the constants first. */
    static const float p[][LANES] = {
        {0.12837917f, 1.0437506f, 0.82229584f, 0.5574608f, 0.3209567f, 0.15877615f, 0.066870235f, 0.024414148f,
         0.0074289357f, 0.001985204f, 4.517109e-04f, 8.471549e-05f, 1.4174756e-05f, 1.9442496e-06f, 2.3372883e-07f,
         0.0f},
        {-2.2044846e-09f, -0.29143193f, -0.46256408f, -0.46811616f, -0.359877f, -0.22234572f, -0.112409316f,
         -0.04780049f, -0.016650029f, -0.0049997214f, -0.0012634341f, -2.6106936e-04f, -4.7616744e-05f, -7.082965e-06f,
         -9.16933e-07f, -4.4290905e-06f},
        {-0.376122f, -0.2936615f, -0.10063351f, 0.07623084f, 0.162021f, 0.1546535f, 0.1036869f, 0.054256283f,
         0.022401856f, 0.0077325064f, 0.002205021f, 5.079657e-04f, 1.0185824e-04f, 1.6538927e-05f, 2.316948e-06f,
         -1.6392244e-04f},
        {-1.514356e-04f, 0.13813972f, 0.18248817f, 0.124027796f, 0.029129444f, -0.034166753f, -0.049678247f,
         -0.03717856f, -0.019554187f, -0.008071283f, -0.0026632745f, -6.957011e-04f, -1.5527001e-04f, -2.7756014e-05f,
         -4.237067e-06f, -0.00245976f},
        {0.114862934f, 0.07208826f, -0.010465485f, -0.06375546f, -0.061274324f, -0.027344828f, 0.0020416002f,
         0.012680669f, 0.010778863f, 0.005834068f, 0.0023426104f, 7.180508e-04f, 1.8263586e-04f, 3.6720685e-05f,
         6.216994e-06f, -0.016045006f},
        {-0.012061616f, -0.043274567f, -0.04634523f, -0.015016045f, 0.014900183f, 0.021635152f, 0.012009363f,
         0.0015590605f, -0.002810324f, -0.0027085163f, -0.0014441219f, -5.490637e-04f, -1.6051368e-04f, -3.7331032e-05f,
         -7.0391766e-06f, -0.038183805f},
    };
    enum { DEGREE = sizeof p / sizeof *p - 1 };
    tcc_emit_value near = tcc_math_at_most(e, size, end), magic = constant(e, size, 12582912.0);
    /* Adding 1.5 * 2^23 leaves the number of the nearest centre in the low bits. */
    tcc_emit_value number = tcc_emit_fma(e, near, constant(e, size, intervals_per_unit), magic);
    tcc_emit_value index = tcc_emit_bitcast(e, number, tcc_emit_type_like(e, e->i32, tcc_emit_type_of(size)));
    tcc_emit_value first = tcc_emit_fcmp(e, TCC_FCMP_OEQ, number, magic);
    tcc_emit_value t = tcc_emit_fsub(e, near, look_up(e, centres, index));
    tcc_emit_value sum = look_up(e, p[DEGREE], index), derivative = sum; /* of t p(t) */
    for (int i = DEGREE - 1; i >= 0; i--) {
        sum = tcc_emit_fma(e, sum, t, look_up(e, p[i], index));
        if (slope) derivative = tcc_emit_fma(e, derivative, t, sum);
    }
    if (slope) {
        tcc_emit_value one_more = tcc_emit_fadd(e, derivative, constant(e, size, 1));
        *slope = tcc_emit_select(e, first, one_more, derivative);
    }
    return tcc_emit_fma(e, sum, t, tcc_emit_select(e, first, size, look_up(e, values, index)));
}

static tcc_emit_value with_sign(tcc_emitter *e, tcc_emit_value size, tcc_emit_value sign) {
    tcc_emit_value arguments[] = {size, sign};
    return tcc_emit_intrinsic(e, "llvm.copysign", tcc_emit_type_of(sign), arguments, 2);
}

static tcc_emit_value erf_of(tcc_emitter *e, tcc_emit_value x, tcc_emit_value unused) {
    (void)unused;
    return with_sign(e, erf_of_size(e, tcc_math_abs(e, x), NULL), x);
}

tcc_emit_value tcc_math_avx512_erf(tcc_emitter *e, tcc_emit_value x) { return by_parts(e, erf_of, x, NULL); }

static tcc_emit_value erf_slope_of(tcc_emitter *e, tcc_emit_value x, tcc_emit_value unused) {
    (void)unused;
    tcc_emit_value slope;
    erf_of_size(e, tcc_math_abs(e, x), &slope);
    return slope;
}

tcc_emit_value tcc_math_avx512_erf_slope(tcc_emitter *e, tcc_emit_value x) {
    return by_parts(e, erf_slope_of, x, NULL);
}

/* k of |x| = 2^k m, 1 <= m < 2; -inf of 0. Denormals are numbers like others. */
static tcc_emit_value exponent_of(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value arguments[] = {x, x, LLVMConstInt(e->i16, ALL, false), tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.getexp.ps.512", NULL, arguments, 4);
}

/* x divided by the power of two that brings it into [3/4, 3/2). */
static tcc_emit_value mantissa_of(tcc_emitter *e, tcc_emit_value x) {
    enum { FROM_THREE_QUARTERS = 3 };
    tcc_emit_value arguments[] = {x, tcc_emit_i32(e, FROM_THREE_QUARTERS), x, LLVMConstInt(e->i16, ALL, false),
                                  tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.getmant.ps.512", NULL, arguments, 5);
}

/* y, or where x is no positive number its logarithm: 0 -> -inf, negative -> NaN, inf -> inf, NaN -> NaN. */
static tcc_emit_value log_of_others(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y) {
    /* Four bits for each of: quiet NaN, signalling NaN, 0, 1, -inf, inf, other negative, other positive. */
    enum { OTHERS = 0x03530422 };
    tcc_emit_value arguments[] = {y,
                                  x,
                                  integer(e, x, OTHERS),
                                  tcc_emit_i32(e, 0),
                                  LLVMConstInt(e->i16, ALL, false),
                                  tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.fixupimm.ps.512", NULL, arguments, 6);
}

/* x = 2^k m, 3/4 <= m < 3/2: k ln 2 - log(c) + log(1 + r), 1 + r = c m, with c near 1 / m by the four highest bits of
 * m's fraction. Each c is a number whose logarithm is nearly a multiple of 2^-16, so that it and k ln 2 are added
 * without rounding; around 1 it is 1, so that small results keep their relative precision.
 * log(1 + r) = r + r^2 q(r), -0.032 < r <= 0.0625: 2.9e-9. */
static tcc_emit_value log_of(tcc_emitter *e, tcc_emit_value x, tcc_emit_value unused) {
    static const float c[LANES] = {1.0f,         0.915427923f, 0.862896144f, 0.821298301f, 0.779430866f, 0.745931625f,
                                   0.710872054f, 0.679261386f, 1.30205858f,  1.25771153f,  1.20997238f,  1.16212857f,
                                   1.12193096f,  1.08003759f,  1.04441512f,  1.0f};
    static const float minus_log_c[LANES] = {0.0f,          0.0883636475f,  0.147460938f,   0.196868896f,
                                             0.249191284f,  0.293121338f,   0.341262817f,   0.386749268f,
                                             -0.263946533f, -0.229293823f,  -0.190597534f,  -0.150253296f,
                                             -0.11505127f,  -0.0769958496f, -0.0434570312f, 0.0f};
    static const float q[] = {-0.5f, 0.33334446f, -0.250066459f, 0.188551709f};
    (void)unused;
    tcc_emit_value m = mantissa_of(e, x), k = sub(e, exponent_of(e, x), exponent_of(e, m));
    tcc_emit_value index = tcc_emit_lshr(e, to_bits(e, m), integer(e, x, 19));
    tcc_emit_value r = tcc_emit_fma(e, m, look_up(e, c, index), constant(e, x, -1));
    tcc_emit_value high = tcc_emit_fma(e, k, constant(e, x, 0.693145751953125), look_up(e, minus_log_c, index));
    tcc_emit_value sum = add(e, high, r), lost = sub(e, r, sub(e, sum, high)); /* |high| > |r|, or 0 */
    tcc_emit_value tail = tcc_emit_fma(e, mul(e, r, r), tcc_math_polynomial(e, r, q, COUNT(q)), lost);
    tail = tcc_emit_fma(e, k, constant(e, x, 1.42860677e-6), tail);
    return log_of_others(e, x, add(e, sum, tail));
}

tcc_emit_value tcc_math_avx512_log(tcc_emitter *e, tcc_emit_value x) { return by_parts(e, log_of, x, NULL); }
