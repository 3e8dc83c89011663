/* SPDX-License-Identifier: MIT
 * Reductions: the identity, one step, and the combination of lanes, of a lane group's threads and of lane groups. */
#include "codegen/body/body.h"
#include "codegen/emit/math.h"

#include <string.h>

int tcc_fold_carries(tcc_op op) { return tcc_is_moment(op) ? TCC_MOMENT_STATE : op == TCC_OP_ARGMAX ? 2 : 1; }

void tcc_fold_initial(tcc_emitter *e, tcc_op op, tcc_emit_type type, tcc_emit_type index_type, tcc_emit_value *carry) {
    bool is_real = tcc_emit_is_float(type);
    if (op == TCC_OP_REDUCE_SUM || tcc_is_moment(op)) {
        for (int k = 0; k < tcc_fold_carries(op); k++) carry[k] = tcc_emit_null(type);
    } else if (is_real) {
        carry[0] = tcc_emit_float(e, type, op == TCC_OP_REDUCE_MIN ? __builtin_inf() : -__builtin_inf());
    } else {
        const int bits = tcc_emit_bits_of(type);
        int64_t least = bits == 1    ? 0
                        : bits == 32 ? INT32_MIN
                                     : INT64_MIN,
                most = bits == 1    ? 1
                       : bits == 32 ? INT32_MAX
                                    : INT64_MAX;
        carry[0] = tcc_emit_int(e, type, op == TCC_OP_REDUCE_MIN ? most : least);
    }
    if (op == TCC_OP_ARGMAX) carry[1] = tcc_emit_int(e, index_type, -1);
}

static tcc_emit_value both(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return a && b ? tcc_emit_and(e, a, b) : a ? a : b;
}

/* Does `value` come before `best` in value alone: larger (smaller), or the first NaN? */
static tcc_emit_value wins(tcc_emitter *e, tcc_op op, tcc_emit_value value, tcc_emit_value best) {
    tcc_emit_type type = tcc_emit_type_of(value);
    bool min = op == TCC_OP_REDUCE_MIN;
    if (!tcc_emit_is_float(type)) {
        bool is_bool = tcc_emit_bits_of(type) == 1;
        tcc_emit_icmp_kind p = min ? (is_bool ? TCC_ICMP_ULT : TCC_ICMP_SLT) : (is_bool ? TCC_ICMP_UGT : TCC_ICMP_SGT);
        return tcc_emit_icmp(e, p, value, best);
    }
    tcc_emit_value better = tcc_emit_fcmp(e, min ? TCC_FCMP_OLT : TCC_FCMP_OGT, value, best);
    return tcc_emit_or(e, better, tcc_emit_fcmp(e, TCC_FCMP_UNO, value, value));
}

void tcc_fold_step(tcc_emitter *e, tcc_op op, tcc_emit_value *carry, tcc_emit_value value, tcc_emit_value index,
                   tcc_emit_value mask) {
    tcc_emit_type type = tcc_emit_type_of(value);
    if (op == TCC_OP_REDUCE_SUM) {
        if (mask) value = tcc_emit_select(e, mask, value, tcc_emit_null(type));
        carry[0] = tcc_emit_is_float(type) ? tcc_emit_fadd(e, carry[0], value) : tcc_emit_iadd(e, carry[0], value);
        return;
    }
    if (op != TCC_OP_ARGMAX && tcc_emit_is_float(type)) {
        /* What each step waits for is an instruction of the host, which gives the second of two where one is NaN, and
         * a move; whether the value is a NaN does not wait for the carry. */
        const tcc_emit_fcmp_kind before = op == TCC_OP_REDUCE_MIN ? TCC_FCMP_OLT : TCC_FCMP_OGT;
        tcc_emit_value extreme = tcc_math_extreme(e, value, carry[0], op == TCC_OP_REDUCE_MIN);
        if (!extreme) {
            tcc_emit_value is_nan = tcc_emit_fcmp(e, TCC_FCMP_UNO, value, value);
            extreme = tcc_emit_select(e, tcc_emit_fcmp(e, before, value, carry[0]), value, carry[0]);
            extreme = tcc_emit_select(e, is_nan, value, extreme);
        }
        carry[0] = mask ? tcc_emit_select(e, mask, extreme, carry[0]) : extreme;
        return;
    }
    tcc_emit_value win;
    if (op == TCC_OP_ARGMAX) {
        /* Positions ascend within a lane. The first element wins whatever it is; a NaN that leads is never overtaken.
         */
        tcc_emit_value first = tcc_emit_icmp(e, TCC_ICMP_SLT, carry[1], tcc_emit_null(tcc_emit_type_of(carry[1])));
        if (tcc_emit_is_float(type))
            win = tcc_emit_and(e, tcc_emit_fcmp(e, TCC_FCMP_UGT, value, carry[0]),
                               tcc_emit_fcmp(e, TCC_FCMP_ORD, carry[0], carry[0]));
        else win = wins(e, op, value, carry[0]);
        win = both(e, tcc_emit_or(e, win, first), mask);
        carry[1] = tcc_emit_select(e, win, index, carry[1]);
    } else {
        win = both(e, wins(e, op, value, carry[0]), mask);
    }
    carry[0] = tcc_emit_select(e, win, value, carry[0]);
}

