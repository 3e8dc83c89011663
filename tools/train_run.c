/* SPDX-License-Identifier: MIT
 * A training run: opens the data, builds the model, trains, evaluates, saves, and reports. */
#include "train.h"

#include <traincc/checkpoint.h>
#include <traincc/metrics.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct run {
    const train_options *options;
    const recipe *recipe;
    const volatile sig_atomic_t *interrupted;
    tcc_context *cx;
    tcc_dataset *data;
    tcc_dataset_info info;
    tcc_loader *loader, *val_loader; /* val_loader: NULL without validation data */
    tcc_model *model;
    tcc_metrics *metrics;
    run_folder folder;
    bool language, regression, terminal;
    bool late;    /* a step is reported when the next one is under way, so that the device is never idle */
    bool pending; /* a step is not yet reported: */
    int64_t pending_step;
    double pending_lr, pending_seconds;          /* that it took to enqueue */
    bool drawing;                                /* a progress line is on the terminal, without its line break */
    int64_t total_steps, first_step, saved_step; /* saved_step: -1 none yet */
    double started;                              /* when the first step began, in seconds */
    int64_t logged_step;                         /* of the last logged line */
    double busy_seconds;                         /* spent in training steps since then */
    double shown_at;                             /* when the progress line was last drawn */
} run;

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Leaves the progress line, where one is being drawn. */
static void end_line(run *s) {
    if (s->drawing) putchar('\n');
    s->drawing = false;
    fflush(stdout);
}

static int failed(run *s) {
    const char *text = s->cx ? tcc_context_error(s->cx) : "";
    if (!*text) text = "out of memory";
    end_line(s);
    fprintf(stderr, "tcc-train: %s\n", text);
    if (s->saved_step >= 0)
        fprintf(stderr, "the last checkpoint is of step %" PRId64 " in %s\n", s->saved_step, s->folder.checkpoints);
    return EXIT_FAILED;
}

/* -- The model -- */

static tcc_tensor logits_of(const run *s, tcc_trace *t, tcc_tensor x) {
    const recipe *r = s->recipe;
    const char *name = r->model.name;
    int64_t outputs = s->regression ? 1 : s->info.classes;
    if (!strcmp(name, "gpt"))
        return tcc_gpt(t, x,
                       &(tcc_gpt_options){.layers = r->model.layers,
                                          .heads = r->model.heads,
                                          .width = r->model.width,
                                          .context = r->model.context,
                                          .vocab = outputs,
                                          .dropout = r->model.dropout,
                                          .bias = r->model.bias,
                                          .gelu_tanh = !strcmp(r->model.gelu, "tanh")});
    if (!strcmp(name, "cnn"))
        return tcc_cnn(
            t, x,
            &(tcc_cnn_options){
                .channels1 = 32, .channels2 = 64, .hidden = 128, .classes = outputs, .dropout = r->model.dropout});
    if (!strncmp(name, "resnet", 6))
        return tcc_resnet(
            t, x,
            &(tcc_resnet_options){
                .depth = atoi(name + 6), .classes = outputs, .width = 64, .cifar_stem = r->model.cifar_stem});
    int64_t hidden[RECIPE_LIST_MAX];
    for (int i = 0; i < r->model.hidden.count; i++) hidden[i] = (int64_t)r->model.hidden.v[i];
    x = tcc_rank(x) > 2 ? tcc_flatten(x, 1) : x;
    return tcc_mlp(
        t, x,
        &(tcc_mlp_options){
            .n_hidden = r->model.hidden.count, .hidden = hidden, .outputs = outputs, .dropout = r->model.dropout});
}

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "loss")

/* Inputs x and, but for sampling, y; outputs loss, and for classifiers `correct`, the number of hits. */
static void build(tcc_trace *t, void *user) {
    const run *s = user;
    const tcc_loc data = {.file = "data"};
    tcc_tensor logits = logits_of(s, t, tcc_input_at(t, "x", data));
    if (!tcc_has_input(t, "y")) {
        tcc_output(t, "logits", logits);
        return;
    }
    tcc_tensor y = tcc_input_at(t, "y", data);
    if (s->regression) {
        tcc_loss(t, tcc_mse_loss(logits, y));
        return;
    }
    tcc_loss(t, tcc_cross_entropy(logits, y));
    if (!s->language && !tcc_is_training(t))
        tcc_output(t, "correct", tcc_sum(tcc_cast(tcc_eq(tcc_argmax(logits, -1), y), TCC_F32), TCC_ALL));
}

