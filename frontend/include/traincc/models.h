/* SPDX-License-Identifier: MIT
 * Ready-made models. They are written with the public API alone, so they are examples too (frontend/models). Each
 * has the parameter names of the PyTorch code that it follows, so weights can be exchanged. Errors are those of
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

/* BERT (Devlin et al. 2019; the names of Hugging Face's code), MiniLM, which has its shape, and RoBERTa (Liu et al.
 * 2019): post-norm encoders with learned positions and a classifier on the state of the first token. All tokens are of
 * the first type. */
typedef struct tcc_bert_options {
    size_t size;  /* sizeof(tcc_bert_options) */
    bool roberta; /* names under "roberta", its head of two layers; its positions begin behind two rows more */
    int64_t layers, heads, width, context, vocab, classes; /* context: the longest text */
    int64_t hidden;                                        /* of feed-forward branches; 0: 4 width */
    int64_t types;                                         /* rows of token types; 0: BERT 2, RoBERTa 1 */
    double eps;                                            /* of norms; 0: BERT 1e-12, RoBERTa 1e-5 */
    double dropout;            /* of embeddings, attention probabilities and what each branch adds */
    double classifier_dropout; /* of its inputs; 0: as the others */
    bool gelu_tanh;
} tcc_bert_options;
/* tokens as of tcc_distilbert -> logits [B, classes]; T <= context. */
TCC_API tcc_tensor tcc_bert(tcc_trace *t, tcc_tensor tokens, const tcc_bert_options *options);

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

/* -- Segmentation: x [N, 3, H, W] -> logits for each pixel --
 * With the parameter names of super-gradients' models, and their initial values. H and W that a network does not take
 * are errors that name those that it does. What normalizes a whole image's mean by a batch norm needs a batch of 2 or
 * more in training: PP-LiteSeg, STDC-Seg, DDRNet. */
typedef struct tcc_segmentation {
    int count;            /* of heads: 1; while training also those that help it */
    tcc_tensor logits[4]; /* [N, classes, H, W], of the main head first */
    bool has_detail;      /* STDC-Seg, while training */
    tcc_tensor detail;    /* [N, 1, H, W]: where labels change (tcc_detail_loss) */
} tcc_segmentation;

/* PP-LiteSeg (Peng et al. 2022). H and W are multiples of 32. Training: heads of 1/8, 1/16 and 1/32 of the input. */
typedef struct tcc_pp_liteseg_options {
    char variant; /* 'T' or 'B' */
    int64_t classes;
} tcc_pp_liteseg_options;
TCC_API tcc_segmentation tcc_pp_liteseg(tcc_trace *t, tcc_tensor x, const tcc_pp_liteseg_options *options);

/* STDC-Seg (Fan et al. 2021). H and W are multiples of 32. Training: heads of 1/32 and of 1/16, and details. */
typedef struct tcc_stdc_seg_options {
    int variant; /* 1 or 2 */
    int64_t classes;
    double dropout; /* in heads; 0.2 */
} tcc_stdc_seg_options;
TCC_API tcc_segmentation tcc_stdc_seg(tcc_trace *t, tcc_tensor x, const tcc_stdc_seg_options *options);

/* DDRNet-23 (Hong et al. 2021). H and W are multiples of 8. Training: a head of 1/8. */
typedef struct tcc_ddrnet_options {
    bool slim; /* DDRNet-23-slim */
    int64_t classes;
} tcc_ddrnet_options;
TCC_API tcc_segmentation tcc_ddrnet(tcc_trace *t, tcc_tensor x, const tcc_ddrnet_options *options);

/* RegSeg (Gao 2021). H and W are multiples of 16. */
typedef struct tcc_regseg_options {
    int64_t classes;
} tcc_regseg_options;
TCC_API tcc_segmentation tcc_regseg(tcc_trace *t, tcc_tensor x, const tcc_regseg_options *options);

/* SegFormer-B0 or -B1 (Xie et al. 2021). H and W are 29 or more. */
typedef struct tcc_segformer_options {
    int variant; /* 0 or 1 */
    int64_t classes;
    double dropout;   /* of the head's channels; 0.1 */
    double drop_path; /* of the last block; earlier ones are dropped less; 0.1 */
} tcc_segformer_options;
TCC_API tcc_segmentation tcc_segformer(tcc_trace *t, tcc_tensor x, const tcc_segformer_options *options);

/* The sum of the heads' losses, each times its weight. */
typedef enum tcc_segmentation_loss_kind {
    TCC_SEGMENTATION_CROSS_ENTROPY, /* tcc_pixel_cross_entropy */
    TCC_SEGMENTATION_EDGE_DICE,     /* tcc_edge_dice_loss */
    TCC_SEGMENTATION_OHEM,          /* tcc_ohem_cross_entropy, and tcc_detail_loss of details */
} tcc_segmentation_loss_kind;
typedef struct tcc_segmentation_loss_options {
    size_t size; /* sizeof this struct */
    tcc_segmentation_loss_kind kind;
    bool has_ignore_index; /* as of tcc_pixel_loss_options */
    int64_t ignore_index;
    double weights[4];    /* of the heads, in their order; 0: 1 */
    double detail_weight; /* 0: 1 */
} tcc_segmentation_loss_options;
/* labels i32 or i64 [N, H, W]. */
TCC_API tcc_tensor tcc_segmentation_loss(tcc_trace *t, const tcc_segmentation *heads, tcc_tensor labels,
                                         const tcc_segmentation_loss_options *options);

TCC_API_END
#endif
