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
