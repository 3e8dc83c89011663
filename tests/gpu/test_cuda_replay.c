/* SPDX-License-Identifier: MIT
 * Steps that are replayed as CUDA graphs: the same bits as launches, few calls of the driver a step and no allocation,
 * no more memory, captures anew where an address changes, what cannot be captured, and every fault on the way. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/program.h"
#include "harness/sample_program.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 6, BATCH = 4, CONTEXT = 16, VOCAB = 13 };

#define ok(call)                                                                \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static uint64_t (*get_calls)(const char *name);

static int set_up(void **state) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    find_function(driver, "ptxsim_get_calls", &get_calls);
    unsetenv("TCC_POISON"); /* a run is to be nothing but the run */
    return cuda_set_up(state);
}

/* -- A program of hand-written PTX -- */

static int64_t x_data[SAMPLE_N], expected[SAMPLE_N], got[SAMPLE_N];

static tcc_status feed_run(rig *r, int step) {
    for (int i = 0; i < SAMPLE_N; i++) x_data[i] = (int64_t)i * 7919 % 1000003 + step;
    sample_expected(x_data, expected);
    tcc_status s = r->device->ops->feed(r->device, &r->cx.diag, r->memory[SAMPLE_X], &(tcc_feed){x_data, SAMPLE_BYTES},
                                        1);
    return s == TCC_OK ? tcc_exec_run(r->exec, &r->cx.diag) : s;
}

static tcc_status check_run(rig *r, int step) {
    tcc_status s = feed_run(r, step);
    if (s == TCC_OK) s = r->device->ops->download(r->device, &r->cx.diag, got, r->memory[SAMPLE_Y], SAMPLE_BYTES);
    if (s == TCC_OK) assert_memory_equal(got, expected, SAMPLE_BYTES);
    return s;
}

static tcc_replay replay_of(const rig *r) {
    tcc_replay report;
    tcc_exec_get_replay(r->exec, &report);
    return report;
}

static void start(rig *r, tcc_replay_mode mode) {
    assert_ok(rig_start(r, sample_program_cuda()), &r->cx.diag);
    assert_ok(tcc_exec_set_replay(r->exec, &r->cx.diag, mode), &r->cx.diag);
}

/* One launch of a graph is a run, and nothing is allocated; other addresses are another generation. */
static void test_replays(void **state) {
    (void)state;
    rig r;
    void *other;
    start(&r, TCC_REPLAY_REQUIRED);
    assert_ok(check_run(&r, 0), &r.cx.diag);
    assert_int_equal(replay_of(&r).stage, TCC_REPLAY_WAITING);
    assert_ok(check_run(&r, 1), &r.cx.diag);
    tcc_replay report = replay_of(&r);
    assert_int_equal(report.stage, TCC_REPLAY_USED);
    assert_int_equal(report.graphs, 1);
    assert_true(report.launches >= 3 && report.captured == report.launches);
    for (int step = 2; step < 5; step++) assert_ok(check_run(&r, step), &r.cx.diag);
    if (get_calls) {
        const uint64_t all = get_calls(NULL), launches = get_calls("cuLaunchKernel");
        assert_ok(tcc_exec_run(r.exec, &r.cx.diag), &r.cx.diag);
        assert_int_equal(get_calls(NULL) - all, 3); /* the context is pushed, the graph launched, the context popped */
        assert_int_equal(get_calls("cuLaunchKernel"), launches);
    }
    assert_ok(r.device->ops->alloc(r.device, &r.cx.diag, SAMPLE_BYTES, &other), &r.cx.diag);
    r.device->ops->free(r.device, r.memory[SAMPLE_X], SAMPLE_BYTES);
    r.memory[SAMPLE_X] = other;
    assert_ok(tcc_exec_bind(r.exec, &r.cx.diag, SAMPLE_X, other, SAMPLE_BYTES), &r.cx.diag);
    for (int step = 5; step < 8; step++) assert_ok(check_run(&r, step), &r.cx.diag);
    assert_int_equal(replay_of(&r).captured, report.captured);
    assert_ok(tcc_exec_set_profiling(r.exec, &r.cx.diag, true), &r.cx.diag); /* each step timed: launches */
    assert_ok(check_run(&r, 8), &r.cx.diag);
    rig_stop(&r);
}

