/* SPDX-License-Identifier: MIT
 * Operands of a contraction on a GPU, from memory into registers and from there into shared memory: which elements of a
 * tile a thread reads, and their offsets. */
#include "codegen/contract/gpu_internal.h"
#include "codegen/contract/gpu_ops.h"

#include "codegen/emit/warp.h"

typedef struct place {
    tcc_emit_value offset[TCC_CONTRACT_MAX_FORMS]; /* i32, or i64 where the side is wide */
    tcc_emit_value position[TCC_CONTRACT_MAX_WINDOWS];
} place;

static place place_of(tcc_emitter *e, const tcc_contract_side *s, const tcc_contract_index_map *w,
                      tcc_emit_value index) {
    place p;
    for (int f = 0; f < s->n_forms; f++) p.offset[f] = s->wide ? tcc_emit_i64(e, 0) : i32(e, 0);
    for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++) p.position[v] = i32(e, 0);
    for (int i = w->n - 1; i >= 0; i--) {
        tcc_emit_value here = i == 0 ? index : tcc_emit_rem(e, index, w->extent[i]);
        if (i > 0) index = tcc_emit_div(e, index, w->extent[i]);
        for (int f = 0; f < s->n_forms; f++) {
            const int64_t stride = w->stride[i][f];
            if (!stride) continue;
            tcc_emit_value far = s->wide ? tcc_emit_mul(e, wide(e, here), tcc_emit_i64(e, stride))
                                         : tcc_emit_mul(e, here, i32(e, stride));
            p.offset[f] = tcc_emit_add(e, p.offset[f], far);
        }
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
            if (w->w[i][v]) p.position[v] = tcc_emit_add(e, p.position[v], tcc_emit_mul(e, here, i32(e, w->w[i][v])));
    }
    return p;
}

static tcc_emit_value element(tcc_emitter *e, const tcc_contract_side *s, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, tcc_emit_dtype(e, s->dtype), base, s->wide ? offset : wide(e, offset));
}

/* Where access `j` of a thread lies in the tile. All counts are powers of two. */
static void find_slot(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_side *s, tcc_emit_value thread,
                      int j, tcc_contract_slot *out) {
    int row = (s->along_k ? p->tile_k : s->rows) / s->vector; /* accesses in a row */
    if (s->along_k &&
        p->matrix == TCC_DTYPE_COUNT) { /* a warp reads rows of two chunks, and writes them to different banks */
        int warps = p->threads / 32, in_unit = 2 * p->chunk, across = p->tile_k / in_unit, in_row = in_unit / s->vector;
        tcc_emit_value warp = tcc_emit_div(e, thread, 32), lane = tcc_emit_rem(e, thread, 32), unit_o, unit_k;
        if (warps % across == 0) {
            unit_k = tcc_emit_rem(e, warp, across);
            unit_o = tcc_emit_add(e, tcc_emit_div(e, warp, across), i32(e, j * (warps / across)));
        } else {
            int turns = across / warps; /* counts are powers of two */
            unit_k = tcc_emit_add(e, warp, i32(e, (int64_t)(j % turns) * warps));
            unit_o = i32(e, j / turns);
        }
        out->k = tcc_emit_add(e, tcc_emit_mul(e, unit_k, i32(e, in_unit)),
                              tcc_emit_mul(e, tcc_emit_rem(e, lane, in_row), i32(e, s->vector)));
        out->o = tcc_emit_add(e, tcc_emit_mul(e, unit_o, i32(e, 32 / in_row)), tcc_emit_div(e, lane, in_row));
        return;
    }
    tcc_emit_value column = tcc_emit_mul(e, tcc_emit_rem(e, thread, row), i32(e, s->vector));
    tcc_emit_value line = tcc_emit_add(e, tcc_emit_div(e, thread, row), i32(e, j * (p->threads / row)));
    out->k = s->along_k ? column : line;
    out->o = s->along_k ? line : column;
}

/* What does not change along k. `o0`: the tile's first row; `extent`: how many rows there are. */
void tcc_contract_begin_reading(tcc_emitter *e, const tcc_contract_gpu_plan *p, tcc_contract_reader *s,
                                tcc_emit_value thread, tcc_emit_value memory, tcc_emit_value batch, tcc_emit_value o0,
                                int64_t extent) {
    place of_batch = place_of(e, s->p, &s->p->b, batch);
    for (int j = 0; j < s->p->slots; j++) {
        tcc_contract_slot *x = &s->slots[j];
        find_slot(e, p, s->p, thread, j, x);
        tcc_emit_value o = tcc_emit_add(e, o0, x->o);
        x->inside = extent % s->p->rows ? below(e, o, i32(e, extent)) : NULL;
        place of_row = place_of(e, s->p, &s->p->o, o);
        for (int f = 0; f < s->p->n_forms; f++) {
            x->row[f] = tcc_emit_add(e, of_batch.offset[f], of_row.offset[f]);
            if (s->prologue)
                x->row[f] = tcc_emit_add(e, x->row[f],
                                         s->p->wide ? tcc_emit_i64(e, s->p->begin[f]) : i32(e, s->p->begin[f]));
        }
        if (!s->prologue) x->base = element(e, s->p, memory, x->row[0]);
        for (int v = 0; s->p->windows && v < p->c.n_windows; v++)
            x->position[v] = tcc_emit_add(e, i32(e, p->c.windows[v].start),
                                          tcc_emit_add(e, of_batch.position[v], of_row.position[v]));
    }
}

