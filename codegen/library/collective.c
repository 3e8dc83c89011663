/* SPDX-License-Identifier: MIT
 * Collectives, as calls of a communicator. An all-reduce may be made in place. */
#include "codegen/library/collective.h"

#include "codegen/library/call.h"
#include "ir/collective.h"
#include "ir/support/network.h"

tcc_call tcc_collective_call(const tcc_node *n, bool fast_sums, tcc_collective_params *params) {
    const tcc_rank_reduction reduction = tcc_reduction_of(n);
    const bool gathers = n->op == TCC_OP_ALL_GATHER;
    const tcc_type *part = gathers ? &n->operands[0]->type : &n->type;
    *params = (tcc_collective_params){.reduction = gathers ? 0 : (int64_t)reduction,
                                      .type = part->dtype,
                                      .count = tcc_type_numel(part),
                                      .ranks = n->attrs->collective.ranks,
                                      .fast = !gathers && reduction == TCC_REDUCTION_SUM && fast_sums};
    return gathers ? TCC_CALL_ALL_GATHER : n->op == TCC_OP_ALL_REDUCE ? TCC_CALL_ALL_REDUCE : TCC_CALL_REDUCE_SCATTER;
}

tcc_status tcc_lower_collective(tcc_lowering *l) {
    const tcc_node *n = l->group->hero, *x = n->operands[0];
    const bool reduces = n->op == TCC_OP_ALL_REDUCE;
    tcc_collective_params p;
    const tcc_call call = tcc_collective_call(n, l->options->fast_sums, &p);
    const tcc_type *whole = n->op == TCC_OP_ALL_GATHER ? &n->type : &x->type;
    const tcc_plan_buffer buffers[] = {{.node = x, .temporary = -1}, {.node = n, .temporary = -1, .written = true}};
    TCC_TRY(tcc_library_add_call(l, call, (const int64_t *)&p, buffers, 0));
    tcc_plan_launch *launch = &l->launches.data[l->launches.count - 1];
    const double bytes = (double)tcc_type_bytes(whole);
    launch->in_place = reduces;
    launch->bytes = (double)(tcc_type_bytes(&x->type) + tcc_type_bytes(&n->type));
    launch->waits_ns = (reduces ? 2 : 1) * tcc_network_half_ns(tcc_network_local, (int)p.ranks, bytes);
    return TCC_OK;
}
