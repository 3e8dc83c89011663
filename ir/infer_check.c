/* SPDX-License-Identifier: MIT
 * Checks that the rules of type inference share, and how their errors are reported. */
#include "ir/attrs.h"
#include "ir/infer.h"

#include <stdio.h>

tcc_status tcc__refuse(const tcc_infer *q, tcc_status status, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tcc_error(q->diag, status, q->loc, "%s: %s", tcc_op_get_info(q->op)->text, message);
}

static const char *kinds_text(unsigned kinds) {
    switch (kinds) {
    case KIND_FLOAT: return "floats";
    case KIND_INT: return "integers";
    case KIND_BOOL: return "bool";
    case KIND_NUMBER: return "numbers";
    default: return "integers or bool";
    }
}

tcc_status tcc__need_kind(const tcc_infer *q, int i, unsigned kinds) {
    if (1u << tcc_dtype_get_kind(operand(q, i)->dtype) & kinds) return TCC_OK;
    return tcc__refuse(q, TCC_EDTYPE, "expected %s, got %s", kinds_text(kinds), tcc_type_text(operand(q, i)));
}

tcc_status tcc__need_same_dtype(const tcc_infer *q, int i, int j) {
    if (operand(q, i)->dtype == operand(q, j)->dtype) return TCC_OK;
    return tcc__refuse(q, TCC_EDTYPE, "element types differ: %s and %s", tcc_type_text(operand(q, i)),
                       tcc_type_text(operand(q, j)));
}

tcc_status tcc__need_is(const tcc_infer *q, int i, const char *role, const tcc_type *expected) {
    if (tcc_type_equal(operand(q, i), expected)) return TCC_OK;
    return tcc__refuse(q, operand(q, i)->dtype == expected->dtype ? TCC_ESHAPE : TCC_EDTYPE, "%s must be %s, got %s",
                       role, tcc_type_text(expected), tcc_type_text(operand(q, i)));
}

tcc_status tcc__need_given(const tcc_infer *q, const tcc_type *expected) {
    if (tcc_type_equal(q->given, expected)) return TCC_OK;
    return tcc__refuse(q, q->given->dtype == expected->dtype ? TCC_ESHAPE : TCC_EDTYPE, "the result must be %s, not %s",
                       tcc_type_text(expected), tcc_type_text(q->given));
}

tcc_status tcc__need_axis(const tcc_infer *q, int64_t axis, int rank) {
    if (axis >= 0 && axis < rank) return TCC_OK;
    if (!rank) return tcc__refuse(q, TCC_ESHAPE, "axis %lld of a scalar", (long long)axis);
    return tcc__refuse(q, TCC_ESHAPE, "axis %lld is not in 0 .. %d of %s", (long long)axis, rank - 1,
                       tcc_type_text(q->n_operands ? operand(q, 0) : q->given));
}

tcc_status tcc__need_axes(const tcc_infer *q, const char *name, const tcc_dims *axes, int rank, bool ascending) {
    unsigned seen = 0;
    for (int i = 0; i < axes->count; i++) {
        int64_t axis = axes->v[i];
        if (axis < 0 || axis >= rank)
            return tcc__refuse(q, TCC_ESHAPE, "%s %s: %lld is not a dim of a tensor of rank %d", name,
                               tcc__dims_text(axes), (long long)axis, rank);
        if (seen >> axis & 1)
            return tcc__refuse(q, TCC_ESHAPE, "%s %s: %lld is there twice", name, tcc__dims_text(axes),
                               (long long)axis);
        if (ascending && seen >> axis)
            return tcc__refuse(q, TCC_ESHAPE, "%s %s are not in ascending order", name, tcc__dims_text(axes));
        seen |= 1u << axis;
    }
    return TCC_OK;
}

tcc_status tcc__need_list(const tcc_infer *q, const char *name, const tcc_dims *list, int count, int64_t least) {
    if (list->count != count)
        return tcc__refuse(q, TCC_ESHAPE, "%s %s must have %d %s", name, tcc__dims_text(list), count,
                           count == 1 ? "entry" : "entries");
    for (int i = 0; i < count; i++)
        if (list->v[i] < least || list->v[i] > TCC_MAX_NUMEL)
            return tcc__refuse(q, TCC_EINVAL, "%s %s: %lld is out of range, at least %lld is expected", name,
                               tcc__dims_text(list), (long long)list->v[i], (long long)least);
    return TCC_OK;
}

const char *tcc__dims_text(const tcc_dims *list) {
    enum { TEXT_BYTES = TCC_MAX_RANK * 24 };
    static _Thread_local char buffers[4][TEXT_BYTES];
    static _Thread_local unsigned next;
    char *text = buffers[next++ % 4];
    size_t used = (size_t)snprintf(text, TEXT_BYTES, "[");
    for (int i = 0; i < list->count; i++)
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, i ? ", %lld" : "%lld", (long long)list->v[i]);
    snprintf(text + used, TEXT_BYTES - used, "]");
    return text;
}

tcc_status tcc__check_type(tcc_diag *diag, tcc_loc loc, const char *what, const tcc_type *t) {
    if (t->dtype < 0 || t->dtype >= TCC_DTYPE_COUNT)
        return tcc_error(diag, TCC_EDTYPE, loc, "%s: %d is no element type", what, (int)t->dtype);
    if (t->rank < 0 || t->rank > TCC_MAX_RANK)
        return tcc_error(diag, TCC_ESHAPE, loc, "%s: rank %d, at most %d is supported", what, t->rank, TCC_MAX_RANK);
    int64_t numel = 1;
    for (int i = 0; i < t->rank; i++) {
        int64_t extent = t->dims[i];
        if (extent < 1)
            return tcc_error(diag, TCC_ESHAPE, loc, "%s: dim %d of %s is not positive", what, i, tcc_type_text(t));
        if (extent > TCC_MAX_NUMEL / numel)
            return tcc_error(diag, TCC_ESHAPE, loc, "%s: %s has more than 2^40 elements", what, tcc_type_text(t));
        numel *= extent;
    }
    return TCC_OK;
}
