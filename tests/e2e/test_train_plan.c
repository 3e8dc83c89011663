/* SPDX-License-Identifier: MIT
 * tcc-train with plans: a run from a plan is the run of its recipe, and asks for nothing that the plan has not. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

static void check_status(program_result r, int status, const char *says) {
    if (r.status != status || !strstr(status ? r.err : r.out, says))
        fail_msg("exit status %d, not %d, or not \"%s\":\n%s%s", r.status, status, says, r.out, r.err);
    program_free(&r);
}

static void trains_from_a_plan(void **state, const char *model) {
    const char *recipe = write_recipe(state, model), *plan = test_path(state, "a.plan");
    const char *first = test_path(state, "first"), *second = test_path(state, "second");
    size_t size, size_again;
    check_status(RUN(recipe, "--save-plan", plan, "--run-dir", first, "training.max_steps=6"), 0, "step ");
    check_status(RUN("--plan", plan, "--run-dir", second), 0, "step ");
    char *weights = test_read(test_path(state, "first/checkpoints/step-000006.safetensors"), &size);
    char *again = test_read(test_path(state, "second/checkpoints/step-000006.safetensors"), &size_again);
    assert_int_equal(size, size_again);
    assert_memory_equal(weights, again, size);
    free(weights);
    free(again);
}

static void gpt_from_a_plan(void **state) { trains_from_a_plan(state, "gpt"); }
static void cnn_from_a_plan(void **state) { trains_from_a_plan(state, "cnn"); }

static void what_a_plan_leaves_open(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *plan = test_path(state, "a.plan");
    const char *run = test_path(state, "run");
    check_status(RUN(recipe, "--save-plan", plan, "--dry-run"), 0, "compiled in ");
    check_status(RUN("--plan", plan, "--dry-run"), 0, "peak memory");
    check_status(RUN("--plan", plan, "--run-dir", run, "training.max_steps=2", "optimizer.lr=0.5"), 0, "step 1/2");
    check_status(RUN("--plan", plan, "data.batch_size=3"), 2, "the plan ");
    check_status(RUN("--plan", plan, recipe), 2, "has its recipe; only key.path=value may follow");
    check_status(RUN("--plan", plan, "--verify"), 2, "--plan: its programs are made");
    check_status(RUN("--plan", recipe), 2, "not a training plan");
    check_status(RUN("--plan", test_path(state, "none.plan")), 2, "none.plan");
    check_status(RUN(recipe, "--save-plan", test_path(state, "gpu.plan"), "--dry-run", "--arch", "sm_80"), 0, "steps");
    check_status(RUN("--plan", test_path(state, "gpu.plan"), "--device", "cpu"), 1, "was not made for device 'cpu'");
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(gpt_from_a_plan), FOLDER_TEST(cnn_from_a_plan),
                                       FOLDER_TEST(what_a_plan_leaves_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
