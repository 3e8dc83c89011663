/* SPDX-License-Identifier: MIT
 * Reductions: the identity, one step, and the combination of lanes, of a lane group's threads and of lane groups. */
#include "codegen/body/body.h"

#include <string.h>

int tcc_fold_carries(tcc_op op) { return tcc_is_moment(op) ? TCC_MOMENT_STATE : op == TCC_OP_ARGMAX ? 2 : 1; }

static bool real(LLVMTypeRef type) {
    LLVMTypeKind kind = LLVMGetTypeKind(tcc_emit_lanes_of(type) > 1 ? LLVMGetElementType(type) : type);
    return kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind;
}

static unsigned bits_of(LLVMTypeRef type) {
    return LLVMGetIntTypeWidth(tcc_emit_lanes_of(type) > 1 ? LLVMGetElementType(type) : type);
}

void tcc_fold_initial(tcc_emitter *e, tcc_op op, LLVMTypeRef type, LLVMTypeRef index_type, LLVMValueRef *carry) {
    bool is_real = real(type);
    if (op == TCC_OP_REDUCE_SUM || tcc_is_moment(op)) {
        for (int k = 0; k < tcc_fold_carries(op); k++) carry[k] = LLVMConstNull(type);
    } else if (is_real) {
        carry[0] = tcc_emit_float(e, type, op == TCC_OP_REDUCE_MIN ? __builtin_inf() : -__builtin_inf());
    } else {
        unsigned bits = bits_of(type);
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

static LLVMValueRef both(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? LLVMBuildAnd(e->builder, a, b, "") : a ? a : b;
}

/* Does `value` come before `best` in value alone: larger (smaller), or the first NaN? */
static LLVMValueRef wins(tcc_emitter *e, tcc_op op, LLVMValueRef value, LLVMValueRef best) {
    LLVMTypeRef type = LLVMTypeOf(value);
    bool min = op == TCC_OP_REDUCE_MIN;
    if (!real(type)) {
        bool is_bool = bits_of(type) == 1;
        LLVMIntPredicate p = min ? (is_bool ? LLVMIntULT : LLVMIntSLT) : (is_bool ? LLVMIntUGT : LLVMIntSGT);
        return LLVMBuildICmp(e->builder, p, value, best, "");
    }
    LLVMValueRef better = LLVMBuildFCmp(e->builder, min ? LLVMRealOLT : LLVMRealOGT, value, best, "");
    return LLVMBuildOr(e->builder, better, LLVMBuildFCmp(e->builder, LLVMRealUNO, value, value, ""), "");
}

void tcc_fold_step(tcc_emitter *e, tcc_op op, LLVMValueRef *carry, LLVMValueRef value, LLVMValueRef index,
                   LLVMValueRef mask) {
    LLVMTypeRef type = LLVMTypeOf(value);
    if (op == TCC_OP_REDUCE_SUM) {
        if (mask) value = tcc_emit_select(e, mask, value, LLVMConstNull(type));
        carry[0] = real(type) ? LLVMBuildFAdd(e->builder, carry[0], value, "")
                              : LLVMBuildAdd(e->builder, carry[0], value, "");
        return;
    }
    if (op != TCC_OP_ARGMAX && real(type)) {
        /* What each step waits for is an instruction of the host, which gives the second of two where one is NaN, and
         * a move; whether the value is a NaN does not wait for the carry. */
        const LLVMRealPredicate before = op == TCC_OP_REDUCE_MIN ? LLVMRealOLT : LLVMRealOGT;
        LLVMValueRef is_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, value, value, "");
        LLVMValueRef extreme = tcc_emit_select(e, LLVMBuildFCmp(e->builder, before, value, carry[0], ""), value,
                                               carry[0]);
        extreme = tcc_emit_select(e, is_nan, value, extreme);
        carry[0] = mask ? tcc_emit_select(e, mask, extreme, carry[0]) : extreme;
        return;
    }
    LLVMValueRef win = wins(e, op, value, carry[0]);
    if (op == TCC_OP_ARGMAX) {
        /* Positions ascend within a lane. The first element wins whatever it is; a NaN that leads is never overtaken.
         */
        LLVMValueRef first = LLVMBuildICmp(e->builder, LLVMIntSLT, carry[1], LLVMConstNull(LLVMTypeOf(carry[1])), "");
        if (real(type))
            win = LLVMBuildAnd(e->builder, win, LLVMBuildFCmp(e->builder, LLVMRealORD, carry[0], carry[0], ""), "");
        win = both(e, LLVMBuildOr(e->builder, win, first, ""), mask);
        carry[1] = tcc_emit_select(e, win, index, carry[1]);
    } else {
        win = both(e, win, mask);
    }
    carry[0] = tcc_emit_select(e, win, value, carry[0]);
}

/* a from a and b, of which a's elements come first where that matters. */
static void fold_pair(tcc_emitter *e, tcc_op op, LLVMValueRef *a, LLVMValueRef *b) {
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
    LLVMValueRef win = wins(e, op, b[0], a[0]), equal;
    LLVMTypeRef index_type = LLVMTypeOf(a[1]);
    if (real(LLVMTypeOf(a[0]))) {
        LLVMValueRef a_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, a[0], a[0], "");
        LLVMValueRef b_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, b[0], b[0], "");
        equal = LLVMBuildOr(e->builder, LLVMBuildFCmp(e->builder, LLVMRealOEQ, a[0], b[0], ""),
                            LLVMBuildAnd(e->builder, a_nan, b_nan, ""), "");
        win = LLVMBuildAnd(e->builder, win, LLVMBuildNot(e->builder, a_nan, ""), "");
    } else {
        equal = LLVMBuildICmp(e->builder, LLVMIntEQ, a[0], b[0], "");
    }
    LLVMValueRef earlier = LLVMBuildICmp(e->builder, LLVMIntULT, b[1], a[1], ""); /* -1 is the largest */
    LLVMValueRef a_none = LLVMBuildICmp(e->builder, LLVMIntSLT, a[1], LLVMConstNull(index_type), "");
    LLVMValueRef b_some = LLVMBuildICmp(e->builder, LLVMIntSGE, b[1], LLVMConstNull(index_type), "");
    win = LLVMBuildOr(e->builder, win, LLVMBuildAnd(e->builder, equal, earlier, ""), "");
    win = LLVMBuildAnd(e->builder, LLVMBuildOr(e->builder, win, a_none, ""), b_some, "");
    a[0] = tcc_emit_select(e, win, b[0], a[0]);
    a[1] = tcc_emit_select(e, win, b[1], a[1]);
}

