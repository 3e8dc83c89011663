/* SPDX-License-Identifier: MIT
 * Ranges of tools/recipe.def by what the keys mean: values that have a meaning are taken, and nothing beyond. A key
 * with a range that has no line here fails. What a recipe may say, the library takes. */
#include "harness/check.h"

#include "frontend/run/options.h"
#include "recipe_keys.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 5 };
typedef struct meaning {
    const char *right[MOST], *wrong[MOST], *keys;
} meaning;

static const meaning meanings[] = {
    {{"0", "1", "1000000000"}, /* steps and other counts, 0 of which is none or a default */
     {"-1", "0.5"},
     " schedule.warmup_steps schedule.steps schedule.cycle_down training.max_steps training.seed training.eval_every"
     " training.eval_batches training.save_every training.early_stopping.patience training.statistics sample.every"
     " schedule.warmup_epochs training.max_epochs data.vocab_size "},
    {{"0", "1", "100"},
     {"-1", "0.5"},
     " data.num_workers data.max_length training.keep_last training.average_best sample.length "},
    {{"1", "2", "1000000"}, /* that cannot be none */
     {"0", "-1", "1.5"},
     " model.hidden model.width model.context data.batch_size data.one_hot schedule.step_size schedule.cycle_up"
     " training.loss_scale_interval training.log_every training.batch_accumulate "},
    {{"1", "2", "32"}, {"0", "-1", "1.5"}, " model.layers model.heads data.padding_lengths "},
    {{"2", "1000"}, {"1", "0", "-1"}, " data.classes "},
    {{"2", "4"}, {"1", "8"}, " data.token_bytes "},
    {{"0", "255"}, {"-1", "256"}, " data.ignored_label data.fill "}, /* of 8 bits */
    /* What is dropped, or taken from what was before: some is left. */
    {{"0", "0.5", "0.9"},
     {"1", "-0.001", "nan"},
     " model.dropout model.classifier_dropout model.drop_path training.label_smoothing data.val_split "},
    {{"0", "0.5", "0.9999"},
     {"1", "-0.001", "nan"},
     " optimizer.betas optimizer.momentum schedule.base_momentum schedule.max_momentum training.ema_decay "},
    {{"0", "0.3", "1"}, {"1.001", "-0.001", "nan"}, " schedule.pct_start data.jitter "},
    {{"0.01", "1"}, {"0", "1.001", "nan"}, " data.crop_area "},
    /* Sizes. */
    {{"0", "1e-12", "1"},
     {"-0.001", "nan", "inf"},
     " optimizer.lr optimizer.eps optimizer.weight_decay schedule.min_lr schedule.gamma schedule.power data.mixup"
     " data.cutmix training.clip_grad_norm training.early_stopping.min_delta training.ema_ramp sample.temperature "},
    {{"0.01", "1", "100"},
     {"0", "-1", "nan", "inf"},
     " data.scale data.crop_ratio data.val_scale data.std loss.weights loss.detail_weight training.autotune_budget_s "},
    {{"0.01", "1", "100", "1e4"},
     {"0", "-1", "nan", "inf"},
     " schedule.div_factor schedule.final_div_factor training.loss_scale "},
    {{"1", "2", "1000"}, {"0.999", "0", "nan"}, " training.loss_scale_growth "},
    {{"0.01", "0.5", "0.99"}, {"0", "1", "nan"}, " training.loss_scale_backoff "},
    {{"1", "512", "4096"}, {"0", "-1"}, " data.size data.val_size "},
    {{"-1000", "0", "0.485"}, {"nan", "inf"}, " data.mean "},
    {{"0", "1", "1000000000"}, {"-1", "1.5"}, " schedule.milestones "},
};

static bool has_word(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; (at = strchr(at, ' ')); at++)
        if (!strncmp(at + 1, word, length) && strchr(" ", at[1 + length])) return true;
    return false;
}

static bool takes(const recipe_row *k, const char *value) {
    recipe r;
    char assignment[256], error[RECIPE_ERROR_MAX] = "";
    const bool list = k->kind == LIST || k->kind == WHOLES;
    snprintf(assignment, sizeof assignment, list ? "%s=[%s, %s]" : "%s=%s", k->path, value, value);
    assert_true(recipe_init(&r));
    const bool taken = recipe_override(&r, assignment, error);
    if (!taken && !strstr(error, k->path)) fail_msg("%s: %s", assignment, error);
    recipe_free(&r);
    return taken;
}

static bool has_range(const recipe_row *k) {
    return k->kind == INTEGER || k->kind == NUMBER || k->kind == LIST || k->kind == WHOLES;
}

static void ranges_are_what_has_a_meaning(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        const recipe_row *k = &recipe_rows[i];
        const meaning *m = NULL;
        for (size_t j = 0; j < sizeof meanings / sizeof *meanings; j++)
            if (has_word(meanings[j].keys, k->path)) m = &meanings[j];
        if (has_range(k) != (m != NULL))
            wrong++, print_error("%s: nothing judges its range, or it has none\n", k->path);
        if (!m) continue;
        for (int v = 0; v < MOST && m->right[v]; v++)
            if (!takes(k, m->right[v])) wrong++, print_error("%s=%s is refused\n", k->path, m->right[v]);
        for (int v = 0; v < MOST && m->wrong[v]; v++)
            if (takes(k, m->wrong[v])) wrong++, print_error("%s=%s is taken\n", k->path, m->wrong[v]);
    }
    assert_int_equal(wrong, 0);
}

/* The field of the library's options that has the key's name, at the ends of the key's range. */
static void the_library_takes_what_recipes_may_say(void **state) {
    (void)state;
    int found = 0;
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        const recipe_row *k = &recipe_rows[i];
        const char *dot = strchr(k->path, '.'), *name = dot ? dot + 1 : k->path;
        const bool betas = !strcmp(name, "betas");
        if (!has_range(k) || !(strstr(k->path, "optimizer.") == k->path || strstr(k->path, "training.") == k->path))
            continue;
        for (int j = 0; tcc__option(j); j++) {
            const tcc_option *o = tcc__option(j);
            if (o->of == TCC_OPTION_OF_GROUP || strcmp(o->name, betas ? "beta1" : name)) continue;
            found++;
            if (k->least < o->least || (o->below ? k->most >= o->most : k->most > o->most))
                fail_msg("%s is from %g to %g, the library's from %g to %g", k->path, k->least, k->most, o->least,
                         o->most);
        }
    }
    assert_true(found > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_are_what_has_a_meaning),
                                       cmocka_unit_test(the_library_takes_what_recipes_may_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
