/* SPDX-License-Identifier: MIT
 * Steps in micro-batches have PyTorch's losses, norms of gradients, parameters and running statistics
 * (golden/make_accumulate.py, which says what the network and its batches are). */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 21, FEATURES = 6, HIDDEN = 8, CLASSES = 5 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_tanh(tcc_batch_norm(tcc_linear(tcc_input(t, "x"), "in", HIDDEN, .no_bias = true), "norm"));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "out", CLASSES), tcc_input(t, "y")));
}

static float x[ROWS * FEATURES];
static int32_t y[ROWS];
static const tcc_array batch[2] = {{"x", TCC_F32, 2, {ROWS, FEATURES}, x}, {"y", TCC_I32, 1, {ROWS}, y}};

static void make_batch(int step) {
    for (int i = 0; i < ROWS * FEATURES; i++) x[i] = (float)((i * 37 + 11 * step) % 101) / 50 - 1;
    for (int row = 0; row < ROWS; row++) y[row] = row < 4 || (row + step) % 5 == 0 ? -100 : (7 * row + step) % CLASSES;
}

static void begin(tcc_model *m) {
    static const char *const names[] = {"in.weight", "norm.weight", "norm.bias", "out.weight", "out.bias"};
    for (int k = 0; k < 5; k++) {
        tcc_array a;
        assert_true(tcc_model_find_param(m, names[k], &a));
        const int64_t count = a.dims[0] * (a.rank > 1 ? a.dims[1] : 1);
        for (int64_t i = 0; i < count; i++)
            ((float *)a.data)[i] = (float)((double)((37 * i + 11 * k) % 101) / 101 - 0.5 + (k == 1));
    }
}

static void compare(const char *what, int index, double got, double want) {
    if (!(fabs(got - want) <= 2e-5 * fmax(1, fabs(want)))) fail_msg("%s %d: %.9g, not %.9g", what, index, got, want);
}

static double number(const cJSON *c, const char *list, int index) {
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(c, list), index)->valuedouble;
}

static void check_case(const cJSON *c, tcc_mode mode) {
    static const tcc_optimizer_options sgd = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9, .decay_all = true,
                                                       .clip_grad_norm = 0.25),
                                       adamw = OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .decay_all = true,
                                                         .clip_grad_norm = 0.25);
    const char *optimizer = cJSON_GetObjectItemCaseSensitive(c, "optimizer")->valuestring;
    const tcc_model_options o = {.size = sizeof o,
                                 .mode = mode,
                                 .optimizer = strcmp(optimizer, "sgd") ? &adamw : &sgd,
                                 .batch_accumulate = cJSON_GetObjectItemCaseSensitive(c, "parts")->valueint};
    const int steps = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(c, "losses"));
    tcc_context *cx;
    tcc_model *m;
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    make_batch(0);
    OK(cx, tcc_model_compile(m, true, batch, 2));
    begin(m);
    for (int step = 0; step < steps; step++) {
        tcc_array norm;
        make_batch(step);
        OK(cx, tcc_model_train(m, batch, 2));
        compare("loss of step", step, tcc_model_loss(m), number(c, "losses", step));
        OK(cx, tcc_model_output(m, "grad_norm", &norm));
        compare("norm of step", step, *(const float *)norm.data, number(c, "norms", step));
    }
    const cJSON *tensor, *values = cJSON_GetObjectItemCaseSensitive(c, "values");
    cJSON_ArrayForEach(tensor, values) {
        tcc_array a;
        if (!tcc_model_find_param(m, tensor->string, &a)) fail_msg("there is no \"%s\"", tensor->string);
        for (int i = 0; i < cJSON_GetArraySize(tensor); i++)
            compare(tensor->string, i, ((const float *)a.data)[i], cJSON_GetArrayItem(tensor, i)->valuedouble);
    }
    assert_int_equal(cJSON_GetArraySize(values), 7);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void has_the_values_of_pytorch(void **state) {
    (void)state;
    char *text = test_read(TCC_SOURCE_DIR "/tests/numerics/golden/accumulate.json", NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *c, *cases = cJSON_GetObjectItemCaseSensitive(json, "cases");
    int count = 0;
    cJSON_ArrayForEach(c, cases) {
        check_case(c, TCC_MODE_DEFAULT);
        check_case(c, TCC_MODE_EAGER);
        count++;
    }
    assert_int_equal(count, 8);
    cJSON_Delete(json);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(has_the_values_of_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
