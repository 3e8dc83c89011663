/* SPDX-License-Identifier: MIT
 * Optimizers: the states of each trained parameter, its update, and its average.
 *
 * The formulas and their order of operations are PyTorch's (torch.optim.SGD, Adam, AdamW, Adafactor, Adagrad), so that
 * the same start gives the same losses. The update of a parameter is one expression of the elements of p, g and its
 * states, and of scalars from the hyper-parameter vector. So fusion makes one kernel of it, which reads and writes each
 * element once. Adafactor needs sums first.
 *
 * The count of updates is a state on the device, not on the host, so a skipped update leaves the count unchanged. The
 * bias corrections are made from it once, in the small kernel that stores the next count.
 *
 * Sources: Sutskever et al. 2013 (momentum, Nesterov's form); Kingma and Ba 2014 (Adam); Loshchilov
 * and Hutter 2017 (AdamW); Chen et al. 2023 (Lion, algorithm 2); Shazeer and Stern 2018 (Adafactor); Duchi et al. 2011
 * (Adagrad). */
#include "passes/step.h"

#include <float.h>

#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, reads, first, second, step) \
    static tcc_status update_##step(tcc_step_builder *b, tcc_trained *t);
#include "ir/support/optimizer.def"

static const struct {
    unsigned reads;
    const char *states[TCC_STEP_STATES];
    tcc_status (*update)(tcc_step_builder *b, tcc_trained *t); /* adds the next values of a parameter and its states */
} optimizers[] = {
#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, reads, first, second, step) \
    [TCC_##id] = {reads, {first, second}, update_##step},
#include "ir/support/optimizer.def"
};

/* -- State -- */

/* State k that the optimizer has of a parameter of the type *type, which becomes that of the state: its name. NULL:
 * there is none. */
static const char *describe_state(const tcc_train_spec *spec, int k, tcc_type *type) {
    type->dtype = step_arithmetic(type->dtype);
    if (spec->no_update || (spec->optimizer == TCC_SGD && !spec->momentum)) return NULL;
    if (spec->optimizer == TCC_ADAFACTOR) {
        if (type->rank < 2) return k == 0 ? "variance" : NULL;
        type->dims[type->rank - 1 - k] = 1;
    }
    return optimizers[spec->optimizer].states[k];
}

/* A new state, zero at the start. */
static tcc_step_state add_state(tcc_step_builder *b, int input, const char *suffix, const tcc_type *type) {
    const tcc_node *of = b->g->inputs.data[input];
    tcc_step_state s = {.input = b->g->inputs.count};
    const char *name = tcc_arena_printf(&b->g->arena, "%s.%s", of->attrs->input.name, suffix);
    if (!name) tcc_enomem(b->g->diag);
    else s.value = tcc_ir_input(b->g, name, TCC_ROLE_STATE, type, of->loc);
    return s;
}

/* Whether an output is what a buffer takes that has an average. */
static bool is_averaged(const tcc_output *o) { return o->alias >= 0 && tcc_dtype_is_float(o->node->type.dtype); }

int64_t tcc_train_state_bytes(const tcc_train_spec *spec, const tcc_graph *g) {
    int64_t bytes = 0;
    for (int i = 0, parameter = 0; i < g->inputs.count; i++) {
        if (g->inputs.data[i]->attrs->input.role != TCC_ROLE_PARAM) continue;
        if (spec->frozen && spec->frozen[parameter++]) continue;
        tcc_type type = g->inputs.data[i]->type;
        if (step_spec_shards(spec)) type = (tcc_type){type.dtype, 1, {tcc__step_part(spec, &type)}};
        type.dtype = step_arithmetic(type.dtype);
        if (spec->ema) bytes += tcc_type_bytes(&type);
        for (int k = 0; k < TCC_STEP_STATES; k++) {
            tcc_type state = type;
            if (describe_state(spec, k, &state)) bytes += tcc_type_bytes(&state);
        }
    }
    for (int i = 0; spec->ema_buffers && i < g->outputs.count; i++)
        if (is_averaged(&g->outputs.data[i])) bytes += tcc_type_bytes(&g->outputs.data[i].node->type);
    return bytes;
}

/* How much of the parameter is in its new average: all after the first update, then 1 - decay, with the decay at most
 * (1 + n) / (10 + n) after n updates if it is to warm up (as in TensorFlow's ExponentialMovingAverage). */
static tcc_node *ema_weight(tcc_step_builder *b) {
    tcc_node *n = tcc_ir_binary_c(b->g, TCC_OP_ADD, tcc_ir_cast(b->g, b->count, TCC_F64), -1);
    tcc_node *warmup = step_hyper(b, TCC_HYPER_EMA(b->spec->n_groups, TCC_EMA_WARMUP), n);
    tcc_node *least = step_div(b, warmup, tcc_ir_binary_c(b->g, TCC_OP_ADD, n, 10));
    tcc_node *weight = step_hyper(b, TCC_HYPER_EMA(b->spec->n_groups, TCC_EMA_COMPLEMENT), n);
    weight = tcc_ir_binary(b->g, TCC_OP_MAX, weight, least);
    tcc_node *first = n ? tcc_ir_binary(b->g, TCC_OP_LT, n, tcc_ir_splat_like(b->g, n, 0.5)) : NULL;
    return first ? tcc_ir_select(b->g, first, tcc_ir_splat_like(b->g, weight, 1), weight) : NULL;
}

tcc_status tcc__step_add_states(tcc_step_builder *b) {
    for (int i = 0; i < b->trained.count; i++) {
        tcc_trained *t = &b->trained.data[i];
        if (!t->p) return b->g->diag->status;
        for (int k = 0; k < TCC_STEP_STATES; k++) {
            tcc_type type = t->p->type;
            const char *suffix = describe_state(b->spec, k, &type);
            if (suffix) t->states[k] = add_state(b, t->input, suffix, &type);
        }
        if (b->spec->ema) t->ema = add_state(b, t->input, "ema", &t->p->type);
    }
    const bool counts = optimizers[b->spec->optimizer].reads & TCC_READS_COUNT;
    if ((!counts && !b->spec->ema) || !b->trained.count) return TCC_OK;
    const tcc_type scalar = {.dtype = TCC_I64};
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    b->count_input = b->g->inputs.count;
    b->count = tcc_ir_binary_c(b->g, TCC_OP_ADD, tcc_ir_state(b->g, TCC_STEP_STATE, &scalar, 0, TCC_NOWHERE), 1);
    if (b->spec->ema) b->ema_weight = ema_weight(b);
    return b->count ? TCC_OK : b->g->diag->status;
}

/* -- Averages -- */

static tcc_status average(tcc_step_builder *b, const tcc_step_state *ema, tcc_node *next) {
    if (!ema->value || !next) return step_output(b, ema->input, NULL);
    tcc_node *weight = tcc_ir_cast(b->g, b->ema_weight, ema->value->type.dtype);
    tcc_node *change = step_sub(b, next, ema->value);
    return step_output(b, ema->input, step_add(b, ema->value, step_mul(b, step_spread(b, weight, next), change)));
}

tcc_status tcc__step_average_buffers(tcc_step_builder *b) {
    for (int i = 0; b->spec->ema_buffers && b->count && i < b->n_buffers; i++) {
        const tcc_output o = b->g->outputs.data[i];
        if (!is_averaged(&o)) continue;
        tcc_type type = o.node->type;
        type.dtype = step_arithmetic(type.dtype);
        tcc_ir_set_backward(b->g, b->g->inputs.data[o.alias]->loc);
        const tcc_step_state ema = add_state(b, o.alias, "ema", &type);
        TCC_TRY(average(b, &ema, tcc_ir_cast(b->g, o.node, type.dtype)));
    }
    return TCC_OK;
}

/* -- Optimizers -- */

/* The parameter's next value, as it is stored. */
static tcc_status add_next(tcc_step_builder *b, tcc_trained *t, tcc_node *value) {
    const tcc_dtype stored = b->g->inputs.data[t->input]->type.dtype;
    if (value && b->spec->ema) t->next = tcc_ir_cast(b->g, tcc_ir_cast(b->g, value, stored), t->p->type.dtype);
    if (!step_shards(b)) return step_output(b, t->input, value);
    t->part = step_unless_skipped(b, tcc_ir_cast(b->g, value, stored), tcc_ir_cast(b->g, t->p, stored));
    if (!t->part || !t->own.value) return b->g->diag->status;
    return tcc_ir_output(b->g, t->own.value->attrs->input.name, t->part, t->own.input);
}

/* p - lr d, with d = g + weight_decay p, through the momentum buffer v = momentum v + dampening d
 * if there is one. */
static tcc_status update_sgd(tcc_step_builder *b, tcc_trained *t) {
    tcc_node *lr = step_hyper(b, TCC_HYPER_LR(t->group), t->p),
             *decay = step_hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), t->p);
    tcc_node *d = step_add(b, t->g, step_mul(b, step_spread(b, decay, t->p), t->p)), *v = NULL;
    const tcc_step_state buffer = t->states[0];
    if (b->spec->momentum) {
        tcc_node *momentum = step_spread(b, step_rate(b, t, TCC_HYPER_MOMENTUM), t->p);
        tcc_node *weight = step_spread(b, step_rate(b, t, TCC_HYPER_DAMPENING_SCALE), t->p);
        tcc_node *fresh = step_mul(b, d, weight);
        v = step_add(b, step_mul(b, buffer.value, momentum), fresh);
        d = b->spec->nesterov ? step_add(b, d, step_mul(b, v, momentum)) : v;
    }
    TCC_TRY(add_next(b, t, step_sub(b, t->p, step_mul(b, step_spread(b, lr, t->p), d))));
    return b->spec->momentum ? step_output(b, buffer.input, v) : TCC_OK;
}

