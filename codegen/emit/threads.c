/* SPDX-License-Identifier: MIT
 * Communication between the threads of a GPU's block: exchanges in a warp, and arrays in shared memory. */
#include "codegen/emit/nvptx.h"

static tcc_emit_value call(tcc_emitter *e, const char *name, tcc_emit_value *arguments, int n) {
    return tcc_cuda_intrinsic(e, name, arguments, n);
}

/* An array of the block's in shared memory. */
static tcc_emit_value shared_array(tcc_emitter *e, tcc_emit_type type, int64_t count) {
    tcc_emit_type whole = LLVMArrayType2(type, (uint64_t)count);
    tcc_emit_value array = LLVMAddGlobalInAddressSpace(e->module, whole, "", TCC_CUDA_SHARED);
    LLVMSetLinkage(array, LLVMInternalLinkage);
    LLVMSetInitializer(array, tcc_emit_poison(whole));
    LLVMSetAlignment(array, 16);
    return LLVMBuildAddrSpaceCast(e->builder, array, e->ptr, "");
}

/* Of an element of such an array. */
static int shared_alignment(tcc_emitter *e, tcc_emit_type type) {
    unsigned natural = LLVMABIAlignmentOfType(LLVMGetModuleDataLayout(e->module), type);
    return natural < 16 ? (int)natural : 16;
}

/* The threads of the group within its warp. Neighbouring groups of a warp may be elsewhere in the code. */
static tcc_emit_value group_mask(tcc_emitter *e) {
    int group = e->shape.shape.group;
    if (group >= TCC_EMIT_WARP) return tcc_emit_i32(e, -1);
    tcc_emit_value tid = call(e, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, 0);
    tcc_emit_value first = tcc_emit_and(e, tid, tcc_emit_i32(e, (TCC_EMIT_WARP - 1) & ~(group - 1)));
    return tcc_emit_shl(e, tcc_emit_i32(e, (1 << group) - 1), first);
}

/* `lane`: what the instruction takes, and how far its result may come from: bits 0-4 clamp, 8-12 the part of a warp
 * that is one. */
static tcc_emit_value shuffle(tcc_emitter *e, const char *name, tcc_emit_value value, int lane, int clamp) {
    tcc_emit_type type = tcc_emit_type_of(value);
    if (type == e->f32)
        return tcc_emit_bitcast(e, shuffle(e, name, tcc_emit_bitcast(e, value, e->i32), lane, clamp), type);
    if (type == e->f64)
        return tcc_emit_bitcast(e, shuffle(e, name, tcc_emit_bitcast(e, value, e->i64), lane, clamp), type);
    if (type == e->i1) return tcc_emit_trunc(e, shuffle(e, name, tcc_emit_zext(e, value, e->i32), lane, clamp), type);
    if (type == e->i64) {
        tcc_emit_value low = shuffle(e, name, tcc_emit_trunc(e, value, e->i32), lane, clamp);
        tcc_emit_value high = tcc_emit_lshr(e, value, tcc_emit_i64(e, 32));
        high = shuffle(e, name, tcc_emit_trunc(e, high, e->i32), lane, clamp);
        high = tcc_emit_shl(e, tcc_emit_zext(e, high, e->i64), tcc_emit_i64(e, 32));
        return tcc_emit_or(e, high, tcc_emit_zext(e, low, e->i64));
    }
    tcc_emit_value arguments[] = {group_mask(e), value, tcc_emit_i32(e, lane), tcc_emit_i32(e, clamp)};
    return call(e, name, arguments, 4);
}

tcc_emit_value tcc_emit_exchange(tcc_emitter *e, tcc_emit_value value, int bit) {
    return shuffle(e, "llvm.nvvm.shfl.sync.bfly.i32", value, bit, TCC_EMIT_WARP - 1);
}

tcc_emit_value tcc_emit_first_thread(tcc_emitter *e, tcc_emit_value value) {
    int part = e->shape.shape.group < TCC_EMIT_WARP ? e->shape.shape.group : TCC_EMIT_WARP;
    return shuffle(e, "llvm.nvvm.shfl.sync.idx.i32", value, 0, (TCC_EMIT_WARP - part) << 8 | (TCC_EMIT_WARP - 1));
}