/* The results of `threads` neighbours, a power of two within a warp: each has them all in the end. Sums and positions
 * do not depend on which of two partners is called first; of equal extremes (0 and -0) and of states, which differ in
 * rounding, the first thread's count. */
static void fold_threads(tcc_emitter *e, tcc_op op, LLVMValueRef *carry, int threads) {
    int carries = tcc_fold_carries(op);
    for (int bit = threads / 2; bit; bit /= 2) {
        LLVMValueRef other[TCC_MOMENT_STATE];
        for (int k = 0; k < carries; k++) other[k] = tcc_emit_exchange(e, carry[k], bit);
        fold_pair(e, op, carry, other);
    }
    bool first = tcc_is_moment(op) ||
                 ((op == TCC_OP_REDUCE_MAX || op == TCC_OP_REDUCE_MIN) && real(LLVMTypeOf(carry[0])));
    for (int k = 0; threads > 1 && first && k < carries; k++) carry[k] = tcc_emit_first_thread(e, carry[k]);
}

void tcc_fold_lanes(tcc_emitter *e, const tcc_op *ops, int n_ops, LLVMValueRef *carry) {
    int n_carry = 0, group = tcc_emit_group_lanes(e, 1);
    for (int i = 0; i < n_ops; n_carry += tcc_fold_carries(ops[i++])) {
        LLVMValueRef *own = carry + n_carry;
        for (int n = tcc_emit_lanes_of(LLVMTypeOf(own[0])); n > 1; n /= 2) {
            int low[64], high[64];
            LLVMValueRef a[TCC_MOMENT_STATE], b[TCC_MOMENT_STATE];
            for (int l = 0; l < n / 2; l++) low[l] = l, high[l] = l + n / 2;
            for (int k = 0; k < tcc_fold_carries(ops[i]); k++) {
                if (n == 2) {
                    a[k] = LLVMBuildExtractElement(e->builder, own[k], tcc_emit_i32(e, 0), "");
                    b[k] = LLVMBuildExtractElement(e->builder, own[k], tcc_emit_i32(e, 1), "");
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
void tcc_fold_split(tcc_emitter *e, const tcc_op *ops, int n_ops, LLVMValueRef *carry, bool all) {
    int n_carry = 0;
    for (int i = 0; i < n_ops; i++) n_carry += tcc_fold_carries(ops[i]);
    if (!e->split || n_carry == 0) return;
    LLVMValueRef arrays[TCC_EMIT_MAX_CARRY], merged[TCC_EMIT_MAX_CARRY], other[TCC_EMIT_MAX_CARRY];
    tcc_emit_if branch;
    tcc_emit_split_arrays(e, carry, n_carry, arrays);
    for (int half = e->shape.shape.split / 2; half; half /= 2) {
        LLVMValueRef count = tcc_emit_i64(e, half), from = tcc_emit_sub(e, e->split, count);
        tcc_emit_if_begin(e, &branch, LLVMBuildICmp(e->builder, LLVMIntULT, from, count, ""));
        tcc_emit_split_put(e, arrays, carry, n_carry);
        tcc_emit_if_end(e, &branch);
        tcc_emit_barrier(e);
        tcc_emit_if_begin(e, &branch, LLVMBuildICmp(e->builder, LLVMIntULT, e->split, count, ""));
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
