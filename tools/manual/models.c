/* SPDX-License-Identifier: MIT
 * Examples of models.h. */
#include "examples.h"

TRACED(tcc_gpt) {
    tcc_gpt_options o = {.layers = 1, .heads = 2, .width = 8, .context = 16, .vocab = 50};
    tcc_output(t, "logits", tcc_gpt(t, tcc_iota(t, 1, TCC_I32, TCC_DIMS(2, 6)), &o)); /* f32 [2, 6, 50] */
}

TRACED(tcc_gpt_next) {
    tcc_gpt_options o = {.layers = 1, .heads = 2, .width = 8, .context = 16, .vocab = 50};
    const tcc_tensor tokens = tcc_iota(t, 1, TCC_I32, TCC_DIMS(2, 6)), at = tcc_iota(t, 0, TCC_I32, TCC_DIMS(2));
    tcc_output(t, "logits", tcc_gpt_next(t, tokens, at, &o)); /* f32 [2, 50] */
}

TRACED(tcc_distilbert) {
    tcc_distilbert_options o = {.layers = 1, .heads = 2, .width = 8, .context = 16, .vocab = 50, .classes = 3};
    tcc_output(t, "logits", tcc_distilbert(t, tcc_iota(t, 1, TCC_I32, TCC_DIMS(2, 6)), &o)); /* f32 [2, 3] */
}

TRACED(tcc_bert) {
    tcc_bert_options o = {
        .size = sizeof o, .layers = 1, .heads = 2, .width = 8, .context = 16, .vocab = 50, .classes = 3};
    tcc_output(t, "logits", tcc_bert(t, tcc_iota(t, 1, TCC_I32, TCC_DIMS(2, 6)), &o)); /* f32 [2, 3] */
}

TRACED(tcc_mlp) {
    tcc_mlp_options o = {.n_hidden = 2, .hidden = (int64_t[]){16, 8}, .outputs = 3};
    tcc_output(t, "logits", tcc_mlp(t, tcc_iota(t, 1, TCC_F32, TCC_DIMS(2, 4)), &o)); /* f32 [2, 3] */
}

TRACED(tcc_cnn) {
    tcc_cnn_options o = {.channels1 = 4, .channels2 = 8, .hidden = 16, .classes = 10};
    tcc_output(t, "logits", tcc_cnn(t, tcc_iota(t, 3, TCC_F32, TCC_DIMS(2, 1, 28, 28)), &o)); /* f32 [2, 10] */
}

TRACED(tcc_resnet) {
    tcc_resnet_options o = {.depth = 18, .classes = 10, .width = 4, .cifar_stem = true};
    tcc_output(t, "logits", tcc_resnet(t, tcc_iota(t, 3, TCC_F32, TCC_DIMS(1, 3, 32, 32)), &o)); /* f32 [1, 10] */
}

TRACED(tcc_pp_liteseg) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(2, 3, 32, 64));
    tcc_pp_liteseg_options o = {.variant = 'T', .classes = 19};
    tcc_output(t, "logits", tcc_pp_liteseg(t, x, &o).logits[0]); /* f32 [2, 19, 32, 64] */
}

TRACED(tcc_stdc_seg) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(2, 3, 32, 64));
    tcc_stdc_seg_options o = {.variant = 1, .classes = 19, .dropout = 0.2};
    tcc_output(t, "logits", tcc_stdc_seg(t, x, &o).logits[0]); /* f32 [2, 19, 32, 64] */
}

TRACED(tcc_ddrnet) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(2, 3, 32, 64));
    tcc_ddrnet_options o = {.slim = true, .classes = 19};
    tcc_output(t, "logits", tcc_ddrnet(t, x, &o).logits[0]); /* f32 [2, 19, 32, 64] */
}

TRACED(tcc_regseg) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(2, 3, 32, 64));
    tcc_regseg_options o = {.classes = 19};
    tcc_output(t, "logits", tcc_regseg(t, x, &o).logits[0]); /* f32 [2, 19, 32, 64] */
}

TRACED(tcc_segformer) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(2, 3, 32, 64));
    tcc_segformer_options o = {.variant = 0, .classes = 19, .dropout = 0.1, .drop_path = 0.1};
    tcc_output(t, "logits", tcc_segformer(t, x, &o).logits[0]); /* f32 [2, 19, 32, 64] */
}

TRACED(tcc_segmentation_loss) {
    tcc_tensor labels = tcc_constant(t, 1, TCC_I32, TCC_DIMS(2, 32, 64));
    tcc_regseg_options o = {.classes = 3};
    tcc_segmentation heads = tcc_regseg(t, tcc_iota(t, 3, TCC_F32, TCC_DIMS(2, 3, 32, 64)), &o);
    tcc_segmentation_loss_options loss = {.size = sizeof loss, .kind = TCC_SEGMENTATION_EDGE_DICE, .ignore_index = 255};
    tcc_output(t, "loss", tcc_segmentation_loss(t, &heads, labels, &loss)); /* f32 [] */
}
