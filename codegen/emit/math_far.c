/* SPDX-License-Identifier: MIT
 * What few arguments need and much code: sines of arguments of 2^45 and beyond, remainders of quotients of 2^52 and
 * beyond. Each is a function of the module on one f64, which the vector code calls for the lanes that ask for it, so
 * that other arguments pay for a comparison and a branch that is not taken. */
#include "codegen/emit/math64.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static LLVMValueRef number(tcc_emitter *e, double x) { return tcc_emit_float(e, e->f64, x); }
static LLVMValueRef and (tcc_emitter * e, LLVMValueRef a, int64_t mask) {
    return LLVMBuildAnd(e->builder, a, tcc_emit_i64(e, mask), "");
}
static LLVMValueRef low(tcc_emitter *e, LLVMValueRef a) { return and(e, a, 0xffffffff); }
static LLVMValueRef right(tcc_emitter *e, LLVMValueRef a, int by) {
    return LLVMBuildLShr(e->builder, a, tcc_emit_i64(e, by), "");
}
static LLVMValueRef to_bits(tcc_emitter *e, LLVMValueRef x) { return LLVMBuildBitCast(e->builder, x, e->i64, ""); }
static LLVMValueRef magnitude(tcc_emitter *e, LLVMValueRef x) {
    return tcc_emit_intrinsic(e, "llvm.fabs", e->f64, &x, 1);
}

/* The lanes of y that are `hard` by the function, of arguments[0 ... n - 1] that are vectors as y is. */
static LLVMValueRef replace(tcc_emitter *e, LLVMValueRef y, LLVMValueRef hard, const tcc_emit_function *f,
                            const LLVMValueRef *arguments, int n) {
    LLVMBuilderRef b = e->builder;
    const int lanes = tcc_emit_lanes_of(LLVMTypeOf(y));
    LLVMValueRef own[2], any = hard, patched = y;
    tcc_emit_if branch, lane;
    tcc_emit_loop loop;
    if (lanes > 1) any = tcc_emit_intrinsic(e, "llvm.vector.reduce.or", LLVMTypeOf(hard), &hard, 1);
    tcc_emit_if_begin(e, &branch, any);
    if (lanes == 1) {
        for (int i = 0; i < n; i++) own[i] = arguments[i];
        patched = tcc_emit_call(e, f, own, n);
    } else {
        tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, lanes), 1, &y, 1);
        for (int i = 0; i < n; i++) own[i] = LLVMBuildExtractElement(b, arguments[i], loop.index, "");
        tcc_emit_if_begin(e, &lane, LLVMBuildExtractElement(b, hard, loop.index, ""));
        patched = LLVMBuildInsertElement(b, loop.carry[0], tcc_emit_call(e, f, own, n), loop.index, "");
        tcc_emit_if_end(e, &lane);
        patched = tcc_emit_if_value(e, &lane, patched, loop.carry[0]);
        tcc_emit_loop_end(e, &loop, &patched);
        patched = loop.carry[0];
    }
    tcc_emit_if_end(e, &branch);
    return tcc_emit_if_value(e, &branch, patched, y);
}

/* The function `name` of the module, of n f64; true: it is new, and its body is to be emitted. */
static bool begin(tcc_emitter *e, const char *name, int n, tcc_emit_function *f) {
    LLVMTypeRef types[] = {e->f64, e->f64};
    *f = (tcc_emit_function){.function = LLVMGetNamedFunction(e->module, name),
                             .type = LLVMFunctionType(e->f64, types, (unsigned)n, false)};
    if (f->function) return false;
    *f = tcc_emit_function_begin(e, name, e->f64, types, n);
    return true;
}

/* --- Sines. Payne and Hanek, "Radian reduction for trigonometric functions" (1983): of x = m 2^k, m an integer of 53
 * bits, x / (2 pi) is wanted but for whole turns. The first k bits of 1 / (2 pi) make whole turns; the 192 bits behind
 * them leave an error of 2^-139 turns, and no f64 is nearer to a multiple of a quarter than 2^-65 of one. */

enum { WORDS = 6 }; /* of 32 bits, of the 192; the result's z[5] is the most significant one */

static const uint32_t two_over_pi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046};

