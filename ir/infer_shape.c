/* SPDX-License-Identifier: MIT
 * Type inference of ops that move elements or reduce over dims: shape, indexing, reductions,
 * running results. */
#include "ir/infer.h"

/* -- Shape -- */

tcc_status tcc__infer_reshape(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    if (q->given->dtype != x->dtype)
        return tcc__refuse(q, TCC_EDTYPE, "cannot change the element type: %s to %s", tcc_type_text(x),
                           tcc_type_text(q->given));
    if (tcc_type_numel(x) != tcc_type_numel(q->given))
        return tcc__refuse(q, TCC_ESHAPE, "numbers of elements differ: %s has %lld, %s has %lld", tcc_type_text(x),
                           (long long)tcc_type_numel(x), tcc_type_text(q->given), (long long)tcc_type_numel(q->given));
    *out = *q->given;
    return TCC_OK;
}

tcc_status tcc__infer_transpose(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const tcc_dims *perm = &q->attrs->perm.perm;
    if (perm->count != x->rank)
        return tcc__refuse(q, TCC_ESHAPE, "perm %s does not fit %s", tcc__dims_text(perm), tcc_type_text(x));
    TCC_TRY(tcc__need_axes(q, "perm", perm, x->rank, false));
    out->dtype = x->dtype;
    for (int i = 0; i < x->rank; i++) push_dim(out, x->dims[perm->v[i]]);
    return TCC_OK;
}

tcc_status tcc__infer_broadcast(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const tcc_dims *dims = &q->attrs->broadcast.dims;
    if (q->given->dtype != x->dtype)
        return tcc__refuse(q, TCC_EDTYPE, "cannot change the element type: %s to %s", tcc_type_text(x),
                           tcc_type_text(q->given));
    if (dims->count != x->rank)
        return tcc__refuse(q, TCC_ESHAPE, "dims %s do not fit %s", tcc__dims_text(dims), tcc_type_text(x));
    TCC_TRY(tcc__need_axes(q, "dims", dims, q->given->rank, true));
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i] != 1 && x->dims[i] != q->given->dims[dims->v[i]])
            return tcc__refuse(q, TCC_ESHAPE, "%s does not stretch to %s: dim %d (%lld) against dim %lld (%lld)",
                               tcc_type_text(x), tcc_type_text(q->given), i, (long long)x->dims[i],
                               (long long)dims->v[i], (long long)q->given->dims[dims->v[i]]);
    *out = *q->given;
    return TCC_OK;
}

tcc_status tcc__infer_slice(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const tcc_attrs_slice *a = &q->attrs->slice;
    TCC_TRY(tcc__need_list(q, "start", &a->start, x->rank, 0));
    TCC_TRY(tcc__need_list(q, "limit", &a->limit, x->rank, 1));
    TCC_TRY(tcc__need_list(q, "stride", &a->stride, x->rank, 1));
    out->dtype = x->dtype;
    for (int i = 0; i < x->rank; i++) {
        int64_t start = a->start.v[i], limit = a->limit.v[i];
        if (start >= limit || limit > x->dims[i])
            return tcc__refuse(q, TCC_ESHAPE, "dim %d: %lld .. %lld is not a range within %s", i, (long long)start,
                               (long long)limit, tcc_type_text(x));
        push_dim(out, (limit - start - 1) / a->stride.v[i] + 1);
    }
    return TCC_OK;
}

