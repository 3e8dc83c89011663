/* SPDX-License-Identifier: MIT
 * distribute: a step whose batch lies on several ranks updates by the sums of all of them. Sums are taken in the order
 * of ranks, and the next value of a buffer is that of rank 0. So the update is that of the whole batch, and the same on
 * all ranks: train-step, which runs behind this pass, finds the gradients of the whole batch. The norm for clipping and
 * the flag of what is not finite follow from equal values, and need no exchange of their own.
 *
 * - Where ranks have several micro-batches (TCC_STEP_UPDATE), these have left sums of gradients, losses and weights in
 *   states (step_micro.c). What reads such a state reads the sum over ranks.
 * - Where each has one (TCC_STEP_RANK), the outputs of autodiff become those of all ranks. Gradients travel in the
 *   reverse order of the parameters, which is nearly the order in which the backward pass completes them; a bucket is
 *   built behind the last of its gradients. The order does not depend on shapes, so ranks with batches of other sizes
 *   call the same collectives.
 *
 * Where ranks share the optimizer's states out, each gets the sums of its own parts of gradients alone; norm and flag
 * are then made of what ranks have of them (step_clip.c, train_step.c).
 *
 * Each exchange waits for the network once at least. So values travel together in buckets, one behind the other in one
 * value; a bucket is closed when that wait is a small part of its time (ir/support/network.h). */
#include "ir/build.h"
#include "ir/collective.h"
#include "ir/support/alloc.h"
#include "ir/support/network.h"
#include "passes/micro.h"
#include "passes/pass.h"
#include "passes/step.h"

#include <string.h>

/* What travels: a state, or an output. */
typedef struct item {
    const tcc_node *of; /* of the graph that came in */
    tcc_rank_reduction how;
    tcc_dtype wide, wire; /* in which it is added to others, and travels */
    int output;           /* that gets the sum; -1: what reads the state does */
    bool weighs;
    bool scatters; /* each rank gets the sums of its own part alone (step_shard.c) */
    int bucket;
    tcc_node *all; /* the sum, once its bucket was sent */
} item;

typedef struct distribution {
    tcc_rewrite rw;
    const tcc_train_spec *spec;
    const tcc_node *weight; /* of the graph that came in: what a rank's loss weighs; NULL: losses add up */
    tcc_vec(item) items;    /* of a bucket in their order */
    tcc_vec(tcc_node *) parts;
    int n_buckets, sent;
} distribution;

/* -- What travels -- */

/* How a state becomes that of all ranks; TCC_REDUCTIONS: it is the same on all of them. */
static tcc_rank_reduction reduction_of(const tcc_node *state) {
    const char *name = state->attrs->input.name;
    if (state->attrs->input.role != TCC_ROLE_STATE) return TCC_REDUCTIONS;
    if (tcc_begins(name, TCC_NEXT_PREFIX)) return TCC_REDUCTION_FIRST;
    const bool sum = tcc_begins(name, TCC_SUM_PREFIX) || !strcmp(name, TCC_LOSS_SUM_STATE) ||
                     !strcmp(name, TCC_WEIGHT_SUM_STATE);
    return sum ? TCC_REDUCTION_SUM : TCC_REDUCTIONS;
}

/* Losses and weights are few, and need all of their digits. */
static tcc_status add_item(distribution *d, item x, bool gradient) {
    const bool low = d->spec->reduce_in_bf16 && gradient && x.wide == TCC_F32;
    x.wire = low ? TCC_BF16 : x.wide;
    x.scatters = gradient && step_scatters(d->spec);
    return tcc_vec_push(&d->items, x) ? TCC_OK : tcc_enomem(d->rw.from->diag);
}

static tcc_status list_states(distribution *d) {
    for (int i = 0; i < d->rw.from->inputs.count; i++) {
        const tcc_node *state = d->rw.from->inputs.data[i];
        const item x = {.of = state, .how = reduction_of(state), .wide = state->type.dtype, .output = -1};
        if (!d->rw.live[state->id] || x.how == TCC_REDUCTIONS) continue;
        TCC_TRY(add_item(d, x, tcc_begins(state->attrs->input.name, TCC_SUM_PREFIX)));
    }
    return TCC_OK;
}

