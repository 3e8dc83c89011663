/* SPDX-License-Identifier: MIT
 * A physics-informed network (Raissi et al. 2019): it learns u with u''(x) = -pi^2 sin(pi x) in [-1, 1] and u = 0 at
 * both ends from the equation alone. Its loss is made of second derivatives by the input, and the training step
 * differentiates them once more.  build/bin/example-poisson        In PyTorch it is 34 lines. */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 128 };
static const double pi = 3.14159265358979323846;

/* u for each row of x [POINTS, 1]. The factor 1 - x^2 makes it 0 at the ends. */
static tcc_tensor solution(tcc_tensor x) {
    tcc_tensor h = tcc_tanh(tcc_linear(x, "fc1", 32));
    h = tcc_tanh(tcc_linear(h, "fc2", 32));
    return tcc_mul(tcc_add_scalar(tcc_neg(tcc_mul(x, x)), 1), tcc_linear(h, "fc3", 1));
}

static void poisson(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor x = tcc_input(t, "x"), u = solution(x), exact = tcc_sin(tcc_scale(x, pi));
    /* A row's u depends on its own x alone, so the gradient of the sum holds each row's derivative. */
    const tcc_tensor slope = tcc_gradient(tcc_sum(u, TCC_ALL), x);
    const tcc_tensor curvature = tcc_gradient(tcc_sum(slope, TCC_ALL), x);
    tcc_output(t, "error", tcc_reduce_max(tcc_abs(tcc_sub(u, exact)), TCC_ALL));
    tcc_loss(t, tcc_mse_loss(curvature, tcc_scale(exact, -pi * pi)));
}

int main(void) {
    static float x[POINTS];
    for (int i = 0; i < POINTS; i++) x[i] = -1 + 2 * ((float)i + 0.5F) / POINTS;
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {POINTS, 1}, .data = x};

    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array error = {0};
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adam};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, poisson, NULL, &options, &model);
    for (int step = 0; step <= 3000 && status == TCC_OK; step++) {
        tcc_model_set_lr(model, 0.005 * 0.5 * (1 + cos(pi * step / 3000)));
        status = tcc_model_train(model, &batch, 1);
        if (status == TCC_OK && step % 500 == 0) printf("step %4d  loss %.6f\n", step, tcc_model_loss(model));
    }
    if (status == TCC_OK) status = tcc_model_evaluate(model, &batch, 1);
    if (status == TCC_OK) status = tcc_model_output(model, "error", &error);
    if (status == TCC_OK) printf("largest error of u: %.6f\n", *(float *)error.data);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    const bool learned = status == TCC_OK && *(float *)error.data < 0.01F;

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
