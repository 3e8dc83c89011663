/* SPDX-License-Identifier: MIT
 * The data of a training run. */
#include "streams.h"
#include "train_run.h"

#include "recipe_rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CIFAR-10 has five files of training images; a copy may have fewer, which is worth a word. */
static void tell_missing_batches(const run *s) {
    const recipe *r = s->recipe;
    enum { BATCHES = 5 };
    int missing = 0;
    char path[4200];
    for (int i = 1; i <= BATCHES; i++) {
        snprintf(path, sizeof path - 3, "%s/data_batch_%d.bin", r->data.path, i);
        const bool plain = !access(path, F_OK);
        strcat(path, ".gz");
        missing += !plain && access(path, F_OK);
    }
    if (missing)
        printf("%s has %d of data_batch_1.bin to data_batch_%d.bin: training on those\n", r->data.path,
               BATCHES - missing, BATCHES);
}

static char separator(const run *s) {
    const char *text = s->recipe->data.separator;
    return !strcmp(text, "auto") ? 0 : !strcmp(text, "\\t") ? '\t' : text[0];
}

static tcc_padding padding_of(const recipe *r) {
    return !strcmp(r->data.padding, "dynamic")   ? TCC_PADDING_DYNAMIC
           : !strcmp(r->data.padding, "uniform") ? TCC_PADDING_UNIFORM
                                                 : TCC_PADDING_FIXED;
}

/* Whether there is validation data, where it is needed. */
static bool check_validation(run *s) {
    const train_options *o = s->options;
    const char *what = o->task == TASK_EVALUATE                ? "there is no validation data to evaluate on"
                       : o->task == TASK_PREDICT && !o->inputs ? "there is no validation data to predict"
                       : o->task == TASK_TRAIN && s->recipe->training.early_stopping.patience
                           ? "training.early_stopping.patience: there is no validation data to stop by"
                           : NULL;
    if (!what || s->info.samples[TCC_SPLIT_VALIDATION]) return true;
    snprintf(s->problem, sizeof s->problem, "%s; give data.val_path=PATH", what);
    return false;
}

/* What a run of a version that did not keep it learned, from the training data as it is now. */
static tcc_status learn_again(run *s, const tcc_data_options *o) {
    tcc_dataset *training;
    tcc_status status = tcc_dataset_open(s->cx, o, &training);
    if (status == TCC_OK) status = tcc_dataset_learned(s->cx, training, &s->learned);
    tcc_dataset_close(training);
    return status;
}

/* Data of a run that is only looked at is read as the training data was. A table to predict from is the validation
 * data; texts to predict from need no data. */
static tcc_status look_only(run *s, tcc_data_options *o, char **standard_input) {
    const char *inputs = s->options->inputs ? s->options->inputs[s->input] : NULL;
    const bool alone = s->options->task == TASK_GENERATE || s->options->task == TASK_EXPORT; /* without samples */
    o->learned = run_weights_learned(s);
    o->csv_id = s->options->predict.id;
    if (!o->learned) {
        const tcc_status status = learn_again(s, o);
        if (status != TCC_OK) return status;
        o->learned = s->learned;
    }
    if (!inputs && !alone) return TCC_OK;
    o->unlabelled = !alone;
    o->path = NULL;
    o->val_path = o->unlabelled ? inputs : NULL;
    o->val_split = 0;
    if (!o->unlabelled || strcmp(inputs, "-") != 0) return TCC_OK;
    o->val_path = *standard_input = strdup("/dev/stdin");
    if (!*standard_input) return TCC_ENOMEM;
    if (strcmp(o->kind, "images") != 0) return TCC_OK;
    char *path = *standard_input; /* a picture is opened to be checked, and again to be decoded */
    if (!streams_keep_pipe(&path)) return TCC_EIO;
    if (path != *standard_input) free(*standard_input);
    o->val_path = *standard_input = path;
    return TCC_OK;
}

/* What the recipe says of columns and of colours of labels: `columns` and `colors` have room for all. */
static void take_pairs(const recipe *r, tcc_column_option *columns, tcc_label_color *colors, tcc_data_options *o) {
    const recipe_pairs *c = &r->data.columns, *l = &r->data.colors;
    for (int i = 0; i < c->count; i++) columns[i] = (tcc_column_option){c->v[i].name, c->v[i].value};
    for (int i = 0; i < l->count; i++) colors[i] = (tcc_label_color){l->v[i].name, l->v[i].value};
    o->csv_columns = columns;
    o->n_csv_columns = c->count;
    o->label_colors = colors;
    o->n_label_colors = l->count;
}

static tcc_csv_missing missing_of(const recipe *r) {
    return !strcmp(r->data.missing, "mean")       ? TCC_MISSING_MEAN
           : !strcmp(r->data.missing, "category") ? TCC_MISSING_CATEGORY
                                                  : TCC_MISSING_ERROR;
}

