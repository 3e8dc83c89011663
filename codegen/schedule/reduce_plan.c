/* SPDX-License-Identifier: MIT
 * The plan of a reduction: loops by class, threads and items. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce.h"

#include "ir/support/alloc.h"

#include <string.h>

static tcc_param_range range_of_merged(const tcc_reduce *p) { return tcc_param_between(0, (int64_t)p->pairs); }

/* Loops of the body by class, innermost last, after merging. */
static tcc_status plan_loops(tcc_lowering *l, tcc_reduce *p, uint64_t reduced_bits) {
    tcc_body *b = p->body;
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = 0; l->target->lane_groups && i + 1 < n; i++)
        p->pairs |= (reduced_bits >> i & reduced_bits >> (i + 1) & 1) << i;
    const int64_t *chosen = tcc_params_chosen(&l->params, TCC_PARAM_MERGED, range_of_merged(p));
    uint64_t pairs = chosen ? ~p->pairs | (uint64_t)*chosen : UINT64_MAX;
    tcc_body_collapse(b, order, &n, reduced_bits, &pairs);
    p->merged = pairs & p->pairs;
    p->n_kept = p->n_reduced = 0;
    for (int i = 0; i < n; i++) {
        if (reduced_bits >> order[i] & 1) p->reduced[p->n_reduced++] = order[i];
        else p->kept[p->n_kept++] = order[i];
    }
    p->columns = n > 0 && !(reduced_bits >> order[n - 1] & 1);
    int64_t inner = n ? b->vars.data[order[n - 1]].high + 1 : 1;
    /* In a row the lanes are partial sums. So they do not depend on what else the kernel computes: else fusing more or
     * less would change the bits of a sum. */
    p->lanes = n ? tcc_choose_lanes(l->target, b, order[n - 1], inner,
                                    p->columns ? tcc_choose_width_of_sums(l->target, b, tcc_points_of(b, order, n)) : 1)
                 : 1;
    if (p->n_reduced == 0 && !p->columns) p->lanes = 1;
    p->split_var = p->slice_var = -1;
    p->level = TCC_ARENA_ARRAY(l->arena, int, b->exprs.count + 1);
    p->slot = TCC_ARENA_ARRAY(l->arena, int64_t, b->exprs.count + 1);
    if (!p->level || !p->slot) return tcc_enomem(l->diag);
    return b->status;
}

tcc_status tcc_reduce_plan(tcc_lowering *l, tcc_body *b, uint64_t reduced_bits, tcc_reduce **out) {
    tcc_reduce *p = TCC_ARENA_NEW(l->arena, tcc_reduce);
    if (!p) return tcc_enomem(l->diag);
    p->body = b;
    TCC_TRY(plan_loops(l, p, reduced_bits));
    TCC_TRY(tcc_reduce_find_parts(l, p));
    tcc_reduce_find_levels(p);
    *out = p;
    return TCC_OK;
}

/* What lanes along a loop cost in loads and stores: nothing where they have one address, one vector where they are
 * neighbours, else each for itself, and more where each is on a page of its own. A GPU's threads are lanes, too. */
static int64_t cost_of_access(const tcc_reduce *p, int64_t lanes, const tcc_affine *a, int buffer, int var) {
    enum { PAGE = 4096 };
    const int64_t stride = tcc_affine_coefficient(a, var);
    if (stride == 0 || stride == 1) return stride;
    const int64_t bytes = (stride < 0 ? -stride : stride) * tcc_dtype_bytes(p->body->buffers.data[buffer].dtype);
    return bytes < PAGE ? lanes : 2 * lanes;
}

static int64_t cost_along(const tcc_reduce *p, int64_t lanes, int var) {
    const tcc_body *b = p->body;
    int64_t cost = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_LOAD) cost += cost_of_access(p, lanes, &x->affine, x->buffer, var);
    }
    for (int i = 0; i < b->stores.count; i++)
        if (!b->stores.data[i].kept)
            cost += cost_of_access(p, lanes, &b->stores.data[i].offset, b->stores.data[i].buffer, var);
    return cost;
}

