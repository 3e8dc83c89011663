/* SPDX-License-Identifier: MIT
 * The schedule of reductions. An item owns some kept points and makes one sweep over their reduced range for each level of
 * dependence among the reductions (softmax: maximum, sum of exponentials, quotient). Lanes run along the innermost loop: along the
 * reduced range (rows; lanes are combined at the end of a sweep, in a fixed order), or along kept points (columns).
 *
 * Where that leaves too few items for the data, the reduced range is cut: one launch makes partial results for each piece, a second
 * combines them, and work on every point follows in a launch of its own. */
#include "codegen/reduce.h"

#include "ir/support/alloc.h"

#include <string.h>

enum {
    ITEM_POINTS = 8192,
    CACHE_COST = 6,            /* values dearer than this are kept for the next sweep */
    CACHE_BYTES = 384 * 1024,  /* of a thread's L2 */
    SPLIT_POINTS = 64 * 1024,  /* fewer points than this are not worth a second launch */
    SPLIT_ITEMS = 8,           /* so many items are parallel enough */
};

typedef struct reduction {
    const tcc_node *node;
    const tcc_expr *expr; /* REDUCE; NULL: loaded */
    int temporary;        /* where its value is loaded from, -1: computed */
    int level;            /* number of sweeps that come before its own */
} reduction;

/* While tracing: the point, and which reductions are known already. */
typedef struct trace_cx {
    const tcc_node *hero;
    tcc_affine coordinates[TCC_MAX_RANK]; /* of the hero's operand */
    tcc_affine kept_position, reduced_position;
    int64_t kept_numel, reduced_numel;
    int n;
    reduction all[TCC_REDUCE_MOST];
    /* combining: the value of a reduction at a point is the fold of partial results along loop `pieces` */
    bool combine;
    int level;       /* reductions of this level are combined */
    tcc_affine piece; /* as a form */
    const int *partial; /* temporary, by index in `all` */
} trace_cx;

static void reduced_dims(const tcc_node *n, bool reduced[TCC_MAX_RANK]) {
    memset(reduced, 0, sizeof *reduced * TCC_MAX_RANK);
    if (n->op == TCC_OP_ARGMAX) reduced[n->attrs->axis.axis] = true;
    else
        for (int i = 0; i < n->attrs->axes.axes.count; i++) reduced[n->attrs->axes.axes.v[i]] = true;
}

/* A reduction of the group at the kept point itself. */
static const tcc_expr *special(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user) {
    trace_cx *cx = user;
    if (tcc_op_get_info(n->op)->fusion != TCC_FUSION_REDUCE) return NULL;
    const tcc_type *x = &n->operands[0]->type;
    tcc_affine position = tcc_affine_expand(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims));
    if (!tcc_affine_equal(&position, &cx->kept_position) ||
        tcc_type_numel(x) / tcc_type_numel(&n->type) != cx->reduced_numel)
        return NULL;
    int at = 0;
    while (at < cx->n && cx->all[at].node != n) at++;
    if (at == cx->n) {
        if (at == TCC_REDUCE_MOST) return NULL;
        cx->all[cx->n++] = (reduction){.node = n, .temporary = -1};
    }
    reduction *r = &cx->all[at];
    const tcc_expr *outer = b->guard;
    b->guard = NULL;
    const tcc_expr *value = NULL;
    if (r->temporary >= 0) {
        value = tcc_expr_load(b, tcc_body_temporary(b, r->temporary, n->type.dtype, false), cx->kept_position, NULL);
    } else {
        const tcc_expr *operand;
        if (cx->combine && r->level == cx->level) {
            tcc_affine offset = tcc_affine_add(b, cx->kept_position, tcc_affine_scale(b, cx->piece, cx->kept_numel));
            operand = tcc_expr_load(b, tcc_body_temporary(b, cx->partial[at], n->type.dtype, false), offset, NULL);
        } else {
            bool reduced[TCC_MAX_RANK];
            int64_t dims[TCC_MAX_RANK];
            tcc_affine inner[TCC_MAX_RANK], mapped[TCC_MAX_RANK];
            int n_inner = 0;
            reduced_dims(n, reduced);
            for (int i = 0; i < x->rank; i++)
                if (reduced[i]) dims[n_inner++] = x->dims[i];
            tcc_affine_split(b, cx->reduced_position, n_inner, dims, inner);
            for (int i = 0, k = 0, r_ = 0; i < x->rank; i++) mapped[i] = reduced[i] ? inner[r_++] : coordinates[k++];
            operand = tcc_body_trace(b, n->operands[0], mapped);
        }
        value = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = n->type.dtype, .op = n->op}, &operand, 1);
        if (value) { /* not of the reduced loops: they are the schedule's */
            ((tcc_expr *)value)->loops = tcc_affine_loops(b, &cx->kept_position);
            cx->all[at].expr = value;
        }
    }
    b->guard = outer;
    return value;
}

