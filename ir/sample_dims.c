/* SPDX-License-Identifier: MIT
 * Which dims of a graph an op takes index by index, and which operand's dim goes with which of the result. What is not
 * listed here stays whole. */
#include "ir/sample_dims.h"
#include "ir/sdpa.h"
#include "ir/support/integers.h"

static tcc_sample_dim *at(tcc_sample *s, const tcc_node *n, int dim) { return &s->dims[n->id * TCC_MAX_RANK + dim]; }

tcc_sample_dim *tcc__sample_dim(const tcc_sample *s, const tcc_node *n, int dim) {
    tcc_sample_dim *x = at((tcc_sample *)s, n, dim);
    while (&s->dims[x->parent] != x) x = &s->dims[x->parent];
    return x;
}

static void keep(tcc_sample *s, const tcc_node *n, int dim) { tcc__sample_dim(s, n, dim)->units = 1; }

static void keep_all(tcc_sample *s, const tcc_node *n) {
    for (int d = 0; d < n->type.rank; d++) keep(s, n, d);
}

/* It has no more than so many blocks. */
static void cut(tcc_sample *s, const tcc_node *n, int dim, int64_t blocks) {
    tcc_sample_dim *x = tcc__sample_dim(s, n, dim);
    x->units = tcc_gcd(x->units, blocks);
}

/* They have the same blocks, as many as go into both extents. */
static void join(tcc_sample *s, const tcc_node *a, int i, const tcc_node *b, int k) {
    tcc_sample_dim *x = tcc__sample_dim(s, a, i), *y = tcc__sample_dim(s, b, k);
    if (x == y) return;
    x->units = tcc_gcd(x->units, y->units);
    y->parent = (int)(x - s->dims);
}

/* They have the same indices. */
static void tie(tcc_sample *s, const tcc_node *a, int i, const tcc_node *b, int k) {
    if (a->type.dims[i] == b->type.dims[k]) join(s, a, i, b, k);
    else keep(s, a, i), keep(s, b, k);
}

/* All dims of equal place, but for `axis` (-1: none), which stays whole. */
static void tie_all(tcc_sample *s, const tcc_node *a, const tcc_node *b, int axis) {
    for (int d = 0; d < a->type.rank; d++)
        if (d != axis) tie(s, a, d, b, d);
        else keep(s, a, d), keep(s, b, d);
}

/* -- Views -- */

/* The dims of each run that both shapes cut otherwise: the first ones go together as far as both have the same blocks.
 */
static void reshape(tcc_sample *s, const tcc_node *n) {
    const tcc_node *x = n->operands[0];
    const tcc_type *a = &x->type, *b = &n->type;
    int i = 0, k = 0;
    while (i < a->rank || k < b->rank) {
        int first_i = -1, first_k = -1;
        int64_t size_i = 1, size_k = 1;
        do { /* the shorter side grows; extents of 1 belong to no run */
            const bool left = k == b->rank || (i < a->rank && size_i <= size_k);
            const tcc_type *type = left ? a : b;
            int *d = left ? &i : &k, *first = left ? &first_i : &first_k;
            if (type->dims[*d] > 1 && *first < 0) *first = *d;
            else keep(s, left ? x : n, *d);
            *(left ? &size_i : &size_k) *= type->dims[(*d)++];
        } while ((size_i != size_k || (size_i == 1)) && (i < a->rank || k < b->rank));
        if (first_i >= 0 && first_k >= 0) join(s, x, first_i, n, first_k);
        else if (first_i >= 0) keep(s, x, first_i);
        else if (first_k >= 0) keep(s, n, first_k);
    }
}

static void view(tcc_sample *s, const tcc_node *n) {
    const tcc_node *x = n->operands[0];
    const tcc_attrs *a = n->attrs;
    if (n->op == TCC_OP_RESHAPE) {
        reshape(s, n);
        return;
    }
    if (n->op == TCC_OP_CONCAT) {
        for (int k = 0; k < n->n_operands; k++) tie_all(s, n, n->operands[k], (int)a->axis.axis);
        return;
    }
    for (int d = 0; d < x->type.rank; d++) {
        int to = d;
        bool whole = false;
        switch (n->op) {
        case TCC_OP_TRANSPOSE: to = tcc_dims_find(&a->perm.perm, d); break;
        case TCC_OP_BROADCAST:
            to = (int)a->broadcast.dims.v[d];
            if (x->type.dims[d] != n->type.dims[to]) continue; /* 1: the result's may be any */
            break;
        case TCC_OP_SLICE: whole = x->type.dims[d] != n->type.dims[d]; break;
        case TCC_OP_PAD: whole = x->type.dims[d] != n->type.dims[d]; break;
        case TCC_OP_FLIP: whole = tcc_dims_has(&a->axes.axes, d); break;
        default: whole = true; break;
        }
        if (whole) keep(s, x, d), keep(s, n, to);
        else tie(s, x, d, n, to);
    }
}

