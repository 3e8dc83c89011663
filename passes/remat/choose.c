/* SPDX-License-Identifier: MIT */
#include "passes/remat/choose.h"

#include "ir/support/alloc.h"
#include "passes/memory/plan.h"
#include "passes/remat/apply.h"
#include "passes/remat/passing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of the step's predicted time that is given for memory without being asked: 0.8 % of the measured time of a
 * GPT of 10 million parameters. It is enough to compute the results of most norms of a transformer again, beside the
 * norms' gradients, which read the same, and of activations in products' kernels, which wait for their products. */
static const double free_share = 1.0 / 200;

/* -- The parts of a step's memory -- */

static tcc_status find_fixed_bytes(const tcc_graph *g, const tcc_remat_spec *spec, int64_t *bytes) {
    bool *idle = tcc__calloc((size_t)g->inputs.count + 1, sizeof *idle);
    const tcc_status status = idle ? tcc_graph_find_idle(g, idle) : tcc_enomem(g->diag);
    *bytes = spec->beside_bytes;
    for (int i = 0; i < g->inputs.count && status == TCC_OK; i++)
        if (!idle[i] || spec->keeps_idle) *bytes += tcc_type_bytes(&g->inputs.data[i]->type);
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].alias < 0) *bytes += tcc_type_bytes(&g->outputs.data[i].node->type);
    tcc__free(idle);
    return status;
}

static int64_t predicted_ns(const tcc_graph *planned) {
    int64_t ns = 0;
    for (int t = 0; t < planned->groups.count; t++)
        if (planned->groups.data[t].implementation) ns += tcc_implementation_ns(planned->groups.data[t].implementation);
    return ns;
}

/* -- Points of the frontier -- */

static bool add_point(tcc_remat_choice *c, int moves, int values, int64_t peak, double ns) {
    const tcc_remat_point point = {values, peak, (int64_t)ns, -1, 0};
    return tcc_vec_push(&c->ends, moves) && tcc_vec_push(&c->report->frontier, point);
}

static const int64_t refused = INT64_MAX; /* the peak of a set that no budget takes */

/* Plans the set at hand. One that changes the order of a sum is refused. */
static tcc_status plan_at_hand(tcc_remat_choice *c, tcc_remat_point *p) {
    tcc_graph *g, *planned;
    const tcc_pass_cx *cx = c->cx;
    TCC_TRY(tcc_remat_apply(c->model, c->g, cx->options->target, &g));
    const tcc_status status = cx->plan(cx, g, NULL, &planned);
    tcc_graph_destroy(g);
    if (status == TCC_EINVAL) {
        tcc_logf(cx->cx, TCC_LOG_MEMORY, "remat: %d values computed again: %s", p->values, tcc_diag_text(cx->diag));
        tcc_diag_clear(cx->diag);
        p->peak = refused;
        return TCC_OK;
    }
    TCC_TRY(status);
    p->peak = planned->arena_bytes;
    p->added_ns = predicted_ns(planned) - predicted_ns(c->planned);
    tcc_logf(c->cx->cx, TCC_LOG_MEMORY,
             "remat: %d values computed again: arena %lld bytes (model %lld), %+.3f ms (model %+.3f)", p->values,
             (long long)p->peak, (long long)p->estimated_peak, 1e-6 * (double)p->added_ns,
             1e-6 * (double)p->estimated_ns);
    const tcc_graph *least = c->least_plan ? c->least_plan : c->planned;
    if (p->peak < least->arena_bytes) {
        tcc_graph_destroy(c->least_plan);
        c->least_plan = planned;
    } else {
        tcc_graph_destroy(planned);
    }
    return TCC_OK;
}

/* -- The user's segments -- */

enum { MOST_PLANS_OF_MARKED = 32 };

/* How many values the set at hand computes again. */
static int count_again(const tcc_remat_model *m) {
    int count = 0;
    for (int v = 0; v < m->plan.values.count; v++) {
        const tcc_node *n = m->plan.values.data[v].node;
        count += n && !m->lives[v].followers && m->again[n->id];
    }
    return count;
}

/* The value of the report that is value v of the plan. */
static tcc_remat_value *reported(const tcc_remat_choice *c, int v) {
    int at = 0;
    for (int i = 0; i < v; i++) at += tcc_remat_may_repeat(c->model, i);
    return &c->report->values.data[at];
}

