/* SPDX-License-Identifier: MIT
 * Losses, as PyTorch defines them. Each is computed in float32 at least, also under mixed precision, in a form whose
 * value and gradients stay finite where probabilities are 0 or 1 and logits are large. Operands are floats of one type;
 * the result has it too.
 *
 * x and its target have one shape: nothing broadcasts, for [N, 1] against [N] would train to the mean. A loss is the
 * mean over its elements unless .reduction says otherwise; an option that a loss does not have is an error. */
#ifndef TRAINCC_LOSSES_H
#define TRAINCC_LOSSES_H

#include "traincc/tensor.h"

TCC_API_BEGIN

typedef enum tcc_loss_reduction {
    TCC_REDUCE_MEAN,       /* over all elements */
    TCC_REDUCE_SUM,        /* over all elements */
    TCC_REDUCE_NONE,       /* each element's loss by itself */
    TCC_REDUCE_BATCH_MEAN, /* the sum over all elements, divided by the extent of the first dim */
} tcc_loss_reduction;

/* -- Classification -- */

/* Of cross_entropy and nll_loss. */
typedef struct tcc_cross_entropy_options {
    size_t size;
    bool has_ignore_index TCC_OR_ZERO;    /* ignore_index counts as given even if it is 0 */
    int64_t ignore_index TCC_OR_ZERO;     /* targets of this value do not count; 0 without has_ignore_index: -100 */
    double label_smoothing TCC_OR_ZERO;   /* in [0, 1); of cross_entropy */
    const tcc_tensor *weight TCC_OR_ZERO; /* [C], of the logits' type: a weight for each class; NULL: none */
    tcc_loss_reduction reduction TCC_OR_ZERO;
    int axis TCC_OR_ZERO; /* of the classes in x: 1 for images [N, C, H, W]; 0: the last. -tcc_rank(x) is the first. */
} tcc_cross_entropy_options;
/* Negative log-likelihood of targets under logits x, whose classes are dim `axis` of extent C.
 *
 * Targets i32 or i64, of x's shape without that dim: classes. One must lie in [0, C) or be ignore_index. A constant one
 * that does not is an error at once. Any other makes the loss and its gradients NaN, since a step does not stop to
 * report it. The mean is over targets that count, by the weights of their classes.
 *
 * Targets of x's type and shape: probabilities of the classes ("soft"). The mean is over all rows; there is no
 * ignore_index. */
TCC_API tcc_tensor tcc_cross_entropy_at(tcc_tensor x, tcc_tensor targets, const tcc_cross_entropy_options *options,
                                        tcc_loc at);
/* The same of log-probabilities x, as tcc_log_softmax gives them, and of classes alone. */
TCC_API tcc_tensor tcc_nll_loss_at(tcc_tensor x, tcc_tensor targets, const tcc_cross_entropy_options *options,
                                   tcc_loc at);
#define tcc_cross_entropy(x, ...) \
    tcc_cross_entropy_at(x, TCC_WITH_OPTIONS(tcc_cross_entropy_options, __VA_ARGS__), TCC_HERE)
#define tcc_nll_loss(x, ...) tcc_nll_loss_at(x, TCC_WITH_OPTIONS(tcc_cross_entropy_options, __VA_ARGS__), TCC_HERE)

typedef struct tcc_ctc_options {
    size_t size;
    int64_t blank TCC_OR_ZERO; /* the class that is no label */
    tcc_loss_reduction reduction TCC_OR_ZERO;
    bool zero_infinity TCC_OR_ZERO; /* a text that does not fit in its frames counts as 0 */
} tcc_ctc_options;
/* Connectionist temporal classification (Graves et al. 2006): minus the log-probability that frames read as a text.
 * log_probs [T, N, C], as tcc_log_softmax gives them; targets [N, S], of which the first target_lengths[n] count, 0 to
 * S, and are classes but the blank; the first input_lengths[n] frames count, 1 to T. All three are i32 or i64. What is
 * out of range makes its text's loss and gradients NaN.
 *
 * TCC_REDUCE_NONE gives [N]. The mean is over texts, each divided by its length, an empty one by 1, as in PyTorch. A
 * text that does not fit in its frames has an infinite loss and no gradient. The gradient by log_probs is the exact
 * one; PyTorch's has one more term, which vanishes in the gradient by the operand of log_softmax. The T frames are
 * traced one by one, some twenty operations each. */
TCC_API tcc_tensor tcc_ctc_loss_at(tcc_tensor log_probs, tcc_tensor targets, tcc_tensor input_lengths,
                                   tcc_tensor target_lengths, const tcc_ctc_options *options, tcc_loc at);
