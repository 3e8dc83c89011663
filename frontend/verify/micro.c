/* SPDX-License-Identifier: MIT
 * Verification of a step in micro-batches. The whole batch was verified as one step before, so gradients are right.
 * Here a twin runs the programs of training, one by one. First their graphs are interpreted and compared: each sum must
 * grow by the gradient of the samples, as autodiff alone gives it, and the update must read the sums. Then the kernels
 * are compared with the interpreter on the parameters, sums and samples that they read; what the program has written
 * must have the same bits. The first micro-batch begins the sums, the second adds to them, and a smaller last one has a
 * program of its own. The others differ from the second in values alone. Last, the loss and the gradients of the step
 * are compared with those of the whole batch. */
#include "frontend/verify/verify.h"

#include <math.h>

/* -- What the graphs mean -- */

/* A graph of a step, interpreted. */
typedef struct meaning {
    const tcc_graph *g;
    tcc_value *inputs, *outputs;
    bool evaluated;
} meaning;

static void meaning_clear(meaning *x) {
    tcc__values_free(x->outputs, x->evaluated ? x->g->outputs.count : 0);
    tcc__values_free(x->inputs, x->g->inputs.count);
}

static tcc_status interpret(const tcc_verification *v, meaning *x) {
    tcc_diag *diag = &v->m->cx->diag;
    if (!(x->outputs = tcc__calloc((size_t)x->g->outputs.count + 1, sizeof *x->outputs))) return tcc_enomem(diag);
    TCC_TRY(tcc__verify_inputs(v, x->g, &x->inputs));
    TCC_TRY(tcc_graph_eval_in(v->noise.pool, x->g, x->inputs, x->outputs, diag));
    x->evaluated = true;
    return TCC_OK;
}

static int find_output(const tcc_graph *g, const char *prefix, const char *name) {
    const size_t length = strlen(prefix);
    int i = 0;
    while (i < g->outputs.count && (strncmp(g->outputs.data[i].name, prefix, length) != 0 ||
                                    strcmp(g->outputs.data[i].name + length, name) != 0))
        i++;
    return i < g->outputs.count ? i : -1;
}

/* The input of that name before the program; NULL: it has none. */
static const tcc_value *find_input(const meaning *x, const char *prefix, const char *name) {
    const size_t length = strlen(prefix);
    for (int i = 0; i < x->g->inputs.count; i++) {
        const char *own = x->g->inputs.data[i]->attrs->input.name;
        if (!strncmp(own, prefix, length) && !strcmp(own + length, name)) return &x->inputs[i];
    }
    return NULL;
}

static double scalar(const tcc_value *x, double missing) { return x ? x->f[0] : missing; }

/* Output k is to be begin + factor * x within `factor` times the noise (NULL: none) and its own rounding. */
static tcc_status compare(tcc_verification *v, const meaning *x, int k, const tcc_value *begin, double factor,
                          const double *value, const double *noise, tcc_blame *out) {
    enum { MULTIPLE = 16 };
    const tcc_value *got = &x->outputs[k];
    tcc_noisy want = {0};
    TCC_TRY(tcc_value_create_in(v->noise.pool, &got->type, &want.value, &v->m->cx->diag));
    const int64_t count = tcc_type_numel(&got->type);
    if (!(want.noise = tcc_value_pool_take(v->noise.pool, (size_t)count * sizeof *want.noise, true))) {
        tcc_value_free(&want.value);
        return tcc_enomem(&v->m->cx->diag);
    }
    for (int64_t e = 0; e < count; e++) {
        const double more = factor != 0 ? factor * value[e] : 0; /* what weighs nothing may be NaN */
        want.value.f[e] = (begin ? begin->f[e] : 0) + more;
        want.noise[e] = fabs(factor) * (noise ? noise[e] : 0) + 0x1p-24 * fabs(more);
    }
    const tcc_difference d = tcc__noisy_difference(&want, got, MULTIPLE, 0, v->tolerance);
    if (d.ratio > 1 && !out->text.length) {
        tcc_strbuf_printf(&out->text, "verify: \"%s\" of the graph '%s' in micro-batches differs from its definition: ",
                          x->g->outputs.data[k].name, x->g->name);
        tcc__difference_print(&out->text, &d, &got->type);
        tcc_strbuf_add(&out->cause, "what adds to the sums of micro-batches, or makes the update of them, is wrong");
        tcc__blame_graph(out, x->g, NULL);
    }
    tcc_noisy_free(&want);
    return TCC_OK;
}