/* The words of 0, 2 / pi from bit `skip` on, below 1024; v[0] is the most significant one. */
static void take_bits(tcc_emitter *e, LLVMValueRef skip, LLVMValueRef *v) {
    enum { LARGEST = 16 }; /* step of words, of which up to 31 are skipped */
    LLVMValueRef word[WORDS + 2 * LARGEST], shift = and(e, skip, 31);
    word[0] = tcc_emit_i64(e, 0);
    for (int i = 1; i < COUNT(word); i++) word[i] = tcc_emit_i64(e, two_over_pi[i - 1]);
    for (int step = LARGEST; step; step /= 2) {
        LLVMValueRef far = LLVMBuildICmp(e->builder, LLVMIntNE, and(e, skip, 32 * step), tcc_emit_i64(e, 0), "");
        for (int i = 0; i < WORDS + step; i++) word[i] = tcc_emit_select(e, far, word[i + step], word[i]);
    }
    for (int i = 0; i < WORDS; i++) {
        LLVMValueRef both = LLVMBuildShl(e->builder, word[i], tcc_emit_i64(e, 32), "");
        both = LLVMBuildOr(e->builder, both, word[i + 1], "");
        v[i] = low(e, LLVMBuildLShr(e->builder, both, tcc_emit_sub(e, tcc_emit_i64(e, 32), shift), ""));
    }
}

/* z = m v modulo 2^192. */
static void multiply(tcc_emitter *e, LLVMValueRef m, const LLVMValueRef *v, LLVMValueRef *z) {
    LLVMValueRef m0 = low(e, m), m1 = right(e, m, 32), carry = tcc_emit_i64(e, 0), p = NULL, q = NULL;
    for (int k = 0; k < WORDS; k++) {
        LLVMValueRef u = v[WORDS - 1 - k], next_p = LLVMBuildMul(e->builder, m0, u, ""),
                     next_q = LLVMBuildMul(e->builder, m1, u, "");
        LLVMValueRef sum = LLVMBuildAdd(e->builder, carry, low(e, next_p), "");
        /* of the word before: the high half of m0 times it, and m1 times it, whose high half is carried on */
        if (k) sum = LLVMBuildAdd(e->builder, sum, LLVMBuildAdd(e->builder, right(e, p, 32), low(e, q), ""), "");
        z[k] = low(e, sum);
        carry = right(e, sum, 32);
        if (k) carry = LLVMBuildAdd(e->builder, carry, right(e, q, 32), "");
        p = next_p;
        q = next_q;
    }
}

/* sin(x + quarter pi / 2) of |x| >= 2^45. */
static LLVMValueRef far_sine(tcc_emitter *e, LLVMValueRef x, int quarter) {
    LLVMBuilderRef b = e->builder;
    LLVMValueRef bits = to_bits(e, magnitude(e, x)), v[WORDS], z[WORDS];
    LLVMValueRef m = LLVMBuildOr(b, and(e, bits, (INT64_C(1) << 52) - 1), tcc_emit_i64(e, INT64_C(1) << 52), "");
    /* k = exponent - 1075; 30 of the 32 zeros in front make 2 / pi to 1 / (2 pi) */
    take_bits(e, tcc_emit_sub(e, right(e, bits, 52), tcc_emit_i64(e, 1075 - 30)), v);
    multiply(e, m, v, z);
    /* the nearest quarter, and what is left of the turn: in -1/8 .. 1/8, as a magnitude and a sign */
    LLVMValueRef half = tcc_emit_i64(e, 1 << 29), top = low(e, LLVMBuildAdd(b, z[5], half, ""));
    LLVMValueRef k = right(e, top, 30);
    z[5] = LLVMBuildSub(b, and(e, top, (1 << 30) - 1), half, "");
    LLVMValueRef sign = LLVMBuildAShr(b, z[5], tcc_emit_i64(e, 63), ""), r = number(e, 0);
    for (int i = 1; i < WORDS; i++) {
        LLVMValueRef word = low(e, LLVMBuildXor(b, z[i], sign, ""));
        double unit = 0x1p-192;
        for (int j = 0; j < i; j++) unit *= 0x1p32;
        r = tcc_emit_fma(e, LLVMBuildSIToFP(b, word, e->f64, ""), number(e, unit), r);
    }
    LLVMValueRef product = LLVMBuildFMul(b, r, number(e, 0x1.921fb54442d18p2), ""); /* 2 pi, in two parts */
    r = tcc_emit_fma(e, r, number(e, 0x1.1a62633145c07p-52), product);
    r = tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntSLT, sign, tcc_emit_i64(e, 0), ""), LLVMBuildFNeg(b, r, ""), r);
    LLVMValueRef negative = LLVMBuildFCmp(b, LLVMRealOLT, x, number(e, 0), "");
    r = tcc_emit_select(e, negative, LLVMBuildFNeg(b, r, ""), r);
    k = tcc_emit_select(e, negative, LLVMBuildNeg(b, k, ""), k);
    LLVMValueRef y = tcc_math64_sine_of(e, r, LLVMBuildAdd(b, k, tcc_emit_i64(e, quarter), ""));
    LLVMValueRef finite = LLVMBuildFCmp(b, LLVMRealOLT, magnitude(e, x), number(e, __builtin_inf()), "");
    return tcc_emit_select(e, finite, y, number(e, __builtin_nan("")));
}

