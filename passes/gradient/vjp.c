/* SPDX-License-Identifier: MIT
 * Helpers of gradient rules, and the rules zero and composite. */
#include "passes/gradient/vjp.h"

#include "ir/decompose.h"
#include "ir/support/alloc.h"

bool tcc__vjp_wants(const tcc_vjp *v, int i) { return v->autodiff->needs[v->y->operands[i]->id]; }

void tcc__gradient_add(tcc_autodiff *a, const tcc_node *x, tcc_node *gradient) {
    tcc_contribution *c = gradient ? TCC_ARENA_NEW(&a->memory, tcc_contribution) : NULL;
    if (!c) {
        if (gradient) tcc_enomem(a->g->diag);
        a->failed = true;
        return;
    }
    c->gradient = gradient;
    if (a->last[x->id]) a->last[x->id]->next = c;
    else a->first[x->id] = c;
    a->last[x->id] = c;
}

void tcc__vjp_give(tcc_vjp *v, int i, tcc_node *gradient) {
    if (!tcc__vjp_wants(v, i)) return;
    const tcc_node *x = v->y->operands[i];
    const tcc_type *type = &x->type;
    if (tcc_ir_rounds_inside(v->y)) gradient = tcc_ir_cast(v->g, gradient, type->dtype);
    if (gradient && !tcc_type_equal(&gradient->type, type)) {
        TCC_BUG(v->g->diag, "the gradient of %s by operand %d is %s, not %s", tcc_node_text(v->y), i,
                tcc_type_text(&gradient->type), tcc_type_text(type));
        gradient = NULL;
    }
    tcc__gradient_add(v->autodiff, x, gradient);
}

tcc_node *tcc__gradient_of(tcc_autodiff *a, tcc_graph *g, const tcc_node *x) {
    tcc_vec(tcc_node *) given = {0};
    tcc_node *sum = NULL;
    bool complete = true;
    if (!a->first[x->id]) return NULL;
    for (const tcc_contribution *c = a->first[x->id]; c && complete; c = c->next)
        complete = tcc_vec_push(&given, c->gradient);
    if (complete) sum = tcc__gradient_sum(g, given.data, given.count);
    else tcc_enomem(a->g->diag);
    tcc_vec_free(&given);
    a->failed |= !sum;
    return sum;
}

/* -- Rules that stand for themselves -- */

/* Never called: such nodes need no gradient. */
TCC_VJP_RULE(zero) { (void)v; }

/* Never called: the gradient goes to the definition. */
TCC_VJP_RULE(composite) {
    TCC_BUG(v->g->diag, "a composite has no definition: %s", tcc_node_text(v->y));
    v->autodiff->failed = true;
}
