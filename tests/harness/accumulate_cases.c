/* SPDX-License-Identifier: MIT */
#include "harness/accumulate_cases.h"
#include "harness/check.h"
#include "harness/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 14, WIDTH = 6, CLASSES = 5, STEPS = 5, MOST_VALUES = 1024 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

typedef struct test_case {
    const char *name;
    tcc_model_fn net;
    bool is_sum;
    tcc_optimizer_options optimizer;
} test_case;

/* -- Models -- */

tcc_tensor used_twice(tcc_trace *t, int64_t width) {
    const tcc_init init = {TCC_INIT_NORMAL, .b = 0.4};
    tcc_tensor twice = tcc_param(t, "twice", init, TCC_DIMS(width, width)), x = tcc_input(t, "x");
    return tcc_matmul(tcc_tanh(tcc_matmul(x, twice)), twice);
}

/* Targets of 9 do not count: all of one micro-batch, and some of others. */
static void counted(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor logits = tcc_linear(tcc_layer_norm(used_twice(t, WIDTH), "norm"), "out", CLASSES);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y"), .has_ignore_index = true, .ignore_index = 9));
}

/* A cross-entropy is a part of the loss, with a mean by hand beside it: both over the rows that count. */
static void weighed(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = used_twice(t, WIDTH), logits = tcc_linear(tcc_layer_norm(h, "norm"), "out", CLASSES),
               y = tcc_input(t, "y");
    tcc_tensor counts = tcc_cast(tcc_ne(y, tcc_constant(t, 9, TCC_I32, 0, NULL)), TCC_F32);
    tcc_tensor weight = tcc_sum(counts, TCC_ALL);
    tcc_tensor size = tcc_mul(counts, tcc_sum(tcc_mul(h, h), TCC_DIMS(1)));
    tcc_tensor entropy = tcc_cross_entropy(logits, y, .has_ignore_index = true, .ignore_index = 9);
    tcc_loss(t, tcc_add(tcc_scale(entropy, 0.5), tcc_div(tcc_sum(size, TCC_ALL), weight)));
    tcc_loss_weight(t, weight); /* which nothing asks for here */
}

static int refused_line;

/* The root of a mean is no sum over micro-batches; `user`: tcc_loss_weight takes it for one. */
static void rooted(tcc_trace *t, void *user) {
    tcc_tensor h = used_twice(t, WIDTH);
    refused_line = __LINE__ + 1;
    tcc_tensor root = tcc_sqrt(tcc_mean(tcc_mul(h, h), TCC_ALL));
    tcc_loss(t, root);
    if (user) tcc_loss_weight(t, tcc_cast(tcc_constant(t, (double)tcc_dim(h, 0), TCC_F32, 0, NULL), TCC_F32));
}

static tcc_tensor squares_of(tcc_trace *t) {
    tcc_tensor error = tcc_sub(tcc_linear(used_twice(t, WIDTH), "out", WIDTH), tcc_input(t, "x"));
    return tcc_mul(error, error);
}

static void mean(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_mean(squares_of(t), TCC_ALL));
}

static void sum(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_sum(squares_of(t), TCC_ALL));
}

/* -- Runs -- */

typedef struct values {
    double loss[STEPS];
    int count;
    double v[MOST_VALUES];
} values;

static float x[ROWS * WIDTH];
static int32_t y[ROWS];

/* The batch of a step: 14 rows, and at last 10. */
static void make_batch(int step, tcc_array *batch) {
    const int64_t rows = step == STEPS - 1 ? 10 : ROWS;
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)((i * 37 + step * 11) % 101) / 50 - 1;
    for (int i = 0; i < ROWS; i++) y[i] = i / 2 == 2 || (i * 7 + step) % 5 == 0 ? 9 : (i + step) % CLASSES;
    batch[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {rows, WIDTH}, .data = x};
    batch[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {rows}, .data = y};
}

static void append(values *to, const tcc_array *a) {
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    for (int64_t i = 0; i < count && a->dtype == TCC_F32; i++) {
        assert_true(to->count < MOST_VALUES);
        to->v[to->count++] = ((const float *)a->data)[i];
    }
}

