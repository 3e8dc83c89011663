/* SPDX-License-Identifier: MIT
 * CUDA: the entry of a kernel, thread indices, lane groups, shared memory and exchanges between threads, in LLVM's
 * NVPTX terms. All of it is plain IR and NVVM intrinsics; nothing is called outside the module. */
#include "codegen/options.h"
#include "codegen/emit/nvptx.h"

#include "ir/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Architectures, the one that LLVM makes code for, and the oldest PTX version that has all we emit for it: the older,
 * the more drivers take it, and the more versions of LLVM make it. Newer GPUs run PTX for sm_90, and we emit nothing
 * that only they have. */
static const struct arch {
    int sm;
    const char *name, *cpu, *features;
} archs[] = {
    {75, "sm_75", "sm_75", "+ptx63"},   {80, "sm_80", "sm_80", "+ptx70"},   {86, "sm_86", "sm_86", "+ptx71"},
    {87, "sm_87", "sm_87", "+ptx74"},   {89, "sm_89", "sm_89", "+ptx78"},   {90, "sm_90", "sm_90", "+ptx78"},
    {90, "sm_90a", "sm_90a", "+ptx80"}, {100, "sm_100", "sm_90", "+ptx78"}, {103, "sm_103", "sm_90", "+ptx78"},
    {120, "sm_120", "sm_90", "+ptx78"}, {121, "sm_121", "sm_90", "+ptx78"},
};
enum { ARCHS = sizeof archs / sizeof *archs };

tcc_status tcc_llvm_target_cuda(const char *arch, const tcc_hardware *hw, tcc_diag *diag, tcc_llvm_target *out) {
    *out = (tcc_llvm_target){
        .kind = TCC_TARGET_CUDA, .lanes = 4, .registers = 32, .fma = true, .f16 = true, .most_narrow = INT32_MAX};
    TCC_TRY(tcc_llvm_initialize_cuda(diag));
    const struct arch *found = NULL;
    char known[128] = "";
    for (int i = 0; i < ARCHS; i++) {
        if (!strcmp(archs[i].name, arch)) found = &archs[i];
        size_t end = strlen(known);
        snprintf(known + end, sizeof known - end, "%s%s", i ? ", " : "", archs[i].name);
    }
    if (!found)
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "unknown GPU architecture '%s'; known are %s", arch,
                         known);
    if (hw) tcc_hardware_of_device(hw, &out->hw);
    else tcc_hardware_of_sm(found->sm, &out->hw);
    out->triple = tcc__strdup("nvptx64-nvidia-cuda");
    out->arch = tcc__strdup(found->name);
    out->cpu = tcc__strdup(found->cpu);
    out->features = tcc__strdup(found->features);
    if (!out->triple || !out->arch || !out->cpu || !out->features) {
        tcc_llvm_target_clear(out);
        return tcc_enomem(diag);
    }
    return TCC_OK;
}

tcc_status tcc_codegen_check_arch(tcc_diag *diag, const char *arch) {
    tcc_llvm_target target;
    TCC_TRY(tcc_llvm_target_cuda(arch, NULL, diag, &target));
    tcc_llvm_target_clear(&target);
    return TCC_OK;
}

const char *tcc_codegen_cuda_arch(int sm) {
    const char *newest = NULL;
    for (int i = 0; i < ARCHS; i++)
        if (archs[i].sm <= sm && !strchr(archs[i].name, 'a'))
            newest = archs[i].name; /* "sm_90a" runs on nothing newer */
    return newest;
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

static LLVMValueRef call(tcc_emitter *e, const char *name, LLVMValueRef *arguments, int n) {
    return tcc_cuda_intrinsic(e, name, arguments, n);
}

static LLVMValueRef special_register(tcc_emitter *e, const char *name) {
    return LLVMBuildZExt(e->builder, call(e, name, NULL, 0), e->i64, "");
}

static LLVMBasicBlockRef new_block(tcc_emitter *e) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, "");
}

/* --- Entries */

