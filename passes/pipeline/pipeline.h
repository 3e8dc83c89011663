/* SPDX-License-Identifier: MIT
 * The standard pipeline as a table, for the manager that runs it. */
#ifndef TCC_PASSES_PIPELINE_PIPELINE_H
#define TCC_PASSES_PIPELINE_PIPELINE_H

#include "passes/pass.h"

typedef enum tcc_pass_when {
    TCC_WHEN_ALWAYS,
    TCC_WHEN_AMP,
    TCC_WHEN_TRAINING,
    TCC_WHEN_GRADIENTS,
    TCC_WHEN_RANKS,
    TCC_WHEN_FUSING,
    TCC_WHEN_VECTORS,
    TCC_WHEN_ALIGNED,
    TCC_WHEN_PLACES,
    TCC_WHEN_NORMS,
    TCC_WHEN_STAGES,
    TCC_WHEN_REMAT,
    TCC_WHEN_TARGET,
} tcc_pass_when;

typedef struct tcc_pipeline_step {
    tcc_pass_id pass;
    tcc_pass_when when;
    bool optional; /* TCC_SKIP may leave it out: the program stays right without it */
} tcc_pipeline_step;

extern const tcc_pipeline_step tcc_pipeline_steps[];
extern const int tcc_pipeline_count;

#endif
