/* SPDX-License-Identifier: MIT
 * fuse: what a group costs. The unit is a byte of memory traffic. Arithmetic on vectors is counted by the traffic that
 * takes as long on a CPU whose cores share a few bytes a cycle; a GPU has more arithmetic for its bandwidth, so there
 * the figures err on the side of storing. */
#include "passes/fuse.h"
#include "passes/group.h"

/* Of those cores. */
static const double bytes_a_ns = 16.384;

/* The traffic that takes as long as one simple instruction for each element. */
static const double instruction_bytes = 0.4;

static bool draws(tcc_op op) { return op == TCC_OP_RNG_BITS || op == TCC_OP_RNG_UNIFORM || op == TCC_OP_RNG_NORMAL; }

/* Random draws are recomputed wherever they are needed, since a stored mask would live from forward to backward. */
double tcc_op_cost(tcc_op op) { return draws(op) ? 0 : instruction_bytes * tcc_op_get_info(op)->cost; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* How often each node is evaluated: as often as its most frequent user, and an operand of a hero or a stored node once
 * an element. */
static void count_evaluations(const tcc_draft *d, tcc_draft_scratch *s) {
    for (int i = 0; i < d->n_nodes; i++) s->times[i] = d->stored[i] ? tcc_type_numel(&d->nodes[i]->type) : 1;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        const bool passes = tcc_is_elementwise(n);
        for (int k = 0; k < n->n_operands; k++) {
            int p = s->position[n->operands[k]->id];
            if (p < 0) continue;
            bool once = !passes || (s->level[p] == TCC_LEVEL_KEPT && s->level[i] == TCC_LEVEL_FULL);
            s->times[p] = larger(s->times[p], once ? tcc_type_numel(&n->operands[k]->type) : s->times[i]);
        }
    }
}

static int64_t tiles(int64_t rows) {
    enum { TILE = 128 }; /* rows or columns of the result that a block of threads makes */
    return rows <= TILE ? 1 : (rows + TILE - 1) / TILE;
}

/* A tile of an image is read once for each element of the kernel. */
static int64_t repeats_of_conv(const tcc_node *hero, int k) {
    const bool last = hero->attrs->conv.channels_last;
    const tcc_node *w = hero->op == TCC_OP_CONV_GRAD_WEIGHT ? hero : hero->operands[1];
    const int spatial = w->type.rank - 2, first = last ? 1 : 2;
    int64_t taps = 1, pixels = hero->type.dims[0];
    for (int i = first; i < first + spatial; i++) taps *= w->type.dims[i], pixels *= hero->type.dims[i];
    const int64_t out = w->type.dims[0], in = w->type.dims[last ? spatial + 1 : 1];
    switch (hero->op) {
    case TCC_OP_CONV: return k ? tiles(pixels) : taps * tiles(out);
    case TCC_OP_CONV_GRAD_INPUT: return k ? tiles(pixels) : taps * tiles(in);
    default: return k ? tiles(in * taps) : taps * tiles(out);
    }
}

int64_t tcc_draft_repeats(const tcc_node *hero, int k) {
    if (hero->op != TCC_OP_DOT) return repeats_of_conv(hero, k);
    const tcc_type *own = &hero->operands[k]->type;
    const tcc_dims *summed = k ? &hero->attrs->dot.contract_b : &hero->attrs->dot.contract_a;
    int64_t free = 1, others = tcc_type_numel(&hero->type);
    for (int i = 0; i < own->rank; i++) {
        bool contracted = false;
        for (int c = 0; c < summed->count; c++) contracted = contracted || summed->v[c] == i;
        if (!contracted) free *= own->dims[i];
    }
    others = free ? others / free : 1; /* of the result's dims, those that the operand has not */
    return tiles(others);
}

/* What a prologue costs beyond doing its work once for each element. Let it have n elements of w bytes. Storing them
 * means to write and to read them: fusing saves 2 n w and a launch. With r repeats fusing costs (r - 1) n (work + half
 * of the bytes by which its tensors exceed w), since those mostly come from the cache. So in f32 a scaling pays for
 * itself up to 20 repeats (2560 columns); a gradient of ReLU, which reads 4 bytes more, up to 3; a random mask or an
 * exponential only where nothing is repeated. */
static double cost_of_repeats(const tcc_draft *d, const tcc_draft_scratch *s) {
    static const double cached = 0.5;
    int64_t repeats[TCC_FUSE_MAX_NODES] = {0};
    double work = 0, bytes = 0;
    bool computes = false;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        const bool hero = n == d->hero;
        if (!hero && !repeats[i]) continue;
        if (!hero && tcc_type_numel(&n->type) > 1 && tcc_fusion_of(n) == TCC_FUSION_POINT)
            work += (double)(repeats[i] - 1) * (double)tcc_type_numel(&n->type) * instruction_bytes *
                    tcc_op_get_info(n->op)->cost,
                computes = true;
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            const int p = s->position[x->id];
            const int64_t again = hero ? tcc_draft_repeats(n, k) : repeats[i];
            if (p >= 0) repeats[p] = larger(repeats[p], again);
            double read = (double)tcc_dtype_bytes(x->type.dtype) *
                          (double)tcc_type_numel(n->op == TCC_OP_SLICE ? &n->type : &x->type);
            if (hero) bytes -= p >= 0 ? (double)(again - 1) * read : 0;
            else if (p < 0 && x->op != TCC_OP_CONSTANT) bytes += (double)(again - 1) * read;
        }
    }
    return computes ? work + cached * (bytes > 0 ? bytes : 0) : 0;
}

/* Counts in s->loaded, by node, the bytes of each input that the draft's nodes read. */
static void count_loads(const tcc_draft *d, tcc_draft_scratch *s) {
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            const tcc_node *n = d->nodes[i], *x = n->operands[k];
            if (x->op == TCC_OP_CONSTANT || s->position[x->id] >= 0) continue;
            bool part = n->op == TCC_OP_SLICE || (tcc_fusion_of(n) == TCC_FUSION_INDEX && k == 0);
            s->loaded[x->id] += (double)tcc_type_numel(part ? &n->type : &x->type) * tcc_dtype_bytes(x->type.dtype);
        }
}

static bool moves_last_dim(const tcc_node *n) {
    const tcc_dims *perm = &n->attrs->perm.perm;
    return n->op == TCC_OP_TRANSPOSE && perm->v[perm->count - 1] != perm->count - 1;
}

double tcc_draft_cost(const tcc_draft *d, tcc_draft_scratch *s) {
    const double launch = TCC_LAUNCH_NS * bytes_a_ns;
    const double hoisted = 1.0 / 4096; /* a scalar is computed once a work item, not in the loop */
    double cost = launch;
    count_evaluations(d, s);
    count_loads(d, s);
    if (d->kind == TCC_GROUP_CONTRACT) cost += cost_of_repeats(d, s);
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) cost += (double)tcc_type_bytes(&n->type);
        double work = tcc_op_cost(n->op) * (double)s->times[i] * s->contexts[i];
        cost += tcc_type_numel(&n->type) == 1 ? hoisted * work : work;
        bool strided = moves_last_dim(n) && (d->kind == TCC_GROUP_POINTWISE || d->kind == TCC_GROUP_REDUCE);
        if (strided) cost += (double)tcc_type_bytes(&n->type);
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            const double all = (double)tcc_type_bytes(&x->type), read = s->loaded[x->id];
            cost += read < all ? read : all; /* once: at the first of its readers */
            s->loaded[x->id] = 0;
        }
    }
    return cost;
}
