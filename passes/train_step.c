/* SPDX-License-Identifier: MIT
 * The train-step pass: gradients become parameter updates. Takes the graph that autodiff made
 * (outputs `loss`, "grad.NAME", and others) and adds clipping, the optimizer and its state.
 *
 * The formulas and their order of operations are PyTorch's (torch.optim.SGD, Adam, AdamW;
 * clip_grad_norm_), so that the same start gives the same losses. All arithmetic is in float32
 * (float64 for float64 parameters), whatever the parameter's type. The update of a parameter is one
 * expression of the elements of p, g and its states and of scalars from the hyper-parameter vector,
 * so that fusion makes one kernel of it that reads and writes each once.
 *
 * Adam's count of updates is a state on the device, not a number of the host's: what leaves an update out leaves the
 * count as it is as well. The bias corrections are made from it once, in the small kernel that stores the next count.
 *
 * Where a batch is taken in micro-batches, the pass makes one of two parts (train_step.h): sums of gradients, or the
 * update from such sums.
 *
 * Sources: Sutskever et al. 2013 (momentum, Nesterov's form); Kingma and Ba 2014 (Adam); Loshchilov
 * and Hutter 2017 (AdamW); Chen et al. 2023 (Lion, algorithm 2); Pascanu et al. 2013 (clipping by the global norm). */
#include "ir/support/train_step.h"
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"
#include "passes/step_statistics.h"

#include <string.h>

typedef struct state {
    int input; /* its number, of which `value` is the old value */
    tcc_node *value;
} state;

enum { MOST_STATES = 2 };

/* One trained parameter on its way through the pass. */
typedef struct trained {
    int input; /* of the parameter, in graph->inputs */
    int group, rates;
    tcc_node *p, *g; /* value and gradient, in the type of the arithmetic */
    tcc_node *whole; /* the gradient before it is clipped */
    state states[MOST_STATES];
    state ema;
    tcc_node *next; /* the parameter's next value, where no step is skipped */
} trained;

typedef struct builder {
    tcc_pass_cx *cx;
    const tcc_train_spec *spec;
    tcc_graph *g;
    tcc_node *hyper;
    tcc_node *count;      /* Adam, averages: of updates, this one included; NULL: nothing is counted */
    int count_input;      /* whose next value it is */
    tcc_node *ema_weight; /* of the parameter in its new average */
    tcc_node *scale;      /* of the loss; NULL: it is not scaled */
    tcc_node *good;       /* where steps may be skipped: whether this one is not */
    tcc_vec(trained) trained;
    tcc_vec(tcc_output) old_outputs; /* of the copied graph */
} builder;

/* -- Expressions --
 * At most one operand of a call builds nodes: C leaves open which argument is evaluated first, and nodes are numbered
 * as they are built, so the graph would depend on the compiler. */

static tcc_node *add(builder *b, tcc_node *x, tcc_node *y) { return tcc_ir_binary(b->g, TCC_OP_ADD, x, y); }
static tcc_node *sub(builder *b, tcc_node *x, tcc_node *y) { return tcc_ir_binary(b->g, TCC_OP_SUB, x, y); }
static tcc_node *mul(builder *b, tcc_node *x, tcc_node *y) { return tcc_ir_binary(b->g, TCC_OP_MUL, x, y); }
static tcc_node *divide(builder *b, tcc_node *x, tcc_node *y) { return tcc_ir_binary(b->g, TCC_OP_DIV, x, y); }
static tcc_node *square_root(builder *b, tcc_node *x) { return tcc_ir_unary(b->g, TCC_OP_SQRT, x); }
static tcc_node *one_minus(builder *b, tcc_node *x) { return sub(b, tcc_ir_splat_like(b->g, x, 1), x); }
/* A scalar at x's dims. */
static tcc_node *spread(builder *b, tcc_node *scalar, const tcc_node *x) {
    return tcc_ir_broadcast_like(b->g, scalar, x);
}

