/* SPDX-License-Identifier: MIT
 * Where elements of a contraction lie, on the host: offsets from indices, and vectors of the epilogue's accesses. */
#include "codegen/contract/internal.h"

#include "codegen/body/body.h"

LLVMValueRef tcc_contract_at(tcc_emitter *e, tcc_dtype dtype, LLVMValueRef base, LLVMValueRef offset) {
    return tcc_emit_at(e, tcc_emit_dtype(e, dtype), base, offset);
}

LLVMValueRef tcc_contract_load_element(tcc_emitter *e, tcc_dtype dtype, LLVMValueRef address, int alignment) {
    return tcc_scalar_from_memory(e, tcc_emit_load(e, tcc_emit_dtype(e, dtype), address, alignment), dtype);
}

LLVMValueRef tcc_contract_load_lanes(tcc_emitter *e, tcc_dtype dtype, LLVMValueRef address, int alignment,
                                     LLVMValueRef mask) {
    LLVMTypeRef type = tcc_emit_vector_type(tcc_emit_dtype(e, dtype), e->lanes);
    LLVMValueRef value = mask ? tcc_emit_load_masked(e, type, address, mask)
                              : tcc_emit_load(e, type, address, alignment);
    return tcc_scalar_from_memory(e, value, dtype);
}

LLVMValueRef tcc_contract_gather_lanes(tcc_emitter *e, tcc_dtype dtype, LLVMValueRef address, int64_t stride,
                                       LLVMValueRef mask) {
    LLVMTypeRef memory = tcc_emit_dtype(e, dtype);
    LLVMValueRef steps = LLVMBuildMul(e->builder, tcc_emit_iota(e, e->i64, e->lanes),
                                      tcc_emit_splat(e, tcc_emit_i64(e, stride), e->lanes), "");
    LLVMValueRef addresses = LLVMBuildGEP2(e->builder, memory, address, &steps, 1, "");
    LLVMValueRef value = tcc_emit_gather(e, tcc_emit_vector_type(memory, e->lanes), addresses,
                                         mask ? mask : LLVMConstAllOnes(e->vi1));
    return tcc_scalar_from_memory(e, value, dtype);
}

void tcc_contract_split_index(tcc_emitter *e, const tcc_contract_dims *l, LLVMValueRef index, LLVMValueRef *out) {
    for (int i = l->n - 1; i >= 0; i--) {
        out[i] = i == 0 ? index : tcc_emit_rem(e, index, l->d[i].extent);
        if (i > 0) index = tcc_emit_div(e, index, l->d[i].extent);
    }
}

static int64_t stride_of(const tcc_contract_dim *d, int operand) {
    return operand == TCC_OPERAND_A ? d->a : operand == TCC_OPERAND_B ? d->b : d->c[operand];
}

LLVMValueRef tcc_contract_offset(tcc_emitter *e, const tcc_contract_dims *l, const LLVMValueRef *index, int operand) {
    LLVMValueRef sum = tcc_emit_i64(e, 0);
    for (int i = 0; i < l->n; i++) {
        int64_t stride = stride_of(&l->d[i], operand);
        if (stride) sum = tcc_emit_add(e, sum, tcc_emit_mul(e, index[i], tcc_emit_i64(e, stride)));
    }
    return sum;
}

static LLVMValueRef lane_addresses(tcc_emitter *e, const tcc_contract_place *place, int x) {
    LLVMValueRef base = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, place->first_buffer + x), place->offset[x]);
    LLVMValueRef steps = LLVMBuildMul(e->builder, tcc_emit_iota(e, e->i64, e->lanes),
                                      tcc_emit_splat(e, tcc_emit_i64(e, place->lane_stride[x]), e->lanes), "");
    return LLVMBuildGEP2(e->builder, e->f32, base, &steps, 1, "");
}

static LLVMValueRef mask_or_all(tcc_emitter *e, const tcc_contract_place *place) {
    return place->mask ? place->mask : LLVMConstAllOnes(e->vi1);
}

LLVMValueRef tcc_contract_load(tcc_emitter *e, const tcc_contract_place *place, int x) {
    LLVMValueRef buffer = tcc_emit_buffer(e, place->first_buffer + x);
    LLVMValueRef address = tcc_emit_at(e, e->f32, buffer, place->offset[x]);
    if (place->lane_stride[x] == 0) return tcc_emit_splat(e, tcc_emit_load(e, e->f32, address, 0), e->lanes);
    if (place->lane_stride[x] == 1)
        return place->mask ? tcc_emit_load_masked(e, e->vf32, address, place->mask)
                           : tcc_emit_load(e, e->vf32, address, 0);
    return tcc_emit_gather(e, e->vf32, lane_addresses(e, place, x), mask_or_all(e, place));
}

void tcc_contract_store(tcc_emitter *e, const tcc_contract_place *place, int x, LLVMValueRef value) {
    if (place->lane_stride[x] == 1) {
        LLVMValueRef address = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, place->first_buffer + x), place->offset[x]);
        if (place->mask) tcc_emit_store_masked(e, value, address, place->mask);
        else tcc_emit_store(e, value, address, 0);
    } else {
        tcc_emit_scatter(e, value, lane_addresses(e, place, x), mask_or_all(e, place));
    }
}
