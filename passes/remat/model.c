/* SPDX-License-Identifier: MIT */
#include "passes/remat/model.h"

#include "ir/collective.h"
#include "ir/support/alloc.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/draft.h"
#include "passes/group.h"
#include "passes/memory/launches.h"
#include "passes/remat/passing.h"
#include "passes/select.h"

#include <limits.h>
#include <string.h>

/* -- What the plan says -- */

/* Time of a byte of traffic, as the target predicts it for the work of elements. */
static double traffic_time(const tcc_graph *g, const tcc_costs *costs) {
    double bytes = 0, ns = 0;
    for (int t = 0; t < g->groups.count; t++) {
        const tcc_implementation *x = g->groups.data[t].implementation;
        if (!x || g->groups.data[t].kind != TCC_GROUP_POINTWISE) continue;
        for (int i = 0; i < x->n_launches; i++) bytes += (double)x->launches[i].bytes, ns += (double)x->launches[i].ns;
    }
    return bytes > 0 && ns > 0 ? ns / bytes : costs->byte_ns;
}

static void predict_times(tcc_remat_model *m) {
    const tcc_graph *g = m->g;
    const tcc_costs *costs = &m->costs;
    m->ns_per_byte = traffic_time(g, costs);
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        const double bytes = costs->exposed * tcc_op_cost(costs, n->op) * (double)tcc_type_numel(&n->type);
        m->node_ns[i] = tcc_is_leaf(n) ? 0 : bytes * m->ns_per_byte;
    }
    for (int t = 0; t < g->groups.count; t++) {
        const tcc_group *group = &g->groups.data[t];
        const tcc_implementation *x = group->implementation;
        if (x && !tcc_is_elementwise(group->hero)) m->node_ns[group->hero->id] = (double)tcc_implementation_ns(x);
    }
}

static bool is_late_group(const tcc_remat_model *m, int t) { return m->plan.start[t] > m->plan.peak_moment; }

/* Values that a late dot's group reads at the index of its result: what leads to them from a kept value is computed in
 * that kernel, which waits for its products anyway. */
static void mark_beside(tcc_remat_model *m, int t) {
    const tcc_group *group = &m->g->groups.data[t];
    for (int i = 0; i < group->n_nodes; i++)
        for (int k = 0; k < group->nodes[i]->n_operands; k++) {
            const tcc_node *x = group->nodes[i]->operands[k];
            if (tcc_group_has(group, x)) continue;
            const bool beside = group->hero->op == TCC_OP_DOT && tcc_fusion_of(group->nodes[i]) == TCC_FUSION_POINT &&
                                tcc_type_same_dims(&x->type, &group->hero->type);
            (beside ? m->beside : m->elsewhere)[x->id] = true;
        }
}

/* A node is late where no group before evaluates it. */
static void mark_late(tcc_remat_model *m) {
    for (int i = 0; i < m->g->nodes.count; i++) m->late[i] = !tcc_is_leaf(m->g->nodes.data[i]);
    for (int t = 0; t < m->g->groups.count; t++)
        for (int i = 0; i < m->g->groups.data[t].n_nodes && !is_late_group(m, t); i++)
            m->late[m->g->groups.data[t].nodes[i]->id] = false;
}

static void read_life(tcc_remat_model *m, const tcc_launch_value *used, int moment, bool late) {
    const int v = used->node ? m->value_of[used->node->id] : -1;
    if (v < 0) return;
    tcc_remat_life *life = &m->lives[v];
    if (!late) life->early_end = moment;
    else if (moment < life->late_begin) life->late_begin = moment;
}

/* A kernel that adds up columns beside its rows, which it may not do in the same order without them. */
static bool has_column_sums(const tcc_group *group) {
    if (group->kind != TCC_GROUP_REDUCE) return false;
    const tcc_dims rows = tcc_reduction_axes(group->hero);
    for (int i = 0; i < group->n_nodes; i++) {
        if (!tcc_is_reduction(group->nodes[i])) continue;
        const tcc_dims axes = tcc_reduction_axes(group->nodes[i]);
        if (axes.count != rows.count || memcmp(axes.v, rows.v, sizeof axes.v[0] * (size_t)axes.count)) return true;
    }
    return false;
}