static void annotate(tcc_emitter *e, const char *what, int value) {
    LLVMMetadataRef parts[] = {
        LLVMValueAsMetadata(e->function),
        LLVMMDStringInContext2(e->context, what, strlen(what)),
        LLVMValueAsMetadata(tcc_emit_i32(e, value)),
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, parts, 3);
    LLVMAddNamedMetadataOperand(e->module, "nvvm.annotations", LLVMMetadataAsValue(e->context, node));
}

/* A bound of the kernel: `attribute` from LLVM 21 on, which reads no metadata for it any more, else `metadata`. */
static void bound(tcc_emitter *e, const char *attribute, const char *metadata, int value) {
    enum { FIRST_WITH_ATTRIBUTES = 21 };
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    if (major >= FIRST_WITH_ATTRIBUTES) {
        char text[16];
        snprintf(text, sizeof text, "%d", value);
        LLVMAddAttributeAtIndex(e->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateStringAttribute(e->context, attribute, (unsigned)strlen(attribute), text,
                                                          (unsigned)strlen(text)));
        return;
    }
    annotate(e, metadata, value);
}

/* Words 0, 1, ... of the instance's row: first block, items, buffers, params. */
static LLVMValueRef table_word(tcc_emitter *e, LLVMValueRef place) {
    LLVMValueRef value = tcc_emit_load(e, e->i64, place, 8);
    LLVMSetMetadata(value, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return value;
}

static LLVMValueRef row_word(tcc_emitter *e, int index) {
    return table_word(e, tcc_emit_at(e, e->i64, e->row, tcc_emit_i64(e, index)));
}

/* The last of `count` rows whose first block is not past this one. */
static LLVMValueRef find_row(tcc_emitter *e, LLVMValueRef table, LLVMValueRef count, LLVMValueRef block) {
    int64_t words = 2 + e->shape.n_buffers + e->shape.n_params;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder), test = new_block(e), body = new_block(e),
                      found = new_block(e);
    LLVMValueRef zero = tcc_emit_i64(e, 0), one = tcc_emit_i64(e, 1);
    LLVMBuildBr(e->builder, test);
    LLVMPositionBuilderAtEnd(e->builder, test);
    LLVMValueRef low = LLVMBuildPhi(e->builder, e->i64, ""), high = LLVMBuildPhi(e->builder, e->i64, "");
    LLVMAddIncoming(low, &zero, &before, 1);
    LLVMAddIncoming(high, &count, &before, 1);
    LLVMValueRef several = LLVMBuildICmp(e->builder, LLVMIntSGT, tcc_emit_sub(e, high, low), one, "");
    LLVMBuildCondBr(e->builder, several, body, found);
    LLVMPositionBuilderAtEnd(e->builder, body);
    LLVMValueRef middle = LLVMBuildLShr(e->builder, tcc_emit_add(e, low, high), one, "");
    LLVMValueRef first = table_word(e, tcc_emit_at(e, e->i64, table, tcc_emit_mul(e, middle, tcc_emit_i64(e, words))));
    LLVMValueRef past = LLVMBuildICmp(e->builder, LLVMIntSGT, first, block, "");
    LLVMValueRef next_low = tcc_emit_select(e, past, low, middle), next_high = tcc_emit_select(e, past, middle, high);
    LLVMAddIncoming(low, &next_low, &body, 1);
    LLVMAddIncoming(high, &next_high, &body, 1);
    LLVMBuildBr(e->builder, test);
    LLVMPositionBuilderAtEnd(e->builder, found);
    return tcc_emit_at(e, e->i64, table, tcc_emit_mul(e, low, tcc_emit_i64(e, words)));
}

static LLVMValueRef generic(tcc_emitter *e, LLVMValueRef pointer) {
    return LLVMBuildAddrSpaceCast(e->builder, pointer, e->ptr, "");
}

/* The block's dynamic shared memory; one array a module. */
static LLVMValueRef dynamic_shared(tcc_emitter *e) {
    LLVMValueRef array = LLVMGetNamedGlobal(e->module, "tcc_shared");
    if (!array) {
        array = LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(e->i8, 0), "tcc_shared", TCC_CUDA_SHARED);
        LLVMSetAlignment(array, 16);
    }
    return generic(e, array);
}

