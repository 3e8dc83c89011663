/* SPDX-License-Identifier: MIT
 * What a run has left in its folder, read back. */
#ifndef TCC_TOOLS_RUN_RECORD_H
#define TCC_TOOLS_RUN_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECORD_POINTS = 4096, RECORD_EVENLY = 1024, RECORD_PICTURES = 3 };

/* A metric: its values by step, in the order of the file; of many as many as a picture shows, with the extremes of
 * their neighbourhoods. */
typedef struct record_metric {
    char *name;
    double *step, *value;
    int64_t count, room;
    double last_step, last, least, most; /* of all values; NaN: none is finite */
    double *evenly;                      /* every so many values, for what is usual */
    int64_t n_evenly, stride, seen;
} record_metric;

/* The launches of a step that are of one kernel's kind. */
typedef struct record_kernel {
    char *ops, *how, *lines; /* of the first of them */
    int64_t launches;
    double us, flop, bytes;
} record_kernel;

/* A file of PNG. */
typedef struct record_picture {
    char *bytes;
    size_t size;
} record_picture;

typedef struct run_record {
    const char *folder; /* borrowed */
    record_metric *metrics;
    int n_metrics;
    char *recipe, *memory_svg, *data;         /* texts; NULL: there is none */
    record_picture pictures[RECORD_PICTURES]; /* image, label and prediction side by side */
    int n_pictures;
    record_kernel *kernels; /* the slowest first; none without a profile */
    int n_kernels;
    double flop_per_s, bytes_per_s; /* of the device; 0: not known */
} run_record;

/* Reads RUN/metrics.jsonl, and, where they are, recipe.yaml, dataset.txt, profile.json, memory.svg and pictures. False
 * with the reason in error[error_size]; the record is freed in any case. */
bool record_read(run_record *r, const char *folder, char *error, int error_size);
void record_free(run_record *r);

/* What half of the values are below; NaN: there is no such metric, or none is finite. */
double record_median(const run_record *r, const char *name);
/* NULL: the run has no such metric. */
const record_metric *record_find(const run_record *r, const char *name);

#endif
