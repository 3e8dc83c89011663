/* SPDX-License-Identifier: MIT
 * A model of characters: an LSTM learns a text and goes on writing it.  build/bin/example-lstm_text [FILE]
 *
 * It reads the text in pieces of WINDOW characters and guesses the next one at each place. The same in PyTorch takes
 * 44 lines. */
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 24, BATCH = 16, CHARACTERS = 128, STEPS = 200, MOST = 1 << 20 };

static char text[MOST] = "the mill stands where the river bends. in spring the river is high and the mill grinds all "
                         "day; in summer the river is low and the mill rests. the miller counts his sacks and says: "
                         "what the river gives the river takes. then he looks up at the hills, where the rain is, "
                         "and waits. ";

static void model_of_text(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_embedding(tcc_input(t, "text"), "embed", CHARACTERS, 32); /* i32 [BATCH, WINDOW] */
    tcc_tensor h = tcc_lstm(x, "lstm", 96, .batch_first = true).all;             /* [BATCH, WINDOW, 96] */
    tcc_tensor logits = tcc_linear(h, "head", CHARACTERS);
    tcc_output(t, "guess", tcc_argmax(logits, -1));
    if (tcc_has_input(t, "next")) tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "next")));
}

static bool read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    text[fread(text, 1, MOST - 1, f)] = '\0';
    return !fclose(f) && strlen(text) > WINDOW;
}

/* The model's own text behind the first WINDOW characters, into out[count]. */
static tcc_status write_on(tcc_model *model, char *out, int count) {
    static int32_t window[BATCH][WINDOW]; /* one row is used */
    const tcc_array batch = {.name = "text", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, WINDOW}, .data = window};
    tcc_status status = TCC_OK;
    for (int i = 0; i < WINDOW; i++) window[0][i] = text[i] & 127;
    for (int i = 0; i < count && status == TCC_OK; i++) {
        tcc_array guess = {0};
        status = tcc_model_evaluate(model, &batch, 1);
        if (status == TCC_OK) status = tcc_model_output(model, "guess", &guess);
        if (status != TCC_OK) break;
        memmove(window[0], window[0] + 1, sizeof window[0] - sizeof **window);
        out[i] = (char)(window[0][WINDOW - 1] = ((const int32_t *)guess.data)[WINDOW - 1]);
    }
    return status;
}

int main(int argc, char **argv) {
    static int32_t rows[BATCH][WINDOW], next[BATCH][WINDOW];
    const tcc_array batch[] = {{.name = "text", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, WINDOW}, .data = rows},
                               {.name = "next", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, WINDOW}, .data = next}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.01, adam.clip_grad_norm = 1;
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adam};
    char written[81] = "";
    float first = 0, last = 0;
    if (argc > 1 && !read_text(argv[1])) return fprintf(stderr, "%s: no text\n", argv[1]), EXIT_FAILURE;
    const int length = (int)strlen(text);
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, model_of_text, NULL, &options, &model);
    for (int step = 0; step <= STEPS && status == TCC_OK; step++) {
        for (int b = 0; b < BATCH; b++) {
            const int start = rand() % (length - WINDOW);
            for (int i = 0; i < WINDOW; i++) rows[b][i] = text[start + i] & 127, next[b][i] = text[start + i + 1] & 127;
        }
        status = tcc_model_train(model, batch, 2);
        last = status == TCC_OK ? tcc_model_loss(model) : 0;
        if (step == 0) first = last;
        if (status == TCC_OK && step % 50 == 0) printf("step %3d  loss %.4f\n", step, last);
    }
    if (status == TCC_OK) status = write_on(model, written, (int)sizeof written - 1);
    if (status == TCC_OK) printf("%.*s|%s\n", WINDOW, text, written);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return status == TCC_OK && last < first / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
