/* SPDX-License-Identifier: MIT
 * Checkpoints of a training run: saved, resumed from, and weights to begin with. */
#include "train_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

tcc_status run_save(run *s, int64_t step) {
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

tcc_status run_init_from(run *s, const char *path) {
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

tcc_status run_resume(run *s, const tcc_checkpoint *c) {
    arrays params = collect(s->model, tcc_model_param), state = collect(s->model, tcc_model_optimizer_state);
    tcc_status status = params.data && state.data ? TCC_OK : TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_safetensors_load(s->cx, tcc_checkpoint_params(c), params.data, params.count, 0);
    if (status == TCC_OK) status = load_state(s, c, state);
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
