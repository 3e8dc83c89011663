/* SPDX-License-Identifier: MIT
 * Checks of a recipe that go across keys. */
#include "eval_metrics.h"
#include "recipe_keys.h"
#include "recipe_rules.h"

#include <math.h>
#include <string.h>

/* Defaults that depend on the optimizer. */
static void settle(recipe *r) {
    tcc_optimizer_options o;
    tcc_optimizer_init(&o, recipe_optimizer(r));
    if (isnan(r->optimizer.lr)) r->optimizer.lr = o.lr;
    if (isnan(r->optimizer.eps)) r->optimizer.eps = o.eps;
    if (!strcmp(r->data.kind, "idx") && !r->data.classes) r->data.classes = 10;
    const int given = r->given[recipe_key_index("optimizer.betas")];
    if (!r->optimizer.betas.count && (!given || given == RECIPE_LEFT_OUT))
        r->optimizer.betas = (recipe_list){2, {o.beta1, o.beta2}};
}

/* Leaves out a key of the file that does not go with what the command line says for `by`. False where it stays: it is
 * from the command line, too, or `by` is from the file. */
static bool leaves_out(recipe *r, const char *path, const char *by) {
    char error[RECIPE_ERROR_MAX];
    const int i = recipe_key_index(path);
    if (r->given[i] <= 0 || r->given[recipe_key_index(by)] != RECIPE_OVERRIDDEN || !recipe_reset(r, i, error))
        return false;
    r->given[i] = RECIPE_LEFT_OUT;
    return true;
}

/* Of groups only the rates that do not go with the optimizer. */
static void cut_groups(recipe *r, bool betas, bool momentum) {
    const int i = recipe_key_index("optimizer.groups");
    if (r->given[i] <= 0 || r->given[recipe_key_index("optimizer.name")] != RECIPE_OVERRIDDEN) return;
    for (int k = 0; k < r->optimizer.groups.count; k++) {
        recipe_group *g = &r->optimizer.groups.v[k];
        if ((isnan(g->betas[0]) || betas) && (isnan(g->momentum) || momentum)) continue;
        if (!betas) g->betas[0] = g->betas[1] = NAN;
        if (!momentum) g->momentum = NAN;
        r->given[i] = RECIPE_LEFT_OUT;
    }
}

static bool check_groups(recipe *r, recipe_place at, char *error) {
    const bool betas = recipe_has(r, "optimizer.betas"), momentum = recipe_has(r, "optimizer.momentum");
    cut_groups(r, betas, momentum);
    if (r->freeze.count + r->optimizer.groups.count > RECIPE_GROUPS_MAX)
        return recipe_fail(error, at, "freeze and optimizer.groups: more than %d together", RECIPE_GROUPS_MAX);
    for (int i = 0; i < r->optimizer.groups.count; i++) {
        const recipe_group *g = &r->optimizer.groups.v[i];
        if ((!isnan(g->betas[0]) && !betas) || (!isnan(g->momentum) && !momentum))
            return recipe_fail(error, at, "optimizer.groups: %s: %s does not apply to optimizer.name %s", g->match,
                               momentum || isnan(g->momentum) ? "betas" : "momentum", r->optimizer.name);
        if (!isnan(g->lr) && r->optimizer.lr == 0)
            return recipe_fail(error, at,
                               "optimizer.groups: %s: lr is what it has where the schedule gives optimizer.lr, which "
                               "is 0",
                               g->match);
    }
    return true;
}

/* What goes by classes is nothing where numbers are predicted. */
static bool check_classes(recipe *r, recipe_place at, char *error) {
    const bool weighted = strcmp(r->training.class_weights, "none"), smoothed = r->training.label_smoothing > 0;
    if (weighted && r->data.regression && !leaves_out(r, "training.class_weights", "data.regression"))
        return recipe_fail(error, at, "training.class_weights: with data.regression there are no classes");
    if (smoothed && r->data.regression && !leaves_out(r, "training.label_smoothing", "data.regression"))
        return recipe_fail(error, at, "training.label_smoothing: with data.regression there are no classes");
    return true;
}

/* Metrics that cannot be had for this model. */
static bool check_metrics(recipe *r, recipe_place at, char *error) {
    const bool language = !strcmp(r->model.name, "gpt");
    const struct {
        const char *key;
        unsigned set;
    } asked[] = {{"training.metrics", r->training.metrics},
                 {"training.best_metric", 1u << eval_find(r->training.best_metric)},
                 {"training.early_stopping.metric", 1u << eval_find(r->training.early_stopping.metric)}};
    if (r->training.early_stopping.patience && !r->training.eval_every &&
        !leaves_out(r, "training.early_stopping.patience", "training.eval_every"))
        return recipe_fail(error, at, "training.early_stopping.patience needs training.eval_every");
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        for (int m = EVAL_ACCURACY; m < EVAL_METRICS; m++) {
            if (!(asked[i].set >> m & 1)) continue;
            if (r->data.regression && leaves_out(r, asked[i].key, "data.regression")) break;
            if (r->data.regression)
                return recipe_fail(error, at, "%s: with data.regression there is only the loss", asked[i].key);
            if (language && eval_needs_confusion((eval_metric)m))
                return recipe_fail(error, at, "%s: f1 and IoU are of classes, not of a language model's tokens",
                                   asked[i].key);
        }
    return true;
}