/* Adds to c->moves those of moves [from, to) with which each sum keeps its order; *best is their plan. Mostly that is
 * all of them. Where it is not, halves are tried, and halves of these. */
static tcc_status add_marked(tcc_remat_choice *c, const tcc_remat_moves *moves, int from, int to, int *plans,
                             tcc_remat_point *best) {
    const int before = c->moves.count;
    tcc_remat_point p = {.peak = refused};
    for (int i = from; i < to; i++)
        if (!tcc_vec_push(&c->moves, moves->data[i])) return tcc_enomem(c->cx->diag);
    if (++*plans <= MOST_PLANS_OF_MARKED) {
        tcc_remat_make_moves(c->model, &c->moves, c->moves.count);
        p = (tcc_remat_point){count_again(c->model), c->model->peak, (int64_t)c->model->added_ns, -1, 0};
        TCC_TRY(plan_at_hand(c, &p));
    }
    if (p.peak != refused) {
        *best = p;
        return TCC_OK;
    }
    c->moves.count = before;
    if (to - from > 1 && *plans < MOST_PLANS_OF_MARKED) {
        TCC_TRY(add_marked(c, moves, from, from + (to - from) / 2, plans, best));
        return add_marked(c, moves, from + (to - from) / 2, to, plans, best);
    }
    for (int i = from; i < to; i++) reported(c, moves->data[i].value)->refused = true;
    return TCC_OK;
}

/* The moves of the user's segments, but for those that would change the order of a sum. */
static tcc_status list_marked(tcc_remat_choice *c, tcc_remat_point *planned) {
    tcc_remat_moves all = {0};
    int plans = 0;
    tcc_status status = tcc_remat_list_segments(c->model, c->cx->diag, &all);
    if (status == TCC_OK && all.count) status = add_marked(c, &all, 0, all.count, &plans, planned);
    tcc_vec_free(&all);
    for (int i = 0; i < c->moves.count && status == TCC_OK; i++) { /* as it is without what was left out */
        tcc_remat_make_moves(c->model, &c->moves, i + 1);
        c->moves.data[i].peak = c->model->peak;
        c->moves.data[i].added_ns = c->model->added_ns;
    }
    if (!c->moves.count) tcc_remat_make_moves(c->model, &c->moves, 0);
    return status;
}

/* -- The points of both -- */

static tcc_status list_points(tcc_remat_choice *c) {
    tcc_remat_evaluate(c->model);
    if (!add_point(c, 0, 0, c->model->peak, 0)) return tcc_enomem(c->cx->diag);
    bool ok = true;
    c->report->frontier.data[0].peak = c->planned->arena_bytes;
    tcc_remat_point of_marked = c->report->frontier.data[0];
    if (c->spec->segments) TCC_TRY(list_marked(c, &of_marked));
    const int marked = c->moves.count;
    TCC_TRY(tcc_remat_list_moves(c->model, c->cx->diag, &c->moves));
    for (int i = 0, values = 0; i < c->moves.count; i++) {
        const tcc_remat_move *move = &c->moves.data[i];
        if (!c->model->lives[move->value].followers) values += move->again ? 1 : -1;
        if (move->whole) ok &= add_point(c, i + 1, values, move->peak, move->added_ns);
        if (i + 1 == marked) c->marked = c->ends.count - 1;
    }
    if (ok && marked) c->report->frontier.data[c->marked] = of_marked;
    return ok ? TCC_OK : tcc_enomem(c->cx->diag);
}

bool tcc_remat_is_small(const tcc_graph *planned) {
    static const int64_t least_bytes = 1 << 24; /* what is smaller lies in caches */
    return planned->arena_bytes < least_bytes;
}

/* The last point before `end` that takes at most `ns` by the model; 0: there is none. */
static int last_within(const tcc_remat_choice *c, int end, double ns) {
    int point = 0;
    while (point + 1 < end && (double)c->report->frontier.data[point + 1].estimated_ns <= ns) point++;
    return point;
}

/* Plans a point, unless that was done; its peak. */
static tcc_status plan_point(tcc_remat_choice *c, int point, int64_t *peak) {
    tcc_remat_point *p = &c->report->frontier.data[point];
    if (p->peak < 0) {
        tcc_remat_make_moves(c->model, &c->moves, c->ends.data[point]);
        TCC_TRY(plan_at_hand(c, p));
    }
    *peak = p->peak;
    return TCC_OK;
}