static void read_values(tcc_model *m, values *out) {
    tcc_array a;
    out->count = 0;
    for (int i = 0; tcc_model_param(m, i, &a); i++) append(out, &a);
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++) append(out, &a);
}

static tcc_model *make_model(tcc_context *cx, const char *device, tcc_model_fn net, tcc_model_options o,
                             const tcc_optimizer_options *optimizer) {
    tcc_model *m;
    o.size = sizeof o;
    o.device = device;
    o.seed = 7;
    o.optimizer = optimizer;
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    return m;
}

static void train(const char *device, const test_case *c, tcc_model_options o, values *out) {
    tcc_context *cx;
    tcc_array batch[2];
    OK(NULL, tcc_context_create(&cx));
    o.loss_is_sum = c->is_sum;
    tcc_model *m = make_model(cx, device, c->net, o, &c->optimizer);
    for (int step = 0; step < STEPS; step++) {
        make_batch(step, batch);
        OK(cx, tcc_model_train(m, batch, c->net == counted || c->net == weighed ? 2 : 1));
        OK(cx, tcc_model_step_loss(m, step, &out->loss[step]));
        assert_true(tcc_model_loss(m) == out->loss[step]);
    }
    assert_int_equal(tcc_model_step(m), STEPS);
    read_values(m, out);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* Within `tolerance` of the larger of the two and 1. */
static void compare(const test_case *c, int64_t parts, const values *got, const values *want, double tolerance) {
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(got->loss[i] - want->loss[i]) <= tolerance * fmax(1, fabs(want->loss[i]))))
            fail_msg("%s in %d: the loss of step %d is %.9g, not %.9g", c->name, (int)parts, i, got->loss[i],
                     want->loss[i]);
    assert_int_equal(got->count, want->count);
    for (int i = 0; i < got->count; i++)
        if (!(fabs(got->v[i] - want->v[i]) <= tolerance * fmax(1, fabs(want->v[i]))))
            fail_msg("%s in %d: value %d is %.9g, not %.9g", c->name, (int)parts, i, got->v[i], want->v[i]);
}

void check_micro_batches(const char *device, tcc_mode mode, tcc_mixed_precision precision) {
    enum { ALL_PARTS = 4 };
    static const test_case cases[] = {
        {"counted", counted, false, OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .clip_grad_norm = 0.1)},
        {"weighed", weighed, false, OPTIMIZER(TCC_ADAMW, 0.01, .clip_grad_norm = 0.1)},
        {"mean", mean, false,
         OPTIMIZER(TCC_SGD, 0.05, .momentum = 0.9, .nesterov = true, .clip_grad_norm = 0.5, .ema_decay = 0.8)},
        {"sum", sum, true, OPTIMIZER(TCC_SGD, 0.001)},
        {"adam", mean, false, OPTIMIZER(TCC_ADAM, 0.01, .weight_decay = 0.01)},
        {"lion", mean, false, OPTIMIZER(TCC_LION, 0.001)},
        {"adafactor", mean, false, OPTIMIZER(TCC_ADAFACTOR, 0.01)}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const test_case *c = &cases[i];
        tcc_model_options o = {.mode = mode, .mixed_precision = precision};
        if (precision == TCC_MIXED_FP16) o.loss_scale = 256; /* with which no gradient overflows, of few rows neither */
        values want, got;
        train(device, c, o, &want);
        /* Uneven parts everywhere; all numbers of parts with one optimizer of each loss. */
        const bool all = precision == TCC_MIXED_NONE && i < ALL_PARTS &&
                         (mode == TCC_MODE_DEFAULT || strcmp(device, "cpu"));
        for (int parts = all ? 2 : 3; parts <= (all ? 7 : 3); parts += parts == 2 ? 1 : 4) {
            o.batch_accumulate = parts;
            train(device, c, o, &got);
            compare(c, parts, &got, &want, precision ? 2e-2 : 2e-5);
        }
    }
}

