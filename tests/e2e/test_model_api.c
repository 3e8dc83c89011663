/* SPDX-License-Identifier: MIT
 * The public model API from end to end: gradients, signatures, state, threads, errors, and memory that runs out at any
 * point. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/targets.h"
#include "harness/optimizer.h"
#include "ir/support/alloc.h"
#include "traincc/traincc.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 4, CLASSES = 3, MOST_ROWS = 8 };

typedef struct batch {
    float x[MOST_ROWS * FEATURES];
    int32_t y[MOST_ROWS];
    tcc_array arrays[2];
} batch;

static void make_batch(batch *b, int rows, unsigned seed) {
    for (int i = 0; i < MOST_ROWS * FEATURES; i++)
        b->x[i] = (float)((seed = seed * 1103515245u + 12345u) >> 16 & 255) / 128 - 1;
    for (int i = 0; i < MOST_ROWS; i++) b->y[i] = (int32_t)((seed = seed * 1103515245u + 12345u) >> 16) % CLASSES;
    b->arrays[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {rows, FEATURES}, .data = b->x};
    b->arrays[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {rows}, .data = b->y};
}

/* Smooth, so that finite differences are exact enough; "tied" is used twice; batch norm has buffers. */
static void net(tcc_trace *t, void *user) {
    double dropout = user ? *(const double *)user : 0;
    tcc_tensor h = tcc_tanh(tcc_linear(tcc_input(t, "x"), "in", 6));
    h = tcc_gelu(tcc_linear(h, "tied", 6));
    h = tcc_layer_norm(tcc_add(h, tcc_linear(h, "tied", 6)), "norm");
    h = tcc_dropout(tcc_batch_norm(h, "bn"), dropout);
    tcc_tensor logits = tcc_linear(h, "out", CLASSES);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
    if (!tcc_is_training(t)) tcc_output(t, "logits", logits);
}

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static void refused(tcc_context *cx, tcc_status got, tcc_status expected, const char *part) {
    if (got != expected || !strstr(tcc_context_error(cx), part))
        fail_msg("%s, not %s, or this does not say \"%s\": %s", tcc_status_name(got), tcc_status_name(expected), part,
                 tcc_context_error(cx));
    tcc_context_clear_error(cx);
}

static const tcc_optimizer_options optimizer = OPTIMIZER(TCC_ADAMW, 1e-2, .weight_decay = 0.1);

static tcc_model_options adamw(void) {
    return (tcc_model_options){.size = sizeof(tcc_model_options), .seed = 7, .optimizer = &optimizer};
}

/* -- Gradients -- */

static void gradients_are_those_of_the_loss(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    batch b;
    make_batch(&b, 8, 1);
    tcc_model_options options = {.size = sizeof options, .seed = 3, .keep_gradients = true};
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &options, &m));
    tcc_model_set_lr(m, 0); /* training steps then only compute */
    OK(cx, tcc_model_train(m, b.arrays, 2));
    tcc_array p;
    int checked = 0;
    for (int i = 0; tcc_model_param(m, i, &p); i++) {
        tcc_array gradient;
        float kept[64], *weights = p.data;
        if (!tcc_model_param_is_trained(m, i)) continue;
        OK(cx, tcc_model_train(m, b.arrays, 2));
        OK(cx, tcc_model_gradient(m, p.name, &gradient));
        int64_t numel = p.dims[0] * (p.rank == 2 ? p.dims[1] : 1);
        assert_true(gradient.rank == p.rank && gradient.dims[0] == p.dims[0] && numel <= 64);
        memcpy(kept, gradient.data, (size_t)numel * sizeof kept[0]);
        for (int64_t k = 0; k < numel; k += 5, checked++) {
            const float before = weights[k], step = 1e-2f;
            double loss[2];
            for (int side = 0; side < 2; side++) {
                weights[k] = side ? before + step : before - step;
                OK(cx, tcc_model_train(m, b.arrays, 2));
                loss[side] = tcc_model_loss(m);
            }
            weights[k] = before;
            double expected = (loss[1] - loss[0]) / (2.0 * (double)step);
            if (!(fabs(kept[k] - expected) < 1e-3 + 1e-2 * fabs(expected)))
                fail_msg("%s[%d]: gradient %g, finite difference %g", p.name, (int)k, kept[k], expected);
        }
    }
    assert_true(checked > 20);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- State -- */

