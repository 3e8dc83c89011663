/* SPDX-License-Identifier: MIT
 * The schedule of transposing pointwise work: some tensors are contiguous along one loop, the rest along another. The
 * kernel visits square tiles of both loops. Tensors that are contiguous along the other loop are read in whole vectors,
 * transposed in registers and staged in the thread's scratch. The rows are then read from there as vectors along the
 * lanes. A few squares along either side are a block: so several lines of memory next to each other are read and
 * written together, where a page is met and where the processor fetches ahead.
 *
 * A row may be short and end within a vector, such as that of a 3 x 3 filter. If the rows of all tensors that are not
 * staged follow one another without a gap, several squares are staged first, without gaps too. Then their rows are one
 * line of whole vectors. (Row by row, each load would wait for the store before it: a masked access blocks by its whole
 * width.) */
#include "codegen/schedule/items.h"
#include "codegen/schedule/tile.h"

enum {
    ITEM_POINTS = 8192,
    MOST_LINES = 1 << 24,
    LEAST_EXTENT = 4,
    LEAST_BLOCK_EXTENT = 8,
    SQUARES = 4,           /* of an item of dense rows */
    MOST_COLUMNS = 64,     /* of a block; and rows: */
    MOST_ROWS = 128,       /* two lines of each f32 that is staged are read, and as many of a result written */
    BLOCK_BYTES = 1 << 15, /* of scratch */
    DENSE_VECTORS = 2
};

static int64_t extent_of(const tcc_body *b, int var) { return b->vars.data[var].high + 1; }

/* Elements from a row in scratch to the next; what a square's last row has past its end lies behind all of them. */
static int64_t pitch_of(const tcc_tile *p) { return p->dense ? extent_of(p->body, p->along) : p->columns; }
static int64_t staged_elements(const tcc_tile *p) { return p->rows * pitch_of(p) + (p->dense ? p->lanes : 0); }

/* Element `at` of a load's place in scratch. */
static tcc_emit_value slot(tcc_emitter *e, const tcc_tile *p, int staged, tcc_emit_value at, tcc_emit_type scalar) {
    return tcc_emit_at(e, scalar, e->scratch, tcc_emit_add(e, at, tcc_emit_i64(e, staged * staged_elements(p))));
}

static tcc_emit_value row_at(tcc_emitter *e, const tcc_tile *p, tcc_emit_value row) {
    return tcc_emit_mul(e, row, tcc_emit_i64(e, pitch_of(p)));
}

/* Squares of f32 have one function for all that transpose. */
static bool calls_transpose(const tcc_tile *p, int index, int lanes) {
    return p->staged[index]->dtype == TCC_F32 && p->lanes == lanes;
}

/* Brings a square of one load into scratch, as [across][along] from element `to` of its place on. */
static void stage(tcc_body_run *r, const tcc_tile *p, int index, tcc_emit_value to, tcc_emit_value across_count,
                  tcc_emit_value along_count) {
    tcc_emitter *e = r->e;
    const tcc_expr *x = p->staged[index];
    tcc_emit_type memory = tcc_emit_dtype(e, x->dtype), type = tcc_emit_vector_type(memory, p->lanes);
    tcc_emit_type scalar = tcc_scalar_register(e, x->dtype);
    tcc_emit_value offset = tcc_body_offset(r, &x->affine);
    int64_t stride = tcc_affine_coefficient(&x->affine, p->along);
    if (calls_transpose(p, index, e->lanes)) {
        tcc_emit_transpose(e, tcc_emit_at(e, memory, r->bases[x->buffer], offset), stride, along_count, across_count,
                           slot(e, p, index, to, scalar), pitch_of(p));
        return;
    }
    tcc_emit_value rows[64], mask = tcc_emit_mask(e, p->lanes, across_count);
    tcc_emit_value none = tcc_emit_null(tcc_emit_type_of(mask));
    for (int i = 0; i < p->lanes; i++) {
        tcc_emit_value exists = tcc_emit_icmp(e, TCC_ICMP_SGT, along_count, tcc_emit_i64(e, i));
        tcc_emit_value at = tcc_emit_at(e, memory, r->bases[x->buffer],
                                        tcc_emit_add(e, offset, tcc_emit_i64(e, i * stride)));
        rows[i] = tcc_emit_load_masked(e, type, at, tcc_emit_select(e, exists, mask, none));
        rows[i] = tcc_scalar_from_memory(e, rows[i], x->dtype);
    }
    tcc_emit_transpose_vectors(e, rows, p->lanes);
    for (int i = 0; i < p->lanes; i++) {
        tcc_emit_value at = tcc_emit_add(e, to, tcc_emit_i64(e, i * pitch_of(p)));
        tcc_emit_store(e, rows[i], slot(e, p, index, at, scalar), 0);
    }
}