/* -- Setting up -- */

static tcc_status open_data(run *s) {
    const recipe *r = s->recipe;
    tcc_data_options o = {.size = sizeof o,
                          .kind = r->data.kind,
                          .path = r->data.path,
                          .val_path = r->data.val_path,
                          .val_split = r->data.val_split,
                          .context = r->model.context,
                          .bytes = r->data.bytes,
                          .augment = r->data.augment,
                          .csv_label = r->data.label,
                          .csv_regression = r->data.regression,
                          .token_bytes = (int)r->data.token_bytes,
                          .vocab_size = r->data.vocab_size,
                          .classes = (int)r->data.classes,
                          .csv_separator = !strcmp(r->data.separator, "\\t") ? '\t' : r->data.separator[0]};
    o.n_channels = r->data.mean.count;
    for (int i = 0; i < r->data.mean.count; i++) {
        o.mean[i] = r->data.mean.v[i];
        o.std[i] = r->data.std.v[i];
    }
    if (!strcmp(r->data.header, "yes")) o.csv_header = TCC_CSV_HEADER_YES;
    if (!strcmp(r->data.header, "no")) o.csv_header = TCC_CSV_HEADER_NO;
    tcc_status status = tcc_dataset_open(s->cx, &o, &s->data);
    if (status != TCC_OK) return status;
    tcc_dataset_get_info(s->data, &s->info);

    tcc_loader_options train = {.size = sizeof train,
                                .split = TCC_SPLIT_TRAIN,
                                .batch_size = r->data.batch_size,
                                .num_workers = (int)r->data.num_workers,
                                .shuffle = r->data.shuffle,
                                .last_batch = r->data.drop_last ? TCC_LAST_DROP : TCC_LAST_KEEP,
                                .seed = (uint64_t)r->training.seed};
    status = tcc_loader_create(s->cx, s->data, &train, &s->loader);
    if (status != TCC_OK || !s->info.samples[TCC_SPLIT_VALIDATION]) return status;
    tcc_loader_options validation = {.size = sizeof validation,
                                     .split = TCC_SPLIT_VALIDATION,
                                     .batch_size = r->data.batch_size,
                                     .num_workers = (int)r->data.num_workers,
                                     .last_batch = TCC_LAST_KEEP};
    return tcc_loader_create(s->cx, s->data, &validation, &s->val_loader);
}

/* A prompt that the vocabulary cannot spell is refused before the training, not after it. */
static tcc_status check_prompt(run *s) {
    const char *prompt = s->recipe->sample.prompt;
    int64_t count;
    int32_t none;
    if (!prompt || strcmp(s->recipe->data.kind, "text")) return TCC_OK;
    return tcc_dataset_encode(s->cx, s->data, prompt, strlen(prompt), &none, 0, &count);
}

static tcc_status rewind_loader(run *s) {
    return tcc_loader_set_state(s->loader, (tcc_loader_state){.seed = tcc_loader_get_state(s->loader).seed});
}

/* The first batch, to be looked at: its signature is all that compiling needs. */
static tcc_status first_batch(run *s, const tcc_batch **batch) {
    tcc_status status = rewind_loader(s);
    return status == TCC_OK ? tcc_loader_next(s->loader, batch) : status;
}

/* Compiles for batches like this one, but of `samples` samples. */
static tcc_status compile_for(run *s, bool train, const tcc_batch *like, int64_t samples) {
    tcc_array *arrays = malloc(sizeof *arrays * (size_t)like->n_arrays);
    if (!arrays) return TCC_ENOMEM;
    for (int i = 0; i < like->n_arrays; i++) {
        arrays[i] = like->arrays[i];
        arrays[i].dims[0] = arrays[i].dims[0] / like->count * samples;
    }
    tcc_status status = tcc_model_compile(s->model, train, arrays, like->n_arrays);
    free(arrays);
    return status;
}

/* Every program that the run will need, so that none is compiled on the way: of a whole batch and of what is left over
 * at the end of an epoch, for training and for validation. That of a whole batch of training comes last, which reports
 * are about. */
