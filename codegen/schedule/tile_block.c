/* SPDX-License-Identifier: MIT
 * Transposing work by the threads of a block. A tile is cut into fragments of `lanes` by `lanes` points. A thread reads
 * a fragment in vectors along the loop in which memory is contiguous. It transposes the fragment in registers and
 * stores it in shared memory as vectors along the other loop. The tile's rows are read from there. So reads and writes
 * of memory are both wide and in whole sectors.
 *
 * Row a of the tile in shared memory is a sequence of vectors; vector c lies at position c ^ (a / lanes). So the
 * vectors of a column of fragments, which neighbouring threads write, lie in different banks, and so do those of a row,
 * which neighbouring threads read. */
#include "codegen/schedule/tile.h"

enum { FEW_STAGED = 2, LARGE_SIDE = 64, SIDE = 32, MOST_THREADS = 256, MOST_STEPS = 4, NARROW_LANES = 8 };

static int side_of(const tcc_tile *p) { return p->side; }
static int fragments_of(const tcc_tile *p) { return side_of(p) / p->lanes; } /* along either side */
static int split_of(const tcc_tile *p) {
    int fragments = fragments_of(p);
    return fragments * fragments < MOST_THREADS ? fragments : MOST_THREADS / fragments;
}
static int steps_of(const tcc_tile *p) { return fragments_of(p) / split_of(p); }
static int64_t extent_of(const tcc_tile *p, int var) { return p->body->vars.data[var].high + 1; }
static int64_t tiles_of(const tcc_tile *p, int var) { return (extent_of(p, var) + side_of(p) - 1) / side_of(p); }

/* In shared memory values have 4 bytes, but where a vector of that would be more than an access moves. */
static bool as_in_memory(const tcc_tile *p) { return p->lanes == NARROW_LANES; }

static int64_t staged_bytes(const tcc_tile *p) { return (int64_t)side_of(p) * side_of(p) * (as_in_memory(p) ? 2 : 4); }
int64_t tcc_tile_block_bytes(const tcc_tile *p) { return p->n_staged * staged_bytes(p); }

/* The most lanes that all tensors have at once. */
static int most_lanes(const tcc_llvm_target *t, const tcc_tile *p) {
    int widest = 1, lanes;
    for (int i = 0; i < p->body->buffers.count; i++) {
        int bytes = tcc_dtype_bytes(p->body->buffers.data[i].dtype);
        if (bytes > widest) widest = bytes;
    }
    bool narrow = widest == 2;
    for (int i = 0; i < p->n_staged; i++) narrow = narrow && tcc_dtype_bytes(p->staged[i]->dtype) == 2;
    lanes = narrow ? NARROW_LANES : t->lanes;
    while (extent_of(p, p->across) % lanes || extent_of(p, p->along) % lanes) lanes /= 2;
    return lanes;
}

/* A tile that shared memory and a few steps of the block hold. */
static bool has_room(const tcc_lowering *l, const tcc_tile *p, int side) {
    tcc_tile with = *p;
    with.side = side;
    return steps_of(&with) <= MOST_STEPS && tcc_tile_block_bytes(&with) <= l->target->hw.shared_optin_bytes;
}

tcc_status tcc_tile_block_plan(tcc_lowering *l, tcc_tile *p) {
    p->lanes = most_lanes(l->target, p);
    const tcc_param_range lanes = tcc_param_powers(1, p->lanes);
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_LANES, lanes, &p->lanes));
    p->side = p->lanes == NARROW_LANES || (p->lanes > 1 && p->n_staged <= FEW_STAGED) ? LARGE_SIDE : SIDE;
    const tcc_param_range side = tcc_param_powers(SIDE, has_room(l, p, LARGE_SIDE) ? LARGE_SIDE : SIDE);
    return tcc_params_settle_int(&l->params, TCC_PARAM_SIDE, side, &p->side);
}

