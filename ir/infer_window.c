/* SPDX-License-Identifier: MIT
 * Type inference of contractions (dot, convolution) and of windows over spatial dims (pooling,
 * resizing). */
#include "ir/infer.h"

/* -- dot -- */

/* Dims of `list_a` and `list_b` pair up and have equal extents. */
static tcc_status check_pairs(const tcc_infer *q, const char *what, const tcc_dims *list_a, const tcc_dims *list_b) {
    const tcc_type *a = operand(q, 0), *b = operand(q, 1);
    if (list_a->count != list_b->count)
        return tcc__refuse(q, TCC_ESHAPE, "%d %s dims of a, %d of b", list_a->count, what, list_b->count);
    for (int i = 0; i < list_a->count; i++) {
        int64_t da = list_a->v[i], db = list_b->v[i];
        if (a->dims[da] != b->dims[db])
            return tcc__refuse(q, TCC_ESHAPE, "%s dims differ: %s x %s, dim %lld (%lld) against dim %lld (%lld)", what,
                               tcc_type_text(a), tcc_type_text(b), (long long)da, (long long)a->dims[da], (long long)db,
                               (long long)b->dims[db]);
    }
    return TCC_OK;
}

/* Batch and contracted dims of one operand are in range and disjoint. */
static tcc_status check_side(const tcc_infer *q, int i, const tcc_dims *batch, const tcc_dims *contract,
                             unsigned *bound) {
    const int rank = operand(q, i)->rank;
    TCC_TRY(tcc__need_axes(q, i ? "batch_b" : "batch_a", batch, rank, false));
    TCC_TRY(tcc__need_axes(q, i ? "contract_b" : "contract_a", contract, rank, false));
    *bound = 0;
    for (int k = 0; k < batch->count; k++) *bound |= 1u << batch->v[k];
    for (int k = 0; k < contract->count; k++) {
        if (*bound >> contract->v[k] & 1)
            return tcc__refuse(q, TCC_ESHAPE, "dim %lld of %s is both a batch and a contracted dim",
                               (long long)contract->v[k], tcc_type_text(operand(q, i)));
        *bound |= 1u << contract->v[k];
    }
    return TCC_OK;
}

tcc_status tcc__infer_dot(const tcc_infer *q, tcc_type *out) {
    const tcc_type *a = operand(q, 0), *b = operand(q, 1);
    const tcc_attrs_dot *t = &q->attrs->dot;
    unsigned bound_a, bound_b;
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    TCC_TRY(tcc__need_same_dtype(q, 0, 1));
    TCC_TRY(check_side(q, 0, &t->batch_a, &t->contract_a, &bound_a));
    TCC_TRY(check_side(q, 1, &t->batch_b, &t->contract_b, &bound_b));
    TCC_TRY(check_pairs(q, "batch", &t->batch_a, &t->batch_b));
    TCC_TRY(check_pairs(q, "contracted", &t->contract_a, &t->contract_b));
    int rank = a->rank + b->rank - t->batch_a.count - 2 * t->contract_a.count;
    if (rank > TCC_MAX_RANK)
        return tcc__refuse(q, TCC_ESHAPE, "the result of %s x %s would have %d dims, at most %d are supported",
                           tcc_type_text(a), tcc_type_text(b), rank, TCC_MAX_RANK);
    out->dtype = a->dtype;
    for (int i = 0; i < t->batch_a.count; i++) push_dim(out, a->dims[t->batch_a.v[i]]);
    for (int i = 0; i < a->rank; i++)
        if (!(bound_a >> i & 1)) push_dim(out, a->dims[i]);
    for (int i = 0; i < b->rank; i++)
        if (!(bound_b >> i & 1)) push_dim(out, b->dims[i]);
    return TCC_OK;
}

/* -- Convolution -- */

enum { MAX_SPATIAL = 3 };

/* Where the dims of [N,C,spatial..] or [N,spatial..,C] are. */
static int channel_dim(const tcc_type *t, bool channels_last) { return channels_last ? t->rank - 1 : 1; }
static int first_spatial(bool channels_last) { return channels_last ? 1 : 2; }

static tcc_status check_spatial(const tcc_infer *q, const char *role, const tcc_type *t) {
    if (t->rank >= 3 && t->rank <= 2 + MAX_SPATIAL) return TCC_OK;
    return tcc__refuse(q, TCC_ESHAPE, "%s must have a batch, a channel and 1 to %d spatial dims, got %s", role,
                       MAX_SPATIAL, tcc_type_text(t));
}

