/* SPDX-License-Identifier: MIT
 * Predictions: a line for each line of a file, or for each sample of the validation data. */
#include "train_run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static tcc_status problem(run *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->problem, sizeof s->problem, format, args);
    va_end(args);
    return TCC_EINVAL;
}

/* -- Answers -- */

static void print_class(const run *s, int64_t id) {
    size_t length;
    const char *name = tcc_dataset_label(s->data, id, &length);
    if (name) fwrite(name, 1, length, stdout);
    else printf("%" PRId64, id);
}

/* The largest of a row's logits, and its softmax. */
static void print_answer(const run *s, const float *logits, int64_t classes) {
    int64_t best = 0;
    double sum = 0;
    if (s->regression) {
        printf("%.9g", (double)logits[0]);
        return;
    }
    for (int64_t i = 1; i < classes; i++)
        if (logits[i] > logits[best]) best = i;
    for (int64_t i = 0; i < classes; i++) sum += exp((double)logits[i] - (double)logits[best]);
    print_class(s, best);
    printf("\t%.4f", 1 / sum);
}

/* Answers for the first `count` rows of x; y: their labels, or NULL. */
static tcc_status answer(run *s, const tcc_array *x, int64_t count, const tcc_array *y) {
    tcc_array logits;
    tcc_status status = tcc_model_evaluate(s->model, x, 1);
    if (status == TCC_OK) status = tcc_model_output(s->model, "logits", &logits);
    for (int64_t i = 0; i < count && status == TCC_OK; i++) {
        print_answer(s, (const float *)logits.data + i * logits.dims[1], logits.dims[1]);
        if (y) putchar('\t');
        if (y && s->regression) printf("%.9g", (double)((const float *)y->data)[i]);
        else if (y) print_class(s, ((const int32_t *)y->data)[i]);
        putchar('\n');
    }
    fflush(stdout);
    return status;
}

/* Of the validation data, with its labels, or of a table to predict from. */
static tcc_status predict_samples(run *s) {
    tcc_status status = TCC_OK;
    for (int64_t i = 0; i < tcc_loader_batches(s->val_loader) && status == TCC_OK && !*s->interrupted; i++) {
        const tcc_batch *batch;
        status = tcc_loader_next(s->val_loader, &batch);
        if (status == TCC_OK)
            status = answer(s, &batch->arrays[0], batch->count, s->options->inputs ? NULL : &batch->arrays[1]);
    }
    return status;
}

/* -- Texts from a file -- */

/* A text's tokens, and -1 behind them. */
static tcc_status read_words(run *s, const char *line, size_t length, int32_t *row) {
    int64_t count;
    tcc_status status = tcc_dataset_encode(s->cx, s->data, line, length, row, s->info.x.dims[0], &count);
    for (int64_t i = count; i < s->info.x.dims[0] && status == TCC_OK; i++) row[i] = -1;
    return status;
}

static tcc_status predict_lines(run *s, FILE *in, tcc_array *x) {
    const int64_t width = x->dims[1];
    char *line = NULL;
    size_t room = 0;
    int64_t count = 0;
    ssize_t length = 0;
    tcc_status status = TCC_OK;
    while (status == TCC_OK && !*s->interrupted && (length = getline(&line, &room, in)) >= 0) {
        while (length && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = '\0';
        status = read_words(s, line, (size_t)length, (int32_t *)x->data + count * width);
        if (status != TCC_OK || ++count < x->dims[0]) continue;
        status = answer(s, x, count, NULL);
        count = 0;
    }
    if (status == TCC_OK && ferror(in)) status = problem(s, "%s: %s", s->options->inputs, strerror(errno));
    if (status == TCC_OK && count && !*s->interrupted) status = answer(s, x, count, NULL);
    free(line);
    return status;
}

/* A batch of inputs, without data. */
static tcc_array batch_of(const run *s) {
    tcc_array x = s->info.x;
    memmove(x.dims + 1, x.dims, sizeof x.dims - sizeof x.dims[0]);
    x.dims[0] = s->recipe->data.batch_size;
    x.rank++;
    return x;
}

static tcc_status predict_texts(run *s) {
    const char *path = s->options->inputs;
    tcc_array x = batch_of(s);
    FILE *in = strcmp(path, "-") ? fopen(path, "r") : stdin;
    if (!in) return problem(s, "cannot read %s: %s", path, strerror(errno));
    x.data = calloc((size_t)(x.dims[0] * x.dims[1]), sizeof(int32_t)); /* rows that a last batch lacks are zero */
    tcc_status status = x.data ? predict_lines(s, in, &x) : TCC_ENOMEM;
    free(x.data);
    if (in != stdin) fclose(in);
    return status;
}

tcc_status run_check_predictor(run *s) {
    const char *kind = s->recipe->data.kind;
    if (s->language)
        return problem(s,
                       "predict: a language model is not a classifier; what it writes is under sample in the recipe");
    if (s->options->inputs && strcmp(kind, "csv") != 0 && strcmp(kind, "text_classes") != 0)
        return problem(s, "predict: data of kind %s is not read from lines; give data.val_path=PATH", kind);
    return TCC_OK;
}

tcc_status run_compile_predictor(run *s) {
    tcc_array x = batch_of(s);
    float none = 0;
    x.data = &none; /* is not looked at */
    return tcc_model_compile(s->model, false, &x, 1);
}

tcc_status run_predict(run *s) { return s->val_loader ? predict_samples(s) : predict_texts(s); }
