/* SPDX-License-Identifier: MIT
 * Verification: one training step on the compiled program against the reference interpreter, and, when they differ,
 * which pass is to blame.
 *
 * The compiled side is a second model with the same function and copies of all parameters, made to keep its gradients;
 * so what runs is exactly what training runs, and the first model is untouched. The other side is the graph right after
 * autodiff, in double precision. On a mismatch the graph is traced again and evaluated after each pass of the pipeline:
 * the first pass whose result differs is named. If none does, the generated code is wrong, and compile_group.c looks
 * for the kernel. */
#include "compile_verify.h"

#include "passes/pipeline.h"

#include <math.h>
#include <stdio.h>

/* The largest difference of one output, relative to its largest entry. */
typedef struct mismatch {
    char name[256];
    double difference; /* relative */
} mismatch;

/* What the compiled program is compared with. */
typedef struct reference {
    const tcc_array *batch;
    int count; /* of arrays */
    const tcc_graph *graph;
    tcc_value *values; /* of its outputs */
} reference;

/* -- Values of a graph's inputs -- */

void tcc__values_free(tcc_value *values, int count) {
    for (int i = 0; values && i < count; i++) tcc_value_free(&values[i]);
    tcc__free(values);
}

/* The host's side of what is stored is up to date. */
static const void *input_memory(tcc_model *m, const tcc_node *n, const tcc_array *batch, int count, const float *hyper,
                                const int64_t *rng) {
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
            tcc__values_free(values, i);
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
        tcc__values_free(inputs, g->inputs.count);
    }
    if (status != TCC_OK) tcc__free(outputs);
    else *out = outputs;
    return status;
}

/* -- Comparing -- */

static bool is_checked(const char *name) { return !strcmp(name, "loss") || !strncmp(name, "grad.", 5); }

/* Entries far below the largest gradient are compared with that one's rounding, not their own. */
static double gradient_floor(const tcc_graph *g, const tcc_value *values) {
    double most = 0;
    for (int i = 0; i < g->outputs.count; i++)
        if (!strncmp(g->outputs.data[i].name, "grad.", 5) && tcc__value_largest(&values[i]) > most)
            most = tcc__value_largest(&values[i]);
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
            if (!strcmp(b->outputs.data[k].name, name))
                keep_worst(&worst, name, tcc__value_difference(&va[i], &vb[k], floor));
    }
    return worst;
}

static tcc_status compare_compiled(const tcc_graph *g, const tcc_value *values, tcc_model *compiled, tcc_diag *diag,
                                   mismatch *worst) {
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
        keep_worst(worst, name, tcc__value_difference(&values[i], &got, strcmp(name, "loss") ? floor : 1e-30));
        tcc_value_free(&got);
    }
    return TCC_OK;
}

/* -- The passes one by one -- */

/* Runs one pass as compiling would, but so that gradients stay outputs. */
static tcc_status run_pass(tcc_model *m, const char *name, tcc_graph **g) {
    TCC_TRY(tcc__model_selector(m));
    int *groups = tcc__calloc((size_t)(*g)->inputs.count + 1, sizeof *groups);
    if (!groups) return tcc_enomem(&m->cx->diag);
    tcc_pass_options options = tcc__model_pass_options(m, true, *g, groups);
    options.spec.keep_gradients = true;
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    tcc_status status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, name, g, NULL);
    tcc__free(groups);
    return status;
}

/* What is wrong, and the smallest graph that shows it, as text that tcc-opt runs; owned, NULL when memory is short. */
typedef struct blame {
    const char *pass; /* NULL: no pass changes the result, so the generated code does */
    int group;        /* then: the group whose kernel is wrong, or -1 */
    tcc_strbuf what;  /* in words */
    char *reproducer;
} blame;

static char *graph_text(const tcc_graph *g, const char *pass) {
    tcc_strbuf text = {0};
    tcc_strbuf_printf(&text, pass ? "// RUN: tcc-opt %%s --passes=%s\n" : "// RUN: tcc-opt %%s\n", pass);
    tcc_graph_print(&text, g, (tcc_print_options){.locs = true});
    return tcc_strbuf_take(&text);
}

/* Takes the traced graph through the pipeline, pass by pass, until an output differs from the reference's. */
static tcc_status blame_pass(tcc_model *m, tcc_graph **g, const reference *r, blame *out) {
    TCC_TRY(tcc__model_selector(m));
    const tcc_pass_options options = {
        .train = true, .eager = m->options.mode == TCC_MODE_EAGER, .target = &m->target[true]};
    tcc_status status = TCC_OK;
    for (int i = 0; i < tcc_pipeline_count && status == TCC_OK && !out->pass; i++) {
        if (!tcc_pipeline_runs(&tcc_pipeline_steps[i], &options)) continue;
        const char *pass = tcc_pass_get_info(tcc_pipeline_steps[i].pass)->name;
        tcc_value *values = NULL;
        tcc__free(out->reproducer);
        out->reproducer = graph_text(*g, pass);
        status = run_pass(m, pass, g);
        if (status == TCC_OK) status = interpret(m, *g, r->batch, r->count, &values);
        if (status == TCC_OK && compare_graphs(r->graph, r->values, *g, values).difference > 1e-6) out->pass = pass;
        tcc__values_free(values, (*g)->outputs.count);
    }
    return status;
}

