/* SPDX-License-Identifier: MIT
 * Derived states: copies of a parameter and of a buffer in bf16, which follow whatever changes these. */
#ifndef TCC_TESTS_HARNESS_DERIVED_STATES_H
#define TCC_TESTS_HARNESS_DERIVED_STATES_H

/* Trains, evaluates, writes, loads and verifies a model with copies on the device, and checks what programs see of the
 * copies before each run. */
void check_derived_states(const char *device);
/* A weight whose copy alone is read takes no memory of a device, planned and in truth, and is a parameter as any. */
void check_idle_weights(const char *device);

#endif
