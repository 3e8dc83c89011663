/* SPDX-License-Identifier: MIT
 * training.average_best: the parameters of the best evaluations are kept, a file each, and their mean is made of them
 * at the end. The files alone say which there are, so a resumed run goes on with them. */
#include "train_run.h"

#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- The files -- */

typedef struct kept {
    const char *path;
    int64_t step;
    double metric;
} kept;

typedef struct kept_list {
    glob_t found; /* that paths are of */
    kept *v;
    int count;
} kept_list;

static void free_list(kept_list *l) {
    globfree(&l->found);
    free(l->v);
}

/* One that cannot be read was half written when an earlier run ended. */
static bool read_kept(run *s, const char *path, kept *out) {
    tcc_safetensors *file;
    if (tcc_safetensors_open(s->cx, path, &file) != TCC_OK) {
        tcc_context_clear_error(s->cx);
        return false;
    }
    const char *step = tcc_safetensors_metadata(file, "traincc.step"),
               *metric = tcc_safetensors_metadata(file, run_best_metric(s));
    const bool known = step && metric;
    if (known) *out = (kept){path, strtoll(step, NULL, 10), strtod(metric, NULL)};
    tcc_safetensors_close(file);
    return known;
}

/* Those of steps before `step`; others are of a run that went on differently, and are removed. */
static tcc_status list_kept(run *s, int64_t step, kept_list *out) {
    char *pattern = NULL;
    *out = (kept_list){0};
    if (asprintf(&pattern, "%s/top-*.safetensors", s->folder.checkpoints) < 0) return TCC_ENOMEM;
    glob(pattern, GLOB_NOSORT, NULL, &out->found);
    free(pattern);
    if (!(out->v = calloc(out->found.gl_pathc + 1, sizeof *out->v))) return TCC_ENOMEM;
    for (size_t i = 0; i < out->found.gl_pathc; i++) {
        kept *k = &out->v[out->count];
        if (read_kept(s, out->found.gl_pathv[i], k) && k->step < step) out->count++;
        else unlink(out->found.gl_pathv[i]);
    }
    return TCC_OK;
}

tcc_status run_keep_top(run *s, int64_t step, double metric, bool larger_is_better) {
    const int64_t most = s->recipe->training.average_best;
    kept_list list;
    char *path = NULL;
    if (!most || !isfinite(metric)) return TCC_OK;
    tcc_status status = list_kept(s, step, &list);
    const kept *worst = NULL;
    for (int i = 0; i < list.count && status == TCC_OK; i++)
        if (!worst || (larger_is_better ? list.v[i].metric < worst->metric : list.v[i].metric > worst->metric))
            worst = &list.v[i];
    const bool full = list.count >= most;
    const bool better = !full || (larger_is_better ? metric > worst->metric : metric < worst->metric);
    if (status == TCC_OK && better) {
        if (asprintf(&path, "%s/top-%06" PRId64 ".safetensors", s->folder.checkpoints, step) < 0) path = NULL;
        status = path ? run_write_parameters(s, path, step, metric) : TCC_ENOMEM;
    }
    if (status == TCC_OK && better && full) unlink(worst->path);
    free(path);
    free_list(&list);
    return status;
}

/* -- Their mean -- */

static int64_t count_of(const tcc_array *a) {
    int64_t count = 1;
    for (int i = 0; i < a->rank; i++) count *= a->dims[i];
    return count;
}

/* A parameter's mean over all files, of f32; others are as in the first. */
static tcc_status average(run *s, const kept_list *list, const tcc_array *parameter) {
    const int64_t count = count_of(parameter);
    tcc_array to = *parameter;
    double *sums = calloc((size_t)count + 1, sizeof *sums);
    float *values = malloc(((size_t)count + 1) * sizeof(double));
    tcc_status status = sums && values ? TCC_OK : TCC_ENOMEM;
    to.data = values;
    for (int i = 0; i < list->count && status == TCC_OK; i++) {
        tcc_safetensors *file;
        if (i && to.dtype != TCC_F32) break;
        if ((status = tcc_safetensors_open(s->cx, list->v[i].path, &file)) != TCC_OK) break;
        status = tcc_safetensors_load(s->cx, file, &to, 1, TCC_LOAD_ALLOW_UNEXPECTED);
        for (int64_t k = 0; k < count && status == TCC_OK && to.dtype == TCC_F32; k++) sums[k] += (double)values[k];
        tcc_safetensors_close(file);
    }
    for (int64_t k = 0; k < count && status == TCC_OK && to.dtype == TCC_F32; k++)
        values[k] = (float)(sums[k] / list->count);
    if (status == TCC_OK) status = tcc_model_set_param(s->model, &to);
    free(sums);
    free(values);
    return status;
}

tcc_status run_average_best(run *s) {
    kept_list list;
    tcc_array parameter;
    char *path = NULL;
    double metric = NAN;
    if (!s->recipe->training.average_best || *s->interrupted) return TCC_OK;
    tcc_status status = list_kept(s, INT64_MAX, &list);
    for (int i = 0; status == TCC_OK && list.count && tcc_model_param(s->model, i, &parameter); i++)
        status = average(s, &list, &parameter);
    if (status == TCC_OK && list.count) {
        if (!s->options->quiet) printf("average of the %d best:\n", list.count);
        status = run_evaluate_average(s, &metric);
        if (asprintf(&path, "%s/average.safetensors", s->folder.checkpoints) < 0) path = NULL;
        if (status == TCC_OK)
            status = path ? run_write_parameters(s, path, tcc_model_step(s->model), metric) : TCC_ENOMEM;
    }
    free(path);
    free_list(&list);
    return status;
}