#define tcc_ctc_loss(log_probs, targets, input_lengths, ...) \
    tcc_ctc_loss_at(log_probs, targets, input_lengths, TCC_WITH_OPTIONS(tcc_ctc_options, __VA_ARGS__), TCC_HERE)

/* -- Others -- */

/* Behind each option: the losses that have it. */
typedef struct tcc_loss_options {
    size_t size;
    tcc_loss_reduction reduction TCC_OR_ZERO;
    const tcc_tensor *weight TCC_OR_ZERO;     /* bce_loss, bce_with_logits: a factor of each element; broadcasts to x */
    const tcc_tensor *pos_weight TCC_OR_ZERO; /* bce_with_logits: a factor of the part of targets 1; broadcasts to x */
    double beta TCC_OR_ZERO;                  /* smooth_l1_loss: above 0; 0: 1 */
    double delta TCC_OR_ZERO;                 /* huber_loss: above 0; 0: 1 */
    double margin TCC_OR_ZERO;   /* triplet_margin_loss, hinge_embedding_loss: 0: 1; cosine_embedding_loss: 0 */
    bool has_margin TCC_OR_ZERO; /* margin counts as given even if it is 0 */
    double p TCC_OR_ZERO;        /* triplet_margin_loss: the distances' norm: 1, 2 or INFINITY; 0: 2 */
    double eps TCC_OR_ZERO;      /* triplet_margin_loss: 0: 1e-6; dice_loss, jaccard_loss: 0: 1e-5 */
    bool swap TCC_OR_ZERO;       /* triplet_margin_loss: the negative's distance to the nearer one counts */
    bool log_target TCC_OR_ZERO; /* kl_div: the target is log-probabilities too */
} tcc_loss_options;

/* d^2 with d = x - target. */
TCC_API tcc_tensor tcc_mse_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
/* |d| with d = x - target. */
TCC_API tcc_tensor tcc_l1_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
/* |d| < beta ? d^2 / (2 beta) : |d| - beta / 2 with d = x - target (Girshick 2015). */
TCC_API tcc_tensor tcc_smooth_l1_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
/* |d| < delta ? d^2 / 2 : delta (|d| - delta / 2) with d = x - target (Huber 1964). */
TCC_API tcc_tensor tcc_huber_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
/* Binary cross-entropy of probabilities x in [0, 1]: -(t log x + (1 - t) log(1 - x)), with logarithms of -100 at least
 * and slopes of 1e12 where x is 0 or 1 and that logarithm counts. The slopes are those of the logarithms, so 1 or -1
 * where x is the target's 0 or 1, where PyTorch has 0. NaN where x is no probability. */
TCC_API tcc_tensor tcc_bce_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
/* Of logits: the same of sigmoid(x), with pos_weight t log x. */
TCC_API tcc_tensor tcc_bce_with_logits_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
/* Kullback-Leibler divergence from log-probabilities x of the model to probabilities t: t (log t - x), 0 where t is 0.
 * TCC_REDUCE_BATCH_MEAN is its mathematical mean over a batch. */
TCC_API tcc_tensor tcc_kl_div_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
/* a and b [.., D], signs [..], of a's type or integers: with c the cosine of the angle between rows of a and b, 1 - c
 * where the sign is 1, max(0, c - margin) where it is -1. An element a row. */
TCC_API tcc_tensor tcc_cosine_embedding_loss_at(tcc_tensor a, tcc_tensor b, tcc_tensor signs,
                                                const tcc_loss_options *options, tcc_loc at);
/* x, signs of its type or integers: x where the sign is 1, max(0, margin - x) where it is -1. */
TCC_API tcc_tensor tcc_hinge_embedding_loss_at(tcc_tensor x, tcc_tensor signs, const tcc_loss_options *options,
                                               tcc_loc at);
/* max(0, |anchor - positive + eps| - |anchor - negative + eps| + margin) of rows of three tensors [.., D], an element a
 * row (Balntas et al. 2016). */
TCC_API tcc_tensor tcc_triplet_margin_loss_at(tcc_tensor anchor, tcc_tensor positive, tcc_tensor negative,
                                              const tcc_loss_options *options, tcc_loc at);
/* Of probabilities x [N, C, ..] and a target of their shape, an element for each n and c, with sums over other dims:
 * 1 - (2 sum x t + eps) / (sum x + sum t + eps) (Sudre et al. 2017);
 * 1 - (sum x t + eps) / (sum x + sum t - sum x t + eps). */
