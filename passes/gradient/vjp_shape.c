/* SPDX-License-Identifier: MIT
 * Gradient rules of views and indexing. They are linear, so each rule is the op's transpose. */
#include "passes/gradient/vjp.h"

#include "ir/decompose.h"

TCC_VJP_RULE(reshape) {
    const tcc_type *x = &v->x[0]->type;
    tcc__vjp_give(v, 0, tcc_ir_reshape(v->g, v->dy, x->rank, x->dims));
}

TCC_VJP_RULE(transpose) {
    int inverse[TCC_MAX_RANK] = {0};
    const tcc_dims *perm = &v->y->attrs->perm.perm;
    for (int i = 0; i < perm->count; i++) inverse[perm->v[i]] = i;
    tcc__vjp_give(v, 0, tcc_ir_transpose(v->g, v->dy, inverse));
}

/* Sums over the dims that broadcast made and stretched; the reshape puts back those that had an
 * extent of 1. */
TCC_VJP_RULE(broadcast) {
    const tcc_type *x = &v->x[0]->type, *y = &v->y->type;
    const tcc_dims *dims = &v->y->attrs->broadcast.dims;
    tcc_dims summed = {0};
    for (int d = 0, i = 0; d < y->rank; d++) {
        bool from_x = i < dims->count && dims->v[i] == d;
        if (!from_x || x->dims[i] != y->dims[d]) summed.v[summed.count++] = d;
        if (from_x) i++;
    }
    tcc__vjp_give(v, 0, tcc_ir_reshape(v->g, vjp_sum(v, v->dy, &summed), x->rank, x->dims));
}

TCC_VJP_RULE(slice) {
    const tcc_attrs_slice *slice = &v->y->attrs->slice;
    int64_t hi[TCC_MAX_RANK], interior[TCC_MAX_RANK];
    for (int d = 0; d < v->y->type.rank; d++) {
        int64_t last = slice->start.v[d] + (v->y->type.dims[d] - 1) * slice->stride.v[d];
        hi[d] = v->x[0]->type.dims[d] - 1 - last;
        interior[d] = slice->stride.v[d] - 1;
    }
    tcc__vjp_give(v, 0, tcc_ir_pad(v->g, v->dy, 0, slice->start.v, hi, interior));
}

TCC_VJP_RULE(pad) {
    const tcc_attrs_pad *pad = &v->y->attrs->pad;
    int64_t limit[TCC_MAX_RANK], stride[TCC_MAX_RANK];
    for (int d = 0; d < v->y->type.rank; d++) {
        stride[d] = pad->interior.v[d] + 1;
        limit[d] = pad->lo.v[d] + (v->x[0]->type.dims[d] - 1) * stride[d] + 1;
    }
    tcc__vjp_give(v, 0, tcc_ir_slice(v->g, v->dy, pad->lo.v, limit, stride));
}

TCC_VJP_RULE(concat) {
    const tcc_type *y = &v->y->type;
    int64_t start[TCC_MAX_RANK] = {0}, limit[TCC_MAX_RANK], stride[TCC_MAX_RANK], axis = v->y->attrs->axis.axis;
    for (int d = 0; d < y->rank; d++) limit[d] = y->dims[d], stride[d] = 1;
    for (int i = 0; i < v->y->n_operands; i++) {
        limit[axis] = start[axis] + v->x[i]->type.dims[axis];
        if (tcc__vjp_wants(v, i)) tcc__vjp_give(v, i, tcc_ir_slice(v->g, v->dy, start, limit, stride));
        start[axis] = limit[axis];
    }
}

TCC_VJP_RULE(flip) { tcc__vjp_give(v, 0, vjp_build(v, TCC_OP_FLIP, &v->dy, 1, NULL)); }

/* -- Indexing: what is read is added back where it was read -- */

/* What is read along lines. The sums of f16 and bf16 gather in f32, and are rounded once. */
static void scatter_along_back(tcc_vjp *v) {
    tcc_node *base = tcc_ir_cast(v->g, vjp_zero(v, v->x[0]), v->dy->type.dtype);
    tcc_node *operands[] = {base, v->x[1], v->dy}, *dx = vjp_build(v, TCC_OP_SCATTER_ADD_ALONG, operands, 3, NULL);
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, dx, v->x[0]->type.dtype));
}

/* An entry that is read often gets a long sum, which f16 and bf16 cannot hold. */
static void scatter_back(tcc_vjp *v) {
    tcc_node *dy = tcc_ir_widen(v->g, v->dy), *base = tcc_ir_widen(v->g, vjp_zero(v, v->x[0]));
    tcc_node *operands[] = {base, v->x[1], dy};
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, vjp_build(v, TCC_OP_SCATTER_ADD, operands, 3, NULL), v->x[0]->type.dtype));
}

TCC_VJP_RULE(take) { scatter_back(v); }

/* A value that a row has one of, in all of the row. */
static tcc_node *in_row(tcc_vjp *v, tcc_node *one, int axis) {
    const tcc_type *x = &v->x[0]->type;
    const tcc_dims axes = {1, {axis}};
    tcc_type row = *x;
    row.rank--;
    for (int d = axis; d < row.rank; d++) row.dims[d] = x->dims[d + 1];
    return tcc_ir_unreduce(v->g, tcc_ir_reshape(v->g, one, row.rank, row.dims), x->rank, x->dims, &axes);
}

