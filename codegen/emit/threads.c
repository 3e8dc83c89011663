/* SPDX-License-Identifier: MIT
 * Communication between the threads of a GPU's block: exchanges in a warp, and arrays in shared memory. */
#include "codegen/emit/nvptx.h"

static LLVMValueRef call(tcc_emitter *e, const char *name, LLVMValueRef *arguments, int n) {
    return tcc_cuda_intrinsic(e, name, arguments, n);
}

/* An array of the block's in shared memory. */
static LLVMValueRef shared_array(tcc_emitter *e, LLVMTypeRef type, int64_t count) {
    LLVMTypeRef whole = LLVMArrayType2(type, (uint64_t)count);
    LLVMValueRef array = LLVMAddGlobalInAddressSpace(e->module, whole, "", TCC_CUDA_SHARED);
    LLVMSetLinkage(array, LLVMInternalLinkage);
    LLVMSetInitializer(array, LLVMGetPoison(whole));
    LLVMSetAlignment(array, 16);
    return LLVMBuildAddrSpaceCast(e->builder, array, e->ptr, "");
}

/* Of an element of such an array. */
static int shared_alignment(tcc_emitter *e, LLVMTypeRef type) {
    unsigned natural = LLVMABIAlignmentOfType(LLVMGetModuleDataLayout(e->module), type);
    return natural < 16 ? (int)natural : 16;
}

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

/* The places are bytes for flags. */
static LLVMTypeRef split_memory(tcc_emitter *e, LLVMTypeRef type) {
    return type == tcc_emit_type_like(e, e->i1, type) ? tcc_emit_type_like(e, e->i8, type) : type;
}

static LLVMValueRef split_place(tcc_emitter *e, LLVMValueRef array, LLVMTypeRef memory, LLVMValueRef group) {
    LLVMValueRef first = tcc_emit_mul(e, group, tcc_emit_i64(e, e->shape.shape.group));
    return tcc_emit_at(e, memory, array, tcc_emit_add(e, first, e->thread));
}

void tcc_emit_split_arrays(tcc_emitter *e, const LLVMValueRef *values, int n, LLVMValueRef *arrays) {
    const int64_t places = (int64_t)e->shape.shape.split * e->shape.shape.group;
    for (int k = 0; k < n; k++) arrays[k] = shared_array(e, split_memory(e, LLVMTypeOf(values[k])), places);
    e->shared_reused = true;
}

void tcc_emit_split_put(tcc_emitter *e, const LLVMValueRef *arrays, const LLVMValueRef *values, int n) {
    for (int k = 0; k < n; k++) {
        LLVMTypeRef memory = split_memory(e, LLVMTypeOf(values[k]));
        LLVMValueRef value = memory == LLVMTypeOf(values[k]) ? values[k]
                                                             : LLVMBuildZExt(e->builder, values[k], memory, "");
        tcc_emit_store(e, value, split_place(e, arrays[k], memory, e->split), shared_alignment(e, memory));
    }
}

void tcc_emit_split_get(tcc_emitter *e, const LLVMValueRef *arrays, LLVMValueRef group, LLVMValueRef *values, int n) {
    for (int k = 0; k < n; k++) {
        LLVMTypeRef type = LLVMTypeOf(values[k]), memory = split_memory(e, type);
        values[k] = tcc_emit_load(e, memory, split_place(e, arrays[k], memory, group), shared_alignment(e, memory));
        if (memory != type) values[k] = LLVMBuildTrunc(e->builder, values[k], type, "");
    }
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
