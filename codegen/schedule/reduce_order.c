/* SPDX-License-Identifier: MIT
 * The order in which a sum adds its terms on the host: see reduce.h. It follows from the shape of the sum. Here also is
 * what loops keep to it, and where they cut long chains. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce.h"

#include "ir/chain.h"

/* --- From the shape */

/* Of the group's sums of rows, or of the column sums beside them (`across`). */
static void find_levels(const tcc_reduce_trace *t, bool across, tcc_reduce_order *o) {
    int last = -1;
    for (int i = 0; i < t->space->rank; i++) {
        if (t->space->dims[i] == 1) continue;
        const bool reduced = t->reduced[i] != across, joins = last >= 0 && t->reduced[last] != across;
        last = i;
        if (!reduced) continue;
        if (!joins) o->level[o->n++].extent = 1;
        o->level[o->n - 1].dims[o->level[o->n - 1].n++] = t->space->dims[i];
        o->level[o->n - 1].extent *= t->space->dims[i];
    }
    o->rows = last >= 0 && t->reduced[last] != across;
}

/* Columns that a thread takes at once, where it does little else. */
static int64_t columns_at_once(const tcc_reduce_trace *t, bool across) {
    enum { WIDE = 4 };
    int64_t extent = 1;
    for (int i = t->space->rank - 1; i >= 0; i--)
        if (t->space->dims[i] > 1 && t->reduced[i] != across) break;
        else extent *= t->space->dims[i];
    return tcc_choose_lanes(t->l->target, NULL, -1, extent, WIDE);
}

/* Too few items for the data: see reduce_split.c. */
static int64_t parts_of(const tcc_reduce_trace *t, bool across, const tcc_reduce_order *o) {
    enum {
        SPLIT_POINTS = 64 * 1024, /* fewer points than this are not worth a second launch */
        SPLIT_ITEMS = 8,          /* so many items are parallel enough */
        MOST = 64,
        LEAST = 8 /* steps of a part */
    };
    const double points = (double)t->kept_numel * (double)t->reduced_numel, kept = (double)o->kept;
    const double items = o->rows ? kept : kept / (double)columns_at_once(t, across);
    if (!o->n || points < SPLIT_POINTS || items >= (o->rows ? SPLIT_ITEMS : 2 * SPLIT_ITEMS)) return 1;
    int64_t parts = (int64_t)(points / (2 * TCC_REDUCE_ITEM_POINTS));
    const int64_t extent = o->level[0].extent, least = o->rows && o->n == 1 ? LEAST * o->lanes : LEAST;
    if (parts > MOST) parts = MOST;
    if (parts > extent / least) parts = extent / least;
    tcc_reduce_order cut = *o;
    for (cut.parts = 0; parts > 1 && cut.parts != parts;) { /* none is empty */
        cut.parts = parts;
        const int64_t part = tcc_reduce_part_of(&cut);
        parts = (extent + part - 1) / part;
    }
    return parts < 1 ? 1 : parts;
}

tcc_status tcc_reduce_find_order(tcc_reduce_trace *t) {
    if (t->l->target->lane_groups) return TCC_OK;
    tcc_reduce_order *o = t->order = TCC_ARENA_NEW(t->l->arena, tcc_reduce_order);
    if (!o) return tcc_enomem(t->l->diag);
    const tcc_params *params = &t->l->params;
    *o = (tcc_reduce_order){.kept = t->kept_numel, .lanes = 1, .parts = 1};
    find_levels(t, false, o);
    if (o->rows) o->lanes = tcc_choose_lanes(t->l->target, NULL, -1, o->level[o->n - 1].extent, 1);
    const int64_t *lanes = tcc_params_chosen(params, TCC_PARAM_LANES, tcc_param_powers(1, TCC_CHAIN_TERMS));
    const int64_t *parts = tcc_params_chosen(params, TCC_PARAM_PARTS, tcc_param_between(1, o->level[0].extent));
    if (o->rows && lanes && !tcc_params_has(params, TCC_PARAM_ALONG)) o->lanes = (int)*lanes;
    if (t->n == 0) {
        o->parts = parts ? *parts : parts_of(t, false, o);
        return TCC_OK;
    }
    o = t->order_across = TCC_ARENA_NEW(t->l->arena, tcc_reduce_order);
    if (!o) return tcc_enomem(t->l->diag);
    *o = (tcc_reduce_order){.kept = t->reduced_numel, .lanes = 1, .parts = 1};
    find_levels(t, true, o);
    o->parts = parts_of(t, true, o);
    return TCC_OK;
}

