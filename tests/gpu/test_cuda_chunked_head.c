/* SPDX-License-Identifier: MIT
 * A language model's head in chunks of rows on a CUDA device. */
#include "harness/check.h"
#include "harness/chunked_head.h"
#include "harness/cuda_device.h"

static void same_loss_and_gradients(void **state) {
    (void)state;
    check_head_gradients("cuda");
}

static void kernels_and_passes_verify(void **state) {
    (void)state;
    check_head_kernels("cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(same_loss_and_gradients), CUDA_TEST(kernels_and_passes_verify)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
