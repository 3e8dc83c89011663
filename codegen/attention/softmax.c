/* SPDX-License-Identifier: MIT
 * Helpers of softmax for both targets: maxima of rows that may see no key, and inverse denominators. */
#include "codegen/attention/internal.h"

#include <math.h>

LLVMValueRef tcc_attention_larger(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return tcc_emit_select(e, tcc_emit_compare(e, LLVMRealOGT, a, b), a, b);
}

LLVMValueRef tcc_attention_shown(tcc_emitter *e, LLVMValueRef x) {
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef hidden = tcc_emit_compare(e, LLVMRealOEQ, x, tcc_emit_float(e, type, -INFINITY));
    return tcc_emit_select(e, hidden, tcc_emit_float(e, type, 0), x);
}

LLVMValueRef tcc_attention_inverse(tcc_emitter *e, LLVMValueRef denominator) {
    LLVMValueRef one = tcc_emit_float(e, e->f32, 1), zero = tcc_emit_float(e, e->f32, 0);
    LLVMValueRef empty = tcc_emit_compare(e, LLVMRealOEQ, denominator, zero);
    return tcc_emit_select(e, empty, zero, LLVMBuildFDiv(e->builder, one, denominator, ""));
}
