/* SPDX-License-Identifier: MIT
 * Reading a memory plan back from a graph: lifetimes, and which values may share memory. */
#include "passes/memory/plan.h"

#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/memory/launches.h"

#include <string.h>

/* Codegen makes one launch of neighbours with equal kernels that do not touch each other's memory. So what small sums
 * that are alike and stand together read and write, of up to so many bytes, lives until the last of them has run. */
enum { SMALL_BYTES = 4096 };

/* -- Reading a plan -- */

bool tcc_plan_overwrites(const tcc_plan *plan, const tcc_plan_value *earlier, const tcc_plan_value *later) {
    if (!earlier->node || !later->node || earlier->last != later->first || earlier->first >= later->first) return false;
    const int moment = later->first - plan->start[later->group];
    return tcc_moment_overwrites(plan->launches[later->group], moment, earlier->node, later->node);
}

/* Values are listed by the moment that writes them first, so that a large graph takes no longer a value. */
static bool mark_written_over(const tcc_graph *g, tcc_plan *plan) {
    const int moments = plan->start[g->groups.count] + 2, count = plan->values.count;
    int *begins = tcc__malloc(sizeof *begins * (size_t)moments),
        *next = tcc__malloc(sizeof *next * (size_t)(count + 1));
    for (int t = 0; t < moments && begins; t++) begins[t] = -1;
    for (int i = 0; i < count && begins && next; i++) {
        const int first = plan->values.data[i].first;
        if (first < 0) continue;
        next[i] = begins[first];
        begins[first] = i;
    }
    for (int i = 0; i < count && begins && next; i++) {
        tcc_plan_value *v = &plan->values.data[i];
        for (int k = v->last < 0 ? -1 : begins[v->last]; k >= 0; k = next[k]) {
            const tcc_plan_value *u = &plan->values.data[k];
            v->written_over |= v->first < u->first && u->offset_bytes == v->offset_bytes &&
                               u->size_bytes == v->size_bytes;
        }
    }
    const bool ok = begins && next;
    tcc__free(begins);
    tcc__free(next);
    return ok;
}

static void find_peak(const tcc_graph *g, tcc_plan *plan, int64_t *change) {
    const int end = plan->start[g->groups.count];
    memset(change, 0, sizeof *change * ((size_t)end + 2));
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &plan->values.data[i];
        if (v->first < 0) continue;
        change[v->first] += v->size_bytes;
        change[v->written_over ? v->last : v->last + 1] -= v->size_bytes;
    }
    int64_t live = 0;
    for (int t = 0; t <= end; t++) {
        live += change[t];
        if (live <= plan->peak_bytes) continue;
        plan->peak_bytes = live;
        plan->peak_moment = t;
    }
}

static bool list_launches(const tcc_graph *g, tcc_plan *plan) {
    const int count = g->groups.count;
    plan->launches = TCC_ARENA_ARRAY(&plan->arena, const tcc_implementation *, count + 1);
    plan->start = TCC_ARENA_ARRAY(&plan->arena, int, count + 1);
    if (!plan->launches || !plan->start) return false;
    plan->start[0] = 0;
    for (int t = 0; t < count; t++) {
        plan->launches[t] = tcc_group_launches(&plan->arena, &g->groups.data[t]);
        if (!plan->launches[t]) return false;
        plan->start[t + 1] = plan->start[t] + tcc_launch_moments(plan->launches[t]);
    }
    return true;
}

/* Whether the groups' launches are likely to be of the same kernels. */
static bool are_alike(const tcc_graph *g, const tcc_plan *plan, int t, int u) {
    const tcc_group *a = &g->groups.data[t], *b = &g->groups.data[u];
    const tcc_implementation *x = plan->launches[t], *y = plan->launches[u];
    if (!tcc_group_is_small_sum(a) || !tcc_group_is_small_sum(b)) return false;
    if (a->n_nodes != b->n_nodes || x->n_temporaries != y->n_temporaries) return false;
    for (int i = 0; i < a->n_nodes; i++)
        if (a->nodes[i]->op != b->nodes[i]->op) return false;
    for (int i = 0; i < x->n_temporaries; i++)
        if (x->temporaries[i].size_bytes != y->temporaries[i].size_bytes) return false;
    return true;
}

/* By group: the last one of its neighbours that are alike. */
static int *find_runs(const tcc_graph *g, tcc_plan *plan) {
    const int count = g->groups.count;
    int *end = TCC_ARENA_ARRAY(&plan->arena, int, count + 1);
    for (int t = count - 1; end && t >= 0; t--) end[t] = t + 1 < count && are_alike(g, plan, t, t + 1) ? end[t + 1] : t;
    return end;
}

/* The last moment of memory that group t uses in `moment`. */
static int last_of(const tcc_plan *plan, const int *run_end, int t, int moment, int64_t size_bytes) {
    return run_end[t] > t && size_bytes <= SMALL_BYTES ? plan->start[run_end[t] + 1] - 1 : moment;
}