/* --- Planning */

/* The level of each expression: how many sweeps must have ended before it can be evaluated. */
static void find_levels(tcc_reduce *p) {
    const tcc_body *b = p->body;
    p->n_sweeps = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        int level = 0;
        for (int k = 0; k < x->n_operands; k++)
            if (p->level[x->operands[k]->id] > level) level = p->level[x->operands[k]->id];
        for (int k = 0; k < x->affine.n; k++) {
            const tcc_var *v = &b->vars.data[x->affine.terms[k].var];
            if (v->kind == TCC_VAR_VALUE && p->level[v->value->id] > level) level = p->level[v->value->id];
        }
        if (x->kind == TCC_EXPR_REDUCE) {
            if (level + 1 > p->n_sweeps) p->n_sweeps = level + 1;
            level++;
        }
        p->level[i] = level;
    }
    for (int i = 0; i < b->stores.count; i++)
        if (!b->stores.data[i].kept && p->level[b->stores.data[i].value->id] + 1 > p->n_sweeps)
            p->n_sweeps = p->level[b->stores.data[i].value->id] + 1;
}

static int sweep_of_stores(const tcc_reduce *p) { return p->n_sweeps - 1; }

static int cost_below(const tcc_reduce *p, const tcc_expr *x, bool *seen) {
    if (seen[x->id] || x->kind == TCC_EXPR_REDUCE) return 0;
    seen[x->id] = true;
    int cost = x->kind == TCC_EXPR_POINT ? tcc_scalar_cost(x->op) : x->kind == TCC_EXPR_LOAD ? 1 : x->kind == TCC_EXPR_FOLD ? 100 : 0;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &p->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_VALUE) cost += 8 + cost_below(p, v->value, seen);
    }
    for (int i = 0; i < x->n_operands; i++) cost += cost_below(p, x->operands[i], seen);
    return cost;
}

/* Is a value that two sweeps want worth keeping? In scratch of the CPU's cache: if it is dear. A GPU reads nothing twice. */
static bool worth_keeping(const tcc_lowering *l, const tcc_reduce *p, const tcc_expr *x, bool *seen) {
    if (l->target->kind == TCC_TARGET_CUDA) return x->kind == TCC_EXPR_POINT || x->kind == TCC_EXPR_LOAD;
    if (x->kind != TCC_EXPR_POINT || x->dtype == TCC_BOOL || tcc_dtype_bytes(x->dtype) > 4) return false;
    memset(seen, 0, (size_t)p->body->exprs.count);
    return cost_below(p, x, seen) >= CACHE_COST && (p->n_slots + 1) * p->row * 4 <= CACHE_BYTES;
}

