/* SPDX-License-Identifier: MIT
 * Each macro that takes options or lists, for headers.sh: this is C and C++. */
#include <traincc/traincc.h>

#ifndef __cplusplus
#define INIT(...) \
    (tcc_init) { __VA_ARGS__ }
#define NO_BIAS .no_bias = true
#define STRIDES .stride = 1, .stride_of = {2, 1}
#elif __cplusplus >= 202002L
#define INIT(...) \
    tcc_init { __VA_ARGS__ }
#define NO_BIAS .no_bias = true
#define STRIDES .stride = 1, .stride_of = {2, 1}
#else
#define INIT(...) \
    tcc_init { __VA_ARGS__ }
#define NO_BIAS true
#define STRIDES 2
#endif

static tcc_tensor layers(tcc_trace *t, tcc_tensor x) {
    tcc_tensor w = tcc_param(t, "w", INIT(TCC_INIT_UNIFORM, -1, 1, 0), TCC_DIMS(8, 3, 3, 3));
    tcc_tensor s = tcc_state(t, "s", INIT(TCC_INIT_CONSTANT, 1, 0, 0), TCC_DIMS(8));
    tcc_update(s, tcc_scale(s, 2));
    x = tcc_add(tcc_conv(x, w), tcc_unfold(x, 3));
    x = tcc_batch_norm(tcc_conv_layer(x, "conv", 8, 3), "bn");
    x = tcc_conv_transpose_layer(tcc_conv_transpose(x, w, STRIDES), "up", 8, 3, STRIDES);
    x = tcc_avg_pool(tcc_max_pool(x, 2), 2);
    x = tcc_group_norm(tcc_rms_norm(tcc_layer_norm(x, "ln"), "rms"), "gn", 2);
    x = tcc_linear(tcc_linear(x, "a", 4), "b", 4, NO_BIAS);
    x = tcc_tanh(tcc_linear(x, "c", 4));
    x = tcc_adaptive_avg_pool(tcc_attention(x, x, x), TCC_DIMS(1, 1));
    x = tcc_resize_nearest(tcc_resize_bilinear(x, true, TCC_DIMS(4, 4)), false, TCC_DIMS(2, 2));
    x = tcc_add(tcc_lstm(x, "lstm", 4).all, tcc_gru(x, "gru", 4).h);
    x = tcc_instance_norm(tcc_multi_head_attention(x, x, x, "mha", 2), "in");
    tcc_param_type(t, TCC_F32);
    x = tcc_embedding(x, "wte", 10, 4);
    tcc_param_type_end(t);
    return x;
}

static tcc_tensor shapes(tcc_trace *t, tcc_tensor x) {
    const tcc_tensor both[] = {x, tcc_constant(t, 1, TCC_F32, TCC_DIMS(4))};
    const double values[] = {1, 2};
    tcc_tensor parts[2];
    x = tcc_add(tcc_concat(both, 2, 0), tcc_stack(both, 2, 0));
    x = tcc_mul(tcc_einsum("ij,jk->ik", both, 2), tcc_literal(t, values, TCC_F32, TCC_DIMS(2)));
    x = tcc_broadcast(tcc_transpose(tcc_reshape(x, TCC_DIMS(2, -1)), TCC_DIMS(1, 0)), TCC_DIMS(3, 2, 2));
    x = tcc_sub(tcc_sum(x, TCC_DIMS(0, 1)), tcc_mean(x, TCC_ALL));
    x = tcc_max(tcc_reduce_max(x, TCC_DIMS(0)), tcc_reduce_min(x, TCC_DIMS(0)));
    x = tcc_div(tcc_var(x, 1, TCC_ALL), tcc_std(x, 0, TCC_DIMS(0)));
    x = tcc_add(tcc_norm(x, 2, TCC_ALL), tcc_logsumexp(x, TCC_DIMS(-1)));
    x = tcc_repeat(tcc_squeeze(tcc_expand_dims(x, TCC_DIMS(0)), TCC_DIMS(0)), TCC_DIMS(2));
    tcc_split(x, 0, parts, TCC_DIMS(1, 1));
    x = tcc_pad_dims(tcc_adaptive_max_pool(x, TCC_DIMS(1, 1)), 0, TCC_DIMS(1, 0));
    x = tcc_add(tcc_resize_bicubic(x, false, TCC_DIMS(2, 2)), tcc_cast(tcc_sum_i64(x, TCC_KEEP_ALL), TCC_F32));
    return tcc_add(parts[0], tcc_iota(t, 0, TCC_F32, TCC_DIMS(4)));
}

