/* SPDX-License-Identifier: MIT
 * Elementary functions on f32. Each is an exact range reduction and one polynomial on the reduced range; the
 * polynomials are minimax fits with f32 coefficients (relative error, except where said). Reductions use the trick of
 * adding 1.5 * 2^23, which rounds to an integer and leaves it in the low bits of the sum: no conversion that is
 * undefined for NaN. */
#include "codegen/emit/math.h"

#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static LLVMValueRef constant(tcc_emitter *e, LLVMValueRef like, double value) {
    return tcc_emit_float(e, LLVMTypeOf(like), value);
}

static LLVMTypeRef bits_type(tcc_emitter *e, LLVMValueRef like) {
    return tcc_emit_type_like(e, e->i32, LLVMTypeOf(like));
}

static LLVMValueRef to_bits(tcc_emitter *e, LLVMValueRef x) {
    return LLVMBuildBitCast(e->builder, x, bits_type(e, x), "");
}

static LLVMValueRef from_bits(tcc_emitter *e, LLVMValueRef bits, LLVMValueRef like) {
    return LLVMBuildBitCast(e->builder, bits, LLVMTypeOf(like), "");
}

static LLVMValueRef integer(tcc_emitter *e, LLVMValueRef like, int64_t value) {
    return tcc_emit_int(e, bits_type(e, like), value);
}

static LLVMValueRef add(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFAdd(e->builder, a, b, ""); }
static LLVMValueRef sub(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFSub(e->builder, a, b, ""); }
static LLVMValueRef mul(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFMul(e->builder, a, b, ""); }
static LLVMValueRef quotient(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFDiv(e->builder, a, b, "");
}

static LLVMValueRef copy_sign(tcc_emitter *e, LLVMValueRef magnitude, LLVMValueRef sign) {
    LLVMValueRef arguments[] = {magnitude, sign};
    return tcc_emit_intrinsic(e, "llvm.copysign", LLVMTypeOf(sign), arguments, 2);
}

static bool is_cuda(const tcc_emitter *e) { return e->target->kind == TCC_TARGET_CUDA; }

/* GPUs from sm_80 on have an instruction for either. */
static LLVMValueRef limited(tcc_emitter *e, LLVMValueRef x, double limit, LLVMRealPredicate beyond,
                            const char *intrinsic) {
    enum { FIRST = 80 };
    LLVMValueRef bound = constant(e, x, limit), arguments[] = {x, bound};
    if (is_cuda(e) && e->target->hw.sm >= FIRST) return tcc_emit_intrinsic(e, intrinsic, LLVMTypeOf(x), arguments, 2);
    return tcc_emit_select(e, tcc_emit_compare(e, beyond, x, bound), bound, x);
}

LLVMValueRef tcc_math_at_most(tcc_emitter *e, LLVMValueRef x, double limit) {
    return limited(e, x, limit, LLVMRealOGT, "llvm.minimum");
}

LLVMValueRef tcc_math_at_least(tcc_emitter *e, LLVMValueRef x, double limit) {
    return limited(e, x, limit, LLVMRealOLT, "llvm.maximum");
}

LLVMValueRef tcc_math_polynomial(tcc_emitter *e, LLVMValueRef x, const float *coefficients, int count) {
    LLVMValueRef sum = constant(e, x, coefficients[count - 1]);
    for (int i = count - 2; i >= 0; i--) sum = tcc_emit_fma(e, sum, x, constant(e, x, coefficients[i]));
    return sum;
}

LLVMValueRef tcc_math_abs(tcc_emitter *e, LLVMValueRef x) {
    return tcc_emit_intrinsic(e, "llvm.fabs", LLVMTypeOf(x), &x, 1);
}

LLVMValueRef tcc_math_sqrt(tcc_emitter *e, LLVMValueRef x) {
    return tcc_emit_intrinsic(e, "llvm.sqrt", LLVMTypeOf(x), &x, 1);
}

/* exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; x must not exceed 2^21. */
typedef struct exponential {
    LLVMValueRef of_r, n, whole; /* exp(r); n as an integer and as it is */
} exponential;

/* ln 2 is split so that n times the high part is exact. */
static exponential exp_reduced(tcc_emitter *e, LLVMValueRef x) {
    static const float p[] = {0.49999994f, 0.1666652f, 4.1668233e-2f, 8.368816e-3f, 1.3823839e-3f}; /* 3.2e-9 */
    LLVMValueRef magic = constant(e, x, 12582912.0);
    LLVMValueRef shifted = tcc_emit_fma(e, x, constant(e, x, 1.44269504), magic);
    LLVMValueRef n = LLVMBuildSub(e->builder, to_bits(e, shifted), to_bits(e, magic), "");
    LLVMValueRef whole = sub(e, shifted, magic);
    LLVMValueRef r = tcc_emit_fma(e, whole, constant(e, x, -0.693145751953125), x);
    r = tcc_emit_fma(e, whole, constant(e, x, -1.42860677e-6), r);
    LLVMValueRef q = tcc_math_polynomial(e, r, p, COUNT(p));
    LLVMValueRef of_r = add(e, tcc_emit_fma(e, mul(e, r, r), q, r), constant(e, x, 1));
    return (exponential){of_r, n, whole};
}

