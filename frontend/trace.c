/* SPDX-License-Identifier: MIT
 * Tracing: the state behind a tcc_trace, names and scopes, inputs and outputs. */
#include "trace.h"

#include "ir/support/train_step.h"

#include <stdatomic.h>
#include <stdio.h>

/* The trace whose model function this thread is in. */
static _Thread_local tcc_trace *running;

tcc_status tcc_trace_begin(tcc_trace *t, const char *name, tcc_store *store, bool training, const tcc_array *batch,
                           int n_batch, tcc_diag *diag) {
    static _Atomic uint64_t last_id;
    *t = (tcc_trace){.store = store, .training = training, .batch = batch, .n_batch = n_batch};
    t->graph = tcc_graph_create(name, diag);
    if (!t->graph) return tcc_enomem(diag);
    t->id = ++last_id;
    t->outer = running;
    running = t;
    return TCC_OK;
}

tcc_status tcc_trace_end(tcc_trace *t, tcc_graph **out) {
    tcc_diag *diag = t->graph->diag;
    running = t->outer;
    if (t->scopes.count)
        tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "%d tcc_scope without tcc_scope_end; the innermost is \"%s\"",
                  t->scopes.count, t->prefix.text);
    if (t->full_depth)
        tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "%d tcc_full_precision without tcc_full_precision_end", t->full_depth);
    if (t->segment_depth)
        tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "%d tcc_checkpoint_segment without tcc_checkpoint_segment_end",
                  t->segment_depth);
    if (t->types.count)
        tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "%d tcc_param_type without tcc_param_type_end", t->types.count);
    tcc_strbuf_free(&t->prefix);
    tcc_vec_free(&t->types);
    tcc_vec_free(&t->scopes);
    tcc_vec_free(&t->stored);
    tcc_vec_free(&t->draws);
    if (diag->status != TCC_OK) {
        tcc_graph_destroy(t->graph);
        t->graph = NULL;
        return diag->status;
    }
    *out = t->graph;
    t->graph = NULL;
    return TCC_OK;
}

tcc_tensor tcc_trace_error(tcc_trace *t, tcc_status status, tcc_loc at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tcc_verror(t->graph->diag, status, at, format, args);
    va_end(args);
    return tcc_trace_wrap(t, NULL);
}

/* -- Stale handles -- */

tcc_tensor tcc_trace_poison(void) { return running ? tcc_trace_wrap(running, NULL) : (tcc_tensor){0}; }

bool tcc_trace_takes_size(const char *op, size_t size, size_t least, tcc_loc at) {
    if (!running || !size || size >= least) return running;
    tcc_trace_error(
        running, TCC_EINVAL, at,
        "%s: size %zu of the options must be sizeof the struct, at least %zu, or 0 for that of this version", op, size,
        least);
    return false;
}

bool tcc_trace_takes_list(tcc_trace *t, const char *op, const char *what, int count, const void *list, tcc_loc at) {
    if (list || !count) return true;
    tcc_trace_error(t, TCC_EINVAL, at, "%s: the list of %d %s is NULL", op, count, what);
    return false;
}

bool tcc_trace_takes_name(const char *op, const char *name, tcc_loc at) {
    if (name && *name) return true;
    tcc_trace_error(running, TCC_EINVAL, at, "%s: the name is %s", op, name ? "empty" : "NULL");
    return false;
}

bool tcc_trace_is_open(const tcc_trace *t, const char *op, tcc_loc at) {
    if (t && t == running) return true;
    if (running)
        tcc_trace_error(
            running, TCC_EINVAL, at,
            "%s: the trace is not the one that runs; a trace is valid within the call of the model function "
            "that it was given to",
            op);
    return false;
}

bool tcc_trace_takes(const char *op, tcc_loc at, int count, const tcc_tensor *xs) {
    bool poisoned = !running;
    for (int i = 0; i < count && running; i++) {
        const bool own = xs[i].trace == running && xs[i].trace_id == running->id;
        if (own && xs[i].node) continue;
        if (!own && !xs[i].trace && !xs[i].node)
            tcc_trace_error(running, TCC_EINVAL, at,
                            "%s: operand %d is no tensor: all zero, as a variable is that "
                            "nothing was assigned to",
                            op, i + 1);
        else if (!own)
            tcc_trace_error(running, TCC_EINVAL, at,
                            "%s: operand %d belongs to another trace; a tensor is valid within the call of the model "
                            "function that made it, and is to be made again in the next",
                            op, i + 1);
        poisoned = true;
    }
    return !poisoned;
}