/* What is staged, from element `at` of its place on, and all that is made of it. */
static void emit_lanes(tcc_body_run *r, const tcc_tile *p, tcc_emit_value at) {
    tcc_emitter *e = r->e;
    for (int i = 0; i < p->n_staged; i++) {
        tcc_emit_type scalar = tcc_scalar_register(e, p->staged[i]->dtype);
        r->values[p->staged[i]->id] = tcc_emit_load(e, tcc_emit_vector_type(scalar, p->lanes),
                                                    slot(e, p, i, at, scalar), 0);
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < p->body->stores.count; i++) tcc_body_emit_store(r, &p->body->stores.data[i]);
}

/* Fetches the lines of the square that the next block has here. Each lies in a page of its own, where the processor
 * fetches nothing ahead by itself. */
static void fetch_next(tcc_body_run *r, const tcc_tile *p, const tcc_expr *x) {
    enum { INTO_L2 = 2 };
    tcc_emitter *e = r->e;
    const int64_t stride = tcc_affine_coefficient(&x->affine, p->along);
    tcc_emit_value offset = tcc_body_offset(r, &x->affine);
    for (int i = 0; i < p->lanes; i++) {
        tcc_emit_value at = tcc_emit_add(e, offset, tcc_emit_i64(e, (p->columns + i) * stride));
        tcc_emit_prefetch(e, tcc_emit_at(e, tcc_emit_dtype(e, x->dtype), r->bases[x->buffer], at), INTO_L2);
    }
}

/* Brings the squares of a block into scratch: `count` rows from `first` on, `width` columns from `along` on. */
static void stage_block(tcc_body_run *r, const tcc_tile *p, tcc_emit_value first, tcc_emit_value count,
                        tcc_emit_value along, tcc_emit_value width) {
    tcc_emitter *e = r->e;
    tcc_emit_loop row, column;
    tcc_emit_loop_begin(e, &row, tcc_emit_i64(e, 0), count, p->lanes, NULL, 0);
    tcc_emit_loop_begin(e, &column, tcc_emit_i64(e, 0), width, p->lanes, NULL, 0);
    r->loops[p->across] = tcc_emit_add(e, first, row.index);
    r->loops[p->along] = tcc_emit_add(e, along, column.index);
    tcc_emit_value to = tcc_emit_add(e, row_at(e, p, row.index), column.index);
    for (int i = 0; i < p->n_staged; i++) {
        if (p->far) fetch_next(r, p, p->staged[i]);
        stage(r, p, i, to, tcc_emit_sub(e, count, row.index), tcc_emit_sub(e, width, column.index));
    }
    tcc_emit_loop_end(e, &column, NULL);
    tcc_emit_loop_end(e, &row, NULL);
}

