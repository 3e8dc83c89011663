/* SPDX-License-Identifier: MIT
 * The steps of a training run, and what comes between them: evaluation, samples, log and progress. */
#include "streams.h"
#include "train_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void run_end_line(run *s) {
    if (s->drawing) putchar('\n');
    s->drawing = false;
    fflush(stdout);
}

/* -- Training -- */

static bool can_sample(const run *s) { return s->language && s->recipe->sample.length && run_has_text(s); }

tcc_status run_print_sample(run *s) {
    if (!can_sample(s)) return TCC_OK;
    run_end_line(s);
    puts("--- sample ---");
    char *text = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&text, &size); /* NULL: it is printed alone */
    const tcc_generate_options how = train_sample_options(s->recipe);
    tcc_status status = train_sample(s->cx, s->model, s->data, &how, s->interrupted, stdout, copy, NULL);
    const bool kept = copy && !fclose(copy);
    if (status == TCC_OK && kept)
        status = tcc_metrics_write_text(s->metrics, tcc_model_step(s->model), "sample", text, size);
    s->sampled_step = tcc_model_step(s->model);
    free(text);
    return status;
}

/* Seconds a step took, on average since the last logged one: waiting for data and training, not evaluating and saving.
 */
static double step_seconds(const run *s, int64_t step) { return s->busy_seconds / (double)(step - s->logged_step); }

static double samples_per_second(const run *s, int64_t step) {
    double each = (double)run_step_samples(s) * (s->language ? (double)s->recipe->model.context : 1);
    return each / step_seconds(s, step);
}

/* "4:05", "1:02:03", "12 days" */
static void print_left(double seconds, char *out, size_t size) {
    const double day = 86400;
    if (!(seconds < 36500 * day)) snprintf(out, size, "over 100 years");
    else if (seconds >= 4 * day) snprintf(out, size, "%.0f days", seconds / day);
    else if (seconds >= 3600)
        snprintf(out, size, "%d:%02d:%02d", (int)seconds / 3600, (int)seconds / 60 % 60, (int)seconds % 60);
    else snprintf(out, size, "%d:%02d", (int)seconds / 60, (int)seconds % 60);
}

static void print_progress(run *s, int64_t step, double loss, double lr) {
    double now = now_seconds(),
           left = (double)(s->total_steps - step - 1) * (now - s->started) / (double)(step - s->first_step + 1);
    char line[224], time[32], waiting[64];
    print_left(left, time, sizeof time);
    run_print_waiting(s, waiting, sizeof waiting);
    snprintf(line, sizeof line, "step %" PRId64 "/%" PRId64 "  loss %.4f  lr %.2e  %.0f %s/s  %s left%s", step,
             s->total_steps, loss, lr, samples_per_second(s, step), s->language ? "tokens" : "samples", time, waiting);
    if (s->terminal) streams_draw(line);
    else puts(line);
    fflush(stdout);
    s->shown_at = now;
    s->drawing = s->terminal;
}

/* A run whose steps are all skipped learns nothing: after this many in a row it ends. */
enum { MOST_SKIPPED = 30 };

/* Ends s->problem with what overflows. */
static void find_overflow(run *s) {
    (void)run_begin_work(s);
    const size_t at = strlen(s->problem), room = sizeof s->problem - at;
    char *text = NULL;
    if (!s->options->quiet) {
        run_end_line(s);
        fprintf(stderr, "looking for the op that overflows\n");
    }
    if (tcc_model_find_overflow(s->model, s->batch->arrays, s->batch->n_arrays, &text) == TCC_OK)
        snprintf(s->problem + at, room, "\nby the interpreter: %s", text);
    else snprintf(s->problem + at, room, "\nwhich op overflows could not be found: %s", tcc_context_error(s->cx));
    tcc_string_free(text);
}

static tcc_status check_skipped(run *s, int64_t step, double scale, int64_t skipped) {
    const int64_t before = s->skipped;
    s->skipped = skipped;
    if (skipped - before < step - s->logged_step) s->skipped_in_row = 0; /* one of them was not */
    else s->skipped_in_row += skipped - before;
    if (s->skipped_in_row < MOST_SKIPPED) return TCC_OK;
    snprintf(
        s->problem, sizeof s->problem,
        "the gradients of %" PRId64 " steps in a row are infinite or NaN, with the loss scaled by no more "
        "than %g: the model overflows fp16. Try training.mixed_precision=bf16, a lower optimizer.lr, or float32 for "
        "the ops that overflow (training.mixed_precision_ops)",
        s->skipped_in_row, scale);
    find_overflow(s);
    return TCC_EINVAL;
}

const char run_nan_advice[] = "try a lower optimizer.lr, training.clip_grad_norm=1, or schedule.warmup_steps; "
                              "training.on_nan=continue trains on regardless";

/* A run with so many losses in a row that are no number ends; one alone may come of a single batch. */
enum { MOST_BAD = 3 };

/* Looks at the losses up to that of `step` which nobody has looked at. With fp16 a step may be skipped that overflows;
 * check_skipped watches them. */
