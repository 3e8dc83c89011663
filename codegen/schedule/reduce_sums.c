/* SPDX-License-Identifier: MIT
 * Emission of column sums: an item leaves a row of partial sums. If the loop over the row is unrolled, each thread has
 * local variables, one per vector of the row, which LLVM turns into registers. Else threads add to the row in memory,
 * each thread always to the same columns. */
#include "codegen/schedule/reduce.h"

static tcc_dtype sum_dtype(const tcc_body_run *r, const tcc_body_write *s) {
    return r->body->buffers.data[s->buffer].dtype;
}

static tcc_emit_type sum_type(tcc_body_run *r, const tcc_reduce *p, const tcc_body_write *s) {
    return tcc_emit_vector_type(tcc_scalar_register(r->e, sum_dtype(r, s)), p->lanes);
}

/* A GPU's vectors begin at multiples of their lanes, in rows that are so as well. */
static int sum_alignment(const tcc_body_run *r, const tcc_reduce *p, const tcc_body_write *s) {
    int bytes = p->lanes * tcc_dtype_bytes(sum_dtype(r, s));
    return !r->e->target->aligned_vectors ? 0 : bytes < 16 ? bytes : 16;
}

/* The open columns in the slice's row of partial sums. */
static tcc_emit_value sum_address(tcc_body_run *r, const tcc_body_write *s) {
    return tcc_emit_at(r->e, tcc_emit_dtype(r->e, sum_dtype(r, s)), r->bases[s->buffer],
                       tcc_body_offset(r, &s->offset));
}

static tcc_emit_value load_sum(tcc_body_run *r, const tcc_reduce *p, const tcc_body_write *s, tcc_emit_value at) {
    tcc_emit_type type = tcc_emit_vector_type(tcc_emit_dtype(r->e, sum_dtype(r, s)), p->lanes);
    tcc_emit_value value = r->mask ? tcc_emit_load_masked(r->e, type, at, r->mask)
                                   : tcc_emit_load(r->e, type, at, sum_alignment(r, p, s));
    return tcc_scalar_from_memory(r->e, value, sum_dtype(r, s));
}

static void store_sum(tcc_body_run *r, const tcc_reduce *p, const tcc_body_write *s, tcc_emit_value value,
                      tcc_emit_value at) {
    value = tcc_scalar_to_memory(r->e, value, sum_dtype(r, s));
    if (r->mask) tcc_emit_store_masked(r->e, value, at, r->mask);
    else tcc_emit_store(r->e, value, at, sum_alignment(r, p, s));
}

void tcc_reduce_add_to_sum(tcc_body_run *r, const tcc_reduce *p, int store, tcc_emit_value place) {
    tcc_emitter *e = r->e;
    const tcc_body_write *sum = &r->body->stores.data[store];
    tcc_emit_value value = tcc_body_lanes(r, sum->value), at = place ? NULL : sum_address(r, sum);
    tcc_emit_value carry = place ? tcc_emit_load(e, tcc_emit_type_of(value), place, 0) : load_sum(r, p, sum, at);
    tcc_fold_step(e, TCC_OP_REDUCE_SUM, &carry, value, NULL, NULL);
    if (place) tcc_emit_store(e, carry, place, 0);
    else store_sum(r, p, sum, carry, at);
}

/* The vectors of a row one after the other, for work on its columns alone. */
static void columns_begin(tcc_body_run *r, const tcc_reduce *p) {
    tcc_emitter *e = r->e;
    for (int i = 0; i < p->n_reduced; i++) {
        int var = p->reduced[i];
        tcc_emit_value from = tcc_emit_i64(e, 0), to = tcc_emit_i64(e, r->body->vars.data[var].high + 1);
        if (i < p->n_reduced - 1) {
            tcc_emit_loop_begin(e, &r->nest[var], from, to, 1, NULL, 0);
        } else {
            tcc_emit_lane_loop_begin(e, &r->nest[var], from, to, p->lanes, NULL, 0);
            if (p->lanes > 1) {
                r->lane_var = var;
                r->lanes = p->lanes;
                if ((r->body->vars.data[var].high + 1) % p->lanes)
                    r->mask = tcc_emit_tail_mask(e, p->lanes, to, r->nest[var].index);
            }
        }
        tcc_body_enter(r, var, r->nest[var].index);
    }
}

static void columns_end(tcc_body_run *r, const tcc_reduce *p) {
    r->mask = NULL;
    r->lane_var = -1;
    r->lanes = 1;
    for (int i = p->n_reduced - 1; i >= 0; i--) {
        tcc_body_leave(r, p->reduced[i]);
        tcc_emit_loop_end(r->e, &r->nest[p->reduced[i]], NULL);
    }
}

