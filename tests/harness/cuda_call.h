/* SPDX-License-Identifier: MIT
 * Library calls on a CUDA device: programs of one call, and graphs compiled so that the device's libraries are asked.
 */
#ifndef TCC_TESTS_HARNESS_CUDA_CALL_H
#define TCC_TESTS_HARNESS_CUDA_CALL_H

#include "codegen/program.h"
#include "harness/compiled.h"
#include "harness/cuda_device.h"

/* A program with one library step, all of whose buffers but the last, the workspace, are bindings; the last `n_outputs`
 * are outputs. */
typedef struct call_shape {
    const char *entry;
    int n_params, n_buffers, n_outputs; /* n_buffers: without the workspace */
    tcc_type types[RIG_BINDINGS];
    int64_t workspace_bytes;
} call_shape;

/* For rig_start. */
tcc_program *call_program(const call_shape *shape, const int64_t *params);
/* Lines of a topic's log are added to `lines` from now on. */
void keep_log(tcc_context *cx, tcc_topic topic, tcc_strbuf *lines);
/* Whether there is a device whose library takes the program of one call; says why not. Takes the program. */
bool call_available(tcc_program *owned);
/* A program of one call is refused with `status` and `words`; codegen, which asks before, is told that the call is not
 * taken, its params as they were, and the log why. Takes the program. */
void check_call_refused(tcc_program *owned, tcc_status status, const char *words);
/* The device that was to run the program, which its libraries may refuse, says `words` of itself and them. Takes the
 * program. */
void check_device_described(tcc_program *owned, const char *words);
int64_t rig_bytes(const rig *r, int binding);
/* Other memory for a binding, with what it held. */
void rig_move(rig *r, int binding);

/* Compiles the graph for the device, asking its libraries, runs it and compares with the interpreter; `calls` of its
 * steps are libraries', of `steps` in all (-1: any number). Fails the test with the list of steps. */
void check_graph_on_cuda(const char *text, const compiled_options *options, int calls, int steps);

/* Element i of memory of f64, f32, f16 or bf16. */
double call_value_at(const void *data, int64_t dtype, int64_t i);
/* `count` such elements in [-1, 1); the caller frees them. */
void *call_random_data(int64_t dtype, int64_t count, uint32_t seed);

#endif
