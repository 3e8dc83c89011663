/* SPDX-License-Identifier: MIT */
#include "harness/network_modes.h"

#include "harness/seen.h"
#include "harness/user_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEW_RUNS = 2, MANY_RUNS = 10 };

static const struct way {
    const char *name, *budget;
    tcc_mode mode;
    bool bits; /* those of the default */
} ways[NETWORK_WAYS] = {{"default", .mode = TCC_MODE_DEFAULT},
                        {"budget min", "min", .bits = true},
                        {"reduce-overhead", .mode = TCC_MODE_REDUCE_OVERHEAD, .bits = true},
                        {"budget 50%", "50%", .bits = true},
                        {"max-autotune", .mode = TCC_MODE_MAX_AUTOTUNE}};

/* -- What training leaves -- */

static void see_gradients(tcc_model *m, seen_list *r) {
    tcc_array a;
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        const char *name = a.name;
        if (!tcc_model_param_is_trained(m, i) || tcc_model_gradient(m, name, &a) != TCC_OK) continue;
        a.name = name;
        seen_add(r, "gradient of", &a);
    }
}

/* `first`: what the parameters were, from its own first to its last. Adam's changes of parameters are signs where a
 * gradient is nothing but noise, and are not seen. */
static void see_end(tcc_model *m, const seen_list *first, bool adam, seen_list *r) {
    tcc_array a;
    for (int i = 0, k = 0; tcc_model_param(m, i, &a); i++) {
        if (a.dtype != TCC_F32) continue;
        const seen *was = &first->list[k++];
        const bool trained = tcc_model_param_is_trained(m, i);
        if (trained && adam) continue;
        seen *s = seen_add(r, trained ? "change of" : "buffer", &a);
        if (!trained) continue;
        seen_make_change(s, was->data);
    }
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++) {
        seen *s = seen_add(r, "state", &a);
        if (s) seen_take_roots(s);
    }
}

/* -- One run -- */

static tcc_status disturb_parameters(tcc_model *m, double most, uint64_t *random) {
    tcc_status status = TCC_OK;
    tcc_array a;
    for (int i = 0; status == TCC_OK && tcc_model_param(m, i, &a); i++) {
        if (a.dtype != TCC_F32 || !tcc_model_param_is_trained(m, i)) continue;
        seen_disturb(a.data, seen_elements(&a), most, most / 8, random);
        status = tcc_model_set_param(m, &a);
    }
    return status;
}

static void disturbed_batch(const network_case *c, double most, uint64_t *random, tcc_array *out) {
    for (int i = 0; i < c->n_inputs; i++) {
        out[i] = c->batch[i];
        if (out[i].dtype != TCC_F32) continue;
        const int64_t count = seen_elements(&out[i]);
        out[i].data = malloc((size_t)count * sizeof(float));
        memcpy(out[i].data, c->batch[i].data, (size_t)count * sizeof(float));
        seen_disturb(out[i].data, count, most, 0, random);
    }
}

static tcc_status steps(tcc_model *m, const network_case *c, const tcc_array *batch, seen_list *out) {
    seen_list first = {0};
    tcc_array a;
    for (int i = 0; tcc_model_param(m, i, &a); i++) seen_add(&first, "", &a);
    tcc_status status = TCC_OK;
    for (int step = 0; status == TCC_OK && step < c->steps; step++) {
        status = tcc_model_train(m, batch, c->n_inputs);
        if (status == TCC_OK) status = tcc_model_synchronize(m);
        if (status != TCC_OK) break;
        char name[16];
        snprintf(name, sizeof name, "%d", step);
        seen_add(out, "loss", &(tcc_array){.name = name, .data = &(float){(float)tcc_model_loss(m)}});
        if (!step) see_gradients(m, out);
    }
    if (status == TCC_OK) see_end(m, &first, c->optimizer.kind != TCC_SGD, out);
    seen_drop(&first);
    return status;
}

static tcc_status start(tcc_context *cx, const network_case *c, const struct way *w, const char *device,
                        tcc_model **m) {
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .seed = 5,
                                 .optimizer = &c->optimizer,
                                 .keep_gradients = true,
                                 .mode = w->mode,
                                 .memory_budget = w->budget,
                                 .autotune_budget_s = 2,
                                 .mixed_precision = c->precision,
                                 .loss_scale = c->precision == TCC_MIXED_FP16 ? 1 : 0}; /* none of these overflows */
    *m = NULL;
    tcc_status status = tcc_model_create(cx, c->build, c->user, &o, m);
    if (status == TCC_OK) status = tcc_model_compile(*m, true, c->batch, c->n_inputs);
    if (status == TCC_OK && c->begin) status = c->begin(*m);
    return status;
}

static tcc_status run(tcc_context *cx, const network_case *c, const struct way *w, seen_list *out) {
    tcc_model *m;
    tcc_status status = start(cx, c, w, c->device, &m);
    if (status == TCC_OK) status = steps(m, c, c->batch, out);
    tcc_model_destroy(m);
    return status;
}

/* -- The reference -- */

typedef struct reference {
    const network_case *c;
    tcc_model *m;
    float **initial; /* all of its states */
    int n_states, runs;
    seen_list exact;
} reference;

