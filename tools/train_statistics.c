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
    for (int i = 0; i < l.count; i++) free((char *)l.metrics[i].key);
    free(l.metrics);
    return status;
}