void tcc_cuda_kernel_begin(tcc_emitter *e, const char *symbol) {
    enum { MOST = 4 * TCC_EMIT_MAX_BUFFERS + 64 };
    const tcc_emit_entry *shape = &e->shape;
    LLVMTypeRef types[MOST], global = LLVMPointerTypeInContext(e->context, TCC_CUDA_GLOBAL);
    int n = 0, n_pointers = shape->table ? 1 : shape->n_buffers, n_integers = shape->table ? 1 : shape->n_params + 1;
    if (n_pointers + n_integers > MOST) {
        e->status = TCC_BUG(e->diag, "a kernel of %d buffers and %d parameters", shape->n_buffers, shape->n_params);
        n_pointers = n_integers = 1;
    }
    while (n < n_pointers) types[n++] = global;
    while (n < n_pointers + n_integers) types[n++] = e->i64;
    e->function = LLVMAddFunction(e->module, symbol, LLVMFunctionType(e->void_, types, (unsigned)n, false));
    LLVMSetFunctionCallConv(e->function, LLVMPTXKernelCallConv);
    annotate(e, "kernel", 1);
    bound(e, "nvvm.maxntid", "maxntidx", shape->shape.threads);
    /* Left to itself the assembler aims at so many threads that the row of a table does not fit their registers. */
    enum { REGISTERS_OF_TABLES = 85 };
    int held = tcc_hardware_threads(&e->target->hw, REGISTERS_OF_TABLES);
    int blocks = shape->shape.blocks || !shape->table ? shape->shape.blocks : held / shape->shape.threads;
    if (blocks) bound(e, "nvvm.minctasm", "minctasm", blocks < 16 ? blocks : 16);
    e->entry = LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
    LLVMValueRef tid = special_register(e, "llvm.nvvm.read.ptx.sreg.tid.x"),
                 block = special_register(e, "llvm.nvvm.read.ptx.sreg.ctaid.x");
    const int threads = shape->shape.threads, group = shape->shape.group, groups = tcc_shape_items(shape->shape);
    e->thread = group == threads ? tid : tcc_emit_rem(e, tid, group);
    e->deep = shape->shape.deep > 1 ? tcc_emit_div(e, tid, group) : NULL;
    e->group = groups == 1 ? tcc_emit_i64(e, 0) : tcc_emit_div(e, tid, group);
    e->row = NULL;
    e->shared_reused = false;
    if (shape->table) {
        e->row = find_row(e, generic(e, LLVMGetParam(e->function, 0)), LLVMGetParam(e->function, 1), block);
        block = tcc_emit_sub(e, block, row_word(e, 0));
    }
    e->begin = tcc_emit_add(e, tcc_emit_mul(e, block, tcc_emit_i64(e, groups)), e->group);
    e->end = shape->table ? row_word(e, 1) : LLVMGetParam(e->function, (unsigned)(n - 1));
    e->end = tcc_emit_within(e, e->end, INT32_MAX); /* as build.c checks */
    e->buffers = e->params = NULL;
    e->scratch = NULL;
    if (shape->scratch_bytes) {
        LLVMValueRef at = tcc_emit_mul(e, e->group, tcc_emit_i64(e, shape->scratch_bytes));
        e->scratch = tcc_emit_at(e, e->i8, dynamic_shared(e), at);
    }
}

LLVMValueRef tcc_cuda_buffer(tcc_emitter *e, int index) {
    LLVMTypeRef global = LLVMPointerTypeInContext(e->context, TCC_CUDA_GLOBAL);
    LLVMValueRef pointer = e->row ? LLVMBuildIntToPtr(e->builder, row_word(e, 2 + index), global, "")
                                  : LLVMGetParam(e->function, (unsigned)index);
    return generic(e, pointer);
}

LLVMValueRef tcc_cuda_param(tcc_emitter *e, int index) {
    index += e->shape.n_buffers;
    return e->row ? row_word(e, 2 + index) : LLVMGetParam(e->function, (unsigned)index);
}

