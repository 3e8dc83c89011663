/* SPDX-License-Identifier: MIT */
#include "passes/remat_choose.h"

#include "ir/support/alloc.h"
#include "passes/plan.h"
#include "passes/remat_apply.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PLANS = 9 }; /* what the search may take of compile time */

/* The part of the step's predicted time that is given for memory without being asked: 0.8 % of the measured time of a
 * GPT of 10 million parameters. It is enough to compute the results of most norms of a transformer again, beside the
 * norms' gradients, which read the same, and of activations in products' kernels, which wait for their products. */
static const double free_share = 1.0 / 200;

/* -- The parts of a step's memory -- */

static int64_t fixed_bytes(const tcc_graph *g) {
    int64_t bytes = 0;
    for (int i = 0; i < g->inputs.count; i++) bytes += tcc_type_bytes(&g->inputs.data[i]->type);
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].alias < 0) bytes += tcc_type_bytes(&g->outputs.data[i].node->type);
    return bytes;
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

static tcc_status list_points(tcc_remat_choice *c) {
    tcc_remat_evaluate(c->model);
    bool ok = add_point(c, 0, 0, c->model->peak, 0);
    if (ok) c->report->frontier.data[0].peak = c->planned->arena_bytes;
    if (c->spec->segments) TCC_TRY(tcc_remat_list_segments(c->model, c->cx->diag, &c->moves));
    const int marked = c->moves.count;
    TCC_TRY(tcc_remat_list_moves(c->model, c->cx->diag, &c->moves));
    for (int i = 0, values = 0; i < c->moves.count; i++) {
        const tcc_remat_move *move = &c->moves.data[i];
        if (!c->model->lives[move->value].followers) values += move->again ? 1 : -1;
        if (move->whole) ok &= add_point(c, i + 1, values, move->peak, move->added_ns);
        if (i + 1 == marked) c->marked = c->ends.count - 1;
    }
    return ok ? TCC_OK : tcc_enomem(c->cx->diag);
}

bool tcc_remat_is_small(const tcc_graph *planned) {
    static const int64_t least_bytes = 1 << 24; /* what is smaller lies in caches */
    return planned->arena_bytes < least_bytes;
}

/* The last point that costs next to nothing by the model; 0: there is none. */
static int free_point(const tcc_remat_choice *c) {
    const double most = free_share * (double)c->report->step_ns;
    int point = 0;
    if (tcc_remat_is_small(c->planned)) return 0;
    while (point + 1 < c->report->frontier.count && (double)c->report->frontier.data[point + 1].estimated_ns <= most)
        point++;
    return point;
}

/* Makes a point the set at hand. */
static void set_point(tcc_remat_choice *c, int point) {
    tcc_remat_make_moves(c->model, &c->moves, c->ends.data[point]);
    if (c->relaxed && point == c->relaxed) tcc_remat_keep(c->model, &c->kept);
}

/* Plans a point, unless that was done; its peak. */
static tcc_status plan_point(tcc_remat_choice *c, int point, int64_t *peak) {
    tcc_remat_point *p = &c->report->frontier.data[point];
    *peak = p->peak;
    if (p->peak >= 0) return TCC_OK;
    tcc_graph *g, *planned;
    set_point(c, point);
    TCC_TRY(tcc_remat_apply(c->model, c->g, c->cx->options->target, &g));
    const tcc_status status = c->cx->plan(c->cx, g, &planned);
    tcc_graph_destroy(g);
    TCC_TRY(status);
    c->plans++;
    *peak = p->peak = planned->arena_bytes;
    p->added_ns = predicted_ns(planned) - predicted_ns(c->planned);
    tcc_logf(c->cx->cx, TCC_LOG_MEMORY, "remat: %d values computed again: arena %lld bytes (model %lld), %+.3f ms",
             p->values, (long long)p->peak, (long long)p->estimated_peak, 1e-6 * (double)p->added_ns);
    const tcc_graph *least = c->least_plan ? c->least_plan : c->planned;
    if (*peak < least->arena_bytes) {
        tcc_graph_destroy(c->least_plan);
        c->least_plan = planned;
        c->least = point;
    } else {
        tcc_graph_destroy(planned);
    }
    return TCC_OK;
}

