/* SPDX-License-Identifier: MIT
 * float32 and float64 arithmetic. Results of float32 that are NaN are the canonical one; .ftz flushes inputs and
 * results. Approximate instructions are as wrong as the PTX ISA allows, by an amount that depends on the operand's
 * bits. */
#include "lanes.h"

#include <fenv.h>

static inline float in32(float x, bool ftz) { return ftz ? flush_f32(x) : x; }
static inline float out32(float x, bool ftz, bool sat) {
    if (sat) x = x > 0 ? (x < 1 ? x : 1) : 0; /* NaN saturates to 0 */
    x = ftz ? flush_f32(x) : x;
    return canonical_f32(x);
}
static inline double out64(double x, bool sat) {
    if (sat) x = x > 0 ? (x < 1 ? x : 1) : 0;
    return x != x ? as_f64(F64_NAN) : x;
}

/* The two forms that hot loops use, and a general one for .sat. */
#define FORMS2(name, expr)                                                      \
    static void name##_f32(sim_warp *w, const sim_inst *i, uint32_t mask) {     \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);             \
        uint32_t out[LANES];                                                    \
        EACH_LANE {                                                             \
            float x = a->f32[l], y = b->f32[l];                                 \
            out[l] = as_u32(canonical_f32(expr));                               \
        }                                                                       \
        commit32(w, i->out[0], out, mask);                                      \
    }                                                                           \
    static void name##_general(sim_warp *w, const sim_inst *i, uint32_t mask) { \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);             \
        bool ftz = i->flags & FLAG_FTZ, sat = i->flags & FLAG_SAT;              \
        uint32_t out[LANES];                                                    \
        EACH_LANE {                                                             \
            float x = in32(a->f32[l], ftz), y = in32(b->f32[l], ftz);           \
            out[l] = as_u32(out32(expr, ftz, sat));                             \
        }                                                                       \
        commit32(w, i->out[0], out, mask);                                      \
    }                                                                           \
    static void name##_f64(sim_warp *w, const sim_inst *i, uint32_t mask) {     \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);             \
        uint64_t out[LANES];                                                    \
        EACH_LANE {                                                             \
            double x = a->f64[l], y = b->f64[l];                                \
            out[l] = as_u64(out64(expr, false));                                \
        }                                                                       \
        commit64(w, i->out[0], out, mask);                                      \
    }
FORMS2(add, x + y)
FORMS2(sub, x - y)
FORMS2(mul, (x * y))
FORMS2(div, x / y)

#define FMA(name, ftz, sat)                                                                                  \
    static void name(sim_warp *w, const sim_inst *i, uint32_t mask) {                                        \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);                   \
        uint32_t out[LANES];                                                                                 \
        (void)i->flags;                                                                                      \
        EACH_LANE out[l] =                                                                                   \
            as_u32(out32(fmaf(in32(a->f32[l], ftz), in32(b->f32[l], ftz), in32(c->f32[l], ftz)), ftz, sat)); \
        commit32(w, i->out[0], out, mask);                                                                   \
    }
FMA(fma_f32, false, false)
FMA(fma_general, (i->flags & FLAG_FTZ) != 0, (i->flags & FLAG_SAT) != 0)
TERNARY(fma, f64, out64(fma(x, y, z), false))

/* Rounding other than to the nearest: the host's rounding mode. The operands pass through volatile so that nothing is
 * computed outside of it. */
#define ROUNDED(name, type, root, multiply_add)        \
    static type name(int op, type x, type y, type z) { \
        volatile type a = x, b = y, c = z, r;          \
        switch (op) {                                  \
        case OP_ADD: r = a + b; break;                 \
        case OP_SUB: r = a - b; break;                 \
        case OP_MUL: r = a * b; break;                 \
        case OP_DIV: r = a / b; break;                 \
        case OP_RCP: r = 1 / a; break;                 \
        case OP_SQRT: r = root(a); break;              \
        default: r = multiply_add(a, b, c); break;     \
        }                                              \
        return r;                                      \
    }
ROUNDED(rounded32, float, sqrtf, fmaf)
ROUNDED(rounded64, double, sqrt, fma)

