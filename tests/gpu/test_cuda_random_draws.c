/* SPDX-License-Identifier: MIT
 * Public random draws in programs for a CUDA device: the interpreter's bits, which are the CPU's. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/random_draw_cases.h"

static void interpreter_and_modes_agree(void **state) {
    (void)state;
    random_draws_are_the_interpreters("cuda");
}

static void a_resumed_run_draws_the_same(void **state) {
    (void)state;
    random_draws_resume("cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(interpreter_and_modes_agree), CUDA_TEST(a_resumed_run_draws_the_same)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
