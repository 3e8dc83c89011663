/* SPDX-License-Identifier: MIT
 * Loads and stores of a scalar program, by the stride of the offset from lane to lane. */
#include "codegen/body/run.h"

/* What a guard asks of all lanes alike; NULL: nothing. */
static tcc_emit_value in_common(tcc_body_run *r, const tcc_expr *guard) {
    if (!tcc_body_varies(r, guard)) return r->values[guard->id];
    if (!tcc_expr_is_and(guard)) return NULL;
    tcc_emit_value one = in_common(r, guard->operands[0]), two = in_common(r, guard->operands[1]);
    return one && two ? tcc_emit_and(r->e, one, two) : one ? one : two;
}

/* A guard in each lane. Where that is a range of an index beside a question to all lanes, the range is empty if the
 * answer to that is no: LLVM 19 loads lanes that constants leave out where these meet such an answer. */
static tcc_emit_value mask_of(tcc_body_run *r, const tcc_expr *guard) {
    tcc_emitter *e = r->e;
    const tcc_expr *own = tcc_body_guard_of_lanes(r, guard);
    if (!own || own == guard || own->kind != TCC_EXPR_WITHIN || e->target->lane_groups) return tcc_body_lanes(r, guard);
    tcc_emit_value index = tcc_body_lanes(r, own->operands[0]), common = in_common(r, guard);
    tcc_emit_type scalar = tcc_emit_scalar_of(tcc_emit_type_of(index));
    if (scalar == e->i32 && own->integer > INT32_MAX) return tcc_body_lanes(r, guard);
    tcc_emit_value limit = tcc_emit_select(e, common, tcc_emit_int(e, scalar, own->integer), tcc_emit_null(scalar));
    return tcc_emit_icmp(e, TCC_ICMP_ULT, index, tcc_body_over_lanes(r, limit));
}

/* Lanes where both the loop and the guard let the access through; NULL: all of them. */
static tcc_emit_value access_mask(tcc_body_run *r, const tcc_expr *guard) {
    if (!guard) return r->mask;
    tcc_emit_value g = mask_of(r, guard);
    return r->mask ? tcc_emit_and(r->e, r->mask, g) : g;
}

static tcc_emit_value reverse(tcc_body_run *r, tcc_emit_value v) {
    int order[64];
    for (int i = 0; i < r->lanes; i++) order[i] = r->lanes - 1 - i;
    return tcc_emit_shuffle(r->e, v, NULL, order, r->lanes);
}

/* The stride of a load from lane to lane by which it is better read as a whole; 0: it is not. */
static int stride_of(const tcc_body_run *r, const tcc_expr *x) {
    enum { MOST_STRIDE = 4, MOST_OF_WIDE = 8 /* with loads under any mask, for the last vector of a row */ };
    const int64_t stride = tcc_body_stride(r, &x->affine);
    const tcc_llvm_target *t = r->e->target;
    const int most = t->lanes == 16 ? MOST_OF_WIDE : MOST_STRIDE;
    return !t->lane_groups && stride > 1 && stride <= most && stride <= r->lanes ? (int)stride : 0;
}

/* Whether a guard is false wherever the index that is divided is no multiple. */
static bool asks_for_whole(const tcc_expr *guard, const tcc_expr *quotient) {
    if (tcc_expr_is_and(guard))
        return asks_for_whole(guard->operands[0], quotient) || asks_for_whole(guard->operands[1], quotient);
    if (guard->kind != TCC_EXPR_POINT || guard->op != TCC_OP_EQ) return false;
    const tcc_expr *rest = guard->operands[0], *zero = guard->operands[1];
    return rest->kind == TCC_EXPR_MOD && rest->operands[0] == quotient->operands[0] &&
           rest->integer == quotient->integer && zero->kind == TCC_EXPR_CONST && zero->integer == 0;
}

/* The first lane of those that load one element after the other, where only each so many-th lane does; -1: they do
 * not. */
static int phase_of(const tcc_body_run *r, const tcc_expr *x, const tcc_expr **quotient) {
    const tcc_expr *guard = x->n_operands ? x->operands[0] : NULL;
    *quotient = NULL;
    if (!guard || r->e->target->lane_groups) return -1;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_term t = x->affine.terms[i];
        const tcc_var *v = &r->body->vars.data[t.var];
        if (v->kind == TCC_VAR_LOOP ? t.var != r->lane_var : !tcc_body_varies(r, v->value)) continue;
        if (*quotient || t.coefficient != 1 || v->kind == TCC_VAR_LOOP || v->value->kind != TCC_EXPR_DIV) return -1;
        *quotient = v->value;
    }
    return *quotient && asks_for_whole(guard, *quotient) ? tcc_body_phase(r, *quotient) : -1;
}

