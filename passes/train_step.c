/* SPDX-License-Identifier: MIT
 * The train-step pass: gradients become parameter updates. Takes the graph that autodiff made (outputs `loss`,
 * "grad.NAME", and others) and adds clipping (step_clip.c), the optimizer and its state (step_optimizer.c). All
 * arithmetic is in float32 (float64 for float64 parameters), whatever the parameter's type.
 *
 * Where a batch is taken in micro-batches, the pass makes one of two parts (train_step.h): sums of gradients
 * (step_micro.c), or the update from such sums. */
#include "ir/collective.h"
#include "passes/step.h"
#include "passes/step_statistics.h"

#include <string.h>

/* -- Scaling of the loss -- */

static tcc_node *find_state(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, name)) return g->inputs.data[i];
    return NULL;
}

static bool is_widened(const tcc_node *n) {
    return n->op == TCC_OP_CAST && n->type.dtype == TCC_F32 && tcc_dtype_is_narrow(n->operands[0]->type.dtype);
}

/* Where a gradient is one of a low type, divided by the scale of the loss in float32: the one of the low type, which
 * the division cannot make infinite (is_divisor). So what looks at it need not have what the update reads. */
static tcc_node *before_division(const tcc_step_builder *b, tcc_node *g) {
    for (int k = 0; b->scale && g->op == TCC_OP_MUL && k < 2; k++) {
        const tcc_node *factor = g->operands[!k];
        if (factor->op == TCC_OP_BROADCAST) factor = factor->operands[0];
        const bool divides = factor->op == TCC_OP_DIV && factor->operands[1] == b->scale;
        if (divides && is_widened(g->operands[k])) return g->operands[k]->operands[0];
    }
    return g;
}

/* Whether the scale is so large that the largest number of a low type, divided by it, is finite. */
static tcc_node *is_divisor(tcc_step_builder *b) { return tcc_ir_binary_c(b->g, TCC_OP_GE, b->scale, 0x1p-110); }

/* Whether all trained gradients are finite: one flag for the step. */
static tcc_node *all_finite(tcc_step_builder *b) {
    tcc_node *worst = NULL;
    bool divides = false;
    for (int i = 0; i < b->trained.count; i++) {
        tcc_node *g = b->trained.data[i].g;
        if (!g) return NULL;
        g = before_division(b, g);
        divides |= g != b->trained.data[i].g;
        tcc_type type = g->type;
        type.dtype = TCC_F32;
        tcc_node *zero = tcc_ir_splat(b->g, &type, 0), *one = tcc_ir_splat(b->g, &type, 1);
        tcc_node *bad = tcc_ir_select(b->g, tcc_ir_unary(b->g, TCC_OP_ISFINITE, g), zero, one);
        tcc_dims all = tcc_ir_axes_from(0, g->type.rank);
        if (all.count) bad = tcc_ir_reduce(b->g, TCC_OP_REDUCE_MAX, bad, &all);
        worst = worst ? tcc_ir_binary(b->g, TCC_OP_MAX, worst, bad) : bad;
    }
    if (step_scatters(b->spec)) /* which has looked at this rank's parts */
        worst = tcc_ir_collective(b->g, TCC_OP_ALL_REDUCE, worst, TCC_REDUCTION_MAX, b->spec->ranks);
    tcc_node *finite = tcc_ir_binary_c(b->g, TCC_OP_EQ, worst, 0);
    return divides ? tcc_ir_binary(b->g, TCC_OP_AND, finite, is_divisor(b)) : finite;
}

/* A state of the scaler and, as output of its name, its next value, which no skip of its own holds back. */
static tcc_status add_scaler_state(tcc_step_builder *b, tcc_node *old, tcc_node *next) {
    int input = 0;
    while (b->g->inputs.data[input] != old) input++;
    if (b->valid) next = tcc_ir_select(b->g, b->valid, next, old);
    return tcc_ir_output(b->g, old->attrs->input.name, next, input);
}

