/* SPDX-License-Identifier: MIT
 * Networks that use a gradient, as functions of function_cases.def. */
#ifndef TCC_TESTS_HARNESS_SECOND_ORDER_H
#define TCC_TESTS_HARNESS_SECOND_ORDER_H

#include "traincc/traincc.h"

tcc_tensor input_gradient(const tcc_tensor *x);
tcc_tensor physics_informed(const tcc_tensor *x);
tcc_tensor gradient_penalty(const tcc_tensor *x);
tcc_tensor score_matching(const tcc_tensor *x);
tcc_tensor attention_gradient(const tcc_tensor *x);
tcc_tensor layer_norm_gradient(const tcc_tensor *x);
tcc_tensor pooled_convolution(const tcc_tensor *x);
tcc_tensor hessian_vector(const tcc_tensor *x);
tcc_tensor recurrent_saliency(const tcc_tensor *x);
tcc_tensor embedding_gradient(const tcc_tensor *x);
tcc_tensor meta_learning(const tcc_tensor *x);
tcc_tensor meta_learning_first_order(const tcc_tensor *x);

#endif
