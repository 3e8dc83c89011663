/* SPDX-License-Identifier: MIT
 * Tuning among cuDNN's engines, with a clock that says what the test wants: the engines that may be taken are
 * candidates, the fastest is used, and the cache and a lock file hold it by its index and knobs. On a GPU the fastest
 * is the first that has a name. */
#include "frontend/tune/tune.h"
#include "harness/check.h"
#include "harness/cudnn_device.h"
#include "harness/files.h"
#include "harness/judged_model.h"
#include "harness/patience.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A convolution that is just large enough for a library. */
enum { BATCH = 2, CHANNELS = 32, HEIGHT = 18, WIDTH = 19, KERNEL = 5, CLASSES = 5, STEPS = 2, CONVOLUTIONS = 3 };

static float x[BATCH * CHANNELS * HEIGHT * WIDTH];
static int32_t y[BATCH];
static const tcc_array batch[] = {{"x", TCC_F32, 4, {BATCH, CHANNELS, HEIGHT, WIDTH}, x},
                                  {"y", TCC_I32, 1, {BATCH}, y}};
static const char lock[] = "tune_convolution.lock";

/* One convolution with gradients of both kinds. */
static void net(tcc_trace *t, void *user) {
    (void)user;
    const tcc_init one = {.kind = TCC_INIT_CONSTANT, .a = 1};
    tcc_tensor h = tcc_mul(tcc_input(t, "x"), tcc_param(t, "scale", one, TCC_DIMS(CHANNELS, 1, 1)));
    h = tcc_conv_layer(h, "a", CHANNELS, KERNEL, .padding = KERNEL / 2, .no_bias = true);
    h = tcc_flatten(tcc_adaptive_avg_pool(h, TCC_DIMS(1, 1)), 1);
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "out", CLASSES), tcc_input(t, "y")));
}

/* The engine without a workspace is the fastest; our own kernels are not asked, as the stand-in is slow. */
static int64_t judge(void *user, const char *candidate, int64_t ns) {
    char plain[32];
    (void)user;
    snprintf(plain, sizeof plain, "algorithm=%d,", CUDNNSIM_PLAIN + 1);
    if (strncmp(candidate, "\"cudnn", 6) != 0) return ns ? 1000000 : -1;
    if (!ns) return 0;
    if (!dnn.refuse) return strstr(candidate, "algorithm=") && !strstr(candidate, "algorithm=0") ? 300000 : 600000;
    return strstr(candidate, plain) ? 300000 : 600000;
}

static tcc_status create(tcc_context *cx, tcc_mode mode, const char *written, const char *held, tcc_model **out) {
    return judged_model_create(cx, net, judge, mode, written, held, batch, CLASSES, out);
}

/* What training was like. */
typedef struct trained {
    double loss;
    int64_t measured;
    int runs[CUDNNSIM_ENGINES];
} trained;

static trained train(tcc_context *cx, tcc_mode mode, const char *written, const char *held) {
    tcc_model *m;
    cudnnsim_counts counts = {0};
    trained out;
    if (dnn.restart) dnn.restart();
    assert_ok(create(cx, mode, written, held, &m), &cx->diag);
    for (int i = 0; i < STEPS; i++) assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
    out.loss = tcc_model_loss(m), out.measured = m->measured;
    tcc_model_destroy(m);
    if (dnn.get_counts) dnn.get_counts(&counts);
    memcpy(out.runs, counts.runs, sizeof out.runs);
    return out;
}

static const char first_of_line[] = "\"cudnn.conv\" {", number[] = "algorithm=";

/* The file holds the engine, with its knobs, for every convolution. */
static void check_lock(void) {
    int held = 0;
    char *text = test_read(lock, NULL);
    for (const char *at = text; (at = strstr(at, first_of_line)); held++) {
        at = strstr(at, number);
        if (!at || at[strlen(number)] == '0') fail_msg("%s", text);
        if (dnn.refuse && (strncmp(at, "algorithm=6,", 12) != 0 || strstr(text, "by_option=0,"))) fail_msg("%s", text);
    }
    if (held != CONVOLUTIONS) fail_msg("%s", text);
    free(text);
}

/* The file asks for an engine that no library has. */
static void spoil_lock(void) {
    char *text = test_read(lock, NULL), *at = strstr(text, first_of_line);
    at = at ? strstr(at, number) : NULL;
    assert_non_null(at);
    at += strlen(number);
    FILE *f = fopen(lock, "w");
    assert_non_null(f);
    fprintf(f, "%.*s9999%s", (int)(at - text), text, at + strspn(at, "0123456789"));
    fclose(f);
    free(text);
}

