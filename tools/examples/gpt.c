/* SPDX-License-Identifier: MIT
 * A GPT that learns to sort: it reads eight digits and continues with the same digits in order.  build/bin/example-gpt
 *
 * tcc_gpt gives the logits; what to learn from them is ours to say: targets of -100 do not count, so that the loss
 * looks only at the sorted half. */
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, DIGITS = 8, LENGTH = 2 * DIGITS - 1, STEPS = 400 };

static void sorter(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor tokens = tcc_input(t, "tokens"), targets = tcc_input(t, "targets"); /* i32 [BATCH, LENGTH] */
    const tcc_gpt_options size = {.layers = 2, .heads = 2, .width = 64, .context = LENGTH, .vocab = 10};
    tcc_tensor logits = tcc_gpt(t, tokens, &size); /* [BATCH, LENGTH, 10] */
    tcc_output(t, "guess", tcc_argmax(logits, -1));
    tcc_loss(t, tcc_cross_entropy(logits, targets, .has_ignore_index = true, .ignore_index = -100));
}

static int compare(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }

static void make_batch(int32_t tokens[BATCH][LENGTH], int32_t targets[BATCH][LENGTH]) {
    for (int b = 0; b < BATCH; b++) {
        int32_t line[2 * DIGITS];
        for (int i = 0; i < DIGITS; i++) line[i] = line[DIGITS + i] = rand() % 10;
        qsort(line + DIGITS, DIGITS, sizeof *line, compare);
        for (int i = 0; i < LENGTH; i++) {
            tokens[b][i] = line[i];
            targets[b][i] = i + 1 < DIGITS ? -100 : line[i + 1];
        }
    }
}

static void print_guess(const int32_t *tokens, const int32_t *guess) {
    for (int i = 0; i < DIGITS; i++) printf("%d ", tokens[i]);
    printf("-> ");
    for (int i = DIGITS - 1; i < LENGTH; i++) printf("%d ", guess[i]);
    putchar('\n');
}

int main(void) {
    static int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
    const tcc_array batch[] = {
        {.name = "tokens", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, LENGTH}, .data = tokens},
        {.name = "targets", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, LENGTH}, .data = targets}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array guess = {0};
    tcc_model_options options = {.size = sizeof options, .seed = 7};
    tcc_optimizer_options adamw;
    tcc_optimizer_init(&adamw, TCC_ADAMW);
    adamw.lr = 3e-3, adamw.weight_decay = 0.01, adamw.clip_grad_norm = 1;
    options.optimizer = &adamw;
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, sorter, NULL, &options, &model);
    for (int step = 0; step <= STEPS && status == TCC_OK; step++) {
        make_batch(tokens, targets);
        status = tcc_model_train(model, batch, 2);
        if (status == TCC_OK && step % 100 == 0) printf("step %3d  loss %.4f\n", step, tcc_model_loss(model));
    }
    make_batch(tokens, targets);
    if (status == TCC_OK) status = tcc_model_evaluate(model, batch, 2);
    if (status == TCC_OK) status = tcc_model_output(model, "guess", &guess);
    for (int b = 0; b < 3 && status == TCC_OK; b++) print_guess(tokens[b], (const int32_t *)guess.data + b * LENGTH);
    if (status != TCC_OK) fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
