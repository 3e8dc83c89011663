/* SPDX-License-Identifier: MIT
 * Programs for a GPU run through the driver's API, and compared with the interpreter. The driver is whatever
 * libcuda.so.1 the loader finds: a machine's own, or the stand-in. */
#ifndef TCC_TESTS_HARNESS_GPU_PROGRAM_H
#define TCC_TESTS_HARNESS_GPU_PROGRAM_H

#include "harness/compiled.h"

#include <stdint.h>

/* A program loaded, with memory for everything. */
typedef struct gpu_program {
    tcc_context cx;
    tcc_graph *graph; /* with groups and places */
    tcc_program *program;
    uint64_t arena, constants, *bindings;           /* device addresses */
    void **modules, **functions, **table_functions; /* the latter by kernel */
    unsigned most_blocks;                           /* of a grid; 0: one for each block of items */
    bool may_be_too_large; /* a block may need more than a processor has: the driver's to say, for a measurement */
    bool too_large;        /* and that was so */
} gpu_program;

/* Whether there is a driver with a device; prints why not. The stand-in for one has a small memory. */
bool gpu_available(void);
/* The stand-in starts again as a device of that compute capability, which check_gpu compiles for from now on. false: it
 * is a machine's own driver. */
bool gpu_become(int sm);

/* Decomposes, fuses, plans, compiles for `arch` and loads; fails the test on an error. */
gpu_program *gpu_program_create(const tcc_graph *g, const compiled_options *options, const char *arch);
void gpu_program_destroy(gpu_program *p);
void gpu_program_upload(gpu_program *p, int binding, const void *from);
void gpu_program_download(gpu_program *p, int binding, void *to);
void gpu_program_run(gpu_program *p); /* and waits */

/* Compiles `g` for a GPU, runs it with grids of two sizes, once in poisoned memory, compares with the interpreter and
 * requires equal bits of both runs. */
void check_gpu(const tcc_graph *g, const compiled_options *options);
void run_gpu(const tcc_graph *g, const tcc_value *inputs, const compiled_options *options, void **outputs);
void check_gpu_text(const char *text, const compiled_options *options);
/* How many launches and calls that graph is on sm_90. */
int gpu_steps_of_text(const char *text, const compiled_options *options);

/* What kernels of a schedule are known to spill, and why that is left so. */
typedef struct gpu_spill {
    const char *schedule; /* NULL: the end of a list */
    long bytes;
    const char *why;
    const char *arch; /* where it does; NULL: anywhere */
} gpu_spill;

/* Assembles every module for `arch` where there is a ptxas, and fails the test on its errors. Returns the bytes of
 * registers that it spills in the worst kernel, -1 where there is no ptxas. */
long gpu_assemble(const tcc_program *program, const char *arch);
/* The same, leaving out what is known. */
long gpu_assemble_but(const tcc_program *program, const char *arch, const gpu_spill *known);

#endif
