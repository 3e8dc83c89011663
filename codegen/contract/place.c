/* SPDX-License-Identifier: MIT
 * Where elements of a contraction lie, on the host: offsets from indices, and vectors of the epilogue's accesses. */
#include "codegen/contract/internal.h"

#include "codegen/body/body.h"

tcc_emit_value tcc_contract_at(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, tcc_emit_dtype(e, dtype), base, offset);
}

tcc_emit_value tcc_contract_load_element(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int alignment) {
    return tcc_scalar_from_memory(e, tcc_emit_load(e, tcc_emit_dtype(e, dtype), address, alignment), dtype);
}

tcc_emit_value tcc_contract_load_lanes(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int alignment,
                                       tcc_emit_value mask) {
    tcc_emit_type type = tcc_emit_vector_type(tcc_emit_dtype(e, dtype), e->lanes);
    tcc_emit_value value = mask ? tcc_emit_load_masked(e, type, address, mask)
                                : tcc_emit_load(e, type, address, alignment);
    return tcc_scalar_from_memory(e, value, dtype);
}

tcc_emit_value tcc_contract_gather_lanes(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int64_t stride,
                                         tcc_emit_value mask) {
    tcc_emit_type memory = tcc_emit_dtype(e, dtype);
    tcc_emit_value steps = tcc_emit_imul(e, tcc_emit_iota(e, e->i64, e->lanes),
                                         tcc_emit_splat(e, tcc_emit_i64(e, stride), e->lanes));
    tcc_emit_value addresses = tcc_emit_element(e, memory, address, steps);
    tcc_emit_value value = tcc_emit_gather(e, tcc_emit_vector_type(memory, e->lanes), addresses,
                                           mask ? mask : tcc_emit_int(e, e->vi1, -1));
    return tcc_scalar_from_memory(e, value, dtype);
}

void tcc_contract_split_index(tcc_emitter *e, const tcc_contract_dims *l, tcc_emit_value index, tcc_emit_value *out) {
    for (int i = l->n - 1; i >= 0; i--) {
        out[i] = i == 0 ? index : tcc_emit_rem(e, index, l->d[i].extent);
        if (i > 0) index = tcc_emit_div(e, index, l->d[i].extent);
    }
}

static int64_t stride_of(const tcc_contract_dim *d, int operand) {
    return operand == TCC_OPERAND_A ? d->a : operand == TCC_OPERAND_B ? d->b : d->c[operand];
}

tcc_emit_value tcc_contract_offset(tcc_emitter *e, const tcc_contract_dims *l, const tcc_emit_value *index,
                                   int operand) {
    tcc_emit_value sum = tcc_emit_i64(e, 0);
    for (int i = 0; i < l->n; i++) {
        int64_t stride = stride_of(&l->d[i], operand);
        if (stride) sum = tcc_emit_add(e, sum, tcc_emit_mul(e, index[i], tcc_emit_i64(e, stride)));
    }
    return sum;
}

static tcc_emit_value lane_addresses(tcc_emitter *e, const tcc_contract_place *place, int x) {
    tcc_emit_value base = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, place->first_buffer + x), place->offset[x]);
    tcc_emit_value steps = tcc_emit_imul(e, tcc_emit_iota(e, e->i64, e->lanes),
                                         tcc_emit_splat(e, tcc_emit_i64(e, place->lane_stride[x]), e->lanes));
    return tcc_emit_element(e, e->f32, base, steps);
}

static tcc_emit_value mask_or_all(tcc_emitter *e, const tcc_contract_place *place) {
    return place->mask ? place->mask : tcc_emit_int(e, e->vi1, -1);
}

tcc_emit_value tcc_contract_load(tcc_emitter *e, const tcc_contract_place *place, int x) {
    tcc_emit_value buffer = tcc_emit_buffer(e, place->first_buffer + x);
    tcc_emit_value address = tcc_emit_at(e, e->f32, buffer, place->offset[x]);
    if (place->lane_stride[x] == 0) return tcc_emit_splat(e, tcc_emit_load(e, e->f32, address, 0), e->lanes);
    if (place->lane_stride[x] == 1)
        return place->mask ? tcc_emit_load_masked(e, e->vf32, address, place->mask)
                           : tcc_emit_load(e, e->vf32, address, 0);
    return tcc_emit_gather(e, e->vf32, lane_addresses(e, place, x), mask_or_all(e, place));
}

void tcc_contract_store(tcc_emitter *e, const tcc_contract_place *place, int x, tcc_emit_value value) {
    if (place->lane_stride[x] == 1) {
        tcc_emit_value address = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, place->first_buffer + x), place->offset[x]);
        if (place->mask) tcc_emit_store_masked(e, value, address, place->mask);
        else tcc_emit_store(e, value, address, 0);
    } else {
        tcc_emit_scatter(e, value, lane_addresses(e, place, x), mask_or_all(e, place));
    }
}