/* `g` is right and ready to be compiled. */
static tcc_status blame_kernel(tcc_model *m, const tcc_graph *g, const reference *r, double tolerance, blame *out) {
    tcc_value *inputs = NULL;
    tcc_graph *alone = NULL;
    TCC_TRY(input_values(m, g, r->batch, r->count, &inputs));
    tcc_status status = tcc__find_wrong_group(m, g, inputs, tolerance, &out->group, &alone);
    tcc__values_free(inputs, g->inputs.count);
    tcc__free(out->reproducer);
    out->reproducer = graph_text(alone ? alone : g, NULL);
    tcc_graph_destroy(alone);
    return status;
}

static tcc_status find_blame(tcc_model *m, const reference *r, double tolerance, blame *out) {
    tcc_graph *g = NULL;
    TCC_TRY(tcc__model_trace(m, true, r->batch, r->count, &g));
    tcc_status status = blame_pass(m, &g, r, out);
    if (status == TCC_OK && out->pass) {
        tcc_strbuf_printf(&out->what, "the first wrong graph comes out of pass %s", out->pass);
    } else if (status == TCC_OK) {
        status = blame_kernel(m, g, r, tolerance, out);
        if (status == TCC_OK && out->group < 0)
            tcc_strbuf_add(&out->what,
                           "every graph and every kernel by itself is right: the steps or the memory plan are wrong");
        else if (status == TCC_OK)
            tcc_strbuf_printf(&out->what, "every graph is right: the code generated for group %d, around %s, is wrong",
                              out->group, tcc_node_text(g->groups.data[out->group].hero));
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
            if (index < 0) continue;
            memcpy(to[s]->entries.data[index].data, p->data, (size_t)tcc_type_bytes(&p->type));
            to[s]->entries.data[index].host_newer = true;
        }
    (*out)->step = m->step;
    (*out)->lr = m->lr;
    return TCC_OK;
}

static tcc_status report(tcc_model *m, const reference *r, mismatch worst, double tolerance, const char *reproducer) {
    blame b = {.group = -1};
    tcc_diag *diag = &m->cx->diag;
    tcc_status status = find_blame(m, r, tolerance, &b);
    if (status == TCC_OK) {
        status = tcc_error(diag, TCC_EBUG, TCC_NOWHERE,
                           "verify: \"%s\" differs from the interpreter by %.3g of its largest entry (allowed: %.3g)",
                           worst.name, worst.difference, tolerance);
        if (b.what.text) tcc_note(diag, TCC_NOWHERE, "%s", b.what.text);
        if (reproducer) write_reproducer(diag, reproducer, b.reproducer);
    }
    tcc_strbuf_free(&b.what);
    tcc__free(b.reproducer);
    return status;
}

tcc_status tcc_model_verify(tcc_model *m, const tcc_array *batch, int count, double tolerance, const char *reproducer) {
    tcc_diag_begin(&m->cx->diag);
    if (tolerance == 0) tolerance = m->options.allow_tf32 && strcmp(tcc_model_device(m), "cpu") ? 1e-2 : 1e-4;
    tcc_model *twin = NULL;
    tcc_graph *g = NULL;
    reference r = {.batch = batch, .count = count};
    mismatch worst = {.difference = 0};
    TCC_TRY(tcc__model_need_device(m));
    TCC_TRY(tcc_model_synchronize(m));
    tcc_status status = make_twin(m, batch, count, &twin);
    if (status == TCC_OK) status = tcc_model_train(twin, batch, count);
    /* The twin's parameters are one step on; the reference reads m's, or, before m's first compile, fresh ones from the
     * same seed. */
    if (status == TCC_OK) status = tcc__model_trace(m, true, batch, count, &g);
    if (status == TCC_OK) status = tcc_store_fill(&m->store, &m->cx->diag);
    if (status == TCC_OK) status = run_pass(m, "autodiff", &g);
    if (status == TCC_OK) status = interpret(m, g, batch, count, &r.values);
    r.graph = g;
    if (status == TCC_OK) status = compare_compiled(g, r.values, twin, &m->cx->diag, &worst);
    if (status == TCC_OK && !(worst.difference <= tolerance)) status = report(m, &r, worst, tolerance, reproducer);
    if (r.values) tcc__values_free(r.values, g->outputs.count);
    tcc_graph_destroy(g);
    tcc_model_destroy(twin);
    return status;
}
