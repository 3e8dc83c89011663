/* SPDX-License-Identifier: MIT
 * The verifier of finished programs: no kernel evaluates a value more often than fuse counted for the group's cost.
 * Otherwise codegen treats one index map of fuse as several, and work multiplies along a chain of maps. */
#include "codegen/verify/checker.h"

#include "ir/support/alloc.h"
#include "passes/fuse/evaluations.h"

static tcc_status check_group(const tcc_checker *c, const tcc_fact_group *f, tcc_draft_scratch *s, int64_t *charged) {
    const tcc_group *group = f->group;
    tcc_evaluations_count(s, group, charged);
    for (int i = 0; i < group->n_nodes; i++) {
        if (f->evaluations[i] < (double)charged[i] + 0.5) continue; /* parts of launches add up to whole numbers */
        return TCC_BUG(c->diag, "%s (%s) evaluates %.0f times, instead of %lld: %s", f->label, f->lines,
                       f->evaluations[i], (long long)charged[i], tcc_node_text(group->nodes[i]));
    }
    return TCC_OK;
}

tcc_status tcc_checker_check_evaluations(const tcc_checker *c) {
    tcc_draft_scratch *s = tcc_evaluations_create(c->f->graph);
    int64_t *charged = tcc__malloc(sizeof *charged * ((size_t)c->f->graph->nodes.count + 1));
    tcc_status status = s && charged ? TCC_OK : tcc_enomem(c->diag);
    for (int i = 0; i < c->f->groups.count && status == TCC_OK; i++)
        status = check_group(c, &c->f->groups.data[i], s, charged);
    tcc_evaluations_free(s);
    tcc__free(charged);
    return status;
}
