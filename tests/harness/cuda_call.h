/* SPDX-License-Identifier: MIT
 * Library calls on a CUDA device: programs of one call, and graphs compiled so that the device's libraries are asked. */
#ifndef TCC_TESTS_HARNESS_CUDA_CALL_H
#define TCC_TESTS_HARNESS_CUDA_CALL_H

#include "codegen/program.h"
#include "harness/compiled.h"
#include "harness/cuda_device.h"

/* A program with one library step, all of whose buffers but the last, the workspace, are bindings; the last `n_outputs` are outputs. */
typedef struct call_shape {
    const char *entry;
    int n_params, n_buffers, n_outputs; /* n_buffers: without the workspace */
    tcc_type types[RIG_BINDINGS];
    int64_t workspace_bytes;
} call_shape;

/* For rig_start. */
tcc_program *call_program(const call_shape *shape, const int64_t *params);
int64_t rig_bytes(const rig *r, int binding);
/* Other memory for a binding, with what it held. */
void rig_move(rig *r, int binding);

/* Compiles the graph for the device, asking its libraries, runs it and compares with the interpreter; `calls` of its steps are
 * libraries', of `steps` in all (-1: any number). Fails the test with the list of steps. */
void check_graph_on_cuda(const char *text, const compiled_options *options, int calls, int steps);

#endif