/* Which values of one sweep the next ones should find: those at the border of what both evaluate. */
static tcc_status choose_slots(tcc_lowering *l, tcc_reduce *p) {
    const tcc_body *b = p->body;
    size_t n = (size_t)b->exprs.count;
    for (size_t i = 0; i < n; i++) p->slot[i] = -1;
    p->row = 1;
    for (int i = 0; i < p->n_reduced; i++) {
        int64_t extent = b->vars.data[p->reduced[i]].high + 1;
        if (i == p->n_reduced - 1) extent = (extent + p->lanes - 1) / p->lanes * p->lanes;
        p->row *= extent;
    }
    if (p->columns || p->n_reduced == 0 || p->piece_var >= 0) return TCC_OK;
    int inner = p->reduced[p->n_reduced - 1];
    bool *flags = tcc__calloc(4 * n + 1, sizeof *flags);
    if (!flags) return tcc_enomem(l->diag);
    bool *now = flags, *later = flags + n, *border = flags + 2 * n, *seen = flags + 3 * n;
    for (int s = 0; s < p->n_sweeps; s++) {
        memset(now, 0, n);
        tcc_reduce_mark_sweep(p, s, NULL, now);
        for (int t = s + 1; t < p->n_sweeps; t++) {
            memset(later, 0, n);
            memset(border, 0, n);
            tcc_reduce_mark_sweep(p, t, NULL, later);
            for (size_t i = 0; i < n; i++) {
                const tcc_expr *x = b->exprs.data[i];
                if (!later[i] || now[i]) continue;
                for (int k = 0; k < x->n_operands; k++) border[x->operands[k]->id] = true;
            }
            for (int i = 0; i < b->stores.count; i++)
                if (!b->stores.data[i].kept && t == sweep_of_stores(p)) border[b->stores.data[i].value->id] = true;
            for (size_t i = 0; i < n; i++)
                if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE && p->level[b->exprs.data[i]->operands[0]->id] == t)
                    border[b->exprs.data[i]->operands[0]->id] = true;
            for (size_t i = 0; i < n; i++) {
                const tcc_expr *x = b->exprs.data[i];
                if (!border[i] || !now[i] || !later[i] || p->slot[i] >= 0 || !(x->loops >> inner & 1)) continue;
                if (worth_keeping(l, p, x, seen)) p->slot[i] = p->n_slots++;
            }
        }
    }
    tcc__free(flags);
    return TCC_OK;
}

/* Loops of the body by class, innermost last, after merging. */
static tcc_status plan_loops(tcc_lowering *l, tcc_reduce *p, uint64_t reduced_bits) {
    tcc_body *b = p->body;
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(b, order, &n, reduced_bits);
    p->n_kept = p->n_reduced = 0;
    for (int i = 0; i < n; i++) {
        if (reduced_bits >> order[i] & 1) p->reduced[p->n_reduced++] = order[i];
        else p->kept[p->n_kept++] = order[i];
    }
    p->columns = n > 0 && !(reduced_bits >> order[n - 1] & 1);
    int64_t inner = n ? b->vars.data[order[n - 1]].high + 1 : 1;
    p->lanes = n ? tcc_choose_lanes(l->target, b, order[n - 1], inner, tcc_choose_width(b)) : 1;
    if (p->n_reduced == 0 && !p->columns) p->lanes = 1;
    p->piece_var = -1;
    p->level = TCC_ARENA_ARRAY(l->arena, int, b->exprs.count + 1);
    p->slot = TCC_ARENA_ARRAY(l->arena, int, b->exprs.count + 1);
    if (!p->level || !p->slot) return tcc_enomem(l->diag);
    return b->status;
}

static double extent_product(const tcc_body *b, const int *loops, int n) {
    double product = 1;
    for (int i = 0; i < n; i++) product *= (double)(b->vars.data[loops[i]].high + 1);
    return product;
}

/* --- Threads */

/* Registers that the kept values of one element take. `narrow`: shared memory can hold them too, 4 bytes each. */
static int kept_words(const tcc_reduce *p, bool *narrow) {
    const tcc_body *b = p->body;
    int words = 0;
    *narrow = true;
    for (int i = 0; i < b->exprs.count; i++) {
        if (p->slot[i] < 0) continue;
        int bytes = tcc_dtype_bytes(b->exprs.data[i]->dtype);
        words += bytes > 4 ? 2 : 1;
        *narrow = *narrow && bytes <= 4 && b->exprs.data[i]->dtype != TCC_BOOL;
    }
    return words;
}

