/* SPDX-License-Identifier: MIT
 * Layers with all that they give, as functions of function_cases.def. */
#ifndef TCC_TESTS_HARNESS_LAYER_CASES_H
#define TCC_TESTS_HARNESS_LAYER_CASES_H

#include "traincc/traincc.h"

/* The sum of the squares. */
tcc_tensor energy(tcc_tensor x);
tcc_tensor lstm_states(const tcc_tensor *x);
tcc_tensor lstm_two(const tcc_tensor *x);
tcc_tensor lstm_batch_first(const tcc_tensor *x);
tcc_tensor lstm_one_step(const tcc_tensor *x);
tcc_tensor gru_two(const tcc_tensor *x);
tcc_tensor group_attention_gradient(const tcc_tensor *x);
tcc_tensor few_keys_gradient(const tcc_tensor *x);

#endif
