/* SPDX-License-Identifier: MIT
 * Programs as data: layers, windows, attention and losses. */
#include "harness/user_program.h"

#include <string.h>

static tcc_recurrent_states recurrent(const user_step *s, const tcc_tensor *a) {
    const int64_t *v = s->ints;
    const bool given = s->op == USER_lstm_from || s->op == USER_gru_from;
    const bool lstm = s->op == USER_lstm || s->op == USER_lstm_last || s->op == USER_lstm_cell ||
                      s->op == USER_lstm_from;
    tcc_recurrent_options o = {.size = sizeof o,
                               .layers = v[1],
                               .bidirectional = v[2],
                               .batch_first = v[3],
                               .no_bias = v[4],
                               .dropout = s->real};
    if (given) o.h0 = a[1];
    if (given && lstm) o.c0 = a[2];
    return (lstm ? tcc_lstm_at : tcc_gru_at)(a[0], s->name, v[0], &o, TCC_HERE);
}

/* -- Convolutions and windows -- */

/* The lists of a step of every option: kernel, stride, paddings, dilation and output padding. */
static tcc_conv_options conv_options(const user_step *s) {
    const int64_t *v = s->ints;
    tcc_conv_options o = {.size = sizeof o, .groups = v[17], .same = v[18], .no_bias = v[19]};
    memcpy(o.kernel_of, v + 2, sizeof o.kernel_of);
    memcpy(o.stride_of, v + 5, sizeof o.stride_of);
    memcpy(o.padding_before, v + 8, sizeof o.padding_before);
    memcpy(o.padding_after, v + 11, sizeof o.padding_after);
    memcpy(o.dilation_of, v + 14, sizeof o.dilation_of);
    memcpy(o.output_padding_of, v + 20, sizeof o.output_padding_of);
    return o;
}

static tcc_tensor conv(const user_step *s, const tcc_tensor *a) {
    const int64_t *v = s->ints;
    const tcc_conv_options full = s->op == USER_conv_layer_full || s->op == USER_conv_transpose_layer_full
                                      ? conv_options(s)
                                      : (tcc_conv_options){0};
    switch (s->op) {
    case USER_conv: return tcc_conv(a[0], a[1], .stride = v[0], .padding = v[1], .dilation = v[2], .groups = v[3]);
    case USER_conv_same:
        return tcc_conv(a[0], a[1], .stride = v[0], .stride_of = {v[1]}, .dilation = v[2], .same = true);
    case USER_conv_transpose:
        return tcc_conv_transpose(a[0], a[1], .stride = v[0], .stride_of = {v[1]}, .padding = v[2],
                                  .padding_after = {v[3]}, .dilation = v[4], .groups = v[5],
                                  .output_padding_of = {v[6]});
    case USER_conv_layer:
        return tcc_conv_layer(a[0], s->name, v[0], v[1], .stride = v[2], .padding = v[3], .dilation = v[4],
                              .groups = v[5], .no_bias = v[6]);
    case USER_conv_layer_each:
        return tcc_conv_layer(a[0], s->name, v[0], v[1], .kernel_of = {v[2]}, .stride = v[3], .stride_of = {v[4]},
                              .padding = v[5], .padding_before = {v[6]}, .dilation = v[7], .dilation_of = {v[8]},
                              .groups = v[9]);
    case USER_conv_transpose_layer:
        return tcc_conv_transpose_layer(a[0], s->name, v[0], v[1], .kernel_of = {v[2]}, .stride = v[3],
                                        .stride_of = {v[4]}, .padding = v[5], .padding_before = {v[6]},
                                        .dilation = v[7], .output_padding_of = {v[8]}, .groups = v[9]);
    case USER_conv_layer_full: return tcc_conv_layer_at(a[0], s->name, v[0], v[1], &full, TCC_HERE);
    default: return tcc_conv_transpose_layer_at(a[0], s->name, v[0], v[1], &full, TCC_HERE);
    }
}

