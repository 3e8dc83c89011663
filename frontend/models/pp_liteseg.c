/* SPDX-License-Identifier: MIT
 * PP-LiteSeg (Peng et al. 2022) as super-gradients has it, with its names. */
#include "frontend/models/blocks.h"

#include <stdio.h>

#undef TCC_HERE
#define TCC_HERE NET_PLACE

enum { CONTEXT = 128 };

/* What the two variants differ in. */
typedef struct widths {
    int stdc;
    int64_t projections[3]; /* of the maps of 1/8, 1/16 and 1/32 */
    int64_t decoder[3];     /* of 1/32, 1/16 and 1/8 */
    int64_t head;
} widths;

/* Simple pyramid pooling: means over 1, 2 x 2 and 4 x 4 parts of the map, added up. */
static tcc_tensor pyramid(const net *n, tcc_tensor x) {
    tcc_tensor sum = {0};
    tcc_scope(n->t, "context_module");
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "branches.%d.1", i);
        const int64_t parts = INT64_C(1) << i;
        tcc_tensor y = i ? tcc_adaptive_avg_pool(x, TCC_DIMS(parts, parts)) : tcc__net_pool_all(n, x);
        y = tcc__net_conv_bn_relu(n, y, name, (conv){.channels = CONTEXT, .kernel = 1});
        y = i ? tcc__net_resize_like(n, y, x)
              : tcc_broadcast(y, TCC_DIMS(tcc_dim(x, 0), CONTEXT, tcc_dim(x, 2), tcc_dim(x, 3)));
        sum = i ? tcc_add(sum, y) : y;
    }
    sum = tcc__net_conv_bn_relu(n, sum, "conv_out", (conv){.channels = CONTEXT, .kernel = 3});
    tcc_scope_end(n->t);
    return sum;
}

/* Unified attention fusion: x in the size of `skip`, and skip, mixed at each place as their means and maxima there
 * say. */
static tcc_tensor attended(const net *n, tcc_tensor x, tcc_tensor skip, int64_t channels) {
    x = tcc__net_resize_like(n, x, skip);
    const tcc_tensor all[] = {tcc_mean(x, TCC_KEEP(1)), tcc__net_channel_max(n, x), tcc_mean(skip, TCC_KEEP(1)),
                              tcc__net_channel_max(n, skip)};
    tcc_tensor a = tcc__net_conv_bn_relu(n, tcc_concat(all, 4, 1), "conv_atten.0", (conv){.channels = 2, .kernel = 3});
    a = tcc_sigmoid(tcc__net_conv_bn(n, a, "conv_atten.1", (conv){.channels = 1, .kernel = 3}));
    x = tcc_add(tcc_mul(x, a), tcc_mul(skip, tcc_rsub_scalar(a, 1)));
    return tcc__net_conv_bn_relu(n, x, "conv_out", (conv){.channels = channels, .kernel = 3});
}

/* The pyramid's result, and the maps of 1/8, 1/16 and 1/32 in the decoder's widths. */
static tcc_tensor encoder(const net *n, tcc_tensor x, const widths *w, tcc_tensor maps[3]) {
    tcc_scope(n->t, "encoder");
    tcc_scope(n->t, "backbone");
    tcc__net_stdc(n, x, w->stdc, maps);
    tcc_scope_end(n->t);
    tcc_tensor y = pyramid(n, maps[2]);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "proj_convs.%d", i);
        maps[i] = tcc__net_conv_bn_relu(n, maps[i], name, (conv){.channels = w->projections[i], .kernel = 3});
    }
    tcc_scope_end(n->t);
    return y;
}

tcc_segmentation tcc_pp_liteseg(tcc_trace *t, tcc_tensor x, const tcc_pp_liteseg_options *o) {
    static const widths variants[] = {{1, {64, 128, 128}, {128, 64, 32}, 32}, {2, {96, 128, 128}, {128, 96, 64}, 64}};
    const net *const n = &(net){t, "pp_liteseg"};
    if (!o) return tcc__net_failed(tcc_fail(t, "the options are NULL"));
    if (o->variant != 'T' && o->variant != 'B')
        return tcc__net_failed(tcc_fail(t, "variant must be 'T' or 'B', not character %d", o->variant));
    if (!tcc__net_takes(n, x, o->classes, 32, 32)) return tcc__net_failed((tcc_tensor){0});

    const widths *w = &variants[o->variant == 'B'];
    tcc_tensor maps[3], y = encoder(n, x, w, maps);
    for (int i = 0; i < 3; i++) {
        tcc_scope(t, "decoder.up_stages.%d", i);
        y = attended(n, y, maps[2 - i], w->decoder[i]);
        tcc_scope_end(t);
    }
    y = tcc__net_seg_head(n, y, "seg_head.0", w->head, o->classes, 0);
    tcc_segmentation s = {.count = 1, .logits = {tcc__net_enlarge(n, y, 8, false)}};
    for (int i = 0; i < 3 && tcc_is_training(t); i++) {
        char name[32];
        snprintf(name, sizeof name, "aux_heads.%d.0", i);
        y = tcc__net_seg_head(n, maps[i], name, i ? 64 : 32, o->classes, 0);
        s.logits[s.count++] = tcc__net_enlarge(n, y, 8 << i, false);
    }
    return s;
}
