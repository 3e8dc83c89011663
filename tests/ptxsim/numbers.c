/* SPDX-License-Identifier: MIT
 * Rounding of exact values into the float formats of the PTX ISA. */
#include "numbers.h"

const sim_format sim_f16 = {11, -14, 15}, sim_bf16 = {8, -126, 127}, sim_tf32 = {11, -126, 127},
                 sim_f32 = {24, -126, 127}, sim_f64 = {53, -1022, 1023};

static int bits_of(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }

static bool rounds_up(bool negative, bool odd, bool half, bool rest, sim_round mode) {
    switch (mode) {
    case RND_RZ: return false;
    case RND_RM: return negative && (half || rest);
    case RND_RP: return !negative && (half || rest);
    case RND_RNA: return half;
    default: return half && (rest || odd);
    }
}

static bool overflows_to_infinity(bool negative, sim_round mode) {
    switch (mode) {
    case RND_RZ: return false;
    case RND_RM: return negative;
    case RND_RP: return !negative;
    default: return true;
    }
}

uint64_t sim_round_parts(bool negative, uint64_t significand, int exponent, bool sticky, sim_format format,
                         sim_round mode) {
    int p = format.precision, exponent_bits = format.max_exponent == 15 ? 5 : format.max_exponent == 127 ? 8 : 11;
    /* tf32 keeps its values in the encoding of f32, the low 13 bits zero. */
    int shift = format.precision == 11 && format.max_exponent == 127 ? 13 : 0;
    uint64_t sign = (uint64_t)negative << (exponent_bits + p - 1 + shift);
    if (significand == 0 && !sticky) return sign;
    int drop = bits_of(significand) - p;                  /* bits below the last kept one */
    int least = format.min_exponent - (p - 1) - exponent; /* subnormal: the last bit has a fixed weight */
    if (significand == 0 || drop < least) drop = least;
    uint64_t kept;
    bool half = false, rest = sticky;
    if (drop <= 0) {
        kept = significand << -drop;
    } else if (drop > 64) {
        kept = 0, rest |= significand != 0;
    } else {
        kept = drop == 64 ? 0 : significand >> drop;
        half = significand >> (drop - 1) & 1;
        rest |= (significand & ((UINT64_C(1) << (drop - 1)) - 1)) != 0;
    }
    if (rounds_up(negative, kept & 1, half, rest, mode)) kept++;
    if (kept >> p) kept >>= 1, drop++;
    uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << (p - 1);
    uint64_t encoded;
    if (kept >> (p - 1) == 0) {
        encoded = kept; /* subnormal or zero */
    } else {
        int e = exponent + drop + p - 1;
        if (e > format.max_exponent) encoded = overflows_to_infinity(negative, mode) ? infinity : infinity - 1;
        else encoded = (uint64_t)(e - format.min_exponent + 1) << (p - 1) | (kept & ((UINT64_C(1) << (p - 1)) - 1));
    }
    return sign | encoded << shift;
}

uint64_t sim_round_double(double value, sim_format format, sim_round mode) {
    uint64_t u = as_u64(value), fraction = u & 0xfffffffffffff;
    int e = (int)(u >> 52 & 0x7ff);
    bool negative = u >> 63;
    if (e == 0x7ff) {
        if (format.precision == 53) return fraction ? F64_NAN : u;
        if (format.max_exponent == 15) return fraction ? F16_NAN : (negative ? 0xfc00 : 0x7c00);
        if (format.precision == 8) return fraction ? BF16_NAN : (negative ? 0xff80 : 0x7f80);
        return fraction ? F32_NAN : (negative ? 0xff800000 : 0x7f800000);
    }
    if (e == 0) return sim_round_parts(negative, fraction, -1074, false, format, mode);
    return sim_round_parts(negative, fraction | UINT64_C(1) << 52, e - 1075, false, format, mode);
}

uint32_t sim_f32_to_f16(float f) {
    uint32_t u = as_u32(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) return F16_NAN;
    if (magnitude >= 0x477ff000) return sign | 0x7c00; /* half way to 65536 and above */
    if (magnitude < 0x38800000)
        return sign | (as_u32(as_f32(magnitude) + 0.5f) - 0x3f000000); /* the addition rounds at 2^-24 */
    return sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

uint32_t sim_f32_to_bf16(float f) {
    uint32_t u = as_u32(f);
    if ((u & 0x7fffffff) > 0x7f800000) return BF16_NAN;
    return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

double sim_round_integral(double value, sim_round mode) {
    switch (mode) {
    case RND_RZI: return trunc(value);
    case RND_RMI: return floor(value);
    case RND_RPI: return ceil(value);
    default: return rint(value); /* the host rounds to the nearest */
    }
}

double sim_add_odd(double a, double b) {
    double s = a + b;
    if (!isfinite(s)) return s;
    double bb = s - a, error = (a - (s - bb)) + (b - bb);
    uint64_t u = as_u64(s);
    if (error != 0 && !(u & 1)) u += (error > 0) == (s > 0) ? 1 : (uint64_t)-1;
    return as_f64(u);
}
