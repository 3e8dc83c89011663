/* SPDX-License-Identifier: MIT
 * The switches of training in combinations, on a CUDA device beside the CPU. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/switches.h"

static void every_two_values_of_every_two(void **state) {
    (void)state;
    check_switches((const char *const[]){"cpu", "cuda"}, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(every_two_values_of_every_two)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