/* Such lanes: a vector of their elements, spread. */
static tcc_emit_value load_spread(tcc_body_run *r, const tcc_expr *x, const tcc_expr *quotient, int phase) {
    tcc_emitter *e = r->e;
    const int step = (int)quotient->integer, n = r->lanes / step;
    const tcc_emit_type memory = tcc_emit_dtype(e, x->dtype);
    int pick[64], spread[64], bits = 0;
    while (1 << bits < step) bits++;
    for (int i = 0; i < n; i++) pick[i] = phase + i * step;
    for (int i = 0; i < r->lanes; i++) spread[i] = i % step == phase ? i / step : n;
    tcc_emit_value first = tcc_emit_add(e, tcc_body_offset(r, &quotient->operands[0]->affine), tcc_emit_i64(e, phase));
    first = tcc_emit_ashr(e, first, tcc_emit_i64(e, bits));
    tcc_emit_value offset = tcc_emit_add(e, tcc_body_offset(r, &x->affine), first), base = r->bases[x->buffer];
    tcc_emit_value mask = access_mask(r, x->operands[0]), at = tcc_emit_at(e, memory, base, offset);
    if (n == 1) return tcc_emit_load_one(e, tcc_emit_vector_type(memory, r->lanes), base, offset, false, mask);
    mask = tcc_emit_shuffle(e, mask, NULL, pick, n);
    const tcc_emit_type type = tcc_emit_vector_type(memory, n);
    return tcc_emit_shuffle(e, tcc_emit_load_masked(e, type, at, mask), tcc_emit_null(type), spread, r->lanes);
}

/* A row's vector by what its lanes ask, behind a branch by what they have in common, where the former are constants and
 * a mask at run time is slow; NULL: this is none such. */
static tcc_emit_value load_of_row(tcc_body_run *r, const tcc_expr *guard, tcc_emit_type type, tcc_emit_value at) {
    tcc_emitter *e = r->e;
    const tcc_expr *own = tcc_body_guard_of_lanes(r, guard);
    if (own && tcc_expr_is_and(own)) return NULL;
    tcc_emit_value common = in_common(r, guard), mask = r->mask, lanes = own ? tcc_body_lanes(r, own) : NULL;
    if (lanes) mask = mask ? tcc_emit_and(e, mask, lanes) : lanes;
    if (!common || (mask && !tcc_emit_is_fixed(mask))) return NULL;
    return tcc_emit_load_masked_if(e, type, at, mask, common);
}