tcc_status tcc__infer_pad(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const tcc_attrs_pad *a = &q->attrs->pad;
    TCC_TRY(tcc__need_list(q, "lo", &a->lo, x->rank, 0));
    TCC_TRY(tcc__need_list(q, "hi", &a->hi, x->rank, 0));
    TCC_TRY(tcc__need_list(q, "interior", &a->interior, x->rank, 0));
    out->dtype = x->dtype;
    for (int i = 0; i < x->rank; i++) {
        /* At most 2^40 each; the product could not be represented. */
        if (a->interior.v[i] && x->dims[i] - 1 > TCC_MAX_NUMEL / a->interior.v[i])
            return tcc__refuse(q, TCC_ESHAPE, "interior %s makes %s too large", tcc__dims_text(&a->interior),
                               tcc_type_text(x));
        push_dim(out, a->lo.v[i] + x->dims[i] + (x->dims[i] - 1) * a->interior.v[i] + a->hi.v[i]);
    }
    return TCC_OK;
}

tcc_status tcc__infer_concat(const tcc_infer *q, tcc_type *out) {
    *out = *operand(q, 0);
    TCC_TRY(tcc__need_axis(q, q->attrs->axis.axis, out->rank));
    const int axis = (int)q->attrs->axis.axis;
    for (int i = 1; i < q->n_operands; i++) {
        const tcc_type *x = operand(q, i);
        TCC_TRY(tcc__need_same_dtype(q, 0, i));
        bool fits = x->rank == out->rank;
        for (int d = 0; fits && d < x->rank; d++) fits = d == axis || x->dims[d] == out->dims[d];
        if (!fits)
            return tcc__refuse(q, TCC_ESHAPE, "operands differ in another dim than axis %d: %s and %s", axis,
                               tcc_type_text(operand(q, 0)), tcc_type_text(x));
        out->dims[axis] += x->dims[axis]; /* checked after each, so that many operands cannot overflow */
        TCC_TRY(tcc__check_type(q->diag, q->loc, "concat", out));
    }
    return TCC_OK;
}

/* flip and running results: the type of the operand; a linear scan may have two. */
tcc_status tcc__infer_same(const tcc_infer *q, tcc_type *out) {
    *out = *operand(q, 0);
    if (tcc_op_get_info(q->op)->attrs == TCC_ATTR_CLASS_axes)
        return tcc__need_axes(q, "axes", &q->attrs->axes.axes, out->rank, true);
    TCC_TRY(tcc__need_kind(q, 0, KIND_NUMBER));
    if (q->n_operands > 1 && !tcc_type_equal(out, operand(q, 1)))
        return tcc__refuse(q, TCC_ESHAPE, "types differ: %s and %s", tcc_type_text(out), tcc_type_text(operand(q, 1)));
    return tcc__need_axis(q, q->attrs->scan.axis, out->rank);
}

tcc_status tcc__infer_cumsum(const tcc_infer *q, tcc_type *out) {
    *out = *operand(q, 0);
    TCC_TRY(tcc__need_kind(q, 0, KIND_NUMBER));
    tcc_type on = *out;
    on.dtype = TCC_BOOL;
    if (q->n_operands > 1) TCC_TRY(tcc__need_is(q, 1, "where it goes on", &on));
    return tcc__need_axis(q, q->attrs->scan.axis, out->rank);
}

/* -- Indexing -- */

static tcc_status check_index(const tcc_infer *q, int i) {
    tcc_dtype t = operand(q, i)->dtype;
    if (t == TCC_I32 || t == TCC_I64) return TCC_OK;
    return tcc__refuse(q, TCC_EDTYPE, "indices must be i32 or i64, got %s", tcc_type_text(operand(q, i)));
}

tcc_status tcc__infer_take(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0), *index = operand(q, 1);
    TCC_TRY(check_index(q, 1));
    TCC_TRY(tcc__need_axis(q, q->attrs->axis.axis, x->rank));
    if (x->rank - 1 + index->rank > TCC_MAX_RANK)
        return tcc__refuse(q, TCC_ESHAPE, "the result of %s at %s would have more than %d dims", tcc_type_text(x),
                           tcc_type_text(index), TCC_MAX_RANK);
    out->dtype = x->dtype;
    for (int d = 0; d < x->rank; d++) {
        if (d != q->attrs->axis.axis) push_dim(out, x->dims[d]);
        else
            for (int k = 0; k < index->rank; k++) push_dim(out, index->dims[k]);
    }
    return TCC_OK;
}

