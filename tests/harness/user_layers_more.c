/* SPDX-License-Identifier: MIT
 * Random users' programs: functions that are made of operations, and random draws. */
#include "harness/user_maker.h"

#include <string.h>

static void make_function(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const user_op op = (user_op)USER_ONE_OF(m, USER_atan, USER_sinh, USER_cosh, USER_log_sigmoid, USER_softsign,
                                            USER_selu, USER_hardsigmoid, USER_square, USER_asin, USER_trunc);
    if (op == USER_sinh || op == USER_cosh) x = user_op1(m, USER_tanh, x);
    if (op == USER_asin) x = user_op_real(m, USER_scale, user_op1(m, USER_tanh, x), 0.9);
    int y = user_op1(m, op, x);
    user_push(m, op == USER_trunc ? user_op2(m, USER_sub, x, y) : y);
}

static void make_pair(user_maker *m) {
    int x = user_pick(m, 1, 4), y = user_chance(m, 50) ? user_pick_like(m, x) : user_pick_broadcastable(m, x);
    if (user_chance(m, 50)) user_push(m, user_op2(m, USER_logaddexp, x, y));
    else user_push(m, user_op2(m, USER_atan2, x, user_op_real(m, USER_add_scalar, user_op1(m, USER_square, y), 0.25)));
}

/* A mean or a maximum that stays as an extent of 1, and what is left of the rows. */
static void make_kept(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const int64_t axis = user_below(m, user_rank(m, x));
    int y = user_op_ints(m, (user_op)USER_ONE_OF(m, USER_keep_mean, USER_keep_max), x, USER_INT_LIST(axis));
    user_push(m, user_op2(m, (user_op)USER_ONE_OF(m, USER_sub, USER_mul), x, y));
}

static void make_running(user_maker *m) {
    int x = user_pick(m, 1, 3);
    const int64_t axis = user_below(m, user_rank(m, x));
    const user_op op = (user_op)USER_ONE_OF(m, USER_cumprod, USER_cummax, USER_cummin, USER_prod);
    if (op == USER_cumprod || op == USER_prod) x = user_op_real(m, USER_add_scalar, user_op1(m, USER_tanh, x), 0.5);
    int y = user_op_ints(m, op, x, USER_INT_LIST(axis));
    if (user_rank(m, y)) user_push(m, y);
}

/* Of factors below 1, along the rows' or another dim. */
static void make_recurrence(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const int64_t width = user_dim(m, x, -1);
    int a = user_op1(m, USER_tanh, user_chance(m, 50) ? x : user_param(m, 1, 1, &width));
    user_step s = {.op = USER_linear_scan, .n_args = 2, .args = {a, x}, .n_ints = 1};
    s.ints[0] = user_below(m, user_rank(m, x));
    user_push(m, user_emit(m, &s));
}

static void make_lengths(user_maker *m) {
    int x = user_pick(m, 2, 3);
    const int64_t rank = user_rank(m, x), axis = user_below(m, rank), n = user_dim(m, x, -2), d = user_dim(m, x, -1);
    if (user_chance(m, 50)) {
        user_push(m, user_op_ints(m, USER_normalize, x, USER_INT_LIST(axis)));
    } else if (user_count(m, x) * n <= 4 * m->most) {
        const int64_t rows = user_chance(m, 50) ? n : user_extent(m);
        user_step s = {.op = USER_cdist, .n_args = 2, .args = {x}, .real = user_chance(m, 70) ? 2 : 1};
        s.args[1] = user_chance(m, 20) ? x : user_param(m, 1, 2, (int64_t[]){rows, d});
        user_push(m, user_emit(m, &s));
    }
}