/* The position of access `slot` of the tile at k0 along k. *kept: k is below `end` and inside the windows, NULL where
 * that is surely so of all that is multiplied; *inside: that, and its row exists, and it is not of a tile behind the
 * end. */
static place position_of(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s, int slot,
                         tcc_emit_value k0, tcc_emit_value end, tcc_emit_value *kept, tcc_emit_value *inside) {
    const tcc_contract_slot *x = &s->slots[slot];
    tcc_emit_value k = tcc_emit_add(e, k0, x->k), exists = below(e, k, end), windows = NULL;
    place of_k = place_of(e, s->p, &s->p->k, k);
    for (int v = 0; s->p->windows && v < p->c.n_windows; v++) {
        tcc_emit_value position = tcc_emit_add(e, x->position[v], of_k.position[v]);
        windows = both(e, windows, tcc_emit_icmp(e, TCC_ICMP_ULT, position, i32(e, p->c.windows[v].extent)));
    }
    *kept = p->K % p->tile_k ? both(e, exists, windows) : windows;
    *inside = both(e, both(e, x->inside, exists), windows);
    return of_k;
}

tcc_emit_value tcc_contract_locate(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                                   int slot, tcc_emit_value k0, tcc_emit_value end, tcc_emit_value *inside) {
    tcc_emit_value kept;
    place of_k = position_of(e, p, s, slot, k0, end, &kept, inside);
    return element(e, s->p, s->slots[slot].base, of_k.offset[0]);
}

void tcc_contract_read_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                            tcc_emit_value k0, tcc_emit_value end, tcc_contract_pending *out) {
    for (int j = 0; j < s->p->slots; j++) {
        tcc_emit_value inside;
        out[j].exists = NULL;
        if (!s->prologue) {
            tcc_emit_value address = tcc_contract_locate(e, p, s, j, k0, end, &inside);
            out[j].raw[0] = tcc_emit_global_load(e, s->p->dtype, address, s->p->vector, inside);
            continue;
        }
        place of_k = position_of(e, p, s, j, k0, end, &out[j].exists, &inside);
        for (int f = 0; f < s->p->n_forms; f++) {
            tcc_emit_value form = tcc_emit_add(e, s->slots[j].row[f], of_k.offset[f]);
            out[j].forms[f] = s->p->wide ? form : wide(e, form);
        }
        s->prologue->load(s->prologue->user, e, out[j].forms, inside, out[j].raw);
    }
}

tcc_emit_value tcc_contract_arrived(tcc_emitter *e, const tcc_contract_reader *s, const tcc_contract_pending *access) {
    if (!s->prologue) return tcc_emit_widen(e, s->p->dtype, access->raw[0]);
    tcc_emit_value value = s->prologue->value(s->prologue->user, e, access->forms, access->raw);
    return access->exists ? tcc_emit_select(e, access->exists, value, tcc_emit_null(tcc_emit_type_of(value))) : value;
}

void tcc_contract_store_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                             tcc_emit_value shared, const tcc_contract_pending *accesses) {
    for (int j = 0; j < s->p->slots; j++) {
        const tcc_contract_slot *x = &s->slots[j];
        tcc_emit_value address = at(e, p, shared, tcc_emit_add(e, tcc_emit_mul(e, x->k, i32(e, s->p->pitch)), x->o));
        tcc_emit_value value = tcc_contract_arrived(e, s, &accesses[j]);
        if (s->p->vector == 1 || !s->p->along_k) {
            tcc_emit_store(e, value, address, bytes_of(p, s->p->vector));
            continue;
        }
        for (int i = 0; i < p->chunk; i++) {
            tcc_emit_value one = tcc_emit_extract(e, value, i32(e, i));
            tcc_emit_store(e, one, at(e, p, address, i32(e, (int64_t)i * s->p->pitch)), bytes_of(p, 1));
        }
    }
}

void tcc_contract_find_thread(tcc_emitter *e, tcc_contract_block *x) {
    x->thread = tcc_emit_thread(e);
    x->lane = tcc_emit_rem(e, x->thread, 32);
    tcc_emit_value warp = tcc_emit_div(e, x->thread, 32);
    x->warp_m = tcc_emit_div(e, warp, x->p->warps_n), x->warp_n = tcc_emit_rem(e, warp, x->p->warps_n);
    tcc_emit_value chunk = i32(e, x->p->chunk);
    x->lane_m = tcc_emit_mul(e, tcc_emit_div(e, x->lane, 8), chunk),
    x->lane_n = tcc_emit_mul(e, tcc_emit_rem(e, x->lane, 8), chunk);
}
