/* SPDX-License-Identifier: MIT
 * Parameters and buffers of every element type on a CUDA device. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/typed_params.h"

static void every_type(void **state) {
    (void)state;
    check_typed_params("cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(every_type)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
