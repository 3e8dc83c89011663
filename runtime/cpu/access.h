/* SPDX-License-Identifier: MIT
 * Checked accesses: what the kernels of a checked program (tcc_program.checked) tell is compared with the bounds of the
 * buffers that they were given, with what they may write, and loads with what was written before: of the arena and of
 * outputs, in this run. The first wrong access of a step ends it, before memory is touched. */
#ifndef TCC_RUNTIME_CPU_ACCESS_H
#define TCC_RUNTIME_CPU_ACCESS_H

#include "codegen/program.h"
#include "ir/support/arena.h"
#include "ir/support/diag.h"

typedef struct tcc_accesses tcc_accesses;

/* In `memory`. Errors: TCC_ENOMEM. */
tcc_status tcc_accesses_make(tcc_arena *memory, tcc_diag *d, const tcc_program *program, tcc_accesses **out);
/* What stands in front of an instance's buffers, for its kernel to find. */
void *tcc_accesses_function(void);

/* A run begins: neither the arena nor the outputs have been written. */
void tcc_accesses_begin(tcc_accesses *a);
/* Runs items of an instance of a step, up to the first wrong access. */
void tcc_accesses_run(tcc_accesses *a, tcc_host_kernel kernel, int step, int instance, void *const *buffers,
                      int64_t begin, int64_t end, void *scratch);
/* The copy of a step: it reads what was written, too. */
void tcc_accesses_copy(tcc_accesses *a, int step);
/* The collective of a step, likewise. */
void tcc_accesses_call(tcc_accesses *a, int step);
/* Behind a step: TCC_EBUG, naming kernel, buffer and offset, if one of its accesses was wrong. */
tcc_status tcc_accesses_judge(const tcc_accesses *a, tcc_diag *d);

#endif
