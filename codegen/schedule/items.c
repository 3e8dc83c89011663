/* SPDX-License-Identifier: MIT
 * The cut of loops into work items, lanes and threads. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/predict.h"

#include <stdarg.h>

double tcc_part_loops(const tcc_body *b, const int *order, int n, uint64_t bits, int *in, int *n_in, int *rest,
                      int *n_rest) {
    double points = 1;
    for (int i = 0; i < n; i++) {
        points *= (double)(b->vars.data[order[i]].high + 1);
        if (bits >> order[i] & 1) in[(*n_in)++] = order[i];
        else rest[(*n_rest)++] = order[i];
    }
    return points;
}

int64_t tcc_whole_vectors(const tcc_llvm_target *t, int64_t length, int lanes) {
    return t->aligned_vectors ? (length + lanes - 1) / lanes * lanes : length;
}

tcc_thread_shape tcc_choose_threads(const tcc_llvm_target *t, int64_t extent, int lanes) {
    enum { BLOCK = 256 };
    tcc_thread_shape shape = {0};
    if (!t->lane_groups) return shape;
    for (shape.group = 1; shape.group < BLOCK && shape.group * lanes < extent;) shape.group *= 2;
    shape.threads = shape.group <= TCC_EMIT_WARP ? BLOCK : shape.group;
    return shape;
}

tcc_status tcc_settle_block(tcc_lowering *l, tcc_thread_shape *shape) {
    const tcc_param_range range = tcc_param_multiples(TCC_EMIT_WARP, TCC_EMIT_WARP, l->target->hw.threads_per_block);
    if (shape->group > TCC_EMIT_WARP) shape->threads = shape->group;
    return shape->group > TCC_EMIT_WARP ? TCC_OK
                                        : tcc_params_settle_int(&l->params, TCC_PARAM_THREADS, range, &shape->threads);
}

tcc_status tcc_settle_threads(tcc_lowering *l, tcc_thread_shape *shape) {
    const tcc_param_range range = tcc_param_powers(1, l->target->hw.threads_per_block);
    if (!l->target->lane_groups) return TCC_OK;
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_GROUP, range, &shape->group));
    return tcc_settle_block(l, shape);
}

int tcc_group_lanes(tcc_thread_shape shape, int lanes) { return shape.group ? shape.group * lanes : lanes; }

int64_t tcc_choose_points(tcc_thread_shape shape, int lanes, int64_t host, int steps) {
    return shape.group ? (int64_t)shape.group * lanes * steps : host;
}

/* Bytes of the widest element that an access moves along a loop; 0: there is no such access. Sums are not moved at each
 * point. */
static int widest_along(const tcc_body *b, int var) {
    int widest = 0;
    for (int i = 0; i < b->exprs.count + b->stores.count; i++) {
        bool is_expr = i < b->exprs.count;
        const tcc_expr *x = is_expr ? b->exprs.data[i] : NULL;
        const tcc_body_write *s = is_expr ? NULL : &b->stores.data[i - b->exprs.count];
        if (x ? x->kind != TCC_EXPR_LOAD : s->sum || s->part) continue;
        if (tcc_affine_coefficient(x ? &x->affine : &s->offset, var) != 1) continue;
        int bytes = tcc_dtype_bytes(x ? x->dtype : b->buffers.data[s->buffer].dtype);
        if (bytes > widest) widest = bytes;
    }
    return widest;
}

enum { MOST_LANES = 64, WIDE = 4 /* registers of a vector, at most */ };

static int most_lanes(const tcc_llvm_target *t, const tcc_body *b, int var, int64_t extent) {
    if (!t->aligned_vectors) return t->lanes * WIDE < MOST_LANES ? t->lanes * WIDE : MOST_LANES;
    int widest = widest_along(b, var), lanes = widest == 2 ? 2 * t->lanes : widest > 4 ? t->lanes / 2 : t->lanes;
    while (extent % lanes) lanes /= 2;
    return lanes;
}

