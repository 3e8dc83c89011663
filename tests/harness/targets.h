/* SPDX-License-Identifier: MIT
 * Targets of cross-entropy that are no classes. */
#ifndef TCC_TESTS_HARNESS_TARGETS_H
#define TCC_TESTS_HARNESS_TARGETS_H

#include "traincc/traincc.h"

/* With targets in range, or ignored, loss and gradients are numbers; with another one they are NaN. With and without
 * class weights and label smoothing. */
void check_targets(const char *device, tcc_mode mode);

#endif