/* 1 / (1 - beta^n), n the count of updates, as a scalar of the type of t's arithmetic; rate `complement` is 1 - beta.
 * In f64, where it is exact to f32's last place for every n; as -1 / expm1(n log1p(-(1 - beta))), since 1 - beta^n
 * loses what 1 - beta has kept. */
static tcc_node *bias(tcc_step_builder *b, const tcc_trained *t, int complement) {
    tcc_node *x = t->p;
    tcc_node *wide = tcc_ir_cast(b->g, step_rate(b, t, complement), TCC_F64);
    tcc_node *log_beta = tcc_ir_unary(b->g, TCC_OP_LOG1P, tcc_ir_unary(b->g, TCC_OP_NEG, wide));
    tcc_node *power = step_mul(b, tcc_ir_cast(b->g, b->count, TCC_F64), log_beta);
    tcc_node *rest = tcc_ir_unary(b->g, TCC_OP_NEG, tcc_ir_unary(b->g, TCC_OP_EXPM1, power));
    return x ? tcc_ir_cast(b->g, step_div(b, tcc_ir_splat_like(b->g, rest, 1), rest), x->type.dtype) : NULL;
}

/* m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, and p loses lr (m bias1) / (sqrt(v
 * bias2) + eps). Weight decay is added to g by Adam, and taken from p beforehand by AdamW. */
