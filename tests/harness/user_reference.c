/* SPDX-License-Identifier: MIT
 * Expected values of a user's program, and their noise. */
#include "harness/user_reference.h"
#include "harness/evaluate.h"

#include "frontend/compile/compile.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What an error may be, in units of the noise: that of the element or the root mean square over the array, whichever is
 * larger. The noise comes from few runs, and sums of a million terms round more often than one unit says. */
#define ALLOWED 18

enum { DRAWS = 2 }; /* side by side: more would need more memory */

/* -- Graphs -- */

static tcc_graph *make_graph(tcc_model *m, const user_program *p, bool train) {
    tcc_array batch[USER_INPUTS];
    tcc_graph *g = NULL;
    user_batch_make(p, 0, batch);
    tcc_status status = tcc__model_trace(m, train, batch, p->n_inputs, &g);
    user_batch_free(p, batch);
    if (status != TCC_OK) return NULL;
    tcc_arena memory = {0};
    tcc_grouping grouping;
    if (tcc__model_group(m, g, &memory, &grouping) != TCC_OK) abort();
    tcc_pass_options options = tcc__model_pass_options(m, train, &grouping);
    options.spec.keep_gradients = true;
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    const char *passes = !options.amp ? train ? "autodiff,train-step,decompose" : "decompose"
                         : train      ? "amp,autodiff,train-step,low-copies,decompose"
                                      : "amp,low-copies,decompose";
    status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, passes, &g, NULL);
    tcc_arena_free(&memory);
    if (status == TCC_OK) return g;
    tcc_graph_destroy(g);
    return NULL;
}

static const void *stored_memory(tcc_model *m, const char *name) {
    tcc_array a;
    return tcc_model_find_param(m, name, &a) ? a.data : NULL; /* states that passes add begin as they say */
}

/* What state `n` of g begins with; `values` has those of inputs above. */
static void begin_state(const tcc_graph *g, const tcc_node *n, const tcc_value *values, tcc_value *out) {
    const int64_t count = tcc_type_numel(&n->type);
    const tcc_value *of = NULL;
    for (int i = 0; i < g->inputs.count && tcc_input_is_copy(n); i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, n->attrs->input.copy_of)) of = &values[i];
    for (int64_t e = 0; e < count; e++) {
        const double x = of ? tcc_dtype_round(n->type.dtype, of->f[e]) : n->attrs->input.begin;
        if (tcc_dtype_is_float(n->type.dtype)) out->f[e] = x;
        else out->i[e] = (int64_t)x;
    }
}

static bool is_stored(const tcc_node *input) {
    return input->attrs->input.role == TCC_ROLE_PARAM || input->attrs->input.role == TCC_ROLE_STATE;
}

static tcc_status copy(const tcc_value *from, tcc_value *to) {
    tcc_status status = tcc_value_create(&from->type, to, NULL);
    if (status == TCC_OK) memcpy(to->f, from->f, (size_t)tcc_type_numel(&from->type) * sizeof *from->f);
    return status;
}

/* What the training graph stores under this name; NULL: nothing. */
static const tcc_drawn *find_state(const user_reference *r, const tcc_drawn *state, const char *name) {
    for (int i = 0; i < r->train->inputs.count; i++)
        if (!strcmp(r->train->inputs.data[i]->attrs->input.name, name)) return &state[i];
    return NULL;
}

static void round_to(const tcc_type *type, const tcc_value *from, tcc_value *to) {
    if (tcc_value_create(type, to, NULL) != TCC_OK) abort();
    for (int64_t e = 0; e < tcc_type_numel(type); e++) to->f[e] = tcc_dtype_round(type->dtype, from->f[e]);
}

