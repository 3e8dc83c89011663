/* SPDX-License-Identifier: MIT
 * Random users' programs: layers of networks. */
#include "harness/user_maker.h"

#include <stdio.h>
#include <string.h>

static int activation(user_maker *m, int x) {
    const user_op op = (user_op)USER_ONE_OF(m, USER_relu, USER_relu, USER_gelu, USER_gelu_tanh, USER_silu,
                                            USER_softplus, USER_tanh, USER_sigmoid, USER_leaky_relu, USER_erf, USER_sin,
                                            USER_cos, USER_relu6, USER_hardswish, USER_mish);
    return op == USER_leaky_relu ? user_op_real(m, op, x, 0.1) : user_op1(m, op, x);
}

/* A linear layer; weights of the same shape are sometimes shared. */
static int linear(user_maker *m, int x, int64_t features) {
    const int64_t in = user_dim(m, x, -1);
    for (int i = 0; i < m->p->n_steps && user_chance(m, 97); i++) {
        const user_step *s = &m->p->steps[i];
        if (s->op == USER_linear && s->ints[0] == features && user_dim(m, s->args[0], -1) == in && user_chance(m, 15)) {
            char name[USER_NAME];
            memcpy(name, s->name, sizeof name);
            return user_layer(m, USER_linear, x, name, USER_INT_LIST(features, s->ints[1]));
        }
    }
    return user_layer(m, USER_linear, x, NULL, USER_INT_LIST(features, user_chance(m, 20)));
}

static int64_t features_for(user_maker *m, int x) {
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    const int last = user_rank(m, x) - 1;
    dims[last] = user_extent(m);
    return user_fits(m, last + 1, dims) && dims[last] * user_dim(m, x, -1) <= 4096 ? dims[last] : 1 + user_below(m, 3);
}

static int norm(user_maker *m, int x) {
    const int rank = user_rank(m, x), kind = (int)user_below(m, 5);
    const int64_t no_bias = user_chance(m, 20), no_affine = user_chance(m, 10);
    if (kind == 0 || rank < 2) return user_layer(m, USER_layer_norm, x, NULL, USER_INT_LIST(no_bias, no_affine));
    if (kind == 1) return user_layer(m, USER_rms_norm, x, NULL, USER_INT_LIST(no_bias, no_affine));
    if (kind == 2 && user_count(m, x) > user_dim(m, x, 1)) /* more than a value a channel */
        return user_layer(m, USER_batch_norm, x, NULL, USER_INT_LIST(no_bias, no_affine));
    int64_t groups = user_dim(m, x, 1);
    if (kind == 4 && rank > 2 && user_count(m, x) > user_dim(m, x, 0) * groups)
        return user_layer(m, USER_instance_norm, x, NULL, USER_INT_LIST(no_bias, no_affine));
    while (groups > 1 && (user_dim(m, x, 1) % groups || user_chance(m, 40))) groups--;
    return user_layer(m, USER_group_norm, x, NULL, USER_INT_LIST(no_bias, no_affine, groups));
}

static void make_linear(user_maker *m) {
    int x = user_pick(m, 1, 4);
    x = linear(m, x, features_for(m, x));
    if (user_chance(m, 60)) x = activation(m, x);
    user_push(m, x);
}

static void make_norm(user_maker *m) { user_push(m, norm(m, user_pick(m, 1, 5))); }

static void make_residual(user_maker *m) {
    int x = user_pick(m, 1, 4), y = user_chance(m, 60) ? norm(m, x) : x;
    y = activation(m, linear(m, y, features_for(m, y)));
    if (user_chance(m, 20) && !m->options->exact) y = user_op_real(m, USER_dropout, y, 0.2);
    y = linear(m, y, user_dim(m, x, -1));
    user_push(m, user_op2(m, USER_add, x, y));
}

static void make_dropout(user_maker *m) {
    int x = user_pick(m, 1, 4);
    if (m->options->exact) return;
    user_push(m, user_op_real(m, USER_dropout, x, user_chance(m, 50) ? 0.5 : 0.1));
}

/* -- Attention -- */

/* [B, T, D] with small extents. */
static int sequence(user_maker *m) {
    int x = user_pick(m, 3, 3);
    if (user_dim(m, x, 1) > 40) x = user_op_ints(m, USER_slice, x, USER_INT_LIST(1, 0, 40, 1));
    return x;
}