tcc_emit_value tcc_body_emit_load(tcc_body_run *r, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    tcc_emit_type memory = tcc_emit_dtype(e, x->dtype);
    tcc_emit_value base = r->bases[x->buffer], offset = tcc_body_offset(r, &x->affine), value;
    const tcc_expr *guard = x->n_operands ? x->operands[0] : NULL;
    if (guard && r->unguarded) guard = tcc_body_guard_of_lanes(r, guard);
    bool guard_varies = guard && tcc_body_varies(r, guard);
    const tcc_expr *quotient;
    const int phase = phase_of(r, x, &quotient);
    tcc_lane_step step = tcc_body_step(r, &x->affine);
    const int near = step == TCC_STEP_ANY ? tcc_body_near(r, x) : 0;
    tcc_emit_type type = tcc_emit_vector_type(memory, r->lanes);
    if (step == TCC_STEP_NONE && !guard_varies) {
        value = guard ? tcc_emit_load_if(e, memory, base, offset, r->values[guard->id])
                      : tcc_emit_load(e, memory, tcc_emit_at(e, memory, base, offset), 0);
    } else if (step == TCC_STEP_NONE) {
        value = tcc_emit_load_one(e, type, base, offset, !r->any_extent && tcc_body_lies_there(r->body, x),
                                  access_mask(r, guard));
    } else if (step == TCC_STEP_ONE && guard && !guard_varies && !r->mask) { /* all lanes or none */
        value = tcc_emit_load_lanes_if(e, type, base, offset, tcc_body_alignment(r, x->buffer, &x->affine),
                                       r->values[guard->id]);
    } else if (step == TCC_STEP_ONE) {
        tcc_emit_value at = tcc_emit_at(e, memory, base, offset), mask;
        const bool by_branch = guard && tcc_emit_masks_are_slow(e->target);
        value = by_branch ? load_of_row(r, guard, type, at) : NULL;
        if (value) return tcc_scalar_from_memory(e, value, x->dtype);
        mask = access_mask(r, guard);
        value = mask ? tcc_emit_load_masked(e, type, at, mask)
                     : tcc_emit_load(e, type, at, tcc_body_alignment(r, x->buffer, &x->affine));
    } else if (step == TCC_STEP_MINUS_ONE) {
        tcc_emit_value mask = access_mask(r, guard);
        tcc_emit_value at = tcc_emit_at(e, memory, base, tcc_emit_sub(e, offset, tcc_emit_i64(e, r->lanes - 1)));
        value = reverse(r, mask ? tcc_emit_load_masked(e, type, at, reverse(r, mask)) : tcc_emit_load(e, type, at, 0));
    } else if (stride_of(r, x) && !(near && (guard || r->mask))) {
        value = tcc_emit_load_strided(e, type, tcc_emit_at(e, memory, base, offset), stride_of(r, x),
                                      access_mask(r, guard));
    } else if (phase >= 0) {
        value = load_spread(r, x, quotient, phase);
    } else if (tcc_body_has_columns(r, x)) {
        tcc_body_load_columns(r, x);
        return r->values[x->id];
    } else if (near) {
        return tcc_body_emit_near(r, x, near, access_mask(r, guard));
    } else {
        tcc_emit_value start = tcc_emit_element(e, memory, base, offset);
        value = tcc_emit_gather_at(e, memory, start,
                                   tcc_body_lane_part(r, &x->affine, tcc_body_offset_type(r, &x->affine)),
                                   access_mask(r, guard));
    }
    return tcc_scalar_from_memory(e, value, x->dtype);
}

/* A value as its buffer's type has it. */
static tcc_emit_value for_memory(tcc_body_run *r, const tcc_expr *x, tcc_emit_value value, tcc_dtype dtype) {
    return x->rounded && x->dtype == dtype ? tcc_scalar_rounded_to_memory(r->e, value, dtype)
                                           : tcc_scalar_to_memory(r->e, value, dtype);
}

/* Whether vectors that are stored past the caches fill whole lines: a line that is stored partly so, and partly in a
 * cache, takes longer than either. */
static bool fills_lines(const tcc_body_run *r, const tcc_body_write *s, int bytes) {
    enum { LINE = 64 };
    if (!r->begins_whole || r->forms || s->offset.constant * bytes % LINE) return false;
    for (int i = 0; i < s->offset.n; i++) {
        const tcc_term t = s->offset.terms[i];
        const tcc_var *v = &r->body->vars.data[t.var];
        if (v->kind != TCC_VAR_LOOP) return false;
        const int64_t step = t.var == r->lane_var ? (r->any_extent ? LINE : v->high + 1) : t.coefficient;
        const bool whole = t.var == r->lane_var && r->lanes * bytes % LINE == 0;
        if (!whole && step * bytes % LINE) return false;
    }
    return true;
}

