/* SPDX-License-Identifier: MIT
 * data.batch_size: auto takes the largest batch that fits, says so, and keeps it. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

static double number_after(const char *text, const char *words) {
    const char *at = strstr(text, words);
    if (!at) fail_msg("\"%s\" is not in:\n%s", words, text);
    return strtod(at + strlen(words), NULL);
}

static void expect_error(program_result r, int status, const char *says) {
    if (r.status != status || !strstr(r.err, says))
        fail_msg("exit status %d, not %d, or not \"%s\":\n%s%s", r.status, status, says, r.out, r.err);
    program_free(&r);
}

/* What a run with this batch takes, of all its programs. */
static double peak_mib(void **state, const char *recipe, int batch, const char *parts) {
    char size[64];
    snprintf(size, sizeof size, "data.batch_size=%d", batch);
    char *out =
        program_output(RUN(recipe, "--run-dir", test_path(state, "given"), size, parts, "training.max_steps=1"));
    const double peak = number_after(out, "peak memory ");
    free(out);
    return peak;
}

static void check_largest(void **state, const char *recipe, const char *budget, double mib, const char *parts) {
    char *out = program_output(RUN(recipe, "--run-dir", test_path(state, "run"), "data.batch_size=auto", budget, parts,
                                   "training.max_steps=1"));
    const int batch = (int)number_after(out, "batch size "), plans = (int)number_after(out, ", by ");
    assert_true(batch >= 2 && plans <= 10 && (batch < 16 || batch % 8 == 0));
    assert_true(number_after(out, "peak memory ") <= mib);
    char *resolved = test_read(test_path(state, "run/recipe.yaml"), NULL);
    assert_int_equal((int)number_after(resolved, "batch_size: "), batch);
    free(resolved);
    assert_true(peak_mib(state, recipe, batch + (batch < 16 ? 1 : 8), parts) > mib);
    free(out);
}

static void takes_the_largest(void **state) {
    const char *gpt = write_recipe(state, "gpt"), *one = "training.batch_accumulate=1";
    check_largest(state, gpt, "training.memory_budget=1MiB", 1, one);
    check_largest(state, gpt, "training.memory_budget=3MiB", 3, one);
    check_largest(state, gpt, "training.memory_budget=2MiB", 2, "training.batch_accumulate=2");
    check_largest(state, write_recipe(state, "cnn"), "training.memory_budget=20MiB", 20, one);
}

static void all_of_the_data(void **state) {
    char *out = program_output(RUN(write_recipe(state, "mlp"), "--dry-run", "data.batch_size=auto"));
    assert_int_equal((int)number_after(out, "batch size "), 160);
    assert_non_null(strstr(out, "nine tenths of what is free; it is all of the data"));
    free(out);
}

/* With the number of its checkpoint, whatever memory there is now. */
static void resumes(void **state) {
    const char *recipe = write_recipe(state, "gpt"), *run = test_path(state, "run");
    free(program_output(
        RUN(recipe, "--run-dir", run, "data.batch_size=auto", "training.memory_budget=1MiB", "training.max_steps=10")));
    char *before = test_read(test_path(state, "run/recipe.yaml"), NULL);
    char *out = program_output(RUN(recipe, "--run-dir", run, "data.batch_size=auto", "training.memory_budget=none",
                                   "--resume", "training.max_steps=12"));
    char *after = test_read(test_path(state, "run/recipe.yaml"), NULL);
    assert_non_null(strstr(out, "resumed from"));
    assert_null(strstr(out, "batch size "));
    assert_int_equal((int)number_after(before, "batch_size: "), (int)number_after(after, "batch_size: "));
    free(before);
    free(after);
    free(out);
}

/* Compiling takes address space, too, which no plan knows: what then fits is taken. */
static void under_a_limit(void **state) {
    if (!program_takes_memory_limit()) skip();
    const program_options limited = {.memory_limit_bytes = 420L << 20, .environment = "TCC_CACHE_DISABLE=1"};
    const char *const arguments[] = {write_recipe(state, "gpt"), "--run-dir",
                                     test_path(state, "run"),    "data.batch_size=auto",
                                     "training.max_steps=1",     "training.eval_every=0",
                                     "data.val_split=0",         NULL};
    char *out = program_output(program_run(&limited, "tcc-train", arguments));
    assert_in_range((int)number_after(out, "batch size "), 64, 1 << 20);
    free(out);
}

static void refuses(void **state) {
    const char *recipe = write_recipe(state, "gpt");
    expect_error(RUN(recipe, "data.batch_size=0"), 2, "data.batch_size");
    expect_error(RUN(recipe, "data.batch_size=most"), 2, "data.batch_size");
    expect_error(RUN(recipe, "--dry-run", "--arch", "sm_90", "data.batch_size=auto"), 1,
                 "nothing says how much memory there is; give training.memory_budget in bytes");
    expect_error(RUN(recipe, "--dry-run", "data.batch_size=auto", "training.memory_budget=1kB"), 1, "memory");
    char *out = program_output(RUN(recipe, "--dry-run", "--arch", "sm_90", "data.batch_size=auto",
                                   "training.memory_budget=4MiB", "training.compile_mode=max-autotune"));
    assert_true(number_after(out, "batch size ") >= 2 && number_after(out, "peak memory ") <= 4);
    free(out);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(takes_the_largest), FOLDER_TEST(all_of_the_data),
                                       FOLDER_TEST(resumes), FOLDER_TEST(under_a_limit), FOLDER_TEST(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