void tcc_cuda_items_begin(tcc_emitter *e, tcc_emit_loop *loop) {
    LLVMValueRef step = tcc_emit_i64(e, 1);
    if (!e->row) {
        LLVMValueRef blocks = special_register(e, "llvm.nvvm.read.ptx.sreg.nctaid.x");
        step = tcc_emit_within(e, tcc_emit_mul(e, blocks, tcc_emit_i64(e, tcc_shape_items(e->shape.shape))), INT32_MAX);
    }
    tcc_emit_loop_begin_by(e, loop, e->begin, e->end, step, NULL, 0);
    loop->once = e->row != NULL;
}

/* --- Lane groups */

int tcc_shape_items(tcc_thread_shape shape) {
    return shape.threads / (shape.group * (shape.deep > 1 ? shape.deep : 1));
}

int tcc_emit_group_lanes(const tcc_emitter *e, int lanes) {
    return e->target->kind == TCC_TARGET_CUDA ? lanes * e->shape.shape.group : lanes;
}

void tcc_emit_lane_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to, int lanes,
                              const LLVMValueRef *initial, int n_carry) {
    if (e->target->kind == TCC_TARGET_CUDA && e->shape.shape.group > 1)
        from = tcc_emit_add(e, from, tcc_emit_mul(e, e->thread, tcc_emit_i64(e, lanes)));
    tcc_emit_loop_begin(e, loop, from, to, tcc_emit_group_lanes(e, lanes), initial, n_carry);
}

LLVMValueRef tcc_emit_tail_mask(tcc_emitter *e, int lanes, LLVMValueRef to, LLVMValueRef index) {
    return e->target->kind == TCC_TARGET_CUDA ? NULL : tcc_emit_mask(e, lanes, tcc_emit_sub(e, to, index));
}

LLVMValueRef tcc_emit_vectors_end(tcc_emitter *e, LLVMValueRef to, int lanes) {
    if (e->target->kind != TCC_TARGET_CUDA || lanes == 1) return to;
    return LLVMBuildAnd(e->builder, to, tcc_emit_i64(e, -lanes), "");
}

void tcc_emit_leader_begin(tcc_emitter *e, tcc_emit_if *branch, bool lanes) {
    branch->join = NULL;
    if (e->target->kind != TCC_TARGET_CUDA) return;
    LLVMValueRef index = lanes ? e->deep : e->shape.shape.group > 1 ? e->thread : NULL;
    if (index) tcc_emit_if_begin(e, branch, LLVMBuildICmp(e->builder, LLVMIntEQ, index, tcc_emit_i64(e, 0), ""));
}

void tcc_emit_leader_end(tcc_emitter *e, tcc_emit_if *branch) {
    if (branch->join) tcc_emit_if_end(e, branch);
}

void tcc_emit_deep_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to,
                              const LLVMValueRef *initial, int n_carry) {
    bool shared = e->target->kind == TCC_TARGET_CUDA && e->deep;
    if (shared) from = tcc_emit_add(e, from, e->deep);
    tcc_emit_loop_begin(e, loop, from, to, shared ? e->shape.shape.deep : 1, initial, n_carry);
}

/* --- Exchanges */

/* The threads of the group within its warp. Neighbouring groups of a warp may be elsewhere in the code. */
static LLVMValueRef group_mask(tcc_emitter *e) {
    int group = e->shape.shape.group;
    if (group >= TCC_EMIT_WARP) return tcc_emit_i32(e, -1);
    LLVMValueRef tid = call(e, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, 0);
    LLVMValueRef first = LLVMBuildAnd(e->builder, tid, tcc_emit_i32(e, (TCC_EMIT_WARP - 1) & ~(group - 1)), "");
    return LLVMBuildShl(e->builder, tcc_emit_i32(e, (1 << group) - 1), first, "");
}

/* `lane`: what the instruction takes, and how far its result may come from: bits 0-4 clamp, 8-12 the part of a warp
 * that is one. */
