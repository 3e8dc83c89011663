/* SPDX-License-Identifier: MIT
 * A variational autoencoder (Kingma and Welling 2013): it learns to make 8 x 8 pictures of bars. The code of a picture
 * is drawn from the distribution that the encoder names; in evaluation, new pictures are drawn from codes alone.
 *     build/bin/example-vae                                    The same in PyTorch takes 63 lines. */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128, SIDE = 8, PIXELS = SIDE * SIDE, CODE = 6, HIDDEN = 128 };

static tcc_tensor decoder(tcc_tensor code) {
    tcc_tensor h = tcc_relu(tcc_linear(code, "dec1", HIDDEN));
    return tcc_linear(h, "dec2", PIXELS); /* logits of the pixels */
}

static void vae(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor x = tcc_input(t, "x"); /* [BATCH, PIXELS] */
    tcc_tensor h = tcc_relu(tcc_linear(x, "enc1", HIDDEN)), parts[2];
    tcc_chunk(tcc_linear(h, "enc2", 2 * CODE), 1, 2, parts);
    const tcc_tensor mean = parts[0], log_var = parts[1];
    const tcc_tensor noise = tcc_random_normal(t, "noise", 0, 1, TCC_F32, TCC_DIMS(BATCH, CODE));
    const tcc_tensor code = tcc_add(mean, tcc_mul(noise, tcc_exp(tcc_scale(log_var, 0.5))));
    /* Nats a picture: what the pixels cost given the code, and what the code does. */
    tcc_tensor pixels = tcc_bce_with_logits(decoder(code), x, .reduction = TCC_REDUCE_BATCH_MEAN);
    tcc_tensor spread = tcc_sub(tcc_add(tcc_square(mean), tcc_exp(log_var)), tcc_add_scalar(log_var, 1));
    tcc_loss(t, tcc_add(pixels, tcc_scale(tcc_sum(spread, TCC_ALL), 0.5 / BATCH)));
    if (!tcc_is_training(t)) {
        tcc_tensor drawn = tcc_random_normal(t, "codes", 0, 1, TCC_F32, TCC_DIMS(4, CODE));
        tcc_output(t, "drawn", tcc_sigmoid(decoder(drawn)));
    }
}

/* Pictures with a bar in some rows, or in some columns. */
static void make_pictures(float x[BATCH][PIXELS]) {
    for (int i = 0; i < BATCH; i++) {
        const int down = rand() % 2, bars = rand() & rand() & 255;
        for (int p = 0; p < PIXELS; p++) x[i][p] = (float)(bars >> (down ? p % SIDE : p / SIDE) & 1);
    }
}

static void show(const float *pictures) {
    for (int row = 0; row < SIDE; row++, puts(""))
        for (int i = 0; i < 4; i++, printf("   "))
            for (int column = 0; column < SIDE; column++)
                putchar(pictures[i * PIXELS + row * SIDE + column] > 0.5F ? '#' : '.');
}

int main(void) {
    static float x[BATCH][PIXELS];
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {BATCH, PIXELS}, .data = x};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array drawn = {0};
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.003;
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adam};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, vae, NULL, &options, &model);
    for (int step = 0; step <= 2000 && status == TCC_OK; step++) {
        make_pictures(x);
        status = tcc_model_train(model, &batch, 1);
        if (status == TCC_OK && step % 400 == 0) printf("step %4d  %.2f nats a picture\n", step, tcc_model_loss(model));
    }
    if (status == TCC_OK) status = tcc_model_evaluate(model, &batch, 1);
    if (status == TCC_OK) status = tcc_model_output(model, "drawn", &drawn);
    if (status == TCC_OK) show(drawn.data);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    const bool learned = status == TCC_OK && tcc_model_loss(model) < 20; /* 44 at first; 6 bits are the least */

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
