/* SPDX-License-Identifier: MIT
 * fuse: what a group costs. The unit is a byte of memory traffic. Arithmetic on vectors is counted by the traffic that takes as long
 * on a CPU whose cores share a few bytes a cycle; a GPU has more arithmetic for its bandwidth, so there the figures err on the side
 * of storing. */
#include "passes/fuse.h"

double tcc_op_cost(tcc_op op) {
    static const double copy_like = 0.1, cheap = 0.4, division = 2, transcendental = 12, power = 24;
    switch (op) {
    case TCC_OP_EXP:
    case TCC_OP_EXPM1:
    case TCC_OP_LOG:
    case TCC_OP_LOG1P:
    case TCC_OP_SIN:
    case TCC_OP_COS:
    case TCC_OP_TANH:
    case TCC_OP_SIGMOID:
    case TCC_OP_ERF:
    case TCC_OP_GELU_TANH:
    case TCC_OP_GELU_TANH_GRAD: return transcendental;
    case TCC_OP_POW: return power;
    case TCC_OP_DIV:
    case TCC_OP_REM:
    case TCC_OP_SQRT:
    case TCC_OP_RSQRT: return division;
    /* Random draws are made again wherever they are needed: a mask that is stored lives from forward to backward. */
    case TCC_OP_RNG_BITS:
    case TCC_OP_RNG_UNIFORM:
    case TCC_OP_RNG_NORMAL:
    case TCC_OP_IOTA:
    case TCC_OP_RESHAPE:
    case TCC_OP_BROADCAST:
    case TCC_OP_TRANSPOSE: return 0;
    case TCC_OP_SLICE:
    case TCC_OP_FLIP: return copy_like;
    default: return cheap;
    }
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* How often each node is evaluated: as often as its most frequent user, and an operand of a hero or a stored node once an element. */
static void count_evaluations(const tcc_draft *d, tcc_draft_scratch *s) {
    for (int i = 0; i < d->n_nodes; i++) s->times[i] = d->stored[i] ? tcc_type_numel(&d->nodes[i]->type) : 1;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        tcc_fusion_class fusion = tcc_fusion_of(n);
        bool passes = fusion == TCC_FUSION_POINT || fusion == TCC_FUSION_VIEW || fusion == TCC_FUSION_INDEX;
        for (int k = 0; k < n->n_operands; k++) {
            int p = s->position[n->operands[k]->id];
            if (p < 0) continue;
            bool once = !passes || (s->level[p] == TCC_LEVEL_KEPT && s->level[i] == TCC_LEVEL_FULL);
            s->times[p] = larger(s->times[p], once ? tcc_type_numel(&n->operands[k]->type) : s->times[i]);
        }
    }
}

/* Bytes of input `x` that the draft's nodes read, at most all of it. */
static double bytes_loaded(const tcc_draft *d, const tcc_node *x) {
    double all = (double)tcc_type_bytes(&x->type), read = 0;
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            const tcc_node *n = d->nodes[i];
            if (n->operands[k] != x) continue;
            bool part = n->op == TCC_OP_SLICE || (tcc_fusion_of(n) == TCC_FUSION_INDEX && k == 0);
            read += part ? (double)tcc_type_numel(&n->type) * tcc_dtype_bytes(x->type.dtype) : all;
        }
    return read < all ? read : all;
}

static bool moves_last_dim(const tcc_node *n) {
    const tcc_dims *perm = &n->attrs->perm.perm;
    return n->op == TCC_OP_TRANSPOSE && perm->v[perm->count - 1] != perm->count - 1;
}

double tcc_draft_cost(const tcc_draft *d, tcc_draft_scratch *s) {
    const double launch = 32768; /* starting the threads on a kernel and waiting for them: two microseconds */
    const double hoisted = 1.0 / 4096; /* a scalar is computed once a work item, not in the loop */
    enum { OUTSIDE = -1, COUNTED = -2 }; /* values of scratch->position for inputs */
    double cost = launch;
    count_evaluations(d, s);
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) cost += (double)tcc_type_bytes(&n->type);
        double work = tcc_op_cost(n->op) * (double)s->times[i] * s->contexts[i];
        cost += tcc_type_numel(&n->type) == 1 ? hoisted * work : work;
        bool strided = moves_last_dim(n) && (d->kind == TCC_GROUP_POINTWISE || d->kind == TCC_GROUP_REDUCE);
        if (strided) cost += (double)tcc_type_bytes(&n->type);
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            if (x->op == TCC_OP_CONSTANT || s->position[x->id] != OUTSIDE) continue;
            s->position[x->id] = COUNTED;
            cost += bytes_loaded(d, x);
        }
    }
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            int *position = &s->position[d->nodes[i]->operands[k]->id];
            if (*position == COUNTED) *position = OUTSIDE;
        }
    return cost;
}
