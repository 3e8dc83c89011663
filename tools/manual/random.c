/* SPDX-License-Identifier: MIT
 * Examples of random.h. */
#include "examples.h"

TRACED(tcc_random_uniform) {
    tcc_tensor u = tcc_random_uniform(t, "noise", -1, 1, TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", u); /* f32 [2, 3] */
}

TRACED(tcc_random_normal) {
    tcc_tensor z = tcc_random_normal(t, "z", 0, 1, TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", z); /* f32 [2, 3] */
}

TRACED(tcc_random_bernoulli) {
    tcc_tensor keep = tcc_random_bernoulli(t, "keep", 0.9, TCC_DIMS(4));
    tcc_output(t, "y", keep); /* bool [4] */
}

TRACED(tcc_random_integers) {
    tcc_tensor die = tcc_random_integers(t, "die", 1, 7, TCC_I32, TCC_DIMS(4));
    tcc_output(t, "y", die); /* i32 [4] */
}

TRACED(tcc_random_permutation) {
    tcc_tensor order = tcc_random_permutation(t, "order", 4);
    tcc_output(t, "y", tcc_sort(order, 0, false)); /* 0, 1, 2, 3 */
}
