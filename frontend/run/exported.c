/* SPDX-License-Identifier: MIT
 * Runs that answer: a plan with the programs, the weights of an export or of the newest checkpoint, and what was
 * learned from the training data, which is in the metadata of the weights' file. */
#include "traincc/run.h"

#include "frontend/run/model.h"
#include "runtime/files/file.h"
#include "traincc/checkpoint.h"
#include "traincc/plan.h"

#include <sys/mman.h>
#include <unistd.h>

struct tcc_run {
    tcc_context *cx;
    char *folder, *learned;
    tcc_model *model;
    tcc_dataset *data;
    char kind[32];
    int64_t batch_size, context; /* of its programs; context: of tokens, or 0 */
};

/* ---- opening ---- */

static tcc_status find_folder(tcc_run *run, const char *folder) {
    static const char *const below[] = {".", "export"};
    for (int i = 0; i < 2; i++) {
        char *base = tcc__path_join(folder, below[i]), *plan = base ? tcc__path_join(base, TCC_RUN_PLAN) : NULL;
        const bool found = plan && tcc__file_exists(plan);
        tcc__free(plan);
        if (!base || !plan) {
            tcc__free(base);
            return tcc_enomem(&run->cx->diag);
        }
        if (found) {
            run->folder = base;
            return TCC_OK;
        }
        tcc__free(base);
    }
    return tcc_error(&run->cx->diag, TCC_ENOTFOUND, (tcc_loc){folder, 0},
                     "has no " TCC_RUN_PLAN ", nor has a folder export in it; tcc-train export writes it");
}

/* `c`, which may be NULL, is the checkpoint that the file is of: averages of parameters are taken from there. */
static tcc_status load_weights(tcc_run *run, const tcc_safetensors *file, const tcc_checkpoint *c) {
    tcc_array a, *params;
    int count = 0;
    bool averages;
    while (tcc_model_param(run->model, count, &a)) count++;
    if (!(params = tcc__calloc((size_t)count + 1, sizeof *params))) return tcc_enomem(&run->cx->diag);
    for (int i = 0; i < count; i++) tcc_model_param(run->model, i, &params[i]);
    const unsigned flags = c ? TCC_LOAD_ALLOW_UNEXPECTED : 0; /* training may have more */
    tcc_status status = tcc_safetensors_load(run->cx, file, params, count, flags);
    if (status == TCC_OK && c) status = tcc_checkpoint_load_averages(run->cx, c, params, count, &averages);
    tcc__free(params);
    return status;
}

/* The shapes that its programs take say how data is cut. */
static void look_at_programs(tcc_run *run) {
    for (int i = 0; i < run->model->programs.count; i++) {
        const tcc_compiled *c = run->model->programs.data[i];
        if (c->train || !c->n_inputs || strcmp(c->inputs[0].name, "x") != 0) continue;
        const tcc_array *x = &c->inputs[0];
        run->batch_size = x->dims[0];
        if (x->dtype == TCC_I32 && x->rank == 2 && x->dims[1] > run->context) run->context = x->dims[1];
    }
}

static tcc_status open_samples(tcc_run *run, const char *path, tcc_dataset **out) {
    const tcc_data_options o = {.size = sizeof o,
                                .kind = run->kind,
                                .val_path = path,
                                .context = run->context,
                                .learned = run->learned,
                                .unlabelled = path != NULL};
    return tcc_dataset_open(run->cx, &o, out);
}

/* `learned` and `kind` are from the metadata of the file `path`, and NULL where it lacks them. */
static tcc_status take_learned(tcc_run *run, const char *path, const char *learned, const char *kind) {
    if (!learned || !kind || strlen(kind) >= sizeof run->kind)
        return tcc_error(&run->cx->diag, TCC_EFORMAT, (tcc_loc){path, 0},
                         "does not say what was learned from the training data; tcc-train export writes it");
    strcpy(run->kind, kind);
    return (run->learned = tcc__strdup(learned)) ? TCC_OK : tcc_enomem(&run->cx->diag);
}

