/* SPDX-License-Identifier: MIT
 * Verifies the results of a training step, and its passes. Each pass must keep the meaning of the traced graph: the
 * graph after each pass is interpreted, and its outputs are compared with the reference's within the same noise. */
#include "frontend/verify/verify.h"

#include <math.h>

/* A network may be as sensitive to rounding as it likes: a unit near 0 that falls to the other side moves a gradient by
 * more than all other rounding. That the draws see such falls is a matter of luck, so more is allowed here than of
 * kernels, which are judged one by one. */
enum { DRAWS = 4, FACTOR = 4, MULTIPLE = 16 };
/* Of graphs, which are interpreted in double precision. */
enum { GRAPH_DRAWS = 2, GRAPH_FACTOR = 16, GRAPH_MULTIPLE = 16 };

/* -- The results -- */

/* The reference with noise, which is made once. */
static tcc_status interpret_reference(tcc_verification *v, const tcc_noise *noise, tcc_noisy **made) {
    tcc_diag *diag = &v->m->cx->diag;
    const tcc_graph *g = v->reference;
    tcc_value *inputs = NULL;
    if (*made) return TCC_OK;
    tcc_noisy *outputs = tcc__calloc((size_t)g->outputs.count + 1, sizeof *outputs);
    tcc_status status = outputs ? tcc__verify_inputs(v, g, &inputs) : tcc_enomem(diag);
    if (status == TCC_OK) status = tcc_graph_eval_noisy(g, inputs, noise, outputs, diag);
    tcc__values_free(inputs, g->inputs.count);
    if (status == TCC_OK) *made = outputs;
    else tcc__free(outputs);
    return status;
}

static tcc_status interpret_types(tcc_verification *v) {
    tcc_noise noise = v->noise;
    noise.draws = DRAWS, noise.factor = FACTOR;
    return interpret_reference(v, &noise, &v->expected);
}

/* Passes reorder sums and round constants. */
tcc_status tcc__verify_meaning(tcc_verification *v) {
    tcc_noise noise = v->noise;
    noise.draws = GRAPH_DRAWS, noise.factor = GRAPH_FACTOR, noise.constants = true;
    return interpret_reference(v, &noise, &v->meant);
}

/* What the twin has computed of output i of the reference; NULL: nothing of that name. */
static tcc_status find_result(tcc_verification *v, int i, const void **out) {
    const tcc_graph *g = v->reference;
    const tcc_output *output = &g->outputs.data[i];
    tcc_array array;
    *out = NULL;
    if (output->alias < 0) {
        TCC_TRY(tcc_model_output(v->twin, output->name, &array));
        *out = array.data;
        return TCC_OK;
    }
    const int index = tcc_store_find(&v->twin->shared->store, g->inputs.data[output->alias]->attrs->input.name);
    if (index < 0) return TCC_OK;
    TCC_TRY(tcc__stored_host(v->twin, &v->twin->shared->store.entries.data[index]));
    *out = v->twin->shared->store.entries.data[index].data;
    return TCC_OK;
}

tcc_status tcc__verify_result(tcc_verification *v, int i, tcc_difference *out) {
    const tcc_noisy *expected = &v->expected[i];
    const void *memory;
    tcc_value got;
    if (v->skipped && v->reference->outputs.data[i].alias >= 0) return TCC_OK; /* the reference knows of no skip */
    TCC_TRY(find_result(v, i, &memory));
    if (!memory) return TCC_OK;
    TCC_TRY(tcc_value_create_in(v->noise.pool, &expected->value.type, &got, &v->m->cx->diag));
    tcc_value_load(&got, memory);
    *out = tcc__noisy_difference(expected, &got, MULTIPLE, 0, v->tolerance);
    tcc_value_free(&got);
    return TCC_OK;
}

