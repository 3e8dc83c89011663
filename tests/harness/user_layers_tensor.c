/* SPDX-License-Identifier: MIT
 * Random users' programs: what people write with tensor operations alone. */
#include "harness/user_maker.h"

#include <string.h>

/* -- Element by element -- */

static int constant(user_maker *m, double value) { return user_constant(m, value, TCC_F32, 0, NULL); }

/* Functions with arguments scaled to where they are tame, as people write them. */
static int safe_math(user_maker *m, int x) {
    int y;
    switch (user_below(m, 14)) {
    case 0: return user_op1(m, USER_exp, user_op1(m, USER_tanh, x));
    case 1: return user_op1(m, USER_log, user_op_real(m, USER_add_scalar, user_op1(m, USER_abs, x), 0.1));
    case 2: return user_op1(m, USER_sqrt, user_op_real(m, USER_add_scalar, user_op1(m, USER_abs, x), 0.01));
    case 3: return user_op1(m, USER_rsqrt, user_op_real(m, USER_add_scalar, user_op2(m, USER_mul, x, x), 0.1));
    case 4: return user_op1(m, USER_expm1, user_op1(m, USER_sigmoid, x));
    case 5: return user_op1(m, USER_log1p, user_op1(m, USER_abs, x));
    case 6:
        y = user_op_real(m, USER_add_scalar, user_op1(m, USER_abs, x), 0.5);
        return user_op2(m, USER_pow, y, constant(m, USER_ONE_OF(m, 2, 3, -1, 0) + 0.5));
    case 7: return user_op1(m, USER_ceil, user_op_real(m, USER_scale, user_op1(m, USER_tanh, x), 3));
    case 8: y = user_op1(m, USER_sign, x); return user_op2(m, USER_mul, y, user_op1(m, USER_sin, x));
    case 9: return user_op2(m, USER_rem, x, constant(m, 0.75));
    case 10: return user_op2(m, USER_sub, x, user_op1(m, USER_round, x));
    case 11: return user_op2(m, USER_mul, x, user_op1(m, USER_floor, user_op_real(m, USER_scale, x, 2)));
    case 12: return user_op1(m, USER_cos, user_op_real(m, USER_scale, x, 5));
    default: return user_op1(m, USER_neg, user_op1(m, USER_erf, x));
    }
}

static void make_math(user_maker *m) { user_push(m, safe_math(m, user_pick(m, 1, 5))); }

static void make_binary(user_maker *m) {
    int x = user_pick(m, 1, 5), y = user_chance(m, 50) ? user_pick_like(m, x) : user_pick_broadcastable(m, x);
    const user_op op = (user_op)USER_ONE_OF(m, USER_add, USER_sub, USER_mul, USER_mul, USER_max, USER_min, USER_div);
    if (op == USER_div) y = user_op_real(m, USER_add_scalar, user_op1(m, USER_abs, y), 1);
    user_push(m, user_chance(m, 70) || op == USER_div ? user_op2(m, op, x, y) : user_op2(m, op, y, x));
}

/* One factor is used three times, through different functions. */
static void make_many_uses(user_maker *m) {
    int x = user_pick(m, 1, 4), a = safe_math(m, x), b = safe_math(m, x);
    user_push(m, user_op2(m, USER_add, user_op2(m, USER_mul, a, b), x));
    if (user_chance(m, 30)) user_push(m, a);
}

static void make_outer(user_maker *m) {
    const int64_t a = user_extent(m), b = user_extent(m);
    if (a * b > m->most) return;
    int u = user_param(m, 1, 2, (int64_t[]){a, 1}), v = user_param(m, 1, 1, &b);
    int y = user_op2(m, (user_op)USER_ONE_OF(m, USER_mul, USER_mul, USER_add, USER_max), u, v);
    if (user_chance(m, 50)) y = user_op1(m, (user_op)USER_ONE_OF(m, USER_tanh, USER_sigmoid, USER_abs), y);
    int x = user_pick_like(m, y);
    user_push(m, user_op2(m, USER_mul, x, y));
    if (user_chance(m, 30)) user_push(m, y);
}

