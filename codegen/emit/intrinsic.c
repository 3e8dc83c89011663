/* SPDX-License-Identifier: MIT
 * Calls of LLVM's intrinsics. */
#include "codegen/emit/nvptx.h"

#include <string.h>

tcc_emit_value tcc_emit_overloaded(tcc_emitter *e, const char *name, tcc_emit_type *overloads, int n_overloads,
                                   tcc_emit_value *arguments, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    tcc_emit_value function = LLVMGetIntrinsicDeclaration(e->module, id, overloads, (size_t)n_overloads);
    tcc_emit_type type = LLVMIntrinsicGetType(e->context, id, overloads, (size_t)n_overloads);
    return LLVMBuildCall2(e->builder, type, function, arguments, (unsigned)n, "");
}

tcc_emit_value tcc_emit_intrinsic(tcc_emitter *e, const char *name, tcc_emit_type overload, tcc_emit_value *arguments,
                                  int n) {
    return tcc_emit_overloaded(e, name, &overload, overload ? 1 : 0, arguments, n);
}

tcc_emit_value tcc_emit_fptosi_sat(tcc_emitter *e, tcc_emit_value a, tcc_emit_type scalar) {
    tcc_emit_type types[] = {tcc_emit_type_like(e, scalar, tcc_emit_type_of(a)), tcc_emit_type_of(a)};
    return tcc_emit_overloaded(e, "llvm.fptosi.sat", types, 2, &a, 1);
}

tcc_emit_value tcc_cuda_intrinsic(tcc_emitter *e, const char *name, tcc_emit_value *arguments, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) {
        e->status = TCC_BUG(e->diag, "this version of LLVM has no intrinsic %s", name);
        return n ? arguments[0] : tcc_emit_i32(e, 0);
    }
    tcc_emit_type overload = n && LLVMIntrinsicIsOverloaded(id) ? tcc_emit_type_of(arguments[0]) : NULL;
    tcc_emit_value function = LLVMGetIntrinsicDeclaration(e->module, id, &overload, overload != NULL);
    return LLVMBuildCall2(e->builder, LLVMIntrinsicGetType(e->context, id, &overload, overload != NULL), function,
                          arguments, (unsigned)n, "");
}

/* LLVM 21 renamed it. */
void tcc_emit_barrier(tcc_emitter *e) {
    static const char before[] = "llvm.nvvm.barrier0", now[] = "llvm.nvvm.barrier.cta.sync.aligned.all";
    tcc_emit_value zero = tcc_emit_i32(e, 0);
    if (LLVMLookupIntrinsicID(before, strlen(before))) tcc_cuda_intrinsic(e, before, NULL, 0);
    else tcc_cuda_intrinsic(e, now, &zero, 1);
}

tcc_emit_value tcc_cuda_assemble(tcc_emitter *e, const char *text, const char *constraints, tcc_emit_value *arguments,
                                 int n) {
    tcc_emit_type types[3], result = tcc_emit_type_of(arguments[0]);
    for (int i = 0; i < n; i++) types[i] = tcc_emit_type_of(arguments[i]);
    tcc_emit_type function = LLVMFunctionType(result, types, (unsigned)n, false);
    tcc_emit_value code = LLVMGetInlineAsm(function, text, strlen(text), constraints, strlen(constraints), false, false,
                                           LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(e->builder, function, code, arguments, (unsigned)n, "");
}
