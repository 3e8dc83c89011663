/* SPDX-License-Identifier: MIT
 * Users' programs in all modes against the reference. */
#include "harness/user_check.h"

#include "frontend/compile/compile.h"
#include "harness/budget.h"
#include "harness/user_reference.h"
#include "runtime/cpu/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FEW_RUNS = 2, MANY_RUNS = 30 };

const char *user_mode_name(unsigned mode) {
    return mode & USER_BUDGET        ? "budget"
           : mode == USER_EAGER      ? "eager"
           : mode == USER_DEFAULT    ? "default"
           : mode == USER_THREADS    ? "threads"
           : mode == USER_EVALUATE   ? "evaluate"
           : mode == USER_GPU        ? "gpu"
           : mode == USER_GPU_EAGER  ? "gpu eager"
           : mode == USER_GPU_REPLAY ? "gpu replay"
                                     : "none";
}

/* -- One model -- */

tcc_model_options user_program_options(const user_program *p, unsigned mode) {
    return (tcc_model_options){
        .size = sizeof(tcc_model_options),
        .device = mode & (USER_GPU | USER_GPU_EAGER | USER_GPU_REPLAY) ? "cuda" : "cpu",
        .mode = mode & (USER_EAGER | USER_GPU_EAGER) ? TCC_MODE_EAGER
                : mode & USER_GPU_REPLAY             ? TCC_MODE_REDUCE_OVERHEAD
                                                     : TCC_MODE_DEFAULT,
        .seed = p->seed,
        .optimizer = &p->optimizer,
        .keep_gradients = p->keep_gradients,
        .mixed_precision = p->precision,
        .verify_passes = true,
    };
}

tcc_model *user_program_model_with(tcc_context *cx, const user_program *p, const tcc_model_options *options) {
    const tcc_model_fn fn = p->model ? p->model : user_program_trace;
    tcc_model *m;
    return tcc_model_create(cx, fn, (void *)(uintptr_t)p, options, &m) == TCC_OK ? m : NULL;
}

tcc_model *user_program_model(tcc_context *cx, const user_program *p, unsigned mode) {
    const tcc_model_options o = user_program_options(p, mode);
    return user_program_model_with(cx, p, &o);
}

/* Where a model keeps what the reference expects; false: it does not keep that. */
static bool observe(tcc_model *m, const user_expected *e, tcc_array *out) {
    if (e->when != USER_TRAIN_STEPS) {
        if (tcc_model_output(m, e->name, out) == TCC_OK) return true;
        tcc_context_clear_error(m->cx);
        return false;
    }
    if (tcc_model_find_param(m, e->name, out)) return true;
    for (int i = 0; tcc_model_optimizer_state(m, i, out); i++)
        if (!strcmp(out->name, e->name)) return true;
    return false;
}

/* Steps of a model, each compared with what is expected of it. Returns what is wrong, or NULL. */
typedef const char *follow(void *user, tcc_model *m, int when);

static const char *train(tcc_model *m, const user_program *p, bool evaluate, follow *each, void *user) {
    const char *wrong = NULL;
    tcc_array batch[USER_INPUTS];
    for (int when = 0; when <= USER_TRAIN_STEPS + evaluate && !wrong; when++) {
        user_batch_make(p, when > USER_TRAIN_STEPS ? USER_TRAIN_STEPS : when, batch);
        tcc_status status = when < USER_TRAIN_STEPS    ? tcc_model_train(m, batch, p->n_inputs)
                            : when == USER_TRAIN_STEPS ? tcc_model_synchronize(m)
                                                       : tcc_model_evaluate(m, batch, p->n_inputs);
        wrong = status == TCC_OK ? each(user, m, when) : tcc_context_error(m->cx);
        user_batch_free(p, batch);
    }
    return wrong;
}

typedef struct comparison {
    user_reference *reference;
    double worst;
} comparison;

