/* SPDX-License-Identifier: MIT
 * Examples of model.h. */
#include "examples.h"

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "fc1", 8));
    tcc_loss(t, tcc_mse_loss(tcc_linear(h, "fc2", 1), tcc_input(t, "y")));
}

TRACED(tcc_input) {
    tcc_tensor x = tcc_input(t, "x");    /* of the shape and type of the batch's array "x" */
    tcc_output(t, "y", tcc_scale(x, 2)); /* f32 [4, 1] */
}

TRACED(tcc_has_input) {
    tcc_tensor y = tcc_linear(tcc_input(t, "x"), "fc", 1);
    if (tcc_has_input(t, "y")) tcc_loss(t, tcc_mse_loss(y, tcc_input(t, "y")));
}

TRACED(tcc_output) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "sum", tcc_sum(x, TCC_ALL)); /* 6 */
}

TRACED(tcc_loss) {
    tcc_tensor y = tcc_linear(tcc_input(t, "x"), "fc", 1);
    tcc_loss(t, tcc_mse_loss(y, tcc_input(t, "y")));
}

TRACED(tcc_loss_weight) {
    tcc_tensor mask = tcc_literal(t, ((double[]){1, 1, 0}), TCC_F32, TCC_DIMS(3));
    tcc_loss_weight(t, tcc_sum(mask, TCC_ALL)); /* the loss is a sum over what the mask leaves, divided by this */
}

EXAMPLE(tcc_param_group_init) {
    tcc_param_group biases;
    tcc_param_group_init(&biases, "*.bias");
    biases.weight_decay = 0;
}

EXAMPLE(tcc_optimizer_init) {
    tcc_optimizer_options adamw;
    tcc_optimizer_init(&adamw, TCC_ADAMW);
    adamw.lr = 3e-4;
}

EXAMPLE(tcc_is_memory_budget) {
    printf("%d %d\n", tcc_is_memory_budget("1.5GiB"), tcc_is_memory_budget("much")); /* 1 0 */
}

EXAMPLE(tcc_memory_budget_bytes) { printf("%d\n", (int)tcc_memory_budget_bytes("800MB")); /* 800000000 */ }

EXAMPLE(tcc_model_create) {
    tcc_optimizer_options adamw;
    tcc_optimizer_init(&adamw, TCC_ADAMW);
    tcc_model_options options = {.size = sizeof options, .optimizer = &adamw, .seed = 1};
    tcc_model *mine;
    TCC_TRY(tcc_model_create(cx, net, NULL, &options, &mine));
    TCC_TRY(tcc_model_train(mine, batch, batch_count));
    printf("loss %.4f\n", tcc_model_loss(mine)); /* loss 15.4440 */
    tcc_model_destroy(mine);
}

EXAMPLE(tcc_model_destroy) {
    tcc_model *mine = NULL;
    if (tcc_model_create(cx, net, NULL, NULL, &mine)) puts(tcc_context_error(cx));
    tcc_model_destroy(mine); /* before its context */
}

EXAMPLE(tcc_model_device) { printf("%s\n", tcc_model_device(model)); /* cpu */ }

EXAMPLE(tcc_model_train) {
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    const double before = tcc_model_loss(model);
    for (int step = 0; step < 10; step++) TCC_TRY(tcc_model_train(model, batch, batch_count));
    printf("%s\n", tcc_model_loss(model) < before ? "it learns" : "it does not"); /* it learns */
}

EXAMPLE(tcc_model_pin) {
    static float memory[256]; /* where batches will be made */
    TCC_TRY(tcc_model_pin(model, memory, sizeof memory));
}

EXAMPLE(tcc_model_evaluate) {
    TCC_TRY(tcc_model_evaluate(model, batch, batch_count));
    printf("%s\n", isfinite(tcc_model_loss(model)) ? "a loss" : "none"); /* a loss */
}

EXAMPLE(tcc_model_compile) {
    TCC_TRY(tcc_model_compile(model, true, batch, batch_count));  /* for training */
    TCC_TRY(tcc_model_compile(model, false, batch, batch_count)); /* for evaluation */
}

