/* SPDX-License-Identifier: MIT
 * Addresses and accesses. */
#include "codegen/emit/functions.h"

tcc_emit_value tcc_emit_at(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset) {
    int64_t k;
    if (tcc_emit_is_constant(offset, &k) && k == 0) return base;
    return LLVMBuildGEP2(e->builder, scalar, base, &offset, 1, "");
}

tcc_emit_value tcc_emit_at_bytes(tcc_emitter *e, tcc_emit_value base, int64_t offset_bytes) {
    return tcc_emit_at(e, e->i8, base, tcc_emit_i64(e, offset_bytes));
}

tcc_emit_value tcc_emit_load(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int alignment) {
    tcc_emit_value load = LLVMBuildLoad2(e->builder, type, address, "");
    LLVMSetAlignment(load, (unsigned)(alignment ? alignment : tcc_emit_scalar_bytes(type)));
    return load;
}

void tcc_emit_store(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, int alignment) {
    tcc_emit_value store = LLVMBuildStore(e->builder, value, address);
    LLVMSetAlignment(store, (unsigned)(alignment ? alignment : tcc_emit_scalar_bytes(tcc_emit_type_of(value))));
}

void tcc_emit_store_past_caches(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address) {
    enum { LINE = 64 };
    tcc_emit_type type = tcc_emit_type_of(value);
    const int bytes = tcc_emit_scalar_bytes(type) * tcc_emit_lanes_of(type);
    /* A store that narrows as it stores is none of this kind. What fills no register, or several, goes in parts. */
    if (bytes == 16 || bytes == 32 || bytes == 4 * e->target->lanes) value = tcc_emit_anchor(e, value);
    tcc_emit_value store = LLVMBuildStore(e->builder, value, address), one = tcc_emit_i32(e, 1);
    LLVMSetAlignment(store, (unsigned)(bytes < LINE ? bytes : LINE));
    e->past_caches = true;
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->context, "nontemporal", 11),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(
                                                        e->context, (LLVMMetadataRef[]){LLVMValueAsMetadata(one)}, 1)));
}

void tcc_emit_fence(tcc_emitter *e) { LLVMBuildFence(e->builder, LLVMAtomicOrderingSequentiallyConsistent, false, ""); }

tcc_emit_value tcc_emit_mask(tcc_emitter *e, int lanes, tcc_emit_value count) {
    tcc_emit_value narrow = tcc_emit_type_of(count) == e->i64 ? tcc_emit_trunc(e, count, e->i32) : count;
    return tcc_emit_icmp(e, TCC_ICMP_SLT, tcc_emit_iota(e, e->i32, lanes), tcc_emit_splat(e, narrow, lanes));
}

static void prefetch(tcc_emitter *e, tcc_emit_value address, bool to_store, int locality) {
    tcc_emit_value arguments[] = {address, tcc_emit_i32(e, to_store), tcc_emit_i32(e, locality), tcc_emit_i32(e, 1)};
    tcc_emit_intrinsic(e, "llvm.prefetch", e->ptr, arguments, 4);
}

void tcc_emit_prefetch(tcc_emitter *e, tcc_emit_value address, int locality) { prefetch(e, address, false, locality); }

void tcc_emit_prefetch_to_store(tcc_emitter *e, tcc_emit_value address) { prefetch(e, address, true, 3); }

tcc_emit_value tcc_emit_local(tcc_emitter *e, tcc_emit_type type, int64_t count) {
    tcc_emit_block here = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilder(e->builder, e->entry, LLVMGetFirstInstruction(e->entry)); /* or its end, if it has none */
    tcc_emit_value place = LLVMBuildAlloca(e->builder, LLVMArrayType2(type, (uint64_t)count), "");
    LLVMSetAlignment(place, 64);
    LLVMPositionBuilderAtEnd(e->builder, here);
    return place;
}

tcc_emit_value tcc_emit_anchor(tcc_emitter *e, tcc_emit_value value) { return e->target->functions->anchor(e, value); }

tcc_emit_value tcc_emit_load_masked(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask) {
    return e->target->functions->load_masked(e, type, address, mask);
}

void tcc_emit_store_masked(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask) {
    e->target->functions->store_masked(e, value, address, mask);
}

tcc_emit_value tcc_emit_gather_at(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offsets,
                                  tcc_emit_value mask) {
    return e->target->functions->gather_at(e, scalar, base, offsets, mask);
}

void tcc_emit_scatter_at(tcc_emitter *e, tcc_emit_value value, tcc_emit_value base, tcc_emit_value offsets,
                         tcc_emit_value mask) {
    e->target->functions->scatter_at(e, value, base, offsets, mask);
}

tcc_emit_value tcc_emit_load_if(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset,
                                tcc_emit_value condition) {
    return e->target->functions->load_if(e, scalar, base, offset, condition);
}

tcc_emit_value tcc_emit_load_lanes_if(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                      int alignment, tcc_emit_value condition) {
    return e->target->functions->load_lanes_if(e, type, base, offset, alignment, condition);
}