/* Whether short rows fill vectors that have a row for each lane; where masks are slow, all of them. */
static bool fills_lanes(const tcc_lowering *l, const tcc_reduce *p, int64_t rows) {
    return tcc_reduce_is_short(p) && (rows % l->target->lanes == 0 || !tcc_emit_masks_are_slow(l->target));
}

/* Rows that lie across memory, as the classes of an image's points, are columns of it: lanes go along the last kept
 * loop. A text that has lanes says whether they do, for what is loaded depends on what else the kernel computes. */
static void turn(const tcc_reduce_trace *t, tcc_reduce *p) {
    const tcc_lowering *l = t->l;
    if (p->columns || p->n_kept == 0 || p->n_reduced == 0) return;
    if (p->order && t->one_sweep) return; /* each lane of a row has states of its own */
    if (p->order && p->order->parts > 1 && tcc_reduce_part_of(p->order) % p->order->lanes) return;
    const int row = p->reduced[p->n_reduced - 1], kept = p->kept[p->n_kept - 1];
    const int64_t extent = p->body->vars.data[kept].high + 1;
    const int64_t lanes = l->target->lane_groups ? TCC_EMIT_WARP : p->lanes;
    const bool along = tcc_params_has(&l->params, TCC_PARAM_ALONG), is_short = fills_lanes(l, p, extent);
    if (along || tcc_params_has(&l->params, TCC_PARAM_LANES)) p->turned = along;
    else p->turned = extent >= l->target->lanes && (is_short || cost_along(p, lanes, kept) < cost_along(p, lanes, row));
    if (!p->turned) return;
    p->columns = true;
    p->is_short = is_short;
    p->ways = p->order && tcc_reduce_has_sums(p->body) ? p->order->lanes : 1;
    const int wide = is_short ? 1 : tcc_choose_width_of_sums(l->target, p->body, 0);
    p->lanes = tcc_choose_lanes(l->target, p->body, kept, extent, wide);
    /* A row is not cut into parts where there are several: so there are items for several threads. */
    enum { ENOUGH_ITEMS = 8, LEAST_LANES = 8 };
    while (p->order && p->lanes > LEAST_LANES && t->kept_numel < (int64_t)ENOUGH_ITEMS * p->lanes) p->lanes /= 2;
}

/* A GPU's parts, and the lane groups of a block, cut the outermost reduced loop. A batch of four images whose loops are
 * not one with those of their points is too short for that: the longest loop that no lanes go along comes first. */
static void lead_with_longest(const tcc_reduce_trace *t, tcc_reduce *p) {
    const tcc_hardware *hw = &t->l->target->hw;
    const int n = p->columns ? p->n_reduced : p->n_reduced - 1;
    int longest = 0;
    for (int i = 0; i < t->n; i++)
        if (t->all[i].node->op == TCC_OP_ARGMAX) return; /* its value is a position in the loops' order */
    for (int i = 1; i < n; i++)
        if (tcc_reduce_extent(p, i) > tcc_reduce_extent(p, longest)) longest = i;
    if (!t->l->target->lane_groups || p->order || longest == 0 || tcc_reduce_extent(p, 0) >= hw->processors) return;
    const int var = p->reduced[longest];
    memmove(p->reduced + 1, p->reduced, sizeof *p->reduced * (size_t)longest);
    p->reduced[0] = var;
}

void tcc_reduce_shape_loops(const tcc_reduce_trace *t, tcc_reduce *p) {
    if (p->n_parts) return; /* their loops stay inside, and along memory */
    turn(t, p);
    lead_with_longest(t, p);
}

/* Lanes go along the innermost loop, and the cuts of long chains are of one loop: so it matters which loops are one. */
static tcc_status settle_loops(tcc_lowering *l, tcc_reduce *p) {
    int64_t along = p->turned;
    if (along) TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_ALONG, tcc_param_between(1, 1), &along));
    if (!p->pairs) return TCC_OK;
    int64_t merged = (int64_t)p->merged;
    TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_MERGED, range_of_merged(p), &merged));
    if (merged == (int64_t)p->merged) return TCC_OK;
    return tcc_params_refuse(&l->params, TCC_PARAM_MERGED, merged, "of the bits of %lld", (long long)p->merged);
}

