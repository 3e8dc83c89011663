/* SPDX-License-Identifier: MIT
 * The reference of a verification: which graph the interpreter runs. */
#include "frontend/verify/verify.h"

tcc_status tcc__verify_reference(tcc_verification *v) {
    TCC_TRY(v->micro ? tcc__traced_graph(v->m, v->part, v->batch, &v->reference)
                     : tcc__model_trace(v->m, true, v->batch, v->count, &v->reference));
    TCC_TRY(tcc_store_fill(&v->m->shared->store, &v->m->cx->diag));
    const bool totals = v->micro && v->part->part == TCC_STEP_TOTALS; /* of which nobody takes gradients */
    tcc_pass_options options = {.train = true, .amp = v->m->options.mixed_precision ? &v->m->compiler->amp : NULL};
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
