/* SPDX-License-Identifier: MIT
 * Networks in the default mode against eager. */
#include "harness/net_check.h"

#include "frontend/compile/compile.h"
#include "harness/seen.h"
#include "harness/user_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_RUNS = 2, MANY_RUNS = 12 };

const char *net_mode_name(unsigned mode) {
    static const char *const names[] = {"default", "budget", "threads", "replay", "gpu"};
    for (int i = 0; i < NET_MODES; i++)
        if (mode == 1u << i) return names[i];
    return "none";
}

/* -- What a step leaves -- */

static void see_change(seen_list *r, const char *kind, const tcc_array *a, const float *before) {
    seen *s = seen_add(r, kind, a);
    if (s && before) seen_make_change(s, before);
}

/* `before`: the state that the step began with; NULL: bits are compared, so values are seen and not their changes.
 * Adam's changes of parameters are left out: they are signs where a gradient is nothing but noise. */
static void see_step(tcc_model *m, const user_program *p, float **before, seen_list *r) {
    tcc_array a;
    const double loss = tcc_model_loss(m);
    seen_add(r, "the", &(tcc_array){.name = "loss", .data = &(float){(float)loss}});
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        const bool trained = tcc_model_param_is_trained(m, i);
        if (!before || !trained || p->optimizer.kind == TCC_SGD)
            see_change(r, trained ? "change of" : "buffer", &a, before && trained ? before[i] : NULL);
        const char *name = a.name;
        if (!trained || !p->keep_gradients || tcc_model_gradient(m, name, &a) != TCC_OK) continue;
        a.name = name;
        seen_add(r, "gradient of", &a);
    }
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++) {
        seen *s = seen_add(r, "state", &a);
        if (s && before) seen_take_roots(s);
    }
}

/* -- One model -- */

typedef struct run {
    tcc_model *m;
    const user_program *p;
    tcc_array batch[USER_INPUTS];
    float **initial;
    int n_states;
} run;

/* Where the gradient shows in nothing but the changes of parameters, these are large beside the parameters. */
static bool is_plain(const user_program *p) {
    return !p->keep_gradients && p->optimizer.kind == TCC_SGD && p->optimizer.momentum == 0;
}

static tcc_status begin(tcc_context *cx, const user_program *p, tcc_model_options o, run *r) {
    tcc_optimizer_options optimizer = p->optimizer;
    *r = (run){.p = p};
    if (p->precision == TCC_MIXED_FP16) o.loss_scale = 1024; /* no step is skipped */
    if (is_plain(p)) optimizer.lr = 0x1p20, optimizer.weight_decay = 0;
    o.optimizer = &optimizer;
    user_batch_make(p, 0, r->batch);
    r->m = user_program_model_with(cx, p, &o);
    TCC_TRY(r->m ? TCC_OK : TCC_EINVAL);
    TCC_TRY(tcc_model_compile(r->m, true, r->batch, p->n_inputs));
    r->n_states = user_model_states(r->m);
    r->initial = calloc((size_t)r->n_states + 1, sizeof *r->initial);
    user_model_copy_state(r->m, r->initial, false);
    return TCC_OK;
}

static void end(run *r) {
    for (int i = 0; i < r->n_states; i++) free(r->initial[i]);
    free(r->initial);
    if (r->p) user_batch_free(r->p, r->batch);
    tcc_model_destroy(r->m);
}

static tcc_status step(run *r, bool bits, seen_list *out) {
    TCC_TRY(tcc_model_train(r->m, r->batch, r->p->n_inputs));
    TCC_TRY(tcc_model_synchronize(r->m));
    see_step(r->m, r->p, bits ? NULL : r->initial, out);
    return TCC_OK;
}

static void reset(run *r) {
    user_model_copy_state(r->m, r->initial, true);
    tcc_model_set_step(r->m, 0);
}