/* All parameters, buffers and moments, one after the other; from malloc. */
static float *all_state(tcc_model *m, size_t *count) {
    float *all = NULL;
    tcc_array a;
    *count = 0;
    bool (*const lists[])(tcc_model *, int, tcc_array *) = {tcc_model_param, tcc_model_optimizer_state};
    for (int list = 0; list < 2; list++)
        for (int i = 0; lists[list](m, i, &a); i++) {
            size_t numel = 1;
            for (int d = 0; d < a.rank; d++) numel *= (size_t)a.dims[d];
            all = realloc(all, (*count + numel) * sizeof *all);
            memcpy(all + *count, a.data, numel * sizeof *all);
            *count += numel;
        }
    return all;
}

static bool same_state(tcc_model *a, tcc_model *b) {
    size_t a_count, b_count;
    float *x = all_state(a, &a_count), *y = all_state(b, &b_count);
    bool same = a_count == b_count && !memcmp(x, y, a_count * sizeof *x);
    free(x);
    free(y);
    return same;
}

static void evaluation_changes_nothing(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m, *twin;
    batch b;
    double dropout = 0.5;
    make_batch(&b, 8, 2);
    tcc_model_options options = adamw();
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, &dropout, &options, &m));
    OK(cx, tcc_model_create(cx, net, &dropout, &options, &twin));
    for (int step = 0; step < 4; step++) {
        OK(cx, tcc_model_train(m, b.arrays, 2));
        OK(cx, tcc_model_train(twin, b.arrays, 2));
        OK(cx, tcc_model_evaluate(m, b.arrays, 2));
        double first = tcc_model_loss(m);
        OK(cx, tcc_model_evaluate(m, b.arrays, 2));
        assert_true(tcc_model_loss(m) == first); /* no dropout */
        assert_int_equal(tcc_model_step(m), step + 1);
        assert_true(same_state(m, twin));
    }
    tcc_model_destroy(m);
    tcc_model_destroy(twin);
    tcc_context_destroy(cx);
}

static void a_new_shape_is_a_second_program_on_the_same_state(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_program_info info;
    tcc_array before, after;
    batch large, small;
    make_batch(&large, 8, 3);
    make_batch(&small, 5, 4);
    tcc_model_options options = adamw();
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &options, &m));
    OK(cx, tcc_model_train(m, large.arrays, 2));
    assert_true(tcc_model_find_param(m, "tied.weight", &before));
    size_t count, after_count;
    free(all_state(m, &count));
    OK(cx, tcc_model_train(m, small.arrays, 2));
    OK(cx, tcc_model_train(m, large.arrays, 2));
    OK(cx, tcc_model_train(m, small.arrays, 2));
    assert_true(tcc_model_find_param(m, "tied.weight", &after));
    assert_ptr_equal(before.data, after.data);
    free(all_state(m, &after_count));
    assert_true(count == after_count);
    OK(cx, tcc_model_info(m, &info));
    assert_int_equal(info.programs, 2);
    assert_int_equal(tcc_model_step(m), 4);

    /* One step on the small batch alone, from the state that three steps left, gives what the fourth gave. */
    tcc_model *again;
    OK(cx, tcc_model_create(cx, net, NULL, &options, &again));
    const tcc_array *order[] = {large.arrays, small.arrays, large.arrays, small.arrays};
    for (int i = 0; i < 4; i++) OK(cx, tcc_model_train(again, order[i], 2));
    assert_true(same_state(m, again));
    tcc_model_destroy(again);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static int64_t *updates(tcc_model *m) {
    tcc_array a;
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++)
        if (!strcmp(a.name, TCC_STEP_STATE)) {
            assert_true(a.dtype == TCC_I64 && a.rank == 0);
            return a.data;
        }
    return NULL;
}

/* Everything of `from` by name, as a checkpoint would carry it; not the count of steps. */
static void copy_state(tcc_model *from, tcc_model *to) {
    bool (*const lists[])(tcc_model *, int, tcc_array *) = {tcc_model_param, tcc_model_optimizer_state};
    for (int list = 0; list < 2; list++) {
        tcc_array a, b;
        for (int i = 0; lists[list](from, i, &a); i++) {
            size_t bytes = a.dtype == TCC_I64 ? 8 : 4;
            for (int d = 0; d < a.rank; d++) bytes *= (size_t)a.dims[d];
            assert_true(lists[list](to, i, &b) && !strcmp(a.name, b.name));
            memcpy(b.data, a.data, bytes);
        }
    }
}

/* Adam's bias corrections follow the count in its state: not the host's count of steps, which draws and schedule
 * follow. */