static LLVMValueRef shuffle(tcc_emitter *e, const char *name, LLVMValueRef value, int lane, int clamp) {
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMBuilderRef b = e->builder;
    if (type == e->f32)
        return LLVMBuildBitCast(b, shuffle(e, name, LLVMBuildBitCast(b, value, e->i32, ""), lane, clamp), type, "");
    if (type == e->f64)
        return LLVMBuildBitCast(b, shuffle(e, name, LLVMBuildBitCast(b, value, e->i64, ""), lane, clamp), type, "");
    if (type == e->i1)
        return LLVMBuildTrunc(b, shuffle(e, name, LLVMBuildZExt(b, value, e->i32, ""), lane, clamp), type, "");
    if (type == e->i64) {
        LLVMValueRef low = shuffle(e, name, LLVMBuildTrunc(b, value, e->i32, ""), lane, clamp);
        LLVMValueRef high = LLVMBuildLShr(b, value, tcc_emit_i64(e, 32), "");
        high = shuffle(e, name, LLVMBuildTrunc(b, high, e->i32, ""), lane, clamp);
        high = LLVMBuildShl(b, LLVMBuildZExt(b, high, e->i64, ""), tcc_emit_i64(e, 32), "");
        return LLVMBuildOr(b, high, LLVMBuildZExt(b, low, e->i64, ""), "");
    }
    LLVMValueRef arguments[] = {group_mask(e), value, tcc_emit_i32(e, lane), tcc_emit_i32(e, clamp)};
    return call(e, name, arguments, 4);
}

LLVMValueRef tcc_emit_exchange(tcc_emitter *e, LLVMValueRef value, int bit) {
    return shuffle(e, "llvm.nvvm.shfl.sync.bfly.i32", value, bit, TCC_EMIT_WARP - 1);
}

LLVMValueRef tcc_emit_first_thread(tcc_emitter *e, LLVMValueRef value) {
    int part = e->shape.shape.group < TCC_EMIT_WARP ? e->shape.shape.group : TCC_EMIT_WARP;
    return shuffle(e, "llvm.nvvm.shfl.sync.idx.i32", value, 0, (TCC_EMIT_WARP - part) << 8 | (TCC_EMIT_WARP - 1));
}

LLVMValueRef tcc_emit_from_before(tcc_emitter *e, LLVMValueRef value, int distance) {
    int part = e->shape.shape.group < TCC_EMIT_WARP ? e->shape.shape.group : TCC_EMIT_WARP;
    return shuffle(e, "llvm.nvvm.shfl.sync.up.i32", value, distance, (TCC_EMIT_WARP - part) << 8);
}

LLVMValueRef tcc_emit_ballot(tcc_emitter *e, LLVMValueRef condition) {
    LLVMValueRef arguments[] = {tcc_emit_i32(e, -1), condition};
    return call(e, "llvm.nvvm.vote.ballot.sync", arguments, 2);
}

LLVMValueRef tcc_emit_match(tcc_emitter *e, LLVMValueRef key) {
    LLVMValueRef arguments[] = {tcc_emit_i32(e, -1), key};
    return call(e, "llvm.nvvm.match.any.sync.i32", arguments, 2);
}

void tcc_emit_warp_barrier(tcc_emitter *e) {
    LLVMValueRef all = tcc_emit_i32(e, -1);
    call(e, "llvm.nvvm.bar.warp.sync", &all, 1);
}

/* LLVM 21 renamed it. */
void tcc_emit_barrier(tcc_emitter *e) {
    static const char before[] = "llvm.nvvm.barrier0", now[] = "llvm.nvvm.barrier.cta.sync.aligned.all";
    LLVMValueRef zero = tcc_emit_i32(e, 0);
    if (LLVMLookupIntrinsicID(before, strlen(before))) call(e, before, NULL, 0);
    else call(e, now, &zero, 1);
}

/* An array of the block's in shared memory. */
static LLVMValueRef shared_array(tcc_emitter *e, LLVMTypeRef type, int64_t count) {
    LLVMTypeRef whole = LLVMArrayType2(type, (uint64_t)count);
    LLVMValueRef array = LLVMAddGlobalInAddressSpace(e->module, whole, "", TCC_CUDA_SHARED);
    LLVMSetLinkage(array, LLVMInternalLinkage);
    LLVMSetInitializer(array, LLVMGetPoison(whole));
    LLVMSetAlignment(array, 16);
    return generic(e, array);
}