tcc_status tcc_reduce_settle_lanes(tcc_lowering *l, tcc_reduce *p) {
    TCC_TRY(settle_loops(l, p));
    if (!p->columns && p->n_reduced == 0) return TCC_OK;
    const int var = p->columns ? p->kept[p->n_kept - 1] : p->reduced[p->n_reduced - 1];
    TCC_TRY(tcc_settle_lanes(l, p->body, var, p->body->vars.data[var].high + 1, &p->lanes));
    p->is_short = p->is_short && p->lanes * tcc_reduce_extent(p, 0) <= TCC_REDUCE_MOST_SHORT_LANES;
    return TCC_OK;
}

double tcc_reduce_points(const tcc_body *b, const int *loops, int n) {
    double product = 1;
    for (int i = 0; i < n; i++) product *= (double)(b->vars.data[loops[i]].high + 1);
    return product;
}

/* --- Threads */

/* Blocks that a processor should hold. The assembler, if not told, may keep to 32 registers and spill. */
static int blocks_of(const tcc_lowering *l, const tcc_reduce *p, int threads) {
    enum { REGISTERS = 85 };
    const int most = l->target->hw.registers_per_thread;
    int64_t needed = tcc_reduce_registers(p, p->steps);
    if (needed < REGISTERS) needed = REGISTERS;
    int held = tcc_hardware_threads(&l->target->hw, needed < most ? (int)needed : most);
    return threads < held ? held / threads : 1;
}

/* Vectors of the innermost reduced loop. */
static int64_t vectors_of(const tcc_reduce *p) {
    return (p->body->vars.data[p->reduced[p->n_reduced - 1]].high + p->lanes) / p->lanes;
}

/* Means and M2 of one sweep go over a row in segments, which is a loop. */
static bool can_be_in_registers(const tcc_reduce *p) {
    for (int i = 0; i < p->body->exprs.count; i++) {
        const tcc_expr *x = p->body->exprs.data[i];
        if (x->kind == TCC_EXPR_REDUCE && tcc_is_moment(x->op)) return false;
    }
    return p->n_reduced == 1 && p->split_var < 0;
}

tcc_status tcc_reduce_shape_long_rows(tcc_lowering *l, tcc_reduce *p) {
    enum { SMALL_BLOCK = 128 };
    const int largest = l->target->hw.threads_per_block;
    const int64_t vectors = vectors_of(p);
    int64_t group = 1;
    TCC_TRY(tcc_reduce_choose_shared_slots(l, p));
    TCC_TRY(tcc_reduce_count_registers(l, p));
    while (group < vectors && group < (p->n_slots ? largest / 2 : largest / 4)) group *= 2;
    while (group > TCC_EMIT_WARP && !tcc_reduce_fits_registers(l, p, group, 0)) group /= 2;
    if (p->n_slots && group <= TCC_EMIT_WARP) group = 2 * TCC_EMIT_WARP; /* scratch is a block's */
    const int threads = group <= TCC_EMIT_WARP ? SMALL_BLOCK : (int)group;
    p->shape =
        (tcc_thread_shape){.threads = threads, .group = (int)group, .split = 1, .blocks = blocks_of(l, p, threads)};
    return TCC_OK;
}

/* Whether so many threads a row leave fewer of them idle than `together` would, by a quarter. The rows of a warp lie
 * side by side, so what it reads is a segment, too; but a row's threads read whole sectors of the cache. */
static bool spares_lanes(const tcc_reduce *p, int64_t vectors, int64_t group, int64_t together) {
    enum { SECTOR = 32 };
    const int64_t all = (vectors + group - 1) / group * group, usual = (vectors + together - 1) / together * together;
    return group * p->lanes * 4 >= SECTOR && 4 * all <= 3 * usual;
}