/* A copy that the training graph does not have is made of what it stores. */
static void derive(const tcc_node *n, const tcc_drawn *of, tcc_drawn *out) {
    if (!of) abort();
    round_to(&n->type, &of->exact, &out->exact);
    out->draws = of->draws ? tcc__calloc(DRAWS, sizeof *out->draws) : NULL;
    if (of->draws && !out->draws) abort();
    for (int d = 0; of->draws && d < DRAWS; d++) round_to(&n->type, &of->draws[d], &out->draws[d]);
}

/* Values for the inputs of g. `state` has those of the training graph that are stored, by name; they are borrowed, for
 * of the largest programs they fill much of the memory. */
static tcc_drawn *make_inputs(const user_reference *r, const tcc_graph *g, const tcc_drawn *state, int step) {
    tcc_drawn *values = calloc((size_t)g->inputs.count + 1, sizeof *values);
    tcc_array batch[USER_INPUTS];
    float hyper[TCC_HYPER_MOST];
    int64_t rng[2] = {(int64_t)r->model->options.seed, step};
    tcc__model_hyper(r->model, hyper);
    user_batch_make(r->p, step, batch);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        const char *name = n->attrs->input.name;
        tcc_value *v = &values[i].exact;
        const tcc_drawn *stored = is_stored(n) ? find_state(r, state, name) : NULL;
        if (stored) values[i] = *stored;
        else if (tcc_input_is_copy(n)) derive(n, find_state(r, state, n->attrs->input.copy_of), &values[i]);
        if (is_stored(n)) continue;
        if (tcc_value_create(&n->type, v, NULL) != TCC_OK) abort();
        if (n->attrs->input.role == TCC_ROLE_HYPER) tcc_value_load(v, hyper);
        if (n->attrs->input.role == TCC_ROLE_RNG) tcc_value_load(v, rng);
        for (int k = 0; k < r->p->n_inputs && n->attrs->input.role == TCC_ROLE_BATCH; k++)
            if (!strcmp(batch[k].name, name)) tcc_value_load(v, batch[k].data);
    }
    user_batch_free(r->p, batch);
    return values;
}

static void free_all(tcc_drawn *values, int count) {
    for (int i = 0; values && i < count; i++) tcc_drawn_free(&(tcc_noise){.draws = DRAWS}, &values[i]);
    free(values);
}

/* -- What was seen -- */

static user_expected *find(user_reference *r, const char *name, int when) {
    for (int i = 0; i < r->count; i++)
        if (r->list[i].when == when && !strcmp(r->list[i].name, name)) return &r->list[i];
    return NULL;
}

static user_expected *add_expected(user_reference *r, const char *name, int when, const tcc_value *v) {
    r->list = realloc(r->list, (size_t)(r->count + 1) * sizeof *r->list);
    user_expected *e = &r->list[r->count++];
    *e = (user_expected){.when = when};
    snprintf(e->name, sizeof e->name, "%s", name);
    e->v.noise = tcc__calloc((size_t)tcc_type_numel(&v->type) + 1, sizeof *e->v.noise);
    if (!e->v.noise || copy(v, &e->v.value) != TCC_OK) abort();
    return e;
}

static void see(user_reference *r, const char *name, int when, const tcc_drawn *v) {
    user_expected *e = find(r, name, when);
    if (!e) e = add_expected(r, name, when, &v->exact);
    tcc_drawn_measure(&(tcc_noise){.draws = DRAWS}, v, e->v.noise);
}

/* -- Runs -- */

/* What memory of the type holds of it. */
static void store(const tcc_value *from, tcc_value *to) {
    void *packed = malloc((size_t)tcc_type_bytes(&from->type) + 1);
    value_store(from, packed);
    tcc_value_load(to, packed);
    free(packed);
}

/* Moves it there. */
static void store_drawn(tcc_drawn *from, tcc_drawn *to) {
    tcc_drawn_free(&(tcc_noise){.draws = DRAWS}, to);
    *to = *from;
    *from = (tcc_drawn){0};
    store(&to->exact, &to->exact);
    for (int d = 0; to->draws && d < DRAWS; d++) store(&to->draws[d], &to->draws[d]);
}

