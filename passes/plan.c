/* SPDX-License-Identifier: MIT
 * Reading a memory plan back from a graph: lives, the check that no two live values share memory, the table and the picture. */
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

/* Marks in `other` the nodes of the group that are evaluated at another element than the one being stored. Walks backward over the
 * group's topological order, so that a node's users are settled before it. */
static bool elements_read(const tcc_group *group, const tcc_node *input, bool *at_other) {
    enum { SAME = 1, OTHER = 2 };
    unsigned char *how = tcc__calloc((size_t)group->n_nodes + 1, 1);
    if (!how) return false;
    unsigned char input_how = 0;
    for (int i = group->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = group->nodes[i];
        if (tcc_group_stores(group, n)) how[i] |= SAME;
        bool passes = tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT || n->op == TCC_OP_RESHAPE;
        for (int k = 0; k < n->n_operands; k++) {
            unsigned char to = passes ? how[i] : OTHER;
            if (n->operands[k] == input) input_how |= to;
            for (int j = 0; j < i; j++)
                if (group->nodes[j] == n->operands[k]) how[j] |= to;
        }
    }
    /* An output that another output reads elsewhere: the outputs do not walk in step. */
    bool in_step = true;
    for (int i = 0; i < group->n_nodes; i++)
        if (tcc_group_stores(group, group->nodes[i]) && how[i] & OTHER && group->kind == TCC_GROUP_POINTWISE) in_step = false;
    tcc__free(how);
    *at_other = !in_step || input_how & OTHER;
    return true;
}

bool tcc_plan_same_element(const tcc_group *group, const tcc_node *input, const tcc_node *output) {
    if (group->kind != TCC_GROUP_POINTWISE && group->kind != TCC_GROUP_REDUCE) return false;
    int64_t count = tcc_type_numel(&group->hero->type);
    if (tcc_type_numel(&output->type) != count || tcc_type_numel(&input->type) != count) return false;
    if (tcc_type_bytes(&input->type) != tcc_type_bytes(&output->type)) return false;
    bool at_other;
    return elements_read(group, input, &at_other) && !at_other;
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
    for (int t = 0; t < g->groups.count && status == TCC_OK; t++) {
        int64_t live = 0;
        for (int i = 0; i < out->values.count; i++) {
            const tcc_plan_value *v = &out->values.data[i];
            if (v->first <= t && t <= v->last) live += v->size_bytes;
        }
        if (live > out->peak_bytes) {
            out->peak_bytes = live;
            out->peak_group = t;
        }
    }
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
    return earlier->last == later->first && earlier->first < later->first && earlier->offset_bytes == later->offset_bytes
           && tcc_plan_same_element(&g->groups.data[later->first], earlier->node, later->node);
}

static tcc_status check_values(const tcc_graph *g, const tcc_plan *plan, tcc_diag *diag) {
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *a = &plan->values.data[i];
        if (a->first < 0) return TCC_BUG(diag, "no group stores %s, which has a place", tcc_node_text(a->node));
        if (a->offset_bytes % TCC_PLAN_ALIGNMENT || a->offset_bytes < 0 || a->offset_bytes + a->size_bytes > g->arena_bytes)
            return TCC_BUG(diag, "%s lies at %lld, outside the arena of %lld bytes or badly aligned", tcc_node_text(a->node),
                           (long long)a->offset_bytes, (long long)g->arena_bytes);
        for (int k = i + 1; k < plan->values.count; k++) {
            const tcc_plan_value *b = &plan->values.data[k];
            if (a->last < b->first || b->last < a->first || !share_memory(a, b)) continue;
            if (in_place(g, a, b) || in_place(g, b, a)) continue;
            tcc_status status = TCC_BUG(diag, "%s (groups %d to %d) shares memory with", tcc_node_text(a->node), a->first, a->last);
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
                return TCC_BUG(diag, "group %d reads %s after output %s overwrote it", t, old->attrs->input.name, output->name);
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
    tcc_strbuf_printf(b, "most alive at once: %lld bytes, in group %d\n\n", (long long)plan->peak_bytes, plan->peak_group);
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
        if (v->node->loc.file) tcc_strbuf_printf(b, "  %s:%d", v->node->loc.file, v->node->loc.line);
        tcc_strbuf_add(b, "\n");
    }
    tcc__free(sorted);
}

void tcc_plan_svg(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    enum { WIDTH = 1200, HEIGHT = 700, LEFT = 10, BOTTOM = 710 };
    static const char *const colors[] = {"#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#9c755f"};
    double per_group = (double)WIDTH / (g->groups.count + 1);
    double per_byte = (double)HEIGHT / (double)(g->arena_bytes ? g->arena_bytes : 1);
    tcc_strbuf_printf(b,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
                      "font-size=\"11\">\n<text x=\"%d\" y=\"%d\">%d groups, arena %lld bytes, most alive at once %lld bytes</text>\n",
                      WIDTH + 2 * LEFT, BOTTOM + 20, LEFT, BOTTOM + 14, g->groups.count, (long long)g->arena_bytes,
                      (long long)plan->peak_bytes);
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &plan->values.data[i];
        double height = (double)v->size_bytes * per_byte, top = BOTTOM - (double)v->offset_bytes * per_byte - height;
        tcc_strbuf_printf(b,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"white\" "
                          "stroke-width=\"0.3\"><title>%s: %lld bytes at %lld, groups %d to %d</title></rect>\n",
                          LEFT + v->first * per_group, top, (v->last - v->first + 1) * per_group, height,
                          colors[v->node->id % (int)(sizeof colors / sizeof colors[0])], tcc_op_get_info(v->node->op)->text,
                          (long long)v->size_bytes, (long long)v->offset_bytes, v->first, v->last);
    }
    tcc_strbuf_add(b, "</svg>\n");
}
