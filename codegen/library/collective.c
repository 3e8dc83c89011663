/* SPDX-License-Identifier: MIT
 * Collectives, as calls of a communicator. An all-reduce may be made in place. */
#include "codegen/library/collective.h"

#include "codegen/library/call.h"
#include "ir/collective.h"
#include "ir/support/network.h"

tcc_status tcc_lower_collective(tcc_lowering *l) {
    const tcc_node *n = l->group->hero, *x = n->operands[0];
    const tcc_rank_reduction reduction = tcc_reduction_of(n);
    const bool reduces = n->op == TCC_OP_ALL_REDUCE, gathers = n->op == TCC_OP_ALL_GATHER;
    const bool reduces_by_sum = !gathers && reduction == TCC_REDUCTION_SUM;
    const tcc_call call = reduces ? TCC_CALL_ALL_REDUCE : gathers ? TCC_CALL_ALL_GATHER : TCC_CALL_REDUCE_SCATTER;
    const int ranks = (int)n->attrs->collective.ranks;
    const tcc_type *part = gathers ? &x->type : &n->type, *whole = gathers ? &n->type : &x->type;
    const tcc_collective_params p = {.reduction = gathers ? 0 : (int64_t)reduction,
                                     .type = part->dtype,
                                     .count = tcc_type_numel(part),
                                     .ranks = ranks,
                                     .fast = reduces_by_sum && l->options->fast_sums};
    const tcc_plan_buffer buffers[] = {{.node = x, .temporary = -1}, {.node = n, .temporary = -1, .written = true}};
    TCC_TRY(tcc_library_add_call(l, call, (const int64_t *)&p, buffers, 0));
    tcc_plan_launch *launch = &l->launches.data[l->launches.count - 1];
    const double bytes = (double)tcc_type_bytes(whole);
    launch->in_place = reduces;
    launch->bytes = (double)(tcc_type_bytes(&x->type) + tcc_type_bytes(&n->type));
    launch->waits_ns = (reduces ? 2 : 1) * tcc_network_half_ns(tcc_network_local, ranks, bytes);
    return TCC_OK;
}