/* Element `index` of the hyper-parameter vector, as a scalar of x's type. */
static tcc_node *hyper(builder *b, int index, const tcc_node *x) {
    int64_t start = index, limit = index + 1, stride = 1;
    tcc_node *one = tcc_ir_slice(b->g, b->hyper, &start, &limit, &stride);
    one = tcc_ir_reshape(b->g, one, 0, NULL);
    return x ? tcc_ir_cast(b->g, one, x->type.dtype) : NULL;
}

/* Element `index` of the rates of parameter t. */
static tcc_node *rate(builder *b, const trained *t, int index) {
    return hyper(b, TCC_HYPER_RATE(b->spec->n_groups, t->rates, index), t->p);
}

/* -- State -- */

static tcc_dtype arithmetic(tcc_dtype dtype) { return dtype == TCC_F64 ? TCC_F64 : TCC_F32; }

/* A new state of parameter t, zero at the start. */
static state add_state(builder *b, const trained *t, const char *suffix) {
    const tcc_node *parameter = b->g->inputs.data[t->input];
    state s = {.input = b->g->inputs.count};
    const char *name = tcc_arena_printf(&b->g->arena, "%s.%s", parameter->attrs->input.name, suffix);
    if (!name) tcc_enomem(b->g->diag);
    else if (t->p) s.value = tcc_ir_input(b->g, name, TCC_ROLE_STATE, &t->p->type, parameter->loc);
    return s;
}

/* The value, or where the step is skipped what there was before. */
static tcc_node *unless_skipped(builder *b, tcc_node *value, tcc_node *old) {
    return b->good && value ? tcc_ir_select(b->g, spread(b, b->good, value), value, old) : value;
}

/* The next value of input `input`, which may have a shorter type than the arithmetic. */
static tcc_status add_update(builder *b, int input, tcc_node *value) {
    if (!value) return tcc_ir_output(b->g, "", NULL, -1); /* gives the error that was reported */
    tcc_node *old = b->g->inputs.data[input];
    value = unless_skipped(b, tcc_ir_cast(b->g, value, old->type.dtype), old);
    return tcc_ir_output(b->g, old->attrs->input.name, value, input);
}

/* States that the optimizer has of a parameter. */
static int count_states(const tcc_train_spec *spec) {
    if (spec->optimizer == TCC_OPTIMIZER_SGD) return spec->momentum;
    return spec->optimizer == TCC_OPTIMIZER_LION ? 1 : 2;
}

int64_t tcc_train_state_bytes(const tcc_train_spec *spec, const tcc_graph *g) {
    int64_t bytes = 0;
    for (int i = 0, parameter = 0; i < g->inputs.count; i++) {
        tcc_type type = g->inputs.data[i]->type;
        if (g->inputs.data[i]->attrs->input.role != TCC_ROLE_PARAM) continue;
        if (spec->frozen && spec->frozen[parameter++]) continue;
        type.dtype = arithmetic(type.dtype);
        bytes += (count_states(spec) + spec->ema) * tcc_type_bytes(&type);
    }
    return bytes;
}

/* The states of all parameters, and the count of updates, whose next value it gives. */
static tcc_status add_states(builder *b) {
    static const char *const of_sgd[] = {"momentum"}, *const of_adam[] = {"m", "v"};
    const bool sgd = b->spec->optimizer == TCC_OPTIMIZER_SGD, lion = b->spec->optimizer == TCC_OPTIMIZER_LION;
    const int count = count_states(b->spec);
    for (int i = 0; i < b->trained.count; i++) {
        trained *t = &b->trained.data[i];
        for (int k = 0; k < count; k++) t->states[k] = add_state(b, t, (sgd ? of_sgd : of_adam)[k]);
        if (b->spec->ema) t->ema = add_state(b, t, "ema");
    }
    if (((sgd || lion) && !b->spec->ema) || !b->trained.count) return TCC_OK;
    const tcc_type scalar = {.dtype = TCC_I64};
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    b->count_input = b->g->inputs.count;
    b->count = tcc_ir_binary_c(b->g, TCC_OP_ADD, tcc_ir_state(b->g, TCC_STEP_STATE, &scalar, 0, TCC_NOWHERE), 1);
    return b->count ? TCC_OK : b->g->diag->status;
}

