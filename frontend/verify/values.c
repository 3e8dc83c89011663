/* SPDX-License-Identifier: MIT
 * Values of a verification: the inputs of a training step, and whether its outputs lie within the noise. */
#include "frontend/verify/verify.h"

#include "ir/support/element.h"

#include <math.h>

void tcc__verify_say(const tcc_verification *v, const char *format, ...) {
    const tcc_model_options *o = &v->m->options;
    char text[256];
    if (!o->progress) return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    o->progress(o->progress_user, text);
}

void tcc__blame_clear(tcc_blame *b) {
    tcc_strbuf_free(&b->text);
    tcc_strbuf_free(&b->cause);
    tcc_strbuf_free(&b->reproducer);
}

void tcc__blame_graph(tcc_blame *b, const tcc_graph *g, const char *pass) {
    tcc_strbuf_free(&b->reproducer);
    tcc_strbuf_printf(&b->reproducer, pass ? "// RUN: tcc-opt %%s --passes=%s\n" : "// RUN: tcc-opt %%s\n", pass);
    tcc_graph_print(&b->reproducer, g, (tcc_print_options){.locs = true});
}

/* -- Inputs -- */

void tcc__values_free(tcc_value *values, int count) {
    for (int i = 0; values && i < count; i++) tcc_value_free(&values[i]);
    tcc__free(values);
}

void tcc__noisy_array_free(tcc_noisy *values, int count) {
    for (int i = 0; values && i < count; i++) tcc_noisy_free(&values[i]);
    tcc__free(values);
}

/* The first element that is not finite, or, `numbers`, that is no number; -1: there is none. */
static int64_t find_bad(const tcc_type *type, const void *packed, bool numbers) {
    if (!tcc_dtype_is_float(type->dtype)) return -1;
    for (int64_t e = 0, count = tcc_type_numel(type); e < count; e++) {
        const double x = tcc_element_get(type->dtype, packed, e);
        if (numbers ? isnan(x) : !isfinite(x)) return e;
    }
    return -1;
}

static tcc_status refuse(const tcc_verification *v, const char *what, const char *name, const tcc_type *type,
                         const void *packed, int64_t e) {
    return tcc_error(&v->m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "verify: nothing can be judged: %s \"%s\" is %g before the step, in element %lld of %s", what,
                     name, tcc_element_get(type->dtype, packed, e), (long long)e, tcc_type_text(type));
}

static tcc_status check_store(const tcc_verification *v, const tcc_store *store, const char *what) {
    for (int i = 0; i < store->entries.count; i++) {
        const tcc_stored *s = &store->entries.data[i];
        const int64_t e = s->data ? find_bad(&s->type, s->data, false) : -1;
        if (e >= 0) return refuse(v, what, s->name, &s->type, s->data, e);
    }
    return TCC_OK;
}

tcc_status tcc__verify_check_finite(const tcc_verification *v) {
    tcc_graph *g;
    TCC_TRY(tcc__model_trace(v->m, true, v->whole, v->count, &g)); /* makes the parameters */
    tcc_graph_destroy(g);
    TCC_TRY(tcc_store_fill(&v->m->shared->store, &v->m->cx->diag));
    TCC_TRY(check_store(v, &v->m->shared->store, "parameter"));
    TCC_TRY(check_store(v, &v->m->moments, "state"));
    for (int i = 0; i < v->count; i++) { /* an infinity may be meant, as in a mask */
        const tcc_type type = tcc__array_type(&v->whole[i]);
        const int64_t e = find_bad(&type, v->whole[i].data, true);
        if (e >= 0) return refuse(v, "batch array", v->whole[i].name, &type, v->whole[i].data, e);
    }
    return TCC_OK;
}

const tcc_stored *tcc__verify_stored(const tcc_verification *v, const char *name) {
    const tcc_stored *stored = tcc__model_stored(v->m, name);
    if (stored) return stored;
    const int index = tcc_store_find(&v->states, name);
    return index >= 0 ? &v->states.entries.data[index] : NULL;
}

void tcc__verify_feed(const tcc_verification *v, float *hyper, int64_t *rng) {
    rng[0] = (int64_t)v->m->random_seed, rng[1] = v->m->step;
    if (v->micro) tcc__micro_feed(v->m, hyper, rng);
    else tcc__model_hyper(v->m, hyper);
}

const void *tcc__verify_input(const tcc_verification *v, const tcc_node *n, const float *hyper, const int64_t *rng) {
    const char *name = n->attrs->input.name;
    const tcc_stored *stored;
    switch (n->attrs->input.role) {
    case TCC_ROLE_BATCH:
        for (int i = 0; i < v->count; i++)
            if (!strcmp(v->batch[i].name, name)) return v->batch[i].data;
        return NULL;
    case TCC_ROLE_HYPER: return hyper;
    case TCC_ROLE_RNG: return rng;
    default: stored = tcc__verify_stored(v, name); return stored ? stored->data : NULL;
    }
}

/* What reads a parameter that is behind reads the copy of it, whose values it has then. */
static void load_copy(const tcc_verification *v, const tcc_stored *of, tcc_value *value) {
    const tcc_stored *p = tcc__copy_of(v->m, of, false);
    for (int64_t e = 0, count = p ? tcc_type_numel(&p->type) : 0; e < count; e++)
        value->f[e] = tcc_element_get(p->type.dtype, p->data, e);
}

