/* SPDX-License-Identifier: MIT
 * Rows that are made in columns, on the host: memory is contiguous along the kept loop, so lanes go along that. Yet
 * each sum has the order of a row: it has `ways` partial sums, as a row has lanes. They take the terms in turns, and in
 * the end they are added up as lanes are. They are more than there are registers, and lie on the stack. */
#include "codegen/schedule/reduce.h"

void tcc_reduce_ways_begin(tcc_body_run *r, const tcc_reduce *p, bool has_runs, const bool *is_sum,
                           const tcc_emit_value *carry, int n_carry, tcc_reduce_ways *w) {
    tcc_emitter *e = r->e;
    *w = (tcc_reduce_ways){.count = p->ways, .n_carry = n_carry};
    for (int k = 0; k < n_carry; k++) {
        if (!is_sum[k]) continue;
        w->type[k] = tcc_emit_type_of(carry[k]);
        w->all[k] = tcc_emit_local(e, w->type[k], p->ways);
        w->open[k] = has_runs ? tcc_emit_local(e, w->type[k], p->ways) : w->all[k];
        for (int i = 0; i < p->ways; i++) {
            tcc_emit_value zero = tcc_emit_null(w->type[k]), at = tcc_emit_i64(e, i);
            tcc_emit_store(e, zero, tcc_emit_at(e, w->type[k], w->all[k], at), 0);
            if (has_runs) tcc_emit_store(e, zero, tcc_emit_at(e, w->type[k], w->open[k], at), 0);
        }
    }
}

bool tcc_reduce_ways_step(tcc_body_run *r, const tcc_reduce *p, const tcc_reduce_ways *w, int k, tcc_emit_value value) {
    if (!w || !w->open[k]) return false;
    tcc_emitter *e = r->e;
    tcc_emit_value way = tcc_emit_and(e, r->loops[p->reduced[p->n_reduced - 1]], tcc_emit_i64(e, w->count - 1));
    tcc_emit_value at = tcc_emit_at(e, w->type[k], w->open[k], way), sum = tcc_emit_load(e, w->type[k], at, 0);
    tcc_fold_step(e, TCC_OP_REDUCE_SUM, &sum, value, NULL, NULL);
    tcc_emit_store(e, sum, at, 0);
    return true;
}

void tcc_reduce_ways_end_run(tcc_body_run *r, const tcc_reduce_ways *w) {
    tcc_emitter *e = r->e;
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, w->count), 1, NULL, 0);
    for (int k = 0; k < w->n_carry; k++) {
        if (!w->open[k]) continue;
        tcc_emit_value from = tcc_emit_at(e, w->type[k], w->open[k], loop.index),
                       to = tcc_emit_at(e, w->type[k], w->all[k], loop.index);
        tcc_emit_value sum = tcc_emit_load(e, w->type[k], to, 0);
        tcc_fold_step(e, TCC_OP_REDUCE_SUM, &sum, tcc_emit_load(e, w->type[k], from, 0), NULL, NULL);
        tcc_emit_store(e, sum, to, 0);
        tcc_emit_store(e, tcc_emit_null(w->type[k]), from, 0);
    }
    tcc_emit_loop_end(e, &loop, NULL);
}

void tcc_reduce_ways_end_runs(tcc_reduce_ways *w) {
    for (int k = 0; k < w->n_carry; k++) w->open[k] = w->all[k];
}

void tcc_reduce_ways_end(tcc_body_run *r, const tcc_reduce_ways *w, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    for (int k = 0; k < w->n_carry; k++) {
        if (!w->all[k]) continue;
        for (int half = w->count / 2; half; half /= 2) {
            tcc_emit_loop loop;
            tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, half), 1, NULL, 0);
            tcc_emit_value low = tcc_emit_at(e, w->type[k], w->all[k], loop.index);
            tcc_emit_value high = tcc_emit_at(e, w->type[k], w->all[k],
                                              tcc_emit_add(e, loop.index, tcc_emit_i64(e, half)));
            tcc_emit_value sum = tcc_emit_load(e, w->type[k], low, 0);
            tcc_fold_step(e, TCC_OP_REDUCE_SUM, &sum, tcc_emit_load(e, w->type[k], high, 0), NULL, NULL);
            tcc_emit_store(e, sum, low, 0);
            tcc_emit_loop_end(e, &loop, NULL);
        }
        carry[k] = tcc_emit_load(e, w->type[k], w->all[k], 0);
    }
}