/* -- Averages -- */

/* How much of the parameter is in its new average: all after the first update, then 1 - decay, with the decay at most
 * (1 + n) / (10 + n) after n updates if it is to warm up (as in TensorFlow's ExponentialMovingAverage). */
static tcc_node *ema_weight(builder *b) {
    tcc_node *n = tcc_ir_binary_c(b->g, TCC_OP_ADD, tcc_ir_cast(b->g, b->count, TCC_F64), -1);
    tcc_node *warmup = hyper(b, TCC_HYPER_EMA(b->spec->n_groups, TCC_EMA_WARMUP), n);
    tcc_node *least = divide(b, warmup, tcc_ir_binary_c(b->g, TCC_OP_ADD, n, 10));
    tcc_node *weight = hyper(b, TCC_HYPER_EMA(b->spec->n_groups, TCC_EMA_COMPLEMENT), n);
    weight = tcc_ir_binary(b->g, TCC_OP_MAX, weight, least);
    tcc_node *first = n ? tcc_ir_binary(b->g, TCC_OP_LT, n, tcc_ir_splat_like(b->g, n, 0.5)) : NULL;
    return first ? tcc_ir_select(b->g, first, tcc_ir_splat_like(b->g, weight, 1), weight) : NULL;
}

/* In the kernel that updates the parameter, which has its new value in a register. */
static tcc_status update_ema(builder *b, const trained *t) {
    tcc_node *weight = tcc_ir_cast(b->g, b->ema_weight, t->p->type.dtype);
    tcc_node *change = sub(b, t->next, t->ema.value);
    return add_update(b, t->ema.input, add(b, t->ema.value, mul(b, spread(b, weight, t->p), change)));
}

/* -- Optimizers -- */

/* The parameter's next value, as it is stored. */
static tcc_status add_next(builder *b, trained *t, tcc_node *value) {
    const tcc_dtype stored = b->g->inputs.data[t->input]->type.dtype;
    if (value && b->spec->ema) t->next = tcc_ir_cast(b->g, tcc_ir_cast(b->g, value, stored), t->p->type.dtype);
    return add_update(b, t->input, value);
}

/* p - lr d, with d = g + weight_decay p, through the momentum buffer v = momentum v + dampening d
 * if there is one. */
static tcc_status update_sgd(builder *b, trained *t) {
    tcc_node *lr = hyper(b, TCC_HYPER_LR(t->group), t->p), *decay = hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), t->p);
    tcc_node *d = add(b, t->g, mul(b, spread(b, decay, t->p), t->p)), *v = NULL;
    const state buffer = t->states[0];
    if (b->spec->momentum) {
        tcc_node *momentum = spread(b, rate(b, t, TCC_HYPER_MOMENTUM), t->p);
        tcc_node *weight = spread(b, rate(b, t, TCC_HYPER_DAMPENING_SCALE), t->p);
        tcc_node *fresh = mul(b, d, weight);
        v = add(b, mul(b, buffer.value, momentum), fresh);
        d = b->spec->nesterov ? add(b, d, mul(b, v, momentum)) : v;
    }
    TCC_TRY(add_next(b, t, sub(b, t->p, mul(b, spread(b, lr, t->p), d))));
    return b->spec->momentum ? add_update(b, buffer.input, v) : TCC_OK;
}

/* 1 / (1 - beta^n), n the count of updates, as a scalar of the type of t's arithmetic; rate `complement` is 1 - beta.
 * In f64, where it is exact to f32's last place for every n; as -1 / expm1(n log1p(-(1 - beta))), since 1 - beta^n
 * loses what 1 - beta has kept. */