static tcc_status compile_all(run *s, const tcc_batch *like) {
    const recipe *r = s->recipe;
    tcc_status status = TCC_OK;
    for (int split = s->val_loader ? TCC_SPLIT_VALIDATION : TCC_SPLIT_TRAIN;
         split >= TCC_SPLIT_TRAIN && status == TCC_OK; split--) {
        bool train = split == TCC_SPLIT_TRAIN;
        int64_t batch = r->data.batch_size, whole = s->info.samples[split] / batch,
                left = s->info.samples[split] % batch;
        bool has_left = left &&
                        (train ? !r->data.drop_last : !r->training.eval_batches || r->training.eval_batches > whole);
        if (has_left) status = compile_for(s, train, like, left);
        if (whole && status == TCC_OK) status = compile_for(s, train, like, batch);
    }
    return status;
}

/* How the verification gets on: for people, so not where the results go. */
static void print_verify_progress(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "verify: %s\n", text);
}

static tcc_status verify(run *s, const tcc_batch *batch) {
    char *text = NULL;
    tcc_status status = tcc_model_verify(s->model, batch->arrays, batch->n_arrays, 0, "tcc-verify.tir");
    if (status != TCC_OK || s->options->quiet) return status;
    if ((status = tcc_model_report(s->model, "verify", &text)) != TCC_OK) return status;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        printf("verify: %.*s\n", (int)strcspn(line, "\n"), line);
    puts("verify: loss and all gradients agree");
    fflush(stdout);
    tcc_string_free(text);
    return TCC_OK;
}

static tcc_status create_model(run *s) {
    const recipe *r = s->recipe;
    const char *name = r->optimizer.name, *precision = r->training.mixed_precision;
    tcc_model_options o = {.size = sizeof o,
                           .seed = (uint64_t)r->training.seed,
                           .dump_dir = s->options->dump_dir,
                           .device = s->options->device,
                           .arch = s->options->arch,
                           .allow_tf32 = r->training.allow_tf32,
                           .mixed_precision = !strcmp(precision, "bf16")   ? TCC_MIXED_BF16
                                              : !strcmp(precision, "fp16") ? TCC_MIXED_FP16
                                                                           : TCC_MIXED_NONE,
                           .mixed_precision_ops = r->training.mixed_precision_ops,
                           .progress = s->options->quiet ? NULL : print_verify_progress,
                           .mode = r->training.compile ? TCC_MODE_DEFAULT : TCC_MODE_EAGER};
    o.optimizer = (tcc_optimizer_options){.size = sizeof o.optimizer,
                                          .kind = !strcmp(name, "sgd")    ? TCC_SGD
                                                  : !strcmp(name, "adam") ? TCC_ADAM
                                                                          : TCC_ADAMW,
                                          .lr = r->optimizer.lr,
                                          .beta1 = r->optimizer.betas.v[0],
                                          .beta2 = r->optimizer.betas.v[1],
                                          .eps = r->optimizer.eps,
                                          .weight_decay = r->optimizer.weight_decay,
                                          .decay_all = r->optimizer.decay_all,
                                          .momentum = r->optimizer.momentum,
                                          .nesterov = r->optimizer.nesterov,
                                          .clip_grad_norm = r->training.clip_grad_norm};
    tcc_status status = tcc_model_create(s->cx, build, s, &o, &s->model);
    if (status != TCC_OK) return status;
    s->late = strcmp(tcc_model_device(s->model), "cpu") != 0;
    tcc_model_profile(s->model, s->options->explain || s->options->profile);
    const tcc_batch *batch;
    status = first_batch(s, &batch);
    if (status == TCC_OK && s->options->verify) status = verify(s, batch);
    bool only_look = s->options->emit || s->options->dry_run;
    if (status == TCC_OK && !only_look) status = compile_all(s, batch);
    if (status == TCC_OK && only_look) status = tcc_model_compile(s->model, true, batch->arrays, batch->n_arrays);
    return status == TCC_OK ? rewind_loader(s) : status;
}

/* -- Checkpoints -- */

typedef struct arrays {
    tcc_array *data;
    int count;
} arrays;

static arrays collect(tcc_model *m, bool (*get)(tcc_model *, int, tcc_array *)) {
    arrays list = {0};
    tcc_array a;
    while (get(m, list.count, &a)) list.count++;
    list.data = calloc((size_t)list.count + 1, sizeof *list.data);
    for (int i = 0; i < list.count && list.data; i++) get(m, i, &list.data[i]);
    return list;
}

