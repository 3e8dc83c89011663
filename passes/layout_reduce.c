/* SPDX-License-Identifier: MIT
 * Reductions of values whose channels are at the end.
 *
 * A sum over the channels of a group and over pixels is taken over the pixels first: so vectors run along all channels,
 * and the channels' sums, which are few, are added up behind. A group's mean is that of its channels' means, and its M2
 * is the sum of theirs and of what their means differ by (Chan et al. 1983). */
#include "ir/build.h"
#include "passes/layout.h"

/* A reduction of channels in groups, dims 1 and 2 of the plain operand. */
typedef struct grouped {
    tcc_graph *g;
    const tcc_node *old;
    tcc_dims pixels;               /* axes beside the channels, in last form */
    int kept[TCC_MAX_RANK], count; /* dims of the plain operand that are kept, as the last form has them in order */
    bool keeps[2];                 /* the groups; and the channels of a group */
} grouped;

/* x has the dims `kept` of the plain operand; now in ascending order. */
static tcc_node *in_order(tcc_graph *g, tcc_node *x, const int *kept, int count) {
    int perm[TCC_MAX_RANK];
    bool ascending = true;
    for (int i = 0; i < count; i++) {
        int smaller = 0;
        for (int m = 0; m < count; m++) smaller += kept[m] < kept[i];
        perm[smaller] = i;
        ascending &= smaller == i;
    }
    return ascending ? x : tcc_ir_transpose(g, x, perm);
}

/* Each channel has a dim of its own in x. */
static tcc_node *reduce_apart(tcc_graph *g, const tcc_node *old, tcc_node *x, int k) {
    const int rank = old->operands[0]->type.rank;
    tcc_dims axes = {0};
    int kept[TCC_MAX_RANK], count = 0;
    for (int i = 0; i < rank; i++) {
        const int d = tcc_layout_dim(rank, k, i);
        if (tcc_dims_has(&old->attrs->axes.axes, d)) axes.v[axes.count++] = i;
        else kept[count++] = d;
    }
    return in_order(g, tcc_ir_reduce(g, old->op, x, &axes), kept, count);
}

static grouped read(tcc_graph *g, const tcc_node *old) {
    const int rank = old->operands[0]->type.rank;
    const tcc_dims *axes = &old->attrs->axes.axes;
    grouped r = {.g = g, .old = old};
    for (int i = 0; i < rank; i++) {
        const int d = tcc_layout_dim(rank, 2, i);
        const bool reduced = tcc_dims_has(axes, d);
        if (!reduced) r.kept[r.count++] = d;
        if (d == 1 || d == 2) r.keeps[d - 1] = !reduced;
        else if (reduced) r.pixels.v[r.pixels.count++] = i;
    }
    return r;
}

/* x, with the kept dims beside the channels, and then groups and channels as far as they are `there`. */
static tcc_node *reshape(const grouped *r, tcc_node *x, bool groups, bool channels) {
    const int64_t *from = r->old->operands[0]->type.dims;
    int64_t dims[TCC_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < r->count; i++)
        if (r->kept[i] != 1 && r->kept[i] != 2) dims[rank++] = from[r->kept[i]];
    if (groups) dims[rank++] = from[1];
    if (channels) dims[rank++] = from[2];
    return tcc_ir_reshape(r->g, x, rank, dims);
}

/* Over the pixels, and then over the groups or over the channels of each. */
static tcc_node *reduce_twice(const grouped *r, tcc_node *x) {
    const tcc_op op = r->old->op;
    const int others = r->count - 1; /* beside the one that is kept */
    const tcc_dims last = {.count = 1, .v = {r->keeps[0] ? others + 1 : others}};
    tcc_node *each = reshape(r, tcc_ir_reduce(r->g, op, x, &r->pixels), true, true);
    if (op != TCC_OP_REDUCE_M2) return tcc_ir_reduce(r->g, op, each, &last);
    double pixels = 1;
    for (int i = 0; i < r->pixels.count; i++) pixels *= (double)(x ? x->type.dims[r->pixels.v[i]] : 1);
    tcc_node *means = reshape(r, tcc_ir_reduce(r->g, TCC_OP_REDUCE_MEAN, x, &r->pixels), true, true);
    tcc_node *apart = tcc_ir_binary_c(r->g, TCC_OP_MUL, tcc_ir_reduce(r->g, op, means, &last), pixels);
    return tcc_ir_binary(r->g, TCC_OP_ADD, tcc_ir_reduce(r->g, TCC_OP_REDUCE_SUM, each, &last), apart);
}

tcc_node *tcc_layout_reduce(tcc_graph *g, const tcc_node *old, tcc_node *x, int k) {
    if (!x || k == 1) return x ? reduce_apart(g, old, x, k) : NULL;
    const tcc_type *plain = &old->operands[0]->type;
    grouped r = read(g, old);
    /* A dim of one element is both kept and reduced. */
    const bool all = (r.keeps[0] || plain->dims[1] == 1) && (r.keeps[1] || plain->dims[2] == 1);
    const bool none = (!r.keeps[0] || plain->dims[1] == 1) && (!r.keeps[1] || plain->dims[2] == 1);
    if (none && !all) r.pixels.v[r.pixels.count++] = x->type.rank - 1;
    const bool one = (all || none) && r.pixels.count;
    /* What has fewer bits is rounded once. */
    const bool twice = !(all || none) && r.pixels.count && !tcc_dtype_is_narrow(x->type.dtype);
    if (!one && !twice) {
        int64_t dims[TCC_MAX_RANK];
        for (int i = 0; i < plain->rank; i++) dims[i] = plain->dims[tcc_layout_dim(plain->rank, k, i)];
        return reduce_apart(g, old, tcc_ir_reshape(g, x, plain->rank, dims), k);
    }
    tcc_node *result = one ? reshape(&r, tcc_ir_reduce(g, old->op, x, &r.pixels), r.keeps[0], r.keeps[1])
                           : reduce_twice(&r, x);
    return in_order(g, result, r.kept, r.count);
}
