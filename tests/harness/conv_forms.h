/* SPDX-License-Identifier: MIT
 * Small convolutions of every form, as calls of cuDNN's. */
#ifndef TCC_TESTS_HARNESS_CONV_FORMS_H
#define TCC_TESTS_HARNESS_CONV_FORMS_H

#include "codegen/calls.h"
#include "codegen/program.h"

enum { CONV_SPATIAL = 3, CONV_FORMS = 67 };

/* Two images, f32, channels last, padded so that the result has their size. */
tcc_cudnn_conv_params conv_2d(int64_t size, int64_t in, int64_t out, int64_t kernel);
/* Sizes of the result, and dense strides with channels last or first, from the rest. */
void conv_complete(tcc_conv_params *c, bool last);
/* Kernels of 1 and 3 with strides, dilation, groups and uneven padding, in both layouts; one and three dimensions; a
 * channel a group. */
tcc_cudnn_conv_params conv_form(int i);

#endif
