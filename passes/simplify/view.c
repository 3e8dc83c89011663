/* SPDX-License-Identifier: MIT
 * simplify: views of views. Transposes, slices, pads, flips and concats merge with their like; broadcasts and slices
 * move towards inputs, so that work is done on the small side. */
#include "passes/simplify/simplify.h"

#include <string.h>

/* The builder of views from lists, simplified. */
static tcc_node *build(tcc_simplifier *s, tcc_op op, tcc_node *x, const tcc_attrs *attrs, const tcc_type *type) {
    if (!x) return NULL;
    return tcc__simplify(s, tcc_ir_build(s->g, op, &x, 1, attrs, type, TCC_NOWHERE));
}

static tcc_node *reshape_to(tcc_simplifier *s, tcc_node *x, const tcc_type *type) {
    return tcc__simplify(s, tcc_ir_reshape(s->g, x, type->rank, type->dims));
}

/* -- Transpose -- */

static tcc_node *simplify_transpose(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    const tcc_dims *perm = &n->attrs->perm.perm;
    /* Dims of 1 may go anywhere: what is left in order is a reshape. */
    int64_t last = -1;
    bool in_order = true;
    for (int i = 0; i < perm->count; i++) {
        if (n->type.dims[i] == 1) continue;
        in_order &= perm->v[i] > last;
        last = perm->v[i];
    }
    if (in_order) return reshape_to(s, x, &n->type);
    if (x->op == TCC_OP_TRANSPOSE) {
        tcc_attrs attrs = {.perm.perm.count = perm->count};
        for (int i = 0; i < perm->count; i++) attrs.perm.perm.v[i] = x->attrs->perm.perm.v[perm->v[i]];
        return build(s, TCC_OP_TRANSPOSE, x->operands[0], &attrs, NULL);
    }
    if (x->op == TCC_OP_BROADCAST) {
        /* Operand dim i went to result dim dims[i]; now that is at position where perm has it. Ascending order needs a
         * transpose of the operand. */
        const tcc_dims *dims = &x->attrs->broadcast.dims;
        tcc_attrs order = {.perm.perm.count = dims->count}, attrs = {.broadcast.dims.count = dims->count};
        int count = 0;
        for (int i = 0; i < perm->count; i++) {
            int from = tcc_dims_find(dims, perm->v[i]);
            if (from < 0) continue;
            order.perm.perm.v[count] = from;
            attrs.broadcast.dims.v[count++] = i;
        }
        tcc_node *small = dims->count ? build(s, TCC_OP_TRANSPOSE, x->operands[0], &order, NULL) : x->operands[0];
        return build(s, TCC_OP_BROADCAST, small, &attrs, &n->type);
    }
    return NULL;
}

/* -- Broadcast: in normal form its operand has no dim of 1 -- */

static tcc_node *simplify_broadcast(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    const tcc_dims *dims = &n->attrs->broadcast.dims;
    if (tcc_type_numel(&x->type) == tcc_type_numel(&n->type)) return reshape_to(s, x, &n->type);
    tcc_type kept = {.dtype = x->type.dtype};
    tcc_attrs attrs = {0};
    for (int i = 0; i < x->type.rank; i++) {
        if (x->type.dims[i] == 1) continue;
        kept.dims[kept.rank++] = x->type.dims[i];
        attrs.broadcast.dims.v[attrs.broadcast.dims.count++] = dims->v[i];
    }
    if (kept.rank < x->type.rank) return build(s, TCC_OP_BROADCAST, reshape_to(s, x, &kept), &attrs, &n->type);
    if (x->op == TCC_OP_BROADCAST) {
        attrs.broadcast.dims = x->attrs->broadcast.dims;
        for (int i = 0; i < attrs.broadcast.dims.count; i++)
            attrs.broadcast.dims.v[i] = dims->v[attrs.broadcast.dims.v[i]];
        return build(s, TCC_OP_BROADCAST, x->operands[0], &attrs, &n->type);
    }
    return NULL;
}

/* -- Slice -- */

static tcc_node *slice_of_slice(tcc_simplifier *s, tcc_node *x, const tcc_attrs_slice *outer) {
    const tcc_attrs_slice *inner = &x->attrs->slice;
    tcc_attrs attrs = {.slice = *outer};
    for (int i = 0; i < x->type.rank; i++) {
        attrs.slice.stride.v[i] = outer->stride.v[i] * inner->stride.v[i];
        attrs.slice.start.v[i] = inner->start.v[i] + outer->start.v[i] * inner->stride.v[i];
        attrs.slice.limit.v[i] = inner->start.v[i] + (outer->limit.v[i] - 1) * inner->stride.v[i] + 1;
    }
    return build(s, TCC_OP_SLICE, x->operands[0], &attrs, NULL);
}

