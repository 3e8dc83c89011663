/* SPDX-License-Identifier: MIT
 * Checkpoints of a training run: saved, resumed from, and weights to begin with. */
#include "recipe_rules.h"
#include "train_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* Whether all numbers of an array are finite. Types other than f32 are taken to be. */
static bool is_finite(const tcc_array *a) {
    const uint32_t *bits = a->data;
    uint32_t worst = 0;
    int64_t count = a->dtype == TCC_F32;
    for (int i = 0; i < a->rank; i++) count *= a->dims[i];
    for (int64_t i = 0; i < count; i++) {
        const uint32_t exponent = bits[i] & 0x7f800000;
        worst = worst > exponent ? worst : exponent;
    }
    return worst != 0x7f800000;
}

/* The first trained parameter or moment that is not finite; NULL if all are. */
static const char *find_nan(const run *s, const arrays *params, const arrays *state) {
    for (int i = 0; i < params->count; i++)
        if (tcc_model_param_is_trained(s->model, i) && !is_finite(&params->data[i])) return params->data[i].name;
    for (int i = 0; i < state->count; i++)
        if (!is_finite(&state->data[i])) return state->data[i].name;
    return NULL;
}

/* What is not finite is no checkpoint: the last good one stays the newest. */
static tcc_status refuse_nan(run *s, int64_t step, const char *name) {
    const bool goes_on = !strcmp(s->recipe->training.on_nan, "continue");
    if (goes_on) {
        run_end_line(s);
        fprintf(stderr, "tcc-train: \"%s\" is infinite or NaN after step %" PRId64 ": no checkpoint of it is written\n",
                name, step);
        return TCC_OK;
    }
    snprintf(s->problem, sizeof s->problem, "\"%s\" is infinite or NaN after step %" PRId64 "; %s", name, step,
             run_nan_advice);
    return TCC_EINVAL;
}

tcc_status run_saved(run *s, tcc_status status) {
    if (status != TCC_OK) snprintf(s->problem, sizeof s->problem, "%s", saver_error(s->saver));
    return status;
}

/* Ranks for which the recipe says what a step is: those that began the run. */
static int64_t ranks_of(const run *s) {
    if (s->step_ranks) return s->step_ranks;
    return s->options->ranks > 1 ? s->options->ranks : 1;
}

static tcc_status write_checkpoint(run *s, int64_t step, const arrays *params, const arrays *state) {
    tcc_loader_state at = tcc_loader_get_state(s->loader);
    char seed[32], epoch[32], index[32], ranks[32], stopping[96], *recipe = recipe_print_results(s->recipe);
    snprintf(seed, sizeof seed, "%" PRIu64, at.seed);
    snprintf(epoch, sizeof epoch, "%" PRId64, at.epoch);
    snprintf(index, sizeof index, "%" PRId64, at.index);
    snprintf(ranks, sizeof ranks, "%" PRId64, ranks_of(s));
    snprintf(stopping, sizeof stopping, "%.17g %" PRId64 " %" PRId64, s->stopping.best, s->stopping.waited,
             s->stopping.step);
    const tcc_pair values[] = {{"loader.seed", seed},
                               {"loader.epoch", epoch},
                               {"loader.index", index},
                               {"recipe", recipe},
                               {"stopping", stopping},
                               {TCC_RUN_LEARNED, s->learned},
                               {TCC_RUN_KIND, s->recipe->data.kind},
                               {"ranks", ranks}};
    tcc_checkpoint_contents contents = {.size = sizeof contents,
                                        .step = step,
                                        .params = params->data,
                                        .n_params = params->count,
                                        .state = state->data,
                                        .n_state = state->count,
                                        .values = values,
                                        /* what is left out says one rank */
                                        .n_values = (int)(sizeof values / sizeof values[0]) - (ranks_of(s) == 1)};
    run_folder_keep_best(&s->folder, step);
    tcc_status status = recipe ? run_saved(s, saver_save(s->saver, &contents)) : TCC_ENOMEM;
    if (status == TCC_OK) s->saved_step = step;
    free(recipe);
    return status;
}