/* Two programs in one arena, which then is another. */
static void test_given_arena(void **state) {
    (void)state;
    rig r;
    tcc_exec *second;
    void *arenas[2];
    start(&r, TCC_REPLAY_REQUIRED);
    const int64_t bytes = r.program->arena_bytes;
    const tcc_device_ops *ops = r.device->ops;
    assert_ok(tcc_exec_create_without_arena(&r.cx, r.device, r.program, NULL, &second), &r.cx.diag);
    for (int i = 0; i < r.program->n_bindings; i++)
        assert_ok(tcc_exec_bind(second, &r.cx.diag, i, r.memory[i], tcc_type_bytes(&r.program->bindings[i].type)),
                  &r.cx.diag);
    assert_error(tcc_exec_run(second, &r.cx.diag), TCC_EINVAL, &r.cx.diag, "has no arena");
    assert_error(tcc_exec_set_arena(second, &r.cx.diag, r.memory[0], bytes - 1), TCC_EINVAL, &r.cx.diag,
                 "needs an arena");
    tcc_diag_clear(&r.cx.diag);
    for (int i = 0; i < 2; i++) assert_ok(ops->alloc(r.device, &r.cx.diag, bytes, &arenas[i]), &r.cx.diag);
    for (int i = 0; i < 2; i++) {
        assert_ok(tcc_exec_set_arena(second, &r.cx.diag, arenas[i], bytes), &r.cx.diag);
        assert_ok(tcc_exec_set_arena(r.exec, &r.cx.diag, arenas[i], bytes), &r.cx.diag);
        if (i) ops->free(r.device, arenas[0], bytes); /* whoever still used it would fail */
        for (int step = 0; step < 3; step++) {
            assert_ok(check_run(&r, step), &r.cx.diag);
            tcc_exec *first = r.exec;
            r.exec = second;
            assert_ok(check_run(&r, step + 10), &r.cx.diag);
            r.exec = first;
        }
    }
    ops->free(r.device, arenas[1], bytes);
    tcc_exec_destroy(second);
    rig_stop(&r);
}

/* Where launches are faster, they are kept, and both times are told. */
static void test_slower(void **state) {
    (void)state;
    for (int slow = 0; slow < (get_calls ? 2 : 1);
         slow++) { /* the stand-in's graphs are as slow as they are told to be */
        rig r;
        if (sim.restart) sim.restart();
        if (slow) setenv("PTXSIM_GRAPH_US", "200000", 1);
        start(&r, TCC_REPLAY_IF_FASTER);
        for (int step = 0; step < 10; step++) assert_ok(check_run(&r, step), &r.cx.diag);
        const tcc_replay report = replay_of(&r);
        assert_true(report.replay_ns > 0 && report.launch_ns > 0);
        if (slow) {
            assert_int_equal(report.stage, TCC_REPLAY_SLOWER);
            assert_int_equal(report.graphs, 0);
            assert_true(report.replay_ns > report.launch_ns);
            const uint64_t launches = get_calls("cuGraphLaunch");
            assert_ok(check_run(&r, 11), &r.cx.diag);
            assert_int_equal(get_calls("cuGraphLaunch"), launches);
        } else assert_true(report.stage == TCC_REPLAY_USED || report.stage == TCC_REPLAY_SLOWER);
        rig_stop(&r);
        unsetenv("PTXSIM_GRAPH_US");
    }
}

/* A graph that cannot be made: launches, and why; or the error that it is where graphs are required. */
static void test_no_memory_for_graphs(void **state) {
    (void)state;
    rig r;
    skip_without(sim.inject, STAND_IN_FAILS);
    start(&r, TCC_REPLAY_IF_FASTER);
    assert_ok(check_run(&r, 0), &r.cx.diag);
    sim.inject(PTXSIM_FAULT_GRAPH, 1);
    for (int step = 1; step < 4; step++) assert_ok(check_run(&r, step), &r.cx.diag);
    assert_int_equal(replay_of(&r).stage, TCC_REPLAY_REFUSED);
    assert_non_null(strstr(replay_of(&r).why, "CUDA_ERROR_OUT_OF_MEMORY"));
    rig_stop(&r);
    start(&r, TCC_REPLAY_REQUIRED);
    assert_ok(check_run(&r, 0), &r.cx.diag);
    sim.inject(PTXSIM_FAULT_GRAPH, 1);
    assert_error(check_run(&r, 1), TCC_EUNSUPPORTED, &r.cx.diag, "CUDA_ERROR_OUT_OF_MEMORY");
    rig_stop(&r);
}