/* Keys and values for the queries of x: x, or the first or last steps of it. */
static int keys_of(user_maker *m, int x) {
    const int64_t t = user_dim(m, x, 1), cut = user_below(m, t);
    if (user_chance(m, 70)) return x;
    if (user_chance(m, 50)) return user_op_ints(m, USER_slice, x, USER_INT_LIST(1, cut, t, 1));
    return user_op_ints(m, USER_slice, x, USER_INT_LIST(1, 0, cut + 1, 1));
}

static int split_heads(user_maker *m, int x, int64_t heads) {
    const int64_t b = user_dim(m, x, 0), t = user_dim(m, x, 1), d = user_dim(m, x, 2);
    x = user_op_ints(m, USER_reshape, x, USER_INT_LIST(b, t, heads, d / heads));
    return user_op_ints(m, USER_transpose, x, USER_INT_LIST(0, 2, 1, 3));
}

static void make_attention(user_maker *m) {
    int x = sequence(m), from = keys_of(m, x);
    const int64_t b = user_dim(m, x, 0), t = user_dim(m, x, 1), d = user_dim(m, x, 2), keys = user_dim(m, from, 1);
    const int64_t heads = user_chance(m, 30) ? 1 : d % 2 ? d : 2;
    const bool split = heads > 1 && user_chance(m, 80);
    const int64_t shared = split && user_chance(m, 30) ? 1 : heads, width = d / heads * shared;
    int q = linear(m, x, d), k = linear(m, from, width),
        v = width == d && user_chance(m, 30) ? from : linear(m, from, width);
    if (split) q = split_heads(m, q, heads), k = split_heads(m, k, shared), v = split_heads(m, v, shared);
    const int rank = user_rank(m, q);
    user_step s = {.op = USER_attention, .n_args = 3, .args = {q, k, v}, .n_ints = 1, .ints = {user_chance(m, 40)}};
    if (user_chance(m, 20)) s.real = 0.3;
    if (user_chance(m, 50)) { /* rows of it may hide every key */
        const int64_t dims[2] = {t, keys};
        s.op = USER_attention_masked;
        s.args[s.n_args++] = user_chance(m, 50) ? user_mask(m, 2, dims)
                                                : user_new_input(m, TCC_F32, USER_FILL_MASK_FLOAT, 0, 2, dims);
    }
    int y = user_emit(m, &s);
    if (rank == 4) {
        y = user_op_ints(m, USER_transpose, y, USER_INT_LIST(0, 2, 1, 3));
        y = user_op_ints(m, USER_reshape, y, USER_INT_LIST(b, t, -1));
    }
    if (user_chance(m, 60)) y = linear(m, y, d);
    user_push(m, user_chance(m, 60) ? user_op2(m, USER_add, x, y) : y);
}

/* As one layer. */
static void make_multi_head(user_maker *m) {
    int x = sequence(m), from = keys_of(m, x);
    const int64_t d = user_dim(m, x, 2), heads = user_chance(m, 30) ? 1 : d % 4 ? d : 4;
    user_step s = {.op = USER_multi_head_attention, .n_args = 2, .args = {x, from}, .n_ints = 3};
    const int64_t ints[3] = {heads, heads % 2 == 0 && user_chance(m, 40) ? heads / 2 : user_chance(m, 20),
                             user_chance(m, 40)};
    memcpy(s.ints, ints, sizeof ints);
    if (d > 64) return;
    user_name(m, s.name, "l");
    user_push(m, user_emit(m, &s));
}

/* The same by hand: scores, a mask, softmax, a product. */
static void make_manual_attention(user_maker *m) {
    int x = sequence(m);
    const int64_t t = user_dim(m, x, 1), d = user_dim(m, x, 2), dims[2] = {t, t};
    int q = linear(m, x, d), k = user_chance(m, 30) ? q : linear(m, x, d);
    int scores = user_op2(m, USER_matmul, q, user_op_ints(m, USER_transpose, k, USER_INT_LIST(0, 2, 1)));
    scores = user_op_real(m, USER_scale, scores, 0.3);
    if (user_chance(m, 60))
        scores = user_op3(m, USER_select, user_mask(m, 2, dims), scores, user_constant(m, -1e9, TCC_F32, 0, NULL));
    int weights = user_op_ints(m, USER_softmax, scores, USER_INT_LIST(user_chance(m, 85) ? 2 : 1));
    user_push(m, user_op2(m, USER_matmul, weights, x));
    if (user_chance(m, 40)) user_push(m, weights);
}

/* -- Images -- */

static int image(user_maker *m) {
    int x = user_pick(m, 3, 5);
    if (user_rank(m, x) == 5 && user_count(m, x) > 600) x = user_op_ints(m, USER_flatten, x, USER_INT_LIST(3));
    return x;
}