/* -- Which point -- */

/* Whether or not there is a budget, what is nearly free is computed again. Segments are the user's own choice of
 * that. */
static tcc_status take_free(tcc_remat_choice *c) {
    enum { MOST_TRIED = 4 };
    const double most = free_share * (double)c->report->step_ns;
    int too_long = 0, next = c->spec->segments ? 0 : free_point(c);
    for (int tried = 0; next > c->marked && tried < MOST_TRIED; tried++) {
        int64_t peak;
        TCC_TRY(plan_point(c, next, &peak));
        const tcc_remat_point *p = &c->report->frontier.data[next];
        if (peak < c->report->frontier.data[c->marked].peak && (double)p->added_ns <= most) c->marked = next;
        else too_long = next;
        if (!too_long) break;
        next = c->marked + (too_long - c->marked) / 2;
    }
    return TCC_OK;
}

/* How many values the set at hand computes again. */
static int count_again(const tcc_remat_model *m) {
    int count = 0;
    for (int v = 0; v < m->plan.values.count; v++) {
        const tcc_node *n = m->plan.values.data[v].node;
        count += n && !m->lives[v].followers && m->again[n->id];
    }
    return count;
}

/* Puts a point of its own in front of `point`, from which it differs by what c->kept says, and plans it. */
static tcc_status add_relaxed(tcc_remat_choice *c, int point, int64_t *peak) {
    const tcc_remat_model *m = c->model;
    const tcc_remat_point relaxed = {count_again(m), m->peak, (int64_t)m->added_ns, -1, 0};
    if (!tcc_vec_push(&c->report->frontier, relaxed) || !tcc_vec_push(&c->ends, c->ends.data[point]))
        return tcc_enomem(c->cx->diag);
    for (int i = c->ends.count - 1; i > point; i--) {
        c->report->frontier.data[i] = c->report->frontier.data[i - 1];
        c->ends.data[i] = c->ends.data[i - 1];
    }
    c->report->frontier.data[point] = relaxed;
    c->least += c->least >= point;
    c->relaxed = point;
    return plan_point(c, point, peak);
}

static void drop_relaxed(tcc_remat_choice *c) {
    for (int i = c->relaxed; i + 1 < c->ends.count; i++) {
        c->report->frontier.data[i] = c->report->frontier.data[i + 1];
        c->ends.data[i] = c->ends.data[i + 1];
    }
    c->least -= c->least > c->relaxed;
    c->report->frontier.count--;
    c->ends.count--;
    c->relaxed = 0;
}

/* A point meets a budget of `bytes` that the one before does not. Of what it computes again, this keeps as much as the
 * budget allows: peaks of the model between those of both points are tried, the largest first. */
static tcc_status relax(tcc_remat_choice *c, int64_t bytes, int *point) {
    enum { PARTS = 4 };
    if (*point <= c->marked) return TCC_OK;
    const tcc_remat_point *p = c->report->frontier.data;
    const int64_t peak = p[*point].estimated_peak, between = p[*point - 1].estimated_peak - peak;
    const int64_t ns = p[*point].estimated_ns;
    int64_t last = -1;
    for (int part = PARTS - 1; part >= 0; part--) {
        int64_t planned;
        set_point(c, *point);
        TCC_TRY(tcc_remat_relax(c->model, peak + between * part / PARTS, c->cx->diag, &c->kept));
        if (!c->kept.count || (int64_t)c->model->added_ns >= ns) return TCC_OK;
        if (c->model->peak == last) continue; /* the same as before, which is too large */
        last = c->model->peak;
        TCC_TRY(add_relaxed(c, *point, &planned));
        if (planned <= bytes) return TCC_OK; /* *point is the relaxed one now */
        drop_relaxed(c);
    }
    return TCC_OK;
}