tcc_tensor tcc_fail_at(tcc_trace *t, tcc_loc at, const char *format, ...) {
    if (!tcc_trace_is_open(t, "fail", at)) return tcc_trace_poison();
    va_list args;
    va_start(args, format);
    tcc_verror(t->graph->diag, TCC_EINVAL, at, format, args);
    va_end(args);
    return tcc_trace_wrap(t, NULL);
}

bool tcc_is_training(const tcc_trace *t) { return tcc_trace_is_open(t, "is_training", TCC_NOWHERE) && t->training; }

/* -- Names -- */

void tcc_scope(tcc_trace *t, const char *format, ...) {
    char name[256];
    int length = 0;
    if (!tcc_trace_is_open(t, "scope", TCC_NOWHERE)) return;
    if (format) {
        va_list args;
        va_start(args, format);
        length = vsnprintf(name, sizeof name, format, args);
        va_end(args);
    }
    if (!format || length < 0 || length >= (int)sizeof name) {
        if (!format) tcc_error(t->graph->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_scope: the format is NULL");
        else
            tcc_error(t->graph->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_scope: a name of %d bytes; it takes 1 to %d",
                      length, (int)sizeof name - 1);
        *name = '\0';
    }
    if (!tcc_vec_push(&t->scopes, t->prefix.length)) {
        tcc_enomem(t->graph->diag);
        return;
    }
    tcc_strbuf_printf(&t->prefix, "%s.", name);
    if (t->prefix.failed) tcc_enomem(t->graph->diag);
}

void tcc_scope_end(tcc_trace *t) {
    if (!tcc_trace_is_open(t, "scope_end", TCC_NOWHERE)) return;
    if (!t->scopes.count) {
        tcc_error(t->graph->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_scope_end without tcc_scope");
        return;
    }
    t->prefix.length = t->scopes.data[--t->scopes.count];
    if (t->prefix.text) t->prefix.text[t->prefix.length] = '\0';
}

void tcc_trace_resume(tcc_trace *t, tcc_loc at) {
    tcc_ir_set_segment(t->graph, t->segment_depth ? t->segments : 0);
    tcc_ir_set_loc(t->graph, at);
    tcc_ir_set_marks(t->graph, t->full_depth > 0 ? TCC_MARK_FULL : 0);
}

static void enter_full(tcc_trace *t, int change) {
    t->full_depth += change;
    tcc_trace_resume(t, TCC_NOWHERE);
}

void tcc_full_precision(tcc_trace *t) {
    if (tcc_trace_is_open(t, "full_precision", TCC_NOWHERE)) enter_full(t, 1);
}

void tcc_full_precision_end(tcc_trace *t) {
    if (!tcc_trace_is_open(t, "full_precision_end", TCC_NOWHERE)) return;
    if (t->full_depth) enter_full(t, -1);
    else tcc_error(t->graph->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_full_precision_end without tcc_full_precision");
}

void tcc_checkpoint_segment(tcc_trace *t) {
    if (!tcc_trace_is_open(t, "checkpoint_segment", TCC_NOWHERE)) return;
    if (!t->segment_depth++) t->segments++;
    tcc_trace_resume(t, TCC_NOWHERE);
}

void tcc_checkpoint_segment_end(tcc_trace *t) {
    if (!tcc_trace_is_open(t, "checkpoint_segment_end", TCC_NOWHERE)) return;
    if (!t->segment_depth)
        tcc_error(t->graph->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_checkpoint_segment_end without tcc_checkpoint_segment");
    else t->segment_depth--;
    tcc_trace_resume(t, TCC_NOWHERE);
}

void tcc_param_type(tcc_trace *t, tcc_dtype dtype) {
    if (!tcc_trace_is_open(t, "param_type", TCC_NOWHERE)) return;
    if (!tcc_vec_push(&t->types, dtype)) tcc_enomem(t->graph->diag);
    else if ((unsigned)dtype >= TCC_DTYPE_COUNT)
        tcc_error(t->graph->diag, TCC_EDTYPE, TCC_NOWHERE, "tcc_param_type: there is no element type %d", (int)dtype);
    else if (!tcc_dtype_is_float(dtype))
        tcc_error(t->graph->diag, TCC_EDTYPE, TCC_NOWHERE,
                  "tcc_param_type: parameters are of f16, bf16, f32 or f64, not of %s", tcc_dtype_text(dtype));
}

void tcc_param_type_end(tcc_trace *t) {
    if (!tcc_trace_is_open(t, "param_type_end", TCC_NOWHERE)) return;
    if (t->types.count) t->types.count--;
    else tcc_error(t->graph->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_param_type_end without tcc_param_type");
}

const char *tcc_trace_name(tcc_trace *t, const char *name, const char *suffix) {
    const char *full = tcc_arena_printf(&t->graph->arena, "%s%s%s", t->prefix.text ? t->prefix.text : "", name, suffix);
    if (!full) tcc_enomem(t->graph->diag);
    return full;
}

tcc_loc tcc_scope_place(tcc_trace *t, const char *model) {
    if (!tcc_trace_is_open(t, "scope_place", TCC_NOWHERE)) return TCC_NOWHERE;
    const int length = t->prefix.length ? (int)t->prefix.length - 1 : 0; /* without the dot at its end */
    const char *path = tcc_arena_printf(&t->graph->arena, "%s%s%.*s", model, length ? "." : "", length,
                                        length ? t->prefix.text : "");
    if (!path) tcc_enomem(t->graph->diag);
    return (tcc_loc){.file = path};
}

/* -- Inputs and outputs -- */

static tcc_tensor missing_input(tcc_trace *t, const char *name, tcc_loc at) {
    tcc_strbuf given = {0};
    for (int i = 0; i < t->n_batch; i++) tcc_strbuf_printf(&given, i ? ", \"%s\"" : "\"%s\"", t->batch[i].name);
    tcc_tensor poison = tcc_trace_error(t, TCC_ENOTFOUND, at, "no batch array is named \"%s\"; given: %s", name,
                                        given.length ? given.text : "none");
    tcc_strbuf_free(&given);
    return poison;
}

tcc_tensor tcc_input_at(tcc_trace *t, const char *name, tcc_loc at) {
    if (!tcc_trace_is_open(t, "input", at) || !tcc_trace_takes_name("input", name, at)) return tcc_trace_poison();
    for (int i = 0; i < t->graph->inputs.count; i++) { /* asked for before */
        tcc_node *n = t->graph->inputs.data[i];
        if (n->attrs->input.role == TCC_ROLE_BATCH && !strcmp(n->attrs->input.name, name)) return tcc_trace_wrap(t, n);
    }
    for (int i = 0; i < t->n_batch; i++) {
        const tcc_array *a = &t->batch[i];
        if (strcmp(a->name, name)) continue;
        tcc_type type = {.dtype = a->dtype, .rank = a->rank};
        for (int d = 0; d < a->rank; d++) type.dims[d] = a->dims[d];
        return tcc_trace_wrap(t, tcc_ir_input(t->graph, name, TCC_ROLE_BATCH, &type, at));
    }
    return missing_input(t, name, at);
}

bool tcc_has_input(const tcc_trace *t, const char *name) {
    if (!tcc_trace_is_open(t, "has_input", TCC_NOWHERE) || !tcc_trace_takes_name("has_input", name, TCC_NOWHERE))
        return false;
    for (int i = 0; i < t->n_batch; i++)
        if (!strcmp(t->batch[i].name, name)) return true;
    return false;
}

void tcc_output_at(tcc_trace *t, const char *name, tcc_tensor x, tcc_loc at) {
    const char *op = name && !strcmp(name, "loss") ? "loss" : "output";
    if (!tcc_trace_is_open(t, op, at) || !tcc_trace_takes_name(op, name, at) || !tcc_trace_takes(op, at, 1, &x)) return;
    if (tcc_name_is_reserved(name)) {
        tcc_trace_error(t, TCC_EINVAL, at, "output \"%s\": names that begin with '@' are the library's own", name);
        return;
    }
    for (int i = 0; i < t->graph->outputs.count; i++)
        if (!strcmp(t->graph->outputs.data[i].name, name)) {
            tcc_trace_error(t, TCC_EINVAL, at, "output \"%s\" is named twice", name);
            tcc_note(t->graph->diag, t->graph->outputs.data[i].node->loc, "the first was made here");
            return;
        }
    const bool weight = !strcmp(name, TCC_LOSS_WEIGHT_OUTPUT);
    if ((weight || !strcmp(name, "loss")) && (x.node->type.rank || x.node->type.dtype != TCC_F32)) {
        tcc_trace_error(t, TCC_ESHAPE, at, "the loss%s must be a scalar f32[], not %s; reduce it with %s",
                        weight ? "'s weight" : "", tcc_type_text(&x.node->type), weight ? "tcc_sum" : "tcc_mean");
        return;
    }
    tcc_ir_output(t->graph, name, x.node, -1);
}

tcc_node *tcc_trace_rng_key(tcc_trace *t) {
    if (!t->rng_key) {
        tcc_type type = {.dtype = TCC_I64, .rank = 1, .dims = {2}};
        t->rng_key = tcc_ir_input(t->graph, "rng", TCC_ROLE_RNG, &type, TCC_NOWHERE);
    }
    return t->rng_key;
}