tcc_status tcc__verify_outputs(tcc_verification *v, tcc_blame *out) {
    TCC_TRY(interpret_types(v));
    tcc_difference worst = {0};
    int wrong = -1;
    for (int i = 0; i < v->reference->outputs.count; i++) {
        tcc_difference d = {0};
        TCC_TRY(tcc__verify_result(v, i, &d));
        if (d.ratio > worst.ratio) worst = d, wrong = i;
    }
    if (wrong < 0) return TCC_OK;
    v->worst_output = worst.ratio;
    snprintf(v->worst_output_name, sizeof v->worst_output_name, "%s", v->reference->outputs.data[wrong].name);
    if (worst.ratio <= 1 || out->text.length) return TCC_OK;
    tcc_strbuf_printf(&out->text, "verify: \"%s\" differs from the interpreter by %.3g times what rounding explains: ",
                      v->worst_output_name, worst.ratio);
    tcc__difference_print(&out->text, &worst, &v->expected[wrong].value.type);
    return TCC_OK;
}

/* -- A step that is skipped -- */

/* Whether the twin has a gradient of a parameter that is not finite. */
static tcc_status find_overflow(tcc_verification *v, bool *found) {
    const tcc_graph *g = v->reference;
    *found = false;
    for (int i = 0; i < g->outputs.count && !*found; i++) {
        const tcc_type *type = &g->outputs.data[i].node->type;
        const void *memory;
        tcc_value got;
        if (strncmp(g->outputs.data[i].name, "grad.", 5) != 0 ||
            tcc_store_find(&v->twin->shared->store, g->outputs.data[i].name + 5) < 0)
            continue;
        TCC_TRY(find_result(v, i, &memory));
        TCC_TRY(tcc_value_create_in(v->noise.pool, type, &got, &v->m->cx->diag));
        tcc_value_load(&got, memory);
        for (int64_t e = 0, count = tcc_type_numel(type); e < count; e++) *found |= !isfinite(got.f[e]);
        tcc_value_free(&got);
    }
    return TCC_OK;
}

tcc_status tcc__verify_skip(tcc_verification *v, tcc_blame *out) {
    bool overflows;
    if (v->m->options.mixed_precision != TCC_MIXED_FP16 || out->text.length) return TCC_OK;
    TCC_TRY(find_overflow(v, &overflows));
    if (overflows != v->skipped)
        tcc_strbuf_add(&out->text, v->skipped ? "verify: the step is skipped, but all gradients are finite"
                                              : "verify: a gradient is not finite, but the step is not skipped");
    for (int i = 0; i < v->m->shared->store.entries.count && v->skipped && !out->text.length; i++) {
        const tcc_stored *before = &v->m->shared->store.entries.data[i];
        const int index = tcc_store_find(&v->twin->shared->store, before->name);
        if (index < 0) continue;
        TCC_TRY(tcc__stored_host(v->twin, &v->twin->shared->store.entries.data[index]));
        const void *after = v->twin->shared->store.entries.data[index].data;
        if (memcmp(before->data, after, (size_t)tcc_type_bytes(&before->type)) != 0)
            tcc_strbuf_printf(&out->text, "verify: \"%s\" is changed by a step that is skipped", before->name);
    }
    if (out->text.length) tcc_strbuf_add(&out->cause, "the flag that skips a step is wrong, or what it must hold back");
    return TCC_OK;
}

/* -- The passes -- */

typedef struct pass_walk {
    tcc_verification *v;
    tcc_blame *out;
    bool found;
} pass_walk;

/* Whether passes on groups alone lie between two graphs. */
static bool same_nodes(const tcc_graph *a, const tcc_graph *b) {
    if (a->nodes.count != b->nodes.count || a->outputs.count != b->outputs.count) return false;
    for (int i = 0; i < a->nodes.count; i++) {
        const tcc_node *x = a->nodes.data[i], *y = b->nodes.data[i];
        if (x->op != y->op || !tcc_type_equal(&x->type, &y->type) || x->n_operands != y->n_operands ||
            !tcc_attrs_equal(tcc_op_get_info(x->op)->attrs, x->attrs, y->attrs))
            return false;
        for (int k = 0; k < x->n_operands; k++)
            if (x->operands[k]->id != y->operands[k]->id) return false;
    }
    for (int i = 0; i < a->outputs.count; i++)
        if (a->outputs.data[i].node->id != b->outputs.data[i].node->id) return false;
    return true;
}

