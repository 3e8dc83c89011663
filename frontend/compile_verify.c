/* SPDX-License-Identifier: MIT
 * Verification: one training step on the compiled program against the reference interpreter, and, when they differ, which pass is
 * to blame.
 *
 * The compiled side is a second model with the same function and copies of all parameters, made to keep its gradients; so what
 * runs is exactly what training runs, and the first model is untouched. The other side is the graph right after autodiff, in
 * double precision. On a mismatch the graph is evaluated again after each later pass: the first pass whose result differs is
 * named; if none does, the code generator is. */
#include "compile.h"

#include "ir/eval.h"

#include <math.h>
#include <stdio.h>

/* The largest difference of one output, relative to its largest entry. */
typedef struct mismatch {
    char name[256];
    double difference; /* relative */
} mismatch;

/* -- Values of a graph's inputs -- */

static void values_free(tcc_value *values, int count) {
    for (int i = 0; values && i < count; i++) tcc_value_free(&values[i]);
    tcc__free(values);
}

static const void *input_memory(tcc_model *m, const tcc_node *n, const tcc_array *batch, int count, const float *hyper, const int64_t *rng) {
    const char *name = n->attrs->input.name;
    int stored;
    switch (n->attrs->input.role) {
    case TCC_ROLE_BATCH:
        for (int i = 0; i < count; i++)
            if (!strcmp(batch[i].name, name)) return batch[i].data;
        return NULL;
    case TCC_ROLE_HYPER: return hyper;
    case TCC_ROLE_RNG: return rng;
    default:
        stored = tcc_store_find(&m->store, name);
        if (stored >= 0) return m->store.entries.data[stored].data;
        stored = tcc_store_find(&m->moments, name);
        return stored >= 0 ? m->moments.entries.data[stored].data : NULL; /* no moments yet: zero */
    }
}

static tcc_status input_values(tcc_model *m, const tcc_graph *g, const tcc_array *batch, int count, tcc_value **out) {
    tcc_diag *diag = &m->cx->diag;
    float hyper[TCC_HYPER_COUNT + 2 * TCC_DECAY_GROUPS];
    int64_t rng[2] = {(int64_t)m->options.seed, m->step};
    tcc__model_hyper(m, m->step + 1, hyper);
    tcc_value *values = tcc__calloc((size_t)g->inputs.count + 1, sizeof *values);
    if (!values) return tcc_enomem(diag);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        tcc_status status = tcc_value_create(&n->type, &values[i], diag);
        if (status != TCC_OK) {
            values_free(values, i);
            return status;
        }
        const void *memory = input_memory(m, n, batch, count, hyper, rng);
        if (memory) tcc_value_load(&values[i], memory);
    }
    *out = values;
    return TCC_OK;
}

/* Interprets g; *out gets g->outputs.count values. */
static tcc_status interpret(tcc_model *m, const tcc_graph *g, const tcc_array *batch, int count, tcc_value **out) {
    tcc_value *inputs = NULL, *outputs = tcc__calloc((size_t)g->outputs.count + 1, sizeof *outputs);
    if (!outputs) return tcc_enomem(&m->cx->diag);
    tcc_status status = input_values(m, g, batch, count, &inputs);
    if (status == TCC_OK) {
        status = tcc_graph_eval(g, inputs, outputs, &m->cx->diag);
        values_free(inputs, g->inputs.count);
    }
    if (status != TCC_OK) tcc__free(outputs);
    else *out = outputs;
    return status;
}

/* -- Comparing -- */

static bool is_checked(const char *name) { return !strcmp(name, "loss") || !strncmp(name, "grad.", 5); }

static double largest(const tcc_value *v) {
    double most = 0;
    for (int64_t i = 0, n = tcc_type_numel(&v->type); i < n; i++)
        if (fabs(v->f[i]) > most) most = fabs(v->f[i]);
    return most;
}