/* (x_i - x_j)^2 of all pairs. */
static void make_pairs(user_maker *m) {
    int x = user_pick(m, 2, 2);
    const int64_t n = user_dim(m, x, 0), d = user_dim(m, x, 1), dims[3] = {n, n, d};
    if (!user_fits(m, 3, dims)) return;
    int a = user_op_ints(m, USER_reshape, x, USER_INT_LIST(n, 1, d));
    int y = user_op2(m, USER_sub, a, x);
    y = user_op_ints(m, (user_op)USER_ONE_OF(m, USER_sum, USER_mean), user_op2(m, USER_mul, y, y), USER_INT_LIST(2));
    user_push(m, user_op1(m, USER_exp, user_op1(m, USER_neg, y)));
}

/* -- Shape -- */

static int any_slice(user_maker *m, int x) {
    const int axis = (int)user_below(m, user_rank(m, x));
    const int64_t n = user_dim(m, x, axis), start = user_below(m, n), limit = start + 1 + user_below(m, n - start);
    return user_op_ints(m, USER_slice, x, USER_INT_LIST(axis, start, limit, user_chance(m, 80) ? 1 : 2));
}

static int permuted(user_maker *m, int x) {
    const int rank = user_rank(m, x);
    int64_t perm[TCC_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = d;
    for (int d = rank - 1; d > 0; d--) {
        const int64_t at = user_below(m, d + 1), swap = perm[d];
        perm[d] = perm[at];
        perm[at] = swap;
    }
    return user_op_ints(m, USER_transpose, x, rank, perm);
}

static void make_shape(user_maker *m) {
    int x = user_pick(m, 1, 5);
    const int rank = user_rank(m, x), axis = (int)user_below(m, rank);
    switch (user_below(m, 7)) {
    case 0: user_push(m, permuted(m, x)); return;
    case 1: user_push(m, user_op_ints(m, USER_flip, x, USER_INT_LIST(axis))); return;
    case 2: user_push(m, any_slice(m, x)); return;
    case 3: { /* the same elements, other rows */
        const int64_t n = user_count(m, x);
        int64_t a = user_extent(m);
        while (n % a) a--;
        user_push(m, user_op_ints(m, USER_reshape, x, USER_INT_LIST(a, n / a)));
        return;
    }
    case 4: user_push(m, user_op_ints(m, USER_flatten, x, USER_INT_LIST(axis))); return;
    case 5: {
        int64_t dims[TCC_MAX_RANK] = {user_extent(m)};
        memcpy(dims + 1, m->p->steps[x].dims, sizeof *dims * (size_t)rank);
        if (user_fits(m, rank + 1, dims)) user_push(m, user_op_ints(m, USER_broadcast, x, rank + 1, dims));
        return;
    }
    default: {
        user_step s = {.op = USER_pad, .n_args = 1, .args = {x}, .n_ints = 3, .ints = {axis}};
        s.ints[1] = user_below(m, 3);
        s.ints[2] = user_below(m, 3);
        s.real = user_chance(m, 50) ? 0 : 0.5;
        user_push(m, user_emit(m, &s));
    }
    }
}

/* Rows that move around, borders, triangles. */
static void make_moved(user_maker *m) {
    int x = user_pick(m, 2, 4);
    const int axis = (int)user_below(m, user_rank(m, x));
    const int64_t n = user_dim(m, x, axis), before = user_below(m, n < 4 ? n : 4), after = user_below(m, n < 4 ? n : 4);
    if (user_chance(m, 25)) {
        user_push(m, user_op_ints(m, USER_roll, x, USER_INT_LIST(axis, user_below(m, 2 * n) - n)));
    } else if (user_chance(m, 35)) {
        const int64_t k = user_below(m, 5) - 2;
        user_push(m, user_op_ints(m, (user_op)USER_ONE_OF(m, USER_tril, USER_triu), x, USER_INT_LIST(k)));
    } else if (user_count(m, x) / n * (n + before + after) <= m->most) {
        const user_op op = (user_op)USER_ONE_OF(m, USER_pad_reflect, USER_pad_replicate, USER_pad_wrap);
        user_push(m, user_op_ints(m, op, x, USER_INT_LIST(axis, before, after)));
    }
}

/* Slices of one value, worked on and put side by side: a few or dozens. */
static void make_slices(user_maker *m) {
    int x = user_pick(m, 1, 3);
    const int axis = (int)user_below(m, user_rank(m, x));
    const int64_t n = user_dim(m, x, axis);
    const int parts = user_chance(m, 75) ? 2 + (int)user_below(m, 4) : 20 + (int)user_below(m, USER_ARGS - 20);
    if (m->p->n_steps + 2 * parts > USER_STEPS - 150) return;
    user_step all = {.op = USER_concat, .n_ints = 1, .ints = {axis}};
    for (int i = 0; i < parts; i++) {
        const int64_t start = user_chance(m, 50) ? i % n : user_below(m, n), width = 1 + user_below(m, n - start);
        if (user_count(m, x) / n * (parts * width) > 4 * m->most && width > 1) continue;
        int y = user_op_ints(m, USER_slice, x, USER_INT_LIST(axis, start, start + width, 1));
        if (user_chance(m, 40)) y = user_op_real(m, USER_scale, y, 0.5 + i);
        else if (user_chance(m, 30)) y = user_op1(m, USER_tanh, y);
        all.args[all.n_args++] = y;
    }
    if (all.n_args) user_push(m, user_emit(m, &all));
}

/* a * sigmoid(b) of two halves. */
static void make_gate(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const int axis = user_rank(m, x) - 1;
    const int64_t half = user_dim(m, x, axis) / 2;
    if (!half) return;
    int a = user_op_ints(m, USER_slice, x, USER_INT_LIST(axis, 0, half, 1));
    int b = user_op_ints(m, USER_slice, x, USER_INT_LIST(axis, half, 2 * half, 1));
    user_push(m, user_op2(m, USER_mul, a, user_op1(m, USER_sigmoid, b)));
}

/* -- Indexing -- */

static void make_take(user_maker *m) {
    int64_t dims[2];
    user_extents(m, 2, dims);
    int x = user_chance(m, 60) ? user_pick(m, 1, 3) : user_param(m, 1, 2, dims);
    const int axis = (int)user_below(m, user_rank(m, x)), rank = 1 + (int)user_below(m, 2);
    user_extents(m, 2, dims);
    while (user_count(m, x) / user_dim(m, x, axis) * dims[0] * (rank > 1 ? dims[1] : 1) > m->most)
        if (dims[0] > 1) dims[0] /= 2;
        else if (rank > 1 && dims[1] > 1) dims[1] /= 2;
        else return;
    int i = user_indices(m, user_dim(m, x, axis), rank, dims);
    user_step s = {.op = USER_take, .n_args = 2, .args = {x, i}, .n_ints = 1, .ints = {axis}};
    user_push(m, user_emit(m, &s));
}

static void make_take_along(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const int rank = user_rank(m, x), axis = (int)user_below(m, rank);
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    if (user_chance(m, 60)) dims[axis] = user_extent(m);
    if (!user_fits(m, rank, dims)) return;
    int i = user_indices(m, user_dim(m, x, axis), rank, dims);
    user_step s = {.op = USER_take_along, .n_args = 2, .args = {x, i}, .n_ints = 1, .ints = {axis}};
    user_push(m, user_emit(m, &s));
}

/* Rows of updates added where indices say; also histograms. */
static void make_scatter(user_maker *m) {
    int u = user_pick(m, 1, 3);
    const int64_t rows = user_extent(m), n = user_dim(m, u, 0);
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[u].dims, sizeof dims);
    dims[0] = rows;
    if (!user_fits(m, user_rank(m, u), dims)) return;
    int base = user_chance(m, 50) ? user_constant(m, 0, TCC_F32, user_rank(m, u), dims)
                                  : user_param(m, 1, user_rank(m, u), dims);
    int i = user_chance(m, 12) ? user_new_input(m, TCC_I32, USER_FILL_STRAY, rows, 1, &n)
                               : user_indices(m, rows, 1, &n);
    user_step s = {.op = USER_scatter_add, .n_args = 3, .args = {base, i, u}, .n_ints = 1, .ints = {0}};
    user_push(m, user_emit(m, &s));
}

