/* SPDX-License-Identifier: MIT
 * Evaluation: what its program counts on the device, the metrics made of that, the best checkpoint, and when to stop
 * early. */
#include "streams.h"
#include "train_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_classifier(const run *s) { return !s->language && !s->regression; }

/* By which metric a checkpoint is the best. */
static eval_metric best_metric(const run *s) {
    const char *name = s->recipe->training.best_metric;
    if (!strcmp(name, "auto")) return s->pixels ? EVAL_MEAN_IOU : is_classifier(s) ? EVAL_ACCURACY : EVAL_LOSS;
    return eval_find(name);
}

const char *run_best_metric(const run *s) { return eval_key(best_metric(s)); }

static bool wants(const run *s, eval_metric metric) {
    const recipe *r = s->recipe;
    return metric == EVAL_LOSS || (metric == EVAL_ACCURACY && is_classifier(s)) ||
           (r->training.metrics >> metric & 1) || metric == best_metric(s) ||
           (r->training.early_stopping.patience && metric == eval_find(r->training.early_stopping.metric));
}

static bool wants_confusion(const run *s) {
    for (int i = 0; i < EVAL_METRICS; i++)
        if (eval_needs_confusion((eval_metric)i) && wants(s, (eval_metric)i)) return true;
    return false;
}

/* -- The program -- */

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "metrics")

/* Counts are whole numbers: a batch of pixels has more of them than f32 counts. */
static tcc_tensor count_of(tcc_trace *t, tcc_tensor holds) { return tcc_sum(tcc_cast(holds, TCC_I32), TCC_ALL); }

/* Rows that have no NaN, of which no answer is right. */
static tcc_tensor are_numbers(tcc_tensor rows, tcc_trace *t) { return tcc_all(tcc_eq(rows, rows), TCC_DIMS(-1)); }

/* How many logits of a row come before that of its label is the label's place: larger ones, and equal ones of classes
 * before it. */
static tcc_tensor top5(tcc_trace *t, tcc_tensor logits, tcc_tensor y, tcc_tensor good, int64_t classes) {
    const tcc_tensor rows = tcc_reshape(logits, TCC_DIMS(-1, classes)), labels = tcc_reshape(y, TCC_DIMS(-1, 1));
    const tcc_tensor own = tcc_take_along(rows, labels, 1), class = tcc_iota(t, 0, TCC_I32, TCC_DIMS(classes));
    const tcc_tensor before = tcc_or(tcc_gt(rows, own), tcc_and(tcc_eq(rows, own), tcc_lt(class, labels)));
    const tcc_tensor place = tcc_sum(tcc_cast(before, TCC_I32), TCC_DIMS(1));
    const tcc_tensor among = tcc_lt(place, tcc_constant(t, 5, TCC_I32, TCC_DIMS(1)));
    return count_of(t, tcc_and(among, tcc_reshape(good, TCC_DIMS(-1))));
}

/* Additions at label * classes + answer, of what counts. */
static tcc_tensor confusion(tcc_trace *t, tcc_tensor answers, tcc_tensor y, tcc_tensor counts, int64_t classes) {
    const tcc_tensor at = tcc_add(tcc_mul(y, tcc_constant(t, (double)classes, TCC_I32, TCC_DIMS(1))), answers);
    return tcc_scatter_add(tcc_constant(t, 0, TCC_I32, TCC_DIMS(classes * classes)), tcc_reshape(at, TCC_DIMS(-1)),
                           tcc_reshape(tcc_cast(counts, TCC_I32), TCC_DIMS(-1)), 0);
}

