/* SPDX-License-Identifier: MIT
 * Runs that must give the same bits: again with the same seed, on another number of threads, stopped and resumed, from
 * their own first weights. All with dropout and shuffling. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/patience.h"
#include "harness/program.h"
#include "harness/same_run.h"
#include "harness/train_data.h"
#include "traincc/checkpoint.h"
#include "traincc/model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGUMENTS(...) \
    (const char *const[]) { __VA_ARGS__, NULL }

static void train(const program_options *options, const char *const *arguments) {
    program_result r = program_run(options, "tcc-train", arguments);
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
}

static void same_run(void **state, const char *a, const char *b) {
    same_file(state, a, b, "checkpoints/step-000020.safetensors");
    same_file(state, a, b, "checkpoints/step-000020.state.safetensors");
    same_metrics(state, a, b);
}

/* 20 steps at once; again with other threads and workers; 10 steps and 10 more; and from the weights of step 0. */
static void check_model(void **state, const char *model) {
    const char *recipe = write_recipe(state, model), *first = test_path(state, "first");
    const program_options one = {.environment = "TCC_NUM_THREADS=1"}, two = {.environment = "TCC_NUM_THREADS=2"};
    train(&one, ARGUMENTS("--quiet", recipe, "--run-dir", first, "data.num_workers=0"));
    train(&two, ARGUMENTS("--quiet", recipe, "--run-dir", test_path(state, "again"), "data.num_workers=2"));
    same_run(state, "first", "again");

    const char *resumed = test_path(state, "resumed");
    train(&two, ARGUMENTS("--quiet", recipe, "--run-dir", resumed, "training.max_steps=10", "data.num_workers=2"));
    train(&one, ARGUMENTS("--quiet", recipe, "--run-dir", resumed, "--resume", "data.num_workers=0"));
    same_run(state, "first", "resumed");

    char weights[4200];
    snprintf(weights, sizeof weights, "init_from=%s/checkpoints/step-000000.safetensors", first);
    train(&two, ARGUMENTS("--quiet", recipe, "--run-dir", test_path(state, "from_weights"), weights));
    same_run(state, "first", "from_weights");
}

static void gpt(void **state) { check_model(state, "gpt"); }
static void cnn(void **state) { check_model(state, "cnn"); }
static void mlp(void **state) { check_model(state, "mlp"); }

/* With groups of parameters; its first steps are skipped: the scale of the loss is too high for f16. */
static void lion(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *whole = test_path(state, "first"),
               *resumed = test_path(state, "resumed");
#define LION                                                                                                       \
    "optimizer.name=lion", "training.mixed_precision=fp16", "training.loss_scale=16777216",                        \
        "optimizer.groups=[{match: \"*.bias\", lr_scale: 0.5, betas: [0.5, 0.9]}, {match: \"*1.weight\", frozen: " \
        "true}]"
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", whole, LION));
    char *metrics = test_read(test_path(state, "first/metrics.jsonl"), NULL);
    assert_non_null(strstr(metrics, "\"skipped_steps\":1"));
    free(metrics);
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", resumed, LION, "training.max_steps=10"));
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", resumed, LION, "--resume"));
    same_run(state, "first", "resumed");
#undef LION
}

/* More steps in all than may be skipped in a row: the scale grows every second step. */
static void many_skipped(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *whole = test_path(state, "first"),
               *resumed = test_path(state, "resumed");
#define SKIPS "training.mixed_precision=fp16", "training.loss_scale=16777216", "training.loss_scale_interval=2"
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", whole, SKIPS, "training.max_steps=140"));
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", resumed, SKIPS, "training.max_steps=130"));
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", resumed, SKIPS, "training.max_steps=140", "--resume"));
    same_file(state, "first", "resumed", "checkpoints/step-000140.safetensors");
    same_file(state, "first", "resumed", "checkpoints/step-000140.state.safetensors");
    char *metrics = test_read(test_path(state, "first/metrics.jsonl"), NULL);
    const char *skipped = NULL;
    for (const char *at = metrics; (at = strstr(at, "\"skipped_steps\":")); at++) skipped = at;
    if (!skipped || atoi(skipped + strlen("\"skipped_steps\":")) <= 30) fail_msg("too few were skipped: %s", metrics);
    free(metrics);
#undef SKIPS
}