/* torch.amp.GradScaler.update: backoff at a skip; growth after `interval` updates in a row, unless it overflows. */
static tcc_status update_scale(tcc_step_builder *b) {
    const tcc_type scalar = {.dtype = TCC_I64};
    const int groups = b->spec->n_groups;
    tcc_node *steps = tcc_ir_state(b->g, TCC_SCALE_STEPS_STATE, &scalar, 0, TCC_NOWHERE);
    tcc_node *skipped = tcc_ir_state(b->g, TCC_SKIPPED_STATE, &scalar, 0, TCC_NOWHERE);
    if (!steps || !skipped) return b->g->diag->status;
    tcc_node *next = tcc_ir_binary_c(b->g, TCC_OP_ADD, steps, 1), *zero = tcc_ir_splat_like(b->g, steps, 0);
    tcc_node *interval = tcc_ir_cast(b->g, step_hyper(b, TCC_HYPER_SCALE(groups, TCC_SCALE_INTERVAL), b->scale),
                                     TCC_I64);
    tcc_node *due = tcc_ir_binary(b->g, TCC_OP_GE, next, interval);
    tcc_node *grown = step_mul(b, b->scale, step_hyper(b, TCC_HYPER_SCALE(groups, TCC_SCALE_GROWTH), b->scale));
    grown = tcc_ir_select(b->g, tcc_ir_unary(b->g, TCC_OP_ISFINITE, grown), grown, b->scale);
    grown = tcc_ir_select(b->g, due, grown, b->scale);
    tcc_node *less = step_mul(b, b->scale, step_hyper(b, TCC_HYPER_SCALE(groups, TCC_SCALE_BACKOFF), b->scale));
    TCC_TRY(add_scaler_state(b, b->scale, tcc_ir_select(b->g, b->good, grown, less)));
    tcc_node *counted = tcc_ir_select(b->g, due, zero, next);
    TCC_TRY(add_scaler_state(b, steps, tcc_ir_select(b->g, b->good, counted, zero)));
    tcc_node *more = tcc_ir_binary_c(b->g, TCC_OP_ADD, skipped, 1);
    return add_scaler_state(b, skipped, tcc_ir_select(b->g, b->good, skipped, more));
}

/* -- Outputs -- */

/* Where a search for a parameter goes on. */
typedef struct cursor {
    int input, parameter;
} cursor;

/* The parameter that output `name` is the gradient of: its index in g->inputs, or -1, and its number among parameters.
 * Gradients come in the order of inputs, so each search begins behind what the last one found. */
static int parameter_of(const tcc_graph *g, const char *name, cursor *next, int *parameter) {
    static const char prefix[] = "grad.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    for (int tried = 0; tried < g->inputs.count; tried++) {
        if (next->input == g->inputs.count) *next = (cursor){0};
        const int i = next->input++;
        const tcc_attrs_input *input = &g->inputs.data[i]->attrs->input;
        if (input->role != TCC_ROLE_PARAM) continue;
        *parameter = next->parameter++;
        if (!strcmp(input->name, name + sizeof prefix - 1)) return i;
    }
    return -1;
}

/* An output that is for this pass alone (find_said). */
static bool is_said(const tcc_output *o) {
    return o->alias < 0 && (!strcmp(o->name, TCC_COUNTS_STATE) || !strcmp(o->name, TCC_WEIGHT_SUM_STATE));
}

/* Takes the gradients out of the outputs; loss first, then what else there was. */
static tcc_status sort_outputs(tcc_step_builder *b) {
    const tcc_train_spec *spec = b->spec;
    bool has_loss = false;
    cursor next = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < b->old_outputs.count; i++) {
            const tcc_output *o = &b->old_outputs.data[i];
            if (is_said(o)) continue;
            int parameter = 0;
            const int input = parameter_of(b->g, o->name, &next, &parameter);
            bool is_loss = !strcmp(o->name, "loss");
            if (input < 0 && is_loss == (pass == 0)) TCC_TRY(tcc_ir_output(b->g, o->name, o->node, o->alias));
            has_loss |= is_loss;
            if (input < 0 || pass == 0 || spec->no_update) continue;
            tcc_node *p = b->g->inputs.data[input];
            tcc_dtype dtype = step_arithmetic(p->type.dtype);
            tcc_trained t = {.input = input,
                             .group = spec->group_of ? spec->group_of[parameter] : 0,
                             .p = tcc_ir_cast(b->g, p, dtype),
                             .g = tcc_ir_cast(b->g, o->node, dtype)};
            if (t.group < 0 || t.group >= spec->n_groups)
                return tcc_error(b->cx->diag, TCC_EINVAL, p->loc, "parameter '%s' is in group %d of %d",
                                 p->attrs->input.name, t.group, spec->n_groups);
            t.whole = t.g;
            if (spec->rates_of) t.rates = spec->rates_of[t.group];
            if (!tcc_vec_push(&b->trained, t)) return tcc_enomem(b->cx->diag);
        }
    }
    if (has_loss) return TCC_OK;
    return tcc_error(b->cx->diag, TCC_EINVAL, TCC_NOWHERE, "the graph '%s' has no output 'loss'", b->g->name);
}

