/* SPDX-License-Identifier: MIT
 * Which inputs of a group are read in step with an output. */
#include "passes/in_step.h"

#include "ir/support/alloc.h"
#include "passes/group.h"

#include <string.h>

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
            const int j = tcc_group_position(group, n->operands[k]);
            if (j >= 0) how[j] |= to;
        }
    }
    return input_how;
}

/* The output is stored in a reduction's last sweep: it depends on as many reductions, one behind the other, as there
 * are. Sums across the rows, and of parts of them, make no sweep. */
static bool stored_last(const tcc_group *group, const tcc_node *output, const bool *across, unsigned char *depth) {
    int deepest = 0, own = 0;
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_node *n = group->nodes[i];
        depth[i] = 0;
        for (int k = 0; k < n->n_operands; k++) {
            const int j = tcc_group_position(group, n->operands[k]);
            if (j >= 0 && depth[j] > depth[i]) depth[i] = depth[j];
        }
        const bool sweeps = !across[i] && !tcc_sums_parts(group->hero, n);
        depth[i] += tcc_op_get_info(n->op)->fusion == TCC_FUSION_REDUCE && sweeps;
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
    if (group->kind == TCC_GROUP_POINTWISE || group->kind == TCC_GROUP_WINDOW) {
        if (elements_read(group, input, false, NULL, scratch) & AT_OTHER) return false;
        for (int i = 0; i < group->n_nodes;
             i++) /* an output that another one reads elsewhere: they do not walk in step */
            if (tcc_group_stores(group, group->nodes[i]) && scratch[i] & AT_OTHER) return false;
        return true;
    }
    if (group->kind == TCC_GROUP_CONTRACT) /* the epilogue reads and stores element by element, operands anywhere */
        return !(elements_read(group, input, false, NULL, scratch) & AT_OTHER);
    if (output->op == TCC_OP_TRANSPOSE) return false; /* a row stores where others read */
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

bool tcc_group_same_element(const tcc_group *group, const tcc_node *input, const tcc_node *output) {
    if (group->kind == TCC_GROUP_SCATTER) return output == group->hero && scatters_onto(group, input);
    if (group->kind == TCC_GROUP_COLLECTIVE)
        return group->hero->op == TCC_OP_ALL_REDUCE && group->hero->operands[0] == input;
    static const bool walks[TCC_GROUP_KIND_COUNT] = {[TCC_GROUP_POINTWISE] = true,
                                                     [TCC_GROUP_REDUCE] = true,
                                                     [TCC_GROUP_CONTRACT] = true,
                                                     [TCC_GROUP_WINDOW] = true};
    if (!walks[group->kind]) return false;
    if (tcc_type_numel(&output->type) != tcc_type_numel(&input->type)) return false;
    if (tcc_type_bytes(&output->type) != tcc_type_bytes(&input->type)) return false;
    unsigned char *scratch = tcc__malloc(2 * (size_t)group->n_nodes + 1);
    bool same = scratch && in_step(group, input, output, scratch);
    tcc__free(scratch);
    return same;
}
