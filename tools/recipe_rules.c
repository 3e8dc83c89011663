/* SPDX-License-Identifier: MIT
 * Rules about a recipe's keys. */
#include "recipe_rules.h"

#include <stdlib.h>
#include <string.h>

/* -- Keys that go with a choice -- */

/* Keys, or the beginnings of keys, the key that chooses, and with which of its values they go; "!" with which they do
 * not, so that a value that is added goes with all of them. */
static const struct rule {
    const char *keys, *by, *values;
} rules[] = {
    {"model.layers", "model.name", "gpt|distilbert"},
    {"model.heads", "model.name", "gpt|distilbert"},
    {"model.width", "model.name", "gpt|distilbert"},
    {"model.context", "model.name", "gpt|distilbert"},
    {"model.bias", "model.name", "gpt"},
    {"model.gelu", "model.name", "gpt|distilbert"},
    {"model.hidden", "model.name", "mlp"},
    {"model.cifar_stem", "model.name", "resnet18|resnet34|resnet50"},
    {"model.dropout", "model.name", "!resnet18|resnet34|resnet50"},
    {"data.bytes", "data.kind", "text"},
    {"data.token_bytes", "data.kind", "tokens"},
    {"data.vocab_size", "data.kind", "tokens"},
    {"data.classes", "data.kind", "!text|tokens|cifar|csv|images|text_classes"},
    {"data.mean", "data.kind", "!text|tokens|csv|text_classes"},
    {"data.std", "data.kind", "!text|tokens|csv|text_classes"},
    {"data.augment", "data.kind", "!text|tokens|csv|idx|text_classes"},
    {"data.size", "data.kind", "images"},
    {"data.scale", "data.kind", "images"},
    {"data.jitter", "data.kind", "images"},
    {"data.label", "data.kind", "csv|text_classes"},
    {"data.text", "data.kind", "text_classes"},
    {"data.tokenizer", "data.kind", "text_classes"},
    {"data.vocab_file", "data.kind", "text_classes"},
    {"data.padding", "data.kind", "text_classes"},
    {"data.padding_lengths", "data.padding", "dynamic|uniform"},
    {"data.header", "data.kind", "csv|text_classes"},
    {"data.separator", "data.kind", "csv|text_classes"},
    {"data.regression", "data.kind", "csv"},
    {"optimizer.betas", "optimizer.name", "!sgd|adafactor"},
    {"optimizer.eps", "optimizer.name", "!sgd|lion"},
    {"optimizer.momentum", "optimizer.name", "sgd"},
    {"optimizer.nesterov", "optimizer.name", "sgd"},
    {"schedule.warmup_steps", "schedule.name", "!cyclic|one_cycle"},
    {"schedule.steps", "schedule.name", "linear|cosine|polynomial|one_cycle"},
    {"schedule.min_lr", "schedule.name", "linear|cosine|polynomial|cyclic"},
    {"schedule.step_size", "schedule.name", "step"},
    {"schedule.milestones", "schedule.name", "multi_step"},
    {"schedule.gamma", "schedule.name", "step|multi_step|cyclic"},
    {"schedule.gamma", "schedule.cycle_mode", "exp_range"}, /* of cyclic */
    {"schedule.power", "schedule.name", "polynomial"},
    {"schedule.cycle_mode", "schedule.name", "cyclic"},
    {"schedule.cycle_up", "schedule.name", "cyclic"},
    {"schedule.cycle_down", "schedule.name", "cyclic"},
    {"schedule.pct_start", "schedule.name", "one_cycle"},
    {"schedule.div_factor", "schedule.name", "one_cycle"},
    {"schedule.final_div_factor", "schedule.name", "one_cycle"},
    {"schedule.anneal", "schedule.name", "one_cycle"},
    {"schedule.three_phase", "schedule.name", "one_cycle"},
    {"schedule.cycle_momentum", "schedule.name", "cyclic|one_cycle"},
    {"schedule.base_momentum", "schedule.name", "cyclic|one_cycle"},
    {"schedule.max_momentum", "schedule.name", "cyclic|one_cycle"},
    {"training.mixed_precision_ops", "training.mixed_precision", "!none"},
    {"training.loss_scale", "training.mixed_precision", "fp16"},
    {"training.autotune_budget_s", "training.compile_mode", "max-autotune"},
    {"sample.every", "data.kind", "text"}, /* sample.length may be 0 anywhere */
    {"sample.temperature", "data.kind", "text"},
    {"sample.prompt", "data.kind", "text"},
};
enum { RULE_COUNT = sizeof rules / sizeof rules[0] };

static int find_key(const char *path) {
    int i = 0;
    while (recipe_key(i) && strcmp(recipe_key(i), path) != 0) i++;
    return i;
}

static bool is_in(const char *choices, const char *value) {
    const size_t length = strlen(value);
    for (const char *c = choices; *c; c += strcspn(c, "|"), c += *c == '|')
        if (strcspn(c, "|") == length && !memcmp(c, value, length)) return true;
    return false;
}

/* The rule by which a key does not apply; NULL if it does. */
static const struct rule *broken_rule(const recipe *r, int key) {
    for (int i = 0; i < RULE_COUNT; i++) {
        const struct rule *rule = &rules[i];
        const int by = find_key(rule->by);
        const char *value = recipe_choice(r, by);
        const bool negated = *rule->values == '!';
        if (strncmp(recipe_key(key), rule->keys, strlen(rule->keys)) != 0 || !value) continue;
        if (by != key && !recipe_applies(r, by)) continue; /* that chooses nothing here */
        if (is_in(rule->values + negated, value) == negated) return rule;
    }
    return NULL;
}

