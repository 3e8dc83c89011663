/* SPDX-License-Identifier: MIT
 * Reading a memory plan back from a graph: lives, the check that no two live values share memory, the table and the
 * picture. */
#include "passes/plan.h"

#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/launches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Homes and lives -- */

int tcc_plan_binding(const tcc_graph *g, const tcc_node *node) {
    int home = -1;
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        if (output->node != node || node->op == TCC_OP_INPUT || node->op == TCC_OP_CONSTANT) continue;
        if (output->in_place) return i;
        if (output->alias < 0 && home < 0) home = i;
    }
    return home;
}

/* How often a value is read in step with the loop, and how often elsewhere. */
enum { AT_SAME = 1, AT_OTHER = 2 };

/* Marks how the group's nodes are evaluated (`how`, by position) and how `input` is read: at the element that is being
 * stored, or elsewhere. In a reduction, `full` says whether the element in question is a point of its space or a kept
 * one; column sums (`across`; NULL: none) and the work on them belong to neither, for they are stored by a second
 * launch, when all of that is done. Walks backward, so that a node's users are settled before it. */
static unsigned char elements_read(const tcc_group *group, const tcc_node *input, bool full, const bool *across,
                                   unsigned char *how) {
    unsigned char input_how = 0;
    int64_t points = group->kind == TCC_GROUP_REDUCE ? tcc_type_numel(&group->hero->operands[0]->type) : 0;
    memset(how, 0, (size_t)group->n_nodes);
    for (int i = group->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = group->nodes[i];
        tcc_fusion_class fusion = tcc_op_get_info(n->op)->fusion;
        bool same = !points || (!across[i] && (tcc_type_numel(&n->type) == points) == full);
        if (tcc_group_stores(group, n)) how[i] |= same ? AT_SAME : AT_OTHER;
        unsigned char to = AT_OTHER;
        if (fusion == TCC_FUSION_POINT || n->op == TCC_OP_RESHAPE) to = how[i];
        else if (fusion == TCC_FUSION_REDUCE && full) to = AT_SAME;
        for (int k = 0; k < n->n_operands; k++) {
            if (n->operands[k] == input) input_how |= to;
            for (int j = 0; j < i; j++)
                if (group->nodes[j] == n->operands[k]) how[j] |= to;
        }
    }
    return input_how;
}

/* The output is stored in a reduction's last sweep: it depends on as many reductions, one behind the other, as there
 * are. Sums across the rows make no sweep. */
static bool stored_last(const tcc_group *group, const tcc_node *output, const bool *across, unsigned char *depth) {
    int deepest = 0, own = 0;
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_node *n = group->nodes[i];
        depth[i] = 0;
        for (int k = 0; k < n->n_operands; k++)
            for (int j = 0; j < i; j++)
                if (group->nodes[j] == n->operands[k] && depth[j] > depth[i]) depth[i] = depth[j];
        depth[i] += tcc_op_get_info(n->op)->fusion == TCC_FUSION_REDUCE && !across[i];
        if (depth[i] > deepest) deepest = depth[i];
        if (n == output) own = depth[i];
    }
    return own == deepest;
}

/* Sums may go onto the base itself, if nothing else reads it. */
static bool scatters_onto(const tcc_group *group, const tcc_node *base) {
    for (int i = 0; i < group->n_nodes; i++)
        for (int k = 0; k < group->nodes[i]->n_operands; k++)
            if (group->nodes[i]->operands[k] == base && !(group->nodes[i] == group->hero && k == 0)) return false;
    return group->hero->operands[0] == base;
}

static bool in_step(const tcc_group *group, const tcc_node *input, const tcc_node *output, unsigned char *scratch) {
    if (group->kind == TCC_GROUP_POINTWISE) {
        if (elements_read(group, input, false, NULL, scratch) & AT_OTHER) return false;
        for (int i = 0; i < group->n_nodes;
             i++) /* an output that another one reads elsewhere: they do not walk in step */
            if (tcc_group_stores(group, group->nodes[i]) && scratch[i] & AT_OTHER) return false;
        return true;
    }
    bool *across = (bool *)scratch + group->n_nodes;
    tcc_group_mark_across(group, across);
    for (int i = 0; i < group->n_nodes; i++)
        if (group->nodes[i] == output && across[i])
            return false; /* known when all is read, and stored by other threads */
    bool full = tcc_type_numel(&output->type) == tcc_type_numel(&group->hero->operands[0]->type);
    if (!full && tcc_type_numel(&output->type) != tcc_type_numel(&group->hero->type)) return false;
    return !(elements_read(group, input, full, across, scratch) & AT_OTHER) &&
           (!full || stored_last(group, output, across, scratch));
}