/* How often a window of `reach` fits with this stride: extents and pads are at most 2^40, so
 * nothing overflows. */
static int64_t windows(int64_t extent, int64_t pad_lo, int64_t pad_hi, int64_t reach, int64_t stride) {
    int64_t room = extent + pad_lo + pad_hi - reach;
    return room < 0 ? 0 : room / stride + 1;
}

/* The type of conv(x, w). */
static tcc_status conv_type(const tcc_infer *q, const tcc_type *x, const tcc_type *w, tcc_type *out) {
    const tcc_attrs_conv *a = &q->attrs->conv;
    TCC_TRY(check_spatial(q, "x", x));
    const int spatial = x->rank - 2, first = first_spatial(a->channels_last);
    if (x->dtype != w->dtype || !tcc_dtype_is_float(x->dtype))
        return tcc__refuse(q, TCC_EDTYPE, "expected two tensors of the same float type, got x %s, w %s",
                           tcc_type_text(x), tcc_type_text(w));
    if (w->rank != x->rank)
        return tcc__refuse(q, TCC_ESHAPE, "x and w must have the same rank, got x %s, w %s", tcc_type_text(x),
                           tcc_type_text(w));
    TCC_TRY(tcc__need_list(q, "stride", &a->stride, spatial, 1));
    TCC_TRY(tcc__need_list(q, "pad_lo", &a->pad_lo, spatial, 0));
    TCC_TRY(tcc__need_list(q, "pad_hi", &a->pad_hi, spatial, 0));
    TCC_TRY(tcc__need_list(q, "dilation", &a->dilation, spatial, 1));
    const int64_t in = x->dims[channel_dim(x, a->channels_last)], per_group = w->dims[channel_dim(w, a->channels_last)],
                  features = w->dims[0];
    if (a->groups < 1 || in % a->groups || features % a->groups)
        return tcc__refuse(q, TCC_ESHAPE, "%lld groups do not divide the channels: x %s has %lld, w %s makes %lld",
                           (long long)a->groups, tcc_type_text(x), (long long)in, tcc_type_text(w),
                           (long long)features);
    if (in / a->groups != per_group)
        return tcc__refuse(q, TCC_ESHAPE, "channels differ: x %s has %lld in %lld group%s, w %s takes %lld",
                           tcc_type_text(x), (long long)in, (long long)a->groups, a->groups == 1 ? "" : "s",
                           tcc_type_text(w), (long long)per_group);
    *out = *x;
    out->dims[channel_dim(x, a->channels_last)] = features;
    for (int i = 0; i < spatial; i++) {
        const int64_t kernel = w->dims[first + i];
        if (kernel - 1 > TCC_MAX_NUMEL / a->dilation.v[i])
            return tcc__refuse(q, TCC_ESHAPE, "dilation %s makes w %s too large", tcc__dims_text(&a->dilation),
                               tcc_type_text(w));
        const int64_t reach = (kernel - 1) * a->dilation.v[i] + 1;
        out->dims[first + i] = windows(x->dims[first + i], a->pad_lo.v[i], a->pad_hi.v[i], reach, a->stride.v[i]);
        if (!out->dims[first + i])
            return tcc__refuse(q, TCC_ESHAPE,
                               "the kernel does not fit: it spans %lld in spatial dim %d of x %s "
                               "with padding %lld + %lld",
                               (long long)reach, i, tcc_type_text(x), (long long)a->pad_lo.v[i],
                               (long long)a->pad_hi.v[i]);
    }
    return TCC_OK;
}

tcc_status tcc__infer_conv(const tcc_infer *q, tcc_type *out) {
    return conv_type(q, operand(q, 0), operand(q, 1), out);
}

tcc_status tcc__infer_conv_grad_input(const tcc_infer *q, tcc_type *out) {
    tcc_type dy = {0};
    TCC_TRY(conv_type(q, q->given, operand(q, 1), &dy));
    TCC_TRY(tcc__need_is(q, 0, "dy", &dy));
    *out = *q->given;
    return TCC_OK;
}

tcc_status tcc__infer_conv_grad_weight(const tcc_infer *q, tcc_type *out) {
    tcc_type dy = {0};
    TCC_TRY(conv_type(q, operand(q, 0), q->given, &dy));
    TCC_TRY(tcc__need_is(q, 1, "dy", &dy));
    *out = *q->given;
    return TCC_OK;
}

/* -- Pooling -- */