tcc_status run_save(run *s, int64_t step) {
    if (s->saved_step == step) return TCC_OK;
    tcc_status status = tcc_model_synchronize(s->model);
    if (status == TCC_OK) status = run_gather_states(s);
    if (status != TCC_OK) return status;
    arrays params = collect(s->model, tcc_model_param), state = collect(s->model, tcc_model_optimizer_state);
    status = TCC_ENOMEM;
    if (params.data && state.data) {
        const char *bad = find_nan(s, &params, &state);
        status = bad ? refuse_nan(s, step, bad) : write_checkpoint(s, step, &params, &state);
    }
    free(params.data);
    free(state.data);
    return status;
}

/* -- The best -- */

static char *best_path(const run *s) {
    char *path = NULL;
    return asprintf(&path, "%s/best.safetensors", s->folder.checkpoints) < 0 ? NULL : path;
}

tcc_status run_find_best(run *s) {
    char *path = best_path(s);
    tcc_safetensors *file = NULL;
    struct stat info;
    s->best = NAN;
    tcc_status status = path ? TCC_OK : TCC_ENOMEM;
    if (path && !stat(path, &info)) status = tcc_safetensors_open(s->cx, path, &file);
    const char *text = file ? tcc_safetensors_metadata(file, run_best_metric(s)) : NULL;
    if (text) s->best = strtod(text, NULL);
    tcc_safetensors_close(file);
    free(path);
    return status;
}

tcc_status run_write_parameters(run *s, const char *path, int64_t step, double metric) {
    char number[32], value[40];
    tcc_status status = tcc_model_synchronize(s->model);
    if (status == TCC_OK) status = run_gather_parameters(s);
    arrays params = status == TCC_OK ? collect(s->model, tcc_model_param) : (arrays){0};
    const arrays none = {0};
    if (status == TCC_OK && !params.data) status = TCC_ENOMEM;
    if (status == TCC_OK && !find_nan(s, &params, &none)) {
        snprintf(number, sizeof number, "%" PRId64, step);
        snprintf(value, sizeof value, "%.17g", metric);
        const tcc_pair about[] = {{"traincc.step", number}, {run_best_metric(s), value}, {TCC_RUN_LEARNED, s->learned}};
        status = tcc_safetensors_write(s->cx, path, params.data, params.count, about, 3);
    }
    free(params.data);
    return status;
}

tcc_status run_save_best(run *s, int64_t step, double metric) {
    char *path = best_path(s);
    const tcc_status status = path ? run_write_parameters(s, path, step, metric) : TCC_ENOMEM;
    if (status == TCC_OK) s->best = metric;
    free(path);
    return status;
}

tcc_status run_init_from(run *s, const char *path) {
    const char *ignore[RECIPE_GROUPS_MAX];
    char *report = NULL;
    for (int i = 0; i < s->recipe->init_ignore.count; i++) ignore[i] = s->recipe->init_ignore.v[i];
    const tcc_weights_options options = {
        .size = sizeof options, .ignore = ignore, .n_ignore = s->recipe->init_ignore.count};
    arrays params = collect(s->model, tcc_model_param);
    const tcc_status status = params.data ? tcc_weights_load(s->cx, path, params.data, params.count, &options, &report)
                                          : TCC_ENOMEM;
    for (const char *line = report; line && *line && !s->options->quiet; line += strcspn(line, "\n") + 1)
        printf("init_from: %.*s\n", (int)strcspn(line, "\n"), line);
    tcc_string_free(report);
    free(params.data);
    return status;
}

static bool whole_number(const tcc_checkpoint *c, const char *key, int64_t *out) {
    const char *text = tcc_checkpoint_value(c, key);
    char *end;
    if (!text || !*text) return false;
    *out = (int64_t)strtoull(text, &end, 10);
    return !*end;
}

/* Loads the optimizer's state. A checkpoint of a version that did not count updates made one in every step. */
static tcc_status load_state(run *s, const tcc_checkpoint *c, arrays state) {
    int64_t *count = NULL;
    if (tcc_safetensors_find(tcc_checkpoint_state(c), TCC_STEP_STATE) < 0)
        for (int i = 0; i < state.count && !count; i++) {
            if (strcmp(state.data[i].name, TCC_STEP_STATE)) continue;
            count = state.data[i].data;
            state.data[i] = state.data[--state.count];
        }
    tcc_status status = tcc_safetensors_load(s->cx, tcc_checkpoint_state(c), state.data, state.count, 0);
    if (status == TCC_OK && count) *count = tcc_checkpoint_step(c);
    return status;
}

