/* SPDX-License-Identifier: MIT
 * What the interpreter makes of a few lines of textual IR, for tests. */
#ifndef TCC_TESTS_HARNESS_EVALUATE_H
#define TCC_TESTS_HARNESS_EVALUATE_H

#include "ir/eval.h"

/* The value of the last of some lines "%0 = constant {values=[1, 2]} : f32[2]\n%1 = ..."; the test
 * fails if they do not parse or evaluate. The caller frees it. */
tcc_value evaluate_lines(const char *lines);
/* The value of one op on given operands, whose types they have; `type` for ops that need one. The
 * caller frees it. */
tcc_value evaluate_op(tcc_op op, const tcc_attrs *attrs, const tcc_type *type, int n_operands,
                      const tcc_value *operands);
/* A tensor of random numbers in lo .. hi (integers: to hi - 1); the caller frees it. */
tcc_value random_value(const tcc_type *type, uint64_t seed, double lo, double hi);
/* Into packed memory of the element type, rounded to nearest even. */
void value_store(const tcc_value *v, void *packed);
/* The last value has exactly these elements, or within `tolerance`; NaN equals NaN. */
void expect_elements(const char *file, int line, const char *lines, double tolerance, int count,
                     const double *expected);

#define EXPECT_NEAR(tolerance, lines, ...)                                                                             \
    expect_elements(__FILE__, __LINE__, (lines), (tolerance), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
                    (const double[]){__VA_ARGS__})
#define EXPECT(lines, ...) EXPECT_NEAR(0, lines, __VA_ARGS__)

#endif