/* The first point whose planned peak is at most `bytes`: a guess by the model, then halving what lies between a point
 * that is too large and one that is not. -1: there is none. */
static tcc_status find_within(tcc_remat_choice *c, int64_t bytes, int *point) {
    const tcc_remat_point *points = c->report->frontier.data;
    const int last = c->report->frontier.count - 1;
    int64_t peak;
    const double planned_by_model = (double)points[0].peak / (double)points[0].estimated_peak;
    TCC_TRY(plan_point(c, c->marked, &peak));
    *point = peak <= bytes ? c->marked : -1;
    if (*point >= 0) return TCC_OK;
    int too_large = c->marked, next = c->marked + 1;
    while (next < last && planned_by_model * (double)points[next].estimated_peak > (double)bytes) next++;
    while (next <= last && too_large < next && c->plans < MOST_PLANS) {
        TCC_TRY(plan_point(c, next, &peak));
        if (peak <= bytes) *point = next;
        else too_large = next;
        if (*point < 0 && next == last) break;
        const int end = *point >= 0 ? *point : last + 1;
        if (end - too_large <= 1) break;
        next = too_large + (end - too_large) / 2;
    }
    return TCC_OK;
}

/* The point with the smallest peak: of some from the end to the beginning, and of what smaller budgets find. */
static tcc_status find_least(tcc_remat_choice *c, int *point) {
    enum { PARTS = 8 };
    const int more = c->report->frontier.count - 1 - c->marked;
    int64_t peak;
    for (int part = PARTS; part >= 0 && c->plans < MOST_PLANS; part--)
        TCC_TRY(plan_point(c, c->marked + (int)((int64_t)more * part / PARTS), &peak));
    *point = c->least < c->marked ? c->marked : c->least; /* what is computed again in any case */
    for (int smaller = *point; smaller >= 0;) {
        *point = smaller;
        c->plans = 0;
        TCC_TRY(find_within(c, c->report->frontier.data[*point].peak - 1, &smaller));
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

/* Finds the least, and keeps what is of no use. */
static tcc_status find_least_relaxed(tcc_remat_choice *c, int *point) {
    TCC_TRY(find_least(c, point));
    return relax(c, c->report->frontier.data[*point].peak, point);
}

static tcc_status choose_point(tcc_remat_choice *c, int *point) {
    const tcc_remat_spec *spec = c->spec;
    int64_t bytes = 0, ignored;
    switch (spec->budget) {
    case TCC_BUDGET_NONE: *point = c->marked; return plan_point(c, c->marked, &ignored);
    case TCC_BUDGET_LEAST: return find_least_relaxed(c, point);
    case TCC_BUDGET_BYTES: bytes = spec->bytes - c->report->fixed_bytes; break;
    case TCC_BUDGET_SHARE: bytes = (int64_t)(spec->share * (double)c->planned->arena_bytes); break;
    }
    if (bytes > 0) c->report->budget_bytes = bytes;
    TCC_TRY(find_within(c, bytes, point));
    if (*point >= 0) return relax(c, bytes, point);
    TCC_TRY(find_least_relaxed(c, point)); /* the last point need not have the smallest peak */
    const int64_t least = c->report->frontier.data[*point].peak;
    return least <= bytes ? TCC_OK : report_too_small(c, bytes, least);
}

tcc_status tcc_remat_choose(tcc_remat_choice *c) {
    c->report->fixed_bytes = fixed_bytes(c->g) + c->spec->beside_bytes;
    c->report->step_ns = predicted_ns(c->planned);
    TCC_TRY(list_points(c));
    TCC_TRY(take_free(c));
    TCC_TRY(choose_point(c, &c->report->taken));
    set_point(c, c->report->taken);
    return TCC_OK;
}

void tcc_remat_choice_free(tcc_remat_choice *c) {
    tcc_vec_free(&c->moves);
    tcc_vec_free(&c->ends);
    tcc_vec_free(&c->kept);
    tcc_graph_destroy(c->least_plan);
    c->least_plan = NULL;
}
