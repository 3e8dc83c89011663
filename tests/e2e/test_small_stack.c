/* SPDX-License-Identifier: MIT
 * Models that are compiled and trained in a thread with a stack of 128 KiB, as musl gives it: as model.h says. */
#include "harness/check.h"
#include "traincc/traincc.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { STACK_BYTES = 128 << 10 };

static void text_net(tcc_trace *t, void *user) {
    (void)user;
    const tcc_gpt_options o = {.layers = 1, .heads = 2, .width = 16, .context = 16, .vocab = 40, .bias = true};
    tcc_loss(t, tcc_cross_entropy(tcc_gpt(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

/* Convolutions, pools and norms; running sums, sorted and scattered rows, and a recurrent layer. */
static void mixed_net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_cast(tcc_input(t, "x"), TCC_F32), image = tcc_reshape(x, TCC_DIMS(4, 1, 4, 4));
    tcc_tensor h = tcc_relu(tcc_batch_norm(tcc_conv_layer(image, "c1", 16, 3, .padding = 1), "n1"));
    h = tcc_max_pool(tcc_relu(tcc_group_norm(tcc_conv_layer(h, "c2", 16, 3, .padding = 1), "n2", 4)), 2);
    tcc_tensor rows = tcc_layer_norm(tcc_reshape(h, TCC_DIMS(16, 16)), "n3");
    rows = tcc_add(tcc_cumsum(rows, 0), tcc_sort(rows, 1, false));
    tcc_tensor at = tcc_cast(tcc_reshape(tcc_slice(tcc_input(t, "y"), 0, 0, 1), TCC_DIMS(16)), TCC_I32);
    rows = tcc_scatter_add(tcc_constant(t, 0, TCC_F32, TCC_DIMS(40, 16)), at, rows, 0);
    tcc_tensor steps = tcc_lstm(tcc_reshape(rows, TCC_DIMS(10, 4, 16)), "r", 8).all;
    tcc_loss(t, tcc_mean(tcc_square(tcc_linear(steps, "out", 3)), TCC_ALL));
}

typedef struct work {
    tcc_model_fn net;
    tcc_model_options options;
    double loss;
    bool verified;
    char error[512];
} work;

static int32_t x[4 * 16], y[4 * 16];

static void *train(void *user) {
    work *w = user;
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {4, 16}, .data = x},
                               {.name = "y", .dtype = TCC_I32, .rank = 2, .dims = {4, 16}, .data = y}};
    tcc_context *cx = NULL;
    tcc_model *m = NULL;
    if (tcc_context_create(&cx) || tcc_model_create(cx, w->net, NULL, &w->options, &m) ||
        tcc_model_train(m, batch, 2) || tcc_model_evaluate(m, batch, 2) ||
        (w->verified && tcc_model_verify(m, batch, 2, 0, NULL)))
        snprintf(w->error, sizeof w->error, "%s", tcc_context_error(cx));
    w->loss = tcc_model_loss(m);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return NULL;
}

static void check(tcc_model_fn net, tcc_model_options options, bool verified) {
    work small = {.net = net, .options = options, .verified = verified}, large = small;
    pthread_attr_t attributes;
    pthread_t thread;
    small.options.size = large.options.size = sizeof options;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, train, &small), 0);
    pthread_join(thread, NULL);
    train(&large);
    if (*small.error) fail_msg("%s", small.error);
    assert_true(isfinite(large.loss) && small.loss == large.loss);
}

static void compiles_and_trains(void **state) {
    (void)state;
    for (int i = 0; i < 64; i++) x[i] = i * 7 % 40, y[i] = (i * 7 + 7) % 40;
    check(text_net, (tcc_model_options){.seed = 3}, true);
    check(mixed_net, (tcc_model_options){.seed = 1}, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compiles_and_trains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