static tcc_status watch_losses(run *s, int64_t step) {
    enum { KEPT = 64 }; /* by tcc_model_step_loss */
    if (!strcmp(s->recipe->training.mixed_precision, "fp16") || !strcmp(s->recipe->training.on_nan, "continue"))
        return TCC_OK;
    if (s->watched_step <= step - KEPT) s->watched_step = step - KEPT + 1;
    for (; s->watched_step <= step; s->watched_step++) {
        double loss;
        tcc_status status = tcc_model_step_loss(s->model, s->watched_step, &loss);
        if (status != TCC_OK) return status;
        if (isfinite(loss)) s->bad_in_row = 0;
        else if (!s->bad_in_row++) s->bad_step = s->watched_step;
    }
    if (s->bad_in_row < MOST_BAD) return TCC_OK;
    snprintf(s->problem, sizeof s->problem,
             "the loss is infinite or NaN since step %" PRId64 ", %" PRId64 " steps in a row; %s", s->bad_step,
             s->bad_in_row, run_nan_advice);
    return TCC_EINVAL;
}

/* Logs a training step: `step` updates came before it. */
static tcc_status log_step(run *s, int64_t step, double loss, double lr) {
    tcc_program_info info;
    double scale = 0;
    int64_t skipped = 0;
    tcc_status status = tcc_model_info(s->model, &info);
    const bool scaled = !strcmp(s->recipe->training.mixed_precision, "fp16");
    if (status == TCC_OK && scaled) status = tcc_model_loss_scale(s->model, &scale, &skipped);
    if (status != TCC_OK) return status;
    const tcc_metric values[] = {{"loss", loss},
                                 {"lr", lr},
                                 {"step_ms", 1e3 * step_seconds(s, step)},
                                 {s->language ? "tokens_per_s" : "samples_per_s", samples_per_second(s, step)},
                                 {"peak_bytes", (double)info.peak_bytes},
                                 {"loss_scale", scale},
                                 {"skipped_steps", (double)skipped}};
    status = tcc_metrics_write(s->metrics, step, values, scaled ? 7 : 5);
    if (status == TCC_OK && scaled) status = check_skipped(s, step, scale, skipped);
    if (!s->options->quiet) print_progress(s, step, loss, lr);
    s->logged_step = step;
    s->busy_seconds = 0;
    return status;
}

/* More than a GPU has under way, so that nobody waits for a loss that long ago. */
enum { STEPS_UNDER_WAY = 16 };

static bool due(int64_t every, int64_t step) { return every && step % every == 0; }

/* training.save_every: auto. */
enum { MOST_UNSAVED_SECONDS = 600 };

bool run_evaluates(const run *s, int64_t done) {
    return due(s->recipe->training.eval_every, done) || done == s->total_steps;
}

static bool is_save_due(const run *s, int64_t step) {
    const int64_t every = s->recipe->training.save_every;
    return every ? due(every, step) : now_seconds() - s->saved_at >= MOST_UNSAVED_SECONDS;
}

/* What a step is followed by: a log line every so often, and on a terminal a fresh progress line several times a
 * second. `start`: when the time that counts as training began. */
static tcc_status report_step(run *s, int64_t step, double lr, double start) {
    bool log = due(s->recipe->training.log_every, step) || step + 1 == s->total_steps;
    bool show = !log && s->terminal && !s->options->quiet && now_seconds() - s->shown_at > 0.2;
    double loss = NAN;
    tcc_status status = log || show ? tcc_model_step_loss(s->model, step, &loss) : TCC_OK; /* waits for the step */
    s->busy_seconds += now_seconds() - start;
    if (status == TCC_OK && log) status = log_step(s, step, loss, lr);
    else if (status == TCC_OK && show) print_progress(s, step, loss, lr);
    return status == TCC_OK ? watch_losses(s, log || show || !s->late ? step : step - STEPS_UNDER_WAY) : status;
}

/* Reports the step that was not reported yet, if any. What counts of it is the time to enqueue it and, from here on, to
 * wait for it. */
static tcc_status report_pending(run *s) {
    if (!s->pending) return TCC_OK;
    s->pending = false;
    s->busy_seconds += s->pending_seconds;
    return report_step(s, s->pending_step, s->pending_lr, now_seconds());
}

/* What became of replaying steps as CUDA graphs: after the first steps, when it is known. */
static tcc_status report_graphs(run *s) {
    tcc_program_info info;
    char *text = NULL;
    if (s->graphs_decided || !s->late || !recipe_replays(s->recipe)) return TCC_OK;
    tcc_status status = tcc_model_info(s->model, &info);
    if (status == TCC_OK) status = tcc_model_report(s->model, "graphs", &text);
    if (status != TCC_OK) return status;
    s->graphs_decided = info.graphs_decided;
    if (*text && strcmp(text, s->graphs) && !s->options->quiet) {
        run_end_line(s);
        fputs(text, stdout);
        fflush(stdout);
    }
    snprintf(s->graphs, sizeof s->graphs, "%s", text);
    tcc_string_free(text);
    return TCC_OK;
}