/* Collectives; and values that belong to one kernel with others: what attention makes beside its result, which is as
 * much work by itself, and sums of rows and columns. */
static void mark_what_stays(tcc_remat_model *m, const tcc_group *group) {
    const bool columns = has_column_sums(group);
    for (int i = 0; i < group->n_outputs; i++) {
        const tcc_node *n = group->outputs[i];
        const bool beside = tcc_fusion_of(n) == TCC_FUSION_ATTENTION && n->op != TCC_OP_SDPA;
        if (m->value_of[n->id] < 0) continue;
        m->lives[m->value_of[n->id]].stays = columns || beside || tcc_op_is_collective(n->op);
        for (int k = 0; k < group->n_nodes && n->op == TCC_OP_SDPA_LSE; k++)
            if (group->nodes[k]->op == TCC_OP_SDPA) m->made_by[n->id] = group->nodes[k]->id;
    }
}

static void read_lives(tcc_remat_model *m) {
    for (int v = 0; v < m->plan.values.count; v++) {
        m->lives[v] = (tcc_remat_life){
            .early_end = -1, .late_begin = INT_MAX, .written_over = m->plan.values.data[v].written_over, .extra = -1};
        if (m->plan.values.data[v].node) m->value_of[m->plan.values.data[v].node->id] = v;
    }
    for (int t = 0; t < m->g->groups.count; t++) {
        const tcc_implementation *x = m->plan.launches[t];
        const bool late = is_late_group(m, t);
        for (int i = 0; i < x->n_launches; i++) {
            const tcc_launch *launch = &x->launches[i];
            const int moment = m->plan.start[t] + tcc_launch_moment(x, i);
            for (int k = 0; k < launch->n_writes; k++) read_life(m, &launch->writes[k], moment, late);
            for (int k = 0; k < launch->n_reads; k++) read_life(m, &launch->reads[k], moment, late);
        }
        for (int i = 0; i < m->g->groups.data[t].n_outputs; i++) m->stored[m->g->groups.data[t].outputs[i]->id] = true;
        mark_what_stays(m, &m->g->groups.data[t]);
    }
}

/* -- Extra values -- */

/* Whether stored value `v` of the group needs the hero to be computed again, where node `cut` is there (NULL: none). */
static bool needs_hero(tcc_remat_model *m, const tcc_group *group, const tcc_node *v, const tcc_node *cut) {
    int waiting = 0;
    m->stamp++;
    m->stack[waiting++] = v;
    while (waiting) {
        const tcc_node *n = m->stack[--waiting];
        if (n == group->hero) return true;
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            if (x == cut || m->mark[x->id] == m->stamp || !tcc_group_has(group, x)) continue;
            m->mark[x->id] = m->stamp;
            m->stack[waiting++] = x;
        }
    }
    return false;
}

/* Adds the stored values of the group that could be computed again from `n` without the hero to the followers; their
 * bytes. *ok is false if memory is short. */
static int64_t add_followers(tcc_remat_model *m, const tcc_group *group, const tcc_node *n, bool *ok) {
    int64_t bytes = 0;
    for (int i = 0; i < group->n_outputs; i++) {
        const tcc_node *v = group->outputs[i];
        const int value = m->value_of[v->id];
        if (value < 0 || !tcc_remat_may_repeat(m, value)) continue;
        if (!needs_hero(m, group, v, NULL) || needs_hero(m, group, v, n)) continue;
        *ok &= tcc_vec_push(&m->followers, value);
        bytes += m->plan.values.data[value].size_bytes;
    }
    return bytes;
}

/* The followers of `extra` and what leads to them take no time if one of them is read beside a product, where the
 * others are stored too. */