/* Whose states have other shapes than the parameters. */
static void adafactor(void **state) {
    const char *recipe = write_recipe(state, "cnn"), *whole = test_path(state, "first"),
               *resumed = test_path(state, "resumed");
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", whole, "optimizer.name=adafactor"));
    train(NULL,
          ARGUMENTS("--quiet", recipe, "--run-dir", resumed, "optimizer.name=adafactor", "training.max_steps=10"));
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", resumed, "optimizer.name=adafactor", "--resume"));
    same_run(state, "first", "resumed");
}

/* In the middle of a cycle, of the rate and of the momentum, which begins at 0 otherwise; with averages of the
 * parameters, which a run is evaluated with on the way. */
static void one_cycle(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *whole = test_path(state, "first"),
               *parts = test_path(state, "resumed");
#define ONE_CYCLE                                                                                      \
    "optimizer.name=sgd", "schedule.name=one_cycle", "schedule.steps=20", "schedule.three_phase=true", \
        "training.ema_decay=0.9", "training.ema_warmup=true", "training.eval_every=3"
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", whole, ONE_CYCLE));
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", parts, ONE_CYCLE, "training.max_steps=7"));
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", parts, ONE_CYCLE, "--resume"));
    same_run(state, "first", "resumed");
    size_t size;
    char *bytes = test_read(test_path(state, "first/checkpoints/step-000020.state.safetensors"), &size);
    assert_non_null(memmem(bytes, size, ".ema\"", 5));
    free(bytes);
#undef ONE_CYCLE
}

/* A first line of metrics says that a step was done. */
static bool has_logged(void *metrics) {
    struct stat logged;
    return !stat(metrics, &logged) && logged.st_size;
}

/* Whether the process has a handler for both signals that interrupt it. */
static bool is_ready(void *process) {
    const program_process *p = process;
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)p->pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "SigCgt: %llx", &caught);
    if (f) fclose(f);
    return caught >> (SIGINT - 1) & caught >> (SIGTERM - 1) & 1;
}

/* Interrupted in the middle, at a step that chance chooses. */
static void interrupted_by(void **state, int signal) {
    const char *recipe = write_recipe(state, "gpt"), *run = test_path(state, "run"),
               *metrics = test_path(state, "run/metrics.jsonl");
    const char *const arguments[] = {recipe, "--run-dir", run, "training.max_steps=1000000", "training.eval_every=0",
                                     NULL};
    program_process p = program_start(NULL, "tcc-train", arguments);
    assert_true(test_wait(has_logged, (void *)metrics, 60));
    usleep(50000);
    kill(p.pid, signal);
    program_result r = program_wait(&p);
    assert_int_equal(r.status, 130);
    const char *said = strstr(r.err, "interrupted at step ");
    assert_non_null(said);
    assert_non_null(strstr(r.err, "; saved; go on with --resume"));
    long step = strtol(said + strlen("interrupted at step "), NULL, 10);
    program_free(&r);
    assert_true(step > 0);
    char name[64], last[64];
    snprintf(name, sizeof name, "run/checkpoints/step-%06ld.safetensors", step);
    assert_true(test_exists(test_path(state, name)));

    snprintf(last, sizeof last, "training.max_steps=%ld", step + 5);
    train(NULL, ARGUMENTS(recipe, "--run-dir", run, "--resume", last, "training.eval_every=0"));
    train(NULL, ARGUMENTS(recipe, "--run-dir", test_path(state, "whole"), last, "training.eval_every=0"));
    snprintf(name, sizeof name, "checkpoints/step-%06ld.safetensors", step + 5);
    same_file(state, "run", "whole", name);
}

