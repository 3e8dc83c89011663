/* SPDX-License-Identifier: MIT
 * The model of a training run: what its function builds, and every program of it compiled before the first step. */
#include "recipe_rules.h"
#include "train_run.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- The model -- */

static tcc_tensor build_gpt(tcc_trace *t, tcc_tensor x, const run *s, int64_t outputs) {
    const recipe *r = s->recipe;
    const tcc_gpt_options gpt = {.layers = r->model.layers,
                                 .heads = r->model.heads,
                                 .width = r->model.width,
                                 .context = r->model.context,
                                 .vocab = outputs,
                                 .dropout = r->model.dropout,
                                 .bias = r->model.bias,
                                 .gelu_tanh = !strcmp(r->model.gelu, "tanh")};
    if (!tcc_has_input(t, "at")) return tcc_gpt(t, x, &gpt);
    return tcc_gpt_next(t, x, tcc_input_at(t, "at", (tcc_loc){.file = "data"}), &gpt);
}

static tcc_tensor build_distilbert(tcc_trace *t, tcc_tensor x, const run *s, int64_t outputs) {
    const recipe *r = s->recipe;
    return tcc_distilbert(t, x,
                          &(tcc_distilbert_options){.layers = r->model.layers,
                                                    .heads = r->model.heads,
                                                    .width = r->model.width,
                                                    .context = r->model.context,
                                                    .vocab = s->info.vocab_size,
                                                    .classes = outputs,
                                                    .dropout = r->model.dropout,
                                                    .gelu_tanh = !strcmp(r->model.gelu, "tanh")});
}

static tcc_tensor build_bert(tcc_trace *t, tcc_tensor x, const run *s, int64_t outputs) {
    const recipe *r = s->recipe;
    const tcc_bert_options bert = {.size = sizeof bert,
                                   .layers = r->model.layers,
                                   .heads = r->model.heads,
                                   .width = r->model.width,
                                   .context = r->model.context,
                                   .vocab = s->info.vocab_size,
                                   .classes = outputs,
                                   .dropout = r->model.dropout,
                                   .classifier_dropout = r->model.classifier_dropout,
                                   .gelu_tanh = !strcmp(r->model.gelu, "tanh")};
    return tcc_bert(t, x, &bert);
}

static tcc_tensor build_cnn(tcc_trace *t, tcc_tensor x, const run *s, int64_t outputs) {
    return tcc_cnn(
        t, x,
        &(tcc_cnn_options){
            .channels1 = 32, .channels2 = 64, .hidden = 128, .classes = outputs, .dropout = s->recipe->model.dropout});
}

static tcc_tensor build_resnet(tcc_trace *t, tcc_tensor x, const run *s, int64_t outputs) {
    const recipe *r = s->recipe;
    return tcc_resnet(t, x,
                      &(tcc_resnet_options){.depth = atoi(r->model.name + strlen("resnet")),
                                            .classes = outputs,
                                            .width = 64,
                                            .cifar_stem = r->model.cifar_stem});
}

static tcc_tensor build_mlp(tcc_trace *t, tcc_tensor x, const run *s, int64_t outputs) {
    const recipe *r = s->recipe;
    int64_t hidden[RECIPE_LIST_MAX];
    for (int i = 0; i < r->model.hidden.count; i++) hidden[i] = (int64_t)r->model.hidden.v[i];
    x = tcc_rank(x) > 2 ? tcc_flatten(x, 1) : run_features(s, t, x);
    return tcc_mlp(
        t, x,
        &(tcc_mlp_options){
            .n_hidden = r->model.hidden.count, .hidden = hidden, .outputs = outputs, .dropout = r->model.dropout});
}

/* Each model.name: what it gives, and what builds it by the recipe's options: a classifier or a language model, or a
 * network for pixels of this variant. */
