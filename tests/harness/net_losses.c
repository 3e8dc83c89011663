/* SPDX-License-Identifier: MIT
 * Random networks: heads and losses. */
#include "harness/net_maker.h"

#include <string.h>

/* -- What losses are given -- */

static int like(user_maker *m, int x, user_fill fill) { /* an input of x's shape */
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    return user_new_input(m, TCC_F32, fill, 0, user_rank(m, x), dims);
}

static int probabilities(user_maker *m, int x) {
    return user_op1(m, USER_sigmoid, user_op_real(m, USER_scale, like(m, x, USER_FILL_UNIFORM), 3));
}

static int signs(user_maker *m, int rank, const int64_t *dims) {
    return user_op1(m, USER_sign, user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, rank, dims));
}

/* Micro-batches are those of a mean. */
static int64_t choose_reduction(user_maker *m, bool batch_mean) {
    if (net_accumulates(m)) return TCC_REDUCE_MEAN;
    const int kind = (int)user_below(m, batch_mean ? 7 : 6);
    return kind == 6   ? TCC_REDUCE_BATCH_MEAN
           : kind == 5 ? TCC_REDUCE_NONE
           : kind == 4 ? TCC_REDUCE_SUM
                       : TCC_REDUCE_MEAN;
}

static int reduced(user_maker *m, int y, int64_t reduction, int x) {
    if (reduction == TCC_REDUCE_NONE) return net_mean(m, y);
    const double elements = reduction == TCC_REDUCE_SUM          ? (double)user_count(m, x)
                            : reduction == TCC_REDUCE_BATCH_MEAN ? (double)net_each(m, x)
                                                                 : 1;
    return elements > 1 ? user_op_real(m, USER_scale, y, 1 / elements) : y;
}

/* -- Of classes -- */

static int classes_of(user_maker *m, int logits, int axis) {
    const user_step *s = &m->p->steps[logits];
    int64_t dims[TCC_MAX_RANK] = {0};
    int rank = 0;
    for (int d = 0; d < s->rank; d++)
        if (d != axis) dims[rank++] = s->dims[d];
    return user_new_input(m, TCC_I32, USER_FILL_INDEX, s->dims[axis], rank, dims);
}

static int class_loss(user_maker *m, int logits, int axis) {
    const int64_t reduction = choose_reduction(m, false), classes = user_dim(m, logits, axis);
    user_step s = {.op = USER_cross_entropy_full, .n_args = 2, .args = {logits}, .n_ints = 4};
    s.ints[2] = reduction, s.ints[3] = axis == user_rank(m, logits) - 1 ? 0 : axis;
    if (user_chance(m, 15)) { /* soft targets */
        int t = user_op_real(m, USER_scale, like(m, logits, USER_FILL_UNIFORM), 4);
        s.args[1] = user_op_ints(m, USER_softmax, t, USER_INT_LIST(axis));
        return reduced(m, user_emit(m, &s), reduction, logits);
    }
    s.args[1] = classes_of(m, logits, axis);
    if (user_chance(m, 25)) s.real = 0.1;
    s.ints[1] = -100;
    if (!net_accumulates(m) && user_chance(m, 25)) s.ints[0] = 1, s.ints[1] = user_below(m, classes);
    if (!net_accumulates(m) && user_chance(m, 20)) {
        int w = user_literal_of(m, TCC_F32, 0, 3, 0.5, 1, &classes);
        s.op = USER_cross_entropy_full_weighted;
        s.args[s.n_args++] = user_op_real(m, USER_add_scalar, w, 0.5);
    } else if (user_chance(m, 20)) {
        s.op = USER_nll_loss, s.real = 0;
        s.args[0] = user_op_ints(m, USER_log_softmax, logits, USER_INT_LIST(axis));
    }
    return reduced(m, user_emit(m, &s), reduction, logits);
}