/* The parameter that an output is the gradient of; NULL: it is none. */
static const tcc_node *parameter_of(const tcc_graph *g, const tcc_output *o) {
    static const char prefix[] = "grad.";
    if (!tcc_begins(o->name, prefix)) return NULL;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_attrs_input *input = &g->inputs.data[i]->attrs->input;
        if (input->role == TCC_ROLE_PARAM && !strcmp(input->name, o->name + sizeof prefix - 1))
            return g->inputs.data[i];
    }
    return NULL;
}

/* Loss and weight, then the gradients from the last to the first, then buffers. */
static tcc_status list_outputs(distribution *d) {
    const tcc_graph *g = d->rw.from;
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *o = &g->outputs.data[i];
        const bool weight = !strcmp(o->name, TCC_MEAN_WEIGHT_OUTPUT);
        if (weight) d->weight = o->node;
        if (!weight && strcmp(o->name, "loss") != 0) continue;
        const item x = {
            .of = o->node, .how = TCC_REDUCTION_SUM, .wide = o->node->type.dtype, .output = i, .weighs = !weight};
        TCC_TRY(add_item(d, x, false));
    }
    for (int i = g->outputs.count - 1; i >= 0; i--) {
        const tcc_output *o = &g->outputs.data[i];
        const tcc_node *parameter = parameter_of(g, o);
        if (!parameter) continue;
        const tcc_dtype wide = step_arithmetic(parameter->type.dtype);
        const item x = {.of = o->node, .how = TCC_REDUCTION_SUM, .wide = wide, .output = i, .weighs = true};
        TCC_TRY(add_item(d, x, true));
    }
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *o = &g->outputs.data[i];
        if (o->alias < 0) continue;
        const item x = {.of = o->node, .how = TCC_REDUCTION_FIRST, .wide = o->node->type.dtype, .output = i};
        TCC_TRY(add_item(d, x, false));
    }
    return TCC_OK;
}

/* -- Buckets -- */

/* What a rank has of an item that it gets. */
static int64_t elements_of(const distribution *d, const item *x) {
    return x->scatters ? tcc__step_part(d->spec, &x->of->type) : tcc_type_numel(&x->of->type);
}

/* Those that travel alike, in their order. */
static void fill_alike(distribution *d, tcc_rank_reduction how, tcc_dtype wire, bool scatters, double full) {
    double bytes = 0;
    bool open = false;
    for (int i = 0; i < d->items.count; i++) {
        item *x = &d->items.data[i];
        if (x->how != how || x->wire != wire || x->scatters != scatters) continue;
        x->bucket = d->n_buckets;
        bytes += (double)(elements_of(d, x) * (scatters ? d->spec->ranks : 1) * tcc_dtype_bytes(wire));
        if (!(open = bytes < full)) d->n_buckets++, bytes = 0;
    }
    if (open) d->n_buckets++;
}

static void fill_buckets(distribution *d) {
    const double full = tcc_network_bucket_bytes(d->spec->network ? d->spec->network : tcc_network_local,
                                                 d->spec->ranks);
    for (int how = 0; how < TCC_REDUCTIONS; how++)
        for (int dtype = 0; dtype < TCC_DTYPE_COUNT; dtype++)
            for (int scatters = 0; scatters < 2; scatters++)
                fill_alike(d, (tcc_rank_reduction)how, (tcc_dtype)dtype, scatters, full);
}

/* What the rank brings of an item: flat, or a row for each rank. */
static tcc_node *bring(distribution *d, const item *x) {
    tcc_graph *g = d->rw.to;
    tcc_node *value = tcc_ir_cast(g, d->rw.map[x->of->id], x->wide);
    if (x->weighs && d->weight) value = tcc_micro_weigh(g, d->rw.map[d->weight->id], value);
    const int64_t count = elements_of(d, x);
    value = x->scatters ? tcc__step_rows(g, value, d->spec->ranks, count) : tcc_ir_reshape(g, value, 1, &count);
    return tcc_ir_cast(g, value, x->wire);
}