static tcc_status update_adam(tcc_step_builder *b, tcc_trained *t) {
    tcc_node *p = t->p, *g = t->g;
    tcc_node *lr = step_hyper(b, TCC_HYPER_LR(t->group), p),
             *decay = step_hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), p);
    if (b->spec->optimizer == TCC_ADAMW)
        p = step_mul(b, p, step_spread(b, step_one_minus(b, step_mul(b, lr, decay)), p));
    else g = step_add(b, g, step_mul(b, step_spread(b, decay, p), p));
    const tcc_step_state old_m = t->states[0], old_v = t->states[1];
    tcc_node *rate1 = step_rate(b, t, TCC_HYPER_BETA1_COMPLEMENT), *rate2 = step_rate(b, t, TCC_HYPER_BETA2_COMPLEMENT);
    tcc_node *change = step_sub(b, g, old_m.value);
    tcc_node *m = step_add(b, old_m.value, step_mul(b, step_spread(b, rate1, p), change));
    tcc_node *rate2_at_p = step_spread(b, rate2, p);
    tcc_node *fresh = step_mul(b, step_mul(b, rate2_at_p, g), g); /* g^2 alone would overflow earlier */
    tcc_node *v = step_add(b, step_mul(b, old_v.value, step_spread(b, step_one_minus(b, rate2), p)), fresh);
    tcc_node *correction = step_spread(b, step_sqrt(b, bias(b, t, TCC_HYPER_BETA2_COMPLEMENT)), p);
    tcc_node *root = step_mul(b, step_sqrt(b, v), correction);
    tcc_node *denominator = step_add(b, root, step_spread(b, step_hyper(b, TCC_HYPER_EPS, t->p), p));
    tcc_node *step = step_mul(b, lr, bias(b, t, TCC_HYPER_BETA1_COMPLEMENT));
    tcc_node *direction = step_div(b, m, denominator);
    TCC_TRY(add_next(b, t, step_sub(b, p, step_mul(b, step_spread(b, step, p), direction))));
    TCC_TRY(step_output(b, old_m.input, m));
    return step_output(b, old_v.input, v);
}

