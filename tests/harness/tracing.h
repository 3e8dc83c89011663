/* SPDX-License-Identifier: MIT
 * A trace of a training function, for tests of what it records. */
#ifndef TCC_TESTS_HARNESS_TRACING_H
#define TCC_TESTS_HARNESS_TRACING_H

#include "frontend/trace.h"

typedef struct tracing {
    tcc_context cx;
    tcc_store store;
    tcc_trace trace;
} tracing;

/* Begins one with a batch of `count` arrays. Returns what a setup of cmocka does, as tracing_end does of a teardown. */
int tracing_begin(tracing *t, const tcc_array *batch, int count);
/* Ends it, unless the test has, and frees all of it. */
int tracing_end(tracing *t);

#endif