/* What is computed again changes no bit; tuning changes no more than rounding. */
void check_micro_modes(const char *device) {
    static const test_case c = {"counted", counted, false, OPTIMIZER(TCC_ADAMW, 0.01, .clip_grad_norm = 0.1)};
    tcc_model_options o = {.batch_accumulate = 3, .checkpointing = TCC_CHECKPOINTING_NONE};
    values want, got;
    train(device, &c, o, &want);
    o.checkpointing = TCC_CHECKPOINTING_AUTO;
    o.memory_budget = "min";
    train(device, &c, o, &got);
    assert_memory_equal(got.loss, want.loss, sizeof want.loss);
    assert_int_equal(got.count, want.count);
    assert_memory_equal(got.v, want.v, sizeof *want.v * (size_t)want.count);
    o.memory_budget = NULL;
    o.mode = TCC_MODE_MAX_AUTOTUNE;
    o.autotune_budget_s = 0.5;
    train(device, &c, o, &got);
    compare(&c, 3, &got, &want, 2e-5);
}

/* -- Masks -- */

enum { MASKED = 64, MICRO = 4 };

/* The gradient of "w" is a sum of masks, of 0 and 2: over all rows. */
static void masked(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor w = tcc_param(t, "w", (tcc_init){TCC_INIT_CONSTANT, .a = 1}, TCC_DIMS(MASKED));
    tcc_tensor all = tcc_mul(tcc_input(t, "x"), w);
    tcc_loss(t, tcc_sum(tcc_dropout(all, 0.5), TCC_ALL));
}

static void train_masked(tcc_context *cx, tcc_model *m, int64_t rows, float *gradient) {
    static float ones[MICRO * MASKED];
    tcc_array g;
    for (int i = 0; i < MICRO * MASKED; i++) ones[i] = 1;
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {rows, MASKED}, .data = ones};
    OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_gradient(m, "w", &g));
    memcpy(gradient, g.data, MASKED * sizeof *gradient);
}

/* A row a micro-batch: were all masks the same, each sum would be 0 or 2 * MICRO. The masks of a step are drawn for the
 * count of micro-batches before it, so they are those of steps of one row each. */
void check_micro_masks(const char *device) {
    tcc_context *cx;
    float got[MASKED], one[MASKED], want[2][MASKED] = {{0}};
    OK(NULL, tcc_context_create(&cx));
    tcc_model_options o = {.keep_gradients = true, .loss_is_sum = true};
    tcc_model *single = make_model(cx, device, masked, o, OPTIMIZER_OF(TCC_SGD, 0, .momentum = 0));
    o.batch_accumulate = MICRO;
    tcc_model *m = make_model(cx, device, masked, o, OPTIMIZER_OF(TCC_SGD, 0, .momentum = 0));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < MICRO; i++) {
            train_masked(cx, single, 1, one);
            for (int k = 0; k < MASKED; k++) want[step][k] += one[k];
        }
        train_masked(cx, m, MICRO, got);
        assert_memory_equal(got, want[step], sizeof got);
    }
    assert_memory_not_equal(want[0], want[1], sizeof want[0]);
    int mixed = 0;
    for (int k = 0; k < MASKED; k++) mixed += got[k] > 0 && got[k] < 2 * MICRO;
    assert_true(mixed > MASKED / 2);
    tcc_model_destroy(m);
    tcc_model_destroy(single);
    tcc_context_destroy(cx);
}

/* -- Overflow -- */

static void normed(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_batch_norm(tcc_linear(tcc_input(t, "x"), "in", WIDTH), "norm");
    tcc_tensor error = tcc_linear(h, "out", WIDTH);
    tcc_loss(t, tcc_mean(tcc_mul(error, error), TCC_ALL));
}

static void expect_skipped(tcc_context *cx, tcc_model *m, int64_t expected) {
    double scale;
    int64_t skipped;
    OK(cx, tcc_model_loss_scale(m, &scale, &skipped));
    assert_int_equal(skipped, expected);
    assert_true(scale == (expected ? 512 : 1024));
}

