/* SPDX-License-Identifier: MIT
 * Long sums are cut into runs of no more than TCC_CHAIN_TERMS terms, whose sums are then added up. */
#include "codegen/schedule/reduce.h"

#include <string.h>

void tcc_reduce_runs_begin(tcc_emitter *e, const bool *is_sum, tcc_emit_loop *runs, int64_t step, int64_t high,
                           tcc_emit_value *from, tcc_emit_value *to, tcc_emit_value *carry, int n_carry) {
    tcc_emit_loop_begin(e, runs, *from, *to, step, carry, n_carry);
    tcc_emit_value end = tcc_emit_within(e, tcc_emit_add(e, runs->index, tcc_emit_i64(e, step)), high + step);
    *from = runs->index;
    *to = tcc_emit_min(e, end, *to);
    for (int k = 0; k < n_carry; k++)
        carry[k] = is_sum[k] ? tcc_emit_null(tcc_emit_type_of(runs->carry[k])) : runs->carry[k];
}

void tcc_reduce_runs_end(tcc_emitter *e, const bool *is_sum, tcc_emit_loop *runs, tcc_emit_value *carry, int n_carry) {
    tcc_emit_value next[TCC_EMIT_MAX_CARRY];
    for (int k = 0; k < n_carry; k++) {
        next[k] = is_sum[k] ? runs->carry[k] : carry[k];
        if (is_sum[k]) tcc_fold_step(e, TCC_OP_REDUCE_SUM, &next[k], carry[k], NULL, NULL);
    }
    tcc_emit_loop_end(e, runs, next);
    memcpy(carry, runs->carry, sizeof *carry * (size_t)n_carry);
}
