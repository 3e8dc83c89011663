/* SPDX-License-Identifier: MIT
 * Reading a memory plan back from a graph: lives, the check that no two live values share memory, the table and the
 * picture. */
#include "passes/plan.h"

#include "ir/support/alloc.h"
#include "passes/group.h"

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

bool tcc_plan_share_place(const tcc_graph *g, const tcc_node *a, const tcc_node *b) {
    int64_t offset_a = -1, offset_b = -1;
    for (int i = 0; i < g->places.count; i++) {
        if (g->places.data[i].node == a) offset_a = g->places.data[i].offset_bytes;
        if (g->places.data[i].node == b) offset_b = g->places.data[i].offset_bytes;
    }
    return offset_a >= 0 && offset_a == offset_b;
}

/* -- Reading a plan -- */

static bool written_over(const tcc_plan *plan, const tcc_plan_value *v) {
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *u = &plan->values.data[i];
        if (u->first == v->last && v->first < u->first && u->offset_bytes == v->offset_bytes &&
            u->size_bytes == v->size_bytes)
            return true;
    }
    return false;
}

static void find_peak(const tcc_graph *g, tcc_plan *plan) {
    int64_t live = 0;
    for (int t = 0; t < g->groups.count; t++) {
        for (int i = 0; i < plan->values.count; i++) {
            const tcc_plan_value *v = &plan->values.data[i];
            if (v->first == t) live += v->size_bytes;
            if (v->last == t && written_over(plan, v)) live -= v->size_bytes;
        }
        if (live > plan->peak_bytes) {
            plan->peak_bytes = live;
            plan->peak_group = t;
        }
        for (int i = 0; i < plan->values.count; i++) {
            const tcc_plan_value *v = &plan->values.data[i];
            if (v->last == t && !written_over(plan, v)) live -= v->size_bytes;
        }
    }
}

tcc_status tcc_plan_read(const tcc_graph *g, tcc_plan *out, tcc_diag *diag) {
    *out = (tcc_plan){0};
    int *value_of = tcc__malloc(sizeof *value_of * (size_t)(g->nodes.count + 1));
    if (!value_of) return tcc_enomem(diag);
    for (int i = 0; i < g->nodes.count; i++) value_of[i] = -1;
    tcc_status status = TCC_OK;
    for (int i = 0; i < g->places.count && status == TCC_OK; i++) {
        tcc_node *n = g->places.data[i].node;
        value_of[n->id] = i;
        tcc_plan_value value = {n, g->places.data[i].offset_bytes, tcc_plan_size(n), -1, -1};
        if (!tcc_vec_push(&out->values, value)) status = tcc_enomem(diag);
    }
    for (int t = 0; t < g->groups.count && status == TCC_OK; t++) {
        const tcc_group *group = &g->groups.data[t];
        for (int i = 0; i < group->n_outputs; i++) {
            int v = value_of[group->outputs[i]->id];
            if (v >= 0) out->values.data[v].first = out->values.data[v].last = t;
        }
        for (int i = 0; i < group->n_nodes; i++)
            for (int k = 0; k < group->nodes[i]->n_operands; k++) {
                const tcc_node *operand = group->nodes[i]->operands[k];
                int v = value_of[operand->id];
                if (v >= 0 && !tcc_group_has(group, operand)) out->values.data[v].last = t;
            }
    }
    for (int i = 0; i < g->outputs.count && status == TCC_OK; i++) {
        int v = value_of[g->outputs.data[i].node->id];
        if (v >= 0) out->values.data[v].last = g->groups.count; /* copied out at the end */
    }
    tcc__free(value_of);
    if (status == TCC_OK) find_peak(g, out);
    if (status != TCC_OK) tcc_plan_free(out);
    return status;
}

void tcc_plan_free(tcc_plan *plan) {
    tcc_vec_free(&plan->values);
    *plan = (tcc_plan){0};
}

/* -- The check -- */

static bool share_memory(const tcc_plan_value *a, const tcc_plan_value *b) {
    return a->offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < a->offset_bytes + a->size_bytes;
}

/* `earlier` dies in the group that stores `later`, which writes over it element by element. */
static bool in_place(const tcc_graph *g, const tcc_plan_value *earlier, const tcc_plan_value *later) {
    return earlier->last == later->first && earlier->first < later->first &&
           earlier->offset_bytes == later->offset_bytes &&
           tcc_plan_same_element(&g->groups.data[later->first], earlier->node, later->node);
}