static tcc_status open_file(tcc_run *run, const char *path) {
    tcc_safetensors *file;
    TCC_TRY(tcc_safetensors_open(run->cx, path, &file));
    tcc_status status = take_learned(run, path, tcc_safetensors_metadata(file, TCC_RUN_LEARNED),
                                     tcc_safetensors_metadata(file, TCC_RUN_KIND));
    if (status == TCC_OK) status = load_weights(run, file, NULL);
    tcc_safetensors_close(file);
    return status;
}

static tcc_status open_newest(tcc_run *run, const char *checkpoints) {
    tcc_checkpoint *c;
    TCC_TRY(tcc_checkpoint_open(run->cx, checkpoints, &c));
    tcc_status status = take_learned(run, tcc_checkpoint_path(c), tcc_checkpoint_value(c, TCC_RUN_LEARNED),
                                     tcc_checkpoint_value(c, TCC_RUN_KIND));
    if (status == TCC_OK) status = load_weights(run, tcc_checkpoint_params(c), c);
    tcc_checkpoint_close(c);
    return status;
}

static tcc_status open_all(tcc_run *run, const char *folder) {
    TCC_TRY(find_folder(run, folder));
    char *plan = tcc__path_join(run->folder, TCC_RUN_PLAN), *weights = tcc__path_join(run->folder, TCC_RUN_WEIGHTS),
         *checkpoints = tcc__path_join(run->folder, TCC_RUN_CHECKPOINTS);
    tcc_status status = plan && weights && checkpoints ? TCC_OK : tcc_enomem(&run->cx->diag);
    if (status == TCC_OK) status = tcc_model_load_plan(run->cx, plan, NULL, &run->model);
    if (status == TCC_OK) {
        look_at_programs(run);
        const bool is_training = !tcc__file_exists(weights) && tcc__file_exists(checkpoints);
        status = is_training ? open_newest(run, checkpoints) : open_file(run, weights);
    }
    if (status == TCC_OK) status = open_samples(run, NULL, &run->data);
    tcc__free(plan);
    tcc__free(weights);
    tcc__free(checkpoints);
    return status;
}

tcc_status tcc_run_open(tcc_context *cx, const char *folder, tcc_run **out) {
    tcc_diag_begin(&cx->diag);
    *out = NULL;
    tcc_run *run = tcc__calloc(1, sizeof *run);
    if (!run) return tcc_enomem(&cx->diag);
    run->cx = cx;
    const tcc_status status = open_all(run, folder);
    if (status == TCC_OK) *out = run;
    else tcc_run_close(run);
    return status;
}

void tcc_run_close(tcc_run *run) {
    if (!run) return;
    tcc_dataset_close(run->data);
    tcc_model_destroy(run->model);
    tcc__free(run->folder);
    tcc__free(run->learned);
    tcc__free(run);
}

const tcc_dataset *tcc_run_data(const tcc_run *run) { return run->data; }
tcc_model *tcc_run_model(const tcc_run *run) { return run->model; }

/* ---- use ---- */

tcc_status tcc_run_predict(tcc_run *run, const char *path, tcc_answer_fn fn, void *user) {
    tcc_dataset *data;
    const tcc_predict_options how = {.size = sizeof how, .batch_size = run->batch_size};
    TCC_TRY(open_samples(run, path, &data));
    const tcc_status status = tcc_model_predict(run->cx, run->model, data, &how, fn, user);
    tcc_dataset_close(data);
    return status;
}

static bool write_all(int fd, const char *bytes, size_t size) {
    for (ssize_t n; size; bytes += n, size -= (size_t)n)
        if ((n = write(fd, bytes, size)) <= 0) return false;
    return true;
}

tcc_status tcc_run_predict_bytes(tcc_run *run, const void *bytes, size_t size_bytes, tcc_answer_fn fn, void *user) {
    char path[32];
    tcc_diag_begin(&run->cx->diag);
    const int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || !write_all(fd, bytes, size_bytes)) {
        if (fd >= 0) close(fd);
        return tcc_enomem(&run->cx->diag);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const tcc_status status = tcc_run_predict(run, path, fn, user);
    close(fd);
    return status;
}

tcc_status tcc_run_generate(tcc_run *run, const tcc_generate_options *options, tcc_generate_fn fn, void *user,
                            int64_t *count) {
    return tcc_generate(run->cx, run->model, run->data, options, fn, user, count);
}
