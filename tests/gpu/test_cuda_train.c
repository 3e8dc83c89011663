/* SPDX-License-Identifier: MIT
 * Training on a CUDA device through the public API: losses as on the CPU, parameters that follow the user's writes,
 * results that are read late, faults in the middle of a run, programs for GPUs that are not there, and nothing left
 * behind. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/targets.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 10, BATCH = 4, CONTEXT = 16, VOCAB = 13, PIXELS = 12, CLASSES = 5 };

#define ok(call)                                                                \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* -- Two models and their batches -- */

static void gpt(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor logits = tcc_gpt(
        t, tcc_input(t, "x"),
        &(tcc_gpt_options){
            .layers = 2, .heads = 2, .width = 16, .context = CONTEXT, .vocab = VOCAB, .dropout = 0.1, .bias = true});
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
    tcc_output(t, "logits", logits);
}

static void cnn(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor logits =
        tcc_cnn(t, tcc_input(t, "x"),
                &(tcc_cnn_options){.channels1 = 4, .channels2 = 6, .hidden = 16, .classes = CLASSES, .dropout = 0.2});
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
    tcc_output(t, "logits", logits);
}

/* Small: for what is compiled again and again. */
static void mlp(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_flatten(tcc_input(t, "x"), 1);
    tcc_loss(t, tcc_cross_entropy(
                    tcc_mlp(t, x, &(tcc_mlp_options){.n_hidden = 1, .hidden = (int64_t[]){8}, .outputs = CLASSES}),
                    tcc_input(t, "y")));
}

static int32_t tokens[2][BATCH * CONTEXT];
static float pixels[BATCH * PIXELS * PIXELS];
static int32_t labels[BATCH];

static void gpt_batch(int step, tcc_array out[2]) {
    for (int i = 0; i < BATCH * CONTEXT; i++) {
        tokens[0][i] = (step * 7 + i * i) % VOCAB;
        tokens[1][i] = (tokens[0][i] * 2 + 1) % VOCAB;
    }
    for (int i = 0; i < 2; i++)
        out[i] = (tcc_array){
            .name = i ? "y" : "x", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, CONTEXT}, .data = tokens[i]};
}

static void cnn_batch(int step, tcc_array out[2]) {
    for (int i = 0; i < BATCH; i++) labels[i] = (step + 3 * i) % CLASSES;
    for (int i = 0; i < BATCH * PIXELS * PIXELS; i++)
        pixels[i] = (float)((i * 37 + step * 11 + labels[i / (PIXELS * PIXELS)] * 50) % 101) / 101 - 0.5f;
    out[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {BATCH, 1, PIXELS, PIXELS}, .data = pixels};
    out[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = labels};
}

typedef struct subject {
    tcc_model_fn net;
    void (*batch)(int step, tcc_array out[2]);
    tcc_optimizer_options optimizer;
} subject;

static const subject gpt_subject = {gpt, gpt_batch,
                                    OPTIMIZER(TCC_ADAMW, 3e-3, .weight_decay = 0.1, .clip_grad_norm = 1)};
static const subject cnn_subject = {cnn, cnn_batch, OPTIMIZER(TCC_SGD, 0.05, .momentum = 0.9)};
static const subject mlp_subject = {mlp, cnn_batch, OPTIMIZER(TCC_SGD, 0.1, .momentum = 0)};

static tcc_status make(tcc_context *cx, const subject *s, const char *device, tcc_mode mode, tcc_model **out) {
    const tcc_model_options o = {
        .size = sizeof o, .device = device, .mode = mode, .seed = 7, .optimizer = &s->optimizer};
    return tcc_model_create(cx, s->net, NULL, &o, out);
}

/* -- The same as on the CPU -- */

typedef struct results {
    double losses[STEPS], evaluation;
    float *params;
    int64_t n_params;
} results;