static void directed(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[i->n_in > 1 ? 1 : 0]),
                  *c = row(w, i->in[i->n_in > 2 ? 2 : 0]);
    bool ftz = i->flags & FLAG_FTZ, sat = i->flags & FLAG_SAT;
    uint32_t out[LANES];
    uint64_t wide[LANES];
    fesetround(i->round == RND_RZ   ? FE_TOWARDZERO
               : i->round == RND_RM ? FE_DOWNWARD
               : i->round == RND_RP ? FE_UPWARD
                                    : FE_TONEAREST);
    if (i->type == T_F32)
        EACH_LANE out[l] = as_u32(rounded32(i->op, in32(a->f32[l], ftz), in32(b->f32[l], ftz), in32(c->f32[l], ftz)));
    else EACH_LANE wide[l] = as_u64(rounded64(i->op, a->f64[l], b->f64[l], c->f64[l]));
    fesetround(FE_TONEAREST);
    if (i->type == T_F32) {
        EACH_LANE out[l] = as_u32(out32(as_f32(out[l]), ftz, sat));
        commit32(w, i->out[0], out, mask);
    } else {
        EACH_LANE wide[l] = as_u64(out64(as_f64(wide[l]), sat));
        commit64(w, i->out[0], wide, mask);
    }
}

/* --- minimum and maximum: a NaN loses unless .NaN; -0 is below +0 */
static inline float lesser(float x, float y, bool nan) {
    if (x != x || y != y) return nan || (x != x && y != y) ? as_f32(F32_NAN) : x != x ? y : x;
    return x < y || (x == y && as_u32(x) >> 31) ? x : y;
}
static inline float greater(float x, float y, bool nan) {
    if (x != x || y != y) return nan || (x != x && y != y) ? as_f32(F32_NAN) : x != x ? y : x;
    return x > y || (x == y && !(as_u32(x) >> 31)) ? x : y;
}
static void min_max_f32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = i->n_in > 2 ? row(w, i->in[2]) : NULL;
    bool ftz = i->flags & FLAG_FTZ, nan = i->flags & FLAG_NAN, least = i->op == OP_MIN;
    uint32_t out[LANES];
    EACH_LANE {
        float x = in32(a->f32[l], ftz), y = in32(b->f32[l], ftz);
        uint32_t sign = (as_u32(x) ^ as_u32(y)) & 0x80000000;
        if (i->flags & FLAG_ABS) x = fabsf(x), y = fabsf(y);
        float r = least ? lesser(x, y, nan) : greater(x, y, nan);
        if (c) r = least ? lesser(r, in32(c->f32[l], ftz), nan) : greater(r, in32(c->f32[l], ftz), nan);
        out[l] = as_u32(r);
        if (i->flags & FLAG_XORSIGN && r == r) out[l] = (out[l] & 0x7fffffff) | sign;
    }
    commit32(w, i->out[0], out, mask);
}
static void min_max_f64(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);
    uint64_t out[LANES];
    EACH_LANE {
        double x = a->f64[l], y = b->f64[l], r;
        if (x != x || y != y) r = x != x && y != y ? as_f64(F64_NAN) : x != x ? y : x;
        else if (x == y) r = (as_u64(x) >> 63) == (i->op == OP_MIN) ? x : y;
        else r = (x < y) == (i->op == OP_MIN) ? x : y;
        out[l] = as_u64(r);
    }
    commit64(w, i->out[0], out, mask);
}

/* --- one operand */

/* A number in [-1, 1] that looks random: the share of the largest error that an instruction has at this operand. */
static double share(float x) {
    uint32_t h = as_u32(x) * UINT32_C(0x9e3779b1);
    h = (h ^ h >> 15) * UINT32_C(0x85ebca77);
    h ^= h >> 13;
    return (double)(int32_t)h * 0x1p-31;
}
/* `exact`, off by up to `ulps` units of its last place, half of one of them by rounding, before it may become a
 * denormal. */
static float off_ulps(double exact, double ulps, float x) {
    if (!isfinite(exact) || exact == 0) return (float)exact;
    int exponent;
    frexp(exact, &exponent);
    return (float)(exact + share(x) * (ulps - 0.5) * ldexp(1, exponent - 24));
}
/* Off by up to `error`, which is more than the rounding of the result. */
static float off_absolute(double exact, double error, float x) {
    return isfinite(exact) ? (float)(exact + share(x) * (error - fabs(exact) * 0x1p-25)) : (float)exact;
}
static float off_relative(double exact, double error, float x) {
    return (float)(exact * (1 + share(x) * (error - 0x1p-24)));
}