static tcc_node *bias(builder *b, const trained *t, int complement) {
    tcc_node *x = t->p;
    tcc_node *wide = tcc_ir_cast(b->g, rate(b, t, complement), TCC_F64);
    tcc_node *log_beta = tcc_ir_unary(b->g, TCC_OP_LOG1P, tcc_ir_unary(b->g, TCC_OP_NEG, wide));
    tcc_node *power = mul(b, tcc_ir_cast(b->g, b->count, TCC_F64), log_beta);
    tcc_node *rest = tcc_ir_unary(b->g, TCC_OP_NEG, tcc_ir_unary(b->g, TCC_OP_EXPM1, power));
    return x ? tcc_ir_cast(b->g, divide(b, tcc_ir_splat_like(b->g, rest, 1), rest), x->type.dtype) : NULL;
}

/* m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, and p loses lr (m bias1) / (sqrt(v
 * bias2) + eps). Weight decay is added to g by Adam, and taken from p beforehand by AdamW. */
static tcc_status update_adam(builder *b, trained *t) {
    tcc_node *p = t->p, *g = t->g;
    tcc_node *lr = hyper(b, TCC_HYPER_LR(t->group), p), *decay = hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), p);
    if (b->spec->optimizer == TCC_OPTIMIZER_ADAMW) p = mul(b, p, spread(b, one_minus(b, mul(b, lr, decay)), p));
    else g = add(b, g, mul(b, spread(b, decay, p), p));
    const state old_m = t->states[0], old_v = t->states[1];
    tcc_node *rate1 = rate(b, t, TCC_HYPER_BETA1_COMPLEMENT), *rate2 = rate(b, t, TCC_HYPER_BETA2_COMPLEMENT);
    tcc_node *change = sub(b, g, old_m.value);
    tcc_node *m = add(b, old_m.value, mul(b, spread(b, rate1, p), change));
    tcc_node *rate2_at_p = spread(b, rate2, p);
    tcc_node *fresh = mul(b, mul(b, g, g), rate2_at_p);
    tcc_node *v = add(b, mul(b, old_v.value, spread(b, one_minus(b, rate2), p)), fresh);
    tcc_node *correction = spread(b, square_root(b, bias(b, t, TCC_HYPER_BETA2_COMPLEMENT)), p);
    tcc_node *root = mul(b, square_root(b, v), correction);
    tcc_node *denominator = add(b, root, spread(b, hyper(b, TCC_HYPER_EPS, t->p), p));
    tcc_node *step = mul(b, lr, bias(b, t, TCC_HYPER_BETA1_COMPLEMENT));
    tcc_node *direction = divide(b, m, denominator);
    TCC_TRY(add_next(b, t, sub(b, p, mul(b, spread(b, step, p), direction))));
    TCC_TRY(add_update(b, old_m.input, m));
    return add_update(b, old_v.input, v);
}

/* p - lr (sign(beta1 m + (1 - beta1) g) + weight_decay p), and m = beta2 m + (1 - beta2) g. */
static tcc_status update_lion(builder *b, trained *t) {
    tcc_node *lr = hyper(b, TCC_HYPER_LR(t->group), t->p), *decay = hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), t->p);
    tcc_node *p = mul(b, t->p, spread(b, one_minus(b, mul(b, lr, decay)), t->p));
    const state old = t->states[0];
    tcc_node *rate1 = spread(b, rate(b, t, TCC_HYPER_BETA1_COMPLEMENT), p);
    tcc_node *rate2 = spread(b, rate(b, t, TCC_HYPER_BETA2_COMPLEMENT), p);
    tcc_node *change = sub(b, t->g, old.value);
    tcc_node *direction = tcc_ir_unary(b->g, TCC_OP_SIGN, add(b, old.value, mul(b, rate1, change)));
    TCC_TRY(add_next(b, t, sub(b, p, mul(b, spread(b, lr, p), direction))));
    return add_update(b, old.input, add(b, old.value, mul(b, rate2, change)));
}

