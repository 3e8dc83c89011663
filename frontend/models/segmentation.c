/* SPDX-License-Identifier: MIT
 * The loss of a network with several heads. */
#include "frontend/models/blocks.h"

#include "traincc/losses.h"

#include <math.h>

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "segmentation_loss")

static tcc_tensor head_loss(tcc_trace *t, tcc_segmentation_loss_kind kind, tcc_tensor x, tcc_tensor labels,
                            const tcc_pixel_loss_options *o) {
    if (kind == TCC_SEGMENTATION_CROSS_ENTROPY) return tcc_pixel_cross_entropy_at(x, labels, o, TCC_HERE);
    if (kind == TCC_SEGMENTATION_EDGE_DICE) return tcc_edge_dice_loss_at(x, labels, o, TCC_HERE);
    return tcc_ohem_cross_entropy_at(x, labels, o, TCC_HERE);
}

static tcc_tensor weighted(tcc_trace *t, tcc_tensor loss, double weight) {
    if (!isfinite(weight) || weight < 0)
        return tcc_fail(t, "weights of heads must be finite and 0 or more, not %g", weight);
    return weight == 0 ? loss : tcc_scale(loss, weight);
}

tcc_tensor tcc_segmentation_loss(tcc_trace *t, const tcc_segmentation *heads, tcc_tensor labels,
                                 const tcc_segmentation_loss_options *o) {
    if (!heads || !o) return tcc_fail(t, "the %s are NULL", heads ? "options" : "heads");
    if (o->size != sizeof *o)
        return tcc_fail(t, "size %zu of the options; it must be sizeof(tcc_segmentation_loss_options)", o->size);
    if (heads->count < 1 || heads->count > 4) return tcc_fail(t, "there are 1 to 4 heads, not %d", heads->count);
    if (o->kind < TCC_SEGMENTATION_CROSS_ENTROPY || o->kind > TCC_SEGMENTATION_OHEM)
        return tcc_fail(t, "there is no kind %d of losses: 0 to %d", (int)o->kind, (int)TCC_SEGMENTATION_OHEM);
    const tcc_pixel_loss_options each = {
        .size = sizeof each, .has_ignore_index = o->has_ignore_index, .ignore_index = o->ignore_index};
    tcc_tensor sum = {0};
    for (int i = 0; i < heads->count; i++) {
        tcc_tensor y = weighted(t, head_loss(t, o->kind, heads->logits[i], labels, &each), o->weights[i]);
        sum = i ? tcc_add(sum, y) : y;
    }
    if (!heads->has_detail || o->kind != TCC_SEGMENTATION_OHEM) return sum;
    return tcc_add(sum, weighted(t, tcc_detail_loss_at(heads->detail, labels, &each, TCC_HERE), o->detail_weight));
}