static void make_view(user_maker *m) {
    int x = user_pick(m, 2, 4);
    const int64_t rank = user_rank(m, x), axis = user_below(m, rank), rows = user_dim(m, x, -2);
    if (user_chance(m, 40)) {
        user_push(m, user_op_ints(m, USER_swap_axes, x, USER_INT_LIST(axis, user_below(m, rank) - rank)));
    } else if (user_chance(m, 50)) {
        const int64_t k = user_below(m, rows + user_dim(m, x, -1) - 1) - (rows - 1);
        user_push(m, user_op_ints(m, USER_diagonal, x, USER_INT_LIST(k)));
    } else if (user_dim(m, x, (int)axis) > 1) {
        user_push(m, user_op_ints(m, USER_diff, x, USER_INT_LIST(axis)));
    }
}

/* The largest or least of what comes to a place, also of equal ones, or the last. */
static void make_scatter_extreme(user_maker *m) {
    int u = user_pick(m, 1, 3);
    const int64_t rows = user_extent(m), n = user_dim(m, u, 0);
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[u].dims, sizeof dims);
    dims[0] = rows;
    if (!user_fits(m, user_rank(m, u), dims) || user_count(m, u) * rows > 16 * m->most) return;
    if (user_chance(m, 20)) u = user_op1(m, USER_relu, u); /* many are 0 */
    int base = user_chance(m, 50) ? user_constant(m, 0, TCC_F32, user_rank(m, u), dims)
                                  : user_param(m, 1, user_rank(m, u), dims);
    int i = user_chance(m, 12) ? user_new_input(m, TCC_I32, USER_FILL_STRAY, rows, 1, &n)
                               : user_indices(m, rows, 1, &n);
    user_step s = {.op = (user_op)USER_ONE_OF(m, USER_scatter_max, USER_scatter_min, USER_scatter),
                   .n_args = 3,
                   .args = {base, i, u},
                   .n_ints = 1,
                   .ints = {0}};
    user_push(m, user_emit(m, &s));
}

/* Elements that go to places of their own along a dim, onto others of the same shape. */
static void make_scatter_along(user_maker *m) {
    int u = user_pick(m, 1, 3);
    const user_step like = m->p->steps[u];
    const int64_t axis = user_below(m, like.rank), n = like.dims[axis];
    int base = user_chance(m, 30) ? user_constant(m, 0, TCC_F32, like.rank, like.dims) : user_pick_like(m, u);
    int i = user_chance(m, 12) ? user_new_input(m, TCC_I32, USER_FILL_STRAY, n, like.rank, like.dims)
                               : user_indices(m, n, like.rank, like.dims);
    user_step s = {.op = (user_op)USER_ONE_OF(m, USER_scatter_along, USER_scatter_add_along),
                   .n_args = 3,
                   .args = {base, i, u},
                   .n_ints = 1,
                   .ints = {axis}};
    user_push(m, user_emit(m, &s));
}

static void make_order(user_maker *m) {
    enum { MOST_TAKEN = 8 };
    int x = user_pick(m, 1, 3);
    const int64_t axis = user_below(m, user_rank(m, x)), n = user_dim(m, x, (int)axis);
    if (user_chance(m, 50)) {
        user_push(m, user_op_ints(m, USER_sort, x, USER_INT_LIST(axis, user_below(m, 2))));
    } else {
        const int64_t k = 1 + user_below(m, n < MOST_TAKEN ? n : MOST_TAKEN);
        user_push(m, user_op_ints(m, USER_top_k, x, USER_INT_LIST(axis, k)));
    }
}

static void make_repeat(user_maker *m) {
    int x = user_pick(m, 1, 3);
    int64_t counts[3], dims[3];
    const int rank = user_rank(m, x);
    for (int d = 0; d < rank; d++) counts[d] = 1 + user_below(m, 3), dims[d] = counts[d] * user_dim(m, x, d);
    if (user_fits(m, rank, dims)) user_push(m, user_op_ints(m, USER_repeat, x, rank, counts));
}