/* Runs that the profile has; each begins with its batch. */
static int profiled_runs(tcc_context *cx, tcc_model *m) {
    OK(cx, tcc_model_write_profile(m, "profile.json"));
    char *text = test_read("profile.json", NULL);
    int count = 0;
    for (const char *at = text; (at = strstr(at, "batch and rates")); at++) count++;
    free(text);
    return count;
}

static void profiling_begins_and_ends_at_any_run(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    batch b;
    make_batch(&b, 8, 3);
    tcc_model_options options = adamw();
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &options, &m));
    OK(cx, tcc_model_train(m, b.arrays, 2));
    assert_int_equal(tcc_model_write_profile(m, "profile.json"), TCC_EINVAL);
    tcc_model_profile(m, true); /* the program is there already */
    OK(cx, tcc_model_train(m, b.arrays, 2));
    assert_int_equal(profiled_runs(cx, m), 1);
    tcc_model_profile(m, false);
    OK(cx, tcc_model_train(m, b.arrays, 2));
    assert_int_equal(profiled_runs(cx, m), 1);
    tcc_model_profile(m, true);
    OK(cx, tcc_model_train(m, b.arrays, 2));
    assert_int_equal(profiled_runs(cx, m), 2);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void updates_are_counted_in_the_state(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m[3];
    batch b;
    make_batch(&b, 8, 2);
    const tcc_model_options options = adamw();
    OK(cx, tcc_context_create(&cx));
    for (int i = 0; i < 3; i++) {
        OK(cx, tcc_model_create(cx, net, NULL, &options, &m[i]));
        OK(cx, tcc_model_compile(m[i], true, b.arrays, 2));
    }
    assert_int_equal(*updates(m[0]), 0);
    for (int step = 0; step < 5; step++) OK(cx, tcc_model_train(m[0], b.arrays, 2));
    OK(cx, tcc_model_evaluate(m[0], b.arrays, 2));
    assert_int_equal(*updates(m[0]), 5);
    *updates(m[0]) = 3; /* as if two updates had been skipped */
    for (int i = 1; i < 3; i++) {
        copy_state(m[0], m[i]);
        tcc_model_set_step(m[i], 5);
        assert_int_equal(*updates(m[i]), 3);
    }
    *updates(m[2]) = 4;
    for (int i = 0; i < 3; i++) OK(cx, tcc_model_train(m[i], b.arrays, 2));
    assert_int_equal(*updates(m[0]), 4);
    assert_true(same_state(m[0], m[1]));
    *updates(m[2]) = 4;
    assert_false(same_state(m[0], m[2]));
    for (int i = 0; i < 3; i++) tcc_model_destroy(m[i]);
    tcc_context_destroy(cx);
}

/* Eager and default are the same training within rounding; an lr set between steps takes effect without compiling anew.
 */
static void modes_agree_and_schedules_do_not_recompile(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m[2];
    tcc_program_info info;
    batch b;
    make_batch(&b, 8, 5);
    OK(cx, tcc_context_create(&cx));
    double loss[2] = {0};
    for (int mode = 0; mode < 2; mode++) {
        tcc_model_options options = adamw();
        options.mode = mode ? TCC_MODE_EAGER : TCC_MODE_DEFAULT;
        OK(cx, tcc_model_create(cx, net, NULL, &options, &m[mode]));
        for (int step = 0; step < 10; step++) {
            OK(cx, tcc_model_set_lr(m[mode], 0.01 / (1 + step)));
            OK(cx, tcc_model_set_momentum(m[mode], 0.95 - 0.01 * step));
            OK(cx, tcc_model_train(m[mode], b.arrays, 2));
        }
        loss[mode] = tcc_model_loss(m[mode]);
        OK(cx, tcc_model_info(m[mode], &info));
        assert_int_equal(info.programs, 1);
    }
    assert_true(fabs(loss[0] - loss[1]) < 1e-4 * loss[0]);
    tcc_model_destroy(m[0]);
    tcc_model_destroy(m[1]);
    tcc_context_destroy(cx);
}

/* -- Threads -- */

static void *train_alone(void *result) {
    tcc_context *cx;
    tcc_model *m = NULL;
    batch b;
    double dropout = 0.25;
    make_batch(&b, 8, 6);
    tcc_model_options options = adamw();
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, net, &dropout, &options, &m);
    for (int step = 0; step < 5 && status == TCC_OK; step++) status = tcc_model_train(m, b.arrays, 2);
    *(double *)result = status == TCC_OK ? tcc_model_loss(m) : NAN;
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return NULL;
}