void tcc_body_emit_store(tcc_body_run *r, const tcc_body_write *s) {
    tcc_emitter *e = r->e;
    if (r->inside) {
        tcc_emit_value inside = r->inside;
        tcc_emit_if branch;
        r->inside = NULL;
        tcc_emit_if_begin(e, &branch, inside);
        tcc_body_emit_store(r, s);
        tcc_emit_if_end(e, &branch);
        r->inside = inside;
        return;
    }
    if (s->guard && tcc_body_step(r, &s->offset) == TCC_STEP_NONE) {
        tcc_body_write inside = *s;
        tcc_emit_if branch;
        inside.guard = NULL;
        tcc_emit_if_begin(e, &branch, r->values[s->guard->id]);
        tcc_body_emit_store(r, &inside);
        tcc_emit_if_end(e, &branch);
        return;
    }
    tcc_emit_value mask = access_mask(r, s->guard);
    tcc_dtype dtype = r->body->buffers.data[s->buffer].dtype;
    tcc_emit_type memory = tcc_emit_dtype(e, dtype);
    tcc_emit_value base = r->bases[s->buffer], offset = tcc_body_offset(r, &s->offset);
    tcc_lane_step step = tcc_body_step(r, &s->offset);
    if (step == TCC_STEP_NONE) {
        tcc_emit_value one = r->values[s->value->id]; /* a vector in a result of one column: lane 0 alone exists */
        if (tcc_emit_lanes_of(tcc_emit_type_of(one)) > 1) one = tcc_emit_extract(e, one, tcc_emit_i32(e, 0));
        tcc_emit_store(e, for_memory(r, s->value, one, dtype), tcc_emit_at(e, memory, base, offset), 0);
        return;
    }
    tcc_emit_value value = for_memory(r, s->value, tcc_body_lanes(r, s->value), dtype);
    if (step == TCC_STEP_ONE) {
        tcc_emit_value at = tcc_emit_at(e, memory, base, offset);
        if (mask) tcc_emit_store_masked(e, value, at, mask);
        else if (s->past_caches && fills_lines(r, s, tcc_dtype_bytes(dtype))) tcc_emit_store_past_caches(e, value, at);
        else tcc_emit_store(e, value, at, tcc_body_alignment(r, s->buffer, &s->offset));
        return;
    }
    tcc_emit_value start = tcc_emit_element(e, memory, base, offset);
    /* lanes of one store never meet, so their order is free */
    tcc_emit_scatter_at(e, value, start, tcc_body_lane_part(r, &s->offset, tcc_body_offset_type(r, &s->offset)), mask);
}

tcc_emit_value tcc_body_stored(tcc_body_run *r, const tcc_body_write *s) {
    return for_memory(r, s->value, tcc_body_lanes(r, s->value), r->body->buffers.data[s->buffer].dtype);
}

void tcc_body_store_phases(tcc_body_run *r, const tcc_body_write *s, tcc_emit_value *values, int phases,
                           tcc_emit_value mask) {
    tcc_emitter *e = r->e;
    tcc_emit_type memory = tcc_emit_dtype(e, r->body->buffers.data[s->buffer].dtype);
    tcc_emit_value all = values[0], at = tcc_emit_at(e, memory, r->bases[s->buffer], tcc_body_offset(r, &s->offset));
    int order[64];
    for (int phase = 1; phase < phases; phase++) { /* `all` has so many interleaved already */
        tcc_emit_value next = values[phase];
        if (phase > 1) {
            for (int i = 0; i < phase * r->lanes; i++) order[i] = i < r->lanes ? i : -1;
            next = tcc_emit_shuffle(e, next, NULL, order, phase * r->lanes);
        }
        for (int i = 0; i < (phase + 1) * r->lanes; i++) {
            const int lane = i / (phase + 1), part = i % (phase + 1);
            order[i] = part < phase ? lane * phase + part : phase * r->lanes + lane;
        }
        all = tcc_emit_shuffle(e, all, next, order, (phase + 1) * r->lanes);
    }
    if (mask) tcc_emit_store_masked(e, all, at, mask);
    else tcc_emit_store(e, all, at, 0);
}

/* Lanes lie one after the other from a place that loops alone decide. */
static bool is_run(const tcc_body_run *r, const tcc_affine *a) {
    for (int i = 0; i < a->n; i++)
        if (r->body->vars.data[a->terms[i].var].kind != TCC_VAR_LOOP) return false;
    return tcc_body_step(r, a) == TCC_STEP_ONE;
}

static tcc_emit_value run_address(tcc_body_run *r, int buffer, const tcc_affine *a) {
    tcc_emit_type memory = tcc_emit_dtype(r->e, r->body->buffers.data[buffer].dtype);
    return tcc_emit_at(r->e, memory, r->bases[buffer], tcc_body_offset(r, a));
}

void tcc_body_emit_prefetch(tcc_body_run *r) {
    enum { INTO_L2 = 2 };
    const tcc_body *b = r->body;
    for (int i = 0; i < b->stores.count; i++)
        if (is_run(r, &b->stores.data[i].offset))
            tcc_emit_prefetch_to_store(r->e, run_address(r, b->stores.data[i].buffer, &b->stores.data[i].offset));
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (r->needed[i] && x->kind == TCC_EXPR_LOAD && is_run(r, &x->affine))
            tcc_emit_prefetch(r->e, run_address(r, x->buffer, &x->affine), INTO_L2);
    }
}