/* Rows: a lane group of a warp or less if a row then fits its registers, else a block; the fewer rows, the more threads a row. */
static void shape_rows(const tcc_lowering *l, tcc_reduce *p) {
    enum { ELEMENTS = 32, REGISTERS = 64, SMALL_BLOCK = 128, LARGEST = 1024, ENOUGH = 65536, FEW_STEPS = 8, SEGMENT = 128, RESERVED = 2048 };
    const tcc_body *b = p->body;
    bool narrow;
    int64_t extent = b->vars.data[p->reduced[p->n_reduced - 1]].high + 1, vectors = (extent + p->lanes - 1) / p->lanes;
    int64_t rows = (int64_t)extent_product(b, p->kept, p->n_kept), words = kept_words(p, &narrow), found = 0;
    if (words < 1) words = 1;
    for (int64_t group = 1; p->n_reduced == 1 && p->piece_var < 0 && group <= LARGEST; group *= 2) {
        int64_t steps = (vectors + group - 1) / group, elements = steps * p->lanes;
        if (group < vectors && group * p->lanes * 4 < SEGMENT) continue; /* neighbours read together */
        if (elements > ELEMENTS || elements * words > (group == LARGEST ? REGISTERS / 4 : group == LARGEST / 2 ? REGISTERS / 2 : REGISTERS)) continue;
        found = group;
        p->steps = (int)steps;
        if (steps == 1 || rows * group >= ENOUGH || (group >= TCC_EMIT_WARP && steps <= FEW_STEPS)) break;
    }
    if (!found) {
        int64_t bytes = p->n_slots * p->row * 4;
        if (!narrow || bytes + RESERVED > l->target->shared_bytes) {
            for (int i = 0; i < b->exprs.count; i++) p->slot[i] = -1;
            p->n_slots = 0;
        }
        for (found = 1; found < vectors && found < (p->n_slots ? LARGEST / 2 : LARGEST / 4);) found *= 2;
        if (p->n_slots && found <= TCC_EMIT_WARP) found = 2 * TCC_EMIT_WARP; /* scratch is a block's */
    }
    p->shape = (tcc_thread_shape){.threads = found <= TCC_EMIT_WARP ? SMALL_BLOCK : (int)found, .group = (int)found, .deep = 1};
}

/* Threads for columns side by side: up to a warp; fewer where they then come out even. */
static int64_t columns_group(const tcc_reduce *p) {
    enum { LEAST = 8 };
    int64_t extent = p->body->vars.data[p->kept[p->n_kept - 1]].high + 1, group = 1;
    while (group < TCC_EMIT_WARP && group * p->lanes < extent) group *= 2;
    for (int64_t even = group; even >= LEAST; even /= 2)
        if (extent % (even * p->lanes) == 0) return even;
    return group;
}

/* Columns: up to a warp side by side, and so many below each other that the GPU is busy. */
static void shape_columns(tcc_reduce *p, int64_t *points) {
    enum { BLOCK = 256, SMALL_BLOCK = 128, DEEPEST = 32, ENOUGH = 131072, SHARED = 32 * 1024 };
    const tcc_body *b = p->body;
    int64_t extent = b->vars.data[p->kept[p->n_kept - 1]].high + 1, group = columns_group(p), deep = 1, carries = 0;
    double vectors = extent_product(b, p->kept, p->n_kept) / p->lanes;
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE) carries += tcc_fold_carries(b->exprs.data[i]->op);
    int64_t rows = p->n_reduced == 0 ? 1 : p->piece_var >= 0 ? p->piece : b->vars.data[p->reduced[0]].high + 1;
    while (deep < DEEPEST && group * deep < BLOCK && 2 * deep <= rows && vectors * (double)deep < ENOUGH &&
           group * deep * 2 * p->lanes * 8 * carries <= SHARED)
        deep *= 2;
    p->shape = (tcc_thread_shape){.threads = deep > 1 ? (int)(group * deep) : SMALL_BLOCK, .group = (int)group, .deep = (int)deep};
    *points = group * p->lanes < extent ? group * p->lanes : extent;
}