/* A table's row by the interval in which a value lies. */
static void make_buckets(user_maker *m) {
    int x = user_pick(m, 1, 2);
    const int64_t n = user_extent(m), width = 1 + user_below(m, 4);
    if (user_count(m, x) * width > m->most) return;
    int borders = user_op_real(m, USER_add_scalar, user_literal_of(m, TCC_F32, 0, n, 2.0 / (double)n, 1, &n), -1);
    user_step s = {.op = USER_searchsorted, .n_args = 2, .args = {borders, x}, .n_ints = 1, .ints = {user_below(m, 2)}};
    int i = user_emit(m, &s), table = user_param(m, 1, 2, (int64_t[]){n + 1, width});
    s = (user_step){.op = USER_take, .n_args = 2, .args = {table, i}, .n_ints = 1};
    user_push(m, user_emit(m, &s));
}

static void make_draw(user_maker *m) {
    if (m->options->exact) return; /* another framework would draw other numbers */
    int x = user_pick(m, 1, 4);
    const user_step s = m->p->steps[x];
    if (user_chance(m, 30)) {
        int noise = user_random_leaf(m, USER_random_normal, TCC_F32, 0, 0.3, s.rank, s.dims);
        user_push(m, user_op2(m, USER_add, x, noise));
    } else if (user_chance(m, 30)) {
        const tcc_dtype type = (tcc_dtype)USER_ONE_OF(m, TCC_F32, TCC_F32, TCC_BF16, TCC_F16);
        int factor = user_random_leaf(m, USER_random_uniform, type, 0, 1.5, s.rank, s.dims);
        user_push(m, user_op2(m, USER_mul, x, user_op_ints(m, USER_cast, factor, USER_INT_LIST(TCC_F32))));
    } else if (user_chance(m, 50)) {
        int keep = user_random_leaf(m, USER_random_bernoulli, TCC_BOOL, 0, 0.4, s.rank, s.dims);
        user_push(m, user_op3(m, USER_select, keep, x, user_pick_like(m, x)));
    } else {
        const int64_t n = s.dims[0];
        const tcc_dtype type = (tcc_dtype)USER_ONE_OF(m, TCC_I32, TCC_I64);
        int rows = user_random_leaf(m, USER_random_integers, type, n, 0, 1, &n);
        user_step take = {.op = USER_take, .n_args = 2, .args = {x, rows}, .n_ints = 1};
        user_push(m, user_emit(m, &take));
    }
}

/* CTC of few frames, with lengths that vary; its loss weighs what comes after it. */
static void make_ctc(user_maker *m) {
    int x = user_pick(m, 3, 3);
    const int64_t t = user_dim(m, x, 0), n = user_dim(m, x, 1), c = user_dim(m, x, 2);
    if (c < 2 || t > 8) return;
    const int64_t labels = 1 + user_below(m, 3), dims[2] = {n, labels};
    int logs = user_op_ints(m, USER_log_softmax, x, USER_INT_LIST(2));
    int targets = user_new_input(m, TCC_I32, USER_FILL_INDEX, c - 1, 2, dims),
        frames = user_new_input(m, TCC_I32, USER_FILL_INDEX, t, 1, &n),
        counts = user_new_input(m, TCC_I32, USER_FILL_INDEX, labels + 1, 1, &n);
    const int one = user_constant(m, 1, TCC_I32, 0, NULL);
    user_step s = {.op = USER_ctc_loss, .n_args = 4, .args = {logs}};
    s.args[1] = user_op2(m, USER_add, targets, one), s.args[2] = user_op2(m, USER_add, frames, one);
    s.args[3] = counts;
    int loss = user_emit(m, &s);
    user_push(m, user_op2(m, USER_mul, x, user_op_real(m, USER_scale, loss, 0.1)));
}

const user_layer_kind user_layers_more[] = {
    {make_function, 8},   {make_pair, 5},    {make_kept, 4}, {make_running, 6},
    {make_recurrence, 4}, {make_lengths, 4}, {make_view, 4}, {make_scatter_extreme, 5},
    {make_buckets, 3},    {make_draw, 7},    {make_ctc, 3},  {make_scatter_along, 4},
    {make_order, 4},      {make_repeat, 2},  {NULL, 0},
};
