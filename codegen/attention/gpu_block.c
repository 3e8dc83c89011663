/* SPDX-License-Identifier: MIT
 * Shared by the two attention kernels for GPUs (FMA, tensor cores): elements, scores, rows over threads, the columns of
 * a block. */
#include "codegen/attention/gpu_internal.h"

#include "codegen/emit/warp.h"

#include <math.h>
#include <string.h>

static tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }
static tcc_emit_value narrow(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_trunc(e, x, e->i32); }
static tcc_emit_value wide(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_sext(e, x, e->i64); }

static tcc_emit_value below(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_icmp(e, TCC_ICMP_SLT, a, b);
}

static tcc_emit_value number(tcc_emitter *e, double x) { return tcc_emit_float(e, e->f32, x); }

tcc_emit_value tcc_attention_element(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                                     tcc_emit_value row, tcc_emit_value column) {
    tcc_emit_value offset = tcc_emit_mul(e, wide(e, row), i64(e, b->p->a.operands[role].row));
    return tcc_emit_at(e, tcc_emit_dtype(e, b->p->dtype[role]), b->begin[role],
                       tcc_emit_add(e, offset, wide(e, column)));
}

/* Keys that query t sees: s < result. */
static tcc_emit_value seen(tcc_emitter *e, const tcc_attention *a, tcc_emit_value t) {
    if (!a->causal) return i32(e, a->S);
    return tcc_emit_min(e, tcc_emit_add(e, t, i32(e, a->S - a->T + 1)), i32(e, a->S));
}

tcc_emit_value tcc_attention_gpu_score(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value product,
                                       tcc_emit_value query, tcc_emit_value key) {
    const tcc_attention *a = &b->p->a;
    int block = b->p->kind == TCC_ATTENTION_GPU_KEYS ? b->p->columns : b->p->rows;
    tcc_emit_value x = tcc_emit_fmul(e, product, number(e, a->scale)), inside = below(e, key, seen(e, a, query));
    if (a->T % block) inside = tcc_emit_and(e, inside, below(e, query, i32(e, a->T)));
    if (a->has[TCC_ATTENTION_MASK]) {
        tcc_emit_value at_mask = tcc_attention_element(e, b, TCC_ATTENTION_MASK, query, key);
        tcc_dtype dtype = b->p->dtype[TCC_ATTENTION_MASK];
        x = tcc_emit_fadd(e, x, tcc_emit_widen(e, dtype, tcc_emit_global_load(e, dtype, at_mask, 1, inside)));
    }
    return tcc_emit_select(e, inside, x, number(e, -INFINITY));
}

tcc_emit_value tcc_attention_sum_row(tcc_emitter *e, tcc_emit_value x, int threads) {
    for (int bit = 1; bit < threads; bit *= 2) x = tcc_emit_fadd(e, x, tcc_emit_exchange(e, x, bit));
    return x;
}

tcc_emit_value tcc_attention_max_row(tcc_emitter *e, tcc_emit_value x, int threads) {
    for (int bit = 1; bit < threads; bit *= 2) x = tcc_attention_larger(e, x, tcc_emit_exchange(e, x, bit));
    return x;
}

void tcc_attention_store_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                               tcc_emit_value row, tcc_emit_value value, tcc_emit_value place) {
    tcc_emit_value mine = tcc_emit_icmp(e, TCC_ICMP_EQ, place, i32(e, 0));
    tcc_emit_if store;
    tcc_emit_if_begin(e, &store, tcc_emit_and(e, mine, below(e, row, i32(e, b->p->a.T))));
    tcc_emit_store(e, value, tcc_attention_element(e, b, role, row, i32(e, 0)), 4);
    tcc_emit_if_end(e, &store);
}

tcc_emit_value tcc_attention_load_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                                        tcc_emit_value row) {
    return tcc_emit_global_load(e, TCC_F32, tcc_attention_element(e, b, role, row, i32(e, 0)), 1,
                                below(e, row, i32(e, b->p->a.T)));
}

void tcc_attention_columns(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value *from, tcc_emit_value *to) {
    const tcc_attention_gpu_plan *p = b->p;
    const tcc_attention *a = &p->a;
    bool keys = p->kind == TCC_ATTENTION_GPU_KEYS;
    *from = i32(e, 0);
    *to = i32(e, keys ? a->T : a->S);
    if (!a->causal) return;
    if (keys) { /* the first query that sees key row0 */
        tcc_emit_value first = tcc_emit_sub(e, b->row0, i32(e, a->S - a->T));
        first = tcc_emit_select(e, below(e, first, i32(e, 0)), i32(e, 0), first);
        *from = tcc_emit_and(e, first, i32(e, -p->columns));
    } else {
        *to = seen(e, a, tcc_emit_min(e, tcc_emit_add(e, b->row0, i32(e, p->rows - 1)), i32(e, a->T - 1)));
    }
}

tcc_emit_value tcc_attention_blocks_begin(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value from,
                                          tcc_emit_value to, tcc_emit_loop *blocks, tcc_emit_value *carry, int n) {
    tcc_emit_value first = wide(e, from), end = wide(e, to);
    tcc_emit_loop_begin(e, blocks, first, end, b->p->columns, carry, n);
    memcpy(carry, blocks->carry, sizeof *carry * (size_t)n);
    return narrow(e, blocks->index);
}
