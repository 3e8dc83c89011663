/* SPDX-License-Identifier: MIT
 * tcc-train on a CUDA device, run as a user runs it: the losses of the CPU, bit-exact resumption, what it says of
 * devices, and how it ends when the device fails. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARGUMENTS(...) \
    (const char *const[]) { __VA_ARGS__, NULL }
#define TRAIN(...) \
    program_run(&(program_options){.environment = "PTXSIM_LOG=none"}, "tcc-train", ARGUMENTS(__VA_ARGS__))
#define TRAIN_WITH(setting, ...) \
    program_run(&(program_options){.environment = setting}, "tcc-train", ARGUMENTS(__VA_ARGS__))

static void expect(program_result r, int status, const char *out, const char *err) {
    if (r.status != status || !strstr(r.out, out) || !strstr(r.err, err))
        fail_msg("exit status %d, not %d, or this does not say \"%s\" and \"%s\":\n%s%s", r.status, status, out, err,
                 r.out, r.err);
    program_free(&r);
}

static char *path_in(void **state, const char *run, const char *name) {
    static char text[4][4200];
    static int next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%s/%s", test_path(state, run), name);
    return to;
}

/* -- Training -- */

/* The values of `key` in a run's metrics. */
static int read_metric(void **state, const char *run, const char *key, double *values, int most) {
    char *text = test_read(path_in(state, run, "metrics.jsonl"), NULL);
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *json = cJSON_Parse(line);
        const cJSON *value = cJSON_GetObjectItem(json, key);
        if (value && n < most) values[n++] = value->valuedouble;
        cJSON_Delete(json);
    }
    free(text);
    return n;
}

static void check_same_metric(void **state, const char *key, int count) {
    double cpu[64], cuda[64];
    assert_int_equal(read_metric(state, "cpu", key, cpu, 64), count);
    assert_int_equal(read_metric(state, "cuda", key, cuda, 64), count);
    for (int i = 0; i < count; i++)
        if (!(fabs(cpu[i] - cuda[i]) <= 2e-5 * fabs(cpu[i])))
            fail_msg("%s %d: %.9g on cuda, %.9g on the CPU", key, i, cuda[i], cpu[i]);
}

static void same_file(void **state, const char *name) {
    size_t a_size, b_size;
    char *a = test_read(path_in(state, "cuda", name), &a_size),
         *b = test_read(path_in(state, "resumed", name), &b_size);
    if (a_size != b_size || memcmp(a, b, a_size)) fail_msg("%s differs", name);
    free(a);
    free(b);
}

#define STEPS "training.max_steps=6", "training.eval_every=3", "training.save_every=3", optimizer, batch

static void check_model(void **state, const char *model, const char *optimizer, const char *batch) {
    const char *recipe = write_recipe(state, model), *resumed = test_path(state, "resumed");
    expect(TRAIN(recipe, "--device", "cpu", "--run-dir", test_path(state, "cpu"), STEPS), 0, "device: cpu: ", "");
    expect(TRAIN(recipe, "--device", "cuda", "--run-dir", test_path(state, "cuda"), STEPS), 0, "device: cuda:0: ", "");
    check_same_metric(state, "loss", 6);
    check_same_metric(state, "val_loss", 2);
    expect(TRAIN(recipe, "--run-dir", resumed, "--quiet", STEPS, "training.max_steps=3"), 0, "", "");
    expect(TRAIN(recipe, "--run-dir", resumed, "--resume", STEPS), 0, "resumed from ", "");
    same_file(state, "checkpoints/step-000006.safetensors");
    same_file(state, "checkpoints/step-000006.state.safetensors");
}

static void trains_gpt(void **state) { check_model(state, "gpt", "optimizer.name=adamw", "data.batch_size=4"); }
static void trains_cnn(void **state) {
    check_model(state, "cnn", "optimizer.name=sgd", "data.batch_size=2");
} /* Adam's first steps magnify rounding */

