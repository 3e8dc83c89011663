/* SPDX-License-Identifier: MIT
 * DDRNet (Hong et al. 2021) as super-gradients has it, with its names: a branch of low resolution and one of 1/8, each
 * of which gets what the other has found. */
#include "frontend/models/blocks.h"

#include <stdio.h>

#undef TCC_HERE
#define TCC_HERE NET_PLACE

/* -- Residual blocks: what they give has not been through the last ReLU, unless `relu` -- */

static tcc_tensor shortcut(const net *n, tcc_tensor x, int64_t channels, int64_t stride) {
    if (stride == 1 && tcc_dim(x, 1) == channels) return x;
    return tcc__net_conv_norm(n, x, "shortcut.0", "shortcut.1",
                              (conv){.channels = channels, .kernel = 1, .stride = stride});
}

static tcc_tensor basic(const net *n, tcc_tensor x, int64_t channels, int64_t stride, bool relu) {
    tcc_tensor y = tcc__net_conv_norm(n, x, "conv1", "bn1",
                                      (conv){.channels = channels, .kernel = 3, .stride = stride});
    y = tcc__net_conv_norm(n, tcc_relu(y), "conv2", "bn2", (conv){.channels = channels, .kernel = 3});
    y = tcc_add(y, shortcut(n, x, channels, stride));
    return relu ? tcc_relu(y) : y;
}

/* Two basic blocks, the first with the stride, under NAME.0 and NAME.1. */
static tcc_tensor layer(const net *n, tcc_tensor x, const char *name, int64_t channels, int64_t stride) {
    for (int i = 0; i < 2; i++) {
        tcc_scope(n->t, "%s.%d", name, i);
        tcc_checkpoint_segment(n->t);
        x = basic(n, x, channels, i ? 1 : stride, i == 0);
        tcc_checkpoint_segment_end(n->t);
        tcc_scope_end(n->t);
    }
    return x;
}

static tcc_tensor bottleneck(const net *n, tcc_tensor x, const char *name, int64_t channels, int64_t stride) {
    tcc_scope(n->t, "%s.0", name);
    tcc_tensor y = tcc__net_conv_norm(n, x, "conv1", "bn1", (conv){.channels = channels, .kernel = 1});
    y = tcc__net_conv_norm(n, tcc_relu(y), "conv2", "bn2", (conv){.channels = channels, .kernel = 3, .stride = stride});
    y = tcc__net_conv_norm(n, tcc_relu(y), "conv3", "bn3", (conv){.channels = 2 * channels, .kernel = 1});
    y = tcc_add(y, shortcut(n, x, 2 * channels, stride));
    tcc_scope_end(n->t);
    return y;
}

/* -- Parts whose norm comes first -- */

/* Batch norm NAME.i, ReLU, convolution NAME.(i + 2). */
static tcc_tensor norm_conv(const net *n, tcc_tensor x, const char *name, int i, conv c) {
    char norm[64], convolution[64];
    snprintf(norm, sizeof norm, "%s.%d", name, i);
    snprintf(convolution, sizeof convolution, "%s.%d", name, i + 2);
    return tcc__net_conv(n, tcc_relu(tcc_batch_norm(x, norm)), convolution, c);
}

/* Deep aggregation of means over ever larger windows. */
static tcc_tensor pyramid(const net *n, tcc_tensor x, int64_t middle, int64_t channels) {
    tcc_tensor all[5];
    const conv down = {.channels = middle, .kernel = 1}, process = {.channels = middle, .kernel = 3};
    tcc_scope(n->t, "spp");
    for (int i = 0; i < 5; i++) {
        tcc_scope(n->t, "branches.%d", i);
        const int64_t half = INT64_C(1) << i; /* windows of 5, 9 and 17 */
        tcc_tensor y = i == 0  ? x
                       : i < 4 ? tcc_avg_pool(x, 2 * half + 1, .stride = half, .padding = half)
                               : tcc__net_pool_all(n, x);
        y = norm_conv(n, y, "down_scale", i ? 1 : 0, down);
        if (i && i < 4) y = tcc__net_resize_like(n, y, x);
        all[i] = i ? norm_conv(n, tcc_add(all[i - 1], y), "process", 0, process) : y;
        tcc_scope_end(n->t);
    }
    tcc_tensor y = norm_conv(n, tcc_concat(all, 5, 1), "compression", 0, (conv){.channels = channels, .kernel = 1});
    y = tcc_add(y, norm_conv(n, x, "shortcut", 0, (conv){.channels = channels, .kernel = 1}));
    tcc_scope_end(n->t);
    return y;
}