bool recipe_applies(const recipe *r, int key) { return !broken_rule(r, key); }

bool recipe_has(const recipe *r, const char *path) { return recipe_applies(r, find_key(path)); }

bool recipe_check_applies(const recipe *r, char error[RECIPE_ERROR_MAX]) {
    for (int i = 0; recipe_key(i); i++) {
        const struct rule *rule = r->given[i] ? broken_rule(r, i) : NULL;
        const int by = rule ? find_key(rule->by) : 0;
        if (!rule || (r->given[i] > 0 && r->given[by] == RECIPE_OVERRIDDEN)) continue;
        const bool negated = *rule->values == '!';
        char where[256] = "command line";
        if (r->given[i] > 0) snprintf(where, sizeof where, "%s:%d", r->file, r->given[i]);
        snprintf(error, RECIPE_ERROR_MAX, "%s: %s does not apply to %s %s; it goes with %s%s", where, recipe_key(i),
                 rule->by, recipe_choice(r, by), negated ? "any but " : "", rule->values + negated);
        return false;
    }
    return true;
}

char *recipe_left_out(const recipe *r) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    for (int i = 0; recipe_key(i); i++)
        if (r->given[i] > 0 && broken_rule(r, i)) fprintf(out, "%s%s", ftell(out) ? ", " : "", recipe_key(i));
    if (!fclose(out) && length) return text;
    free(text);
    return NULL;
}

/* -- Resuming -- */

/* Keys, or the beginnings of keys, that change no result: where files lie, what is printed, kept or measured, and how
 * fast it goes. */
static const char *const free_keys[] = {"init_from",
                                        "data.path",
                                        "data.val_path",
                                        "data.vocab_file",
                                        "data.num_workers",
                                        "data.pin_memory",
                                        "training.autotune_budget_s",
                                        "training.eval_",
                                        "training.save_every",
                                        "training.keep_last",
                                        "training.log_every",
                                        "training.on_nan",
                                        "training.metrics",
                                        "training.best_metric",
                                        "training.detect_anomaly",
                                        "training.statistics",
                                        "sample."};

/* Those that change what comes next and fit all that a checkpoint holds. Any other key, a new one too, must stay. */
static const char *const open_keys[] = {"model.dropout",          "data.augment",
                                        "optimizer.lr",           "optimizer.betas",
                                        "optimizer.eps",          "optimizer.weight_decay",
                                        "optimizer.decay_all",    "optimizer.momentum",
                                        "optimizer.nesterov",     "schedule.",
                                        "training.max_steps",     "training.max_epochs",
                                        "training.compile",       "training.clip_grad_norm",
                                        "training.checkpointing", "training.memory_budget",
                                        "training.allow_tf32",    "training.early_stopping"};

static bool is_among(const char *key, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strncmp(key, list[i], strlen(list[i]))) return true;
    return false;
}
#define IS_AMONG(key, list) is_among((key), (list), sizeof(list) / sizeof(list)[0])

/* A key's value as it is printed, from malloc: "none" where it has none. */
static char *value_text(const recipe *r, int key) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    if (!recipe_print_value(r, key, out)) fputs("none", out);
    if (!fclose(out)) return text;
    free(text);
    return NULL;
}

char *recipe_print_results(const recipe *r) {
    char *text = NULL, section[64] = "";
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    for (int i = 0; recipe_key(i); i++)
        if (!IS_AMONG(recipe_key(i), free_keys)) recipe_print_key(r, i, section, out);
    if (!fclose(out)) return text;
    free(text);
    return NULL;
}

static bool compare_key(const recipe *r, const recipe *before, int key, FILE *said, char *error) {
    const char *name = recipe_key(key);
    char *now = value_text(r, key), *then = value_text(before, key);
    bool ok = now && then;
    if (!ok) {
        snprintf(error, RECIPE_ERROR_MAX, "out of memory");
    } else if (strcmp(now, then) && IS_AMONG(name, open_keys)) {
        fprintf(said, "%s%s was %s, is %s", ftell(said) ? "; " : "", name, then, now);
    } else if (strcmp(now, then)) {
        snprintf(error, RECIPE_ERROR_MAX,
                 "--resume: %s is %s, but the checkpoint is of a run with %s, and that cannot change on the way; for a "
                 "new run from its weights leave out --resume and give init_from=CHECKPOINT",
                 name, now, then);
        ok = false;
    }
    free(now);
    free(then);
    return ok;
}

bool recipe_may_resume(recipe *r, const char *before, char **said, char error[RECIPE_ERROR_MAX]) {
    recipe old;
    size_t length;
    *said = NULL;
    FILE *out = open_memstream(said, &length);
    bool ok = out && recipe_init(&old);
    if (!ok) {
        snprintf(error, RECIPE_ERROR_MAX, "out of memory");
    } else {
        ok = recipe_parse(&old, before, strlen(before), "--resume: the checkpoint's recipe", error);
        if (ok && !r->data.batch_size) r->data.batch_size = old.data.batch_size; /* that was chosen */
        for (int i = 0; ok && recipe_key(i); i++)
            if (!IS_AMONG(recipe_key(i), free_keys) && recipe_applies(r, i)) ok = compare_key(r, &old, i, out, error);
        recipe_free(&old);
    }
    if (out && fclose(out)) ok = false;
    if (ok && length) return true;
    free(*said);
    *said = NULL;
    return ok;
}
