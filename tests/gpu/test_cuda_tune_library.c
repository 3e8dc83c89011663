/* SPDX-License-Identifier: MIT
 * Tuning among a library's algorithms, with a clock that says what the test wants: cuBLASLt's answers are candidates,
 * the fastest that computes what the default does is taken, and a lock file holds it by its configuration. */
#include "frontend/tune/tune.h"
#include "harness/check.h"
#include "harness/cublaslt.h"
#include "harness/files.h"
#include "harness/judged_model.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 256, WIDTH = 256, CLASSES = 5, STEPS = 2 };
enum { PLAIN = 0, FAST = 21, OTHER = 66 }; /* ids of the stand-in's algorithms */

static float x[ROWS * WIDTH];
static int32_t y[ROWS];
static const tcc_array batch[] = {{"x", TCC_F32, 2, {ROWS, WIDTH}, x}, {"y", TCC_I32, 1, {ROWS}, y}};
static const char lock[] = "tune_library.lock";

/* One product that is large enough for a library, and its gradient. */
static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "a", WIDTH));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "b", CLASSES), tcc_input(t, "y")));
}

/* What each candidate takes: among the library's algorithms the last is the fastest, then the one in parts. Our own
 * kernels are not asked: the stand-in would take long to run them. */
static int64_t judge(void *user, const char *candidate, int64_t ns) {
    (void)user;
    if (strncmp(candidate, "\"cublaslt", 9) != 0) return ns ? 1000000 : -1;
    if (!ns) return 0;
    if (!lt.spoil) return ns;
    if (strstr(candidate, "algorithm=67")) return 300000;
    if (strstr(candidate, "algorithm=22") && strstr(candidate, "by_parts=4")) return 400000;
    return strstr(candidate, "algorithm=22") ? 600000 : 900000;
}

static tcc_status create(tcc_context *cx, tcc_mode mode, const char *written, const char *held, tcc_model **out) {
    return judged_model_create(cx, net, judge, mode, written, held, batch, CLASSES, out);
}

/* The loss after a few steps; *explained is to be freed. */
static double train(tcc_context *cx, tcc_mode mode, const char *written, const char *held, char **explained) {
    tcc_model *m;
    assert_ok(create(cx, mode, written, held, &m), &cx->diag);
    for (int i = 0; i < STEPS; i++) assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
    const double loss = tcc_model_loss(m);
    if (explained) assert_ok(tcc_model_report(m, "tune", explained), &cx->diag);
    tcc_model_destroy(m);
    return loss;
}

static void read_lock(char *text, size_t room) {
    FILE *f = fopen(lock, "r");
    assert_non_null(f);
    text[fread(text, 1, room - 1, f)] = 0;
    fclose(f);
}

static int products_by(int id) {
    cublasltsim_counts counts;
    lt.get_counts(&counts);
    return counts.by_id[id];
}

static void the_fastest_right_algorithm_is_held(void **state) {
    (void)state;
    tcc_context cx;
    char text[8192], *explained;
    skip_without(lt.spoil, STAND_IN_REFUSES);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const double loss = train(&cx, TCC_MODE_DEFAULT, NULL, NULL, NULL);
    assert_true(products_by(PLAIN) > 0 && !products_by(FAST) && !products_by(OTHER));

    lt.spoil(OTHER, -1, -1); /* the fastest computes something else */
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, lock, NULL, &explained) - loss) < 1e-4);
    if (!strstr(explained, "computes something else")) fail_msg("%s", explained);
    tcc_string_free(explained);
    read_lock(text, sizeof text);
    const char *chosen = strstr(text, "algorithm=22");
    if (!chosen || !strstr(chosen, "by_parts=4") || strstr(text, "algorithm=67")) fail_msg("%s", text);

    lt.restart(); /* held: nothing is asked but this, and it runs */
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock, NULL) - loss) < 1e-4);
    assert_true(products_by(FAST) >= STEPS && !products_by(OTHER));
    tcc_context_clear(&cx);
}

static void a_failing_algorithm_is_dropped(void **state) {
    (void)state;
    tcc_context cx;
    char text[8192], *explained;
    skip_without(lt.spoil, STAND_IN_REFUSES);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    lt.spoil(-1, OTHER, -1);
    train(&cx, TCC_MODE_MAX_AUTOTUNE, lock, NULL, &explained);
    if (!strstr(explained, "fails to run")) fail_msg("%s", explained);
    tcc_string_free(explained);
    read_lock(text, sizeof text);
    if (!strstr(text, "algorithm=22") || strstr(text, "algorithm=67")) fail_msg("%s", text);
    tcc_context_clear(&cx);
}

static void an_algorithm_that_is_gone_is_refused(void **state) {
    (void)state;
    tcc_context cx;
    tcc_model *m;
    skip_without(lt.spoil, STAND_IN_REFUSES);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    train(&cx, TCC_MODE_MAX_AUTOTUNE, lock, NULL, NULL);
    lt.spoil(-1, -1, OTHER);
    assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock, &m), &cx.diag);
    assert_error(tcc_model_train(m, batch, 2), TCC_EINVAL, &cx.diag, "the library does not offer the algorithm");
    tcc_model_destroy(m);
    tcc_context_clear(&cx);
    unlink(lock);
}

/* With the library's own algorithms and the device's own clock, on a GPU: what is measured is held by the lock
 * file, and an algorithm that the library does not have is refused. */
static void what_is_measured_is_held(void **state) {
    (void)state;
    tcc_context cx;
    tcc_model *m;
    char *text, *explained;
    skip_without(!lt.spoil, "the stand-in's times say nothing, and it takes long");
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const double loss = train(&cx, TCC_MODE_DEFAULT, NULL, NULL, NULL);
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, lock, NULL, &explained) - loss) < 1e-4);
    if (!strstr(explained, "cublaslt")) {
        print_message("skipped: cuBLASLt takes none of the products\n");
        skip();
    }
    tcc_string_free(explained);
    const double held = train(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock, &explained);
    assert_true(fabs(held - loss) < 1e-4);
    if (strstr(explained, " us now\n")) fail_msg("what is held was measured:\n%s", explained);
    tcc_string_free(explained);

    text = test_read(lock, NULL);
    char *at = strstr(text, "algorithm=");
    while (at && at[10] == '0') at = strstr(at + 1, "algorithm="); /* the library's own choice */
    if (at) {
        FILE *f = fopen(lock, "w");
        assert_non_null(f);
        fprintf(f, "%.*s9999%s", (int)(at + 10 - text), text, at + 10 + strspn(at + 10, "0123456789"));
        fclose(f);
        assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock, &m), &cx.diag);
        assert_error(tcc_model_train(m, batch, 2), TCC_EINVAL, &cx.diag, "the library does not offer the algorithm");
        tcc_model_destroy(m);
    } else print_message("the library's own choice was the fastest of all:\n%s", text);
    free(text);
    tcc_context_clear(&cx);
    unlink(lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUBLASLT_TEST(the_fastest_right_algorithm_is_held),
        CUBLASLT_TEST(a_failing_algorithm_is_dropped),
        CUBLASLT_TEST(an_algorithm_that_is_gone_is_refused),
        CUBLASLT_TEST(what_is_measured_is_held),
    };
    setenv("TCC_CACHE_DISABLE", "1", 1);
    return cmocka_run_group_tests(tests, cublaslt_set_up, NULL);
}