static int64_t least_spatial(const user_maker *m, int x) {
    int64_t least = user_dim(m, x, 2);
    for (int d = 3; d < user_rank(m, x); d++)
        if (user_dim(m, x, d) < least) least = user_dim(m, x, d);
    return least;
}

static void make_conv(user_maker *m) {
    int x = image(m);
    const int64_t channels = user_dim(m, x, 1), least = least_spatial(m, x);
    int64_t kernel = USER_ONE_OF(m, 1, 2, 3, 3, 3, 5), padding = user_chance(m, 60) ? kernel / 2 : 0, dilation = 1;
    if (least + 2 * padding < kernel) kernel = 1, padding = 0;
    if (user_chance(m, 15) && least + 2 * padding >= 2 * kernel - 1) dilation = 2;
    int64_t groups = user_chance(m, 70) ? 1 : channels, out = user_extent(m);
    while (channels % groups) groups--;
    out = groups > 1 ? groups * (1 + user_below(m, 2)) : out;
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    dims[1] = out;
    if (!user_fits(m, user_rank(m, x), dims) || out * channels / groups > 2048) {
        if (groups > 1) return;
        out = 1 + user_below(m, 4);
    }
    const int64_t stride = user_chance(m, 75) ? 1 : 2;
    int y = user_layer(m, USER_conv_layer, x, NULL,
                       USER_INT_LIST(out, kernel, stride, padding, dilation, groups, user_chance(m, 30)));
    if (user_chance(m, 40)) y = norm(m, y);
    if (user_chance(m, 60)) y = activation(m, y);
    if (user_chance(m, 25) && user_same(m, x, y)) y = user_op2(m, USER_add, x, y);
    user_push(m, y);
}

/* Strides, kernels and paddings that differ by dim and side. */
static void make_conv_each(user_maker *m) {
    int x = image(m);
    const int64_t channels = user_dim(m, x, 1), least = least_spatial(m, x);
    const int64_t groups = user_chance(m, 60) ? 1 : channels, out = groups * (1 + user_below(m, groups > 1 ? 2 : 6));
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    dims[1] = out;
    for (int d = 2; d < user_rank(m, x); d++) dims[d] += 7;
    if (!user_fits(m, user_rank(m, x), dims) || out * channels / groups > 1024) return;
    const int64_t padding = user_below(m, 3);
    const int64_t dilation = 1 + user_chance(m, 20);
    int64_t kernel = 1 + user_below(m, 3), first = USER_ONE_OF(m, 0, 1, 3, 4);
    if (2 * (kernel - 1) >= least + padding) kernel = 1;
    if (2 * (first - 1) >= user_dim(m, x, 2)) first = 1;
    user_push(m, user_layer(m, USER_conv_layer_each, x, NULL,
                            USER_INT_LIST(out, kernel, first, 1 + user_below(m, 2), user_below(m, 4), padding,
                                          user_below(m, 6), dilation, user_below(m, 3), groups)));
}

/* Larger images; also with gaps, and cut off on one side. False: they would be too large. */
static bool try_conv_transpose(user_maker *m) {
    int x = image(m);
    const int64_t channels = user_dim(m, x, 1), stride = 1 + user_below(m, 3), first = user_below(m, 4);
    const int64_t groups = user_chance(m, 60) ? 1 : channels, out = groups * (1 + user_below(m, groups > 1 ? 2 : 6));
    const int64_t kernel = 1 + user_below(m, 4), reach = USER_ONE_OF(m, 0, 1, 3, 5), dilation = 1 + user_chance(m, 20);
    const int64_t step = first ? first : stride, more = step > 1 && user_chance(m, 40) ? user_below(m, step) : 0;
    int64_t dims[TCC_MAX_RANK], padding = user_below(m, 3), before = user_below(m, 3);
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    dims[1] = out;
    for (int d = 2; d < user_rank(m, x); d++) {
        const int64_t s = d == 2 ? step : stride, k = d == 2 && reach ? reach : kernel;
        dims[d] = (dims[d] - 1) * s + dilation * (k - 1) + 1 + (d == 2 ? more : 0);
        if (dims[d] <= 2 * padding) padding = 0;
        if (d == 2 && dims[d] <= padding + before) before = 0;
    }
    if (!user_fits(m, user_rank(m, x), dims) || out * channels / groups > 1024) return false;
    int y;
    if (user_chance(m, 75)) {
        y = user_layer(m, USER_conv_transpose_layer, x, NULL,
                       USER_INT_LIST(out, kernel, reach, stride, first, padding, before, dilation, more, groups));
        if (user_chance(m, 40)) y = activation(m, y);
    } else { /* weights that are computed */
        memcpy(dims, (int64_t[]){channels, out / groups, reach ? reach : kernel, kernel, kernel}, 5 * sizeof *dims);
        user_step s = {.op = USER_conv_transpose, .n_args = 2, .n_ints = 7};
        const int64_t ints[] = {stride, first, padding, before, dilation, groups, more};
        memcpy(s.ints, ints, sizeof ints);
        s.args[0] = x, s.args[1] = user_op1(m, USER_tanh, user_param(m, 1, user_rank(m, x), dims));
        y = user_emit(m, &s);
    }
    user_push(m, y);
    return true;
}