static tcc_status update(builder *b, trained *t) {
    switch (b->spec->optimizer) {
    case TCC_OPTIMIZER_SGD: return update_sgd(b, t);
    case TCC_OPTIMIZER_LION: return update_lion(b, t);
    default: return update_adam(b, t);
    }
}

/* -- Scaling of the loss -- */

static tcc_node *find_scale(const tcc_graph *g) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, TCC_SCALE_STATE)) return g->inputs.data[i];
    return NULL;
}

/* Whether all trained gradients are finite: one flag for the step. */
static tcc_node *all_finite(builder *b) {
    tcc_node *worst = NULL;
    for (int i = 0; i < b->trained.count; i++) {
        tcc_node *g = b->trained.data[i].g;
        if (!g) return NULL;
        tcc_type type = g->type;
        type.dtype = TCC_F32;
        tcc_node *zero = tcc_ir_splat(b->g, &type, 0), *one = tcc_ir_splat(b->g, &type, 1);
        tcc_node *bad = tcc_ir_select(b->g, tcc_ir_unary(b->g, TCC_OP_ISFINITE, g), zero, one);
        tcc_dims all = tcc_ir_axes_from(0, g->type.rank);
        if (all.count) bad = tcc_ir_reduce(b->g, TCC_OP_REDUCE_MAX, bad, &all);
        worst = worst ? tcc_ir_binary(b->g, TCC_OP_MAX, worst, bad) : bad;
    }
    return tcc_ir_binary_c(b->g, TCC_OP_EQ, worst, 0);
}

/* A state of the scaler and, as output of its name, its next value, which no skip holds back. */
static tcc_status add_scaler_state(builder *b, const tcc_node *old, tcc_node *next) {
    int input = 0;
    while (b->g->inputs.data[input] != old) input++;
    return tcc_ir_output(b->g, old->attrs->input.name, next, input);
}

/* torch.amp.GradScaler.update: backoff at a skip; growth after `interval` updates in a row, unless it overflows. */
static tcc_status update_scale(builder *b) {
    const tcc_type scalar = {.dtype = TCC_I64};
    const int groups = b->spec->n_groups;
    tcc_node *steps = tcc_ir_state(b->g, TCC_SCALE_STEPS_STATE, &scalar, 0, TCC_NOWHERE);
    tcc_node *skipped = tcc_ir_state(b->g, TCC_SKIPPED_STATE, &scalar, 0, TCC_NOWHERE);
    if (!steps || !skipped) return b->g->diag->status;
    tcc_node *next = tcc_ir_binary_c(b->g, TCC_OP_ADD, steps, 1), *zero = tcc_ir_splat_like(b->g, steps, 0);
    tcc_node *interval = tcc_ir_cast(b->g, hyper(b, TCC_HYPER_SCALE(groups, TCC_SCALE_INTERVAL), b->scale), TCC_I64);
    tcc_node *due = tcc_ir_binary(b->g, TCC_OP_GE, next, interval);
    tcc_node *grown = mul(b, b->scale, hyper(b, TCC_HYPER_SCALE(groups, TCC_SCALE_GROWTH), b->scale));
    grown = tcc_ir_select(b->g, tcc_ir_unary(b->g, TCC_OP_ISFINITE, grown), grown, b->scale);
    grown = tcc_ir_select(b->g, due, grown, b->scale);
    tcc_node *less = mul(b, b->scale, hyper(b, TCC_HYPER_SCALE(groups, TCC_SCALE_BACKOFF), b->scale));
    TCC_TRY(add_scaler_state(b, b->scale, tcc_ir_select(b->g, b->good, grown, less)));
    tcc_node *counted = tcc_ir_select(b->g, due, zero, next);
    TCC_TRY(add_scaler_state(b, steps, tcc_ir_select(b->g, b->good, counted, zero)));
    tcc_node *more = tcc_ir_binary_c(b->g, TCC_OP_ADD, skipped, 1);
    return add_scaler_state(b, skipped, tcc_ir_select(b->g, b->good, skipped, more));
}

/* -- Clipping -- */

