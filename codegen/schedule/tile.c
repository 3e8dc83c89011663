/* SPDX-License-Identifier: MIT
 * The schedule of transposing pointwise work: what is contiguous along one loop in some tensors and along another in
 * the rest. Square tiles of both loops are taken in turn; tensors that run the other way are read in whole vectors,
 * transposed in registers and laid down in the thread's scratch, from where the tile's rows are read as vectors along
 * the lanes.
 */
#include "codegen/schedule/items.h"
#include "codegen/schedule/tile.h"

enum { ITEM_POINTS = 8192, MOST_LINES = 1 << 24, LEAST_EXTENT = 4, LEAST_BLOCK_EXTENT = 8 };

static LLVMValueRef slot(tcc_emitter *e, const tcc_tile *p, int staged, LLVMValueRef row, LLVMTypeRef scalar) {
    LLVMValueRef at = tcc_emit_mul(e, row, tcc_emit_i64(e, p->lanes));
    return tcc_emit_at(e, scalar, e->scratch,
                       tcc_emit_add(e, at, tcc_emit_i64(e, (int64_t)staged * p->lanes * p->lanes)));
}

/* Squares of f32 have one function for all that transpose. */
static bool calls_transpose(const tcc_tile *p, int index, int lanes) {
    return p->staged[index]->dtype == TCC_F32 && p->lanes == lanes;
}

/* Brings the tile of one load into scratch, as [across][along]. */
static void stage(tcc_body_run *r, const tcc_tile *p, int index, LLVMValueRef across_count, LLVMValueRef along_count) {
    tcc_emitter *e = r->e;
    const tcc_expr *x = p->staged[index];
    LLVMTypeRef memory = tcc_emit_dtype(e, x->dtype), type = tcc_emit_vector_type(memory, p->lanes);
    LLVMTypeRef scalar = tcc_scalar_register(e, x->dtype);
    LLVMValueRef offset = tcc_body_offset(r, &x->affine);
    int64_t stride = tcc_affine_coefficient(&x->affine, p->along);
    if (calls_transpose(p, index, e->lanes)) {
        tcc_emit_transpose(e, tcc_emit_at(e, memory, r->bases[x->buffer], offset), stride, along_count, across_count,
                           slot(e, p, index, tcc_emit_i64(e, 0), scalar), p->lanes);
        return;
    }
    LLVMValueRef rows[64], mask = tcc_emit_mask(e, p->lanes, across_count);
    LLVMValueRef none = LLVMConstNull(LLVMTypeOf(mask));
    for (int i = 0; i < p->lanes; i++) {
        LLVMValueRef exists = LLVMBuildICmp(e->builder, LLVMIntSGT, along_count, tcc_emit_i64(e, i), "");
        LLVMValueRef at = tcc_emit_at(e, memory, r->bases[x->buffer],
                                      tcc_emit_add(e, offset, tcc_emit_i64(e, i * stride)));
        rows[i] = tcc_emit_load_masked(e, type, at, tcc_emit_select(e, exists, mask, none));
        rows[i] = tcc_scalar_from_memory(e, rows[i], x->dtype);
    }
    tcc_emit_transpose_vectors(e, rows, p->lanes);
    for (int i = 0; i < p->lanes; i++) tcc_emit_store(e, rows[i], slot(e, p, index, tcc_emit_i64(e, i), scalar), 0);
}

