/* SPDX-License-Identifier: MIT
 * Programs as data: their calls, their batches, and which steps are needed. */
#include "harness/user_program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Calls -- */

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double uniform(uint64_t key) { return (double)(mix(key) >> 11) * 0x1p-53 * 2 - 1; }

double user_literal(const user_step *s, int64_t e) {
    const int64_t m = s->ints[2];
    switch (s->ints[1]) {
    case 0: return (double)(e % m) * s->real;             /* 0 1 2 0 1 2 */
    case 1: return (double)((e * 7 + 3) % m) * s->real;   /* repeated, not in order */
    case 2: return (double)(m - 1 - e % m) * s->real;     /* descending */
    case 3: return (double)(e / 3 % m) * s->real;         /* runs of equal values */
    default: return uniform((uint64_t)(e + m)) * s->real; /* floats */
    }
}

static tcc_tensor literal(tcc_trace *t, const user_step *s) {
    int64_t count = 1;
    for (int d = 0; d < s->rank; d++) count *= s->dims[d];
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t e = 0; e < count; e++) values[e] = user_literal(s, e);
    tcc_tensor x = tcc_literal(t, values, s->dtype, s->rank, s->dims);
    free(values);
    return x;
}

static tcc_tensor concat(const user_step *s, const tcc_tensor *values) {
    tcc_tensor parts[USER_ARGS];
    for (int i = 0; i < s->n_args; i++) parts[i] = values[s->args[i]];
    return tcc_concat(parts, s->n_args, (int)s->ints[0]);
}

static tcc_tensor leaf(tcc_trace *t, const user_step *s) {
    const int64_t *v = s->ints;
    switch (s->op) {
    case USER_input: return tcc_input(t, s->name);
    case USER_param:
        return tcc_param(t, s->name, ((tcc_init){.kind = TCC_INIT_UNIFORM, .a = -s->real, .b = s->real}), s->rank,
                         s->dims);
    case USER_state:
        return tcc_state(t, s->name, ((tcc_init){.kind = TCC_INIT_CONSTANT, .a = s->real}), s->rank, s->dims);
    case USER_constant: return tcc_constant(t, s->real, s->dtype, s->rank, s->dims);
    case USER_literal: return literal(t, s);
    case USER_random_uniform: return tcc_random_uniform(t, s->name, -s->real, s->real, s->dtype, s->rank, s->dims);
    case USER_random_normal: return tcc_random_normal(t, s->name, 0.5, s->real, s->dtype, s->rank, s->dims);
    case USER_random_bernoulli: return tcc_random_bernoulli(t, s->name, s->real, s->rank, s->dims);
    case USER_random_integers: return tcc_random_integers(t, s->name, 0, v[1], s->dtype, s->rank, s->dims);
    default: return tcc_iota(t, (int)v[1], s->dtype, s->rank, s->dims);
    }
}

static tcc_tensor shape(const user_step *s, tcc_tensor a, tcc_tensor b, tcc_tensor c) {
    const int64_t *v = s->ints;
    const int n = s->n_ints;
    switch (s->op) {
    case USER_reshape: return tcc_reshape(a, n, v);
    case USER_flatten: return tcc_flatten(a, (int)v[0]);
    case USER_transpose: return tcc_transpose(a, n, v);
    case USER_broadcast: return tcc_broadcast(a, n, v);
    case USER_slice: return tcc_slice_strided(a, (int)v[0], v[1], v[2], v[3]);
    case USER_pad: return tcc_pad(a, (int)v[0], v[1], v[2], s->real);
    case USER_flip: return tcc_flip(a, (int)v[0]);
    case USER_roll: return tcc_roll(a, (int)v[0], v[1]);
    case USER_tril: return tcc_tril(a, v[0]);
    case USER_triu: return tcc_triu(a, v[0]);
    case USER_pad_reflect: return tcc_pad_reflect(a, (int)v[0], v[1], v[2]);
    case USER_pad_replicate: return tcc_pad_replicate(a, (int)v[0], v[1], v[2]);
    case USER_pad_wrap: return tcc_pad_wrap(a, (int)v[0], v[1], v[2]);
    case USER_swap_axes: return tcc_swap_axes(a, (int)v[0], (int)v[1]);
    case USER_diagonal: return tcc_diagonal(a, v[0]);
    case USER_diff: return tcc_diff(a, (int)v[0]);
    case USER_glu: return tcc_glu(a, (int)v[0]);
    case USER_pixel_shuffle: return tcc_pixel_shuffle(a, v[0]);
    case USER_pixel_unshuffle: return tcc_pixel_unshuffle(a, v[0]);
    case USER_scatter_max: return tcc_scatter_max(a, b, c, (int)v[0]);
    case USER_scatter_min: return tcc_scatter_min(a, b, c, (int)v[0]);
    case USER_scatter: return tcc_scatter(a, b, c, (int)v[0]);
    case USER_scatter_along: return tcc_scatter_along(a, b, c, (int)v[0]);
    case USER_scatter_add_along: return tcc_scatter_add_along(a, b, c, (int)v[0]);
    case USER_sort: return tcc_sort(a, (int)v[0], v[1]);
    case USER_top_k: return tcc_top_k(a, v[1], (int)v[0], NULL);
    case USER_repeat: return tcc_repeat(a, n, v);
    case USER_searchsorted: return tcc_searchsorted(a, b, v[0]);
    case USER_keep_mean: return tcc_mean(a, n + TCC_KEEP_DIMS, v);
    case USER_keep_max: return tcc_reduce_max(a, n + TCC_KEEP_DIMS, v);
    case USER_prod: return tcc_prod(a, n, v);
    case USER_cumprod: return tcc_cumprod(a, (int)v[0]);
    case USER_linear_scan: return tcc_linear_scan(a, b, (int)v[0]);
    case USER_cummax: return tcc_cummax(a, (int)v[0], NULL);
    case USER_cummin: return tcc_cummin(a, (int)v[0], NULL);
    case USER_normalize: return tcc_normalize(a, 2, (int)v[0]);
    case USER_cdist: return tcc_cdist(a, b, s->real);
    case USER_take: return tcc_take(a, b, (int)v[0]);
    case USER_take_along: return tcc_take_along(a, b, (int)v[0]);
    case USER_scatter_add: return tcc_scatter_add(a, b, c, (int)v[0]);
    case USER_sum: return tcc_sum(a, n, v);
    case USER_mean: return tcc_mean(a, n, v);
    case USER_reduce_max: return tcc_reduce_max(a, n, v);
    case USER_reduce_min: return tcc_reduce_min(a, n, v);
    case USER_var: return tcc_var(a, 0, n, v);
    case USER_logsumexp: return tcc_logsumexp(a, n, v);
    case USER_argmax: return tcc_argmax(a, (int)v[0]);
    case USER_cumsum: return tcc_cumsum(a, (int)v[0]);
    case USER_softmax: return tcc_softmax(a, (int)v[0]);
    default: return tcc_log_softmax(a, (int)v[0]);
    }
}