static float approximate(int op, float x, float y) {
    switch (op) {
    case OP_RCP: return off_ulps(1 / (double)x, 1, x);
    case OP_SQRT: return off_relative(sqrt((double)x), 0x1p-23, x);
    case OP_RSQRT:
        return x == 0 ? copysignf(INFINITY, x) : off_relative(1 / sqrt((double)x), 0x1.1256p-23, x); /* 2^-22.9 */
    case OP_SIN: return off_absolute(sin((double)x), 0x1p-21, x);
    case OP_COS: return off_absolute(cos((double)x), 0x1p-21, x);
    case OP_EX2: return fabsf(x) < 0x1p-126f ? 1 : off_ulps(exp2((double)x), 2, x);
    case OP_LG2: {
        double exact = log2((double)x);
        return x > 0.5f && x < 2 ? off_absolute(exact, 0x1p-22, x) : off_relative(exact, 0x1p-22, x);
    }
    case OP_TANH: return off_relative(tanh((double)x), 0x1p-11, x);
    case OP_ABS: return fabsf(x);
    case OP_NEG: return -x;
    case OP_COPYSIGN:
        return as_f32((as_u32(y) & 0x7fffffff) | (as_u32(x) & 0x80000000)); /* the sign is the first operand's */
    case OP_DIV_APPROX: /* between 2^126 and 2^128 the reciprocal underflows */
    case OP_DIV_FULL:
        if (op == OP_DIV_APPROX && fabsf(y) >= 0x1p126f && isfinite(y))
            return isinf(x) ? NAN : copysignf(0, x) * copysignf(1, y);
        return off_ulps((double)x / (double)y, 2, x);
    default: return x;
    }
}
static void function_f32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[i->n_in > 1 ? 1 : 0]);
    bool ftz = i->flags & FLAG_FTZ, sat = i->flags & FLAG_SAT;
    uint32_t out[LANES];
    EACH_LANE {
        float x = in32(a->f32[l], ftz), y = in32(b->f32[l], ftz);
        float r = !(mask >> l & 1) ? 0 : i->round == RND_NONE ? approximate(i->op, x, y) : rounded32(i->op, x, y, 0);
        out[l] = as_u32(out32(r, ftz, sat));
    }
    commit32(w, i->out[0], out, mask);
}
/* rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 read the upper word alone, and write the lower as 0. */
static inline double upper_word(double x) { return as_f64(as_u64(x) & UINT64_C(0xffffffff00000000)); }
static inline double flush_f64(double x) { return fabs(x) < 0x1p-1022 ? copysign(0, x) : x; }

/* abs and neg and copysign keep a NaN's payload out of it: the result is canonical for f32 with .ftz or not. */
static void function_f64(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[i->n_in > 1 ? 1 : 0]);
    uint64_t out[LANES];
    EACH_LANE {
        double x = a->f64[l], y = b->f64[l], r;
        switch (i->op) {
        case OP_RCP: r = i->round == RND_NONE ? upper_word(1 / flush_f64(upper_word(x))) : 1 / x; break;
        case OP_SQRT: r = sqrt(x); break;
        case OP_RSQRT: r = upper_word(1 / sqrt(flush_f64(upper_word(x)))); break;
        case OP_ABS: r = fabs(x); break;
        case OP_NEG: r = -x; break;
        default: r = copysign(y, x); break;
        }
        out[l] = as_u64(i->op == OP_ABS || i->op == OP_NEG || i->op == OP_COPYSIGN ? r : out64(r, false));
    }
    commit64(w, i->out[0], out, mask);
}

static void testp_any(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]);
    uint32_t r = 0;
    EACH_LANE {
        double x = i->type == T_F32 ? (double)a->f32[l] : a->f64[l];
        int kind = i->type == T_F32 ? fpclassify(a->f32[l]) : fpclassify(a->f64[l]);
        bool yes = i->sub == 0   ? isfinite(x)
                   : i->sub == 1 ? isinf(x)
                   : i->sub == 2 ? x == x
                   : i->sub == 3 ? x != x
                   : i->sub == 4 ? kind == FP_NORMAL
                                 : kind == FP_SUBNORMAL;
        r |= (uint32_t)yes << l;
    }
    commit_predicate(w, i->out[0], r, mask);
}