void check_micro_overflow(const char *device) {
    tcc_context *cx;
    tcc_array batch[2], a;
    values before, after;
    OK(NULL, tcc_context_create(&cx));
    const tcc_model_options o = {.mixed_precision = TCC_MIXED_FP16, .loss_scale = 1024, .batch_accumulate = 7};
    tcc_model *m = make_model(cx, device, normed, o, OPTIMIZER_OF(TCC_ADAM, 0.01, .clip_grad_norm = 1));
    make_batch(0, batch);
    OK(cx, tcc_model_train(m, batch, 1));
    expect_skipped(cx, m, 0);
    before.count = after.count = 0;
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++)
        if (*a.name != '@') append(&before, &a);
    for (int i = 0; tcc_model_param(m, i, &a); i++)
        if (tcc_model_param_is_trained(m, i)) append(&before, &a);
    x[3 * 2 * WIDTH + 1] = 1e6F; /* in the fourth of seven */
    OK(cx, tcc_model_train(m, batch, 1));
    expect_skipped(cx, m, 1);
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++)
        if (*a.name != '@') append(&after, &a);
    for (int i = 0; tcc_model_param(m, i, &a); i++)
        if (tcc_model_param_is_trained(m, i)) append(&after, &a);
    assert_int_equal(before.count, after.count);
    assert_memory_equal(before.v, after.v, sizeof *before.v * (size_t)before.count);
    make_batch(2, batch);
    OK(cx, tcc_model_train(m, batch, 1));
    expect_skipped(cx, m, 1);
    assert_true(isfinite(tcc_model_loss(m)));
    read_values(m, &after); /* buffers too */
    for (int i = 0; i < after.count; i++) assert_true(isfinite(after.v[i]));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- Bad input -- */

static void expect_error(tcc_context *cx, tcc_status got, tcc_status expected, const char *message) {
    assert_int_equal(got, expected);
    if (!strstr(tcc_context_error(cx), message)) fail_msg("\"%s\" does not say \"%s\"", tcc_context_error(cx), message);
    tcc_context_clear_error(cx);
}

/* What of a loss is no sum over micro-batches: of rows, their mean, and what they are made of. */
#define REFUSED(name, expression)                                                          \
    static tcc_tensor name(tcc_trace *t, tcc_tensor h, tcc_tensor rows, tcc_tensor mean) { \
        (void)t, (void)h, (void)rows, (void)mean;                                          \
        refused_line = __LINE__;                                                           \
        return expression;                                                                 \
    }
REFUSED(log_of_mean, tcc_log(mean))
REFUSED(quotient, tcc_div(mean, tcc_sum(h, TCC_ALL)))
REFUSED(square, tcc_mul(mean, mean))
REFUSED(largest, tcc_reduce_max(rows, TCC_ALL))
REFUSED(spread, tcc_std(rows, 0, TCC_ALL))
REFUSED(contrasted, tcc_matmul(h, tcc_transpose(h, TCC_DIMS(1, 0))))
REFUSED(product, tcc_prod(rows, TCC_ALL))
REFUSED(running, tcc_cumsum(rows, 0))
REFUSED(recurrence, tcc_linear_scan(rows, rows, 0))
REFUSED(share, tcc_softmax(rows, 0))
REFUSED(some, tcc_slice(rows, 0, 0, 5))
REFUSED(numbered, tcc_mul(rows, tcc_iota(t, 0, TCC_F32, TCC_DIMS(tcc_dim(rows, 0)))))

typedef struct refused_loss {
    tcc_tensor (*make)(tcc_trace *t, tcc_tensor h, tcc_tensor rows, tcc_tensor mean);
    const char *message;
} refused_loss;
static const refused_loss refused_losses[] = {
    {log_of_mean, "this log, f32[], is not linear in a sum over the batch"},
    {quotient, "this div, f32[], is not linear in a sum over the batch"},
    {square, "this mul, f32[], is not linear in a sum over the batch"},
    {largest, "this reduce_max, f32[], reads across the samples"},
    {spread, "this reduce_m2, f32[], reads across the samples"},
    {contrasted, "this dot, f32[14,14], reads across the samples"},
    {product, "this prod, f32[], reads across the samples"},
    {running, "this cumsum, f32[14], reads across the samples"},
    {recurrence, "this linear_scan, f32[14], reads across the samples"},
    {share, "this softmax, f32[14], reads across the samples"},
    {some, "this slice, f32[5], reads across the samples"},
    {numbered, "this iota, f32[14], has something of its own for each sample"}};