tcc_emit_value tcc_emit_from_before(tcc_emitter *e, tcc_emit_value value, int distance) {
    int part = e->shape.shape.group < TCC_EMIT_WARP ? e->shape.shape.group : TCC_EMIT_WARP;
    return shuffle(e, "llvm.nvvm.shfl.sync.up.i32", value, distance, (TCC_EMIT_WARP - part) << 8);
}

tcc_emit_value tcc_emit_from_after(tcc_emitter *e, tcc_emit_value value, int distance) {
    int part = e->shape.shape.group < TCC_EMIT_WARP ? e->shape.shape.group : TCC_EMIT_WARP;
    return shuffle(e, "llvm.nvvm.shfl.sync.down.i32", value, distance,
                   (TCC_EMIT_WARP - part) << 8 | (TCC_EMIT_WARP - 1));
}

tcc_emit_value tcc_emit_ballot(tcc_emitter *e, tcc_emit_value condition) {
    tcc_emit_value arguments[] = {tcc_emit_i32(e, -1), condition};
    return call(e, "llvm.nvvm.vote.ballot.sync", arguments, 2);
}

tcc_emit_value tcc_emit_match(tcc_emitter *e, tcc_emit_value key) {
    tcc_emit_value arguments[] = {tcc_emit_i32(e, -1), key};
    return call(e, "llvm.nvvm.match.any.sync.i32", arguments, 2);
}

void tcc_emit_warp_barrier(tcc_emitter *e) {
    tcc_emit_value all = tcc_emit_i32(e, -1);
    call(e, "llvm.nvvm.bar.warp.sync", &all, 1);
}

/* The places are bytes for flags. */
static tcc_emit_type split_memory(tcc_emitter *e, tcc_emit_type type) {
    return type == tcc_emit_type_like(e, e->i1, type) ? tcc_emit_type_like(e, e->i8, type) : type;
}

static tcc_emit_value split_place(tcc_emitter *e, tcc_emit_value array, tcc_emit_type memory, tcc_emit_value group) {
    tcc_emit_value first = tcc_emit_mul(e, group, tcc_emit_i64(e, e->shape.shape.group));
    return tcc_emit_at(e, memory, array, tcc_emit_add(e, first, e->thread));
}

void tcc_emit_split_arrays(tcc_emitter *e, const tcc_emit_value *values, int n, tcc_emit_value *arrays) {
    const int64_t places = (int64_t)e->shape.shape.split * e->shape.shape.group;
    for (int k = 0; k < n; k++) arrays[k] = shared_array(e, split_memory(e, tcc_emit_type_of(values[k])), places);
    e->shared_reused = true;
}

void tcc_emit_split_put(tcc_emitter *e, const tcc_emit_value *arrays, const tcc_emit_value *values, int n) {
    for (int k = 0; k < n; k++) {
        tcc_emit_type memory = split_memory(e, tcc_emit_type_of(values[k]));
        tcc_emit_value value = memory == tcc_emit_type_of(values[k]) ? values[k] : tcc_emit_zext(e, values[k], memory);
        tcc_emit_store(e, value, split_place(e, arrays[k], memory, e->split), shared_alignment(e, memory));
    }
}

void tcc_emit_split_get(tcc_emitter *e, const tcc_emit_value *arrays, tcc_emit_value group, tcc_emit_value *values,
                        int n) {
    for (int k = 0; k < n; k++) {
        tcc_emit_type type = tcc_emit_type_of(values[k]), memory = split_memory(e, type);
        values[k] = tcc_emit_load(e, memory, split_place(e, arrays[k], memory, group), shared_alignment(e, memory));
        if (memory != type) values[k] = tcc_emit_trunc(e, values[k], type);
    }
}

/* An array with one value a warp: that of its first thread, or of its last. Behind it is a barrier. */
static tcc_emit_value array_of_warps(tcc_emitter *e, tcc_emit_value value, bool first) {
    tcc_emit_type type = tcc_emit_type_of(value);
    tcc_emit_value array = shared_array(e, type, e->shape.shape.group / TCC_EMIT_WARP),
                   warp = tcc_emit_div(e, e->thread, TCC_EMIT_WARP);
    tcc_emit_value is_end = tcc_emit_icmp(e, TCC_ICMP_EQ, tcc_emit_rem(e, e->thread, TCC_EMIT_WARP),
                                          tcc_emit_i64(e, first ? 0 : TCC_EMIT_WARP - 1));
    tcc_emit_if end;
    tcc_emit_if_begin(e, &end, is_end);
    tcc_emit_store(e, value, tcc_emit_at(e, type, array, warp), shared_alignment(e, type));
    tcc_emit_if_end(e, &end);
    tcc_emit_barrier(e);
    e->shared_reused = true;
    return array;
}