static tcc_status save(run *s, int64_t step) {
    if (s->saved_step == step) return TCC_OK;
    tcc_status status = tcc_model_synchronize(s->model);
    if (status != TCC_OK) return status;
    arrays params = collect(s->model, tcc_model_param), state = collect(s->model, tcc_model_optimizer_state);
    status = TCC_ENOMEM;
    if (params.data && state.data) {
        tcc_loader_state at = tcc_loader_get_state(s->loader);
        char seed[32], epoch[32], index[32];
        snprintf(seed, sizeof seed, "%" PRIu64, at.seed);
        snprintf(epoch, sizeof epoch, "%" PRId64, at.epoch);
        snprintf(index, sizeof index, "%" PRId64, at.index);
        const tcc_pair values[] = {{"loader.seed", seed}, {"loader.epoch", epoch}, {"loader.index", index}};
        tcc_checkpoint_contents contents = {.size = sizeof contents,
                                            .step = step,
                                            .params = params.data,
                                            .n_params = params.count,
                                            .state = state.data,
                                            .n_state = state.count,
                                            .values = values,
                                            .n_values = 3};
        status = tcc_checkpoint_save(s->cx, s->folder.checkpoints, &contents);
    }
    if (status == TCC_OK) s->saved_step = step;
    free(params.data);
    free(state.data);
    return status;
}

static tcc_status init_from(run *s, const char *path) {
    tcc_safetensors *file;
    tcc_status status = tcc_safetensors_open(s->cx, path, &file);
    if (status != TCC_OK) return status;
    arrays params = collect(s->model, tcc_model_param);
    status = params.data ? tcc_safetensors_load(s->cx, file, params.data, params.count, 0) : TCC_ENOMEM;
    free(params.data);
    tcc_safetensors_close(file);
    return status;
}

static bool whole_number(const tcc_checkpoint *c, const char *key, int64_t *out) {
    const char *text = tcc_checkpoint_value(c, key);
    char *end;
    if (!text || !*text) return false;
    *out = (int64_t)strtoull(text, &end, 10);
    return !*end;
}

/* Takes all that a checkpoint holds; the run goes on from its step. */
static tcc_status resume(run *s, const tcc_checkpoint *c) {
    arrays params = collect(s->model, tcc_model_param), state = collect(s->model, tcc_model_optimizer_state);
    tcc_status status = params.data && state.data ? TCC_OK : TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_safetensors_load(s->cx, tcc_checkpoint_params(c), params.data, params.count, 0);
    if (status == TCC_OK) status = tcc_safetensors_load(s->cx, tcc_checkpoint_state(c), state.data, state.count, 0);
    free(params.data);
    free(state.data);
    int64_t seed, epoch, index;
    if (status == TCC_OK && whole_number(c, "loader.seed", &seed) && whole_number(c, "loader.epoch", &epoch) &&
        whole_number(c, "loader.index", &index))
        status = tcc_loader_set_state(s->loader,
                                      (tcc_loader_state){.seed = (uint64_t)seed, .epoch = epoch, .index = index});
    if (status != TCC_OK) return status;
    s->first_step = s->saved_step = tcc_checkpoint_step(c);
    tcc_model_set_step(s->model, s->first_step);
    if (!s->options->quiet) printf("resumed from %s, step %" PRId64 "\n", tcc_checkpoint_path(c), s->first_step);
    return TCC_OK;
}

/* -- Evaluation -- */

typedef struct evaluation {
    double loss, accuracy; /* accuracy: NaN but for classifiers */
} evaluation;

static tcc_status evaluate(run *s, evaluation *out) {
    int64_t batches = tcc_loader_batches(s->val_loader), limit = s->recipe->training.eval_batches;
    if (limit && limit < batches) batches = limit;
    double loss = 0, correct = 0, samples = 0;
    tcc_status status = tcc_loader_set_state(s->val_loader, (tcc_loader_state){0});
    for (int64_t i = 0; i < batches && status == TCC_OK && !*s->interrupted; i++) {
        const tcc_batch *batch;
        status = tcc_loader_next(s->val_loader, &batch);
        tcc_array hits, mean;
        if (status == TCC_OK) status = tcc_model_evaluate(s->model, batch->arrays, batch->n_arrays);
        if (status == TCC_OK) status = tcc_model_output(s->model, "loss", &mean);
        if (status != TCC_OK) break;
        loss += (double)*(const float *)mean.data * (double)batch->count;
        samples += (double)batch->count;
        if (!s->language && !s->regression && tcc_model_output(s->model, "correct", &hits) == TCC_OK)
            correct += *(const float *)hits.data;
    }
    *out = (evaluation){loss / samples, s->language || s->regression ? NAN : correct / samples};
    return status;
}