/* -- Indices -- */

/* Result (or updates) x[:axis] + i + x[axis + 1:]. */
static void tie_slices(tcc_sample *s, const tcc_node *x, const tcc_node *index, const tcc_node *slices, int axis,
                       bool ties_index) {
    const int more = index->type.rank - 1;
    keep(s, x, axis);
    for (int d = 0; d < x->type.rank; d++)
        if (d != axis) tie(s, x, d, slices, d < axis ? d : d + more);
    for (int d = 0; d < index->type.rank; d++)
        if (ties_index) tie(s, index, d, slices, axis + d);
        else keep(s, index, d), keep(s, slices, axis + d);
}

static void by_index(tcc_sample *s, const tcc_node *n) {
    const tcc_node *x = n->operands[0], *index = n->operands[1];
    const int axis = (int)n->attrs->axis.axis;
    switch (n->op) {
    case TCC_OP_TAKE: tie_slices(s, x, index, n, axis, true); return;
    case TCC_OP_TAKE_ALONG:
        keep(s, x, axis);
        for (int d = 0; d < n->type.rank; d++) {
            tie(s, n, d, index, d);
            if (d != axis) tie(s, n, d, x, d);
        }
        return;
    case TCC_OP_SCATTER_ADD_ALONG:
    case TCC_OP_SCATTER_ALONG:
        for (int k = 0; k < n->n_operands; k++) tie_all(s, n, n->operands[k], axis);
        return;
    default: /* of whole slices */
        tie_all(s, n, x, axis);
        tie_slices(s, x, index, n->operands[2], axis, false);
        return;
    }
}

/* -- Sums -- */

static void reduce(tcc_sample *s, const tcc_node *n) {
    const tcc_node *x = n->operands[0];
    const tcc_dims argmax = {1, {n->op == TCC_OP_ARGMAX ? n->attrs->axis.axis : 0}};
    const tcc_dims *axes = n->op == TCC_OP_ARGMAX ? &argmax : &n->attrs->axes.axes;
    for (int d = 0, to = 0; d < x->type.rank; d++)
        if (tcc_dims_has(axes, d)) keep(s, x, d);
        else tie(s, x, d, n, to++);
}

static void dot(tcc_sample *s, const tcc_node *n) {
    const tcc_attrs_dot *a = &n->attrs->dot;
    const tcc_dims *batch[] = {&a->batch_a, &a->batch_b}, *contract[] = {&a->contract_a, &a->contract_b};
    int to = a->batch_a.count;
    for (int k = 0; k < 2; k++) {
        const tcc_node *x = n->operands[k];
        for (int i = 0; i < batch[k]->count; i++) tie(s, x, (int)batch[k]->v[i], n, i);
        for (int d = 0; d < x->type.rank; d++)
            if (tcc_dims_has(contract[k], d)) keep(s, x, d);
            else if (!tcc_dims_has(batch[k], d)) tie(s, x, d, n, to++);
    }
}

/* The place of channels in an image; those of a kernel that belong to the image's are at the same place. */
static int channels(const tcc_node *image, bool last) { return last ? image->type.rank - 1 : 1; }

static void keep_space(tcc_sample *s, const tcc_node *image, bool last) {
    for (int d = 1; d < image->type.rank; d++)
        if (d != channels(image, last)) keep(s, image, d);
}

static void conv(tcc_sample *s, const tcc_node *n) {
    const bool last = n->attrs->conv.channels_last;
    const int c = channels(n, last);
    /* image, kernel, result of the convolution */
    const tcc_node *a = n->operands[0], *b = n->operands[1];
    const tcc_node *x = n->op == TCC_OP_CONV_GRAD_INPUT ? n : a,
                   *y = n->op == TCC_OP_CONV              ? n
                        : n->op == TCC_OP_CONV_GRAD_INPUT ? a
                                                          : b,
                   *w = n->op == TCC_OP_CONV_GRAD_WEIGHT ? n : b;
    const tcc_node *all[] = {x, y, w};
    for (int i = 0; i < 3; i++) keep_space(s, all[i], last);
    if (n->op == TCC_OP_CONV_GRAD_WEIGHT) keep(s, x, 0), keep(s, y, 0);
    else tie(s, x, 0, y, 0);
    if (n->attrs->conv.groups > 1) { /* whole groups */
        cut(s, x, c, n->attrs->conv.groups);
        join(s, x, c, y, c);
        join(s, x, c, w, 0);
        keep(s, w, c);
        return;
    }
    if (n->op == TCC_OP_CONV) keep(s, x, c), keep(s, w, c);
    else tie(s, x, c, w, c);
    if (n->op == TCC_OP_CONV_GRAD_INPUT) keep(s, y, c), keep(s, w, 0);
    else tie(s, y, c, w, 0);
}

