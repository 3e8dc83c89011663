/* SPDX-License-Identifier: MIT
 * Expected values of a user's program, and their noise. */
#include "harness/user_reference.h"

#include "frontend/compile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What an error may be, in units of the noise: that of the element or the root mean square over the array, whichever is
 * larger. The noise comes from few runs, and sums of a million terms round more often than one unit says. */
#define ALLOWED 24

/* -- Graphs -- */

static tcc_graph *make_graph(tcc_model *m, const user_program *p, bool train) {
    tcc_array batch[USER_INPUTS];
    tcc_graph *g = NULL;
    user_batch_make(p, 0, batch);
    tcc_status status = tcc__model_trace(m, train, batch, p->n_inputs, &g);
    user_batch_free(p, batch);
    if (status != TCC_OK) return NULL;
    int *groups = calloc((size_t)g->inputs.count + 1, sizeof *groups);
    tcc_pass_options options = tcc__model_pass_options(m, train, g, groups);
    options.spec.keep_gradients = true;
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0},
                                    train ? "autodiff,train-step,decompose" : "decompose", &g, NULL);
    free(groups);
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

/* Values for the inputs of g. `state` has those of the training graph that are stored, by name. */
static tcc_value *make_inputs(const user_reference *r, const tcc_graph *g, const tcc_value *state, int step) {
    tcc_value *values = calloc((size_t)g->inputs.count + 1, sizeof *values);
    tcc_array batch[USER_INPUTS];
    float hyper[TCC_HYPER_COUNT + 2 * TCC_DECAY_GROUPS];
    int64_t rng[2] = {(int64_t)r->model->options.seed, step};
    tcc__model_hyper(r->model, step + 1, hyper);
    user_batch_make(r->p, step, batch);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        const char *name = n->attrs->input.name;
        if (tcc_value_create(&n->type, &values[i], NULL) != TCC_OK) abort();
        if (n->attrs->input.role == TCC_ROLE_HYPER) tcc_value_load(&values[i], hyper);
        if (n->attrs->input.role == TCC_ROLE_RNG) tcc_value_load(&values[i], rng);
        for (int k = 0; k < r->p->n_inputs && n->attrs->input.role == TCC_ROLE_BATCH; k++)
            if (!strcmp(batch[k].name, name)) tcc_value_load(&values[i], batch[k].data);
        for (int k = 0; k < r->train->inputs.count && is_stored(n); k++)
            if (!strcmp(r->train->inputs.data[k]->attrs->input.name, name))
                memcpy(values[i].f, state[k].f, (size_t)tcc_type_numel(&n->type) * sizeof(double));
    }
    user_batch_free(r->p, batch);
    return values;
}

static void free_all(tcc_value *values, int count) {
    for (int i = 0; values && i < count; i++) tcc_value_free(&values[i]);
    free(values);
}

/* -- What was seen -- */

static user_expected *find(user_reference *r, const char *name, int when) {
    for (int i = 0; i < r->count; i++)
        if (r->list[i].when == when && !strcmp(r->list[i].name, name)) return &r->list[i];
    return NULL;
}

static void add_expected(user_reference *r, const char *name, int when, const tcc_value *v) {
    r->list = realloc(r->list, (size_t)(r->count + 1) * sizeof *r->list);
    user_expected *e = &r->list[r->count++];
    const size_t count = (size_t)tcc_type_numel(&v->type);
    *e = (user_expected){.when = when, .noise = calloc(count + 1, sizeof *e->noise), .open = calloc(count + 1, 1)};
    snprintf(e->name, sizeof e->name, "%s", name);
    if (tcc_value_create(&v->type, &e->value, NULL) != TCC_OK) abort();
    memcpy(e->value.f, v->f, count * sizeof *v->f);
}

static void add_noise(user_expected *e, const tcc_value *v) {
    for (int64_t i = 0, count = tcc_type_numel(&v->type); i < count; i++) {
        if (!tcc_dtype_is_float(v->type.dtype)) {
            e->open[i] |= v->i[i] != e->value.i[i];
            continue;
        }
        const double a = e->value.f[i], b = v->f[i];
        if (isfinite(a) && isfinite(b)) e->noise[i] = fmax(e->noise[i], fabs(a - b));
        else e->open[i] |= !(a == b || (isnan(a) && isnan(b)));
    }
}

static void see(user_reference *r, const char *name, int when, const tcc_value *v, bool exact) {
    if (exact) add_expected(r, name, when, v);
    else add_noise(find(r, name, when), v);
}

/* -- Runs -- */

/* What memory of the type holds of it. */
static void store(const tcc_value *from, tcc_value *to) {
    void *packed = malloc((size_t)tcc_type_bytes(&from->type) + 1);
    tcc_value_store(from, packed);
    tcc_value_load(to, packed);
    free(packed);
}

static tcc_status run_once(user_reference *r, const tcc_graph *g, tcc_value *state, int when, const noise *n) {
    const bool train = g == r->train;
    tcc_value *inputs = make_inputs(r, g, state, when == USER_TRAIN_STEPS + 1 ? USER_TRAIN_STEPS : when);
    tcc_value *outputs = calloc((size_t)g->outputs.count + 1, sizeof *outputs);
    tcc_status status = noisy_eval(g, inputs, n, outputs, &r->model->cx->diag);
    for (int i = 0; i < g->outputs.count && status == TCC_OK; i++) {
        const tcc_output *o = &g->outputs.data[i];
        if (o->alias < 0) see(r, o->name, when, &outputs[i], !n);
        else if (train) store(&outputs[i], &state[o->alias]);
        if (o->alias >= 0 && when == USER_TRAIN_STEPS - 1) see(r, o->name, USER_TRAIN_STEPS, &state[o->alias], !n);
    }
    free_all(inputs, g->inputs.count);
    if (status == TCC_OK) free_all(outputs, g->outputs.count);
    else free(outputs);
    return status;
}