/* Rows: a lane group of a warp or less if a row then fits its registers, else a block; the fewer rows, the more threads
 * a row. */
static tcc_status shape_rows(tcc_lowering *l, tcc_reduce *p) {
    enum {
        ELEMENTS = 32,
        REGISTERS = 64,
        SMALL_BLOCK = 128,
        ENOUGH = 31 * TCC_EMIT_WARP / 2, /* threads of a processor that keep it busy */
        FEW_STEPS = 8,
        SEGMENT = 128
    };
    const int largest = l->target->hw.threads_per_block;
    const int64_t enough = (int64_t)ENOUGH * l->target->hw.processors;
    const tcc_body *b = p->body;
    const int64_t vectors = vectors_of(p);
    int64_t rows = (int64_t)tcc_reduce_points(b, p->kept, p->n_kept), words = p->words, found = 0;
    const int64_t together = SEGMENT / 4 / p->lanes; /* neighbours, which read at once */
    if (words < 1) words = 1;
    for (int64_t group = 1; can_be_in_registers(p) && group <= largest; group *= 2) {
        int64_t steps = (vectors + group - 1) / group, elements = steps * p->lanes;
        if (group < vectors && group < together && !spares_lanes(p, vectors, group, together)) continue;
        if (elements > ELEMENTS || elements * words > (group == largest       ? REGISTERS / 4
                                                       : group == largest / 2 ? REGISTERS / 2
                                                                              : REGISTERS))
            continue;
        if (!tcc_reduce_fits_registers(l, p, group, steps)) continue;
        found = group;
        p->steps = (int)steps;
        if (steps == 1 || rows * group >= enough || (group >= TCC_EMIT_WARP && steps <= FEW_STEPS)) break;
    }
    if (!found) return tcc_reduce_shape_long_rows(l, p);
    const int threads = found <= TCC_EMIT_WARP ? SMALL_BLOCK : (int)found;
    p->shape =
        (tcc_thread_shape){.threads = threads, .group = (int)found, .split = 1, .blocks = blocks_of(l, p, threads)};
    return TCC_OK;
}

tcc_status tcc_reduce_settle_rows(tcc_lowering *l, tcc_reduce *p) {
    enum { MOST_STEPS = 160 /* each of them is written out */ };
    TCC_TRY(tcc_reduce_settle_slots(l, p));
    TCC_TRY(tcc_reduce_count_registers(l, p));
    const tcc_param_range groups = tcc_param_powers(1, l->target->hw.threads_per_block);
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_GROUP, groups, &p->shape.group));
    const int64_t all = (vectors_of(p) + p->shape.group - 1) / p->shape.group;
    const tcc_param_range none = tcc_param_between(0, 0), steps = {.least = all, .most = all, .or_zero = true};
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_STEPS,
                                  can_be_in_registers(p) && all <= MOST_STEPS ? steps : none, &p->steps));
    if (p->steps || !p->n_slots) return TCC_OK;
    if (!tcc_reduce_has_room(l, p))
        return tcc_params_refuse(&l->params, TCC_PARAM_KEPT, p->kept_bits, "0, for shared memory has no room");
    if (p->shape.group <= TCC_EMIT_WARP)
        return tcc_params_refuse(&l->params, TCC_PARAM_GROUP, p->shape.group, "at least %d, for scratch is a block's",
                                 2 * TCC_EMIT_WARP);
    return TCC_OK;
}

tcc_status tcc_reduce_settle_block(tcc_lowering *l, tcc_reduce *p) {
    p->shape.split = 1;
    TCC_TRY(tcc_settle_block(l, &p->shape));
    p->shape.blocks = blocks_of(l, p, p->shape.threads);
    return TCC_OK;
}

/* Threads for columns side by side: up to a warp; fewer where they then come out even. */
int64_t tcc_reduce_columns_group(const tcc_reduce *p) {
    enum { LEAST = 8 };
    int64_t extent = p->body->vars.data[p->kept[p->n_kept - 1]].high + 1, group = 1;
    while (group < TCC_EMIT_WARP && group * p->lanes < extent) group *= 2;
    for (int64_t even = group; even >= LEAST; even /= 2)
        if (extent % (even * p->lanes) == 0) return even;
    return group;
}

