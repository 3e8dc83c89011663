/* SPDX-License-Identifier: MIT
 * Running: one step of training or one evaluation, and its results: losses, outputs and gradients. */
#include "frontend/run/model.h"

#include "ir/support/clock.h"
#include "ir/support/fp_mode.h"

#include <math.h>

/* The loss of training step m->step is on its way. */
static tcc_status fetch_loss(tcc_model *m, tcc_compiled *c) {
    if (c->loss < 0) return TCC_OK;
    TCC_TRY(m->device->ops->fetch(m->device, &m->cx->diag, c->bound[c->loss].device, c->bound[c->loss].bytes,
                                  &m->loss_tickets[m->step % TCC_FETCHES]));
    if (m->end_kept != m->step) m->first_kept = m->step; /* the count of steps was set */
    m->end_kept = m->step + 1;
    if (m->end_kept - m->first_kept > TCC_FETCHES) m->first_kept = m->end_kept - TCC_FETCHES;
    return TCC_OK;
}

static tcc_status feed_and_run(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    if (c->profiled != m->profile) {
        TCC_TRY(tcc_exec_set_profiling(c->exec, &m->cx->diag, m->profile));
        c->profiled = m->profile;
    }
    const int64_t begin = m->profile ? tcc_clock_ns() : 0;
    TCC_TRY(tcc__compiled_feed(m, c, batch));
    const int64_t fed = m->profile ? tcc_clock_ns() : 0;
    TCC_TRY(tcc_exec_run(c->exec, &m->cx->diag));
    if (m->profile) {
        const tcc_profile_run run = {
            .exec = c->exec, .step = m->step, .begin_ns = begin, .fed_ns = fed, .end_ns = tcc_clock_ns()};
        TCC_TRY(tcc__timeline_add(&m->timeline, &m->cx->diag, &run, c->train));
    }
    tcc__compiled_log_replay(m, c);
    for (int i = 0; i < c->program->n_bindings; i++) c->bound[i].old = true;
    c->ran = true;
    if (!c->train || c->part == TCC_STEP_MICRO || c->part == TCC_STEP_TOTALS)
        return TCC_OK; /* these write sums alone */
    tcc__store_written(&m->shared->store);
    tcc__store_written(&m->shared->copies);
    tcc__store_written(&m->moments);
    return tcc__states_ran(m, c);
}

tcc_status tcc__program_run(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    tcc_nvtx_push(&m->nvtx, c->program->name);
    const tcc_status status = feed_and_run(m, c, batch);
    tcc_nvtx_pop(&m->nvtx);
    return status;
}

/* Adds up what the loss needs of the whole batch: totals of one level after another. */
static tcc_status run_totals(tcc_model *m, const tcc_array *batch, int count, const tcc_compiled *first) {
    const int64_t samples = tcc__micro_samples(m, batch), all = batch[0].dims[0];
    const int levels = first->totals ? tcc__micro_levels(first->totals->program) : 0;
    for (m->micro_level = 1; m->micro_level <= levels; m->micro_level++)
        for (int64_t begin = 0; begin < all; begin += samples) {
            const tcc_array *slice = tcc__micro_cut(m, batch, count, begin);
            tcc_compiled *c;
            TCC_TRY(tcc__micro_program(m, slice, count, &c));
            if (!c->totals)
                return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                                 "batch_accumulate: micro-batches of %lld and of %lld samples need different totals",
                                 (long long)samples, (long long)slice->dims[0]);
            TCC_TRY(tcc__program_run(m, c->totals, slice));
            if (m->options.comm && begin + samples >= all)
                TCC_TRY(tcc__ranks_add_totals(m, c->totals->program, m->micro_level));
        }
    return TCC_OK;
}

/* A step in micro-batches: m->last runs the last of them, and *update the update. */
static tcc_status run_micro_batches(tcc_model *m, const tcc_array *batch, int count, tcc_compiled **update) {
    const int64_t samples = tcc__micro_samples(m, batch), all = batch[0].dims[0];
    TCC_TRY(run_totals(m, batch, count, *update));
    *update = NULL;
    for (int64_t begin = 0; begin < all; begin += samples) {
        const tcc_array *slice = tcc__micro_cut(m, batch, count, begin);
        TCC_TRY(tcc__micro_program(m, slice, count, &m->last));
        if (*update && m->last->next != *update)
            return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                             "batch_accumulate: micro-batches of %lld and of %lld samples train different parameters",
                             (long long)samples, (long long)slice->dims[0]);
        *update = m->last->next;
        TCC_TRY(tcc__program_run(m, m->last, slice));
    }
    return tcc__program_run(m, *update, NULL);
}