static void collect(tcc_model *m, results *r) {
    tcc_array a;
    r->params = NULL;
    r->n_params = 0;
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        int64_t n = 1;
        for (int d = 0; d < a.rank; d++) n *= a.dims[d];
        r->params = realloc(r->params, (size_t)(r->n_params + n) * sizeof *r->params);
        assert_non_null(r->params);
        memcpy(r->params + r->n_params, a.data, (size_t)n * sizeof *r->params);
        r->n_params += n;
    }
}

/* All steps are enqueued before the first loss is read. */
static results train(const subject *s, const char *device, tcc_mode mode) {
    results r;
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2], loss;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(make(cx, s, device, mode, &m));
    for (int step = 0; step < STEPS; step++) {
        s->batch(step, batch);
        tcc_model_set_lr(m, s->optimizer.lr * (1 - 0.05 * step));
        ok(tcc_model_train(m, batch, 2));
    }
    for (int step = 0; step < STEPS; step++) ok(tcc_model_step_loss(m, step, &r.losses[step]));
    assert_true(tcc_model_loss(m) == r.losses[STEPS - 1]);
    s->batch(STEPS, batch);
    ok(tcc_model_evaluate(m, batch, 2));
    r.evaluation = tcc_model_loss(m);
    ok(tcc_model_output(m, "loss", &loss));
    assert_true((double)*(const float *)loss.data == r.evaluation);
    double other;
    assert_int_equal(tcc_model_step_loss(m, STEPS, &other), TCC_ENOTFOUND);
    assert_true(isnan(other));
    ok(tcc_model_synchronize(m));
    collect(m, &r);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return r;
}

static void check_close(const results *a, const results *b, double tolerance) {
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(a->losses[i] - b->losses[i]) <= tolerance * fabs(a->losses[i])))
            fail_msg("step %d: loss %.9g instead of %.9g", i, b->losses[i], a->losses[i]);
    if (!(fabs(a->evaluation - b->evaluation) <= tolerance * fabs(a->evaluation)))
        fail_msg("evaluation: %.9g instead of %.9g", b->evaluation, a->evaluation);
    assert_int_equal(a->n_params, b->n_params);
    for (int64_t i = 0; i < a->n_params; i++)
        if (!(fabs((double)(a->params[i] - b->params[i])) <= 1e-3))
            fail_msg("parameter %lld: %g instead of %g", (long long)i, (double)b->params[i], (double)a->params[i]);
}

static void check_subject(const subject *s) {
    results cpu = train(s, "cpu", TCC_MODE_DEFAULT), cuda = train(s, "cuda", TCC_MODE_DEFAULT),
            again = train(s, "cuda:0", TCC_MODE_DEFAULT);
    check_close(&cpu, &cuda, 1e-5);
    assert_memory_equal(cuda.losses, again.losses, sizeof cuda.losses);
    assert_memory_equal(cuda.params, again.params, (size_t)cuda.n_params * sizeof *cuda.params);
    results eager = train(s, "cuda", TCC_MODE_EAGER);
    check_close(&cpu, &eager, 1e-5);
    if (sim.report_count && sim.report_count()) fail_msg("%s", sim.last_report());
    free(cpu.params);
    free(cuda.params);
    free(again.params);
    free(eager.params);
}

static void test_gpt(void **state) {
    (void)state;
    check_subject(&gpt_subject);
}

static void test_cnn(void **state) {
    (void)state;
    check_subject(&cnn_subject);
}

