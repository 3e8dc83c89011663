/* SPDX-License-Identifier: MIT
 * A layer of your own: a gated linear unit, and an exponential moving average of its input kept as a buffer.
 * build/bin/example-custom_layer
 *
 * A layer is a function from tensors to tensors. Its parameters are asked for by name; its gradient is derived, its
 * operations are fused with their neighbours, and a wrong shape is reported at the caller's line, because the location
 * is passed on. */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* x [N, in] -> [N, features]: (x A + a) sigmoid(x B + b), Dauphin et al. 2017. */
static tcc_tensor gated_linear_at(tcc_tensor x, const char *name, int64_t features, tcc_loc at) {
    tcc_trace *t = x.trace;
    if (tcc_rank(x) != 2)
        return tcc_fail_at(t, at, "gated_linear \"%s\": x must have 2 dims, not %d", name, tcc_rank(x));
    int64_t in = tcc_dim(x, 1);
    const tcc_init init = {.kind = TCC_INIT_XAVIER_UNIFORM, .a = 1}, zero = {.kind = TCC_INIT_ZEROS};
    tcc_scope(t, "%s", name);
    tcc_tensor w = tcc_param_at(t, "weight", init, TCC_DIMS(in, 2 * features), at); /* both halves in one product */
    tcc_tensor b = tcc_param_at(t, "bias", zero, TCC_DIMS(2 * features), at);
    tcc_tensor both = tcc_add_at(tcc_matmul_at(x, w, at), b, at);
    tcc_scope_end(t);
    tcc_tensor value = tcc_slice_at(both, 1, 0, features, 1, at),
               gate = tcc_slice_at(both, 1, features, 2 * features, 1, at);
    return tcc_mul_at(value, tcc_sigmoid_at(gate, at), at);
}
#define gated_linear(x, name, features) gated_linear_at(x, name, features, TCC_HERE)

/* x minus its running mean over batches, which is a buffer: saved with the weights, updated by the step, not trained.
 */
static tcc_tensor running_center(tcc_trace *t, tcc_tensor x) {
    tcc_tensor mean = tcc_state(t, "running_mean", ((tcc_init){.kind = TCC_INIT_ZEROS}), TCC_DIMS(tcc_dim(x, 1)));
    if (tcc_is_training(t)) tcc_update(mean, tcc_add(tcc_scale(mean, 0.9), tcc_scale(tcc_mean(x, TCC_DIMS(0)), 0.1)));
    return tcc_sub(x, mean);
}

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = running_center(t, tcc_input(t, "x"));
    h = gated_linear(gated_linear(h, "glu1", 32), "glu2", 32);
    tcc_loss(t, tcc_mse_loss(tcc_linear(h, "out", 1), tcc_input(t, "y")));
}

int main(void) {
    enum { N = 128 };
    static float x[N][2], y[N][1];
    for (int i = 0; i < N; i++) {
        x[i][0] = (float)(i % 16) / 8;
        x[i][1] = (float)(i / 16) / 4;
        y[i][0] = sinf(3 * x[i][0]) * x[i][1];
    }
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {N, 2}, .data = x},
                               {.name = "y", .dtype = TCC_F32, .rank = 2, .dims = {N, 1}, .data = y}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.01;
    const tcc_model_options options = {.size = sizeof options, .optimizer = &adam};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, net, NULL, &options, &model);
    for (int step = 0; step <= 500 && status == TCC_OK; step++) {
        status = tcc_model_train(model, batch, 2);
        if (status == TCC_OK && step % 100 == 0) printf("step %3d  loss %.5f\n", step, tcc_model_loss(model));
    }
    tcc_array parameter;
    for (int i = 0; status == TCC_OK && tcc_model_param(model, i, &parameter); i++)
        printf("%-14s rank %d  %s\n", parameter.name, parameter.rank,
               tcc_model_param_is_trained(model, i) ? "trained" : "buffer");
    if (status != TCC_OK) fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
