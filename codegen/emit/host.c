/* SPDX-License-Identifier: MIT
 * The host as a target: vector capabilities, kernels, and its table of functions. */
#include "codegen/emit/functions.h"
#include "codegen/options.h"

#include "ir/support/alloc.h"
#include "ir/support/cpu.h"
#include "ir/support/tiles.h"

#include <llvm-c/TargetMachine.h>

#include <stdlib.h>
#include <string.h>

/* The levels of the x86-64 ABI, and CPUs that multiply bf16. */
static const struct level {
    const char *name, *features;
} levels[] = {
    {"x86-64-v2", TCC_CPU_V2},
    {"x86-64-v3", TCC_CPU_V3},
    {"x86-64-v4", TCC_CPU_V4},
    {"cooperlake", TCC_CPU_V4 ",+avx512bf16"},
    {"znver4", TCC_CPU_V4 ",+avx512bf16,+sse4a"},
    {"sapphirerapids", TCC_CPU_V4 ",+avx512bf16,+amx-tile,+amx-bf16"},
};
enum { LEVELS = sizeof levels / sizeof *levels };

void tcc_llvm_target_of_features(tcc_llvm_target *t) {
    const char *has = t->features;
    const bool arm = !strncmp(t->triple, "aarch64", 7);
    unsigned units = 0;
    if (tcc_cpu_lists(has, "avx512f") && tcc_cpu_lists(has, "avx512vl") && tcc_cpu_lists(has, "avx512dq") &&
        tcc_cpu_lists(has, "avx512bw")) {
        t->lanes = 16, t->registers = 32, t->fma = true;
        if (tcc_cpu_lists(has, "avx512bf16")) units |= TCC_HOST_PAIRS;
        if (units && tcc_cpu_lists(has, "sse4a")) units |= TCC_HOST_FAST_PAIRS; /* AMD's alone have that */
        if (tcc_cpu_lists(has, "amx-bf16")) units |= TCC_HOST_TILES;
    } else if (tcc_cpu_lists(has, "avx2") && tcc_cpu_lists(has, "fma")) {
        t->lanes = 8, t->registers = 16, t->fma = true;
    } else { /* SSE2, or another architecture's 128-bit vectors */
        t->lanes = 4, t->registers = arm ? 32 : 16, t->fma = arm;
    }
    t->f16 = arm || tcc_cpu_lists(has, "f16c");
    tcc_hardware_of_host(t->lanes, units, &t->hw);
    tcc_costs_of_host(&t->hw, &t->costs);
}

/* Tiles that the kernel keeps from us are none. */
static void drop_tiles(char *features) {
    for (char *p = features; (p = strstr(p, "+amx-")) != NULL;) *p = '-';
}

/* A copy on our heap of a message of LLVM's, which is released. */
static char *take_message(char *message) {
    char *copy = tcc__strdup(message ? message : "");
    LLVMDisposeMessage(message);
    return copy;
}

static const struct level *find_level(const char *name) {
    for (size_t i = 0; i < LEVELS; i++)
        if (!strcmp(levels[i].name, name)) return &levels[i];
    return NULL;
}

bool tcc_codegen_names_host(const char *name) { return find_level(name) != NULL; }

static tcc_status fill_named(const char *cpu, tcc_diag *diag, tcc_llvm_target *out) {
    const struct level *level = find_level(cpu);
    if (!level)
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "unknown cpu '%s'; known are x86-64-v2, x86-64-v3, x86-64-v4, cooperlake, znver4, "
                         "sapphirerapids",
                         cpu);
    out->cpu = tcc__strdup(cpu);
    out->features = tcc__strdup(level->features);
    return TCC_OK;
}

/* The CPU that we run on, with all that it has. */
static tcc_status fill_native(tcc_diag *diag, tcc_llvm_target *out) {
    out->cpu = take_message(LLVMGetHostCPUName());
    out->features = take_message(LLVMGetHostCPUFeatures());
    if (!out->triple || !out->cpu || !out->features) return tcc_enomem(diag);
    if (!tcc_tiles_permitted()) drop_tiles(out->features);
    if (!strncmp(out->triple, "x86_64", 6) && !tcc_cpu_lists(out->features, "sse4.1"))
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "this CPU lacks SSE4.1; TrainCC needs it (x86-64-v2 or newer)");
    return TCC_OK;
}

tcc_status tcc_llvm_target_host(const char *cpu, tcc_diag *diag, tcc_llvm_target *out) {
    *out = (tcc_llvm_target){.kind = TCC_TARGET_HOST, .functions = &tcc_emit_host, .most_narrow = INT32_MAX};
    TCC_TRY(tcc_llvm_initialize_host(diag));
    if (!cpu) TCC_TRY(tcc_cpu_wanted(diag, &cpu));
    out->triple = take_message(LLVMGetDefaultTargetTriple());
    tcc_status status = cpu ? fill_named(cpu, diag, out) : fill_native(diag, out);
    if (status == TCC_OK && (!out->triple || !out->cpu || !out->features)) status = tcc_enomem(diag);
    const char *checks = getenv("TCC_CHECK_ACCESS");
    out->checks = checks && !strcmp(checks, "1");
#ifdef TCC_QUICK_KERNELS
    out->quick = true;
#endif
    if (status == TCC_OK) tcc_llvm_target_of_features(out);
    else tcc_llvm_target_clear(out);
    return status;
}

