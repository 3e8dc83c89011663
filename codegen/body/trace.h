/* SPDX-License-Identifier: MIT
 * The rules of tracing by family, which body.c dispatches to. Each gives the value of node `n` at `coordinates`, and
 * takes its operands' values from tcc_body_trace. */
#ifndef TCC_CODEGEN_BODY_TRACE_H
#define TCC_CODEGEN_BODY_TRACE_H

#include "codegen/body/body.h"

/* trace_point.c */
const tcc_expr *tcc_body_trace_constant(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
const tcc_expr *tcc_body_trace_load(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
const tcc_expr *tcc_body_trace_point(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
/* trace_view.c: views, and reads at positions that another node holds */
const tcc_expr *tcc_body_trace_view(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
const tcc_expr *tcc_body_trace_take(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
/* Rules of ops that are loops of their own. trace_window.c: pooling, resizing. trace_dense.c: contractions, the sum of
 * an operand beside one, attention. */
const tcc_expr *tcc_body_trace_window(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
const tcc_expr *tcc_body_trace_sum(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
const tcc_expr *tcc_body_trace_dense(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);

#endif
