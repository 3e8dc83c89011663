/* SPDX-License-Identifier: MIT
 * Gradients by inputs of the batch, after a step. */
#ifndef TCC_TESTS_HARNESS_INPUT_GRADIENTS_H
#define TCC_TESTS_HARNESS_INPUT_GRADIENTS_H

#include "traincc/traincc.h"

/* They are the loss's own: by inputs of f32, f64, f16 and bf16, in mixed precision, with clipping, and where the loss
 * does not depend on the input. */
void check_input_gradients(const char *device, tcc_mode mode);

#endif