static bool list_values(const tcc_graph *g, tcc_plan *plan, const int *run_end) {
    bool ok = true;
    for (int i = 0; i < g->places.count; i++) {
        tcc_node *n = g->places.data[i].node;
        tcc_plan_value value = {n, -1, -1, g->places.data[i].offset_bytes, tcc_plan_size(n), -1, -1, false};
        ok &= tcc_vec_push(&plan->values, value);
    }
    for (int t = 0; ok && t < g->groups.count; t++) {
        const tcc_implementation *x = plan->launches[t];
        for (int i = 0; i < x->n_temporaries; i++) {
            const tcc_temporary *temporary = &x->temporaries[i];
            const int last = plan->start[t] + tcc_launch_moment(x, temporary->last);
            tcc_plan_value value = {NULL,
                                    t,
                                    i,
                                    temporary->placed ? temporary->offset_bytes : 0,
                                    tcc_plan_aligned(temporary->size_bytes),
                                    plan->start[t] + tcc_launch_moment(x, temporary->first),
                                    last_of(plan, run_end, t, last, temporary->size_bytes),
                                    false};
            ok &= tcc_vec_push(&plan->values, value);
        }
    }
    const int end = plan->start[g->groups.count];
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *o = &g->outputs.data[i];
        tcc_plan_value value = {NULL, -1, i, o->stage_bytes, tcc_plan_size(o->node), end, end, false};
        if (o->staged) ok &= tcc_vec_push(&plan->values, value);
    }
    return ok;
}

/* Moments in which values are used; `value_of` by node. */
static void find_lives(const tcc_graph *g, tcc_plan *plan, const int *value_of, const int *run_end) {
    for (int t = 0; t < g->groups.count; t++) {
        const tcc_implementation *x = plan->launches[t];
        for (int i = 0, moment = plan->start[t]; i < x->n_launches; i++) {
            const tcc_launch *launch = &x->launches[i];
            moment += i && !launch->beside;
            for (int k = 0; k < launch->n_writes; k++) {
                int v = launch->writes[k].node ? value_of[launch->writes[k].node->id] : -1;
                if (v < 0) continue;
                tcc_plan_value *value = &plan->values.data[v];
                if (value->first < 0) value->first = moment, value->group = t;
                value->last = last_of(plan, run_end, t, moment, value->size_bytes);
            }
            for (int k = 0; k < launch->n_reads; k++) {
                int v = launch->reads[k].node ? value_of[launch->reads[k].node->id] : -1;
                if (v >= 0)
                    plan->values.data[v].last = last_of(plan, run_end, t, moment, plan->values.data[v].size_bytes);
            }
        }
    }
    for (int i = 0; i < g->outputs.count; i++) {
        int v = value_of[g->outputs.data[i].node->id];
        if (v >= 0) plan->values.data[v].last = plan->start[g->groups.count]; /* copied out at the end */
    }
}

/* First writes and last reads of all nodes, bindings among them. */
static bool find_uses(const tcc_graph *g, tcc_plan *plan) {
    plan->first_write = TCC_ARENA_ARRAY(&plan->arena, int, g->nodes.count + 1);
    plan->last_read = TCC_ARENA_ARRAY(&plan->arena, int, g->nodes.count + 1);
    if (!plan->first_write || !plan->last_read) return false;
    for (int i = 0; i < g->nodes.count; i++) plan->first_write[i] = plan->last_read[i] = -1;
    for (int t = 0; t < g->groups.count; t++)
        for (int i = 0; i < plan->launches[t]->n_launches; i++) {
            const tcc_launch *launch = &plan->launches[t]->launches[i];
            const int moment = plan->start[t] + tcc_launch_moment(plan->launches[t], i);
            for (int k = 0; k < launch->n_writes; k++) {
                const tcc_node *n = launch->writes[k].node;
                if (n && plan->first_write[n->id] < 0 && tcc_group_stores(&g->groups.data[t], n))
                    plan->first_write[n->id] = moment;
            }
            for (int k = 0; k < launch->n_reads; k++)
                if (launch->reads[k].node) plan->last_read[launch->reads[k].node->id] = moment;
        }
    return true;
}

tcc_status tcc_plan_read(const tcc_graph *g, tcc_plan *out, tcc_diag *diag) {
    *out = (tcc_plan){0};
    int *value_of = tcc__malloc(sizeof *value_of * (size_t)(g->nodes.count + 1));
    int64_t *change = NULL;
    bool ok = value_of && list_launches(g, out) && find_uses(g, out);
    const int *run_end = ok ? find_runs(g, out) : NULL;
    ok = run_end && list_values(g, out, run_end);
    if (ok) ok = (change = tcc__malloc(sizeof *change * ((size_t)out->start[g->groups.count] + 2)));
    if (ok) {
        for (int i = 0; i < g->nodes.count; i++) value_of[i] = -1;
        for (int i = 0; i < g->places.count; i++) value_of[g->places.data[i].node->id] = i;
        find_lives(g, out, value_of, run_end);
        if ((ok = mark_written_over(g, out))) find_peak(g, out, change);
    }
    tcc__free(value_of);
    tcc__free(change);
    if (ok) return TCC_OK;
    tcc_plan_free(out);
    return tcc_enomem(diag);
}

void tcc_plan_free(tcc_plan *plan) {
    tcc_vec_free(&plan->values);
    tcc_arena_free(&plan->arena);
    *plan = (tcc_plan){0};
}

/* -- States that are replaced in place -- */

/* The group that a moment belongs to. */
static int group_at(const tcc_graph *g, const tcc_plan *plan, int moment) {
    int low = 0, high = g->groups.count - 1;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (plan->start[middle + 1] <= moment) low = middle + 1;
        else high = middle;
    }
    return low;
}

bool tcc_plan_may_replace(const tcc_graph *g, const tcc_plan *plan, const tcc_output *output) {
    const tcc_node *old = g->inputs.data[output->alias];
    const int written = plan->first_write[output->node->id], read = plan->last_read[old->id];
    if (written < 0 || read < written) return written >= 0;
    if (read > written) return false;
    const int t = group_at(g, plan, written);
    return tcc_moment_overwrites(plan->launches[t], written - plan->start[t], old, output->node);
}