/* The stand-in executes nothing until somebody waits: no launch of these steps has run when they are all enqueued. */
static void test_no_waiting(void **state) {
    (void)state;
    skip_without(sim.get_stats, STAND_IN_COUNTS);
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    double loss;
    ptxsim_stats before, after;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(make(cx, &gpt_subject, "cuda", TCC_MODE_DEFAULT, &m));
    gpt_batch(0, batch);
    ok(tcc_model_train(m, batch, 2));
    ok(tcc_model_step_loss(m, 0, &loss));
    assert_int_equal(sim.get_stats(NULL, &before), 0);
    for (int step = 1; step <= 3; step++) {
        gpt_batch(step, batch);
        tcc_model_set_lr(m, 1e-3 / step);
        ok(tcc_model_train(m, batch, 2));
    }
    assert_int_equal(sim.get_stats(NULL, &after), 0);
    assert_int_equal(before.launches, after.launches);
    ok(tcc_model_step_loss(m, 1, &loss)); /* runs the first of them, no more */
    assert_int_equal(sim.get_stats(NULL, &after), 0);
    assert_true(after.launches >= 2 * before.launches && after.launches < 3 * before.launches);
    ok(tcc_model_synchronize(m));
    assert_int_equal(sim.get_stats(NULL, &after), 0);
    assert_int_equal(after.launches, 4 * before.launches);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- The two sides of parameters -- */

static void test_parameters(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2], before, after, moment;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(make(cx, &gpt_subject, "cuda", TCC_MODE_DEFAULT, &m));
    assert_string_equal(tcc_model_device(m), "cuda:0");
    assert_true(isnan(tcc_model_loss(m)));
    gpt_batch(0, batch);
    ok(tcc_model_compile(m, true, batch, 2));
    assert_true(isnan(tcc_model_loss(m)));
    const char *name = "transformer.wpe.weight";
    assert_true(tcc_model_find_param(m, name, &before));
    float was = *(float *)before.data;
    ok(tcc_model_train(m, batch, 2));
    assert_true(tcc_model_find_param(m, name, &after));
    assert_ptr_equal(before.data, after.data);
    assert_true(*(float *)after.data != was); /* trained there, seen here */
    assert_true(tcc_model_optimizer_state(m, 0, &moment));
    bool moved = false;
    for (int i = 0; i < 16; i++) moved |= ((float *)moment.data)[i] != 0;
    assert_true(moved);

    ok(tcc_model_evaluate(m, batch, 2));
    double loss = tcc_model_loss(m);
    assert_true(tcc_model_find_param(m, name, &after));
    float *weights = after.data;
    float saved[CONTEXT * 16];
    memcpy(saved, weights, sizeof saved);
    for (int i = 0; i < CONTEXT * 16; i++) weights[i] += (float)(i % 7); /* written here, used there */
    ok(tcc_model_evaluate(m, batch, 2));
    assert_true(tcc_model_loss(m) != loss);
    assert_true(tcc_model_find_param(m, name, &after));
    memcpy(after.data, saved, sizeof saved);
    ok(tcc_model_evaluate(m, batch, 2));
    assert_true(tcc_model_loss(m) == loss);
    tcc_array logits;
    ok(tcc_model_output(m, "logits", &logits));
    assert_int_equal(logits.dims[2], VOCAB);
    assert_true(isfinite(((float *)logits.data)[BATCH * CONTEXT * VOCAB - 1]));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void test_verify(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(make(cx, &gpt_subject, "cuda", TCC_MODE_DEFAULT, &m));
    gpt_batch(0, batch);
    ok(tcc_model_verify(m, batch, 2, 0, NULL));
    for (int i = 0; i < 2; i++) ok(tcc_model_train(m, batch, 2));
    ok(tcc_model_verify(m, batch, 2, 0, NULL));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void test_profile(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    char *text;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(make(cx, &cnn_subject, "cuda", TCC_MODE_DEFAULT, &m));
    tcc_model_profile(m, true);
    cnn_batch(0, batch);
    for (int i = 0; i < 2; i++) ok(tcc_model_train(m, batch, 2));
    ok(tcc_model_report(m, "kernels", &text));
    assert_non_null(strstr(text, "minima of 2 runs; the device does"));
    tcc_string_free(text);
    ok(tcc_model_report(m, "ptx", &text));
    assert_non_null(strstr(text, ".target sm_"));
    tcc_string_free(text);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- Faults -- */

/* Trains until something fails; returns that. */
static tcc_status train_until_failure(tcc_context *cx, tcc_model **m) {
    tcc_array batch[2];
    tcc_status status = make(cx, &mlp_subject, "cuda", TCC_MODE_DEFAULT, m);
    for (int step = 0; step < 2 && status == TCC_OK; step++) {
        cnn_batch(step, batch);
        status = tcc_model_train(*m, batch, 2);
        if (status == TCC_OK) status = tcc_model_evaluate(*m, batch, 2);
    }
    return status == TCC_OK ? tcc_model_synchronize(*m) : status;
}

/* Call number n fails, for n from 1 by growing strides, until none does. */
static void inject(ptxsim_fault fault, tcc_status expected, const char *words) {
    int failed = 0;
    for (int n = 1;; n += 1 + n / 6) {
        tcc_context *cx, *other;
        tcc_model *m = NULL, *first;
        sim.restart();
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_int_equal(tcc_context_create(&other), TCC_OK);
        assert_int_equal(make(other, &cnn_subject, "cuda", TCC_MODE_DEFAULT, &first), TCC_OK); /* starts the driver */
        sim.inject(fault, n);
        tcc_status status = train_until_failure(cx, &m);
        sim.inject(fault, 0);
        if (status != TCC_OK && (status != expected || !strstr(tcc_context_error(cx), words)))
            fail_msg("call %d: %s: \"%s\" does not say \"%s\"", n, tcc_status_name(status), tcc_context_error(cx),
                     words);
        tcc_model_destroy(m);
        tcc_model_destroy(first);
        tcc_context_destroy(cx);
        tcc_context_destroy(other);
        check_nothing_alive();
        if (status == TCC_OK) break;
        failed++;
    }
    assert_true(failed >= 2);
}

static void test_memory_faults(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    inject(PTXSIM_FAULT_ALLOC, TCC_ENOMEM, "out of memory");
    inject(PTXSIM_FAULT_HOST, TCC_ENOMEM, "no pinned memory for cuda:0 (");
    inject(PTXSIM_FAULT_MODULE, TCC_ENOMEM, "the driver refuses module ");
}

static void test_launch_faults(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    inject(PTXSIM_FAULT_LAUNCH, TCC_EDEVICE, "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    inject(PTXSIM_FAULT_LOST, TCC_EDEVICE, "CUDA_ERROR_DEVICE_UNAVAILABLE");
}

/* A lost device does not hand out stale parameters. */
static void test_lost(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2], a;
    double loss;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    ok(make(cx, &gpt_subject, "cuda", TCC_MODE_DEFAULT, &m));
    gpt_batch(0, batch);
    ok(tcc_model_train(m, batch, 2));
    sim.inject(PTXSIM_FAULT_LOST, 5);
    assert_int_equal(tcc_model_train(m, batch, 2), TCC_OK); /* enqueued, no more */
    assert_int_equal(tcc_model_step_loss(m, 1, &loss), TCC_EDEVICE);
    assert_non_null(strstr(tcc_context_error(cx), "is lost"));
    assert_true(isnan(loss) && isnan(tcc_model_loss(m)));
    assert_int_equal(tcc_model_synchronize(m), TCC_EDEVICE);
    assert_false(tcc_model_param(m, 0, &a));
    assert_int_equal(tcc_model_train(m, batch, 2), TCC_EDEVICE);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- Names of devices, and GPUs that are not there -- */

static void check_found(tcc_context *cx, const char *name, const char *device, const char *words) {
    char *found, *text;
    ok(tcc_find_device(cx, name, &found, &text));
    assert_string_equal(found, device);
    if (!strstr(text, words) || strchr(text, '\n')) fail_msg("'%s' does not say '%s' in one line", text, words);
    tcc_string_free(found);
    tcc_string_free(text);
}

static void test_names(void **state) {
    (void)state;
    tcc_context *cx;
    char *found, *text;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    check_found(cx, "cpu", "cpu", " thread");
    check_found(cx, "auto", "cuda:0", "cuda:0: ");
    check_found(cx, "cuda", "cuda:0", " SMs, ");
    check_found(cx, "cuda:0", "cuda:0", "driver for CUDA ");
    assert_int_equal(tcc_find_device(cx, "cuda:99", &found, &text), TCC_EUNSUPPORTED);
    assert_non_null(strstr(tcc_context_error(cx), "no device cuda:99"));
    assert_null(text);
    static const char *const wrong[] = {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "CUDA"};
    for (int i = 0; i < 6; i++) assert_int_equal(tcc_find_device(cx, wrong[i], &found, &text), TCC_EINVAL);
    ok(tcc_describe_devices(cx, &text));
    assert_non_null(strstr(text, "cuda:0: "));
    tcc_string_free(text);
    if (sim.restart) {
        setenv("PTXSIM_DEVICES", "0", 1);
        sim.restart();
        check_found(cx, "auto", "cpu", "; no CUDA device: the driver ");
        assert_int_equal(tcc_find_device(cx, "cuda", &found, &text), TCC_EUNSUPPORTED);
        tcc_model *m;
        ok(make(cx, &cnn_subject, "auto", TCC_MODE_DEFAULT, &m));
        assert_string_equal(tcc_model_device(m), "cpu");
        tcc_model_destroy(m);
        unsetenv("PTXSIM_DEVICES");
        sim.restart();
    }
    tcc_context_destroy(cx);
}

static void test_arch(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2], a;
    char *text;
    double loss;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    tcc_model_options o = {.size = sizeof o, .arch = "sm_80", .seed = 7};
    ok(tcc_model_create(cx, gpt, NULL, &o, &m));
    assert_string_equal(tcc_model_device(m), "none");
    gpt_batch(0, batch);
    ok(tcc_model_compile(m, true, batch, 2));
    ok(tcc_model_report(m, "ptx", &text));
    assert_non_null(strstr(text, ".target sm_80"));
    tcc_string_free(text);
    ok(tcc_model_report(m, "llvm", &text));
    assert_non_null(strstr(text, "nvptx64-nvidia-cuda"));
    tcc_string_free(text);
    tcc_program_info info;
    ok(tcc_model_info(m, &info));
    assert_true(info.kernels > 5 && info.arena_bytes > 0);
    assert_true(tcc_model_param(m, 0, &a) && a.data);
    assert_int_equal(tcc_model_train(m, batch, 2), TCC_EUNSUPPORTED);
    assert_non_null(strstr(tcc_context_error(cx), "made for the architecture sm_80, not for a device"));
    assert_int_equal(tcc_model_output(m, "loss", &a), TCC_EUNSUPPORTED);
    assert_int_equal(tcc_model_step_loss(m, 0, &loss), TCC_ENOTFOUND);
    assert_int_equal(tcc_model_report(m, "kernels", &text), TCC_EUNSUPPORTED);
    assert_int_equal(tcc_model_verify(m, batch, 2, 0, NULL), TCC_EUNSUPPORTED);
    ok(tcc_model_synchronize(m));
    tcc_model_destroy(m);
    tcc_context_clear_error(cx);
    o.arch = "sm_1";
    assert_int_equal(tcc_model_create(cx, gpt, NULL, &o, &m), TCC_EUNSUPPORTED);
    tcc_context_destroy(cx);
}

static void test_targets(void **state) {
    (void)state;
    check_targets("cuda", TCC_MODE_DEFAULT);
}

/* Poisoning copies, and waits for that: not where copies are counted, or a step is to be under way. */
static int unpoisoned(void **state) {
    unsetenv("TCC_POISON");
    return cuda_fresh(state);
}
static int poisoned_again(void **state) {
    setenv("TCC_POISON", "1", 1);
    return cuda_finish(state);
}
#define UNPOISONED(test) cmocka_unit_test_setup_teardown(test, unpoisoned, poisoned_again)

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_gpt),    CUDA_TEST(test_cnn),     UNPOISONED(test_no_waiting),   CUDA_TEST(test_parameters),
        CUDA_TEST(test_verify), CUDA_TEST(test_profile), CUDA_TEST(test_memory_faults), CUDA_TEST(test_launch_faults),
        UNPOISONED(test_lost),  CUDA_TEST(test_names),   CUDA_TEST(test_arch),          CUDA_TEST(test_targets),
    };
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