static tcc_node *slice_of_broadcast(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    const tcc_attrs_slice *slice = &n->attrs->slice;
    const tcc_dims *dims = &x->attrs->broadcast.dims;
    tcc_attrs attrs = {0}, keep = {.broadcast = x->attrs->broadcast};
    for (int i = 0; i < dims->count; i++) {
        attrs.slice.start.v[i] = slice->start.v[dims->v[i]];
        attrs.slice.limit.v[i] = slice->limit.v[dims->v[i]];
        attrs.slice.stride.v[i] = slice->stride.v[dims->v[i]];
    }
    attrs.slice.start.count = attrs.slice.limit.count = attrs.slice.stride.count = dims->count;
    tcc_node *small = dims->count ? build(s, TCC_OP_SLICE, x->operands[0], &attrs, NULL) : x->operands[0];
    return build(s, TCC_OP_BROADCAST, small, &keep, &n->type);
}

/* A slice that lies within one operand of a concat. */
static tcc_node *slice_of_concat(tcc_simplifier *s, tcc_node *n) {
    const tcc_node *x = n->operands[0];
    int64_t axis = x->attrs->axis.axis, begin = 0;
    const tcc_attrs_slice *slice = &n->attrs->slice;
    int64_t first = slice->start.v[axis], last = first + (n->type.dims[axis] - 1) * slice->stride.v[axis];
    for (int i = 0; i < x->n_operands; i++) {
        int64_t end = begin + x->operands[i]->type.dims[axis];
        if (first >= begin && last < end) {
            tcc_attrs attrs = {.slice = *slice};
            attrs.slice.start.v[axis] = first - begin;
            attrs.slice.limit.v[axis] = last + 1 - begin;
            return build(s, TCC_OP_SLICE, x->operands[i], &attrs, NULL);
        }
        begin = end;
    }
    return NULL;
}

/* A slice that takes nothing of the padding. */
static tcc_node *slice_of_pad(tcc_simplifier *s, tcc_node *n) {
    const tcc_node *x = n->operands[0];
    const tcc_attrs_pad *pad = &x->attrs->pad;
    tcc_attrs attrs = {.slice = n->attrs->slice};
    for (int i = 0; i < n->type.rank; i++) {
        int64_t first = attrs.slice.start.v[i] - pad->lo.v[i];
        int64_t last = first + (n->type.dims[i] - 1) * attrs.slice.stride.v[i];
        if (pad->interior.v[i] || first < 0 || last >= x->operands[0]->type.dims[i]) return NULL;
        attrs.slice.start.v[i] = first;
        attrs.slice.limit.v[i] = last + 1;
    }
    return build(s, TCC_OP_SLICE, x->operands[0], &attrs, NULL);
}

static tcc_node *simplify_slice(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    if (tcc_type_same_dims(&x->type, &n->type)) return x;
    /* One past the last element taken is the limit in normal form, and a single element has stride 1. */
    tcc_attrs attrs = {.slice = n->attrs->slice};
    bool normal = true;
    for (int i = 0; i < n->type.rank; i++) {
        int64_t stride = n->type.dims[i] == 1 ? 1 : attrs.slice.stride.v[i];
        int64_t limit = attrs.slice.start.v[i] + (n->type.dims[i] - 1) * stride + 1;
        normal &= stride == attrs.slice.stride.v[i] && limit == attrs.slice.limit.v[i];
        attrs.slice.stride.v[i] = stride;
        attrs.slice.limit.v[i] = limit;
    }
    if (!normal) return build(s, TCC_OP_SLICE, x, &attrs, NULL);
    switch (x->op) {
    case TCC_OP_SLICE: return slice_of_slice(s, x, &n->attrs->slice);
    case TCC_OP_BROADCAST: return slice_of_broadcast(s, n);
    case TCC_OP_CONCAT: return slice_of_concat(s, n);
    case TCC_OP_PAD: return slice_of_pad(s, n);
    default: return NULL;
    }
}

/* -- Pad, flip -- */

static tcc_node *simplify_pad(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    if (tcc_type_same_dims(&x->type, &n->type)) return x;
    if (x->op != TCC_OP_PAD || memcmp(&x->attrs->pad.value, &n->attrs->pad.value, sizeof(double)) != 0) return NULL;
    tcc_attrs attrs = {.pad = x->attrs->pad};
    for (int i = 0; i < n->type.rank; i++) {
        if (n->attrs->pad.interior.v[i]) return NULL;
        attrs.pad.lo.v[i] += n->attrs->pad.lo.v[i];
        attrs.pad.hi.v[i] += n->attrs->pad.hi.v[i];
    }
    return build(s, TCC_OP_PAD, x->operands[0], &attrs, NULL);
}