/* One more disturbed run; what it changes is noise. */
static tcc_status measure(reference *r) {
    const double most = seen_disturbance(r->c->precision);
    uint64_t random = (uint64_t)++r->runs;
    tcc_array batch[4];
    seen_list disturbed = {0};
    user_model_copy_state(r->m, r->initial, true);
    tcc_model_set_step(r->m, 0);
    tcc_status status = disturb_parameters(r->m, most, &random);
    disturbed_batch(r->c, most, &random, batch);
    if (status == TCC_OK) status = steps(r->m, r->c, batch, &disturbed);
    for (int i = 0; i < r->c->n_inputs; i++)
        if (batch[i].dtype == TCC_F32) free(batch[i].data);
    for (int i = 0; i < r->exact.count && status == TCC_OK; i++) {
        seen *e = &r->exact.list[i];
        const double noise = seen_norm(disturbed.list[i].data, e->data, e->count);
        e->size = seen_norm(e->data, NULL, e->count);
        if (!(noise <= e->noise)) e->noise = noise;
    }
    seen_drop(&disturbed);
    return status;
}

static tcc_status measure_reference(tcc_context *cx, const network_case *c, reference *r) {
    const struct way eager = {"eager", .mode = TCC_MODE_EAGER};
    *r = (reference){.c = c};
    TCC_TRY(start(cx, c, &eager, "cpu", &r->m));
    r->n_states = user_model_states(r->m);
    r->initial = calloc((size_t)r->n_states + 1, sizeof *r->initial);
    user_model_copy_state(r->m, r->initial, false);
    TCC_TRY(steps(r->m, c, c->batch, &r->exact));
    while (r->runs < FEW_RUNS) TCC_TRY(measure(r));
    return TCC_OK;
}

static void end_reference(reference *r) {
    for (int i = 0; i < r->n_states; i++) free(r->initial[i]);
    free(r->initial);
    tcc_model_destroy(r->m);
    seen_drop(&r->exact);
}

/* -- Comparison -- */

static bool same_arrays(const seen_list *a, const seen_list *b) {
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++)
        same = a->list[i].count == b->list[i].count && !strcmp(a->list[i].name, b->list[i].name);
    return same;
}

static bool is_near(const network_case *c, const seen_list *expected, const seen_list *got, network_result *out) {
    out->worst = 0, out->wrong[0] = 0;
    for (int i = 0; i < expected->count; i++) {
        const seen *e = &expected->list[i];
        const double error = seen_norm(got->list[i].data, e->data, e->count), most = seen_allowed(c->precision, e);
        if (!(error <= most)) {
            snprintf(out->wrong, sizeof out->wrong, "%s: differs by %.3g of %.3g, noise %.3g, allowed %.3g", e->name,
                     error, e->size, e->noise, most);
            return false;
        }
        if (error / most <= out->worst) continue;
        out->worst = error / most;
        snprintf(out->worst_name, sizeof out->worst_name, "%s", e->name);
    }
    return true;
}

static void compare_bits(const seen_list *expected, const seen_list *got, network_result *out) {
    for (int i = 0; i < expected->count && !out->wrong[0]; i++) {
        const seen *e = &expected->list[i], *g = &got->list[i];
        if (!memcmp(e->data, g->data, (size_t)e->count * sizeof *e->data)) continue;
        snprintf(out->wrong, sizeof out->wrong, "%s: other bits; differs by %.3g of %.3g", e->name,
                 seen_norm(g->data, e->data, e->count), seen_norm(e->data, NULL, e->count));
    }
}

static void compare_noise(reference *r, const seen_list *got, network_result *out) {
    while (!is_near(r->c, &r->exact, got, out) && r->runs < MANY_RUNS) /* perhaps few runs did not show all of it */
        if (measure(r) != TCC_OK) break;
}

/* -- All ways -- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(tcc_context *cx, network_result *out) {
    snprintf(out->wrong, sizeof out->wrong, "%s", tcc_context_error(cx));
    tcc_context_clear_error(cx);
}

int network_check(const network_case *c, int n_ways, network_result results[NETWORK_WAYS]) {
    reference eager;
    seen_list usual = {0};
    tcc_context *cx;
    int done = 0;
    memset(results, 0, NETWORK_WAYS * sizeof *results);
    if (tcc_context_create(&cx) != TCC_OK) abort();
    tcc_status status = measure_reference(cx, c, &eager);
    for (; done < n_ways && (!done || usual.count); done++) {
        network_result *r = &results[done];
        const struct way *w = &ways[done];
        seen_list got = {0};
        const double begin = now();
        r->way = w->name;
        if (status == TCC_OK) status = run(cx, c, w, &got);
        r->refused = status == TCC_ENOMEM && w->budget && strstr(tcc_context_error(cx), "cannot be met");
        r->seconds = now() - begin;
        if (r->refused) tcc_context_clear_error(cx);
        else if (status != TCC_OK) fail(cx, r);
        else if (!same_arrays(&eager.exact, &got)) snprintf(r->wrong, sizeof r->wrong, "other values");
        else if (w->bits) compare_bits(&usual, &got, r);
        else compare_noise(&eager, &got, r);
        status = TCC_OK;
        if (done) seen_drop(&got);
        else usual = got;
    }
    seen_drop(&usual);
    end_reference(&eager);
    tcc_context_destroy(cx);
    return done;
}
