/* SPDX-License-Identifier: MIT
 * options.detect_anomaly: the step and the op that is not finite. */
#ifndef TCC_TESTS_HARNESS_ANOMALY_CASES_H
#define TCC_TESTS_HARNESS_ANOMALY_CASES_H

#include <traincc/traincc.h>

/* Steps that are in order have the losses that they have without, but for rounding. The first that is not is an error,
 * which names the op and its line, changes nothing and is not counted; steps after it go on. `parts`: micro-batches of
 * a step. */
void check_anomaly(const char *device, tcc_mode mode, tcc_mixed_precision precision, int parts);
/* A step that is refused changes no byte of parameters, buffers, the optimizer's states, averages, counters and the
 * loss's scale. One that is skipped, because a gradient of f16 overflows, changes the scaler's alone. */
void check_left_out(const char *device, tcc_mixed_precision precision, int parts, bool detects);

#endif