static tcc_status add_launch(tcc_lowering *l, tcc_reduce *p) {
    tcc_body *b = p->body;
    find_levels(p);
    TCC_TRY(choose_slots(l, p));
    double reduced = extent_product(b, p->reduced, p->n_reduced);
    if (p->piece_var >= 0) reduced = reduced * (double)p->piece / (double)(b->vars.data[p->reduced[0]].high + 1);
    int64_t points = (int64_t)(ITEM_POINTS / reduced);
    if (l->target->kind == TCC_TARGET_CUDA) {
        points = 1;
        if (p->columns) shape_columns(p, &points);
        else if (p->n_reduced) shape_rows(l, p);
        else p->shape = tcc_choose_threads(l->target, 1, 1);
    }
    p->cut = tcc_cut_items(b, p->kept, p->n_kept, points < 1 ? 1 : points, p->columns ? tcc_group_lanes(p->shape, p->lanes) : 1);
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->items = p->cut.items;
    launch->grain = tcc_choose_grain(b, reduced * extent_product(b, p->kept, p->n_kept) / (double)p->cut.items);
    launch->kernel.schedule = "reduce";
    launch->kernel.shape = p->shape;
    launch->kernel.emit = tcc_reduce_emit;
    launch->kernel.data = p;
    launch->kernel.scratch_bytes = p->steps ? 0 : p->n_slots * p->row * 4;
    return tcc_lowering_key(l, launch, b, -1, "lanes=%d piece=%lld", p->lanes, (long long)(p->piece_var >= 0 ? p->piece : 0));
}

typedef struct reduce_plan {
    tcc_lowering *l;
    const tcc_node *hero;
    const tcc_type *space;
    bool reduced[TCC_MAX_RANK];
    tcc_iteration it;
    uint64_t reduced_bits;
} reduce_plan;

/* A fresh body with the space's loops open and cx describing the point. */
static tcc_body *open_body(reduce_plan *rp, trace_cx *cx) {
    tcc_body *b = tcc_body_create(rp->l->arena, rp->l->diag, rp->l->graph, rp->l->group);
    if (!b) return NULL;
    tcc_iteration_open(b, &rp->it, cx->coordinates);
    tcc_affine kept[TCC_MAX_RANK], inner[TCC_MAX_RANK];
    int64_t kept_dims[TCC_MAX_RANK], inner_dims[TCC_MAX_RANK];
    int n_kept = 0, n_inner = 0;
    rp->reduced_bits = 0;
    cx->kept_numel = cx->reduced_numel = 1;
    for (int i = 0; i < rp->space->rank; i++) {
        if (rp->reduced[i]) {
            inner[n_inner] = cx->coordinates[i];
            cx->reduced_numel *= inner_dims[n_inner++] = rp->space->dims[i];
            rp->reduced_bits |= tcc_affine_loops(b, &cx->coordinates[i]);
        } else {
            kept[n_kept] = cx->coordinates[i];
            cx->kept_numel *= kept_dims[n_kept++] = rp->space->dims[i];
        }
    }
    cx->hero = rp->hero;
    cx->kept_position = tcc_affine_linear(b, kept, n_kept, kept_dims);
    cx->reduced_position = tcc_affine_linear(b, inner, n_inner, inner_dims);
    for (int i = 0; i < cx->n; i++) cx->all[i].expr = NULL;
    b->special = special;
    b->special_user = cx;
    return b;
}