/* -- Which set -- */

/* Whether or not there is a budget, what is nearly free is computed again. Segments are the user's own choice of that.
 * Where a plan takes longer than the model says, the next one is chosen as if all did by as much. */
static tcc_status take_free(tcc_remat_choice *c) {
    enum { MOST_TRIED = 4 };
    const double most = free_share * (double)c->report->step_ns;
    if (c->spec->segments || tcc_remat_is_small(c->planned)) return TCC_OK;
    int next = last_within(c, c->report->frontier.count, most);
    for (int tried = 0; next > c->marked && tried < MOST_TRIED; tried++) {
        int64_t peak;
        TCC_TRY(plan_point(c, next, &peak));
        const tcc_remat_point *p = &c->report->frontier.data[next];
        const double added = (double)p->added_ns, estimated = (double)p->estimated_ns;
        if (peak < c->report->frontier.data[c->marked].peak && added <= most) {
            c->marked = next;
            break;
        }
        const bool longer = peak != refused && added > most && estimated > 0;
        next = longer ? last_within(c, next, most * estimated / added) : c->marked + (next - c->marked) / 2;
    }
    return TCC_OK;
}

/* A budget's set is found by targets: peaks of the model. The set of a target is the first point that meets it, less
 * what it leaves room for. Which targets are planned follows from how the plans before compare with the budget, not
 * from its bytes, so that one budget finds what another does:
 * - The stairs, from what is computed again in any case down to the search's end, are the same for all. A budget takes
 *   the first stair that it meets; one that meets none is below the least of them, which is the least there is.
 * - From there it climbs, by halves, to a plan with a larger peak and less time. What lies below the last plan that was
 *   met is passed over, even if it takes less time: a smaller budget did not see it.
 * So where two budgets part, the larger one has met a plan which the smaller one has not, and its peak is at least
 * that. */

/* In parts of the way from the last point to the marked one. At the end plans differ from the model by more than the
 * stairs do from one another. Below the last of them are the last points as they are, of which nothing is kept. */
static const double stairs[] = {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 3.0 / 64, 1.0 / 32, 1.0 / 64, 1.0 / 128, 0};
enum { TARGETS = sizeof stairs / sizeof *stairs, POINTS = 2 };
static const double finest = 1.0 / 256; /* of that way; closer targets are the same */

/* The target's set, at hand and not planned. */
static tcc_status set_target(tcc_remat_choice *c, int64_t target) {
    tcc_remat_set *set = &c->tried;
    const int last = c->report->frontier.count - 1;
    set->point = c->marked + 1;
    while (set->point < last && c->report->frontier.data[set->point].estimated_peak > target) set->point++;
    tcc_remat_make_moves(c->model, &c->moves, c->ends.data[set->point]);
    TCC_TRY(tcc_remat_relax(c->model, target, c->cx->diag, &set->kept));
    set->figures = (tcc_remat_point){count_again(c->model), c->model->peak, (int64_t)c->model->added_ns, -1, 0};
    return TCC_OK;
}

static bool is_same(const tcc_remat_point *a, const tcc_remat_point *b) {
    return a->values == b->values && a->estimated_peak == b->estimated_peak && a->estimated_ns == b->estimated_ns;
}

static void take(tcc_remat_choice *c) {
    const tcc_remat_set taken = c->tried;
    c->tried = c->taken;
    c->taken = taken;
}

/* Plans c->tried, which is at hand, and notes it for the report. */
static tcc_status plan_tried(tcc_remat_choice *c) {
    tcc_remat_point *p = &c->tried.figures;
    TCC_TRY(plan_at_hand(c, p));
    if (!c->tried.kept.count) c->report->frontier.data[c->tried.point] = *p;
    else if (!tcc_vec_push(&c->between, *p)) return tcc_enomem(c->cx->diag);
    return TCC_OK;
}