/* Step m->step gave a loss or gradients that are not finite, and left the model as it was. */
static tcc_status anomaly(tcc_model *m, const tcc_array *batch, int count, float loss) {
    tcc_diag *diag = &m->cx->diag;
    char *text = NULL;
    if (m->options.progress) m->options.progress(m->options.progress_user, "looking for the op that is not finite");
    const tcc_status found = m->ops ? m->ops->find_overflow(m, batch, count, &text) : TCC_OK;
    char *why = found == TCC_OK ? NULL : tcc__strdup(tcc_diag_words(diag));
    tcc_diag_begin(diag);
    tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "step %lld: %s infinite or NaN", (long long)m->step,
              isfinite(loss) ? "a gradient is" : "the loss is");
    if (text) tcc_note(diag, TCC_NOWHERE, "by the interpreter: %s", text);
    else if (found != TCC_OK) tcc_note(diag, TCC_NOWHERE, "which op it was could not be found: %s", why ? why : "");
    else tcc_note(diag, TCC_NOWHERE, "which op it was is unknown: a plan has no graph to interpret");
    tcc__free(text);
    tcc__free(why);
    return TCC_EINVAL;
}

/* Waits for the training step that c ended. */
static tcc_status check_anomaly(tcc_model *m, tcc_compiled *c, const tcc_array *batch, int count) {
    void *flag = NULL, *loss = NULL;
    for (int i = 0; i < c->program->n_bindings && !flag; i++)
        if (!strcmp(c->program->bindings[i].name, TCC_ANOMALY_OUTPUT)) TCC_TRY(tcc__bound_host(m, &c->bound[i], &flag));
    if (!flag || *(const float *)flag == 0) return TCC_OK;
    TCC_TRY(tcc__bound_host(m, &c->bound[c->loss], &loss));
    return anomaly(m, batch, count, *(const float *)loss);
}

static tcc_status find_program(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **c) {
    TCC_TRY(tcc__model_can_run(m));
    if (train && m->shared->averaged)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "the parameters are their averages now%s: call tcc_model_use_ema(model, false) before "
                         "training",
                         m->shared->averaged == m ? "" : ", those of a model that shares them");
    return tcc__model_compiled(m, train, batch, count, c);
}

static tcc_status run_program(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled *c) {
    m->last = c;
    const tcc_status status = c->part == TCC_STEP_MICRO ? run_micro_batches(m, batch, count, &c)
                                                        : tcc__program_run(m, c, batch);
    if (status != TCC_OK && train && m->options.comm) tcc__ranks_fail(m);
    if (status != TCC_OK || !train) return status;
    if (m->options.detect_anomaly) TCC_TRY(check_anomaly(m, c, batch, count));
    TCC_TRY(fetch_loss(m, c));
    m->step++;
    return TCC_OK;
}

static tcc_status run_batch(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_compiled *c;
    tcc_status status = find_program(m, train, batch, count, &c);
    if (status == TCC_OK) status = tcc__arrays_begin(m, batch, count);
    if (status != TCC_OK && train && m->options.comm) tcc__ranks_fail(m);
    if (status != TCC_OK) return status;
    status = run_program(m, train, batch, count, c);
    const tcc_status ended = tcc__arrays_end(m, batch, count);
    return status == TCC_OK ? ended : status;
}

static tcc_status run_named(tcc_model *m, bool train, const tcc_array *batch, int count) {
    if (!m->nvtx.push) return run_batch(m, train, batch, count);
    char name[40] = "evaluate";
    if (train) snprintf(name, sizeof name, "train step %lld", (long long)m->step);
    tcc_nvtx_push(&m->nvtx, name);
    const tcc_status status = run_batch(m, train, batch, count);
    tcc_nvtx_pop(&m->nvtx);
    return status;
}

static tcc_status run(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_diag_begin(&m->cx->diag);
    const tcc_fp_mode mode = tcc_fp_begin();
    const tcc_status status = run_named(m, train, batch, count);
    tcc_fp_end(mode);
    return status;
}