static tcc_tensor functions(tcc_tensor x) {
    tcc_tensor y = tcc_div(x, tcc_sum(x, TCC_KEEP(-1))), grid[1];
    y = tcc_add(tcc_mean(y, TCC_KEEP_ALL), tcc_var(y, 0, TCC_KEEP(0, 1)));
    y = tcc_mul(tcc_prod(y, TCC_DIMS(0)), tcc_prod(y, TCC_ALL));
    y = tcc_select(tcc_any(y, TCC_ALL), y, tcc_cast(tcc_count_nonzero(y, TCC_KEEP(1)), TCC_F32));
    tcc_meshgrid(&y, 1, grid);
    return tcc_select(tcc_all(grid[0], TCC_DIMS(0)), y, tcc_cummax(y, 0, NULL));
}

static tcc_tensor draws(tcc_trace *t) {
    tcc_tensor u = tcc_random_uniform(t, "u", 0, 1, TCC_F32, TCC_DIMS(4, 2));
    u = tcc_add(u, tcc_random_normal(t, "n", 0, 1, TCC_F32, TCC_DIMS(4, 2)));
    u = tcc_select(tcc_random_bernoulli(t, "b", 0.5, TCC_DIMS(4, 2)), u, tcc_neg(u));
    u = tcc_take(u, tcc_random_integers(t, "i", 0, 4, TCC_I32, TCC_DIMS(4)), 0);
    return tcc_take(u, tcc_random_permutation(t, "p", 4), 0);
}

static tcc_tensor losses(tcc_tensor x, tcc_tensor y) {
    tcc_tensor l = tcc_add(tcc_cross_entropy(x, y), tcc_nll_loss(x, y));
    l = tcc_add(l, tcc_add(tcc_pixel_cross_entropy(x, y), tcc_ohem_cross_entropy(x, y)));
    l = tcc_add(l, tcc_add(tcc_edge_dice_loss(x, y), tcc_detail_loss(x, y)));
    l = tcc_add(l, tcc_add(tcc_mse_loss(x, y), tcc_l1_loss(x, y)));
    l = tcc_add(l, tcc_add(tcc_smooth_l1_loss(x, y), tcc_huber_loss(x, y)));
    l = tcc_add(l, tcc_add(tcc_bce_loss(x, y), tcc_bce_with_logits(x, y)));
    l = tcc_add(l, tcc_add(tcc_kl_div(x, y), tcc_cosine_embedding_loss(x, x, y)));
    l = tcc_add(l, tcc_add(tcc_hinge_embedding_loss(x, y), tcc_triplet_margin_loss(x, x, y)));
    l = tcc_add(l, tcc_add(tcc_dice_loss(x, y), tcc_jaccard_loss(x, y)));
    l = tcc_add(l, tcc_ctc_loss(x, y, y, y));
    tcc_gradients(l, &x, 1, &y);
    return tcc_add(tcc_stop_gradient(y), tcc_gradient(l, x));
}

void traincc_languages(tcc_trace *t, void *user);
void traincc_languages(tcc_trace *t, void *user) {
    tcc_optimizer_options adam;
    tcc_param_group group;
    tcc_optimizer_init(&adam, TCC_ADAM);
    tcc_param_group_init(&group, "*.bias");
    tcc_tensor x = shapes(t, layers(t, tcc_input(t, "x")));
    if (user) tcc_fail(t, "%d", 1);
    x = tcc_add(functions(x), draws(t));
    tcc_loss_weight(t, tcc_sum(x, TCC_ALL));
    tcc_loss(t, losses(x, tcc_input(t, "y")));
}

#ifdef __cplusplus
/* Bodies inside a class are read late, after the compiler has met every macro's pragmas. */
struct network {
    tcc_tensor operator()(tcc_tensor x) const { return tcc_tanh(tcc_linear(x, "fc", 4)); }
};
#endif
