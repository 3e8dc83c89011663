/* SPDX-License-Identifier: MIT
 * What tcc-train writes and prints: the run's folder, the options that look inside, and that every recipe learns. */
#include "harness/check.h"
#include "harness/environment.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/sanitizer.h"
#include "harness/train_data.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ARGUMENTS(...) \
    (const char *const[]) { __VA_ARGS__, NULL }
#define TRAIN(...) train(ARGUMENTS(__VA_ARGS__))

static program_result train(const char *const *arguments) {
    program_result r = program_run(NULL, "tcc-train", arguments);
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    return r;
}

static void check_says(program_result r, const char *part) {
    if (!strstr(r.out, part)) fail_msg("this does not say \"%s\":\n%s", part, r.out);
    program_free(&r);
}

static void check_says_not(program_result r, const char *part) {
    if (strstr(r.out, part)) fail_msg("this says \"%s\":\n%s", part, r.out);
    program_free(&r);
}

static int count_entries(const char *folder, const char *part) {
    DIR *entries = opendir(folder);
    int count = 0;
    for (const struct dirent *e; entries && (e = readdir(entries));)
        count += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
    if (entries) closedir(entries);
    return count;
}

/* -- The run's folder -- */

static double number(const cJSON *line, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);
    if (!cJSON_IsNumber(item)) fail_msg("no number \"%s\" in %s", key, cJSON_PrintUnformatted(line));
    return item->valuedouble;
}

static bool has(const cJSON *line, const char *key) { return cJSON_HasObjectItem(line, key); }

/* The lines of metrics.jsonl as an array. */
static cJSON *read_metrics(void **state, const char *run) {
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text = test_read(test_path(state, path), NULL);
    cJSON *lines = cJSON_CreateArray();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *json = cJSON_Parse(line);
        if (!json) fail_msg("not JSON: %s", line);
        cJSON_AddItemToArray(lines, json);
    }
    free(text);
    return lines;
}

static void run_folder(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    program_result r = TRAIN("--run-dir", run, recipe);
    check_says(r, "step 0/20  loss ");
    assert_true(test_exists(test_path(state, "run/recipe.yaml")));
    for (int step = 0; step <= 20; step += 10) {
        char name[64];
        snprintf(name, sizeof name, "run/checkpoints/step-%06d.safetensors", step);
        assert_true(test_exists(test_path(state, name)));
        snprintf(name, sizeof name, "run/checkpoints/step-%06d.state.safetensors", step);
        assert_true(test_exists(test_path(state, name)));
    }
    assert_int_equal(count_entries(run, "events.out.tfevents."), 1);
    cJSON *lines = read_metrics(state, "run");
    const cJSON *line;
    int steps = 0, evaluations = 0;
    cJSON_ArrayForEach(line, lines) {
        if (has(line, "val_loss")) {
            assert_true(number(line, "step") == 10 * ++evaluations);
            assert_true(number(line, "val_loss") > 0 && number(line, "val_accuracy") >= 0 &&
                        number(line, "val_accuracy") <= 1);
            continue;
        }
        assert_true(number(line, "step") == steps++);
        assert_true(number(line, "loss") > 0 && number(line, "lr") == 3e-3 && number(line, "step_ms") > 0);
        assert_true(number(line, "samples_per_s") > 0 && number(line, "peak_bytes") > 1000);
    }
    assert_true(steps == 20 && evaluations == 2);
    cJSON_Delete(lines);

    /* The resolved recipe gives the same run. */
    r = TRAIN("--quiet", "--run-dir", test_path(state, "again"), test_path(state, "run/recipe.yaml"));
    program_free(&r);
    char *first = test_read(test_path(state, "run/recipe.yaml"), NULL),
         *again = test_read(test_path(state, "again/recipe.yaml"), NULL);
    assert_string_equal(first, again);
    free(first);
    free(again);
}