static void interrupted(void **state) { interrupted_by(state, SIGINT); }
static void terminal_closed(void **state) { interrupted_by(state, SIGHUP); }

/* The reader of its lines ends, as a pager or a connection does. */
static void reader_gone(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    char command[4200];
    snprintf(command, sizeof command,
             TCC_BIN_DIR "/tcc-train '%s' --run-dir '%s' training.max_steps=1000000 training.eval_every=0 | head -n 9 "
                         ">'%s/said'; exit 0",
             recipe, run, (char *)*state);
    program_result r = program_run(NULL, "/bin/sh", ARGUMENTS("-c", command));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "; saved; go on with --resume"));
    program_free(&r);
    r = program_run(NULL, "tcc-train",
                    ARGUMENTS(recipe, "--run-dir", run, "--resume", "training.max_steps=1000000", "--dry-run"));
    assert_int_equal(r.status, 0);
    program_free(&r);
}

/* While compiling there is nothing to save: the program ends at once, whether it would have trained or not. */
static void interrupted_while_compiling(void **state) {
    const char *recipe = write_recipe(state, "gpt");
    for (int dry = 0; dry < 2; dry++) {
        const char *const arguments[] = {
            recipe, "--run-dir", test_path(state, "run"), "model.layers=400", dry ? "--dry-run" : "data.shuffle=true",
            NULL};
        program_process p = program_start(NULL, "tcc-train", arguments);
        assert_true(test_wait(is_ready, &p, 20));
        usleep(50000);
        kill(p.pid, dry ? SIGTERM : SIGINT);
        program_result r = program_wait(&p);
        assert_int_equal(r.status, 130);
        assert_string_equal(r.err, "tcc-train: interrupted before the first step\n");
        assert_null(strstr(r.out, "compiled in"));
        program_free(&r);
        assert_false(test_exists(test_path(state, "run")));
    }
}

static void keeps_the_newest_and_the_best(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run, "training.save_every=2", "training.eval_every=1"));
    for (int step = 0; step <= 20; step += 2) {
        char name[64];
        snprintf(name, sizeof name, "run/checkpoints/step-%06d.safetensors", step);
        const bool there = test_exists(test_path(state, name));
        snprintf(name, sizeof name, "run/checkpoints/step-%06d.state.safetensors", step);
        assert_true(there == (step == 0 || step >= 16) && there == test_exists(test_path(state, name)));
    }
    /* The best has the accuracy that the metrics say was the highest, from the first step that had it. */
    char *metrics = test_read(test_path(state, "run/metrics.jsonl"), NULL);
    double highest = -1;
    long best_step = -1;
    for (const char *line = metrics; *line; line = strchr(line, '\n') + 1) {
        const char *key = strstr(line, "\"val_accuracy\":");
        if (!key || key > strchr(line, '\n') || strtod(key + 15, NULL) <= highest) continue;
        highest = strtod(key + 15, NULL);
        best_step = strtol(line + strlen("{\"step\":"), NULL, 10);
    }
    free(metrics);
    tcc_context *cx;
    tcc_safetensors *best;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_safetensors_open(cx, test_path(state, "run/checkpoints/best.safetensors"), &best) != TCC_OK)
        fail_msg("%s", tcc_context_error(cx));
    assert_true(strtod(tcc_safetensors_metadata(best, "val_accuracy"), NULL) == highest);
    assert_int_equal(strtol(tcc_safetensors_metadata(best, "traincc.step"), NULL, 10), best_step);
    tcc_safetensors_close(best);
    tcc_context_destroy(cx);
    /* Another run there begins without it. */
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run, "training.keep_last=0", "training.save_every=2",
                          "training.eval_every=0", "data.val_split=0"));
    assert_true(test_exists(test_path(state, "run/earlier-1/checkpoints/best.safetensors")));
    assert_false(test_exists(test_path(state, "run/checkpoints/best.safetensors")));
    assert_true(test_exists(test_path(state, "run/checkpoints/step-000002.safetensors")));
}

