/* SPDX-License-Identifier: MIT
 * The model that a verification runs beside the user's. */
#include "frontend/verify/verify.h"

static void copy_store(const tcc_store *from, tcc_store *to) {
    for (int i = 0; i < from->entries.count; i++) {
        const tcc_stored *p = &from->entries.data[i];
        const int index = tcc_store_find(to, p->name);
        if (index < 0) continue;
        memcpy(to->entries.data[index].data, p->data, (size_t)tcc_type_bytes(&p->type));
        to->entries.data[index].host_newer = true;
    }
}

tcc_status tcc__verify_make_twin(const tcc_verification *v, int batch_accumulate, bool gradients, tcc_model **out) {
    tcc_model_options options = v->m->options;
    options.optimizer = &v->m->optimizer;
    options.keep_gradients |= gradients;
    options.detect_anomaly = false; /* it would end the step; what is not finite is compared as well */
    options.statistics = false;     /* nobody reads them there */
    options.batch_accumulate = batch_accumulate;
    options.dump_dir = options.lock = NULL;
    TCC_TRY(tcc_model_create(v->m->cx, v->m->compiler->fn, v->m->compiler->user, &options, out));
    tcc_model *twin = *out;
    twin->compiler->fresh = true;        /* its graph is looked at */
    twin->options.verify_passes = false; /* what that would find shows here, with a graph to reproduce it */
    TCC_TRY(tcc_model_compile(twin, true, v->batch, v->count));
    copy_store(&v->m->shared->store, &twin->shared->store);
    copy_store(&v->m->moments, &twin->moments);
    twin->step = v->m->step;
    twin->lr = v->m->lr;
    twin->momentum = v->m->momentum;
    return tcc_exec_poison(twin->last->exec, &v->m->cx->diag);
}
