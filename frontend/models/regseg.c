/* SPDX-License-Identifier: MIT
 * RegSeg (Gao 2021), its "exp48", as super-gradients has it, with its names. Convolutions begin as PyTorch's. */
#include "frontend/models/blocks.h"

#include <stdio.h>

#undef TCC_HERE
#define TCC_HERE NET_PLACE

enum { GROUP = 16 /* channels */ };

/* A block, whose halves of the channels see neighbours at two distances if `far` is above 1. */
typedef struct block {
    int stage;
    int64_t channels;
    int64_t far;
    int times;
} block;

static const block blocks[] = {{0, 48, 1, 1},  {1, 128, 1, 3},  {2, 256, 1, 2}, {2, 256, 2, 1},
                               {2, 256, 4, 4}, {2, 256, 14, 6}, {2, 320, 14, 1}};

static tcc_tensor grouped(const net *n, tcc_tensor x, const char *name, int64_t stride, int64_t dilation) {
    const int64_t channels = tcc_dim(x, 1);
    return tcc_conv_layer(x, name, channels, 3, .stride = stride, .padding = dilation, .dilation = dilation,
                          .groups = channels / GROUP, .no_bias = true);
}

static tcc_tensor shortcut(const net *n, tcc_tensor x, int64_t channels, int64_t stride) {
    if (stride == 1 && tcc_dim(x, 1) == channels) return x;
    if (stride > 1) x = tcc_avg_pool(x, 2, .stride = 2, .ceil_mode = true);
    return tcc__net_conv_bn(n, x, "shortcut.shortcut.1", (conv){.channels = channels, .kernel = 1, .usual_init = true});
}

/* Channels by the weight that the means of all of them give them (Hu et al. 2018); `narrow` channels in between. */
static tcc_tensor excited(const net *n, tcc_tensor x, int64_t narrow) {
    const conv in = {.channels = narrow, .kernel = 1, .bias = true, .usual_init = true},
               out = {.channels = tcc_dim(x, 1), .kernel = 1, .bias = true, .usual_init = true};
    tcc_scope(n->t, "d_block_path.4.se_block");
    tcc_tensor weight = tcc__net_conv(n, tcc_relu(tcc__net_conv(n, tcc__net_pool_all(n, x), "1", in)), "3", out);
    tcc_scope_end(n->t);
    return tcc_mul(x, tcc_sigmoid(weight));
}

static tcc_tensor d_block(const net *n, tcc_tensor x, int64_t channels, int64_t stride, int64_t far) {
    const conv by_one = {.channels = channels, .kernel = 1, .usual_init = true};
    tcc_checkpoint_segment(n->t);
    tcc_tensor y = tcc__net_conv_bn_relu(n, x, "d_block_path.0", by_one);
    if (far > 1) {
        tcc_tensor halves[2];
        tcc_chunk(y, 1, 2, halves);
        halves[0] = grouped(n, halves[0], "d_block_path.1.convs.0", stride, 1);
        halves[1] = grouped(n, halves[1], "d_block_path.1.convs.1", stride, far);
        y = tcc_concat(halves, 2, 1);
    } else {
        y = grouped(n, y, "d_block_path.1", stride, 1);
    }
    y = excited(n, tcc_relu(tcc_batch_norm(y, "d_block_path.2")), tcc_dim(x, 1) / 4);
    y = tcc__net_conv_bn(n, y, "d_block_path.5", by_one);
    y = tcc_relu(tcc_add(y, shortcut(n, x, channels, stride)));
    tcc_checkpoint_segment_end(n->t);
    return y;
}

/* maps: of 1/4, 1/8 and 1/16. A block's name says what it is, and which of its stage. */
static void backbone(const net *n, tcc_tensor x, tcc_tensor maps[3]) {
    int number = 0;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const block *b = &blocks[i];
        for (int k = 0; k < b->times; k++) {
            char dilations[32];
            const bool first = !k && (!i || b->stage != b[-1].stage);
            const int64_t in = tcc_dim(x, 1), stride = first ? 2 : 1;
            number = first ? 0 : number + 1;
            if (b->far > 1) snprintf(dilations, sizeof dilations, "[1, %d]", (int)b->far);
            else snprintf(dilations, sizeof dilations, "[1]");
            tcc_scope(n->t, "backbone.stages.%d.DBlock_in%d_out%d_d%s_gw%d_s%d_se4#%d", b->stage, (int)in,
                      (int)b->channels, dilations, GROUP, (int)stride, number);
            x = maps[b->stage] = d_block(n, x, b->channels, stride, b->far);
            tcc_scope_end(n->t);
        }
    }
}

static tcc_tensor decoder(const net *n, const tcc_tensor maps[3]) {
    tcc_scope(n->t, "decoder");
    tcc_tensor y = tcc__net_conv_bn_relu(n, maps[2], "projections.2",
                                         (conv){.channels = 128, .kernel = 1, .usual_init = true});
    y = tcc_add(
        tcc__net_enlarge(n, y, 2, true),
        tcc__net_conv_bn_relu(n, maps[1], "projections.1", (conv){.channels = 128, .kernel = 1, .usual_init = true}));
    y = tcc__net_conv_bn_relu(n, y, "conv_bn_relu", (conv){.channels = 64, .kernel = 3, .usual_init = true});
    const tcc_tensor both[] = {
        tcc__net_enlarge(n, y, 2, true),
        tcc__net_conv_bn_relu(n, maps[0], "projections.0", (conv){.channels = 8, .kernel = 1, .usual_init = true})};
    y = tcc_concat(both, 2, 1);
    tcc_scope_end(n->t);
    return y;
}

tcc_segmentation tcc_regseg(tcc_trace *t, tcc_tensor x, const tcc_regseg_options *o) {
    const net *const n = &(net){t, "regseg"};
    if (!o) return tcc__net_failed(tcc_fail(t, "the options are NULL"));
    if (!tcc__net_takes(n, x, o->classes, 16, 16)) return tcc__net_failed((tcc_tensor){0});

    tcc_tensor maps[3];
    const conv stem = {.channels = 32, .kernel = 3, .stride = 2, .bias = true, .usual_init = true};
    backbone(n, tcc__net_conv_bn_relu(n, x, "stem", stem), maps);
    tcc_tensor y = decoder(n, maps);
    tcc_scope(t, "head.head");
    y = tcc__net_conv_bn_relu(n, y, "0", (conv){.channels = 64, .kernel = 3, .usual_init = true});
    y = tcc__net_conv(n, y, "1", (conv){.channels = o->classes, .kernel = 1, .bias = true, .usual_init = true});
    tcc_scope_end(t);
    return (tcc_segmentation){.count = 1, .logits = {tcc__net_enlarge(n, y, 4, false)}};
}