/* Scales all gradients by min(1, clip_norm / (norm + 1e-6)), norm that of all of them together. A
 * norm that is not finite makes NaN or zero of them, as in PyTorch: it is seen in "grad_norm". */
static tcc_status clip(builder *b) {
    tcc_node *sum = NULL;
    for (int i = 0; i < b->trained.count; i++) {
        tcc_node *g = b->trained.data[i].g;
        if (!g) return b->g->diag ? b->g->diag->status : TCC_EBUG;
        tcc_dims all = tcc_ir_axes_from(0, g->type.rank);
        tcc_node *square = tcc_ir_cast(b->g, tcc_ir_reduce(b->g, TCC_OP_REDUCE_SUM, mul(b, g, g), &all), TCC_F32);
        sum = sum ? add(b, sum, square) : square;
    }
    if (!sum) return TCC_OK;
    tcc_node *norm = square_root(b, sum);
    tcc_node *divisor = tcc_ir_binary_c(b->g, TCC_OP_ADD, norm, 1e-6);
    tcc_node *ratio = divide(b, hyper(b, TCC_HYPER_CLIP_NORM, norm), divisor);
    tcc_node *factor = tcc_ir_binary_c(b->g, TCC_OP_MIN, ratio, 1);
    for (int i = 0; i < b->trained.count; i++) {
        trained *t = &b->trained.data[i];
        if (t->g) t->g = mul(b, t->g, spread(b, tcc_ir_cast(b->g, factor, t->g->type.dtype), t->g));
    }
    return tcc_ir_output(b->g, "grad_norm", norm, -1);
}

/* -- Outputs -- */

/* The parameter that output `name` is the gradient of: its index in g->inputs, or -1. */
static int parameter_of(const tcc_graph *g, const char *name, int *parameter) {
    static const char prefix[] = "grad.";
    *parameter = 0;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_attrs_input *input = &g->inputs.data[i]->attrs->input;
        if (input->role != TCC_ROLE_PARAM) continue;
        if (!strcmp(input->name, name + sizeof prefix - 1)) return i;
        ++*parameter;
    }
    return -1;
}

