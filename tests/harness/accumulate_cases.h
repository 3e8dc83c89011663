/* SPDX-License-Identifier: MIT
 * Steps in micro-batches: the same as steps on whole batches. */
#ifndef TCC_TESTS_HARNESS_ACCUMULATE_CASES_H
#define TCC_TESTS_HARNESS_ACCUMULATE_CASES_H

#include <traincc/traincc.h>

/* Of input x, by two products with the parameter "twice". */
tcc_tensor used_twice(tcc_trace *t, int64_t width);

/* Losses, parameters and optimizer state after some steps in 2, 3 and 7 micro-batches, against those of whole batches:
 * for losses that are means and sums, with targets that do not count, a parameter used twice, and clipping. */
void check_micro_batches(const char *device, tcc_mode mode, tcc_mixed_precision precision);
/* The same with all that can be computed again, and with measured kernels. */
void check_micro_modes(const char *device);
/* Dropout masks differ from micro-batch to micro-batch and from step to step. */
void check_micro_masks(const char *device);
/* fp16: a micro-batch that overflows spoils its own step, and nothing else. */
void check_micro_overflow(const char *device);

/* What cannot be cut, and numbers out of range. */
void check_micro_refusals(void);

#endif