static tcc_tensor window(const user_step *s, tcc_tensor a) {
    const int64_t *v = s->ints;
    const int n = s->n_ints;
    tcc_pool_options full = {.size = sizeof full, .ceil_mode = v[13], .exclude_pad = v[14]};
    memcpy(full.window_of, v + 1, sizeof full.window_of);
    memcpy(full.stride_of, v + 4, sizeof full.stride_of);
    memcpy(full.padding_before, v + 7, sizeof full.padding_before);
    memcpy(full.padding_after, v + 10, sizeof full.padding_after);
    switch (s->op) {
    case USER_max_pool: return tcc_max_pool(a, v[0], .stride = v[1], .padding = v[2]);
    case USER_avg_pool: return tcc_avg_pool(a, v[0], .stride = v[1], .padding = v[2], .exclude_pad = v[3]);
    case USER_max_pool_each:
        return tcc_max_pool(a, v[0], .window_of = {v[1]}, .stride = v[2], .stride_of = {v[3]}, .padding = v[4],
                            .padding_before = {v[5]}, .ceil_mode = v[6]);
    case USER_avg_pool_each:
        return tcc_avg_pool(a, v[0], .window_of = {v[1]}, .stride = v[2], .stride_of = {v[3]}, .padding = v[4],
                            .padding_before = {v[5]}, .ceil_mode = v[6], .exclude_pad = v[7]);
    case USER_max_pool_full: return tcc_max_pool_at(a, v[0], &full, TCC_HERE);
    case USER_avg_pool_full: return tcc_avg_pool_at(a, v[0], &full, TCC_HERE);
    case USER_adaptive_avg_pool: return tcc_adaptive_avg_pool(a, n, v);
    case USER_resize_nearest: return tcc_resize_nearest(a, v[0], n - 1, v + 1);
    default: return tcc_resize_bilinear(a, v[0], n - 1, v + 1);
    }
}

/* -- Attention and losses -- */

static tcc_tensor attention(const user_step *s, const tcc_tensor *a) {
    const int64_t *v = s->ints;
    tcc_multi_head_attention_options heads = {
        .size = sizeof heads, .kv_heads = v[1], .causal = v[2], .no_bias = v[3], .dropout = s->real};
    if (s->op == USER_multi_head_attention_masked) heads.mask = a[3];
    switch (s->op) {
    case USER_attention: return tcc_attention(a[0], a[1], a[2], .causal = v[0], .scale = s->real);
    case USER_attention_masked: return tcc_attention(a[0], a[1], a[2], .causal = v[0], .scale = s->real, .mask = a[3]);
    case USER_attention_dropout: return tcc_attention(a[0], a[1], a[2], .causal = v[0], .dropout = s->real);
    case USER_multi_head_attention:
        return tcc_multi_head_attention(a[0], a[1], a[1], s->name, v[0], .kv_heads = v[1], .causal = v[2]);
    default: return tcc_multi_head_attention_at(a[0], a[1], a[2], s->name, v[0], &heads, TCC_HERE);
    }
}

/* Of classes. */
static tcc_tensor class_loss(const user_step *s, const tcc_tensor *a) {
    const int64_t *v = s->ints;
    const bool full = s->op == USER_cross_entropy_full || s->op == USER_cross_entropy_full_weighted ||
                      s->op == USER_nll_loss;
    const bool weighted = s->op == USER_cross_entropy_weighted || s->op == USER_cross_entropy_full_weighted;
    const tcc_cross_entropy_options o = {.size = sizeof o,
                                         .has_ignore_index = v[0],
                                         .ignore_index = v[1],
                                         .label_smoothing = s->real,
                                         .weight = weighted ? &a[2] : NULL,
                                         .reduction = full ? (tcc_loss_reduction)v[2] : TCC_REDUCE_MEAN,
                                         .axis = full ? (int)v[3] : 0};
    if (s->op == USER_ctc_loss) return tcc_ctc_loss(a[0], a[1], a[2], a[3], .zero_infinity = true);
    return (s->op == USER_nll_loss ? tcc_nll_loss_at : tcc_cross_entropy_at)(a[0], a[1], &o, TCC_HERE);
}

