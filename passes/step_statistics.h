/* SPDX-License-Identifier: MIT
 * Statistics of a training step as further outputs, on request; ir/support/train_step.h defines them. */
#ifndef TCC_PASSES_STEP_STATISTICS_H
#define TCC_PASSES_STEP_STATISTICS_H

#include "ir/ir.h"

/* Of the trained parameter that output `update` writes; `gradient` as it is before clipping. Both in f32 or f64. */
tcc_status tcc_step_parameter_statistics(tcc_graph *g, const tcc_output *update, tcc_node *gradient);
/* Of each module's result: the last node of the forward pass that reads one of its parameters. To be called before a
 * step is added to the graph. */
tcc_status tcc_step_module_statistics(tcc_graph *g);

#endif
