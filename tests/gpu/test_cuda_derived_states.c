/* SPDX-License-Identifier: MIT
 * Derived states on a CUDA device. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/derived_states.h"

static void copies_follow(void **state) {
    (void)state;
    check_derived_states("cuda");
}

static void idle_weights_take_no_memory(void **state) {
    (void)state;
    check_idle_weights("cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(copies_follow), CUDA_TEST(idle_weights_take_no_memory)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
