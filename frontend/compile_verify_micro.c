/* SPDX-License-Identifier: MIT
 * Verification of a step that is taken in micro-batches. The step in one piece was verified before: what gradients are.
 * Here a twin runs the programs that training runs, one by one. Before each runs, its kernels are compared with the
 * interpreter on the parameters, sums and samples that it then reads; what it has written must have the same bits. The
 * first micro-batch begins the sums, the second adds to them, a smaller rest has a program of its own, and those
 * between differ from the second in values alone. */
#include "compile_verify.h"

/* Runs a program of the twin; `looks`: and compares it. */
static tcc_status run_program(tcc_verification *v, tcc_compiled *c, const tcc_array *slice, bool looks,
                              tcc_blame *out) {
    float hyper[TCC_HYPER_MOST];
    int64_t rng[2] = {(int64_t)v->m->random_seed, v->m->step};
    tcc_verified p = {0};
    if (!looks) return tcc__program_run(v->twin, c, slice);
    TCC_TRY(tcc__states_derive(v->twin, c));
    TCC_TRY(tcc_model_synchronize(v->twin));
    tcc__model_hyper(v->twin, hyper);
    if (slice) {
        tcc__micro_feed(v->twin, c);
        memcpy(hyper, c->hyper_values, sizeof hyper);
        rng[1] = c->rng_values[1];
    }
    v->batch = slice;
    tcc_status status = tcc__verify_program(v, c, hyper, rng, &p, out);
    if (status == TCC_OK) status = tcc__program_run(v->twin, c, slice);
    if (status == TCC_OK && !out->text.length) status = tcc__verify_bits(v, &p, out);
    tcc__verified_clear(&p);
    return status;
}

static tcc_status run_step(tcc_verification *v, const tcc_array *batch, tcc_blame *out) {
    enum { COMPARED = 2 };
    tcc_model *m = v->twin;
    const int64_t samples = tcc__micro_samples(m, batch), all = batch[0].dims[0];
    for (int64_t begin = 0; begin < all && !out->text.length; begin += samples) {
        const tcc_array *slice = tcc__micro_cut(m, batch, v->count, begin);
        TCC_TRY(tcc__micro_program(m, slice, v->count, &m->last));
        TCC_TRY(run_program(v, m->last, slice, m->micro < COMPARED || slice[0].dims[0] < samples, out));
    }
    return out->text.length ? TCC_OK : run_program(v, m->last->next, NULL, true, out);
}

tcc_status tcc__verify_micro(tcc_verification *v, tcc_blame *out) {
    const tcc_array *batch = v->batch;
    tcc__verify_say(v, "comparing the kernels of the step in micro-batches");
    tcc_model_destroy(v->twin);
    v->twin = NULL;
    TCC_TRY(tcc__verify_make_twin(v, v->m->options.batch_accumulate, &v->twin));
    tcc_verification step = *v; /* whose state is that of the twin as it goes on */
    step.m = step.twin;
    const tcc_status status = run_step(&step, batch, out);
    v->groups = step.groups;
    v->worst_kernel = step.worst_kernel;
    memcpy(v->worst_kernel_name, step.worst_kernel_name, sizeof v->worst_kernel_name);
    return status;
}