/* x and the index agree in all dims but the axis. */
static tcc_status check_along(const tcc_infer *q) {
    const tcc_type *x = operand(q, 0), *index = operand(q, 1);
    TCC_TRY(check_index(q, 1));
    TCC_TRY(tcc__need_axis(q, q->attrs->axis.axis, x->rank));
    bool fits = x->rank == index->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == q->attrs->axis.axis || x->dims[d] == index->dims[d];
    if (fits) return TCC_OK;
    return tcc__refuse(q, TCC_ESHAPE, "the indices differ in another dim than axis %lld: %s at %s",
                       (long long)q->attrs->axis.axis, tcc_type_text(x), tcc_type_text(index));
}

tcc_status tcc__infer_take_along(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(check_along(q));
    *out = *operand(q, 1);
    out->dtype = operand(q, 0)->dtype;
    return TCC_OK;
}

tcc_status tcc__infer_scatter(const tcc_infer *q, tcc_type *out) {
    tcc_type updates = {0};
    TCC_TRY(tcc__infer_take(q, &updates)); /* base takes the place of x */
    TCC_TRY(tcc__need_is(q, 2, "the updates", &updates));
    *out = *operand(q, 0);
    return TCC_OK;
}

tcc_status tcc__infer_scatter_along(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(check_along(q));
    tcc_type updates = *operand(q, 1);
    updates.dtype = operand(q, 0)->dtype;
    TCC_TRY(tcc__need_is(q, 2, "the updates", &updates));
    *out = *operand(q, 0);
    return TCC_OK;
}

tcc_status tcc__infer_scatter_add(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(tcc__need_kind(q, 0, KIND_NUMBER));
    return tcc__infer_scatter(q, out);
}

tcc_status tcc__infer_scatter_add_along(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(tcc__need_kind(q, 0, KIND_NUMBER));
    return tcc__infer_scatter_along(q, out);
}

/* -- Reductions -- */

tcc_status tcc__infer_reduce(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const tcc_dims *axes = &q->attrs->axes.axes;
    TCC_TRY(tcc__need_kind(q, 0, KIND_NUMBER));
    if (!axes->count) return tcc__refuse(q, TCC_ESHAPE, "no axes to reduce %s over", tcc_type_text(x));
    TCC_TRY(tcc__need_axes(q, "axes", axes, x->rank, true));
    out->dtype = x->dtype;
    for (int d = 0, next = 0; d < x->rank; d++) {
        if (next < axes->count && axes->v[next] == d) next++;
        else push_dim(out, x->dims[d]);
    }
    return TCC_OK;
}

tcc_status tcc__infer_reduce_float(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(tcc__infer_reduce(q, out));
    return tcc__need_kind(q, 0, KIND_FLOAT);
}

tcc_status tcc__infer_prod_grad(const tcc_infer *q, tcc_type *out) {
    tcc_type y = {0};
    TCC_TRY(tcc__infer_reduce_float(q, &y));
    TCC_TRY(tcc__need_is(q, 1, "dy", &y));
    *out = *operand(q, 0);
    return TCC_OK;
}

tcc_status tcc__infer_argmax(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    TCC_TRY(tcc__need_kind(q, 0, KIND_NUMBER));
    TCC_TRY(tcc__need_axis(q, q->attrs->axis.axis, x->rank));
    if (x->dims[q->attrs->axis.axis] > INT32_MAX)
        return tcc__refuse(q, TCC_ESHAPE, "dim %lld of %s is too long for an i32 index", (long long)q->attrs->axis.axis,
                           tcc_type_text(x));
    out->dtype = TCC_I32;
    for (int d = 0; d < x->rank; d++)
        if (d != q->attrs->axis.axis) push_dim(out, x->dims[d]);
    return TCC_OK;
}
