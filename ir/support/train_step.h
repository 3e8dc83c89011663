/* SPDX-License-Identifier: MIT
 * The hyper-parameter vector of a training step: input "hyper", f32[TCC_HYPER_COUNT + 2 * n_groups] and what follows
 * below, role HYPER. The host writes it before a step, so no schedule recompiles anything. */
#ifndef TCC_SUPPORT_TRAIN_STEP_H
#define TCC_SUPPORT_TRAIN_STEP_H

#include <stdbool.h>
#include <string.h>

enum {
    TCC_HYPER_MOMENTUM,         /* SGD */
    TCC_HYPER_DAMPENING_SCALE,  /* SGD: weight of the new gradient in the momentum buffer, 1 at the first step */
    TCC_HYPER_BETA1_COMPLEMENT, /* Adam: 1 - beta1. Not beta1, since in float32 1 - 0.999 has lost half of its digits */
    TCC_HYPER_BETA2_COMPLEMENT, /* Adam: 1 - beta2 */
    TCC_HYPER_RATES,            /* so many are of each set of rates */
    TCC_HYPER_EPS = TCC_HYPER_RATES, /* Adam, Adafactor, Adagrad */
    TCC_HYPER_CLIP_NORM,             /* largest global L2 norm of the gradients */
    TCC_HYPER_COUNT                  /* then, for each group: lr, weight decay */
};
/* After the groups, where the loss is scaled; PyTorch's names (torch.amp.GradScaler). */
enum {
    TCC_SCALE_GROWTH,   /* factor after so many updates without a skip: */
    TCC_SCALE_INTERVAL, /* of whole updates */
    TCC_SCALE_BACKOFF,  /* factor at a skip */
    TCC_SCALE_COUNT
};
#define TCC_HYPER_SCALE(groups, index) (TCC_HYPER_COUNT + 2 * (groups) + (index))
/* After these, where parameters are averaged. */
enum {
    TCC_EMA_COMPLEMENT, /* 1 - decay */
    TCC_EMA_WARMUP,     /* 9: the decay is at most (1 + n) / (10 + n) after n updates; 0: it is not bounded */
    TCC_EMA_COUNT
};
#define TCC_HYPER_EMA(groups, index) TCC_HYPER_SCALE(groups, TCC_SCALE_COUNT + (index))
/* Its elements, where there is one set of rates. */
#define TCC_HYPER_SIZE(groups) TCC_HYPER_EMA(groups, TCC_EMA_COUNT)
/* Groups with betas or a momentum of their own have a set of rates: the first TCC_HYPER_RATES elements once more, at
 * the end for each set but 0. */
#define TCC_HYPER_RATE(groups, set, index) \
    ((set) ? TCC_HYPER_SIZE(groups) + TCC_HYPER_RATES * ((set) - 1) + (index) : (index))
#define TCC_HYPER_LENGTH(groups, sets) TCC_HYPER_RATE(groups, sets, 0)
#define TCC_HYPER_LR(group) (TCC_HYPER_COUNT + 2 * (group))
#define TCC_HYPER_WEIGHT_DECAY(group) (TCC_HYPER_COUNT + 2 * (group) + 1)

/* The count of updates, for Adam and for averages, i64[], 0 in the beginning. No parameter is named so: the frontend
 * keeps names that begin with '@' for the states of passes. */
#define TCC_STEP_STATE "@step"

/* Dynamic scaling of the loss (Micikevicius et al. 2018), for gradients in f16: autodiff multiplies the gradient of
 * the loss by state TCC_SCALE_STATE, f32[], so that small gradients stay above f16's smallest number, and divides what
 * comes out by it in f32. Where one of the trained gradients is infinite or NaN the step is skipped: parameters, the
 * optimizer's states, its count and the model's buffers stay as they were. */
#define TCC_SCALE_STATE "@scale"
#define TCC_SCALE_STEPS_STATE "@scale_steps" /* i64[]: updates since the scale has changed */
#define TCC_SKIPPED_STATE "@skipped"         /* i64[]: skipped steps */

/* Output of a step that looks for anomalies, f32[]: 1 where its loss is infinite or NaN, or a trained gradient is; else
 * 0. Such a step is skipped, so that it can be run again from where it began. Where the loss is scaled, gradients are
 * the scaler's affair, and the loss alone counts. */
#define TCC_ANOMALY_OUTPUT "@anomaly"

/* Outputs of a step that tells statistics, f32[TCC_PARAMETER_STATISTICS] of each trained parameter, whose gradient is
 * meant as it is before clipping, and f32[TCC_MODULE_STATISTICS] of the result of each module
 * (passes/step_statistics.c). */
#define TCC_PARAMETER_STATISTICS_PREFIX "@parameter."
#define TCC_MODULE_STATISTICS_PREFIX "@module."
enum {
    TCC_GRADIENT_NORM,    /* L2 */
    TCC_GRADIENT_LARGEST, /* absolute value */
    TCC_GRADIENT_ZEROS,   /* share of the elements, 0 to 1 */
    TCC_WEIGHT_NORM,      /* before the update, */
    TCC_UPDATE_NORM,      /* and of what the update changes */
    TCC_PARAMETER_STATISTICS
};
enum { TCC_MODULE_MEAN, TCC_MODULE_STD, TCC_MODULE_LARGEST, TCC_MODULE_STATISTICS };