enum { MOST_SPLIT = 32, SMALL_BLOCK_OF_COLUMNS = 128, COLUMN_THREADS = 31 * TCC_EMIT_WARP /* of a processor */ };

void tcc_reduce_narrow_columns(const tcc_lowering *l, tcc_reduce *p) {
    const tcc_hardware *hw = &l->target->hw;
    const double columns = tcc_reduce_points(p->body, p->kept, p->n_kept),
                 most = (double)COLUMN_THREADS * hw->processors;
    while (l->target->lane_groups && p->lanes > 1 && columns / p->lanes * MOST_SPLIT < most) p->lanes /= 2;
}

/* Shared memory of a thread by which lane groups add their folds of columns. */
static int64_t bytes_of_columns(const tcc_reduce *p) {
    const tcc_body *b = p->body;
    int64_t carries = 0;
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE && tcc_reduce_fold_of(b, b->exprs.data[i]) == b->exprs.data[i])
            carries += tcc_fold_carries(b->exprs.data[i]->op);
    return (int64_t)p->lanes * 8 * carries;
}

/* Rows that the lane groups of a block share. */
static int64_t rows_of_columns(const tcc_reduce *p) {
    if (p->n_reduced == 0) return 1;
    return p->split_var >= 0 ? p->split : tcc_reduce_extent(p, 0);
}

/* Columns: up to a warp side by side, and so many below each other that the GPU is busy. Blocks that combine parts
 * would be few. They are no wider than a sector of memory, as a thread's rows follow one another, each after a load. */
static void shape_columns(const tcc_hardware *hw, tcc_reduce *p) {
    enum { BLOCK = 256, SECTOR = 8 };
    const double enough = (double)COLUMN_THREADS * hw->processors;
    const int64_t shared = hw->shared_bytes * 2 / 3, rows = rows_of_columns(p), bytes = bytes_of_columns(p);
    const double vectors = tcc_reduce_points(p->body, p->kept, p->n_kept) / p->lanes;
    int64_t group = tcc_reduce_columns_group(p), split = 1;
    while (p->combines && group > SECTOR && vectors < (double)(group * hw->processors)) group /= 2;
    while (split < MOST_SPLIT && group * split < BLOCK && 2 * split <= rows && vectors * (double)split < enough &&
           group * split * 2 * bytes <= shared)
        split *= 2;
    p->shape = (tcc_thread_shape){
        .threads = split > 1 ? (int)(group * split) : SMALL_BLOCK_OF_COLUMNS, .group = (int)group, .split = (int)split};
}

static tcc_status settle_columns(tcc_lowering *l, tcc_reduce *p) {
    const tcc_hardware *hw = &l->target->hw;
    const tcc_param_range groups = tcc_param_powers(1, TCC_EMIT_WARP);
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_GROUP, groups, &p->shape.group));
    tcc_param_range splits = tcc_param_powers(1, 1);
    while (splits.most < MOST_SPLIT && 2 * splits.most <= rows_of_columns(p) &&
           2 * splits.most * p->shape.group <= hw->threads_per_block &&
           2 * splits.most * p->shape.group * bytes_of_columns(p) <= hw->shared_bytes)
        splits.most *= 2;
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_SPLIT, splits, &p->shape.split));
    if (p->shape.split == 1) TCC_TRY(tcc_settle_block(l, &p->shape));
    else p->shape.threads = p->shape.group * p->shape.split;
    if (p->n_sweeps > 1) p->shape.blocks = blocks_of(l, p, p->shape.threads); /* what all of them need is at hand */
    return TCC_OK;
}