/* From a stair up, between targets. `above`: a set that is too large. */
static tcc_status climb(tcc_remat_choice *c, int64_t bytes, int64_t low, int64_t high, int64_t step,
                        tcc_remat_point above) {
    while (high - low > step && bytes - c->taken.figures.peak > step) {
        const int64_t target = low + (high - low) / 2;
        tcc_remat_point *p = &c->tried.figures;
        TCC_TRY(set_target(c, target));
        const bool lower = is_same(p, &c->taken.figures), higher = !lower && is_same(p, &above);
        if (!lower && !higher) TCC_TRY(plan_tried(c));
        if (lower || (!higher && (p->peak <= c->taken.figures.peak || p->added_ns > c->taken.figures.added_ns))) {
            low = target;
        } else if (higher || p->peak > bytes) {
            high = target;
            above = *p;
        } else {
            low = target;
            take(c);
        }
    }
    return TCC_OK;
}

/* The set of a stair, at hand and not planned; its target. */
static tcc_status set_stair(tcc_remat_choice *c, int stair, int64_t *target) {
    const tcc_remat_point *points = c->report->frontier.data;
    const int last = c->report->frontier.count - 1;
    if (stair < TARGETS) {
        const int64_t least = points[last].estimated_peak;
        *target = least + (int64_t)(stairs[stair] * (double)(points[c->marked].estimated_peak - least));
        return set_target(c, *target);
    }
    const int before = last - (TARGETS + POINTS - 1 - stair), point = before > c->marked ? before : last;
    *target = points[point].estimated_peak;
    tcc_remat_make_moves(c->model, &c->moves, c->ends.data[point]);
    c->tried.point = point;
    c->tried.kept.count = 0;
    c->tried.figures = points[point];
    return TCC_OK;
}

/* c->taken: what a budget of `bytes` takes; or, if none meets it, the set with the smallest peak. */
static tcc_status find_within(tcc_remat_choice *c, int64_t bytes) {
    const tcc_remat_point *points = c->report->frontier.data, *last = &points[c->report->frontier.count - 1];
    int64_t peak, target, high = points[c->marked].estimated_peak;
    const int64_t step = 1 + (int64_t)(finest * (double)(high - last->estimated_peak));
    TCC_TRY(plan_point(c, c->marked, &peak));
    c->taken.point = c->marked;
    c->taken.figures = points[c->marked];
    tcc_remat_point above = points[c->marked];
    for (int i = 0; i < TARGETS + POINTS && peak > bytes && last > &points[c->marked]; i++) {
        TCC_TRY(set_stair(c, i, &target));
        if (is_same(&c->tried.figures, &above)) continue;
        TCC_TRY(plan_tried(c));
        peak = c->tried.figures.peak;
        const tcc_remat_point stair = c->tried.figures;
        if (peak < c->taken.figures.peak) take(c);
        if (peak <= bytes) return climb(c, bytes, target, high, step, above);
        high = target;
        above = stair;
    }
    return TCC_OK;
}

/* An amount for messages; overwritten by the next but three calls. */
static const char *bytes_text(int64_t bytes) {
    static _Thread_local char buffers[4][16];
    static _Thread_local unsigned next;
    char *text = buffers[next++ % 4];
    tcc_strbuf b = {0};
    tcc_strbuf_bytes(&b, (double)bytes);
    snprintf(text, sizeof buffers[0], "%s", b.text ? b.text : "?");
    tcc_strbuf_free(&b);
    return text;
}

