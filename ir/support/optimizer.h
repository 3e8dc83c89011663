/* SPDX-License-Identifier: MIT
 * The optimizers' enum, for every layer: TCC_SGD, TCC_ADAM, ... (optimizer.def). */
#ifndef TCC_SUPPORT_OPTIMIZER_H
#define TCC_SUPPORT_OPTIMIZER_H

typedef enum tcc_optimizer_kind {
#define TCC_OPTIMIZER(id, ...) TCC_##id,
#include "optimizer.def"
} tcc_optimizer_kind;

/* What an optimizer reads of tcc_optimizer_options beside lr and weight_decay, and of the step. */
typedef enum tcc_optimizer_reads {
    TCC_READS_MOMENTUM = 1, /* and nesterov */
    TCC_READS_BETAS = 2,
    TCC_READS_EPS = 4,
    TCC_READS_COUNT = 8, /* of updates */
} tcc_optimizer_reads;

#endif