/* An item's sum, from element *at of the bucket's on. */
static tcc_node *take(distribution *d, const item *x, tcc_node *all, int64_t *at) {
    const int64_t start = *at, limit = start + elements_of(d, x), stride = 1;
    *at = limit;
    tcc_node *part = d->parts.count > 1 ? tcc_ir_slice(d->rw.to, all, &start, &limit, &stride) : all;
    if (!x->scatters) part = tcc_ir_reshape(d->rw.to, part, x->of->type.rank, x->of->type.dims);
    return tcc_ir_cast(d->rw.to, part, x->wide);
}

static void set_origin(distribution *d, const item *x) {
    if (x->output < 0) tcc_ir_set_origin(d->rw.to, x->of);
    else tcc_ir_set_backward(d->rw.to, x->of->loc);
}

/* The sums of what d->parts are. */
static tcc_node *reduce_parts(distribution *d, tcc_rank_reduction how, bool scatters) {
    tcc_graph *g = d->rw.to;
    tcc_node *x = tcc__step_concat(g, d->parts.data, d->parts.count, scatters);
    if (!x || !scatters) return tcc_ir_collective(g, TCC_OP_ALL_REDUCE, x, how, d->spec->ranks);
    const int64_t count = tcc_type_numel(&x->type);
    x = tcc_ir_reshape(g, x, 1, &count);
    return tcc_ir_collective(g, TCC_OP_REDUCE_SCATTER, x, how, d->spec->ranks);
}

static tcc_status send(distribution *d, int bucket) {
    tcc_graph *g = d->rw.to;
    const item *first = NULL;
    d->parts.count = 0;
    for (int i = 0; i < d->items.count; i++) {
        const item *x = &d->items.data[i];
        if (x->bucket != bucket) continue;
        if (!first) first = x;
        set_origin(d, x);
        tcc_node *part = bring(d, x);
        if (!part) return g->diag->status;
        if (!tcc_vec_push(&d->parts, part)) return tcc_enomem(g->diag);
    }
    tcc_node *all = reduce_parts(d, first->how, first->scatters);
    int64_t at = 0;
    for (int i = 0; i < d->items.count && all; i++) {
        item *x = &d->items.data[i];
        if (x->bucket != bucket) continue;
        set_origin(d, x);
        x->all = take(d, x, all, &at);
    }
    return g->diag->status;
}

/* Sends the next buckets whose items are there. */
static tcc_status send_ready(distribution *d) {
    for (; d->sent < d->n_buckets; d->sent++) {
        bool ready = !d->weight || d->rw.map[d->weight->id];
        for (int i = 0; i < d->items.count && ready; i++)
            ready = d->items.data[i].bucket != d->sent || d->rw.map[d->items.data[i].of->id];
        if (!ready) return TCC_OK;
        TCC_TRY(send(d, d->sent));
    }
    return TCC_OK;
}

/* -- Both kinds -- */

static const item *item_named(const distribution *d, const char *prefix, const char *name) {
    for (int i = 0; i < d->items.count; i++) {
        const tcc_node *of = d->items.data[i].of;
        const char *state = of->op == TCC_OP_INPUT ? of->attrs->input.name : "";
        if (tcc_begins(state, prefix) && !strcmp(state + strlen(prefix), name)) return &d->items.data[i];
    }
    return NULL;
}

static tcc_node *find_input(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, name)) return g->inputs.data[i];
    return NULL;
}

