/* SPDX-License-Identifier: MIT
 * Rules about a recipe's keys. */
#include "recipe_rules.h"

#include <stdlib.h>
#include <string.h>

/* -- Resuming -- */

/* Keys, or the beginnings of keys, that change no result: where files lie, what is printed, kept or measured, and how
 * fast it goes. */
static const char *const free_keys[] = {"init_from",          "data.path",           "data.val_path",
                                        "data.num_workers",   "data.pin_memory",     "training.autotune_budget_s",
                                        "training.eval_",     "training.save_every", "training.keep_last",
                                        "training.log_every", "training.on_nan",     "sample."};

/* Those that change what comes next and fit all that a checkpoint holds. Any other key, a new one too, must stay. */
static const char *const open_keys[] = {"model.dropout",          "data.augment",
                                        "optimizer.lr",           "optimizer.betas",
                                        "optimizer.eps",          "optimizer.weight_decay",
                                        "optimizer.decay_all",    "optimizer.momentum",
                                        "optimizer.nesterov",     "schedule.",
                                        "training.max_steps",     "training.max_epochs",
                                        "training.compile",       "training.clip_grad_norm",
                                        "training.checkpointing", "training.memory_budget",
                                        "training.allow_tf32"};

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

bool recipe_may_resume(const recipe *r, const char *before, char **said, char error[RECIPE_ERROR_MAX]) {
    recipe old;
    size_t length;
    *said = NULL;
    FILE *out = open_memstream(said, &length);
    bool ok = out && recipe_init(&old);
    if (!ok) {
        snprintf(error, RECIPE_ERROR_MAX, "out of memory");
    } else {
        ok = recipe_parse(&old, before, strlen(before), "--resume: the checkpoint's recipe", error);
        for (int i = 0; ok && recipe_key(i); i++)
            if (!IS_AMONG(recipe_key(i), free_keys)) ok = compare_key(r, &old, i, out, error);
        recipe_free(&old);
    }
    if (out && fclose(out)) ok = false;
    if (ok && length) return true;
    free(*said);
    *said = NULL;
    return ok;
}
