/* SPDX-License-Identifier: MIT
 * Examples of options.h. */
#include "examples.h"

typedef struct my_options {
    size_t size;
    double slope TCC_OR_ZERO;
} my_options;

static tcc_tensor my_layer_at(tcc_tensor x, const my_options *options, tcc_loc at) {
    return tcc_leaky_relu_at(x, options->slope, at);
}

TRACED(TCC_WITH_OPTIONS) {
#define my_layer(...) my_layer_at(TCC_WITH_OPTIONS(my_options, __VA_ARGS__), TCC_HERE) /* (x, my_options *, tcc_loc) */
    tcc_output(t, "y", my_layer(tcc_constant(t, -2, TCC_F32, TCC_DIMS(1)), .slope = 0.5)); /* -1 */
}

TRACED(TCC_DIMS) {
    tcc_tensor x = tcc_constant(t, 1, TCC_F32, TCC_DIMS(2, 3, 4));
    tcc_output(t, "y", tcc_sum(x, TCC_DIMS(1, 2))); /* 12, 12 */
}
