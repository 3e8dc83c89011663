/* SPDX-License-Identifier: MIT
 * Between a table's rows and the model: categories of many values are embedded, and weights of rows and classes go to
 * the loss. */
#include "train_run.h"

#include "recipe_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Features -- */

/* Row 0 is of values that training has not seen: it stays zero. */
static tcc_tensor embed(tcc_trace *t, tcc_tensor x, int64_t index, const tcc_column *c) {
    enum { MOST = 50 };
    char name[64];
    int64_t width = llround(1.6 * pow((double)c->categories, 0.56)); /* as fastai has it */
    const tcc_tensor cell = tcc_reshape(tcc_slice(x, 1, c->first, c->first + 1), TCC_DIMS(-1));
    snprintf(name, sizeof name, "embed.%lld", (long long)index);
    (void)t;
    return tcc_embedding(tcc_cast(cell, TCC_I32), name, c->categories + 1, width < MOST ? width : MOST,
                         .has_padding_index = true);
}

static bool needs_no_change(const run *s) {
    tcc_column c;
    for (int64_t i = 0; tcc_dataset_column(s->data, i, &c); i++)
        if (c.embedded || (!strcmp(c.kind, "weight") && c.features)) return false;
    return true;
}

tcc_tensor run_features(const run *s, tcc_trace *t, tcc_tensor x) {
    tcc_column c;
    int count = 0, room = 0;
    int64_t from = 0; /* features that are taken as they are begin here */
    if (needs_no_change(s)) return x;
    for (int64_t i = 0; tcc_dataset_column(s->data, i, &c); i++) room += 2;
    tcc_tensor *parts = calloc((size_t)room + 1, sizeof *parts);
    if (!parts) return x; /* whose extent the first layer then refuses */
    for (int64_t i = 0; tcc_dataset_column(s->data, i, &c); i++) {
        if (!strcmp(c.kind, "weight") || !c.embedded) continue;
        if (c.first > from) parts[count++] = tcc_slice(x, 1, from, c.first);
        parts[count++] = embed(t, x, i, &c);
        from = c.first + 1;
    }
    int64_t end = s->info.x.dims[0];
    for (int64_t i = 0; tcc_dataset_column(s->data, i, &c); i++)
        if (!strcmp(c.kind, "weight") && c.features) end = c.first; /* it is the last */
    if (end > from) parts[count++] = tcc_slice(x, 1, from, end);
    x = count == 1 ? parts[0] : tcc_concat(parts, count, 1);
    free(parts);
    return x;
}

/* -- The loss -- */

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "loss")

/* What rows weigh, [B]; false where all are alike. */
static bool row_weights(const run *s, tcc_trace *t, tcc_tensor x, tcc_tensor *out) {
    tcc_column c;
    (void)t;
    for (int64_t i = 0; tcc_dataset_column(s->data, i, &c); i++) {
        if (strcmp(c.kind, "weight") || !c.features) continue;
        *out = tcc_reshape(tcc_slice(x, 1, c.first, c.first + 1), TCC_DIMS(-1));
        return true;
    }
    return false;
}

tcc_status run_check_class_weights(run *s) {
    int64_t count;
    double *list = recipe_weights_list(s->recipe->training.class_weights, &count);
    if (!list) return TCC_OK;
    free(list);
    if (count == s->info.classes) return TCC_OK;
    snprintf(s->problem, sizeof s->problem,
             "training.class_weights has %lld numbers, but there are %lld classes; tcc-train data lists them",
             (long long)count, (long long)s->info.classes);
    return TCC_EINVAL;
}

/* N / (C N_c) for a class of N_c of N samples; 0 for one without. From malloc. */
static double *balanced_weights(const run *s) {
    double *weights = calloc((size_t)s->info.classes, sizeof *weights), sum = 0;
    for (int64_t i = 0; weights && i < s->info.classes; i++) sum += (double)tcc_dataset_count(s->data, i);
    for (int64_t i = 0; weights && i < s->info.classes; i++) {
        const double count = (double)tcc_dataset_count(s->data, i);
        weights[i] = count > 0 ? sum / ((double)s->info.classes * count) : 0;
    }
    return weights;
}

static tcc_tensor classes_loss(const run *s, tcc_trace *t, tcc_tensor x, tcc_tensor logits, tcc_tensor y) {
    tcc_tensor rows, classes;
    int64_t count;
    const bool weighted = row_weights(s, t, x, &rows);
    const char *asked = s->recipe->training.class_weights;
    const double smoothing = tcc_is_training(t) ? s->recipe->training.label_smoothing : 0;
    double *weights = !strcmp(asked, "balanced") ? balanced_weights(s) : recipe_weights_list(asked, &count);
    if (weights) classes = tcc_literal(t, weights, TCC_F32, TCC_DIMS(s->info.classes));
    free(weights);
    if (!weighted)
        return tcc_cross_entropy(logits, y, .weight = weights ? &classes : NULL, .label_smoothing = smoothing);
    const tcc_tensor each = tcc_cross_entropy(logits, y, .weight = weights ? &classes : NULL,
                                              .label_smoothing = smoothing, .reduction = TCC_REDUCE_NONE);
    return tcc_mean(tcc_mul(each, rows), TCC_ALL);
}

tcc_tensor run_loss(const run *s, tcc_trace *t, tcc_tensor x, tcc_tensor logits, tcc_tensor y) {
    tcc_tensor rows;
    if (!s->regression) return classes_loss(s, t, x, logits, y);
    if (!row_weights(s, t, x, &rows)) return tcc_mse_loss(logits, y);
    const tcc_tensor each = tcc_mse_loss(logits, y, .reduction = TCC_REDUCE_NONE);
    return tcc_mean(tcc_mul(each, tcc_reshape(rows, TCC_DIMS(-1, 1))), TCC_ALL);
}
