/* SPDX-License-Identifier: MIT
 * Random networks: blocks of images of one to three spatial dims. */
#include "harness/net_maker.h"

#include <string.h>

/* Kernel, strides, paddings and dilations by spatial dim; extra: output padding. */
typedef struct window {
    int64_t kernel[3], stride[3], before[3], after[3], dilation[3], extra[3];
    bool same;
} window;

enum { PADDING_NONE, PADDING_HALF, PADDING_SAME, PADDING_ODD };

static int spatial(const user_maker *m, int x) { return user_rank(m, x) - 2; }

static void choose_window(user_maker *m, int x, window *w) {
    const int64_t most = spatial(m, x) == 3 ? 3 : 7;
    int64_t kernel = USER_ONE_OF(m, 1, 2, 3, 3, 3, 3, 4, 5, 5, 7);
    const int64_t stride = user_chance(m, 65) ? 1 : USER_ONE_OF(m, 2, 2, 2, 3), dilation = 1 + user_chance(m, 12);
    const int padding = USER_ONE_OF(m, PADDING_NONE, PADDING_NONE, PADDING_NONE, PADDING_HALF, PADDING_HALF,
                                    PADDING_HALF, PADDING_SAME, PADDING_ODD);
    if (kernel > most) kernel = most;
    *w = (window){.same = padding == PADDING_SAME};
    for (int d = 0; d < spatial(m, x); d++) {
        const int64_t extent = user_dim(m, x, 2 + d);
        int64_t k = user_chance(m, 85) ? kernel : USER_ONE_OF(m, 1, 2, 3), reach;
        w->dilation[d] = dilation;
        w->stride[d] = user_chance(m, 85) ? stride : 1 + user_below(m, 2);
        if (dilation * (k - 1) + 1 > extent) k = 1; /* then it fits with any padding */
        reach = dilation * (k - 1);
        w->kernel[d] = k;
        if (padding == PADDING_HALF) w->before[d] = w->after[d] = reach / 2;
        if (padding == PADDING_ODD) w->before[d] = user_below(m, k + 1), w->after[d] = user_below(m, k + 1);
    }
}

/* The result's extent along a spatial dim. */
static int64_t convolved(const user_maker *m, int x, const window *w, int d) {
    const int64_t in = user_dim(m, x, 2 + d), s = w->stride[d];
    if (w->same) return (in + s - 1) / s;
    return (in + w->before[d] + w->after[d] - w->dilation[d] * (w->kernel[d] - 1) - 1) / s + 1;
}

static int64_t transposed(const user_maker *m, int x, const window *w, int d) {
    return (user_dim(m, x, 2 + d) - 1) * w->stride[d] - w->before[d] - w->after[d] +
           w->dilation[d] * (w->kernel[d] - 1) + w->extra[d] + 1;
}

static int64_t choose_groups(user_maker *m, int64_t channels) {
    if (user_chance(m, 65)) return 1;
    const int64_t groups = USER_ONE_OF(m, 2, 4, 8);
    return user_chance(m, 50) || channels % groups ? channels : groups;
}

static int emit_conv(user_maker *m, int x, user_op op, int64_t channels, const window *w, int64_t groups) {
    user_step s = {.op = op, .n_args = 1, .args = {x}, .n_ints = 23, .ints = {channels, w->kernel[0]}};
    memcpy(s.ints + 2, w->kernel, sizeof w->kernel);
    memcpy(s.ints + 5, w->stride, sizeof w->stride);
    memcpy(s.ints + 8, w->before, sizeof w->before);
    memcpy(s.ints + 11, w->after, sizeof w->after);
    memcpy(s.ints + 14, w->dilation, sizeof w->dilation);
    s.ints[17] = groups, s.ints[18] = w->same, s.ints[19] = user_chance(m, 40);
    memcpy(s.ints + 20, w->extra, sizeof w->extra);
    return net_step(m, s);
}