/* Blocks in turn, each row by row, for `count` rows from `first` on. */
static void emit_blocks(tcc_body_run *r, const tcc_tile *p, tcc_emit_value first, tcc_emit_value count) {
    tcc_emitter *e = r->e;
    const int64_t extent = extent_of(p->body, p->along);
    tcc_emit_loop along, row, column;
    tcc_emit_loop_begin(e, &along, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), p->columns, NULL, 0);
    tcc_emit_value left = tcc_emit_sub(e, tcc_emit_i64(e, extent), along.index),
                   width = tcc_emit_min(e, left, tcc_emit_i64(e, p->columns));
    stage_block(r, p, first, count, along.index, width);
    tcc_emit_loop_begin(e, &row, tcc_emit_i64(e, 0), count, 1, NULL, 0);
    tcc_body_enter(r, p->across, tcc_emit_add(e, first, row.index));
    tcc_body_emit(r, 0);
    tcc_emit_loop_begin(e, &column, tcc_emit_i64(e, 0), width, p->lanes, NULL, 0);
    r->lane_var = p->along;
    r->lanes = p->lanes;
    r->mask = extent % p->lanes ? tcc_emit_mask(e, p->lanes, tcc_emit_sub(e, width, column.index)) : NULL;
    r->begins_whole = true;
    tcc_body_enter(r, p->along, tcc_emit_add(e, along.index, column.index));
    emit_lanes(r, p, tcc_emit_add(e, row_at(e, p, row.index), column.index));
    tcc_body_leave(r, p->along);
    tcc_emit_loop_end(e, &column, NULL);
    tcc_body_leave(r, p->across);
    tcc_emit_loop_end(e, &row, NULL);
    tcc_emit_loop_end(e, &along, NULL);
}

/* The elements [from, to) of the rows from `first` on, as one line. `masked`: the last vector may be a part. */
static void emit_line(tcc_body_run *r, const tcc_tile *p, tcc_emit_value from, tcc_emit_value to, bool masked) {
    tcc_emitter *e = r->e;
    tcc_emit_loop line;
    tcc_emit_loop_begin(e, &line, from, to, p->lanes, NULL, 0);
    r->mask = masked ? tcc_emit_mask(e, p->lanes, tcc_emit_sub(e, to, line.index)) : NULL;
    tcc_body_enter(r, p->along, line.index);
    emit_lanes(r, p, line.index);
    tcc_body_leave(r, p->along);
    tcc_emit_loop_end(e, &line, NULL);
}

/* All squares of `count` rows, then the rows as one line: the first one's loop goes on over the others. */
static void emit_dense(tcc_body_run *r, const tcc_tile *p, tcc_emit_value first, tcc_emit_value count) {
    tcc_emitter *e = r->e;
    const int64_t extent = extent_of(p->body, p->along);
    tcc_emit_loop square;
    tcc_emit_loop_begin(e, &square, tcc_emit_i64(e, 0), count, p->lanes, NULL, 0);
    r->loops[p->across] = tcc_emit_add(e, first, square.index);
    tcc_emit_value left = tcc_emit_min(e, tcc_emit_sub(e, count, square.index), tcc_emit_i64(e, p->lanes));
    /* What a row of the last one has past its end lies in the next row, which the others write then. */
    for (int64_t at = (extent - 1) / p->lanes * p->lanes; at >= 0; at -= p->lanes) {
        r->loops[p->along] = tcc_emit_i64(e, at);
        for (int i = 0; i < p->n_staged; i++)
            stage(r, p, i, tcc_emit_add(e, row_at(e, p, square.index), tcc_emit_i64(e, at)), left,
                  tcc_emit_i64(e, extent - at));
    }
    tcc_emit_loop_end(e, &square, NULL);
    tcc_body_enter(r, p->across, first);
    tcc_body_emit(r, 0);
    r->lane_var = p->along;
    r->lanes = p->lanes;
    tcc_emit_value all = tcc_emit_mul(e, count, tcc_emit_i64(e, extent));
    tcc_emit_value whole = tcc_emit_sub(e, all, tcc_emit_rem(e, all, p->lanes));
    emit_line(r, p, tcc_emit_i64(e, 0), whole, false);
    emit_line(r, p, whole, all, true);
    tcc_body_leave(r, p->across);
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
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value from, to;
    tcc_emit_cut(r, &p->cut, items.index, &from, &to);
    int last = p->cut.n - 1;
    for (int i = p->cut.cut; i <= last; i++) {
        int var = p->cut.order[i];
        if (i > p->cut.cut) from = tcc_emit_i64(e, 0), to = tcc_emit_i64(e, extent_of(b, var));
        tcc_emit_loop_begin(e, &r->nest[var], from, to, i == last ? p->rows : 1, NULL, 0);
        if (i < last) tcc_body_enter(r, var, r->nest[var].index);
    }
    tcc_emit_value first = r->nest[p->cut.order[last]].index,
                   count = tcc_emit_min(e, tcc_emit_sub(e, to, first), tcc_emit_i64(e, p->rows));
    (p->dense ? emit_dense : emit_blocks)(r, p, first, count);
    for (int i = last; i >= p->cut.cut; i--) {
        tcc_body_leave(r, p->cut.order[i]);
        tcc_emit_loop_end(e, &r->nest[p->cut.order[i]], NULL);
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

/* Whether an access lies densely along both loops of the tile, or in one place. */
static bool is_dense(const tcc_tile *p, const tcc_affine *a) {
    const int64_t along = stride_of(p->body, a, p->along), across = stride_of(p->body, a, p->across);
    return (along == 1 && across == extent_of(p->body, p->along)) || (along == 0 && across == 0);
}

/* Whether the tile's rows may be taken as one line: nothing asks for the number of a row or of a place in it. */
static bool may_be_dense(const tcc_tile *p) {
    const tcc_body *b = p->body;
    const int64_t extent = extent_of(b, p->along);
    if (extent % p->lanes == 0 || extent > DENSE_VECTORS * p->lanes) return false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        bool staged = false;
        for (int k = 0; k < p->n_staged; k++) staged |= x == p->staged[k];
        if (staged || x->kind == TCC_EXPR_CONST || x->kind == TCC_EXPR_POINT) continue;
        if (x->kind != TCC_EXPR_LOAD || x->n_operands || !is_dense(p, &x->affine)) return false;
    }
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].guard || !is_dense(p, &b->stores.data[i].offset)) return false;
    return true;
}

