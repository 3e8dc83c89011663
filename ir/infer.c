/* SPDX-License-Identifier: MIT
 * Type inference: the dispatch over the infer column of ops.def. */
#include "ir/infer.h"
#include "ir/attrs.h"

/* Lists are no longer than their arrays: the memory safety of every later step rests on this. */
static tcc_status check_lists(const tcc_infer *q, tcc_attr_class attr_class) {
    for (const tcc_attr_field *f = tcc_attr_fields(attr_class); f->name; f++) {
        const void *x = tcc_attr_get(q->attrs, f);
        const tcc_dims *dims = f->kind == TCC_ATTR_DIMS ? x : NULL;
        const tcc_doubles *values = f->kind == TCC_ATTR_F64S ? x : NULL;
        if ((dims && (dims->count < 0 || dims->count > TCC_MAX_RANK)) ||
            (values && (values->count < 0 || (values->count && !values->v))))
            return tcc__refuse(q, TCC_EINVAL, "%s has a bad number of entries", f->name);
    }
    return TCC_OK;
}

tcc_status tcc__infer(const tcc_infer *q, tcc_type *out) {
    typedef tcc_status (*rule)(const tcc_infer *q, tcc_type *out);
    static const rule rules[TCC_OP_COUNT] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    [TCC_OP_##id] = tcc__infer_##infer,
#include "ir/ops.def"
#undef TCC_OP
    };
    const tcc_op_info *info = tcc_op_get_info(q->op);
    *out = (tcc_type){0};
    if (q->n_operands < info->least || (info->most >= 0 && q->n_operands > info->most)) {
        if (info->least == info->most)
            return tcc__refuse(q, TCC_EINVAL, "takes %d operand%s, got %d", info->least, info->least == 1 ? "" : "s",
                               q->n_operands);
        if (info->most < 0)
            return tcc__refuse(q, TCC_EINVAL, "takes %d operands or more, got %d", info->least, q->n_operands);
        return tcc__refuse(q, TCC_EINVAL, "takes %d to %d operands, got %d", info->least, info->most, q->n_operands);
    }
    TCC_TRY(check_lists(q, info->attrs));
    if (info->flags & TCC_FLAG_TYPED) {
        if (!q->given) return tcc__refuse(q, TCC_EINVAL, "needs a result type");
        TCC_TRY(tcc__check_type(q->diag, q->loc, info->text, q->given));
    }
    TCC_TRY(rules[q->op](q, out));
    TCC_TRY(tcc__check_type(q->diag, q->loc, info->text, out));
    for (int i = out->rank; i < TCC_MAX_RANK; i++) out->dims[i] = 0;
    return TCC_OK;
}
