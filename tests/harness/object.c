/* SPDX-License-Identifier: MIT
 * Loading a kernel's object in a test, through LLVM's own linker, so that codegen is tested without the runtime. */
#include "object.h"

#include <llvm-c/LLJIT.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_object {
    LLVMOrcLLJITRef jit;
};

static void check(LLVMErrorRef error) {
    if (!error) return;
    fprintf(stderr, "loading an object: %s\n", LLVMGetErrorMessage(error));
    abort();
}

test_object *test_object_load(tcc_emitter *e) {
    tcc_arena arena = {0};
    tcc_module module;
    if (tcc_emitter_finish(e, NULL) != TCC_OK || tcc_emitter_object(e, &arena, &module) != TCC_OK) {
        fprintf(stderr, "emitting an object: %s\n", tcc_diag_text(e->diag));
        abort();
    }
    if (getenv("TCC_TEST_ASM")) {
        FILE *f = fopen(getenv("TCC_TEST_ASM"), "w");
        if (f) fwrite(module.code, 1, (size_t)module.size_bytes, f), fclose(f);
    }
    test_object *o = calloc(1, sizeof *o);
    check(LLVMOrcCreateLLJIT(&o->jit, NULL));
    check(LLVMOrcLLJITAddObjectFile(o->jit, LLVMOrcLLJITGetMainJITDylib(o->jit),
                                    LLVMCreateMemoryBufferWithMemoryRangeCopy(module.code, (size_t)module.size_bytes, "o")));
    tcc_arena_free(&arena);
    return o;
}

tcc_host_kernel test_object_kernel(test_object *o, const char *symbol) {
    LLVMOrcExecutorAddress address = 0;
    check(LLVMOrcLLJITLookup(o->jit, &address, symbol));
    tcc_host_kernel kernel;
    memcpy(&kernel, &address, sizeof kernel);
    return kernel;
}

void test_object_free(test_object *o) {
    check(LLVMOrcDisposeLLJIT(o->jit));
    free(o);
}