/* A checkpoint of a version that did not count updates: the same without the count. */
static void forget_updates(void **state, const char *from, const char *to) {
    static const char *const keys[] = {"loader.seed", "loader.epoch", "loader.index"};
    tcc_context *cx;
    tcc_checkpoint *c;
    tcc_array arrays[2][64];
    tcc_pair values[3];
    int counts[2] = {0};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_checkpoint_open(cx, from, &c) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    const tcc_safetensors *const files[2] = {tcc_checkpoint_params(c), tcc_checkpoint_state(c)};
    for (int f = 0; f < 2; f++)
        for (int i = 0; i < tcc_safetensors_count(files[f]); i++) {
            const tcc_array a = tcc_safetensors_get(files[f], i);
            if (!strcmp(a.name, TCC_STEP_STATE)) continue;
            assert_true(counts[f] < 64);
            arrays[f][counts[f]++] = a;
        }
    assert_int_equal(counts[1], tcc_safetensors_count(files[1]) - 1);
    for (int i = 0; i < 3; i++) values[i] = (tcc_pair){keys[i], tcc_checkpoint_value(c, keys[i])};
    const tcc_checkpoint_contents contents = {.size = sizeof contents,
                                              .step = tcc_checkpoint_step(c),
                                              .params = arrays[0],
                                              .n_params = counts[0],
                                              .state = arrays[1],
                                              .n_state = counts[1],
                                              .values = values,
                                              .n_values = 3};
    assert_int_equal(mkdir(test_path(state, "before"), 0777), 0);
    if (tcc_checkpoint_save(cx, to, &contents) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    tcc_checkpoint_close(c);
    tcc_context_destroy(cx);
}

/* It is resumed with as many updates as it has steps. */
static void from_before_updates_were_counted(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "before");
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", test_path(state, "first")));
    forget_updates(state, test_path(state, "first/checkpoints/step-000010.safetensors"),
                   test_path(state, "before/checkpoints"));
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run, "--resume",
                          test_path(state, "before/checkpoints/step-000010.safetensors")));
    same_file(state, "first", "before", "checkpoints/step-000020.safetensors");
    same_file(state, "first", "before", "checkpoints/step-000020.state.safetensors");
}

/* A shorter run in the folder of a longer one is not resumed from the longer one's checkpoints. */
static void folders_are_not_mixed(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    train(NULL, ARGUMENTS(recipe, "--run-dir", run));
    program_result r = program_run(NULL, "tcc-train", ARGUMENTS(recipe, "--run-dir", run, "training.max_steps=10"));
    assert_non_null(strstr(r.out, "held an earlier run; its files are now in"));
    assert_int_equal(r.status, 0);
    program_free(&r);
    assert_true(test_exists(test_path(state, "run/earlier-1/checkpoints/step-000020.safetensors")));
    assert_true(test_exists(test_path(state, "run/earlier-1/metrics.jsonl")));
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000020.safetensors")));
    r = program_run(NULL, "tcc-train", ARGUMENTS(recipe, "--run-dir", run, "--resume"));
    assert_non_null(strstr(r.out, "step-000010.safetensors, step 10"));
    program_free(&r);
    same_run(state, "run", "run/earlier-1");

    /* Going back to an earlier checkpoint moves the later ones away. */
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run, "--resume",
                          test_path(state, "run/checkpoints/step-000010.safetensors"), "training.max_steps=12"));
    assert_true(test_exists(test_path(state, "run/earlier-2/checkpoints/step-000020.state.safetensors")));
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000020.state.safetensors")));
    assert_true(test_exists(test_path(state, "run/checkpoints/step-000012.safetensors")));
}