/* Frames [N, T, C] read as texts of 3 labels; -1: too many frames to trace. */
static int ctc(user_maker *m, int x) {
    const int64_t n = user_dim(m, x, 0), t = user_dim(m, x, 1), targets[2] = {n, 3};
    if (t < 7 || t > 12 || net_accumulates(m)) return -1;
    int logits = net_linear(m, x, 11), labels = user_new_input(m, TCC_I32, USER_FILL_INDEX, 10, 2, targets);
    user_step s = {.op = USER_ctc_loss, .n_args = 4};
    s.args[0] = user_op_ints(m, USER_log_softmax, user_op_ints(m, USER_transpose, logits, USER_INT_LIST(1, 0, 2)),
                             USER_INT_LIST(2));
    s.args[1] = user_op_real(m, USER_add_scalar, labels, 1);
    s.args[2] = user_op_real(m, USER_add_scalar, user_new_input(m, TCC_I32, USER_FILL_INDEX, t - 6, 1, &n), 7);
    s.args[3] = user_op_real(m, USER_add_scalar, user_new_input(m, TCC_I32, USER_FILL_INDEX, 3, 1, &n), 1);
    return user_emit(m, &s);
}

/* -- Of values -- */

static int distribution_loss(user_maker *m, int x, int axis) {
    user_step s = {.op = USER_kl_div_of, .n_args = 2, .n_ints = 2, .ints = {choose_reduction(m, true)}};
    const bool logs = user_chance(m, 40);
    s.ints[1] = logs;
    int t = user_op_real(m, USER_scale, like(m, x, USER_FILL_UNIFORM), 3);
    s.args[0] = user_op_ints(m, USER_log_softmax, x, USER_INT_LIST(axis));
    s.args[1] = user_op_ints(m, logs ? USER_log_softmax : USER_softmax, t, USER_INT_LIST(axis));
    return reduced(m, user_emit(m, &s), s.ints[0], x);
}

/* Rows [N, C], told apart by their angle or distance. */
static int metric_loss(user_maker *m, int x) {
    const int64_t width = net_width(m, 1), n = user_dim(m, x, 0);
    user_step s = {.n_args = 3, .n_ints = 3, .ints = {choose_reduction(m, true)}};
    for (int i = 0; i < 3; i++) s.args[i] = net_linear(m, x, width);
    s.op = user_chance(m, 50) ? USER_cosine_embedding_loss_of : USER_triplet_margin_loss_of;
    if (s.op == USER_cosine_embedding_loss_of) {
        s.args[2] = signs(m, 1, &n), s.n_ints = 1;
        s.real = user_chance(m, 50) ? 0.1 : 0;
    } else s.real = 1, s.ints[1] = user_chance(m, 50), s.ints[2] = 1 + user_chance(m, 70);
    int y = user_emit(m, &s);
    if (s.ints[0] == TCC_REDUCE_NONE) return net_mean(m, y);
    return s.ints[0] == TCC_REDUCE_SUM ? user_op_real(m, USER_scale, y, 1 / (double)n) : y;
}

static int value_loss(user_maker *m, int x) {
    user_step s = {.n_args = 2, .args = {x}, .n_ints = 1, .ints = {choose_reduction(m, true)}, .real = 1};
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[x].dims, sizeof dims);
    switch (user_below(m, 9)) {
    case 0: s.op = USER_bce_loss_of, s.args[0] = user_op1(m, USER_sigmoid, x), s.args[1] = probabilities(m, x); break;
    case 1:
        s.op = USER_bce_with_logits_of, s.n_args = 4, s.args[1] = probabilities(m, x);
        s.args[2] = user_constant(m, 0.5, TCC_F32, 0, NULL);
        s.args[3] = user_constant(m, 2, TCC_F32, 1, dims + user_rank(m, x) - 1);
        break;
    case 2:
        s.op = USER_hinge_embedding_loss_of;
        s.args[1] = signs(m, user_rank(m, x), dims);
        break;
    case 3: return distribution_loss(m, x, user_rank(m, x) - 1);
    default:
        s.op = (user_op)USER_ONE_OF(m, USER_mse_loss_of, USER_mse_loss_of, USER_l1_loss_of, USER_smooth_l1_loss_of,
                                    USER_huber_loss_of);
        s.args[1] = like(m, x, USER_FILL_UNIFORM);
    }
    return reduced(m, user_emit(m, &s), s.ints[0], x);
}