/* p - lr (sign(beta1 m + (1 - beta1) g) + weight_decay p), and m = beta2 m + (1 - beta2) g. */
static tcc_status update_lion(tcc_step_builder *b, tcc_trained *t) {
    tcc_node *lr = step_hyper(b, TCC_HYPER_LR(t->group), t->p),
             *decay = step_hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), t->p);
    tcc_node *p = step_mul(b, t->p, step_spread(b, step_one_minus(b, step_mul(b, lr, decay)), t->p));
    const tcc_step_state old = t->states[0];
    tcc_node *rate1 = step_spread(b, step_rate(b, t, TCC_HYPER_BETA1_COMPLEMENT), p);
    tcc_node *rate2 = step_spread(b, step_rate(b, t, TCC_HYPER_BETA2_COMPLEMENT), p);
    tcc_node *change = step_sub(b, t->g, old.value);
    tcc_node *direction = tcc_ir_unary(b->g, TCC_OP_SIGN, step_add(b, old.value, step_mul(b, rate1, change)));
    TCC_TRY(add_next(b, t, step_sub(b, p, step_mul(b, step_spread(b, lr, p), direction))));
    return step_output(b, old.input, step_add(b, old.value, step_mul(b, rate2, change)));
}

/* sqrt(mean(x^2)), a scalar. */
static tcc_node *root_mean_square(tcc_step_builder *b, tcc_node *x) {
    if (!x) return NULL;
    const tcc_dims all = tcc_ir_axes_from(0, x->type.rank);
    const double share = 1.0 / (double)tcc_type_numel(&x->type);
    tcc_node *square = step_mul(b, x, x);
    if (all.count) square = tcc_ir_reduce(b->g, TCC_OP_REDUCE_SUM, square, &all);
    return step_sqrt(b, tcc_ir_binary_c(b->g, TCC_OP_MUL, square, share));
}

/* The mean along `axis`, whose extent becomes 1. */
static tcc_node *mean_along(tcc_step_builder *b, tcc_node *x, int axis) {
    if (!x) return NULL;
    tcc_type type = x->type;
    const double share = 1.0 / (double)type.dims[axis];
    const tcc_dims axes = {1, {axis}};
    tcc_node *sum = tcc_ir_reduce(b->g, TCC_OP_REDUCE_SUM, x, &axes);
    type.dims[axis] = 1;
    return tcc_ir_reshape(b->g, tcc_ir_binary_c(b->g, TCC_OP_MUL, sum, share), type.rank, type.dims);
}

/* x at the dims of `like`, which has its rank: extents of 1 stretch. */
static tcc_node *stretch(tcc_step_builder *b, tcc_node *x, const tcc_node *like) {
    int dims[TCC_MAX_RANK];
    for (int d = 0; d < like->type.rank; d++) dims[d] = d;
    return tcc_ir_broadcast(b->g, x, like->type.rank, like->type.dims, dims);
}

/* State k moves towards `fresh` by the share `weight`. */
static tcc_node *move_state(tcc_step_builder *b, const tcc_trained *t, int k, tcc_node *fresh, tcc_node *weight) {
    tcc_node *old = t->states[k].value;
    tcc_node *change = step_sub(b, fresh, old);
    return old ? step_add(b, old, step_mul(b, step_spread(b, weight, old), change)) : NULL;
}

/* The mean of g^2 as Adafactor knows it: of a matrix the product of the means of its rows and of its columns. */
static tcc_status estimate_variance(tcc_step_builder *b, const tcc_trained *t, double eps, tcc_node **variance) {
    const int rank = t->p->type.rank;
    tcc_node *n = tcc_ir_cast(b->g, b->count, TCC_F64);
    tcc_node *decay = n ? tcc_ir_binary(b->g, TCC_OP_POW, n, tcc_ir_splat_like(b->g, n, -0.8)) : NULL;
    tcc_node *weight = tcc_ir_cast(b->g, decay, t->p->type.dtype), *square = step_mul(b, t->g, t->g);
    if (rank < 2) {
        *variance = move_state(b, t, 0, square, weight);
        return step_output(b, t->states[0].input, *variance);
    }
    tcc_node *rows = move_state(b, t, 0, mean_along(b, square, rank - 1), weight);
    tcc_node *columns = move_state(b, t, 1, mean_along(b, square, rank - 2), weight);
    tcc_node *mean = mean_along(b, rows, rank - 2);
    if (!mean || !columns) return b->g->diag->status;
    mean = stretch(b, tcc_ir_binary_c(b->g, TCC_OP_MAX, mean, eps), rows);
    tcc_node *share = stretch(b, step_div(b, rows, mean), t->p);
    *variance = step_mul(b, share, stretch(b, columns, t->p));
    TCC_TRY(step_output(b, t->states[0].input, rows));
    return step_output(b, t->states[1].input, columns);
}