static void hide_followers(tcc_remat_model *m, const tcc_group *group, const tcc_node *extra, int first) {
    bool beside = false;
    int waiting = 0;
    for (int i = first; i < m->followers.count; i++)
        beside |= m->beside[m->plan.values.data[m->followers.data[i]].node->id];
    m->stamp++;
    for (int i = first; i < m->followers.count && beside; i++)
        m->stack[waiting++] = m->plan.values.data[m->followers.data[i]].node;
    while (waiting) {
        const tcc_node *n = m->stack[--waiting];
        m->hidden[n->id] = true;
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            if (x == extra || m->mark[x->id] == m->stamp || !tcc_group_has(group, x)) continue;
            m->mark[x->id] = m->stamp;
            m->stack[waiting++] = x;
        }
    }
}

/* Of a group with a hero, the value behind it by which most is saved, if it is kept instead of what follows from it. Of
 * equals the last, which is nearest to those. */
static bool add_extra(tcc_remat_model *m, int t) {
    const tcc_group *group = &m->g->groups.data[t];
    const int first = m->followers.count, moment = m->plan.start[t];
    const tcc_node *best = NULL;
    int64_t most = 1;
    bool ok = true;
    for (int i = 0; i < group->n_nodes && ok; i++) {
        const tcc_node *n = group->nodes[i];
        if (m->stored[n->id] || tcc_type_numel(&n->type) == 1) continue;
        const int64_t saved = add_followers(m, group, n, &ok) - tcc_plan_size(n);
        m->followers.count = first;
        if (saved < most) continue;
        most = saved;
        best = n;
    }
    if (!best || !ok) return ok;
    add_followers(m, group, best, &ok);
    hide_followers(m, group, best, first);
    for (int i = first; i < m->followers.count; i++) m->lives[m->followers.data[i]].extra = m->plan.values.count;
    const tcc_plan_value value = {(tcc_node *)best, t, -1, 0, tcc_plan_size(best), moment, moment, false};
    m->value_of[best->id] = m->plan.values.count;
    m->lives[m->plan.values.count] = (tcc_remat_life){.early_end = moment,
                                                      .late_begin = INT_MAX,
                                                      .first_follower = first,
                                                      .followers = m->followers.count - first,
                                                      .extra = -1};
    return ok && tcc_vec_push(&m->plan.values, value);
}

static bool add_extras(tcc_remat_model *m) {
    bool ok = true;
    for (int t = 0; t < m->g->groups.count && ok && !is_late_group(m, t); t++)
        if (!tcc_is_elementwise(m->g->groups.data[t].hero)) ok = add_extra(m, t);
    return ok;
}

/* Two blocks for what follows from a set, and where each part of it lies in one. False: memory is short. */
static bool make_found(tcc_remat_model *m, size_t nodes, size_t values) {
    const size_t groups = (size_t)m->g->groups.count + 1, moments = (size_t)m->moments + 2;
    m->found_bytes = moments * sizeof *m->profile + (2 * nodes + 2 * values + groups) * sizeof(int) + 4 * nodes;
    m->found = tcc__calloc(m->found_bytes, 1);
    m->saved.found = tcc__calloc(m->found_bytes, 1);
    if (!m->found || !m->saved.found) return false;
    m->profile = m->found;
    m->when = (int *)(m->profile + moments);
    m->until = m->when + nodes;
    m->needed = m->until + nodes;
    m->last = m->needed + values;
    m->left = m->last + values;
    m->stale = (bool *)(m->left + groups);
    m->passes = m->stale + nodes;
    m->read_again = m->passes + nodes;
    m->worked = m->read_again + nodes;
    return true;
}

