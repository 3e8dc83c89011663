/* SPDX-License-Identifier: MIT
 * Pointwise kernels on a GPU: element types, tails, views, guards, tables of several instances; against the
 * interpreter. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"

#include <stdlib.h>

static void pointwise(void **state) {
    (void)state;
    static const char *const sizes[] = {"[]", "[1]", "[3]", "[64]", "[1000]", "[4099]", "[3,35]", "[70,128]"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tcc_strbuf text = {0};
        tcc_strbuf_printf(
            &text,
            "graph @p {\n  %%0 = input {name=\"x\"} : f32%s\n  %%1 = input {name=\"y\"} : f32%s\n  %%2 = mul(%%0, %%1) "
            ": f32%s\n"
            "  %%3 = add(%%2, %%0) : f32%s\n  %%4 = exp(%%3) : f32%s\n  output \"o\" %%4\n  output \"p\" %%3\n}\n",
            sizes[i], sizes[i], sizes[i], sizes[i], sizes[i]);
        check_gpu_text(text.text, &(compiled_options){.seed = i});
        tcc_strbuf_free(&text);
    }
}

/* Updates of tensors of many sizes are one step: each block finds its instance in a table. */
static void tables(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 3, 64, 5000, 4096, 12289, 7};
    enum { TENSORS = sizeof sizes / sizeof *sizes };
    tcc_diag diag = {0};
    tcc_graph *step = adamw_graph(sizes, TENSORS, &diag);
    compiled_options options = {.simplify = true, .low = 0.1, .high = 0.9, .tolerance = 1e-4};
    gpu_program *p = gpu_program_create(step, &options, "sm_90");
    int most = 0;
    for (int i = 0; i < p->program->n_steps; i++)
        if (p->program->steps[i].n_instances > most) most = p->program->steps[i].n_instances;
    assert_true(most >= TENSORS - 1);
    gpu_program_destroy(p);
    check_gpu(step, &options);
    tcc_graph_destroy(step);
    tcc_diag_clear(&diag);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(pointwise), cmocka_unit_test(tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
