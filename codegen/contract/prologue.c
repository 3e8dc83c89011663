/* SPDX-License-Identifier: MIT
 * The prologue of a contraction: work on an operand before it is multiplied. */
#include "codegen/contract/prologue.h"

#include "codegen/emit/warp.h"

/* A load that does not move with the operand is made once, at the kernel's start, by the body's own rules. */
static bool varies(const tcc_expr *x) { return x->kind == TCC_EXPR_LOAD && x->loops; }

static bool is_simple(const tcc_body *b, const tcc_expr *x) {
    if (x->kind != TCC_EXPR_CONST && x->kind != TCC_EXPR_INDEX && x->kind != TCC_EXPR_LOAD && x->kind != TCC_EXPR_POINT)
        return false;
    for (int i = 0; i < x->affine.n; i++)
        if (b->vars.data[x->affine.terms[i].var].kind != TCC_VAR_LOOP) return false;
    return x->kind != TCC_EXPR_LOAD || !x->n_operands; /* no guard */
}

static int form_of(const tcc_prologue *p, const tcc_expr *x) {
    tcc_affine moving = x->affine;
    moving.constant = 0;
    int f = 0;
    while (!tcc_affine_equal(&p->forms[f], &moving)) f++; /* one of all that the body has */
    return f;
}

static bool find_loads(tcc_prologue *p) {
    tcc_body *b = p->body;
    const tcc_expr *first = NULL;
    p->reads.n_forms = tcc_body_forms(b, p->forms, TCC_CONTRACT_MAX_FORMS);
    if (p->reads.n_forms < 0) return false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (!is_simple(b, x)) return false;
        if (!varies(x)) continue;
        if (p->reads.n_loads == TCC_CONTRACT_MAX_LOADS) return false;
        p->loads[p->reads.n_loads++] = x;
        if (!first || x->affine.n > first->affine.n) first = x;
    }
    if (first) {
        int at = form_of(p, first);
        tcc_affine form = p->forms[at];
        p->forms[at] = p->forms[0];
        p->forms[0] = form;
    }
    for (int i = 0; i < p->reads.n_loads; i++)
        p->reads.loads[i] = (tcc_contract_read){form_of(p, p->loads[i]), p->loads[i]->affine.constant,
                                                p->loads[i]->dtype};
    return true;
}

tcc_status tcc_prologue_create(tcc_lowering *l, tcc_body *b, const tcc_expr *value, tcc_prologue **out) {
    tcc_prologue *p = TCC_ARENA_NEW(l->arena, tcc_prologue);
    *out = NULL;
    if (!p && b->status == TCC_OK) b->status = tcc_enomem(l->diag);
    const tcc_expr *unrounded = tcc_expr_before_rounding(b, value);
    TCC_TRY(tcc_lowering_keep(l, b)); /* frees it if it failed */
    *p = (tcc_prologue){.body = b, .value = value, .unrounded = unrounded};
    if (find_loads(p)) *out = p;
    return b->status;
}

int tcc_prologue_buffers(const tcc_prologue *p, tcc_plan_buffer *out) {
    const tcc_body *b = p->body;
    for (int i = 0; i < b->buffers.count && out; i++) {
        const tcc_body_buffer *from = &b->buffers.data[i];
        out[i] = (tcc_plan_buffer){from->node,
                                   from->temporary,
                                   from->literal,
                                   from->literal_bytes,
                                   from->offset * tcc_dtype_bytes(from->dtype),
                                   false};
    }
    return b->buffers.count;
}

/* --- Emission */

/* What is rounded behind it need not be rounded here. */
static const tcc_expr *value_of(const tcc_prologue_run *r) {
    return r->side->rounds ? r->prologue->unrounded : r->prologue->value;
}

static void begin(void *user, tcc_emitter *e, const tcc_contract_side *side, int first_buffer) {
    tcc_prologue_run *r = user;
    const tcc_prologue *p = r->prologue;
    r->side = side;
    r->status = tcc_body_run_begin(&r->run, e, p->body, first_buffer);
    if (r->status != TCC_OK) return;
    for (int i = 0; i < p->reads.n_loads; i++) r->run.given[p->loads[i]->id] = true;
    for (int i = 0; i < p->body->exprs.count; i++) r->loops |= p->body->exprs.data[i]->loops;
    tcc_body_need(&r->run, value_of(r));
    tcc_body_emit(&r->run, 0);
    r->run.n_forms = p->reads.n_forms;
    r->run.forms = p->forms;
    r->run.form_steps = side->step;
    r->run.form_multiples = side->multiple;
    r->run.lane_loops = r->loops;
}

static void end(void *user) {
    tcc_prologue_run *r = user;
    if (r->status == TCC_OK) tcc_body_run_end(&r->run);
}

static int lanes_of(const tcc_contract_side *side, int form) { return side->step[form] ? side->vector : 1; }

static void load(void *user, tcc_emitter *e, const tcc_emit_value *forms, tcc_emit_value inside, tcc_emit_value *raw) {
    tcc_prologue_run *r = user;
    if (r->status != TCC_OK) return;
    for (int i = 0; i < r->prologue->reads.n_loads; i++) {
        const tcc_contract_read *read = &r->prologue->reads.loads[i];
        tcc_emit_value offset = tcc_emit_add(e, forms[read->form], tcc_emit_i64(e, read->constant));
        tcc_emit_value address = tcc_emit_at(e, tcc_emit_dtype(e, read->dtype),
                                             r->run.bases[r->prologue->loads[i]->buffer], offset);
        raw[i] = tcc_emit_global_load(e, read->dtype, address, lanes_of(r->side, read->form), inside);
    }
}

static tcc_emit_value value(void *user, tcc_emitter *e, const tcc_emit_value *forms, const tcc_emit_value *raw) {
    tcc_prologue_run *r = user;
    const tcc_prologue *p = r->prologue;
    tcc_body_run *run = &r->run;
    if (r->status != TCC_OK)
        return tcc_emit_null(tcc_emit_vector_type(tcc_scalar_register(e, r->side->dtype), r->side->vector));
    run->form_values = forms;
    run->lanes = r->side->vector;
    run->open = r->loops;
    for (int i = 0; i < p->reads.n_loads; i++) {
        tcc_emit_value x = tcc_scalar_from_memory(e, raw[i], p->loads[i]->dtype);
        run->values[p->loads[i]->id] = tcc_emit_lanes_of(tcc_emit_type_of(x)) == run->lanes
                                           ? x
                                           : tcc_emit_splat(e, x, run->lanes);
    }
    tcc_body_emit(run, 0);
    tcc_emit_value result = tcc_body_lanes(run, value_of(r));
    for (int i = 0; i < p->body->exprs.count; i++)
        if (p->body->exprs.data[i]->loops) run->values[i] = NULL;
    run->lanes = 1;
    run->open = 0;
    return result;
}

void tcc_prologue_open(tcc_prologue_run *r, const tcc_prologue *p, tcc_contract_prologue *out) {
    *r = (tcc_prologue_run){.prologue = p};
    *out = (tcc_contract_prologue){r, begin, end, load, value};
}