static tcc_status emit(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_tile *p = plan->data;
    const tcc_body *b = p->body;
    tcc_body_run run, *r = &run;
    tcc_emit_kernel_begin(e, symbol);
    TCC_TRY(tcc_body_run_begin(r, e, b, 0));
    for (int i = 0; i < p->n_staged; i++) r->given[p->staged[i]->id] = true;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
    tcc_emit_loop items, outer[TCC_BODY_MAX_LOOPS], along, row;
    tcc_emit_items_begin(e, &items);
    LLVMValueRef from, to;
    tcc_emit_cut(r, &p->cut, items.index, &from, &to);
    int last = p->cut.n - 1;
    for (int i = p->cut.cut; i <= last; i++) {
        int var = p->cut.order[i];
        int64_t extent = b->vars.data[var].high + 1;
        if (i > p->cut.cut) from = tcc_emit_i64(e, 0), to = tcc_emit_i64(e, extent);
        tcc_emit_loop_begin(e, &outer[i], from, to, i == last ? p->lanes : 1, NULL, 0);
        if (i < last) tcc_body_enter(r, var, outer[i].index);
    }
    LLVMValueRef across_count = tcc_emit_min(e, tcc_emit_sub(e, to, outer[last].index), tcc_emit_i64(e, p->lanes));
    int64_t along_extent = b->vars.data[p->along].high + 1;
    tcc_emit_loop_begin(e, &along, tcc_emit_i64(e, 0), tcc_emit_i64(e, along_extent), p->lanes, NULL, 0);
    LLVMValueRef along_count = tcc_emit_sub(e, tcc_emit_i64(e, along_extent), along.index);
    r->loops[p->across] = outer[last].index;
    r->loops[p->along] = along.index;
    for (int i = 0; i < p->n_staged; i++) stage(r, p, i, across_count, along_count);
    tcc_emit_loop_begin(e, &row, tcc_emit_i64(e, 0), across_count, 1, NULL, 0);
    tcc_body_enter(r, p->across, tcc_emit_add(e, outer[last].index, row.index));
    tcc_body_emit(r, 0);
    r->lane_var = p->along;
    r->lanes = p->lanes;
    r->mask = along_extent % p->lanes ? tcc_emit_mask(e, p->lanes, along_count) : NULL;
    tcc_body_enter(r, p->along, along.index);
    for (int i = 0; i < p->n_staged; i++) {
        LLVMTypeRef scalar = tcc_scalar_register(e, p->staged[i]->dtype);
        r->values[p->staged[i]->id] = tcc_emit_load(e, tcc_emit_vector_type(scalar, p->lanes),
                                                    slot(e, p, i, row.index, scalar), 0);
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
    tcc_body_leave(r, p->along);
    tcc_body_leave(r, p->across);
    tcc_emit_loop_end(e, &row, NULL);
    tcc_emit_loop_end(e, &along, NULL);
    for (int i = last; i >= p->cut.cut; i--) {
        tcc_body_leave(r, p->cut.order[i]);
        tcc_emit_loop_end(e, &outer[i], NULL);
    }
    for (int i = 0; i < p->cut.cut; i++) tcc_body_leave(r, p->cut.order[i]);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(r);
    return TCC_OK;
}

/* The stride of an access along a loop; -1 if it moves with values that no loop gives. */
static int64_t stride_of(const tcc_body *b, const tcc_affine *a, int var) {
    for (int i = 0; i < a->n; i++)
        if (b->vars.data[a->terms[i].var].kind != TCC_VAR_LOOP) return -1;
    return tcc_affine_coefficient(a, var);
}

/* Lanes, and rows of an item: all loops but the lane loop. */
static tcc_status plan_host(tcc_lowering *l, tcc_tile *p, const int *outer, int n) {
    const tcc_param_range lanes = tcc_param_powers(LEAST_EXTENT, l->target->lanes);
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_LANES, lanes, &p->lanes));
    int64_t lines = ITEM_POINTS / (p->body->vars.data[p->along].high + 1) + 1;
    TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_LINES, tcc_param_between(1, MOST_LINES), &lines));
    p->cut = tcc_cut_items(p->body, outer, n, lines, p->lanes);
    return TCC_OK;
}

static tcc_status add_launch(tcc_lowering *l, const tcc_tile *found, const int *order, int n) {
    const bool block = l->target->lane_groups;
    const tcc_body *b = found->body;
    tcc_tile *p = tcc_arena_copy(l->arena, found, sizeof *found);
    if (!p) return tcc_enomem(l->diag);
    int outer[TCC_BODY_MAX_LOOPS], n_outer = 0;
    double points = 1;
    for (int k = 0; k < n; k++) {
        points *= (double)(b->vars.data[order[k]].high + 1);
        if (order[k] != p->across && order[k] != p->along) outer[n_outer++] = order[k];
    }
    outer[n_outer++] = p->across;
    if (block) {
        TCC_TRY(tcc_tile_block_plan(l, p));
        p->cut = tcc_cut_items(b, outer, n_outer, 1, 1);
    } else {
        TCC_TRY(plan_host(l, p, outer, n_outer));
    }
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    launch->items = block ? tcc_tile_block_items(p) : p->cut.items;
    launch->grain = tcc_choose_grain(b, points / (double)launch->items);
    launch->kernel.schedule = "tile";
    launch->kernel.emit = block ? tcc_tile_emit_block : emit;
    launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = p;
    for (int i = 0; i < p->n_staged; i++)
        launch->kernel.transposes |= !block && calls_transpose(p, i, l->target->lanes);
    launch->kernel.scratch_bytes = block ? tcc_tile_block_bytes(p) : (int64_t)p->n_staged * p->lanes * p->lanes * 4;
    if (block) launch->kernel.shape = tcc_tile_block_shape(p);
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->kernel.n_params = 0;
    return tcc_lowering_key(l, launch, b, -1, "lanes=%d", p->lanes);
}

bool tcc_schedule_tiles(tcc_lowering *l, tcc_body *b, const int *order, int n, tcc_status *status) {
    *status = TCC_OK;
    const bool block = l->target->lane_groups;
    const int64_t least = block ? LEAST_BLOCK_EXTENT : LEAST_EXTENT;
    if (n < 2) return false;
    tcc_tile found = {.body = b, .along = order[n - 1], .across = -1, .lanes = l->target->lanes};
    if (b->vars.data[found.along].high + 1 < least) return false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->fold) return false;
        if (x->kind != TCC_EXPR_LOAD || x->n_operands || x->dtype == TCC_BOOL || tcc_dtype_bytes(x->dtype) > 4)
            continue;
        if (stride_of(b, &x->affine, found.along) <= 1) continue;
        int across = -1;
        for (int k = 0; k < n - 1; k++)
            if (stride_of(b, &x->affine, order[k]) == 1 && b->vars.data[order[k]].high + 1 >= least) across = order[k];
        if (across < 0 || (found.across >= 0 && across != found.across) || found.n_staged == TCC_TILE_MOST_STAGED)
            continue;
        found.across = across;
        found.staged[found.n_staged++] = x;
    }
    if (found.across < 0) return false;
    *status = add_launch(l, &found, order, n);
    return true;
}
