/* SPDX-License-Identifier: MIT
 * Calls of LLVM's intrinsics. */
#include "codegen/emit/nvptx.h"

#include <string.h>

LLVMValueRef tcc_emit_overloaded(tcc_emitter *e, const char *name, LLVMTypeRef *overloads, int n_overloads,
                                 LLVMValueRef *arguments, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, overloads, (size_t)n_overloads);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, (size_t)n_overloads);
    return LLVMBuildCall2(e->builder, type, function, arguments, (unsigned)n, "");
}

LLVMValueRef tcc_emit_intrinsic(tcc_emitter *e, const char *name, LLVMTypeRef overload, LLVMValueRef *arguments,
                                int n) {
    return tcc_emit_overloaded(e, name, &overload, overload ? 1 : 0, arguments, n);
}

LLVMValueRef tcc_cuda_intrinsic(tcc_emitter *e, const char *name, LLVMValueRef *arguments, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) {
        e->status = TCC_BUG(e->diag, "this version of LLVM has no intrinsic %s", name);
        return n ? arguments[0] : tcc_emit_i32(e, 0);
    }
    LLVMTypeRef overload = n && LLVMIntrinsicIsOverloaded(id) ? LLVMTypeOf(arguments[0]) : NULL;
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, &overload, overload != NULL);
    return LLVMBuildCall2(e->builder, LLVMIntrinsicGetType(e->context, id, &overload, overload != NULL), function,
                          arguments, (unsigned)n, "");
}

/* LLVM 21 renamed it. */
void tcc_emit_barrier(tcc_emitter *e) {
    static const char before[] = "llvm.nvvm.barrier0", now[] = "llvm.nvvm.barrier.cta.sync.aligned.all";
    LLVMValueRef zero = tcc_emit_i32(e, 0);
    if (LLVMLookupIntrinsicID(before, strlen(before))) tcc_cuda_intrinsic(e, before, NULL, 0);
    else tcc_cuda_intrinsic(e, now, &zero, 1);
}