TCC_API tcc_tensor tcc_dice_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
TCC_API tcc_tensor tcc_jaccard_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *options, tcc_loc at);
#define tcc_mse_loss(x, ...) tcc_mse_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_l1_loss(x, ...) tcc_l1_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_smooth_l1_loss(x, ...) tcc_smooth_l1_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_huber_loss(x, ...) tcc_huber_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_bce_loss(x, ...) tcc_bce_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_bce_with_logits(x, ...) tcc_bce_with_logits_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_kl_div(x, ...) tcc_kl_div_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_cosine_embedding_loss(a, b, ...) \
    tcc_cosine_embedding_loss_at(a, b, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_hinge_embedding_loss(x, ...) \
    tcc_hinge_embedding_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_triplet_margin_loss(anchor, positive, ...) \
    tcc_triplet_margin_loss_at(anchor, positive, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_dice_loss(x, ...) tcc_dice_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_jaccard_loss(x, ...) tcc_jaccard_loss_at(x, TCC_WITH_OPTIONS(tcc_loss_options, __VA_ARGS__), TCC_HERE)

/* -- Segmentation: logits x [N, C, ..] and labels i32 or i64 [N, ..], a class in [0, C) or ignore_index for each pixel.
 * A label that is neither makes the loss and its gradients NaN. Means over no pixel are 0, with a gradient of 0. -- */
typedef struct tcc_pixel_loss_options {
    size_t size;
    bool has_ignore_index TCC_OR_ZERO; /* ignore_index counts as given even if it is 0 */
    int64_t ignore_index TCC_OR_ZERO;  /* 0 without has_ignore_index: -100 */
    double threshold TCC_OR_ZERO;      /* ohem_cross_entropy: a probability in (0, 1); 0: 0.7 */
    double least TCC_OR_ZERO;          /* ohem_cross_entropy: a share of the pixels in (0, 1]; 0: 1/16 */
} tcc_pixel_loss_options;
/* The mean of cross entropy over the pixels that count. */
TCC_API tcc_tensor tcc_pixel_cross_entropy_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *options,
                                              tcc_loc at);
/* The same over hard pixels alone (Shrivastava et al. 2016): those whose class has a probability below `threshold`; or,
 * where they are no more than a share `least` of those that count, as many of the hardest. Losses that differ by less
 * than 2^-24 -log(threshold) count as equal, and what is left of the number is shared among equals. */
TCC_API tcc_tensor tcc_ohem_cross_entropy_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *options,
                                             tcc_loc at);
/* x and labels [N, H, W]. Half of the sum of cross entropy over all pixels, divided by their number, ignored ones
 * counted too; half of its mean over edge pixels, whose 5 x 5 neighbours have more than one label, ignored ones being
 * one; and the mean over the classes of 1 - (2 I + 1) / (S + 1 + 1e-5), with I the sum of the probabilities of the
 * class over its pixels, S that over all pixels plus their number, each of those that count. super-gradients'
 * DiceCEEdgeLoss. */
TCC_API tcc_tensor tcc_edge_dice_loss_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *options,
                                         tcc_loc at);
/* STDC's detail loss (Fan et al. 2021) of logits x [N, 1, H, W]: binary cross entropy, a mean over all pixels, and
 * 1 - (2 I + 1) / (S + 1 + 1e-5) with I the sum of t sigmoid(x), S that of t + sigmoid(x). t is 1 where one of the 8
 * neighbours of a pixel has another label, or lies outside; and where that is so of the pixel, of even row and column,
 * that is its 2 x 2 pixels' first. Of ignored pixels it is not so. */
TCC_API tcc_tensor tcc_detail_loss_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *options,
                                      tcc_loc at);
#define tcc_pixel_cross_entropy(x, ...) \
    tcc_pixel_cross_entropy_at(x, TCC_WITH_OPTIONS(tcc_pixel_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_ohem_cross_entropy(x, ...) \
    tcc_ohem_cross_entropy_at(x, TCC_WITH_OPTIONS(tcc_pixel_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_edge_dice_loss(x, ...) \
    tcc_edge_dice_loss_at(x, TCC_WITH_OPTIONS(tcc_pixel_loss_options, __VA_ARGS__), TCC_HERE)
#define tcc_detail_loss(x, ...) tcc_detail_loss_at(x, TCC_WITH_OPTIONS(tcc_pixel_loss_options, __VA_ARGS__), TCC_HERE)

TCC_API_END
#endif
