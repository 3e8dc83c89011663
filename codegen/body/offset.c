/* SPDX-License-Identifier: MIT
 * Affine forms as offsets: the part that all lanes share, the part that differs by lane, and the alignment of
 * addresses. */
#include "codegen/body/run.h"
#include "ir/support/integers.h"

/* The given form that is the loop part of `a`, or -1. */
static int find_form(const tcc_body_run *r, const tcc_affine *a) {
    for (int f = 0; f < r->n_forms; f++) {
        int k = 0;
        bool equal = true;
        for (int i = 0; equal && i < a->n; i++) {
            if (r->body->vars.data[a->terms[i].var].kind != TCC_VAR_LOOP) continue;
            equal = k < r->forms[f].n && r->forms[f].terms[k].var == a->terms[i].var &&
                    r->forms[f].terms[k].coefficient == a->terms[i].coefficient;
            k++;
        }
        if (equal && k == r->forms[f].n) return f;
    }
    return -1;
}

/* A bound on all partial sums of a form over loops of a fold, which are long enough that its products should
 * become steps. */
static int64_t fold_reach(const tcc_body *b, const tcc_affine *a) {
    int64_t reach = a->constant < 0 ? -a->constant : a->constant;
    bool folds = false;
    for (int i = 0; i < a->n; i++) {
        const tcc_affine one = {.n = 1, .terms = &a->terms[i]};
        int64_t low, high;
        tcc_affine_range(b, &one, &low, &high);
        reach += -low > high ? -low : high;
        folds = folds || (b->vars.data[a->terms[i].var].kind == TCC_VAR_LOOP && a->terms[i].var >= b->n_space);
    }
    return folds ? reach : INT64_MAX;
}

/* The uniform part of an affine form: lane 0 of loops, and values that are the same in all lanes. */
tcc_emit_value tcc_body_offset(tcc_body_run *r, const tcc_affine *a) {
    tcc_emitter *e = r->e;
    int form = find_form(r, a);
    tcc_emit_value sum = form >= 0 ? r->form_values[form] : NULL;
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        tcc_emit_value term;
        if (v->kind == TCC_VAR_LOOP) {
            if (form >= 0) continue;
            term = r->loops[a->terms[i].var];
        } else {
            if (tcc_body_varies(r, v->value)) continue;
            term = r->values[v->value->id];
            if (tcc_emit_type_of(term) != e->i64) term = tcc_emit_sext(e, term, e->i64);
        }
        term = tcc_emit_mul(e, term, tcc_emit_i64(e, a->terms[i].coefficient));
        sum = sum ? tcc_emit_add(e, sum, term) : term;
    }
    tcc_emit_value constant = tcc_emit_i64(e, a->constant);
    if (!sum) return constant;
    sum = tcc_emit_add(e, sum, constant);
    if (form >= 0 || r->any_extent) return sum;
    int64_t low, high;
    tcc_affine_range(r->body, a, &low, &high);
    return tcc_emit_offset(e, sum, low, high, fold_reach(r->body, a));
}

/* The part of an affine form that differs from lane to lane, as integers of type `scalar`; NULL: none. */
tcc_emit_value tcc_body_lane_part(tcc_body_run *r, const tcc_affine *a, tcc_emit_type scalar) {
    tcc_emitter *e = r->e;
    tcc_emit_type type = tcc_emit_vector_type(scalar, r->lanes);
    int form = find_form(r, a);
    tcc_emit_value sum = NULL;
    if (form >= 0 && r->form_steps[form])
        sum = tcc_emit_imul(e, tcc_emit_iota(e, scalar, r->lanes), tcc_emit_int(e, type, r->form_steps[form]));
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        tcc_emit_value term;
        if (v->kind == TCC_VAR_LOOP) {
            if (form >= 0 || a->terms[i].var != r->lane_var) continue;
            term = tcc_emit_iota(e, scalar, r->lanes);
        } else {
            if (!tcc_body_varies(r, v->value)) continue;
            term = r->values[v->value->id];
            const int have = tcc_emit_bits_of(tcc_emit_type_of(term)), want = tcc_emit_bits_of(scalar);
            if (have < want) term = tcc_emit_sext(e, term, type);
            if (have > want) term = tcc_emit_trunc(e, term, type);
        }
        term = tcc_emit_imul(e, term, tcc_emit_int(e, type, a->terms[i].coefficient));
        sum = sum ? tcc_emit_iadd(e, sum, term) : term;
    }
    return sum;
}