/* Whether the step that `g` computes is skipped: its casts overflow in the interpreter as well. */
static bool is_skipped(const tcc_graph *g, const tcc_value *inputs, const tcc_value *values) {
    for (int k = 0; k < g->outputs.count; k++)
        if (!strcmp(g->outputs.data[k].name, TCC_SKIPPED_STATE))
            return values[k].i[0] != inputs[g->outputs.data[k].alias].i[0];
    return false;
}

/* Whether output k of `g` must be output i of the reference, which knows of no skip. */
static bool must_be_equal(const tcc_verification *v, int i, const tcc_graph *g, int k, bool skipped) {
    const tcc_output *output = &v->reference->outputs.data[i];
    return !strcmp(output->name, g->outputs.data[k].name) && (!skipped || output->alias < 0);
}

/* The worst output of `g` beside the reference's of the same name; *name stays where none differs. */
static tcc_difference worst_of_graph(const tcc_verification *v, const tcc_noisy *expected, const tcc_graph *g,
                                     const tcc_value *values, bool skipped, const char **name, tcc_type *type) {
    tcc_difference worst = {0};
    for (int i = 0; i < v->reference->outputs.count; i++)
        for (int k = 0; k < g->outputs.count; k++) {
            const char *own = v->reference->outputs.data[i].name;
            if (!must_be_equal(v, i, g, k, skipped)) continue;
            const tcc_difference d = tcc__noisy_difference(&expected[i], &values[k], GRAPH_MULTIPLE, 0, 0);
            if (d.ratio > worst.ratio) worst = d, *name = own, *type = values[k].type;
        }
    return worst;
}

/* Whether an output of `g` is equal to the reference's of the same name, or as good as that. */
static bool is_equal(const tcc_verification *v, const tcc_graph *g, const tcc_value *values, bool skipped) {
    for (int i = 0; i < v->reference->outputs.count; i++)
        for (int k = 0; k < g->outputs.count; k++) {
            if (!must_be_equal(v, i, g, k, skipped)) continue;
            const tcc_value *a = v->expected ? &v->expected[i].value : &v->meant[i].value, *b = &values[k];
            if (memcmp(a->f, b->f, (size_t)tcc_type_numel(&a->type) * sizeof *a->f) != 0) return false;
        }
    return true;
}

static bool is_compared(const tcc_verification *v, const tcc_output *output) {
    bool found = !strcmp(output->name, TCC_SKIPPED_STATE);
    for (int i = 0; i < v->reference->outputs.count && !found; i++)
        found = !strcmp(v->reference->outputs.data[i].name, output->name);
    return found;
}

/* What is left of `g` where the reference has no update of parameters: interpreting that would take several times the
 * memory of all parameters. */
static tcc_status copy_compared(const tcc_verification *v, const tcc_graph *g, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, g));
    memset(rw.live, 0, (size_t)g->nodes.count * sizeof *rw.live);
    for (int i = 0; i < g->outputs.count; i++)
        if (is_compared(v, &g->outputs.data[i])) rw.live[g->outputs.data[i].node->id] = true;
    for (int i = g->nodes.count - 1; i >= 0; i--)
        for (int k = 0; rw.live[i] && k < g->nodes.data[i]->n_operands; k++)
            rw.live[g->nodes.data[i]->operands[k]->id] = true;
    tcc_rewrite_copy_live(&rw);
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *o = &g->outputs.data[i];
        if (is_compared(v, o)) tcc_ir_output(rw.to, o->name, rw.map[o->node->id], o->alias);
    }
    return tcc_rewrite_take(&rw, out);
}

/* Of micro-batches v->expected is needed again. */
static void drop_expected(tcc_verification *v) {
    if (v->expected) tcc__noisy_array_free(v->expected, v->reference->outputs.count);
    v->expected = NULL;
}

