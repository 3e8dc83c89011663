/* SPDX-License-Identifier: MIT
 * fuse: groups of attention, and which of its gradients one kernel computes. */
#include "passes/fuse/draft.h"

#include "ir/sdpa.h"

static bool is_hero(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_ATTENTION; }

/* Heroes of one kernel work on the same operands. */
static bool same_attention(const tcc_node *a, const tcc_node *b) {
    static const tcc_op forward[] = {TCC_OP_SDPA, TCC_OP_SDPA_LSE};
    bool forward_a = a->op == forward[0] || a->op == forward[1], forward_b = b->op == forward[0] || b->op == forward[1];
    const tcc_attrs_sdpa *x = &a->attrs->sdpa, *y = &b->attrs->sdpa;
    if (forward_a != forward_b || x->scale != y->scale || x->causal != y->causal) return false;
    if (!forward_a) {
        if (x->p != y->p || x->id != y->id) return false;
        for (int i = 0; i < a->n_operands; i++)
            if (i >= b->n_operands || a->operands[i] != b->operands[i]) return false;
        return a->n_operands == b->n_operands;
    }
    return a->operands[0] == b->operands[0] && a->operands[1] == b->operands[1] && tcc_sdpa_mask(a) == tcc_sdpa_mask(b);
}

/* A stored concat of all that the group makes: of each hero once, its rows whole, so that it is written where it
 * belongs. */
static bool packs_heroes(const tcc_draft *d, const tcc_draft_scratch *s, int at) {
    const tcc_node *concat = d->nodes[at];
    int heroes = 0, stored = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        heroes += is_hero(d->nodes[i]);
        stored += d->stored[i];
    }
    if (!d->stored[at] || stored != 1 || heroes != concat->n_operands) return false;
    for (int i = 0; i < concat->n_operands; i++) {
        const tcc_node *n = concat->operands[i];
        for (int k = 0; k < i; k++)
            if (concat->operands[k] == n) return false;
        if (n->op == TCC_OP_RESHAPE) n = n->operands[0];
        if (n->op == TCC_OP_TRANSPOSE && n->attrs->perm.perm.v[n->type.rank - 1] == n->type.rank - 1)
            n = n->operands[0];
        if (!is_hero(n) || position_of(s, n) < 0) return false;
    }
    return true;
}

bool tcc_draft_check_attention(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    int forward = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        bool full = tcc_draft_reads_full(n, s);
        s->level[i] = full || is_hero(n) ? TCC_LEVEL_FULL : TCC_LEVEL_POINT;
        if (is_hero(n)) {
            if (full) return fail(reason, "attention behind attention");
            if (!same_attention(n, d->hero)) return fail(reason, "attention on other operands");
            forward += n->op == TCC_OP_SDPA; /* values and dropout are not compared with those of sdpa_lse */
            if (forward > 1) return fail(reason, "attention to other values, or with other dropout");
            continue;
        }
        if (n->op == TCC_OP_CONCAT && packs_heroes(d, s, i)) continue;
        bool moves = n->op == TCC_OP_RESHAPE || n->op == TCC_OP_TRANSPOSE ||
                     ((n->op == TCC_OP_SLICE || n->op == TCC_OP_BROADCAST) && !full);
        if (!moves) return fail(reason, "other work than views beside attention");
        if (d->stored[i] && !full) return fail(reason, "an output in front of attention");
    }
    return true;
}
