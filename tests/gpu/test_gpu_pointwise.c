/* SPDX-License-Identifier: MIT
 * Pointwise kernels on a GPU: element types, tails, views, guards, tables of several instances; against the interpreter. */
#include "harness/check.h"
#include "harness/gpu_program.h"

#include <stdlib.h>

static void pointwise(void **state) {
    (void)state;
    static const char *const sizes[] = {"[]", "[1]", "[3]", "[64]", "[1000]", "[4099]", "[3,35]", "[70,128]"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tcc_strbuf text = {0};
        tcc_strbuf_printf(&text,
                          "graph @p {\n  %%0 = input {name=\"x\"} : f32%s\n  %%1 = input {name=\"y\"} : f32%s\n  %%2 = mul(%%0, %%1) : f32%s\n"
                          "  %%3 = add(%%2, %%0) : f32%s\n  %%4 = exp(%%3) : f32%s\n  output \"o\" %%4\n  output \"p\" %%3\n}\n",
                          sizes[i], sizes[i], sizes[i], sizes[i], sizes[i]);
        check_gpu_text(text.text, &(compiled_options){.seed = i});
        tcc_strbuf_free(&text);
    }
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 0);
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(pointwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
