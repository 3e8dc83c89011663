/* SPDX-License-Identifier: MIT
 * Parameters and buffers of every element type. */
#ifndef TCC_TESTS_HARNESS_TYPED_PARAMS_H
#define TCC_TESTS_HARNESS_TYPED_PARAMS_H

/* A model with a buffer of each type and a parameter in bf16, on the device: initial values, reading and writing by the
 * public calls, files, training, verification. */
void check_typed_params(const char *device);

#endif
