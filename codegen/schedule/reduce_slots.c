/* SPDX-License-Identifier: MIT
 * Values that a later sweep finds in scratch: as registers hold them, or, of a GPU's 16-bit types, as memory does. */
#include "codegen/schedule/reduce.h"

static bool is_packed(const tcc_body_run *r, const tcc_expr *x) {
    return r->e->target->lane_groups && tcc_dtype_is_narrow(x->dtype);
}

static tcc_emit_type slot_type(tcc_body_run *r, const tcc_expr *x) {
    return is_packed(r, x) ? r->e->i16 : tcc_scalar_register(r->e, x->dtype);
}

/* The address of a cached value at the open reduced point. */
static tcc_emit_value slot_address(tcc_body_run *r, const tcc_reduce *p, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    tcc_emit_value at = tcc_emit_i64(e, 0);
    for (int i = 0; i < p->n_reduced; i++) {
        int64_t extent = r->body->vars.data[p->reduced[i]].high + 1;
        if (i == p->n_reduced - 1) extent = (extent + p->lanes - 1) / p->lanes * p->lanes;
        at = tcc_emit_add(e, tcc_emit_mul(e, at, tcc_emit_i64(e, extent)), r->loops[p->reduced[i]]);
    }
    tcc_emit_value slot = tcc_emit_at(e, e->i8, r->e->scratch, tcc_emit_i64(e, p->slot[x->id]));
    return tcc_emit_at(e, slot_type(r, x), slot, at);
}

/* Slots are padded to whole vectors, which begin at multiples of their lanes. */
static int slot_alignment(const tcc_body_run *r, const tcc_reduce *p, const tcc_expr *x) {
    const int bytes = is_packed(r, x) ? 2 : 4, all = bytes * p->lanes;
    return all >= 16 ? 16 : all >= 8 ? 8 : bytes;
}

tcc_emit_value tcc_reduce_load_slot(tcc_body_run *r, const tcc_reduce *p, const tcc_expr *x) {
    tcc_emit_value address = slot_address(r, p, x);
    const int alignment = slot_alignment(r, p, x);
    if (!is_packed(r, x)) return tcc_emit_load(r->e, tcc_body_type(r, x->dtype, true), address, alignment);
    tcc_emit_type type = tcc_emit_vector_type(r->e->i16, r->lanes);
    return tcc_scalar_from_memory(r->e, tcc_emit_load(r->e, type, address, alignment), x->dtype);
}

void tcc_reduce_store_slot(tcc_body_run *r, const tcc_reduce *p, const tcc_expr *x, tcc_emit_value value) {
    if (is_packed(r, x)) value = tcc_scalar_rounded_to_memory(r->e, value, x->dtype);
    tcc_emit_store(r->e, value, slot_address(r, p, x), slot_alignment(r, p, x));
}
