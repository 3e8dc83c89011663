/* SPDX-License-Identifier: MIT
 * Type inference of leaves, random draws and element-by-element ops. */
#include "ir/infer.h"

/* -- Leaves -- */

tcc_status tcc__infer_any(const tcc_infer *q, tcc_type *out) {
    const tcc_attrs_input *a = &q->attrs->input;
    if (!a->name || !*a->name) return tcc__refuse(q, TCC_EINVAL, "an input needs a name");
    if (a->role < 0 || a->role >= TCC_ROLE_COUNT || a->role == TCC_ROLE_OUTPUT)
        return tcc__refuse(q, TCC_EINVAL, "'%s' has a role that no input can have", a->name);
    const bool copies = a->copy_of && *a->copy_of, begins = a->begin != 0;
    if ((copies || begins) && a->role != TCC_ROLE_STATE)
        return tcc__refuse(q, TCC_EINVAL, "'%s' is no state: only a state says how it begins", a->name);
    if (copies && begins)
        return tcc__refuse(q, TCC_EINVAL, "'%s' begins either as a constant or as a copy, not as both", a->name);
    if (!tcc_dtype_is_float(q->given->dtype) && tcc_dtype_round(q->given->dtype, a->begin) != a->begin)
        return tcc__refuse(q, TCC_EINVAL, "'%s' cannot begin with %g: that is no %s", a->name, a->begin,
                           tcc_dtype_text(q->given->dtype));
    *out = *q->given;
    return TCC_OK;
}

tcc_status tcc__infer_constant(const tcc_infer *q, tcc_type *out) {
    int64_t count = q->attrs->constant.values.count, numel = tcc_type_numel(q->given);
    if (count != 1 && count != numel)
        return tcc__refuse(q, TCC_ESHAPE, "%s needs 1 value or %lld, got %lld", tcc_type_text(q->given),
                           (long long)numel, (long long)count);
    *out = *q->given;
    return TCC_OK;
}

tcc_status tcc__infer_iota(const tcc_infer *q, tcc_type *out) {
    if (q->given->dtype == TCC_BOOL)
        return tcc__refuse(q, TCC_EDTYPE, "expected numbers, got %s", tcc_type_text(q->given));
    TCC_TRY(tcc__need_axis(q, q->attrs->axis.axis, q->given->rank));
    *out = *q->given;
    return TCC_OK;
}

tcc_status tcc__infer_rng(const tcc_infer *q, tcc_type *out) {
    static const tcc_type key = {TCC_I64, 1, {2}};
    const tcc_dtype dtype = q->op == TCC_OP_RNG_BITS ? TCC_I32 : TCC_F32;
    TCC_TRY(tcc__need_is(q, 0, "the key", &key));
    if (q->attrs->rng.id < 0 || q->attrs->rng.id > UINT32_MAX)
        return tcc__refuse(q, TCC_EINVAL, "id %lld is not in 0 .. 2^32 - 1", (long long)q->attrs->rng.id);
    if (q->given->dtype != dtype)
        return tcc__refuse(q, TCC_EDTYPE, "the result is %s, not %s", tcc_dtype_text(dtype), tcc_type_text(q->given));
    *out = *q->given;
    return TCC_OK;
}

/* -- Unary -- */

static tcc_status unary(const tcc_infer *q, unsigned kinds, tcc_type *out) {
    TCC_TRY(tcc__need_kind(q, 0, kinds));
    *out = *operand(q, 0);
    return TCC_OK;
}

tcc_status tcc__infer_unary(const tcc_infer *q, tcc_type *out) { return unary(q, KIND_NUMBER, out); }
tcc_status tcc__infer_unary_bits(const tcc_infer *q, tcc_type *out) { return unary(q, KIND_INT | KIND_BOOL, out); }

/* Also softmax and log_softmax, which have an axis. */
tcc_status tcc__infer_unary_float(const tcc_infer *q, tcc_type *out) {
    if (tcc_op_get_info(q->op)->attrs == TCC_ATTR_CLASS_axis)
        TCC_TRY(tcc__need_axis(q, q->attrs->axis.axis, operand(q, 0)->rank));
    return unary(q, KIND_FLOAT, out);
}

tcc_status tcc__infer_compare1(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(unary(q, KIND_FLOAT, out));
    out->dtype = TCC_BOOL;
    return TCC_OK;
}

tcc_status tcc__infer_cast(const tcc_infer *q, tcc_type *out) {
    tcc_type expected = *operand(q, 0);
    expected.dtype = q->given->dtype;
    TCC_TRY(tcc__need_given(q, &expected));
    *out = expected;
    return TCC_OK;
}

/* -- Binary and select -- */

static tcc_status binary(const tcc_infer *q, unsigned kinds, tcc_type *out) {
    TCC_TRY(tcc__need_kind(q, 0, kinds));
    TCC_TRY(tcc__need_same_dtype(q, 0, 1));
    if (!tcc_type_same_dims(operand(q, 0), operand(q, 1)))
        return tcc__refuse(q, TCC_ESHAPE, "shapes differ: %s and %s", tcc_type_text(operand(q, 0)),
                           tcc_type_text(operand(q, 1)));
    *out = *operand(q, 0);
    return TCC_OK;
}

tcc_status tcc__infer_binary(const tcc_infer *q, tcc_type *out) { return binary(q, KIND_NUMBER, out); }
tcc_status tcc__infer_binary_float(const tcc_infer *q, tcc_type *out) { return binary(q, KIND_FLOAT, out); }
tcc_status tcc__infer_binary_bits(const tcc_infer *q, tcc_type *out) { return binary(q, KIND_INT | KIND_BOOL, out); }

tcc_status tcc__infer_binary_ints(const tcc_infer *q, tcc_type *out) { return binary(q, KIND_INT, out); }

tcc_status tcc__infer_compare2(const tcc_infer *q, tcc_type *out) {
    TCC_TRY(binary(q, KIND_NUMBER | KIND_BOOL, out));
    out->dtype = TCC_BOOL;
    return TCC_OK;
}

tcc_status tcc__infer_select(const tcc_infer *q, tcc_type *out) {
    const tcc_type *c = operand(q, 0), *a = operand(q, 1), *b = operand(q, 2);
    if (c->dtype != TCC_BOOL) return tcc__refuse(q, TCC_EDTYPE, "the condition must be bool, got %s", tcc_type_text(c));
    TCC_TRY(tcc__need_same_dtype(q, 1, 2));
    if (!tcc_type_same_dims(c, a) || !tcc_type_same_dims(c, b))
        return tcc__refuse(q, TCC_ESHAPE, "shapes differ: %s ? %s : %s", tcc_type_text(c), tcc_type_text(a),
                           tcc_type_text(b));
    *out = *a;
    return TCC_OK;
}