/* What the largest entry's index selects. */
static void make_argmax(user_maker *m) {
    int x = user_pick(m, 2, 3);
    const int axis = (int)user_below(m, user_rank(m, x));
    const int64_t rows = user_dim(m, x, axis), width = 1 + user_below(m, 4);
    int i = user_op_ints(m, USER_argmax, x, USER_INT_LIST(axis));
    int table = user_param(m, 1, 2, (int64_t[]){rows, width});
    if (user_count(m, i) * width > m->most) return;
    user_step s = {.op = USER_take, .n_args = 2, .args = {table, i}, .n_ints = 1};
    user_push(m, user_emit(m, &s));
}

/* -- Reductions -- */

static int reduction(user_maker *m, int x, int keep_axis) {
    const user_op op = (user_op)USER_ONE_OF(m, USER_sum, USER_mean, USER_mean, USER_reduce_max, USER_reduce_min,
                                            USER_var, USER_logsumexp);
    int64_t axes[TCC_MAX_RANK];
    int n = 0;
    for (int d = 0; d < user_rank(m, x); d++)
        if (d != keep_axis && (user_chance(m, 60) || keep_axis >= 0)) axes[n++] = d;
    if (!n) axes[n++] = user_rank(m, x) - 1;
    int y = user_op_ints(m, op, x, n, axes);
    return op == USER_sum ? user_op_real(m, USER_scale, y, 0.1) : y;
}