static const char *compare_one(comparison *c, const user_expected *e, tcc_model *m) {
    static char text[512];
    tcc_array got;
    if (!observe(m, e, &got)) {
        if (!strncmp(e->name, "grad", 4)) return NULL;
        const char *why = tcc_model_synchronize(m) == TCC_OK ? "" : tcc_context_error(m->cx); /* a late error */
        snprintf(text, sizeof text, "step %d: %s is missing: %s", e->when, e->name, why);
        return text;
    }
    const char *wrong = user_reference_compare(e, got.data, &c->worst);
    while (wrong && c->reference->runs < MANY_RUNS) { /* perhaps the noise is larger than few runs showed */
        if (user_reference_disturb(c->reference, c->reference->runs + 4) != TCC_OK) break;
        wrong = user_reference_compare(e, got.data, &c->worst);
    }
    if (!wrong) return NULL;
    snprintf(text, sizeof text, "step %d: %s", e->when, wrong);
    return text;
}

static const char *compare_step(void *user, tcc_model *m, int when) {
    comparison *c = user;
    const char *wrong = NULL;
    for (int i = 0; i < c->reference->count && !wrong; i++)
        if (c->reference->list[i].when == when) wrong = compare_one(c, &c->reference->list[i], m);
    return wrong;
}

/* -- Threads: the compiled program again, by more of them -- */

static tcc_status use_threads(tcc_model *m, int threads) {
    tcc_diag *diag = &m->cx->diag;
    tcc_compiled *c = m->programs.data[0];
    tcc_exec_destroy(c->exec);
    tcc_device_destroy(m->device);
    m->device = NULL;
    c->exec = NULL;
    TCC_TRY(tcc_device_cpu_create(m->cx, threads, &m->device));
    TCC_TRY(tcc_exec_create(m->cx, m->device, c->program, &c->exec));
    for (int i = 0; i < c->program->n_bindings; i++) {
        const tcc_binding *b = &c->program->bindings[i];
        void *memory = c->bound[i].device;
        if (b->role == TCC_ROLE_BATCH) continue;
        if (b->role == TCC_ROLE_PARAM || b->role == TCC_ROLE_STATE) memory = tcc__model_stored(m, b->name)->data;
        TCC_TRY(tcc_exec_bind(c->exec, diag, i, memory, tcc_type_bytes(&b->type)));
    }
    return TCC_OK;
}

int user_model_states(const tcc_model *m) {
    return m->shared->store.entries.count + m->shared->copies.entries.count + m->moments.entries.count;
}

void user_model_copy_state(tcc_model *m, float **copies, bool back) {
    tcc_store *stores[] = {&m->shared->store, &m->shared->copies, &m->moments};
    for (int s = 0, at = 0; s < 3; s++)
        for (int i = 0; i < stores[s]->entries.count; i++, at++) {
            tcc_stored *p = &stores[s]->entries.data[i];
            const size_t bytes = (size_t)tcc_type_bytes(&p->type);
            if (back) memcpy(p->data, copies[at], bytes);
            else memcpy(copies[at] = malloc(bytes), p->data, bytes);
        }
}

typedef struct record {
    tcc_strbuf bytes; /* of all observed values, one after another */
    size_t at;
    bool second;
    const user_reference *reference;
} record;

static const char *record_step(void *user, tcc_model *m, int when) {
    record *r = user;
    static char text[128];
    for (int i = 0; i < r->reference->count; i++) {
        const user_expected *e = &r->reference->list[i];
        tcc_array got;
        if (e->when != when || !observe(m, e, &got)) continue;
        const size_t bytes = (size_t)tcc_type_bytes(&e->v.value.type);
        if (!r->second) tcc_strbuf_addn(&r->bytes, got.data, bytes);
        else if (memcmp(r->bytes.text + r->at, got.data, bytes)) {
            snprintf(text, sizeof text, "step %d: %s: other bits", when, e->name);
            return text;
        }
        r->at += bytes;
    }
    return NULL;
}

