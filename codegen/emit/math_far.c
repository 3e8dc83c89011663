/* SPDX-License-Identifier: MIT
 * Rare cases that need much code: sines of large arguments, remainders of quotients of 2^52 and beyond.
 * Vector code computes them lane by lane, behind a branch, so other arguments cost only a comparison and the branch. On
 * the host each is a function of the module; a GPU's kernels call no functions. */
#include "codegen/emit/functions.h"
#include "codegen/emit/math64.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static tcc_emit_value number(tcc_emitter *e, double x) { return tcc_emit_float(e, e->f64, x); }
static tcc_emit_value masked(tcc_emitter *e, tcc_emit_value a, int64_t mask) {
    return tcc_emit_and(e, a, tcc_emit_i64(e, mask));
}
static tcc_emit_value low(tcc_emitter *e, tcc_emit_value a) { return masked(e, a, 0xffffffff); }
static tcc_emit_value right(tcc_emitter *e, tcc_emit_value a, int by) {
    return tcc_emit_lshr(e, a, tcc_emit_i64(e, by));
}
static tcc_emit_value to_bits(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_bitcast(e, x, e->i64); }
static tcc_emit_value magnitude(tcc_emitter *e, tcc_emit_value x) {
    return tcc_emit_intrinsic(e, "llvm.fabs", e->f64, &x, 1);
}

enum { MOST_ARGUMENTS = 2 };

/* A function of f64, emitted at the builder's position. */
typedef struct function {
    const char *name;
    int n;
    tcc_emit_value (*emit)(tcc_emitter *e, tcc_emit_value *arguments);
} function;

static tcc_emit_value call(tcc_emitter *e, const function *f, tcc_emit_value *arguments) {
    if (!e->target->functions->calls) return f->emit(e, arguments);
    tcc_emit_type types[MOST_ARGUMENTS] = {e->f64, e->f64};
    tcc_emit_function own = {.function = LLVMGetNamedFunction(e->module, f->name),
                             .type = LLVMFunctionType(e->f64, types, (unsigned)f->n, false)};
    if (!own.function) {
        tcc_emit_value parameters[MOST_ARGUMENTS];
        own = tcc_emit_function_begin(e, f->name, e->f64, types, f->n);
        for (int i = 0; i < f->n; i++) parameters[i] = LLVMGetParam(own.function, (unsigned)i);
        tcc_emit_function_end(e, &own, f->emit(e, parameters));
    }
    return tcc_emit_call(e, &own, arguments, f->n);
}

static tcc_emit_value first_lane(tcc_emitter *e, tcc_emit_value v) {
    return tcc_emit_extract(e, v, tcc_emit_i32(e, 0));
}

static tcc_emit_value rotate(tcc_emitter *e, tcc_emit_value v) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(v));
    int from[64];
    for (int i = 0; i < lanes; i++) from[i] = (i + 1) % lanes;
    return tcc_emit_shuffle(e, v, NULL, from, lanes);
}

/* All lanes of y in turns, each as lane 0 of vectors that rotate: a lane that is chosen at run time would go by way of
 * memory. */
static tcc_emit_value replace_lanes(tcc_emitter *e, tcc_emit_value y, tcc_emit_value hard, const function *f,
                                    const tcc_emit_value *arguments) {
    tcc_emit_value carry[2 + MOST_ARGUMENTS] = {y, hard}, own[MOST_ARGUMENTS];
    for (int i = 0; i < f->n; i++) carry[2 + i] = arguments[i];
    tcc_emit_loop loop;
    tcc_emit_if lane;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, tcc_emit_lanes_of(tcc_emit_type_of(y))), 1, carry,
                        2 + f->n);
    tcc_emit_value before = first_lane(e, loop.carry[0]);
    for (int i = 0; i < f->n; i++) own[i] = first_lane(e, loop.carry[2 + i]);
    tcc_emit_if_begin(e, &lane, first_lane(e, loop.carry[1]));
    tcc_emit_value value = call(e, f, own);
    tcc_emit_if_end(e, &lane);
    value = tcc_emit_if_value(e, &lane, value, before);
    for (int i = 0; i < 2 + f->n; i++) carry[i] = loop.carry[i];
    carry[0] = tcc_emit_insert(e, carry[0], value, tcc_emit_i32(e, 0));
    for (int i = 0; i < 2 + f->n; i++) carry[i] = rotate(e, carry[i]);
    tcc_emit_loop_end(e, &loop, carry);
    return loop.carry[0];
}

/* Whether any lane is set. A GPU has no vectors of truths: they would be made numbers, and their bits joined. */
static tcc_emit_value any_of(tcc_emitter *e, tcc_emit_value truths) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(truths));
    if (e->target->functions->calls)
        return tcc_emit_intrinsic(e, "llvm.vector.reduce.or", tcc_emit_type_of(truths), &truths, 1);
    tcc_emit_value any = first_lane(e, truths);
    for (int i = 1; i < lanes; i++) any = tcc_emit_or(e, any, tcc_emit_extract(e, truths, tcc_emit_i32(e, i)));
    return any;
}

