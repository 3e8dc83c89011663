/* SPDX-License-Identifier: MIT
 * Batches in pinned memory: no copy of them is made on the host, the bits of training stay, and the loader writes over
 * no batch that is still on its way. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/files.h"
#include "harness/optimizer.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <traincc/data.h>
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 16, STEPS = 7, LARGE = 16 << 10 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* -- Copies on the host, by this thread, while it is asked for -- */

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);

static _Thread_local bool counts;
static int64_t large_copies;

void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    large_copies += counts && bytes > LARGE;
    return __real_memcpy(to, from, bytes);
}

/* -- Training -- */

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_tanh(tcc_linear(tcc_flatten(tcc_input(t, "x"), 1), "in", 8));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "out", 10), tcc_input(t, "y")));
}

typedef struct outcome {
    double losses[STEPS];
    int64_t copies;
} outcome;

static void train(const char *device, const char *path, bool pins, int workers, int64_t parts, outcome *out) {
    tcc_context *cx;
    tcc_model *m;
    tcc_dataset *data;
    tcc_loader *loader;
    const tcc_batch *batch;
    void *memory;
    size_t bytes;
    const tcc_data_options from = {.size = sizeof from, .kind = "idx", .path = path, .classes = 10};
    const tcc_loader_options how = {.size = sizeof how,
                                    .batch_size = BATCH * parts,
                                    .num_workers = workers,
                                    .shuffle = true,
                                    .seed = 3,
                                    .held = pins ? TCC_PINNED_RUNS : 0};
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .batch_accumulate = parts,
                                 .optimizer = OPTIMIZER_OF(TCC_SGD, 0.1, .momentum = 0.9)};
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_dataset_open(cx, &from, &data));
    OK(cx, tcc_loader_create(cx, data, &how, &loader));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    int pieces = 0;
    for (; tcc_loader_memory(loader, pieces, &memory, &bytes); pieces++)
        if (pins) OK(cx, tcc_model_pin(m, memory, bytes));
    assert_int_equal(pieces, 1 + 2 * workers + how.held);
    OK(cx, tcc_loader_next(loader, &batch));
    OK(cx, tcc_model_compile(m, true, batch->arrays, batch->n_arrays));
    large_copies = 0;
    for (int step = 0; step < STEPS; step++) {
        OK(cx, tcc_loader_next(loader, &batch));
        counts = true;
        OK(cx, tcc_model_train(m, batch->arrays, batch->n_arrays));
        counts = false;
    }
    out->copies = large_copies;
    for (int step = 0; step < STEPS; step++) OK(cx, tcc_model_step_loss(m, step, &out->losses[step]));
    tcc_model_destroy(m);
    tcc_loader_destroy(loader);
    tcc_dataset_close(data);
    tcc_context_destroy(cx);
}

static int begin(void **state) { return test_folder_create(state) || cuda_fresh(state); }
static int end(void **state) {
    const int status = cuda_finish(state);
    return test_folder_remove(state) || status;
}

static void no_copy_on_the_host(void **state) {
    const char *path = write_idx_data(state);
    for (int64_t parts = 1; parts <= 2; parts++) {
        outcome copied, pinned, without_workers;
        train("cuda", path, false, 2, parts, &copied);
        assert_int_equal(copied.copies, STEPS * parts);
        train("cuda", path, true, 2, parts, &pinned);
        assert_int_equal(pinned.copies, 0);
        train("cuda", path, true, 0, parts, &without_workers);
        assert_memory_equal(copied.losses, pinned.losses, sizeof copied.losses);
        assert_memory_equal(copied.losses, without_workers.losses, sizeof copied.losses);
    }
}

static void nothing_on_the_cpu(void **state) {
    const char *path = write_idx_data(state);
    outcome copied, pinned;
    train("cpu", path, false, 1, 1, &copied);
    train("cpu", path, true, 1, 1, &pinned);
    assert_int_equal(copied.copies + pinned.copies, 0);
    assert_memory_equal(copied.losses, pinned.losses, sizeof copied.losses);
}

/* Memory that the driver does not pin: an error that says so, and training goes on with copies. */
static void cannot_be_pinned(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    const tcc_model_options o = {.size = sizeof o, .device = "cuda"};
    static char memory[8192];
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    OK(cx, tcc_model_pin(m, memory, 0));
    OK(cx, tcc_model_pin(m, memory, sizeof memory));
    if (sim.inject) {
        assert_int_equal(tcc_model_pin(m, memory, sizeof memory), TCC_EDEVICE); /* a second time */
        assert_non_null(strstr(tcc_context_error(cx), "cuMemHostRegister"));
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* tcc-train: the same run with it and without. */
static void trains_with_it(void **state) {
    const char *recipe = write_recipe(state, "cnn");
    static const char *const settings[] = {"data.pin_memory=true", "data.pin_memory=false"};
    char *weights[2];
    size_t sizes[2];
    for (int i = 0; i < 2; i++) {
        program_result r = program_run(&(program_options){.environment = "PTXSIM_LOG=none"}, "tcc-train",
                                       (const char *const[]){recipe, "--quiet", "--device", "cuda", "--run-dir",
                                                             test_path(state, i ? "b" : "a"), settings[i],
                                                             "data.batch_size=4", "training.max_steps=4",
                                                             "training.eval_every=2", "data.num_workers=2", NULL});
        if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
        program_free(&r);
        weights[i] = test_read(
            test_path(state, i ? "b/checkpoints/step-000004.safetensors" : "a/checkpoints/step-000004.safetensors"),
            &sizes[i]);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(weights[0], weights[1], sizes[0]);
    free(weights[0]);
    free(weights[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(no_copy_on_the_host), TEST(nothing_on_the_cpu), TEST(cannot_be_pinned),
                                       TEST(trains_with_it)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
