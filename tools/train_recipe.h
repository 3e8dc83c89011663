/* SPDX-License-Identifier: MIT
 * A training recipe: what a YAML file and the command line ask for, checked. */
#ifndef TCC_TOOLS_TRAIN_RECIPE_H
#define TCC_TOOLS_TRAIN_RECIPE_H

#include "recipe_groups.h"

#include <traincc/model.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RECIPE_LIST_MAX = 16, RECIPE_ERROR_MAX = 1024, RECIPE_KEYS_MAX = 256 };

typedef struct recipe_list {
    int count;
    double v[RECIPE_LIST_MAX];
} recipe_list;

enum { RECIPE_OVERRIDDEN = -1 }; /* on the command line */

/* One field a key of train_recipe.c's table. Strings are owned. */
typedef struct recipe {
    char *file;                 /* for messages */
    int given[RECIPE_KEYS_MAX]; /* by key: its line in the file; RECIPE_OVERRIDDEN; 0: it has its default */
    char *init_from;
    struct {
        char *name, *gelu;
        int64_t layers, heads, width, context;
        double dropout;
        bool bias, cifar_stem;
        recipe_list hidden;
    } model;
    struct {
        char *kind, *path, *val_path, *label, *text, *header, *separator, *tokenizer, *vocab_file, *padding;
        int64_t batch_size /* 0: to be chosen */, num_workers, token_bytes, vocab_size, classes, padding_lengths;
        double val_split;
        bool drop_last, shuffle, augment, bytes, regression, pin_memory;
        recipe_list mean, std, image_size, scale, jitter;
    } data;
    struct {
        char *name;
        double lr, eps, weight_decay, momentum;
        bool nesterov, decay_all;
        recipe_list betas;
        recipe_groups groups;
    } optimizer;
    struct {
        char *name, *cycle_mode, *anneal;
        int64_t warmup_steps, steps, step_size, cycle_up, cycle_down;
        double min_lr, gamma, power, pct_start, div_factor, final_div_factor, base_momentum, max_momentum;
        bool three_phase, cycle_momentum;
        recipe_list milestones;
    } schedule;
    struct {
        int64_t max_steps, max_epochs, seed, eval_every, eval_batches, save_every, keep_last, log_every;
        double autotune_budget_s, clip_grad_norm, ema_decay, loss_scale, loss_scale_growth, loss_scale_backoff;
        int64_t loss_scale_interval, batch_accumulate, statistics;
        bool compile, allow_tf32, ema_warmup, detect_anomaly;
        unsigned metrics;      /* a bit for each eval_metric */
        int64_t stop_patience; /* 0: never */
        double stop_min_delta;
        char *best_metric, *stop_metric;
        char *compile_mode, *mixed_precision, *mixed_precision_ops, *checkpointing, *memory_budget, *on_nan;
    } training;
    struct {
        int64_t length, every;
        double temperature;
        char *prompt;
    } sample;
} recipe;

/* Fills in the defaults. False when memory is short. */
bool recipe_init(recipe *r);
void recipe_free(recipe *r);
/* Reads a recipe's text; `file` names it in messages. On failure `error` has the message, with the line and the nearest
 * key. */
bool recipe_parse(recipe *r, const char *text, size_t length, const char *file, char error[RECIPE_ERROR_MAX]);
/* Applies "training.max_steps=100". */
bool recipe_override(recipe *r, const char *assignment, char error[RECIPE_ERROR_MAX]);
/* Fills in the defaults that depend on other keys. Checks that go across keys: something is asked for twice, is
 * missing, or does not apply to what was chosen. */
bool recipe_check(recipe *r, char error[RECIPE_ERROR_MAX]);
/* The keys in order, from 0; NULL past the end. */
const char *recipe_key(int index);
/* What it may be, as complete.h has it: "a|b|c"; ":files"; NULL: there is no list. */
const char *recipe_key_values(int index);
/* What a CHOICE key was set to; NULL for one that has no value. */
const char *recipe_choice(const recipe *r, int index);
/* Prints the key's value as in YAML; false where it has none. */
bool recipe_print_value(const recipe *r, int index, FILE *out);
/* Prints a line "key: value" if it has one and applies, before it the line of its section where that is not `section`,
 * which begins as "". */
void recipe_print_key(const recipe *r, int index, char section[64], FILE *out);
/* Samples of a training step: a batch for each micro-batch. */
int64_t recipe_step_samples(const recipe *r);
tcc_optimizer_kind recipe_optimizer(const recipe *r);
/* The shortest text that reads back as the same number: 0.1, not 0.10000000000000001. */
void recipe_print_number(double v, FILE *out);
/* A text in quotes, as YAML reads it. */
void recipe_print_quoted(const char *s, FILE *out);
/* Whether a GPU is to replay steps as CUDA graphs. */
bool recipe_replays(const recipe *r);
/* The resolved recipe as YAML, every key with its value. False when writing failed. */
bool recipe_print(const recipe *r, FILE *out);

#endif