/* 2^n for -126 <= n <= 127. */
static LLVMValueRef power_of_two(tcc_emitter *e, LLVMValueRef n, LLVMValueRef like) {
    LLVMValueRef biased = LLVMBuildAdd(e->builder, n, integer(e, like, 127), "");
    return from_bits(e, LLVMBuildShl(e->builder, biased, integer(e, like, 23), ""), like);
}

/* exp(x) where the result is neither 0 nor inf nor a denormal. */
static LLVMValueRef exp_small(tcc_emitter *e, LLVMValueRef x) {
    exponential y = exp_reduced(e, x);
    if (tcc_math_has_avx512(e)) return tcc_math_avx512_scale(e, y.of_r, y.whole);
    return mul(e, y.of_r, power_of_two(e, y.n, x));
}

LLVMValueRef tcc_math_exp(tcc_emitter *e, LLVMValueRef x) {
    if (is_cuda(e)) return tcc_math_cuda_exp(e, x);
    exponential y = exp_reduced(e, tcc_math_at_least(e, tcc_math_at_most(e, x, 89), -104));
    if (tcc_math_has_avx512(e)) return tcc_math_avx512_scale(e, y.of_r, y.whole);
    /* Two exact halves of the exponent reach from the smallest denormal to infinity; only the second product may round.
     */
    LLVMValueRef half = LLVMBuildAShr(e->builder, y.n, integer(e, x, 1), "");
    LLVMValueRef rest = LLVMBuildSub(e->builder, y.n, half, "");
    return mul(e, mul(e, y.of_r, power_of_two(e, half, x)), power_of_two(e, rest, x));
}

LLVMValueRef tcc_math_exp_negative(tcc_emitter *e, LLVMValueRef x) {
    if (is_cuda(e)) return tcc_math_cuda_exp_negative(e, x);
    LLVMValueRef result = exp_small(e, tcc_math_at_least(e, x, -88));
    LLVMValueRef tiny = tcc_emit_compare(e, LLVMRealOLT, x, constant(e, x, -87.3));
    return tcc_emit_select(e, tiny, constant(e, x, 0), result);
}

/* log(x) = k ln 2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f - f^2/2 + f^3 p(f). */
LLVMValueRef tcc_math_log(tcc_emitter *e, LLVMValueRef x) {
    static const float p[] = {0.33333373f, -0.2500084f,  0.1999899f, -0.16621207f,
                              0.14238907f, -0.13212356f, 0.1256589f, -7.286021e-2f}; /* 7.9e-9 */
    LLVMValueRef denormal = tcc_emit_compare(e, LLVMRealOLT, x, constant(e, x, 0x1p-126));
    LLVMValueRef scaled = tcc_emit_select(e, denormal, mul(e, x, constant(e, x, 0x1p23)), x);
    /* The exponent that brings the mantissa into [sqrt(1/2), sqrt(2)): carry out of the bits of sqrt(1/2). */
    LLVMValueRef bits = to_bits(e, scaled), origin = integer(e, x, 0x3f3504f3);
    LLVMValueRef above = LLVMBuildSub(e->builder, bits, origin, "");
    LLVMValueRef k = LLVMBuildAShr(e->builder, above, integer(e, x, 23), "");
    LLVMValueRef mantissa = LLVMBuildSub(e->builder, bits, LLVMBuildShl(e->builder, k, integer(e, x, 23), ""), "");
    LLVMValueRef f = sub(e, from_bits(e, mantissa, x), constant(e, x, 1));
    LLVMValueRef kf = LLVMBuildSIToFP(e->builder, k, LLVMTypeOf(x), "");
    kf = add(e, kf, tcc_emit_select(e, denormal, constant(e, x, -23), constant(e, x, 0)));
    LLVMValueRef f2 = mul(e, f, f);
    LLVMValueRef tail = mul(e, mul(e, f2, f), tcc_math_polynomial(e, f, p, COUNT(p)));
    tail = tcc_emit_fma(e, kf, constant(e, x, 1.42860677e-6), tail);
    tail = tcc_emit_fma(e, f2, constant(e, x, -0.5), tail);
    LLVMValueRef y = tcc_emit_fma(e, kf, constant(e, x, 0.693145751953125), add(e, f, tail));
    /* 0 -> -inf, negative -> NaN, inf -> inf, NaN -> NaN */
    LLVMValueRef zero = tcc_emit_compare(e, LLVMRealOEQ, x, constant(e, x, 0));
    y = tcc_emit_select(e, zero, constant(e, x, -__builtin_inf()), y);
    LLVMValueRef finite = tcc_emit_compare(e, LLVMRealOLT, x, constant(e, x, __builtin_inf()));
    y = tcc_emit_select(e, finite, y, x);
    LLVMValueRef negative = tcc_emit_compare(e, LLVMRealOLT, x, constant(e, x, 0));
    return tcc_emit_select(e, negative, constant(e, x, __builtin_nan("")), y);
}