/* Of an element of such an array. */
static int shared_alignment(tcc_emitter *e, LLVMTypeRef type) {
    unsigned natural = LLVMABIAlignmentOfType(LLVMGetModuleDataLayout(e->module), type);
    return natural < 16 ? (int)natural : 16;
}

void tcc_emit_gather_deep(tcc_emitter *e, const LLVMValueRef *values, int n, LLVMValueRef *all) {
    const int deep = e->shape.shape.deep, group = e->shape.shape.group;
    LLVMBuilderRef b = e->builder;
    LLVMValueRef arrays[2 * TCC_EMIT_MAX_CARRY];
    for (int k = 0; k < n; k++) {
        LLVMTypeRef type = LLVMTypeOf(values[k]), flag = tcc_emit_type_like(e, e->i1, type);
        LLVMValueRef value = type == flag ? LLVMBuildZExt(b, values[k], tcc_emit_type_like(e, e->i8, type), "")
                                          : values[k];
        arrays[k] = shared_array(e, LLVMTypeOf(value), (int64_t)deep * group);
        LLVMValueRef at = tcc_emit_add(e, tcc_emit_mul(e, e->deep, tcc_emit_i64(e, group)), e->thread);
        tcc_emit_store(e, value, tcc_emit_at(e, LLVMTypeOf(value), arrays[k], at),
                       shared_alignment(e, LLVMTypeOf(value)));
    }
    tcc_emit_barrier(e);
    for (int k = 0; k < n; k++) {
        LLVMTypeRef type = LLVMTypeOf(values[k]), flag = tcc_emit_type_like(e, e->i1, type);
        LLVMTypeRef memory = type == flag ? tcc_emit_type_like(e, e->i8, type) : type;
        for (int i = 0; i < deep; i++) {
            LLVMValueRef at = tcc_emit_add(e, e->thread, tcc_emit_i64(e, (int64_t)i * group));
            LLVMValueRef value = tcc_emit_load(e, memory, tcc_emit_at(e, memory, arrays[k], at),
                                               shared_alignment(e, memory));
            all[i * n + k] = type == flag ? LLVMBuildTrunc(b, value, type, "") : value;
        }
    }
    e->shared_reused = true;
}

void tcc_emit_last_threads(tcc_emitter *e, LLVMValueRef value, LLVMValueRef *all) {
    const int group = e->shape.shape.group, part = group < TCC_EMIT_WARP ? group : TCC_EMIT_WARP, warps = group / part;
    LLVMBuilderRef b = e->builder;
    if (warps == 1) {
        all[0] = part > 1 ? shuffle(e, "llvm.nvvm.shfl.sync.idx.i32", value, part - 1,
                                    (TCC_EMIT_WARP - part) << 8 | (TCC_EMIT_WARP - 1))
                          : value;
        return;
    }
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMValueRef array = shared_array(e, type, warps), warp = tcc_emit_div(e, e->thread, TCC_EMIT_WARP);
    LLVMValueRef is_last = LLVMBuildICmp(b, LLVMIntEQ, tcc_emit_rem(e, e->thread, TCC_EMIT_WARP),
                                         tcc_emit_i64(e, TCC_EMIT_WARP - 1), "");
    tcc_emit_if last;
    tcc_emit_if_begin(e, &last, is_last);
    tcc_emit_store(e, value, tcc_emit_at(e, type, array, warp), shared_alignment(e, type));
    tcc_emit_if_end(e, &last);
    tcc_emit_barrier(e);
    for (int w = 0; w < warps; w++)
        all[w] = tcc_emit_load(e, type, tcc_emit_at(e, type, array, tcc_emit_i64(e, w)), shared_alignment(e, type));
    e->shared_reused = true;
}

