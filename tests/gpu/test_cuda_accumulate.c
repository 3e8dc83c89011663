/* SPDX-License-Identifier: MIT
 * Steps in micro-batches on a CUDA device. */
#include "harness/accumulate_cases.h"
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/optimizer.h"

#include <dlfcn.h>
#include <stdlib.h>

static void equal_whole_batches(void **state) {
    (void)state;
    check_micro_batches("cuda", TCC_MODE_REDUCE_OVERHEAD, TCC_MIXED_NONE);
    check_micro_batches("cuda", TCC_MODE_DEFAULT, TCC_MIXED_BF16);
}

static void other_masks(void **state) {
    (void)state;
    check_micro_masks("cuda");
}

static void overflow_spoils_its_step(void **state) {
    (void)state;
    check_micro_overflow("cuda");
}

/* -- Replays -- */

enum { ROWS = 12, WIDTH = 32, PARTS = 4, STEPS = 6, WARM = 3 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static uint64_t (*get_calls)(const char *name);

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), h = tcc_dropout(tcc_relu(tcc_linear(x, "in", 3 * WIDTH)), 0.25);
    tcc_tensor error = tcc_sub(tcc_linear(h, "out", WIDTH), x);
    tcc_loss(t, tcc_mean(tcc_mul(error, error), TCC_ALL));
}

/* What a step asks of the driver once it is captured. */
static const struct {
    const char *name;
    int count;
} step_calls[] = {{"cuGraphLaunch", PARTS + 1}, {"copy", PARTS + 2}, /* what each program is fed with, and the loss */
                  {"cuLaunchKernel", 0},        {"cuMemAlloc_v2", 0},   {"cuMemHostAlloc", 0},
                  {"cuStreamSynchronize", 0},   {"cuCtxSynchronize", 0}};
enum { KINDS = sizeof step_calls / sizeof step_calls[0] };

typedef struct outcome {
    float losses[STEPS], weight[3 * WIDTH * WIDTH];
    uint64_t calls[KINDS];
    tcc_program_info info;
} outcome;

static void train(tcc_mode mode, outcome *out) {
    static float x[ROWS * WIDTH];
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {ROWS, WIDTH}, .data = x};
    const tcc_model_options o = {.size = sizeof o,
                                 .device = "cuda",
                                 .mode = mode,
                                 .seed = 3,
                                 .require_graphs = mode == TCC_MODE_REDUCE_OVERHEAD,
                                 .batch_accumulate = PARTS,
                                 .optimizer = OPTIMIZER_OF(TCC_ADAM, 1e-3, .clip_grad_norm = 1)};
    tcc_context *cx;
    tcc_model *m;
    tcc_array a;
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    for (int step = 0; step < STEPS; step++) {
        if (step == WARM) OK(cx, tcc_model_synchronize(m));
        for (int i = 0; i < KINDS && get_calls && step == WARM; i++) out->calls[i] = get_calls(step_calls[i].name);
        for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)((i * 37 + step) % 101) / 50 - 1;
        OK(cx, tcc_model_train(m, &batch, 1));
    }
    for (int i = 0; i < KINDS && get_calls; i++) out->calls[i] = get_calls(step_calls[i].name) - out->calls[i];
    for (int step = 0; step < STEPS; step++) {
        double loss;
        OK(cx, tcc_model_step_loss(m, step, &loss));
        out->losses[step] = (float)loss;
    }
    OK(cx, tcc_model_info(m, &out->info));
    assert_true(tcc_model_find_param(m, "in.weight", &a));
    memcpy(out->weight, a.data, sizeof out->weight);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* Both programs of a step replay, with the bits of launches; the host waits for nothing and allocates nothing. */
static void replays(void **state) {
    (void)state;
    static outcome launched, replayed;
    train(TCC_MODE_DEFAULT, &launched);
    train(TCC_MODE_REDUCE_OVERHEAD, &replayed);
    assert_memory_equal(launched.losses, replayed.losses, sizeof launched.losses);
    assert_memory_equal(launched.weight, replayed.weight, sizeof launched.weight);
    assert_int_equal(launched.info.peak_bytes, replayed.info.peak_bytes);
    for (int i = 0; i < KINDS && get_calls; i++)
        if (replayed.calls[i] != (uint64_t)((STEPS - WARM) * step_calls[i].count))
            fail_msg("%s: %d calls in %d steps", step_calls[i].name, (int)replayed.calls[i], STEPS - WARM);
}

static int set_up(void **state) {
    find_function(dlopen("libcuda.so.1", RTLD_NOW), "ptxsim_get_calls", &get_calls);
    unsetenv("TCC_POISON"); /* a run is to be nothing but the run */
    return cuda_set_up(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(equal_whole_batches), CUDA_TEST(other_masks),
                                       CUDA_TEST(overflow_spoils_its_step), CUDA_TEST(replays)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