/* A fragment of 16-bit elements has 64 of them, for which the assembler leaves too few registers by itself. */
tcc_thread_shape tcc_tile_block_shape(const tcc_lowering *l, const tcc_tile *p) {
    enum { REGISTERS = 80 };
    const int threads = fragments_of(p) * split_of(p);
    return (tcc_thread_shape){
        .threads = threads,
        .group = fragments_of(p),
        .split = split_of(p),
        .blocks = p->lanes == NARROW_LANES ? tcc_hardware_threads(&l->target->hw, REGISTERS) / threads : 0};
}

int64_t tcc_tile_block_items(const tcc_tile *p) {
    int64_t items = tiles_of(p, p->across) * tiles_of(p, p->along);
    for (int i = 0; i < p->cut.n - 1; i++) items *= extent_of(p, p->cut.order[i]);
    return items;
}

/* Where a staged load keeps vector `chunk` of row `fragment` * lanes + `row`. */
static tcc_emit_value slot(tcc_emitter *e, const tcc_tile *p, int staged, tcc_emit_value fragment, int row,
                           tcc_emit_value chunk, tcc_emit_type scalar) {
    tcc_emit_value place = tcc_emit_xor(e, chunk, fragment);
    tcc_emit_value at = tcc_emit_add(e, tcc_emit_mul(e, fragment, tcc_emit_i64(e, side_of(p) * p->lanes)),
                                     tcc_emit_mul(e, place, tcc_emit_i64(e, p->lanes)));
    at = tcc_emit_offset(e, tcc_emit_add(e, at, tcc_emit_i64(e, row * side_of(p))), 0, side_of(p) * side_of(p),
                         INT64_MAX);
    return tcc_emit_at(e, scalar, tcc_emit_at_bytes(e, e->scratch, staged * staged_bytes(p)), at);
}

static tcc_emit_value below(tcc_emitter *e, const tcc_tile *p, int var, tcc_emit_value index, tcc_emit_value also) {
    if (extent_of(p, var) % side_of(p) == 0) return also;
    tcc_emit_value inside = tcc_emit_icmp(e, TCC_ICMP_SLT, index, tcc_emit_i64(e, extent_of(p, var)));
    return also ? tcc_emit_and(e, also, inside) : inside;
}

typedef struct place {
    tcc_emit_value column, row;   /* of fragments: the thread's own in the lane group, and step `step` of its group's */
    tcc_emit_value across, along; /* the fragment's first point */
    tcc_emit_value inside;        /* NULL: always; the fragment is there wholly or not at all */
} place;

/* Square `step` of the thread, whose lane group runs along `across` or along `along`. */
static place place_of(tcc_emitter *e, const tcc_tile *p, tcc_emit_value across0, tcc_emit_value along0, int step,
                      bool lanes_across) {
    place at = {.column = e->thread, .row = tcc_emit_add(e, e->split, tcc_emit_i64(e, step * split_of(p)))};
    tcc_emit_value lanes = tcc_emit_i64(e, p->lanes);
    tcc_emit_value across = tcc_emit_mul(e, lanes_across ? at.column : at.row, lanes),
                   along = tcc_emit_mul(e, lanes_across ? at.row : at.column, lanes);
    at.across = tcc_emit_within(e, tcc_emit_add(e, across0, across), extent_of(p, p->across) + side_of(p));
    at.along = tcc_emit_within(e, tcc_emit_add(e, along0, along), extent_of(p, p->along) + side_of(p));
    at.inside = below(e, p, p->along, at.along, below(e, p, p->across, at.across, NULL));
    return at;
}

static tcc_emit_type staged_type(tcc_emitter *e, const tcc_tile *p, const tcc_expr *x) {
    return as_in_memory(p) ? tcc_emit_dtype(e, x->dtype) : tcc_scalar_register(e, x->dtype);
}