static int larger_first(const void *a, const void *b) {
    const tcc_plan_value *const *x = a, *const *y = b;
    if ((*x)->size_bytes != (*y)->size_bytes) return (*x)->size_bytes < (*y)->size_bytes ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

/* Notes the largest values that are alive at the peak of the smallest plan. */
static void note_largest(tcc_remat_choice *c) {
    enum { NOTED = 6 };
    tcc_plan plan;
    const tcc_graph *g = c->least_plan ? c->least_plan : c->planned;
    if (tcc_plan_read(g, &plan, c->cx->diag) != TCC_OK) return; /* the error was told, without these notes */
    const tcc_plan_value **alive = tcc__malloc(sizeof(void *) * (size_t)(plan.values.count + 1));
    int count = 0;
    for (int v = 0; alive && v < plan.values.count; v++)
        if (plan.values.data[v].first <= plan.peak_moment && plan.peak_moment <= plan.values.data[v].last)
            alive[count++] = &plan.values.data[v];
    if (count) qsort(alive, (size_t)count, sizeof *alive, larger_first);
    for (int i = 0; i < count && i < NOTED; i++)
        tcc_note(c->cx->diag, alive[i]->node ? alive[i]->node->loc : TCC_NOWHERE, "%s: %s",
                 bytes_text(alive[i]->size_bytes), tcc_plan_value_text(g, alive[i]));
    tcc__free(alive);
    tcc_plan_free(&plan);
}

static tcc_status report_too_small(tcc_remat_choice *c, int64_t arena_bytes, int64_t least) {
    const int64_t fixed = c->report->fixed_bytes;
    tcc_status status;
    /* the least exactly, so that it can be given as a budget */
    if (arena_bytes <= 0)
        status = tcc_error(c->cx->diag, TCC_ENOMEM, TCC_NOWHERE,
                           "the memory budget of %s is less than parameters, optimizer state, batch and outputs alone "
                           "need: %s; a step needs at least %s (%lld bytes)",
                           bytes_text(arena_bytes + fixed), bytes_text(fixed), bytes_text(fixed + least),
                           (long long)(fixed + least));
    else
        status = tcc_error(c->cx->diag, TCC_ENOMEM, TCC_NOWHERE,
                           "the memory budget of %s cannot be met: a step needs at least %s (%lld bytes), %s of it for "
                           "parameters, optimizer state, batch and outputs",
                           bytes_text(arena_bytes + fixed), bytes_text(fixed + least), (long long)(fixed + least),
                           bytes_text(fixed));
    tcc_note(c->cx->diag, TCC_NOWHERE, "a smaller batch helps, or bf16 (mixed precision), which halves activations");
    note_largest(c);
    return status;
}

static tcc_status choose_set(tcc_remat_choice *c) {
    const tcc_remat_spec *spec = c->spec;
    int64_t bytes = 0;
    switch (spec->budget) {
    case TCC_BUDGET_NONE: return find_within(c, INT64_MAX);
    case TCC_BUDGET_LEAST: return find_within(c, -1);
    case TCC_BUDGET_BYTES: bytes = spec->bytes - c->report->fixed_bytes; break;
    case TCC_BUDGET_SHARE: bytes = (int64_t)(spec->share * (double)c->planned->arena_bytes); break;
    }
    if (bytes > 0) c->report->budget_bytes = bytes;
    TCC_TRY(find_within(c, bytes));
    const int64_t peak = c->taken.figures.peak;
    return peak <= bytes ? TCC_OK : report_too_small(c, bytes, peak);
}

static int larger_peak_first(const void *a, const void *b) {
    const tcc_remat_point *x = a, *y = b;
    if (x->estimated_peak != y->estimated_peak) return x->estimated_peak < y->estimated_peak ? 1 : -1;
    return (x->estimated_ns > y->estimated_ns) - (x->estimated_ns < y->estimated_ns);
}

/* Makes c->taken the set at hand; the report gets what was planned between points. */
static tcc_status finish(tcc_remat_choice *c) {
    tcc_remat_report *r = c->report;
    tcc_remat_make_moves(c->model, &c->moves, c->ends.data[c->taken.point]);
    tcc_remat_keep(c->model, &c->taken.kept);
    for (int i = 0; i < c->between.count; i++)
        if (!tcc_vec_push(&r->frontier, c->between.data[i])) return tcc_enomem(c->cx->diag);
    for (int i = 0; i < r->frontier.count; i++)
        if (r->frontier.data[i].peak == refused) r->frontier.data[i].peak = -1;
    qsort(r->frontier.data + 1, (size_t)r->frontier.count - 1, sizeof *r->frontier.data, larger_peak_first);
    while (!is_same(&r->frontier.data[r->taken], &c->taken.figures) ||
           r->frontier.data[r->taken].peak != c->taken.figures.peak)
        r->taken++;
    return TCC_OK;
}

tcc_status tcc_remat_choose(tcc_remat_choice *c) {
    TCC_TRY(find_fixed_bytes(c->g, c->spec, &c->report->fixed_bytes));
    c->report->step_ns = predicted_ns(c->planned);
    TCC_TRY(list_points(c));
    TCC_TRY(take_free(c));
    TCC_TRY(choose_set(c));
    return finish(c);
}

void tcc_remat_choice_free(tcc_remat_choice *c) {
    tcc_vec_free(&c->moves);
    tcc_vec_free(&c->ends);
    tcc_vec_free(&c->between);
    tcc_vec_free(&c->tried.kept);
    tcc_vec_free(&c->taken.kept);
    tcc_graph_destroy(c->least_plan);
    c->least_plan = NULL;
}