static bool is_kept(const trace_cx *cx, const tcc_node *n) { return tcc_type_numel(&n->type) == cx->kept_numel; }
static bool is_full(const trace_cx *cx, const tcc_node *n) {
    return !is_kept(cx, n) && tcc_type_numel(&n->type) == cx->kept_numel * cx->reduced_numel;
}

static void store_outputs(reduce_plan *rp, trace_cx *cx, tcc_body *b, bool kept, bool full) {
    tcc_affine position = tcc_affine_linear(b, cx->coordinates, rp->space->rank, rp->space->dims);
    for (int i = 0; i < rp->l->group->n_outputs; i++) {
        const tcc_node *n = rp->l->group->outputs[i];
        if (is_kept(cx, n) && kept) tcc_body_store(b, n, cx->kept_position, true);
        if (is_full(cx, n) && full) tcc_body_store(b, n, position, false);
    }
}

static bool has_full_output(const reduce_plan *rp, const trace_cx *cx) {
    for (int i = 0; i < rp->l->group->n_outputs; i++)
        if (is_full(cx, rp->l->group->outputs[i])) return true;
    return false;
}

static tcc_reduce *new_reduce(tcc_lowering *l, tcc_body *b) {
    tcc_reduce *p = TCC_ARENA_NEW(l->arena, tcc_reduce);
    if (p) p->body = b;
    return p;
}

/* Partial results of the reductions of one level, each over a piece of the first reduced loop. */
static tcc_status launch_partial(reduce_plan *rp, trace_cx *cx, int level, int64_t pieces, int *partial) {
    tcc_lowering *l = rp->l;
    cx->combine = false;
    tcc_body *b = open_body(rp, cx);
    if (!b) return tcc_enomem(l->diag);
    int var = tcc_body_loop(b, pieces);
    tcc_affine offset = tcc_affine_add(b, cx->kept_position, tcc_affine_scale(b, tcc_affine_var(b, var), cx->kept_numel));
    for (int i = 0; i < cx->n; i++) {
        if (cx->all[i].level != level) continue;
        const tcc_node *n = cx->all[i].node;
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_affine_split(b, cx->kept_position, n->type.rank, n->type.dims, coordinates);
        const tcc_expr *value = tcc_body_trace(b, n, coordinates);
        partial[i] = tcc_lowering_temporary(l, pieces * cx->kept_numel * tcc_dtype_bytes(n->type.dtype));
        if (partial[i] < 0 || !value) break;
        tcc_store store = {tcc_body_temporary(b, partial[i], n->type.dtype, true), offset, value, NULL, true};
        if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
    }
    uint64_t reduced_bits = rp->reduced_bits;
    TCC_TRY(tcc_lowering_keep(l, b));
    tcc_reduce *p = new_reduce(l, b);
    if (!p) return tcc_enomem(l->diag);
    TCC_TRY(plan_loops(l, p, reduced_bits));
    p->piece_var = var;
    p->piece = (b->vars.data[p->reduced[0]].high + pieces) / pieces;
    if (!p->columns && p->n_reduced == 1) p->piece = tcc_whole_vectors(l->target, p->piece, p->lanes);
    memmove(p->kept + 1, p->kept, sizeof *p->kept * (size_t)p->n_kept);
    p->kept[0] = var;
    p->n_kept++;
    return add_launch(l, p);
}