static void refused(tcc_trace *t, void *user) {
    const refused_loss *loss = user;
    tcc_tensor h = used_twice(t, WIDTH), rows = tcc_mean(tcc_mul(h, h), TCC_DIMS(1));
    tcc_loss(t, tcc_mean(loss->make(t, h, rows, tcc_mean(rows, TCC_ALL)), TCC_ALL));
}

static void check_refused_losses(tcc_context *cx) {
    tcc_array batch[2];
    make_batch(0, batch);
    for (size_t i = 0; i < sizeof refused_losses / sizeof refused_losses[0]; i++) {
        const tcc_model_options o = {.size = sizeof o, .batch_accumulate = 2};
        char place[64];
        tcc_model *m;
        OK(cx, tcc_model_create(cx, refused, (void *)&refused_losses[i], &o, &m));
        expect_error(cx, tcc_model_train(m, batch, 1), TCC_EINVAL, refused_losses[i].message);
        snprintf(place, sizeof place, "accumulate_cases.c:%d: ", refused_line);
        expect_error(cx, tcc_model_train(m, batch, 1), TCC_EINVAL, place);
        tcc_model_destroy(m);
    }
}

void check_micro_refusals(void) {
    tcc_context *cx;
    tcc_array batch[3];
    tcc_model *m;
    OK(NULL, tcc_context_create(&cx));
    tcc_model_options o = {.size = sizeof o, .batch_accumulate = -1};
    expect_error(cx, tcc_model_create(cx, mean, NULL, &o, &m), TCC_EINVAL, "batch_accumulate -1 must be from 0 to");
    o.batch_accumulate = 1LL << 40;
    expect_error(cx, tcc_model_create(cx, mean, NULL, &o, &m), TCC_EINVAL, "batch_accumulate 1099511627776 must be");
    o.batch_accumulate = 2;
    OK(cx, tcc_model_create(cx, mean, NULL, &o, &m));
    make_batch(0, batch);
    expect_error(cx, tcc_model_train(m, batch, 0), TCC_EINVAL, "a batch without arrays cannot be cut");
    batch[2] = (tcc_array){.name = "z", .dtype = TCC_F32, .rank = 0, .data = x};
    expect_error(cx, tcc_model_train(m, batch, 3), TCC_ESHAPE, "\"x\" is f32[14,6], \"z\" is f32[]");
    batch[2] = (tcc_array){.name = "z", .dtype = TCC_F32, .rank = 2, .dims = {6, 14}, .data = x};
    expect_error(cx, tcc_model_compile(m, true, batch, 3), TCC_ESHAPE, "\"x\" is f32[14,6], \"z\" is f32[6,14]");
    OK(cx, tcc_model_evaluate(m, batch, 3)); /* that is not cut */
    OK(cx, tcc_model_train(m, batch, 1));
    tcc_model_destroy(m);
    check_refused_losses(cx);
    OK(cx, tcc_model_create(cx, rooted, NULL, &o, &m));
    expect_error(cx, tcc_model_train(m, batch, 2), TCC_EINVAL, "this sqrt, f32[], is not linear in a sum over the");
    char place[64];
    snprintf(place, sizeof place, "accumulate_cases.c:%d: ", refused_line);
    expect_error(cx, tcc_model_train(m, batch, 2), TCC_EINVAL, place);
    tcc_model_destroy(m);
    OK(cx, tcc_model_create(cx, rooted, &o, &o, &m));
    OK(cx, tcc_model_train(m, batch, 2));
    tcc_model_destroy(m);
    o.loss_is_sum = true;
    OK(cx, tcc_model_create(cx, rooted, NULL, &o, &m));
    OK(cx, tcc_model_train(m, batch, 2));
    tcc_model_destroy(m);
    OK(cx, tcc_model_create(cx, weighed, NULL, &o, &m));
    expect_error(cx, tcc_model_train(m, batch, 2), TCC_EINVAL, "but loss_is_sum says that the loss is a sum");
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}
