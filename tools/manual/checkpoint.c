/* SPDX-License-Identifier: MIT
 * Examples of checkpoint.h. */
#include "examples.h"

EXAMPLE(tcc_safetensors_open) {
    tcc_safetensors *file;
    TCC_TRY(tcc_safetensors_open(cx, "weights.safetensors", &file));
    tcc_safetensors_close(file);
}

EXAMPLE(tcc_safetensors_close) {
    tcc_safetensors *file = NULL;
    if (tcc_safetensors_open(cx, "weights.safetensors", &file)) puts(tcc_context_error(cx));
    tcc_safetensors_close(file);
}

EXAMPLE(tcc_safetensors_count) {
    tcc_safetensors *file;
    TCC_TRY(tcc_safetensors_open(cx, "weights.safetensors", &file));
    printf("%d tensors\n", tcc_safetensors_count(file)); /* 1 tensors */
    tcc_safetensors_close(file);
}

EXAMPLE(tcc_safetensors_get) {
    tcc_safetensors *file;
    TCC_TRY(tcc_safetensors_open(cx, "weights.safetensors", &file));
    for (int i = 0; i < tcc_safetensors_count(file); i++) puts(tcc_safetensors_get(file, i).name); /* fc2.bias */
    tcc_safetensors_close(file);
}

EXAMPLE(tcc_safetensors_find) {
    tcc_safetensors *file;
    TCC_TRY(tcc_safetensors_open(cx, "weights.safetensors", &file));
    printf("%d\n", tcc_safetensors_find(file, "fc9.bias")); /* -1 */
    tcc_safetensors_close(file);
}

EXAMPLE(tcc_safetensors_metadata) {
    tcc_safetensors *file;
    TCC_TRY(tcc_safetensors_open(cx, "weights.safetensors", &file));
    printf("%s\n", tcc_safetensors_metadata(file, "author")); /* me */
    tcc_safetensors_close(file);
}

EXAMPLE(tcc_safetensors_load) {
    tcc_safetensors *file;
    float bias[1];
    tcc_array to = {.name = "fc2.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = bias};
    TCC_TRY(tcc_safetensors_open(cx, "weights.safetensors", &file));
    if (!tcc_safetensors_load(cx, file, &to, 1, 0)) printf("%g\n", bias[0]); /* 0.5 */
    tcc_safetensors_close(file);
}

EXAMPLE(tcc_weights_load) {
    float bias[1], head[1] = {2};
    const char *const heads[] = {"head.*"};
    tcc_array to[] = {{.name = "fc2.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = bias},
                      {.name = "head.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = head}};
    const tcc_weights_options options = {.size = sizeof options, .ignore = heads, .n_ignore = 1};
    char *report;
    TCC_TRY(tcc_weights_load(cx, "weights.safetensors", to, 2, &options, &report));
    printf("%s", report); /* 1 of 2 tensors are from weights.safetensors */
    tcc_string_free(report);
}

EXAMPLE(tcc_safetensors_write) {
    float bias[1] = {0.5f};
    tcc_array array = {.name = "fc2.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = bias};
    tcc_pair metadata = {"author", "me"};
    TCC_TRY(tcc_safetensors_write(cx, "weights.safetensors", &array, 1, &metadata, 1));
}

EXAMPLE(tcc_file_write) { TCC_TRY(tcc_file_write(cx, "notes.txt", "lr 0.1\n", 7)); }

EXAMPLE(tcc_checkpoint_save) {
    float bias[1] = {0.5f};
    tcc_array array = {.name = "fc2.bias", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = bias};
    tcc_checkpoint_contents contents = {.size = sizeof contents, .step = 500, .params = &array, .n_params = 1};
    TCC_TRY(tcc_checkpoint_save(cx, "saved", &contents)); /* saved/step-000500.safetensors */
}

EXAMPLE(tcc_checkpoint_list) {
    int64_t steps[10];
    int count;
    TCC_TRY(tcc_checkpoint_list(cx, "checkpoints", steps, 10, &count));
    printf("%d: step %d\n", count, (int)steps[0]); /* 1: step 100 */
}

EXAMPLE(tcc_checkpoint_remove) { TCC_TRY(tcc_checkpoint_remove(cx, "checkpoints", 50)); /* if there is one */ }

EXAMPLE(tcc_checkpoint_open) {
    tcc_checkpoint *newest;
    TCC_TRY(tcc_checkpoint_open(cx, "checkpoints", &newest));
    tcc_checkpoint_close(newest);
}

EXAMPLE(tcc_checkpoint_close) {
    tcc_checkpoint *newest = NULL;
    if (tcc_checkpoint_open(cx, "checkpoints", &newest)) puts(tcc_context_error(cx));
    tcc_checkpoint_close(newest);
}

EXAMPLE(tcc_checkpoint_step) {
    tcc_checkpoint *newest;
    TCC_TRY(tcc_checkpoint_open(cx, "checkpoints", &newest));
    printf("step %d\n", (int)tcc_checkpoint_step(newest)); /* step 100 */
    tcc_checkpoint_close(newest);
}

EXAMPLE(tcc_checkpoint_path) {
    tcc_checkpoint *newest;
    TCC_TRY(tcc_checkpoint_open(cx, "checkpoints", &newest));
    printf("%s\n", tcc_checkpoint_path(newest)); /* checkpoints/step-000100.safetensors */
    tcc_checkpoint_close(newest);
}

EXAMPLE(tcc_checkpoint_value) {
    tcc_checkpoint *newest;
    TCC_TRY(tcc_checkpoint_open(cx, "checkpoints", &newest));
    printf("%s\n", tcc_checkpoint_value(newest, "epoch")); /* 3 */
    tcc_checkpoint_close(newest);
}

EXAMPLE(tcc_checkpoint_params) {
    tcc_checkpoint *newest;
    TCC_TRY(tcc_checkpoint_open(cx, "checkpoints", &newest));
    printf("%d\n", tcc_safetensors_count(tcc_checkpoint_params(newest))); /* 1 */
    tcc_checkpoint_close(newest);
}

EXAMPLE(tcc_checkpoint_state) {
    tcc_checkpoint *newest;
    TCC_TRY(tcc_checkpoint_open(cx, "checkpoints", &newest));
    printf("%d\n", tcc_safetensors_count(tcc_checkpoint_state(newest))); /* 0 */
    tcc_checkpoint_close(newest);
}

EXAMPLE(tcc_checkpoint_load_averages) {
    float w[2];
    bool found;
    tcc_checkpoint *newest;
    const tcc_array mine = {.name = "w", .data = w, .dtype = TCC_F32, .rank = 1, .dims = {2}};
    TCC_TRY(tcc_checkpoint_open(cx, "checkpoints", &newest));
    TCC_TRY(tcc_checkpoint_load_averages(cx, newest, &mine, 1, &found));
    puts(found ? "averages" : "none"); /* none */
    tcc_checkpoint_close(newest);
}
