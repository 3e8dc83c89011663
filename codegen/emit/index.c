/* SPDX-License-Identifier: MIT
 * Arithmetic on indices. They are i64 for every schedule; a target with registers of 32 bits computes those that fit in
 * 32 (index_nvptx.c). */
#include "codegen/emit/functions.h"

static tcc_emit_value widened(tcc_emitter *e, tcc_emit_value v) { return tcc_emit_zext(e, v, e->i64); }

tcc_emit_value tcc_emit_within(tcc_emitter *e, tcc_emit_value v, int64_t high) {
    return e->target->functions->within(e, v, high);
}

tcc_emit_value tcc_emit_offset(tcc_emitter *e, tcc_emit_value v, int64_t low, int64_t high, int64_t reach) {
    return e->target->functions->offset(e, v, low, high, reach);
}

tcc_emit_value tcc_emit_narrow(tcc_emitter *e, tcc_emit_value v) { return e->target->functions->narrow(e, v); }

tcc_emit_value tcc_emit_add(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    int64_t k;
    if (tcc_emit_is_constant(a, &k) && k == 0) return b;
    if (tcc_emit_is_constant(b, &k) && k == 0) return a;
    return LLVMBuildNSWAdd(e->builder, a, b, "");
}

tcc_emit_value tcc_emit_sub(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    int64_t k;
    if (tcc_emit_is_constant(b, &k) && k == 0) return a;
    return LLVMBuildNSWSub(e->builder, a, b, "");
}

tcc_emit_value tcc_emit_mul(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    int64_t k;
    if (tcc_emit_is_constant(a, &k) && k == 1) return b;
    if (tcc_emit_is_constant(b, &k) && k == 1) return a;
    return LLVMBuildNSWMul(e->builder, a, b, "");
}

/* The one of two that comes first in an order, which is one of both widths. */
static tcc_emit_value first_of(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_icmp_kind narrow,
                               tcc_emit_icmp_kind wide) {
    tcc_emit_value x = tcc_emit_narrow(e, a), y = tcc_emit_narrow(e, b);
    if (x && y) return widened(e, tcc_emit_select(e, tcc_emit_icmp(e, narrow, x, y), x, y));
    return tcc_emit_select(e, tcc_emit_icmp(e, wide, a, b), a, b);
}

tcc_emit_value tcc_emit_min(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return first_of(e, a, b, TCC_ICMP_ULT, TCC_ICMP_SLT);
}

tcc_emit_value tcc_emit_max(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return first_of(e, a, b, TCC_ICMP_UGT, TCC_ICMP_SGT);
}

/* a op d for a divisor d > 1. */
static tcc_emit_value divide(tcc_emitter *e, LLVMOpcode op, tcc_emit_value a, int64_t d) {
    tcc_emit_value x = d <= e->target->most_narrow ? tcc_emit_narrow(e, a) : NULL;
    tcc_emit_value by = LLVMConstInt(x ? e->i32 : tcc_emit_type_of(a), (unsigned long long)d, true);
    tcc_emit_value result = LLVMBuildBinOp(e->builder, op, x ? x : a, by, "");
    return x ? widened(e, result) : result;
}

tcc_emit_value tcc_emit_div(tcc_emitter *e, tcc_emit_value a, int64_t d) {
    return d == 1 ? a : divide(e, LLVMUDiv, a, d);
}

tcc_emit_value tcc_emit_rem(tcc_emitter *e, tcc_emit_value a, int64_t d) {
    return d == 1 ? LLVMConstInt(tcc_emit_type_of(a), 0, false) : divide(e, LLVMURem, a, d);
}

static tcc_emit_value divide_lanes(tcc_emitter *e, LLVMOpcode op, tcc_emit_value a, int64_t d, int64_t low,
                                   int64_t high) {
    const int64_t most = e->target->most_narrow;
    tcc_emit_type type = tcc_emit_type_of(a);
    const bool narrow = e->target->functions->narrow_registers && low >= 0 && high <= most && d <= most;
    if (narrow) a = tcc_emit_trunc(e, a, tcc_emit_type_like(e, e->i32, type));
    tcc_emit_value result = LLVMBuildBinOp(e->builder, op, a, tcc_emit_int(e, tcc_emit_type_of(a), d), "");
    return narrow ? tcc_emit_zext(e, result, type) : result;
}

tcc_emit_value tcc_emit_div_lanes(tcc_emitter *e, tcc_emit_value a, int64_t d, int64_t low, int64_t high) {
    return divide_lanes(e, LLVMUDiv, a, d, low, high);
}

tcc_emit_value tcc_emit_rem_lanes(tcc_emitter *e, tcc_emit_value a, int64_t d, int64_t low, int64_t high) {
    return divide_lanes(e, LLVMURem, a, d, low, high);
}