static tcc_status run_once(user_reference *r, const tcc_graph *g, tcc_drawn *state, int when) {
    const bool train = g == r->train;
    const tcc_noise noise = {
        .seed = (uint64_t)when + 1, .draws = DRAWS, .first = r->runs, .factor = 1, .one_chain = r->gpu};
    tcc_drawn *inputs = make_inputs(r, g, state, when == USER_TRAIN_STEPS + 1 ? USER_TRAIN_STEPS : when);
    tcc_drawn *outputs = calloc((size_t)g->outputs.count + 1, sizeof *outputs);
    tcc_status status = tcc_graph_eval_draws(g, inputs, &noise, outputs, &r->model->cx->diag);
    for (int i = 0; i < g->inputs.count; i++)
        if (find_state(r, state, g->inputs.data[i]->attrs->input.name) && is_stored(g->inputs.data[i]))
            inputs[i] = (tcc_drawn){0};
    free_all(inputs, g->inputs.count);
    for (int i = 0; i < g->outputs.count && status == TCC_OK; i++) {
        const tcc_output *o = &g->outputs.data[i];
        if (o->alias < 0) see(r, o->name, when, &outputs[i]);
        else if (train) store_drawn(&outputs[i], &state[o->alias]);
        const bool shown = o->alias >= 0 && !tcc_input_is_copy(g->inputs.data[o->alias]);
        if (shown && when == USER_TRAIN_STEPS - 1) see(r, o->name, USER_TRAIN_STEPS, &state[o->alias]);
    }
    free_all(outputs, g->outputs.count);
    return status;
}

/* All steps, from the initial state. */
static tcc_status run_all(user_reference *r) {
    const int count = r->train->inputs.count;
    tcc_drawn *state = calloc((size_t)count + 1, sizeof *state);
    tcc_status status = TCC_OK;
    for (int i = 0; i < count; i++) {
        tcc_value *v = &state[i].exact;
        if (tcc_value_create(&r->train->inputs.data[i]->type, v, NULL) != TCC_OK) abort();
        if (r->initial[i].f) memcpy(v->f, r->initial[i].f, (size_t)tcc_type_numel(&v->type) * sizeof(double));
    }
    for (int step = 0; step < USER_TRAIN_STEPS && status == TCC_OK; step++) status = run_once(r, r->train, state, step);
    if (r->evaluate && status == TCC_OK) status = run_once(r, r->evaluate, state, USER_TRAIN_STEPS + 1);
    free_all(state, count);
    return status;
}

tcc_status user_reference_disturb(user_reference *r, int runs) {
    tcc_status status = TCC_OK;
    for (int i = 0; i < runs && status == TCC_OK; i += DRAWS, r->runs += DRAWS) status = run_all(r);
    return status;
}

user_reference *user_reference_create(tcc_model *m, const user_program *p, bool evaluate) {
    user_reference *r = calloc(1, sizeof *r);
    *r = (user_reference){.p = p, .model = m};
    r->train = make_graph(m, p, true);
    if (r->train && evaluate) r->evaluate = make_graph(m, p, false);
    bool ok = r->train && (!evaluate || r->evaluate) && tcc_store_fill(&m->shared->store, &m->cx->diag) == TCC_OK;
    r->initial = calloc(r->train ? (size_t)r->train->inputs.count + 1 : 1, sizeof *r->initial);
    for (int i = 0; ok && i < r->train->inputs.count; i++) {
        const tcc_node *n = r->train->inputs.data[i];
        if (!is_stored(n)) continue;
        const void *memory = stored_memory(m, n->attrs->input.name);
        if (tcc_value_create(&n->type, &r->initial[i], NULL) != TCC_OK) abort();
        if (memory) tcc_value_load(&r->initial[i], memory);
        else begin_state(r->train, n, r->initial, &r->initial[i]);
    }
    if (ok) return r;
    user_reference_destroy(r);
    return NULL;
}

