/* SPDX-License-Identifier: MIT
 * Metrics of an evaluation. */
#include "eval_metrics.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char *const keys[] = {"val_loss", "val_accuracy", "val_top5", "val_perplexity", "val_f1", "val_mean_iou"};
enum { KEYS = sizeof keys / sizeof keys[0] };

const char *eval_key(eval_metric metric) { return (int)metric < (int)KEYS ? keys[metric] : NULL; }

eval_metric eval_find(const char *name) {
    for (int i = 0; i < KEYS; i++)
        if (!strcmp(keys[i] + strlen("val_"), name)) return (eval_metric)i;
    return EVAL_METRICS;
}

bool eval_larger_is_better(eval_metric metric) { return metric != EVAL_LOSS && metric != EVAL_PERPLEXITY; }

bool eval_needs_confusion(eval_metric metric) {
    return metric == EVAL_F1 || metric == EVAL_MEAN_IOU || metric == EVAL_CLASS_IOU;
}

typedef struct counts {
    double hits, targets, answers;
} counts;

static counts count(const eval_sums *s, int64_t class) {
    counts c = {.hits = s->confusion[class * s->classes + class]};
    for (int64_t i = 0; i < s->classes; i++) {
        c.targets += s->confusion[class * s->classes + i];
        c.answers += s->confusion[i * s->classes + class];
    }
    return c;
}

static double class_f1(const eval_sums *s, int64_t class) {
    const counts c = count(s, class);
    return 2 * c.hits / (c.targets + c.answers);
}

double eval_class_iou(const eval_sums *s, int64_t class) {
    const counts c = count(s, class);
    return c.hits / (c.targets + c.answers - c.hits);
}

static double mean_of_classes(const eval_sums *s, double (*value)(const eval_sums *, int64_t)) {
    double sum = 0, n = 0;
    for (int64_t i = 0; i < s->classes; i++) {
        const double v = value(s, i);
        if (isnan(v)) continue;
        sum += v;
        n++;
    }
    return sum / n;
}

double eval_value(const eval_sums *s, eval_metric metric) {
    switch (metric) {
    case EVAL_LOSS: return s->loss / s->samples;
    case EVAL_PERPLEXITY: return exp(s->loss / s->samples);
    case EVAL_ACCURACY: return s->correct / s->labels;
    case EVAL_TOP5: return s->top5 / s->labels;
    case EVAL_F1: return s->confusion ? mean_of_classes(s, class_f1) : NAN;
    case EVAL_MEAN_IOU: return s->confusion ? mean_of_classes(s, eval_class_iou) : NAN;
    default: return NAN;
    }
}
