/* SPDX-License-Identifier: MIT
 * cvt between all types: rounding modes, saturation, flushing, packed results. */
#include "lanes.h"

static uint64_t source_bits(const sim_reg *a, sim_type t, int l) {
    switch (sim_type_size(t)) {
    case 1: return sim_type_signed(t) ? (uint64_t)(int64_t)(int8_t)a->u32[l] : (uint8_t)a->u32[l];
    case 2: return sim_type_signed(t) ? (uint64_t)(int64_t)(int16_t)a->u32[l] : (uint16_t)a->u32[l];
    case 4: return sim_type_signed(t) ? (uint64_t)(int64_t)a->s32[l] : a->u32[l];
    default: return a->u64[l];
    }
}

static double float_value(uint64_t bits, sim_type t) {
    switch (t) {
    case T_F16: return f16_to_f32((uint32_t)bits);
    case T_BF16: return bf16_to_f32((uint32_t)bits);
    case T_F64: return as_f64(bits);
    default: return as_f32((uint32_t)bits);
    }
}

static uint64_t to_float(double v, sim_type t, sim_round r) {
    switch (t) {
    case T_F16: return sim_round_double(v, sim_f16, r);
    case T_BF16: return sim_round_double(v, sim_bf16, r);
    case T_TF32: return sim_round_double(v, sim_tf32, r);
    case T_F64: return v != v ? F64_NAN : as_u64(v);
    default: return sim_round_double(v, sim_f32, r);
    }
}

static sim_format format_of(sim_type t) {
    return t == T_F16 ? sim_f16 : t == T_BF16 ? sim_bf16 : t == T_F64 ? sim_f64 : sim_f32;
}

static uint64_t float_to_int(double v, sim_type to, sim_type from, sim_round r) {
    int width = sim_type_size(to) * 8;
    bool is_signed = sim_type_signed(to);
    if (v != v) return from == T_F64 || width == 64 ? UINT64_C(1) << (width - 1) : 0;
    v = sim_round_integral(v, r);
    if (is_signed) {
        double limit = ldexp(1, width - 1);
        if (v >= limit) return (UINT64_C(1) << (width - 1)) - 1;
        if (v < -limit) return (uint64_t)INT64_MIN >> (64 - width);
        return (uint64_t)(int64_t)v;
    }
    if (v <= 0) return 0;
    if (v >= ldexp(1, width)) return width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
    return (uint64_t)v;
}

static uint64_t int_to_int(uint64_t v, sim_type to, sim_type from, bool sat) {
    int width = sim_type_size(to) * 8;
    if (!sat) return v;
    bool negative = sim_type_signed(from) && (int64_t)v < 0;
    if (sim_type_signed(to)) {
        int64_t most = width == 64 ? INT64_MAX : (INT64_C(1) << (width - 1)) - 1;
        if (negative) return (int64_t)v < -most - 1 ? (uint64_t)(-most - 1) : v;
        return v > (uint64_t)most ? (uint64_t)most : v;
    }
    if (negative) return 0;
    return width < 64 && v >> width ? (UINT64_C(1) << width) - 1 : v;
}

static uint64_t convert(uint64_t bits, sim_type to, sim_type from, int flags, sim_round r) {
    if (!sim_type_float(from)) {
        if (!sim_type_float(to)) return int_to_int(bits, to, from, flags & FLAG_SAT);
        bool negative = sim_type_signed(from) && (int64_t)bits < 0;
        uint64_t out = sim_round_parts(negative, negative ? 0 - bits : bits, 0, false, format_of(to), r);
        if (flags & FLAG_SAT) {
            double v = float_value(out, to);
            out = to_float(v > 0 ? (v < 1 ? v : 1) : 0, to, RND_RN);
        }
        return out;
    }
    double v = float_value(bits, from);
    if (flags & FLAG_FTZ && from == T_F32) v = flush_f32((float)v);
    if (!sim_type_float(to)) return float_to_int(v, to, from, r == RND_NONE ? RND_RZI : r);
    if (r == RND_RNI || r == RND_RZI || r == RND_RMI || r == RND_RPI)
        v = v != v ? v : sim_round_integral(v, r), r = RND_RN;
    if (flags & FLAG_SAT) v = v > 0 ? (v < 1 ? v : 1) : 0;
    if (flags & FLAG_RELU && v < 0) v = 0;
    uint64_t out = to_float(v, to, r);
    if (flags & FLAG_FTZ && to == T_F32) out = as_u32(flush_f32(as_f32((uint32_t)out)));
    return out;
}

static void cvt_general(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]);
    sim_type to = (sim_type)i->type, from = (sim_type)i->type2;
    int size = sim_type_size(to), slot = (int)i->imm; /* bytes of the result's register */
    uint64_t wide[LANES];
    uint32_t out[LANES];
    EACH_LANE {
        if (!(mask >> l & 1)) continue;
        uint64_t v = convert(source_bits(a, from, l), to, from, i->flags, (sim_round)i->round);
        /* Extend into the register as the type says. */
        if (size == 1) v = sim_type_signed(to) ? (uint64_t)(int64_t)(int8_t)v : (uint8_t)v;
        else if (size == 2) v = sim_type_signed(to) ? (uint64_t)(int64_t)(int16_t)v : (uint16_t)v;
        else if (size == 4) v = sim_type_signed(to) ? (uint64_t)(int64_t)(int32_t)v : (uint32_t)v;
        wide[l] = v;
        out[l] = slot == 2 ? (uint16_t)v : (uint32_t)v;
    }
    if (slot == 8) commit64(w, i->out[0], wide, mask);
    else commit32(w, i->out[0], out, mask);
}

