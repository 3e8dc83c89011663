/* SPDX-License-Identifier: MIT
 * The check that no two live values of a memory plan share memory. */
#include "harness/plan_check.h"

#include "passes/memory/plan.h"

static bool share_memory(const tcc_plan_value *a, const tcc_plan_value *b) {
    return a->offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < a->offset_bytes + a->size_bytes;
}

/* `earlier` dies in the moment that writes `later` over it, element by element. */
static bool in_place(const tcc_plan *plan, const tcc_plan_value *earlier, const tcc_plan_value *later) {
    return earlier->offset_bytes == later->offset_bytes && tcc_plan_overwrites(plan, earlier, later);
}

static tcc_status check_values(const tcc_graph *g, const tcc_plan *plan, tcc_diag *diag) {
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *a = &plan->values.data[i];
        if (a->first < 0) return TCC_BUG(diag, "no group stores %s, which has a place", tcc_plan_value_text(g, a));
        if (!a->node && a->group >= 0 && !plan->launches[a->group]->temporaries[a->temporary].placed)
            return TCC_BUG(diag, "%s has no place", tcc_plan_value_text(g, a));
        if (a->offset_bytes % TCC_PLAN_ALIGNMENT || a->offset_bytes < 0 ||
            a->offset_bytes + a->size_bytes > g->arena_bytes)
            return TCC_BUG(diag, "%s lies at %lld, outside the arena of %lld bytes or badly aligned",
                           tcc_plan_value_text(g, a), (long long)a->offset_bytes, (long long)g->arena_bytes);
        for (int k = i + 1; k < plan->values.count; k++) {
            const tcc_plan_value *b = &plan->values.data[k];
            if (a->last < b->first || b->last < a->first || !share_memory(a, b)) continue;
            if (in_place(plan, a, b) || in_place(plan, b, a)) continue;
            tcc_status status = TCC_BUG(diag, "%s (launches %d to %d) shares memory with", tcc_plan_value_text(g, a),
                                        a->first, a->last);
            tcc_note(diag, TCC_NOWHERE, "%s (launches %d to %d)", tcc_plan_value_text(g, b), b->first, b->last);
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

tcc_status check_plan(const tcc_graph *g, tcc_diag *diag) {
    tcc_plan plan;
    TCC_TRY(tcc_plan_read(g, &plan, diag));
    tcc_status status = check_values(g, &plan, diag);
    if (status == TCC_OK) status = check_outputs(g, &plan, diag);
    tcc_plan_free(&plan);
    return status;
}
