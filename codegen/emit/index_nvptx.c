/* SPDX-License-Identifier: MIT
 * Indices on a GPU, whose registers have 32 bits. An index that is known to fit is computed in 32 bits and widened at
 * its use. The widening costs no instruction or is part of an address. */
#include "codegen/emit/nvptx.h"

/* The value that `v` is widened from, if it is a number of 32 bits without sign; else NULL. */
tcc_emit_value tcc_nvptx_narrow(tcc_emitter *e, tcc_emit_value v) {
    int64_t k;
    if (tcc_emit_type_of(v) != e->i64) return NULL;
    if (tcc_emit_is_constant(v, &k))
        return k >= 0 && k <= e->target->most_narrow ? LLVMConstInt(e->i32, (unsigned long long)k, false) : NULL;
    if (!LLVMIsAZExtInst(v)) return NULL;
    tcc_emit_value from = LLVMGetOperand(v, 0);
    return tcc_emit_type_of(from) == e->i32 ? from : NULL;
}

static tcc_emit_value widened(tcc_emitter *e, tcc_emit_value v) { return tcc_emit_zext(e, v, e->i64); }

/* The low half of v - *apart, where *apart gathers the constants that are added on the way: of sums and products from
 * the low halves of their operands. `apart` NULL: of v itself. `fits`: so do all of these sums and products, with their
 * sign. */
static tcc_emit_value low_half(tcc_emitter *e, tcc_emit_value v, int depth, int64_t *apart, bool fits) {
    enum { DEEPEST = 24 };
    int64_t k;
    if (tcc_emit_is_constant(v, &k)) {
        if (apart) *apart += k;
        return LLVMConstInt(e->i32, apart ? 0 : (unsigned long long)k, true);
    }
    if (LLVMIsAZExtInst(v) || LLVMIsASExtInst(v)) {
        tcc_emit_value from = LLVMGetOperand(v, 0);
        if (tcc_emit_type_of(from) == e->i32) return from;
    }
    LLVMOpcode op = LLVMIsABinaryOperator(v) && depth < DEEPEST ? LLVMGetInstructionOpcode(v) : 0;
    if (op == LLVMAdd) {
        tcc_emit_value a = low_half(e, LLVMGetOperand(v, 0), depth + 1, apart, fits),
                       c = low_half(e, LLVMGetOperand(v, 1), depth + 1, apart, fits);
        return fits ? LLVMBuildNSWAdd(e->builder, a, c, "") : tcc_emit_iadd(e, a, c);
    }
    if (op == LLVMMul && tcc_emit_is_constant(LLVMGetOperand(v, 1), &k)) {
        int64_t inside = 0;
        tcc_emit_value a = low_half(e, LLVMGetOperand(v, 0), depth + 1, apart ? &inside : NULL, fits),
                       by = LLVMConstInt(e->i32, (unsigned long long)k, true);
        if (apart) *apart += inside * k;
        return fits ? LLVMBuildNSWMul(e->builder, a, by, "") : tcc_emit_imul(e, a, by);
    }
    if (op == LLVMSub || op == LLVMMul) {
        tcc_emit_value a = low_half(e, LLVMGetOperand(v, 0), depth + 1, NULL, false),
                       c = low_half(e, LLVMGetOperand(v, 1), depth + 1, NULL, false);
        return LLVMBuildBinOp(e->builder, op, a, c, "");
    }
    return tcc_emit_trunc(e, v, e->i32);
}

static bool is_wide(const tcc_emitter *e, tcc_emit_value v) {
    return tcc_emit_type_of(v) == e->i64 && !LLVMIsConstant(v) && !LLVMIsAZExtInst(v) && !LLVMIsASExtInst(v);
}

tcc_emit_value tcc_nvptx_within(tcc_emitter *e, tcc_emit_value v, int64_t high) {
    return is_wide(e, v) && high <= e->target->most_narrow ? widened(e, low_half(e, v, 0, NULL, false)) : v;
}

tcc_emit_value tcc_nvptx_offset(tcc_emitter *e, tcc_emit_value v, int64_t low, int64_t high, int64_t reach) {
    int64_t apart = 0;
    const int64_t most = e->target->most_narrow;
    if (!is_wide(e, v) || low < -most - 1 || high > most) return v;
    const bool fits = reach <= most / 4; /* indices of threads that have nothing to do may be beyond their loops */
    tcc_emit_value half = low_half(e, v, 0, &apart, fits);
    low -= apart;
    high -= apart;
    if (low < -most - 1 || high > most) return v;
    return tcc_emit_add(e, low < 0 || fits ? tcc_emit_sext(e, half, e->i64) : widened(e, half), tcc_emit_i64(e, apart));
}