static void two_contexts_in_two_threads(void **state) {
    (void)state;
    pthread_t threads[2];
    double results[3];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, train_alone, &results[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    train_alone(&results[2]);
    assert_true(results[0] == results[1] && results[1] == results[2]);
}

/* -- Errors -- */

static int wrong_line;
static void wrong_net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor w = tcc_param(t, "w", (tcc_init){0}, TCC_DIMS(3, 2));
    wrong_line = __LINE__ + 1;
    tcc_tensor h = tcc_matmul(tcc_input(t, "x"), w);
    tcc_loss(t, tcc_mean(h, TCC_ALL));
}

static void no_loss(tcc_trace *t, void *user) {
    (void)user;
    tcc_output(t, "h", tcc_linear(tcc_input(t, "x"), "fc", 2));
}

/* -- Values that are no errors while tracing -- */

static void a_target_that_is_no_class(void **state) {
    (void)state;
    check_targets("cpu", TCC_MODE_DEFAULT);
    check_targets("cpu", TCC_MODE_EAGER);
}

static int forgetful_line;

/* A layer that keeps a tensor from call to call, as a cache would. */
static void forgetful(tcc_trace *t, void *user) {
    tcc_tensor *kept = user, x = tcc_input(t, "x");
    if (!kept->trace) *kept = tcc_linear(x, "fc", 3);
    tcc_loss(t, tcc_mean(tcc_tanh(*kept), TCC_ALL));
    forgetful_line = __LINE__ - 1;
}

static void tensors_of_an_earlier_trace(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    batch b;
    tcc_tensor kept = {0};
    char place[128];
    make_batch(&b, 8, 7);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, forgetful, &kept, NULL, &m));
    OK(cx, tcc_model_train(m, b.arrays, 2));
    OK(cx, tcc_model_train(m, b.arrays, 2)); /* not traced again */
    tcc_status status = tcc_model_evaluate(m, b.arrays, 2);
    snprintf(place, sizeof place, "test_model_api.c:%d: error: tanh: operand 1 belongs to another trace",
             forgetful_line);
    refused(cx, status, TCC_EINVAL, place);
    tcc_model_destroy(m);
    OK(cx, tcc_model_create(cx, forgetful, &kept, NULL, &m)); /* of a model that is gone */
    refused(cx, tcc_model_train(m, b.arrays, 2), TCC_EINVAL, place);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* The text is the last failing call's, whoever cleared what; it stays while calls succeed. */