/* The next batch to train on. Without it the run ends, and keeps the step that it has come to. */
static tcc_status next_batch(run *s, const tcc_batch **batch) {
    tcc_status status = tcc_loader_next(s->loader, batch);
    if (status == TCC_OK) s->batch = *batch;
    else snprintf(s->problem, sizeof s->problem, "%s", tcc_context_error(s->cx));
    s->data_lost = status != TCC_OK;
    return status;
}

/* Saves the last step although the run has failed, which stays what is told. */
static void keep_last_step(run *s) {
    char problem[sizeof s->problem];
    memcpy(problem, s->problem, sizeof problem);
    if (report_pending(s) == TCC_OK) run_save(s, tcc_model_step(s->model));
    memcpy(s->problem, problem, sizeof problem);
}

tcc_status run_step(run *s, int64_t step) {
    const tcc_batch *batch;
    const double momentum = tcc_schedule_momentum(&s->schedule, step);
    tcc_status status = tcc_model_set_lr(s->model, tcc_schedule_lr(&s->schedule, step));
    if (status == TCC_OK && !isnan(momentum)) status = tcc_model_set_momentum(s->model, momentum);
    if (status == TCC_OK) status = next_batch(s, &batch);
    return status == TCC_OK ? tcc_model_train(s->model, batch->arrays, batch->n_arrays) : status;
}

static tcc_status train_step(run *s, int64_t step) {
    const double lr = tcc_schedule_lr(&s->schedule, step), start = now_seconds();
    tcc_status status = run_step(s, step);
    if (status == TCC_OK) status = report_graphs(s);
    if (status == TCC_OK && due(s->recipe->training.statistics, step)) status = run_write_statistics(s, step);
    if (status != TCC_OK) return status;
    if (!s->late) return report_step(s, step, lr, start);
    double enqueued = now_seconds();
    status = report_pending(s);
    s->pending = true;
    s->pending_step = step;
    s->pending_lr = lr;
    s->pending_seconds = enqueued - start;
    return status;
}

/* What comes between training steps: first their last report. */
static tcc_status between_steps(run *s, int64_t done) {
    const recipe *r = s->recipe;
    bool last = done == s->total_steps || *s->interrupted, evaluates = run_evaluates(s, done);
    bool saves = is_save_due(s, done) || done == s->total_steps;
    bool samples = s->language && due(r->sample.every, done) && !s->options->quiet;
    tcc_status status = run_saved(s, saver_poll(s->saver));
    if (status == TCC_OK && (evaluates || saves || samples)) status = run_begin_work(s);
    if (status == TCC_OK && (last || evaluates || saves || samples)) status = report_pending(s);
    if (status == TCC_OK && evaluates) status = run_report_evaluation(s, done);
    if (status == TCC_OK && (saves || run_stops_early(s))) status = run_save(s, done);
    if (saves) s->saved_at = now_seconds();
    return status == TCC_OK && samples ? run_print_sample(s) : status;
}

/* What share of the training's time went by without a batch to train on; evaluating and saving count as time too. */
static void tell_waiting(run *s, double waited_before) {
    double took = now_seconds() - s->started, waited = tcc_loader_waited(s->loader) - waited_before;
    if (s->options->quiet || s->first_step == s->total_steps) return;
    run_end_line(s);
    printf("waited for data: %.2f s of %.2f s (%.1f%%)\n", waited, took, took > 0 ? 100 * waited / took : 0);
    fflush(stdout);
}

tcc_status run_train(run *s) {
    const recipe *r = s->recipe;
    tcc_status status = TCC_OK;
    const double waited_before = tcc_loader_waited(s->loader);
    if (!s->first_step) status = run_save(s, 0);
    else if (run_evaluates(s, s->first_step))
        status = run_report_evaluation(s,
                                       s->first_step); /* its line went when the metrics were taken back to this step */
    if (status == TCC_OK && !strcmp(r->training.mixed_precision, "fp16")) {
        double scale; /* what was skipped before this run began is no part of a row */
        status = tcc_model_loss_scale(s->model, &scale, &s->skipped);
    }
    s->started = s->saved_at = now_seconds();
    s->logged_step = s->first_step - 1;
    s->watched_step = s->first_step;
    bool end = false;
    for (int64_t step = s->first_step; status == TCC_OK; step++) {
        status = run_meet(s, step, step >= s->total_steps || *s->interrupted || run_stops_early(s), &end);
        if (status != TCC_OK || end) break;
        status = train_step(s, step);
        if (status == TCC_OK) status = between_steps(s, step + 1);
    }
    if (s->data_lost) keep_last_step(s);
    if (status == TCC_OK) status = report_pending(s); /* an interrupt came just before the last report */
    if (status == TCC_OK) tell_waiting(s, waited_before);
    if (status == TCC_OK && *s->interrupted) status = run_save(s, tcc_model_step(s->model));
    return status == TCC_OK ? run_saved(s, saver_wait(s->saver)) : status;
}
