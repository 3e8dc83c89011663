/* SPDX-License-Identifier: MIT
 * Arithmetic on indices. They are i64 for every schedule; a target with registers of 32 bits computes those that fit in
 * 32 (index_nvptx.c). */
#include "codegen/emit/functions.h"

static LLVMValueRef widened(tcc_emitter *e, LLVMValueRef v) { return LLVMBuildZExt(e->builder, v, e->i64, ""); }

LLVMValueRef tcc_emit_within(tcc_emitter *e, LLVMValueRef v, int64_t high) {
    return e->target->functions->within(e, v, high);
}

LLVMValueRef tcc_emit_offset(tcc_emitter *e, LLVMValueRef v, int64_t low, int64_t high, int64_t reach) {
    return e->target->functions->offset(e, v, low, high, reach);
}

LLVMValueRef tcc_emit_narrow(tcc_emitter *e, LLVMValueRef v) { return e->target->functions->narrow(e, v); }

LLVMValueRef tcc_emit_add(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    int64_t k;
    if (tcc_emit_is_constant(a, &k) && k == 0) return b;
    if (tcc_emit_is_constant(b, &k) && k == 0) return a;
    return LLVMBuildNSWAdd(e->builder, a, b, "");
}

LLVMValueRef tcc_emit_sub(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    int64_t k;
    if (tcc_emit_is_constant(b, &k) && k == 0) return a;
    return LLVMBuildNSWSub(e->builder, a, b, "");
}

LLVMValueRef tcc_emit_mul(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    int64_t k;
    if (tcc_emit_is_constant(a, &k) && k == 1) return b;
    if (tcc_emit_is_constant(b, &k) && k == 1) return a;
    return LLVMBuildNSWMul(e->builder, a, b, "");
}

LLVMValueRef tcc_emit_min(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef x = tcc_emit_narrow(e, a), y = tcc_emit_narrow(e, b);
    if (x && y)
        return widened(e, LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntULT, x, y, ""), x, y, ""));
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, ""), a, b, "");
}

/* a op d for a divisor d > 1. */
static LLVMValueRef divide(tcc_emitter *e, LLVMOpcode op, LLVMValueRef a, int64_t d) {
    LLVMValueRef x = d <= e->target->most_narrow ? tcc_emit_narrow(e, a) : NULL;
    LLVMValueRef by = LLVMConstInt(x ? e->i32 : LLVMTypeOf(a), (unsigned long long)d, true);
    LLVMValueRef result = LLVMBuildBinOp(e->builder, op, x ? x : a, by, "");
    return x ? widened(e, result) : result;
}

LLVMValueRef tcc_emit_div(tcc_emitter *e, LLVMValueRef a, int64_t d) { return d == 1 ? a : divide(e, LLVMUDiv, a, d); }

LLVMValueRef tcc_emit_rem(tcc_emitter *e, LLVMValueRef a, int64_t d) {
    return d == 1 ? LLVMConstInt(LLVMTypeOf(a), 0, false) : divide(e, LLVMURem, a, d);
}

static LLVMValueRef divide_lanes(tcc_emitter *e, LLVMOpcode op, LLVMValueRef a, int64_t d, int64_t low, int64_t high) {
    const int64_t most = e->target->most_narrow;
    LLVMTypeRef type = LLVMTypeOf(a);
    const bool narrow = e->target->functions->narrow_registers && low >= 0 && high <= most && d <= most;
    if (narrow) a = LLVMBuildTrunc(e->builder, a, tcc_emit_type_like(e, e->i32, type), "");
    LLVMValueRef result = LLVMBuildBinOp(e->builder, op, a, tcc_emit_int(e, LLVMTypeOf(a), d), "");
    return narrow ? LLVMBuildZExt(e->builder, result, type, "") : result;
}

LLVMValueRef tcc_emit_div_lanes(tcc_emitter *e, LLVMValueRef a, int64_t d, int64_t low, int64_t high) {
    return divide_lanes(e, LLVMUDiv, a, d, low, high);
}

LLVMValueRef tcc_emit_rem_lanes(tcc_emitter *e, LLVMValueRef a, int64_t d, int64_t low, int64_t high) {
    return divide_lanes(e, LLVMURem, a, d, low, high);
}
