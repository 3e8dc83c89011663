/* SPDX-License-Identifier: MIT
 * The real cuDNN without a device: it plans for a GPU whose properties it is told (9.8 and newer). */
#ifndef TCC_TESTS_HARNESS_CUDNN_PLANNER_H
#define TCC_TESTS_HARNESS_CUDNN_PLANNER_H

#include "runtime/cuda/cudnn.h"

enum { CUDNN_PLANNERS = 2 };
typedef struct cudnn_planner {
    const char *name; /* "sm_80" */
    tcc_cudnn cudnn;
} cudnn_planner;
extern cudnn_planner cudnn_planners[CUDNN_PLANNERS];

/* Of a group of tests: finds the library and tells it the devices. */
int cudnn_planners_open(void **state);
int cudnn_planners_close(void **state);
/* Whether they can plan; prints why not. */
bool cudnn_planners_available(void);

#endif