static LLVMValueRef tanh_large(tcc_emitter *e, LLVMValueRef a) {
    exponential y = exp_reduced(e, mul(e, tcc_math_at_most(e, a, 10), constant(e, a, 2)));
    LLVMValueRef denominator = tcc_emit_fma(e, y.of_r, power_of_two(e, y.n, a), constant(e, a, 1));
    return sub(e, constant(e, a, 1), quotient(e, constant(e, a, 2), denominator));
}

/* An odd polynomial below 0.63, 1 - 2 / (exp(2 |x|) + 1) above. */
LLVMValueRef tcc_math_tanh(tcc_emitter *e, LLVMValueRef x) {
    static const float p[] = {-0.33333278f, 0.13331324f, -5.372953e-2f, 2.0604875e-2f, -5.6657237e-3f}; /* 4.8e-9 */
    LLVMValueRef a = tcc_math_abs(e, x), square = mul(e, x, x);
    LLVMValueRef small = tcc_emit_fma(e, mul(e, square, a), tcc_math_polynomial(e, square, p, COUNT(p)), a);
    LLVMValueRef large = is_cuda(e) ? tcc_math_cuda_tanh_large(e, a) : tanh_large(e, a);
    LLVMValueRef below = tcc_emit_compare(e, LLVMRealOLT, a, constant(e, x, 0.63));
    return copy_sign(e, tcc_emit_select(e, below, small, large), x);
}

/* An odd polynomial below 0.9375; above, 1 - exp(p(|x|)) where p fits the logarithm of erfc (absolute error). */
LLVMValueRef tcc_math_erf(tcc_emitter *e, LLVMValueRef x) {
    if (tcc_math_has_avx512(e)) return tcc_math_avx512_erf(e, x);
    static const float p[] = {0.128379166f,  -0.37612632f,   0.11283674f,  -2.6858337e-2f,
                              5.1985579e-3f, -8.1157684e-4f, 8.2597617e-5f}; /* 8.6e-10 */
    static const float q[] = {3.0332414e-4f, -1.1301694f,   -0.63192844f,   -0.10999024f, 2.637374e-2f,
                              -4.744175e-3f, 5.9377758e-4f, -4.5729415e-5f, 1.6220364e-6f}; /* 1.6e-9 */
    LLVMValueRef a = tcc_math_abs(e, x), square = mul(e, x, x);
    LLVMValueRef small = tcc_emit_fma(e, a, tcc_math_polynomial(e, square, p, COUNT(p)), a);
    LLVMValueRef logarithm = tcc_math_polynomial(e, tcc_math_at_most(e, a, 3.95), q, COUNT(q));
    LLVMValueRef large = sub(e, constant(e, x, 1),
                             is_cuda(e) ? tcc_math_cuda_exp_rough(e, logarithm) : exp_small(e, logarithm));
    LLVMValueRef below = tcc_emit_compare(e, LLVMRealOLT, a, constant(e, x, 0.9375));
    return copy_sign(e, tcc_emit_select(e, below, small, large), x);
}

/* With z = exp(-|x|): 1 / (1 + z) for x >= 0, z / (1 + z) below, so that neither side cancels or overflows. */
LLVMValueRef tcc_math_sigmoid(tcc_emitter *e, LLVMValueRef x) {
    if (is_cuda(e)) return tcc_math_cuda_sigmoid(e, x);
    LLVMValueRef one = constant(e, x, 1);
    LLVMValueRef z = tcc_math_exp(e, LLVMBuildFNeg(e->builder, tcc_math_abs(e, x), ""));
    LLVMValueRef negative = tcc_emit_compare(e, LLVMRealOLT, x, constant(e, x, 0));
    return quotient(e, tcc_emit_select(e, negative, z, one), add(e, one, z));
}

LLVMValueRef tcc_math_rsqrt(tcc_emitter *e, LLVMValueRef x) {
    return is_cuda(e) ? tcc_math_cuda_rsqrt(e, x) : quotient(e, constant(e, x, 1), tcc_math_sqrt(e, x));
}