/* How often the event file of a run has these bytes. */
static int count_in_events(void **state, const char *run, const char *text) {
    char path[512];
    int count = 0;
    DIR *folder = opendir(test_path(state, run));
    assert_non_null(folder);
    for (const struct dirent *e; (e = readdir(folder));) {
        if (!strstr(e->d_name, ".tfevents.")) continue;
        snprintf(path, sizeof path, "%s/%s", run, e->d_name);
        size_t size;
        char *bytes = test_read(test_path(state, path), &size);
        for (const char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), text, strlen(text))); at++) count++;
        free(bytes);
    }
    closedir(folder);
    return count;
}

static double loss_of_step(const cJSON *lines, int step) {
    const cJSON *line;
    cJSON_ArrayForEach(line, lines) if (has(line, "loss") && number(line, "step") == step) return number(line, "loss");
    fail_msg("no loss of step %d", step);
    return 0;
}

/* Every fourth step, beside a loss that is as without. */
static void tells_statistics(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    program_free((program_result[]){TRAIN(recipe, "--run-dir", test_path(state, "run"), "training.max_steps=10",
                                          "training.log_every=1", "training.statistics=4")});
    program_free((program_result[]){
        TRAIN(recipe, "--run-dir", test_path(state, "plain"), "training.max_steps=10", "training.log_every=1")});
    cJSON *lines = read_metrics(state, "run"), *plain = read_metrics(state, "plain");
    const cJSON *line;
    int told = 0;
    cJSON_ArrayForEach(line, lines) {
        if (!has(line, "gradient_norm/fc1.weight")) continue;
        assert_true(number(line, "step") == 4 * told++);
        assert_true(number(line, "std/fc2") > 0 && number(line, "largest/fc2") > number(line, "mean/fc2"));
        assert_true(number(line, "gradient_largest/fc1.weight") <= number(line, "gradient_norm/fc1.weight"));
        assert_true(number(line, "weight_norm/fc2.bias") > 0 && number(line, "gradient_zeros/fc2.bias") <= 1);
        const double ratio = number(line, "update_ratio/fc2.weight");
        assert_true(ratio > 0 && ratio < 1);
    }
    assert_int_equal(told, 3);
    assert_int_equal(count_in_events(state, "run", "weights/fc1.weight"), 3);
    assert_int_equal(count_in_events(state, "run", "gradients/fc2.bias"), 3);
    assert_int_equal(count_in_events(state, "plain", "weights/"), 0);
    for (int step = 0; step < 10; step++) {
        const double with = loss_of_step(lines, step), without = loss_of_step(plain, step);
        assert_true(fabs(with - without) <= 1e-6 * without);
    }
    cJSON_Delete(lines);
    cJSON_Delete(plain);
}

static void says_what_is_unusual(void **state) {
    check_says(TRAIN(write_recipe(state, "mlp"), "--run-dir", test_path(state, "run"), "training.max_steps=9e15",
                     "training.on_nan=stop", "--dry-run"),
               "9000000000000000 steps");
    char data[4200];
    snprintf(data, sizeof data, "data.path=%s", write_cifar_data(state));
    program_result r = TRAIN(TCC_SOURCE_DIR "/tools/recipes/cifar-resnet18.yaml", data, "data.batch_size=2",
                             "--dry-run", "model.name=mlp", "model.hidden=[4]");
    assert_non_null(
        strstr(r.out, "left out, as they do not go with what the command line chooses: model.cifar_stem\n"));
    check_says(r, "cifar has 1 of data_batch_1.bin to data_batch_5.bin: training on those\n");
    r = TRAIN(TCC_SOURCE_DIR "/tools/recipes/char-gpt.yaml", "data.path=" TCC_SOURCE_DIR "/README.md", "--dry-run",
              "schedule.name=one_cycle");
    assert_int_equal(r.status, 0); /* the value of what is left out is, too */
    assert_non_null(strstr(r.out, "what the command line chooses: schedule.warmup_steps, schedule.min_lr\n"));
    program_free(&r);
    r = TRAIN(write_recipe(state, "mlp"), "--dry-run", "training.max_steps=20", "schedule.warmup_steps=20");
    check_says(r, "warning: the learning rate rises through all 20 steps, for the schedule warms up in 20: train for");
    r = TRAIN(write_recipe(state, "mlp"), "--dry-run", "training.max_steps=20", "schedule.warmup_steps=19");
    check_says_not(r, "warning: the learning rate");
}