/* Whether a sweep before that of the full stores needs x. */
static bool read_before_stores(const tcc_reduce *p, const tcc_expr *x) {
    bool *in = tcc__calloc((size_t)p->body->exprs.count + 1, sizeof *in), found;
    if (!in) return false;
    for (int s = 0; s < tcc_reduce_sweep_of_stores(p); s++) tcc_reduce_mark_sweep(p, s, NULL, in);
    found = in[x->id];
    tcc__free(in);
    return found;
}

/* Full values are stored in the last sweep, point by point, kept ones after it: both after all loads of their own
 * element. A load of a row's first element, which depends on no reduced loop, is made once, before the first sweep that
 * needs it. */
static bool in_step(const tcc_kernel_plan *plan, const tcc_body *b, const tcc_expr *load, const tcc_body_write *store) {
    const tcc_reduce *p = plan->data;
    if (store->sum || store->part) return false;
    if (tcc_body_same_element(b, load, store)) return true;
    if (p->turns) return false; /* what depends on no reduced loop is made anew in each sweep, and behind the last */
    if (store->kept || p->split_var >= 0 || load->affine.constant != store->offset.constant) return false;
    int matched = 0;
    for (int i = 0; i < store->offset.n; i++) {
        const tcc_term *t = &store->offset.terms[i];
        bool reduced = false;
        for (int k = 0; k < p->n_reduced; k++) reduced = reduced || p->reduced[k] == t->var;
        if (reduced && tcc_affine_coefficient(&load->affine, t->var) == 0) continue;
        if (reduced || tcc_affine_coefficient(&load->affine, t->var) != t->coefficient) return false;
        matched++;
    }
    return matched == load->affine.n && b->buffers.data[load->buffer].dtype == b->buffers.data[store->buffer].dtype &&
           read_before_stores(p, load);
}

/* Several vectors of a row at once are as many chains, and what a function needs beside them is at hand for all: one
 * vector of AVX2 finds too few registers for its constants. Each is added to the sums by itself, in the order that they
 * have. A stretch that is no multiple of so many vectors needs a second loop, which pays where it is long; runs of a
 * chain are multiples. */
static int choose_abreast(const tcc_reduce *p, double points, bool *uneven) {
    enum { MOST_LANES = 64, LEAST_GROUPS = 8 };
    const tcc_body *b = p->body;
    *uneven = false;
    if (!p->order || p->columns || p->together || p->n_reduced == 0 || p->slice_var >= 0 || p->lanes == 1) return 1;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_REDUCE && tcc_fold_carries(x->op) != 1) return 1;
    }
    const int last = p->n_reduced - 1;
    const bool parts = last == 0 && p->split_var >= 0;
    const int64_t extent = tcc_reduce_extent(p, last), stretch = parts ? p->split : extent;
    if (parts && p->split % p->lanes) return 1;
    int64_t run;
    for (int n = tcc_choose_width_of_rows(b, points); n > 1; n /= 2) {
        const int64_t group = (int64_t)n * p->lanes;
        *uneven = stretch / p->lanes % n != 0 || extent / p->lanes % n != 0;
        if (group <= MOST_LANES && !(tcc_reduce_find_cut(p, &run) == last && run % n) &&
            ((!*uneven && extent % p->lanes == 0) || stretch / group >= LEAST_GROUPS))
            return n;
    }
    *uneven = false;
    return 1;
}

tcc_status tcc_reduce_launch(tcc_lowering *l, tcc_reduce *p) {
    tcc_body *b = p->body;
    double points = tcc_reduce_points(b, p->reduced, p->n_reduced) * tcc_reduce_points(b, p->kept, p->n_kept);
    if (p->split_var >= 0) points = points * (double)p->split / (double)tcc_reduce_extent(p, 0);
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->items = p->cut.items * tcc_reduce_blocks(p);
    launch->grain = tcc_choose_grain(b, points / (double)launch->items);
    p->abreast = choose_abreast(p, points, &p->uneven);
    launch->kernel.schedule = "reduce";
    launch->kernel.shape = p->shape;
    launch->kernel.emit = p->together ? tcc_reduce_emit_together : tcc_reduce_emit;
    launch->kernel.in_step = in_step;
    launch->kernel.data = p;
    launch->kernel.scratch_bytes = p->scratch_bytes;
    int64_t run = 0;
    const int cut = p->order || p->run ? tcc_reduce_find_cut(p, &run) : -1;
    return tcc_lowering_key(
        l, launch, b, -1, "lanes=%d*%d split=%lld slices=%lld together=%d turns=%d strip=%lld ways=%d run=%lld/%d%s",
        p->lanes, p->abreast, (long long)(p->split_var >= 0 ? p->split : 0),
        (long long)(p->slice_var >= 0 ? p->cut.items : 0), p->together, p->turns, (long long)p->strip,
        p->turned ? p->ways : 0, (long long)run, cut, p->is_short ? " short" : "");
}

