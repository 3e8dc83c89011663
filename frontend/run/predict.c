/* SPDX-License-Identifier: MIT
 * Answers of a model, batch by batch. */
#include "traincc/run.h"

#include "frontend/run/model.h"
#include "ir/support/context.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_BATCH = 64 };

typedef struct teller {
    tcc_context *cx;
    const tcc_dataset *data;
    tcc_dataset_info info;
    tcc_answer_fn fn;
    void *user;
    int64_t n_values, next;
    bool ended;
} teller;

/* The class of the largest logit, the first of equal ones; -1: one is NaN. */
static int64_t find_label(const float *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

static void tell(teller *t, const float *logits, const float *probabilities, const tcc_array *y, int64_t row) {
    tcc_answer a = {.index = t->next++, .values = logits, .n_values = t->n_values, .label = -1, .target_label = -1};
    a.id = tcc_dataset_sample_name(t->data, TCC_SPLIT_VALIDATION, a.index);
    if (t->info.classes) {
        a.values = probabilities;
        a.label = find_label(logits, t->n_values);
        a.target_label = ((const int32_t *)y->data)[row];
    } else {
        const float *target = (const float *)y->data + row * t->n_values;
        if (!isnan(*target)) a.target = target;
    }
    t->ended = !t->fn(t->user, &a);
}

static tcc_status get_output(const teller *t, tcc_model *model, const char *name, int64_t rows, const float **out) {
    tcc_array a;
    TCC_TRY(tcc__host_output(model, name, &a));
    if (a.dtype != TCC_F32 || a.rank != 2 || a.dims[0] != rows || a.dims[1] != t->n_values)
        return tcc_error(&t->cx->diag, TCC_ESHAPE, TCC_NOWHERE, "output \"%s\" of the model must be f32 [%lld, %lld]",
                         name, (long long)rows, (long long)t->n_values);
    *out = a.data;
    return TCC_OK;
}

static tcc_status answer_batch(teller *t, tcc_model *model, const tcc_batch *batch) {
    const int64_t rows = batch->arrays[0].dims[0], n = t->n_values;
    const float *logits = NULL, *probabilities;
    TCC_TRY(tcc_model_evaluate(model, batch->arrays, 1));
    TCC_TRY(get_output(t, model, "logits", rows, &logits));
    probabilities = logits;
    if (t->info.classes) TCC_TRY(get_output(t, model, "probabilities", rows, &probabilities));
    for (int64_t i = 0; i < batch->count && !t->ended; i++)
        tell(t, logits + i * n, probabilities + i * n, &batch->arrays[1], i);
    return TCC_OK;
}

tcc_status tcc_model_predict(tcc_context *cx, tcc_model *model, const tcc_dataset *data,
                             const tcc_predict_options *options, tcc_answer_fn fn, void *user) {
    teller t = {.cx = cx, .data = data, .fn = fn, .user = user};
    tcc_loader *loader = NULL;
    tcc_diag_begin(&cx->diag);
    if (options->size != sizeof *options)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_predict_options.size is %zu, should be %zu",
                         options->size, sizeof *options);
    tcc_dataset_get_info(data, &t.info);
    if (t.info.tokens[TCC_SPLIT_VALIDATION] || !strcmp(t.info.kind, "text") || !strcmp(t.info.kind, "tokens"))
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "data of kind %s has no predictions: tcc_generate writes text", t.info.kind);
    if (!strcmp(t.info.kind, "segmentation"))
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "data of kind segmentation has no answers, but classes of pixels: tcc_model_evaluate of x "
                         "alone makes the output \"classes\", and tcc-train predict writes them as pictures");
    const tcc_loader_options how = {.size = sizeof how,
                                    .split = TCC_SPLIT_VALIDATION,
                                    .batch_size = options->batch_size ? options->batch_size : DEFAULT_BATCH,
                                    .num_workers = options->num_workers,
                                    .last_batch = TCC_LAST_PAD};
    t.n_values = t.info.classes ? t.info.classes : t.info.y.rank ? t.info.y.dims[0] : 1;
    tcc_status status = tcc_loader_create(cx, data, &how, &loader);
    const int64_t batches = status == TCC_OK ? tcc_loader_batches(loader) : 0;
    for (int64_t i = 0; i < batches && status == TCC_OK && !t.ended; i++) {
        const tcc_batch *batch;
        status = tcc_loader_next(loader, &batch);
        if (status == TCC_OK) status = answer_batch(&t, model, batch);
    }
    tcc_loader_destroy(loader);
    return status;
}
