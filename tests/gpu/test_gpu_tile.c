/* SPDX-License-Identifier: MIT
 * Transposes on a GPU: through shared memory, with tails, of several element types, with work on both sides. */
#include "harness/check.h"
#include "harness/gpu_program.h"

#include <stdio.h>

static void transposes(void **state) {
    (void)state;
    static const struct {
        int batch, rows, columns;
    } shapes[] = {{1, 8, 8},    {1, 32, 32},   {3, 33, 31},  {2, 64, 96}, {1, 100, 9},
                  {5, 13, 130}, {1, 300, 257}, {2, 72, 136}, {1, 66, 70}};
    static const char *const types[] = {"f32", "bf16", "f16", "i32", "u8", "f64"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char text[1024];
            int n = shapes[i].batch, r = shapes[i].rows, c = shapes[i].columns;
            const char *y = types[t];
            snprintf(
                text, sizeof text,
                "graph @t {\n  %%0 = input {name=\"x\"} : %s[%d,%d,%d]\n  %%1 = input {name=\"y\"} : %s[%d,%d,%d]\n"
                "  %%2 = transpose(%%0) {perm=[0, 2, 1]} : %s[%d,%d,%d]\n  %%3 = add(%%2, %%1) : %s[%d,%d,%d]\n  "
                "output \"o\" %%3\n}\n",
                y, n, r, c, y, n, c, r, y, n, c, r, y, n, c, r);
            check_gpu_text(text, &(compiled_options){.seed = i});
        }
}

static void channels(void **state) {
    (void)state;
    check_gpu_text("graph @t {\n  %0 = input {name=\"x\"} : f32[2,24,9,10]\n  %1 = transpose(%0) {perm=[0, 2, 3, 1]} : "
                   "f32[2,9,10,24]\n"
                   "  %2 = exp(%1) : f32[2,9,10,24]\n  output \"o\" %2\n}\n",
                   &(compiled_options){.seed = 1});
    check_gpu_text(
        "graph @t {\n  %0 = input {name=\"x\"} : f32[40,12,16]\n  %1 = transpose(%0) {perm=[2, 1, 0]} : f32[16,12,40]\n"
        "  output \"o\" %1\n}\n",
        &(compiled_options){.seed = 1});
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(transposes), cmocka_unit_test(channels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