static bool try_conv(user_maker *m, int x, int64_t channels, int *y) {
    window w;
    const int64_t in = user_dim(m, x, 1), groups = choose_groups(m, in);
    if (groups == in && in > 1) channels = in * (1 + user_chance(m, 20));
    else channels -= channels % groups;
    if (!channels) return false;
    choose_window(m, x, &w);
    double places = (double)user_dim(m, x, 0), taps = (double)(in / groups);
    for (int d = 0; d < spatial(m, x); d++) {
        places *= (double)convolved(m, x, &w, d);
        taps *= (double)w.kernel[d];
    }
    if (!net_afford(m, places * (double)channels * taps, places * (double)channels)) return false;
    *y = emit_conv(m, x, USER_conv_layer_full, channels, &w, groups);
    return true;
}

int net_conv(user_maker *m, int x, int64_t channels) {
    int y = x;
    for (int tries = 0; tries < 8 && !try_conv(m, x, tries < 4 ? channels : 16, &y); tries++) {}
    return y;
}

int net_conv_plain(user_maker *m, int x, int64_t channels, int64_t kernel, int64_t groups) {
    window w = {0};
    double places = (double)user_dim(m, x, 0), taps = (double)(user_dim(m, x, 1) / groups);
    for (int d = 0; d < spatial(m, x); d++) {
        w.kernel[d] = kernel, w.stride[d] = w.dilation[d] = 1;
        w.before[d] = (kernel - 1) / 2, w.after[d] = kernel / 2;
        places *= (double)user_dim(m, x, 2 + d);
        taps *= (double)kernel;
    }
    m->work -= places * (double)channels * taps;
    return emit_conv(m, x, USER_conv_layer_full, channels, &w, groups);
}

static bool try_transpose(user_maker *m, int x, int64_t channels, int *y) {
    window w;
    const int64_t in = user_dim(m, x, 1), groups = choose_groups(m, in);
    if (groups == in && in > 1) channels = in;
    else channels -= channels % groups;
    if (!channels) return false;
    choose_window(m, x, &w);
    w.same = false;
    double places = (double)user_dim(m, x, 0), products = (double)user_count(m, x) / (double)groups;
    for (int d = 0; d < spatial(m, x); d++) {
        if (w.stride[d] == 1 && user_chance(m, 60)) w.stride[d] = 2;
        w.extra[d] = w.stride[d] > 1 && user_chance(m, 30) ? user_below(m, w.stride[d]) : 0;
        if (transposed(m, x, &w, d) < 1) w.before[d] = w.after[d] = 0;
        places *= (double)transposed(m, x, &w, d);
        products *= (double)w.kernel[d];
    }
    if (!net_afford(m, products * (double)channels, places * (double)channels)) return false;
    *y = emit_conv(m, x, USER_conv_transpose_layer_full, channels, &w, groups);
    return true;
}

/* -- Units -- */

static int conv_unit(user_maker *m, int x) {
    if (user_chance(m, 30)) x = net_dressing(m, x, NET_IMAGE, 60);
    return net_dressing(m, net_conv(m, x, net_channels(m)), NET_IMAGE, 60);
}

static int transpose_unit(user_maker *m, int x) {
    int y = x;
    if (user_chance(m, 30)) x = net_dressing(m, x, NET_IMAGE, 60);
    for (int tries = 0; tries < 4 && !try_transpose(m, x, net_channels(m), &y); tries++) {}
    return net_dressing(m, y, NET_IMAGE, 60);
}

/* As in a LeNet with batch norm, ConvNeXt's downsampling, Inception's stem: no padding, behind a norm. */
static int valid_unit(user_maker *m, int x) {
    const int64_t stride = user_chance(m, 60) ? 1 : 0, channels = net_channels(m), in = user_dim(m, x, 1);
    int64_t kernel = USER_ONE_OF(m, 2, 2, 3, 3, 3, 4, 5, 5);
    window w = {0};
    double places = (double)user_dim(m, x, 0), taps = (double)in;
    for (int d = 0; d < spatial(m, x); d++) {
        while (kernel > user_dim(m, x, 2 + d)) kernel--;
        w.dilation[d] = 1;
    }
    for (int d = 0; d < spatial(m, x); d++) {
        w.kernel[d] = kernel, w.stride[d] = stride ? stride : kernel;
        places *= (double)convolved(m, x, &w, d);
        taps *= (double)kernel;
    }
    if (!net_afford(m, places * (double)channels * taps, places * (double)channels)) return x;
    x = net_norm(m, x, NET_IMAGE);
    if (user_chance(m, 75)) x = net_activation(m, x);
    return net_dressing(m, emit_conv(m, x, USER_conv_layer_full, channels, &w, 1), NET_IMAGE, 40);
}