static tcc_status pool_type(const tcc_infer *q, const tcc_type *x, tcc_type *out) {
    const tcc_attrs_pool *a = &q->attrs->pool;
    TCC_TRY(check_spatial(q, "x", x));
    const int spatial = x->rank - 2, first = first_spatial(a->channels_last);
    TCC_TRY(tcc__need_list(q, "window", &a->window, spatial, 1));
    TCC_TRY(tcc__need_list(q, "stride", &a->stride, spatial, 1));
    TCC_TRY(tcc__need_list(q, "pad_lo", &a->pad_lo, spatial, 0));
    TCC_TRY(tcc__need_list(q, "pad_hi", &a->pad_hi, spatial, 0));
    *out = *x;
    for (int i = 0; i < spatial; i++) {
        /* Then every window holds at least one element. */
        if (a->pad_lo.v[i] >= a->window.v[i] || a->pad_hi.v[i] >= a->window.v[i])
            return tcc__refuse(q, TCC_ESHAPE,
                               "padding must be smaller than the window: %lld and %lld against "
                               "%lld in spatial dim %d",
                               (long long)a->pad_lo.v[i], (long long)a->pad_hi.v[i], (long long)a->window.v[i], i);
        out->dims[first + i] = windows(x->dims[first + i], a->pad_lo.v[i], a->pad_hi.v[i], a->window.v[i],
                                       a->stride.v[i]);
        if (!out->dims[first + i])
            return tcc__refuse(
                q, TCC_ESHAPE, "the window does not fit: %s in x %s with padding %lld + %lld in spatial dim %d",
                tcc__dims_text(&a->window), tcc_type_text(x), (long long)a->pad_lo.v[i], (long long)a->pad_hi.v[i], i);
    }
    return TCC_OK;
}

tcc_status tcc__infer_pool(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    return pool_type(q, operand(q, 0), out);
}

static tcc_status window_elements(const tcc_infer *q, int64_t *elements) {
    *elements = 1;
    for (int i = 0; i < q->attrs->pool.window.count; i++)
        if (__builtin_mul_overflow(*elements, q->attrs->pool.window.v[i], elements) || *elements > INT32_MAX)
            return tcc__refuse(q, TCC_ESHAPE, "window %s has too many elements for an i32 index",
                               tcc__dims_text(&q->attrs->pool.window));
    return TCC_OK;
}

tcc_status tcc__infer_max_pool_place(const tcc_infer *q, tcc_type *out) {
    int64_t elements;
    TCC_TRY(tcc__infer_pool(q, out));
    TCC_TRY(window_elements(q, &elements));
    out->dtype = TCC_I32;
    return TCC_OK;
}

tcc_status tcc__infer_max_pool_grad(const tcc_infer *q, tcc_type *out) {
    tcc_type dy = {0};
    int64_t elements;
    TCC_TRY(tcc__need_kind(q, 1, KIND_FLOAT));
    TCC_TRY(pool_type(q, q->given, &dy));
    TCC_TRY(tcc__need_is(q, 1, "dy", &dy));
    TCC_TRY(window_elements(q, &elements));
    dy.dtype = operand(q, 0)->dtype == TCC_U8 && elements <= UINT8_MAX + 1 ? TCC_U8 : TCC_I32;
    TCC_TRY(tcc__need_is(q, 0, "place", &dy));
    *out = *q->given;
    return TCC_OK;
}

tcc_status tcc__infer_avg_pool_grad(const tcc_infer *q, tcc_type *out) {
    tcc_type dy = {0};
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    TCC_TRY(pool_type(q, q->given, &dy));
    TCC_TRY(tcc__need_is(q, 0, "dy", &dy));
    *out = *q->given;
    return TCC_OK;
}

/* -- Resizing: the spatial dims change, in either direction -- */

tcc_status tcc__infer_resize(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const int first = first_spatial(q->attrs->resize.channels_last);
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    TCC_TRY(check_spatial(q, "x", x));
    tcc_type expected = *x;
    if (q->given->rank == x->rank)
        for (int i = 0; i < x->rank - 2; i++) expected.dims[first + i] = q->given->dims[first + i];
    if (!tcc_type_equal(q->given, &expected))
        return tcc__refuse(q, TCC_ESHAPE, "only spatial dims can change: %s to %s", tcc_type_text(x),
                           tcc_type_text(q->given));
    if (q->attrs->resize.align_corners && (q->op == TCC_OP_ADAPTIVE_AVG_POOL || q->op == TCC_OP_ADAPTIVE_AVG_POOL_GRAD))
        return tcc__refuse(q, TCC_EINVAL, "align_corners has no meaning here");
    *out = *q->given;
    return TCC_OK;
}
