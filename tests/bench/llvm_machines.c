/* SPDX-License-Identifier: MIT
 * For campaigns of one compiling thread: LLVM's machines are made once, since reading a CPU's features takes as long as
 * a small kernel. The linker puts this in front of LLVM's functions (--wrap). */
#include <llvm-c/TargetMachine.h>

#include <stdlib.h>
#include <string.h>

enum { MACHINES = 8 };

typedef struct machine {
    char *triple, *cpu, *features;
    LLVMTargetMachineRef ref;
} machine;

static machine machines[MACHINES];

LLVMTargetMachineRef __real_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model);
LLVMTargetMachineRef __wrap_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model);
void __real_LLVMDisposeTargetMachine(LLVMTargetMachineRef ref);
void __wrap_LLVMDisposeTargetMachine(LLVMTargetMachineRef ref);

/* LLVM's fast path, 0, unless CAMPAIGN_LLVM_LEVEL says otherwise: the campaign is about what we emit. */
LLVMTargetMachineRef __wrap_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model) {
    const char *given = getenv("CAMPAIGN_LLVM_LEVEL");
    level = given ? (LLVMCodeGenOptLevel)atoi(given) : LLVMCodeGenLevelNone;
    int i = 0;
    for (; i < MACHINES && machines[i].ref; i++)
        if (!strcmp(machines[i].triple, triple) && !strcmp(machines[i].cpu, cpu) &&
            !strcmp(machines[i].features, features))
            return machines[i].ref;
    LLVMTargetMachineRef ref = __real_LLVMCreateTargetMachine(t, triple, cpu, features, level, reloc, model);
    if (i < MACHINES && ref) machines[i] = (machine){strdup(triple), strdup(cpu), strdup(features), ref};
    return ref;
}

void __wrap_LLVMDisposeTargetMachine(LLVMTargetMachineRef ref) {
    for (int i = 0; i < MACHINES; i++)
        if (machines[i].ref == ref) return;
    __real_LLVMDisposeTargetMachine(ref);
}