static void make_reduce(user_maker *m) {
    int x = user_pick(m, 2, 5), y = reduction(m, x, -1);
    user_push(m, user_op2(m, USER_add, y, user_constant(m, 0.5, TCC_F32, user_rank(m, y) ? 0 : 1, (int64_t[]){1})));
}

/* Row sums and column sums of one product, as gradients of an outer product have them. */
static void make_both_sums(user_maker *m) {
    int x = user_pick(m, 2, 2), y = user_op2(m, USER_mul, x, user_pick_like(m, x));
    int rows = user_op_ints(m, USER_sum, y, USER_INT_LIST(1)), columns = user_op_ints(m, USER_sum, y, USER_INT_LIST(0));
    user_push(m, user_op1(m, USER_tanh, rows));
    user_push(m, user_op1(m, USER_tanh, columns));
}

/* x - mean, x / (sum + 1), x - max: a reduction and back to the rows. */
static void make_centered(user_maker *m) {
    int x = user_pick(m, 2, 4);
    const int axis = user_rank(m, x) - 1;
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    dims[axis] = 1;
    const user_op op = (user_op)USER_ONE_OF(m, USER_mean, USER_reduce_max, USER_sum);
    int source = op == USER_sum ? user_op2(m, USER_mul, x, x) : x;
    int y = user_op_ints(m, op, source, USER_INT_LIST(axis));
    y = user_op_ints(m, USER_reshape, y, user_rank(m, x), dims);
    if (op == USER_sum) y = user_op2(m, USER_div, x, user_op_real(m, USER_add_scalar, y, 1));
    else y = user_op2(m, USER_sub, x, y);
    user_push(m, y);
}

static void make_cumsum(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const int axis = (int)user_below(m, user_rank(m, x));
    if (user_chance(m, 20)) x = user_op1(m, USER_tanh, x);
    int y = user_op_ints(m, USER_cumsum, x, USER_INT_LIST(axis));
    user_push(m, user_op_real(m, USER_scale, y, 1.0 / (double)user_dim(m, x, axis)));
}

static void make_softmax(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const int axis = user_chance(m, 70) ? user_rank(m, x) - 1 : (int)user_below(m, user_rank(m, x));
    user_push(m, user_op_ints(m, (user_op)USER_ONE_OF(m, USER_softmax, USER_log_softmax), x, USER_INT_LIST(axis)));
}

/* -- Choices, products, types, magnitudes -- */

