/* SPDX-License-Identifier: MIT
 * The loss of a batch as a sum over micro-batches.
 *
 * The model is traced twice: on the whole batch and on a micro-batch. The loss of the first trace is restricted to a
 * micro-batch's samples (micro_axis.h). So its factors, such as 1 / N of a mean, are those of the whole batch. Each of
 * its values is one of three:
 *
 * - the same for all samples: parameters, numbers, buffers;
 * - rows: the rows of all micro-batches, concatenated, are those of the whole batch;
 * - a sum: the sums of all micro-batches, added up, are that of the whole batch.
 *
 * A linear function of a sum is a sum. A function that is not linear, such as a quotient by the sum, needs the sum over
 * the whole batch. If the sum depends on no parameter, it is a total: a count of targets, a sum of weights, a mask. A
 * program that reads only the batch adds up totals over all micro-batches, in states, before the first micro-batch
 * runs. Totals may need other totals, so they have levels, and that program runs once for each level. A loss that is
 * not linear in another sum, or that reads across samples otherwise, is refused with the line of the op.
 *
 * A value that is the same for all samples is added to a sum in the first micro-batch only.
 *
 * Ranks that have one micro-batch each add totals up where they arise, by a collective, and nothing waits.
 *
 * The second trace gives the other results of a micro-batch: outputs beside the loss, and next values of buffers. These
 * wait in states of their own until the update, so a step that does not end changes no buffer. */
#ifndef TCC_PASSES_MICRO_H
#define TCC_PASSES_MICRO_H

#include "ir/ir.h"

typedef struct tcc_micro_spec {
    int64_t whole, samples; /* of the batch, and of the micro-batch that the second trace is of */
    bool loss_is_sum;       /* the user says that losses of micro-batches add up; asked where the loss is refused */
    int ranks;              /* above 1: each has one micro-batch, and the step is one program (TCC_STEP_RANK) */
} tcc_micro_spec;

typedef struct tcc_micro_graphs {
    tcc_graph *step;   /* for autodiff and train-step: its losses add up, or are weighed by TCC_MEAN_WEIGHT_OUTPUT */
    tcc_graph *totals; /* writes the totals that `step` reads; NULL: there are none */
} tcc_micro_graphs;

/* TCC_EINVAL for a loss that is refused. The user's word, loss_is_sum or an output TCC_LOSS_WEIGHT_OUTPUT, is taken
 * for what cannot be seen. The caller destroys the graphs. */
tcc_status tcc_micro_split(const tcc_graph *whole, const tcc_graph *micro, const tcc_micro_spec *spec,
                           tcc_micro_graphs *out);

/* -- Sums over micro-batches -- */

/* What a micro-batch adds to a sum: weight * x; what weighs nothing does not count, even if it is NaN. Without a weight
 * (NULL) it is x. */
tcc_node *tcc_micro_weigh(tcc_graph *g, tcc_node *weight, tcc_node *x);
/* The gradient that has this sum: by the sum of the weights, and by the scale of the loss; either may be NULL. */
tcc_node *tcc_micro_gradient(tcc_graph *g, tcc_node *sum, tcc_node *weight, tcc_node *scale);

#endif
