/* SPDX-License-Identifier: MIT
 * Transposing work by the threads of a block. A warp reads a tile's rows along the loop in which memory is contiguous and lays them down
 * in shared memory, then takes its columns from there, so that reads and writes both move whole sectors. */
#include "codegen/tile.h"

enum { DEEP = 8, STEPS = TCC_TILE_SIDE / DEEP };

static int64_t extent_of(const tcc_tile *p, int var) { return p->body->vars.data[var].high + 1; }
static int64_t tiles_of(int64_t extent) { return (extent + TCC_TILE_SIDE - 1) / TCC_TILE_SIDE; }

tcc_thread_shape tcc_tile_block_shape(void) {
    return (tcc_thread_shape){.threads = TCC_TILE_SIDE * DEEP, .group = TCC_TILE_SIDE, .deep = DEEP};
}

int64_t tcc_tile_block_bytes(const tcc_tile *p) { return (int64_t)p->n_staged * TCC_TILE_SIDE * TCC_TILE_STRIDE * 4; }

int64_t tcc_tile_block_items(const tcc_tile *p) {
    int64_t items = tiles_of(extent_of(p, p->across)) * tiles_of(extent_of(p, p->along));
    for (int i = 0; i < p->cut.n - 1; i++) items *= extent_of(p, p->cut.order[i]);
    return items;
}

/* Where a staged load keeps point (across, along) of the tile. */
static LLVMValueRef slot(tcc_emitter *e, int staged, LLVMValueRef across, LLVMValueRef along, LLVMTypeRef scalar) {
    LLVMValueRef at = tcc_emit_add(e, tcc_emit_mul(e, across, tcc_emit_i64(e, TCC_TILE_STRIDE)), along);
    return tcc_emit_at(e, scalar, e->scratch, tcc_emit_add(e, at, tcc_emit_i64(e, (int64_t)staged * TCC_TILE_SIDE * TCC_TILE_STRIDE)));
}

static LLVMValueRef below(tcc_emitter *e, LLVMValueRef index, int64_t extent, LLVMValueRef also) {
    if (extent % TCC_TILE_SIDE == 0) return also;
    LLVMValueRef inside = LLVMBuildICmp(e->builder, LLVMIntSLT, index, tcc_emit_i64(e, extent), "");
    return also ? LLVMBuildAnd(e->builder, also, inside, "") : inside;
}

typedef struct place {
    LLVMValueRef column, row; /* of the tile: the thread's own in the lane group, and step `step` of its group's */
    LLVMValueRef across, along;
    LLVMValueRef inside; /* NULL: always */
} place;

/* Point `step` of the thread, whose lane group runs along `across` or along `along`. */
static place place_of(tcc_emitter *e, const tcc_tile *p, LLVMValueRef across0, LLVMValueRef along0, int step, bool lanes_across) {
    place at = {.column = e->thread, .row = tcc_emit_add(e, e->deep, tcc_emit_i64(e, step * DEEP))};
    at.across = tcc_emit_add(e, across0, lanes_across ? at.column : at.row);
    at.along = tcc_emit_add(e, along0, lanes_across ? at.row : at.column);
    at.inside = below(e, at.along, extent_of(p, p->along), below(e, at.across, extent_of(p, p->across), NULL));
    return at;
}

static void stage(tcc_body_run *r, const tcc_tile *p, LLVMValueRef across0, LLVMValueRef along0) {
    tcc_emitter *e = r->e;
    for (int i = 0; i < p->n_staged; i++) {
        const tcc_expr *x = p->staged[i];
        LLVMTypeRef memory = tcc_emit_dtype(e, x->dtype), scalar = tcc_scalar_register(e, x->dtype);
        LLVMValueRef loaded[STEPS];
        for (int step = 0; step < STEPS; step++) {
            place at = place_of(e, p, across0, along0, step, true);
            r->loops[p->across] = at.across;
            r->loops[p->along] = at.along;
            LLVMValueRef base = r->bases[x->buffer], offset = tcc_body_offset(r, &x->affine);
            loaded[step] = at.inside ? tcc_emit_load_if(e, memory, base, offset, at.inside)
                                     : tcc_emit_load(e, memory, tcc_emit_at(e, memory, base, offset), 0);
        }
        for (int step = 0; step < STEPS; step++) {
            place at = place_of(e, p, across0, along0, step, true);
            tcc_emit_store(e, tcc_scalar_from_memory(e, loaded[step], x->dtype), slot(e, i, at.column, at.row, scalar), 0);
        }
    }
}

static void emit_points(tcc_body_run *r, const tcc_tile *p, LLVMValueRef across0, LLVMValueRef along0) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    for (int step = 0; step < STEPS; step++) {
        place at = place_of(e, p, across0, along0, step, false);
        tcc_emit_if branch;
        if (at.inside) tcc_emit_if_begin(e, &branch, at.inside);
        tcc_body_enter(r, p->across, at.across);
        tcc_body_enter(r, p->along, at.along);
        for (int i = 0; i < p->n_staged; i++) {
            LLVMTypeRef scalar = tcc_scalar_register(e, p->staged[i]->dtype);
            r->values[p->staged[i]->id] = tcc_emit_load(e, scalar, slot(e, i, at.row, at.column, scalar), 0);
        }
        tcc_body_emit(r, 0);
        for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
        tcc_body_leave(r, p->along);
        tcc_body_leave(r, p->across);
        if (at.inside) tcc_emit_if_end(e, &branch);
    }
}

tcc_status tcc_tile_emit_block(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_tile *p = plan->data;
    const tcc_body *b = p->body;
    tcc_body_run run, *r = &run;
    tcc_emit_kernel_begin(e, symbol);
    TCC_TRY(tcc_body_run_begin(r, e, b, 0));
    for (int i = 0; i < p->n_staged; i++) r->given[p->staged[i]->id] = true;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    LLVMValueRef item = items.index, at[2];
    const int tiled[] = {p->along, p->across};
    for (int i = 0; i < 2; i++) {
        int64_t tiles = tiles_of(extent_of(p, tiled[i]));
        at[i] = tcc_emit_mul(e, tcc_emit_rem(e, item, tiles), tcc_emit_i64(e, TCC_TILE_SIDE));
        item = tcc_emit_div(e, item, tiles);
    }
    for (int i = p->cut.n - 2; i >= 0; i--) {
        int64_t extent = extent_of(p, p->cut.order[i]);
        tcc_body_enter(r, p->cut.order[i], i ? tcc_emit_rem(e, item, extent) : item);
        item = tcc_emit_div(e, item, extent);
    }
    tcc_body_emit(r, 0);
    stage(r, p, at[1], at[0]);
    tcc_emit_barrier(e);
    emit_points(r, p, at[1], at[0]);
    e->shared_reused = true;
    for (int i = 0; i < p->cut.n - 1; i++) tcc_body_leave(r, p->cut.order[i]);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(r);
    return TCC_OK;
}
