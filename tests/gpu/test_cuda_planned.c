/* SPDX-License-Identifier: MIT
 * What is planned is all that is allocated: the benchmark's models are compiled and made ready to run, for the CPU and
 * for a GPU with libraries and without, and each allocation of device memory is counted. Run with names of models for a
 * table of these: test_cuda_planned gpt2_1024 resnet50. */
#include "bench/models.h"
#include "frontend/compile/compile.h"
#include "harness/check.h"
#include "harness/rank_threads.h"
#include "runtime/cpu/device.h"
#include "runtime/cuda/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Counting -- */

/* Bytes by what they are for: what the plan speaks of; tables, which say where instances lie; batches on their way.
 * What a library is tried with before it is first used is free again at once. */
enum { PLANNED, TABLES, STAGING, TRIALS, PURPOSES };
static _Thread_local int64_t allocated[PURPOSES];

static int purpose_of(const char *text) {
    return !text || strstr(text, "ranks send") ? PLANNED
           : strstr(text, "tables")            ? TABLES
           : strstr(text, "batches")           ? STAGING
                                               : TRIALS;
}

tcc_status __real_tcc_device_cpu_create(tcc_context *cx, int threads, tcc_device **out);
tcc_status __wrap_tcc_device_cpu_create(tcc_context *cx, int threads, tcc_device **out);
tcc_status __real_tcc__cuda_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, const char *purpose,
                                  tcc_cuda_address *out);
tcc_status __wrap_tcc__cuda_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, const char *purpose,
                                  tcc_cuda_address *out);

static tcc_device_ops real_ops;

static tcc_status count_alloc(tcc_device *device, tcc_diag *d, int64_t size_bytes, void **out) {
    allocated[PLANNED] += size_bytes;
    return real_ops.alloc(device, d, size_bytes, out);
}

tcc_status __wrap_tcc_device_cpu_create(tcc_context *cx, int threads, tcc_device **out) {
    static tcc_device_ops counting;
    tcc_status status = __real_tcc_device_cpu_create(cx, threads, out);
    if (status != TCC_OK) return status;
    real_ops = counting = *(*out)->ops;
    counting.alloc = count_alloc;
    (*out)->ops = &counting;
    return TCC_OK;
}

tcc_status __wrap_tcc__cuda_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, const char *purpose,
                                  tcc_cuda_address *out) {
    allocated[purpose_of(purpose)] += size_bytes;
    return __real_tcc__cuda_alloc(cuda, d, size_bytes, purpose, out);
}

/* -- Models -- */

static const struct {
    const char *name, *device, *libraries;
} targets[] = {{"cpu", "cpu", "none"}, {"cuda", "cuda", "none"}, {"cuda, libraries", "cuda", ""}};
enum { TARGETS = sizeof targets / sizeof targets[0] };

static int64_t batch_bytes(const tcc_array *batch) {
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        int64_t n = 4; /* f32 and i32 */
        for (int d = 0; d < batch[i].rank; d++) n *= batch[i].dims[d];
        bytes += n;
    }
    return bytes;
}

/* What is fed to a run lies in one piece of memory, each part in its room: the plan knows nothing of that rounding. */
static int64_t rounding(const tcc_compiled *c) {
    int64_t bytes = c->fed_bytes;
    for (int i = 0; i < c->n_feeds; i++) bytes -= c->feeds[i].size_bytes;
    return bytes;
}

/* One model on one target: a row of the table. `budget` may be NULL. Returns the bytes of the arena. */
static int64_t check_model(const bench_model *c, int target, const char *budget, tcc_checkpointing checkpointing) {
    setenv("TCC_LIBRARIES", targets[target].libraries, 1);
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    tcc_program_info info = {0};
    tcc_model_options options = {.size = sizeof options,
                                 .checkpointing = checkpointing,
                                 .seed = 1,
                                 .optimizer = &c->optimizer,
                                 .device = targets[target].device,
                                 .memory_budget = budget};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    bench_model_batch(c, batch);
    memset(allocated, 0, sizeof allocated);
    tcc_status status = tcc_model_create(cx, bench_model_build, (void *)c, &options, &m);
    if (status == TCC_OK) status = tcc_model_compile(m, true, batch, 2);
    if (status == TCC_OK) status = tcc_model_info(m, &info);
    if (status != TCC_OK) fail_msg("%s on %s: %s", c->name, targets[target].name, tcc_context_error(cx));
    /* The CPU works in the memory of the model's parameters and state, and of the user's batch. */
    int64_t planned = info.peak_bytes + rounding(m->last);
    if (!target) planned -= info.param_bytes + info.state_bytes + batch_bytes(batch);
    printf("%-15s %-16s %14lld %14lld %14lld %14lld %8lld %10lld %10lld\n", c->name, targets[target].name,
           (long long)info.arena_bytes, (long long)info.peak_bytes, (long long)planned, (long long)allocated[PLANNED],
           (long long)allocated[TABLES], (long long)allocated[STAGING], (long long)allocated[TRIALS]);
    if (allocated[PLANNED] != planned)
        fail_msg("%s on %s: %lld bytes are planned, %lld allocated", c->name, targets[target].name, (long long)planned,
                 (long long)allocated[PLANNED]);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    free(batch[0].data);
    free(batch[1].data);
    unsetenv("TCC_LIBRARIES");
    return info.arena_bytes;
}

