/* SPDX-License-Identifier: MIT
 * What a step on the CPU does beside its kernels: it allocates nothing, and it takes the pool's lock once, however many
 * kernels it has. In every mode, as there a step is a list of resolved calls in all of them. The linker routes the
 * calls through here, so that they are counted. */
#include "harness/check.h"
#include "harness/sample_program.h"
#include "harness/optimizer.h"

#include "runtime/cpu/device.h"
#include "runtime/exec.h"

#include <traincc/traincc.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long allocations;
static _Thread_local long locks; /* of the thread that runs steps: the others lock the pool to sleep */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

void *__wrap_malloc(size_t bytes) {
    allocations++;
    return __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes) {
    allocations++;
    return __real_calloc(count, bytes);
}
void *__wrap_realloc(void *p, size_t bytes) {
    allocations++;
    return __real_realloc(p, bytes);
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    allocations++;
    return __real_aligned_alloc(alignment, bytes);
}
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

enum { RUNS = 5, BATCH = 16, WIDTH = 24 };

static void test_program(void **state) {
    (void)state;
    static int64_t memory[SAMPLE_BINDINGS][SAMPLE_N], wanted[SAMPLE_N];
    tcc_context cx;
    tcc_device *device;
    tcc_exec *e;
    tcc_program *p = sample_program();
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_device_cpu_create(&cx, 2, &device), &cx.diag);
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    for (int i = 0; i < SAMPLE_BINDINGS; i++)
        assert_ok(tcc_exec_bind(e, &cx.diag, i, memory[i], SAMPLE_BYTES), &cx.diag);
    const long allocated = allocations, locked = locks;
    for (int run = 0; run < RUNS; run++) {
        memory[SAMPLE_X][0] = run; /* another batch, and another place of it */
        assert_ok(tcc_exec_bind(e, &cx.diag, SAMPLE_X, memory[SAMPLE_X], SAMPLE_BYTES), &cx.diag);
        assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
    }
    assert_int_equal(allocations - allocated, 0);
    assert_int_equal(locks - locked, RUNS);
    sample_expected(memory[SAMPLE_X], wanted);
    assert_memory_equal(memory[SAMPLE_Y], wanted, SAMPLE_BYTES);
    tcc_exec_destroy(e);
    tcc_device_destroy(device);
    tcc_program_destroy(p);
    tcc_context_clear(&cx);
}

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_dropout(tcc_gelu(tcc_linear(tcc_input(t, "x"), "a", WIDTH)), 0.1);
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "b", WIDTH), tcc_input(t, "y")));
}

/* Whole training steps, with a schedule and the loss read: two locks a step, of the run and of the loss on its way, and
 * one more to read it. */
static void test_training(void **state) {
    (void)state;
    static const tcc_mode modes[] = {TCC_MODE_DEFAULT, TCC_MODE_REDUCE_OVERHEAD, TCC_MODE_EAGER};
    static float x[2][BATCH * WIDTH];
    static int32_t y[BATCH];
    for (int i = 0; i < BATCH * WIDTH; i++) x[0][i] = (float)(i % 17) / 17, x[1][i] = (float)(i % 13) / 13;
    for (int i = 0; i < BATCH; i++) y[i] = i % WIDTH;
    double losses[3];
    for (int mode = 0; mode < 3; mode++) {
        tcc_context *cx;
        tcc_model *m;
        const tcc_model_options o = {.size = sizeof o,
                                     .mode = modes[mode],
                                     .seed = 5,
                                     .optimizer = OPTIMIZER_OF(TCC_ADAMW, 1e-3, .clip_grad_norm = 1)};
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_int_equal(tcc_model_create(cx, net, NULL, &o, &m), TCC_OK);
        long allocated = 0, locked = 0;
        for (int run = 0; run < 1 + RUNS; run++) {
            const tcc_array batch[] = {{"x", TCC_F32, 2, {BATCH, WIDTH}, x[run % 2]}, {"y", TCC_I32, 1, {BATCH}, y}};
            if (run == 1) allocated = allocations, locked = locks;
            tcc_model_set_lr(m, 1e-2 / (1 + run));
            assert_int_equal(tcc_model_train(m, batch, 2), TCC_OK);
            losses[mode] = tcc_model_loss(m);
        }
        assert_int_equal(allocations - allocated, 0);
        assert_int_equal(locks - locked, 3 * RUNS);
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
    assert_true(losses[0] == losses[1]); /* the same kernels */
    assert_true(losses[0] > 0 && losses[2] - losses[0] < 1e-5 && losses[0] - losses[2] < 1e-5);
}

int main(void) {
    unsetenv("TCC_POISON");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_program), cmocka_unit_test(test_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