static tcc_emit_value converted(tcc_emitter *e, tcc_emit_value x, tcc_emit_type to) {
    tcc_emit_type from = tcc_emit_type_of(x), type = tcc_emit_type_like(e, to, from);
    if (type == from) return x;
    return to == e->f64 ? tcc_emit_fpext(e, x, type) : tcc_emit_fptrunc(e, x, type);
}

/* The lanes of y that are `hard` by the function, of arguments that are vectors as y is: of f64, or of f32. */
static tcc_emit_value replace(tcc_emitter *e, tcc_emit_value y, tcc_emit_value hard, const function *f,
                              const tcc_emit_value *arguments) {
    const bool one = tcc_emit_lanes_of(tcc_emit_type_of(y)) == 1;
    tcc_emit_type scalar = tcc_emit_scalar_of(tcc_emit_type_of(y));
    tcc_emit_value own[MOST_ARGUMENTS];
    tcc_emit_if branch;
    tcc_emit_if_begin(e, &branch, one ? hard : any_of(e, hard));
    for (int i = 0; i < f->n; i++) own[i] = converted(e, arguments[i], e->f64);
    tcc_emit_value replaced = one ? call(e, f, own) : replace_lanes(e, converted(e, y, e->f64), hard, f, own);
    replaced = converted(e, replaced, scalar);
    tcc_emit_if_end(e, &branch);
    return tcc_emit_if_value(e, &branch, replaced, y);
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
static void take_bits(tcc_emitter *e, tcc_emit_value skip, tcc_emit_value *v) {
    enum { LARGEST = 16 }; /* step of words, of which up to 31 are skipped */
    tcc_emit_value word[WORDS + 2 * LARGEST], shift = masked(e, skip, 31);
    word[0] = tcc_emit_i32(e, 0);
    for (int i = 1; i < COUNT(word); i++) word[i] = tcc_emit_i32(e, (int32_t)two_over_pi[i - 1]);
    for (int step = LARGEST; step; step /= 2) {
        tcc_emit_value far = tcc_emit_icmp(e, TCC_ICMP_NE, masked(e, skip, 32 * step), tcc_emit_i64(e, 0));
        for (int i = 0; i < WORDS + step; i++) word[i] = tcc_emit_select(e, far, word[i + step], word[i]);
    }
    for (int i = 0; i < WORDS; i++) {
        tcc_emit_value high = tcc_emit_zext(e, word[i], e->i64), both;
        both = tcc_emit_shl(e, high, tcc_emit_i64(e, 32));
        both = tcc_emit_or(e, both, tcc_emit_zext(e, word[i + 1], e->i64));
        v[i] = low(e, tcc_emit_lshr(e, both, tcc_emit_sub(e, tcc_emit_i64(e, 32), shift)));
    }
}

/* z = m v modulo 2^192. */
static void multiply(tcc_emitter *e, tcc_emit_value m, const tcc_emit_value *v, tcc_emit_value *z) {
    tcc_emit_value m0 = low(e, m), m1 = right(e, m, 32), carry = tcc_emit_i64(e, 0), p = NULL, q = NULL;
    for (int k = 0; k < WORDS; k++) {
        tcc_emit_value u = v[WORDS - 1 - k], next_p = tcc_emit_imul(e, m0, u), next_q = tcc_emit_imul(e, m1, u);
        tcc_emit_value sum = tcc_emit_iadd(e, carry, low(e, next_p));
        /* of the word before: the high half of m0 times it, and m1 times it, whose high half is carried on */
        if (k) sum = tcc_emit_iadd(e, sum, tcc_emit_iadd(e, right(e, p, 32), low(e, q)));
        z[k] = low(e, sum);
        carry = right(e, sum, 32);
        if (k) carry = tcc_emit_iadd(e, carry, right(e, q, 32));
        p = next_p;
        q = next_q;
    }
}

/* sin(x + quarter pi / 2) of |x| >= 2^22: below, the digits of 2 / pi would have to begin earlier. */
static tcc_emit_value far_sine(tcc_emitter *e, tcc_emit_value x, int quarter) {
    LLVMBuilderRef b = e->builder;
    tcc_emit_value bits = to_bits(e, magnitude(e, x)), v[WORDS], z[WORDS];
    tcc_emit_value m = tcc_emit_or(e, masked(e, bits, (INT64_C(1) << 52) - 1), tcc_emit_i64(e, INT64_C(1) << 52));
    /* k = exponent - 1075; 30 of the 32 zeros in front make 2 / pi to 1 / (2 pi) */
    take_bits(e, tcc_emit_sub(e, right(e, bits, 52), tcc_emit_i64(e, 1075 - 30)), v);
    multiply(e, m, v, z);
    /* the nearest quarter, and what is left of the turn: in -1/8 .. 1/8, as a magnitude and a sign */
    tcc_emit_value half = tcc_emit_i64(e, 1 << 29), top = low(e, tcc_emit_iadd(e, z[5], half));
    tcc_emit_value k = right(e, top, 30);
    z[5] = tcc_emit_isub(e, masked(e, top, (1 << 30) - 1), half);
    tcc_emit_value sign = tcc_emit_ashr(e, z[5], tcc_emit_i64(e, 63)), r = number(e, 0);
    for (int i = 1; i < WORDS; i++) {
        tcc_emit_value word = low(e, tcc_emit_xor(e, z[i], sign));
        double unit = 0x1p-192;
        for (int j = 0; j < i; j++) unit *= 0x1p32;
        r = tcc_emit_fma(e, tcc_emit_sitofp(e, word, e->f64), number(e, unit), r);
    }
    tcc_emit_value product = tcc_emit_fmul(e, r, number(e, 0x1.921fb54442d18p2)); /* 2 pi, in two parts */
    r = tcc_emit_fma(e, r, number(e, 0x1.1a62633145c07p-52), product);
    r = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, sign, tcc_emit_i64(e, 0)), tcc_emit_fneg(e, r), r);
    tcc_emit_value negative = tcc_emit_fcmp(e, TCC_FCMP_OLT, x, number(e, 0));
    r = tcc_emit_select(e, negative, tcc_emit_fneg(e, r), r);
    k = tcc_emit_select(e, negative, LLVMBuildNeg(b, k, ""), k);
    tcc_emit_value y = tcc_math64_sine_of(e, r, tcc_emit_iadd(e, k, tcc_emit_i64(e, quarter)));
    tcc_emit_value finite = tcc_emit_fcmp(e, TCC_FCMP_OLT, magnitude(e, x), number(e, __builtin_inf()));
    return tcc_emit_select(e, finite, y, number(e, __builtin_nan("")));
}