/* Two float32 into one register: the first is the upper half. */
void sim_exec_cvt_pack(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);
    bool f16 = i->type == T_F16X2, fast = i->round == RND_RN && !i->flags;
    uint32_t out[LANES];
    if (fast && f16) EACH_LANE out[l] = sim_f32_to_f16(b->f32[l]) | sim_f32_to_f16(a->f32[l]) << 16;
    else if (fast) EACH_LANE out[l] = sim_f32_to_bf16(b->f32[l]) | sim_f32_to_bf16(a->f32[l]) << 16;
    else EACH_LANE {
            sim_type t = f16 ? T_F16 : T_BF16;
            uint32_t low = (uint32_t)convert(b->u32[l], t, T_F32, i->flags, (sim_round)i->round);
            out[l] = low | (uint32_t)convert(a->u32[l], t, T_F32, i->flags, (sim_round)i->round) << 16;
        }
    commit32(w, i->out[0], out, mask);
}

/* --- the conversions that inner loops use */
#define SIMPLE(name, slot, expr)                                      \
    static void name(sim_warp *w, const sim_inst *i, uint32_t mask) { \
        const sim_reg *a = row(w, i->in[0]);                          \
        uint##slot##_t out[LANES];                                    \
        EACH_LANE out[l] = expr;                                      \
        commit##slot(w, i->out[0], out, mask);                        \
    }
SIMPLE(cvt_f32_f16, 32, as_u32(canonical_f32(f16_to_f32(a->u32[l] & 0xffff))))
SIMPLE(cvt_f32_bf16, 32, as_u32(canonical_f32(bf16_to_f32(a->u32[l] & 0xffff))))
SIMPLE(cvt_f16_f32, 32, sim_f32_to_f16(a->f32[l]))
SIMPLE(cvt_bf16_f32, 32, sim_f32_to_bf16(a->f32[l]))
SIMPLE(cvt_f32_s32, 32, as_u32((float)a->s32[l]))
SIMPLE(cvt_f32_u32, 32, as_u32((float)a->u32[l]))
SIMPLE(cvt_u64_u32, 64, a->u32[l])
SIMPLE(cvt_s64_s32, 64, (uint64_t)(int64_t)a->s32[l])
SIMPLE(cvt_u32_u64, 32, (uint32_t)a->u64[l])
SIMPLE(cvt_u32_u16, 32, a->u32[l] & 0xffff)
SIMPLE(cvt_s32_s16, 32, (uint32_t)(int32_t)(int16_t)a->u32[l])

sim_exec *sim_pick_cvt(sim_type to, sim_type from, int flags, sim_round r) {
    if (flags == 0) {
        if (to == T_F32 && from == T_F16 && r == RND_NONE) return cvt_f32_f16;
        if (to == T_F32 && from == T_BF16 && r == RND_NONE) return cvt_f32_bf16;
        if (to == T_F16 && from == T_F32 && r == RND_RN) return cvt_f16_f32;
        if (to == T_BF16 && from == T_F32 && r == RND_RN) return cvt_bf16_f32;
        if (to == T_F32 && from == T_S32 && r == RND_RN) return cvt_f32_s32;
        if (to == T_F32 && from == T_U32 && r == RND_RN) return cvt_f32_u32;
        if ((to == T_U64 || to == T_S64) && from == T_U32) return cvt_u64_u32;
        if ((to == T_U64 || to == T_S64) && from == T_S32) return cvt_s64_s32;
        if ((to == T_U32 || to == T_S32) && (from == T_U64 || from == T_S64)) return cvt_u32_u64;
        if ((to == T_U32 || to == T_S32) && from == T_U16) return cvt_u32_u16;
        if ((to == T_U32 || to == T_S32) && from == T_S16) return cvt_s32_s16;
    }
    return cvt_general;
}

/* Windows of generic addresses: imm is what to add. */
void sim_exec_cvta(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]);
    uint64_t out[LANES];
    EACH_LANE out[l] = a->u64[l] + (uint64_t)i->imm;
    commit64(w, i->out[0], out, mask);
}

void sim_exec_isspacep(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_reg *a = row(w, i->in[0]);
    uint32_t r = 0;
    EACH_LANE {
        uint64_t v = a->u64[l];
        bool shared = v - SHARED_WINDOW < WINDOW_BYTES, local = v - LOCAL_WINDOW < WINDOW_BYTES,
             param = v - PARAM_WINDOW < WINDOW_BYTES;
        bool yes = i->space == SP_SHARED  ? shared
                   : i->space == SP_LOCAL ? local
                   : i->space == SP_PARAM ? param
                                          : !shared && !local && !param;
        r |= (uint32_t)yes << l;
    }
    commit_predicate(w, i->out[0], r, mask);
}
