/* SPDX-License-Identifier: MIT
 * Builds a program from a graph with groups and offsets: lowers each group, compiles each distinct kernel once, lays
 * out steps. */
#ifndef TCC_CODEGEN_BUILD_H
#define TCC_CODEGEN_BUILD_H

#include "codegen/options.h"
#include "codegen/program.h"
#include "ir/ir.h"
#include "ir/support/context.h"

/* The program of `g`, which has been through fuse, select, order and plan-memory. Bindings: the graph's inputs in
 * order, then its outputs that are not written over an input. The caller frees it with tcc_program_destroy. Errors:
 * TCC_EUNSUPPORTED with the node's line, TCC_ENOMEM, TCC_EIO (dump), TCC_EBUG. */
tcc_status tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g, const tcc_codegen_options *options,
                             tcc_program **out);

/* A table of the steps: label, lines, items, flop, bytes (report.c). */
void tcc_program_print_steps(tcc_strbuf *out, const tcc_program *p);

#endif