static tcc_status report_evaluation(run *s, int64_t step) {
    if (!s->val_loader) return TCC_OK;
    evaluation e;
    tcc_status status = evaluate(s, &e);
    if (status == TCC_OK && *s->interrupted) return TCC_OK; /* half an evaluation says nothing */
    const tcc_metric values[] = {{"val_loss", e.loss}, {"val_accuracy", e.accuracy}};
    if (status == TCC_OK) status = tcc_metrics_write(s->metrics, step, values, isnan(e.accuracy) ? 1 : 2);
    if (status != TCC_OK || s->options->quiet) return status;
    printf("%sstep %" PRId64 "  val_loss %.4f", s->drawing ? "\r\x1b[K" : "", step, e.loss);
    s->drawing = false;
    if (!isnan(e.accuracy)) printf("  val_accuracy %.4f", e.accuracy);
    putchar('\n');
    fflush(stdout);
    return TCC_OK;
}

/* -- Training -- */

static bool can_sample(const run *s) {
    return s->language && s->recipe->sample.length && !strcmp(s->recipe->data.kind, "text");
}

static tcc_status print_sample(run *s) {
    if (!can_sample(s)) return TCC_OK;
    end_line(s);
    puts("--- sample ---");
    return train_sample(s->cx, s->model, s->data, s->recipe, s->interrupted, stdout);
}

/* Seconds a step took, on average since the last logged one: waiting for data and training, not evaluating and saving.
 */
static double step_seconds(const run *s, int64_t step) { return s->busy_seconds / (double)(step - s->logged_step); }

static double samples_per_second(const run *s, int64_t step) {
    double each = (double)s->recipe->data.batch_size * (s->language ? (double)s->recipe->model.context : 1);
    return each / step_seconds(s, step);
}

static void print_progress(run *s, int64_t step, double loss, double lr) {
    double now = now_seconds(),
           left = (double)(s->total_steps - step - 1) * (now - s->started) / (double)(step - s->first_step + 1);
    char line[160];
    snprintf(line, sizeof line, "step %" PRId64 "/%" PRId64 "  loss %.4f  lr %.2e  %.0f %s/s  %d:%02d left", step,
             s->total_steps, loss, lr, samples_per_second(s, step), s->language ? "tokens" : "samples",
             (int)(left / 60), (int)fmod(left, 60));
    printf(s->terminal ? "\r\x1b[K%s" : "%s\n", line);
    fflush(stdout);
    s->shown_at = now;
    s->drawing = s->terminal;
}

/* Logs a training step: `step` updates came before it. */
static tcc_status log_step(run *s, int64_t step, double loss, double lr) {
    tcc_program_info info;
    tcc_status status = tcc_model_info(s->model, &info);
    if (status != TCC_OK) return status;
    const tcc_metric values[] = {{"loss", loss},
                                 {"lr", lr},
                                 {"step_ms", 1e3 * step_seconds(s, step)},
                                 {s->language ? "tokens_per_s" : "samples_per_s", samples_per_second(s, step)},
                                 {"peak_bytes", (double)info.peak_bytes}};
    status = tcc_metrics_write(s->metrics, step, values, sizeof values / sizeof values[0]);
    if (!s->options->quiet) print_progress(s, step, loss, lr);
    s->logged_step = step;
    s->busy_seconds = 0;
    return status;
}

static bool due(int64_t every, int64_t step) { return every && step % every == 0; }

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
    return status;
}

/* Reports the step that was not reported yet, if any. What counts of it is the time to enqueue it and, from here on, to
 * wait for it. */
static tcc_status report_pending(run *s) {
    if (!s->pending) return TCC_OK;
    s->pending = false;
    s->busy_seconds += s->pending_seconds;
    return report_step(s, s->pending_step, s->pending_lr, now_seconds());
}

