/* SPDX-License-Identifier: MIT
 * The real cuDNN without a device: it plans for a GPU whose properties it is told (9.8 and newer). */
#ifndef TCC_TESTS_HARNESS_CUDNN_PLANNER_H
#define TCC_TESTS_HARNESS_CUDNN_PLANNER_H

#include "runtime/cuda/cudnn.h"

typedef struct cudnn_planner {
    const char *name; /* "sm_80" */
    tcc_cudnn cudnn;
} cudnn_planner;
/* For sm_80 and sm_90; on a machine with a device at most for its own architecture, as there the library loads what it
 * compiles for a plan. */
enum { CUDNN_PLANNERS = 2 };
extern cudnn_planner cudnn_planners[CUDNN_PLANNERS];
extern int n_cudnn_planners;

/* Of a group of tests: finds the library and tells it the devices. */
int cudnn_planners_open(void **state);
int cudnn_planners_close(void **state);
/* Whether they can plan; prints why not. */
bool cudnn_planners_available(void);

#endif
