/* SPDX-License-Identifier: MIT
 * Hundreds of operands of one kind on a CUDA device, in both modes. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/many_operands.h"

static void hundreds_of_operands(void **state) {
    (void)state;
    const int counts[] = {25, 130};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int eager = 0; eager < 2; eager++)
            check_many_operands("cuda", eager ? TCC_MODE_EAGER : TCC_MODE_DEFAULT, counts[i]);
}

static void thirty_of_each(void **state) {
    (void)state;
    check_thirty_of_each("cuda", TCC_MODE_DEFAULT);
    check_thirty_of_each("cuda", TCC_MODE_EAGER);
}

static void forty_blocks(void **state) {
    (void)state;
    check_forty_blocks("cuda", TCC_MODE_DEFAULT);
    check_forty_blocks("cuda", TCC_MODE_EAGER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_TEST(hundreds_of_operands),
        CUDA_TEST(thirty_of_each),
        CUDA_TEST(forty_blocks),
    };
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
