/* SPDX-License-Identifier: MIT
 * Library calls on a CUDA device: programs of one call, and graphs compiled so that the device's libraries are asked. */
#ifndef TCC_TESTS_HARNESS_CUDA_CALL_H
#define TCC_TESTS_HARNESS_CUDA_CALL_H

#include "codegen/program.h"
#include "harness/compiled.h"

enum { CUDA_CALL_BUFFERS = 16 };

/* A program with one library step, all of whose buffers but the last, the workspace, are bindings; the last `n_outputs` are outputs. */
typedef struct cuda_call_shape {
    const char *entry;
    int n_params, n_buffers, n_outputs; /* n_buffers: without the workspace */
    tcc_type types[CUDA_CALL_BUFFERS];
    int64_t workspace_bytes;
} cuda_call_shape;

typedef struct cuda_call {
    tcc_context cx;
    tcc_device *device;
    tcc_program *program;
    tcc_exec *exec;
    void *memory[CUDA_CALL_BUFFERS];
} cuda_call;

/* Opens the device, and the program with memory for its bindings; undone by stop whatever it returns. The error is in cx.diag. */
tcc_status cuda_call_start(cuda_call *c, const cuda_call_shape *shape, const int64_t *params);
void cuda_call_stop(cuda_call *c);
int64_t cuda_call_bytes(const cuda_call *c, int buffer);
/* Other memory for a buffer, with what it held. */
void cuda_call_move(cuda_call *c, int buffer);

/* Compiles the graph for the device, asking its libraries, runs it and compares with the interpreter; `calls` of its steps are
 * libraries', of `steps` in all (-1: any number). Fails the test with the list of steps. */
void check_graph_on_cuda(const char *text, const compiled_options *options, int calls, int steps);

#endif
