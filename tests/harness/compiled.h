/* SPDX-License-Identifier: MIT
 * Graphs compiled, run on the CPU and compared with the interpreter. */
#ifndef TCC_TESTS_HARNESS_COMPILED_H
#define TCC_TESTS_HARNESS_COMPILED_H

#include "codegen/build.h"
#include "ir/eval.h"
#include "runtime/exec.h"

typedef struct compiled_options {
    bool eager;       /* each op its own kernel */
    bool simplify;    /* run simplify first */
    double low, high; /* range of float inputs; both 0: -1 .. 1 */
    int64_t limit;    /* integer inputs are -1 .. limit; 0: 8 */
    double tolerance; /* allowed error over (1 + |expected|); 0: 2e-5 */
    bool exact;       /* none: the bits of tcc_graph_eval_rounded */
    uint64_t seed;
    bool generated;          /* inputs by tcc_random_input with `seed`, for a graph that it made */
    const tcc_value *inputs; /* not NULL: the inputs themselves */
    const char *dump_dir;
    bool align_all;                      /* as in tcc_pass_options */
    bool operand_sums;                   /* a library does: sums_operands of tcc_pass_target */
    bool tf32;                           /* as of tcc_codegen_options, like these */
    const struct tcc_hardware *hardware; /* of the GPU; NULL: usual ones */
    int64_t most_narrow;                 /* as of tcc_llvm_target, on a GPU; 0: as usual */
    bool (*takes_call)(void *user, const char *name, int64_t *params);
    void *takes_call_user;
    const char *prefer; /* implementations whose names begin so are taken where they are offered, whatever they are
                           predicted to cost */
    const char *edits;  /* "lanes=4,-points_1": what is changed in parameters of choices in the text after select */
    int variation;      /* from 1: the choice of one group is varied so (tcc_selector_vary); 0: none is */
    int *variations;    /* not NULL: gets how many there are */
    enum {
        NO_LIBRARY_NORMS,
        WORTHY_LIBRARY_NORMS,
        ALL_LIBRARY_NORMS
    } norms; /* batch norms that are asked for as calls */
} compiled_options;

/* A program with memory bound to everything. */
typedef struct compiled {
    tcc_context cx;
    tcc_graph *graph; /* with groups and places */
    tcc_program *program;
    tcc_device *device;
    tcc_exec *exec;
    void **memory; /* by binding */
} compiled;

/* Goes on with so many threads; the memory stays. */
void compiled_use_threads(compiled *c, int threads);

/* Decomposes, fuses, plans and compiles a copy of `g` for a target; fails the test on an error. */
void compiled_build(const tcc_graph *g, const compiled_options *options, const struct tcc_llvm_target *target,
                    tcc_context *cx, tcc_graph **graph, tcc_program **program);
/* `edits` in the text of a graph after select; the caller frees it. Fails the test where a parameter is not there. */
char *edit_choices(const char *text, const char *edits);
/* The same, with memory, on this machine. */
compiled *compiled_create(const tcc_graph *g, const compiled_options *options);
void compiled_destroy(compiled *c);
/* Runs once; fails the test on an error. */
void compiled_run(compiled *c);
/* Compiles `g`, fills the inputs, the first with seed 1, and runs once. */
compiled *compiled_run_filled(const tcc_graph *g, const compiled_options *options,
                              void (*fill)(tcc_value *v, uint64_t seed));
/* The memory that holds output `output` of the graph after a run. */
const void *compiled_output(const compiled *c, int output);

/* The binding that holds output `output` after a run of a graph's program. */
int compiled_output_binding(const tcc_graph *graph, int output);
/* Fails the test where packed memory differs from what the interpreter gave for that output. */
void compiled_compare(const tcc_output *output, const void *memory, const tcc_value *expected,
                      const compiled_options *options);

/* What the interpreter gives for the outputs of `g`, as `options` say; the caller frees them with free_values. */
tcc_value *expected_outputs(const tcc_graph *g, const tcc_value *inputs, const compiled_options *options);

/* Random values for all inputs of `g`, created; the caller frees them with free_values. */
tcc_value *random_inputs(const tcc_graph *g, const compiled_options *options);
void free_values(tcc_value *values, int count);

/* Whatever compiles a graph, runs it and compares with the interpreter. */
typedef void graph_check(const tcc_graph *g, const compiled_options *options);

/* The same without comparing: gives the memory of each output, which the caller frees with free. */
typedef void graph_run(const tcc_graph *g, const tcc_value *inputs, const compiled_options *options, void **outputs);
void run_compiled(const tcc_graph *g, const tcc_value *inputs, const compiled_options *options, void **outputs);

/* Runs what was compiled of `g` from poisoned scratch with one thread and with two, compares with the interpreter, and
 * requires equal bits of both runs. check_compiled compiles it first. */
void compiled_check(compiled *c, const tcc_graph *g, const compiled_options *options);
void check_compiled(const tcc_graph *g, const compiled_options *options);
/* Runs with one thread, with two ... with `most`, from poisoned scratch: all outputs have the same bits. */
void check_threads(const tcc_graph *g, const compiled_options *options, int most);
/* Compiles `g`, runs it, and allows each output the noise of rounding (ir/noise.h) with disturbances of `factor`. */
void check_within_noise(const tcc_graph *g, const compiled_options *options, double factor);
/* As check_compiled, from text. */
void check_text(const char *text, const compiled_options *options);

/* How often a text is in the code of a graph called @rows for a CPU. Writes files in the working directory. */
int count_in_code(tcc_graph *g, const char *cpu, const char *text);

#endif