static tcc_status train_step(run *s, int64_t step) {
    const tcc_batch *batch;
    double lr = train_lr(s->recipe, step, s->total_steps), start = now_seconds();
    tcc_model_set_lr(s->model, lr);
    tcc_status status = tcc_loader_next(s->loader, &batch);
    if (status == TCC_OK) status = tcc_model_train(s->model, batch->arrays, batch->n_arrays);
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
    bool last = done == s->total_steps || *s->interrupted,
         evaluates = due(r->training.eval_every, done) || done == s->total_steps;
    bool saves = due(r->training.save_every, done) || done == s->total_steps;
    bool samples = s->language && due(r->sample.every, done) && !s->options->quiet;
    tcc_status status = last || evaluates || saves || samples ? report_pending(s) : TCC_OK;
    if (status == TCC_OK && evaluates) status = report_evaluation(s, done);
    if (status == TCC_OK && saves) status = save(s, done);
    return status == TCC_OK && samples ? print_sample(s) : status;
}

static tcc_status train_steps(run *s) {
    const recipe *r = s->recipe;
    tcc_status status = TCC_OK;
    if (!s->first_step) status = save(s, 0);
    else if (due(r->training.eval_every, s->first_step) || s->first_step == s->total_steps)
        status = report_evaluation(s, s->first_step); /* its line went when the metrics were taken back to this step */
    s->started = now_seconds();
    s->logged_step = s->first_step - 1;
    for (int64_t step = s->first_step; step < s->total_steps && status == TCC_OK && !*s->interrupted; step++) {
        status = train_step(s, step);
        if (status == TCC_OK) status = between_steps(s, step + 1);
    }
    if (status == TCC_OK) status = report_pending(s); /* an interrupt came just before the last report */
    if (status == TCC_OK && *s->interrupted) status = save(s, tcc_model_step(s->model));
    return status;
}

/* -- Reports -- */

static int print_report(run *s, const char *what, FILE *out) {
    char *text;
    if (tcc_model_report(s->model, what, &text) != TCC_OK) return failed(s);
    fputs(text, out);
    tcc_string_free(text);
    return EXIT_DONE;
}

static int print_compiled(run *s) {
    tcc_program_info info;
    if (tcc_model_info(s->model, &info) != TCC_OK) return failed(s);
    int64_t parameters = 0;
    tcc_array a;
    for (int i = 0; tcc_model_param(s->model, i, &a); i++) {
        int64_t numel = 1;
        for (int d = 0; d < a.rank; d++) numel *= a.dims[d];
        if (tcc_model_param_is_trained(s->model, i)) parameters += numel;
    }
    printf("%s on %s: %" PRId64 " parameters, %" PRId64 " training samples, %" PRId64 " steps\n", s->recipe->model.name,
           s->recipe->data.path, parameters, s->info.samples[TCC_SPLIT_TRAIN], s->total_steps);
    printf("compiled in %.2f s: %d steps of %d kernels, %.1f MFLOP a step, peak memory %.1f MiB\n",
           info.compile_seconds, info.steps, info.kernels, info.flop * 1e-6, (double)info.peak_bytes / (1 << 20));
    fflush(stdout);
    return EXIT_DONE;
}

/* What profiling saw of the training step. Reports are of the program that was compiled or ran last: so it is made the
 * last. */
static tcc_status print_profile(run *s) {
    const train_options *o = s->options;
    if (!o->explain && !o->profile) return TCC_OK;
    const tcc_batch *batch;
    char *text = NULL;
    tcc_status status = first_batch(s, &batch);
    if (status == TCC_OK) status = tcc_model_compile(s->model, true, batch->arrays, batch->n_arrays);
    if (status == TCC_OK && o->profile) status = tcc_model_write_profile(s->model, o->profile);
    if (status == TCC_OK && o->explain) status = tcc_model_report(s->model, "kernels", &text);
    if (text) fputs(text, stdout);
    tcc_string_free(text);
    return status;
}

static int finish(run *s) {
    const train_options *o = s->options;
    end_line(s);
    if (s->first_step == s->total_steps && !o->quiet)
        printf("nothing to do: all %" PRId64 " steps are done\n", s->total_steps);
    if (!*s->interrupted && !o->quiet && print_sample(s) != TCC_OK) return failed(s);
    if (tcc_model_step(s->model) > s->first_step && print_profile(s) != TCC_OK) return failed(s);
    if (*s->interrupted) {
        fprintf(stderr, "tcc-train: interrupted at step %" PRId64 "; saved; go on with --resume\n",
                tcc_model_step(s->model));
        return EXIT_INTERRUPTED;
    }
    return EXIT_DONE;
}

