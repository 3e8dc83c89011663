/* SPDX-License-Identifier: MIT
 * Lines in sorted order on a CUDA device: those that a kernel sorts, of a warp or of a block, longer ones that are
 * merged, and the first few of many. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/sorted_lines.h"

static const int kinds[] = {0, 2, 3, SORTED_KINDS};

/* One launch for elements in order and where they stood. */
static void in_one_launch(sorted_line line, int kind) {
    int kernels;
    check_sorted_line("cuda", line, kinds[kind], &kernels);
    if (kernels != 1) fail_msg("%d of %d elements take %d kernels", line.k, line.n, kernels);
}

static void lines_of_a_warp(void **state) {
    (void)state;
    static const int lengths[] = {33, 64, 65, 128, 200, 256};
    for (int i = 0; i < 6; i++)
        for (int kind = 0; kind < 4; kind++)
            in_one_launch((sorted_line){lengths[i], lengths[i], kind % 2, TCC_F32}, kind);
}

static void lines_of_a_block(void **state) {
    (void)state;
    static const int lengths[] = {257, 500, 512, 1000, 1023, 2048, 3001};
    for (int i = 0; i < 7; i++)
        for (int kind = 0; kind < 4; kind++)
            in_one_launch((sorted_line){lengths[i], lengths[i], (i + kind) % 2, TCC_F32}, kind);
}

static void all_types(void **state) {
    (void)state;
    static const tcc_dtype types[] = {TCC_BF16, TCC_F16, TCC_I32, TCC_U8};
    for (int i = 0; i < 4; i++)
        for (int down = 0; down < 2; down++) {
            in_one_launch((sorted_line){100, 100, down, types[i]}, 3);
            in_one_launch((sorted_line){300, 300, down, types[i]}, 0);
        }
}

/* Words of 64 bits are counted and merged. */
static void wide_types(void **state) {
    (void)state;
    check_sorted_line("cuda", (sorted_line){300, 300, false, TCC_F64}, SORTED_KINDS, NULL);
    check_sorted_line("cuda", (sorted_line){300, 300, true, TCC_I64}, 0, NULL);
}

static void long_lines(void **state) {
    (void)state;
    in_one_launch((sorted_line){8192, 8192, false, TCC_F32}, 3);
    check_sorted_line("cuda", (sorted_line){8192 + 20, 8192 + 20, true, TCC_F32}, 3, NULL);
    check_sorted_line("cuda", (sorted_line){SORTED_LONGEST, SORTED_LONGEST, false, TCC_BF16}, 0, NULL);
}

static void short_lines(void **state) {
    (void)state;
    for (int n = 1; n < 33; n += n < 4 ? 1 : 14)
        check_sorted_line("cuda", (sorted_line){n, n, n % 2, TCC_F32}, SORTED_KINDS, NULL);
}

static void first_of_many(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        check_sorted_line("cuda", (sorted_line){1000, 7, true, TCC_F32}, kinds[kind], NULL);
        check_sorted_line("cuda", (sorted_line){SORTED_LONGEST, 50, true, TCC_F32}, kinds[kind], NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_TEST(lines_of_a_warp), CUDA_TEST(lines_of_a_block), CUDA_TEST(all_types),     CUDA_TEST(wide_types),
        CUDA_TEST(long_lines),      CUDA_TEST(short_lines),      CUDA_TEST(first_of_many),
    };
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
