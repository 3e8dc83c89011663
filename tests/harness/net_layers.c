/* SPDX-License-Identifier: MIT
 * Random networks: what all forms of values share. */
#include "harness/net_maker.h"

#include <string.h>

int net_step(user_maker *m, user_step s) {
    user_name(m, s.name, "l");
    return user_emit(m, &s);
}

bool net_afford(user_maker *m, double products, double elements) {
    if (elements > (double)m->most || products > m->work) return false;
    m->work -= products;
    return true;
}

int64_t net_channels(user_maker *m) {
    if (m->few) return USER_ONE_OF(m, 16, 32, 32, 64);
    return USER_ONE_OF(m, 16, 16, 16, 24, 32, 32, 32, 48, 64, 64, 96, 20, 33, 40, 8, 72);
}

int64_t net_width(user_maker *m, double rows) {
    if (m->few) return user_chance(m, 50) ? 32 : 64;
    const int64_t width = USER_ONE_OF(m, 32, 32, 48, 64, 64, 64, 96, 128, 128, 256, 40, 80, 36);
    return rows * (double)width <= (double)m->most ? width : 32;
}

int net_activation(user_maker *m, int x) {
    const int kind = (int)user_below(m, 26);
    static const user_op unary[] = {USER_relu,      USER_relu,        USER_relu,       USER_relu,     USER_gelu,
                                    USER_gelu,      USER_gelu_tanh,   USER_silu,       USER_silu,     USER_silu,
                                    USER_tanh,      USER_tanh,        USER_sigmoid,    USER_softplus, USER_relu6,
                                    USER_hardswish, USER_mish,        USER_selu,       USER_softsign, USER_hardsigmoid,
                                    USER_erf,       USER_log_sigmoid, USER_log_sigmoid};
    if (kind == 23) return user_op_real(m, USER_leaky_relu, x, 0.1);
    if (kind == 24) return user_op_real(m, USER_elu, x, user_chance(m, 70) ? 1 : 0.5);
    if (kind == 25) {
        const int64_t count = user_chance(m, 50) ? 1 : user_dim(m, x, 1);
        return user_op2(m, USER_prelu, x, user_param(m, 0.3, 1, &count));
    }
    return user_op1(m, unary[kind], x);
}

int net_dropout(user_maker *m, int x) {
    return net_accumulates(m) ? x : user_op_real(m, USER_dropout, x, user_chance(m, 50) ? 0.5 : 0.1);
}

int net_mean(user_maker *m, int x) { return user_rank(m, x) ? user_op_ints(m, USER_mean, x, 0, NULL) : x; }

int net_linear(user_maker *m, int x, int64_t features) {
    m->work -= (double)user_count(m, x) * (double)features;
    return net_step(
        m,
        (user_step){.op = USER_linear, .n_args = 1, .args = {x}, .n_ints = 2, .ints = {features, user_chance(m, 20)}});
}

/* -- Norms -- */

int net_channels_last(user_maker *m, int x) {
    const int rank = user_rank(m, x);
    int64_t perm[TCC_MAX_RANK] = {0};
    for (int d = 1; d < rank; d++) perm[d] = d < rank - 1 ? d + 1 : 1;
    return user_op_ints(m, USER_transpose, x, rank, perm);
}

int net_channels_first(user_maker *m, int x) {
    const int rank = user_rank(m, x);
    int64_t perm[TCC_MAX_RANK] = {0, rank - 1};
    for (int d = 2; d < rank; d++) perm[d] = d - 1;
    return user_op_ints(m, USER_transpose, x, rank, perm);
}

static int norm(user_maker *m, user_op op, int x, int64_t groups) {
    user_step s = {.op = op, .n_args = 1, .args = {x}, .n_ints = 4};
    s.ints[0] = user_chance(m, 15), s.ints[1] = user_chance(m, 10), s.ints[2] = groups,
    s.ints[3] = !s.ints[1] && user_chance(m, 3);
    if (user_chance(m, 15)) s.real = 1e-3;
    return net_step(m, s);
}

/* Of [N, C, ..], by channels. Few values leave nothing but noise, so layer norms take their place. */
static int channel_norm(user_maker *m, int x) {
    const int64_t channels = user_dim(m, x, 1), each = net_each(m, x) / channels;
    const int kind = (int)user_below(m, 10);
    if (kind < 6 && !net_accumulates(m) && user_count(m, x) / channels >= 8) return norm(m, USER_batch_norm, x, 0);
    if (kind < 8 && each >= 8) return norm(m, USER_instance_norm, x, 0);
    int64_t groups = USER_ONE_OF(m, 1, 2, 4, 8);
    if (each * channels < 8) return x;
    while (channels % groups || each * channels / groups < 8) groups = groups > 1 ? groups / 2 : channels;
    return norm(m, USER_group_norm, x, groups);
}

int net_row_norm(user_maker *m, int x) {
    if (user_dim(m, x, -1) < 8) return x;
    return norm(m, user_chance(m, 70) ? USER_layer_norm : USER_rms_norm, x, 0);
}

int net_norm(user_maker *m, int x, net_form form) {
    if (form == NET_VECTOR) return user_chance(m, 50) ? net_row_norm(m, x) : channel_norm(m, x);
    const int kind = (int)user_below(m, 10);
    if (form == NET_IMAGE) {
        if (kind < 7) return channel_norm(m, x);
        if (kind < 8) return net_row_norm(m, x);
        return net_channels_first(m, net_row_norm(m, net_channels_last(m, x)));
    }
    if (kind < 8) return net_row_norm(m, x);
    return net_channels_last(m, channel_norm(m, net_channels_first(m, x)));
}

int net_dressing(user_maker *m, int x, net_form form, int percent) {
    if (user_chance(m, percent)) x = net_norm(m, x, form);
    if (user_chance(m, percent)) x = net_activation(m, x);
    return x;
}

/* -- Vectors -- */

static int vector_residual(user_maker *m, int x) {
    int y = net_dressing(m, x, NET_VECTOR, 50);
    y = net_activation(m, net_linear(m, y, net_width(m, net_rows(m, x))));
    if (user_chance(m, 20)) y = net_dropout(m, y);
    return user_op2(m, USER_add, x, net_linear(m, y, user_dim(m, x, 1)));
}

static int vector_gate(user_maker *m, int x) {
    const int64_t width = user_dim(m, x, 1);
    int gate = user_op1(m, USER_sigmoid, net_linear(m, x, width)), y = net_activation(m, net_linear(m, x, width));
    y = user_op2(m, USER_mul, gate, y);
    return user_chance(m, 50) ? user_op2(m, USER_add, x, y) : y;
}

static int vector_branches(user_maker *m, int x) {
    user_step s = {.op = USER_concat, .n_ints = 1, .ints = {1}, .n_args = 1, .args = {x}};
    for (int i = 0; i < 2; i++) s.args[s.n_args++] = net_activation(m, net_linear(m, x, net_channels(m)));
    return user_emit(m, &s);
}

int net_vector_block(user_maker *m, int x) {
    const int kind = (int)user_below(m, 10);
    if (kind < 5)
        return net_dressing(m, net_linear(m, net_dressing(m, x, NET_VECTOR, 25), net_width(m, net_rows(m, x))),
                            NET_VECTOR, 60);
    if (kind < 7) return vector_residual(m, x);
    if (kind < 8) return vector_gate(m, x);
    if (kind < 9) return vector_branches(m, x);
    return net_dropout(m, x);
}
