/* SPDX-License-Identifier: MIT
 * Functions of what all ranks have. Who trains alone, or does not train, has all of it. */
#include "ir/collective.h"
#include "tensor_ops.h"

#include "traincc/functions.h"

static tcc_tensor over_ranks(tcc_op op, tcc_tensor x, tcc_rank_reduction reduction, tcc_loc at) {
    if (!tcc_trace_takes(tcc__tensor_op_text(op), at, 1, &x)) return tcc_trace_poison();
    tcc_trace *t = x.trace;
    if (!t->training || t->ranks < 2) return x;
    tcc_graph *g = tcc__tensor_begin(t, at);
    return tcc_trace_wrap(t, tcc_ir_collective_once(g, op, x.node, reduction, t->whole ? 1 : t->ranks));
}

tcc_tensor tcc_all_reduce_at(tcc_tensor x, tcc_comm_op reduction, tcc_loc at) {
    static const tcc_rank_reduction reductions[] = {
        [TCC_COMM_SUM] = TCC_REDUCTION_SUM, [TCC_COMM_MAX] = TCC_REDUCTION_MAX, [TCC_COMM_MIN] = TCC_REDUCTION_MIN};
    if (!tcc_trace_takes("all_reduce", at, 1, &x)) return tcc_trace_poison();
    if ((unsigned)reduction > TCC_COMM_MIN)
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "all_reduce: there is no reduction %d", (int)reduction);
    if (x.node->type.dtype == TCC_BOOL)
        return tcc_trace_error(x.trace, TCC_EDTYPE, at, "all_reduce: x is %s: only numbers are reduced",
                               tcc_type_text(&x.node->type));
    return over_ranks(TCC_OP_ALL_REDUCE, x, reductions[reduction], at);
}

tcc_tensor tcc_all_gather_at(tcc_tensor x, tcc_loc at) {
    if (!tcc_trace_takes("all_gather", at, 1, &x)) return tcc_trace_poison();
    if (!x.node->type.rank)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "all_gather: x is %s, which has no dim 0 to gather along",
                               tcc_type_text(&x.node->type));
    return over_ranks(TCC_OP_ALL_GATHER, x, TCC_REDUCTIONS, at);
}