static void window(tcc_sample *s, const tcc_node *n) {
    const tcc_attr_class class = tcc_op_get_info(n->op)->attrs;
    const bool last = class == TCC_ATTR_CLASS_pool ? n->attrs->pool.channels_last : n->attrs->resize.channels_last;
    keep_space(s, n, last);
    for (int k = 0; k < n->n_operands; k++) {
        keep_space(s, n->operands[k], last);
        tie(s, n, 0, n->operands[k], 0);
        tie(s, n, channels(n, last), n->operands[k], channels(n, last));
    }
}

/* The dim of operand k that goes with the rows of the result, which are queries, or keys in gradients by k and v; -1:
 * none. */
static int rows_of(const tcc_node *n, int k) {
    const bool by_key = tcc_sdpa_is_by_key(n);
    const int lead = n->operands[0]->type.rank - 2;
    if (tcc_sdpa_mask(n) && k == tcc_op_get_info(n->op)->least) return by_key ? lead + 1 : lead;
    const bool has_keys = k == 1 || k == 2;
    return has_keys == by_key ? lead : -1;
}

/* Heads are apart, but for those in a gradient by keys that they share; and so are the rows of the result. What goes by
 * their positions is told by tcc_node.positions. */
static void attention(tcc_sample *s, const tcc_node *n) {
    const int lead = n->operands[0]->type.rank - 2;
    for (int k = 0; k < n->n_operands; k++)
        for (int d = 0; d < n->operands[k]->type.rank; d++)
            if (n->operands[k] == tcc_sdpa_key(n)) keep(s, n->operands[k], d);
            else if (d == rows_of(n, k)) tie(s, n, lead, n->operands[k], d);
            else if (d >= lead || (n->operands[k]->type.dims[d] == 1 && !tcc_sdpa_is_by_key(n)))
                keep(s, n->operands[k], d);
            else tie(s, n, d, n->operands[k], d);
    for (int d = lead + 1; d < n->type.rank; d++) keep(s, n, d);
}

/* -- All -- */

bool tcc__sample_is_placed(const tcc_node *n) {
    switch (n->op) {
    case TCC_OP_IOTA: return true;
    case TCC_OP_CONSTANT: return n->attrs->constant.values.count > 1;
    case TCC_OP_RNG_BITS:
    case TCC_OP_RNG_UNIFORM:
    case TCC_OP_RNG_NORMAL: return n->operands[0]->op == TCC_OP_INPUT;
    default: return false;
    }
}

static void whole(tcc_sample *s, const tcc_node *n) {
    keep_all(s, n);
    for (int k = 0; k < n->n_operands; k++) keep_all(s, n->operands[k]);
}

void tcc__sample_tie(tcc_sample *s, const tcc_node *n) {
    switch (tcc_op_get_info(n->op)->fusion) {
    case TCC_FUSION_LEAF: return;
    case TCC_FUSION_POINT:
        if (n->op == TCC_OP_IOTA) return;
        if (tcc_op_get_info(n->op)->attrs == TCC_ATTR_CLASS_rng) {
            if (tcc__sample_is_placed(n)) keep_all(s, n->operands[0]);
            else whole(s, n);
            return;
        }
        for (int k = 0; k < n->n_operands; k++) tie_all(s, n, n->operands[k], -1);
        return;
    case TCC_FUSION_VIEW: view(s, n); return;
    case TCC_FUSION_INDEX:
    case TCC_FUSION_SCATTER: by_index(s, n); return;
    case TCC_FUSION_REDUCE: reduce(s, n); return;
    case TCC_FUSION_SCAN:
        for (int k = 0; k < n->n_operands; k++) tie_all(s, n, n->operands[k], (int)n->attrs->scan.axis);
        return;
    case TCC_FUSION_CONTRACT:
        if (n->op == TCC_OP_DOT) dot(s, n);
        else conv(s, n);
        return;
    case TCC_FUSION_WINDOW: window(s, n); return;
    case TCC_FUSION_ATTENTION: attention(s, n); return;
    case TCC_FUSION_COLLECTIVE:
    case TCC_FUSION_COMPOSITE: whole(s, n); return;
    }
}