/* A checkpoint of a version that did not stop early says nothing. */
static void load_stopping(run *s, const tcc_checkpoint *c) {
    const char *text = tcc_checkpoint_value(c, "stopping");
    char *end;
    if (!text) return;
    s->stopping.best = strtod(text, &end);
    s->stopping.waited = strtoll(end, &end, 10);
    s->stopping.step = strtoll(end, &end, 10);
}

/* A step stays what it is: on another number of ranks than the run began with, each takes more or fewer micro-batches,
 * or smaller ones. */
static void share_among_ranks(run *s, const tcc_checkpoint *c) {
    const recipe *r = s->recipe;
    const int64_t ranks = ranks_of(s), each = r->data.batch_size;
    int64_t before = 1;
    if (!whole_number(c, "ranks", &before) || before < 1) before = 1;
    if (before == ranks) return;
    const int64_t all = before * r->training.batch_accumulate, samples = all * each;
    s->step_ranks = before;
    s->step_samples = samples;
    s->micro_batches = (all + ranks - 1) / ranks;
    const bool as_before = before == 1 || r->training.batch_accumulate == 1, /* sums of one micro-batch after another */
        same = as_before && (ranks == 1 || s->micro_batches == 1) && ranks * s->micro_batches == all;
    if (!s->options->quiet)
        printf("changed since the checkpoint: --ranks was %" PRId64 ", is %" PRId64 ": each takes %" PRId64
               " micro-batch%s of a step of %" PRId64 " samples%s\n",
               before, ranks, s->micro_batches, s->micro_batches == 1 ? "" : "es", samples,
               same ? "" : ", so sums are rounded in another order, and other random numbers are drawn");
}

bool run_check_resume(run *s, const tcc_checkpoint *c) {
    const char *before = tcc_checkpoint_value(c, "recipe");
    char error[RECIPE_ERROR_MAX], *said;
    if (!before) return true; /* of a version that did not keep it */
    const bool may = recipe_may_resume(s->recipe, before, &said, error);
    if (!may) fprintf(stderr, "tcc-train: %s\n", error);
    else if (said && !s->options->quiet) printf("changed since the checkpoint: %s\n", said);
    free(said);
    if (may) share_among_ranks(s, c);
    return may;
}

tcc_status run_check_data(run *s, const tcc_checkpoint *c) {
    const char *learned = tcc_checkpoint_value(c, TCC_RUN_LEARNED);
    return learned ? tcc_dataset_compare(s->cx, s->data, learned)
                   : TCC_OK; /* NULL: of a version that did not keep it */
}

tcc_status run_resume(run *s, const tcc_checkpoint *c) {
    arrays params = collect(s->model, tcc_model_param), state = collect(s->model, tcc_model_optimizer_state);
    tcc_status status = params.data && state.data ? TCC_OK : TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_safetensors_load(s->cx, tcc_checkpoint_params(c), params.data, params.count, 0);
    if (status == TCC_OK) status = load_state(s, c, state);
    free(params.data);
    free(state.data);
    if (status != TCC_OK) return status;
    int64_t seed, epoch, index;
    if (!whole_number(c, "loader.seed", &seed) || !whole_number(c, "loader.epoch", &epoch) ||
        !whole_number(c, "loader.index", &index)) {
        snprintf(s->problem, sizeof s->problem, "%s: does not say where in the data its run was (loader.index)",
                 tcc_checkpoint_path(c));
        return TCC_EFORMAT;
    }
    status = tcc_loader_set_state(s->loader,
                                  (tcc_loader_state){.seed = (uint64_t)seed, .epoch = epoch, .index = index});
    if (status != TCC_OK) return status;
    load_stopping(s, c);
    s->first_step = s->saved_step = tcc_checkpoint_step(c);
    saver_set_saved(s->saver, s->first_step);
    tcc_model_set_step(s->model, s->first_step);
    if (!s->options->quiet) printf("resumed from %s, step %" PRId64 "\n", tcc_checkpoint_path(c), s->first_step);
    return TCC_OK;
}