/* As in DCGAN: no bias, twice the extents or, of a small image, no padding. */
static int generator_unit(user_maker *m, int x) {
    const int64_t channels = net_channels(m);
    const bool valid = user_dim(m, x, 2) < 5 && user_chance(m, 50);
    window w = {0};
    double places = (double)user_dim(m, x, 0), products = (double)user_count(m, x) * (double)channels;
    for (int d = 0; d < spatial(m, x); d++) {
        w.kernel[d] = 4, w.stride[d] = valid ? 1 : 2, w.dilation[d] = 1;
        w.before[d] = w.after[d] = !valid;
        places *= (double)transposed(m, x, &w, d);
        products *= 4;
    }
    if (!net_afford(m, products, places * (double)channels)) return x;
    x = emit_conv(m, x, USER_conv_transpose_layer_full, channels, &w, 1);
    return net_activation(m, net_norm(m, x, NET_IMAGE));
}

static int separable(user_maker *m, int x) {
    const int64_t in = user_dim(m, x, 1);
    int y = net_conv_plain(m, x, in, USER_ONE_OF(m, 3, 3, 5), in);
    y = net_dressing(m, y, NET_IMAGE, 50);
    return net_dressing(m, net_conv_plain(m, y, net_channels(m), 1, 1), NET_IMAGE, 50);
}

/* As in ResNet, before or behind norms, with or without a bottleneck; the other way may need a convolution too. */
static int residual(user_maker *m, int x) {
    const int64_t in = user_dim(m, x, 1), middle = user_chance(m, 50) ? in : net_channels(m);
    const int64_t kernel = user_dim(m, x, 2) > 2 ? 3 : 1, out = user_chance(m, 75) ? in : net_channels(m);
    int y = user_chance(m, 30) ? net_dressing(m, x, NET_IMAGE, 80) : x;
    y = net_dressing(m, net_conv_plain(m, y, middle, user_chance(m, 50) ? kernel : 1, 1), NET_IMAGE, 80);
    if (user_chance(m, 30)) y = net_dressing(m, net_conv_plain(m, y, middle, kernel, 1), NET_IMAGE, 80);
    y = net_conv_plain(m, y, out, user_chance(m, 50) ? kernel : 1, 1);
    if (user_chance(m, 50)) y = net_norm(m, y, NET_IMAGE);
    if (user_chance(m, 10)) y = net_dropout(m, y);
    if (out != in) x = net_conv_plain(m, x, out, 1, 1);
    y = user_op2(m, USER_add, x, y);
    return user_chance(m, 60) ? net_activation(m, y) : y;
}

/* As in ConvNeXt: depthwise, then a perceptron over channels that stand last. */
static int convnext(user_maker *m, int x) {
    const int64_t in = user_dim(m, x, 1);
    int y = net_conv_plain(m, x, in, spatial(m, x) == 3 ? 3 : 7, in);
    y = net_row_norm(m, net_channels_last(m, y));
    y = net_linear(m, net_activation(m, net_linear(m, y, 2 * in)), in);
    if (user_chance(m, 50)) y = user_op2(m, USER_mul, y, user_param(m, 1, 1, &in));
    return user_op2(m, USER_add, x, net_channels_first(m, y));
}

static int global(user_maker *m, int x, user_op op) {
    int64_t axes[3];
    for (int d = 0; d < spatial(m, x); d++) axes[d] = 2 + d;
    return user_op_ints(m, op, x, spatial(m, x), axes);
}

/* Squeeze and excitation. */
static int excite(user_maker *m, int x) {
    const int64_t in = user_dim(m, x, 1);
    int y = global(m, x, user_chance(m, 80) ? USER_mean : USER_reduce_max);
    y = net_linear(m, net_activation(m, net_linear(m, y, 16)), in);
    y = user_op1(m, user_chance(m, 70) ? USER_sigmoid : USER_hardsigmoid, y);
    int64_t dims[TCC_MAX_RANK] = {-1, in, 1, 1, 1};
    return user_op2(m, USER_mul, x, user_op_ints(m, USER_reshape, y, user_rank(m, x), dims));
}