tcc_status tcc_model_train(tcc_model *m, const tcc_array *batch, int count) { return run(m, true, batch, count); }
tcc_status tcc_model_evaluate(tcc_model *m, const tcc_array *batch, int count) { return run(m, false, batch, count); }

_Static_assert((int)TCC_PINNED_RUNS == (int)TCC_FEEDS, "each run feeds the device once at least");

tcc_status tcc_model_pin(tcc_model *m, void *memory, size_t size_bytes) {
    tcc_diag_begin(&m->cx->diag);
    if (!m->device || !m->device->ops->pin || !size_bytes) return TCC_OK;
    return m->device->ops->pin(m->device, &m->cx->diag, memory, (int64_t)size_bytes);
}

/* -- Results -- */

/* The binding of output `name`, or -1; the names of a program's outputs are added to `known`. */
static int find_output(const tcc_program *p, const char *name, tcc_strbuf *known) {
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        if (b->role != TCC_ROLE_OUTPUT) continue;
        if (!strcmp(b->name, name)) return i;
        tcc_strbuf_printf(known, known->length ? ", %s" : "%s", b->name);
    }
    return -1;
}

/* A step in micro-batches has the update's results, as the loss, and others of the last micro-batch. */
tcc_status tcc_model_output(tcc_model *m, const char *name, tcc_array *out) {
    tcc_diag_begin(&m->cx->diag);
    if (!name) return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "output: the name is NULL");
    TCC_TRY(tcc__model_can_run(m));
    if (!m->last) return tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE, "output \"%s\": nothing ran yet", name);
    tcc_compiled *const programs[] = {m->last->next, m->last};
    tcc_strbuf known = {0};
    for (int k = 0; k < 2; k++) {
        const int i = programs[k] ? find_output(programs[k]->program, name, &known) : -1;
        if (i < 0) continue;
        const tcc_binding *b = &programs[k]->program->bindings[i];
        tcc_strbuf_free(&known);
        if (programs[k]->bound[i].placed.data) {
            *out = programs[k]->bound[i].placed;
            return TCC_OK;
        }
        *out = (tcc_array){.name = b->name, .dtype = b->type.dtype, .rank = b->type.rank};
        memcpy(out->dims, b->type.dims, sizeof out->dims);
        return tcc__bound_host(m, &programs[k]->bound[i], &out->data);
    }
    tcc_status status = tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE,
                                  "no output \"%s\" in the %s program; it has: %s", name,
                                  m->last->train ? "training" : "evaluation", known.length ? known.text : "none");
    tcc_strbuf_free(&known);
    return status;
}

tcc_status tcc__host_output(tcc_model *m, const char *name, tcc_array *out) {
    TCC_TRY(tcc_model_output(m, name, out));
    if (out->memory == TCC_MEMORY_HOST) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "output \"%s\" is placed on the device, and is read on the host here: give it back to the model "
                     "before (tcc_model_place_output with data NULL)",
                     name);
}

static void read_statistic(const tcc_binding *b, const float *x, tcc_statistic *out) {
    const size_t prefix = sizeof TCC_PARAMETER_STATISTICS_PREFIX - 1;
    if (!strncmp(b->name, TCC_PARAMETER_STATISTICS_PREFIX, prefix))
        *out = (tcc_statistic){.name = b->name + prefix,
                               .gradient_norm = x[TCC_GRADIENT_NORM],
                               .gradient_largest = x[TCC_GRADIENT_LARGEST],
                               .gradient_zeros = x[TCC_GRADIENT_ZEROS],
                               .weight_norm = x[TCC_WEIGHT_NORM],
                               .update_norm = x[TCC_UPDATE_NORM]};
    else
        *out = (tcc_statistic){.name = b->name + sizeof TCC_MODULE_STATISTICS_PREFIX - 1,
                               .of_module = true,
                               .mean = x[TCC_MODULE_MEAN],
                               .std = x[TCC_MODULE_STD],
                               .largest = x[TCC_MODULE_LARGEST]};
}