int tcc_choose_lanes(const tcc_llvm_target *t, const tcc_body *b, int var, int64_t extent, int wide) {
    const int most = most_lanes(t, b, var, extent);
    if (t->aligned_vectors) return most;
    int lanes = t->lanes * wide;
    while (lanes > 1 && lanes / 2 >= extent) lanes /= 2;
    return lanes > most ? most : lanes;
}

tcc_status tcc_settle_lanes(tcc_lowering *l, const tcc_body *b, int var, int64_t extent, int *lanes) {
    const tcc_param_range range = tcc_param_powers(1, most_lanes(l->target, b, var, extent));
    return tcc_params_settle_int(&l->params, TCC_PARAM_LANES, range, lanes);
}

tcc_status tcc_settle_whole_line(tcc_lowering *l, const tcc_body *b, int var, int64_t extent, int most_threads,
                                 int *lanes, tcc_thread_shape *shape) {
    enum { BLOCK = 256 };
    const int vector = most_lanes(l->target, b, var, extent),
              most = vector < l->target->lanes ? vector : l->target->lanes;
    int least = 1;
    while ((int64_t)least * most_threads < extent) least *= 2;
    if (least > most) return TCC_BUG(l->diag, "a line of %lld elements at once", (long long)extent);
    *lanes = most;
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_LANES, tcc_param_powers(least, most), lanes));
    *shape = (tcc_thread_shape){.group = 1};
    while ((int64_t)shape->group * *lanes < extent) shape->group *= 2;
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_GROUP,
                                  tcc_param_powers(shape->group, l->target->hw.threads_per_block), &shape->group));
    shape->threads = BLOCK;
    return tcc_settle_block(l, shape);
}

tcc_item_cut tcc_cut_items(const tcc_body *b, const int *order, int n, int64_t points, int lanes) {
    tcc_item_cut cut = {.n = n, .cut = -1, .chunk = 1, .chunks = 1, .items = 1};
    int64_t inside = 1;
    for (int i = 0; i < n; i++) cut.order[i] = order[i];
    for (int i = n - 1; i >= 0; i--) {
        int64_t extent = b->vars.data[order[i]].high + 1;
        cut.cut = i;
        cut.chunk = extent;
        if (inside * extent >= points) {
            cut.chunk = (points + inside - 1) / inside;
            if (i == n - 1) cut.chunk = (cut.chunk + lanes - 1) / lanes * lanes;
            if (cut.chunk > extent) cut.chunk = extent;
            break;
        }
        inside *= extent;
    }
    if (cut.cut < 0) return cut;
    int64_t extent = b->vars.data[order[cut.cut]].high + 1;
    cut.chunks = (extent + cut.chunk - 1) / cut.chunk;
    /* even chunks, so that items are alike */
    int64_t even = (extent + cut.chunks - 1) / cut.chunks;
    if (cut.cut < n - 1) cut.chunk = even;
    cut.items = cut.chunks;
    for (int i = 0; i < cut.cut; i++) cut.items *= b->vars.data[order[i]].high + 1;
    return cut;
}

int tcc_expr_cost(const tcc_expr *x) {
    switch (x->kind) {
    case TCC_EXPR_POINT: return tcc_expr_rounds(x) ? 0 : (int)tcc_op_get_info(x->op)->cost;
    case TCC_EXPR_LOAD: return 2;
    case TCC_EXPR_REDUCE: return (int)tcc_op_get_info(x->op)->cost;
    case TCC_EXPR_FOLD: return 100;
    default: return 0;
    }
}

int tcc_body_cost(const tcc_body *b) {
    int cost = 0;
    for (int i = 0; i < b->exprs.count; i++) cost += tcc_expr_cost(b->exprs.data[i]);
    return cost;
}

static bool has_simple_vectors(const tcc_body *b) {
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->fold || tcc_dtype_bytes(b->exprs.data[i]->dtype) > 4) return false;
    return true;
}

