/* SPDX-License-Identifier: MIT
 * Gradients that the user asks for are in the graph before mixed precision is. So each op's gradient, and the gradient
 * of that, goes through amp with every class of precision that a user may give the ops, and still means what it
 * meant. */
#include "harness/check.h"
#include "harness/gradient_cases.h"
#include "harness/passes.h"
#include "ir/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The loss, and how far rounding in the types of the graph's ops may move it; what rounding the inputs does comes on
 * top. */
static double loss_of(const tcc_graph *g, const tcc_value *inputs, double *noise) {
    enum { DRAWS = 8 };
    tcc_noisy loss;
    const tcc_noise n = {.seed = 1, .draws = DRAWS, .factor = 4};
    assert_ok(tcc_graph_eval_noisy(g, inputs, &n, &loss, g->diag), g->diag);
    const double value = loss.value.f[0];
    *noise = loss.noise[0];
    tcc_noisy_free(&loss);
    return value;
}

static const tcc_amp_class all[] = {TCC_AMP_NONE, TCC_AMP_LOW, TCC_AMP_FP32, TCC_AMP_OPMATH, TCC_AMP_PROMOTE};

/* Where `choice` is 0, with the table's classes; else with one class for all ops. */
static void check_class(const tcc_graph *g, const tcc_value *inputs, double want, tcc_dtype low, int choice) {
    tcc_amp_class classes[TCC_OP_COUNT];
    tcc_amp_table(classes);
    for (int op = 0; op < TCC_OP_COUNT; op++)
        if (choice && classes[op] != TCC_AMP_NONE) classes[op] = all[choice];
    const tcc_amp_spec spec = {.low = low, .classes = classes};
    tcc_graph *typed = run_passes(g, "amp", &(tcc_pass_options){.amp = &spec});
    if (choice == 0) {
        double noise;
        const double got = loss_of(typed, inputs, &noise), of_inputs = 16 * (low == TCC_F16 ? 0x1p-11 : 0x1p-8);
        if (!(fabs(got - want) <= noise + of_inputs * (1 + fabs(want))))
            fail_msg("%s: %g instead of %g; rounding explains %g", tcc_dtype_text(low), got, want, noise);
    }
    tcc_graph_destroy(typed);
}

static void check(const tcc_graph *g, tcc_value *inputs) {
    double ignored;
    const double want = loss_of(g, inputs, &ignored);
    for (int choice = 0; choice < (int)(sizeof all / sizeof *all); choice++) {
        check_class(g, inputs, want, TCC_BF16, choice);
        check_class(g, inputs, want, TCC_F16, choice);
    }
}

int main(void) {
    return gradient_cases_run(TCC_F32, FIRST_ORDER, check) + gradient_cases_run(TCC_F32, SECOND_ORDER, check);
}