/* Whether loops alone decide how far it is from lane to lane. */
static bool stride_of(const tcc_body_run *r, const tcc_affine *a, int64_t *stride) {
    const int form = find_form(r, a);
    *stride = form >= 0 ? r->form_steps[form] : 0;
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_VALUE && tcc_body_varies(r, v->value)) return false;
        if (form < 0 && a->terms[i].var == r->lane_var) *stride = a->terms[i].coefficient;
    }
    return true;
}

int64_t tcc_body_stride(const tcc_body_run *r, const tcc_affine *a) {
    int64_t stride;
    return stride_of(r, a, &stride) ? stride : 0;
}

tcc_lane_step tcc_body_step(const tcc_body_run *r, const tcc_affine *a) {
    int64_t stride;
    if (r->lanes <= 1) return TCC_STEP_NONE;
    if (!stride_of(r, a, &stride)) return TCC_STEP_ANY;
    return stride == 0 ? TCC_STEP_NONE : stride == 1 ? TCC_STEP_ONE : stride == -1 ? TCC_STEP_MINUS_ONE : TCC_STEP_ANY;
}

/* Offsets fit 32 bits wherever the memory has fewer than 2^31 elements; the lane part alone is what must fit. */
tcc_emit_type tcc_body_offset_type(const tcc_body_run *r, const tcc_affine *a) {
    int64_t low = 0, high = 0;
    int form = find_form(r, a);
    for (int i = form >= 0 ? -1 : 0; i < a->n; i++) {
        const tcc_var *v = i < 0 ? NULL : &r->body->vars.data[a->terms[i].var];
        if (form >= 0 && v && v->kind == TCC_VAR_LOOP) continue;
        int64_t end = i < 0 ? r->form_steps[form] * r->lanes
                            : a->terms[i].coefficient * (v->kind == TCC_VAR_LOOP ? r->lanes : v->high);
        if (end < 0) low += end;
        else high += end;
    }
    const int64_t most = r->e->target->most_narrow;
    return low >= -most && high < most ? r->e->i32 : r->e->i64;
}

int tcc_body_alignment(const tcc_body_run *r, int buffer, const tcc_affine *a) {
    if (!r->e->target->aligned_vectors || (r->forms && !r->form_multiples)) return 0;
    const tcc_body_buffer *from = &r->body->buffers.data[buffer];
    int64_t elements = tcc_gcd(from->offset, a->constant), bytes = tcc_dtype_bytes(from->dtype);
    int form = find_form(r, a);
    if (form >= 0) elements = tcc_gcd(elements, r->form_multiples[form]);
    for (int i = 0; i < a->n; i++) {
        int64_t factor = a->terms[i].coefficient;
        if (form >= 0 && r->body->vars.data[a->terms[i].var].kind == TCC_VAR_LOOP) continue;
        elements = tcc_gcd(elements, a->terms[i].var == r->lane_var ? factor * r->lanes : factor);
    }
    return (int)(elements ? tcc_gcd(elements * bytes, TCC_CUDA_ALIGNMENT) : TCC_CUDA_ALIGNMENT);
}

/* Are the lanes consecutive integers from a multiple of 4, as they are where vectors are aligned? */
bool tcc_body_begins_at_fours(const tcc_body_run *r, const tcc_expr *x) {
    if (!r->e->target->aligned_vectors || x->kind != TCC_EXPR_INDEX || r->lanes % 4 ||
        tcc_body_step(r, &x->affine) != TCC_STEP_ONE)
        return false;
    if (r->forms && !r->form_multiples) return false;
    const int form = find_form(r, &x->affine);
    int64_t common = x->affine.constant;
    if (form >= 0) common = tcc_gcd(common, r->form_multiples[form]);
    for (int i = 0; i < x->affine.n; i++) {
        if (form >= 0 && r->body->vars.data[x->affine.terms[i].var].kind == TCC_VAR_LOOP) continue;
        common = tcc_gcd(common, x->affine.terms[i].var == r->lane_var ? r->lanes : x->affine.terms[i].coefficient);
    }
    return common % 4 == 0;
}

int tcc_body_phase(const tcc_body_run *r, const tcc_expr *x) {
    const tcc_expr *index = x->operands[0];
    const int64_t step = x->integer;
    if (!r->begins_whole || r->forms || r->lane_var < 0 || index->kind != TCC_EXPR_INDEX || step < 2 ||
        r->lanes % step || tcc_affine_coefficient(&index->affine, r->lane_var) != 1)
        return -1;
    for (int i = 0; i < index->affine.n; i++) {
        const tcc_term t = index->affine.terms[i];
        const tcc_var *v = &r->body->vars.data[t.var];
        if (t.var == r->lane_var) continue;
        if (t.coefficient % step || (v->kind == TCC_VAR_VALUE && tcc_body_varies(r, v->value))) return -1;
    }
    return (int)(-index->affine.constant & (step - 1));
}