static tcc_node *simplify_flip(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    const tcc_dims *axes = &n->attrs->axes.axes;
    tcc_attrs attrs = {0};
    /* An axis of extent 1 does nothing, and one that was flipped before is flipped back. */
    const tcc_dims *before = x->op == TCC_OP_FLIP ? &x->attrs->axes.axes : NULL;
    for (int i = 0; i < n->type.rank; i++) {
        bool flipped = tcc_dims_find(axes, i) >= 0;
        if (before && tcc_dims_find(before, i) >= 0) flipped = !flipped;
        if (flipped && n->type.dims[i] > 1) attrs.axes.axes.v[attrs.axes.axes.count++] = i;
    }
    tcc_node *base = before ? x->operands[0] : x;
    if (attrs.axes.axes.count == 0) return base;
    if (!before && attrs.axes.axes.count == axes->count) return NULL;
    return build(s, TCC_OP_FLIP, base, &attrs, NULL);
}

/* -- Concat -- */

/* Both slice one value, with equal bounds but along `axis`, where `b` goes on from `a` with stride 1. */
static bool follows(const tcc_node *a, const tcc_node *b, int64_t axis) {
    if (a->op != TCC_OP_SLICE || b->op != TCC_OP_SLICE || a->operands[0] != b->operands[0]) return false;
    const tcc_attrs_slice *p = &a->attrs->slice, *q = &b->attrs->slice;
    for (int i = 0; i < a->type.rank; i++) {
        if (p->stride.v[i] != q->stride.v[i]) return false;
        if (i == axis ? p->stride.v[i] != 1 || p->limit.v[i] != q->start.v[i]
                      : p->start.v[i] != q->start.v[i] || p->limit.v[i] != q->limit.v[i])
            return false;
    }
    return true;
}

typedef tcc_vec(tcc_node *) node_list;

/* A slice of all operands of a concat, as a concat of slices; NULL: it is none, or they are concats, of which each more
 * would cut all that the others have cut. */
static tcc_node *slice_parts(tcc_simplifier *s, tcc_node *n) {
    enum { MOST = 4 };
    const tcc_node *x = n->operands[0];
    tcc_node *parts[MOST];
    if (n->op != TCC_OP_SLICE || x->op != TCC_OP_CONCAT || x->n_operands > MOST) return NULL;
    const int64_t axis = x->attrs->axis.axis;
    if (n->type.dims[axis] != x->type.dims[axis]) return NULL;
    for (int i = 0; i < x->n_operands; i++)
        if (x->operands[i]->op == TCC_OP_CONCAT) return NULL;
    for (int i = 0; i < x->n_operands; i++) {
        tcc_attrs attrs = {.slice = n->attrs->slice};
        attrs.slice.limit.v[axis] = x->operands[i]->type.dims[axis];
        parts[i] = build(s, TCC_OP_SLICE, x->operands[i], &attrs, NULL);
        if (!parts[i]) return NULL;
    }
    return tcc__simplify(s, tcc_ir_build(s->g, TCC_OP_CONCAT, parts, x->n_operands, x->attrs, NULL, TCC_NOWHERE));
}

/* What is rolled along two dims is a concat of slices of a concat: all parts are read where they lie, at once. False
 * after an error. */
static bool slice_inside(tcc_simplifier *s, node_list *pieces, bool *changed) {
    for (int i = 0; i < pieces->count; i++) {
        tcc_node *piece = slice_parts(s, pieces->data[i]);
        if (!piece && s->g->diag->status != TCC_OK) return false;
        if (!piece) continue;
        pieces->data[i] = piece;
        *changed = true;
    }
    return true;
}

/* The operands of concat `n`, with those of nested concats in their places. False: memory is short. */
static bool list_pieces(const tcc_node *n, node_list *pieces, bool *nested) {
    const int64_t axis = n->attrs->axis.axis;
    for (int i = 0; i < n->n_operands; i++) {
        tcc_node *x = n->operands[i];
        const bool merges = x->op == TCC_OP_CONCAT && x->attrs->axis.axis == axis;
        for (int k = 0; k < (merges ? x->n_operands : 1); k++)
            if (!tcc_vec_push(pieces, merges ? x->operands[k] : x)) return false;
        *nested |= merges;
    }
    return true;
}