static const struct model_row {
    const char *name;
    enum {
        NEXT_TOKENS,
        CLASSES,
        PIXELS
    } task; /* logits of each token's next, of each sample's class, or a number, or
                                                   of each pixel's class */
    tcc_tensor (*build)(tcc_trace *t, tcc_tensor x, const run *s, int64_t outputs);
    tcc_segmentation (*build_heads)(tcc_trace *t, tcc_tensor x, const run *s, int variant);
    int variant;
} models[] = {
    {"gpt", NEXT_TOKENS, build_gpt, NULL, 0},
    {"distilbert", CLASSES, build_distilbert, NULL, 0},
    {"bert", CLASSES, build_bert, NULL, 0},
    {"mlp", CLASSES, build_mlp, NULL, 0},
    {"cnn", CLASSES, build_cnn, NULL, 0},
    {"resnet18", CLASSES, build_resnet, NULL, 0},
    {"resnet34", CLASSES, build_resnet, NULL, 0},
    {"resnet50", CLASSES, build_resnet, NULL, 0},
    {"pp-liteseg-t", PIXELS, NULL, build_pp_liteseg, 'T'},
    {"pp-liteseg-b", PIXELS, NULL, build_pp_liteseg, 'B'},
    {"stdc1", PIXELS, NULL, build_stdc, 1},
    {"stdc2", PIXELS, NULL, build_stdc, 2},
    {"ddrnet-23", PIXELS, NULL, build_ddrnet, 0},
    {"ddrnet-23-slim", PIXELS, NULL, build_ddrnet, DDRNET_SLIM},
    {"regseg", PIXELS, NULL, build_regseg, 0},
    {"segformer-b0", PIXELS, NULL, build_segformer, 0},
    {"segformer-b1", PIXELS, NULL, build_segformer, 1},
};

/* Of a name that a recipe may have. */
static const struct model_row *row_of(const recipe *r) {
    const struct model_row *row = models;
    while (strcmp(row->name, r->model.name)) row++;
    return row;
}

bool run_is_language(const recipe *r) { return row_of(r)->task == NEXT_TOKENS; }

bool run_is_pixels(const recipe *r) { return row_of(r)->task == PIXELS; }

/* All heads of the model, of which most have one. */
static tcc_segmentation heads_of(const run *s, tcc_trace *t, tcc_tensor x) {
    const struct model_row *row = row_of(s->recipe);
    if (row->build_heads) return row->build_heads(t, x, s, row->variant);
    const int64_t outputs = s->regression ? s->info.y.dims[0] : s->info.classes;
    return (tcc_segmentation){.count = 1, .logits = {row->build(t, x, s, outputs)}};
}

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "loss")

/* Inputs x and, but for sampling, y; outputs loss, and what metrics are made of. */
static void build(tcc_trace *t, void *user) {
    const run *s = user;
    const tcc_loc data = {.file = "data"};
    const tcc_tensor x = tcc_input_at(t, "x", data);
    const tcc_segmentation heads = heads_of(s, t, x);
    const tcc_tensor logits = heads.logits[0];
    if (!tcc_has_input(t, "y")) {
        if (s->pixels) tcc_output(t, "classes", tcc_argmax(logits, 1));
        if (s->pixels) return;
        tcc_output(t, "logits", logits);
        if (!s->language && !s->regression) tcc_output(t, "probabilities", tcc_softmax(logits, 1));
        return;
    }
    tcc_tensor y = tcc_input_at(t, "y", data);
    tcc_loss(t, s->pixels ? run_pixels_loss(s, t, &heads, y) : run_loss(s, t, x, logits, y));
    if (tcc_is_training(t) && !strcmp(s->recipe->training.loss_of, "parts"))
        tcc_loss_weight(t, tcc_constant(t, (double)tcc_dim(y, 0), TCC_F32, 0, NULL));
    if (!s->regression && !tcc_is_training(t)) run_metric_outputs(s, t, logits, y);
}

/* -- Compiling -- */

/* A run that is only looked at has validation data, or none. */
static tcc_loader *any_loader(const run *s) { return s->loader ? s->loader : s->val_loader; }

