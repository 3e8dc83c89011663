/* SPDX-License-Identifier: MIT
 * Type inference of attention and of the composites that are not element by element. */
#include "ir/infer.h"
#include "ir/support/reduction.h"

#include <math.h>

/* -- Attention -- */

/* q [..,T,D] against k [..,S,D], where a dim before the rows may be 1: the scores [..,T,S]. */
static tcc_status scores_type(const tcc_infer *q, tcc_type *scores) {
    const tcc_type *query = operand(q, 0), *key = operand(q, 1);
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    TCC_TRY(tcc__need_same_dtype(q, 0, 1));
    bool fits = query->rank >= 2 && query->rank == key->rank &&
                query->dims[query->rank - 1] == key->dims[key->rank - 1];
    for (int i = 0; fits && i < query->rank - 2; i++) fits = key->dims[i] == query->dims[i] || key->dims[i] == 1;
    if (!fits)
        return tcc__refuse(q, TCC_ESHAPE, "q [..,T,D] and k [..,S,D] do not agree: %s and %s", tcc_type_text(query),
                           tcc_type_text(key));
    if (!isfinite(q->attrs->sdpa.scale)) return tcc__refuse(q, TCC_EINVAL, "the scale is not finite");
    *scores = *query;
    scores->dims[scores->rank - 1] = key->dims[key->rank - 2];
    return TCC_OK;
}

static const tcc_type key_type = {TCC_I64, 1, {2}};

static tcc_status check_dropout(const tcc_infer *q, double p, int64_t id) {
    if (!(p >= 0 && p < 1)) return tcc__refuse(q, TCC_EINVAL, "p %g is not in 0 <= p < 1", p);
    if (id < 0 || id > UINT32_MAX) return tcc__refuse(q, TCC_EINVAL, "id %lld is not in 0 .. 2^32 - 1", (long long)id);
    return TCC_OK;
}

/* What may follow the operands that the op always has: the mask; the key if there is dropout. */
static tcc_status check_optional(const tcc_infer *q, const tcc_type *scores) {
    const tcc_attrs_sdpa *a = &q->attrs->sdpa;
    const int least = tcc_op_get_info(q->op)->least, keys = a->p > 0;
    TCC_TRY(check_dropout(q, a->p, a->id));
    if (q->op == TCC_OP_SDPA_LSE && keys)
        return tcc__refuse(q, TCC_EINVAL, "p %g, but dropout follows the softmax", a->p);
    const int masks = q->n_operands - least - keys;
    if (masks < 0 || masks > 1)
        return tcc__refuse(q, TCC_EINVAL, "%d operands with p %g: expected %d, and a mask or none%s", q->n_operands,
                           a->p, least, keys ? ", and the key" : "");
    if (masks) TCC_TRY(tcc__need_is(q, least, "the mask [..,T,S]", scores));
    return keys ? tcc__need_is(q, least + masks, "the key", &key_type) : TCC_OK;
}

/* v [..,S,E] and the result [..,T,E]. */
static tcc_status value_type(const tcc_infer *q, tcc_type *out) {
    const tcc_type *key = operand(q, 1), *value = operand(q, 2);
    TCC_TRY(tcc__need_same_dtype(q, 0, 2));
    bool fits = value->rank == key->rank;
    for (int i = 0; fits && i < key->rank - 1; i++) fits = value->dims[i] == key->dims[i];
    if (!fits)
        return tcc__refuse(q, TCC_ESHAPE, "k [..,S,D] and v [..,S,E] do not agree: %s and %s", tcc_type_text(key),
                           tcc_type_text(value));
    *out = *operand(q, 0);
    out->dims[out->rank - 1] = value->dims[value->rank - 1];
    return TCC_OK;
}

/* Sums of exponentials are kept in at least float32. */
static void lse_type(const tcc_infer *q, tcc_type *out) {
    *out = *operand(q, 0);
    out->dims[--out->rank] = 0;
    if (tcc_dtype_is_narrow(out->dtype)) out->dtype = TCC_F32;
}

tcc_status tcc__infer_sdpa(const tcc_infer *q, tcc_type *out) {
    tcc_type scores = {0};
    TCC_TRY(scores_type(q, &scores));
    TCC_TRY(check_optional(q, &scores));
    return value_type(q, out);
}