/* One more step of eager, disturbed; what it changes is noise. */
static tcc_status measure(run *r, int number, seen_list *exact) {
    static seen_list disturbed;
    uint64_t random = (uint64_t)number + 1;
    const double most = seen_disturbance(r->p->precision);
    tcc_array a, given[USER_INPUTS];
    reset(r);
    for (int i = 0; tcc_model_param(r->m, i, &a); i++) {
        if (a.dtype != TCC_F32 || !tcc_model_param_is_trained(r->m, i)) continue;
        seen_disturb(a.data, seen_elements(&a), most, most / 8, &random);
        TCC_TRY(tcc_model_set_param(r->m, &a));
    }
    memcpy(given, r->batch, sizeof given);
    user_batch_make(r->p, 0, r->batch);
    for (int i = 0; i < r->p->n_inputs; i++)
        if (r->batch[i].dtype == TCC_F32) seen_disturb(r->batch[i].data, seen_elements(&r->batch[i]), most, 0, &random);
    const tcc_status status = step(r, false, &disturbed);
    user_batch_free(r->p, r->batch);
    memcpy(r->batch, given, sizeof given);
    for (int i = 0; i < disturbed.count && status == TCC_OK; i++) {
        seen *e = &exact->list[i];
        const double noise = seen_norm(disturbed.list[i].data, e->data, e->count);
        if (!(noise <= e->noise)) e->noise = noise;
    }
    seen_drop(&disturbed);
    return status;
}

/* -- Comparison -- */

static const char *compare(const user_program *p, const seen_list *expected, const seen_list *got, net_verdict *out) {
    static char text[512];
    if (expected->count != got->count) return "another number of values";
    out->compared = out->vague = 0;
    for (int i = 0; i < expected->count; i++) {
        const seen *e = &expected->list[i], *g = &got->list[i];
        const double error = seen_norm(g->data, e->data, e->count), most = seen_allowed(p->precision, e);
        if (strcmp(e->name, g->name) || e->count != g->count) return "other values";
        if (!isfinite(most) || isnan(e->size)) { /* it overflows, or nearly does */
            out->vague++;
            continue;
        }
        out->compared++;
        if (!(error <= most)) {
            snprintf(text, sizeof text, "%s: differs by %.3g of %.3g, noise %.3g, allowed %.3g", e->name, error,
                     e->size, e->noise, most);
            return text;
        }
        if (error / most <= out->worst) continue;
        out->worst = error / most;
        snprintf(out->worst_name, sizeof out->worst_name, "%s (%.3g of %.3g)", e->name, error, e->size);
    }
    return NULL;
}

static const char *compare_bits(const seen_list *expected, const seen_list *got) {
    static char text[512];
    if (expected->count != got->count) return "another number of values";
    for (int i = 0; i < expected->count; i++) {
        const seen *e = &expected->list[i], *g = &got->list[i];
        if (!memcmp(e->data, g->data, (size_t)e->count * sizeof *e->data)) continue;
        snprintf(text, sizeof text, "%s: other bits; differs by %.3g of %.3g", e->name,
                 seen_norm(g->data, e->data, e->count), seen_norm(e->data, NULL, e->count));
        return text;
    }
    return NULL;
}

/* -- All modes -- */

static void fail(net_verdict *out, unsigned mode, const char *text) {
    out->mode = mode;
    snprintf(out->text, sizeof out->text, "%s", text && *text ? text : "failed without a word");
}

static const char *failure(tcc_context *cx, tcc_status status) {
    return status == TCC_OK ? NULL : tcc_context_error(cx);
}

static tcc_model_options options_of(const user_program *p, unsigned mode) {
    tcc_model_options o = user_program_options(p, mode & NET_GPU ? USER_GPU : USER_DEFAULT);
    o.batch_accumulate = p->batch_accumulate;
    o.chunk_rows = p->chunk_rows;
    if (mode & NET_REPLAY) o.mode = TCC_MODE_REDUCE_OVERHEAD;
    if (!(mode & NET_BUDGET)) return o;
    o.checkpointing = p->segment_steps ? TCC_CHECKPOINTING_SEGMENTS : TCC_CHECKPOINTING_AUTO;
    o.memory_budget = p->memory_budget;
    return o;
}

/* The first two steps of one mode; after a step of parameters that are far away only one. */
static const char *two_steps(run *r, seen_list *out) {
    tcc_status status = step(r, true, out);
    if (status == TCC_OK && !is_plain(r->p)) status = step(r, true, out);
    return failure(r->m->cx, status);
}

static tcc_status begin_with_threads(tcc_context *cx, const user_program *p, tcc_model_options o, run *r) {
    const char *was = getenv("TCC_NUM_THREADS");
    char *kept = was ? strdup(was) : NULL;
    setenv("TCC_NUM_THREADS", "3", 1);
    const tcc_status status = begin(cx, p, o, r);
    if (kept) setenv("TCC_NUM_THREADS", kept, 1);
    else unsetenv("TCC_NUM_THREADS");
    free(kept);
    return status;
}

