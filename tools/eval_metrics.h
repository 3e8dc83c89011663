/* SPDX-License-Identifier: MIT
 * What an evaluation is told in: numbers made of the sums that the device has counted. */
#ifndef TCC_TOOLS_EVAL_METRICS_H
#define TCC_TOOLS_EVAL_METRICS_H

#include <stdbool.h>
#include <stdint.h>

/* In the order of EVAL_CHOICES. CLASS_IOU is a number for each class, the others are one. */
typedef enum eval_metric {
    EVAL_LOSS,
    EVAL_ACCURACY,
    EVAL_TOP5,
    EVAL_PERPLEXITY,
    EVAL_F1,
    EVAL_MEAN_IOU,
    EVAL_CLASS_IOU,
    EVAL_METRICS
} eval_metric;
#define EVAL_SINGLE_CHOICES "loss|accuracy|top5|perplexity|f1|mean_iou"
#define EVAL_CHOICES EVAL_SINGLE_CHOICES "|class_iou"

typedef struct eval_sums {
    double loss, samples;         /* loss: of all samples together */
    double labels, correct, top5; /* labels: as many as there are targets, as the tokens of a text */
    int64_t classes;
    double *confusion; /* [class][what was taken for it]; NULL: not counted */
} eval_sums;

/* "val_loss", ...; CLASS_IOU has none. */
const char *eval_key(eval_metric metric);
/* The one whose name, without "val_", is `name`; EVAL_METRICS: there is none. */
eval_metric eval_find(const char *name);
bool eval_larger_is_better(eval_metric metric);
bool eval_needs_confusion(eval_metric metric);
/* F1 is the mean of the classes' own, IoU too: over the classes that occur, as targets or as answers. NaN where there
 * is nothing to tell it from. */
double eval_value(const eval_sums *s, eval_metric metric);
/* What a class and the answers for it have in common, as a share of both together; NaN where there is neither. */
double eval_class_iou(const eval_sums *s, int64_t class);

#endif