tcc_status tcc__infer_sdpa_lse(const tcc_infer *q, tcc_type *out) {
    tcc_type scores = {0};
    TCC_TRY(scores_type(q, &scores));
    TCC_TRY(check_optional(q, &scores));
    lse_type(q, out);
    return TCC_OK;
}

tcc_status tcc__infer_sdpa_grad(const tcc_infer *q, tcc_type *out) {
    tcc_type scores = {0}, result = {0}, lse = {0};
    TCC_TRY(scores_type(q, &scores));
    TCC_TRY(value_type(q, &result));
    TCC_TRY(tcc__need_is(q, 3, "o", &result));
    lse_type(q, &lse);
    TCC_TRY(tcc__need_is(q, 4, "lse", &lse));
    TCC_TRY(tcc__need_is(q, 5, "do", &result));
    TCC_TRY(check_optional(q, &scores));
    *out = *operand(q, q->op == TCC_OP_SDPA_GRAD_Q ? 0 : q->op == TCC_OP_SDPA_GRAD_K ? 1 : 2);
    return TCC_OK;
}

/* -- Normalization -- */

static tcc_status check_norm(const tcc_infer *q) {
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    if (!(q->attrs->norm.eps >= 0) || isinf(q->attrs->norm.eps))
        return tcc__refuse(q, TCC_EINVAL, "eps %g is not a number >= 0", q->attrs->norm.eps);
    const int64_t ranks = q->attrs->norm.ranks;
    const bool batch = q->op >= TCC_OP_BATCH_NORM && q->op <= TCC_OP_BATCH_NORM_GRAD_BIAS;
    if (ranks && (!batch || ranks < 2 || ranks > TCC_MOST_RANKS))
        return tcc__refuse(q, TCC_EINVAL, "%lld ranks have no meaning here", (long long)ranks);
    if (q->attrs->norm.unbiased && q->op != TCC_OP_BATCH_NORM_VARIANCE)
        return tcc__refuse(q, TCC_EINVAL, "unbiased has no meaning here");
    return tcc__need_axis(q, q->attrs->norm.axis, operand(q, 0)->rank);
}

static tcc_status check_scales(const tcc_infer *q, const tcc_type *expected) {
    static const char *const roles[] = {"x", "the weight", "the bias", "the mean", "the variance"};
    for (int i = 1; i < q->n_operands; i++) TCC_TRY(tcc__need_is(q, i, roles[i], expected));
    return TCC_OK;
}

tcc_status tcc__infer_norm(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(check_norm(q));
    if (q->attrs->norm.groups) return tcc__refuse(q, TCC_EINVAL, "groups have no meaning here");
    const tcc_type *x = operand(q, 0);
    tcc_type scale = {.dtype = x->dtype};
    for (int i = (int)q->attrs->norm.axis; i < x->rank; i++) push_dim(&scale, x->dims[i]);
    TCC_TRY(check_scales(q, &scale));
    *out = *x;
    return TCC_OK;
}

tcc_status tcc__infer_norm_channel(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(check_norm(q));
    const tcc_type *x = operand(q, 0);
    const int64_t channels = x->dims[q->attrs->norm.axis], groups = q->attrs->norm.groups;
    if (q->op == TCC_OP_GROUP_NORM && (groups < 1 || channels % groups))
        return tcc__refuse(q, TCC_ESHAPE, "%lld groups do not divide the %lld channels of %s", (long long)groups,
                           (long long)channels, tcc_type_text(x));
    if (q->op == TCC_OP_GROUP_NORM && !q->attrs->norm.axis)
        return tcc__refuse(q, TCC_ESHAPE, "the channels cannot be dim 0, which is the batch: %s", tcc_type_text(x));
    if (q->op != TCC_OP_GROUP_NORM && groups) return tcc__refuse(q, TCC_EINVAL, "groups have no meaning here");
    const tcc_type scale = {x->dtype, 1, {channels}};
    TCC_TRY(check_scales(q, &scale));
    *out = *x;
    return TCC_OK;
}