tcc_status tcc_remat_model_create(const tcc_graph *planned, const tcc_pass_target *target, tcc_diag *diag,
                                  tcc_remat_model *out) {
    const size_t nodes = (size_t)planned->nodes.count + 1;
    *out = (tcc_remat_model){.g = planned, .costs = tcc_costs_of(target)};
    tcc_remat_model *m = out;
    TCC_TRY(tcc_plan_read(planned, &m->plan, diag));
    const size_t values = (size_t)(m->plan.values.count + planned->groups.count) + 1; /* an extra one a group */
    m->moments = m->plan.start[planned->groups.count] + 1;
    m->late = tcc__malloc(sizeof *m->late * nodes);
    m->value_of = tcc__malloc(sizeof *m->value_of * nodes);
    m->stored = tcc__calloc(nodes, sizeof *m->stored);
    m->made_by = tcc__malloc(sizeof *m->made_by * nodes);
    m->passing = tcc__calloc(nodes, sizeof *m->passing);
    m->last_reader = tcc__malloc(sizeof *m->last_reader * nodes);
    m->computes = tcc__calloc((size_t)planned->groups.count + 1, sizeof *m->computes);
    m->first_input = tcc__calloc((size_t)planned->groups.count + 1, sizeof *m->first_input);
    m->room = tcc__calloc((size_t)planned->groups.count + 1, sizeof *m->room);
    m->node_ns = tcc__calloc(nodes, sizeof *m->node_ns);
    m->times = tcc__calloc((size_t)planned->groups.count + 1, sizeof *m->times);
    m->beside = tcc__calloc(nodes, sizeof *m->beside);
    m->elsewhere = tcc__calloc(nodes, sizeof *m->elsewhere);
    m->hidden = tcc__calloc(nodes, sizeof *m->hidden);
    m->lives = tcc__malloc(sizeof *m->lives * values);
    m->again = tcc__calloc(nodes, sizeof *m->again);
    m->kept = tcc__calloc(nodes, sizeof *m->kept);
    m->mark = tcc__calloc(nodes, sizeof *m->mark);
    m->stack = tcc__malloc(sizeof *m->stack * nodes);
    if (!m->late || !m->value_of || !m->stored || !m->made_by || !m->node_ns || !m->times || !m->beside ||
        !m->elsewhere || !m->hidden || !m->lives || !m->again || !m->kept || !m->mark || !m->stack || !m->passing ||
        !m->last_reader || !m->computes || !m->room || !m->first_input || !make_found(m, nodes, values)) {
        tcc_remat_model_free(m);
        return tcc_enomem(diag);
    }
    for (int i = 0; i < planned->nodes.count; i++) m->value_of[i] = m->last_reader[i] = m->made_by[i] = -1;
    mark_late(m);
    read_lives(m);
    predict_times(m);
    for (int t = 0; t < planned->groups.count; t++)
        if (is_late_group(m, t)) mark_beside(m, t);
    if (tcc_remat_find_passing(m, target, diag) != TCC_OK || !add_extras(m)) {
        tcc_remat_model_free(m);
        return tcc_enomem(diag);
    }
    tcc_remat_evaluate(m);
    return TCC_OK;
}

void tcc_remat_model_free(tcc_remat_model *m) {
    void *const arrays[] = {m->late,  m->value_of, m->stored, m->node_ns, m->times,
                            m->lives, m->again,    m->mark,   m->stack};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
    tcc__free(m->made_by);
    tcc__free(m->kept);
    tcc__free(m->beside);
    tcc__free(m->elsewhere);
    tcc__free(m->hidden);
    tcc__free(m->passing);
    tcc__free(m->last_reader);
    tcc__free(m->computes);
    tcc_vec_free(&m->readers);
    tcc_vec_free(&m->inputs);
    tcc__free(m->first_input);
    tcc__free(m->room);
    tcc__free(m->found);
    tcc__free(m->saved.found);
    tcc_vec_free(&m->followers);
    tcc_plan_free(&m->plan);
    *m = (tcc_remat_model){0};
}

/* -- The effect of a set -- */

static void begin(tcc_remat_model *m) {
    for (int i = 0; i < m->g->nodes.count; i++) {
        m->when[i] = INT_MAX;
        m->until[i] = -1;
        m->read_again[i] = m->worked[i] = m->passes[i] = false;
    }
    memcpy(m->left, m->room, sizeof *m->left * (size_t)m->g->groups.count);
}