/* Gradients become those of the sums that this rank has of them. */
static tcc_status scatter_gradients(const distribution *d, tcc_graph *g, tcc_node *weight) {
    tcc_node *scale = find_input(g, TCC_SCALE_STATE);
    for (int i = 0; i < g->outputs.count; i++) {
        tcc_output *o = &g->outputs.data[i];
        const tcc_node *parameter = parameter_of(g, o);
        const item *x = parameter ? item_named(d, TCC_SUM_PREFIX, parameter->attrs->input.name) : NULL;
        if (!x) continue;
        tcc_ir_set_backward(g, parameter->loc);
        if (!(o->node = tcc_micro_gradient(g, x->all, weight, scale))) return g->diag->status;
    }
    return TCC_OK;
}

static tcc_status distribute_states(distribution *d, tcc_graph **out) {
    TCC_TRY(send_ready(d));
    for (int i = 0; i < d->items.count; i++)
        if (!d->items.data[i].scatters) d->rw.map[d->items.data[i].of->id] = d->items.data[i].all;
    const item *weight = item_named(d, "", TCC_WEIGHT_SUM_STATE);
    tcc_rewrite_copy_live(&d->rw);
    TCC_TRY(tcc_rewrite_end(&d->rw, out));
    if (step_scatters(d->spec)) TCC_TRY(scatter_gradients(d, *out, weight ? weight->all : NULL));
    return weight ? tcc_ir_output(*out, TCC_WEIGHT_SUM_STATE, weight->all, -1) : TCC_OK;
}

/* An output as the step has it, from its sum. */
static tcc_node *finish(tcc_graph *g, const item *x, tcc_node *weight) {
    tcc_output *o = &g->outputs.data[x->output];
    tcc_ir_set_backward(g, x->of->loc);
    if (o->alias >= 0) return x->all;
    if (!strcmp(o->name, "loss")) return weight ? tcc_ir_binary(g, TCC_OP_DIV, x->all, weight) : x->all;
    if (!x->weighs) o->name = TCC_WEIGHT_SUM_STATE;
    if (!x->weighs) return x->all;
    return tcc_micro_gradient(g, x->all, weight, find_input(g, TCC_SCALE_STATE));
}

static tcc_status distribute_outputs(distribution *d, tcc_graph **out) {
    tcc_rewrite *rw = &d->rw;
    for (int id = 0; id < rw->from->nodes.count; id++) {
        if (!rw->live[id]) continue;
        const tcc_node *n = rw->from->nodes.data[id];
        if (tcc_op_is_collective(n->op)) rw->map[id] = tcc_rewrite_collective(rw, n);
        else tcc_rewrite_copy(rw, n);
        if (rw->map[id]) TCC_TRY(send_ready(d));
    }
    tcc_node *weight = NULL;
    for (int i = 0; i < d->items.count && d->weight; i++)
        if (!strcmp(rw->from->outputs.data[d->items.data[i].output].name, TCC_MEAN_WEIGHT_OUTPUT))
            weight = d->items.data[i].all;
    TCC_TRY(tcc_rewrite_end(rw, out));
    for (int i = 0; i < d->items.count; i++) {
        const item *x = &d->items.data[i];
        tcc_node *value = finish(*out, x, weight);
        if (!value) return (*out)->diag->status;
        (*out)->outputs.data[x->output].node = value;
    }
    return TCC_OK;
}

tcc_status tcc_pass_distribute(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    distribution d = {.spec = &cx->options->spec};
    const bool outputs = d.spec->part == TCC_STEP_RANK;
    tcc_graph *made = NULL;
    TCC_TRY(tcc_rewrite_begin(&d.rw, in));
    tcc_status status = outputs ? list_outputs(&d) : list_states(&d);
    if (status == TCC_OK) {
        fill_buckets(&d);
        status = outputs ? distribute_outputs(&d, &made) : distribute_states(&d, &made);
    }
    tcc_vec_free(&d.items);
    tcc_vec_free(&d.parts);
    if (status == TCC_OK) {
        *out = made;
        return TCC_OK;
    }
    tcc_graph_destroy(made);
    if (d.rw.to) tcc_rewrite_abort(&d.rw);
    return status;
}