static bool is_statistic(const tcc_binding *b) {
    const tcc_type parameter = {TCC_F32, 1, {TCC_PARAMETER_STATISTICS}}, module = {TCC_F32, 1, {TCC_MODULE_STATISTICS}};
    if (b->role != TCC_ROLE_OUTPUT) return false;
    if (!strncmp(b->name, TCC_PARAMETER_STATISTICS_PREFIX, sizeof TCC_PARAMETER_STATISTICS_PREFIX - 1))
        return tcc_type_equal(&b->type, &parameter);
    return !strncmp(b->name, TCC_MODULE_STATISTICS_PREFIX, sizeof TCC_MODULE_STATISTICS_PREFIX - 1) &&
           tcc_type_equal(&b->type, &module);
}

tcc_status tcc_model_statistic(tcc_model *m, int index, tcc_statistic *out) {
    tcc_diag_begin(&m->cx->diag);
    int left = index;
    void *data;
    if (!m->options.statistics)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "statistics: create the model with options.statistics");
    tcc_compiled *const programs[] = {m->last, m->last ? m->last->next : NULL};
    for (int k = 0; k < 2 && m->last && m->last->train && m->last->ran; k++)
        for (int i = 0; programs[k] && i < programs[k]->program->n_bindings; i++) {
            const tcc_binding *b = &programs[k]->program->bindings[i];
            if (!is_statistic(b) || left--) continue;
            TCC_TRY(tcc__bound_host(m, &programs[k]->bound[i], &data));
            read_statistic(b, data, out);
            return TCC_OK;
        }
    return tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE, "there is no statistic %d: %s", index,
                     m->last && m->last->train && m->last->ran ? "there are fewer"
                                                               : "the last run was no training step");
}

tcc_status tcc_model_step_loss(tcc_model *m, int64_t step, double *loss) {
    tcc_diag_begin(&m->cx->diag);
    float value;
    *loss = NAN;
    if (step < m->first_kept || step >= m->end_kept)
        return tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE,
                         "the loss of step %lld is not among those kept, %lld to %lld", (long long)step,
                         (long long)m->first_kept, (long long)m->end_kept - 1);
    const tcc_status status = m->device->ops->collect(m->device, &m->cx->diag, m->loss_tickets[step % TCC_FETCHES],
                                                      &value, sizeof value);
    if (status == TCC_ENOTFOUND)
        tcc_note(&m->cx->diag, TCC_NOWHERE, "step %lld is not among the last %d of all models that share with this one",
                 (long long)step, TCC_FETCHES);
    TCC_TRY(tcc__ranks_check(m, status));
    *loss = value;
    return TCC_OK;
}

double tcc_model_loss(tcc_model *m) {
    tcc_diag_begin(&m->cx->diag);
    double loss = NAN;
    void *memory = NULL;
    if (!m->last || !m->last->ran) return NAN;
    tcc_compiled *c = m->last->next ? m->last->next : m->last;
    if (c->loss < 0) return NAN;
    if (m->last->train && m->end_kept == m->step) {
        const tcc_status status = tcc_model_step_loss(m, m->step - 1, &loss);
        if (status != TCC_ENOTFOUND) return status == TCC_OK ? loss : NAN;
        tcc_diag_begin(&m->cx->diag); /* others that share the device have made steps since; the program has it */
    }
    return tcc__bound_host(m, &c->bound[c->loss], &memory) == TCC_OK ? *(const float *)memory : NAN;
}

tcc_status tcc_model_synchronize(tcc_model *m) {
    tcc_diag_begin(&m->cx->diag);
    if (!m->device || m->options.compile_only) return TCC_OK;
    TCC_TRY(tcc__ranks_check(m, m->device->ops->synchronize(m->device, &m->cx->diag)));
    TCC_TRY(tcc__store_download(m, &m->shared->store));
    TCC_TRY(tcc__store_download(m, &m->shared->copies));
    return tcc__store_download(m, &m->moments);
}

tcc_status tcc_model_gradient(tcc_model *m, const char *name, tcc_array *out) {
    tcc_diag_begin(&m->cx->diag);
    if (!name) return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "gradient: the name is NULL");
    const bool parameter = tcc__model_uses(m, tcc_store_find(&m->shared->store, name));
    if (!(parameter ? m->options.keep_gradients : m->options.keep_input_gradients))
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "gradient of \"%s\": create the model with %s", name,
                         parameter                   ? "keep_gradients"
                         : m->options.keep_gradients ? "keep_input_gradients, or give a parameter's name"
                                                     : "keep_gradients, or, for an input, keep_input_gradients");
    char output[512];
    snprintf(output, sizeof output, "grad.%s", name);
    return tcc_model_output(m, output, out);
}