/* --- The table of functions */

static void set_attributes(tcc_emitter *e, tcc_emit_value function) {
    static const char *const names[] = {"prefer-vector-width", "min-legal-vector-width"};
    if (e->lanes <= 4) return;
    for (int i = 0; i < 2; i++)
        LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateStringAttribute(e->context, names[i], (unsigned)strlen(names[i]),
                                                          e->lanes == 16 ? "512" : "256", 3));
}

static void kernel_begin(tcc_emitter *e, const char *symbol) {
    tcc_emit_type types[] = {e->ptr, e->ptr, e->i64, e->i64, e->ptr};
    e->function = LLVMAddFunction(e->module, symbol, LLVMFunctionType(e->void_, types, 5, false));
    for (unsigned i = 1; i <= 5; i++)
        if (i != 3 && i != 4)
            LLVMAddAttributeAtIndex(
                e->function, i, LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("noalias", 7), 0));
    e->buffers = LLVMGetParam(e->function, 0);
    e->params = LLVMGetParam(e->function, 1);
    e->begin = LLVMGetParam(e->function, 2);
    e->end = LLVMGetParam(e->function, 3);
    e->scratch = LLVMGetParam(e->function, 4);
    e->entry = LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
}

/* Element `index` of one of the kernel's tables. */
static tcc_emit_value table_entry(tcc_emitter *e, tcc_emit_type type, tcc_emit_value table, int index) {
    tcc_emit_value offset = tcc_emit_i64(e, index);
    tcc_emit_value slot = LLVMBuildInBoundsGEP2(e->builder, type, table, &offset, 1, "");
    tcc_emit_value value = LLVMBuildLoad2(e->builder, type, slot, "");
    tcc_emit_set_invariant(e, value);
    return value;
}

static tcc_emit_value buffer(tcc_emitter *e, int index) { return table_entry(e, e->ptr, e->buffers, index); }

static tcc_emit_value param(tcc_emitter *e, int index) { return table_entry(e, e->i64, e->params, index); }

static void items_begin(tcc_emitter *e, tcc_emit_loop *loop) {
    tcc_emit_loop_begin(e, loop, e->begin, e->end, 1, NULL, 0);
}

static tcc_emit_value tail_mask(tcc_emitter *e, int lanes, tcc_emit_value to, tcc_emit_value index) {
    return tcc_emit_mask(e, lanes, tcc_emit_sub(e, to, index));
}

static tcc_emit_value vectors_end(tcc_emitter *e, tcc_emit_value to, int lanes) {
    (void)e, (void)lanes;
    return to;
}

static tcc_emit_value narrow(tcc_emitter *e, tcc_emit_value v) {
    (void)e, (void)v;
    return NULL;
}

static tcc_emit_value within(tcc_emitter *e, tcc_emit_value v, int64_t high) {
    (void)e, (void)high;
    return v;
}

static tcc_emit_value offset_of(tcc_emitter *e, tcc_emit_value v, int64_t low, int64_t high, int64_t reach) {
    (void)e, (void)low, (void)high, (void)reach;
    return v;
}

#if defined __aarch64__
static const char *const vector_register = "=w,0";
#else
static const char *const vector_register = "=v,0";
#endif

/* An empty instruction that takes and gives a register. */
static tcc_emit_value anchor(tcc_emitter *e, tcc_emit_value value) {
    if (LLVMIsConstant(value)) return value;
    tcc_emit_type type = tcc_emit_type_of(value);
    tcc_emit_type function = LLVMFunctionType(type, &type, 1, false);
    const char *constraint = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? vector_register : "=r,0";
    tcc_emit_value nothing = LLVMGetInlineAsm(function, "", 0, constraint, 4, false, false, LLVMInlineAsmDialectATT,
                                              false);
    tcc_emit_value call = LLVMBuildCall2(e->builder, function, nothing, &value, 1, "");
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("memory", 6), 0));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    return call;
}

const tcc_emit_functions tcc_emit_host = {
    .calls = true,
    .kernel_begin = kernel_begin,
    .set_attributes = set_attributes,
    .buffer = buffer,
    .param = param,
    .items_begin = items_begin,
    .tail_mask = tail_mask,
    .vectors_end = vectors_end,
    .narrow = narrow,
    .within = within,
    .offset = offset_of,
    .anchor = anchor,
    .load_masked = tcc_host_load_masked,
    .store_masked = tcc_host_store_masked,
    .gather_at = tcc_host_gather_at,
    .scatter_at = tcc_host_scatter_at,
    .load_if = tcc_host_load_if,
    .load_lanes_if = tcc_host_load_lanes_if,
    .multiply_pairs = tcc_host_multiply_pairs,
    .round_pairs = tcc_host_round_pairs,
    .tiles = &tcc_host_tiles,
    .round_bf16 = tcc_host_round_bf16,
    .from_bf16 = tcc_host_from_bf16,
    .exp = tcc_host_exp,
    .exp_negative = tcc_host_exp_negative,
    .log = tcc_host_log,
    .log_rough = tcc_host_log,
    .erf = tcc_host_erf,
    .erf_slope = tcc_host_erf_slope,
    .tanh_large = tcc_host_tanh_large,
    .sigmoid = tcc_host_sigmoid,
    .rsqrt = tcc_host_rsqrt,
};