/* A run outlives the data that its recipe names. */
static void suggest_other_data(run *s, const tcc_data_options *o) {
    const bool own = run_only_looks(s) && o->path && !o->val_path;
    if (own)
        snprintf(s->problem, sizeof s->problem, "%s\nnote: to look at the run on other data, give data.val_path=PATH",
                 tcc_context_error(s->cx));
}

static tcc_status open_dataset(run *s, tcc_data_options *o) {
    const recipe *r = s->recipe;
    tcc_column_option *columns = calloc((size_t)r->data.columns.count + 1, sizeof *columns);
    tcc_label_color *colors = calloc((size_t)r->data.colors.count + 1, sizeof *colors);
    tcc_status status = columns && colors ? TCC_OK : TCC_ENOMEM;
    if (status == TCC_OK) take_pairs(r, columns, colors, o);
    char *standard_input = NULL;
    if (status == TCC_OK && run_only_looks(s)) status = look_only(s, o, &standard_input);
    if (status == TCC_OK) status = tcc_dataset_open(s->cx, o, &s->data);
    if (status == TCC_ENOTFOUND || status == TCC_EIO) suggest_other_data(s, o);
    free(standard_input);
    free(columns);
    free(colors);
    return status;
}

int64_t run_step_samples(const run *s) {
    if (s->step_samples) return s->step_samples;
    return recipe_step_samples(s->recipe) * (s->options->ranks > 1 ? s->options->ranks : 1);
}

tcc_status run_open_data(run *s) {
    const recipe *r = s->recipe;
    tcc_data_options o = {.size = sizeof o,
                          .kind = r->data.kind,
                          .path = r->data.path,
                          .val_path = r->data.val_path,
                          .val_split = isnan(r->data.val_split) ? 0
                                       : r->data.val_split > 0  ? r->data.val_split
                                                                : -1,
                          .context = !recipe_has(r, "model.context") ? 0
                                     : r->data.max_length            ? r->data.max_length
                                                                     : r->model.context,
                          .bytes = r->data.bytes,
                          .augment = r->data.augment,
                          .csv_label = r->data.label,
                          .csv_text = r->data.text,
                          .tokenizer = recipe_has(r, "data.tokenizer") ? r->data.tokenizer : NULL,
                          .vocab = r->data.vocab_file,
                          .csv_regression = r->data.regression,
                          .csv_missing = missing_of(r),
                          .csv_one_hot = recipe_has(r, "data.one_hot") ? (int)r->data.one_hot : 0,
                          .skip_bad = !strcmp(r->data.on_bad, "skip"),
                          .token_bytes = (int)r->data.token_bytes,
                          .vocab_size = r->data.vocab_size,
                          .classes = recipe_has(r, "data.classes") ? (int)r->data.classes : 0,
                          .has_ignored_label = !isnan(r->data.ignored_label),
                          .ignored_label = isnan(r->data.ignored_label) ? 0 : (int)r->data.ignored_label,
                          .csv_separator = separator(s)};
    o.n_channels = r->data.mean.count;
    for (int i = 0; i < r->data.mean.count; i++) {
        o.mean[i] = r->data.mean.v[i];
        o.std[i] = r->data.std.v[i];
    }
    if (r->data.size.count) {
        o.height = (int64_t)r->data.size.v[0];
        o.width = (int64_t)r->data.size.v[1];
    }
    if (r->data.val_size.count) {
        o.val_height = (int64_t)r->data.val_size.v[0];
        o.val_width = (int64_t)r->data.val_size.v[1];
    }
    if (recipe_has(r, "data.val_scale")) {
        o.val_fit = isnan(r->data.val_scale);
        o.val_scale = o.val_fit || r->data.val_scale == 1 ? 0 : r->data.val_scale;
    }
    o.uniform_scale = r->data.uniform_scale;
    o.label_table = r->data.labels;
    o.n_fill = r->data.fill.count;
    for (int i = 0; i < r->data.fill.count; i++) o.fill[i] = r->data.fill.v[i];
    for (int i = 0; i < r->data.scale.count; i++) o.scale[i] = r->data.scale.v[i];
    for (int i = 0; i < r->data.jitter.count; i++) o.jitter[i] = r->data.jitter.v[i];
    for (int i = 0; i < r->data.crop_area.count; i++) o.crop_area[i] = r->data.crop_area.v[i];
    for (int i = 0; i < r->data.crop_ratio.count; i++) o.crop_ratio[i] = r->data.crop_ratio.v[i];
    if (!strcmp(r->data.header, "yes")) o.csv_header = TCC_CSV_HEADER_YES;
    if (!strcmp(r->data.header, "no")) o.csv_header = TCC_CSV_HEADER_NO;
    tcc_status status = open_dataset(s, &o);
    if (status == TCC_OK && !s->learned) status = tcc_dataset_learned(s->cx, s->data, &s->learned);
    if (status != TCC_OK) return status;
    tcc_dataset_get_info(s->data, &s->info);
    if (!strcmp(r->data.kind, "cifar") && !run_only_looks(s) && !s->options->quiet && !s->options->emit)
        tell_missing_batches(s);

    if (s->options->task == TASK_DESCRIBE) return TCC_OK;
    if (!check_validation(s)) return TCC_EINVAL;
    if ((status = run_check_class_weights(s)) != TCC_OK) return status;
    if (s->options->task == TASK_GENERATE) return TCC_OK; /* the vocabulary is all that it needs */
    if (!r->data.batch_size && (status = run_choose_batch(s)) != TCC_OK) return status;
    return s->options->task == TASK_PREDICT || s->options->task == TASK_EXPORT ? TCC_OK : run_open_loaders(s);
}