/* a from a and b, of which a's elements come first where that matters. */
static void fold_pair(tcc_emitter *e, tcc_op op, tcc_emit_value *a, tcc_emit_value *b) {
    if (tcc_is_moment(op)) {
        tcc_moment_merge(e, a, b);
        return;
    }
    if (op != TCC_OP_ARGMAX) {
        tcc_fold_step(e, op, a, b[0], NULL, NULL);
        return;
    }
    /* b before a: by value, or equal (both NaN count as equal) with a smaller position; a lane without elements loses.
     */
    tcc_emit_value win = wins(e, op, b[0], a[0]), equal;
    tcc_emit_type index_type = tcc_emit_type_of(a[1]);
    if (tcc_emit_is_float(tcc_emit_type_of(a[0]))) {
        tcc_emit_value a_nan = tcc_emit_fcmp(e, TCC_FCMP_UNO, a[0], a[0]);
        tcc_emit_value b_nan = tcc_emit_fcmp(e, TCC_FCMP_UNO, b[0], b[0]);
        equal = tcc_emit_or(e, tcc_emit_fcmp(e, TCC_FCMP_OEQ, a[0], b[0]), tcc_emit_and(e, a_nan, b_nan));
        win = tcc_emit_and(e, win, tcc_emit_not(e, a_nan));
    } else {
        equal = tcc_emit_icmp(e, TCC_ICMP_EQ, a[0], b[0]);
    }
    tcc_emit_value earlier = tcc_emit_icmp(e, TCC_ICMP_ULT, b[1], a[1]); /* -1 is the largest */
    tcc_emit_value a_none = tcc_emit_icmp(e, TCC_ICMP_SLT, a[1], tcc_emit_null(index_type));
    tcc_emit_value b_some = tcc_emit_icmp(e, TCC_ICMP_SGE, b[1], tcc_emit_null(index_type));
    win = tcc_emit_or(e, win, tcc_emit_and(e, equal, earlier));
    win = tcc_emit_and(e, tcc_emit_or(e, win, a_none), b_some);
    a[0] = tcc_emit_select(e, win, b[0], a[0]);
    a[1] = tcc_emit_select(e, win, b[1], a[1]);
}

/* The results of `threads` neighbours, a power of two within a warp: each has them all in the end. Sums and positions
 * do not depend on which of two partners is called first; of equal extremes (0 and -0) and of states, which differ in
 * rounding, the first thread's count. */
static void fold_threads(tcc_emitter *e, tcc_op op, tcc_emit_value *carry, int threads) {
    int carries = tcc_fold_carries(op);
    for (int bit = threads / 2; bit; bit /= 2) {
        tcc_emit_value other[TCC_MOMENT_STATE];
        for (int k = 0; k < carries; k++) other[k] = tcc_emit_exchange(e, carry[k], bit);
        fold_pair(e, op, carry, other);
    }
    bool first = tcc_is_moment(op) || ((op == TCC_OP_REDUCE_MAX || op == TCC_OP_REDUCE_MIN) &&
                                       tcc_emit_is_float(tcc_emit_type_of(carry[0])));
    for (int k = 0; threads > 1 && first && k < carries; k++) carry[k] = tcc_emit_first_thread(e, carry[k]);
}

