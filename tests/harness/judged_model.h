/* SPDX-License-Identifier: MIT
 * Models on a CUDA device whose tuning takes a candidate's time from the test. */
#ifndef TCC_TESTS_HARNESS_JUDGED_MODEL_H
#define TCC_TESTS_HARNESS_JUDGED_MODEL_H

#include "traincc/traincc.h"

/* What a test says of a candidate that has compiled (`ns` is 0), and then the time of one that took `ns`. */
typedef int64_t tune_judge(void *user, const char *candidate, int64_t ns);

/* `written` and `held` are lock files to write and to follow; NULL: none. The batch, of floats "x" and labels "y" below
 * `classes`, gets its numbers. */
tcc_status judged_model_create(tcc_context *cx, tcc_model_fn net, tune_judge *judge, tcc_mode mode, const char *written,
                               const char *held, const tcc_array batch[2], int classes, tcc_model **out);

#endif