static void make_conv_transpose(user_maker *m) {
    for (int tries = 0; tries < 6 && !try_conv_transpose(m); tries++) {}
}

/* A convolution whose weights are computed, or the image itself. */
static void make_conv_of_values(user_maker *m) {
    int x = image(m);
    const int rank = user_rank(m, x);
    int64_t dims[TCC_MAX_RANK] = {1 + user_below(m, 4), user_dim(m, x, 1)};
    for (int d = 2; d < rank; d++) dims[d] = user_dim(m, x, d) < 3 ? 1 : 3;
    if (!user_fits(m, rank, dims)) return;
    int w = user_op1(m, USER_tanh, user_param(m, 1, rank, dims));
    user_step s = {.op = USER_conv, .n_args = 2, .args = {x, w}, .n_ints = 4, .ints = {1, 1, 1, 1}};
    if (user_chance(m, 30)) {
        s.op = USER_conv_same, s.n_ints = 3;
        s.ints[0] = 1 + user_below(m, 3), s.ints[1] = user_below(m, 4), s.ints[2] = 1 + user_below(m, 2);
    } else if (user_chance(m, 40)) s.args[1] = x, s.ints[1] = 0; /* correlated with itself: a square of the batch */
    user_push(m, user_emit(m, &s));
}

static void make_pool(user_maker *m) {
    int x = image(m);
    const int64_t least = least_spatial(m, x);
    if (user_chance(m, 30)) {
        int64_t to[3];
        for (int d = 2; d < user_rank(m, x); d++) to[d - 2] = 1 + user_below(m, user_dim(m, x, d));
        user_push(m, user_op_ints(m, USER_adaptive_avg_pool, x, user_rank(m, x) - 2, to));
        return;
    }
    int64_t window = USER_ONE_OF(m, 2, 2, 3), stride = USER_ONE_OF(m, 1, 2, 2, 3), padding = user_chance(m, 30);
    if (least + 2 * padding < window) window = 1, padding = 0;
    if (user_chance(m, 40)) x = user_op1(m, USER_relu, x); /* ties */
    const user_op op = user_chance(m, 60) ? USER_max_pool : USER_avg_pool;
    if (user_chance(m, 40)) { /* each dim its own */
        int64_t first = user_chance(m, 50) ? 0 : 1 + user_below(m, user_dim(m, x, 2));
        if (first <= padding) first = 0;
        const int64_t before = user_below(m, first ? first : window);
        user_push(m, user_op_ints(m, op == USER_max_pool ? USER_max_pool_each : USER_avg_pool_each, x,
                                  USER_INT_LIST(window, first, stride, user_below(m, 4), padding, before,
                                                user_chance(m, 70), user_chance(m, 50))));
        return;
    }
    user_push(m, user_op_ints(m, op, x, USER_INT_LIST(window, stride, padding, user_chance(m, 50))));
}

static void make_resize(user_maker *m) {
    int x = image(m);
    const int rank = user_rank(m, x);
    int64_t ints[4] = {user_chance(m, 40)}, dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    for (int d = 2; d < rank; d++) ints[d - 1] = dims[d] = user_chance(m, 40) ? 2 * dims[d] : 1 + user_below(m, 12);
    if (!user_fits(m, rank, dims)) return;
    user_push(m,
              user_op_ints(m, (user_op)USER_ONE_OF(m, USER_resize_nearest, USER_resize_bilinear), x, rank - 1, ints));
}

/* -- Sequences -- */

static int time_step(user_maker *m, int x, int64_t t) {
    const int64_t b = user_dim(m, x, 0), d = user_dim(m, x, 2);
    return user_op_ints(m, USER_reshape, user_op_ints(m, USER_slice, x, USER_INT_LIST(1, t, t + 1, 1)),
                        USER_INT_LIST(b, d));
}

