/* SPDX-License-Identifier: MIT
 * fuse: gathers nodes into groups, one kernel each. */
#include "passes/group.h"
#include "passes/pass.h"

/* The kind of a group whose hero has this op. */
static tcc_group_kind kind_of(tcc_op op) {
    switch (tcc_op_get_info(op)->fusion) {
    case TCC_FUSION_REDUCE: return TCC_GROUP_REDUCE;
    case TCC_FUSION_SCAN: return TCC_GROUP_SCAN;
    case TCC_FUSION_SCATTER: return TCC_GROUP_SCATTER;
    case TCC_FUSION_CONTRACT: return TCC_GROUP_CONTRACT;
    case TCC_FUSION_WINDOW: return TCC_GROUP_WINDOW;
    case TCC_FUSION_ATTENTION: return TCC_GROUP_ATTENTION;
    default: return TCC_GROUP_POINTWISE;
    }
}

/* Every node a group of its own. */
static tcc_status fuse_nothing(tcc_graph *g) {
    for (int i = 0; i < g->nodes.count; i++) {
        tcc_node *n = g->nodes.data[i];
        if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_LEAF) continue;
        tcc_node **self = tcc_arena_copy(&g->arena, &n, sizeof n);
        tcc_group group = {kind_of(n->op), n, 1, 1, self, self};
        if (!self || !tcc_vec_push(&g->groups, group)) return tcc_enomem(g->diag);
    }
    return TCC_OK;
}

tcc_status tcc_pass_fuse(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    (void)cx;
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    for (int i = 0; i < in->nodes.count; i++)
        if (rw.live[i] && !rw.map[i]) tcc_rewrite_copy(&rw, in->nodes.data[i]);
    tcc_graph *g;
    TCC_TRY(tcc_rewrite_end(&rw, &g));
    tcc_status status = fuse_nothing(g);
    if (status != TCC_OK) {
        tcc_graph_destroy(g);
        return status;
    }
    *out = g;
    return TCC_OK;
}