static void make_select(user_maker *m) {
    int x = user_pick(m, 1, 4), y = user_pick_like(m, x), c;
    const user_step s = m->p->steps[x];
    if (user_chance(m, 50)) c = user_mask(m, s.rank, s.dims);
    else {
        const int other = user_chance(m, 60) ? constant(m, 0) : y;
        c = user_op2(m, (user_op)USER_ONE_OF(m, USER_gt, USER_ge, USER_lt, USER_le), x, other);
    }
    if (user_chance(m, 20)) c = user_op1(m, USER_not, c);
    if (user_chance(m, 20)) {
        const int finite = user_op1(m, USER_isfinite, x);
        c = user_op2(m, (user_op)USER_ONE_OF(m, USER_and, USER_or, USER_xor), c, finite);
    }
    user_push(m, user_op3(m, USER_select, c, x, user_chance(m, 50) ? y : constant(m, 0)));
}

static void make_matmul(user_maker *m) {
    int a = user_pick(m, 2, 4);
    const int rank = user_rank(m, a);
    const int64_t k = user_dim(m, a, -1), n = user_extent(m);
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[a].dims, sizeof dims);
    if (user_chance(m, 30)) { /* x^T x */
        int64_t perm[TCC_MAX_RANK];
        for (int d = 0; d < rank; d++) perm[d] = d;
        perm[rank - 1] = rank - 2, perm[rank - 2] = rank - 1;
        dims[rank - 2] = k;
        if (!user_fits(m, rank, dims)) return;
        int t = user_op_ints(m, USER_transpose, a, rank, perm);
        user_push(m, user_op_real(m, USER_scale, user_op2(m, USER_matmul, t, a), 0.1));
        return;
    }
    dims[rank - 1] = n;
    if (!user_fits(m, rank, dims)) return;
    dims[rank - 2] = k;
    int b = user_chance(m, 60) ? user_param(m, 0.5, 2, (int64_t[]){k, n}) : user_param(m, 0.5, rank, dims);
    user_push(m, user_op2(m, USER_matmul, a, b));
}

/* Through another float type, with some work there. */
static void make_cast(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const int64_t type = USER_ONE_OF(m, TCC_F16, TCC_BF16, TCC_F64);
    int y = user_op_ints(m, USER_cast, x, USER_INT_LIST(type));
    for (int64_t i = user_below(m, 4); i > 0; i--) {
        int other;
        switch (user_below(m, 6)) {
        case 0: y = user_op1(m, (user_op)USER_ONE_OF(m, USER_relu, USER_tanh, USER_sigmoid, USER_gelu), y); break;
        case 1:
            other = user_op_ints(m, USER_cast, user_pick_broadcastable(m, x), USER_INT_LIST(type));
            y = user_op2(m, (user_op)USER_ONE_OF(m, USER_add, USER_mul), y, other);
            break;
        case 2: y = user_op_ints(m, USER_softmax, y, USER_INT_LIST(user_rank(m, y) - 1)); break;
        case 3: y = user_op_real(m, USER_scale, y, 0.75); break;
        case 4: y = user_op_ints(m, USER_cumsum, y, USER_INT_LIST(0)); break;
        default: {
            const int64_t other_type = USER_ONE_OF(m, TCC_F16, TCC_BF16, TCC_F64, TCC_F32);
            y = user_op_ints(m, USER_cast, user_op_ints(m, USER_cast, y, USER_INT_LIST(other_type)),
                             USER_INT_LIST(type));
        }
        }
    }
    if (user_rank(m, y) > 1 && user_chance(m, 25)) y = user_op_ints(m, USER_mean, y, USER_INT_LIST(0));
    user_push(m, user_op_ints(m, USER_cast, y, USER_INT_LIST(TCC_F32)));
}

