/* SPDX-License-Identifier: MIT
 * Integer, bit and logic instructions, comparison of integers, selection and moves. */
#include "lanes.h"

#include <stdlib.h>

/* --- wrapping arithmetic: on the unsigned type, so that overflow is defined */
#define WRAPPING(X) X(u16) X(u32) X(u64)
#define ALL_INT(X) X(u16) X(u32) X(u64) X(s16) X(s32) X(s64)
#define DEFINE(T)                                                        \
    BINARY(add, T, (C_##T)(x + y))                                       \
    BINARY(sub, T, (C_##T)(x - y))                                       \
    BINARY(mul_lo, T, (C_##T)((uint64_t)x * (uint64_t)y))                \
    TERNARY(mad_lo, T, (C_##T)((uint64_t)x * (uint64_t)y + (uint64_t)z)) \
    UNARY(neg, T, (C_##T)(0 - (uint64_t)x))                              \
    UNARY(not, T, (C_##T) ~x)                                            \
    UNARY(cnot, T, (C_##T)(x == 0))                                      \
    BINARY(and, T, (C_##T)(x & y))                                       \
    BINARY(or, T, (C_##T)(x | y))                                        \
    BINARY(xor, T, (C_##T)(x ^ y))
WRAPPING(DEFINE)
#undef DEFINE

BINARY(add_sat, s32, ((int64_t)x + y > INT32_MAX ? INT32_MAX : (int64_t)x + y < INT32_MIN ? INT32_MIN : (int64_t)x + y))
BINARY(sub_sat, s32, ((int64_t)x - y > INT32_MAX ? INT32_MAX : (int64_t)x - y < INT32_MIN ? INT32_MIN : (int64_t)x - y))

#define HIGH_u16(x, y) (((uint32_t)(x) * (y)) >> 16)
#define HIGH_s16(x, y) (((int32_t)(x) * (y)) >> 16)
#define HIGH_u32(x, y) (((uint64_t)(x) * (y)) >> 32)
#define HIGH_s32(x, y) (((int64_t)(x) * (y)) >> 32)
#define HIGH_u64(x, y) (((unsigned __int128)(x) * (y)) >> 64)
#define HIGH_s64(x, y) ((uint64_t)(((__int128)(x) * (y)) >> 64))
/* Division by zero and the one signed overflow are undefined in PTX: all ones, and the dividend. */
#define DIVIDE_u(x, y) ((y) ? (x) / ((y) ? (y) : 1) : (x) | ~(x))
#define REMAINDER_u(x, y) ((y) ? (x) % ((y) ? (y) : 1) : (x))
#define DIVIDE_s(x, y) ((y) == 0 ? -1 : (y) == -1 ? (int64_t)(0 - (uint64_t)(x)) : (int64_t)(x) / (y))
#define REMAINDER_s(x, y) ((y) == 0 || (y) == -1 ? ((y) == 0 ? (x) : 0) : (x) % (y))
#define DEFINE(T)                                                \
    BINARY(mul_hi, T, HIGH_##T(x, y))                            \
    TERNARY(mad_hi, T, ((uint64_t)HIGH_##T(x, y) + (uint64_t)z)) \
    BINARY(min, T, (x < y ? x : y))                              \
    BINARY(max, T, (x > y ? x : y))                              \
    TERNARY(sad, T, ((uint64_t)z + (x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y)))
ALL_INT(DEFINE)
#undef DEFINE
#define DEFINE(T) BINARY(div, T, (C_##T)DIVIDE_u(x, y)) BINARY(rem, T, (C_##T)REMAINDER_u(x, y))
DEFINE(u16)
DEFINE(u32)
DEFINE(u64)
#undef DEFINE
#define DEFINE(T)                     \
    BINARY(div, T, DIVIDE_s(x, y))    \
    BINARY(rem, T, REMAINDER_s(x, y)) \
    UNARY(abs, T, (x < 0 ? 0 - (uint64_t)x : (uint64_t)x))
DEFINE(s16)
DEFINE(s32)
DEFINE(s64)
#undef DEFINE

/* Products of double width: the result's slot differs from the operands'. */
#define WIDE(T, D, DT)                                                                         \
    static void mul_wide_##T(sim_warp *w, const sim_inst *i, uint32_t mask) {                  \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);                            \
        WORD(D) out[LANES];                                                                    \
        EACH_LANE out[l] = (WORD(D))((DT)GET_##T(a) * (DT)GET_##T(b));                         \
        COMMIT(D)(w, i->out[0], out, mask);                                                    \
    }                                                                                          \
    static void mad_wide_##T(sim_warp *w, const sim_inst *i, uint32_t mask) {                  \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);     \
        WORD(D) out[LANES];                                                                    \
        EACH_LANE out[l] = (WORD(D))((WORD(D))((DT)GET_##T(a) * (DT)GET_##T(b)) + GET_##D(c)); \
        COMMIT(D)(w, i->out[0], out, mask);                                                    \
    }
WIDE(u16, u32, uint32_t)
WIDE(s16, u32, int32_t)
WIDE(u32, u64, uint64_t)
WIDE(s32, u64, int64_t)

#define SIGN24(x) ((int32_t)((uint32_t)(x) << 8) >> 8)
BINARY(mul24_lo, u32, ((x & 0xffffff) * (y & 0xffffff)))
BINARY(mul24_lo, s32, ((uint32_t)((int64_t)SIGN24(x) * SIGN24(y))))
TERNARY(mad24_lo, u32, ((x & 0xffffff) * (y & 0xffffff) + z))
TERNARY(mad24_lo, s32, ((uint32_t)((int64_t)SIGN24(x) * SIGN24(y) + z)))

/* --- shifts: amounts beyond the width clamp; the amount is a u32 whatever the type */
#define SHIFT(name, T, width, expr)                                         \
    static void name##_##T(sim_warp *w, const sim_inst *i, uint32_t mask) { \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);         \
        WORD(T) out[LANES];                                                 \
        EACH_LANE {                                                         \
            C_##T x = GET_##T(a);                                           \
            uint32_t y = GET_u32(b);                                        \
            bool over = y >= width;                                         \
            y &= width - 1;                                                 \
            out[l] = BITS_##T(expr);                                        \
        }                                                                   \
        COMMIT(T)(w, i->out[0], out, mask);                                 \
    }
#define DEFINE(T, width)                               \
    SHIFT(shl, T, width, (over ? 0 : (C_##T)(x << y))) \
    SHIFT(shr, T, width, (over ? 0 : (C_##T)(x >> y)))
DEFINE(u16, 16)
DEFINE(u32, 32)
DEFINE(u64, 64)
#undef DEFINE
SHIFT(shr, s16, 16, (over ? x >> 15 : x >> y))
SHIFT(shr, s32, 32, (over ? x >> 31 : x >> y))
SHIFT(shr, s64, 64, (over ? x >> 63 : x >> y))

#define FUNNEL_LEFT(x, y, n) ((n) == 0 ? (y) : (n) >= 32 ? (x) : ((y) << (n) | (x) >> (32 - (n))))
#define FUNNEL_RIGHT(x, y, n) ((n) == 0 ? (x) : (n) >= 32 ? (y) : ((y) << (32 - (n)) | (x) >> (n)))
TERNARY(shf_l_wrap, u32, FUNNEL_LEFT(x, y, (z & 31)))
TERNARY(shf_r_wrap, u32, FUNNEL_RIGHT(x, y, (z & 31)))
TERNARY(shf_l_clamp, u32, FUNNEL_LEFT(x, y, (z > 32 ? 32 : z)))
TERNARY(shf_r_clamp, u32, FUNNEL_RIGHT(x, y, (z > 32 ? 32 : z)))

/* --- bits */
#define TO_U32(name, T, expr)                                               \
    static void name##_##T(sim_warp *w, const sim_inst *i, uint32_t mask) { \
        const sim_reg *a = row(w, i->in[0]);                                \
        uint32_t out[LANES];                                                \
        EACH_LANE {                                                         \
            C_##T x = GET_##T(a);                                           \
            out[l] = (uint32_t)(expr);                                      \
        }                                                                   \
        commit32(w, i->out[0], out, mask);                                  \
    }
TO_U32(popc, u32, __builtin_popcount(x))
TO_U32(popc, u64, __builtin_popcountll(x))
TO_U32(clz, u32, x ? __builtin_clz(x) : 32)
TO_U32(clz, u64, x ? __builtin_clzll(x) : 64)
#define FIND_u32(x) ((x) ? 31 - __builtin_clz(x) : -1)
#define FIND_u64(x) ((x) ? 63 - __builtin_clzll(x) : -1)
TO_U32(bfind, u32, FIND_u32(x))
TO_U32(bfind, u64, FIND_u64(x))
TO_U32(bfind, s32, FIND_u32((uint32_t)(x < 0 ? ~x : x)))
TO_U32(bfind, s64, FIND_u64((uint64_t)(x < 0 ? ~x : x)))
TO_U32(bfind_shift, u32, x ? __builtin_clz(x) : -1)
TO_U32(bfind_shift, u64, x ? __builtin_clzll(x) : -1)
TO_U32(bfind_shift, s32, (x < 0 ? ~x : x) ? __builtin_clz((uint32_t)(x < 0 ? ~x : x)) : -1)
TO_U32(bfind_shift, s64, (x < 0 ? ~x : x) ? __builtin_clzll((uint64_t)(x < 0 ? ~x : x)) : -1)

static uint32_t reverse32(uint32_t v) {
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(v);
}
UNARY(brev, u32, reverse32(x))
UNARY(brev, u64, ((uint64_t)reverse32((uint32_t)x) << 32 | reverse32((uint32_t)(x >> 32))))

static uint64_t extract(uint64_t a, uint32_t position, uint32_t length, uint32_t width, bool is_signed) {
    position &= 0xff, length &= 0xff;
    uint32_t last = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
    bool sign = is_signed && length && (a >> last & 1);
    uint32_t count = position >= width ? 0 : length < width - position ? length : width - position;
    uint64_t keep = count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    return ((position < width ? a >> position : 0) & keep) | (sign ? ~keep : 0);
}

/* -- Values of which some bits are defined: LLVM puts vectors of bytes together one by one, in a register that nothing
 * has written before. -- */

static uint32_t defined_bits(const sim_warp *w, int r, uint32_t l) {
    if (w->init[r] >> l & 1) return UINT32_MAX;
    return w->frame->bits ? w->frame->bits[(size_t)r * LANES + l] : 0;
}

/* The lanes' results have these bits defined. */
static void define_bits(sim_warp *w, int r, const uint32_t *bits, uint32_t mask) {
    sim_frame *f = w->frame;
    uint32_t known = 0, some = 0;
    EACH_LANE {
        known |= (uint32_t)(bits[l] == UINT32_MAX) << l;
        some |= (uint32_t)(bits[l] != 0) << l;
    }
    w->init[r] = (w->init[r] & ~mask) | (known & mask);
    if (!f->bits && some & ~known & mask) f->bits = calloc((size_t)f->func->n_rows * LANES, sizeof *f->bits);
    for (uint32_t m = mask & ~known; f->bits && m; m &= m - 1)
        f->bits[(size_t)r * LANES + (size_t)__builtin_ctz(m)] = bits[__builtin_ctz(m)];
}

void sim_undefine(sim_warp *w, const sim_inst *i, uint32_t lanes) {
    for (int k = 0; k < i->n_out; k++)
        for (uint32_t m = lanes; m; m &= m - 1) {
            const uint32_t l = (uint32_t)__builtin_ctz(m);
            w->frame->bits[(size_t)i->out[k] * LANES + l] = i->exec == sim_exec_mov32 ? defined_bits(w, i->in[0], l)
                                                                                      : 0;
        }
}

/* Bits outside the field may be undefined. */
static void bfe_32(sim_warp *w, const sim_inst *i, uint32_t mask, bool is_signed) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);
    const uint32_t known = w->init[i->in[1]] & w->init[i->in[2]];
    uint32_t out[LANES], bits[LANES];
    EACH_LANE {
        out[l] = (uint32_t)extract(a->u32[l], b->u32[l], c->u32[l], 32, is_signed);
        /* What is undefined is as if it were set: it shows where it, or its sign, is in the result. */
        bits[l] = known >> l & 1
                      ? ~(uint32_t)extract((uint32_t)~defined_bits(w, i->in[0], l), b->u32[l], c->u32[l], 32, is_signed)
                      : 0;
    }
    commit32(w, i->out[0], out, mask);
    define_bits(w, i->out[0], bits, mask);
}
static void bfe_u32(sim_warp *w, const sim_inst *i, uint32_t mask) { bfe_32(w, i, mask, false); }
static void bfe_s32(sim_warp *w, const sim_inst *i, uint32_t mask) { bfe_32(w, i, mask, true); }
#define BFE(T, width, is_signed)                                                                           \
    static void bfe_##T(sim_warp *w, const sim_inst *i, uint32_t mask) {                                   \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);                 \
        WORD(T) out[LANES];                                                                                \
        EACH_LANE out[l] = (WORD(T))extract(BITS_##T(GET_##T(a)), b->u32[l], c->u32[l], width, is_signed); \
        COMMIT(T)(w, i->out[0], out, mask);                                                                \
    }
BFE(u64, 64, false)
BFE(s64, 64, true)

/* A field of `a` in `b`: bits of `b` that it covers may be undefined. */
static void bfi_u32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]), *d = row(w, i->in[3]);
    const uint32_t known = w->init[i->in[2]] & w->init[i->in[3]];
    uint32_t out[LANES], bits[LANES];
    EACH_LANE {
        uint32_t position = c->u32[l] & 0xff, length = d->u32[l] & 0xff;
        uint64_t field = length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
        if (position >= 32) field = 0, position = 0;
        const uint32_t covered = (uint32_t)(field << position);
        out[l] = (b->u32[l] & ~covered) | ((uint32_t)((a->u32[l] & field) << position) & covered);
        bits[l] = (defined_bits(w, i->in[1], l) & ~covered) |
                  ((uint32_t)((defined_bits(w, i->in[0], l) & field) << position) & covered);
        if (!(known >> l & 1)) bits[l] = 0;
    }
    commit32(w, i->out[0], out, mask);
    define_bits(w, i->out[0], bits, mask);
}
#define BFI(T, width)                                                                                             \
    static void bfi_##T(sim_warp *w, const sim_inst *i, uint32_t mask) {                                          \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]), *d = row(w, i->in[3]); \
        WORD(T) out[LANES];                                                                                       \
        EACH_LANE {                                                                                               \
            uint32_t position = c->u32[l] & 0xff, length = d->u32[l] & 0xff;                                      \
            uint64_t field = length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;                             \
            if (position >= width) field = 0, position = 0;                                                       \
            out[l] = (WORD(T))(((uint64_t)GET_##T(b) & ~(field << position)) | ((uint64_t)GET_##T(a) & field)     \
                                                                                   << position);                  \
        }                                                                                                         \
        COMMIT(T)(w, i->out[0], out, mask);                                                                       \
    }
BFI(u64, 64)

BINARY(bmsk, u32, (x >= 32 ? 0 : (uint32_t)((y >= 32 ? UINT64_C(0xffffffff) : (UINT64_C(1) << y) - 1) << x)))
BINARY(bmsk_wrap, u32, ((uint32_t)((((UINT64_C(1) << (y & 31)) - 1)) << (x & 31))))

static uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int k = 0; k < 4; k++) {
        uint32_t s = selector >> 4 * k & 15, byte = (uint32_t)(bytes >> 8 * (s & 7)) & 0xff;
        if (s & 8) byte = byte & 0x80 ? 0xff : 0;
        out |= byte << 8 * k;
    }
    return out;
}
static uint32_t selector_of(sim_operation op, uint32_t c) {
    static const uint16_t table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                         {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                         {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return table[op - OP_PRMT_F4E][c & 3];
}
/* Bytes that are not taken may be undefined. */
static void prmt_u32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);
    const uint32_t known = w->init[i->in[2]];
    uint32_t out[LANES], bits[LANES];
    EACH_LANE {
        uint32_t selector = i->op == OP_PRMT ? c->u32[l] : selector_of((sim_operation)i->op, c->u32[l]);
        const uint64_t from = (uint64_t)defined_bits(w, i->in[1], l) << 32 | defined_bits(w, i->in[0], l);
        out[l] = permute(a->u32[l], b->u32[l], selector);
        bits[l] = 0;
        for (int k = 0; k < 4 && known >> l & 1; k++)
            if ((from >> 8 * (selector >> 4 * k & 7) & 0xff) == 0xff) bits[l] |= UINT32_C(0xff) << 8 * k;
    }
    commit32(w, i->out[0], out, mask);
    define_bits(w, i->out[0], bits, mask);
}

static void lop3_u32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);
    uint32_t out[LANES] = {0};
    for (int k = 0; k < 8; k++)
        if (i->imm >> k & 1)
            EACH_LANE out[l] |= (k & 4 ? a->u32[l] : ~a->u32[l]) & (k & 2 ? b->u32[l] : ~b->u32[l]) &
                                (k & 1 ? c->u32[l] : ~c->u32[l]);
    commit32(w, i->out[0], out, mask);
}

static void dp4a_u32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);
    uint32_t out[LANES];
    EACH_LANE {
        uint32_t sum = c->u32[l];
        for (int k = 0; k < 32; k += 8) {
            int32_t x = i->type == T_S32 ? (int8_t)(a->u32[l] >> k) : (uint8_t)(a->u32[l] >> k);
            int32_t y = i->type2 == T_S32 ? (int8_t)(b->u32[l] >> k) : (uint8_t)(b->u32[l] >> k);
            sum += (uint32_t)(x * y);
        }
        out[l] = sum;
    }
    commit32(w, i->out[0], out, mask);
}

/* --- comparison: in: a, b and perhaps a predicate; out: the predicate and perhaps its complement's */
static void finish_compare(sim_warp *w, const sim_inst *i, uint32_t result, uint32_t mask) {
    uint32_t other = ~result;
    if (i->sub != BOOL_NONE) {
        uint32_t c = predicate(w, i->in[2]);
        result = i->sub == BOOL_AND ? result & c : i->sub == BOOL_OR ? result | c : result ^ c;
        other = i->sub == BOOL_AND ? other & c : i->sub == BOOL_OR ? other | c : other ^ c;
    }
    commit_predicate(w, i->out[0], result, mask);
    if (i->n_out > 1) commit_predicate(w, i->out[1], other, mask);
}
#define COMPARE_CASE(C, T, op) \
    case CMP_##C: EACH_LANE r |= (uint32_t)(GET_##T(a) op GET_##T(b)) << l; break
#define DEFINE(T)                                                         \
    static uint32_t compare_##T(sim_warp *w, const sim_inst *i) {         \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);       \
        uint32_t r = 0;                                                   \
        switch (i->op) {                                                  \
            COMPARE_CASE(EQ, T, ==);                                      \
            COMPARE_CASE(NE, T, !=);                                      \
            COMPARE_CASE(LT, T, <);                                       \
            COMPARE_CASE(LE, T, <=);                                      \
            COMPARE_CASE(GT, T, >);                                       \
            COMPARE_CASE(GE, T, >=);                                      \
        default: break;                                                   \
        }                                                                 \
        return r;                                                         \
    }                                                                     \
    static void setp_##T(sim_warp *w, const sim_inst *i, uint32_t mask) { \
        finish_compare(w, i, compare_##T(w, i), mask);                    \
    }
ALL_INT(DEFINE)
#undef DEFINE

/* --- selection and moves */
static void selp_32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);
    uint32_t p = predicate(w, i->in[2]), out[LANES];
    EACH_LANE out[l] = p >> l & 1 ? a->u32[l] : b->u32[l];
    commit32(w, i->out[0], out, mask);
    uint32_t known = w->init[i->in[2]] & ((w->init[i->in[0]] & p) | (w->init[i->in[1]] & ~p));
    w->init[i->out[0]] = (w->init[i->out[0]] & ~mask) | (known & mask);
}
static void selp_64(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);
    uint32_t p = predicate(w, i->in[2]);
    uint64_t out[LANES];
    EACH_LANE out[l] = p >> l & 1 ? a->u64[l] : b->u64[l];
    commit64(w, i->out[0], out, mask);
    uint32_t known = w->init[i->in[2]] & ((w->init[i->in[0]] & p) | (w->init[i->in[1]] & ~p));
    w->init[i->out[0]] = (w->init[i->out[0]] & ~mask) | (known & mask);
}
static void slct_any(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);
    uint32_t out[LANES];
    uint64_t out64[LANES];
    EACH_LANE {
        float f = i->flags & FLAG_FTZ ? flush_f32(c->f32[l]) : c->f32[l];
        bool first = i->type2 == T_F32 ? f >= 0 : c->s32[l] >= 0;
        if (sim_type_size((sim_type)i->type) == 8) out64[l] = first ? a->u64[l] : b->u64[l];
        else out[l] = first ? a->u32[l] : b->u32[l];
    }
    if (sim_type_size((sim_type)i->type) == 8) commit64(w, i->out[0], out64, mask);
    else commit32(w, i->out[0], out, mask);
}
void sim_exec_mov32(sim_warp *w, const sim_inst *i, uint32_t mask) {
    commit32(w, i->out[0], row(w, i->in[0])->u32, mask);
}
void sim_exec_mov64(sim_warp *w, const sim_inst *i, uint32_t mask) {
    commit64(w, i->out[0], row(w, i->in[0])->u64, mask);
}
void sim_exec_narrow(sim_warp *w, const sim_inst *i, uint32_t mask) {
    /* The source may have 32-bit lanes when bits below 32 are wanted: `sub` says so. */
    uint32_t keep = i->imm == 4 ? FULL : i->imm == 2 ? 0xffff : 0xff, out[LANES];
    const sim_reg *a = row(w, i->in[0]);
    if (i->sub) EACH_LANE out[l] = a->u32[l] & keep;
    else EACH_LANE out[l] = (uint32_t)a->u64[l] & keep;
    commit32(w, i->out[0], out, mask);
}
void sim_exec_widen_unsigned(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]);
    uint64_t out[LANES];
    EACH_LANE out[l] = a->u32[l];
    commit64(w, i->out[0], out, mask);
}
void sim_exec_widen_signed(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]);
    uint64_t out[LANES];
    EACH_LANE out[l] = (uint64_t)(int64_t)(i->imm == 1   ? (int8_t)a->u32[l]
                                           : i->imm == 2 ? (int16_t)a->u32[l]
                                                         : a->s32[l]);
    commit64(w, i->out[0], out, mask);
}

/* Elements of `imm` bytes into one register, and back; half of a value that is undefined does not make the whole so. */
void sim_exec_pack(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint64_t out[LANES] = {0};
    uint32_t known = 0, out32[LANES];
    for (int k = 0; k < i->n_in; k++) {
        const sim_reg *a = row(w, i->in[k]);
        EACH_LANE out[l] |= (uint64_t)a->u32[l] << (k * i->imm * 8);
        known |= w->init[i->in[k]];
    }
    if (i->type == T_B64) {
        commit64(w, i->out[0], out, mask);
    } else {
        EACH_LANE out32[l] = (uint32_t)out[l];
        commit32(w, i->out[0], out32, mask);
    }
    w->init[i->out[0]] = (w->init[i->out[0]] & ~mask) | (known & mask);
}
void sim_exec_unpack(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]);
    sim_reg copy;
    uint64_t keep = i->imm == 4 ? FULL : i->imm == 2 ? 0xffff : 0xff;
    EACH_LANE copy.u64[l] = i->type == T_B64 ? a->u64[l] : a->u32[l];
    for (int k = 0; k < i->n_out; k++) {
        uint32_t out[LANES];
        EACH_LANE out[l] = (uint32_t)(copy.u64[l] >> (k * i->imm * 8) & keep);
        commit32(w, i->out[k], out, mask);
    }
}

void sim_exec_predicate_logic(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t a = predicate(w, i->in[0]), b = i->n_in > 1 ? predicate(w, i->in[1]) : 0;
    commit_predicate(w, i->out[0],
                     i->op == OP_NOT   ? ~a
                     : i->op == OP_AND ? a & b
                     : i->op == OP_OR  ? a | b
                                       : a ^ b,
                     mask);
}
void sim_exec_predicate_mov(sim_warp *w, const sim_inst *i, uint32_t mask) {
    commit_predicate(w, i->out[0], predicate(w, i->in[0]), mask);
}

/* --- the table */
#define ROW6(name) {name##_u16, name##_u32, name##_u64, name##_s16, name##_s32, name##_s64}
#define ROWU(name) {name##_u16, name##_u32, name##_u64, name##_u16, name##_u32, name##_u64}
#define ROW_32_64(name) {NULL, name##_u32, name##_u64, NULL, name##_u32, name##_u64}
#define ROW_32(name) {NULL, name##_u32, NULL, NULL, name##_u32, NULL}
#define ROW_BOTH(name) {NULL, name##_u32, name##_u64, NULL, name##_s32, name##_s64}
static sim_exec *const table[][6] = {
    [OP_ADD] = ROWU(add),
    [OP_SUB] = ROWU(sub),
    [OP_MUL_LO] = ROWU(mul_lo),
    [OP_MAD_LO] = ROWU(mad_lo),
    [OP_MUL_HI] = ROW6(mul_hi),
    [OP_MAD_HI] = ROW6(mad_hi),
    [OP_MUL_WIDE] = {mul_wide_u16, mul_wide_u32, NULL, mul_wide_s16, mul_wide_s32, NULL},
    [OP_MAD_WIDE] = {mad_wide_u16, mad_wide_u32, NULL, mad_wide_s16, mad_wide_s32, NULL},
    [OP_DIV] = ROW6(div),
    [OP_REM] = ROW6(rem),
    [OP_ABS] = {NULL, NULL, NULL, abs_s16, abs_s32, abs_s64},
    [OP_NEG] = ROWU(neg),
    [OP_MIN] = ROW6(min),
    [OP_MAX] = ROW6(max),
    [OP_AND] = ROWU(and),
    [OP_OR] = ROWU(or),
    [OP_XOR] = ROWU(xor),
    [OP_NOT] = ROWU(not),
    [OP_CNOT] = ROWU(cnot),
    [OP_SHL] = ROWU(shl),
    [OP_SHR] = ROW6(shr),
    [OP_SHF_L_WRAP] = ROW_32(shf_l_wrap),
    [OP_SHF_R_WRAP] = ROW_32(shf_r_wrap),
    [OP_SHF_L_CLAMP] = ROW_32(shf_l_clamp),
    [OP_SHF_R_CLAMP] = ROW_32(shf_r_clamp),
    [OP_POPC] = ROW_32_64(popc),
    [OP_CLZ] = ROW_32_64(clz),
    [OP_BREV] = ROW_32_64(brev),
    [OP_BFIND] = ROW_BOTH(bfind),
    [OP_BFIND_SHIFT] = ROW_BOTH(bfind_shift),
    [OP_BFE] = ROW_BOTH(bfe),
    [OP_BFI] = ROW_32_64(bfi),
    [OP_SAD] = ROW6(sad),
    [OP_DP4A] = ROW_32(dp4a),
    [OP_LOP3] = ROW_32(lop3),
    [OP_MUL24] = {NULL, mul24_lo_u32, NULL, NULL, mul24_lo_s32, NULL},
    [OP_MAD24] = {NULL, mad24_lo_u32, NULL, NULL, mad24_lo_s32, NULL},
    [OP_PRMT] = ROW_32(prmt),
    [OP_PRMT_F4E] = ROW_32(prmt),
    [OP_PRMT_B4E] = ROW_32(prmt),
    [OP_PRMT_RC8] = ROW_32(prmt),
    [OP_PRMT_ECL] = ROW_32(prmt),
    [OP_PRMT_ECR] = ROW_32(prmt),
    [OP_PRMT_RC16] = ROW_32(prmt),
    [OP_SETP] = ROW6(setp),
    [OP_BMSK] = {NULL, bmsk_u32, NULL, NULL, bmsk_wrap_u32, NULL}, /* the signed column: the wrapping form */
    [OP_SELP] = {selp_32, selp_32, selp_64, selp_32, selp_32, selp_64},
    [OP_SLCT] = {slct_any, slct_any, slct_any, slct_any, slct_any, slct_any},
    [OP_MOV] = {sim_exec_mov32, sim_exec_mov32, sim_exec_mov64, sim_exec_mov32, sim_exec_mov32, sim_exec_mov64},
};

sim_exec *sim_pick_int(sim_operation op, sim_type t) {
    int column = -1;
    switch (t) {
    case T_U16:
    case T_B16:
    case T_F16:
    case T_BF16: column = 0; break;
    case T_U32:
    case T_B32:
    case T_F32:
    case T_F16X2:
    case T_BF16X2: column = 1; break;
    case T_U64:
    case T_B64:
    case T_F64: column = 2; break;
    case T_S16: column = 3; break;
    case T_S32: column = 4; break;
    case T_S64: column = 5; break;
    default: break;
    }
    if (column < 0 || (size_t)op >= sizeof table / sizeof *table) return NULL;
    return table[op][column];
}

sim_exec *sim_pick_saturating(sim_operation op);
sim_exec *sim_pick_saturating(sim_operation op) {
    return op == OP_ADD ? add_sat_s32 : op == OP_SUB ? sub_sat_s32 : NULL;
}