int tcc_choose_width(const tcc_body *b) {
    const int cost = tcc_body_cost(b);
    return !has_simple_vectors(b) ? 1 : cost <= 8 ? 4 : cost <= 16 ? 2 : 1;
}

static const double long_work = 1 << 23; /* some 50 us */

int tcc_choose_width_of_points(const tcc_body *b, double points) {
    enum { CHAIN = 16, FUNCTIONS = 110, STREAMS = 3 }; /* measured on Zen 5, with AVX-512 and capped at AVX2 */
    const int cost = tcc_body_cost(b);
    int streams = b->stores.count;
    if (cost <= CHAIN || points * cost < long_work || !has_simple_vectors(b)) return tcc_choose_width(b);
    for (int i = 0; i < b->exprs.count; i++) streams += b->exprs.data[i]->kind == TCC_EXPR_LOAD;
    return cost <= FUNCTIONS && streams <= STREAMS ? 4 : 2;
}

int tcc_choose_width_of_rows(const tcc_body *b, double points) {
    return points * tcc_body_cost(b) < long_work ? 1 : tcc_choose_width_of_points(b, points);
}

int tcc_choose_width_of_sums(const tcc_llvm_target *target, const tcc_body *b, double points) {
    const int width = tcc_choose_width(b);
    if (target->lane_groups || width > 2) return width;
    return width == 1 && tcc_choose_width_of_points(b, points) == 1 ? 1 : target->registers >= 32 ? 4 : 2;
}

double tcc_points_of(const tcc_body *b, const int *order, int n) {
    double points = 1;
    for (int i = 0; i < n; i++) points *= (double)(b->vars.data[order[i]].high + 1);
    return points;
}

int64_t tcc_choose_grain(const tcc_body *b, double points) {
    double work = points * (8 + tcc_body_cost(b)), enough = 16 * 16384; /* some microseconds */
    int64_t grain = (int64_t)(enough / (work > 1 ? work : 1));
    return grain < 1 ? 1 : grain;
}

void tcc_emit_cut(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_value item, tcc_emit_value *from,
                  tcc_emit_value *to) {
    tcc_emitter *e = r->e;
    for (int i = cut->cut; i >= 0; i--) {
        int64_t extent = r->body->vars.data[cut->order[i]].high + 1, n = i == cut->cut ? cut->chunks : extent;
        tcc_emit_value index = i == 0 ? item : tcc_emit_rem(e, item, n);
        if (i > 0) item = tcc_emit_div(e, item, n);
        if (i < cut->cut) {
            tcc_body_enter(r, cut->order[i], index);
            continue;
        }
        *from = tcc_emit_i64(e, 0);
        *to = tcc_emit_i64(e, extent);
        if (cut->chunks == 1) continue;
        *from = tcc_emit_within(e, tcc_emit_mul(e, index, tcc_emit_i64(e, cut->chunk)), extent);
        tcc_emit_value end = tcc_emit_within(e, tcc_emit_add(e, *from, tcc_emit_i64(e, cut->chunk)),
                                             extent + cut->chunk);
        *to = extent % cut->chunk ? tcc_emit_min(e, end, *to) : end;
    }
}

