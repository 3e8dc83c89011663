/* SPDX-License-Identifier: MIT
 * Pictures and files of a graph for people. */
#ifndef TCC_PASSES_PIPELINE_DUMP_H
#define TCC_PASSES_PIPELINE_DUMP_H

#include "passes/remat/remat.h"

/* The graph in graphviz's language: a box a node, a frame a group. */
void tcc_dump_dot(tcc_strbuf *b, const tcc_graph *g);
/* Writes DIR/NN.pass.tir and DIR/NN.pass.dot, and after plan-memory DIR/NN.pass.memory.txt and .memory.svg too. */
tcc_status tcc_dump_graph(const tcc_graph *g, const char *directory, int number, const char *pass, tcc_diag *diag);
/* Writes DIR/NN.pass.frontier.txt and .frontier.svg, if there is a frontier. */
tcc_status tcc_dump_remat(const tcc_remat_report *r, const char *directory, int number, const char *pass,
                          tcc_diag *diag);

#endif
