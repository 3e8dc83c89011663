/* SPDX-License-Identifier: MIT
 * Training steps of random graphs: losses, gradients and updated parameters of the compiled step are the interpreter's.
 * TCC_TEST_COUNT chooses how many. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "harness/compiled.h"
#include "harness/passes.h"
#include "harness/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 40 };

/* Rounding errors of gradients are not bounded by the generator; relative to 1 + |value|. */
#define TOLERANCE 2e-3

static const char *compare(const tcc_graph *g, const tcc_value *expected, const compiled *c, int i) {
    static char text[512];
    const tcc_output *o = &g->outputs.data[i];
    tcc_value got;
    const char *wrong = NULL;
    assert_int_equal(tcc_value_create(&o->node->type, &got, NULL), TCC_OK);
    tcc_value_load(&got, compiled_output(c, i));
    for (int64_t k = 0; k < tcc_type_numel(&got.type) && !wrong; k++) {
        if (fabs(got.f[k] - expected->f[k]) <= TOLERANCE * (1 + fabs(expected->f[k]))) continue;
        snprintf(text, sizeof text, "output %s, element %lld: %.9g instead of %.9g", o->name, (long long)k, got.f[k],
                 expected->f[k]);
        wrong = text;
    }
    tcc_value_free(&got);
    return wrong;
}

static bool check(const random_case *r, uint64_t seed, const tcc_pass_options *options) {
    tcc_diag diag = {0};
    tcc_graph *step = run_passes(r->graph, "simplify,autodiff,train-step", options);
    tcc_value *inputs = random_case_inputs(r, step), *outputs = calloc((size_t)step->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(step, inputs, outputs, &diag), &diag);
    const char *wrong = NULL;
    for (int eager = 0; eager < 2 && !wrong; eager++) {
        compiled *c = compiled_create(step, &(compiled_options){.eager = eager, .simplify = !eager});
        for (int i = 0; i < step->inputs.count; i++) value_store(&inputs[i], c->memory[i]);
        compiled_run(c);
        for (int i = 0; i < step->outputs.count && !wrong; i++) wrong = compare(step, &outputs[i], c, i);
        if (wrong) print_error("%s: %s; %s\n", eager ? "eager" : "fused", wrong, random_case_write(r, seed));
        compiled_destroy(c);
    }
    random_case_free(inputs, step->inputs.count);
    random_case_free(outputs, step->outputs.count);
    tcc_graph_destroy(step);
    return !wrong;
}

static void run(const tcc_pass_options *options, uint64_t first_seed) {
    const char *count = getenv("TCC_TEST_COUNT");
    const uint64_t end = first_seed + (count ? strtoull(count, NULL, 10) : SEEDS);
    int failed = 0;
    for (uint64_t seed = first_seed; seed < end; seed++) {
        random_case *r = random_case_create(
            &(tcc_random_options){.differentiable = true, .max_elements = 800, .nodes = 15 + (int)(seed % 25)}, seed);
        failed += !check(r, seed, options);
        random_case_destroy(r);
    }
    assert_int_equal(failed, 0);
}

static void test_sgd(void **state) {
    (void)state;
    run(&(tcc_pass_options){.train = true,
                            .spec = {.optimizer = TCC_SGD, .momentum = true, .n_groups = 1, .keep_gradients = true}},
        0);
}

static void test_adamw(void **state) {
    (void)state;
    run(&(tcc_pass_options){.train = true, .spec = {.optimizer = TCC_ADAMW, .clip_norm = true, .n_groups = 1}}, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sgd), cmocka_unit_test(test_adamw)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
