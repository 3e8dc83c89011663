/* SPDX-License-Identifier: MIT
 * Losses and functions of the public API on a GPU, with their gradients, against the interpreter. */
#include "harness/check.h"
#include "harness/function_cases.h"
#include "harness/gpu_program.h"

static void gpu_programs_agree(void **state) {
    (void)state;
    if (!gpu_available()) skip();
    for (int i = 0; i < function_case_count(); i++) {
        tcc_graph *plain = function_case_graph(i, TCC_F32),
                  *g = plain->outputs.count > 1 ? function_case_gradients(plain) : plain;
        tcc_value *inputs = function_case_inputs(i, g);
        print_message("%s\n", function_case_name(i));
        check_gpu(g, &(compiled_options){.inputs = inputs});
        free_values(inputs, g->inputs.count);
        if (g != plain) tcc_graph_destroy(g);
        tcc_graph_destroy(plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gpu_programs_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