/* One thread's results are those of two and three. The model is then in its initial state again. */
static const char *check_threads(tcc_model *m, const user_program *p, const user_reference *reference) {
    const int count = user_model_states(m);
    float **initial = calloc((size_t)count + 1, sizeof *initial);
    record r = {.reference = reference};
    const char *wrong = NULL;
    user_model_copy_state(m, initial, false);
    for (int threads = 1; threads <= 3 && !wrong; threads++) {
        if (threads > 1 && use_threads(m, threads) != TCC_OK) wrong = tcc_context_error(m->cx);
        r.at = 0;
        r.second = threads > 1;
        if (!wrong) wrong = train(m, p, false, record_step, &r);
        user_model_copy_state(m, initial, true);
        tcc_model_set_step(m, 0);
    }
    for (int i = 0; i < count; i++) free(initial[i]);
    free(initial);
    tcc_strbuf_free(&r.bytes);
    return wrong;
}

/* -- All modes -- */

static void fail(user_verdict *out, unsigned mode, const char *text) {
    out->mode = mode;
    snprintf(out->text, sizeof out->text, "%s", text && *text ? text : "failed without a word");
}

static tcc_status compile_first(tcc_model *m, const user_program *p) {
    tcc_array batch[USER_INPUTS];
    user_batch_make(p, 0, batch);
    tcc_status status = tcc_model_compile(m, true, batch, p->n_inputs);
    user_batch_free(p, batch);
    return status;
}

static void check_mode(tcc_context *cx, const user_program *p, unsigned modes, unsigned mode, comparison *c,
                       user_verdict *out) {
    tcc_model *m = user_program_model(cx, p, mode);
    const char *wrong = NULL;
    unsigned failed = mode;
    if (!m || compile_first(m, p) != TCC_OK) wrong = tcc_context_error(cx);
    if (!wrong && mode == USER_DEFAULT && modes & USER_THREADS) {
        wrong = check_threads(m, p, c->reference);
        if (wrong) failed = USER_THREADS;
    }
    const bool evaluate = mode == USER_DEFAULT && modes & USER_EVALUATE;
    if (!wrong) wrong = train(m, p, evaluate, compare_step, c);
    if (wrong) fail(out, failed, wrong);
    tcc_context_clear_error(cx);
    tcc_model_destroy(m);
}

static void check_budget(const user_program *p, unsigned mode, user_verdict *out) {
    budget_result r;
    char text[768];
    budget_check_own(p, mode, &r);
    out->again += r.again;
    if (!r.wrong[0]) return;
    snprintf(text, sizeof text, "%s, %s: %s", user_mode_name(mode), p->segment_steps ? "segments" : p->memory_budget,
             r.wrong);
    fail(out, mode | USER_BUDGET, text);
}

void user_program_check(const user_program *p, unsigned modes, user_verdict *out) {
    user_program_compare(p, p, modes, out);
}

void user_program_compare(const user_program *p, const user_program *reference, unsigned modes, user_verdict *out) {
    tcc_context *cx;
    *out = (user_verdict){0};
    if (tcc_context_create(&cx) != TCC_OK) {
        fail(out, modes, "no context");
        return;
    }
    tcc_model *m = user_program_model(cx, reference, USER_DEFAULT);
    comparison c = {.reference = m ? user_reference_create(m, reference, modes & USER_EVALUATE) : NULL};
    if (c.reference) c.reference->gpu = modes & (USER_GPU | USER_GPU_EAGER | USER_GPU_REPLAY);
    if (!c.reference || user_reference_disturb(c.reference, FEW_RUNS) != TCC_OK)
        fail(out, USER_DEFAULT, tcc_context_error(cx));
    const unsigned order[] = {USER_DEFAULT, USER_EAGER, USER_GPU, USER_GPU_EAGER, USER_GPU_REPLAY};
    const bool budget = modes & USER_BUDGET && (p->memory_budget || p->segment_steps);
    for (int i = 0; i < 5 && !out->mode; i++)
        if (modes & order[i]) check_mode(cx, p, modes, order[i], &c, out);
    for (int i = 0; i < 4 && !out->mode && budget; i++)
        if (modes & order[i]) check_budget(p, order[i], out);
    out->worst = c.worst;
    if (c.reference) out->vague = user_reference_vagueness(c.reference);
    user_reference_destroy(c.reference);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}