/* Lists of options of pictures, which have as many values as there are words. */
static bool check_pictures(const recipe *r, recipe_place at, char *error) {
    const struct {
        const char *key, *form;
        const recipe_list *list;
        int count;
    } lists[] = {{"size", "[height, width]", &r->data.size, 2},
                 {"val_size", "[height, width]", &r->data.val_size, 2},
                 {"scale", "[least, most]", &r->data.scale, 2},
                 {"crop_area", "[least, most]", &r->data.crop_area, 2},
                 {"crop_ratio", "[least, most]", &r->data.crop_ratio, 2},
                 {"jitter", "[brightness, contrast, saturation]", &r->data.jitter, 3}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].list->count != 0 && lists[i].list->count != lists[i].count)
            return recipe_fail(error, at, "data.%s is %s; it has %d values", lists[i].key, lists[i].form,
                               lists[i].list->count);
    if (r->data.fill.count != 0 && r->data.fill.count != 1 && r->data.fill.count != 3)
        return recipe_fail(error, at, "data.fill is a grey or [red, green, blue]; it has %d values",
                           r->data.fill.count);
    if (r->data.mean.count != r->data.std.count)
        return recipe_fail(error, at, "data.mean and data.std must have as many values");
    if (r->data.mean.count > 3)
        return recipe_fail(error, at, "data.mean and data.std have at most 3 values, one a channel");
    return true;
}

bool recipe_check(recipe *r, char error[RECIPE_ERROR_MAX]) {
    const recipe_place at = {r->file, 0};
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        const char *const *value = (const char *const *)((const char *)r + recipe_rows[i].offset);
        const bool required = recipe_rows[i].initial && !*recipe_rows[i].initial && recipe_applies(r, i);
        if (required && !*value)
            return recipe_fail(error, at, "%s is missing%s%s", recipe_rows[i].path,
                               recipe_rows[i].kind == CHOICE
                                   ? "; one of "
                                   : "; give it in the recipe or on the command line, KEY=VALUE",
                               recipe_rows[i].kind == CHOICE ? recipe_row_choices(&recipe_rows[i]) : "");
    }
    if (!recipe_check_applies(r, error)) return false;
    bool left_out[RECIPE_KEY_COUNT]; /* such a key has no value of its own; it may be what others go by */
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) left_out[i] = r->given[i] > 0 && !recipe_applies(r, i);
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        if (left_out[i] && !recipe_reset(r, i, error)) return false;
        if (left_out[i]) r->given[i] = RECIPE_LEFT_OUT;
    }
    settle(r);
    if (!check_groups(r, at, error) || !check_metrics(r, at, error) || !check_classes(r, at, error)) return false;
    bool language = !strcmp(r->data.kind, "text") || !strcmp(r->data.kind, "tokens");
    bool classified = !strcmp(r->data.kind, "text_classes"), pixels = !strcmp(r->data.kind, "segmentation");
    if (language != !strcmp(r->model.name, "gpt") || classified != recipe_is_choice("distilbert|bert", r->model.name) ||
        pixels != recipe_is_choice(PIXEL_MODELS, r->model.name))
        return recipe_fail(error, at, "model.name %s cannot be trained on data.kind %s", r->model.name, r->data.kind);
    if (r->loss.weights.count > 4)
        return recipe_fail(error, at, "loss.weights has %d values; networks have up to 4 heads", r->loss.weights.count);
    if (classified && r->data.max_length > r->model.context)
        return recipe_fail(error, at, "data.max_length %lld is more than model.context %lld",
                           (long long)r->data.max_length, (long long)r->model.context);
    if ((language || classified) && r->model.width % r->model.heads)
        return recipe_fail(error, at, "model.width %lld is not a multiple of model.heads %lld",
                           (long long)r->model.width, (long long)r->model.heads);
    if (!r->training.max_steps == !r->training.max_epochs)
        return recipe_fail(error, at, "give one of training.max_steps and training.max_epochs");
    if (r->optimizer.betas.count != 2)
        return recipe_fail(error, at, "optimizer.betas must have 2 values, not %d", r->optimizer.betas.count);
    if (!strcmp(r->training.checkpointing, "none") && !recipe_is_choice("none|auto", r->training.memory_budget) &&
        !leaves_out(r, "training.memory_budget", "training.checkpointing"))
        return recipe_fail(
            error, at,
            "training.memory_budget %s with training.checkpointing none: then nothing may be computed again to "
            "meet it; make checkpointing auto, or leave the budget out",
            r->training.memory_budget);
    for (int i = 1; i < r->schedule.milestones.count; i++)
        if (r->schedule.milestones.v[i] < r->schedule.milestones.v[i - 1])
            return recipe_fail(error, at, "schedule.milestones must ascend, but %.15g comes after %.15g",
                               r->schedule.milestones.v[i], r->schedule.milestones.v[i - 1]);
    if (r->training.ema_warmup && r->training.ema_decay == 0 &&
        !leaves_out(r, "training.ema_warmup", "training.ema_decay"))
        return recipe_fail(error, at, "training.ema_warmup needs a training.ema_decay above 0");
    if ((r->training.ema_buffers && r->training.ema_decay == 0 &&
         !leaves_out(r, "training.ema_buffers", "training.ema_decay")) ||
        (r->training.ema_ramp > 0 && r->training.ema_decay == 0 &&
         !leaves_out(r, "training.ema_ramp", "training.ema_decay")))
        return recipe_fail(error, at, "training.ema_buffers and training.ema_ramp need a training.ema_decay above 0");
    if (r->training.ema_ramp > 0 && r->training.ema_warmup)
        return recipe_fail(error, at, "give one of training.ema_ramp and training.ema_warmup");
    if (r->schedule.warmup_steps && r->schedule.warmup_epochs)
        return recipe_fail(error, at, "give one of schedule.warmup_steps and schedule.warmup_epochs");
    if (r->data.token_bytes == 3) return recipe_fail(error, at, "data.token_bytes must be 2 or 4");
    return check_pictures(r, at, error);
}