/* The reductions of one level from their partial results, into temporaries; with the last level the kept outputs too. */
static tcc_status launch_combine(reduce_plan *rp, trace_cx *cx, int level, bool last, bool keep, int64_t pieces, const int *partial) {
    tcc_lowering *l = rp->l;
    tcc_iteration it = {0};
    for (int i = 0; i < rp->space->rank; i++)
        if (!rp->reduced[i]) it.axes[it.rank++] = rp->it.axes[i];
    tcc_body *b = tcc_body_create(l->arena, l->diag, l->graph, l->group);
    if (!b) return tcc_enomem(l->diag);
    /* Pieces come first in memory and are the outer loop; numbering wants the space's loops first. */
    tcc_affine kept[TCC_MAX_RANK];
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0, k = 0; i < rp->space->rank; i++)
        if (!rp->reduced[i]) dims[k++] = rp->space->dims[i];
    tcc_iteration_open(b, &it, kept);
    int var = tcc_body_loop(b, pieces);
    b->n_space = b->vars.count;
    cx->kept_position = tcc_affine_linear(b, kept, it.rank, dims);
    cx->piece = tcc_affine_var(b, var);
    cx->combine = true;
    cx->level = level;
    cx->partial = partial;
    for (int i = 0; i < cx->n; i++) cx->all[i].expr = NULL;
    b->special = special;
    b->special_user = cx;
    int made[TCC_REDUCE_MOST];
    for (int i = 0; i < cx->n; i++) {
        const tcc_node *n = cx->all[i].node;
        made[i] = -1;
        if (cx->all[i].level != level || (last && !keep)) continue;
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_affine_split(b, cx->kept_position, n->type.rank, n->type.dims, coordinates);
        const tcc_expr *value = tcc_body_trace(b, n, coordinates);
        made[i] = tcc_lowering_temporary(l, cx->kept_numel * tcc_dtype_bytes(n->type.dtype));
        if (made[i] < 0 || !value) break;
        tcc_store store = {tcc_body_temporary(b, made[i], n->type.dtype, true), cx->kept_position, value, NULL, true};
        if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
    }
    for (int i = 0; last && i < l->group->n_outputs; i++)
        if (is_kept(cx, l->group->outputs[i])) tcc_body_store(b, l->group->outputs[i], cx->kept_position, true);
    TCC_TRY(tcc_lowering_keep(l, b));
    for (int i = 0; i < cx->n; i++)
        if (made[i] >= 0) cx->all[i].temporary = made[i];
    tcc_reduce *p = new_reduce(l, b);
    if (!p) return tcc_enomem(l->diag);
    TCC_TRY(plan_loops(l, p, UINT64_C(1) << var));
    if (p->n_kept > 0 && !p->columns) { /* lanes along the kept loops: they are contiguous, pieces are not */
        p->columns = true;
        p->lanes = tcc_choose_lanes(l->target, b, p->kept[p->n_kept - 1], b->vars.data[p->kept[p->n_kept - 1]].high + 1, tcc_choose_width(b));
    }
    return add_launch(l, p);
}

static tcc_status lower_in_pieces(reduce_plan *rp, trace_cx *cx, int levels, int64_t pieces) {
    int partial[TCC_REDUCE_MOST];
    bool full = has_full_output(rp, cx);
    for (int level = 0; level < levels; level++) {
        TCC_TRY(launch_partial(rp, cx, level, pieces, partial));
        TCC_TRY(launch_combine(rp, cx, level, level == levels - 1, full, pieces, partial));
    }
    if (!full) return TCC_OK;
    cx->combine = false;
    tcc_body *b = open_body(rp, cx);
    if (!b) return tcc_enomem(rp->l->diag);
    store_outputs(rp, cx, b, false, true);
    return tcc_schedule_points(rp->l, b);
}

/* For a GPU: so many that most of it is busy, while each thread still has a few elements. */
static int64_t choose_pieces_for_blocks(const tcc_reduce *p) {
    enum { BLOCK = 256, BUSY = 264, MOST_BLOCKS = 1024, STEPS = 8 };
    const tcc_body *b = p->body;
    double kept = extent_product(b, p->kept, p->n_kept), points = extent_product(b, p->reduced, p->n_reduced);
    int64_t extent = b->vars.data[p->reduced[0]].high + 1, columns = 1;
    if (p->columns) {
        int64_t last = b->vars.data[p->kept[p->n_kept - 1]].high + 1, group = columns_group(p);
        columns = group;
        kept = kept / (double)last * (double)((last + group * p->lanes - 1) / (group * p->lanes));
    }
    if (kept >= BUSY) return 1;
    double least = (double)STEPS * (p->columns ? BLOCK / (double)columns : BLOCK * p->lanes); /* points of a piece */
    int64_t pieces = (int64_t)(points / least), most = (int64_t)(MOST_BLOCKS / kept);
    if (pieces > most) pieces = most;
    if (pieces > extent) pieces = extent;
    if (pieces < 2) return 1;
    int64_t piece = (extent + pieces - 1) / pieces;
    if (!p->columns && p->n_reduced == 1) piece = (piece + p->lanes - 1) / p->lanes * p->lanes;
    return (extent + piece - 1) / piece;
}

