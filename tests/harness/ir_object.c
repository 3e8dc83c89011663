/* SPDX-License-Identifier: MIT
 * LLVM IR text to an object, with LLVM-C. */
#include "ir_object.h"

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int failed, const char *what, const char *message) {
    if (!failed) return;
    fprintf(stderr, "%s: %s\n", what, message);
    abort();
}

void *test_ir_object(const char *ir, const char *triple, int64_t *size_bytes) {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    char *message = NULL, *of_host = triple ? NULL : LLVMGetDefaultTargetTriple();
    if (!triple) triple = of_host;
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module;
    LLVMMemoryBufferRef text = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, strlen(ir), "test"), object;
    check(LLVMParseIRInContext(context, text, &module, &message), "parsing IR", message);
    LLVMTargetRef target;
    check(LLVMGetTargetFromTriple(triple, &target, &message), triple, message);
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, triple, "", "", LLVMCodeGenLevelDefault,
                                                           LLVMRelocPIC, LLVMCodeModelSmall);
    check(LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &object), "emitting", message);
    *size_bytes = (int64_t)LLVMGetBufferSize(object);
    void *bytes = malloc((size_t)*size_bytes);
    check(!bytes, "emitting", "out of memory");
    memcpy(bytes, LLVMGetBufferStart(object), (size_t)*size_bytes);
    LLVMDisposeMemoryBuffer(object);
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    LLVMDisposeMessage(of_host);
    return bytes;
}