bool tcc_plan_same_element(const tcc_group *group, const tcc_node *input, const tcc_node *output) {
    if (group->kind == TCC_GROUP_SCATTER) return output == group->hero && scatters_onto(group, input);
    if (group->kind != TCC_GROUP_POINTWISE && group->kind != TCC_GROUP_REDUCE) return false;
    if (tcc_type_numel(&output->type) != tcc_type_numel(&input->type)) return false;
    if (tcc_type_bytes(&output->type) != tcc_type_bytes(&input->type)) return false;
    unsigned char *scratch = tcc__malloc(2 * (size_t)group->n_nodes + 1);
    bool same = scratch && in_step(group, input, output, scratch);
    tcc__free(scratch);
    return same;
}

/* -- Reading a plan -- */

bool tcc_plan_overwrites(const tcc_plan *plan, const tcc_plan_value *earlier, const tcc_plan_value *later) {
    if (!earlier->node || !later->node || earlier->last != later->first || earlier->first >= later->first) return false;
    const int moment = later->first - plan->start[later->group];
    return tcc_moment_overwrites(plan->launches[later->group], moment, earlier->node, later->node);
}

static bool written_over(const tcc_plan *plan, const tcc_plan_value *v) {
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *u = &plan->values.data[i];
        if (u->first == v->last && v->first < u->first && u->offset_bytes == v->offset_bytes &&
            u->size_bytes == v->size_bytes)
            return true;
    }
    return false;
}

static void find_peak(const tcc_graph *g, tcc_plan *plan, int64_t *change) {
    const int end = plan->start[g->groups.count];
    memset(change, 0, sizeof *change * ((size_t)end + 2));
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &plan->values.data[i];
        if (v->first < 0) continue;
        change[v->first] += v->size_bytes;
        change[written_over(plan, v) ? v->last : v->last + 1] -= v->size_bytes;
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

static bool list_values(const tcc_graph *g, tcc_plan *plan) {
    bool ok = true;
    for (int i = 0; i < g->places.count; i++) {
        tcc_node *n = g->places.data[i].node;
        tcc_plan_value value = {n, -1, -1, g->places.data[i].offset_bytes, tcc_plan_size(n), -1, -1};
        ok &= tcc_vec_push(&plan->values, value);
    }
    for (int t = 0; t < g->groups.count; t++) {
        const tcc_implementation *x = plan->launches[t];
        for (int i = 0; i < x->n_temporaries; i++) {
            const tcc_temporary *temporary = &x->temporaries[i];
            tcc_plan_value value = {NULL,
                                    t,
                                    i,
                                    temporary->placed ? temporary->offset_bytes : 0,
                                    tcc_plan_aligned(temporary->size_bytes),
                                    plan->start[t] + tcc_launch_moment(x, temporary->first),
                                    plan->start[t] + tcc_launch_moment(x, temporary->last)};
            ok &= tcc_vec_push(&plan->values, value);
        }
    }
    const int end = plan->start[g->groups.count];
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *o = &g->outputs.data[i];
        tcc_plan_value value = {NULL, -1, i, o->stage_bytes, tcc_plan_size(o->node), end, end};
        if (o->staged) ok &= tcc_vec_push(&plan->values, value);
    }
    return ok;
}

/* Moments in which values are used; `value_of` by node. */
static void find_lives(const tcc_graph *g, tcc_plan *plan, const int *value_of) {
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
                value->last = moment;
            }
            for (int k = 0; k < launch->n_reads; k++) {
                int v = launch->reads[k].node ? value_of[launch->reads[k].node->id] : -1;
                if (v >= 0) plan->values.data[v].last = moment;
            }
        }
    }
    for (int i = 0; i < g->outputs.count; i++) {
        int v = value_of[g->outputs.data[i].node->id];
        if (v >= 0) plan->values.data[v].last = plan->start[g->groups.count]; /* copied out at the end */
    }
}