static tcc_status rewind_loader(run *s) {
    tcc_loader *loader = any_loader(s);
    return tcc_loader_set_state(loader, (tcc_loader_state){.seed = tcc_loader_get_state(loader).seed});
}

tcc_status run_first_batch(run *s, const tcc_batch **batch) {
    tcc_status status = rewind_loader(s);
    return status == TCC_OK ? tcc_loader_next(any_loader(s), batch) : status;
}

/* Compiles for batches of this shape; `like` has data, which is not looked at. */
static tcc_status compile_shape(run *s, bool train, tcc_array shape[2], const tcc_batch *like) {
    for (int i = 0; i < 2; i++) shape[i].data = like->arrays[i].data;
    return tcc_model_compile(s->model, train, shape, 2);
}

/* What gives the classes of the first validation batch, which is whole, for pictures as training goes on. */
static tcc_status compile_pictures(run *s, const tcc_batch *like) {
    tcc_array shape[2], next[2];
    if (!s->pixels || !s->loader || !s->val_loader) return TCC_OK;
    for (int i = 0; tcc_loader_shape(s->val_loader, i, next); i++) memcpy(shape, next, sizeof shape);
    shape[0].data = like->arrays[0].data;
    return tcc_model_compile(s->model, false, shape, 1);
}

/* Every program that the run will need, so that none is compiled on the way: of each shape of batches, for validation
 * and, unless it only evaluates, for training. That of a whole batch of training, of the longest rows, comes last:
 * reports are about it. */
static tcc_status compile_all(run *s, const tcc_batch *like) {
    const recipe *r = s->recipe;
    const int64_t whole = s->info.samples[TCC_SPLIT_VALIDATION] / r->data.batch_size;
    const bool left_out = r->training.eval_batches && r->training.eval_batches <= whole;
    tcc_status status = TCC_OK;
    tcc_array shape[2];
    for (int i = 0; status == TCC_OK && s->val_loader && tcc_loader_shape(s->val_loader, i, shape); i++)
        if (!left_out || shape[0].dims[0] == r->data.batch_size) status = compile_shape(s, false, shape, like);
    if (status == TCC_OK) status = compile_pictures(s, like);
    for (int i = 0; status == TCC_OK && s->loader && tcc_loader_shape(s->loader, i, shape); i++)
        status = compile_shape(s, true, shape, like);
    return status;
}

/* The largest of them, to be looked at. */
static tcc_status compile_largest(run *s, const tcc_batch *like) {
    tcc_array shape[2], next[2];
    for (int i = 0; tcc_loader_shape(any_loader(s), i, next); i++) memcpy(shape, next, sizeof shape);
    return compile_shape(s, s->loader != NULL, shape, like);
}

/* What sampling runs, for a plan: else it is compiled when it is first needed. */
static tcc_status compile_sample(run *s) {
    static int32_t none;
    const int n = run_has_text(s) && s->recipe->sample.length ? INT_MAX : 0;
    tcc_array shape[2];
    tcc_status status = TCC_OK;
    for (int i = 0; status == TCC_OK && i < n && tcc_generate_shape(s->data, i, shape); i++) {
        shape[0].data = shape[1].data = &none; /* is not looked at */
        status = tcc_model_compile(s->model, false, shape, 2);
    }
    return status;
}

/* Text begins with a short window; longer ones are compiled when it reaches them. */
static tcc_status compile_first_window(run *s) {
    static int32_t none;
    tcc_array shape[2];
    tcc_generate_shape(s->data, 0, shape);
    shape[0].data = shape[1].data = &none;
    return tcc_model_compile(s->model, false, shape, 2);
}

/* With the recipe, so that the plan is all that a run needs beside its data. */
static tcc_status save_plan(run *s) {
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    if (!f) return TCC_ENOMEM;
    const bool printed = recipe_print(s->recipe, f);
    tcc_status status = fclose(f) || !printed ? TCC_ENOMEM : TCC_OK;
    if (status == TCC_OK) status = tcc_model_save_plan(s->model, text, s->options->save_plan);
    free(text);
    return status;
}