/* Where a row is read once, its gradient is a comparison with the index. A scatter would write zeros first. */
TCC_VJP_RULE(take_along) {
    const int axis = (int)v->y->attrs->axis.axis;
    if (v->x[1]->type.dims[axis] != 1) {
        scatter_along_back(v);
        return;
    }
    tcc_type places = v->x[0]->type;
    places.dtype = v->x[1]->type.dtype;
    tcc_node *at = tcc_ir_binary(v->g, TCC_OP_EQ, tcc_ir_iota(v->g, &places, axis), in_row(v, v->x[1], axis));
    tcc__vjp_give(v, 0, vjp_where(v, at, in_row(v, v->dy, axis)));
}

TCC_VJP_RULE(scatter_add) {
    tcc__vjp_give(v, 0, v->dy);
    if (!tcc__vjp_wants(v, 2)) return;
    tcc__vjp_give(v, 2, vjp_build(v, TCC_OP_TAKE, (tcc_node *[]){v->dy, v->x[1]}, 2, NULL));
}

/* The base and the updates that are equal to the result share dy, in a type that can count them. */
TCC_VJP_RULE(scatter_max) {
    tcc_node *base = v->x[0], *index = v->x[1], *updates = v->x[2];
    tcc_node *reached = vjp_build(v, TCC_OP_TAKE, (tcc_node *[]){v->y, index}, 2, NULL);
    tcc_node *own = tcc_ir_binary(v->g, TCC_OP_EQ, base, v->y), *hit = tcc_ir_binary(v->g, TCC_OP_EQ, updates, reached);
    tcc_node *dy = tcc_ir_widen(v->g, v->dy);
    const tcc_dtype wide = dy->type.dtype;
    tcc_node *counted[] = {tcc_ir_cast(v->g, own, wide), index, tcc_ir_cast(v->g, hit, wide)};
    tcc_node *share = vjp_div(v, dy, vjp_build(v, TCC_OP_SCATTER_ADD, counted, 3, NULL));
    tcc__vjp_give(v, 0, tcc_ir_cast(v->g, vjp_where(v, own, share), base->type.dtype));
    if (!tcc__vjp_wants(v, 2)) return;
    share = vjp_where(v, hit, vjp_build(v, TCC_OP_TAKE, (tcc_node *[]){share, index}, 2, NULL));
    tcc__vjp_give(v, 2, tcc_ir_cast(v->g, share, updates->type.dtype));
}

TCC_VJP_RULE(scatter_add_along) {
    tcc__vjp_give(v, 0, v->dy);
    if (!tcc__vjp_wants(v, 2)) return;
    tcc__vjp_give(v, 2, vjp_build(v, TCC_OP_TAKE_ALONG, (tcc_node *[]){v->dy, v->x[1]}, 2, NULL));
}

/* What is replaced has no gradient, nor have the updates that are replaced in turn. */
TCC_VJP_RULE(scatter) {
    const tcc_ir_replaced r = tcc_ir_get_replaced(v->g, v->y, v->x[0], v->x[1], v->x[2]);
    tcc__vjp_give(v, 0, tcc_ir_select(v->g, r.hit, vjp_zero(v, v->dy), v->dy));
    if (!tcc__vjp_wants(v, 2)) return;
    tcc__vjp_give(v, 2, vjp_where(v, r.counts, vjp_build(v, TCC_OP_TAKE, (tcc_node *[]){v->dy, v->x[1]}, 2, NULL)));
}

/* Of the updates that go to one place, the one that comes last is found there when all put their turns, from 1 on. */
TCC_VJP_RULE(scatter_along) {
    tcc_node *index = v->x[1], *updates = v->x[2];
    const int axis = (int)v->y->attrs->axis.axis;
    tcc_node *zeroed[] = {v->dy, index, vjp_zero(v, updates)};
    tcc__vjp_give(v, 0, vjp_build(v, TCC_OP_SCATTER_ALONG, zeroed, 3, NULL));
    if (!tcc__vjp_wants(v, 2)) return;
    tcc_type turns = updates->type, places = v->y->type;
    turns.dtype = places.dtype = turns.dims[axis] < INT32_MAX ? TCC_I32 : TCC_I64;
    tcc_node *turn = tcc_ir_binary_c(v->g, TCC_OP_ADD, tcc_ir_iota(v->g, &turns, axis), 1);
    tcc_node *put[] = {tcc_ir_splat(v->g, &places, 0), index, turn};
    tcc_node *found[] = {vjp_build(v, TCC_OP_SCATTER_ALONG, put, 3, NULL), index};
    tcc_node *counts = tcc_ir_binary(v->g, TCC_OP_EQ, vjp_build(v, TCC_OP_TAKE_ALONG, found, 2, NULL), turn);
    tcc__vjp_give(v, 2, vjp_where(v, counts, vjp_build(v, TCC_OP_TAKE_ALONG, (tcc_node *[]){v->dy, index}, 2, NULL)));
}