tcc_status tcc_plan_read(const tcc_graph *g, tcc_plan *out, tcc_diag *diag) {
    *out = (tcc_plan){0};
    int *value_of = tcc__malloc(sizeof *value_of * (size_t)(g->nodes.count + 1));
    int64_t *change = NULL;
    bool ok = value_of && list_launches(g, out) && list_values(g, out);
    if (ok) ok = (change = tcc__malloc(sizeof *change * ((size_t)out->start[g->groups.count] + 2)));
    if (ok) {
        for (int i = 0; i < g->nodes.count; i++) value_of[i] = -1;
        for (int i = 0; i < g->places.count; i++) value_of[g->places.data[i].node->id] = i;
        find_lives(g, out, value_of);
        find_peak(g, out, change);
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

int tcc_plan_first_write(const tcc_graph *g, const tcc_plan *plan, const tcc_node *n) {
    for (int t = 0; t < g->groups.count; t++) {
        if (!tcc_group_stores(&g->groups.data[t], n)) continue;
        for (int i = 0; i < plan->launches[t]->n_launches; i++)
            if (tcc_launch_writes(&plan->launches[t]->launches[i], n))
                return plan->start[t] + tcc_launch_moment(plan->launches[t], i);
    }
    return -1;
}

int tcc_plan_last_read(const tcc_graph *g, const tcc_plan *plan, const tcc_node *n) {
    for (int t = g->groups.count - 1; t >= 0; t--)
        for (int i = plan->launches[t]->n_launches - 1; i >= 0; i--)
            if (tcc_launch_reads(&plan->launches[t]->launches[i], n))
                return plan->start[t] + tcc_launch_moment(plan->launches[t], i);
    return -1;
}

bool tcc_plan_may_replace(const tcc_graph *g, const tcc_plan *plan, const tcc_output *output) {
    const tcc_node *old = g->inputs.data[output->alias];
    const int written = tcc_plan_first_write(g, plan, output->node), read = tcc_plan_last_read(g, plan, old);
    if (written < 0 || read < written) return written >= 0;
    if (read > written) return false;
    int t = 0;
    while (plan->start[t + 1] <= written) t++;
    return tcc_moment_overwrites(plan->launches[t], written - plan->start[t], old, output->node);
}

/* -- The check -- */

static bool share_memory(const tcc_plan_value *a, const tcc_plan_value *b) {
    return a->offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < a->offset_bytes + a->size_bytes;
}

/* What the memory is for, in words; overwritten by the next but one call. */
static const char *value_text(const tcc_graph *g, const tcc_plan_value *v) {
    static _Thread_local char buffers[2][160];
    static _Thread_local unsigned next;
    char *text = buffers[next++ % 2];
    if (v->node) return tcc_node_text(v->node);
    if (v->group < 0) snprintf(text, sizeof buffers[0], "output '%s' on its way", g->outputs.data[v->temporary].name);
    else {
        const tcc_group *group = &g->groups.data[v->group];
        snprintf(text, sizeof buffers[0], "t%d of group %d, %s by %s", v->temporary, v->group,
                 tcc_group_kind_text(group->kind), group->implementation ? group->implementation->name : "nothing");
    }
    return text;
}

static tcc_loc value_loc(const tcc_graph *g, const tcc_plan_value *v) {
    if (v->node) return v->node->loc;
    return v->group < 0 ? g->outputs.data[v->temporary].node->loc : g->groups.data[v->group].hero->loc;
}

/* `earlier` dies in the moment that writes `later` over it, element by element. */
static bool in_place(const tcc_plan *plan, const tcc_plan_value *earlier, const tcc_plan_value *later) {
    return earlier->offset_bytes == later->offset_bytes && tcc_plan_overwrites(plan, earlier, later);
}

static tcc_status check_values(const tcc_graph *g, const tcc_plan *plan, tcc_diag *diag) {
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *a = &plan->values.data[i];
        if (a->first < 0) return TCC_BUG(diag, "no group stores %s, which has a place", value_text(g, a));
        if (!a->node && a->group >= 0 && !plan->launches[a->group]->temporaries[a->temporary].placed)
            return TCC_BUG(diag, "%s has no place", value_text(g, a));
        if (a->offset_bytes % TCC_PLAN_ALIGNMENT || a->offset_bytes < 0 ||
            a->offset_bytes + a->size_bytes > g->arena_bytes)
            return TCC_BUG(diag, "%s lies at %lld, outside the arena of %lld bytes or badly aligned", value_text(g, a),
                           (long long)a->offset_bytes, (long long)g->arena_bytes);
        for (int k = i + 1; k < plan->values.count; k++) {
            const tcc_plan_value *b = &plan->values.data[k];
            if (a->last < b->first || b->last < a->first || !share_memory(a, b)) continue;
            if (in_place(plan, a, b) || in_place(plan, b, a)) continue;
            tcc_status status = TCC_BUG(diag, "%s (launches %d to %d) shares memory with", value_text(g, a), a->first,
                                        a->last);
            tcc_note(diag, TCC_NOWHERE, "%s (launches %d to %d)", value_text(g, b), b->first, b->last);
            return status;
        }
    }
    return TCC_OK;
}

static tcc_status check_outputs(const tcc_graph *g, const tcc_plan *plan, tcc_diag *diag) {
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        if (output->in_place && output->node->op != TCC_OP_INPUT && !tcc_plan_may_replace(g, plan, output))
            return TCC_BUG(diag, "%s is read after output %s overwrote it",
                           g->inputs.data[output->alias]->attrs->input.name, output->name);
    }
    return TCC_OK;
}

