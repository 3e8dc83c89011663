/* SPDX-License-Identifier: MIT
 * What a run has left in its folder, read back. */
#ifndef TCC_TOOLS_RUN_RECORD_H
#define TCC_TOOLS_RUN_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* A metric: its values by step, in the order of the file. */
typedef struct record_metric {
    char *name;
    double *step, *value;
    int64_t count, room;
} record_metric;

/* The launches of a step that are of one kernel's kind. */
typedef struct record_kernel {
    char *ops, *how, *lines; /* of the first of them */
    int64_t launches;
    double us, flop, bytes;
} record_kernel;

typedef struct run_record {
    const char *folder; /* borrowed */
    record_metric *metrics;
    int n_metrics;
    char *recipe, *memory_svg; /* texts; NULL: there is none */
    record_kernel *kernels;    /* the slowest first; none without a profile */
    int n_kernels;
    double flop_per_s, bytes_per_s; /* of the device; 0: not known */
} run_record;

/* Reads RUN/metrics.jsonl, and, where they are, recipe.yaml, profile.json and memory.svg. False with the reason in
 * error[error_size]; the record is freed in any case. */
bool record_read(run_record *r, const char *folder, char *error, int error_size);
void record_free(run_record *r);

/* NULL: the run has no such metric. */
const record_metric *record_find(const run_record *r, const char *name);

#endif