/* As in Inception and DenseNet: several ways beside each other. */
static int branches(user_maker *m, int x) {
    user_step s = {.op = USER_concat, .n_ints = 1, .ints = {1}};
    if (user_chance(m, 40)) s.args[s.n_args++] = x;
    for (int i = 0; i < 2 + user_chance(m, 30); i++) {
        const int64_t kernel = user_dim(m, x, 2) > 4 ? USER_ONE_OF(m, 1, 3, 5) : 1;
        int y = user_chance(m, 30) ? net_dressing(m, x, NET_IMAGE, 60) : x;
        s.args[s.n_args++] = net_dressing(m, net_conv_plain(m, y, USER_ONE_OF(m, 8, 16, 24), kernel, 1), NET_IMAGE, 50);
    }
    return user_emit(m, &s);
}

/* -- Windows -- */

static int pool(user_maker *m, int x) {
    user_step s = {.op = user_chance(m, 60) ? USER_max_pool_full : USER_avg_pool_full, .n_args = 1, .args = {x}};
    const int64_t first = USER_ONE_OF(m, 2, 2, 2, 3, 3), stride = USER_ONE_OF(m, 2, 2, 2, 1, 3);
    const bool padded = user_chance(m, 40);
    s.n_ints = 15;
    s.ints[0] = first;
    for (int d = 0; d < spatial(m, x); d++) {
        const int64_t k = user_dim(m, x, 2 + d) < 3 ? 1 : user_chance(m, 85) ? first : 1 + user_below(m, 3);
        s.ints[1 + d] = k;
        s.ints[4 + d] = user_chance(m, 85) ? stride : 1 + user_below(m, 3);
        if (padded) s.ints[7 + d] = user_below(m, k), s.ints[10 + d] = user_below(m, k);
    }
    s.ints[13] = user_chance(m, 30), s.ints[14] = s.op == USER_avg_pool_full && user_chance(m, 50);
    return user_emit(m, &s);
}

static int resize(user_maker *m, int x) {
    int64_t ints[4] = {user_chance(m, 40)}, count = user_dim(m, x, 0) * user_dim(m, x, 1);
    for (int d = 0; d < spatial(m, x); d++) {
        const int64_t in = user_dim(m, x, 2 + d);
        ints[1 + d] = user_chance(m, 60) ? 2 * in : 1 + user_below(m, 2 * in);
        count *= ints[1 + d];
    }
    if (count > m->most) return x;
    return user_op_ints(m, user_chance(m, 50) ? USER_resize_nearest : USER_resize_bilinear, x, spatial(m, x) + 1, ints);
}

/* Down and up again, beside what was there, as in a U-Net. */
static int u_net(user_maker *m, int x) {
    const int64_t channels = user_dim(m, x, 1);
    int64_t ints[4] = {user_chance(m, 40)}, to[3];
    for (int d = 0; d < spatial(m, x); d++) {
        ints[1 + d] = user_dim(m, x, 2 + d);
        to[d] = (ints[1 + d] + 1) / 2;
    }
    int y = user_op_ints(m, USER_adaptive_avg_pool, x, spatial(m, x), to);
    y = net_dressing(m, net_conv_plain(m, y, channels, to[0] > 1 ? 3 : 1, 1), NET_IMAGE, 70);
    y = user_op_ints(m, user_chance(m, 50) ? USER_resize_nearest : USER_resize_bilinear, y, spatial(m, x) + 1, ints);
    user_step s = {.op = USER_concat, .n_ints = 1, .ints = {1}, .n_args = 2, .args = {x, y}};
    y = user_chance(m, 70) ? user_emit(m, &s) : user_op2(m, USER_add, x, y);
    return net_dressing(m, net_conv_plain(m, y, net_channels(m), 1, 1), NET_IMAGE, 50);
}