LLVMValueRef tcc_math64_replace_far_sines(tcc_emitter *e, LLVMValueRef y, LLVMValueRef x, LLVMValueRef far,
                                          int quarter) {
    tcc_emit_function f;
    if (begin(e, quarter ? "tcc_far_cos" : "tcc_far_sin", 1, &f))
        tcc_emit_function_end(e, &f, far_sine(e, LLVMGetParam(f.function, 0), quarter));
    return replace(e, y, far, &f, &x, 1);
}

/* --- Remainders. While a / d has more than 51 bits, the remainder by d 2^s, s a multiple of 51, is exact and has the
 * same remainder by d. */

enum { STEP = 51 };

/* The exponent field of a >= 0, which goes on below 1 for denormals. */
static LLVMValueRef exponent_of(tcc_emitter *e, LLVMValueRef a) {
    LLVMBuilderRef b = e->builder;
    LLVMValueRef tiny = LLVMBuildFCmp(b, LLVMRealOLT, a, number(e, 0x1p-1022), "");
    LLVMValueRef scaled = tcc_emit_select(e, tiny, LLVMBuildFMul(b, a, number(e, 0x1p54), ""), a);
    LLVMValueRef field = right(e, to_bits(e, scaled), 52);
    return tcc_emit_select(e, tiny, tcc_emit_sub(e, field, tcc_emit_i64(e, 54)), field);
}

/* 2^n, -1022 <= n <= 1023. */
static LLVMValueRef power_of_two(tcc_emitter *e, LLVMValueRef n) {
    LLVMValueRef biased = LLVMBuildAdd(e->builder, n, tcc_emit_i64(e, 1023), "");
    return LLVMBuildBitCast(e->builder, LLVMBuildShl(e->builder, biased, tcc_emit_i64(e, 52), ""), e->f64, "");
}

static LLVMValueRef far_remainder(tcc_emitter *e, LLVMValueRef a, LLVMValueRef d) {
    LLVMBuilderRef b = e->builder;
    LLVMValueRef gap = LLVMBuildSub(b, exponent_of(e, a), exponent_of(e, d), "");
    LLVMValueRef steps = LLVMBuildSDiv(b, LLVMBuildSub(b, gap, tcc_emit_i64(e, 1), ""), tcc_emit_i64(e, STEP), "");
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), steps, 1, &a, 1);
    LLVMValueRef done = LLVMBuildMul(b, LLVMBuildAdd(b, loop.index, tcc_emit_i64(e, 1), ""), tcc_emit_i64(e, STEP), "");
    /* s = gap - done; 2^s in two steps, for it may be beyond the largest number */
    LLVMValueRef s = LLVMBuildSub(b, gap, done, ""), half = LLVMBuildAShr(b, s, tcc_emit_i64(e, 1), "");
    LLVMValueRef large = LLVMBuildFMul(b, d, power_of_two(e, half), "");
    large = LLVMBuildFMul(b, large, power_of_two(e, LLVMBuildSub(b, s, half, "")), "");
    a = tcc_math64_remainder_once(e, loop.carry[0], large, NULL);
    tcc_emit_loop_end(e, &loop, &a);
    return tcc_math64_remainder_once(e, loop.carry[0], d, NULL);
}

LLVMValueRef tcc_math64_replace_far_remainders(tcc_emitter *e, LLVMValueRef r, LLVMValueRef a, LLVMValueRef d,
                                               LLVMValueRef far) {
    tcc_emit_function f;
    if (begin(e, "tcc_far_remainder", 2, &f))
        tcc_emit_function_end(e, &f, far_remainder(e, LLVMGetParam(f.function, 0), LLVMGetParam(f.function, 1)));
    return replace(e, r, far, &f, (LLVMValueRef[]){a, d}, 2);
}