static tcc_tensor point(const user_step *s, tcc_tensor a, tcc_tensor b, tcc_tensor c) {
    switch (s->op) {
#define UNARY(name) \
    case USER_##name: return tcc_##name(a);
        UNARY(neg)
        UNARY(abs)
        UNARY(sign)
        UNARY(exp)
        UNARY(expm1)
        UNARY(log)
        UNARY(log1p)
        UNARY(sqrt)
        UNARY(rsqrt)
        UNARY(sin)
        UNARY(cos)
        UNARY(tanh)
        UNARY(sigmoid)
        UNARY(erf)
        UNARY(floor)
        UNARY(ceil)
        UNARY(round)
        UNARY(isfinite)
        UNARY(not)
        UNARY(relu)
        UNARY(gelu)
        UNARY(gelu_tanh)
        UNARY(silu)
        UNARY(softplus)
        UNARY(relu6)
        UNARY(hardswish)
        UNARY(mish)
        UNARY(atan)
        UNARY(sinh)
        UNARY(cosh)
        UNARY(log_sigmoid)
        UNARY(softsign)
        UNARY(selu)
        UNARY(hardsigmoid)
        UNARY(square)
        UNARY(trunc)
        UNARY(asin)
#undef UNARY
    case USER_leaky_relu: return tcc_leaky_relu(a, s->real);
    case USER_elu: return tcc_elu(a, s->real);
    case USER_cast: return tcc_cast(a, (tcc_dtype)s->ints[0]);
    case USER_add_scalar: return tcc_add_scalar(a, s->real);
    case USER_scale: return tcc_scale(a, s->real);
#define BINARY(name) \
    case USER_##name: return tcc_##name(a, b);
        BINARY(add)
        BINARY(sub)
        BINARY(mul)
        BINARY(div)
        BINARY(rem)
        BINARY(pow)
        BINARY(max)
        BINARY(min)
        BINARY(and)
        BINARY(or)
        BINARY(xor)
        BINARY(shift_left)
        BINARY(shift_right)
        BINARY(eq)
        BINARY(ne)
        BINARY(lt)
        BINARY(le)
        BINARY(gt)
        BINARY(ge)
        BINARY(matmul)
        BINARY(atan2)
        BINARY(logaddexp)
        BINARY(prelu)
        BINARY(mse_loss)
        BINARY(l1_loss)
        BINARY(bce_with_logits)
        BINARY(smooth_l1_loss)
        BINARY(huber_loss)
#undef BINARY
    default: return tcc_select(a, b, c);
    }
}

