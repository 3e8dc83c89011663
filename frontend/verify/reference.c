/* SPDX-License-Identifier: MIT
 * The reference of a verification: which graph the interpreter runs, and on how much of the batch. */
#include "frontend/verify/verify.h"

/* What the interpreter gets through in about half a minute on two cores: operations on elements. For loss and gradients
 * a batch with more is cut to a slice. */
static const double most_work = 5e9;

/* -- How much of the batch -- */

static bool is_contraction(const tcc_node *n) { return tcc_op_get_info(n->op)->fusion == TCC_FUSION_CONTRACT; }

/* Products of a contraction: of dot, and of convolutions forward, which are all that a traced graph has. */
static double products(const tcc_node *n) {
    const tcc_type *w = &n->operands[1]->type;
    double each = 1;
    if (n->op == TCC_OP_DOT)
        for (int i = 0; i < n->attrs->dot.contract_b.count; i++) each *= (double)w->dims[n->attrs->dot.contract_b.v[i]];
    else each = (double)tcc_type_numel(w) / (double)w->dims[0];
    return each * (double)tcc_type_numel(&n->type);
}

/* Of the traced graph: a training step does three times its products, and some dozen operations an element. */
static double work_of(const tcc_graph *g) {
    double work = 0;
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        work += is_contraction(n) ? 3 * products(n) : 12 * (double)tcc_type_numel(&n->type);
    }
    return work;
}

/* Samples of a batch: the first extent, where all arrays have the same; 0: it cannot be cut. */
static int64_t samples_of(const tcc_array *batch, int count) {
    for (int i = 0; i < count; i++)
        if (!batch[i].rank || batch[i].dims[0] != batch[0].dims[0]) return 0;
    return count ? batch[0].dims[0] : 0;
}

static tcc_status work_of_slice(tcc_verification *v, tcc_array *slice, int64_t samples, double *work) {
    tcc_graph *g;
    for (int i = 0; i < v->count; i++) slice[i].dims[0] = samples;
    TCC_TRY(tcc__model_trace(v->m, true, slice, v->count, &g));
    *work = work_of(g);
    tcc_graph_destroy(g);
    return TCC_OK;
}

tcc_status tcc__verify_cut(tcc_verification *v, tcc_array *slice, int64_t *samples) {
    const int64_t all = samples_of(v->batch, v->count), asked = v->m->options.verify_samples;
    int64_t next = asked > 0 && asked < all ? asked : all;
    double work = 0;
    if (v->count) memcpy(slice, v->batch, sizeof *slice * (size_t)v->count);
    *samples = all;
    if (!all) return TCC_OK;
    do {
        const tcc_status status = work_of_slice(v, slice, next, &work);
        if (status != TCC_OK && next == all) return status;
        if (status != TCC_OK) { /* what it says of the slice is not what is wrong */
            tcc_diag_begin(&v->m->cx->diag);
            for (int i = 0; i < v->count; i++) slice[i].dims[0] = all;
            *samples = all;
            return TCC_OK;
        }
        *samples = next;
        next /= 2;
    } while (asked <= 0 && work > most_work && next >= 2);
    return TCC_OK;
}

/* -- The graph -- */

tcc_status tcc__verify_reference(tcc_verification *v) {
    TCC_TRY(v->micro ? tcc__traced_graph(v->m, v->part, v->batch, &v->reference)
                     : tcc__model_trace(v->m, true, v->batch, v->count, &v->reference));
    TCC_TRY(tcc_store_fill(&v->m->shared->store, &v->m->cx->diag));
    const bool totals = v->micro && v->part->part == TCC_STEP_TOTALS; /* of which nobody takes gradients */
    tcc_pass_options options = {.train = true, .amp = v->m->options.mixed_precision ? &v->m->making->amp : NULL};
    tcc_arena memory = {0};
    tcc_grouping grouping;
    tcc_status status = tcc__model_group(v->m, v->reference, &memory, &grouping);
    options.spec.loss_scale = v->m->options.loss_scale;
    options.spec.part = v->micro ? TCC_STEP_MICRO : TCC_STEP_WHOLE; /* whose gradients keep the loss's scale */
    options.spec.frozen = grouping.frozen;
    options.spec.input_gradients = v->m->options.keep_input_gradients;
    tcc_pass_cx cx = {.cx = v->m->cx, .diag = &v->m->cx->diag, .options = &options};
    const char *passes = totals ? "amp" : options.amp ? "amp,autodiff" : "autodiff";
    if (status == TCC_OK && (options.amp || !totals))
        status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, passes, &v->reference, NULL);
    tcc_arena_free(&memory);
    return status;
}
