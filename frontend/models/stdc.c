/* SPDX-License-Identifier: MIT
 * STDC (Fan et al. 2021): the backbone, and STDC-Seg as super-gradients has it, with its names. */
#include "frontend/models/blocks.h"

#undef TCC_HERE
#define TCC_HERE NET_PLACE

/* -- The backbone -- */

/* Convolutions of ever fewer channels one behind the other, side by side in the result. */
static tcc_tensor stdc_block(const net *n, tcc_tensor x, int64_t channels, int64_t stride) {
    const int64_t half = channels / 2;
    tcc_tensor parts[4], second;
    tcc_checkpoint_segment(n->t);
    parts[0] = tcc__net_conv_bn_relu(n, x, "conv_list.0", (conv){.channels = half, .kernel = 1});
    if (stride > 1) {
        const conv depthwise = {.channels = half, .kernel = 3, .stride = stride, .groups = half};
        second = tcc__net_conv_bn(n, parts[0], "conv_list.1.0", depthwise);
        second = tcc__net_conv_bn_relu(n, second, "conv_list.1.1", (conv){.channels = half / 2, .kernel = 3});
        parts[0] = tcc_avg_pool(parts[0], 3, .stride = stride, .padding = 1);
    } else {
        second = tcc__net_conv_bn_relu(n, parts[0], "conv_list.1", (conv){.channels = half / 2, .kernel = 3});
    }
    parts[1] = second;
    parts[2] = tcc__net_conv_bn_relu(n, second, "conv_list.2", (conv){.channels = half / 4, .kernel = 3});
    parts[3] = tcc__net_conv_bn_relu(n, parts[2], "conv_list.3", (conv){.channels = half / 4, .kernel = 3});
    tcc_tensor y = tcc_concat(parts, 4, 1);
    tcc_checkpoint_segment_end(n->t);
    return y;
}

void tcc__net_stdc(const net *n, tcc_tensor x, int variant, tcc_tensor maps[3]) {
    static const int blocks[2][3] = {{2, 2, 2}, {4, 5, 3}};
    tcc_scope(n->t, "stages");
    x = tcc__net_conv_bn_relu(n, x, "block_s2.0", (conv){.channels = 32, .kernel = 3, .stride = 2});
    x = tcc__net_conv_bn_relu(n, x, "block_s4.0", (conv){.channels = 64, .kernel = 3, .stride = 2});
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < blocks[variant - 1][stage]; i++) {
            tcc_scope(n->t, "block_s%d.%d", 8 << stage, i);
            x = stdc_block(n, x, INT64_C(256) << stage, i ? 1 : 2);
            tcc_scope_end(n->t);
        }
        maps[stage] = x;
    }
    tcc_scope_end(n->t);
}

/* -- STDC-Seg -- */

enum { CONTEXT = 128, FUSED = 256 };

/* Attention refinement: channels by the weight that their means give them. */
static tcc_tensor refined(const net *n, tcc_tensor x, const char *name) {
    tcc_scope(n->t, "%s", name);
    x = tcc__net_conv_bn_relu(n, x, "conv_first", (conv){.channels = CONTEXT, .kernel = 3});
    tcc_tensor weight = tcc__net_conv_bn(n, tcc__net_pool_all(n, x), "attention_block.1",
                                         (conv){.channels = CONTEXT, .kernel = 1});
    tcc_scope_end(n->t);
    return tcc_mul(x, tcc_sigmoid(weight));
}

/* The context path: from the maps of the backbone one of 1/8. */
static tcc_tensor context(const net *n, const tcc_tensor maps[3]) {
    const conv upsample = {.channels = CONTEXT, .kernel = 3};
    tcc_tensor whole = tcc__net_conv_bn_relu(n, tcc__net_pool_all(n, maps[2]), "context_embedding.context_embedding.1",
                                             (conv){.channels = CONTEXT, .kernel = 1});
    tcc_tensor y = tcc_add(refined(n, maps[2], "arm32"), whole);
    y = tcc__net_conv_bn_relu(n, tcc__net_repeat_pixels(n, y, 2), "upsample32.1", upsample);
    y = tcc_add(refined(n, maps[1], "arm16"), y);
    return tcc__net_conv_bn_relu(n, tcc__net_repeat_pixels(n, y, 2), "upsample16.1", upsample);
}

/* Feature fusion of two maps of one size. */
static tcc_tensor fused(const net *n, tcc_tensor a, tcc_tensor b) {
    tcc_scope(n->t, "ffm");
    tcc_tensor x = tcc__net_conv_bn_relu(n, tcc_concat(((tcc_tensor[]){a, b}), 2, 1), "pw_conv",
                                         (conv){.channels = FUSED, .kernel = 1});
    tcc_tensor weight = tcc__net_conv(n, tcc__net_pool_all(n, x), "attention_block.1.seq.conv",
                                      (conv){.channels = FUSED / 4, .kernel = 1});
    weight = tcc__net_conv(n, tcc_relu(weight), "attention_block.2", (conv){.channels = FUSED, .kernel = 1});
    tcc_scope_end(n->t);
    return tcc_add(tcc_mul(x, tcc_sigmoid(weight)), x);
}

tcc_segmentation tcc_stdc_seg(tcc_trace *t, tcc_tensor x, const tcc_stdc_seg_options *o) {
    const net *const n = &(net){t, "stdc_seg"};
    if (!o) return tcc__net_failed(tcc_fail(t, "the options are NULL"));
    if (o->variant != 1 && o->variant != 2)
        return tcc__net_failed(tcc_fail(t, "variant must be 1 or 2, not %d", o->variant));
    if (!tcc__net_takes(n, x, o->classes, 32, 32)) return tcc__net_failed((tcc_tensor){0});

    tcc_tensor maps[3];
    tcc_scope(t, "cp.backbone");
    tcc__net_stdc(n, x, o->variant, maps);
    tcc_scope_end(t);
    tcc_scope(t, "cp");
    tcc_tensor path = context(n, maps);
    tcc_scope_end(t);
    tcc_tensor y = tcc__net_seg_head(n, fused(n, maps[0], path), "segmentation_head.0", FUSED, o->classes, o->dropout);
    tcc_segmentation s = {.count = 1, .logits = {tcc__net_enlarge(n, y, 8, true)}};
    if (!tcc_is_training(t)) return s;
    y = tcc__net_seg_head(n, maps[2], "aux_head_s32.0", 64, o->classes, o->dropout);
    s.logits[s.count++] = tcc__net_enlarge(n, y, 32, true);
    y = tcc__net_seg_head(n, maps[1], "aux_head_s16.0", 64, o->classes, o->dropout);
    s.logits[s.count++] = tcc__net_enlarge(n, y, 16, true);
    y = tcc__net_seg_head(n, maps[0], "detail_head8.0", 64, 1, o->dropout);
    s.detail = tcc__net_enlarge(n, y, 8, true);
    s.has_detail = true;
    return s;
}