/* Terms or vectors in a stretch of dims, about `most`: of whole inner dims and a divisor of the next one, where that is
 * not far less. Any loops that these dims make up meet its ends. */
static int64_t even_stretch(const int64_t *dims, int n, int64_t most) {
    enum { FAR = 4 };
    int64_t whole = 1, times = 1;
    for (int i = n - 1; n > 1 && i >= 0 && times == 1; i--) {
        if (whole * dims[i] <= most) {
            whole *= dims[i];
            continue;
        }
        times = most / whole;
        while (dims[i] % times) times--;
        break;
    }
    return whole * times * FAR < most ? most : whole * times;
}

/* A column's terms in a part, at least. */
static int64_t terms_of_part(const tcc_reduce_order *o) { return (o->level[0].extent + o->parts - 1) / o->parts; }

/* Terms of a run of a column of one level. Where the column is in no parts, a run is as much as a thread should have
 * that makes it for all columns, beside sums of rows: so these can be slices. */
static int64_t run_of_column(const tcc_reduce_order *o) {
    enum { RUN_POINTS = 4 * TCC_REDUCE_ITEM_POINTS, MOST = 64, LEAST = 8 };
    int64_t most = TCC_CHAIN_TERMS, part = terms_of_part(o);
    if (o->parts == 1) {
        int64_t wanted = RUN_POINTS / o->kept;
        if (wanted < (part + MOST - 1) / MOST) wanted = (part + MOST - 1) / MOST;
        if (wanted < LEAST) wanted = LEAST;
        if (wanted < most) most = wanted;
    }
    return even_stretch(o->level[0].dims, o->level[0].n, part < most ? part : most);
}

static bool is_plain_column(const tcc_reduce_order *o) { return !o->rows && o->n == 1; }

int64_t tcc_reduce_part_of(const tcc_reduce_order *o) {
    enum { ENOUGH = 8 };
    const int64_t extent = o->level[0].extent, outer = o->level[0].dims[0], inner = extent / outer;
    const int64_t part = terms_of_part(o);
    if (is_plain_column(o)) {
        const int64_t run = run_of_column(o);
        return (part + run - 1) / run * run;
    }
    /* Where the outer dim alone makes enough parts, each has whole inner dims: so loops of their own meet its ends. */
    if (inner > 1 && outer >= ENOUGH && !(o->rows && o->n == 1 && inner % o->lanes))
        return (outer + o->parts - 1) / o->parts * inner;
    const int64_t whole = (part + o->lanes - 1) / o->lanes * o->lanes; /* vectors, unless a part would be empty */
    return o->rows && o->n == 1 && (o->parts - 1) * whole < extent ? whole : part;
}

int64_t tcc_reduce_host_slice(const tcc_reduce_trace *t) {
    const int64_t *chosen = tcc_params_chosen(&t->l->params, TCC_PARAM_SLICE, tcc_param_between(1, t->kept_numel));
    return chosen ? *chosen : run_of_column(t->order_across);
}

int64_t tcc_reduce_slices_of_part(const tcc_reduce_trace *t, int64_t slice) {
    const tcc_reduce_order *o = t->order_across;
    if (!o || slice != run_of_column(o)) return 0;
    const int64_t part = o->parts > 1 ? tcc_reduce_part_of(o) : o->level[0].extent;
    return part > slice ? (part + slice - 1) / slice : 0;
}

/* --- Chains */

/* Steps of a run in level `i`, at most `most`: terms, or vectors of the innermost level of rows. */
static int64_t run_of(const tcc_reduce_order *o, int i, int64_t most) {
    int64_t dims[TCC_MAX_RANK];
    const int n = o->level[i].n;
    for (int k = 0; k < n; k++) dims[k] = o->level[i].dims[k];
    if (o->rows && i == o->n - 1) {
        if (dims[n - 1] % o->lanes) return most;
        dims[n - 1] /= o->lanes;
    }
    return even_stretch(dims, n, most);
}