static void the_last_error_is_told(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    batch b;
    tcc_array a;
    make_batch(&b, 8, 7);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, no_loss, NULL, NULL, &m));
    assert_int_equal(tcc_model_train(m, b.arrays, 2), TCC_EINVAL);
    assert_int_equal(tcc_model_output(m, "h", &a), TCC_ENOTFOUND);
    assert_non_null(strstr(tcc_context_error(cx), "nothing ran yet"));
    OK(cx, tcc_model_evaluate(m, b.arrays, 2));
    assert_non_null(strstr(tcc_context_error(cx), "nothing ran yet"));
    assert_int_equal(tcc_model_gradient(m, "fc.weight", &a), TCC_EINVAL);
    assert_non_null(strstr(tcc_context_error(cx), "create the model with keep_gradients"));
    assert_null(strstr(tcc_context_error(cx), "nothing ran yet"));
    tcc_context_clear_error(cx);
    assert_string_equal(tcc_context_error(cx), "");
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void options_are_in_range(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    const struct {
        tcc_model_options options;
        const char *message;
    } none[] = {
        {{.size = 8}, "options: size 8 must be sizeof the struct"},
        {{.mode = (tcc_mode)4}, "mode 4 must be from 0 to 3"},
        {{.mode = (tcc_mode)-1}, "mode -1 must be from 0 to 3"},
        {{.checkpointing = (tcc_checkpointing)3}, "checkpointing 3 must be from 0 to 2"},
        {{.verify_samples = -1}, "verify_samples -1 must be at least 0"},
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        refused(cx, tcc_model_create(cx, net, NULL, &none[i].options, &m), TCC_EINVAL, none[i].message);
    tcc_context_destroy(cx);
}

static void errors_say_where_and_what(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    batch b;
    tcc_array a;
    make_batch(&b, 8, 7);
    OK(cx, tcc_context_create(&cx));

    OK(cx, tcc_model_create(cx, wrong_net, NULL, NULL, &m));
    for (int again = 0; again < 2; again++) {
        char place[64];
        tcc_status status = tcc_model_train(m, b.arrays, 2);
        snprintf(place, sizeof place, "test_model_api.c:%d: error: ", wrong_line);
        assert_non_null(strstr(tcc_context_error(cx), place));
        refused(cx, status, TCC_ESHAPE, "matmul: inner dimensions differ: f32[8,4] x f32[3,2] (4 vs 3)");
    }
    tcc_model_destroy(m);

    OK(cx, tcc_model_create(cx, no_loss, NULL, NULL, &m));
    refused(cx, tcc_model_train(m, b.arrays, 2), TCC_EINVAL, "the model names no loss");
    refused(cx, tcc_model_output(m, "h", &a), TCC_ENOTFOUND, "nothing ran yet");
    OK(cx, tcc_model_evaluate(m, b.arrays, 2));
    OK(cx, tcc_model_output(m, "h", &a));
    char *text;
    tcc_model *none;
    refused(cx, tcc_model_output(m, NULL, &a), TCC_EINVAL, "output: the name is NULL");
    refused(cx, tcc_model_gradient(m, NULL, &a), TCC_EINVAL, "gradient: the name is NULL");
    refused(cx, tcc_model_report(m, NULL, &text), TCC_EINVAL, "report: its name is NULL");
    refused(cx, tcc_model_write_profile(m, NULL), TCC_EINVAL, "write_profile: the path is NULL");
    refused(cx, tcc_model_create(cx, NULL, NULL, NULL, &none), TCC_EINVAL, "the model's function is NULL");
    assert_false(tcc_model_find_param(m, NULL, &a));
    refused(cx, tcc_model_output(m, "g", &a), TCC_ENOTFOUND, "no output \"g\" in the evaluation program; it has: h");
    refused(cx, tcc_model_gradient(m, "fc.weight", &a), TCC_EINVAL, "create the model with keep_gradients");
    refused(cx, tcc_model_evaluate(m, b.arrays + 1, 1), TCC_ENOTFOUND, "no batch array is named \"x\"; given: \"y\"");
    b.arrays[1].name = "x";
    refused(cx, tcc_model_evaluate(m, b.arrays, 2), TCC_EINVAL, "two batch arrays are named \"x\"");
    b.arrays[1].name = TCC_STEP_STATE;
    refused(cx, tcc_model_evaluate(m, b.arrays, 2), TCC_EINVAL, "names that begin with '@' are the library's own");
    b.arrays[1].name = "y";
    /* An error that nobody cleared does not spoil what comes after it. */
    assert_int_equal(tcc_model_output(m, "g", &a), TCC_ENOTFOUND);
    b.arrays[0].dims[0] = 2;
    OK(cx, tcc_model_evaluate(m, b.arrays, 1));
    tcc_model_destroy(m);

    OK(cx, tcc_model_create(cx, net, NULL, NULL, &m));
    refused(cx, tcc_model_set_lr(m, NAN), TCC_EINVAL, "learning rate nan must be from 0 to 1e+30");
    refused(cx, tcc_model_set_lr(m, INFINITY), TCC_EINVAL, "learning rate inf must be from 0");
    refused(cx, tcc_model_set_momentum(m, 1), TCC_EINVAL, "momentum 1 must be at least 0 and less than 1");
    refused(cx, tcc_model_set_momentum(m, 0.9), TCC_EINVAL, "the model was created with momentum 0");
    tcc_model_destroy(m);
    tcc_context_clear_error(cx);
    tcc_model_options options = {.size = sizeof options, .device = "tpu"};
    refused(cx, tcc_model_create(cx, net, NULL, &options, &m), TCC_EINVAL,
            "device \"tpu\": must be cpu, cuda, cuda:N or auto");
    assert_null(m);
    const struct {
        tcc_optimizer_options optimizer;
        const char *message;
    } wrong[] = {
        {OPTIMIZER(TCC_SGD, 0.1, .nesterov = true), "nesterov needs a momentum"},
        {OPTIMIZER(TCC_SGD, INFINITY, .momentum = 0), "optimizer: lr inf must be at least 0 and at most 1e+30"},
        {OPTIMIZER(TCC_ADAM, NAN, .momentum = 0), "optimizer: lr nan must be at least 0"},
        {OPTIMIZER(TCC_ADAM, 1e-3, .momentum = 0.9),
         "optimizer: momentum 0.9 goes with TCC_SGD; of the others it is beta1"},
        {{.size = sizeof wrong[0].optimizer, .kind = TCC_ADAM, .beta2 = 1},
         "beta2 1 must be at least 0 and less than 1"},
        {{.size = sizeof wrong[0].optimizer, .kind = (tcc_optimizer_kind)9}, "optimizer: kind 9 must be from 0 to"},
        {{.size = 16}, "optimizer: size 16 must be at least"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options = (tcc_model_options){.size = sizeof options, .optimizer = &wrong[i].optimizer};
        refused(cx, tcc_model_create(cx, net, NULL, &options, &m), TCC_EINVAL, wrong[i].message);
    }
    tcc_context_destroy(cx);
}

/* -- Memory -- */

static void tiny(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_cross_entropy(tcc_linear(tcc_tanh(tcc_linear(tcc_input(t, "x"), "a", 2)), "b", CLASSES),
                                  tcc_input(t, "y")));
}

/* A model made, compiled and trained; *loss is set when all went well. */
static char text[512]; /* of its error */
static tcc_status whole_life(batch *b, double *loss) {
    tcc_context *cx;
    tcc_model *m = NULL;
    tcc_model_options options = adamw();
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, tiny, NULL, &options, &m);
    if (status == TCC_OK) status = tcc_model_compile(m, true, b->arrays, 2);
    if (status == TCC_OK) status = tcc_model_train(m, b->arrays, 2);
    if (status == TCC_OK) status = tcc_model_evaluate(m, b->arrays, 2);
    if (status == TCC_OK) *loss = tcc_model_loss(m);
    snprintf(text, sizeof text, "%s", cx ? tcc_context_error(cx) : "");
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return status;
}

