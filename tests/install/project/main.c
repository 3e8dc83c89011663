// SPDX-License-Identifier: MIT
// The smallest outside program: fits y = 3x with one weight and prints the loss that is left.
#include <stdio.h>
#include <traincc/traincc.h>

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_mse_loss(tcc_linear(tcc_input(t, "x"), "w", 1), tcc_input(t, "y")));
}

int main(void) {
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    float x[4] = {-1, 0, 1, 2}, y[4] = {-3, 0, 3, 6};
    tcc_array batch[] = {{"x", TCC_F32, 2, {4, 1}, x}, {"y", TCC_F32, 2, {4, 1}, y}};
    tcc_model_options options = {.size = sizeof(options)};
    tcc_status status = tcc_context_create(&cx);
    status = status ? status : tcc_model_create(cx, net, NULL, &options, &model);
    for (int step = 0; step < 100 && status == TCC_OK; step++) {
        status = tcc_model_train(model, batch, 2);
    }
    printf("%s loss %g\n", status ? tcc_context_error(cx) : "ok", status ? 0 : tcc_model_loss(model));
    int done = status == TCC_OK && tcc_model_loss(model) < 1e-4;
    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return done ? 0 : 1;
}