/* How many pieces to cut the first reduced loop into; 1: none. */
static int64_t choose_pieces(const tcc_lowering *l, const tcc_reduce *p, const trace_cx *cx) {
    const tcc_body *b = p->body;
    if (p->n_reduced == 0) return 1;
    for (int i = 0; i < cx->n; i++)
        if (cx->all[i].node->op == TCC_OP_ARGMAX) return 1;
    if (l->target->kind == TCC_TARGET_CUDA) return choose_pieces_for_blocks(p);
    double kept = extent_product(b, p->kept, p->n_kept), points = kept * extent_product(b, p->reduced, p->n_reduced);
    double items = p->columns ? kept / p->lanes : kept;
    if (points < SPLIT_POINTS || items >= (p->columns ? 2 * SPLIT_ITEMS : SPLIT_ITEMS)) return 1;
    int64_t pieces = (int64_t)(points / (2 * ITEM_POINTS)), extent = b->vars.data[p->reduced[0]].high + 1;
    if (pieces > 64) pieces = 64;
    int64_t least = p->columns || p->n_reduced > 1 ? 8 : 8 * p->lanes; /* of the loop, in a piece */
    if (pieces > extent / least) pieces = extent / least;
    if (pieces < 2) return 1;
    int64_t piece = (extent + pieces - 1) / pieces;
    if (!p->columns && p->n_reduced == 1) piece = (piece + p->lanes - 1) / p->lanes * p->lanes;
    return (extent + piece - 1) / piece;
}

tcc_status tcc_lower_reduce(tcc_lowering *l) {
    reduce_plan rp = {.l = l, .hero = l->group->hero, .space = &l->group->hero->operands[0]->type};
    reduced_dims(rp.hero, rp.reduced);
    tcc_iteration_init(&rp.it, rp.space->rank, rp.space->dims);
    trace_cx cx;
    tcc_body *b;
    for (;;) {
        cx = (trace_cx){0};
        b = open_body(&rp, &cx);
        if (!b) return tcc_enomem(l->diag);
        store_outputs(&rp, &cx, b, true, true);
        if (!tcc_iteration_refine(&rp.it, b)) break;
        tcc_body_free(b);
    }
    TCC_TRY(tcc_lowering_keep(l, b));
    tcc_reduce *p = new_reduce(l, b);
    if (!p) return tcc_enomem(l->diag);
    TCC_TRY(plan_loops(l, p, rp.reduced_bits));
    find_levels(p);
    int levels = 0;
    for (int i = 0; i < cx.n; i++) {
        cx.all[i].level = cx.all[i].expr ? p->level[cx.all[i].expr->operands[0]->id] : 0;
        if (cx.all[i].level + 1 > levels) levels = cx.all[i].level + 1;
    }
    int64_t pieces = choose_pieces(l, p, &cx);
    TCC_TRY(pieces > 1 ? lower_in_pieces(&rp, &cx, levels, pieces) : add_launch(l, p));
    for (int i = 0; i < l->group->n_outputs; i++) { /* bystanders of another size have loops of their own */
        const tcc_node *n = l->group->outputs[i];
        bool done = is_kept(&cx, n) || is_full(&cx, n);
        for (int k = 0; k < i; k++) done = done || tcc_type_numel(&l->group->outputs[k]->type) == tcc_type_numel(&n->type);
        if (!done) TCC_TRY(tcc_lower_space(l, &n->type));
    }
    return TCC_OK;
}