void tcc_emit_cut_begin(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_value item, int lanes,
                        tcc_emit_cut_loops *l) {
    tcc_emitter *e = r->e;
    l->one = false;
    l->lanes = lanes > 0;
    if (cut->cut < 0) return;
    tcc_emit_value from, to;
    tcc_emit_cut(r, cut, item, &from, &to);
    for (int i = cut->cut; i < cut->n; i++) {
        int var = cut->order[i];
        int64_t extent = r->body->vars.data[var].high + 1;
        if (i > cut->cut) from = tcc_emit_i64(e, 0), to = tcc_emit_i64(e, extent);
        bool last = i == cut->n - 1;
        if (last && lanes && e->split) { /* all threads stay, for the others of the block wait for them */
            l->one = true;
            tcc_emit_value index = tcc_emit_add(e, from, tcc_emit_mul(e, e->thread, tcc_emit_i64(e, lanes)));
            index = tcc_emit_within(e, index, extent + tcc_emit_group_lanes(e, lanes));
            if (extent % tcc_emit_group_lanes(e, lanes)) {
                r->inside = tcc_emit_icmp(e, TCC_ICMP_SLT, index, to);
                index = tcc_emit_min(e, index, tcc_emit_i64(e, extent - lanes));
            }
            r->lane_var = lanes > 1 ? var : -1;
            r->lanes = lanes;
            tcc_body_enter(r, var, index);
            break;
        }
        if (last && lanes) tcc_emit_lane_loop_begin(e, &r->nest[var], from, to, lanes, NULL, 0);
        else if (last) tcc_emit_split_loop_begin(e, &r->nest[var], from, to, NULL, 0);
        else tcc_emit_loop_begin(e, &r->nest[var], from, to, 1, NULL, 0);
        if (last && lanes > 1) {
            r->lane_var = var;
            r->lanes = lanes;
            if (extent % lanes) r->mask = tcc_emit_tail_mask(e, lanes, to, r->nest[var].index);
        }
        tcc_body_enter(r, var, r->nest[var].index);
    }
}

void tcc_emit_cut_blocks_begin(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_value item, int points,
                               tcc_emit_cut_block *block, tcc_emit_cut_loops *l) {
    tcc_emitter *e = r->e;
    const int last = cut->order[cut->n - 1];
    const int64_t extent = r->body->vars.data[last].high + 1;
    tcc_emit_value from, to;
    *l = (tcc_emit_cut_loops){0};
    tcc_emit_cut(r, cut, item, &from, &to);
    for (int i = cut->cut; i < cut->n - 1; i++) {
        const int var = cut->order[i];
        tcc_emit_loop_begin(e, &r->nest[var], from, to, 1, NULL, 0);
        tcc_body_enter(r, var, r->nest[var].index);
        from = tcc_emit_i64(e, 0);
        to = tcc_emit_i64(e, r->body->vars.data[cut->order[i + 1]].high + 1);
    }
    tcc_emit_loop_begin(e, &r->nest[last], from, to, points, NULL, 0);
    block->first = r->nest[last].index;
    block->end = to;
    block->whole = extent % points == 0 && (cut->cut < cut->n - 1 || cut->chunks == 1 || cut->chunk % points == 0);
}

void tcc_emit_cut_end(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_cut_loops *l) {
    tcc_emitter *e = r->e;
    if (cut->cut < 0) return;
    for (int i = cut->n - 1; i >= 0; i--) {
        const bool last = i == cut->n - 1;
        tcc_body_leave(r, cut->order[i]);
        if (i < cut->cut || (l->one && last)) continue;
        /* The next turn may write what others of the block still read in shared memory. Where not all threads take each
         * turn, nothing goes that way. */
        if (e->shared_reused && !(last && (l->lanes || e->split))) {
            tcc_emit_barrier(e);
            e->shared_reused = false;
        }
        tcc_emit_loop_end(e, &r->nest[cut->order[i]], NULL);
    }
    r->mask = r->inside = NULL;
    r->lane_var = -1;
    r->lanes = 1;
}

tcc_status tcc_emit_cut_kernel(tcc_emitter *e, const char *symbol, const tcc_body *b, const tcc_item_cut *cut,
                               int lanes, void (*line)(tcc_body_run *r, const void *data), const void *data) {
    tcc_body_run run;
    tcc_emit_kernel_begin(e, symbol);
    TCC_TRY(tcc_body_run_begin(&run, e, b, 0));
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_cut_loops loops;
    tcc_emit_cut_begin(&run, cut, items.index, lanes, &loops);
    line(&run, data);
    tcc_emit_cut_end(&run, cut, &loops);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(&run);
    return TCC_OK;
}
