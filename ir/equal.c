/* SPDX-License-Identifier: MIT
 * Equality of graphs: what is computed, whatever the nodes' numbers, names of graphs and
 * source lines. */
#include "ir/builder.h"
#include "ir/implementation.h"
#include "ir/support/alloc.h"

#include <string.h>

/* Since equal nodes of one graph are one node, a node of `a` has at most one match in
 * `b`, which its operands' matches determine; and if every node has one and the counts agree, the
 * match is one to one. */

static bool match_node(const tcc_node *n, const tcc_graph *b, tcc_node **match) {
    enum { ON_STACK = 8 };
    tcc_node *few[ON_STACK], **operands = few;
    if (n->n_operands > ON_STACK && !(operands = tcc__malloc(sizeof *operands * (size_t)n->n_operands))) return false;
    for (int i = 0; i < n->n_operands; i++) operands[i] = match[n->operands[i]->id];
    match[n->id] = tcc__ir_find(b, n->op, operands, n->n_operands, n->attrs, &n->type, n->marks);
    if (operands != few) tcc__free(operands);
    return match[n->id];
}

static bool match_lists(tcc_node *const *a, tcc_node *const *b, int count, tcc_node *const *match) {
    for (int i = 0; i < count; i++)
        if (match[a[i]->id] != b[i]) return false;
    return true;
}

static bool equal_groups(const tcc_group *a, const tcc_group *b, tcc_node *const *match) {
    return a->kind == b->kind && a->n_nodes == b->n_nodes && a->n_outputs == b->n_outputs &&
           match[a->hero->id] == b->hero && match_lists(a->nodes, b->nodes, a->n_nodes, match) &&
           match_lists(a->outputs, b->outputs, a->n_outputs, match) &&
           tcc__implementations_equal(a->implementation, b->implementation, match);
}

static bool equal_outputs(const tcc_output *a, const tcc_output *b, tcc_node *const *match) {
    return !strcmp(a->name, b->name) && match[a->node->id] == b->node && a->alias == b->alias &&
           a->in_place == b->in_place && a->staged == b->staged && a->stage_bytes == b->stage_bytes;
}

static bool equal_given_match(const tcc_graph *a, const tcc_graph *b, tcc_node **match) {
    for (int i = 0; i < a->nodes.count; i++)
        if (!match_node(a->nodes.data[i], b, match)) return false;
    if (!match_lists(a->inputs.data, b->inputs.data, a->inputs.count, match)) return false;
    for (int i = 0; i < a->outputs.count; i++)
        if (!equal_outputs(&a->outputs.data[i], &b->outputs.data[i], match)) return false;
    for (int i = 0; i < a->groups.count; i++)
        if (!equal_groups(&a->groups.data[i], &b->groups.data[i], match)) return false;
    for (int i = 0; i < a->places.count; i++) {
        const tcc_place *p = &a->places.data[i], *q = &b->places.data[i];
        if (match[p->node->id] != q->node || p->offset_bytes != q->offset_bytes) return false;
    }
    return true;
}

bool tcc_graph_equal(const tcc_graph *a, const tcc_graph *b) {
    if (a->nodes.count != b->nodes.count || a->inputs.count != b->inputs.count ||
        a->outputs.count != b->outputs.count || a->groups.count != b->groups.count ||
        a->places.count != b->places.count || a->arena_bytes != b->arena_bytes)
        return false;
    tcc_node **match = tcc__calloc((size_t)a->nodes.count, sizeof *match);
    bool equal = match && equal_given_match(a, b, match);
    tcc__free(match);
    return equal;
}