/* NaN counts as an infinite difference unless both are NaN. */
static double difference(const tcc_value *reference, const tcc_value *got, double floor) {
    double worst = 0, scale = largest(reference);
    if (scale < floor) scale = floor;
    for (int64_t i = 0, n = tcc_type_numel(&reference->type); i < n; i++) {
        double a = reference->f[i], b = got->f[i];
        if (isnan(a) && isnan(b)) continue;
        if (a == b) continue;
        double d = fabs(a - b) / scale;
        if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

/* Entries far below the largest gradient are compared with that one's rounding, not their own. */
static double gradient_floor(const tcc_graph *g, const tcc_value *values) {
    double most = 0;
    for (int i = 0; i < g->outputs.count; i++)
        if (!strncmp(g->outputs.data[i].name, "grad.", 5) && largest(&values[i]) > most) most = largest(&values[i]);
    return most > 0 ? 1e-3 * most : 1e-30;
}

static void keep_worst(mismatch *worst, const char *name, double d) {
    if (d <= worst->difference) return;
    worst->difference = d;
    snprintf(worst->name, sizeof worst->name, "%s", name);
}

/* Compares outputs of two graphs by name. */
static mismatch compare_graphs(const tcc_graph *a, const tcc_value *va, const tcc_graph *b, const tcc_value *vb) {
    mismatch worst = {.difference = 0};
    double floor = gradient_floor(a, va);
    for (int i = 0; i < a->outputs.count; i++) {
        const char *name = a->outputs.data[i].name;
        if (!is_checked(name)) continue;
        for (int k = 0; k < b->outputs.count; k++)
            if (!strcmp(b->outputs.data[k].name, name)) keep_worst(&worst, name, difference(&va[i], &vb[k], floor));
    }
    return worst;
}

static tcc_status compare_compiled(const tcc_graph *g, const tcc_value *values, tcc_model *compiled, tcc_diag *diag, mismatch *worst) {
    double floor = gradient_floor(g, values);
    *worst = (mismatch){.difference = 0};
    for (int i = 0; i < g->outputs.count; i++) {
        const char *name = g->outputs.data[i].name;
        if (!is_checked(name)) continue;
        tcc_array array;
        tcc_value got;
        TCC_TRY(tcc_model_output(compiled, name, &array));
        TCC_TRY(tcc_value_create(&values[i].type, &got, diag));
        tcc_value_load(&got, array.data);
        keep_worst(worst, name, difference(&values[i], &got, strcmp(name, "loss") ? floor : 1e-30));
        tcc_value_free(&got);
    }
    return TCC_OK;
}

/* -- The passes one by one -- */

static tcc_status run_pass(tcc_model *m, const char *name, tcc_graph **g) {
    int *groups = tcc__calloc((size_t)(*g)->inputs.count + 1, sizeof *groups);
    if (!groups) return tcc_enomem(&m->cx->diag);
    tcc_pass_options options = tcc__model_pass_options(m, true, *g, groups);
    options.spec.keep_gradients = true;
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    tcc_status status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, name, g, NULL);
    tcc__free(groups);
    return status;
}

/* The graph as a text that tcc-opt runs again. */
static char *graph_text(const tcc_graph *g, const char *pass) {
    tcc_strbuf text = {0};
    tcc_strbuf_printf(&text, "// RUN: tcc-opt %%s --passes=%s\n", pass);
    tcc_graph_print(&text, g, (tcc_print_options){.locs = true});
    return tcc_strbuf_take(&text);
}

typedef struct blame {
    const char *pass; /* NULL: no pass changes the result, so the code generator does */
    char *before;     /* the graph that it was given; owned; NULL when memory is short */
} blame;

/* Evaluates the graph again after each pass that follows autodiff, until the result differs. Consumes `g`. */
static tcc_status find_blame(tcc_model *m, tcc_graph *g, const tcc_graph *reference_graph, const tcc_value *reference,
                             const tcc_array *batch, int count, blame *out) {
    static const char *const later[] = {"train-step", "decompose", "layout", "simplify", "fuse", "order", "plan-memory"};
    tcc_status status = TCC_OK;
    *out = (blame){0};
    for (size_t i = 0; i < sizeof later / sizeof later[0] && status == TCC_OK && !out->pass; i++) {
        tcc__free(out->before);
        out->before = graph_text(g, later[i]);
        status = run_pass(m, later[i], &g);
        tcc_value *values = NULL;
        if (status == TCC_OK) status = interpret(m, g, batch, count, &values);
        if (status != TCC_OK) break;
        if (compare_graphs(reference_graph, reference, g, values).difference > 1e-6) out->pass = later[i];
        values_free(values, g->outputs.count);
    }
    if (status == TCC_OK && !out->pass) {
        tcc__free(out->before);
        out->before = graph_text(g, "");
    }
    tcc_graph_destroy(g);
    return status;
}

static void write_reproducer(tcc_diag *diag, const char *path, const char *text) {
    FILE *f = text ? fopen(path, "w") : NULL;
    bool ok = f && fputs(text, f) >= 0;
    if (f && fclose(f)) ok = false;
    tcc_note(diag, TCC_NOWHERE, ok ? "reproducer: %s" : "the reproducer could not be written to %s", path);
}

/* -- The whole -- */

/* A model like m that keeps gradients, with m's parameters. */
static tcc_status make_twin(tcc_model *m, const tcc_array *batch, int count, tcc_model **out) {
    tcc_model_options options = m->options;
    options.keep_gradients = true;
    options.dump_dir = NULL;
    TCC_TRY(tcc_model_create(m->cx, m->fn, m->user, &options, out));
    TCC_TRY(tcc_model_compile(*out, true, batch, count));
    const tcc_store *from[] = {&m->store, &m->moments};
    tcc_store *to[] = {&(*out)->store, &(*out)->moments};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < from[s]->entries.count; i++) {
            const tcc_stored *p = &from[s]->entries.data[i];
            int index = tcc_store_find(to[s], p->name);
            if (index >= 0) memcpy(to[s]->entries.data[index].data, p->data, (size_t)tcc_type_bytes(&p->type));
        }
    (*out)->step = m->step;
    (*out)->lr = m->lr;
    return TCC_OK;
}