static tcc_status check_values(const tcc_graph *g, const tcc_plan *plan, tcc_diag *diag) {
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *a = &plan->values.data[i];
        if (a->first < 0) return TCC_BUG(diag, "no group stores %s, which has a place", tcc_node_text(a->node));
        if (a->offset_bytes % TCC_PLAN_ALIGNMENT || a->offset_bytes < 0 ||
            a->offset_bytes + a->size_bytes > g->arena_bytes)
            return TCC_BUG(diag, "%s lies at %lld, outside the arena of %lld bytes or badly aligned",
                           tcc_node_text(a->node), (long long)a->offset_bytes, (long long)g->arena_bytes);
        for (int k = i + 1; k < plan->values.count; k++) {
            const tcc_plan_value *b = &plan->values.data[k];
            if (a->last < b->first || b->last < a->first || !share_memory(a, b)) continue;
            if (in_place(g, a, b) || in_place(g, b, a)) continue;
            tcc_status status = TCC_BUG(diag, "%s (groups %d to %d) shares memory with", tcc_node_text(a->node),
                                        a->first, a->last);
            tcc_note(diag, TCC_NOWHERE, "%s (groups %d to %d)", tcc_node_text(b->node), b->first, b->last);
            return status;
        }
    }
    return TCC_OK;
}

static tcc_status check_in_place_outputs(const tcc_graph *g, tcc_diag *diag) {
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        if (!output->in_place) continue;
        const tcc_node *old = g->inputs.data[output->alias];
        bool written = false;
        for (int t = 0; t < g->groups.count; t++) {
            const tcc_group *group = &g->groups.data[t];
            bool writes = tcc_group_stores(group, output->node), reads = false;
            for (int k = 0; k < group->n_nodes; k++)
                for (int m = 0; m < group->nodes[k]->n_operands; m++) reads |= group->nodes[k]->operands[m] == old;
            if (reads && (written || (writes && !tcc_plan_same_element(group, old, output->node))))
                return TCC_BUG(diag, "group %d reads %s after output %s overwrote it", t, old->attrs->input.name,
                               output->name);
            written |= writes;
        }
    }
    return TCC_OK;
}

tcc_status tcc_plan_check(const tcc_graph *g, tcc_diag *diag) {
    tcc_plan plan;
    TCC_TRY(tcc_plan_read(g, &plan, diag));
    tcc_status status = check_values(g, &plan, diag);
    tcc_plan_free(&plan);
    return status == TCC_OK ? check_in_place_outputs(g, diag) : status;
}

/* -- Table and picture -- */

static int larger_first(const void *a, const void *b) {
    const tcc_plan_value *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    return x->node->id - y->node->id;
}

void tcc_plan_print(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    tcc_strbuf_printf(b, "arena %lld bytes, %d values in %d groups\n", (long long)g->arena_bytes, plan->values.count,
                      g->groups.count);
    tcc_strbuf_printf(b, "most alive at once: %lld bytes, in group %d\n\n", (long long)plan->peak_bytes,
                      plan->peak_group);
    tcc_strbuf_add(b, "      bytes       offset  groups         at peak  value\n");
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
        bool at_peak = v->first <= plan->peak_group && plan->peak_group <= v->last;
        tcc_strbuf_printf(b, "%11lld %12lld  %5d..%-5d  %-7s  %s", (long long)v->size_bytes, (long long)v->offset_bytes,
                          v->first, v->last, at_peak ? "yes" : "", tcc_node_text(v->node));
        if (v->node->loc.file) tcc_strbuf_add(b, "  "), tcc_loc_print(b, v->node->loc);
        tcc_strbuf_add(b, "\n");
    }
    tcc__free(sorted);
}

void tcc_plan_svg(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    enum { WIDTH = 1200, HEIGHT = 700, LEFT = 10, BOTTOM = 710 };
    static const char *const colors[] = {"#4e79a7", "#f28e2b", "#e15759", "#76b7b2",
                                         "#59a14f", "#edc948", "#b07aa1", "#9c755f"};
    double per_group = (double)WIDTH / (g->groups.count + 1);
    double per_byte = (double)HEIGHT / (double)(g->arena_bytes ? g->arena_bytes : 1);
    tcc_strbuf_printf(b,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
                      "font-size=\"11\">\n<text x=\"%d\" y=\"%d\">%d groups, arena %lld bytes, most alive at once %lld "
                      "bytes</text>\n",
                      WIDTH + 2 * LEFT, BOTTOM + 20, LEFT, BOTTOM + 14, g->groups.count, (long long)g->arena_bytes,
                      (long long)plan->peak_bytes);
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &plan->values.data[i];
        double height = (double)v->size_bytes * per_byte, top = BOTTOM - (double)v->offset_bytes * per_byte - height;
        tcc_strbuf_printf(b,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"white\" "
                          "stroke-width=\"0.3\"><title>%s: %lld bytes at %lld, groups %d to %d</title></rect>\n",
                          LEFT + v->first * per_group, top, (v->last - v->first + 1) * per_group, height,
                          colors[v->node->id % (int)(sizeof colors / sizeof colors[0])],
                          tcc_op_get_info(v->node->op)->text, (long long)v->size_bytes, (long long)v->offset_bytes,
                          v->first, v->last);
    }
    tcc_strbuf_add(b, "</svg>\n");
}