static void check_bits(tcc_context *cx, const user_program *p, unsigned mode, const seen_list *expected,
                       net_verdict *out) {
    static seen_list got;
    run r;
    tcc_model_options o = options_of(p, mode);
    tcc_status status = (mode == NET_THREADS ? begin_with_threads : begin)(cx, p, o, &r);
    if (status != TCC_OK && strstr(tcc_context_error(cx), "cannot be met")) {
        end(&r);
        tcc_context_clear_error(cx);
        o.memory_budget = "min";
        status = begin(cx, p, o, &r);
    }
    const char *wrong = failure(cx, status);
    if (!wrong) wrong = two_steps(&r, &got);
    if (!wrong) wrong = compare_bits(expected, &got);
    if (wrong) fail(out, mode, wrong);
    seen_drop(&got);
    end(&r);
}

/* A mode within the noise of eager, and then those that have its bits. */
static void check_noise(tcc_context *cx, const user_program *p, unsigned modes, unsigned mode, run *eager,
                        seen_list *expected, net_verdict *out) {
    static seen_list got, bits;
    run r;
    int runs = FEW_RUNS;
    const char *wrong = failure(cx, begin(cx, p, options_of(p, mode), &r));
    out->refused = wrong && p->batch_accumulate > 1 && strstr(wrong, "loss_weight");
    if (!wrong) wrong = failure(cx, step(&r, false, &got));
    const bool ran = !wrong;
    if (ran) wrong = compare(p, expected, &got, out);
    while (ran && wrong && runs < MANY_RUNS) { /* perhaps the noise is larger than few runs showed */
        if (measure(eager, runs++, expected) != TCC_OK) break;
        wrong = compare(p, expected, &got, out);
    }
    if (!wrong && mode == NET_DEFAULT && modes & (NET_BUDGET | NET_THREADS | NET_REPLAY)) {
        reset(&r);
        wrong = two_steps(&r, &bits);
        for (unsigned other = NET_BUDGET; other <= NET_REPLAY && !wrong && !out->mode; other *= 2)
            if (modes & other) check_bits(cx, p, other, &bits, out);
    }
    if (wrong && !out->refused) fail(out, mode, wrong);
    tcc_context_clear_error(cx);
    seen_drop(&got);
    seen_drop(&bits);
    end(&r);
}

void net_check(const user_program *p, unsigned modes, net_verdict *out) { net_compare(p, p, modes, out); }

void net_compare(const user_program *p, const user_program *reference, unsigned modes, net_verdict *out) {
    static seen_list expected;
    tcc_context *cx;
    run eager = {0};
    *out = (net_verdict){0};
    if (tcc_context_create(&cx) != TCC_OK) {
        fail(out, modes, "no context");
        return;
    }
    tcc_model_options o = user_program_options(reference, USER_EAGER);
    tcc_status status = begin(cx, reference, o, &eager);
    if (status == TCC_OK) status = step(&eager, false, &expected);
    for (int i = 0; i < expected.count; i++)
        expected.list[i].size = seen_norm(expected.list[i].data, NULL, expected.list[i].count);
    for (int i = 0; i < FEW_RUNS && status == TCC_OK; i++) status = measure(&eager, i, &expected);
    seen_find_cancelled(&expected);
    if (status != TCC_OK) fail(out, NET_DEFAULT, tcc_context_error(cx));
    const bool budget = p->memory_budget || p->segment_steps;
    if (!budget) modes &= ~(unsigned)NET_BUDGET;
    for (unsigned mode = NET_DEFAULT; mode <= NET_GPU && !out->mode; mode *= NET_GPU)
        if (modes & mode) check_noise(cx, p, modes, mode, &eager, &expected, out);
    seen_drop(&expected);
    end(&eager);
    tcc_context_destroy(cx);
}

/* The same mode disagrees in the same way: by a value, or by an error of the same words. */
static bool still_wrong(const user_program *p, const void *was_wrong) {
    const net_verdict *verdict = was_wrong;
    net_verdict v;
    net_check(p, verdict->mode | (verdict->mode == NET_GPU ? 0 : NET_DEFAULT), &v);
    const char *was = strstr(verdict->text, "error: "), *is = strstr(v.text, "error: ");
    return v.mode == verdict->mode && !was == !is && (!was || !strncmp(was, is, 24));
}

void net_shrink(user_program *p, const net_verdict *verdict, double seconds) {
    user_program_shrink_while(p, still_wrong, verdict, seconds);
}