/* Labels below 0 do not count; only pixels have them. They become class 0, so that all indices are within. */
void run_metric_outputs(const run *s, tcc_trace *t, tcc_tensor logits, tcc_tensor y) {
    const int64_t classes = s->info.classes;
    const bool matrix = wants_confusion(s);
    if (s->pixels) logits = tcc_transpose(logits, TCC_DIMS(0, 2, 3, 1));
    const tcc_tensor counts = tcc_ge_scalar(y, 0);
    if (s->pixels) y = tcc_select_scalar(counts, y, 0);
    const tcc_tensor answers = wants(s, EVAL_ACCURACY) || matrix ? tcc_argmax(logits, -1) : y,
                     numbers = are_numbers(logits, t), good = s->pixels ? tcc_and(numbers, counts) : numbers;
    if (s->pixels) tcc_output(t, "labels", count_of(t, counts));
    if (wants(s, EVAL_ACCURACY)) tcc_output(t, "correct", count_of(t, tcc_and(tcc_eq(answers, y), good)));
    if (wants(s, EVAL_TOP5)) tcc_output(t, "top5", top5(t, logits, y, good, classes));
    if (matrix) { /* NaN counts as the class behind the label's */
        const tcc_tensor all = tcc_constant(t, (double)classes, TCC_I32, 0, NULL),
                         wrong = tcc_rem(tcc_add_scalar(y, 1), all);
        tcc_output(t, "confusion", confusion(t, tcc_select(numbers, answers, wrong), y, counts, classes));
    }
}

/* -- Counting -- */

/* Adds output `name` of the last evaluation. */
static tcc_status add_output(run *s, const char *name, int64_t count, double *to) {
    tcc_array a;
    tcc_status status = tcc_model_output(s->model, name, &a);
    for (int64_t i = 0; i < count && status == TCC_OK; i++)
        to[i] += a.dtype == TCC_I32 ? (double)((const int32_t *)a.data)[i] : (double)((const float *)a.data)[i];
    return status;
}

/* *loss: of all samples of the batch together. */
static tcc_status add_batch(run *s, const tcc_batch *batch, eval_sums *sums, double *loss) {
    tcc_status status = tcc_model_evaluate(s->model, batch->arrays, batch->n_arrays);
    if (status == TCC_OK) status = add_output(s, "loss", 1, loss);
    if (status != TCC_OK) return status;
    *loss *= (double)batch->count;
    sums->samples += (double)batch->count;
    if (s->pixels) status = add_output(s, "labels", 1, &sums->labels);
    else sums->labels += (double)batch->count * (s->language ? (double)s->recipe->model.context : 1);
    if (status != TCC_OK) return status;
    if (wants(s, EVAL_ACCURACY)) status = add_output(s, "correct", 1, &sums->correct);
    if (status == TCC_OK && wants(s, EVAL_TOP5)) status = add_output(s, "top5", 1, &sums->top5);
    if (status == TCC_OK && sums->confusion)
        status = add_output(s, "confusion", sums->classes * sums->classes, sums->confusion);
    return status;
}

/* Batches `first`, first + stride, ... of `batches`. */
static tcc_status add_batches(run *s, int64_t first, int64_t stride, int64_t batches, eval_sums *sums, double *losses) {
    if (first >= batches) return TCC_OK;
    tcc_status status = tcc_loader_set_state(s->val_loader, (tcc_loader_state){.index = first});
    for (int64_t i = first; i < batches && status == TCC_OK && !*s->interrupted; i += stride) {
        const tcc_batch *batch;
        status = tcc_loader_next(s->val_loader, &batch);
        if (status == TCC_OK) status = add_batch(s, batch, sums, &losses[i]);
    }
    return status;
}

/* Counts of all ranks are added up, and of each batch one rank has the loss. `all`: this rank's numbers in a row. */
static tcc_status share_sums(run *s, eval_sums *sums, double *all, int64_t batches, bool *stopped) {
    enum { COUNTS = 4 };
    double *counts[COUNTS] = {&sums->samples, &sums->labels, &sums->correct, &sums->top5};
    const int64_t cells = sums->confusion ? sums->classes * sums->classes : 0;
    double *confusion = all + batches + COUNTS;
    for (int i = 0; i < COUNTS; i++) all[batches + i] = *counts[i];
    if (cells) memcpy(confusion, sums->confusion, (size_t)cells * sizeof *confusion);
    const tcc_status status = run_add_over_ranks(s, tcc_model_step(s->model), all, batches + COUNTS + cells, stopped);
    for (int i = 0; i < COUNTS; i++) *counts[i] = all[batches + i];
    if (cells) memcpy(sums->confusion, confusion, (size_t)cells * sizeof *confusion);
    return status;
}