static void quiet_prints_nothing(void **state) {
    program_result r = TRAIN("--quiet", "--run-dir", test_path(state, "run"), write_recipe(state, "gpt"),
                             "sample.length=10");
    assert_string_equal(r.out, "");
    assert_string_equal(r.err, "");
    program_free(&r);
}

static void samples_text(void **state) {
    program_result r = TRAIN("--run-dir", test_path(state, "run"), write_recipe(state, "gpt"), "sample.length=40",
                             "sample.prompt=the cat");
    const char *sample = strstr(r.out, "--- sample ---\nthe cat");
    assert_non_null(sample);
    assert_int_equal(strlen(sample), strlen("--- sample ---\nthe cat") + 40 + 1);
    assert_int_equal(count_in_events(state, "run", "    the cat"), 1);
    program_free(&r);
    /* The last sample that is due is the run's last. */
    r = TRAIN("--run-dir", test_path(state, "often"), write_recipe(state, "gpt"), "sample.length=40",
              "sample.prompt=the cat", "sample.every=5", "training.max_steps=10");
    int samples = 0;
    for (const char *at = r.out; (at = strstr(at, "--- sample ---\n")); at++) samples++;
    assert_int_equal(samples, 2);
    assert_int_equal(count_in_events(state, "often", "    the cat"), 2);
    program_free(&r);
}

/* -- Looking inside -- */

/* tcc-opt reads the file and prints it. */
static void check_parses(const char *path) {
    program_result r = program_run(NULL, "tcc-opt", ARGUMENTS(path));
    if (r.status || strncmp(r.out, "graph @", 7)) fail_msg("tcc-opt %s: exit status %d: %s", path, r.status, r.err);
    program_free(&r);
}

static void dry_run_leaves_nothing(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    int before = count_entries(*state, "");
    program_result r = program_run(&(program_options){.folder = *state}, "tcc-train",
                                   ARGUMENTS(recipe, "--dry-run", "--explain"));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "peak memory"));
    check_says(r, "mlp.fc1");
    assert_int_equal(count_entries(*state, ""), before);
}

/* A model of 1.3 G parameters: its initial values alone would take a minute, and memory. */
static void dry_run_draws_nothing(void **state) {
    if (!program_takes_memory_limit()) skip();
    const program_options limited = {.memory_limit_bytes = 3L << 30};
    program_result r = program_run(
        &limited, "tcc-train",
        ARGUMENTS(write_recipe(state, "gpt"), "--dry-run", "--arch", "sm_90", "model.width=8192", "model.layers=2"));
    if (r.status || !strstr(r.out, "1610883072 parameters")) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
}

static void dry_run_prints_the_memory_plan(void **state) {
    const char *recipe = write_recipe(state, "gpt");
    check_says_not(TRAIN(recipe, "--dry-run"), "memory budget");
    check_says(TRAIN(recipe, "--dry-run", "training.memory_budget=80%"), "memory budget: 80% of the activations");
    program_result r = TRAIN(recipe, "--dry-run", "training.memory_budget=80%", "--quiet");
    assert_string_equal(r.out, "");
    program_free(&r);
}

static void dumps_the_frontier(void **state) {
    program_result r = TRAIN(write_recipe(state, "gpt"), "--dry-run", "training.memory_budget=80%", "--dump-ir",
                             test_path(state, "dump"));
    program_free(&r);
    const char *folder = test_path(state, "dump/00-train");
    assert_int_equal(count_entries(folder, "remat.frontier.svg"), 1);
    assert_int_equal(count_entries(folder, "remat.frontier.txt"), 1);
    DIR *entries = opendir(folder);
    for (const struct dirent *e; (e = readdir(entries));) {
        char path[512];
        snprintf(path, sizeof path, "dump/00-train/%s", e->d_name);
        const bool table = strstr(e->d_name, "frontier.txt"), picture = strstr(e->d_name, ".svg");
        if (!table && !picture) continue;
        char *text = test_read(test_path(state, path), NULL);
        if (table && !strstr(text, "  taken\n")) fail_msg("%s", text);
        if (picture && (strncmp(text, "<svg ", 5) != 0 || !strstr(text, "</svg>\n"))) fail_msg("%s", text);
        free(text);
    }
    closedir(entries);
}

