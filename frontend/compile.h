/* SPDX-License-Identifier: MIT
 * A model behind the public handle: its parameters and its compiled programs. Private to the composition root (compile*.c). */
#ifndef TCC_FRONTEND_COMPILE_H
#define TCC_FRONTEND_COMPILE_H

#include "codegen/program.h"
#include "frontend/trace.h"
#include "passes/pass.h"
#include "passes/train_step.h"
#include "runtime/device.h"
#include "runtime/exec.h"
#include "traincc/model.h"

enum { TCC_DECAYED, TCC_NOT_DECAYED, TCC_DECAY_GROUPS }; /* parameter groups of the optimizer */

/* One compiled program and what it was compiled for. */
typedef struct tcc_compiled {
    tcc_arena arena; /* signature, names */
    bool train;
    int n_inputs;
    tcc_array *inputs; /* signature: names, types and shapes of the batch; data is not kept */
    tcc_graph *graph;  /* after the last pass */
    tcc_program *program;
    tcc_exec *exec;
    void **outputs; /* by binding: memory of OUTPUT bindings, owned; else NULL */
    int hyper, rng; /* bindings, or -1 */
    float *hyper_values;
    int64_t rng_values[2];
    tcc_manager_report passes;
    double trace_seconds, passes_seconds, codegen_seconds, total_seconds;
} tcc_compiled;

struct tcc_model {
    tcc_context *cx;
    tcc_model_fn fn;
    void *user;
    tcc_model_options options;
    char *dump_dir; /* copy of options.dump_dir, or NULL */
    tcc_device *device;
    tcc_store store;  /* parameters and buffers */
    tcc_store moments; /* optimizer state */
    tcc_vec(tcc_compiled *) programs;
    tcc_compiled *last; /* of the last run or compile; NULL before */
    int64_t step;
    double lr;
    bool profile;
};

/* The program for this signature, compiled now if need be. */
tcc_status tcc__model_compiled(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out);
/* Traces the model into a graph. */
tcc_status tcc__model_trace(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_graph **out);
/* Pass options for this model; `groups` is room for one entry a parameter of the graph. */
tcc_pass_options tcc__model_pass_options(const tcc_model *m, bool train, const tcc_graph *g, int *groups);
/* Checks that a planned graph and the state it brings fit the device. Errors: TCC_ENOMEM, which names the largest tensors. */
tcc_status tcc__model_fit(tcc_model *m, const tcc_graph *g);
/* Generates code for a planned graph; `dump_dir` may be NULL. */
tcc_status tcc__model_codegen(tcc_model *m, const tcc_graph *g, const char *dump_dir, tcc_program **out);
/* The hyper-parameter vector for training step `step` (from 1), TCC_HYPER_COUNT + 2 TCC_DECAY_GROUPS floats. */
void tcc__model_hyper(const tcc_model *m, int64_t step, float *out);

#endif