/* Slots and threads; *points: kept points of an item. */
tcc_status tcc_reduce_choose_shape(tcc_lowering *l, tcc_reduce *p, int64_t *points) {
    const tcc_body *b = p->body;
    TCC_TRY(tcc_reduce_choose_slots(l, p));
    double reduced = tcc_reduce_points(b, p->reduced, p->n_reduced);
    if (p->split_var >= 0) reduced = reduced * (double)p->split / (double)tcc_reduce_extent(p, 0);
    *points = (int64_t)(TCC_REDUCE_ITEM_POINTS / reduced);
    if (!l->target->lane_groups) return TCC_OK;
    *points = 1;
    TCC_TRY(tcc_reduce_count_registers(l, p));
    if (p->columns) shape_columns(&l->target->hw, p);
    else if (p->n_reduced) TCC_TRY(shape_rows(l, p));
    else p->shape = tcc_choose_threads(l->target, 1, 1);
    return TCC_OK;
}

/* Of a GPU; a block of columns takes a vector each. */
static tcc_status settle_shape(tcc_lowering *l, tcc_reduce *p, int64_t *points) {
    if (p->columns) {
        TCC_TRY(settle_columns(l, p));
        const int64_t extent = p->body->vars.data[p->kept[p->n_kept - 1]].high + 1, all = p->shape.group * p->lanes;
        *points = all < extent ? all : extent;
        return TCC_OK;
    }
    if (!p->n_reduced) return TCC_OK;
    TCC_TRY(tcc_reduce_settle_rows(l, p));
    return tcc_reduce_settle_block(l, p);
}

static tcc_status settle_lines(tcc_lowering *l, tcc_reduce *p, int64_t *points) {
    enum { MOST_LINES = 1 << 24 };
    TCC_TRY(tcc_reduce_settle_slots(l, p));
    if (!p->n_kept) return TCC_OK;
    return tcc_params_settle(&l->params, TCC_PARAM_LINES, tcc_param_between(1, MOST_LINES), points);
}

/* An item that ends within the last kept loop has a multiple of so many of its points. */
static int lanes_of_items(const tcc_reduce *p) {
    if (p->turns || p->strip) return p->turns ? p->turns : (int)p->strip;
    return p->columns ? tcc_group_lanes(p->shape, p->lanes) : 1;
}

tcc_status tcc_reduce_add(tcc_lowering *l, tcc_reduce *p) {
    tcc_body *b = p->body;
    int64_t points;
    TCC_TRY(tcc_reduce_choose_shape(l, p, &points));
    if (points < 1) points = 1;
    TCC_TRY(l->target->lane_groups ? settle_shape(l, p, &points) : settle_lines(l, p, &points));
    p->scratch_bytes = p->steps ? 0 : p->slots_bytes;
    p->together = tcc_reduce_rows_together(p);
    if (!p->together) TCC_TRY(tcc_reduce_plan_in_turn(l, p));
    if (!p->together && !p->turns) tcc_reduce_plan_strips(l, p);
    if (p->together) p->cut = tcc_cut_items(b, p->kept, p->n_kept - 1, (points + p->together - 1) / p->together, 1);
    else p->cut = tcc_cut_items(b, p->kept, p->n_kept, points, lanes_of_items(p));
    return tcc_reduce_launch(l, p);
}
