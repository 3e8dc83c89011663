/* SPDX-License-Identifier: MIT
 * Sampling text: one token at a time from the softmax of the last position's logits. The window has the model's full
 * context, so that one program serves every length; positions past the text cannot be seen by a causal model. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* xorshift64*: sampling only has to be repeatable. */
static double draw(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * 0x2545F4914F6CDD1DULL) >> 11) * 0x1p-53;
}

static int32_t sample_token(const float *logits, int64_t vocab, double temperature, uint64_t *state) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    if (temperature == 0) return (int32_t)best;
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) sum += exp((logits[i] - logits[best]) / temperature);
    double left = draw(state) * sum;
    for (int64_t i = 0; i < vocab; i++) {
        left -= exp((logits[i] - logits[best]) / temperature);
        if (left <= 0) return (int32_t)i;
    }
    return (int32_t)best;
}

/* The prompt's tokens; without a prompt, a line break if the text has any, else the first token. */
static tcc_status start(tcc_context *cx, const tcc_dataset *data, const recipe *r, int32_t *window, int64_t *length) {
    const char *prompt = r->sample.prompt ? r->sample.prompt : "\n";
    tcc_status status = tcc_dataset_encode(cx, data, prompt, strlen(prompt), window, r->model.context, length);
    if (status == TCC_OK && *length > r->model.context) *length = r->model.context;
    if (status != TCC_OK && !r->sample.prompt) {
        tcc_context_clear_error(cx);
        window[0] = 0;
        *length = 1;
        return TCC_OK;
    }
    return status;
}

static void put(const char *text, size_t bytes, FILE *out, FILE *copy) {
    fwrite(text, 1, bytes, out);
    if (copy) fwrite(text, 1, bytes, copy);
}

tcc_status train_sample(tcc_context *cx, tcc_model *model, const tcc_dataset *data, const recipe *r,
                        const volatile sig_atomic_t *interrupted, FILE *out, FILE *copy) {
    int64_t context = r->model.context, length = 0;
    int32_t *window = calloc((size_t)context, sizeof *window);
    if (!window) return TCC_ENOMEM;
    uint64_t state = (uint64_t)r->training.seed * 2 + 1;
    tcc_status status = start(cx, data, r, window, &length);
    if (status == TCC_OK && r->sample.prompt) put(r->sample.prompt, strlen(r->sample.prompt), out, copy);
    for (int64_t i = 0; i < r->sample.length && status == TCC_OK && !*interrupted; i++) {
        tcc_array x = {.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {1, context}, .data = window}, logits;
        status = tcc_model_evaluate(model, &x, 1);
        if (status == TCC_OK) status = tcc_model_output(model, "logits", &logits);
        if (status != TCC_OK) break;
        int64_t vocab = logits.dims[2];
        int32_t token = sample_token((const float *)logits.data + (length - 1) * vocab, vocab, r->sample.temperature,
                                     &state);
        size_t bytes;
        const char *text = tcc_dataset_label(data, token, &bytes);
        if (text) put(text, bytes, out, copy);
        fflush(out);
        if (length == context) memmove(window, window + 1, (size_t)(--length) * sizeof *window);
        window[length++] = token;
    }
    fputc('\n', out);
    free(window);
    return status;
}