void tcc_reduce_begin_sums(tcc_body_run *r, const tcc_reduce *p, tcc_emit_value *sums) {
    const tcc_body *b = r->body;
    if (!p->steps) columns_begin(r, p);
    for (int i = 0; i < b->stores.count; i++) {
        const tcc_body_write *s = &b->stores.data[i];
        if (!s->sum) continue;
        tcc_emit_type type = sum_type(r, p, s);
        if (!p->steps) store_sum(r, p, s, tcc_emit_null(type), sum_address(r, s));
        for (int step = 0; step < p->steps; step++) {
            tcc_emit_value *place = &sums[step * b->stores.count + i];
            if (!*place) *place = tcc_emit_local(r->e, type, 1);
            tcc_emit_store(r->e, tcc_emit_null(type), *place, 0);
        }
    }
    if (!p->steps) columns_end(r, p);
}

/* The thread's own sums of store `at`: into the slice's row of partial sums, or, for others of the block, into shared
 * memory. */
static void put_sums(tcc_body_run *r, const tcc_reduce *p, int at, const tcc_emit_value *sums) {
    tcc_emitter *e = r->e;
    const tcc_body_write *s = &r->body->stores.data[at];
    int var = p->reduced[0];
    int64_t extent = r->body->vars.data[var].high + 1, all = tcc_emit_group_lanes(e, p->lanes);
    tcc_emit_value own = tcc_emit_mul(e, e->thread, tcc_emit_i64(e, p->lanes));
    for (int step = 0; step < p->steps; step++) {
        tcc_emit_value index = tcc_emit_add(e, own, tcc_emit_i64(e, step * all));
        bool part = (step + 1) * all > extent;
        tcc_emit_if branch;
        if (part) tcc_emit_if_begin(e, &branch, tcc_emit_icmp(e, TCC_ICMP_SLT, index, tcc_emit_i64(e, extent)));
        tcc_body_enter(r, var, index);
        tcc_emit_value value = tcc_emit_load(e, sum_type(r, p, s), sums[step * r->body->stores.count + at], 0), place;
        if (e->split) {
            tcc_emit_value row = tcc_emit_add(e, tcc_emit_mul(e, e->split, tcc_emit_i64(e, extent)), index);
            place = tcc_emit_at(e, tcc_emit_dtype(e, sum_dtype(r, s)), e->scratch, row);
        } else {
            place = sum_address(r, s);
        }
        store_sum(r, p, s, value, place);
        tcc_body_leave(r, var);
        if (part) tcc_emit_if_end(e, &branch);
    }
}

/* Adds what the lane groups of the block have put for store `at`, in their order. All threads share the columns. */
static void add_split_sums(tcc_body_run *r, const tcc_reduce *p, int at) {
    tcc_emitter *e = r->e;
    const tcc_body_write *s = &r->body->stores.data[at];
    tcc_emit_type memory = tcc_emit_dtype(e, sum_dtype(r, s));
    int var = p->reduced[0];
    int64_t extent = r->body->vars.data[var].high + 1;
    tcc_emit_value thread = tcc_emit_add(e, tcc_emit_mul(e, e->split, tcc_emit_i64(e, p->shape.group)), e->thread);
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_mul(e, thread, tcc_emit_i64(e, p->lanes)), tcc_emit_i64(e, extent),
                        (int64_t)p->shape.threads * p->lanes, NULL, 0);
    tcc_emit_value sum = NULL;
    for (int d = 0; d < p->shape.split; d++) {
        tcc_emit_value place = tcc_emit_add(e, tcc_emit_i64(e, d * extent), loop.index);
        tcc_emit_value value = load_sum(r, p, s, tcc_emit_at(e, memory, e->scratch, place));
        if (sum) tcc_fold_step(e, TCC_OP_REDUCE_SUM, &sum, value, NULL, NULL);
        else sum = value;
    }
    tcc_body_enter(r, var, loop.index);
    store_sum(r, p, s, sum, sum_address(r, s));
    tcc_body_leave(r, var);
    tcc_emit_loop_end(e, &loop, NULL);
}

void tcc_reduce_end_sums(tcc_body_run *r, const tcc_reduce *p, const tcc_emit_value *sums) {
    tcc_emitter *e = r->e;
    bool first = true;
    for (int i = 0; p->steps && i < r->body->stores.count; i++) {
        if (!r->body->stores.data[i].sum) continue;
        if (e->split && !first) tcc_emit_barrier(e); /* the last sum has been read */
        first = false;
        put_sums(r, p, i, sums);
        if (!e->split) continue;
        tcc_emit_barrier(e);
        add_split_sums(r, p, i);
        e->shared_reused = true;
    }
}
