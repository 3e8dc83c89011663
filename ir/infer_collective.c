/* SPDX-License-Identifier: MIT
 * Type inference of collectives. */
#include "ir/collective.h"
#include "ir/infer.h"

static tcc_status check_reduction(const tcc_infer *q) {
    const char *text = q->attrs->collective.reduction;
    const tcc_rank_reduction reduction = tcc_reduction_parse(text);
    if (q->op == TCC_OP_ALL_GATHER)
        return text && *text ? tcc__refuse(q, TCC_EINVAL, "has no reduction, got \"%s\"", text) : TCC_OK;
    if (reduction == TCC_REDUCTIONS || (reduction == TCC_REDUCTION_FIRST && q->op != TCC_OP_ALL_REDUCE))
        return tcc__refuse(q, TCC_EINVAL, "\"%s\" is no reduction: sum, max%s", text ? text : "",
                           q->op == TCC_OP_ALL_REDUCE ? ", min, first" : ", min");
    return reduction == TCC_REDUCTION_FIRST ? TCC_OK : tcc__need_kind(q, 0, KIND_NUMBER);
}

tcc_status tcc__infer_collective(const tcc_infer *q, tcc_type *out) {
    const tcc_type *x = operand(q, 0);
    const int64_t ranks = q->attrs->collective.ranks;
    if (ranks < 1 || ranks > TCC_MOST_RANKS)
        return tcc__refuse(q, TCC_EINVAL, "%lld ranks: 1 to %d are possible", (long long)ranks, TCC_MOST_RANKS);
    if (q->n_operands > 1 && !tcc_op_is_collective(q->operands[1]->op))
        return tcc__refuse(q, TCC_EINVAL, "its second operand is no collective that it could wait for");
    TCC_TRY(check_reduction(q));
    *out = *x;
    if (q->op == TCC_OP_ALL_REDUCE) return TCC_OK;
    if (!x->rank) return tcc__refuse(q, TCC_ESHAPE, "a scalar has no dim to be cut along");
    if (q->op == TCC_OP_ALL_GATHER) {
        out->dims[0] *= ranks;
        return TCC_OK;
    }
    if (x->dims[0] % ranks)
        return tcc__refuse(q, TCC_ESHAPE, "dim 0 of %s is no multiple of %lld ranks", tcc_type_text(x),
                           (long long)ranks);
    out->dims[0] /= ranks;
    return TCC_OK;
}
