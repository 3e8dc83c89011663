/* SPDX-License-Identifier: MIT
 * Sums of parts of rows, as those of each channel beside the sums of a group of channels. In the sweep of the stores
 * the loops over the last reduced dims fold them, from nothing in each step of the reduced loops outside, which count
 * the parts. On a GPU alone: a lane group has a row. */
#include "codegen/schedule/reduce.h"

#include "passes/group.h"

void tcc_reduce_store_parts(tcc_reduce_trace *t, tcc_body *b) {
    for (int i = 0; i < t->l->group->n_outputs && b->status == TCC_OK; i++) {
        const tcc_node *n = t->l->group->outputs[i];
        if (!tcc_reduce_is_part(t, n)) continue;
        const tcc_dims axes = tcc_reduction_axes(n);
        tcc_affine coordinates[TCC_MAX_RANK];
        int rank = 0;
        for (int k = 0; k < t->space->rank; k++)
            if (!tcc_dims_has(&axes, k)) coordinates[rank++] = t->coordinates[k];
        tcc_affine place = tcc_affine_whole(b, tcc_affine_linear(b, coordinates, rank, n->type.dims));
        const tcc_expr *value = tcc_body_trace(b, n->operands[0], t->coordinates);
        if (!value) return;
        tcc_body_write store = {tcc_body_buffer_of(b, n, 0, true), place, value, NULL, .part = true};
        if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(b->diag);
    }
}

tcc_status tcc_reduce_find_parts(tcc_lowering *l, tcc_reduce *p) {
    const tcc_body *b = p->body;
    p->n_parts = p->part_loops = 0;
    for (int i = 0; i < b->stores.count; i++) {
        if (!b->stores.data[i].part) continue;
        p->n_parts++;
        for (int k = 0; k < p->n_reduced; k++)
            if (tcc_affine_coefficient(&b->stores.data[i].offset, p->reduced[k]) && k >= p->part_loops)
                p->part_loops = k + 1;
    }
    if (!p->n_parts) return TCC_OK;
    if (l->target->lane_groups && !p->columns && p->part_loops > 0 && p->part_loops < p->n_reduced) return TCC_OK;
    return TCC_BUG(l->diag, "sums of parts of what are no rows: %s", tcc_node_text(l->group->hero));
}

static tcc_dtype dtype_of(const tcc_body_run *r, const tcc_body_write *s) {
    return r->body->buffers.data[s->buffer].dtype;
}

void tcc_reduce_begin_parts(tcc_body_run *r, const tcc_reduce *p, tcc_emit_value *sums) {
    for (int i = 0; i < r->body->stores.count; i++) {
        const tcc_body_write *s = &r->body->stores.data[i];
        if (s->part) *sums++ = tcc_emit_null(tcc_emit_vector_type(tcc_scalar_register(r->e, dtype_of(r, s)), p->lanes));
    }
}

void tcc_reduce_add_to_parts(tcc_body_run *r, tcc_emit_value *sums) {
    for (int i = 0; i < r->body->stores.count; i++) {
        const tcc_body_write *s = &r->body->stores.data[i];
        if (s->part) tcc_fold_step(r->e, TCC_OP_REDUCE_SUM, sums++, tcc_body_lanes(r, s->value), NULL, r->mask);
    }
}

void tcc_reduce_end_parts(tcc_body_run *r, const tcc_reduce *p, tcc_emit_value *sums) {
    tcc_emitter *e = r->e;
    tcc_op ops[TCC_GROUP_MAX_REDUCTIONS];
    tcc_emit_if leader;
    for (int i = 0; i < p->n_parts; i++) ops[i] = TCC_OP_REDUCE_SUM;
    tcc_fold_lanes(e, ops, p->n_parts, sums);
    tcc_emit_leader_begin(e, &leader, false);
    for (int i = 0; i < r->body->stores.count; i++) {
        const tcc_body_write *s = &r->body->stores.data[i];
        if (!s->part) continue;
        tcc_emit_value at = tcc_emit_at(e, tcc_emit_dtype(e, dtype_of(r, s)), r->bases[s->buffer],
                                        tcc_body_offset(r, &s->offset));
        tcc_emit_store(e, tcc_scalar_to_memory(e, *sums++, dtype_of(r, s)), at, 0);
    }
    tcc_emit_leader_end(e, &leader);
    if (e->shape.shape.group > TCC_EMIT_WARP) tcc_emit_barrier(e); /* the next part's sums go where these are read */
}