EXAMPLE(tcc_model_output) {
    tcc_array loss;
    TCC_TRY(tcc_model_evaluate(model, batch, batch_count));
    TCC_TRY(tcc_model_output(model, "loss", &loss));
    printf("%s, %d dims\n", loss.name, loss.rank); /* loss, 0 dims */
}

EXAMPLE(tcc_model_place_output) {
    static _Alignas(64) float forecast[4]; /* or memory of the GPU, with .memory = TCC_MEMORY_DEVICE and a stream */
    tcc_array to = {.name = "grad.fc2.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = forecast};
    TCC_TRY(tcc_model_place_output(model, &to));
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    printf("%s\n", forecast[0] != 0 ? "written" : "not written"); /* written */
    to.data = NULL;
    TCC_TRY(tcc_model_place_output(model, &to)); /* back to the model's own memory */
}

EXAMPLE(tcc_model_loss) {
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    printf("%s\n", isfinite(tcc_model_loss(model)) ? "a loss" : "none"); /* a loss */
}

EXAMPLE(tcc_model_step_loss) {
    double loss;
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    TCC_TRY(tcc_model_step_loss(model, tcc_model_step(model) - 1, &loss));
}

EXAMPLE(tcc_model_synchronize) {
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    TCC_TRY(tcc_model_synchronize(model)); /* the step is done, or its error is returned */
}

EXAMPLE(tcc_model_loss_scale) {
    tcc_model_options fp16 = {.size = sizeof fp16, .mixed_precision = TCC_MIXED_FP16};
    tcc_model *mine;
    double scale;
    int64_t skipped;
    TCC_TRY(tcc_model_create(cx, net, NULL, &fp16, &mine));
    TCC_TRY(tcc_model_train(mine, batch, batch_count));
    TCC_TRY(tcc_model_loss_scale(mine, &scale, &skipped));
    printf("scale %g, %d skipped\n", scale, (int)skipped); /* scale ... */
    tcc_model_destroy(mine);
}

EXAMPLE(tcc_model_set_lr) {
    TCC_TRY(tcc_model_set_lr(model, 1e-4));
    TCC_TRY(tcc_model_train(model, batch, batch_count));
}

EXAMPLE(tcc_model_set_momentum) {
    TCC_TRY(tcc_model_set_momentum(model, 0.95));
    TCC_TRY(tcc_model_train(model, batch, batch_count));
}

EXAMPLE(tcc_model_step) {
    const int64_t before = tcc_model_step(model);
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    printf("%d more\n", (int)(tcc_model_step(model) - before)); /* 1 more */
}

EXAMPLE(tcc_model_set_step) {
    tcc_model_set_step(model, 1000);            /* of a checkpoint that was loaded */
    printf("%d\n", (int)tcc_model_step(model)); /* 1000 */
}

EXAMPLE(tcc_model_param) {
    tcc_array p;
    for (int i = 0; tcc_model_param(model, i, &p); i++)
        printf("%s, %d dims\n", p.name, p.rank); /* fc1.weight, 2 dims */
}

EXAMPLE(tcc_model_find_param) {
    tcc_array p;
    if (tcc_model_find_param(model, "fc1.bias", &p)) printf("%d values\n", (int)p.dims[0]); /* 8 values */
}

EXAMPLE(tcc_model_get_param) {
    double bias[1];
    tcc_array to = {.name = "fc2.bias", .dtype = TCC_F64, .rank = 1, .dims = {1}, .data = bias};
    TCC_TRY(tcc_model_get_param(model, &to));
}

EXAMPLE(tcc_model_set_param) {
    float bias[1] = {0.5f};
    tcc_array from = {.name = "fc2.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = bias};
    TCC_TRY(tcc_model_set_param(model, &from));
}

EXAMPLE(tcc_model_param_is_trained) {
    printf("%s\n", tcc_model_param_is_trained(model, 0) ? "trained" : "a buffer"); /* trained */
}

EXAMPLE(tcc_model_optimizer_state) {
    tcc_array s;
    for (int i = 0; tcc_model_optimizer_state(model, i, &s); i++) printf("%s\n", s.name); /* fc1.weight.m */
}

EXAMPLE(tcc_model_gather_states) {
    tcc_array s;
    TCC_TRY(tcc_model_gather_states(model)); /* on all ranks, before rank 0 writes a checkpoint */
    for (int i = 0; tcc_model_optimizer_state(model, i, &s); i++) printf("%s\n", s.name); /* fc1.weight.m */
}

EXAMPLE(tcc_model_gradient) {
    tcc_array gradient;
    TCC_TRY(tcc_model_train(model, batch, batch_count)); /* of a model with options.keep_gradients */
    TCC_TRY(tcc_model_gradient(model, "fc1.weight", &gradient));
    printf("[%d, %d]\n", (int)gradient.dims[0], (int)gradient.dims[1]); /* [8, 1] */
}

EXAMPLE(tcc_model_statistic) {
    tcc_statistic s;
    TCC_TRY(tcc_model_train(model, batch, batch_count)); /* of a model with options.statistics */
    for (int i = 0; !tcc_model_statistic(model, i, &s); i++)
        if (!s.of_module) printf("%s: gradient %.2g\n", s.name, s.gradient_norm); /* fc1.weight: gradient ... */
}

EXAMPLE(tcc_model_use_ema) {
    TCC_TRY(tcc_model_use_ema(model, true)); /* of a model with optimizer.ema_decay */
    TCC_TRY(tcc_model_evaluate(model, batch, batch_count));
    TCC_TRY(tcc_model_use_ema(model, false));
}

EXAMPLE(tcc_model_plan) {
    tcc_memory_plan plan;
    TCC_TRY(tcc_model_plan(model, true, batch, batch_count, &plan));
    printf("arena %d bytes\n", (int)plan.arena_bytes); /* arena ... */
}

EXAMPLE(tcc_model_free_memory) { printf("%s\n", tcc_model_free_memory(model) ? "some" : "unknown"); /* some */ }

EXAMPLE(tcc_model_info) {
    tcc_program_info info;
    TCC_TRY(tcc_model_info(model, &info));
    printf("%d kernels\n", info.kernels); /* 3 kernels */
}

EXAMPLE(tcc_model_report) {
    char *text;
    TCC_TRY(tcc_model_report(model, "memory", &text));
    fputs(text, stdout);
    tcc_string_free(text);
}

EXAMPLE(tcc_model_profile) {
    tcc_model_profile(model, true); /* then the report "kernels" has times */
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    tcc_model_profile(model, false);
}

EXAMPLE(tcc_model_write_profile) {
    tcc_model_profile(model, true);
    TCC_TRY(tcc_model_train(model, batch, batch_count));
    TCC_TRY(tcc_model_write_profile(model, "profile.json"));
    tcc_model_profile(model, false);
}

EXAMPLE(tcc_string_free) {
    char *text = NULL;
    if (!tcc_model_report(model, "passes", &text)) fputs(text, stdout);
    tcc_string_free(text);
}

EXAMPLE(tcc_find_device) {
    char *device, *text;
    TCC_TRY(tcc_find_device(cx, "cpu", &device, &text));
    printf("%s\n", device); /* cpu */
    tcc_string_free(device);
    tcc_string_free(text);
}

EXAMPLE(tcc_describe_devices) {
    char *text;
    TCC_TRY(tcc_describe_devices(cx, &text));
    fputs(text, stdout);
    tcc_string_free(text);
}

EXAMPLE(tcc_model_verify) { TCC_TRY(tcc_model_verify(model, batch, batch_count, 0, "failing.tir")); }

EXAMPLE(tcc_model_find_overflow) {
    char *text;
    TCC_TRY(tcc_model_find_overflow(model, batch, batch_count, &text));
    puts(text);
    tcc_string_free(text);
}
