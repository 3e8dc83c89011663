/* SPDX-License-Identifier: MIT
 * A small vision transformer that tells shapes apart: discs, squares, crosses and rings of any size and place, with
 * noise.  build/bin/example-vit
 *
 * Patches of 4 x 4 pixels become words, as in Dosovitskiy et al. 2021. The same in PyTorch takes 64 lines. */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, SIDE = 16, PATCH = 4, PATCHES = (SIDE / PATCH) * (SIDE / PATCH), WIDTH = 32, SHAPES = 4 };
enum { STEPS = 300, EVALUATIONS = 8 };

static tcc_tensor block(tcc_tensor x) {
    tcc_tensor y = tcc_layer_norm(x, "norm1");
    x = tcc_add(x, tcc_multi_head_attention(y, y, y, "attention", 4));
    y = tcc_gelu(tcc_linear(tcc_layer_norm(x, "norm2"), "fc1", 2 * WIDTH));
    return tcc_add(x, tcc_linear(y, "fc2", WIDTH));
}

static void vit(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "images"), labels = tcc_input(t, "labels"); /* [BATCH, 1, SIDE, SIDE], i32 [BATCH] */
    x = tcc_conv_layer(x, "patches", WIDTH, PATCH, .stride = PATCH);
    x = tcc_transpose(tcc_reshape(x, TCC_DIMS(BATCH, WIDTH, PATCHES)), TCC_DIMS(0, 2, 1)); /* [BATCH, PATCHES, WIDTH] */
    x = tcc_add(x, tcc_param(t, "places", ((tcc_init){.kind = TCC_INIT_NORMAL, .b = 0.1}), TCC_DIMS(PATCHES, WIDTH)));
    for (int i = 0; i < 2; i++) {
        tcc_scope(t, "blocks.%d", i);
        x = block(x);
        tcc_scope_end(t);
    }
    tcc_tensor logits = tcc_linear(tcc_layer_norm(tcc_mean(x, TCC_DIMS(1)), "norm"), "head", SHAPES);
    tcc_output(t, "correct", tcc_sum(tcc_cast(tcc_eq(tcc_argmax(logits, -1), labels), TCC_F32), TCC_ALL));
    tcc_loss(t, tcc_cross_entropy(logits, labels));
}

static double uniform(double low, double high) { return low + (high - low) * rand() / RAND_MAX; }

static void draw(float image[SIDE][SIDE], int shape) {
    const double size = uniform(4, 7), x = uniform(size, SIDE - 1 - size), y = uniform(size, SIDE - 1 - size);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++) {
            const double dx = fabs(k - x), dy = fabs(i - y), r = sqrt(dx * dx + dy * dy);
            const int in[SHAPES] = {r <= size, fmax(dx, dy) <= size * 0.85, fmax(dx, dy) <= size && fmin(dx, dy) <= 1,
                                    r <= size && r >= size - 1.8};
            image[i][k] = (float)(in[shape] + uniform(-0.2, 0.2));
        }
}

static void make_batch(float images[BATCH][SIDE][SIDE], int32_t labels[BATCH]) {
    for (int b = 0; b < BATCH; b++) draw(images[b], labels[b] = rand() % SHAPES);
}

int main(void) {
    static float images[BATCH][SIDE][SIDE];
    static int32_t labels[BATCH];
    const tcc_array batch[] = {
        {.name = "images", .dtype = TCC_F32, .rank = 4, .dims = {BATCH, 1, SIDE, SIDE}, .data = images},
        {.name = "labels", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = labels}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_optimizer_options adamw;
    tcc_optimizer_init(&adamw, TCC_ADAMW);
    adamw.lr = 3e-3;
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adamw};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, vit, NULL, &options, &model);
    for (int step = 0; step <= STEPS && status == TCC_OK; step++) {
        make_batch(images, labels);
        status = tcc_model_train(model, batch, 2);
        if (status == TCC_OK && step % 100 == 0) printf("step %3d  loss %.4f\n", step, tcc_model_loss(model));
    }
    double right = 0;
    for (int i = 0; i < EVALUATIONS && status == TCC_OK; i++) {
        tcc_array correct = {0};
        make_batch(images, labels);
        status = tcc_model_evaluate(model, batch, 2);
        if (status == TCC_OK) status = tcc_model_output(model, "correct", &correct);
        if (status == TCC_OK) right += *(const float *)correct.data;
    }
    if (status == TCC_OK) printf("%.1f %% of new pictures right\n", right * 100 / (BATCH * EVALUATIONS));
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return status == TCC_OK && right > 0.9 * BATCH * EVALUATIONS ? EXIT_SUCCESS : EXIT_FAILURE;
}