/* How what takes long gets on: for people, so not where the results go. */
static void print_progress(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "%s%s\n", strncmp(text, "tuning: ", 8) ? "verify: " : "", text);
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

static tcc_mode mode_of(const recipe *r) {
    if (!r->training.compile) return TCC_MODE_EAGER;
    if (!strcmp(r->training.compile_mode, "max-autotune")) return TCC_MODE_MAX_AUTOTUNE;
    return recipe_replays(r) ? TCC_MODE_REDUCE_OVERHEAD : TCC_MODE_DEFAULT;
}

static int groups_of(const recipe *r, tcc_param_group groups[RECIPE_GROUPS_MAX]) {
    tcc_param_group *to = groups;
    for (int i = 0; i < r->freeze.count; i++, to++) {
        tcc_param_group_init(to, r->freeze.v[i]);
        to->frozen = true;
        to->keep_statistics = r->freeze_statistics;
    }
    for (int i = 0; i < r->optimizer.groups.count; i++, to++) {
        const recipe_group *from = &r->optimizer.groups.v[i];
        tcc_param_group_init(to, from->match);
        if (!isnan(from->lr)) to->lr_scale = from->lr / r->optimizer.lr;
        if (!isnan(from->lr_scale)) to->lr_scale = from->lr_scale;
        to->weight_decay = from->weight_decay;
        to->momentum = from->momentum;
        to->beta1 = from->betas[0];
        to->beta2 = from->betas[1];
        to->frozen = from->frozen;
        to->keep_statistics = from->frozen && r->freeze_statistics;
    }
    return (int)(to - groups);
}

static tcc_optimizer_options optimizer_of(const run *s) {
    const recipe *r = s->recipe;
    const double cycled = tcc_schedule_momentum(&s->schedule, 0); /* it needs the state of a momentum */
    tcc_optimizer_options o;
    tcc_optimizer_init(&o, recipe_optimizer(r));
    o.lr = r->optimizer.lr;
    o.weight_decay = r->optimizer.weight_decay;
    o.decay_all = r->optimizer.decay_all;
    o.clip_grad_norm = r->training.clip_grad_norm;
    o.ema_decay = r->training.ema_decay;
    o.ema_warmup = r->training.ema_warmup;
    o.ema_buffers = r->training.ema_buffers;
    o.ema_ramp = s->total_steps ? r->training.ema_ramp / (double)s->total_steps : 0;
    o.eps = r->optimizer.eps;
    o.beta1 = r->optimizer.betas.v[0];
    o.beta2 = r->optimizer.betas.v[1];
    if (recipe_has(r, "optimizer.momentum")) {
        o.momentum = isnan(cycled) ? r->optimizer.momentum : cycled;
        o.nesterov = r->optimizer.nesterov;
    }
    return o;
}