static tcc_node *loss_of(const tcc_step_builder *b) {
    int i = 0;
    while (strcmp(b->g->outputs.data[i].name, "loss")) i++;
    return b->g->outputs.data[i].node;
}

/* Buffers that the model updates stay as they were in a skipped step: what overflows in forward reaches them too. */
static void hold_buffers(tcc_step_builder *b) {
    for (int i = 0; i < b->g->outputs.count; i++) {
        tcc_output *o = &b->g->outputs.data[i];
        if (o->alias >= 0) o->node = step_unless_skipped(b, o->node, b->g->inputs.data[o->alias]);
    }
}

static tcc_node *and_also(tcc_step_builder *b, tcc_node *x, tcc_node *y) {
    return x && y ? tcc_ir_binary(b->g, TCC_OP_AND, x, y) : x ? x : y;
}

/* What a state of that name says in this step: where ranks have added it up, an output of the graph that came in. */
static tcc_node *find_said(const tcc_step_builder *b, const char *name) {
    for (int i = 0; i < b->old_outputs.count; i++)
        if (!strcmp(b->old_outputs.data[i].name, name)) return b->old_outputs.data[i].node;
    return find_state(b->g, name);
}

/* Not: the loss is NaN, and one of what it is divided by is 0. NULL: it is divided by nothing of that kind. */
static tcc_node *has_learned(tcc_step_builder *b) {
    tcc_node *counts = find_said(b, TCC_COUNTS_STATE), *loss = loss_of(b);
    if (!counts) counts = find_said(b, TCC_WEIGHT_SUM_STATE);
    if (!counts) return NULL;
    tcc_node *is_number = tcc_ir_binary(b->g, TCC_OP_EQ, loss, loss);
    return tcc_ir_binary(b->g, TCC_OP_OR, is_number, tcc_ir_binary_c(b->g, TCC_OP_NE, counts, 0));
}

/* Decides which steps are skipped: those that overflow where the loss is scaled, all anomalies where they are looked
 * for, and those that have nothing to learn from. Nothing changes in such a step, but for the scaler's states in one
 * that overflows. */
static tcc_status find_skips(tcc_step_builder *b) {
    const bool scaled = find_state(b->g, TCC_SCALE_STATE), detects = b->spec->detect_anomaly;
    tcc_node *loss = detects ? tcc_ir_unary(b->g, TCC_OP_ISFINITE, loss_of(b)) : NULL;
    tcc_node *gradients = b->trained.count && (scaled || detects) ? all_finite(b) : NULL;
    b->valid = and_also(b, loss, has_learned(b));
    b->good = and_also(b, gradients, b->valid);
    if (b->g->diag->status || !b->good) return b->g->diag->status;
    hold_buffers(b);
    if (!detects) return TCC_OK;
    const tcc_type scalar = {.dtype = TCC_F32};
    tcc_node *zero = tcc_ir_splat(b->g, &scalar, 0), *one = tcc_ir_splat(b->g, &scalar, 1);
    tcc_node *usual = scaled ? loss : and_also(b, gradients, loss);
    return tcc_ir_output(b->g, TCC_ANOMALY_OUTPUT, tcc_ir_select(b->g, usual, zero, one), -1);
}

/* -- The pass -- */

