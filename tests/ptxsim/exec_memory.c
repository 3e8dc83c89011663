/* SPDX-License-Identifier: MIT
 * Loads, stores and atomics. */
#include "access.h"
#include "lanes.h"
#include "sim.h"

#include <pthread.h>
#include <string.h>

/* --- loads and stores */

/* Elements of that many bytes to register d, whose slot has `slot` bytes. */
static void load_lanes(sim_reg *d, uint8_t *const *data, uint32_t at, uint32_t element, bool is_signed, uint32_t slot,
                       uint32_t mask) {
    if (element == 4 && slot == 4 && mask == FULL) {
        EACH_LANE d->u32[l] = (uint32_t)read_element(data[l] + at, 4);
        return;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        uint64_t v = read_element(data[l] + at, element);
        if (is_signed && element < 8) v = (uint64_t)((int64_t)(v << (64 - 8 * element)) >> (64 - 8 * element));
        if (slot == 8) d->u64[l] = v;
        else d->u32[l] = slot == 2 ? (uint16_t)v : slot == 1 ? (uint8_t)v : (uint32_t)v;
    }
}

void sim_exec_load(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t element = (uint32_t)sim_type_size((sim_type)i->type), bytes = element * i->vec;
    uint64_t address[LANES];
    uint8_t *data[LANES];
    if (!mask || !sim_addresses(w, i, mask, bytes, address)) return;
    bool is_signed = sim_type_signed((sim_type)i->type);
    if (i->space != SP_PARAM) sim_count_access(w, i, address, mask, bytes, false);
    if (i->flags & FLAG_VOLATILE) w->launch->acquired[w->block->linear] = 1;
    if (!sim_touch_lanes(w, i, address, mask, bytes, ACCESS_READ, data)) return;
    for (int e = 0; e < i->vec; e++) {
        load_lanes(row(w, i->out[e]), data, (uint32_t)e * element, element, is_signed, i->sub, mask);
        w->init[i->out[e]] |= mask;
    }
}

void sim_exec_store(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t element = (uint32_t)sim_type_size((sim_type)i->type), bytes = element * i->vec;
    uint64_t address[LANES];
    uint8_t *data[LANES];
    if (!mask || !sim_addresses(w, i, mask, bytes, address)) return;
    for (int e = 0; e < i->vec; e++)
        if (!sim_check_registers(w, i, i->in[1 + e], mask, "the value stored")) return;
    sim_count_access(w, i, address, mask, bytes, true);
    const bool strong = i->flags & FLAG_VOLATILE;
    if (!sim_touch_lanes(w, i, address, mask, bytes, strong ? ACCESS_STRONG : ACCESS_WRITE, data)) return;
    for (int e = 0; e < i->vec; e++) {
        const sim_reg *s = row(w, i->in[1 + e]);
        for (uint32_t m = mask; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            write_element(data[l] + (uint32_t)e * element, element == 8 ? s->u64[l] : s->u32[l], element);
        }
    }
    if (strong) w->launch->released[w->block->linear] = 1;
}

/* --- atomics: one at a time over all blocks */

static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;

static uint32_t add_halves(uint32_t x, uint32_t y, sim_type t) {
    bool f16 = t == T_F16 || t == T_F16X2;
    uint32_t r = f16 ? sim_f32_to_f16(f16_to_f32(x & 0xffff) + f16_to_f32(y & 0xffff))
                     : (uint32_t)sim_round_double(sim_add_odd(bf16_to_f32(x & 0xffff), bf16_to_f32(y & 0xffff)),
                                                  sim_bf16, RND_RN);
    if (t == T_F16 || t == T_BF16) return r;
    return r | add_halves(x >> 16, y >> 16, t == T_F16X2 ? T_F16 : T_BF16) << 16;
}

static uint64_t combine(const sim_inst *i, uint64_t old, uint64_t a, uint64_t b) {
    sim_type t = (sim_type)i->type;
    bool less;
    switch (i->op) {
    case 0:
        if (t == T_F32)
            return as_u32(canonical_f32(flush_f32(flush_f32(as_f32((uint32_t)old)) + flush_f32(as_f32((uint32_t)a)))));
        if (t == T_F64) return as_u64(as_f64(old) + as_f64(a));
        if (sim_type_float(t)) return add_halves((uint32_t)old, (uint32_t)a, t);
        return old + a;
    case 1:
    case 2:
        if (t == T_S32) less = (int32_t)a < (int32_t)old;
        else if (t == T_S64) less = (int64_t)a < (int64_t)old;
        else less = a < old;
        return less == (i->op == 1) ? a : old;
    case 3: return old & a;
    case 4: return old | a;
    case 5: return old ^ a;
    case 6: return a;
    case 7: return old == a ? b : old;
    case 8: return (uint32_t)old >= (uint32_t)a ? 0 : old + 1;
    default: return old == 0 || (uint32_t)old > (uint32_t)a ? a : old - 1;
    }
}

void sim_exec_atomic(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t bytes = (uint32_t)sim_type_size((sim_type)i->type);
    uint64_t address[LANES];
    if (!mask || !sim_addresses(w, i, mask, bytes, address)) return;
    for (int k = 1; k < i->n_in; k++)
        if (!sim_check_registers(w, i, i->in[k], mask, "the operand of an atomic")) return;
    sim_count_access(w, i, address, mask, bytes, false);
    sim_count_access(w, i, address, mask, bytes, true);
    uint64_t lanes = (uint64_t)__builtin_popcount(mask);
    if (sim_type_float((sim_type)i->type)) w->worker->stats.float_atomics += lanes;
    else w->worker->stats.integer_atomics += lanes;
    if (w->block->fenced) w->launch->released[w->block->linear] = 1;
    pthread_mutex_lock(&atomics);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint8_t *data = sim_touch_slot(w, i, i->memory, l, (sim_space)i->space, address[l], bytes, ACCESS_ATOMIC);
        if (!data) break;
        uint64_t old = 0, a = bytes == 8 ? row(w, i->in[1])->u64[l] : row(w, i->in[1])->u32[l], b = 0;
        if (i->n_in > 2) b = bytes == 8 ? row(w, i->in[2])->u64[l] : row(w, i->in[2])->u32[l];
        memcpy(&old, data, bytes);
        uint64_t next = combine(i, old, a, b);
        memcpy(data, &next, bytes);
        if (i->n_out) {
            if (bytes == 8) row(w, i->out[0])->u64[l] = old;
            else row(w, i->out[0])->u32[l] = (uint32_t)old;
        }
    }
    pthread_mutex_unlock(&atomics);
    if (i->n_out) w->init[i->out[0]] |= mask;
    w->block->acquired_any = true;
    w->launch->acquired[w->block->linear] = 1;
}

void sim_exec_fence(sim_warp *w, const sim_inst *i, uint32_t mask) {
    (void)i, (void)mask;
    w->block->fenced = true;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