/* Ranks take whole batches in turn, so that the numbers are those of one rank: losses are added up in the order of the
 * batches. `alone`: this rank takes all. */
static tcc_status evaluate(run *s, bool alone, eval_sums *sums) {
    enum { MOST_COUNTS = 8 };
    tcc_comm *comm = s->options->comm;
    int64_t batches = tcc_loader_batches(s->val_loader), limit = s->recipe->training.eval_batches;
    if (limit && limit < batches) batches = limit;
    const int64_t classes = s->info.classes, cells = wants_confusion(s) ? classes * classes : 0;
    const int stride = comm ? tcc_comm_size(comm) : 1, first = comm && !alone ? tcc_comm_rank(comm) : 0;
    bool stopped = false;
    *sums = (eval_sums){.classes = classes};
    double *all = calloc((size_t)(batches + cells) + MOST_COUNTS, sizeof *all);
    if (cells) sums->confusion = calloc((size_t)cells, sizeof *sums->confusion);
    tcc_status status = all && (sums->confusion || !cells) ? TCC_OK : TCC_ENOMEM;
    if (status == TCC_OK && !alone) status = run_begin_work(s);
    for (int i = first; i < (alone ? stride : first + 1) && status == TCC_OK; i++)
        status = add_batches(s, i, stride, batches, sums, all);
    if (status == TCC_OK && comm && !alone) status = share_sums(s, sums, all, batches, &stopped);
    for (int64_t i = 0; i < batches && status == TCC_OK; i++) sums->loss += all[i];
    free(all);
    return status;
}

/* -- What comes of it -- */

/* In metrics.jsonl; the classes' own as "val_iou.0", "val_iou.1", ... */
static tcc_status write_metrics(run *s, int64_t step, const eval_sums *sums) {
    enum { KEY_MAX = 32 };
    const int64_t classes = wants(s, EVAL_CLASS_IOU) ? sums->classes : 0;
    tcc_metric *values = calloc((size_t)(EVAL_METRICS + classes), sizeof *values);
    char *names = calloc((size_t)classes + 1, KEY_MAX);
    int count = 0;
    tcc_status status = values && names ? TCC_OK : TCC_ENOMEM;
    for (int i = 0; i < EVAL_CLASS_IOU && status == TCC_OK; i++)
        if (wants(s, (eval_metric)i))
            values[count++] = (tcc_metric){eval_key((eval_metric)i), eval_value(sums, (eval_metric)i)};
    for (int64_t i = 0; i < classes && status == TCC_OK; i++) {
        snprintf(names + i * KEY_MAX, KEY_MAX, "val_iou.%" PRId64, i);
        values[count++] = (tcc_metric){names + i * KEY_MAX, eval_class_iou(sums, i)};
    }
    if (status == TCC_OK) status = tcc_metrics_write(s->metrics, step, values, count);
    free(values);
    free(names);
    return status;
}

static tcc_status keep_best(run *s, int64_t step, const eval_sums *sums) {
    const eval_metric metric = best_metric(s);
    const double value = eval_value(sums, metric);
    const bool better = eval_larger_is_better(metric) ? value > s->best : value < s->best;
    const tcc_status status = run_keep_top(s, step, value, eval_larger_is_better(metric));
    if (status != TCC_OK) return status;
    return isfinite(value) && (better || isnan(s->best)) ? run_save_best(s, step, value) : TCC_OK;
}