/* u = g / sqrt(variance), and p loses u / max(1, RMS(u)), times min(lr, 1 / sqrt(n)) max(eps, RMS(p)). Weight decay is
 * taken from p beforehand. */
static tcc_status update_adafactor(tcc_step_builder *b, tcc_trained *t) {
    const double least = t->p->type.dtype == TCC_F64 ? DBL_EPSILON : FLT_EPSILON;
    tcc_node *lr = step_hyper(b, TCC_HYPER_LR(t->group), t->p);
    tcc_node *decay = step_hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), t->p), *variance = NULL;
    TCC_TRY(estimate_variance(b, t, least, &variance));
    variance = tcc_ir_binary_c(b->g, TCC_OP_MAX, variance, least * least);
    tcc_node *u = step_mul(b, tcc_ir_unary(b->g, TCC_OP_RSQRT, variance), t->g);
    tcc_node *n = tcc_ir_cast(b->g, tcc_ir_unary(b->g, TCC_OP_RSQRT, tcc_ir_cast(b->g, b->count, TCC_F64)),
                              t->p->type.dtype);
    tcc_node *rate = tcc_ir_binary(b->g, TCC_OP_MIN, lr, n), *eps = step_hyper(b, TCC_HYPER_EPS, t->p);
    tcc_node *size = tcc_ir_binary(b->g, TCC_OP_MAX, eps, root_mean_square(b, t->p));
    tcc_node *clip = tcc_ir_binary_c(b->g, TCC_OP_MAX, root_mean_square(b, u), 1);
    tcc_node *step = step_div(b, step_mul(b, size, rate), clip);
    tcc_node *p = step_mul(b, t->p, step_spread(b, step_one_minus(b, step_mul(b, lr, decay)), t->p));
    return add_next(b, t, step_sub(b, p, step_mul(b, step_spread(b, step, p), u)));
}

/* d = g + weight_decay p, sum = sum + d^2, and p loses lr d / (sqrt(sum) + eps). */
static tcc_status update_adagrad(tcc_step_builder *b, tcc_trained *t) {
    tcc_node *lr = step_hyper(b, TCC_HYPER_LR(t->group), t->p),
             *decay = step_hyper(b, TCC_HYPER_WEIGHT_DECAY(t->group), t->p);
    tcc_node *d = step_add(b, t->g, step_mul(b, step_spread(b, decay, t->p), t->p));
    tcc_node *sum = step_add(b, t->states[0].value, step_mul(b, d, d)), *root = step_sqrt(b, sum);
    tcc_node *direction = step_div(b, d, step_add(b, root, step_spread(b, step_hyper(b, TCC_HYPER_EPS, t->p), t->p)));
    TCC_TRY(add_next(b, t, step_sub(b, t->p, step_mul(b, step_spread(b, lr, t->p), direction))));
    return step_output(b, t->states[0].input, sum);
}

tcc_status tcc__step_update(tcc_step_builder *b, tcc_trained *t) {
    tcc_ir_set_backward(b->g, b->g->inputs.data[t->input]->loc);
    TCC_TRY(optimizers[b->spec->optimizer].update(b, t));
    /* In the kernel that updates the parameter, which has its new value in a register. */
    return b->spec->ema ? average(b, &t->ema, t->next) : TCC_OK;
}

tcc_status tcc__step_update_whole(tcc_step_builder *b, const tcc_trained *t) {
    const tcc_node *input = b->g->inputs.data[t->gathered];
    tcc_ir_set_backward(b->g, input->loc);
    return tcc_ir_output(b->g, input->attrs->input.name, t->whole_next, t->gathered);
}