/* Only the engine that was chosen runs, once for every convolution of a step. */
static void check_held(const trained *t, double loss) {
    assert_true(fabs(t->loss - loss) < 1e-4);
    assert_int_equal(t->measured, 0);
    for (int i = 0; dnn.get_counts && i < CUDNNSIM_ENGINES; i++)
        assert_int_equal(t->runs[i], i == CUDNNSIM_PLAIN ? CONVOLUTIONS * STEPS : 0);
}

static void the_fastest_engine_is_held(void **state) {
    (void)state;
    tcc_context cx;
    tcc_model *m;
    tcc_strbuf said = {0};
    char folder[] = "engines-XXXXXX";
    skip_without(dnn.found, "there is no cuDNN");
    assert_ok(tcc_context_init(&cx), &cx.diag);
    keep_log(&cx, TCC_LOG_LIBRARY, &said);
    const trained plain = train(&cx, TCC_MODE_DEFAULT, NULL, NULL);
    if (dnn.get_counts) {
        assert_int_equal(plain.runs[CUDNNSIM_WORKSPACE], CONVOLUTIONS * STEPS);
        assert_int_equal(plain.runs[CUDNNSIM_PLAIN], 0);
    }

    assert_non_null(mkdtemp(folder));
    setenv("TCC_CACHE_DIR", folder, 1);
    setenv("TCC_CACHE_DISABLE", "0", 1);
    const trained first = train(&cx, TCC_MODE_MAX_AUTOTUNE, lock, NULL);
    assert_true(first.measured > 0);
    if (dnn.get_counts) assert_true(first.runs[CUDNNSIM_WORKSPACE] > 0 && first.runs[CUDNNSIM_PLAIN] > 0);
    check_lock();
    const trained again = train(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, NULL);
    check_held(&again, plain.loss);
    setenv("TCC_CACHE_DISABLE", "1", 1);
    const trained locked = train(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock);
    check_held(&locked, plain.loss);
    if (dnn.refuse && said.length) fail_msg("nothing was declined, but the log says \"%s\"", said.text);

    if (dnn.refuse) dnn.refuse(1u << CUDNNSIM_PLAIN); /* a library that has it no more */
    else spoil_lock();
    assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock, &m), &cx.diag);
    assert_error(tcc_model_train(m, batch, 2), TCC_EINVAL, &cx.diag, "the library does not offer the algorithm");
    if (!said.text || !strstr(said.text, dnn.refuse ? "5 are other engines" : " are other engines"))
        fail_msg("the log says \"%s\"", said.text);
    tcc_model_destroy(m);
    tcc_context_clear(&cx);
    tcc_strbuf_free(&said);
    unlink(lock);
}

/* A convolution with bias and max(0, x), which a library does in one call. */
static void net_with_relu(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_conv_layer(tcc_input(t, "x"), "a", CHANNELS, KERNEL, .padding = KERNEL / 2));
    tcc_output(t, "pooled", tcc_adaptive_avg_pool(h, TCC_DIMS(2, 2)));
}

static bool has_candidate(const tcc_model *m, const char *words) {
    const struct tcc_tuning *tuning = m->compiler->tuning;
    for (int i = 0; i < tuning->entries.count; i++)
        for (int k = 0; k < tuning->entries.data[i].candidates.count; k++)
            if (strstr(tuning->entries.data[i].candidates.data[k].text, words)) return true;
    return false;
}

/* Of three engines the second one is declined, as it makes a number of NaN: the third is asked for all the same. */
static void a_declined_engine_is_passed_over(void **state) {
    (void)state;
    tcc_context cx;
    tcc_model *m;
    const tcc_model_options options = {.size = sizeof options,
                                       .device = "cuda",
                                       .mode = TCC_MODE_MAX_AUTOTUNE,
                                       .allow_tf32 = true,
                                       .seed = 1,
                                       .autotune_budget_s = test_seconds(60)};
    skip_without(dnn.relu_of, STAND_IN_REFUSES);
    dnn.relu(CUDNNSIM_ZERO);
    dnn.relu_of(1u << CUDNNSIM_WORKSPACE);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_model_create(&cx, net_with_relu, NULL, &options, &m), &cx.diag);
    m->compiler->tuning->judge = judge;
    assert_ok(tcc_model_evaluate(m, batch, 1), &cx.diag);
    assert_true(has_candidate(m, "algorithm=4,"));
    assert_false(has_candidate(m, "algorithm=5,"));
    assert_true(has_candidate(m, "algorithm=6,"));
    tcc_model_destroy(m);
    tcc_context_clear(&cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDNN_TEST(the_fastest_engine_is_held),
                                       CUDNN_TEST(a_declined_engine_is_passed_over)};
    _Static_assert(CUDNNSIM_PLAIN + 1 == 6, "as the lock file has it");
    setenv("TCC_LIBRARIES", "cudnn", 1);
    setenv("TCC_CACHE_DISABLE", "1", 1);
    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
