/* SPDX-License-Identifier: MIT
 * Ranks that are not alike: each is told what differs, before the first step. And what rank 0 alone does: it compiles,
 * with its cache, and it writes, until the disk is full. */
#include "harness/apart.h"
#include "harness/check.h"
#include "harness/files.h"
#include "harness/same_run.h"
#include "harness/train_data.h"
#include "ir/support/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

extern const char tcc__compiler_sources[]; /* by which versions are told apart */

/* Both ranks end with an error, and the first says this. */
static void expect_difference(void **state, const apart *second, const char *said) {
    program_process ranks[2];
    start_apart(state, write_recipe(state, "mlp"), "run", second, ranks);
    for (int r = 0; r < 2; r++) {
        program_result ended = program_wait(&ranks[r]);
        if (ended.status != 1) fail_msg("rank %d ended with %d: %s", r, ended.status, ended.err);
        if (!r && !strstr(ended.err, said)) fail_msg("said: %s", ended.err);
        program_free(&ended);
    }
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000000.safetensors")));
}

/* tcc-train, in which `text` is one of another version. */
static const char *other_program(void **state, const char *text) {
    char path[4200];
    size_t size, length = strlen(text);
    snprintf(path, sizeof path, "%s/tcc-train", TCC_BIN_DIR);
    char *bytes = test_read(path, &size), *at = bytes;
    while ((at = memmem(at, size - (size_t)(at - bytes), text, length))) {
        if (!at[length] && !strchr("0123456789.", at[-1] ? at[-1] : ' ')) at[length - 1] ^= 1;
        at += length;
    }
    const char *other = test_write(state, "tcc-train", bytes, size);
    assert_int_equal(chmod(other, 0755), 0);
    free(bytes);
    return other;
}

static void versions(void **state) {
    expect_difference(state, &(apart){.program = other_program(state, TCC_VERSION)},
                      "rank 1 has another version of "); /* of the program, or of the library in it */
}

static void sources(void **state) {
    expect_difference(state, &(apart){.program = other_program(state, tcc__compiler_sources)},
                      "rank 1 has another version of TrainCC than rank 0: " TCC_VERSION " ");
}

static void recipes(void **state) {
    expect_difference(state, &(apart){.given = "model.dropout=0.2"}, "rank 1 has another recipe than rank 0");
}

/* As many samples, in a file of the same name, of which one has another value. */
static void data(void **state) {
    char *text = test_read(write_csv_data(state), NULL), *digit = strpbrk(strchr(text, '\n'), "12345678"), given[4200];
    ++*digit;
    snprintf(given, sizeof given, "data.path=%s", test_write_text(state, "other/table.csv", text));
    free(text);
    expect_difference(state, &(apart){.given = given}, "rank 1 has other training data than rank 0");
}

static void processors(void **state) {
    const char *level = tcc_cpu_level();
    if (!level || !strcmp(level, "x86-64-v2")) skip();
    char said[128];
    snprintf(said, sizeof said, "rank 1 has another processor than rank 0: x86-64-v2, cpu x86-64-v2, and %s, cpu ",
             level);
    expect_difference(state, &(apart){.environment = "TCC_CPU=x86-64-v2"}, said);
}

/* A folder of its own for what the second rank compiles stays empty: it compiles nothing. */
static void rank_0_alone_compiles(void **state) {
    const char *cache = test_path(state, "cache");
    char environment[4200];
    snprintf(environment, sizeof environment, "TCC_CACHE_DIR=%s", cache);
    program_process ranks[2];
    start_apart(state, write_recipe(state, "mlp"), "run", &(apart){.environment = environment}, ranks);
    free(program_output(program_wait(&ranks[0])));
    free(program_output(program_wait(&ranks[1])));
    const program_options own = {.environment = environment};
    char *said = program_output(program_run(&own, "tcc-train", (const char *const[]){"cache", "list", NULL}));
    if (strstr(said, "program")) fail_msg("rank 1 has compiled: %s", said);
    free(said);
}

/* A limit on the size of files is the full disk that a test can have. */
static void disks(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
#define ARGUMENTS(run, ...)                                                                                   \
    (const char *const[]) {                                                                                   \
        "--device", "cpu", "--quiet", "--ranks", "2", recipe, "model.hidden=[2000]", "training.eval_every=0", \
            "--run-dir", run, __VA_ARGS__, NULL                                                               \
    }
    const program_options full = {.file_limit_bytes = 20000};
    free(program_output(program_run(NULL, "tcc-train", ARGUMENTS(run, "training.max_steps=10"))));
    program_result r = program_run(&full, "tcc-train", ARGUMENTS(run, "--resume"));
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "File too large; the file was left as it was"));
    assert_non_null(strstr(r.err, "the last checkpoint is of step 10 in"));
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000020.safetensors")));
    program_free(&r);
    char *log = test_read(test_path(state, "run/rank-1.log"), NULL); /* it had nothing more to do, or heard of it */
    if (*log) assert_non_null(strstr(log, "File too large"));
    free(log);
    free(program_output(program_run(NULL, "tcc-train", ARGUMENTS(run, "--resume"))));
    free(program_output(program_run(NULL, "tcc-train", ARGUMENTS(test_path(state, "whole"), "--quiet"))));
    same_file(state, "whole", "run", "checkpoints/step-000020.safetensors");
#undef ARGUMENTS
}

int main(void) {
    setenv("TCC_CACHE_DISABLE", "0", 1);
    const struct CMUnitTest tests[] = {FOLDER_TEST(versions),   FOLDER_TEST(sources),
                                       FOLDER_TEST(recipes),    FOLDER_TEST(data),
                                       FOLDER_TEST(processors), FOLDER_TEST(rank_0_alone_compiles),
                                       FOLDER_TEST(disks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