static tcc_tensor head(const net *n, tcc_tensor x, const char *name, int64_t middle, int64_t classes) {
    tcc_scope(n->t, "%s", name);
    x = tcc__net_conv(n, tcc_relu(tcc_batch_norm(x, "bn1")), "conv1", (conv){.channels = middle, .kernel = 3});
    x = tcc__net_conv(n, tcc_relu(tcc_batch_norm(x, "bn2")), "conv2",
                      (conv){.channels = classes, .kernel = 1, .bias = true});
    tcc_scope_end(n->t);
    return tcc__net_enlarge(n, x, 8, false);
}

/* -- The network -- */

/* x [N, 3, H, W] in 1/8 of its extents. */
static tcc_tensor stem(const net *n, tcc_tensor x, int64_t width) {
    const conv half = {.channels = width, .kernel = 3, .stride = 2, .bias = true};
    x = tcc_relu(tcc__net_conv_norm(n, x, "_backbone.stem.0.0", "_backbone.stem.0.1", half));
    x = tcc_relu(tcc__net_conv_norm(n, x, "_backbone.stem.1.0", "_backbone.stem.1.1", half));
    x = tcc_relu(layer(n, x, "_backbone.layer1", width, 1));
    return tcc_relu(layer(n, x, "_backbone.layer2", 2 * width, 2));
}

tcc_segmentation tcc_ddrnet(tcc_trace *t, tcc_tensor x, const tcc_ddrnet_options *o) {
    const net *const n = &(net){t, "ddrnet"};
    if (!o) return tcc__net_failed(tcc_fail(t, "the options are NULL"));
    if (!tcc__net_takes(n, x, o->classes, 8, 8)) return tcc__net_failed((tcc_tensor){0});

    const int64_t width = o->slim ? 32 : 64, high = 2 * width;
    const conv to_high = {.channels = high, .kernel = 1}, down_1 = {.channels = 4 * width, .kernel = 3, .stride = 2},
               down_2 = {.channels = 8 * width, .kernel = 3, .stride = 2};
    x = stem(n, x, width);
    tcc_tensor low = layer(n, x, "_backbone.layer3.0", 4 * width, 2), detail = layer(n, x, "layer3_skip.0", high, 1);
    tcc_tensor found = tcc__net_conv_norm(n, tcc_relu(low), "compression3.0.0", "compression3.0.1", to_high);
    low = tcc_add(low, tcc__net_conv_norm(n, tcc_relu(detail), "down3.0.0", "down3.0.1", down_1));
    detail = tcc_add(detail, tcc__net_resize_like(n, found, detail));
    const tcc_tensor early = detail;

    low = layer(n, tcc_relu(low), "_backbone.layer4", 8 * width, 2);
    detail = layer(n, tcc_relu(detail), "layer4_skip", high, 1);
    found = tcc__net_conv_norm(n, tcc_relu(low), "compression4.0", "compression4.1", to_high);
    tcc_tensor down = tcc_relu(tcc__net_conv_norm(n, tcc_relu(detail), "down4.0.0", "down4.0.1", down_1));
    low = tcc_add(low, tcc__net_conv_norm(n, down, "down4.1.0", "down4.1.1", down_2));
    detail = tcc_add(detail, tcc__net_resize_like(n, found, detail));

    detail = bottleneck(n, tcc_relu(detail), "layer5_skip", high, 1);
    low = pyramid(n, bottleneck(n, tcc_relu(low), "layer5", 8 * width, 2), 128, 2 * high);
    detail = tcc_add(tcc__net_resize_like(n, low, detail), detail);
    tcc_segmentation s = {.count = 1, .logits = {head(n, detail, "final_layer", high, o->classes)}};
    if (tcc_is_training(t)) s.logits[s.count++] = head(n, early, "seghead_extra", high, o->classes);
    return s;
}
