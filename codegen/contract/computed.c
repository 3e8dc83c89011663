/* SPDX-License-Identifier: MIT
 * An image that a host's kernel computes while it packs or transforms it. */
#include "codegen/contract/computed.h"

#include "codegen/schedule/predict.h"

/* The tensor that stands for the image: the first one of its form. Some load has the first form. */
static const tcc_expr *first_load(const tcc_prologue *p) {
    int i = 0;
    while (p->reads.loads[i].form) i++;
    return p->loads[i];
}

/* The body's loops are the image's dims but those of 1, in order. Of each form: that of the dense image, or of its
 * channels alone. */
static bool suits(const tcc_prologue *p, const tcc_type *type, int n_loops) {
    if (p->body->buffers.count > TCC_GROUP_MAX_ACCESSES || !p->reads.n_loads) return false;
    const tcc_expr *first = first_load(p);
    if (first->affine.constant || first->dtype != type->dtype) return false;
    for (int f = 0; f < p->reads.n_forms; f++) {
        int64_t dense = 1;
        bool is_dense = true, is_channel = true;
        for (int i = type->rank - 1, loop = n_loops - 1; i >= 0; dense *= type->dims[i], i--) {
            if (type->dims[i] == 1) continue;
            const int64_t step = tcc_affine_coefficient(&p->forms[f], loop--);
            is_dense = is_dense && step == dense;
            is_channel = is_channel && (i == type->rank - 1 || !step);
        }
        if (!is_dense && (!f || !is_channel)) return false;
    }
    return true;
}

bool tcc_computed_type(tcc_dtype type) { return type == TCC_F32 || type == TCC_F16 || type == TCC_BF16; }

tcc_status tcc_computed_create(tcc_lowering *l, const tcc_node *n, tcc_prologue **out) {
    tcc_iteration it;
    tcc_affine coordinates[TCC_MAX_RANK];
    int n_loops = 0;
    *out = NULL;
    if (!tcc_computed_type(n->type.dtype) || n->type.dims[n->type.rank - 1] == 1) return TCC_OK;
    tcc_body *b = tcc_lowering_body(l, l->group);
    if (!b) return tcc_enomem(l->diag);
    for (int i = 0; i < n->type.rank; i++) n_loops += n->type.dims[i] != 1;
    tcc_iteration_init(&it, n->type.rank, n->type.dims);
    tcc_iteration_open(b, &it, coordinates);
    const tcc_expr *value = tcc_body_trace(b, n, coordinates);
    TCC_TRY(tcc_prologue_create(l, b, value, out));
    if (*out && !suits(*out, &n->type, n_loops)) *out = NULL;
    if (!*out) return TCC_OK;
    (*out)->channels = UINT64_C(1) << (n_loops - 1);
    (*out)->n_channels = n->type.dims[n->type.rank - 1];
    (*out)->image_bytes = tcc_type_bytes(&n->type);
    return TCC_OK;
}

void tcc_computed_set_bytes(const tcc_lowering *l, const tcc_prologue *p, tcc_plan_launch *launch) {
    tcc_plan_buffer buffers[TCC_GROUP_MAX_ACCESSES];
    const int n = tcc_prologue_buffers(p, buffers);
    launch->bytes += (double)p->image_bytes;
    for (int i = 0; i < n; i++) launch->bytes -= tcc_predict_buffer_bytes(l, &buffers[i]);
}

void tcc_computed_key(const tcc_prologue *p, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "\nthe image is %d of ", p->value->id);
    tcc_body_describe(p->body, -1, out);
    tcc_strbuf_add(out, "\n");
}

/* --- Emission */

/* Forgets what was evaluated for loops among `loops`. */
static void forget(tcc_computed_run *r, uint64_t loops) {
    r->run.open &= ~loops;
    for (int i = 0; i < r->run.body->exprs.count; i++)
        if (r->run.body->exprs.data[i]->loops & loops) r->run.values[i] = NULL;
}

tcc_emit_value tcc_computed_begin(tcc_computed_run *r, tcc_emitter *e, const tcc_prologue *p, int first_buffer) {
    *r = (tcc_computed_run){.prologue = p, .channels = p->channels};
    r->status = tcc_body_run_begin(&r->run, e, p->body, first_buffer);
    if (r->status != TCC_OK) return tcc_emit_buffer(e, first_buffer);
    for (int i = 0; i < p->body->exprs.count; i++) r->all |= p->body->exprs.data[i]->loops;
    tcc_body_need(&r->run, p->value);
    tcc_body_emit(&r->run, 0);
    for (int f = 0; f < p->reads.n_forms; f++) {
        r->steps[f] = 0;
        for (int v = 0; r->channels >> v; v++)
            if (r->channels >> v & 1) r->steps[f] = tcc_affine_coefficient(&p->forms[f], v);
    }
    r->run.n_forms = p->reads.n_forms;
    r->run.forms = p->forms;
    r->run.form_steps = r->steps;
    r->run.lane_loops = r->channels;
    r->first = r->run.bases[first_load(p)->buffer];
    return r->first;
}

/* Evaluates what the open loops allow, at the pixel where the dense image is at `offset`. */
static void evaluate(tcc_computed_run *r, tcc_emit_value offset, tcc_emit_value mask) {
    const tcc_prologue *p = r->prologue;
    tcc_emit_value values[TCC_CONTRACT_MAX_FORMS];
    for (int f = 0; f < p->reads.n_forms; f++) {
        bool dense = false;
        for (int v = 0; r->all >> v; v++)
            dense = dense || (!(r->channels >> v & 1) && tcc_affine_coefficient(&p->forms[f], v));
        values[f] = dense || !f ? offset : tcc_emit_mul(r->run.e, r->channel, tcc_emit_i64(r->run.e, r->steps[f]));
    }
    r->run.form_values = values;
    r->run.lanes = r->run.e->lanes;
    r->run.mask = mask;
    tcc_body_emit(&r->run, 0);
    r->run.form_values = NULL;
    r->run.mask = NULL;
}

void tcc_computed_columns(tcc_computed_run *r, tcc_emit_value column, int64_t n_columns, tcc_emit_value mask) {
    if (r->status != TCC_OK) return;
    const int64_t n_channels = r->prologue->n_channels;
    r->channel = n_columns > n_channels ? tcc_emit_rem(r->run.e, column, n_channels) : column;
    r->run.open = r->channels;
    evaluate(r, tcc_emit_i64(r->run.e, 0), mask);
}

tcc_emit_value tcc_computed_vector(tcc_computed_run *r, tcc_emit_value address, tcc_emit_value mask) {
    tcc_emitter *e = r->run.e;
    if (r->status != TCC_OK) return tcc_emit_float(e, e->vf32, 0);
    const int64_t size = tcc_dtype_bytes(first_load(r->prologue)->dtype);
    tcc_emit_value bytes = tcc_emit_isub(e, tcc_emit_ptrtoint(e, address, e->i64),
                                         tcc_emit_ptrtoint(e, r->first, e->i64));
    r->run.open = r->all | r->channels;
    evaluate(r, tcc_emit_sdiv_exact(e, bytes, tcc_emit_i64(e, size)), mask);
    tcc_emit_value result = tcc_body_lanes(&r->run, r->prologue->value);
    forget(r, r->all & ~r->channels);
    return result;
}

void tcc_computed_columns_end(tcc_computed_run *r) {
    if (r->status != TCC_OK) return;
    forget(r, r->all | r->channels);
    r->run.lanes = 1;
}

void tcc_computed_end(tcc_computed_run *r) {
    if (r->status == TCC_OK) tcc_body_run_end(&r->run);
}
