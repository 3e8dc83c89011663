/* SPDX-License-Identifier: MIT
 * Column sums beside rows, as in the backward pass of layer norm: one kernel reads each row once for its own reductions
 * and for its part of all column sums. An item is a slice of the rows. On a GPU an item is a block, whose lane groups
 * take the slice's rows in turns and keep the sums of their columns in registers. On the host a thread keeps the
 * slice's sums in memory, which its cache holds. Each slice leaves a row of partial sums; a second launch adds these in
 * order and evaluates the epilogue. Slices depend on the shape alone. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce.h"

#include "ir/chain.h"

/* Partial sums of the slice's columns. Their temporaries get their sizes when the slices are known. */
void tcc_reduce_store_sums(tcc_reduce_trace *t, tcc_body *b) {
    t->slice_var = tcc_body_loop(b, t->kept_numel);
    tcc_affine slice = tcc_affine_scale(b, tcc_affine_var(b, t->slice_var), t->reduced_numel);
    tcc_affine offset = tcc_affine_whole(b, tcc_affine_add(b, t->reduced_position, slice));
    for (int i = 0; i < t->n && b->status == TCC_OK; i++) {
        tcc_reduction *r = &t->all[i];
        if (!r->across) continue;
        if (r->partial < 0) r->partial = tcc_lowering_temporary(t->l, 0);
        const tcc_expr *value = tcc_body_trace(b, r->node->operands[0], t->coordinates);
        if (r->partial < 0 || !value) return;
        tcc_body_write store = {tcc_body_temporary(b, r->partial, tcc_reduce_partial_dtype(r->node), true), offset,
                                value, NULL, .sum = true};
        if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(b->diag);
    }
}

/* Bytes of a row of partial sums, at most. */
static int64_t sums_row_bytes(const tcc_reduce *p) {
    const tcc_body *b = p->body;
    int widest = 0;
    for (int i = 0; i < b->stores.count; i++) {
        int bytes = b->stores.data[i].sum ? tcc_dtype_bytes(b->buffers.data[b->stores.data[i].buffer].dtype) : 0;
        if (bytes > widest) widest = bytes;
    }
    return tcc_reduce_extent(p, 0) * widest;
}

enum { MOST_SPLIT = 32 };

/* Threads of a GPU: a warp a row, or less where its vectors then come out even, and a block of such; of long rows a
 * block a row. Rows and sums must fit the registers that a thread has beside the rest of its work; else sums are kept
 * in memory. There are hardly more blocks than processors, so that a block may have all registers of one. */
static tcc_status shape_across(tcc_lowering *l, tcc_reduce *p, int64_t rows) {
    enum { SMALL = 48, LARGE = 160, WIDE = 64, LARGEST = 20 }; /* words of a thread */
    static const struct {
        int threads, words;
    } whole[] = {{256, LARGE}, {512, WIDE}, {1024, LARGEST}};
    const tcc_body *b = p->body;
    int64_t vectors = (b->vars.data[p->reduced[p->n_reduced - 1]].high + p->lanes) / p->lanes, waste = INT64_MAX,
            group = 1;
    const int64_t words = p->words + tcc_reduce_words_of_sums(p);
    for (int64_t g = TCC_EMIT_WARP; g >= TCC_EMIT_WARP / 4; g /= 2)
        if ((vectors + g - 1) / g * g - vectors < waste) {
            waste = (vectors + g - 1) / g * g - vectors;
            group = g;
        }
    while (group / 2 >= vectors) group /= 2;
    const int64_t each = (vectors + group - 1) / group, taken = each * p->lanes * words;
    if (p->n_reduced == 1 && taken <= LARGE) {
        const bool many = taken <= SMALL && tcc_reduce_fits_registers(l, p, whole[1].threads, each);
        int64_t split = whole[many ? 1 : 0].threads / group;
        while (split > 1 &&
               (split > MOST_SPLIT || split > rows || split * sums_row_bytes(p) > l->target->hw.shared_bytes))
            split /= 2;
        p->steps = (int)each;
        p->shape =
            (tcc_thread_shape){.threads = (int)(group * split), .group = (int)group, .split = (int)split, .blocks = 1};
        return TCC_OK;
    }
    for (int i = 0; p->n_reduced == 1 && i < 3; i++) {
        int64_t steps = (vectors + whole[i].threads - 1) / whole[i].threads;
        if (steps * p->lanes * words > whole[i].words) continue;
        if (!tcc_reduce_fits_registers(l, p, whole[i].threads, steps)) continue;
        p->steps = (int)steps;
        p->shape = (tcc_thread_shape){.threads = whole[i].threads, .group = whole[i].threads, .split = 1, .blocks = 1};
        return TCC_OK;
    }
    return tcc_reduce_shape_long_rows(l, p);
}

/* Settles the shape that was chosen. Lane groups of a part of a warp share a slice's rows where sums are in registers;
 * else a lane group has a slice. */
static tcc_status settle_shape(tcc_lowering *l, tcc_reduce *p, int64_t rows) {
    const tcc_hardware *hw = &l->target->hw;
    TCC_TRY(tcc_reduce_settle_rows(l, p));
    tcc_thread_shape *shape = &p->shape;
    if (!p->steps) {
        p->scratch_bytes = p->slots_bytes;
        return tcc_reduce_settle_block(l, p);
    }
    tcc_param_range splits = tcc_param_powers(1, 1);
    while (shape->group <= TCC_EMIT_WARP && splits.most < MOST_SPLIT && 2 * splits.most <= rows &&
           2 * splits.most * sums_row_bytes(p) <= hw->shared_bytes)
        splits.most *= 2;
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_SPLIT, splits, &shape->split));
    shape->threads = shape->group * shape->split;
    shape->blocks = 1;
    p->scratch_bytes = shape->split > 1 ? shape->split * sums_row_bytes(p) : 0;
    return TCC_OK;
}