void tcc_emit_gather_warps(tcc_emitter *e, LLVMValueRef *values, int n) {
    int warps = e->shape.shape.group / TCC_EMIT_WARP;
    LLVMBuilderRef b = e->builder;
    LLVMValueRef array = shared_array(e, e->i64, n * warps);
    LLVMValueRef lane = LLVMBuildAnd(b, e->thread, tcc_emit_i64(e, TCC_EMIT_WARP - 1), ""),
                 warp = tcc_emit_div(e, e->thread, TCC_EMIT_WARP);
    LLVMValueRef other = LLVMBuildAnd(b, e->thread, tcc_emit_i64(e, warps - 1), "");
    tcc_emit_if first;
    tcc_emit_if_begin(e, &first, LLVMBuildICmp(b, LLVMIntEQ, lane, tcc_emit_i64(e, 0), ""));
    for (int k = 0; k < n; k++) {
        LLVMValueRef value = LLVMTypeOf(values[k]) == e->i1 ? LLVMBuildZExt(b, values[k], e->i32, "") : values[k];
        tcc_emit_store(e, value, tcc_emit_at(e, e->i64, array, tcc_emit_add(e, warp, tcc_emit_i64(e, k * warps))), 8);
    }
    tcc_emit_if_end(e, &first);
    tcc_emit_barrier(e);
    for (int k = 0; k < n; k++) {
        LLVMTypeRef type = LLVMTypeOf(values[k]);
        LLVMValueRef at = tcc_emit_at(e, e->i64, array, tcc_emit_add(e, other, tcc_emit_i64(e, k * warps)));
        values[k] = tcc_emit_load(e, type == e->i1 ? e->i32 : type, at, 8);
        if (type == e->i1) values[k] = LLVMBuildTrunc(b, values[k], type, "");
    }
    e->shared_reused = true;
}

/* --- Access lane by lane */

static LLVMValueRef lane_of(tcc_emitter *e, LLVMValueRef v, int lane) {
    return tcc_emit_lanes_of(LLVMTypeOf(v)) == 1 ? v
                                                 : LLVMBuildExtractElement(e->builder, v, tcc_emit_i32(e, lane), "");
}

static LLVMValueRef lane_address(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offsets,
                                 int lane) {
    return tcc_emit_at(e, scalar, base, offsets ? lane_of(e, offsets, lane) : tcc_emit_i64(e, lane));
}

LLVMValueRef tcc_cuda_load_lanes(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offsets,
                                 LLVMValueRef mask) {
    int lanes = tcc_emit_lanes_of(LLVMTypeOf(offsets ? offsets : mask));
    LLVMValueRef result = LLVMGetPoison(tcc_emit_vector_type(scalar, lanes));
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef value;
        if (mask) {
            LLVMBasicBlockRef before, after, then = new_block(e), join = new_block(e);
            LLVMValueRef condition = lane_of(e, mask, i), none = LLVMConstNull(scalar);
            before = LLVMGetInsertBlock(e->builder);
            LLVMBuildCondBr(e->builder, condition, then, join);
            LLVMPositionBuilderAtEnd(e->builder, then);
            LLVMValueRef loaded = tcc_emit_load(e, scalar, lane_address(e, scalar, base, offsets, i), 0);
            after = LLVMGetInsertBlock(e->builder);
            LLVMBuildBr(e->builder, join);
            LLVMPositionBuilderAtEnd(e->builder, join);
            value = LLVMBuildPhi(e->builder, scalar, "");
            LLVMAddIncoming(value, &none, &before, 1);
            LLVMAddIncoming(value, &loaded, &after, 1);
        } else {
            value = tcc_emit_load(e, scalar, lane_address(e, scalar, base, offsets, i), 0);
        }
        result = lanes == 1 ? value : LLVMBuildInsertElement(e->builder, result, value, tcc_emit_i32(e, i), "");
    }
    return result;
}

void tcc_cuda_store_lanes(tcc_emitter *e, LLVMValueRef value, LLVMValueRef base, LLVMValueRef offsets,
                          LLVMValueRef mask) {
    LLVMTypeRef type = LLVMTypeOf(value),
                scalar = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    for (int i = 0; i < tcc_emit_lanes_of(type); i++) {
        tcc_emit_if branch;
        if (mask) tcc_emit_if_begin(e, &branch, lane_of(e, mask, i));
        tcc_emit_store(e, lane_of(e, value, i), lane_address(e, scalar, base, offsets, i), 0);
        if (mask) tcc_emit_if_end(e, &branch);
    }
}
