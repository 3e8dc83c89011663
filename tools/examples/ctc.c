/* SPDX-License-Identifier: MIT
 * Reading without knowing where: a convolutional network learns to read words from signals in which letters last 2 to 4
 * frames, by CTC (Graves et al. 2006), which is told the words alone.
 *     build/bin/example-ctc                                    The same in PyTorch takes 76 lines. */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, FRAMES = 16, FEATURES = 6, LETTERS = 4, LONGEST = 4, CLASSES = LETTERS + 1 };

static void reader(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_input(t, "signal"); /* [BATCH, FEATURES, FRAMES] */
    h = tcc_relu(tcc_conv_layer(h, "conv1", 32, 3, .padding = 1));
    h = tcc_relu(tcc_conv_layer(h, "conv2", 32, 3, .padding = 1));
    h = tcc_conv_layer(h, "conv3", CLASSES, 1);                                  /* [BATCH, CLASSES, FRAMES] */
    tcc_tensor reads = tcc_log_softmax(tcc_transpose(h, TCC_DIMS(2, 0, 1)), -1); /* class 0 is the blank */
    tcc_output(t, "best", tcc_argmax(reads, -1));
    tcc_loss(t, tcc_ctc_loss(reads, tcc_input(t, "words"), tcc_input(t, "frames"), tcc_input(t, "letters")));
}

static float noise(void) { return (float)rand() / (float)RAND_MAX - 0.5F; }

static float signal[BATCH][FEATURES][FRAMES];
static int32_t words[BATCH][LONGEST], frames[BATCH], letters[BATCH];

/* A letter k has features of sin(k (f + 1)), and there are pauses between some. */
static void make_words(void) {
    for (int n = 0; n < BATCH; n++) {
        int at = 0;
        letters[n] = 1 + rand() % LONGEST;
        for (int f = 0; f < FEATURES; f++)
            for (int i = 0; i < FRAMES; i++) signal[n][f][i] = noise();
        for (int k = 0; k < letters[n]; k++) {
            const int letter = words[n][k] = 1 + rand() % LETTERS;
            const bool again = k && letter == words[n][k - 1];
            const int left = FRAMES - at - again, most = left - 3 * (letters[n] - k - 1);
            int lasts = 2 + rand() % 3;
            if (lasts > most) lasts = most;
            for (at += again; lasts > 0; lasts--, at++)
                for (int f = 0; f < FEATURES; f++) signal[n][f][at] += (float)sin(letter * (f + 1));
        }
        frames[n] = FRAMES;
    }
}

/* How many words come out when blanks and repetitions are left out of the best classes. */
static int count_right(const int32_t *best) {
    int right = 0;
    for (int n = 0; n < BATCH; n++) {
        int found = 0;
        bool same = true;
        for (int i = 0, last = 0; i < FRAMES; last = best[i++ * BATCH + n]) {
            const int class = best[i * BATCH + n];
            if (class == 0 || class == last) continue;
            same = same && found < letters[n] && class == words[n][found];
            found++;
        }
        right += same && found == letters[n];
    }
    return right;
}

int main(void) {
    const tcc_array batch[] = {
        {.name = "signal", .dtype = TCC_F32, .rank = 3, .dims = {BATCH, FEATURES, FRAMES}, .data = signal},
        {.name = "words", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, LONGEST}, .data = words},
        {.name = "frames", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = frames},
        {.name = "letters", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = letters}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array best = {0};
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.005;
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adam};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, reader, NULL, &options, &model);
    for (int step = 0; step <= 400 && status == TCC_OK; step++) {
        make_words();
        status = tcc_model_train(model, batch, 4);
        if (status == TCC_OK && step % 100 == 0) printf("step %3d  loss %.4f\n", step, tcc_model_loss(model));
    }
    make_words();
    if (status == TCC_OK) status = tcc_model_evaluate(model, batch, 4);
    if (status == TCC_OK) status = tcc_model_output(model, "best", &best);
    const int right = status == TCC_OK ? count_right(best.data) : 0;
    if (status == TCC_OK) printf("%d of %d words right\n", right, BATCH);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return right > BATCH * 8 / 10 ? EXIT_SUCCESS : EXIT_FAILURE;
}