/* The level that is cut into runs of *run steps; -1: no chain is too long. */
static int level_cut(const tcc_reduce_order *o, int64_t *run) {
    int64_t below = 1; /* terms in one step of the level */
    if (is_plain_column(o)) {
        *run = run_of_column(o);
        return (o->parts > 1 ? tcc_reduce_part_of(o) : o->level[0].extent) > *run ? 0 : -1;
    }
    for (int i = o->n - 1; i >= 0; i--) {
        int64_t steps = i == 0 && o->parts > 1 ? tcc_reduce_part_of(o) : o->level[i].extent;
        if (o->rows && i == o->n - 1) steps /= o->lanes;
        if (steps * below > TCC_CHAIN_TERMS) {
            *run = TCC_CHAIN_TERMS / below < 1 ? 1 : run_of(o, i, TCC_CHAIN_TERMS / below);
            return i;
        }
        below *= steps < 1 ? 1 : steps;
    }
    return -1;
}

/* --- The loops of a plan */

/* The first loop of level `i`; of the number of levels: behind all loops. */
static int first_loop(const tcc_reduce *p, int i) {
    int loop = 0;
    for (int level = 0; level < i; level++)
        for (int64_t inside = 1; inside < p->order->level[level].extent; loop++) inside *= tcc_reduce_extent(p, loop);
    return loop;
}

static int64_t steps_of(const tcc_reduce *p, int loop) {
    return tcc_reduce_extent(p, loop) / (p->order->rows && loop == p->n_reduced - 1 ? p->order->lanes : 1);
}

bool tcc_reduce_has_sums(const tcc_body *b) {
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_REDUCE && (x->op == TCC_OP_REDUCE_SUM || tcc_is_moment(x->op)) &&
            tcc_dtype_is_float(x->dtype))
            return true;
    }
    return false;
}

int tcc_reduce_find_cut(const tcc_reduce *p, int64_t *length) {
    int64_t run, inside = 1;
    *length = p->run;
    if (!p->order) return p->run && tcc_reduce_has_sums(p->body) && tcc_reduce_extent(p, 0) > p->run ? 0 : -1;
    const int level = tcc_reduce_has_sums(p->body) ? level_cut(p->order, &run)
                                                   : -1; /* the rest has any order, and any loops */
    if (level < 0) return -1;
    int loop = first_loop(p, level + 1) - 1;
    for (; loop > first_loop(p, level) && run > inside * steps_of(p, loop); loop--) inside *= steps_of(p, loop);
    *length = run / inside;
    return loop;
}

/* Whether the loops of a level meet the ends of its runs. */
static bool meets_runs(const tcc_reduce *p, int level, int64_t run) {
    int64_t inside = 1;
    for (int loop = first_loop(p, level + 1) - 1; loop >= first_loop(p, level); loop--) {
        if (run % inside) return false;
        inside *= steps_of(p, loop);
        if (run <= inside) return loop == first_loop(p, level) || inside % run == 0;
    }
    return true;
}

/* Whether the loops of rows meet the ends of the slices that column sums have. */
static bool meets_slices(const tcc_reduce_trace *t, const tcc_reduce *p) {
    const int64_t slice = tcc_reduce_host_slice(t);
    int64_t inside = 1;
    for (int i = p->n_kept - 1; i >= 0; i--) {
        if (slice % inside) return false;
        inside *= p->body->vars.data[p->kept[i]].high + 1;
        if (slice <= inside) return p->n_kept == 1 || inside % slice == 0;
    }
    return true;
}

bool tcc_reduce_follows(const tcc_reduce_trace *t, const tcc_reduce *p) {
    const tcc_reduce_order *o = p->order;
    int64_t run = 1, inside = 1;
    if (!o || t->joined) return true;
    if (t->n && t->all[0].across && !meets_slices(t, p)) return false;
    if (p->n_reduced == o->n) return true;
    if (tcc_reduce_has_sums(p->body)) {
        if (t->one_sweep) return false; /* states of moments go along the innermost loop */
        const int cut = level_cut(o, &run), last = p->n_reduced - 1;
        if (o->rows && first_loop(p, o->n - 1) != last && tcc_reduce_extent(p, last) % o->lanes) return false;
        if (cut >= 0 && !meets_runs(p, cut, run)) return false;
    }
    for (int loop = 1; loop < first_loop(p, 1); loop++) inside *= tcc_reduce_extent(p, loop);
    return o->parts == 1 || tcc_reduce_part_of(o) % inside == 0;
}