static void emits_graph_and_kernels(void **state) {
    const char *recipe = write_recipe(state, "gpt");
    program_result r = TRAIN(recipe, "--emit", "tir");
    check_parses(test_write_text(state, "emitted.tir", r.out));
    program_free(&r);
    check_says(TRAIN(recipe, "--emit", "llvm"), "define ");
    check_says(TRAIN(recipe, "--emit=asm"), ".globl");
    assert_false(test_exists(test_path(state, "runs")));
}

static void dumps_every_pass(void **state) {
    program_result r = TRAIN(write_recipe(state, "mlp"), "--dry-run", "--dump-ir", test_path(state, "dump"));
    program_free(&r);
    const char *folder = test_path(state, "dump/00-train");
    assert_int_equal(count_entries(folder, "00.input.tir"), 1);
    assert_true(count_entries(folder, "simplify.tir") > 1 && count_entries(folder, "plan-memory.memory.svg") == 1);
    assert_int_equal(count_entries(folder, "frontier"), 0);
    assert_true(count_entries(folder, ".ll") > 0 && count_entries(folder, ".s") > 0 &&
                count_entries(folder, "steps.txt") == 1);
    char *picture = test_read(test_path(state, "dump/00-train/14.plan-memory.memory.svg"), NULL);
    static const char *const drawn[] = {">peak<", ">launch 0<",       " KiB</text>",
                                        ">1: ",   ", launches 0 to ", "loss</text>"};
    for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; i++)
        if (!strstr(picture, drawn[i])) fail_msg("the picture has no \"%s\"", drawn[i]);
    free(picture);
    DIR *entries = opendir(folder);
    for (const struct dirent *e; (e = readdir(entries));) {
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".tir")) continue;
        char path[512];
        snprintf(path, sizeof path, "dump/00-train/%s", e->d_name);
        check_parses(test_path(state, path));
    }
    closedir(entries);
}

/* A program for the batch that is left over at an epoch's end is there, though this run never comes to it. */
static void compiles_ahead(void **state) {
    const char *dump = test_path(state, "dump");
    program_result r = TRAIN("--quiet", "--run-dir", test_path(state, "run"), "--dump-ir", dump,
                             write_recipe(state, "mlp"), "data.batch_size=9", "data.drop_last=false",
                             "training.max_steps=1");
    program_free(&r);
    assert_int_equal(count_entries(dump, "train"), 2);
    assert_int_equal(count_entries(dump, "evaluate"), 1); /* eval_batches keeps it from the left-over */
}

/* The last eight training steps: in each lane one event ends before the next begins, and a step's kernels run while the
 * host waits for them. Lanes 4 and 5 are two threads: what each does of a kernel is within the kernel's time in lane 3.
 */
static void check_lanes(const cJSON *events) {
    double end[6] = {0}, run_end = 0, kernel_begin = 0;
    int runs = 0, worked[6] = {0};
    bool has_source = false;
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        if (strcmp(cJSON_GetObjectItem(event, "ph")->valuestring, "X")) continue;
        const int lane = cJSON_GetObjectItem(event, "tid")->valueint;
        const double begin = cJSON_GetObjectItem(event, "ts")->valuedouble;
        assert_in_range(lane, 1, 5);
        worked[lane]++;
        if (lane == 3) kernel_begin = begin;
        if (lane > 3) assert_true(begin >= kernel_begin - 0.01);
        if (!(begin >= end[lane] - 0.01)) fail_msg("lane %d: an event begins before the last one ends", lane);
        end[lane] = begin + cJSON_GetObjectItem(event, "dur")->valuedouble;
        if (lane == 1) runs++, run_end = end[lane];
        if (lane > 3) assert_true(end[lane] <= end[3] + 0.01);
        if (!(end[lane] <= run_end + 0.01)) fail_msg("lane %d: an event outlives its run", lane);
        const cJSON *lines = cJSON_GetObjectItem(cJSON_GetObjectItem(event, "args"), "lines");
        has_source |= lines && strstr(lines->valuestring, "gpt.transformer.h.0.mlp.c_fc");
    }
    assert_int_equal(runs, 8);
    assert_true(has_source);
    for (int lane = 4; lane < 6; lane++) assert_true(worked[lane] <= worked[3]);
    assert_true(worked[4] + worked[5] > 0); /* where the machine is busy one may come too late for all */
}