static tcc_emit_value emit_sin(tcc_emitter *e, tcc_emit_value *x) { return far_sine(e, x[0], 0); }
static tcc_emit_value emit_cos(tcc_emitter *e, tcc_emit_value *x) { return far_sine(e, x[0], 1); }

tcc_emit_value tcc_math64_replace_far_sines(tcc_emitter *e, tcc_emit_value y, tcc_emit_value x, tcc_emit_value far,
                                            int quarter) {
    static const function functions[] = {{"tcc_far_sin", 1, emit_sin}, {"tcc_far_cos", 1, emit_cos}};
    return replace(e, y, far, &functions[quarter], &x);
}

/* --- Remainders. While a / d has more than 51 bits, the remainder by d 2^s, s a multiple of 51, is exact and has the
 * same remainder by d. */

enum { STEP = 51 };

/* The exponent field of a >= 0, which goes on below 1 for denormals. */
static tcc_emit_value exponent_of(tcc_emitter *e, tcc_emit_value a) {
    tcc_emit_value tiny = tcc_emit_fcmp(e, TCC_FCMP_OLT, a, number(e, 0x1p-1022));
    tcc_emit_value scaled = tcc_emit_select(e, tiny, tcc_emit_fmul(e, a, number(e, 0x1p54)), a);
    tcc_emit_value field = right(e, to_bits(e, scaled), 52);
    return tcc_emit_select(e, tiny, tcc_emit_sub(e, field, tcc_emit_i64(e, 54)), field);
}

/* 2^n, -1022 <= n <= 1023. */
static tcc_emit_value power_of_two(tcc_emitter *e, tcc_emit_value n) {
    tcc_emit_value biased = tcc_emit_iadd(e, n, tcc_emit_i64(e, 1023));
    return tcc_emit_bitcast(e, tcc_emit_shl(e, biased, tcc_emit_i64(e, 52)), e->f64);
}

static tcc_emit_value emit_remainder(tcc_emitter *e, tcc_emit_value *arguments) {
    tcc_emit_value a = arguments[0], d = arguments[1];
    tcc_emit_value gap = tcc_emit_isub(e, exponent_of(e, a), exponent_of(e, d));
    tcc_emit_value steps = tcc_emit_sdiv(e, tcc_emit_isub(e, gap, tcc_emit_i64(e, 1)), tcc_emit_i64(e, STEP));
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), steps, 1, &a, 1);
    tcc_emit_value done = tcc_emit_imul(e, tcc_emit_iadd(e, loop.index, tcc_emit_i64(e, 1)), tcc_emit_i64(e, STEP));
    /* s = gap - done; 2^s in two steps, for it may be beyond the largest number */
    tcc_emit_value s = tcc_emit_isub(e, gap, done), half = tcc_emit_ashr(e, s, tcc_emit_i64(e, 1));
    tcc_emit_value large = tcc_emit_fmul(e, d, power_of_two(e, half));
    large = tcc_emit_fmul(e, large, power_of_two(e, tcc_emit_isub(e, s, half)));
    a = tcc_math64_remainder_once(e, loop.carry[0], large, NULL);
    tcc_emit_loop_end(e, &loop, &a);
    return tcc_math64_remainder_once(e, loop.carry[0], d, NULL);
}

tcc_emit_value tcc_math64_replace_far_remainders(tcc_emitter *e, tcc_emit_value r, tcc_emit_value a, tcc_emit_value d,
                                                 tcc_emit_value far) {
    static const function remainder = {"tcc_far_remainder", 2, emit_remainder};
    tcc_emit_value arguments[] = {a, d};
    return replace(e, r, far, &remainder, arguments);
}
