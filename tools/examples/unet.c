/* SPDX-License-Identifier: MIT
 * A U-Net (Ronneberger et al. 2015) that finds bright blobs in noise, pixel by pixel.  build/bin/example-unet
 * Halved by pools, doubled again by transposed convolutions. In PyTorch the same takes 80 lines. */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { IMAGES = 16, SIZE = 32, STEPS = 80, CHANNELS = 8 };

static double uniform(void) { return rand() / (RAND_MAX + 1.0); }

/* Two to four blobs an image, under as much noise as there is light. The mask is 1 where a blob is. */
static void draw(float images[IMAGES][SIZE][SIZE], float masks[IMAGES][SIZE][SIZE]) {
    for (int n = 0; n < IMAGES; n++) {
        double x[4], y[4], radius[4];
        const int blobs = 2 + rand() % 3;
        for (int b = 0; b < blobs; b++) x[b] = SIZE * uniform(), y[b] = SIZE * uniform(), radius[b] = 2 + 5 * uniform();
        for (int i = 0; i < SIZE; i++)
            for (int j = 0; j < SIZE; j++) {
                bool inside = false;
                for (int b = 0; b < blobs; b++) inside |= hypot(i - y[b], j - x[b]) < radius[b];
                masks[n][i][j] = inside;
                images[n][i][j] = (float)(inside + 2 * uniform() - 1);
            }
    }
}

static tcc_tensor twice(tcc_trace *t, const char *name, tcc_tensor x, int64_t channels) {
    tcc_scope(t, "%s", name);
    for (int i = 0; i < 2; i++) {
        const char *const convs[] = {"conv1", "conv2"}, *const norms[] = {"norm1", "norm2"};
        x = tcc_conv_layer(x, convs[i], channels, 3, .same = true, .no_bias = true);
        x = tcc_relu(tcc_batch_norm(x, norms[i]));
    }
    tcc_scope_end(t);
    return x;
}

/* x in twice the resolution, beside what the way down had there. */
static tcc_tensor up(tcc_trace *t, const char *name, tcc_tensor x, tcc_tensor beside, int64_t channels) {
    tcc_scope(t, "%s", name);
    x = tcc_conv_transpose_layer(x, "up", channels, 2, .stride = 2);
    const tcc_tensor both[] = {x, beside};
    x = twice(t, "both", tcc_concat(both, 2, 1), channels);
    tcc_scope_end(t);
    return x;
}

static void unet(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor masks = tcc_input(t, "masks"), fine = twice(t, "fine", tcc_input(t, "images"), CHANNELS),
                     middle = twice(t, "middle", tcc_max_pool(fine, 2), 2 * CHANNELS);
    tcc_tensor x = twice(t, "coarse", tcc_max_pool(middle, 2), 4 * CHANNELS);
    x = up(t, "up1", x, middle, 2 * CHANNELS);
    x = up(t, "up2", x, fine, CHANNELS);
    const tcc_tensor logits = tcc_conv_layer(x, "out", 1, 1);
    tcc_loss(t, tcc_bce_with_logits(logits, masks));
    /* Intersection over union of what is found and what there is. */
    const tcc_tensor found = tcc_cast(tcc_gt(logits, tcc_scale(logits, 0)), TCC_F32), both = tcc_mul(found, masks);
    const tcc_tensor either = tcc_sub(tcc_add(found, masks), both);
    tcc_output(t, "iou", tcc_div(tcc_sum(both, TCC_ALL), tcc_sum(either, TCC_ALL)));
}

int main(void) {
    static float images[IMAGES][SIZE][SIZE], masks[IMAGES][SIZE][SIZE];
    const tcc_array batch[] = {
        {.name = "images", .dtype = TCC_F32, .rank = 4, .dims = {IMAGES, 1, SIZE, SIZE}, .data = images},
        {.name = "masks", .dtype = TCC_F32, .rank = 4, .dims = {IMAGES, 1, SIZE, SIZE}, .data = masks}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array iou = {0};
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.01;
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adam};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, unet, NULL, &options, &model);
    for (int step = 1; step <= STEPS && status == TCC_OK; step++) {
        draw(images, masks);
        status = tcc_model_train(model, batch, 2);
        if (status == TCC_OK && step % 20 == 0) printf("step %3d  loss %.4f\n", step, tcc_model_loss(model));
    }
    draw(images, masks); /* which it has not seen */
    if (status == TCC_OK) status = tcc_model_evaluate(model, batch, 2);
    if (status == TCC_OK) status = tcc_model_output(model, "iou", &iou);
    const float found = status == TCC_OK ? *(const float *)iou.data : 0;
    if (status == TCC_OK) printf("intersection over union %.3f\n", (double)found);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return found > 0.8F ? EXIT_SUCCESS : EXIT_FAILURE;
}