/* Rows of a slice on a GPU: so few slices that their partial sums are few against the rows, yet enough that most
 * processors have one, and so few rows that no chain of additions is too long. */
static int64_t rows_of_slice(const tcc_lowering *l, int64_t split, int64_t rows) {
    enum { LEAST_ROWS = 32 };
    const int64_t busy = l->target->hw.processors, most = 2 * busy, each = 2 * split;
    int64_t slices = rows / LEAST_ROWS;
    if (slices < busy) slices = rows / each < busy ? rows / each : busy;
    if (slices > most) slices = most;
    const int64_t chains = TCC_CHAIN_TERMS * split; /* rows that are added up */
    if (slices < rows / chains) slices = rows / chains;
    return slices > 1 ? (rows + slices - 1) / slices : rows;
}

/* The rows that loop `cut` of the cut and those inside it go through, and how often. */
static int64_t rows_of_run(const tcc_body *b, const tcc_item_cut *cut, int64_t *runs) {
    int64_t rows = 1;
    *runs = 1;
    for (int i = 0; i < cut->n; i++) *(i < cut->cut ? runs : &rows) *= b->vars.data[cut->order[i]].high + 1;
    return rows;
}

static int64_t rows_of_item(const tcc_body *b, const tcc_item_cut *cut) {
    int64_t rows = cut->chunk;
    for (int i = cut->cut + 1; i < cut->n; i++) rows *= b->vars.data[cut->order[i]].high + 1;
    return rows;
}

/* The order of each sum follows from where slices end, and that must not depend on which loops are one: it changes with
 * what else the kernel reads. So a slice is as long as `slice` says. In each run of rows that a loop goes through they
 * begin anew: best of equal length, as they would be in one loop; else the length of a run counts, too. */
static tcc_status settle_slices(const tcc_reduce_trace *t, tcc_reduce *p, int64_t wanted) {
    tcc_lowering *l = t->l;
    const int64_t rows = t->kept_numel;
    const tcc_body *b = p->body;
    int64_t runs, slice = wanted, run;
    p->cut = tcc_cut_items(b, p->kept, p->n_kept, wanted, 1);
    if (tcc_params_decides(&l->params)) {
        const int64_t item = rows_of_item(b, &p->cut), inside = item / p->cut.chunk;
        run = rows_of_run(b, &p->cut, &runs);
        slice = runs > 1 && run / inside % p->cut.chunks == 0 ? run / p->cut.chunks : item;
    }
    TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_SLICE, tcc_param_between(1, rows), &slice));
    p->cut = tcc_cut_items(b, p->kept, p->n_kept, slice, 1);
    run = rows_of_run(b, &p->cut, &runs);
    if (rows_of_item(b, &p->cut) != slice)
        return tcc_params_refuse(&l->params, TCC_PARAM_SLICE, slice, "%lld, whole inner loops",
                                 (long long)rows_of_item(b, &p->cut));
    if (runs == 1 || run % slice == 0) return TCC_OK;
    return tcc_params_settle(&l->params, TCC_PARAM_RUN, tcc_param_between(run, run), &run);
}

tcc_status tcc_reduce_across(tcc_reduce_trace *t, tcc_reduce *p) {
    tcc_lowering *l = t->l;
    tcc_body *b = p->body;
    if (p->columns)
        return TCC_BUG(l->diag, "column sums beside reductions that are not of rows: %s",
                       tcc_node_text(l->group->hero));
    TCC_TRY(tcc_reduce_settle_lanes(l, p));
    TCC_TRY(tcc_reduce_choose_slots(l, p));
    if (l->target->lane_groups) {
        TCC_TRY(tcc_reduce_count_registers(l, p));
        TCC_TRY(shape_across(l, p, t->kept_numel));
        TCC_TRY(settle_shape(l, p, t->kept_numel));
    } else {
        TCC_TRY(tcc_reduce_settle_slots(l, p));
        p->scratch_bytes = p->slots_bytes;
        TCC_TRY(tcc_reduce_plan_in_turn(l, p));
    }
    const int64_t split = p->shape.split > 1 ? p->shape.split : 1;
    TCC_TRY(settle_slices(t, p, t->order ? tcc_reduce_host_slice(t) : rows_of_slice(l, split, t->kept_numel)));
    p->slice_var = t->slice_var;
    b->vars.data[p->slice_var].high = p->cut.items - 1;
    for (int i = 0; i < t->n; i++) {
        const tcc_reduction *r = &t->all[i];
        if (!r->across) continue;
        l->temporaries.data[r->partial] = p->cut.items * t->reduced_numel *
                                          tcc_dtype_bytes(tcc_reduce_partial_dtype(r->node));
    }
    if (tcc_log_on(l->cx, TCC_LOG_FUSION))
        tcc_logf(l->cx, TCC_LOG_FUSION, "column sums of %lld rows in %lld slices, %s: %s", (long long)t->kept_numel,
                 (long long)p->cut.items, p->steps ? "in registers" : "in memory", tcc_node_text(l->group->hero));
    TCC_TRY(tcc_reduce_launch(l, p));
    int var;
    tcc_body *sums = tcc_reduce_open_combine(t, true, p->cut.items, &var);
    if (!sums) return tcc_enomem(l->diag);
    for (int i = 0; i < l->group->n_outputs; i++)
        if (tcc_reduce_is_across(t, l->group->outputs[i]))
            tcc_body_store(sums, l->group->outputs[i], t->reduced_position, true);
    return tcc_reduce_combine(l, sums, var, tcc_reduce_slices_of_part(t, rows_of_item(b, &p->cut)));
}
