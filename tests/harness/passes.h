/* SPDX-License-Identifier: MIT
 * For tests of passes: run some by name, compare what two graphs mean, and graphs of whole models. */
#ifndef TCC_TESTS_HARNESS_PASSES_H
#define TCC_TESTS_HARNESS_PASSES_H

#include "ir/ir.h"
#include "passes/pass.h"

/* Runs the passes, comma-separated, on a copy of `g`, verifying after each; the test fails on an error. The caller
 * destroys the result. `options` may be NULL. */
tcc_graph *run_passes(const tcc_graph *g, const char *passes, const tcc_pass_options *options);
/* Both graphs give the same outputs in the interpreter, on random inputs: floats in -2 .. 2, integers in 0 .. 9. Values
 * may differ by `tolerance`, relative to 1 + |value|; NaN equals NaN. */
void assert_same_meaning(const tcc_graph *a, const tcc_graph *b, double tolerance);
/* Text of `g` after passes; the caller frees it with free. */
char *text_after(const char *text, const char *passes);

/* The training loss of a small model, traced: "mlp", "cnn", "gpt", "resnet"; the first three also
 * with dropout, as in "gpt-dropout". `scale` multiplies widths and lengths. */
tcc_graph *model_graph(const char *model, int scale, tcc_diag *diag);

#endif