/* Compares the graph, on its own, with the reference. *name NULL: it means the same. */
static tcc_status compare_copy(tcc_verification *v, const tcc_graph *g, tcc_difference *worst, const char **name,
                               tcc_type *type) {
    tcc_diag *diag = &v->m->cx->diag;
    tcc_value *inputs = NULL, *values = tcc__calloc((size_t)g->outputs.count + 1, sizeof *values);
    tcc_status status = values ? tcc__verify_inputs(v, g, &inputs) : tcc_enomem(diag);
    *name = NULL;
    if (status == TCC_OK) status = tcc_graph_eval_in(v->noise.pool, g, inputs, values, diag);
    const bool evaluated = status == TCC_OK, skipped = evaluated && is_skipped(g, inputs, values);
    if (inputs) tcc__values_free(inputs, g->inputs.count); /* makes room */
    if (evaluated && !is_equal(v, g, values, skipped)) {
        if (!tcc__model_accumulates(v->m)) drop_expected(v);
        status = tcc__verify_meaning(v);
        if (status == TCC_OK) *worst = worst_of_graph(v, v->meant, g, values, skipped, name, type);
        if (status == TCC_OK && worst->ratio <= 1) *name = NULL;
    }
    tcc__values_free(values, evaluated ? g->outputs.count : 0);
    return status;
}

static tcc_status compare_graph(tcc_verification *v, const tcc_graph *g, tcc_difference *worst, const char **name,
                                tcc_type *type) {
    tcc_graph *copy;
    TCC_TRY(copy_compared(v, g, &copy));
    const tcc_status status = compare_copy(v, copy, worst, name, type);
    tcc_graph_destroy(copy);
    return status;
}

tcc_status tcc__verify_graph(tcc_verification *v, tcc_blame *out) {
    tcc_difference worst;
    const char *name;
    tcc_type type;
    if (out->text.length) return TCC_OK;
    TCC_TRY(compare_graph(v, v->twin->last->record->graph, &worst, &name, &type));
    if (!name) return TCC_OK;
    tcc_strbuf_printf(&out->text,
                      "verify: \"%s\" of the compiled graph differs from the interpreter by %.3g times what "
                      "rounding explains: ",
                      name, worst.ratio);
    tcc__difference_print(&out->text, &worst, &type);
    return TCC_OK;
}

static tcc_status check_pass(void *user, const char *pass, const tcc_graph *before, const tcc_graph *after) {
    pass_walk *w = user;
    tcc_difference worst;
    const char *name;
    tcc_type type;
    if (w->found || same_nodes(before, after)) return TCC_OK;
    tcc__verify_say(w->v, "the graph after pass %s", pass);
    TCC_TRY(compare_graph(w->v, after, &worst, &name, &type));
    if (!name) return TCC_OK;
    w->found = true;
    tcc_strbuf_free(&w->out->cause);
    tcc_strbuf_printf(&w->out->cause, "the first wrong graph comes out of pass %s", pass);
    tcc__blame_graph(w->out, before, pass);
    return TCC_OK;
}

tcc_status tcc__verify_passes(tcc_verification *v, tcc_blame *out, bool *found) {
    tcc_graph *g = NULL;
    pass_walk walk = {.v = v, .out = out};
    if (!v->meant) TCC_TRY(interpret_types(v));
    TCC_TRY(tcc__model_trace(v->m, true, v->batch, v->count, &g));
    tcc_arena memory = {0};
    tcc_grouping grouping;
    tcc_status status = tcc__model_group(v->m, g, &memory, &grouping);
    if (status == TCC_OK) status = tcc__model_selector(v->m);
    if (status == TCC_OK) {
        tcc_pass_options options = tcc__model_pass_options(v->m, true, &grouping);
        options.spec.keep_gradients = true;
        options.spec.detect_anomaly = options.spec.statistics = false;
        tcc_pass_cx cx = {.cx = v->m->cx, .diag = &v->m->cx->diag, .options = &options};
        status = tcc_pipeline_run(&cx, &(tcc_manager_options){.after = check_pass, .after_user = &walk}, &g, NULL);
    }
    tcc_arena_free(&memory);
    tcc_graph_destroy(g);
    *found = walk.found;
    return status;
}
