/* SPDX-License-Identifier: MIT
 * Random networks: blocks of sequences. */
#include "harness/net_maker.h"

#include <string.h>

enum { MOST_TRACED = 14 }; /* steps of recurrent layers */

static int linear_unit(user_maker *m, int x) {
    x = net_linear(m, net_dressing(m, x, NET_SEQUENCE, 30), net_width(m, net_rows(m, x)));
    return net_dressing(m, x, NET_SEQUENCE, 60);
}

static int perceptron(user_maker *m, int x) {
    const int64_t width = user_dim(m, x, 2);
    int y = user_chance(m, 70) ? net_norm(m, x, NET_SEQUENCE) : x;
    if (user_chance(m, 30)) { /* gated */
        const int64_t inner = net_width(m, net_rows(m, x));
        int gate = net_activation(m, net_linear(m, y, inner));
        y = user_op2(m, USER_mul, net_linear(m, y, inner), gate);
    } else y = net_activation(m, net_linear(m, y, (user_count(m, x) < m->most / 2 ? USER_ONE_OF(m, 2, 4) : 1) * width));
    y = net_linear(m, y, width);
    if (user_chance(m, 25)) y = net_dropout(m, y);
    return user_op2(m, USER_add, x, y);
}

/* -- Attention -- */

/* Of T queries and S keys; may hide all keys of a row. -1: none. With micro-batches a mask is a part of the batch. */
static int choose_mask(user_maker *m, int x, int64_t heads, int64_t keys) {
    const int64_t n = user_dim(m, x, 0), t = user_dim(m, x, 1), dims[4] = {n, 1, 1, keys}, all[4] = {n, heads, t, keys};
    const user_fill fill = user_chance(m, 60) ? USER_FILL_MASK : USER_FILL_MASK_FLOAT;
    const tcc_dtype dtype = fill == USER_FILL_MASK ? TCC_BOOL : TCC_F32;
    if (user_chance(m, 50)) return -1;
    if (user_chance(m, 40)) return user_new_input(m, dtype, fill, 0, 4, dims);
    if (user_chance(m, 20)) return user_new_input(m, dtype, fill, 0, 4, all);
    if (net_accumulates(m) || user_chance(m, 30)) return user_param(m, 1, 2, all + 2); /* as relative positions */
    return user_new_input(m, dtype, fill, 0, 2, all + 2);
}

/* Keys and values of x: x itself, or the first steps of it. */
static int keys_of(user_maker *m, int x) {
    if (user_chance(m, 75) || user_dim(m, x, 1) < 4) return x;
    return user_op_ints(m, USER_slice, x, USER_INT_LIST(1, 0, user_dim(m, x, 1) / 2, 1));
}

static int64_t choose_heads(user_maker *m, int64_t width) {
    int64_t heads = USER_ONE_OF(m, 1, 2, 4, 4, 8);
    while (width % heads) heads /= 2;
    return heads;
}

static bool afford_attention(user_maker *m, int x, int64_t keys) {
    const double rows = (double)(user_dim(m, x, 0) * user_dim(m, x, 1)), width = (double)user_dim(m, x, 2);
    return net_afford(m, 4 * rows * width * width + 2 * rows * (double)keys * width, rows * (double)keys);
}

static int multi_head(user_maker *m, int x) {
    const int64_t width = user_dim(m, x, 2), heads = choose_heads(m, width);
    int y = user_chance(m, 60) ? net_norm(m, x, NET_SEQUENCE) : x, keys = keys_of(m, y), values = keys;
    if (!afford_attention(m, x, user_dim(m, keys, 1))) return x;
    if (user_chance(m, 20)) values = net_linear(m, keys, net_width(m, net_rows(m, x)));
    user_step s = {.op = USER_multi_head_attention_full, .n_args = 3, .args = {y, keys, values}, .n_ints = 4};
    s.ints[0] = heads, s.ints[1] = heads > 1 && user_chance(m, 30) ? heads / 2 : 0;
    s.ints[2] = user_chance(m, 40), s.ints[3] = user_chance(m, 15);
    if (user_chance(m, 20) && !net_accumulates(m)) s.real = 0.2;
    const int mask = choose_mask(m, x, heads, user_dim(m, keys, 1));
    if (mask >= 0) s.op = USER_multi_head_attention_masked, s.args[s.n_args++] = mask;
    y = net_step(m, s);
    return user_chance(m, 85) ? user_op2(m, USER_add, x, y) : y;
}

static int split_heads(user_maker *m, int x, int64_t heads) {
    const int64_t dims[] = {-1, user_dim(m, x, 1), heads, user_dim(m, x, 2) / heads};
    return user_op_ints(m, USER_transpose, user_op_ints(m, USER_reshape, x, 4, dims), USER_INT_LIST(0, 2, 1, 3));
}