/* Slices that follow each other become one. False after an error. */
static bool join_slices(tcc_simplifier *s, int64_t axis, node_list *pieces) {
    int count = 0;
    for (int i = 0, end; i < pieces->count; i = end) {
        tcc_node *piece = pieces->data[i];
        for (end = i + 1; end < pieces->count; end++)
            if (!follows(pieces->data[end - 1], pieces->data[end], axis)) break;
        if (end > i + 1) {
            tcc_attrs attrs = {.slice = piece->attrs->slice};
            attrs.slice.limit.v[axis] = pieces->data[end - 1]->attrs->slice.limit.v[axis];
            piece = build(s, TCC_OP_SLICE, piece->operands[0], &attrs, NULL);
            if (!piece) return false;
        }
        pieces->data[count++] = piece;
    }
    pieces->count = count;
    return true;
}

static tcc_node *simplify_concat(tcc_simplifier *s, tcc_node *n) {
    node_list pieces = {0};
    tcc_node *result = NULL;
    bool nested = false;
    if (n->n_operands == 1) return n->operands[0];
    bool complete = list_pieces(n, &pieces, &nested);
    const int listed = pieces.count;
    complete = complete && join_slices(s, n->attrs->axis.axis, &pieces) && slice_inside(s, &pieces, &nested);
    if (!complete) {
        if (s->g->diag->status == TCC_OK) tcc_enomem(s->g->diag);
    } else if (pieces.count == 1) {
        result = pieces.data[0];
    } else if (nested || pieces.count < listed) {
        result =
            tcc__simplify(s, tcc_ir_build(s->g, TCC_OP_CONCAT, pieces.data, pieces.count, n->attrs, NULL, TCC_NOWHERE));
    }
    tcc_vec_free(&pieces);
    return result;
}

/* -- Sums of padded values: gradients of slices have this form -- */

enum { MOST_PIECES = 8 };

/* The axis along which alone `n` pads with zeros around; -1 for any other node. */
static int zero_padded_axis(const tcc_node *n) {
    int axis = -1;
    if (n->op != TCC_OP_PAD || n->attrs->pad.value != 0) return -1;
    for (int i = 0; i < n->type.rank; i++) {
        if (n->attrs->pad.interior.v[i]) return -1;
        if (!n->attrs->pad.lo.v[i] && !n->attrs->pad.hi.v[i]) continue;
        if (axis >= 0) return -1;
        axis = i;
    }
    return axis;
}

/* Collects the pads that `n` is a sum of; false if it is anything else, or of too many. `adds` is how many sums it may
 * be of, so that a long chain is not followed to its end from each of its links. */
static bool collect_pads(tcc_node *n, int adds, tcc_node **pads, int *count) {
    if (n->op == TCC_OP_ADD)
        return adds > 0 && collect_pads(n->operands[1], adds - 1, pads, count) &&
               collect_pads(n->operands[0], adds - 1, pads, count);
    if (n->op != TCC_OP_PAD || *count == MOST_PIECES) return false;
    pads[(*count)++] = n;
    return true;
}

/* Padded values that tile the result are a concat: each element is that of one of them plus zeros (-0 becomes 0 in the
 * sum; the two are equal). */
static tcc_node *simplify_sum_of_pads(tcc_simplifier *s, tcc_node *n) {
    tcc_node *pads[MOST_PIECES], *pieces[MOST_PIECES];
    int count = 0;
    if (!collect_pads(n, MOST_PIECES - 1, pads, &count)) return NULL;
    int axis = zero_padded_axis(pads[0]);
    if (axis < 0) return NULL;
    int64_t end = 0;
    for (int found = 0; found < count; found++) {
        int i = 0;
        while (i < count && (zero_padded_axis(pads[i]) != axis || pads[i]->attrs->pad.lo.v[axis] != end)) i++;
        if (i == count) return NULL;
        pieces[found] = pads[i]->operands[0];
        end += pieces[found]->type.dims[axis];
    }
    if (end != n->type.dims[axis]) return NULL;
    tcc_attrs attrs = {.axis.axis = axis};
    return tcc__simplify(s, tcc_ir_build(s->g, TCC_OP_CONCAT, pieces, count, &attrs, NULL, TCC_NOWHERE));
}

tcc_node *tcc__simplify_view(tcc_simplifier *s, tcc_node *n) {
    switch (n->op) {
    case TCC_OP_TRANSPOSE: return simplify_transpose(s, n);
    case TCC_OP_BROADCAST: return simplify_broadcast(s, n);
    case TCC_OP_SLICE: return simplify_slice(s, n);
    case TCC_OP_PAD: return simplify_pad(s, n);
    case TCC_OP_FLIP: return simplify_flip(s, n);
    case TCC_OP_CONCAT: return simplify_concat(s, n);
    case TCC_OP_ADD: return simplify_sum_of_pads(s, n);
    default: return NULL;
    }
}
