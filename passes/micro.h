/* SPDX-License-Identifier: MIT
 * The loss of a batch as a sum over micro-batches.
 *
 * The model is traced twice: on the whole batch and on a micro-batch. Of the first trace the loss is taken, cut down to
 * a micro-batch's samples (micro_axis.h); so what it is scaled by, as 1 / N of a mean, is of the whole batch. Each of
 * its values is one of three:
 *
 * - the same for all samples: parameters, numbers, buffers;
 * - rows: those of all micro-batches, one behind the other, are the whole batch's;
 * - a sum: those of all micro-batches, added up, are the whole batch's.
 *
 * What is linear in a sum is a sum. What is not, as a quotient by it, needs the sum over the whole batch. Where no
 * parameter is in it, as in a count of targets, a sum of weights or a mask, it is a total: a program that reads the
 * batch alone adds it up over all micro-batches before the first of them, in a state. Totals may need other totals, so
 * they have levels, and that program runs once for each level. A loss that is not linear in another sum, or that reads
 * across samples otherwise, is refused with the line of the op.
 *
 * What is the same for all samples counts in the first micro-batch alone, where it is added to a sum.
 *
 * From the second trace comes all that is of a micro-batch: outputs but the loss, and next values of buffers. These
 * wait in states of their own, from which the update takes them: what a step does not end leaves buffers alone. */
#ifndef TCC_PASSES_MICRO_H
#define TCC_PASSES_MICRO_H

#include "ir/ir.h"

typedef struct tcc_micro_spec {
    int64_t whole, samples; /* of the batch, and of the micro-batch that the second trace is of */
    bool loss_is_sum;       /* the user says that losses of micro-batches add up; asked where the loss is refused */
} tcc_micro_spec;

typedef struct tcc_micro_graphs {
    tcc_graph *step;   /* for autodiff and train-step: its losses add up, or are weighed by TCC_MEAN_WEIGHT_OUTPUT */
    tcc_graph *totals; /* writes the totals that `step` reads; NULL: there are none */
} tcc_micro_graphs;

/* TCC_EINVAL for a loss that is refused. The user's word, loss_is_sum or an output TCC_LOSS_WEIGHT_OUTPUT, is taken
 * for what cannot be seen. The caller destroys the graphs. */
tcc_status tcc_micro_split(const tcc_graph *whole, const tcc_graph *micro, const tcc_micro_spec *spec,
                           tcc_micro_graphs *out);

#endif