static void waits_for_each_kernel(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    expect(TRAIN(recipe, "--run-dir", test_path(state, "cuda"), "training.max_steps=3"), 0, "step 2/3 ", "");
    expect(TRAIN_WITH("TCC_LAUNCH_BLOCKING=1", recipe, "--run-dir", test_path(state, "cpu"), "training.max_steps=3"), 0,
           "step 2/3 ", "");
    check_same_metric(state, "loss", 3);
    double ms[3];
    assert_int_equal(read_metric(state, "cpu", "step_ms", ms, 3), 3);
    for (int i = 0; i < 3; i++) assert_true(ms[i] > 0.02 * ms[(i + 1) % 3]); /* each is told of with its own time */
}

static void explains_and_profiles(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *trace = test_path(state, "trace.json");
    expect(TRAIN(recipe, "--run-dir", test_path(state, "run"), "training.max_steps=3", "--explain", "--profile", trace,
                 "--verify"),
           0, "minima of ", "");
    assert_true(test_exists(trace));
}

/* -- Devices -- */

static void says_what_it_found(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    expect(TRAIN("--devices"), 0, "cuda:0: ", "");
    expect(TRAIN("--devices"), 0, "; driver for CUDA ", "");
    expect(TRAIN(recipe, "--dry-run"), 0, "device: cuda:0: ", "");
    expect(TRAIN(recipe, "--dry-run", "--device", "cuda:0"), 0, "device: cuda:0: ", "");
    expect(TRAIN(recipe, "--device", "cuda:77"), 2, "",
           "tcc-train: --device cuda:77: no device cuda:77: the driver shows ");
    expect(TRAIN(recipe, "--emit", "ptx"), 0, ".target sm_", "");
    expect(TRAIN(recipe, "--emit", "asm"), 0, ".visible .entry ", "");
}

/* Without the loader's help: the folder, a folder above it, or the file. */
static void finds_the_driver(void **state) {
    (void)state;
    skip_without(sim.inject, "it is asked to find the stand-in driver");
    char *path = getenv("LD_LIBRARY_PATH"), *kept = path ? strdup(path) : NULL;
    unsetenv("LD_LIBRARY_PATH");
    expect(TRAIN_WITH("TCC_CUDA_PATH=" TCC_BIN_DIR "/../ptxsim", "--devices"), 0, "/ptxsim/libcuda.so.1)", "");
    expect(TRAIN_WITH("TCC_CUDA_PATH=" TCC_BIN_DIR "/../ptxsim/libcuda.so.1", "--devices"), 0, "/ptxsim/libcuda.so.1)",
           "");
    if (kept) setenv("LD_LIBRARY_PATH", kept, 1);
    free(kept);
}

static void without_a_device(void **state) {
    const char *recipe = write_recipe(state, "mlp"),
               *none = sim.inject ? "PTXSIM_DEVICES=0" : "CUDA_VISIBLE_DEVICES=-1";
    expect(TRAIN_WITH(none, recipe, "--device", "cuda"), 2, "",
           "tcc-train: --device cuda: no CUDA device: the driver ");
    expect(TRAIN_WITH(none, recipe, "--device", "auto", "--dry-run"), 0, "; no CUDA device: the driver ", "");
    expect(TRAIN_WITH(none, "--devices"), 0, "everything runs on the CPU", "");
}

static void with_other_devices(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    skip_without(sim.inject, STAND_IN_IS);
    expect(TRAIN_WITH("PTXSIM_DEVICES=2", "--devices"), 0, "\ncuda:1: ", "");
    expect(TRAIN_WITH("PTXSIM_SM=70", "--devices"), 0, "\nnot used: cuda:0 (", "");
    expect(TRAIN_WITH("PTXSIM_SM=70", "--devices"), 0, "(Turing, 2018)\neverything runs on the CPU\n", "");
    expect(TRAIN_WITH("PTXSIM_SM=70", recipe, "--device", "cuda"), 2, "", "is sm_70: sm_75 or newer is needed");
    expect(TRAIN_WITH("PTXSIM_SM=120", recipe, "--emit", "ptx"), 0, ".target sm_90", "");
    expect(TRAIN_WITH("PTXSIM_SM=87", recipe, "--emit", "ptx"), 0, ".target sm_87", "");
}