tcc_tensor user_step_apply(tcc_trace *t, const user_step *s, const tcc_tensor *values) {
    tcc_tensor a[4] = {{0}};
    for (int i = 0; i < s->n_args && i < 4; i++) a[i] = values[s->args[i]];
    if (s->op <= USER_iota) return leaf(t, s);
    if (s->op <= USER_select) return point(s, a[0], a[1], a[2]);
    if (s->op == USER_concat) return concat(s, values);
    if (s->op <= USER_log_softmax) return shape(s, a[0], a[1], a[2]);
    if (s->op <= USER_dropout) return user_layer_apply(s, a);
    if (s->op == USER_update) tcc_update(a[0], a[1]);
    if (s->op == USER_output) tcc_output(t, s->name, a[0]);
    if (s->op == USER_loss) tcc_loss(t, a[0]);
    return a[0];
}

void user_program_trace(tcc_trace *t, void *user) {
    const user_program *p = user;
    tcc_tensor *values = calloc((size_t)p->n_steps + 1, sizeof *values);
    bool inside = false;
    for (int i = 0; i < p->n_steps; i++) {
        const bool marked = p->segment_steps && i / p->segment_steps % 2;
        if (marked && !inside) tcc_checkpoint_segment(t);
        if (!marked && inside) tcc_checkpoint_segment_end(t);
        inside = marked;
        values[i] = user_step_apply(t, &p->steps[i], values);
    }
    if (inside) tcc_checkpoint_segment_end(t);
    free(values);
}

/* -- Batches -- */

static double element(const user_input *in, uint64_t key, int64_t e) {
    const int64_t columns = in->rank ? in->dims[in->rank - 1] : 1;
    const int64_t row = e / columns, channels = in->rank > 1 ? in->dims[1] : 1, limit = in->limit ? in->limit : 1;
    int64_t inner = 1;
    for (int d = 2; d < in->rank; d++) inner *= in->dims[d];
    const uint64_t own = mix(key + (uint64_t)e);
    switch (in->fill) {
    case USER_FILL_UNIFORM: return uniform(own);
    case USER_FILL_LARGE: return 1e6 * uniform(own);
    case USER_FILL_SMALL: return 1e-8 * uniform(own);
    case USER_FILL_CONSTANT_ROWS: return uniform(key + (uint64_t)row);
    case USER_FILL_CONSTANT_CHANNELS: return uniform(key + (uint64_t)(e / inner % channels));
    case USER_FILL_INDEX: return (double)(own % (uint64_t)limit);
    case USER_FILL_FEW: return (double)(own % 2 * (mix(key) % (uint64_t)limit));
    case USER_FILL_SORTED: return (double)(e % limit / 2);
    case USER_FILL_STRAY: return own % 8 ? (double)(own / 8 % (uint64_t)limit) : own % 16 ? -1 : (double)limit;
    case USER_FILL_MASK: return mix(key + (uint64_t)row) % 4 && own % 4;
    case USER_FILL_MASK_FLOAT: return mix(key + (uint64_t)row) % 4 && own % 4 ? 0 : -INFINITY;
    }
    return 0;
}

void user_batch_make(const user_program *p, int step, tcc_array *out) {
    for (int i = 0; i < p->n_inputs; i++) {
        const user_input *in = &p->inputs[i];
        int64_t count = 1;
        for (int d = 0; d < in->rank; d++) count *= in->dims[d];
        out[i] = (tcc_array){.name = in->name, .dtype = in->dtype, .rank = in->rank, .data = malloc((size_t)count * 4)};
        memcpy(out[i].dims, in->dims, sizeof in->dims);
        const uint64_t key = mix(mix(p->seed) + (uint64_t)(step * USER_INPUTS + i));
        for (int64_t e = 0; e < count; e++) {
            const double x = element(in, key, e);
            if (in->dtype == TCC_F32) ((float *)out[i].data)[e] = (float)x;
            else if (in->dtype == TCC_I32) ((int32_t *)out[i].data)[e] = (int32_t)x;
            else ((uint8_t *)out[i].data)[e] = x != 0;
        }
    }
}

void user_batch_free(const user_program *p, tcc_array *batch) {
    for (int i = 0; i < p->n_inputs; i++) free(batch[i].data);
}

/* -- What is needed -- */

static void drop_inputs(user_program *p) {
    int kept = 0;
    for (int i = 0; i < p->n_inputs; i++) {
        bool read = false;
        for (int k = 0; k < p->n_steps; k++)
            read |= p->steps[k].op == USER_input && !strcmp(p->steps[k].name, p->inputs[i].name);
        if (read) p->inputs[kept++] = p->inputs[i];
    }
    p->n_inputs = kept;
}

void user_program_drop_dead(user_program *p) {
    int *place = calloc((size_t)p->n_steps + 1, sizeof *place), kept = 0;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const user_step *s = &p->steps[i];
        place[i] |= s->op >= USER_update;
        for (int k = 0; place[i] && k < s->n_args; k++) place[s->args[k]] = 1;
    }
    for (int i = 0; i < p->n_steps; i++) {
        if (!place[i]) continue;
        place[i] = kept;
        user_step *s = &p->steps[kept++];
        if (s != &p->steps[i]) *s = p->steps[i];
        for (int k = 0; k < s->n_args; k++) s->args[k] = place[s->args[k]];
    }
    p->n_steps = kept;
    free(place);
    drop_inputs(p);
}