static tcc_status add_statistics(tcc_step_builder *b) {
    const int count = b->spec->statistics ? b->g->outputs.count : 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < b->trained.count; k++) {
            const tcc_trained *t = &b->trained.data[k];
            const tcc_output update = b->g->outputs.data[i];
            if (update.alias != t->input) continue;
            tcc_ir_set_backward(b->g, b->g->inputs.data[t->input]->loc);
            TCC_TRY(tcc_step_parameter_statistics(b->g, &update, t->whole));
        }
    return TCC_OK;
}

static tcc_status add_micro_step(tcc_step_builder *b) {
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    TCC_TRY(sort_outputs(b));
    if (b->spec->statistics) TCC_TRY(tcc_step_module_statistics(b->g));
    return tcc__step_add_sums(b, loss_of(b));
}

static tcc_status add_step(tcc_step_builder *b) {
    const tcc_train_spec *spec = b->spec;
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    TCC_TRY(sort_outputs(b));
    b->n_buffers = b->g->outputs.count;
    if (spec->statistics && spec->part != TCC_STEP_UPDATE) TCC_TRY(tcc_step_module_statistics(b->g));
    if (b->trained.count > 0) {
        b->scale = find_state(b->g, TCC_SCALE_STATE);
        tcc_type type = {TCC_F32, 1, {TCC_HYPER_SCALE(spec->n_groups, b->scale ? TCC_SCALE_COUNT : 0)}};
        if (spec->ema) type.dims[0] = TCC_HYPER_SIZE(spec->n_groups);
        if (spec->n_rates > 1) type.dims[0] = TCC_HYPER_LENGTH(spec->n_groups, spec->n_rates);
        b->hyper = tcc_ir_input(b->g, "hyper", TCC_ROLE_HYPER, &type, TCC_NOWHERE);
        TCC_TRY(find_skips(b));
        if (spec->clip_norm) TCC_TRY(tcc__step_clip(b));
        if (step_shards(b)) TCC_TRY(tcc__step_take_parts(b));
        TCC_TRY(tcc__step_add_states(b));
    } else {
        TCC_TRY(find_skips(b));
    }
    for (int i = 0; i < b->trained.count; i++) TCC_TRY(tcc__step_update(b, &b->trained.data[i]));
    if (step_shards(b)) TCC_TRY(tcc__step_gather_parts(b));
    for (int i = 0; i < b->trained.count && step_shards(b); i++)
        TCC_TRY(tcc__step_update_whole(b, &b->trained.data[i]));
    TCC_TRY(tcc__step_average_buffers(b));
    if (b->count) TCC_TRY(step_output(b, b->count_input, b->count));
    if (b->scale) TCC_TRY(update_scale(b));
    cursor next = {0};
    for (int i = 0; spec->keep_gradients && i < b->old_outputs.count; i++) {
        const tcc_output *o = &b->old_outputs.data[i];
        int parameter;
        if (parameter_of(b->g, o->name, &next, &parameter) >= 0) TCC_TRY(tcc_ir_output(b->g, o->name, o->node, -1));
    }
    return add_statistics(b);
}

tcc_status tcc_pass_train_step(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const tcc_train_spec *spec = &cx->options->spec;
    if (spec->n_groups < 1)
        return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE, "%d parameter groups, at least 1 is needed",
                         spec->n_groups);
    tcc_step_builder b = {.cx = cx, .spec = spec};
    /* Copies are made now of what ranks are to have as copies alone, which the update depends on. */
    const bool low = cx->options->amp && spec->part == TCC_STEP_RANK && step_scatters(spec);
    TCC_TRY(low ? tcc__low_copies_alone(in, &b.g) : tcc_graph_copy_live(in, &b.g));
    tcc_status status = TCC_OK;
    for (int i = 0; i < b.g->outputs.count && status == TCC_OK; i++)
        if (!tcc_vec_push(&b.old_outputs, b.g->outputs.data[i])) status = tcc_enomem(cx->diag);
    b.g->outputs.count = 0;
    if (status == TCC_OK) status = spec->part == TCC_STEP_MICRO ? add_micro_step(&b) : add_step(&b);
    tcc_vec_free(&b.trained);
    tcc_vec_free(&b.old_outputs);
    if (status == TCC_OK) *out = b.g;
    else tcc_graph_destroy(b.g);
    return status;
}