/* --- comparison */
static inline bool compare(int op, double x, double y) {
    bool unordered = x != x || y != y;
    switch (op) {
    case CMP_EQ: return x == y;
    case CMP_NE: return !unordered && x != y;
    case CMP_LT: return x < y;
    case CMP_LE: return x <= y;
    case CMP_GT: return x > y;
    case CMP_GE: return x >= y;
    case CMP_EQU: return unordered || x == y;
    case CMP_NEU: return unordered || x != y;
    case CMP_LTU: return unordered || x < y;
    case CMP_LEU: return unordered || x <= y;
    case CMP_GTU: return unordered || x > y;
    case CMP_GEU: return unordered || x >= y;
    case CMP_NUM: return !unordered;
    default: return unordered;
    }
}
static void setp_float(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);
    bool ftz = i->flags & FLAG_FTZ;
    uint32_t r = 0;
    for (int l = 0; l < LANES; l++) {
        double x, y;
        switch (i->type) {
        case T_F32: x = in32(a->f32[l], ftz), y = in32(b->f32[l], ftz); break;
        case T_F64: x = a->f64[l], y = b->f64[l]; break;
        case T_F16:
            x = f16_to_f32(a->u32[l]), y = f16_to_f32(b->u32[l]);
            if (ftz && fabs(x) < 0x1p-14) x = 0;
            if (ftz && fabs(y) < 0x1p-14) y = 0;
            break;
        default: x = bf16_to_f32(a->u32[l]), y = bf16_to_f32(b->u32[l]); break;
        }
        r |= (uint32_t)compare(i->op, x, y) << l;
    }
    uint32_t other = ~r;
    if (i->sub != BOOL_NONE) {
        uint32_t c = predicate(w, i->in[2]);
        r = i->sub == BOOL_AND ? r & c : i->sub == BOOL_OR ? r | c : r ^ c;
        other = i->sub == BOOL_AND ? other & c : i->sub == BOOL_OR ? other | c : other ^ c;
    }
    commit_predicate(w, i->out[0], r, mask);
    if (i->n_out > 1) commit_predicate(w, i->out[1], other, mask);
}
/* Packed halves: the two results go to two predicates. */
static void setp_packed(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);
    uint32_t r[2] = {0, 0};
    bool f16 = i->type == T_F16X2;
    for (int h = 0; h < 2; h++) EACH_LANE {
            uint32_t x = a->u32[l] >> 16 * h & 0xffff, y = b->u32[l] >> 16 * h & 0xffff;
            r[h] |= (uint32_t)compare(i->op, f16 ? f16_to_f32(x) : bf16_to_f32(x), f16 ? f16_to_f32(y) : bf16_to_f32(y))
                    << l;
        }
    for (int h = 0; h < i->n_out; h++) {
        uint32_t c = i->sub != BOOL_NONE ? predicate(w, i->in[2]) : 0;
        commit_predicate(w, i->out[h],
                         i->sub == BOOL_NONE  ? r[h]
                         : i->sub == BOOL_AND ? r[h] & c
                         : i->sub == BOOL_OR  ? r[h] | c
                                              : r[h] ^ c,
                         mask);
    }
}

sim_exec *sim_pick_float(sim_operation op, sim_type t, int flags, sim_round r) {
    bool f32 = t == T_F32;
    if (op == OP_SETP) return t == T_F16X2 || t == T_BF16X2 ? setp_packed : setp_float;
    if (t != T_F32 && t != T_F64) return NULL;
    bool general = flags & (FLAG_FTZ | FLAG_SAT);
    if (r == RND_RZ || r == RND_RM || r == RND_RP)
        return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV || op == OP_FMA || op == OP_RCP ||
                       op == OP_SQRT
                   ? directed
                   : NULL;
    switch (op) {
    case OP_ADD: return !f32 ? add_f64 : general ? add_general : add_f32;
    case OP_SUB: return !f32 ? sub_f64 : general ? sub_general : sub_f32;
    case OP_MUL: return !f32 ? mul_f64 : general ? mul_general : mul_f32;
    case OP_DIV: return !f32 ? div_f64 : general ? div_general : div_f32;
    case OP_FMA: return !f32 ? fma_f64 : general ? fma_general : fma_f32;
    case OP_MIN:
    case OP_MAX: return f32 ? min_max_f32 : min_max_f64;
    case OP_TESTP: return testp_any;
    case OP_RCP:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_ABS:
    case OP_NEG:
    case OP_COPYSIGN: return f32 ? function_f32 : function_f64;
    case OP_DIV_APPROX:
    case OP_DIV_FULL:
    case OP_SIN:
    case OP_COS:
    case OP_EX2:
    case OP_LG2:
    case OP_TANH: return f32 ? function_f32 : NULL;
    default: return NULL;
    }
}