static int64_t whole_squares(const tcc_tile *p, int64_t points, int64_t extent) {
    const int64_t all = (extent + p->lanes - 1) / p->lanes * p->lanes, some = points / p->lanes * p->lanes;
    return all < some ? all : some < p->lanes ? p->lanes : some;
}

/* Rows and columns of a block: whole squares, no more than there are of both, that scratch in the first cache holds. */
static void choose_block(tcc_tile *p) {
    const int64_t across = extent_of(p->body, p->across), along = extent_of(p->body, p->along);
    int64_t columns = MOST_COLUMNS;
    while (columns > p->lanes && p->n_staged * columns * columns * 4 > BLOCK_BYTES) columns /= 2;
    p->columns = (int)whole_squares(p, columns, along);
    const int64_t rows = BLOCK_BYTES / (p->n_staged * p->columns * 4);
    p->rows = (int)whole_squares(p, rows < MOST_ROWS ? rows : MOST_ROWS, across);
}

/* Lanes, and rows of an item: all loops but the lane loop. */
static tcc_status plan_host(tcc_lowering *l, tcc_tile *p, const int *outer, int n) {
    const tcc_param_range lanes = tcc_param_powers(LEAST_EXTENT, l->target->lanes);
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_LANES, lanes, &p->lanes));
    p->dense = may_be_dense(p);
    if (p->dense) p->rows = SQUARES * p->lanes;
    else choose_block(p);
    int64_t lines = ITEM_POINTS / extent_of(p->body, p->along) + 1;
    TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_LINES, tcc_param_between(1, MOST_LINES), &lines));
    p->cut = tcc_cut_items(p->body, outer, n, lines, p->rows);
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
    launch->kernel.scratch_bytes = block ? tcc_tile_block_bytes(p) : p->n_staged * staged_elements(p) * 4;
    if (block) launch->kernel.shape = tcc_tile_block_shape(l, p);
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->kernel.n_params = 0;
    return tcc_lowering_key(l, launch, b, -1, "lanes=%d", p->lanes);
}

bool tcc_schedule_tiles(tcc_lowering *l, tcc_body *b, const int *order, int n, tcc_status *status) {
    *status = TCC_OK;
    const bool block = l->target->lane_groups;
    const int64_t least = block ? LEAST_BLOCK_EXTENT : LEAST_EXTENT;
    if (n < 2) return false;
    tcc_tile found = {
        .body = b, .along = order[n - 1], .across = -1, .lanes = l->target->lanes, .far = tcc_lowering_mark_far(l, b)};
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
