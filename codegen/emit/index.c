/* SPDX-License-Identifier: MIT
 * Arithmetic on indices. They are i64 for every schedule; on CUDA, whose registers have 32 bits, one that is known to
 * fit is computed in 32 and widened where it is used, which is then no instruction or part of an address. */
#include "codegen/emit/llvm.h"

/* The value that `v` is widened from, if it is a number of 32 bits without sign; else NULL. */
static LLVMValueRef unsigned_part(tcc_emitter *e, LLVMValueRef v) {
    int64_t k;
    if (e->target->kind != TCC_TARGET_CUDA || LLVMTypeOf(v) != e->i64) return NULL;
    if (tcc_emit_is_constant(v, &k))
        return k >= 0 && k <= e->target->most_narrow ? LLVMConstInt(e->i32, (unsigned long long)k, false) : NULL;
    if (!LLVMIsAZExtInst(v)) return NULL;
    LLVMValueRef from = LLVMGetOperand(v, 0);
    return LLVMTypeOf(from) == e->i32 ? from : NULL;
}

static LLVMValueRef widened(tcc_emitter *e, LLVMValueRef v) { return LLVMBuildZExt(e->builder, v, e->i64, ""); }

/* The low half of v - *apart, where *apart gathers the constants that are added on the way: of sums and products from
 * the low halves of their operands. `apart` NULL: of v itself. `fits`: so do all of these sums and products, with their
 * sign. */
static LLVMValueRef low_half(tcc_emitter *e, LLVMValueRef v, int depth, int64_t *apart, bool fits) {
    enum { DEEPEST = 24 };
    int64_t k;
    if (tcc_emit_is_constant(v, &k)) {
        if (apart) *apart += k;
        return LLVMConstInt(e->i32, apart ? 0 : (unsigned long long)k, true);
    }
    if (LLVMIsAZExtInst(v) || LLVMIsASExtInst(v)) {
        LLVMValueRef from = LLVMGetOperand(v, 0);
        if (LLVMTypeOf(from) == e->i32) return from;
    }
    LLVMOpcode op = LLVMIsABinaryOperator(v) && depth < DEEPEST ? LLVMGetInstructionOpcode(v) : 0;
    if (op == LLVMAdd) {
        LLVMValueRef a = low_half(e, LLVMGetOperand(v, 0), depth + 1, apart, fits),
                     c = low_half(e, LLVMGetOperand(v, 1), depth + 1, apart, fits);
        return fits ? LLVMBuildNSWAdd(e->builder, a, c, "") : LLVMBuildAdd(e->builder, a, c, "");
    }
    if (op == LLVMMul && tcc_emit_is_constant(LLVMGetOperand(v, 1), &k)) {
        int64_t inside = 0;
        LLVMValueRef a = low_half(e, LLVMGetOperand(v, 0), depth + 1, apart ? &inside : NULL, fits),
                     by = LLVMConstInt(e->i32, (unsigned long long)k, true);
        if (apart) *apart += inside * k;
        return fits ? LLVMBuildNSWMul(e->builder, a, by, "") : LLVMBuildMul(e->builder, a, by, "");
    }
    if (op == LLVMSub || op == LLVMMul) {
        LLVMValueRef a = low_half(e, LLVMGetOperand(v, 0), depth + 1, NULL, false),
                     c = low_half(e, LLVMGetOperand(v, 1), depth + 1, NULL, false);
        return LLVMBuildBinOp(e->builder, op, a, c, "");
    }
    return LLVMBuildTrunc(e->builder, v, e->i32, "");
}

static bool is_wide(const tcc_emitter *e, LLVMValueRef v) {
    return e->target->kind == TCC_TARGET_CUDA && LLVMTypeOf(v) == e->i64 && !LLVMIsConstant(v) && !LLVMIsAZExtInst(v) &&
           !LLVMIsASExtInst(v);
}

LLVMValueRef tcc_emit_within(tcc_emitter *e, LLVMValueRef v, int64_t high) {
    return is_wide(e, v) && high <= e->target->most_narrow ? widened(e, low_half(e, v, 0, NULL, false)) : v;
}

LLVMValueRef tcc_emit_offset(tcc_emitter *e, LLVMValueRef v, int64_t low, int64_t high, int64_t reach) {
    int64_t apart = 0;
    const int64_t most = e->target->most_narrow;
    if (!is_wide(e, v) || low < -most - 1 || high > most) return v;
    const bool fits = reach <= most / 4; /* indices of threads that have nothing to do may be beyond their loops */
    LLVMValueRef half = low_half(e, v, 0, &apart, fits);
    low -= apart;
    high -= apart;
    if (low < -most - 1 || high > most) return v;
    return tcc_emit_add(e, low < 0 || fits ? LLVMBuildSExt(e->builder, half, e->i64, "") : widened(e, half),
                        tcc_emit_i64(e, apart));
}

LLVMValueRef tcc_emit_narrow(tcc_emitter *e, LLVMValueRef v) { return unsigned_part(e, v); }

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
    LLVMValueRef x = unsigned_part(e, a), y = unsigned_part(e, b);
    if (x && y)
        return widened(e, LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntULT, x, y, ""), x, y, ""));
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, ""), a, b, "");
}

/* a op d for a divisor d > 1. */
static LLVMValueRef divide(tcc_emitter *e, LLVMOpcode op, LLVMValueRef a, int64_t d) {
    LLVMValueRef x = d <= e->target->most_narrow ? unsigned_part(e, a) : NULL;
    LLVMValueRef by = LLVMConstInt(x ? e->i32 : LLVMTypeOf(a), (unsigned long long)d, true);
    LLVMValueRef result = LLVMBuildBinOp(e->builder, op, x ? x : a, by, "");
    return x ? widened(e, result) : result;
}

LLVMValueRef tcc_emit_div(tcc_emitter *e, LLVMValueRef a, int64_t d) { return d == 1 ? a : divide(e, LLVMUDiv, a, d); }

LLVMValueRef tcc_emit_rem(tcc_emitter *e, LLVMValueRef a, int64_t d) {
    return d == 1 ? LLVMConstInt(LLVMTypeOf(a), 0, false) : divide(e, LLVMURem, a, d);
}