tcc_status tcc_plan_check(const tcc_graph *g, tcc_diag *diag) {
    tcc_plan plan;
    TCC_TRY(tcc_plan_read(g, &plan, diag));
    tcc_status status = check_values(g, &plan, diag);
    if (status == TCC_OK) status = check_outputs(g, &plan, diag);
    tcc_plan_free(&plan);
    return status;
}

/* -- Table and picture -- */

static int larger_first(const void *a, const void *b) {
    const tcc_plan_value *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    return x->first != y->first ? x->first - y->first : (x > y) - (x < y);
}

void tcc_plan_print(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    tcc_strbuf_printf(b, "arena %lld bytes, %d values in %d launches of %d groups\n", (long long)g->arena_bytes,
                      plan->values.count, plan->start[g->groups.count], g->groups.count);
    tcc_strbuf_printf(b, "most alive at once: %lld bytes, in launch %d\n\n", (long long)plan->peak_bytes,
                      plan->peak_moment);
    tcc_strbuf_add(b, "      bytes       offset  launches       at peak  value\n");
    size_t size_bytes = sizeof *plan->values.data * (size_t)plan->values.count;
    tcc_plan_value *sorted = tcc__malloc(size_bytes + 1);
    if (!sorted) {
        b->failed = true;
        return;
    }
    if (size_bytes) memcpy(sorted, plan->values.data, size_bytes);
    qsort(sorted, (size_t)plan->values.count, sizeof *sorted, larger_first);
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &sorted[i];
        bool at_peak = v->first <= plan->peak_moment && plan->peak_moment <= v->last;
        tcc_strbuf_printf(b, "%11lld %12lld  %5d..%-5d  %-7s  %s", (long long)v->size_bytes, (long long)v->offset_bytes,
                          v->first, v->last, at_peak ? "yes" : "", value_text(g, v));
        if (value_loc(g, v).file) tcc_strbuf_add(b, "  "), tcc_loc_print(b, value_loc(g, v));
        tcc_strbuf_add(b, "\n");
    }
    tcc__free(sorted);
}

void tcc_plan_svg(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    enum { WIDTH = 1200, HEIGHT = 700, LEFT = 10, BOTTOM = 710 };
    static const char *const colors[] = {"#4e79a7", "#f28e2b", "#e15759", "#76b7b2",
                                         "#59a14f", "#edc948", "#b07aa1", "#9c755f"};
    const int launches = plan->start[g->groups.count];
    double per_launch = (double)WIDTH / (launches + 1);
    double per_byte = (double)HEIGHT / (double)(g->arena_bytes ? g->arena_bytes : 1);
    tcc_strbuf_printf(
        b,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<text x=\"%d\" y=\"%d\">%d launches, arena %lld bytes, most alive at once %lld "
        "bytes</text>\n",
        WIDTH + 2 * LEFT, BOTTOM + 20, LEFT, BOTTOM + 14, launches, (long long)g->arena_bytes,
        (long long)plan->peak_bytes);
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &plan->values.data[i];
        double height = (double)v->size_bytes * per_byte, top = BOTTOM - (double)v->offset_bytes * per_byte - height;
        tcc_strbuf_printf(b,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"white\" "
                          "stroke-width=\"0.3\"><title>%s: %lld bytes at %lld, launches %d to %d</title></rect>\n",
                          LEFT + v->first * per_launch, top, (v->last - v->first + 1) * per_launch, height,
                          colors[(v->node ? v->node->id : i) % (int)(sizeof colors / sizeof colors[0])],
                          v->node        ? tcc_op_get_info(v->node->op)->text
                          : v->group < 0 ? "state"
                                         : "temporary",
                          (long long)v->size_bytes, (long long)v->offset_bytes, v->first, v->last);
    }
    tcc_strbuf_add(b, "</svg>\n");
}
