/* SPDX-License-Identifier: MIT
 * The hyper-parameter vector of a training step: input "hyper", f32[TCC_HYPER_COUNT + 2 * n_groups], role HYPER. The host writes
 * it before a step, so no schedule recompiles anything. */
#ifndef TCC_PASSES_TRAIN_STEP_H
#define TCC_PASSES_TRAIN_STEP_H

enum {
    TCC_HYPER_BETA1,           /* SGD: momentum */
    TCC_HYPER_BETA2,
    TCC_HYPER_EPS,
    TCC_HYPER_BIAS1,           /* 1 / (1 - beta1^t), t the step counted from 1 */
    TCC_HYPER_BIAS2,           /* 1 / (1 - beta2^t) */
    TCC_HYPER_CLIP_NORM,       /* largest global L2 norm of the gradients */
    TCC_HYPER_DAMPENING_SCALE, /* SGD: weight of the new gradient in the momentum buffer, 1 at the first step */
    TCC_HYPER_COUNT            /* then, for each group: lr, weight decay */
};
#define TCC_HYPER_LR(group) (TCC_HYPER_COUNT + 2 * (group))
#define TCC_HYPER_WEIGHT_DECAY(group) (TCC_HYPER_COUNT + 2 * (group) + 1)

/* State inputs that the pass adds for parameter NAME: "NAME.m" and "NAME.v" (Adam), "NAME.momentum" (SGD), zero at the start. With
 * clipping there is an output "grad_norm", f32[], the norm before clipping. */

#endif