/* -- Heads -- */

static int vector_loss(user_maker *m, int x) {
    const int kind = (int)user_below(m, 10);
    if (kind < 6) return class_loss(m, net_linear(m, x, USER_ONE_OF(m, 10, 10, 16, 100, 7)), 1);
    if (kind < 7) return metric_loss(m, x);
    return value_loss(m, user_chance(m, 60) ? net_linear(m, x, USER_ONE_OF(m, 1, 4, 16)) : x);
}

static int sequence_loss(user_maker *m, int x) {
    const int loss = user_chance(m, 30) ? ctc(m, x) : -1;
    if (loss >= 0) return loss;
    if (user_chance(m, 70)) return class_loss(m, net_linear(m, x, USER_ONE_OF(m, 16, 50, 100, 256)), 2);
    return value_loss(m, x);
}

/* Of each pixel, as in segmentation. */
static int image_loss(user_maker *m, int x) {
    if (user_chance(m, 50)) return class_loss(m, net_conv_plain(m, x, USER_ONE_OF(m, 4, 10, 21), 1, 1), 1);
    if (user_chance(m, 70)) return value_loss(m, user_chance(m, 60) ? net_conv_plain(m, x, 3, 1, 1) : x);
    x = net_conv_plain(m, x, 4, 1, 1);
    user_step s = {.op = user_chance(m, 50) ? USER_dice_loss_of : USER_jaccard_loss_of, .n_args = 2, .n_ints = 1};
    s.args[0] = user_op1(m, USER_sigmoid, x), s.args[1] = probabilities(m, x);
    return user_emit(m, &s);
}

/* To [N, C]. */
static int to_vector(user_maker *m, int x, net_form form) {
    const int rank = user_rank(m, x), kind = (int)user_below(m, 10);
    int64_t axes[3] = {1}, to[3];
    if (form == NET_SEQUENCE) {
        if (kind < 2) {
            x = user_op_ints(m, USER_slice, x, USER_INT_LIST(1, -1, user_dim(m, x, 1), 1));
            return user_op_ints(m, USER_reshape, x, USER_INT_LIST(-1, user_dim(m, x, 2)));
        }
        if (kind < 4 && net_each(m, x) < 4096) return user_op_ints(m, USER_flatten, x, USER_INT_LIST(1));
        return user_op_ints(m, kind < 6 ? USER_reduce_max : USER_mean, x, 1, axes);
    }
    for (int d = 0; d < rank - 2; d++) axes[d] = 2 + d, to[d] = user_dim(m, x, 2 + d) > 2 ? 2 : 1;
    if (net_each(m, x) < 4096 && kind < 4) return user_op_ints(m, USER_flatten, x, USER_INT_LIST(1));
    if (kind < 6)
        return user_op_ints(m, USER_flatten, user_op_ints(m, USER_adaptive_avg_pool, x, rank - 2, to),
                            USER_INT_LIST(1));
    return user_op_ints(m, kind < 7 ? USER_reduce_max : USER_mean, x, rank - 2, axes);
}

int net_loss(user_maker *m, int x, net_form form) {
    if (form == NET_IMAGE && user_chance(m, 30)) return image_loss(m, x);
    if (form == NET_SEQUENCE && user_chance(m, 55)) return sequence_loss(m, x);
    if (form != NET_VECTOR) x = to_vector(m, x, form);
    while (!m->few && user_chance(m, 35)) x = net_vector_block(m, x);
    return vector_loss(m, x);
}