void user_reference_destroy(user_reference *r) {
    if (!r) return;
    for (int i = 0; i < r->count; i++) tcc_noisy_free(&r->list[i].v);
    for (int i = 0; r->train && i < r->train->inputs.count; i++) tcc_value_free(&r->initial[i]);
    free(r->list);
    free(r->initial);
    tcc_graph_destroy(r->train);
    tcc_graph_destroy(r->evaluate);
    free(r);
}

/* -- Comparing -- */

static double half_unit(tcc_dtype t) {
    return t == TCC_F64 ? 0x1p-53 : t == TCC_F32 ? 0x1p-24 : t == TCC_F16 ? 0x1p-11 : 0x1p-8;
}

/* Adam's second moment: the square of a gradient that is nothing but noise is noise squared. */
static bool is_square(const user_expected *e) {
    const size_t length = strlen(e->name);
    return e->when == USER_TRAIN_STEPS && length > 2 && !strcmp(e->name + length - 2, ".v");
}

/* The root mean square of the noise, where that is finite. */
static double usual_noise(const user_expected *e) {
    double sum = 0;
    const int64_t count = tcc_type_numel(&e->v.value.type);
    for (int64_t i = 0; i < count; i++)
        if (isfinite(e->v.noise[i])) sum += e->v.noise[i] * e->v.noise[i];
    return sqrt(sum / (double)count);
}

const char *user_reference_compare(const user_expected *e, const void *memory, double *worst) {
    static char text[400];
    const tcc_type *type = &e->v.value.type;
    tcc_value got;
    const char *wrong = NULL;
    if (tcc_value_create(type, &got, NULL) != TCC_OK) abort();
    tcc_value_load(&got, memory);
    const bool is_float = tcc_dtype_is_float(type->dtype);
    const double usual = is_float ? usual_noise(e) : 0, factor = is_square(e) ? ALLOWED * ALLOWED : ALLOWED;
    for (int64_t i = 0, count = tcc_type_numel(type); i < count && !wrong; i++) {
        if (isinf(e->v.noise[i])) continue;
        if (!is_float) {
            if (got.i[i] == e->v.value.i[i]) continue;
            snprintf(text, sizeof text, "%s[%lld]: %lld instead of %lld", e->name, (long long)i, (long long)got.i[i],
                     (long long)e->v.value.i[i]);
            wrong = text;
            continue;
        }
        const double want = e->v.value.f[i], have = got.f[i], noise = fmax(e->v.noise[i], usual),
                     allowed = factor * noise + 2 * half_unit(type->dtype) * fabs(want) + 1e-44;
        if (have == want || (isnan(have) && isnan(want))) continue;
        const double error = fabs(have - want) / allowed;
        if (error <= 1) {
            *worst = fmax(*worst, error);
            continue;
        }
        snprintf(text, sizeof text, "%s[%lld]: %.9g instead of %.9g (noise %.3g, of the array %.3g)", e->name,
                 (long long)i, have, want, e->v.noise[i], usual);
        wrong = text;
    }
    tcc_value_free(&got);
    return wrong;
}

double user_reference_vagueness(const user_reference *r) {
    int64_t vague = 0, all = 0;
    for (int i = 0; i < r->count; i++) {
        const user_expected *e = &r->list[i];
        double largest = 0;
        const int64_t count = tcc_type_numel(&e->v.value.type);
        if (!tcc_dtype_is_float(e->v.value.type.dtype)) continue;
        for (int64_t k = 0; k < count; k++)
            if (isfinite(e->v.value.f[k])) largest = fmax(largest, fabs(e->v.value.f[k]));
        for (int64_t k = 0; k < count; k++)
            vague += isinf(e->v.noise[k]) || !isfinite(e->v.value.f[k]) ||
                     (largest > 0 && ALLOWED * e->v.noise[k] > 0.01 * largest);
        all += count;
    }
    return all ? (double)vague / (double)all : 0;
}
