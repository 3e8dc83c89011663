/* SPDX-License-Identifier: MIT
 * For the campaign alone: kernels that an earlier program had are not compiled again. Most of a small program's time is
 * LLVM's, and small programs share most of their kernels. The linker puts this in front of tcc_compile_kernels
 * (--wrap). A kernel's key says everything that its code depends on (codegen/plan.h). That this is so is tested by the
 * way, since a kernel found by too short a key computes something else; CAMPAIGN_CHECK_KEYS=1 compares the code. */
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
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 1099511628211u;
    return &slots[(h ^ h >> 32) % SLOTS];
}

static void entry_free(entry *e) {
    free(e->key);
    free(e->symbol);
    free(e->code);
    free(e);
}

static void forget_all(void) {
    for (int i = 0; i < SLOTS; i++)
        while (slots[i]) {
            entry *e = slots[i];
            slots[i] = e->next;
            entry_free(e);
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
        const tcc_module *m = &alone.modules[0];
        entry *e = calloc(1, sizeof *e);
        *e = (entry){.key = strdup(plan->key),
                     .target = target->kind,
                     .table = table,
                     .kernel = alone.kernels[0],
                     .symbol = strdup(alone.kernels[0].symbol),
                     .code = malloc((size_t)m->size_bytes),
                     .size_bytes = m->size_bytes};
        memcpy(e->code, m->code, (size_t)m->size_bytes);
        *out = e;
    }
    tcc_arena_free(&alone.memory);
    return status;
}

/* Equal keys, equal code: a kernel that was found is compiled all the same. */
static tcc_status check_key(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target, const tcc_kernel_plan *plan,
                            const tcc_codegen_options *options, const entry *e) {
    entry *again;
    TCC_TRY(compile_one(cx, diag, target, plan, e->table, options, &again));
    if (again->size_bytes != e->size_bytes || memcmp(again->code, e->code, (size_t)e->size_bytes))
        printf("other code by the same key: %s\n", e->key);
    entry_free(again);
    return TCC_OK;
}

static tcc_status find(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target, const tcc_kernel_plan *plan,
                       bool table, const tcc_codegen_options *options, entry **out) {
    entry **slot = slot_of(plan->key), *e = *slot;
    while (e && (e->target != target->kind || e->table != table || strcmp(e->key, plan->key))) e = e->next;
    *out = e;
    if (e) {
        kernel_cache_hits++;
        return getenv("CAMPAIGN_CHECK_KEYS") ? check_key(cx, diag, target, plan, options, e) : TCC_OK;
    }
    kernel_cache_misses++;
    TCC_TRY(compile_one(cx, diag, target, plan, table, options, out));
    e = *out;
    e->next = *slot;
    *slot = e;
    bytes += strlen(e->key) + (size_t)e->size_bytes + sizeof *e;
    return TCC_OK;
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
        entry *e;
        TCC_TRY(find(cx, diag, target, &kernels[i], table && table[i], options, &e));
        p->kernels[i] = e->kernel;
        p->kernels[i].symbol = tcc_arena_strdup(&p->memory, e->symbol);
        p->kernels[i].schedule = kernels[i].schedule;
        p->kernels[i].module = i;
        p->modules[i] = (tcc_module){tcc_arena_copy(&p->memory, e->code, (size_t)e->size_bytes), e->size_bytes};
        if (!p->kernels[i].symbol || !p->modules[i].code) return tcc_enomem(diag);
    }
    return TCC_OK;
}

/* LLVM's fast path, 0, unless CAMPAIGN_LLVM_LEVEL says otherwise: the campaign is about what we emit. */
LLVMTargetMachineRef __real_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model);
LLVMTargetMachineRef __wrap_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model);
LLVMTargetMachineRef __wrap_LLVMCreateTargetMachine(LLVMTargetRef t, const char *triple, const char *cpu,
                                                    const char *features, LLVMCodeGenOptLevel level,
                                                    LLVMRelocMode reloc, LLVMCodeModel model) {
    const char *given = getenv("CAMPAIGN_LLVM_LEVEL");
    level = given ? (LLVMCodeGenOptLevel)atoi(given) : LLVMCodeGenLevelNone;
    return __real_LLVMCreateTargetMachine(t, triple, cpu, features, level, reloc, model);
}
