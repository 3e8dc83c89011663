/* SPDX-License-Identifier: MIT
 * float16 and bfloat16 arithmetic, single and packed. Each operation rounds once: float32 is wide enough for sums and
 * products to round innocuously, fma goes through a sum rounded to odd. */
#include "lanes.h"

static inline float widen(uint32_t h, bool f16) { return f16 ? f16_to_f32(h) : bf16_to_f32(h); }
static inline uint32_t flush(uint32_t h, bool f16) { return (h & (f16 ? 0x7c00 : 0x7f80)) ? h : h & 0x8000; }

static uint32_t finish(double value, bool f16, int flags) {
    if (flags & FLAG_SAT) value = value > 0 ? (value < 1 ? value : 1) : 0;
    if (flags & FLAG_RELU && value < 0) value = 0;
    uint32_t h = (uint32_t)sim_round_double(value, f16 ? sim_f16 : sim_bf16, RND_RN);
    return flags & FLAG_FTZ ? flush(h, f16) : h;
}

static uint32_t min_max(uint32_t a, uint32_t b, bool f16, int flags, bool least) {
    float x = widen(a, f16), y = widen(b, f16);
    uint32_t sign = (a ^ b) & 0x8000, r;
    if (flags & FLAG_ABS) a &= 0x7fff, b &= 0x7fff, x = fabsf(x), y = fabsf(y);
    if (x != x || y != y) r = (flags & FLAG_NAN) || (x != x && y != y) ? F16_NAN : x != x ? b : a;
    else if (x == y) r = (a >> 15) == (uint32_t)least ? a : b;
    else r = (x < y) == least ? a : b;
    if (flags & FLAG_XORSIGN && (r & 0x7fff) <= (f16 ? 0x7c00u : 0x7f80u)) r = (r & 0x7fff) | sign;
    return r;
}

static uint32_t one(int op, uint32_t a, uint32_t b, uint32_t c, bool f16, int flags) {
    if (flags & FLAG_FTZ) a = flush(a, f16), b = flush(b, f16), c = flush(c, f16);
    float x = widen(a, f16), y = widen(b, f16), z = widen(c, f16);
    switch (op) {
    case OP_ADD: return f16 ? finish((double)x + y, true, flags) : finish(sim_add_odd(x, y), false, flags);
    case OP_SUB: return f16 ? finish((double)x - y, true, flags) : finish(sim_add_odd(x, -y), false, flags);
    case OP_MUL: return finish((double)x * y, f16, flags);
    case OP_FMA: return finish(sim_add_odd((double)x * y, z), f16, flags);
    case OP_MIN: return min_max(a, b, f16, flags, true);
    case OP_MAX: return min_max(a, b, f16, flags, false);
    case OP_ABS: return x != x ? F16_NAN : a & 0x7fff;
    case OP_NEG: return x != x ? F16_NAN : a ^ 0x8000;
    case OP_EX2: return finish(exp2((double)x), f16, flags);
    case OP_TANH: return finish(tanh((double)x), f16, flags);
    default: return 0;
    }
}

/* Plain results from float32 where that is exact enough, for the loops that matter. */
#define FAST(name, expr)                                                                  \
    static void name##_f16(sim_warp *w, const sim_inst *i, uint32_t mask) {               \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);                       \
        uint32_t out[LANES];                                                              \
        EACH_LANE {                                                                       \
            float x = f16_to_f32(a->u32[l]), y = f16_to_f32(b->u32[l]);                   \
            out[l] = sim_f32_to_f16(expr);                                                \
        }                                                                                 \
        commit32(w, i->out[0], out, mask);                                                \
    }                                                                                     \
    static void name##_f16x2(sim_warp *w, const sim_inst *i, uint32_t mask) {             \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);                       \
        uint32_t out[LANES];                                                              \
        EACH_LANE {                                                                       \
            float x = f16_to_f32(a->u32[l] & 0xffff), y = f16_to_f32(b->u32[l] & 0xffff); \
            uint32_t low = sim_f32_to_f16(expr);                                          \
            x = f16_to_f32(a->u32[l] >> 16), y = f16_to_f32(b->u32[l] >> 16);             \
            out[l] = low | sim_f32_to_f16(expr) << 16;                                    \
        }                                                                                 \
        commit32(w, i->out[0], out, mask);                                                \
    }
FAST(add, x + y)
FAST(sub, x - y)
FAST(mul, x *y)

static void general(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[i->n_in > 1 ? 1 : 0]),
                  *c = row(w, i->in[i->n_in > 2 ? 2 : 0]);
    bool f16 = i->type == T_F16 || i->type == T_F16X2, packed = i->type == T_F16X2 || i->type == T_BF16X2;
    uint32_t out[LANES];
    EACH_LANE {
        if (!(mask >> l & 1)) continue;
        uint32_t x = a->u32[l], y = b->u32[l], z = c->u32[l];
        out[l] = one(i->op, x & 0xffff, y & 0xffff, z & 0xffff, f16, i->flags);
        if (packed) out[l] |= one(i->op, x >> 16, y >> 16, z >> 16, f16, i->flags) << 16;
    }
    commit32(w, i->out[0], out, mask);
}

sim_exec *sim_pick_half(sim_operation op, sim_type t) {
    switch (op) {
    case OP_ADD: return t == T_F16 ? add_f16 : t == T_F16X2 ? add_f16x2 : general;
    case OP_SUB: return t == T_F16 ? sub_f16 : t == T_F16X2 ? sub_f16x2 : general;
    case OP_MUL: return t == T_F16 ? mul_f16 : t == T_F16X2 ? mul_f16x2 : general;
    case OP_NOT: /* asks for the general form */
    case OP_FMA:
    case OP_MIN:
    case OP_MAX:
    case OP_ABS:
    case OP_NEG:
    case OP_EX2:
    case OP_TANH: return general;
    default: return NULL;
    }
}
