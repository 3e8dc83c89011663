/* SPDX-License-Identifier: MIT
 * Text from a language model: one token at a time, drawn from the logits behind the last one. Windows have one of a few
 * lengths, so that a short text does not cost what the whole context does; positions behind the text cannot be seen by
 * a causal model. */
#include "traincc/run.h"

#include "frontend/run/model.h"
#include "frontend/run/sampler.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"

#include <math.h>
#include <string.h>

enum { SHORTEST_WINDOW = 64, DEFAULT_LENGTH = 256, LONGEST_CHARACTER = 4 };

typedef struct writer {
    tcc_context *cx;
    tcc_model *model;
    const tcc_dataset *data;
    const tcc_generate_options *options;
    tcc_generate_fn fn;
    void *user;
    tcc__sampler sampler;
    int64_t context, vocab; /* vocab: tokens that have a text */
    int32_t *window;
    int64_t length;  /* tokens in it */
    int32_t pair[2]; /* the last token, and the one before it */
    tcc_strbuf held; /* text that is not given yet: part of a character, or maybe of the stop */
    bool ended;
} writer;

/* ---- windows ---- */

static int64_t window_of(int64_t context, int64_t length) {
    int64_t window = SHORTEST_WINDOW;
    while (window < length) window *= 2;
    return window < context ? window : context;
}

static void make_arrays(int64_t window, tcc_array arrays[2]) {
    arrays[0] = (tcc_array){.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {1, window}};
    arrays[1] = (tcc_array){.name = "at", .dtype = TCC_I32, .rank = 1, .dims = {1}};
}

bool tcc_generate_shape(const tcc_dataset *data, int index, tcc_array shape[2]) {
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    const int64_t context = info.x.dims[0];
    int64_t window = window_of(context, 1);
    for (; index > 0 && window < context; index--) window = window_of(context, window + 1);
    if (index) return false;
    make_arrays(window, shape);
    return true;
}

/* ---- what is given ---- */

/* How much of the text can be given: what is behind may be the beginning of a character or of the stop. */
static size_t ready(const writer *w) {
    const char *text = w->held.text, *stop = w->options->stop;
    const size_t length = w->held.length;
    size_t end = length;
    for (size_t n = stop ? strlen(stop) - 1 : 0; n > 0; n--) {
        if (n > length || memcmp(text + length - n, stop, n) != 0) continue;
        end = length - n;
        break;
    }
    for (size_t back = 1; back < LONGEST_CHARACTER && back <= end; back++) {
        const uint8_t lead = (uint8_t)text[end - back];
        if ((lead & 0xC0) == 0x80) continue;
        const size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
        return whole > back ? end - back : end;
    }
    return end;
}

static void give(writer *w, size_t length) {
    if (length && !w->fn(w->user, w->held.text, length)) w->ended = true;
    w->held.length -= length;
    if (w->held.length) memmove(w->held.text, w->held.text + length, w->held.length);
}

/* The text that the last token adds to the one before. */
static tcc_status write_token(writer *w) {
    char *both, *before;
    size_t size, skipped;
    TCC_TRY(tcc_dataset_decode(w->cx, w->data, w->pair, 1, &before, &skipped));
    tcc_string_free(before);
    TCC_TRY(tcc_dataset_decode(w->cx, w->data, w->pair, 2, &both, &size));
    tcc_strbuf_addn(&w->held, both + skipped, size - skipped);
    tcc_string_free(both);
    if (w->held.failed) return tcc_enomem(&w->cx->diag);
    const char *stop = w->options->stop, *found = NULL;
    if (stop && w->held.length) found = memmem(w->held.text, w->held.length, stop, strlen(stop));
    give(w, found ? (size_t)(found - w->held.text) : ready(w));
    if (found) {
        w->held.length = 0;
        w->ended = true;
    }
    return TCC_OK;
}

/* ---- tokens ---- */

