/* SPDX-License-Identifier: MIT
 * Values that have left the caches before anyone reads them. A kernel of the host stores these to memory at once: a
 * line that is written as a whole need not be read before. A third of what a copy moves is such reads. */
#include "codegen/builder.h"

/* Bytes that a step moves before the next read of a value, a usual third level: what no kernel of the step reads may
 * still be there when the next step writes it. */
enum { LEAST_BYTES = 1 << 20, UNTIL_READ = 32 << 20, LINE = 64 };

static double traffic_of(const tcc_group *group) {
    const tcc_implementation *x = group->implementation;
    double bytes = 0;
    for (int i = 0; x && i < x->n_launches; i++) bytes += (double)x->launches[i].bytes;
    return bytes;
}

static bool same_memory(const tcc_buffer *x, const tcc_buffer *y) {
    return y->size_bytes && x->space == y->space && x->binding == y->binding && x->offset_bytes == y->offset_bytes;
}

/* Whether the group reads what lies where the value is written: those lines are in a cache by then. */
static bool overwrites(const tcc_builder *b, const tcc_group *group, const tcc_node *value) {
    for (int i = 0; i < group->n_nodes; i++)
        for (int k = 0; k < group->nodes[i]->n_operands; k++) {
            const tcc_node *x = group->nodes[i]->operands[k];
            if (x != value && same_memory(&b->home[value->id], &b->home[x->id])) return true;
        }
    return false;
}

/* Whether the group's own updates find the value in a cache once its base is written: it is small, or they touch much
 * of it. Those of a sum that is rounded touch a temporary of f32 instead; along a line none are without one. */
static bool is_updated(const tcc_group *group, const tcc_node *value) {
    if (group->kind != TCC_GROUP_SCATTER || group->hero != value) return false;
    const tcc_type *updates = &value->operands[2]->type;
    const bool along = value->op == TCC_OP_SCATTER_ADD_ALONG || value->op == TCC_OP_SCATTER_ALONG;
    if (value->op == TCC_OP_SCATTER_ADD_ALONG && tcc_dtype_is_narrow(value->type.dtype)) return false;
    int64_t together = 1; /* elements that go to one place */
    for (int i = (int)value->attrs->axis.axis + 1; !along && i < value->type.rank; i++) together *= value->type.dims[i];
    const double each = (double)(together * tcc_dtype_bytes(value->type.dtype)),
                 all = (double)tcc_type_bytes(&value->type),
                 touched = (double)tcc_type_numel(updates) / (double)together * (each < LINE ? LINE : each);
    return 2 * all < UNTIL_READ || 2 * touched >= all;
}

tcc_status tcc_builder_find_far(tcc_builder *b) {
    const tcc_graph *g = b->g;
    if (b->target->lane_groups) return TCC_OK;
    double *read = TCC_ARENA_ARRAY(&b->scratch, double, g->nodes.count + 1); /* bytes from there to the end; 0: never */
    b->far = TCC_ARENA_ARRAY(&b->scratch, bool, g->nodes.count + 1);
    if (!read || !b->far) return tcc_enomem(b->diag);
    double all = 0, behind = 0;
    for (int i = 0; i < g->groups.count; i++) all += traffic_of(&g->groups.data[i]);
    for (int i = g->groups.count - 1; i >= 0; i--) {
        const tcc_group *group = &g->groups.data[i];
        for (int k = 0; k < group->n_outputs; k++) {
            const tcc_node *n = group->outputs[k];
            const double between = read[n->id] > 0 ? behind - read[n->id] : all;
            b->far[n->id] = between >= UNTIL_READ && tcc_type_bytes(&n->type) >= LEAST_BYTES && !is_updated(group, n) &&
                            b->home[n->id].offset_bytes % LINE == 0 && !overwrites(b, group, n);
        }
        behind += traffic_of(group);
        for (int k = 0; k < group->n_nodes; k++)
            for (int o = 0; o < group->nodes[k]->n_operands; o++) read[group->nodes[k]->operands[o]->id] = behind;
    }
    return TCC_OK;
}