/* All steps, from the initial state. */
static tcc_status run_all(user_reference *r, const noise *n) {
    const int count = r->train->inputs.count;
    tcc_value *state = calloc((size_t)count + 1, sizeof *state);
    tcc_status status = TCC_OK;
    for (int i = 0; i < count; i++) {
        const tcc_type *type = &r->train->inputs.data[i]->type;
        if (tcc_value_create(type, &state[i], NULL) != TCC_OK) abort();
        if (r->initial[i].f) memcpy(state[i].f, r->initial[i].f, (size_t)tcc_type_numel(type) * sizeof(double));
    }
    for (int step = 0; step < USER_TRAIN_STEPS && status == TCC_OK; step++) {
        const noise own = n ? (noise){n->seed * 16 + (uint64_t)step, n->round, n->chains} : (noise){0};
        status = run_once(r, r->train, state, step, n ? &own : NULL);
    }
    if (r->evaluate && status == TCC_OK) status = run_once(r, r->evaluate, state, USER_TRAIN_STEPS + 1, n);
    free_all(state, count);
    return status;
}

tcc_status user_reference_disturb(user_reference *r, int runs) {
    tcc_status status = TCC_OK;
    for (int i = 0; i < runs && status == TCC_OK; i++, r->runs++)
        status = run_all(r, &(noise){.seed = (uint64_t)r->runs + 1, .round = r->runs % 2 == 0, .chains = r->chains});
    return status;
}

user_reference *user_reference_create(tcc_model *m, const user_program *p, bool evaluate) {
    user_reference *r = calloc(1, sizeof *r);
    *r = (user_reference){.p = p, .model = m};
    r->train = make_graph(m, p, true);
    if (r->train && evaluate) r->evaluate = make_graph(m, p, false);
    bool ok = r->train && (!evaluate || r->evaluate) && tcc_store_fill(&m->store, &m->cx->diag) == TCC_OK;
    r->initial = calloc(r->train ? (size_t)r->train->inputs.count + 1 : 1, sizeof *r->initial);
    for (int i = 0; ok && i < r->train->inputs.count; i++) {
        const tcc_node *n = r->train->inputs.data[i];
        if (!is_stored(n)) continue;
        const void *memory = stored_memory(m, n->attrs->input.name);
        if (tcc_value_create(&n->type, &r->initial[i], NULL) != TCC_OK) abort();
        if (memory) tcc_value_load(&r->initial[i], memory);
        else begin_state(r->train, n, r->initial, &r->initial[i]);
    }
    if (ok && run_all(r, NULL) == TCC_OK) return r;
    user_reference_destroy(r);
    return NULL;
}

void user_reference_destroy(user_reference *r) {
    if (!r) return;
    for (int i = 0; i < r->count; i++) {
        tcc_value_free(&r->list[i].value);
        free(r->list[i].noise);
        free(r->list[i].open);
    }
    free(r->list);
    if (r->train) free_all(r->initial, r->train->inputs.count);
    else free(r->initial);
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

/* The root mean square of the noise. */
static double usual_noise(const user_expected *e) {
    double sum = 0;
    const int64_t count = tcc_type_numel(&e->value.type);
    for (int64_t i = 0; i < count; i++) sum += e->noise[i] * e->noise[i];
    return sqrt(sum / (double)count);
}

const char *user_reference_compare(const user_expected *e, const void *memory, double *worst) {
    static char text[400];
    const tcc_type *type = &e->value.type;
    tcc_value got;
    const char *wrong = NULL;
    if (tcc_value_create(type, &got, NULL) != TCC_OK) abort();
    tcc_value_load(&got, memory);
    const bool is_float = tcc_dtype_is_float(type->dtype);
    const double usual = is_float ? usual_noise(e) : 0, factor = is_square(e) ? ALLOWED * ALLOWED : ALLOWED;
    for (int64_t i = 0, count = tcc_type_numel(type); i < count && !wrong; i++) {
        if (e->open[i]) continue;
        if (!is_float) {
            if (got.i[i] == e->value.i[i]) continue;
            snprintf(text, sizeof text, "%s[%lld]: %lld instead of %lld", e->name, (long long)i, (long long)got.i[i],
                     (long long)e->value.i[i]);
            wrong = text;
            continue;
        }
        const double want = e->value.f[i], have = got.f[i], noise = fmax(e->noise[i], usual),
                     allowed = factor * noise + 2 * half_unit(type->dtype) * fabs(want) + 1e-44;
        if (have == want || (isnan(have) && isnan(want))) continue;
        const double error = fabs(have - want) / allowed;
        if (error <= 1) {
            *worst = fmax(*worst, error);
            continue;
        }
        snprintf(text, sizeof text, "%s[%lld]: %.9g instead of %.9g (noise %.3g, of the array %.3g)", e->name,
                 (long long)i, have, want, e->noise[i], usual);
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
        const int64_t count = tcc_type_numel(&e->value.type);
        if (!tcc_dtype_is_float(e->value.type.dtype)) continue;
        for (int64_t k = 0; k < count; k++)
            if (isfinite(e->value.f[k])) largest = fmax(largest, fabs(e->value.f[k]));
        for (int64_t k = 0; k < count; k++)
            vague += e->open[k] || !isfinite(e->value.f[k]) || (largest > 0 && ALLOWED * e->noise[k] > 0.01 * largest);
        all += count;
    }
    return all ? (double)vague / (double)all : 0;
}