/* -- Failing -- */

/* As a user meets it: the kernel, the lines of the model, and a file that holds the PTX. */
static void names_the_failing_kernel(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    skip_without(sim.inject, STAND_IN_FAILS);
    expect(TRAIN_WITH("PTXSIM_LIMIT=300", recipe, "--run-dir", run), 1, "",
           "CUDA_ERROR_LAUNCH_TIMEOUT (the launch timed out and was terminated)\nnote: a kernel on cuda:0 (");
    setenv("PTXSIM_LIMIT", "300", 1);
    program_result r = TRAIN_WITH("TCC_LAUNCH_BLOCKING=1", recipe, "--run-dir", run);
    unsetenv("PTXSIM_LIMIT");
    char kernel[128], text[256], path[4096], *ptx;
    const char *at = strstr(r.err, "its PTX is in ");
    if (r.status != 1 || sscanf(r.err, "tcc-train: error: kernel '%127[^']': CUDA_ERROR_LAUNCH_TIMEOUT", kernel) != 1 ||
        !strstr(r.err, "note: in program 'train', step ") || !strstr(r.err, "mlp.fc") || !at ||
        sscanf(at, "its PTX is in %4095s", path) != 1 || !strstr(r.err, "the last checkpoint is of step 0 in "))
        fail_msg("exit status %d: %s", r.status, r.err);
    program_free(&r);
    ptx = test_read(path, NULL);
    snprintf(text, sizeof text, ".visible .entry %s(", kernel);
    assert_non_null(strstr(ptx, text));
    free(ptx);
    unlink(path);
}

static void fails_clearly(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    skip_without(sim.inject, STAND_IN_FAILS);
    const char *reports = test_path(state, "reports");
    setenv("PTXSIM_LOG", reports, 1); /* of what a process leaves alive, too */
    expect(TRAIN_WITH("PTXSIM_FAULT=alloc:6", recipe, "--run-dir", run), 1, "", "out of memory");
    setenv("TCC_CACHE_DISABLE", "1", 1); /* the cache has modules that the driver took */
    expect(TRAIN_WITH("PTXSIM_FAULT=module:1", recipe, "--run-dir", run), 1, "",
           "the driver refuses module 0 of program '");
    setenv("TCC_CACHE_DISABLE", "0", 1);
    expect(TRAIN_WITH("PTXSIM_FAULT=launch:30", recipe, "--run-dir", run), 1, "",
           "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    expect(TRAIN_WITH("PTXSIM_FAULT=lost:150", recipe, "--run-dir", run, "training.save_every=1"), 1, "",
           "CUDA_ERROR_DEVICE_UNAVAILABLE");
    expect(TRAIN(recipe, "--run-dir", run, "--resume"), 0, "resumed from ",
           ""); /* nothing was lost but the last steps */
    expect(TRAIN_WITH("PTXSIM_MEMORY_MIB=1", recipe, "--run-dir", run, "model.hidden=[1024, 1024]"), 1, "",
           "the program does not fit: ");
    char *text = test_read(reports, NULL);
    if (!strstr(text, "the device is lost while ") || strstr(text, "leak")) fail_msg("%s", text);
    free(text);
    setenv("PTXSIM_LOG", "none", 1);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(trains_gpt),
        FOLDER_TEST(trains_cnn),
        FOLDER_TEST(waits_for_each_kernel),
        FOLDER_TEST(explains_and_profiles),
        FOLDER_TEST(says_what_it_found),
        FOLDER_TEST(finds_the_driver),
        FOLDER_TEST(without_a_device),
        FOLDER_TEST(with_other_devices),
        FOLDER_TEST(names_the_failing_kernel),
        FOLDER_TEST(fails_clearly),
    };
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
