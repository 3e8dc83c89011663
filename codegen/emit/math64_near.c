/* SPDX-License-Identifier: MIT
 * Sines of arguments below 2^45, and remainders of quotients below 2^53: the common part of these functions; math_far.c
 * has larger arguments. */
#include "codegen/emit/math64_ops.h"

tcc_emit_value tcc_math64_sine_of(tcc_emitter *e, tcc_emit_value r, tcc_emit_value k) {
    tcc_emit_value z = mul(e, r, r), minus = tcc_emit_fneg(e, z);
    static const double sine_divisors[] = {20, 42, 72, 110, 156, 210, 272, 342};
    static const double cosine_divisors[] = {2, 12, 30, 56, 90, 132, 182, 240, 306};
    tcc_emit_value cubic = mul(e, r, mul(e, minus, constant(e, r, 1.0 / 6)));
    tcc_emit_value s = tcc_emit_fma(e, cubic, nested(e, minus, sine_divisors, 8), r);
    tcc_emit_value c = nested(e, minus, cosine_divisors, 9);
    tcc_emit_value odd = tcc_emit_icmp(e, TCC_ICMP_NE, tcc_emit_and(e, k, integer(e, r, 1)), integer(e, r, 0));
    tcc_emit_value flip = tcc_emit_icmp(e, TCC_ICMP_NE, tcc_emit_and(e, k, integer(e, r, 2)), integer(e, r, 0));
    tcc_emit_value y = choose(e, odd, c, s);
    return choose(e, flip, tcc_emit_fneg(e, y), y);
}

/* The leading 26 bits of x. */
static tcc_emit_value leading(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value bits = tcc_emit_and(e, to_bits(e, x), integer(e, x, ~INT64_C(0x7ffffff)));
    return tcc_emit_bitcast(e, bits, tcc_emit_type_of(x));
}

/* c + n x of a whole n below 2^52: what cancels is lost by no rounding. Where the target has no such instruction, that
 * is four exact products of halves, of which the largest comes first: while the sum is large, adding to it is exact. */
static tcc_emit_value add_product(tcc_emitter *e, tcc_emit_value n, tcc_emit_value x, tcc_emit_value c) {
    if (e->target->fma) return tcc_emit_fma(e, n, x, c);
    tcc_emit_value of_n[2] = {leading(e, n)}, of_x[2] = {leading(e, x)};
    of_n[1] = sub(e, n, of_n[0]);
    of_x[1] = sub(e, x, of_x[0]);
    for (int i = 0; i < 4; i++) c = add(e, c, mul(e, of_n[i / 2], of_x[i % 2]));
    return c;
}

/* There are fewer than 2^45 quarters, n, and pi / 2 has three parts. The first step is exact: x and n times the first
 * part are multiples of 2^-52 or, below 1, of 2^-53, less than 1 apart. */
tcc_emit_value tcc_math64_near_quarters(tcc_emitter *e, tcc_emit_value x, tcc_emit_value *rest) {
    tcc_emit_value n = function(e, "llvm.roundeven", mul(e, x, constant(e, x, 0x1.45f306dc9c883p-1)));
    tcc_emit_value r = add_product(e, n, constant(e, x, -0x1.921fb54442d18p0), x);
    r = add_product(e, n, constant(e, x, -0x1.1a62633145c07p-54), r);
    *rest = tcc_emit_fma(e, n, constant(e, x, 0x1.f1976b7ed8fbcp-110), r);
    return whole(e, n);
}

tcc_emit_value tcc_math64_near_sine(tcc_emitter *e, tcc_emit_value x, int quarter) {
    tcc_emit_value r, n = tcc_math64_near_quarters(e, x, &r);
    return tcc_math64_sine_of(e, r, tcc_emit_iadd(e, n, integer(e, x, quarter)));
}

tcc_emit_value tcc_math64_near_sin(tcc_emitter *e, tcc_emit_value x) { return tcc_math64_near_sine(e, x, 0); }

tcc_emit_value tcc_math64_near_cos(tcc_emitter *e, tcc_emit_value x) { return tcc_math64_near_sine(e, x, 1); }

tcc_emit_value tcc_math64_remainder_once(tcc_emitter *e, tcc_emit_value a, tcc_emit_value d,
                                         tcc_emit_value *quotient_out) {
    tcc_emit_value q = quotient(e, a, d), n = function(e, "llvm.floor", q), zero = constant(e, a, 0);
    tcc_emit_value r = add_product(e, tcc_emit_fneg(e, n), d, a);
    /* off by one d where the quotient rounded */
    r = choose(e, tcc_emit_fcmp(e, TCC_FCMP_OLT, r, zero), add(e, r, d), r);
    if (quotient_out) *quotient_out = q;
    return choose(e, tcc_emit_fcmp(e, TCC_FCMP_OGE, r, d), sub(e, r, d), r);
}