void tcc_emit_end_threads(tcc_emitter *e, tcc_emit_value value, bool first, tcc_emit_value *all) {
    const int group = e->shape.shape.group, part = group < TCC_EMIT_WARP ? group : TCC_EMIT_WARP, warps = group / part;
    if (warps == 1) {
        all[0] = part > 1 ? shuffle(e, "llvm.nvvm.shfl.sync.idx.i32", value, first ? 0 : part - 1,
                                    (TCC_EMIT_WARP - part) << 8 | (TCC_EMIT_WARP - 1))
                          : value;
        return;
    }
    tcc_emit_type type = tcc_emit_type_of(value);
    tcc_emit_value array = array_of_warps(e, value, first);
    for (int w = 0; w < warps; w++)
        all[w] = tcc_emit_load(e, type, tcc_emit_at(e, type, array, tcc_emit_i64(e, w)), shared_alignment(e, type));
}

tcc_emit_value tcc_emit_neighbour(tcc_emitter *e, tcc_emit_value value, bool after) {
    const int group = e->shape.shape.group, warps = group / TCC_EMIT_WARP;
    if (group == 1) return value;
    tcc_emit_value near = after ? tcc_emit_from_after(e, value, 1) : tcc_emit_from_before(e, value, 1);
    if (warps <= 1) return near;
    tcc_emit_type type = tcc_emit_type_of(value);
    tcc_emit_value array = array_of_warps(e, value, after), warp = tcc_emit_div(e, e->thread, TCC_EMIT_WARP);
    warp = tcc_emit_add(e, warp, tcc_emit_i64(e, after ? 1 : warps - 1)); /* around: someone's at any rate */
    warp = tcc_emit_and(e, warp, tcc_emit_i64(e, warps - 1));
    tcc_emit_value far = tcc_emit_load(e, type, tcc_emit_at(e, type, array, warp), shared_alignment(e, type));
    tcc_emit_value at_end = tcc_emit_icmp(e, TCC_ICMP_EQ, tcc_emit_rem(e, e->thread, TCC_EMIT_WARP),
                                          tcc_emit_i64(e, after ? TCC_EMIT_WARP - 1 : 0));
    return tcc_emit_select(e, at_end, far, near);
}

void tcc_emit_gather_warps(tcc_emitter *e, tcc_emit_value *values, int n) {
    int warps = e->shape.shape.group / TCC_EMIT_WARP;
    tcc_emit_value array = shared_array(e, e->i64, n * warps);
    tcc_emit_value lane = tcc_emit_and(e, e->thread, tcc_emit_i64(e, TCC_EMIT_WARP - 1)),
                   warp = tcc_emit_div(e, e->thread, TCC_EMIT_WARP);
    tcc_emit_value other = tcc_emit_and(e, e->thread, tcc_emit_i64(e, warps - 1));
    tcc_emit_if first;
    tcc_emit_if_begin(e, &first, tcc_emit_icmp(e, TCC_ICMP_EQ, lane, tcc_emit_i64(e, 0)));
    for (int k = 0; k < n; k++) {
        tcc_emit_value value = tcc_emit_type_of(values[k]) == e->i1 ? tcc_emit_zext(e, values[k], e->i32) : values[k];
        tcc_emit_store(e, value, tcc_emit_at(e, e->i64, array, tcc_emit_add(e, warp, tcc_emit_i64(e, k * warps))), 8);
    }
    tcc_emit_if_end(e, &first);
    tcc_emit_barrier(e);
    for (int k = 0; k < n; k++) {
        tcc_emit_type type = tcc_emit_type_of(values[k]);
        tcc_emit_value at = tcc_emit_at(e, e->i64, array, tcc_emit_add(e, other, tcc_emit_i64(e, k * warps)));
        values[k] = tcc_emit_load(e, type == e->i1 ? e->i32 : type, at, 8);
        if (type == e->i1) values[k] = tcc_emit_trunc(e, values[k], type);
    }
    e->shared_reused = true;
}