static void explains_and_profiles_the_training_step(void **state) {
    const char *trace = test_path(state, "trace.json");
    setenv("TCC_NUM_THREADS", "2", 1);
    program_result r = TRAIN(write_recipe(state, "gpt"), "--run-dir", test_path(state, "run"), "--explain", "--profile",
                             trace);
    unsetenv("TCC_NUM_THREADS");
    assert_non_null(strstr(r.out, "program 'train'"));
    assert_null(strstr(r.out, ".c:")); /* files that a user of tcc-train does not have */
    check_says(r, "gpt.transformer.h.0.attn.c_attn");
    char *text = test_read(trace, NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *events = cJSON_IsArray(json) ? json : cJSON_GetObjectItemCaseSensitive(json, "traceEvents");
    assert_true(cJSON_GetArraySize(events) > 10);
    check_lanes(events);
    cJSON_Delete(json);
    free(text);
}

static void verifies(void **state) {
    check_says(TRAIN(write_recipe(state, "mlp"), "--verify", "--dry-run"), "verify: loss and all gradients agree");
    check_says(TRAIN(write_recipe(state, "gpt"), "--verify", "--dry-run"), "verify: loss and all gradients agree");
}

/* As on a machine that has none, also on one that has. */
static program_result train_without_gpu(const char *const *arguments) {
    program_result r = program_run(&(program_options){.environment = "CUDA_VISIBLE_DEVICES="}, "tcc-train", arguments);
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    return r;
}

static void devices_and_version(void **state) {
    check_says(TRAIN("--devices"), "cpu");
#if defined __x86_64__
    test_environment_set("TCC_CPU", "x86-64-v2");
    check_says(TRAIN("--devices"), ", x86-64-v2 (TCC_CPU)\n");
    test_environment_restore();
    check_says(TRAIN("--devices"), ", x86-64-v");
#endif
    const char *recipe = write_recipe(state, "mlp");
    check_says(train_without_gpu(ARGUMENTS("--devices")), "cuda: no CUDA device: ");
    check_says(train_without_gpu(ARGUMENTS(recipe, "--dry-run")), "device: cpu: ");
    check_says(train_without_gpu(ARGUMENTS(recipe, "--dry-run", "--device", "auto")), "; no CUDA device: ");
    check_says(train_without_gpu(ARGUMENTS(recipe, "--emit", "ptx", "--arch", "sm_75")), ".target sm_75\n");
    check_says(train_without_gpu(ARGUMENTS(recipe, "--emit", "asm", "--arch", "sm_90")), ".target sm_90\n");
    check_says(train_without_gpu(ARGUMENTS(recipe, "--emit", "llvm", "--arch", "sm_80")), "nvptx64-nvidia-cuda");
    check_says(train_without_gpu(ARGUMENTS(recipe, "--dry-run", "--arch", "sm_80")), "compiled in ");
    check_says(TRAIN("--version"), "tcc-train ");
    check_says(TRAIN("--help"), "usage: tcc-train");
}

static void tf32_is_asked_for(void **state) {
    const char *recipe = write_recipe(state, "gpt"), *run = test_path(state, "tf32");
    check_says_not(train_without_gpu(ARGUMENTS(recipe, "--emit", "ptx", "--arch", "sm_80")),
                   "tf32"); /* nobody asked for it */
    check_says(train_without_gpu(ARGUMENTS(recipe, "--emit", "ptx", "--arch", "sm_80", "training.allow_tf32=true")),
               ".tf32.tf32.f32");
    check_says_not(train_without_gpu(ARGUMENTS(recipe, "--emit", "ptx", "--arch", "sm_75", "training.allow_tf32=true")),
                   "tf32"); /* it has none */
    check_says(TRAIN(recipe, "training.allow_tf32=true", "training.max_steps=1", "--run-dir", run), "step ");
    check_says((program_result){.out = test_read(test_path(state, "tf32/recipe.yaml"), NULL)}, "allow_tf32: true");
}

/* -- Every recipe learns -- */

static double mean_loss(const cJSON *lines, double from, double to) {
    const cJSON *line;
    double sum = 0;
    int count = 0;
    cJSON_ArrayForEach(line, lines) {
        if (!has(line, "loss") || number(line, "step") < from || number(line, "step") >= to) continue;
        sum += number(line, "loss");
        count++;
    }
    assert_true(count > 0);
    return sum / count;
}

static void check_learns(void **state, const char *recipe, const char *data, const char *batch_size, const char *lr,
                         int steps) {
    char path[512], data_path[4200], max_steps[64];
    if (address_sanitizer) steps = 3; /* more of them come to no other line, and few show no trend */
    snprintf(path, sizeof path, "%s/tools/recipes/%s", TCC_SOURCE_DIR, recipe);
    snprintf(data_path, sizeof data_path, "data.path=%s", data);
    snprintf(max_steps, sizeof max_steps, "training.max_steps=%d", steps);
    program_result r = TRAIN("--run-dir", test_path(state, "run"), path, data_path, batch_size, lr, max_steps,
                             "training.log_every=1", "training.eval_every=0", "schedule.warmup_steps=0",
                             "sample.length=20");
    program_free(&r);
    cJSON *lines = read_metrics(state, "run");
    double first = mean_loss(lines, 0, 1), last = mean_loss(lines, steps - steps / 5 - 1, steps);
    if (!address_sanitizer && !(last < 0.9 * first)) fail_msg("%s: loss %g after %g", recipe, last, first);
    cJSON_Delete(lines);
}

static void char_gpt_learns(void **state) {
    check_learns(state, "char-gpt.yaml", write_text_data(state), "data.batch_size=4", "optimizer.lr=3e-3", 30);
}
static void mnist_cnn_learns(void **state) {
    check_learns(state, "mnist-cnn.yaml", write_idx_data(state), "data.batch_size=16", "optimizer.lr=1e-3", 25);
}
static void csv_mlp_learns(void **state) {
    check_learns(state, "csv-mlp.yaml", write_csv_data(state), "data.batch_size=32", "optimizer.lr=1e-3", 60);
}
static void cifar_resnet18_learns(void **state) {
    check_learns(state, "cifar-resnet18.yaml", write_cifar_data(state), "data.batch_size=8", "optimizer.lr=0.01", 15);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(run_folder),
        FOLDER_TEST(tells_statistics),
        FOLDER_TEST(says_what_is_unusual),
        FOLDER_TEST(quiet_prints_nothing),
        FOLDER_TEST(samples_text),
        FOLDER_TEST(dry_run_leaves_nothing),
        FOLDER_TEST(dry_run_draws_nothing),
        FOLDER_TEST(dry_run_prints_the_memory_plan),
        FOLDER_TEST(dumps_the_frontier),
        FOLDER_TEST(emits_graph_and_kernels),
        FOLDER_TEST(dumps_every_pass),
        FOLDER_TEST(explains_and_profiles_the_training_step),
        FOLDER_TEST(verifies),
        FOLDER_TEST(compiles_ahead),
        FOLDER_TEST(devices_and_version),
        FOLDER_TEST(tf32_is_asked_for),
        FOLDER_TEST(char_gpt_learns),
        FOLDER_TEST(mnist_cnn_learns),
        FOLDER_TEST(csv_mlp_learns),
        FOLDER_TEST(cifar_resnet18_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