/* Heads by hand: one product or three, shared keys, the attention an op or products with a softmax between them. */
static int attention(user_maker *m, int x) {
    const int64_t t = user_dim(m, x, 1), width = user_dim(m, x, 2), heads = choose_heads(m, width);
    const int64_t shared = heads > 1 && user_chance(m, 30) ? heads / 2 : heads, narrow = width / heads * shared;
    if (!afford_attention(m, x, t)) return x;
    m->work += (double)user_count(m, x) * 3 * (double)width; /* which the linear layers take */
    int y = user_chance(m, 60) ? net_norm(m, x, NET_SEQUENCE) : x, q, k, v;
    if (shared == heads && user_chance(m, 50)) {
        int all = net_linear(m, y, 3 * width);
        q = user_op_ints(m, USER_slice, all, USER_INT_LIST(2, 0, width, 1));
        k = user_op_ints(m, USER_slice, all, USER_INT_LIST(2, width, 2 * width, 1));
        v = user_op_ints(m, USER_slice, all, USER_INT_LIST(2, 2 * width, 3 * width, 1));
    } else {
        q = net_linear(m, y, width), k = net_linear(m, y, narrow), v = net_linear(m, y, narrow);
    }
    q = split_heads(m, q, heads), k = split_heads(m, k, shared), v = split_heads(m, v, shared);
    if (shared == heads && user_chance(m, 30)) {
        q = user_op2(m, USER_matmul, q, user_op_ints(m, USER_transpose, k, USER_INT_LIST(0, 1, 3, 2)));
        q = user_op_ints(m, USER_softmax, user_op_real(m, USER_scale, q, 0.25), USER_INT_LIST(3));
        y = user_op2(m, USER_matmul, q, v);
    } else {
        user_step s = {.op = USER_attention, .n_args = 3, .args = {q, k, v}, .n_ints = 1, .ints = {user_chance(m, 50)}};
        const int mask = choose_mask(m, x, heads, t);
        if (mask >= 0) s.op = USER_attention_masked, s.args[s.n_args++] = mask;
        else if (user_chance(m, 30) && !net_accumulates(m)) s.op = USER_attention_dropout, s.real = 0.2;
        y = user_emit(m, &s);
    }
    y = user_op_ints(m, USER_reshape, user_op_ints(m, USER_transpose, y, USER_INT_LIST(0, 2, 1, 3)),
                     USER_INT_LIST(-1, t, width));
    y = net_linear(m, y, width);
    return user_op2(m, USER_add, x, y);
}

/* -- Steps of time -- */

static int recurrent(user_maker *m, int x) {
    const bool lstm = user_chance(m, 50), batch_first = user_chance(m, 60), both = user_chance(m, 30);
    const int64_t hidden = USER_ONE_OF(m, 16, 32, 32, 48, 64, 20), layers = user_chance(m, 75) ? 1 : 2;
    if (user_dim(m, x, 1) > MOST_TRACED) x = user_op_ints(m, USER_slice, x, USER_INT_LIST(1, 0, MOST_TRACED, 1));
    if (!batch_first) x = user_op_ints(m, USER_transpose, x, USER_INT_LIST(1, 0, 2));
    user_step s = {.op = lstm ? USER_lstm : USER_gru, .n_args = 1, .args = {x}, .n_ints = 5};
    s.ints[0] = hidden, s.ints[1] = layers, s.ints[2] = both, s.ints[3] = batch_first, s.ints[4] = user_chance(m, 15);
    if (layers > 1 && user_chance(m, 40) && !net_accumulates(m)) s.real = 0.2;
    if (user_chance(m, 20) && !net_accumulates(m)) { /* from states that are inputs */
        const int64_t dims[3] = {layers * (1 + both), user_dim(m, x, batch_first ? 0 : 1), hidden};
        s.op = lstm ? USER_lstm_from : USER_gru_from;
        s.args[s.n_args++] = user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, 3, dims);
        if (lstm) s.args[s.n_args++] = user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, 3, dims);
    } else if (user_chance(m, 15)) { /* the last states alone: one step for each layer and direction */
        s.op = !lstm ? USER_gru_last : user_chance(m, 50) ? USER_lstm_last : USER_lstm_cell;
        return user_op_ints(m, USER_transpose, net_step(m, s), USER_INT_LIST(1, 0, 2));
    }
    x = net_step(m, s);
    return batch_first ? x : user_op_ints(m, USER_transpose, x, USER_INT_LIST(1, 0, 2));
}

/* An image of one dim, and back. */
static int convolved(user_maker *m, int x) {
    x = net_channels_first(m, x);
    for (int i = 0; i < 1 + user_chance(m, 30); i++)
        x = net_dressing(m, net_conv(m, net_dressing(m, x, NET_IMAGE, 30), net_channels(m)), NET_IMAGE, 60);
    return net_channels_last(m, x);
}

static int shifted(user_maker *m, int x) {
    int y = user_op_ints(m, USER_roll, x, USER_INT_LIST(1, 1));
    if (user_chance(m, 30)) y = user_op_real(m, USER_scale, user_op_ints(m, USER_cumsum, x, USER_INT_LIST(1)), 0.1);
    const int64_t width = user_dim(m, x, 2);
    if (user_chance(m, 50)) y = user_op2(m, USER_mul, y, user_param(m, 1, 1, &width));
    return user_op2(m, user_chance(m, 70) ? USER_add : USER_sub, x, y);
}

/* Products over steps, as in MLP-Mixer. */
static int mixed(user_maker *m, int x) {
    const int64_t t = user_dim(m, x, 1);
    int y = net_channels_first(m, user_chance(m, 60) ? net_norm(m, x, NET_SEQUENCE) : x);
    y = net_linear(m, net_activation(m, net_linear(m, y, net_width(m, net_rows(m, y)))), t);
    return user_op2(m, USER_add, x, net_channels_last(m, y));
}

static int alone(user_maker *m, int x) {
    return user_chance(m, 30) ? net_dropout(m, x) : net_dressing(m, x, NET_SEQUENCE, 70);
}

int net_sequence_block(user_maker *m, int x) {
    const int kind = (int)user_below(m, 50);
    if (kind < 9) return linear_unit(m, x);
    if (kind < 18) return perceptron(m, x);
    if (kind < 26) return multi_head(m, x);
    if (kind < 34) return attention(m, x);
    if (kind < 38) return recurrent(m, x);
    if (kind < 43) return convolved(m, x);
    if (kind < 45) return shifted(m, x);
    if (kind < 47) return mixed(m, x);
    return alone(m, x);
}