static tcc_status create(run *s, bool plans) {
    const recipe *r = s->recipe;
    const char *precision = r->training.mixed_precision, *checkpointing = r->training.checkpointing;
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
                           .checkpointing = !strcmp(checkpointing, "none")       ? TCC_CHECKPOINTING_NONE
                                            : !strcmp(checkpointing, "segments") ? TCC_CHECKPOINTING_SEGMENTS
                                                                                 : TCC_CHECKPOINTING_AUTO,
                           .memory_budget = r->training.memory_budget,
                           .batch_accumulate = s->micro_batches ? s->micro_batches : r->training.batch_accumulate,
                           .comm = plans ? NULL : s->options->comm,
                           .sync_batch_norm = r->model.sync_batch_norm,
                           .reduce_in_bf16 = !strcmp(r->training.reduction_dtype, "bf16"),
                           .reduce_fast = !strcmp(r->training.reduction, "fast"),
                           .shard_optimizer = !strcmp(r->training.shard, "optimizer"),
                           .detect_anomaly = r->training.detect_anomaly &&
                                             s->options->task != TASK_FIND_LR, /* which goes on until it finds some */
                           .statistics = r->training.statistics > 0,
                           .keep_gradients = r->training.statistics > 0, /* for histograms */
                           .autotune_budget_s = r->training.autotune_budget_s,
                           .lock = s->options->lock,
                           .locked = s->options->locked,
                           .progress = s->options->quiet ? NULL : print_progress,
                           .mode = mode_of(r),
                           .require_graphs = s->options->require_graphs,
                           .compile_only = (s->options->dry_run || s->options->emit) && !s->options->verify &&
                                           !r->init_from};
    if (o.mixed_precision == TCC_MIXED_FP16) {
        o.loss_scale = r->training.loss_scale;
        o.loss_scale_growth = r->training.loss_scale_growth;
        o.loss_scale_backoff = r->training.loss_scale_backoff;
        o.loss_scale_interval = r->training.loss_scale_interval;
    }
    tcc_param_group groups[RECIPE_GROUPS_MAX];
    tcc_optimizer_options optimizer = optimizer_of(s);
    optimizer.groups = groups;
    optimizer.n_groups = groups_of(r, groups);
    o.optimizer = &optimizer;
    if (plans) {
        o.compile_only = true;
        o.require_graphs = false;
        o.dump_dir = o.lock = o.locked = NULL;
        if (o.mode == TCC_MODE_MAX_AUTOTUNE) o.mode = TCC_MODE_DEFAULT; /* nothing is measured for it */
        if (tcc_memory_budget_bytes(o.memory_budget) || !strcmp(o.memory_budget, "auto")) o.memory_budget = NULL;
    }
    return tcc_model_create(s->cx, build, s, &o, &s->model);
}

/* What cannot be pinned is copied first. */
static void pin_batches(run *s) {
    tcc_loader *const loaders[] = {s->loader, s->val_loader};
    void *memory;
    size_t bytes;
    for (int i = 0; i < 2; i++)
        for (int k = 0; loaders[i] && tcc_loader_memory(loaders[i], k, &memory, &bytes); k++) {
            if (tcc_model_pin(s->model, memory, bytes) == TCC_OK) continue;
            if (!s->options->quiet) fprintf(stderr, "data.pin_memory: %s\n", tcc_context_error(s->cx));
            tcc_context_clear_error(s->cx);
            return;
        }
}

tcc_status run_create_planner(run *s) {
    if (!s->total_steps) /* not yet known, and of no matter to the optimizer's states */
        s->schedule = train_schedule(s->recipe, 1, 1, s->milestones);
    return create(s, true);
}

/* All that the run is asked for, with its first batch. */
static tcc_status compile_for(run *s, const tcc_batch *batch) {
    const train_options *o = s->options;
    const bool only_look = (o->emit || o->dry_run) && !o->save_plan;
    tcc_status status = o->verify ? verify(s, batch) : TCC_OK;
    if (status == TCC_OK && !only_look && run_pins(s)) pin_batches(s);
    if (status == TCC_OK && o->save_plan) status = compile_sample(s);
    if (status == TCC_OK && !only_look) status = compile_all(s, batch);
    if (status == TCC_OK && only_look) status = compile_largest(s, batch);
    return status == TCC_OK && o->save_plan ? save_plan(s) : status;
}

tcc_status run_create_model(run *s) {
    const train_options *o = s->options;
    tcc_status status = o->plan ? tcc_model_load_plan(s->cx, o->plan, o->device, &s->model) : create(s, false);
    if (status != TCC_OK) return status;
    s->late = strcmp(tcc_model_device(s->model), "cpu") != 0;
    tcc_model_profile(s->model, o->explain || o->profile);
    if (s->options->task == TASK_GENERATE) return compile_first_window(s);
    if (s->options->task == TASK_EXPORT) return run_compile_export(s);
    if (s->options->task == TASK_PREDICT) return run_compile_predictor(s);
    const tcc_batch *batch;
    status = run_first_batch(s, &batch);
    run_take_all_cpus(s, true);
    if (status == TCC_OK) status = compile_for(s, batch);
    run_take_all_cpus(s, false);
    return status == TCC_OK ? rewind_loader(s) : status;
}
