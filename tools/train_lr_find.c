/* SPDX-License-Identifier: MIT
 * The learning-rate range test (Smith, "Cyclical learning rates for training neural networks", 2017): the rate grows by
 * the same factor each step, until the loss runs away. */
#include "chart.h"
#include "text_file.h"
#include "train_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double lowest = 1e-7, highest = 10;
static const double decay = 0.9; /* of the running average of losses */
enum { STEPS = 100, LEAST = 10, AWAY = 4 };

typedef struct range_test {
    double *lr, *loss, *smooth; /* by step; `smooth` without the bias of an average that begins with 0 */
    int64_t count, steps;
    double best;
} range_test;

static bool ran_away(const range_test *t) {
    const double last = t->smooth[t->count - 1];
    return !isfinite(last) || (t->count > LEAST && last > AWAY * t->best);
}

static tcc_status try_rates(run *s, range_test *t) {
    double average = 0;
    t->best = INFINITY;
    for (int64_t i = 0; i < t->steps && !*s->interrupted; i++) {
        const tcc_batch *batch;
        const double lr = lowest * pow(highest / lowest, (double)i / (double)(t->steps - 1));
        double loss;
        tcc_status status = tcc_model_set_lr(s->model, lr);
        if (status == TCC_OK) status = tcc_loader_next(s->loader, &batch);
        if (status == TCC_OK) status = tcc_model_train(s->model, batch->arrays, batch->n_arrays);
        if (status == TCC_OK) status = tcc_model_step_loss(s->model, i, &loss);
        if (status != TCC_OK) return status;
        average = decay * average + (1 - decay) * loss;
        t->lr[i] = lr;
        t->loss[i] = loss;
        t->smooth[i] = average / (1 - pow(decay, (double)(i + 1)));
        t->count = i + 1;
        if (ran_away(t)) return TCC_OK;
        t->best = fmin(t->best, t->smooth[i]);
    }
    return TCC_OK;
}

/* How much the losses of the first `count` steps differ, whose rates change nothing: their standard deviation. */
static double noise(const range_test *t, int64_t count) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) mean += t->loss[i] / (double)count;
    for (int64_t i = 0; i < count; i++) squares += (t->loss[i] - mean) * (t->loss[i] - mean);
    return sqrt(squares / (double)count);
}

/* The middle of the decade in which the average falls most, before it is least; -1: it does not fall by more than
 * batches differ. Shorter stretches say less. */
static int64_t steepest(const range_test *t) {
    const int64_t half = (int64_t)ceil((double)(t->steps - 1) / log10(highest / lowest) / 2);
    int64_t least = half, found = -1;
    double most = 0;
    for (int64_t i = half; i < t->count; i++)
        if (t->smooth[i] < t->smooth[least]) least = i;
    if (t->count <= 2 * half || !(t->smooth[half] - t->smooth[least] > noise(t, 2 * half))) return -1;
    for (int64_t i = half; i + half <= least; i++) {
        const double falls = t->smooth[i - half] - t->smooth[i + half];
        if (falls > most) most = falls, found = i;
    }
    return found;
}

/* -- What is written -- */

/* Writes RUN/name. */
static tcc_status save_file(run *s, text_file *f, const char *name) {
    char *path = NULL;
    tcc_status status = text_file_end(f, s->cx, asprintf(&path, "%s/%s", s->folder.path, name) < 0 ? NULL : path);
    free(path);
    return status;
}

static tcc_status write_table(run *s, const range_test *t) {
    text_file f;
    if (!text_file_begin(&f)) return TCC_ENOMEM;
    fputs("lr,loss,smooth_loss\n", f.out);
    for (int64_t i = 0; i < t->count; i++) fprintf(f.out, "%.6e,%.9g,%.9g\n", t->lr[i], t->loss[i], t->smooth[i]);
    return save_file(s, &f, "lr_find.csv");
}

/* Steps up to where the loss is as far above its first value as it was below: what runs away leaves the rest flat. */
static int64_t count_shown(const range_test *t) {
    int64_t count = 0;
    while (count < t->count && !(t->smooth[count] > 2 * t->smooth[0] - t->best)) count++;
    return count > LEAST ? count : t->count;
}

static tcc_status write_plot(run *s, const range_test *t, int64_t found) {
    char label[48];
    text_file f;
    if (!text_file_begin(&f)) return TCC_ENOMEM;
    snprintf(label, sizeof label, "lr %.2e", found < 0 ? NAN : t->lr[found]);
    const int64_t count = count_shown(t);
    const chart_series series[] = {{.name = "a batch", .x = t->lr, .y = t->loss, .count = count, .color = 5},
                                   {.name = "average", .x = t->lr, .y = t->smooth, .count = count, .color = 0}};
    const chart c = {.title = "Learning-rate range test",
                     .x_label = "learning rate",
                     .y_label = "loss",
                     .log_x = true,
                     .series = series,
                     .n_series = 2,
                     .mark = found < 0 ? NAN : t->lr[found],
                     .mark_label = label};
    chart_print_file(f.out, &c);
    const tcc_status status = save_file(s, &f, "lr_find.svg");
    if (status == TCC_OK && !s->options->quiet) printf("the losses are plotted in %s/lr_find.svg\n", s->folder.path);
    return status;
}

static tcc_status report(run *s, const range_test *t) {
    const int64_t found = steepest(t);
    const double last = t->lr[t->count - 1];
    if (run_folder_make(&s->folder) != EXIT_DONE) {
        snprintf(s->problem, sizeof s->problem, "lr_find.csv cannot be written");
        return TCC_EIO;
    }
    if (found >= 0)
        printf("the loss falls fastest at a learning rate of %.2e, and %s %.2e: try optimizer.lr=%.1e\n", t->lr[found],
               ran_away(t) ? "runs away at" : "does not run away up to", last, t->lr[found]);
    else
        printf("the loss falls at no learning rate up to %.2e: the data or the model may be at fault, or more steps "
               "are needed (--lr-find=STEPS)\n",
               last);
    tcc_status status = write_table(s, t);
    return status == TCC_OK ? write_plot(s, t, found) : status;
}

tcc_status run_find_lr(run *s) {
    range_test t = {.steps = s->options->lr_steps ? s->options->lr_steps : STEPS};
    double *numbers = calloc((size_t)t.steps, 3 * sizeof *numbers);
    if (!numbers) return TCC_ENOMEM;
    t.lr = numbers;
    t.loss = numbers + t.steps;
    t.smooth = numbers + 2 * t.steps;
    tcc_status status = try_rates(s, &t);
    if (status == TCC_OK && !*s->interrupted) status = report(s, &t);
    free(numbers);
    return status;
}
