/* SPDX-License-Identifier: MIT
 * Every pass keeps the meaning of random graphs, and running it again changes nothing more. */
#include "harness/check.h"
#include "harness/passes.h"
#include "harness/random.h"

#include "harness/plan_check.h"

#include <stdlib.h>

enum { SEEDS = 300 };

/* A folded constant is rounded to its element type, which the interpreter would not do in between; else only the order
 * of sums and products in double precision changes. */
#define TOLERANCE 2e-5

static void check(random_case *c, uint64_t seed, const char *passes, const char *again) {
    tcc_graph *after = run_passes(c->graph, passes, NULL);
    const char *wrong = random_case_compare(c, after, TOLERANCE);
    if (wrong) fail_msg("%s after %s; %s", wrong, passes, random_case_write(c, seed));
    if (again) {
        tcc_graph *twice = run_passes(after, again, NULL);
        if (!tcc_graph_equal(after, twice)) fail_msg("%s changes what it made; %s", again, random_case_write(c, seed));
        tcc_graph_destroy(twice);
    }
    tcc_graph_destroy(after);
}

/* With the types of floats mixed only what moves no cast's rounding holds exactly, so these are all f32. */
static void run(const char *passes, const char *again) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        random_case *c = random_case_create(&(tcc_random_options){.max_elements = 600, .nodes = 20 + (int)(seed % 40)},
                                            seed);
        check(c, seed, passes, again);
        random_case_destroy(c);
    }
}

/* A definition may leave an operand without users, which the next pass drops. */
static void test_decompose(void **state) {
    (void)state;
    run("decompose", NULL);
    run("decompose,decompose", "decompose");
}

static void test_simplify(void **state) {
    (void)state;
    run("simplify", "simplify");
}

static void test_simplify_of_primitives(void **state) {
    (void)state;
    run("decompose,simplify", "simplify");
}

static void test_stages(void **state) {
    (void)state;
    run("decompose,simplify,stages", NULL);
}

static void test_layout(void **state) {
    (void)state;
    run("decompose,simplify,layout", NULL);
    run("decompose,simplify,layout,simplify", NULL);
}

/* The plan of whole pipelines is sound. */
static void test_plan(void **state) {
    (void)state;
    static const char *const pipelines[] = {"decompose,fuse,plan-memory",
                                            "decompose,simplify,layout,simplify,fuse,order,plan-memory"};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        random_case *c = random_case_create(&(tcc_random_options){.max_elements = 600, .nodes = 20 + (int)(seed % 40)},
                                            seed);
        for (int i = 0; i < 2; i++) {
            tcc_graph *after = run_passes(c->graph, pipelines[i], NULL);
            const char *wrong = random_case_compare(c, after, TOLERANCE);
            if (wrong) fail_msg("%s after %s; %s", wrong, pipelines[i], random_case_write(c, seed));
            assert_ok(check_plan(after, after->diag), after->diag);
            tcc_graph_destroy(after);
        }
        random_case_destroy(c);
    }
}

/* Gradients of the simplified graph are those of the graph. */
static void test_training_step(void **state) {
    (void)state;
    static const tcc_pass_options options = {.train = true,
                                             .spec = {.optimizer = TCC_SGD, .n_groups = 1, .keep_gradients = true}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        random_case *c =
            random_case_create(&(tcc_random_options){.differentiable = true, .max_elements = 300, .nodes = 30}, seed);
        tcc_graph *joint = run_passes(c->graph, "autodiff", &options);
        random_case whole = {
            .graph = joint, .inputs = c->inputs, .outputs = calloc((size_t)joint->outputs.count, sizeof(tcc_value))};
        assert_ok(tcc_graph_eval(joint, c->inputs, whole.outputs, &c->diag), &c->diag);
        tcc_graph *after = run_passes(c->graph, "simplify,autodiff,decompose,simplify,layout,simplify", &options);
        const char *wrong = random_case_compare(&whole, after, TOLERANCE);
        if (wrong) fail_msg("%s; %s", wrong, random_case_write(c, seed));
        for (int i = 0; i < joint->outputs.count; i++) tcc_value_free(&whole.outputs[i]);
        free(whole.outputs);
        tcc_graph_destroy(after);
        tcc_graph_destroy(joint);
        random_case_destroy(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decompose),
        cmocka_unit_test(test_simplify),
        cmocka_unit_test(test_simplify_of_primitives),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_training_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