static long step_of_best(void **state, const char *name) {
    tcc_context *cx;
    tcc_safetensors *best;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_safetensors_open(cx, test_path(state, name), &best) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    const long step = strtol(tcc_safetensors_metadata(best, "traincc.step"), NULL, 10);
    tcc_safetensors_close(best);
    tcc_context_destroy(cx);
    return step;
}

/* Back at an earlier checkpoint a run has the best, and the metrics, that it had there; what came later is kept beside.
 */
static void the_best_of_a_branch(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
#define EACH "training.save_every=4", "training.eval_every=4", "training.keep_last=0", "training.best_metric=loss"
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run, EACH));
    assert_int_equal(step_of_best(state, "run/checkpoints/best.safetensors"), 20);
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run, EACH, "training.max_steps=12", "optimizer.lr=1e-12",
                          "--resume", test_path(state, "run/checkpoints/step-000008.safetensors")));
    assert_int_equal(step_of_best(state, "run/earlier-1/checkpoints/best.safetensors"), 20);
    assert_true(test_exists(test_path(state, "run/earlier-1/checkpoints/step-000012.best.safetensors")));
    assert_in_range(step_of_best(state, "run/checkpoints/best.safetensors"), 8, 12);
    char *kept = test_read(test_path(state, "run/metrics.jsonl"), NULL),
         *aside = test_read(test_path(state, "run/earlier-1/metrics.jsonl"), NULL);
    assert_null(strstr(kept, "{\"step\":13,"));
    assert_non_null(strstr(aside, "{\"step\":13,"));
    assert_null(strstr(aside, "{\"step\":7,"));
    free(kept);
    free(aside);
#undef EACH
}

/* What a killed run left is gone, and a recipe that cannot be written is not lost. */
static void left_over(void **state) {
    static const char *const names[] = {
        "run/checkpoints/step-000003.state.safetensors", "run/checkpoints/step-000004.best.safetensors",
        "run/checkpoints/step-000004.safetensors.tmp", "run/checkpoints/best.safetensors.tmp", "run/recipe.yaml.tmp"};
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run));
    for (int i = 0; i < 5; i++) test_write_text(state, names[i], "half");
    test_write_text(state, "run/checkpoints/notes.tmp", "mine");
    const program_options full = {.file_limit_bytes = 512};
    char *before = test_read(test_path(state, "run/recipe.yaml"), NULL);
    program_result r = program_run(&full, "tcc-train",
                                   ARGUMENTS("--quiet", recipe, "--run-dir", run, "--resume", "training.max_steps=22"));
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "recipe.yaml: error: writing failed: File too large; the file was left as it was"));
    program_free(&r);
    char *after = test_read(test_path(state, "run/recipe.yaml"), NULL);
    assert_string_equal(after, before);
    free(before);
    free(after);
    train(NULL, ARGUMENTS("--quiet", recipe, "--run-dir", run, "--resume", "training.max_steps=22"));
    for (int i = 0; i < 5; i++)
        if (test_exists(test_path(state, names[i]))) fail_msg("%s is still there", names[i]);
    assert_true(test_exists(test_path(state, "run/checkpoints/notes.tmp")));
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(gpt),
                                       FOLDER_TEST(cnn),
                                       FOLDER_TEST(mlp),
                                       FOLDER_TEST(lion),
                                       FOLDER_TEST(many_skipped),
                                       FOLDER_TEST(adafactor),
                                       FOLDER_TEST(one_cycle),
                                       FOLDER_TEST(interrupted),
                                       FOLDER_TEST(terminal_closed),
                                       FOLDER_TEST(reader_gone),
                                       FOLDER_TEST(interrupted_while_compiling),
                                       FOLDER_TEST(keeps_the_newest_and_the_best),
                                       FOLDER_TEST(from_before_updates_were_counted),
                                       FOLDER_TEST(the_best_of_a_branch),
                                       FOLDER_TEST(left_over),
                                       FOLDER_TEST(folders_are_not_mixed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