static tcc_status report(tcc_model *m, tcc_graph **g, const tcc_graph *reference_graph, const tcc_value *reference,
                         const tcc_array *batch, int count, mismatch worst, double tolerance, const char *reproducer) {
    blame b;
    tcc_graph *start = *g;
    *g = NULL;
    TCC_TRY(find_blame(m, start, reference_graph, reference, batch, count, &b));
    tcc_status status = tcc_error(&m->cx->diag, TCC_EBUG, TCC_NOWHERE,
                                  "verify: \"%s\" differs from the interpreter by %.3g of its largest entry (allowed: %.3g)", worst.name,
                                  worst.difference, tolerance);
    if (b.pass) tcc_note(&m->cx->diag, TCC_NOWHERE, "the first wrong graph comes out of pass %s", b.pass);
    else tcc_note(&m->cx->diag, TCC_NOWHERE, "the graph is right after every pass: the generated code is wrong");
    if (reproducer) write_reproducer(&m->cx->diag, reproducer, b.before);
    tcc__free(b.before);
    return status;
}

tcc_status tcc_model_verify(tcc_model *m, const tcc_array *batch, int count, double tolerance, const char *reproducer) {
    tcc_diag *diag = &m->cx->diag;
    if (tolerance == 0) tolerance = 1e-4;
    tcc_model *twin = NULL;
    tcc_graph *g = NULL, *again = NULL;
    tcc_value *reference = NULL;
    mismatch worst = {.difference = 0};
    tcc_status status = make_twin(m, batch, count, &twin);
    if (status == TCC_OK) status = tcc_model_train(twin, batch, count);
    /* The twin's parameters are one step on; the reference reads m's, or, before m's first compile, fresh ones from the same seed. */
    if (status == TCC_OK) status = tcc__model_trace(m, true, batch, count, &g);
    if (status == TCC_OK) status = run_pass(m, "autodiff", &g);
    if (status == TCC_OK) status = interpret(m, g, batch, count, &reference);
    if (status == TCC_OK) status = compare_compiled(g, reference, twin, diag, &worst);
    if (status == TCC_OK && !(worst.difference <= tolerance)) {
        status = tcc__model_trace(m, true, batch, count, &again);
        if (status == TCC_OK) status = run_pass(m, "autodiff", &again);
        if (status == TCC_OK) status = report(m, &again, g, reference, batch, count, worst, tolerance, reproducer);
    }
    if (reference) values_free(reference, g->outputs.count);
    tcc_graph_destroy(g);
    tcc_graph_destroy(again);
    tcc_model_destroy(twin);
    return status;
}