/* Launches that are waited for cannot be captured: the error that it is where graphs are required. */
static void test_blocking_launches(void **state) {
    (void)state;
    rig r;
    setenv("TCC_LAUNCH_BLOCKING", "1", 1);
    start(&r, TCC_REPLAY_REQUIRED);
    unsetenv("TCC_LAUNCH_BLOCKING");
    assert_error(check_run(&r, 0), TCC_EUNSUPPORTED, &r.cx.diag, "TCC_LAUNCH_BLOCKING");
    rig_stop(&r);
}

/* Every call fails once, also those of the capture: a run is right, or an error, and nothing stays behind. */
static void test_every_call_fails(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    for (int n = 1;; n++) {
        rig r;
        sim.restart();
        start(&r, TCC_REPLAY_IF_FASTER);
        const uint64_t before = get_calls(NULL);
        sim.inject(PTXSIM_FAULT_CALL, n);
        tcc_status s = TCC_OK;
        for (int step = 0; step < 10 && s == TCC_OK; step++) s = check_run(&r, step);
        sim.inject(PTXSIM_FAULT_CALL, 0);
        if (s != TCC_OK && s != TCC_EDEVICE) fail_msg("call %d: %s", n, tcc_diag_text(&r.cx.diag));
        const bool all = (uint64_t)n > get_calls(NULL) - before; /* more than there are */
        rig_stop(&r);
        check_nothing_alive();
        if (all) return;
    }
}

static tcc_status run_until_lost(rig *r) {
    tcc_status s = TCC_OK;
    for (int step = 1; step < 6 && s == TCC_OK; step++) s = check_run(r, step);
    return s;
}

/* The device is lost while a replay runs: an error that says so, then and from then on. */
static void test_lost(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    for (int n = 1; n < 12; n++) {
        rig r;
        sim.restart();
        start(&r, TCC_REPLAY_REQUIRED);
        assert_ok(check_run(&r, 0), &r.cx.diag);
        sim.inject(PTXSIM_FAULT_LOST, n);
        assert_error(run_until_lost(&r), TCC_EDEVICE, &r.cx.diag, "CUDA_ERROR_DEVICE_UNAVAILABLE");
        assert_error(check_run(&r, 7), TCC_EDEVICE, &r.cx.diag, "no more use");
        rig_stop(&r);
        check_nothing_alive();
    }
}

/* The same while steps are captured, at each of them. */
static void test_lost_in_capture(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    for (int n = 1; n <= 6; n++) {
        rig r;
        sim.restart();
        start(&r, n % 2 ? TCC_REPLAY_REQUIRED : TCC_REPLAY_IF_FASTER);
        assert_ok(check_run(&r, 0), &r.cx.diag);
        sim.inject(PTXSIM_FAULT_GONE, (n + 1) / 2);
        assert_error(check_run(&r, 1), TCC_EDEVICE, &r.cx.diag, "CUDA_ERROR_DEVICE_UNAVAILABLE");
        assert_error(check_run(&r, 2), TCC_EDEVICE, &r.cx.diag, "no more use");
        rig_stop(&r);
        check_nothing_alive();
    }
}

/* A capture that something makes invalid: the step at which it shows is launched, the others are captured, and runs are
 * right; or it is the error that it is where graphs are required. */