void tcc_fold_lanes(tcc_emitter *e, const tcc_op *ops, int n_ops, tcc_emit_value *carry) {
    int n_carry = 0, group = tcc_emit_group_lanes(e, 1);
    for (int i = 0; i < n_ops; n_carry += tcc_fold_carries(ops[i++])) {
        tcc_emit_value *own = carry + n_carry;
        for (int n = tcc_emit_lanes_of(tcc_emit_type_of(own[0])); n > 1; n /= 2) {
            int low[64], high[64];
            tcc_emit_value a[TCC_MOMENT_STATE], b[TCC_MOMENT_STATE];
            for (int l = 0; l < n / 2; l++) low[l] = l, high[l] = l + n / 2;
            for (int k = 0; k < tcc_fold_carries(ops[i]); k++) {
                if (n == 2) {
                    a[k] = tcc_emit_extract(e, own[k], tcc_emit_i32(e, 0));
                    b[k] = tcc_emit_extract(e, own[k], tcc_emit_i32(e, 1));
                } else {
                    a[k] = tcc_emit_shuffle(e, own[k], NULL, low, n / 2);
                    b[k] = tcc_emit_shuffle(e, own[k], NULL, high, n / 2);
                }
            }
            fold_pair(e, ops[i], a, b);
            for (int k = 0; k < tcc_fold_carries(ops[i]); k++) own[k] = a[k];
        }
        fold_threads(e, ops[i], own, group < TCC_EMIT_WARP ? group : TCC_EMIT_WARP);
    }
    if (group <= TCC_EMIT_WARP || n_carry == 0) return;
    tcc_emit_gather_warps(e, carry, n_carry);
    for (int i = 0, c = 0; i < n_ops; c += tcc_fold_carries(ops[i++]))
        fold_threads(e, ops[i], carry + c, group / TCC_EMIT_WARP);
}

/* Half of the lane groups give what they have to the other half, until one is left. */
void tcc_fold_split(tcc_emitter *e, const tcc_op *ops, int n_ops, tcc_emit_value *carry, bool all) {
    int n_carry = 0;
    for (int i = 0; i < n_ops; i++) n_carry += tcc_fold_carries(ops[i]);
    if (!e->split || n_carry == 0) return;
    tcc_emit_value arrays[TCC_EMIT_MAX_CARRY], merged[TCC_EMIT_MAX_CARRY], other[TCC_EMIT_MAX_CARRY];
    tcc_emit_if branch;
    tcc_emit_split_arrays(e, carry, n_carry, arrays);
    for (int half = e->shape.shape.split / 2; half; half /= 2) {
        tcc_emit_value count = tcc_emit_i64(e, half), from = tcc_emit_sub(e, e->split, count);
        tcc_emit_if_begin(e, &branch, tcc_emit_icmp(e, TCC_ICMP_ULT, from, count));
        tcc_emit_split_put(e, arrays, carry, n_carry);
        tcc_emit_if_end(e, &branch);
        tcc_emit_barrier(e);
        tcc_emit_if_begin(e, &branch, tcc_emit_icmp(e, TCC_ICMP_ULT, e->split, count));
        memcpy(merged, carry, sizeof *carry * (size_t)n_carry);
        memcpy(other, carry, sizeof *carry * (size_t)n_carry);
        tcc_emit_split_get(e, arrays, tcc_emit_add(e, e->split, count), other, n_carry);
        for (int i = 0, c = 0; i < n_ops; c += tcc_fold_carries(ops[i++])) fold_pair(e, ops[i], merged + c, other + c);
        tcc_emit_if_end(e, &branch);
        for (int k = 0; k < n_carry; k++) carry[k] = tcc_emit_if_value(e, &branch, merged[k], carry[k]);
    }
    if (!all) return;
    tcc_emit_leader_begin(e, &branch, true);
    tcc_emit_split_put(e, arrays, carry, n_carry);
    tcc_emit_leader_end(e, &branch);
    tcc_emit_barrier(e);
    tcc_emit_split_get(e, arrays, tcc_emit_i64(e, 0), carry, n_carry);
}