/* Counts the evaluations since the last that was better, each step once. */
static void watch_stopping(run *s, int64_t step, const eval_sums *sums) {
    const recipe *r = s->recipe;
    const eval_metric metric = eval_find(r->training.early_stopping.metric);
    if (!r->training.early_stopping.patience || step <= s->stopping.step) return;
    const double value = eval_value(sums, metric), before = s->stopping.best,
                 least = r->training.early_stopping.min_delta;
    const bool better = eval_larger_is_better(metric) ? value > before + least : value < before - least;
    if (better || (isnan(before) && isfinite(value))) s->stopping.best = value, s->stopping.waited = 0;
    else s->stopping.waited++;
    s->stopping.step = step;
}

bool run_stops_early(const run *s) {
    const int64_t patience = s->recipe->training.early_stopping.patience;
    return patience && s->stopping.waited >= patience;
}

static void print_evaluation(run *s, int64_t step, const eval_sums *sums) {
    if (s->drawing) streams_draw("");
    s->drawing = false;
    printf("step %" PRId64, step);
    for (int i = 0; i < EVAL_CLASS_IOU; i++)
        if (wants(s, (eval_metric)i)) printf("  %s %.4f", eval_key((eval_metric)i), eval_value(sums, (eval_metric)i));
    putchar('\n');
    if (run_stops_early(s))
        printf("stops early: %" PRId64 " evaluations in a row without a val_%s better than %.6g%s\n",
               s->stopping.waited, s->recipe->training.early_stopping.metric, s->stopping.best,
               s->recipe->training.early_stopping.min_delta > 0 ? " by early_stopping.min_delta" : "");
    fflush(stdout);
}

/* Evaluates, and rank 0 writes the metrics, and keeps the best: averages of the parameters where they are kept. */
static tcc_status evaluate_and_keep(run *s, int64_t step, eval_sums *sums) {
    const bool averages = s->recipe->training.ema_decay > 0;
    tcc_status status = averages ? tcc_model_use_ema(s->model, true) : TCC_OK;
    if (status == TCC_OK) status = evaluate(s, false, sums);
    if (status == TCC_OK && !*s->interrupted && run_is_first(s)) { /* half an evaluation says nothing */
        status = run_begin_work(s);
        if (status == TCC_OK) status = write_metrics(s, step, sums);
        if (status == TCC_OK) status = run_write_pictures(s, step);
        if (status == TCC_OK) status = keep_best(s, step, sums);
        watch_stopping(s, step, sums);
    }
    return averages && status == TCC_OK ? tcc_model_use_ema(s->model, false) : status;
}

tcc_status run_report_evaluation(run *s, int64_t step) {
    if (!s->val_loader) return TCC_OK;
    eval_sums sums = {0};
    tcc_status status = evaluate_and_keep(s, step, &sums);
    if (status == TCC_OK && !s->options->quiet && !*s->interrupted) print_evaluation(s, step, &sums);
    free(sums.confusion);
    return status;
}

tcc_status run_evaluate_average(run *s, double *metric) {
    eval_sums sums = {0};
    const tcc_status status = evaluate(s, true, &sums);
    *metric = eval_value(&sums, best_metric(s));
    if (status == TCC_OK && !s->options->quiet && !*s->interrupted)
        print_evaluation(s, tcc_model_step(s->model), &sums);
    free(sums.confusion);
    return status;
}

tcc_status run_evaluate_alone(run *s) {
    eval_sums sums = {0};
    tcc_status status = evaluate(s, false, &sums);
    if (status == TCC_OK && !*s->interrupted && run_is_first(s)) {
        printf("weights: %s\n", s->weights);
        print_evaluation(s, s->first_step, &sums);
        for (int64_t i = 0; wants(s, EVAL_CLASS_IOU) && i < sums.classes; i++)
            printf("val_iou.%" PRId64 " %.4f\n", i, eval_class_iou(&sums, i));
    }
    free(sums.confusion);
    return status;
}