static int interrupted_early(void) {
    fputs("tcc-train: interrupted before the first step\n", stderr);
    return EXIT_INTERRUPTED;
}

/* A profile that cannot be written is refused before the training, not after it. */
static bool check_profile(const char *path) {
    FILE *f = path ? fopen(path, "ab") : NULL;
    if (path && !f) fprintf(stderr, "tcc-train: --profile %s: cannot be written: %s\n", path, strerror(errno));
    if (f) fclose(f);
    return f || !path;
}

/* All that needs no run folder: with --emit and --dry-run the rest does not happen. `c` is what to resume from, or
 * NULL. */
static int set_up(run *s, const tcc_checkpoint *c) {
    const recipe *r = s->recipe;
    if (!check_profile(s->options->profile)) return EXIT_FAILED;
    if (open_data(s) != TCC_OK || check_prompt(s) != TCC_OK) return failed(s);
    s->total_steps = r->training.max_steps ? r->training.max_steps
                                           : r->training.max_epochs * tcc_loader_batches(s->loader);
    if (c && tcc_checkpoint_step(c) > s->total_steps) {
        fprintf(stderr, "tcc-train: %s: is past the end of this run of %" PRId64 " steps\n", tcc_checkpoint_path(c),
                s->total_steps);
        return EXIT_FAILED;
    }
    if (create_model(s) != TCC_OK) {
        int status = failed(s);
        return s->model || !s->options->arch ? status : EXIT_USAGE; /* no such architecture */
    }
    if (s->options->emit) return print_report(s, s->options->emit, stdout);
    if (!s->options->quiet && print_compiled(s)) return EXIT_FAILED;
    if (r->init_from && !c && init_from(s, r->init_from) != TCC_OK) return failed(s);
    if (s->options->dry_run) return s->options->explain ? print_report(s, "kernels", stdout) : EXIT_DONE;
    if (*s->interrupted) return EXIT_DONE;
    return c && resume(s, c) != TCC_OK ? failed(s) : EXIT_DONE;
}

static int train(run *s, const tcc_checkpoint *c) {
    const tcc_metrics_options metrics = {.size = sizeof metrics, .folder = s->folder.path, .first_step = s->first_step};
    if (run_folder_open(&s->folder, s->recipe, c ? tcc_checkpoint_path(c) : NULL, s->first_step, s->options->quiet))
        return EXIT_FAILED;
    if (tcc_metrics_open(s->cx, &metrics, &s->metrics) != TCC_OK) return failed(s);
    if (train_steps(s) != TCC_OK) return failed(s);
    return finish(s);
}

static int run_all(run *s) {
    const train_options *o = s->options;
    tcc_checkpoint *c = NULL;
    if (tcc_context_create(&s->cx) != TCC_OK || !run_folder_name(&s->folder, o)) return failed(s);
    if (o->resume && tcc_checkpoint_open(s->cx, o->resume_from ? o->resume_from : s->folder.checkpoints, &c) != TCC_OK)
        return failed(s);
    int status = set_up(s, c);
    if (status == EXIT_DONE && !o->emit && !o->dry_run) status = *s->interrupted ? interrupted_early() : train(s, c);
    tcc_checkpoint_close(c);
    return status;
}

int train_run(const train_options *options, const recipe *recipe, const volatile sig_atomic_t *interrupted) {
    run s = {.options = options,
             .recipe = recipe,
             .interrupted = interrupted,
             .saved_step = -1,
             .folder = {.lock = -1},
             .terminal = isatty(STDOUT_FILENO)};
    s.language = !strcmp(recipe->model.name, "gpt");
    s.regression = recipe->data.regression;
    int status = run_all(&s);
    tcc_metrics_close(s.metrics);
    tcc_model_destroy(s.model);
    tcc_loader_destroy(s.loader);
    tcc_loader_destroy(s.val_loader);
    tcc_dataset_close(s.data);
    tcc_context_destroy(s.cx);
    run_folder_close(&s.folder);
    return status;
}