/* h = tanh(W x_t + U h), step by step, all of them side by side in the end. */
static void make_recurrent(user_maker *m) {
    int x = sequence(m);
    const int64_t b = user_dim(m, x, 0), t = user_dim(m, x, 1), d = user_dim(m, x, 2);
    char w[USER_NAME], u[USER_NAME];
    if (t > 30 || m->p->n_steps + 8 * t > USER_STEPS - 150) return;
    user_name(m, w, "w");
    user_name(m, u, "u");
    user_step all = {.op = USER_concat, .n_ints = 1, .ints = {1}};
    const int64_t state = d > 24 ? 3 : d;
    int h = user_constant(m, 0, TCC_F32, 2, (int64_t[]){b, state});
    const bool gated = user_chance(m, 30);
    for (int64_t i = 0; i < t; i++) {
        int y = user_layer(m, USER_linear, time_step(m, x, i), w, USER_INT_LIST(state, 0));
        y = user_op1(m, USER_tanh, user_op2(m, USER_add, y, user_layer(m, USER_linear, h, u, USER_INT_LIST(state, 1))));
        h = gated ? user_op2(m, USER_add, h, user_op2(m, USER_mul, y, user_op1(m, USER_sigmoid, h))) : y;
        all.args[all.n_args++] = user_op_ints(m, USER_reshape, h, USER_INT_LIST(b, 1, state));
    }
    if (user_chance(m, 70)) user_push(m, user_emit(m, &all));
    user_push(m, h);
}

static void make_recurrent_layer(user_maker *m) {
    int x = user_pick(m, 3, 3);
    const int64_t batch_first = user_chance(m, 50), steps = user_dim(m, x, (int)batch_first);
    if (steps > 17 || user_dim(m, x, 2) > 64) return;
    const int64_t layers = user_chance(m, 80) ? 0 : 2, hidden = 1 + user_below(m, 8);
    user_push(m, user_layer(m, (user_op)USER_ONE_OF(m, USER_lstm, USER_gru), x, NULL,
                            USER_INT_LIST(hidden, layers, user_chance(m, 30), batch_first, user_chance(m, 20))));
}

static void make_embedding(user_maker *m) {
    const int64_t rows = user_extent(m) + 1, width = user_extent(m);
    int64_t dims[2];
    user_extents(m, 2, dims);
    while (dims[0] * dims[1] * width > m->most) dims[user_below(m, 2)] = 2;
    int i = user_indices(m, rows, 2, dims);
    int y = user_layer(m, USER_embedding, i, NULL,
                       USER_INT_LIST(rows, width, user_chance(m, 30),
                                     user_chance(m, 30) ? -1 - user_below(m, rows) : user_below(m, rows)));
    if (user_chance(m, 50)) { /* positions, or a type for all */
        int64_t limit = dims[1] > 3 ? dims[1] : 3;
        int position = user_chance(m, 50)   ? user_iota(m, TCC_I32, 1, 2, dims)
                       : user_chance(m, 50) ? user_constant(m, 1, TCC_I32, 2, dims)
                                            : user_indices(m, limit, 1, dims + 1);
        y = user_op2(m, USER_add, y, user_layer(m, USER_embedding, position, NULL, USER_INT_LIST(limit, width, 0, 0)));
    }
    user_push(m, y);
}

/* A buffer that follows a mean, used in the same step. */
static void make_state(user_maker *m) {
    int x = user_pick(m, 2, 3);
    const int64_t width = user_dim(m, x, -1);
    int64_t axes[2] = {0, 1};
    user_step s = {.op = USER_state, .real = 0.5, .rank = 1, .dims = {width}};
    user_name(m, s.name, "s");
    int buffer = user_emit(m, &s), mean = user_op_ints(m, USER_mean, x, user_rank(m, x) - 1, axes);
    int next = user_op_real(m, USER_scale, buffer, 0.9);
    next = user_op2(m, USER_add, next, user_op_real(m, USER_scale, mean, 0.1));
    user_op2(m, USER_update, buffer, next);
    user_push(m, user_op2(m, USER_sub, x, user_chance(m, 50) ? buffer : next));
}

const user_layer_kind user_layers_net[] = {
    {make_linear, 14},          {make_norm, 8},           {make_residual, 5},
    {make_dropout, 2},          {make_attention, 4},      {make_multi_head, 3},
    {make_manual_attention, 3}, {make_conv, 8},           {make_conv_of_values, 3},
    {make_conv_each, 4},        {make_conv_transpose, 5}, {make_pool, 5},
    {make_resize, 3},           {make_recurrent, 1},      {make_recurrent_layer, 3},
    {make_embedding, 5},        {make_state, 2},          {NULL, 0},
};