/* Sums grow by the weighted gradients of the samples. */
static tcc_status compare_sums(tcc_verification *v, const meaning *x, tcc_blame *out) {
    static const char *const names[][2] = {
        {TCC_SUM_PREFIX, "grad."}, {TCC_LOSS_SUM_STATE, "loss"}, {TCC_NEXT_PREFIX, TCC_NEXT_PREFIX}};
    const bool first = v->m->micro == 0;
    const int weights = find_output(x->g, "", TCC_WEIGHT_SUM_STATE);
    const double before = first ? 0 : scalar(find_input(x, "", TCC_WEIGHT_SUM_STATE), 0),
                 weight = weights < 0 ? 1 : x->outputs[weights].f[0] - before;
    TCC_TRY(tcc__verify_reference(v));
    TCC_TRY(tcc__verify_meaning(v));
    for (int k = 0; k < x->g->outputs.count; k++)
        for (int n = 0; n < 3; n++) {
            const char *name = x->g->outputs.data[k].name;
            const size_t length = strlen(names[n][0]);
            if (strncmp(name, names[n][0], length) != 0 || !tcc_dtype_is_float(x->outputs[k].type.dtype)) continue;
            const int i = find_output(v->reference, names[n][1], name + length);
            if (i < 0) return TCC_BUG(&v->m->cx->diag, "'%s' sums up nothing", name);
            const bool replaces = first || !strcmp(names[n][0], TCC_NEXT_PREFIX);
            TCC_TRY(compare(v, x, k, replaces ? NULL : find_input(x, "", name), replaces && !first ? 1 : weight,
                            v->meant[i].value.f, v->meant[i].noise, out));
        }
    return TCC_OK;
}

/* Totals grow as the traced graph says. */
static tcc_status compare_totals(tcc_verification *v, const meaning *x, tcc_blame *out) {
    TCC_TRY(tcc__verify_reference(v));
    TCC_TRY(tcc__verify_meaning(v));
    for (int k = 0; k < x->g->outputs.count; k++) {
        const int i = find_output(v->reference, "", x->g->outputs.data[k].name);
        if (i < 0) return TCC_BUG(&v->m->cx->diag, "'%s' adds up nothing", x->g->outputs.data[k].name);
        if (tcc_dtype_is_float(x->outputs[k].type.dtype))
            TCC_TRY(compare(v, x, k, NULL, 1, v->meant[i].value.f, v->meant[i].noise, out));
    }
    return TCC_OK;
}

/* Gradients and loss are sums by the sum of the weights. */
static tcc_status compare_quotients(tcc_verification *v, const meaning *x, tcc_blame *out) {
    const double weight = scalar(find_input(x, "", TCC_WEIGHT_SUM_STATE), 1),
                 scale = scalar(find_input(x, "", TCC_SCALE_STATE), 1);
    for (int k = 0; k < x->g->outputs.count; k++) {
        const char *name = x->g->outputs.data[k].name;
        const bool loss = !strcmp(name, "loss");
        const tcc_value *sum = loss                        ? find_input(x, "", TCC_LOSS_SUM_STATE)
                               : strncmp(name, "grad.", 5) ? NULL
                                                           : find_input(x, TCC_SUM_PREFIX, name + 5);
        if (sum) TCC_TRY(compare(v, x, k, NULL, 1 / (loss ? weight : weight * scale), sum->f, NULL, out));
    }
    return TCC_OK;
}

static tcc_status check_meaning(tcc_verification *v, const tcc_compiled *c, tcc_blame *out) {
    meaning x = {.g = c->record->graph};
    tcc_status status = interpret(v, &x);
    if (status == TCC_OK)
        status = !v->micro                    ? compare_quotients(v, &x, out)
                 : c->part == TCC_STEP_TOTALS ? compare_totals(v, &x, out)
                                              : compare_sums(v, &x, out);
    if (v->meant) tcc__noisy_array_free(v->meant, v->reference->outputs.count);
    tcc_graph_destroy(v->reference);
    v->meant = NULL, v->reference = NULL;
    meaning_clear(&x);
    return status;
}

/* -- The programs -- */