static tcc_status next_token(writer *w) {
    tcc_array arrays[2], logits;
    int32_t last = (int32_t)w->length - 1;
    make_arrays(window_of(w->context, w->length), arrays);
    arrays[0].data = w->window;
    arrays[1].data = &last;
    TCC_TRY(tcc_model_evaluate(w->model, arrays, 2));
    TCC_TRY(tcc__host_output(w->model, "logits", &logits));
    if (logits.dtype != TCC_F32 || logits.rank != 2 || logits.dims[0] != 1 || logits.dims[1] < w->vocab)
        return tcc_error(&w->cx->diag, TCC_ESHAPE, TCC_NOWHERE,
                         "output \"logits\" of the model must be f32 [1, %lld], one number for each token",
                         (long long)w->vocab);
    const int32_t token = tcc__sampler_draw(&w->sampler, logits.data, w->vocab);
    if (token < 0)
        return tcc_error(&w->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "the model's logits are infinite or NaN: its training has gone wrong");
    w->pair[0] = w->window[last];
    w->pair[1] = token;
    if (w->length == w->context) memmove(w->window, w->window + 1, (size_t)--w->length * sizeof *w->window);
    w->window[w->length++] = token;
    return TCC_OK;
}

static tcc_status check(tcc_diag *d, const tcc_generate_options *o) {
    if (o->size != sizeof *o)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_generate_options.size is %zu, should be %zu", o->size,
                         sizeof *o);
    if (!o->prompt || !(o->prompt_length || *o->prompt))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the prompt is empty: give a text to continue");
    if (!(o->temperature >= 0 && isfinite(o->temperature)))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "temperature is %g; it must be 0 or more", o->temperature);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "top_p is %g; it must be from 0 to 1", o->top_p);
    if (o->length < 0 || o->top_k < 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s is %lld; it must be 0 or more",
                         o->length < 0 ? "length" : "top_k", (long long)(o->length < 0 ? o->length : o->top_k));
    if (o->stop && !*o->stop)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "stop is empty: give a text to end at, or none");
    return TCC_OK;
}

static tcc_status begin(writer *w) {
    const tcc_generate_options *o = w->options;
    tcc_dataset_info info;
    size_t length;
    tcc_dataset_get_info(w->data, &info);
    w->vocab = info.classes;
    while (w->vocab && !tcc_dataset_label(w->data, w->vocab - 1, &length)) w->vocab--;
    w->context = info.x.dims[0];
    w->window = tcc__calloc((size_t)w->context, sizeof *w->window);
    w->sampler = (tcc__sampler){.temperature = o->temperature,
                                .top_k = o->top_k,
                                .top_p = o->top_p > 0 ? o->top_p : 1,
                                .state = o->seed * 2 + 1,
                                .candidates = tcc__malloc((size_t)w->vocab * sizeof *w->sampler.candidates + 1)};
    if (!w->window || !w->sampler.candidates) return tcc_enomem(&w->cx->diag);
    TCC_TRY(tcc_dataset_encode(w->cx, w->data, o->prompt, o->prompt_length ? o->prompt_length : strlen(o->prompt),
                               w->window, w->context, &w->length));
    if (w->length < 1 || w->length > w->context)
        return tcc_error(&w->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "the prompt has %lld tokens; it must have from 1 to %lld, the model's context",
                         (long long)w->length, (long long)w->context);
    return TCC_OK;
}

tcc_status tcc_generate(tcc_context *cx, tcc_model *model, const tcc_dataset *data, const tcc_generate_options *options,
                        tcc_generate_fn fn, void *user, int64_t *count) {
    writer w = {.cx = cx, .model = model, .data = data, .options = options, .fn = fn, .user = user};
    int64_t made = 0;
    tcc_diag_begin(&cx->diag);
    tcc_status status = check(&cx->diag, options);
    if (status == TCC_OK) status = begin(&w);
    const int64_t most = status == TCC_OK && options->length ? options->length : DEFAULT_LENGTH;
    for (; made < most && status == TCC_OK && !w.ended; made++) {
        status = next_token(&w);
        if (status == TCC_OK) status = write_token(&w);
    }
    if (status == TCC_OK && !w.ended) give(&w, w.held.length);
    if (count) *count = made;
    tcc_strbuf_free(&w.held);
    tcc__free(w.sampler.candidates);
    tcc__free(w.window);
    return status;
}
