/* SPDX-License-Identifier: MIT
 * Gradients by inputs of the batch, beside the loss computed here in double. */
#include "harness/input_gradients.h"
#include "harness/check.h"
#include "harness/optimizer.h"

#include "ir/support/element.h"

#include <math.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

enum { ROWS = 5, WIDTH = 3 };

/* mean((tanh(x) w - y)^2), whose scale makes its gradient as small as f16 does not hold without a scaled loss. */
static const double small = 1e-4;

static void net(tcc_trace *t, void *user) {
    const tcc_dtype dtype = *(const tcc_dtype *)user;
    const tcc_dtype low = dtype == TCC_F16 || dtype == TCC_BF16 ? dtype : TCC_F32;
    const tcc_tensor x = tcc_cast(tcc_cast(tcc_input(t, "x"), low), TCC_F32);
    const tcc_tensor y = tcc_matmul(tcc_tanh(x),
                                    tcc_param(t, "w", (tcc_init){.kind = TCC_INIT_ZEROS}, TCC_DIMS(WIDTH, 2)));
    tcc_output(t, "off", tcc_sum(tcc_cast(tcc_input(t, "unused"), TCC_F32), TCC_ALL));
    tcc_output(t, "rows", tcc_input(t, "rows"));
    tcc_loss(t, tcc_scale(tcc_mse_loss(y, tcc_cast(tcc_input(t, "y"), TCC_F32)), small));
}

static const double weights[WIDTH][2] = {{0.5, -1.25}, {0.75, 0.25}, {-1, 2}};

/* The gradient by x[row][k]. */
static double expected(const double x[ROWS * WIDTH], int row, int k) {
    double sum = 0;
    for (int j = 0; j < 2; j++) {
        double y = 0;
        for (int i = 0; i < WIDTH; i++) y += tanh(x[row * WIDTH + i]) * weights[i][j];
        sum += 2 * (y - (row - j)) * weights[k][j];
    }
    const double slope = 1 - tanh(x[row * WIDTH + k]) * tanh(x[row * WIDTH + k]);
    return small * sum * slope / (ROWS * 2);
}

static void check_one(const char *device, tcc_mode mode, tcc_dtype dtype, tcc_mixed_precision precision,
                      double tolerance) {
    static const tcc_optimizer_options sgd = OPTIMIZER(TCC_SGD, 0, .clip_grad_norm = 1e-6);
    double x[ROWS * WIDTH], given[ROWS * WIDTH]; /* given: in any type */
    float y[ROWS][2], unused[2] = {1, 2};
    int32_t rows[1] = {ROWS};
    const tcc_array batch[4] = {{"x", dtype, 2, {ROWS, WIDTH}, given},
                                {"y", TCC_F32, 2, {ROWS, 2}, y},
                                {"unused", TCC_F32, 1, {2}, unused},
                                {"rows", TCC_I32, 1, {1}, rows}};
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .mode = mode,
                                 .optimizer = &sgd,
                                 .mixed_precision = precision,
                                 .keep_input_gradients = true};
    tcc_context *cx;
    tcc_model *m;
    tcc_array a;
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, &dtype, &o, &m));
    OK(cx, tcc_model_compile(m, true, batch, 4));
    assert_true(tcc_model_find_param(m, "w", &a));
    for (int i = 0; i < WIDTH * 2; i++) ((float *)a.data)[i] = (float)weights[i / 2][i % 2];
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < ROWS * WIDTH; i++) {
            tcc_element_set(dtype, given, i, (double)((37 * i + 11 * step) % 31) / 16 - 1);
            x[i] = tcc_element_get(dtype, given, i);
        }
        for (int i = 0; i < ROWS * 2; i++) y[i / 2][i % 2] = (float)(i / 2 - i % 2);
        OK(cx, tcc_model_train(m, batch, 4));
        OK(cx, tcc_model_gradient(m, "x", &a));
        assert_true(a.dtype == dtype && a.rank == 2 && a.dims[0] == ROWS && a.dims[1] == WIDTH);
        for (int i = 0; i < ROWS * WIDTH; i++) {
            const double got = tcc_element_get(dtype, a.data, i), want = expected(x, i / WIDTH, i % WIDTH);
            if (!(fabs(got - want) <= tolerance * small))
                fail_msg("type %d, step %d: gradient by x[%d] is %.9g, not %.9g", (int)dtype, step, i, got, want);
        }
        OK(cx, tcc_model_gradient(m, "unused", &a));
        assert_true(((float *)a.data)[0] == 0 && ((float *)a.data)[1] == 0);
    }
    assert_int_equal(tcc_model_gradient(m, "rows", &a), TCC_ENOTFOUND);
    assert_int_equal(tcc_model_gradient(m, "w", &a), TCC_EINVAL);
    if (!strstr(tcc_context_error(cx), "gradient of \"w\": create the model with keep_gradients"))
        fail_msg("%s", tcc_context_error(cx));
    OK(cx, tcc_model_evaluate(m, batch, 4));
    assert_int_equal(tcc_model_gradient(m, "x", &a), TCC_ENOTFOUND);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

void check_input_gradients(const char *device, tcc_mode mode) {
    check_one(device, mode, TCC_F32, TCC_MIXED_NONE, 1e-6);
    check_one(device, mode, TCC_F64, TCC_MIXED_NONE, 1e-6);
    check_one(device, mode, TCC_F16, TCC_MIXED_NONE, 2e-2); /* its smallest numbers are coarse: 6e-8 of 1e-4 */
    check_one(device, mode, TCC_BF16, TCC_MIXED_NONE, 1e-2);
    check_one(device, mode, TCC_F32, TCC_MIXED_BF16, 2e-2);
    check_one(device, mode, TCC_F32, TCC_MIXED_FP16, 2e-3);
}
