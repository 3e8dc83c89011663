/* SPDX-License-Identifier: MIT
 * Ready-made models. They are written with the public API alone, so they are examples too (frontend/models.c). Each has
 * the parameter names of the PyTorch code that it follows, so weights can be exchanged. Errors are those of
 * tensor.h. */
#ifndef TRAINCC_MODELS_H
#define TRAINCC_MODELS_H

#include "traincc/tensor.h"

TCC_API_BEGIN

/* GPT-2 family (Radford et al. 2019; nanoGPT's names): pre-norm decoder, learned positions, tied head. */
typedef struct tcc_gpt_options {
    int64_t layers, heads, width, context, vocab;
    double dropout; /* of embeddings, attention probabilities and what each branch adds */
    bool bias;      /* of linears and norms; GPT-2: true */
    bool gelu_tanh; /* GPT-2's checkpoints: true; nanoGPT: false */
} tcc_gpt_options;
/* tokens i32 [B, T] -> logits [B, T, vocab]; T <= context. */
TCC_API tcc_tensor tcc_gpt(tcc_trace *t, tcc_tensor tokens, const tcc_gpt_options *options);
/* For writing text: the logits behind token at[b] of row b alone. at i32 [B] -> logits [B, vocab]. */
TCC_API tcc_tensor tcc_gpt_next(tcc_trace *t, tcc_tensor tokens, tcc_tensor at, const tcc_gpt_options *options);

/* DistilBERT (Sanh et al. 2019; the names of Hugging Face's code): post-norm encoder, learned positions, and a
 * classifier on the state of the first token. */
typedef struct tcc_distilbert_options {
    int64_t layers, heads, width, context, vocab, classes;
    double dropout; /* of embeddings, attention probabilities, feed-forward branches and the classifier's input */
    bool gelu_tanh; /* DistilBERT: false */
} tcc_distilbert_options;
/* tokens i32 [B, T], below 0 where there is none, behind the end of a text -> logits [B, classes]; T <= context. What
 * is no token is seen by none, so a text's logits do not depend on T. */
TCC_API tcc_tensor tcc_distilbert(tcc_trace *t, tcc_tensor tokens, const tcc_distilbert_options *options);

/* Linear layers "fc1", "fc2", ... with ReLU between; x [B, features] -> [B, outputs]. */
typedef struct tcc_mlp_options {
    int n_hidden;
    const int64_t *hidden;
    int64_t outputs;
    double dropout;
} tcc_mlp_options;
TCC_API tcc_tensor tcc_mlp(tcc_trace *t, tcc_tensor x, const tcc_mlp_options *options);

/* A small CNN for 28 x 28 images: two 3 x 3 convolutions with ReLU and 2 x 2 max pooling, then two linear layers:
 * "conv1", "conv2", "fc1", "fc2". x [B, C, H, W] -> [B, classes]. */
typedef struct tcc_cnn_options {
    int64_t channels1, channels2, hidden, classes; /* 32, 64, 128, 10 */
    double dropout;
} tcc_cnn_options;
TCC_API tcc_tensor tcc_cnn(tcc_trace *t, tcc_tensor x, const tcc_cnn_options *options);

/* ResNet-18, -34 or -50 (He et al. 2016; torchvision's v1.5 and names). x [B, 3, H, W] -> [B, classes]. */
typedef struct tcc_resnet_options {
    int depth; /* 18, 34 or 50 */
    int64_t classes;
    int64_t width;   /* of the first stage; 64 */
    bool cifar_stem; /* 3 x 3 stride 1 and no pooling, for 32 x 32 images */
} tcc_resnet_options;
TCC_API tcc_tensor tcc_resnet(tcc_trace *t, tcc_tensor x, const tcc_resnet_options *options);

TCC_API_END
#endif