static void heading(void) {
    printf("%-15s %-16s %14s %14s %14s %14s %8s %10s %10s\n", "model", "target", "arena", "peak", "on the device",
           "allocated", "tables", "staging", "trials");
}

static void planned_is_allocated(void **state) {
    (void)state;
    static const char *const models[] = {"mlp", "mnist_cnn", "char_gpt"};
    heading();
    for (int i = 0; i < (int)(sizeof models / sizeof models[0]); i++)
        for (int target = 0; target < TARGETS; target++)
            check_model(bench_model_find(models[i]), target, NULL, TCC_CHECKPOINTING_AUTO);
}

/* On the GPU alone: nothing runs, so that what is allocated there is never touched. */
static void planned_is_allocated_for_large_models(void **state) {
    (void)state;
    static const char *const models[] = {"resnet50", "gpt2_1024"};
    heading();
    for (int i = 0; i < (int)(sizeof models / sizeof models[0]); i++)
        for (int target = 1 + i; target < TARGETS; target++) /* of gigabytes, once */
            check_model(bench_model_find(models[i]), target, NULL, TCC_CHECKPOINTING_AUTO);
}

static void planned_is_allocated_with_a_budget(void **state) {
    (void)state;
    const bench_model *c = bench_model_find("char_gpt");
    heading();
    for (int target = 0; target < TARGETS; target++) {
        const int64_t all = check_model(c, target, NULL, TCC_CHECKPOINTING_NONE),
                      half = check_model(c, target, "50%", TCC_CHECKPOINTING_AUTO);
        if (half > all / 2) fail_msg("%lld bytes of %lld with half of them", (long long)half, (long long)all);
    }
}

/* -- Ranks, each of which has memory for what the others send it -- */

typedef struct rank_memory {
    int64_t planned, allocated;
} rank_memory;

static void make_ready(void *user, int rank, tcc_context *cx, tcc_comm *comm) {
    rank_memory *memory = (rank_memory *)user + rank;
    const bench_model *c = bench_model_find("mlp");
    tcc_model *m;
    tcc_array batch[2];
    tcc_program_info info = {0};
    tcc_model_options options = {
        .size = sizeof options, .seed = 1, .optimizer = &c->optimizer, .device = "cuda", .comm = comm};
    bench_model_batch(c, batch);
    memset(allocated, 0, sizeof allocated);
    tcc_status status = tcc_model_create(cx, bench_model_build, (void *)c, &options, &m);
    if (status == TCC_OK) status = tcc_model_compile(m, true, batch, 2);
    if (status == TCC_OK) status = tcc_model_info(m, &info);
    if (status == TCC_OK) *memory = (rank_memory){info.peak_bytes + rounding(m->last), allocated[PLANNED]};
    else print_message("%s\n", tcc_context_error(cx));
    tcc_model_destroy(m);
    free(batch[0].data);
    free(batch[1].data);
}

static void planned_is_allocated_on_ranks(void **state) {
    (void)state;
    rank_memory memory[2] = {{0}};
    assert_true(run_rank_threads(2, make_ready, memory));
    for (int r = 0; r < 2; r++) {
        assert_true(memory[r].planned > 0);
        assert_int_equal(memory[r].planned, memory[r].allocated);
    }
}

int main(int argc, char **argv) {
    setenv("PTXSIM_DEVICES", "2", 0);
    setenv("PTXSIM_MEMORY_MIB", "32768", 0); /* of addresses: the stand-in has pages where it is written */
    if (argc > 1) {
        heading();
        for (int i = 1; i < argc; i++)
            for (int target = 0; target < TARGETS && bench_model_find(argv[i]); target++)
                check_model(bench_model_find(argv[i]), target, getenv("TCC_BENCH_MEMORY_BUDGET"),
                            TCC_CHECKPOINTING_AUTO);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_is_allocated), cmocka_unit_test(planned_is_allocated_for_large_models),
        cmocka_unit_test(planned_is_allocated_with_a_budget), cmocka_unit_test(planned_is_allocated_on_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
