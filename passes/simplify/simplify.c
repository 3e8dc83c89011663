/* SPDX-License-Identifier: MIT
 * simplify: rewrites a graph by rules until none applies, and drops dead nodes. Equal nodes never arise, because
 * building finds them.
 *
 * Requirements for a rule:
 * 1. It keeps every result, bit for bit where the interpreter rounds alike: no reassociation of float arithmetic, no
 * x*0 = 0.
 * 2. It moves towards one normal form, so that the rules end: reshapes move towards outputs and merge, broadcasts and
 * slices move towards inputs and merge, transposes go into contractions.
 * 3. It computes nothing twice that was computed once. */
#include "passes/simplify/simplify.h"

#include "ir/support/alloc.h"
#include "passes/pass.h"
#include "passes/select.h"

#include <math.h>
#include <string.h>

static tcc_node *all_rules(tcc_simplifier *s, tcc_node *n) {
    static const tcc_simplify_rule rules[] = {tcc__simplify_fold,    tcc__simplify_point,    tcc__simplify_view,
                                              tcc__simplify_reshape, tcc__simplify_contract, tcc__simplify_window,
                                              tcc__simplify_resize,  tcc__simplify_gather,   tcc__simplify_rows};
    enum { COUNT = sizeof rules / sizeof rules[0] };
    for (int i = 0; n && i < COUNT && tcc_op_get_info(n->op)->fusion != TCC_FUSION_LEAF; i++) {
        tcc_ir_set_origin(s->g, n);
        tcc_node *simpler = rules[i](s, n);
        if (s->g->diag->status != TCC_OK) return NULL;
        if (!simpler || simpler == n) continue;
        n = simpler;
        i = -1;
    }
    return n;
}

/* How often each node of `g` is used, outputs included. NULL when memory is short. */
static int *count_uses(const tcc_graph *g, const bool *live) {
    int *uses = tcc__calloc((size_t)g->nodes.count + 1, sizeof *uses);
    if (!uses) return NULL;
    for (int i = 0; i < g->nodes.count; i++)
        for (int k = 0; live[i] && k < g->nodes.data[i]->n_operands; k++) uses[g->nodes.data[i]->operands[k]->id]++;
    for (int i = 0; i < g->outputs.count; i++) uses[g->outputs.data[i].node->id]++;
    return uses;
}

enum { MOST_COUNTED = 8 }; /* operands of which a rule may ask for the number of users */

/* One round over the live nodes; with `rules` off it only drops the dead ones. */
static tcc_status round_over(const tcc_graph *in, bool rules, bool vectors, bool *changed, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    int *uses = count_uses(in, rw.live);
    if (!uses) {
        tcc_rewrite_abort(&rw);
        return tcc_enomem(in->diag);
    }
    tcc_simplifier s = {.all = all_rules, .g = rw.to, .vectors = vectors};
    for (int i = 0; i < in->nodes.count && in->diag->status == TCC_OK; i++) {
        const tcc_node *old = in->nodes.data[i];
        if (!rw.live[i] || rw.map[i]) continue;
        tcc_node *copy = tcc_rewrite_copy(&rw, old);
        if (!rules || !copy) continue;
        s.counted = copy;
        s.once = 0;
        for (int k = 0; k < old->n_operands && k < MOST_COUNTED; k++)
            s.once |= (unsigned)(uses[old->operands[k]->id] == 1) << k;
        rw.map[i] = all_rules(&s, copy);
        *changed |= rw.map[i] != copy;
    }
    tcc__free(uses);
    return tcc_rewrite_end(&rw, out);
}

tcc_status tcc_pass_simplify(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    enum { MOST_ROUNDS = 16 }; /* a bound for rules that do not end; more than three rounds were never seen */
    const bool vectors = cx->options->target && cx->options->target->lanes > 0;
    tcc_graph *g = NULL;
    bool changed = true;
    for (int i = 0; i < MOST_ROUNDS && changed; i++) {
        tcc_graph *next = NULL;
        changed = false;
        tcc_status status = round_over(g ? g : in, true, vectors, &changed, &next);
        tcc_graph_destroy(g);
        TCC_TRY(status);
        g = next;
    }
    tcc_status status = round_over(g, false, vectors, &changed, out);
    tcc_graph_destroy(g);
    return status;
}
