/* SPDX-License-Identifier: MIT
 * Random training steps with loops that a user unrolls: smoothings, running products, stencils, ODE solvers,
 * recurrences over time, shift registers, permutations, CTC, deep networks, and turns of random operations. In each the
 * values of one turn are read by the next one at other indices, or by several readers: what fusing must not evaluate
 * again and again. Any 500 in a row are different. */
#ifndef TCC_TESTS_HARNESS_LOOP_PROGRAMS_H
#define TCC_TESTS_HARNESS_LOOP_PROGRAMS_H

#include "traincc/traincc.h"

/* What a step does, by its groups' choices. */
typedef struct loop_work {
    double flop, bytes, ns; /* ns: predicted */
    int nodes;              /* of the graph */
    double cpu_seconds;     /* that making it took */
} loop_work;

/* Makes the training step of program number `seed` on the CPU, its kernels if wanted, without running it; its loops
 * have at most so many turns. *name: borrowed. */
tcc_status loop_program_make(tcc_context *cx, uint64_t seed, int most_turns, tcc_mode mode, bool kernels,
                             const char **name, loop_work *out);

/* Whether fusing keeps its promise: at most 1.5 times eager's arithmetic, unless the bytes that it saves pay for more,
 * and no longer predicted time. NULL: it does; else what is wrong, in a buffer of the function. */
const char *loop_work_judge(const loop_work *eager, const loop_work *fused);

#endif