static void memory_runs_out_anywhere(void **state) {
    (void)state;
    batch b;
    double expected, loss;
    make_batch(&b, 4, 8);
    tcc__alloc_fail_at(INT64_MAX);
    assert_int_equal(whole_life(&b, &expected), TCC_OK);
    int64_t all = tcc__alloc_fail_at(-1);
    assert_true(all > 500);
    for (int64_t n = 0; n < all; n += n < 30 ? 1 : all / 90 + 1) {
        tcc__alloc_fail_at(n);
        tcc_status status = whole_life(&b, &loss);
        tcc__alloc_fail_at(-1);
        if (status != TCC_ENOMEM)
            fail_msg("allocation %d of %d failed: %s: %s", (int)n, (int)all, tcc_status_name(status), text);
    }
    assert_int_equal(whole_life(&b, &loss), TCC_OK);
    assert_true(loss == expected);
}

/* After a compile that ran out of memory the same model compiles and trains when there is some. */
static void memory_comes_back(void **state) {
    (void)state;
    batch b;
    double expected;
    make_batch(&b, 4, 8);
    assert_int_equal(whole_life(&b, &expected), TCC_OK);
    for (int64_t n = 10; n < 3000; n += 400) {
        tcc_context *cx;
        tcc_model *m;
        tcc_model_options options = adamw();
        OK(cx, tcc_context_create(&cx));
        OK(cx, tcc_model_create(cx, tiny, NULL, &options, &m));
        tcc__alloc_fail_at(n);
        tcc_status status = tcc_model_compile(m, true, b.arrays, 2);
        tcc__alloc_fail_at(-1);
        assert_true(status == TCC_ENOMEM || status == TCC_OK);
        tcc_context_clear_error(cx);
        OK(cx, tcc_model_train(m, b.arrays, 2));
        OK(cx, tcc_model_evaluate(m, b.arrays, 2));
        assert_true(tcc_model_loss(m) == expected);
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(evaluation_changes_nothing),
        cmocka_unit_test(a_new_shape_is_a_second_program_on_the_same_state),
        cmocka_unit_test(profiling_begins_and_ends_at_any_run),
        cmocka_unit_test(updates_are_counted_in_the_state),
        cmocka_unit_test(modes_agree_and_schedules_do_not_recompile),
        cmocka_unit_test(two_contexts_in_two_threads),
        cmocka_unit_test(errors_say_where_and_what),
        cmocka_unit_test(options_are_in_range),
        cmocka_unit_test(the_last_error_is_told),
        cmocka_unit_test(a_target_that_is_no_class),
        cmocka_unit_test(tensors_of_an_earlier_trace),
        cmocka_unit_test(memory_runs_out_anywhere),
        cmocka_unit_test(memory_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