/* A step over a batch that does not fit at once takes it in micro-batches (passes/micro.h): one program, run for each
 * of them, adds their gradients up, and another makes the update of the sums. Where the loss needs sums over the whole
 * batch, as of the targets that count, a third adds these up first. All of these are states that no checkpoint holds,
 * since checkpoints are taken between steps. Each is written anew for the first micro-batch, so nobody fills it with
 * zeros. */
typedef enum tcc_step_part {
    TCC_STEP_WHOLE,  /* gradients and update in one program */
    TCC_STEP_MICRO,  /* adds gradients to "@sum.NAME", and the loss to its sum */
    TCC_STEP_UPDATE, /* the gradient is the sum, over the sum of the weights if there is one */
    TCC_STEP_TOTALS, /* sums over the whole batch that the loss needs */
    TCC_STEP_RANK,   /* a whole step of ranks that have one micro-batch each: all sums are taken over ranks inside */
    TCC_STEP_PARTS
} tcc_step_part;
/* Whether gradients stay multiplied by the scale of the loss until they are added up. */
static inline bool tcc_step_keeps_scale(tcc_step_part part) { return part == TCC_STEP_MICRO || part == TCC_STEP_RANK; }
/* Whether a step over ranks adds up in this part. */
static inline bool tcc_step_adds_ranks(tcc_step_part part) { return part == TCC_STEP_UPDATE || part == TCC_STEP_RANK; }
/* Whether a state has one of these prefixes. */
static inline bool tcc_begins(const char *name, const char *prefix) { return !strncmp(name, prefix, strlen(prefix)); }
#define TCC_SUM_PREFIX "@sum."         /* of a parameter's gradient, in the type of the optimizer's arithmetic */
#define TCC_LOSS_SUM_STATE "@loss_sum" /* f32[] */
/* f32[], where the user says what the loss of a micro-batch weighs: then gradients and losses are summed with it. A
 * step over ranks has it as an output between its passes, and TCC_COUNTS_STATE too. */
#define TCC_WEIGHT_SUM_STATE "@weight_sum"
/* Output of a model, f32[]: what the mean over a micro-batch that its loss is divides by. */
#define TCC_LOSS_WEIGHT_OUTPUT "loss_weight"
/* The same of a micro-batch's program, where its loss is such a mean; without it the losses of micro-batches add up. */
#define TCC_MEAN_WEIGHT_OUTPUT "@loss_weight"
/* "@total.LEVEL.NUMBER", LEVEL from 1 to TCC_TOTAL_LEVELS; and one of these, where it is a maximum or minimum. */
#define TCC_TOTAL_PREFIX "@total."
#define TCC_TOTAL_MAX ".max"
#define TCC_TOTAL_MIN ".min"
enum { TCC_TOTAL_LEVELS = 16 };
#define TCC_NEXT_PREFIX "@next." /* of buffer NAME: its next value, which the update takes */
/* Of parameter NAME, where ranks share states out and nothing but a low-precision copy of it is read: the elements that
 * are this rank's part, in the parameter's type. Ranks have the whole of the copy, and nobody that of the parameter. */
#define TCC_OWN_PREFIX "@own."
/* NAME; NULL: the state is none of those. */
static inline const char *tcc_own_of(const char *state) {
    return tcc_begins(state, TCC_OWN_PREFIX) ? state + sizeof TCC_OWN_PREFIX - 1 : NULL;
}
/* f32[], where the loss is divided by totals: 0 if one of these is 0, else 1. A step whose loss is NaN for that reason
 * is skipped, as there was nothing to learn from. */
#define TCC_COUNTS_STATE "@counts"
/* Input of a micro-batch's program, role HYPER, f32[TCC_MICRO_COUNT]. */
#define TCC_MICRO_INPUT "@micro"
enum {
    TCC_MICRO_FIRST, /* 1 for the first of a step; else 0 */
    TCC_MICRO_LEVEL, /* of the totals that are added up */
    TCC_MICRO_LEADS, /* 1 for the first of a step on all ranks; else 0 */
    TCC_MICRO_RANK,  /* the rank's number */
    TCC_MICRO_COUNT
};

/* State inputs that the pass adds for parameter NAME: "NAME.STATE" as optimizer.def says, zero at the start and f32
 * (f64 for an f64 parameter); "NAME.ema" if parameters are averaged; then TCC_STEP_STATE (Adam, Adafactor, averages);
 * "NAME.ema" of buffers, if they are averaged too. Where ranks share states out (step_shard.c), NAME.STATE is the
 * rank's part, a vector.
 * An average is the parameter after the first update, then average + (1 - decay) (parameter - average).
 *
 * Outputs of the step, in this order: "loss"; the other outputs of the graph; "grad_norm", the norm before clipping, if
 * clipping; for each trained parameter its next value and those of its states, named as the inputs they alias; the next
 * TCC_STEP_STATE; the gradients, if kept, as they are before clipping; statistics, if told, of parameters. Those of
 * modules come behind the loss and the other outputs. */

#endif
