/* SPDX-License-Identifier: MIT
 * Pictures and files of a graph for people. */
#ifndef TCC_PASSES_DUMP_H
#define TCC_PASSES_DUMP_H

#include "ir/ir.h"

/* The graph in graphviz's language: a box a node, a frame a group. */
void tcc_dump_dot(tcc_strbuf *b, const tcc_graph *g);
/* Writes DIR/NN.pass.tir and DIR/NN.pass.dot, and after plan-memory DIR/NN.pass.memory.txt and .memory.svg too. */
tcc_status tcc_dump_graph(const tcc_graph *g, const char *directory, int number, const char *pass, tcc_diag *diag);

#endif