/* The fragment's rows of one load, contiguous along `across`; zeros where it is not. */
static void load_fragment(tcc_body_run *r, const tcc_tile *p, const tcc_expr *x, const place *at,
                          tcc_emit_value *rows) {
    tcc_emitter *e = r->e;
    tcc_emit_type memory = tcc_emit_dtype(e, x->dtype), type = tcc_emit_vector_type(memory, p->lanes);
    tcc_emit_if branch;
    r->lane_var = p->across;
    r->lanes = p->lanes;
    int alignment = tcc_body_alignment(r, x->buffer, &x->affine);
    r->loops[p->across] = at->across;
    if (at->inside) tcc_emit_if_begin(e, &branch, at->inside);
    for (int i = 0; i < p->lanes; i++) {
        r->loops[p->along] = tcc_emit_add(e, at->along, tcc_emit_i64(e, i));
        rows[i] = tcc_emit_load(e, type, tcc_emit_at(e, memory, r->bases[x->buffer], tcc_body_offset(r, &x->affine)),
                                alignment);
    }
    if (at->inside) tcc_emit_if_end(e, &branch);
    for (int i = 0; at->inside && i < p->lanes; i++)
        rows[i] = tcc_emit_if_value(e, &branch, rows[i], tcc_emit_null(type));
    r->lane_var = -1;
    r->lanes = 1;
}

static void stage(tcc_body_run *r, const tcc_tile *p, tcc_emit_value across0, tcc_emit_value along0) {
    tcc_emitter *e = r->e;
    for (int i = 0; i < p->n_staged; i++) {
        const tcc_expr *x = p->staged[i];
        tcc_emit_value rows[MOST_STEPS][NARROW_LANES];
        for (int step = 0; step < steps_of(p); step++) {
            place at = place_of(e, p, across0, along0, step, true);
            load_fragment(r, p, x, &at, rows[step]);
        }
        for (int step = 0; step < steps_of(p); step++) {
            place at = place_of(e, p, across0, along0, step, true);
            tcc_emit_value *fragment = rows[step];
            for (int k = 0; !as_in_memory(p) && k < p->lanes; k++)
                fragment[k] = tcc_scalar_from_memory(e, fragment[k], x->dtype);
            if (p->lanes > 1) tcc_emit_transpose_vectors(e, fragment, p->lanes);
            for (int k = 0; k < p->lanes; k++) {
                tcc_emit_value to = slot(e, p, i, at.column, k, at.row, staged_type(e, p, x));
                tcc_emit_store(e, fragment[k], to, tcc_emit_type_bytes(e, tcc_emit_type_of(fragment[k])));
            }
        }
    }
}

/* One vector of points along `along`. */
static void emit_vector(tcc_body_run *r, const tcc_tile *p, const place *at, int row) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    tcc_body_enter(r, p->across, tcc_emit_add(e, at->across, tcc_emit_i64(e, row)));
    tcc_body_emit(r, 0);
    r->lane_var = p->lanes > 1 ? p->along : -1;
    r->lanes = p->lanes;
    tcc_body_enter(r, p->along, at->along);
    for (int i = 0; i < p->n_staged; i++) {
        const tcc_expr *x = p->staged[i];
        tcc_emit_type type = tcc_emit_vector_type(staged_type(e, p, x), p->lanes);
        tcc_emit_value from = slot(e, p, i, at->row, row, at->column, staged_type(e, p, x));
        tcc_emit_value value = tcc_emit_load(e, type, from, tcc_emit_type_bytes(e, type));
        r->values[x->id] = as_in_memory(p) ? tcc_scalar_from_memory(e, value, x->dtype) : value;
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
    tcc_body_leave(r, p->along);
    tcc_body_leave(r, p->across);
    r->lane_var = -1;
    r->lanes = 1;
}

static void emit_points(tcc_body_run *r, const tcc_tile *p, tcc_emit_value across0, tcc_emit_value along0) {
    tcc_emitter *e = r->e;
    for (int step = 0; step < steps_of(p); step++) {
        place at = place_of(e, p, across0, along0, step, false);
        tcc_emit_if branch;
        if (at.inside) tcc_emit_if_begin(e, &branch, at.inside);
        for (int row = 0; row < p->lanes; row++) emit_vector(r, p, &at, row);
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
    tcc_emit_value item = items.index, at[2];
    const int tiled[] = {p->along, p->across};
    for (int i = 0; i < 2; i++) {
        int64_t tiles = tiles_of(p, tiled[i]);
        at[i] = tcc_emit_mul(e, tcc_emit_rem(e, item, tiles), tcc_emit_i64(e, side_of(p)));
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