static tcc_tensor loss(const user_step *s, const tcc_tensor *a) {
    const tcc_loss_reduction r = (tcc_loss_reduction)s->ints[0];
    const double x = s->real;
    switch (s->op) {
    case USER_mse_loss_of: return tcc_mse_loss(a[0], a[1], .reduction = r);
    case USER_l1_loss_of: return tcc_l1_loss(a[0], a[1], .reduction = r);
    case USER_smooth_l1_loss_of: return tcc_smooth_l1_loss(a[0], a[1], .reduction = r, .beta = x);
    case USER_huber_loss_of: return tcc_huber_loss(a[0], a[1], .reduction = r, .delta = x);
    case USER_bce_loss_of: return tcc_bce_loss(a[0], a[1], .reduction = r);
    case USER_bce_with_logits_of:
        return tcc_bce_with_logits(a[0], a[1], .reduction = r, .weight = &a[2], .pos_weight = &a[3]);
    case USER_kl_div_of: return tcc_kl_div(a[0], a[1], .reduction = r, .log_target = s->ints[1]);
    case USER_cosine_embedding_loss_of: return tcc_cosine_embedding_loss(a[0], a[1], a[2], .reduction = r, .margin = x);
    case USER_hinge_embedding_loss_of: return tcc_hinge_embedding_loss(a[0], a[1], .reduction = r, .margin = x);
    case USER_triplet_margin_loss_of:
        return tcc_triplet_margin_loss(a[0], a[1], a[2], .reduction = r, .margin = x, .swap = s->ints[1],
                                       .p = (double)s->ints[2]);
    case USER_dice_loss_of: return tcc_dice_loss(a[0], a[1], .reduction = r);
    default: return tcc_jaccard_loss(a[0], a[1], .reduction = r);
    }
}

/* -- Layers with a name -- */

static tcc_tensor layer(const user_step *s, const tcc_tensor *a) {
    const int64_t *v = s->ints;
    const tcc_tensor x = a[0];
    const tcc_norm_options norm = {
        .size = sizeof norm, .no_bias = v[0], .no_affine = v[1], .zero_weight = v[3], .eps = s->real};
    switch (s->op) {
    case USER_linear: return tcc_linear(x, s->name, v[0], .no_bias = v[1]);
    case USER_embedding: return tcc_embedding(x, s->name, v[0], v[1], .has_padding_index = v[2], .padding_index = v[3]);
    case USER_lstm:
    case USER_gru:
    case USER_lstm_from:
    case USER_gru_from: return recurrent(s, a).all;
    case USER_lstm_last:
    case USER_gru_last: return recurrent(s, a).h;
    case USER_lstm_cell: return recurrent(s, a).c;
    case USER_instance_norm: return tcc_instance_norm_at(x, s->name, &norm, TCC_HERE);
    case USER_layer_norm: return tcc_layer_norm_at(x, s->name, &norm, TCC_HERE);
    case USER_rms_norm: return tcc_rms_norm(x, s->name, .no_affine = v[1], .zero_weight = v[3], .eps = s->real);
    case USER_group_norm: return tcc_group_norm_at(x, s->name, v[2], &norm, TCC_HERE);
    case USER_batch_norm: return tcc_batch_norm_at(x, s->name, &norm, TCC_HERE);
    default: return tcc_dropout(x, s->real);
    }
}

tcc_tensor user_layer_apply(const user_step *s, const tcc_tensor *a) {
    if (s->op <= USER_conv_transpose || (s->op >= USER_conv_layer && s->op <= USER_conv_transpose_layer_full))
        return conv(s, a);
    if (s->op <= USER_resize_bilinear) return window(s, a[0]);
    if (s->op <= USER_attention_dropout) return attention(s, a);
    if (s->op <= USER_nll_loss) return class_loss(s, a);
    if (s->op <= USER_jaccard_loss_of) return loss(s, a);
    if (s->op >= USER_multi_head_attention && s->op <= USER_multi_head_attention_masked) return attention(s, a);
    return layer(s, a);
}