/* What a node reads, or what is an output or the state that one replaces. */
static void find_read(const tcc_graph *g, bool *read) {
    for (int i = 0; i < g->nodes.count; i++)
        for (int k = 0; k < g->nodes.data[i]->n_operands; k++) read[g->nodes.data[i]->operands[k]->id] = true;
    for (int i = 0; i < g->outputs.count; i++) {
        read[g->outputs.data[i].node->id] = true;
        if (g->outputs.data[i].alias >= 0) read[g->inputs.data[g->outputs.data[i].alias]->id] = true;
    }
}

tcc_status tcc__verify_inputs(const tcc_verification *v, const tcc_graph *g, tcc_value **out) {
    tcc_diag *diag = &v->m->cx->diag;
    float hyper[TCC_HYPER_MOST];
    int64_t rng[2];
    tcc__verify_feed(v, hyper, rng);
    tcc_value *values = tcc__calloc((size_t)g->inputs.count + 1, sizeof *values);
    bool *read = tcc__calloc((size_t)g->nodes.count + 1, sizeof *read);
    tcc_status status = values && read ? TCC_OK : tcc_enomem(diag);
    if (status == TCC_OK) find_read(g, read);
    for (int i = 0; i < g->inputs.count && status == TCC_OK; i++) {
        const tcc_node *n = g->inputs.data[i];
        values[i].type = n->type;
        if (!read[n->id]) continue;
        const void *memory = tcc__verify_input(v, n, hyper, rng);
        const tcc_stored *parameter = n->attrs->input.role == TCC_ROLE_PARAM
                                          ? tcc__verify_stored(v, n->attrs->input.name)
                                          : NULL;
        status = tcc_value_create_in(v->noise.pool, &n->type, &values[i], diag);
        if (status == TCC_OK && parameter && parameter->behind) load_copy(v, parameter, &values[i]);
        else if (status == TCC_OK && memory) tcc_value_load(&values[i], memory);
    }
    tcc__free(read);
    if (status == TCC_OK) *out = values;
    else tcc__values_free(values, g->inputs.count);
    return status;
}

/* -- Comparing -- */

/* Half of the distance between 1 and the next number; and what may come out as 0. */
static double half_unit(tcc_dtype t) { return ldexp(1, -tcc_dtype_digits(t)); }

static double smallest(tcc_dtype t) { return t == TCC_F64 ? 0x1p-1022 : t == TCC_F16 ? 0x1p-24 : 0x1p-126; }

/* The root mean square of the noise of elements [from, to). */
static double usual_noise(const double *noise, int64_t from, int64_t to) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t e = from; e < to; e++)
        if (isfinite(noise[e])) sum += noise[e] * noise[e], count++;
    return count ? sqrt(sum / (double)count) : 0;
}

static double largest(const tcc_value *v) {
    double most = 0;
    for (int64_t e = 0, count = tcc_type_numel(&v->type); e < count; e++)
        if (isfinite(v->f[e]) && fabs(v->f[e]) > most) most = fabs(v->f[e]);
    return most;
}

static void keep_worst(tcc_difference *worst, int64_t e, double got, double want, double allowed) {
    if (got == want || (isnan(got) && isnan(want))) return;
    double ratio = fabs(got - want) / allowed;
    if (isnan(ratio)) ratio = INFINITY;
    if (ratio > worst->ratio) *worst = (tcc_difference){ratio, e, got, want, allowed};
}

tcc_difference tcc__noisy_difference(const tcc_noisy *expected, const tcc_value *got, double multiple, int64_t window,
                                     double tolerance) {
    const tcc_dtype dtype = expected->value.type.dtype;
    const int64_t count = tcc_type_numel(&expected->value.type), step = window ? window / 2 : count;
    tcc_difference worst = {0};
    if (!tcc_dtype_is_float(dtype)) {
        for (int64_t e = 0; e < count && worst.ratio == 0; e++)
            if (expected->noise[e] == 0 && got->i[e] != expected->value.i[e])
                worst = (tcc_difference){INFINITY, e, (double)got->i[e], (double)expected->value.i[e], 0};
        return worst;
    }
    const double always = smallest(dtype) + (tolerance > 0 ? tolerance * largest(&expected->value) : 0);
    for (int64_t begin = 0; begin < count; begin += step) {
        const int64_t from = begin > step / 2 ? begin - step / 2 : 0, end = begin + step < count ? begin + step : count;
        const double usual = usual_noise(expected->noise, from, end + step / 2 < count ? end + step / 2 : count);
        for (int64_t e = begin; e < end; e++) {
            const double want = expected->value.f[e], noise = expected->noise[e];
            if (!isfinite(noise)) continue;
            keep_worst(&worst, e, got->f[e], want,
                       multiple * fmax(noise, usual) + 2 * half_unit(dtype) * fabs(want) + always);
        }
    }
    return worst;
}

void tcc__difference_print(tcc_strbuf *b, const tcc_difference *d, const tcc_type *type) {
    tcc_strbuf_printf(b, "element %lld of %lld is %.9g instead of %.9g", (long long)d->element,
                      (long long)tcc_type_numel(type), d->got, d->want);
    if (tcc_dtype_is_float(type->dtype)) tcc_strbuf_printf(b, ", where rounding explains %.3g", d->allowed);
}