/* Late work has what is available, and what it evaluates for itself from such values. */
static void mark_stale(tcc_remat_model *m) {
    for (int i = 0; i < m->g->nodes.count; i++) {
        const tcc_node *n = m->g->nodes.data[i];
        m->stale[i] = false;
        if (m->late[i] || tcc_remat_available(m, n)) continue;
        m->stale[i] = m->stored[i];
        for (int k = 0; k < n->n_operands; k++) m->stale[i] |= m->stale[n->operands[k]->id];
        if (m->again[i]) tcc_remat_pass(m, n);
    }
}

static void need(tcc_remat_model *m, const tcc_node *n, int moment) {
    const int v = m->value_of[n->id];
    if (v < 0) return;
    if (moment < m->needed[v]) m->needed[v] = moment;
    if (moment > m->last[v]) m->last[v] = moment;
}

/* Whether what computes `n` again and stores it loads what no reader does. Results of norms are made beside the norms'
 * gradients, which read the same. What moves elements is a kernel of its own. */
static bool loads_for_itself(const tcc_remat_model *m, const tcc_node *n) {
    const bool moves = tcc_is_elementwise(n) && tcc_fusion_of(n) != TCC_FUSION_POINT;
    return m->passing[n->id] || (moves && !m->hidden[n->id]);
}

/* When each node is computed again: before the first late group that needs it, directly or for another. */
static void find_moments(tcc_remat_model *m) {
    const tcc_graph *g = m->g;
    for (int v = 0; v < m->plan.values.count; v++) {
        m->needed[v] = m->lives[v].late_begin;
        m->last[v] = m->plan.values.data[v].last;
    }
    for (int t = 0; t < g->groups.count; t++) {
        const tcc_group *group = &g->groups.data[t];
        const int moment = m->plan.start[t];
        if (!is_late_group(m, t)) continue;
        for (int i = 0; i < group->n_nodes; i++)
            for (int k = 0; k < group->nodes[i]->n_operands; k++) {
                const int id = group->nodes[i]->operands[k]->id;
                if (m->stale[id] && moment < m->when[id]) m->when[id] = moment;
                if (m->again[id] && m->passing[id] && moment > m->until[id]) m->until[id] = moment;
            }
    }
    m->added_ns = 0;
    for (int i = g->nodes.count - 1; i >= 0; i--) {
        const tcc_node *n = g->nodes.data[i];
        if (m->when[i] == INT_MAX) continue;
        const bool once = m->again[i] && (!m->passes[n->id] || m->read_again[i]);
        m->worked[i] |= once;
        if (m->worked[i] && !m->hidden[i]) m->added_ns += m->node_ns[i];
        if (once && !m->hidden[i]) m->added_ns += m->ns_per_byte * (double)tcc_type_bytes(&n->type);
        if (once && loads_for_itself(m, n)) m->added_ns += tcc_remat_loading_ns(m, n);
        if (once || m->until[i] < m->when[i]) m->until[i] = m->when[i];
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            if (tcc_remat_available(m, x)) {
                need(m, x, m->when[i]);
                need(m, x, m->until[i]);
                continue;
            }
            m->read_again[x->id] |= !tcc_is_elementwise(n);
            m->worked[x->id] |= m->worked[i];
            if (m->when[i] < m->when[x->id]) m->when[x->id] = m->when[i];
            if (m->until[i] > m->until[x->id]) m->until[x->id] = m->until[i];
        }
    }
    m->added_ns += tcc_remat_passing_ns(m);
}

static void live(tcc_remat_model *m, int first, int last, int64_t bytes) {
    if (last < first) return;
    m->profile[first] += bytes;
    m->profile[last + 1] -= bytes;
}

/* Memory that the group which computes `n` takes for itself. */
static int64_t scratch_bytes(const tcc_remat_model *m, int t) {
    int64_t bytes = 0;
    for (int i = 0; i < m->plan.launches[t]->n_temporaries; i++)
        bytes += tcc_plan_aligned(m->plan.launches[t]->temporaries[i].size_bytes);
    return bytes;
}

/* Whether what is computed again stays in the kernel of the one product that needs it: a factor of its result, from an
 * extra value that is kept. */
