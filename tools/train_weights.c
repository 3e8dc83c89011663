/* SPDX-License-Identifier: MIT
 * The weights that are evaluated and predicted with. */
#include "train_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tcc_status load(run *s, const tcc_safetensors *file) {
    const bool averages = s->recipe->training.ema_decay > 0;
    int count = 0;
    tcc_array a, *params;
    while (tcc_model_param(s->model, count, &a)) count++;
    if (!(params = calloc((size_t)count + 1, sizeof *params))) return TCC_ENOMEM;
    for (int i = 0; i < count; i++) tcc_model_param(s->model, i, &params[i]);
    bool found = averages && !s->checkpoint;                          /* a file of its own has what was evaluated */
    const unsigned flags = s->pixels ? TCC_LOAD_ALLOW_UNEXPECTED : 0; /* heads that only training has */
    tcc_status status = tcc_safetensors_load(s->cx, file, params, count, flags);
    if (status == TCC_OK && averages && s->checkpoint)
        status = tcc_checkpoint_load_averages(s->cx, s->checkpoint, params, count, &found);
    s->weights = found ? "averages (training.ema_decay)" : "as trained";
    free(params);
    return status;
}

/* Whether `path` is a checkpoint, whose state lies beside it. */
static bool is_checkpoint(const char *path) {
    const char *slash = strrchr(path, '/');
    return !strncmp(slash ? slash + 1 : path, "step-", 5);
}

const char *run_weights_learned(const run *s) {
    if (s->checkpoint) return tcc_checkpoint_value(s->checkpoint, TCC_RUN_LEARNED);
    return s->parameters ? tcc_safetensors_metadata(s->parameters, TCC_RUN_LEARNED) : NULL;
}

tcc_status run_open_weights(run *s) {
    const char *path = s->options->weights;
    tcc_status status = !path || is_checkpoint(path)
                            ? tcc_checkpoint_open(s->cx, path ? path : s->folder.checkpoints, &s->checkpoint)
                            : tcc_safetensors_open(s->cx, path, &s->parameters);
    if (status == TCC_OK && !run_weights_learned(s))
        fputs("tcc-train: this run did not keep what it learned from its data, so the training data is read again; if "
              "that has changed, the answers are wrong\n",
              stderr);
    return status;
}

tcc_status run_load_weights(run *s) {
    if (s->checkpoint) {
        s->first_step = tcc_checkpoint_step(s->checkpoint);
        return load(s, tcc_checkpoint_params(s->checkpoint));
    }
    const char *step = tcc_safetensors_metadata(s->parameters, "traincc.step");
    s->first_step = step ? strtoll(step, NULL, 10) : 0;
    return load(s, s->parameters);
}