/* To integers and back, with arithmetic between. */
static void make_integers(user_maker *m) {
    int x = user_pick(m, 1, 3);
    int i = user_op_real(m, USER_scale, user_op1(m, USER_tanh, x), 9);
    i = user_op_ints(m, USER_cast, i, USER_INT_LIST(USER_ONE_OF(m, TCC_I32, TCC_I64)));
    const user_step s = m->p->steps[i];
    int j = user_chance(m, 50) ? user_iota(m, s.dtype, (int)user_below(m, s.rank), s.rank, s.dims)
                               : user_constant(m, 3, s.dtype, 0, NULL);
    i = user_op2(m, (user_op)USER_ONE_OF(m, USER_add, USER_mul, USER_rem, USER_div, USER_max, USER_and, USER_sub), i,
                 j);
    if (user_chance(m, 25)) {
        const int by = user_constant(m, (double)user_below(m, 4), s.dtype, 0, NULL);
        i = user_op2(m, (user_op)USER_ONE_OF(m, USER_shift_left, USER_shift_right), i, by);
    }
    if (user_chance(m, 30)) i = user_op_ints(m, USER_cumsum, i, USER_INT_LIST(0));
    if (user_chance(m, 30) && s.rank > 1) i = user_op_ints(m, USER_sum, i, USER_INT_LIST(0));
    int y = user_op_real(m, USER_scale, user_op_ints(m, USER_cast, i, USER_INT_LIST(TCC_F32)), 0.1);
    user_push(m, user_op2(m, USER_mul, x, y));
}

/* Very large or very small, and back, by a number or by a norm. */
static void make_magnitude(user_maker *m) {
    int x = user_pick(m, 1, 4);
    const bool large = user_chance(m, 50);
    x = user_op_real(m, USER_scale, x, large ? 1e6 : 1e-8);
    if (user_chance(m, 40))
        x = user_op2(m, USER_add, x, user_op_real(m, USER_scale, user_pick_broadcastable(m, x), large ? 1e6 : 1e-8));
    if (user_chance(m, 40)) x = user_op_ints(m, USER_cumsum, x, USER_INT_LIST(user_rank(m, x) - 1));
    if (user_chance(m, 50))
        x = user_layer(m, user_chance(m, 50) ? USER_layer_norm : USER_rms_norm, x, NULL, USER_INT_LIST(0, 0));
    else x = user_op_real(m, USER_scale, x, large ? 1e-6 : 1e8);
    user_push(m, x);
}

/* A norm over rows or channels that do not vary, or hardly. */
static void make_constant_rows(user_maker *m) {
    int64_t dims[3], one[3];
    user_extents(m, 3, dims);
    const int rank = 2 + (int)user_below(m, 2), axis = 1 + (int)user_below(m, rank - 1);
    while (!user_fits(m, rank, dims)) dims[user_below(m, rank)] = 2;
    for (int d = 0; d < rank; d++) one[d] = d == axis ? dims[d] : 1;
    const int64_t channels = dims[axis];
    int x = user_param(m, 1, axis == rank - 1 ? 1 : rank, axis == rank - 1 ? &channels : one);
    x = user_op_real(m, USER_scale, x, USER_ONE_OF(m, 1, 1, 1000));
    x = user_op_ints(m, USER_broadcast, x, rank, dims);
    if (user_chance(m, 50)) {
        int small = user_op_real(m, USER_scale, user_pick_like(m, x), 0.001);
        x = user_op2(m, USER_add, x, small);
    }
    user_op op = (user_op)USER_ONE_OF(m, USER_batch_norm, USER_batch_norm, USER_layer_norm, USER_rms_norm);
    if (user_count(m, x) == user_dim(m, x, 1)) op = USER_layer_norm; /* a value a channel has no variance */
    user_push(m, user_layer(m, op, x, NULL, USER_INT_LIST(0, 0)));
}

const user_layer_kind user_layers_tensor[] = {
    {make_math, 8},       {make_binary, 10},  {make_many_uses, 5}, {make_outer, 4},         {make_pairs, 2},
    {make_shape, 8},      {make_moved, 3},    {make_slices, 3},    {make_gate, 3},          {make_take, 5},
    {make_take_along, 4}, {make_scatter, 4},  {make_argmax, 2},    {make_reduce, 4},        {make_both_sums, 3},
    {make_centered, 4},   {make_cumsum, 3},   {make_softmax, 4},   {make_select, 5},        {make_matmul, 5},
    {make_cast, 4},       {make_integers, 2}, {make_magnitude, 2}, {make_constant_rows, 2}, {NULL, 0},
};