static void test_spoilt_capture(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    for (int n = 1; n <= 3; n++) {
        rig r;
        sim.restart();
        start(&r, TCC_REPLAY_IF_FASTER);
        assert_ok(check_run(&r, 0), &r.cx.diag);
        sim.inject(PTXSIM_FAULT_SPOIL, n);
        for (int step = 1; step < 4; step++) assert_ok(check_run(&r, step), &r.cx.diag);
        const tcc_replay report = replay_of(&r);
        assert_true(report.captured > 0 && report.captured < report.launches);
        if (!strstr(report.why, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")) fail_msg("%s", report.why);
        for (int step = 4; step < 12; step++) assert_ok(check_run(&r, step), &r.cx.diag);
        rig_stop(&r);
        check_nothing_alive();
        sim.restart();
        start(&r, TCC_REPLAY_REQUIRED);
        assert_ok(check_run(&r, 0), &r.cx.diag);
        sim.inject(PTXSIM_FAULT_SPOIL, n);
        assert_error(check_run(&r, 1), TCC_EUNSUPPORTED, &r.cx.diag, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
        rig_stop(&r);
        check_nothing_alive();
    }
}

/* -- Models -- */

static int32_t tokens[2][BATCH * CONTEXT];

static void gpt(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor logits = tcc_gpt(
        t, tcc_input(t, "x"),
        &(tcc_gpt_options){
            .layers = 2, .heads = 2, .width = 16, .context = CONTEXT, .vocab = VOCAB, .dropout = 0.1, .bias = true});
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static void make_batch(int step, int rows, tcc_array out[2]) {
    for (int i = 0; i < rows * CONTEXT; i++) {
        tokens[0][i] = (i * 5 + step * 3 + i / CONTEXT) % VOCAB;
        tokens[1][i] = (tokens[0][i] * 2 + 1) % VOCAB;
    }
    for (int i = 0; i < 2; i++)
        out[i] =
            (tcc_array){.name = i ? "y" : "x", .dtype = TCC_I32, .rank = 2, .dims = {rows, CONTEXT}, .data = tokens[i]};
}

typedef struct outcome {
    double losses[STEPS], evaluations[STEPS];
    tcc_strbuf params;
    tcc_program_info info;
    ptxsim_live live;
    char *text;
} outcome;

/* Steps with a schedule, an evaluation after each, and a smaller batch among them: three programs of one model. */
static void train(tcc_context *cx, const tcc_model_options *o, outcome *out) {
    tcc_model *m;
    tcc_array batch[2], a;
    memset(out, 0, sizeof *out);
    ok(tcc_model_create(cx, gpt, NULL, o, &m));
    for (int step = 0; step < STEPS; step++) {
        tcc_model_set_lr(m, 3e-3 * (1 - 0.1 * step));
        make_batch(step, step % 3 == 2 ? BATCH / 2 : BATCH, batch);
        ok(tcc_model_train(m, batch, 2));
        ok(tcc_model_step_loss(m, step, &out->losses[step]));
        make_batch(100 + step, BATCH, batch);
        ok(tcc_model_evaluate(m, batch, 2));
        out->evaluations[step] = tcc_model_loss(m);
    }
    make_batch(STEPS, BATCH, batch);
    ok(tcc_model_train(m, batch, 2));
    ok(tcc_model_synchronize(m));
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        size_t bytes = 4;
        for (int d = 0; d < a.rank; d++) bytes *= (size_t)a.dims[d];
        tcc_strbuf_addn(&out->params, a.data, bytes);
    }
    ok(tcc_model_info(m, &out->info));
    ok(tcc_model_report(m, "graphs", &out->text));
    if (sim.get_live) sim.get_live(&out->live);
    tcc_model_destroy(m);
}

static const tcc_optimizer_options optimizer = OPTIMIZER(TCC_ADAMW, 3e-3, .weight_decay = 0.1, .clip_grad_norm = 1);

static tcc_model_options options(tcc_mode mode) {
    return (tcc_model_options){.size = sizeof(tcc_model_options),
                               .device = "cuda",
                               .mode = mode,
                               .seed = 7,
                               .require_graphs = mode == TCC_MODE_REDUCE_OVERHEAD,
                               .optimizer = &optimizer};
}

static void free_outcome(outcome *o) {
    tcc_strbuf_free(&o->params);
    tcc_string_free(o->text);
}

/* Replays give the bits of launches, in memory that is no larger; in 32 bits and with a scaled loss. */
static void test_same_bits(void **state) {
    (void)state;
    static const tcc_mixed_precision precisions[] = {TCC_MIXED_FP16, TCC_MIXED_NONE, TCC_MIXED_BF16};
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
        tcc_context *cx;
        outcome launched, replayed;
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        tcc_model_options o = options(TCC_MODE_DEFAULT);
        o.mixed_precision = precisions[i];
        train(cx, &o, &launched);
        o = options(TCC_MODE_REDUCE_OVERHEAD);
        o.mixed_precision = precisions[i];
        train(cx, &o, &replayed);
        assert_memory_equal(launched.losses, replayed.losses, sizeof launched.losses);
        assert_memory_equal(launched.evaluations, replayed.evaluations, sizeof launched.evaluations);
        assert_int_equal(launched.params.length, replayed.params.length);
        assert_memory_equal(launched.params.text, replayed.params.text, launched.params.length);
        assert_int_equal(replayed.info.graphs, 1);
        assert_int_equal(replayed.info.captured_launches, replayed.info.launches);
        assert_true(replayed.info.launches > 10);
        assert_int_equal(launched.info.launches, 0);
        assert_int_equal(launched.info.peak_bytes, replayed.info.peak_bytes);
        assert_true(replayed.live.peak_device_bytes <= launched.live.peak_device_bytes);
        assert_string_equal(launched.text, "");
        assert_non_null(strstr(replayed.text, "launches of the training step are captured in 1 graph\n"));
        if (sim.report_count && sim.report_count()) fail_msg("%s", sim.last_report());
        free_outcome(&launched);
        free_outcome(&replayed);
        tcc_context_destroy(cx);
        if (sim.restart) sim.restart();
    }
}

/* What a step costs: the batch and what else changes in one copy, the graph, and the loss on its way back. */
static void test_calls_of_a_step(void **state) {
    (void)state;
    skip_without(get_calls, STAND_IN_COUNTS);
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    tcc_model_options o = options(TCC_MODE_REDUCE_OVERHEAD);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(tcc_model_create(cx, gpt, NULL, &o, &m));
    for (int step = 0; step < 3; step++) {
        make_batch(step, BATCH, batch);
        ok(tcc_model_train(m, batch, 2));
    }
    ok(tcc_model_synchronize(m));
    static const struct {
        const char *name;
        int count;
    } expected_calls[] = {
        {"cuGraphLaunch", 1}, {"copy", 2},           {"cuEventRecord", 2},     {"cuLaunchKernel", 0},
        {"cuMemAlloc_v2", 0}, {"cuMemHostAlloc", 0}, {"cuStreamWaitEvent", 0}, {"cuStreamSynchronize", 0}};
    enum { KINDS = sizeof expected_calls / sizeof expected_calls[0] };
    uint64_t before[KINDS];
    for (int i = 0; i < KINDS; i++) before[i] = get_calls(expected_calls[i].name);
    enum { RUNS = 3 };
    for (int step = 3; step < 3 + RUNS; step++) {
        make_batch(step, BATCH, batch);
        ok(tcc_model_train(m, batch, 2));
    }
    for (int i = 0; i < KINDS; i++)
        if (get_calls(expected_calls[i].name) - before[i] != (uint64_t)(RUNS * expected_calls[i].count))
            fail_msg("%s: %llu calls in %d steps", expected_calls[i].name,
                     (unsigned long long)(get_calls(expected_calls[i].name) - before[i]), RUNS);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* All programs of a model share an arena: the peak that is told is what is allocated. */
static void test_one_arena(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    tcc_program_info info[3];
    tcc_model_options o = options(TCC_MODE_DEFAULT);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(tcc_model_create(cx, gpt, NULL, &o, &m));
    make_batch(0, BATCH / 2, batch);
    ok(tcc_model_compile(m, true, batch, 2));
    ok(tcc_model_info(m, &info[0]));
    make_batch(0, BATCH, batch);
    ok(tcc_model_compile(m, true, batch, 2)); /* a larger arena */
    ok(tcc_model_info(m, &info[1]));
    ok(tcc_model_compile(m, false, batch, 2)); /* a smaller one */
    ok(tcc_model_info(m, &info[2]));
    assert_true(info[1].arena_bytes > info[0].arena_bytes && info[2].arena_bytes < info[1].arena_bytes);
    const int64_t fed = 2 * 4 * BATCH * CONTEXT;
    assert_true(info[1].peak_bytes - info[0].peak_bytes < info[1].arena_bytes - info[0].arena_bytes + fed + 1024);
    assert_true(info[2].peak_bytes - info[1].peak_bytes < fed + 1024);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* What cannot be: told when the model is made. */
static void test_refused(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    tcc_model_options o = options(TCC_MODE_DEFAULT);
    o.require_graphs = true;
    assert_int_equal(tcc_model_create(cx, gpt, NULL, &o, &m), TCC_EINVAL);
    assert_non_null(strstr(tcc_context_error(cx), "TCC_MODE_REDUCE_OVERHEAD"));
    o = options(TCC_MODE_REDUCE_OVERHEAD);
    o.device = "cpu";
    assert_int_equal(tcc_model_create(cx, gpt, NULL, &o, &m), TCC_EUNSUPPORTED);
    assert_non_null(strstr(tcc_context_error(cx), "there are no graphs on device 'cpu'"));
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_replays),
        CUDA_TEST(test_given_arena),
        CUDA_TEST(test_slower),
        CUDA_TEST(test_no_memory_for_graphs),
        CUDA_TEST(test_every_call_fails),
        CUDA_TEST(test_lost),
        CUDA_TEST(test_lost_in_capture),
        CUDA_TEST(test_spoilt_capture),
        CUDA_TEST(test_same_bits),
        CUDA_TEST(test_calls_of_a_step),
        CUDA_TEST(test_one_arena),
        CUDA_TEST(test_refused),
        CUDA_TEST(test_blocking_launches),
    };
    const char *only = getenv("TCC_TEST_ONLY"); /* a pattern of names */
    if (only) cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
