/* SPDX-License-Identifier: MIT
 * Checks on a program before it is run; codegen/program.h says what one is. */
#ifndef TCC_RUNTIME_PROGRAM_H
#define TCC_RUNTIME_PROGRAM_H

#include "codegen/program.h"

/* Every index names something, every buffer lies inside its space or binding, every library call has params that it may
 * have. A program that passes makes the runtime
 * touch no memory but its spaces (what kernels do inside their buffers is theirs). Errors: TCC_EFORMAT, naming the
 * step. */
tcc_status tcc_program_check(tcc_diag *d, const tcc_program *p);

/* Add the step to an error as a note. */
void tcc_program_note_step(tcc_diag *d, const tcc_program *p, int step);
/* Call `each` for every buffer of every step, in one order. A copy's buffer 0 is where it goes, buffer 1 where it comes
 * from; copies and library calls are instance 0. */
typedef void tcc_program_buffer_fn(void *user, int step, int instance, int buffer, const tcc_buffer *b);
void tcc_program_for_buffers(const tcc_program *p, tcc_program_buffer_fn *each, void *user);
/* waits_for[i] becomes the last collective before step i whose memory that step touches; -1: none. */
void tcc_program_find_waits(const tcc_program *p, int *waits_for);
/* Add the largest bindings and the largest buffers in the arena to an error, with the steps that first use them. */
void tcc_program_note_largest(tcc_diag *d, const tcc_program *p);

#endif