/* Takes the gradients out of the outputs; loss first, then what else there was. */
static tcc_status sort_outputs(builder *b) {
    const tcc_train_spec *spec = b->spec;
    bool has_loss = false;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < b->old_outputs.count; i++) {
            const tcc_output *o = &b->old_outputs.data[i];
            int parameter, input = parameter_of(b->g, o->name, &parameter);
            bool is_loss = !strcmp(o->name, "loss");
            if (input < 0 && is_loss == (pass == 0)) TCC_TRY(tcc_ir_output(b->g, o->name, o->node, o->alias));
            has_loss |= is_loss;
            if (input < 0 || pass == 0 || spec->optimizer == TCC_OPTIMIZER_NONE) continue;
            tcc_node *p = b->g->inputs.data[input];
            tcc_dtype dtype = arithmetic(p->type.dtype);
            trained t = {.input = input,
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

static tcc_node *loss_of(const builder *b) {
    int i = 0;
    while (strcmp(b->g->outputs.data[i].name, "loss")) i++;
    return b->g->outputs.data[i].node;
}

/* Buffers that the model updates stay as they were in a skipped step: what overflows in forward reaches them too. */
static void hold_buffers(builder *b) {
    for (int i = 0; i < b->g->outputs.count; i++) {
        tcc_output *o = &b->g->outputs.data[i];
        if (o->alias >= 0) o->node = unless_skipped(b, o->node, b->g->inputs.data[o->alias]);
    }
}

/* Decides which steps are skipped: those that overflow where the loss is scaled, and all anomalies where they are
 * looked for. Buffers stay as they were in such a step. */
static tcc_status find_skips(builder *b) {
    const bool scaled = find_scale(b->g), detects = b->spec->detect_anomaly;
    if (!b->trained.count && !detects) return TCC_OK;
    if (!scaled && !detects) return TCC_OK;
    tcc_node *loss = detects ? tcc_ir_unary(b->g, TCC_OP_ISFINITE, loss_of(b)) : NULL;
    tcc_node *gradients = b->trained.count ? all_finite(b) : NULL;
    b->good = !gradients ? loss : !loss ? gradients : tcc_ir_binary(b->g, TCC_OP_AND, gradients, loss);
    if (!b->good) return b->g->diag->status;
    hold_buffers(b);
    if (!detects || b->spec->part == TCC_STEP_MICRO) return TCC_OK;
    const tcc_type scalar = {.dtype = TCC_F32};
    tcc_node *zero = tcc_ir_splat(b->g, &scalar, 0), *one = tcc_ir_splat(b->g, &scalar, 1);
    return tcc_ir_output(b->g, TCC_ANOMALY_OUTPUT, tcc_ir_select(b->g, scaled ? loss : b->good, zero, one), -1);
}

/* -- Accumulation -- */

/* What the micro-batch's loss, a mean, weighs in that of the step: of a cross-entropy the targets that count, which the
 * loss divides by. *rare: it may be 0, and the mean then is none. */
static tcc_node *weight_of_loss(builder *b, bool *rare) {
    const tcc_node *loss = loss_of(b);
    while (loss->op == TCC_OP_CAST) loss = loss->operands[0];
    *rare = loss->op == TCC_OP_CROSS_ENTROPY;
    if (!*rare) return hyper(b, TCC_MICRO_WEIGHT, b->hyper);
    tcc_node *logits = tcc_ir_widen(b->g, loss->operands[0]);
    tcc_node *weights = loss->n_operands > 2 ? tcc_ir_widen(b->g, loss->operands[2]) : NULL;
    return tcc_ir_cast(b->g, tcc_ir_get_cross_entropy(b->g, loss, logits, loss->operands[1], weights).denominator,
                       TCC_F32);
}

typedef struct micro {
    tcc_node *first;  /* bool[]: the first micro-batch of a step */
    tcc_node *weight; /* NULL: losses are sums */
    bool rare;        /* the weight may be 0 */
} micro;

/* State `name` becomes weight * x, or that more than it was. */
static tcc_status add_to_sum(builder *b, const micro *mb, const char *name, tcc_node *x, bool weighs) {
    if (!x || !name) return b->g->diag->status;
    const int input = b->g->inputs.count;
    tcc_node *sum = tcc_ir_input(b->g, name, TCC_ROLE_STATE, &x->type, x->loc);
    if (weighs && mb->weight) {
        tcc_node *weight = tcc_ir_cast(b->g, mb->weight, x->type.dtype);
        tcc_node *counts = mb->rare ? tcc_ir_binary_c(b->g, TCC_OP_NE, weight, 0) : NULL; /* a NaN counts */
        x = mul(b, x, spread(b, weight, x));
        if (mb->rare) x = tcc_ir_select(b->g, spread(b, counts, x), x, tcc_ir_splat_like(b->g, x, 0));
    }
    tcc_node *more = add(b, sum, x);
    return tcc_ir_output(b->g, name, tcc_ir_select(b->g, spread(b, mb->first, x), x, more), input);
}

/* Its gradients stay multiplied by the scale of the loss: they are divided once, by the update. */
static tcc_status add_micro_step(builder *b) {
    const tcc_type type = {TCC_F32, 1, {TCC_MICRO_COUNT}};
    micro mb = {0};
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    TCC_TRY(sort_outputs(b));
    if (b->spec->statistics) TCC_TRY(tcc_step_module_statistics(b->g));
    b->hyper = tcc_ir_input(b->g, "hyper", TCC_ROLE_HYPER, &type, TCC_NOWHERE);
    bool has_buffers = false;
    for (int i = 0; i < b->g->outputs.count; i++) has_buffers |= b->g->outputs.data[i].alias >= 0;
    if (has_buffers) TCC_TRY(find_skips(b));
    tcc_node *first = hyper(b, TCC_MICRO_FIRST, b->hyper);
    mb.first = tcc_ir_binary_c(b->g, TCC_OP_GT, first, 0);
    if (!b->spec->loss_is_sum) mb.weight = weight_of_loss(b, &mb.rare);
    if (!mb.first || (!b->spec->loss_is_sum && !mb.weight)) return b->g->diag->status;
    for (int i = 0; i < b->trained.count; i++) {
        const tcc_node *parameter = b->g->inputs.data[b->trained.data[i].input];
        const char *name = tcc_arena_printf(&b->g->arena, TCC_SUM_PREFIX "%s", parameter->attrs->input.name);
        if (!name) return tcc_enomem(b->g->diag);
        tcc_ir_set_backward(b->g, parameter->loc);
        TCC_TRY(add_to_sum(b, &mb, name, b->trained.data[i].g, true));
    }
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    TCC_TRY(add_to_sum(b, &mb, TCC_LOSS_SUM_STATE, loss_of(b), true));
    return mb.weight ? add_to_sum(b, &mb, TCC_WEIGHT_SUM_STATE, mb.weight, false) : TCC_OK;
}

/* -- The pass -- */

static tcc_status add_statistics(builder *b) {
    const int count = b->spec->statistics ? b->g->outputs.count : 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < b->trained.count; k++) {
            const trained *t = &b->trained.data[k];
            const tcc_output update = b->g->outputs.data[i];
            if (update.alias != t->input) continue;
            tcc_ir_set_backward(b->g, b->g->inputs.data[t->input]->loc);
            TCC_TRY(tcc_step_parameter_statistics(b->g, &update, t->whole));
        }
    return TCC_OK;
}

static tcc_status add_step(builder *b) {
    const tcc_train_spec *spec = b->spec;
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    TCC_TRY(sort_outputs(b));
    if (spec->statistics && spec->part == TCC_STEP_WHOLE) TCC_TRY(tcc_step_module_statistics(b->g));
    if (b->trained.count > 0) {
        b->scale = find_scale(b->g);
        tcc_type type = {TCC_F32, 1, {TCC_HYPER_SCALE(spec->n_groups, b->scale ? TCC_SCALE_COUNT : 0)}};
        if (spec->ema) type.dims[0] = TCC_HYPER_SIZE(spec->n_groups);
        if (spec->n_rates > 1) type.dims[0] = TCC_HYPER_LENGTH(spec->n_groups, spec->n_rates);
        b->hyper = tcc_ir_input(b->g, "hyper", TCC_ROLE_HYPER, &type, TCC_NOWHERE);
        TCC_TRY(find_skips(b));
        if (spec->clip_norm) TCC_TRY(clip(b));
        TCC_TRY(add_states(b));
        if (spec->ema) b->ema_weight = ema_weight(b);
    } else {
        TCC_TRY(find_skips(b));
    }
    for (int i = 0; i < b->trained.count; i++) {
        trained *t = &b->trained.data[i];
        tcc_ir_set_backward(b->g, b->g->inputs.data[t->input]->loc);
        TCC_TRY(update(b, t));
        if (spec->ema) TCC_TRY(update_ema(b, t));
    }
    if (b->count) TCC_TRY(add_update(b, b->count_input, b->count));
    if (b->scale) TCC_TRY(update_scale(b));
    for (int i = 0; spec->keep_gradients && i < b->old_outputs.count; i++) {
        const tcc_output *o = &b->old_outputs.data[i];
        int parameter;
        if (parameter_of(b->g, o->name, &parameter) >= 0) TCC_TRY(tcc_ir_output(b->g, o->name, o->node, -1));
    }
    return add_statistics(b);
}

tcc_status tcc_pass_train_step(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const tcc_train_spec *spec = &cx->options->spec;
    if (spec->n_groups < 1)
        return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE, "%d parameter groups, at least 1 is needed",
                         spec->n_groups);
    builder b = {.cx = cx, .spec = spec};
    TCC_TRY(tcc_graph_copy_live(in, &b.g));
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
