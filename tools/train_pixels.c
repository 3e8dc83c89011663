/* SPDX-License-Identifier: MIT
 * Networks that give a class for each pixel: what builds them by the recipe's options, and their losses. */
#include "train_run.h"

#include <string.h>

tcc_segmentation build_pp_liteseg(tcc_trace *t, tcc_tensor x, const run *s, int variant) {
    return tcc_pp_liteseg(t, x, &(tcc_pp_liteseg_options){.variant = (char)variant, .classes = s->info.classes});
}

tcc_segmentation build_stdc(tcc_trace *t, tcc_tensor x, const run *s, int variant) {
    return tcc_stdc_seg(
        t, x,
        &(tcc_stdc_seg_options){.variant = variant, .classes = s->info.classes, .dropout = s->recipe->model.dropout});
}

tcc_segmentation build_ddrnet(tcc_trace *t, tcc_tensor x, const run *s, int variant) {
    return tcc_ddrnet(t, x, &(tcc_ddrnet_options){.slim = variant == DDRNET_SLIM, .classes = s->info.classes});
}

tcc_segmentation build_regseg(tcc_trace *t, tcc_tensor x, const run *s, int variant) {
    (void)variant;
    return tcc_regseg(t, x, &(tcc_regseg_options){.classes = s->info.classes});
}

tcc_segmentation build_segformer(tcc_trace *t, tcc_tensor x, const run *s, int variant) {
    const recipe *r = s->recipe;
    return tcc_segformer(t, x,
                         &(tcc_segformer_options){.variant = variant,
                                                  .classes = s->info.classes,
                                                  .dropout = r->model.dropout,
                                                  .drop_path = r->model.drop_path});
}

static tcc_segmentation_loss_kind loss_of(const recipe *r) {
    return !strcmp(r->loss.name, "edge_dice") ? TCC_SEGMENTATION_EDGE_DICE
           : !strcmp(r->loss.name, "ohem")    ? TCC_SEGMENTATION_OHEM
                                              : TCC_SEGMENTATION_CROSS_ENTROPY;
}

tcc_tensor run_pixels_loss(const run *s, tcc_trace *t, const tcc_segmentation *heads, tcc_tensor y) {
    const recipe *r = s->recipe;
    tcc_segmentation_loss_options o = {.size = sizeof o, .kind = loss_of(r), .detail_weight = r->loss.detail_weight};
    for (int i = 0; i < r->loss.weights.count; i++) o.weights[i] = r->loss.weights.v[i];
    return tcc_segmentation_loss(t, heads, y, &o);
}
