/* SPDX-License-Identifier: MIT
 * Examples of losses.h. */
#include "examples.h"

TRACED(tcc_cross_entropy) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 3, 2, 1}), TCC_F32, TCC_DIMS(2, 3));
    tcc_tensor classes = tcc_literal(t, ((double[]){2, 0}), TCC_I32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_cross_entropy(x, classes, .label_smoothing = 0.1)); /* 0.5076 */
}

TRACED(tcc_nll_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 3, 2, 1}), TCC_F32, TCC_DIMS(2, 3));
    tcc_tensor classes = tcc_literal(t, ((double[]){2, 0}), TCC_I32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_nll_loss(tcc_log_softmax(x, -1), classes)); /* 0.4076 */
}

TRACED(tcc_mse_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 5}), TCC_F32, TCC_DIMS(3));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 1, 1}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_mse_loss(x, target)); /* 5.667 */
}

TRACED(tcc_l1_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 5}), TCC_F32, TCC_DIMS(3));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 1, 1}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_l1_loss(x, target, .reduction = TCC_REDUCE_SUM)); /* 5 */
}

TRACED(tcc_smooth_l1_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 5}), TCC_F32, TCC_DIMS(3));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 1, 1}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_smooth_l1_loss(x, target, .beta = 0.5)); /* 1.5 */
}

TRACED(tcc_huber_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 5}), TCC_F32, TCC_DIMS(3));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 1, 1}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_huber_loss(x, target, .delta = 2)); /* 2.167 */
}

TRACED(tcc_bce_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){0.9, 0.2}), TCC_F32, TCC_DIMS(2));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 0}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_bce_loss(x, target)); /* 0.1643 */
}

TRACED(tcc_bce_with_logits) {
    tcc_tensor x = tcc_literal(t, ((double[]){2, -1}), TCC_F32, TCC_DIMS(2));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 0}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_bce_with_logits(x, target)); /* 0.2201 */
}

TRACED(tcc_kl_div) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 3, 2, 1}), TCC_F32, TCC_DIMS(2, 3));
    tcc_tensor target = tcc_literal(t, ((double[]){0, 0, 1, 1, 0, 0}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_kl_div(tcc_log_softmax(x, -1), target, .reduction = TCC_REDUCE_BATCH_MEAN)); /* 0.4076 */
}

TRACED(tcc_cosine_embedding_loss) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 0, 1, 1}), TCC_F32, TCC_DIMS(2, 2));
    tcc_tensor b = tcc_literal(t, ((double[]){1, 0, 1, 0}), TCC_F32, TCC_DIMS(2, 2));
    tcc_tensor signs = tcc_literal(t, ((double[]){1, -1}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_cosine_embedding_loss(a, b, signs)); /* 0.3536 */
}

TRACED(tcc_hinge_embedding_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){0.5, 0.25}), TCC_F32, TCC_DIMS(2));
    tcc_tensor signs = tcc_literal(t, ((double[]){1, -1}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_hinge_embedding_loss(x, signs)); /* 0.625 */
}

TRACED(tcc_triplet_margin_loss) {
    tcc_tensor anchor = tcc_literal(t, ((double[]){0, 0}), TCC_F32, TCC_DIMS(1, 2));
    tcc_tensor positive = tcc_literal(t, ((double[]){0, 1}), TCC_F32, TCC_DIMS(1, 2));
    tcc_tensor negative = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(1, 2));
    tcc_output(t, "y", tcc_triplet_margin_loss(anchor, positive, negative, .margin = 5)); /* 1 */
}

TRACED(tcc_dice_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){0.5, 1, 0, 0}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 1, 0, 0}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_dice_loss(x, target)); /* 0.1429 */
}

TRACED(tcc_jaccard_loss) {
    tcc_tensor x = tcc_literal(t, ((double[]){0.5, 1, 0, 0}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_tensor target = tcc_literal(t, ((double[]){1, 1, 0, 0}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_jaccard_loss(x, target)); /* 0.25 */
}

TRACED(tcc_ctc_loss) {
    tcc_tensor log_probs = tcc_log_softmax(tcc_constant(t, 0, TCC_F32, TCC_DIMS(5, 1, 3)), -1);
    tcc_tensor targets = tcc_literal(t, ((double[]){1, 2}), TCC_I32, TCC_DIMS(1, 2));
    tcc_tensor frames = tcc_constant(t, 5, TCC_I32, TCC_DIMS(1)), lengths = tcc_constant(t, 2, TCC_I32, TCC_DIMS(1));
    tcc_output(t, "y", tcc_ctc_loss(log_probs, targets, frames, lengths)); /* f32 [] */
}

TRACED(tcc_pixel_cross_entropy) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(1, 2, 1, 4));
    tcc_tensor labels = tcc_literal(t, ((double[]){0, 0, 1, 255}), TCC_I32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_pixel_cross_entropy(x, labels, .ignore_index = 255)); /* 0.6931 */
}

TRACED(tcc_ohem_cross_entropy) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(1, 2, 1, 4));
    tcc_tensor labels = tcc_literal(t, ((double[]){0, 0, 1, 255}), TCC_I32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_ohem_cross_entropy(x, labels, .ignore_index = 255)); /* 0.6931 */
}

TRACED(tcc_edge_dice_loss) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(1, 2, 1, 4));
    tcc_tensor labels = tcc_literal(t, ((double[]){0, 0, 1, 255}), TCC_I32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_edge_dice_loss(x, labels, .ignore_index = 255)); /* 0.9008 */
}

TRACED(tcc_detail_loss) {
    tcc_tensor x = tcc_constant(t, 0, TCC_F32, TCC_DIMS(1, 1, 1, 4));
    tcc_tensor labels = tcc_literal(t, ((double[]){0, 0, 1, 255}), TCC_I32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_detail_loss(x, labels, .ignore_index = 255)); /* 0.9789 */
}
