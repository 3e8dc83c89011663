/* SPDX-License-Identifier: MIT
 * One group of a planned graph, as a graph by itself. */
#ifndef TCC_FRONTEND_COMPILE_ALONE_H
#define TCC_FRONTEND_COMPILE_ALONE_H

#include "frontend/compile/compile.h"

/* The values that `group` loads become the inputs of *out, in the order of `loads`, what it stores its outputs. Its
 * implementation is the group's. */
tcc_status tcc__group_alone(tcc_model *m, const tcc_graph *g, const tcc_group *group, tcc_node *const *loads,
                            int n_loads, tcc_graph **out);

#endif