tcc_status run_open_loaders(run *s) {
    const recipe *r = s->recipe;
    tcc_status status = TCC_OK;
    tcc_loader_destroy(s->loader);
    tcc_loader_destroy(s->val_loader);
    s->loader = s->val_loader = NULL;
    const int held = run_pins(s) ? TCC_PINNED_RUNS : 0;
    tcc_loader_options train = {.size = sizeof train,
                                .split = TCC_SPLIT_TRAIN,
                                .batch_size = run_step_samples(s),
                                .parts = s->options->ranks,
                                .part = s->options->comm ? tcc_comm_rank(s->options->comm) : 0,
                                .num_workers = (int)r->data.num_workers,
                                .shuffle = r->data.shuffle,
                                .last_batch = r->data.drop_last ? TCC_LAST_DROP : TCC_LAST_KEEP,
                                .seed = (uint64_t)r->training.seed,
                                .padding = padding_of(r),
                                .lengths = (int)r->data.padding_lengths,
                                .held = held,
                                .mixup = r->data.mixup,
                                .cutmix = r->data.cutmix};
    if (!run_only_looks(s)) status = tcc_loader_create(s->cx, s->data, &train, &s->loader);
    if (status != TCC_OK || !s->info.samples[TCC_SPLIT_VALIDATION]) return status;
    tcc_loader_options validation = {.size = sizeof validation,
                                     .split = TCC_SPLIT_VALIDATION,
                                     .batch_size = r->data.batch_size,
                                     .stride = s->options->comm ? tcc_comm_size(s->options->comm) : 1,
                                     .num_workers = (int)r->data.num_workers,
                                     .last_batch = TCC_LAST_KEEP,
                                     .padding = padding_of(r),
                                     .lengths = (int)r->data.padding_lengths,
                                     .held = held};
    return tcc_loader_create(s->cx, s->data, &validation, &s->val_loader);
}

void run_print_padding(const run *s) {
    tcc_padding_info p;
    tcc_array shape[2];
    const int64_t ranks = s->options->ranks > 1 ? s->options->ranks : 1;
    const int64_t largest = (run_step_samples(s) + ranks - 1) / ranks;
    if (!tcc_loader_padding(s->loader, &p)) return;
    printf("padding: %.1f%% of an epoch's tokens in rows of %" PRId64, 100 * (1 - (double)p.tokens / (double)p.fixed),
           s->info.x.dims[0]);
    if (strcmp(s->recipe->data.padding, "fixed"))
        printf(", %.1f%% in rows of", 100 * (1 - (double)p.tokens / (double)p.padded));
    for (int i = 0, n = 0; strcmp(s->recipe->data.padding, "fixed") && tcc_loader_shape(s->loader, i, shape); i++)
        if (shape[0].dims[0] == largest) printf("%s %" PRId64, n++ ? "," : "", shape[0].dims[1]);
    putchar('\n');
}

bool run_pins(const run *s) {
    return s->recipe->data.pin_memory && s->options->device && !strncmp(s->options->device, "cuda", 4);
}

bool run_has_text(const run *s) {
    size_t length;
    return s->language && tcc_dataset_label(s->data, 0, &length);
}

tcc_status run_check_prompt(run *s) {
    const char *prompt = s->recipe->sample.prompt;
    int64_t count;
    int32_t none;
    if (!prompt || !s->language || run_only_looks(s)) return TCC_OK;
    const tcc_status status = tcc_dataset_encode(s->cx, s->data, prompt, strlen(prompt), &none, 0, &count);
    if (status != TCC_OK || (count > 0 && count <= s->recipe->model.context)) return status;
    snprintf(s->problem, sizeof s->problem,
             "sample.prompt has %" PRId64 " tokens; it must have from 1 to %" PRId64 ", model.context", count,
             s->recipe->model.context);
    return TCC_EINVAL;
}