static bool stays_in_kernel(const tcc_remat_model *m, int v) {
    const int id = m->plan.values.data[v].node->id, extra = m->lives[v].extra;
    return m->hidden[id] && m->beside[id] && !m->elsewhere[id] && !m->read_again[id] && extra >= 0 &&
           m->kept[m->plan.values.data[extra].node->id];
}

static void add_values(tcc_remat_model *m) {
    for (int v = 0; v < m->plan.values.count; v++) {
        const tcc_plan_value *value = &m->plan.values.data[v];
        const tcc_node *n = value->node;
        if (value->first < 0 || (m->lives[v].followers && !m->kept[n->id])) continue;
        const int when = n ? m->when[n->id] : INT_MAX;
        const int last = m->last[v] - (m->lives[v].written_over && m->last[v] == value->last);
        if (!n || !m->again[n->id]) {
            live(m, value->first, last, value->size_bytes);
            if (when != INT_MAX) live(m, when, when, value->size_bytes); /* on the way to another value */
            continue;
        }
        if (tcc_remat_is_read_early(m, v)) live(m, value->first, m->lives[v].early_end, value->size_bytes);
        if (stays_in_kernel(m, v)) continue;
        if (when != INT_MAX && (!m->passes[n->id] || m->read_again[n->id])) live(m, when, last, value->size_bytes);
    }
}

void tcc_remat_evaluate(tcc_remat_model *m) {
    begin(m);
    mark_stale(m);
    find_moments(m);
    memset(m->profile, 0, sizeof *m->profile * ((size_t)m->moments + 2));
    add_values(m);
    for (int t = 0; t < m->g->groups.count; t++) {
        const int when = m->when[m->g->groups.data[t].hero->id];
        if (when != INT_MAX) live(m, when, when, scratch_bytes(m, t));
    }
    int64_t alive = 0;
    m->peak = 0;
    for (int i = 0; i < m->moments; i++) {
        alive = m->profile[i] += alive;
        if (alive <= m->peak) continue;
        m->peak = alive;
        m->peak_moment = i;
    }
}

void tcc_remat_save(tcc_remat_model *m) {
    struct tcc_remat_saved *s = &m->saved;
    memcpy(s->found, m->found, m->found_bytes);
    s->peak = m->peak, s->peak_moment = m->peak_moment, s->added_ns = m->added_ns;
}

void tcc_remat_restore(tcc_remat_model *m) {
    const struct tcc_remat_saved *s = &m->saved;
    memcpy(m->found, s->found, m->found_bytes);
    m->peak = s->peak, m->peak_moment = s->peak_moment, m->added_ns = s->added_ns;
}

/* -- The cost of one more -- */

double tcc_remat_cost(tcc_remat_model *m, const int *values, int count) {
    double ns = 0;
    int waiting = 0;
    for (int i = 0; i < count; i++) {
        const tcc_node *n = m->plan.values.data[values[i]].node;
        double passing_ns;
        if (m->again[n->id]) continue;
        if (m->passing[n->id] && !m->hidden[n->id] && tcc_remat_passing_cost(m, n, &passing_ns)) {
            ns += passing_ns;
            continue;
        }
        m->stack[waiting++] = n;
        if (!m->hidden[n->id]) ns += m->ns_per_byte * (double)tcc_type_bytes(&n->type);
    }
    m->stamp++;
    for (int i = 0; i < waiting; i++) m->mark[m->stack[i]->id] = m->stamp;
    while (waiting) {
        const tcc_node *n = m->stack[--waiting];
        if (!m->hidden[n->id]) ns += m->node_ns[n->id];
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            if (m->mark[x->id] == m->stamp) continue;
            m->mark[x->id] = m->stamp;
            if (!tcc_remat_available(m, x)) {
                if (m->when[x->id] == INT_MAX) m->stack[waiting++] = x;
            } else if (x->op != TCC_OP_CONSTANT && !m->hidden[n->id]) {
                ns += m->ns_per_byte * (double)tcc_type_bytes(&x->type);
            }
        }
    }
    return ns;
}
