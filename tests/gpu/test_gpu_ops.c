/* SPDX-License-Identifier: MIT
 * Every op on a GPU, forward and gradient, against the interpreter. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/gradient_cases.h"
#include "harness/op_cases.h"
#include "harness/passes.h"
#include "ir/collective.h"

/* No device has them yet. */
static bool has_collectives(const tcc_graph *g) { return tcc_ir_last_collective(g, g->nodes.count) != NULL; }

static void check_f32(const tcc_graph *g, tcc_value *inputs) {
    if (has_collectives(g)) return;
    tcc_graph *step = run_passes(g, "autodiff", NULL);
    check_gpu(step, &(compiled_options){.inputs = inputs, .tolerance = 2e-4});
    tcc_graph_destroy(step);
}

static void check_f64(const tcc_graph *g, tcc_value *inputs) {
    if (has_collectives(g)) return;
    tcc_graph *step = run_passes(g, "autodiff", NULL);
    check_gpu(step, &(compiled_options){.inputs = inputs, .tolerance = 1e-9});
    tcc_graph_destroy(step);
}

int main(void) {
    if (!gpu_available()) return 77;
    return gradient_cases_run(TCC_F32, FIRST_ORDER, check_f32) + gradient_cases_run(TCC_F64, FIRST_ORDER, check_f64) +
           op_cases_run(check_gpu);
}
