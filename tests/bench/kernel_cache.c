/* SPDX-License-Identifier: MIT
 * For the campaign alone: kernels that an earlier program had are not compiled again. Most of a small program's time is
 * LLVM's, and small programs share most of their kernels. The linker puts this in front of tcc_compile_kernels
 * (--wrap). A kernel's key says everything that its code depends on (codegen/plan.h); that this is so is tested by the
 * way, since a kernel by the wrong key would compute something else. */
#include "codegen/compile.h"
#include "ir/support/alloc.h"

#include <llvm-c/TargetMachine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 16 };
#define MOST_BYTES ((size_t)600 << 20)

typedef struct entry {
    struct entry *next;
    char *key;
    tcc_target target;
    bool table;
    tcc_kernel kernel;
    tcc_thread_shape shape;
    int64_t scratch_bytes;
    char *symbol;
    void *code;
    int64_t size_bytes;
} entry;

static entry *slots[SLOTS];
static size_t bytes;
long kernel_cache_hits, kernel_cache_misses;

tcc_status __real_tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                                      const tcc_kernel_plan *kernels, const bool *table, int n,
                                      const tcc_codegen_options *options, tcc_program *p);
tcc_status __wrap_tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                                      const tcc_kernel_plan *kernels, const bool *table, int n,
                                      const tcc_codegen_options *options, tcc_program *p);

static entry **slot_of(const char *key) {
    uint64_t h = 14695981039346656037u;
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 1099511628211u;
    return &slots[(h ^ h >> 32) % SLOTS];
}

static void forget_all(void) {
    for (int i = 0; i < SLOTS; i++)
        while (slots[i]) {
            entry *e = slots[i];
            slots[i] = e->next;
            free(e->key);
            free(e->symbol);
            free(e->code);
            free(e);
        }
    bytes = 0;
}

/* One kernel in a module of its own. */
static tcc_status compile_one(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                              const tcc_kernel_plan *plan, bool table, const tcc_codegen_options *options,
                              entry **out) {
    tcc_program alone = {.name = "one"};
    tcc_status status = __real_tcc_compile_kernels(cx, diag, target, plan, &table, 1, options, &alone);
    if (status == TCC_OK) {
        entry *e = calloc(1, sizeof *e), **slot = slot_of(plan->key);
        *e = (entry){.next = *slot,
                     .key = strdup(plan->key),
                     .target = target->kind,
                     .table = table,
                     .kernel = alone.kernels[0],
                     .shape = plan->shape,
                     .scratch_bytes = plan->scratch_bytes,
                     .symbol = strdup(alone.kernels[0].symbol),
                     .code = malloc((size_t)alone.modules[0].size_bytes),
                     .size_bytes = alone.modules[0].size_bytes};
        memcpy(e->code, alone.modules[0].code, (size_t)e->size_bytes);
        bytes += strlen(e->key) + (size_t)e->size_bytes + sizeof *e;
        *out = *slot = e;
    }
    tcc_arena_free(&alone.memory);
    return status;
}

tcc_status __wrap_tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                                      const tcc_kernel_plan *kernels, const bool *table, int n,
                                      const tcc_codegen_options *options, tcc_program *p) {
    if (bytes > MOST_BYTES) forget_all();
    p->n_kernels = p->n_modules = n;
    p->kernels = TCC_ARENA_ARRAY(&p->memory, tcc_kernel, n + 1);
    p->modules = TCC_ARENA_ARRAY(&p->memory, tcc_module, n + 1);
    if (!p->kernels || !p->modules) return tcc_enomem(diag);
    for (int i = 0; i < n; i++) {
        entry *e = *slot_of(kernels[i].key);
        const bool tabled = table && table[i];
        while (e && (e->target != target->kind || e->table != tabled || strcmp(e->key, kernels[i].key))) e = e->next;
        if (e &&
            (memcmp(&e->shape, &kernels[i].shape, sizeof e->shape) || e->scratch_bytes != kernels[i].scratch_bytes ||
             e->kernel.n_buffers != kernels[i].n_buffers || e->kernel.n_params != kernels[i].n_params))
            printf("KEY differs: %d %d scratch %lld %lld buffers %d %d params %d %d: %s\n", e->shape.threads,
                   kernels[i].shape.threads, (long long)e->scratch_bytes, (long long)kernels[i].scratch_bytes,
                   e->kernel.n_buffers, kernels[i].n_buffers, e->kernel.n_params, kernels[i].n_params, e->key);
        if (e && getenv("CHECK_KEYS")) {
            entry *again;
            TCC_TRY(compile_one(cx, diag, target, &kernels[i], tabled, options, &again));
            if (again->size_bytes != e->size_bytes || memcmp(again->code, e->code, (size_t)e->size_bytes))
                printf("KEY: other code: %s\n", e->key);
        }
        if (e) kernel_cache_hits++;
        else kernel_cache_misses++;
        if (!e) TCC_TRY(compile_one(cx, diag, target, &kernels[i], tabled, options, &e));
        p->kernels[i] = e->kernel;
        p->kernels[i].symbol = tcc_arena_strdup(&p->memory, e->symbol);
        p->kernels[i].schedule = kernels[i].schedule;
        p->kernels[i].module = i;
        p->modules[i] = (tcc_module){tcc_arena_copy(&p->memory, e->code, (size_t)e->size_bytes), e->size_bytes};
        if (!p->kernels[i].symbol || !p->modules[i].code) return tcc_enomem(diag);
    }
    return TCC_OK;
}

/* LLVM's fast path: our own emission is what the campaign is about. */
LLVMTargetMachineRef __real_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model);
LLVMTargetMachineRef __wrap_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model);
LLVMTargetMachineRef __wrap_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model) {
    const char *v = getenv("LEVEL");
    return __real_LLVMCreateTargetMachine(t, triple, cpu, features, v ? (LLVMCodeGenOptLevel)atoi(v) : level, reloc,
                                          model);
}