static int pad(user_maker *m, int x) {
    const int axis = 2 + (int)user_below(m, spatial(m, x));
    const int64_t most = user_dim(m, x, axis) > 3 ? 3 : user_dim(m, x, axis);
    const user_op op = (user_op)USER_ONE_OF(m, USER_pad, USER_pad_reflect, USER_pad_replicate, USER_pad_wrap);
    return user_op_ints(m, op, x, USER_INT_LIST(axis, user_below(m, most), user_below(m, most)));
}

/* -- What moves or gates channels -- */

/* As in ShuffleNet: groups of channels change places. */
static int shuffle(user_maker *m, int x) {
    const int64_t in = user_dim(m, x, 1);
    int64_t dims[TCC_MAX_RANK] = {-1, 4, in / 4}, perm[TCC_MAX_RANK] = {0, 2, 1};
    if (in % 4) return x;
    for (int d = 0; d < spatial(m, x); d++) dims[3 + d] = user_dim(m, x, 2 + d), perm[3 + d] = 3 + d;
    x = user_op_ints(m, USER_reshape, x, user_rank(m, x) + 1, dims);
    x = user_op_ints(m, USER_transpose, x, user_rank(m, x), perm);
    dims[1] = in;
    memmove(dims + 2, dims + 3, sizeof *dims * 3);
    return user_op_ints(m, USER_reshape, x, user_rank(m, x) - 1, dims);
}

static int pixels(user_maker *m, int x) {
    if (spatial(m, x) != 2) return shuffle(m, x);
    if (user_dim(m, x, 1) % 4 == 0 && user_dim(m, x, 1) >= 64)
        return user_op_ints(m, USER_pixel_shuffle, x, USER_INT_LIST(2));
    if (user_dim(m, x, 2) % 2 || user_dim(m, x, 3) % 2 || user_dim(m, x, 1) > 24) return shuffle(m, x);
    return user_op_ints(m, USER_pixel_unshuffle, x, USER_INT_LIST(2));
}

static int gated(user_maker *m, int x) {
    const int64_t in = user_dim(m, x, 1);
    if (user_chance(m, 50)) return user_op_ints(m, USER_glu, net_conv_plain(m, x, 2 * in, 1, 1), USER_INT_LIST(1));
    return user_op2(m, USER_mul, x, user_op1(m, USER_sigmoid, net_conv_plain(m, x, in, 1, 1)));
}

/* Pixels as a sequence, in a block of those. */
static int over_pixels(user_maker *m, int x) {
    const int64_t in = user_dim(m, x, 1), each = net_each(m, x) / in;
    int64_t dims[TCC_MAX_RANK] = {-1, in, each};
    if (each > 256 || each < 2) return x;
    int y = net_sequence_block(m, net_channels_last(m, user_op_ints(m, USER_reshape, x, 3, dims)));
    if (user_dim(m, y, 1) != each || user_rank(m, y) != 3) return x;
    dims[1] = user_dim(m, y, 2);
    for (int d = 0; d < spatial(m, x); d++) dims[2 + d] = user_dim(m, x, 2 + d);
    return user_op_ints(m, USER_reshape, net_channels_first(m, y), user_rank(m, x), dims);
}

static int alone(user_maker *m, int x) {
    const int kind = (int)user_below(m, 4);
    return kind == 0 ? net_dropout(m, x) : kind == 1 ? net_activation(m, x) : net_norm(m, x, NET_IMAGE);
}

int net_image_block(user_maker *m, int x) {
    static const struct {
        int (*make)(user_maker *m, int x);
        int weight;
    } kinds[] = {{conv_unit, 28}, {transpose_unit, 8}, {valid_unit, 12}, {generator_unit, 6}, {separable, 5},
                 {residual, 9},   {convnext, 5},       {excite, 4},      {branches, 5},       {pool, 9},
                 {resize, 3},     {u_net, 3},          {pad, 2},         {shuffle, 2},        {pixels, 2},
                 {gated, 3},      {over_pixels, 3},    {alone, 5}};
    int total = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) total += kinds[i].weight;
    int64_t at = user_below(m, total);
    int i = 0;
    while (at >= kinds[i].weight) at -= kinds[i++].weight;
    return kinds[i].make(m, x);
}
