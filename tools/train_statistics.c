/* SPDX-License-Identifier: MIT
 * Statistics of parameters and modules in the metrics of a run (training.statistics). */
#include "train_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of metrics that grows; names are its own. */
typedef struct line {
    tcc_metric *metrics;
    int count;
    bool failed;
} line;

static void add(line *l, const char *what, const char *of, double value) {
    const size_t size = strlen(what) + strlen(of) + 2;
    tcc_metric *more = realloc(l->metrics, ((size_t)l->count + 1) * sizeof *more);
    char *key = malloc(size);
    if (more) l->metrics = more;
    if (!more || !key) {
        free(key);
        l->failed = true;
        return;
    }
    snprintf(key, size, "%s/%s", what, of);
    l->metrics[l->count++] = (tcc_metric){key, value};
}

static void add_all(line *l, const tcc_statistic *s) {
    if (s->of_module) {
        add(l, "mean", s->name, s->mean);
        add(l, "std", s->name, s->std);
        add(l, "largest", s->name, s->largest);
        return;
    }
    add(l, "gradient_norm", s->name, s->gradient_norm);
    add(l, "gradient_largest", s->name, s->gradient_largest);
    add(l, "gradient_zeros", s->name, s->gradient_zeros);
    add(l, "weight_norm", s->name, s->weight_norm);
    add(l, "update_ratio", s->name, s->weight_norm > 0 ? s->update_norm / s->weight_norm : NAN);
}

/* What a recipe's models have is f32. */
static tcc_status write_histogram(run *s, int64_t step, const char *what, const tcc_array *a) {
    char key[512];
    int64_t count = 1;
    if (a->dtype != TCC_F32) return TCC_OK;
    for (int i = 0; i < a->rank; i++) count *= a->dims[i];
    snprintf(key, sizeof key, "%s/%s", what, a->name);
    return tcc_metrics_write_histogram(s->metrics, step, key, a->data, count);
}

static tcc_status write_histograms(run *s, int64_t step) {
    tcc_status status = TCC_OK;
    tcc_array p, gradient;
    for (int i = 0; status == TCC_OK && tcc_model_param(s->model, i, &p); i++) {
        if (!tcc_model_param_is_trained(s->model, i)) continue;
        status = write_histogram(s, step, "weights", &p);
        const tcc_status found = status == TCC_OK ? tcc_model_gradient(s->model, p.name, &gradient) : status;
        if (found == TCC_ENOTFOUND) continue; /* it is frozen */
        gradient.name = p.name;
        status = found == TCC_OK ? write_histogram(s, step, "gradients", &gradient) : found;
    }
    return status;
}

tcc_status run_write_statistics(run *s, int64_t step) {
    line l = {0};
    tcc_statistic one;
    tcc_status status = TCC_OK;
    for (int i = 0; status == TCC_OK; i++) {
        status = tcc_model_statistic(s->model, i, &one);
        if (status == TCC_OK) add_all(&l, &one);
    }
    if (status == TCC_ENOTFOUND) { /* past the last */
        tcc_context_clear_error(s->cx);
        status = l.failed ? TCC_ENOMEM : tcc_metrics_write(s->metrics, step, l.metrics, l.count);
    }
    if (l.failed)
        snprintf(s->problem, sizeof s->problem, "out of memory for the statistics of step %lld", (long long)step);
    if (status == TCC_OK) status = write_histograms(s, step);
    for (int i = 0; i < l.count; i++) free((char *)l.metrics[i].key);
    free(l.metrics);
    return status;
}