/* Runs a program of the twin; `looks`: and compares it. */
static tcc_status run_program(tcc_verification *v, tcc_compiled *c, const tcc_array *slice, bool looks, bool meaning,
                              tcc_blame *out) {
    tcc_verified p = {0};
    if (!looks) return tcc__program_run(v->twin, c, slice);
    TCC_TRY(tcc__states_derive(v->twin, c));
    TCC_TRY(tcc_model_synchronize(v->twin));
    v->batch = slice, v->micro = slice != NULL, v->part = c;
    if (meaning) TCC_TRY(check_meaning(v, c, out));
    if (out->text.length) return TCC_OK;
    tcc_status status = tcc__verify_program(v, c, &p, out);
    if (status == TCC_OK) status = tcc__program_run(v->twin, c, slice);
    if (status == TCC_OK && !out->text.length) status = tcc__verify_bits(v, &p, out);
    tcc__verified_clear(&p);
    return status;
}

/* For each micro-batch its program, or that of the totals. */
static tcc_status run_all(tcc_verification *v, const tcc_array *batch, bool totals, bool meaning, tcc_blame *out) {
    enum { COMPARED = 2 };
    tcc_model *m = v->twin;
    const int64_t samples = tcc__micro_samples(m, batch), all = batch[0].dims[0];
    for (int64_t begin = 0; begin < all && !out->text.length; begin += samples) {
        const tcc_array *slice = tcc__micro_cut(m, batch, v->count, begin);
        TCC_TRY(tcc__micro_program(m, slice, v->count, &m->last));
        TCC_TRY(run_program(v, totals ? m->last->totals : m->last, slice,
                            m->micro < COMPARED || slice[0].dims[0] < samples, meaning, out));
    }
    return TCC_OK;
}

static tcc_status run_step(tcc_verification *v, const tcc_array *batch, bool meaning, tcc_blame *out) {
    tcc_model *m = v->twin;
    const int levels = m->last->totals ? tcc__micro_levels(m->last->totals->program) : 0;
    for (m->micro_level = 1; m->micro_level <= levels && !out->text.length; m->micro_level++)
        TCC_TRY(run_all(v, batch, true, meaning, out));
    if (!out->text.length) TCC_TRY(run_all(v, batch, false, meaning, out));
    return out->text.length ? TCC_OK : run_program(v, m->last->next, NULL, true, meaning, out);
}

/* -- The step as a whole -- */

/* Whether a micro-batch computes something for itself alone: statistics of a batch norm, or random draws. */
static bool is_of_micro_batch(const tcc_graph *g) {
    for (int i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i]->op == TCC_OP_BATCH_NORM || g->nodes.data[i]->op == TCC_OP_DROPOUT ||
            (g->nodes.data[i]->op == TCC_OP_INPUT && g->nodes.data[i]->attrs->input.role == TCC_ROLE_RNG))
            return true;
    return false;
}

/* The loss and the gradients are those of the whole batch, which v->expected has. */
static tcc_status compare_with_whole(tcc_verification *v, tcc_blame *out) {
    if (v->skipped || is_of_micro_batch(v->reference)) return TCC_OK;
    for (int i = 0; i < v->reference->outputs.count && !out->text.length; i++) {
        const char *name = v->reference->outputs.data[i].name;
        tcc_difference d = {0};
        if (strcmp(name, "loss") != 0 && strncmp(name, "grad.", 5) != 0) continue;
        TCC_TRY(tcc__verify_result(v, i, &d));
        if (d.ratio <= 1) continue;
        tcc_strbuf_printf(&out->text,
                          "verify: \"%s\" of the step in micro-batches is not that of the whole batch: ", name);
        tcc__difference_print(&out->text, &d, &v->expected[i].value.type);
        tcc_strbuf_add(&out->cause, "the loss is no sum over micro-batches, or is weighed wrongly (tcc_loss_weight)");
    }
    return TCC_OK;
}

tcc_status tcc__verify_micro(tcc_verification *v, bool meaning, tcc_blame *out) {
    const tcc_array *batch = v->batch;
    tcc__verify_say(v, "comparing the kernels of the step in micro-batches");
    tcc_model_destroy(v->twin);
    v->twin = NULL;
    TCC_TRY(tcc__verify_make_twin(v, v->m->options.batch_accumulate, meaning, &v->twin));
    tcc_verification step = *v; /* whose state is that of the twin as it goes on */
    step.m = step.twin;
    step.reference = NULL, step.expected = step.meant = NULL;
    TCC_TRY(run_step(&step, batch, meaning, out));
    v->groups = step.groups, v->sampled = step.sampled;
    v->worst_kernel = step.worst_kernel;
    memcpy(v->worst_kernel_name, step.worst_kernel_name, sizeof v->worst_kernel_name);
    return out->text.length || !meaning ? TCC_OK : compare_with_whole(v, out);
}