/* The type of the scales, in which batch_norm of `x` computes: as given, x's type or f32. */
static tcc_status batch_norm_type(const tcc_infer *q, const tcc_type *x, tcc_dtype given, tcc_type *out) {
    TCC_TRY(tcc__need_axis(q, q->attrs->norm.axis, x->rank));
    if (q->attrs->norm.groups) return tcc__refuse(q, TCC_EINVAL, "groups have no meaning here");
    const bool wide = given == TCC_F32 && tcc_dtype_is_narrow(x->dtype);
    *out = (tcc_type){wide ? TCC_F32 : x->dtype, 1, {x->dims[q->attrs->norm.axis]}};
    return TCC_OK;
}

tcc_status tcc__infer_norm_batch(const tcc_infer *q, tcc_type *out) {
    tcc_type scale;
    TCC_TRY(check_norm(q));
    TCC_TRY(batch_norm_type(q, operand(q, 0), q->n_operands > 1 ? operand(q, 1)->dtype : operand(q, 0)->dtype, &scale));
    TCC_TRY(check_scales(q, &scale));
    *out = *operand(q, 0);
    return TCC_OK;
}

tcc_status tcc__infer_norm_statistic(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(check_norm(q));
    TCC_TRY(batch_norm_type(q, operand(q, 0), q->given->dtype, out));
    return tcc__need_given(q, out);
}

tcc_status tcc__infer_norm_grad(const tcc_infer *q, tcc_type *out) {
    static const char *const roles[] = {"dy", "x", "the mean", "the scale", "the weight"};
    tcc_type scale;
    TCC_TRY(check_norm(q));
    TCC_TRY(tcc__need_is(q, 1, roles[1], operand(q, 0)));
    TCC_TRY(batch_norm_type(q, operand(q, 0), operand(q, 2)->dtype, &scale));
    for (int i = 2; i < q->n_operands; i++) TCC_TRY(tcc__need_is(q, i, roles[i], &scale));
    *out = q->op == TCC_OP_BATCH_NORM_GRAD_X ? *operand(q, 0) : scale;
    return TCC_OK;
}

/* -- Order, dropout and losses -- */

tcc_status tcc__infer_order(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const int64_t count = q->attrs->order.count;
    TCC_TRY(tcc__need_kind(q, 0, KIND_NUMBER));
    if (!x->rank) return tcc__refuse(q, TCC_ESHAPE, "it takes lines, not %s", tcc_type_text(x));
    const int64_t line = x->dims[x->rank - 1];
    if (line > INT64_C(1) << 29)
        return tcc__refuse(q, TCC_ESHAPE, "lines of %s are too long for sums of i32 indices", tcc_type_text(x));
    if (count < 1 || count > line)
        return tcc__refuse(q, TCC_EINVAL, "count %lld is not in 1 .. %lld", (long long)count, (long long)line);
    *out = *x;
    out->dtype = TCC_I32;
    out->dims[out->rank - 1] = count;
    return TCC_OK;
}

tcc_status tcc__infer_dropout(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    TCC_TRY(tcc__need_is(q, 1, "the key", &key_type));
    TCC_TRY(check_dropout(q, q->attrs->dropout.p, q->attrs->dropout.id));
    *out = *operand(q, 0);
    return TCC_OK;
}

tcc_status tcc__infer_cross_entropy(const tcc_infer *q, tcc_type *out) {
    const tcc_type *logits = operand(q, 0);
    const double smoothing = q->attrs->cross_entropy.label_smoothing;
    TCC_TRY(tcc__need_kind(q, 0, KIND_FLOAT));
    if (!logits->rank) return tcc__refuse(q, TCC_ESHAPE, "logits must have a class dim, got %s", tcc_type_text(logits));
    tcc_type targets = *logits;
    targets.dtype = TCC_I32;
    targets.dims[--targets.rank] = 0;
    TCC_TRY(tcc__need_is(q, 1, "targets", &targets));
    const tcc_type weights = {logits->dtype, 1, {logits->dims[logits->rank - 1]}};
    if (q->n_operands > 2) TCC_TRY(tcc__need_is(q, 2, "class weights", &weights));
    if (!(smoothing >= 0 && smoothing <= 1))
        return tcc__refuse(q, TCC_EINVAL, "label_smoothing %g is not in 0 .. 1", smoothing);
    out->dtype = logits->dtype;
    return TCC_OK;
}
