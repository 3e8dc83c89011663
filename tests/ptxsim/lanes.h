/* SPDX-License-Identifier: MIT
 * How the instruction families are written: one loop over 32 lanes into a local array, then the active lanes are
 * stored. */
#ifndef PTXSIM_LANES_H
#define PTXSIM_LANES_H

#include "machine.h"
#include "numbers.h"
#include "parse.h"

#define EACH_LANE for (int l = 0; l < LANES; l++)
#define FULL UINT32_C(0xffffffff)

static inline void commit32(sim_warp *w, int r, const uint32_t *out, uint32_t mask) {
    uint32_t *d = row(w, r)->u32;
    if (mask == FULL) memcpy(d, out, LANES * sizeof *d);
    else EACH_LANE d[l] = mask >> l & 1 ? out[l] : d[l];
}
static inline void commit64(sim_warp *w, int r, const uint64_t *out, uint32_t mask) {
    uint64_t *d = row(w, r)->u64;
    if (mask == FULL) memcpy(d, out, LANES * sizeof *d);
    else EACH_LANE d[l] = mask >> l & 1 ? out[l] : d[l];
}
static inline void commit_predicate(sim_warp *w, int r, uint32_t out, uint32_t mask) {
    uint32_t *d = row(w, r)->u32;
    *d = (*d & ~mask) | (out & mask);
}

/* Types of lanes: C type, width of the slot, reading lane l of a row, and the bits to store. */
#define C_u16 uint16_t
#define C_u32 uint32_t
#define C_u64 uint64_t
#define C_s16 int16_t
#define C_s32 int32_t
#define C_s64 int64_t
#define C_f32 float
#define C_f64 double
#define SLOT_u16 32
#define SLOT_u32 32
#define SLOT_u64 64
#define SLOT_s16 32
#define SLOT_s32 32
#define SLOT_s64 64
#define SLOT_f32 32
#define SLOT_f64 64
#define GET_u16(r) ((uint16_t)(r)->u32[l])
#define GET_u32(r) ((r)->u32[l])
#define GET_u64(r) ((r)->u64[l])
#define GET_s16(r) ((int16_t)(r)->u32[l])
#define GET_s32(r) ((r)->s32[l])
#define GET_s64(r) ((r)->s64[l])
#define GET_f32(r) ((r)->f32[l])
#define GET_f64(r) ((r)->f64[l])
#define BITS_u16(v) ((uint16_t)(v))
#define BITS_u32(v) ((uint32_t)(v))
#define BITS_u64(v) ((uint64_t)(v))
#define BITS_s16(v) ((uint16_t)(v))
#define BITS_s32(v) ((uint32_t)(v))
#define BITS_s64(v) ((uint64_t)(v))
#define BITS_f32(v) as_u32(v)
#define BITS_f64(v) as_u64(v)
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define COMMIT(T) CAT(commit, SLOT_##T)
#define WORD(T) CAT(CAT(uint, SLOT_##T), _t)

#define UNARY(name, T, expr)                                                \
    static void name##_##T(sim_warp *w, const sim_inst *i, uint32_t mask) { \
        const sim_reg *a = row(w, i->in[0]);                                \
        WORD(T) out[LANES];                                                 \
        EACH_LANE {                                                         \
            C_##T x = GET_##T(a);                                           \
            out[l] = BITS_##T(expr);                                        \
        }                                                                   \
        COMMIT(T)(w, i->out[0], out, mask);                                 \
    }
#define BINARY(name, T, expr)                                               \
    static void name##_##T(sim_warp *w, const sim_inst *i, uint32_t mask) { \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]);         \
        WORD(T) out[LANES];                                                 \
        EACH_LANE {                                                         \
            C_##T x = GET_##T(a), y = GET_##T(b);                           \
            out[l] = BITS_##T(expr);                                        \
        }                                                                   \
        COMMIT(T)(w, i->out[0], out, mask);                                 \
    }
#define TERNARY(name, T, expr)                                                             \
    static void name##_##T(sim_warp *w, const sim_inst *i, uint32_t mask) {                \
        const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]); \
        WORD(T) out[LANES];                                                                \
        EACH_LANE {                                                                        \
            C_##T x = GET_##T(a), y = GET_##T(b), z = GET_##T(c);                          \
            out[l] = BITS_##T(expr);                                                       \
        }                                                                                  \
        COMMIT(T)(w, i->out[0], out, mask);                                                \
    }

#endif
