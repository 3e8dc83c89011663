/* SPDX-License-Identifier: MIT
 * An executable: a program made ready on a device, with its arena, and the memory bound to it. */
#ifndef TCC_RUNTIME_EXEC_H
#define TCC_RUNTIME_EXEC_H

#include "runtime/device.h"

typedef struct tcc_exec tcc_exec;

/* Check the program, load its code, allocate its arena. `device` and `program` are borrowed and must outlive the
 * executable. Errors: TCC_EFORMAT (malformed program), TCC_EUNSUPPORTED (made for another device, or needs a library
 * that is missing), TCC_ENOMEM, TCC_EDEVICE. */
tcc_status tcc_exec_create(tcc_context *cx, tcc_device *device, const tcc_program *program, tcc_exec **out);
/* The same without an arena: it runs once it was given one. `store` (may be NULL) is asked for what the device's driver
 * would compile, and given it; borrowed for the call. */
tcc_status tcc_exec_create_without_arena(tcc_context *cx, tcc_device *device, const tcc_program *program,
                                         const tcc_code_store *store, tcc_exec **out);
void tcc_exec_destroy(tcc_exec *exec); /* NULL is allowed */

/* Let the arena be `memory` from now on, device memory that the caller owns: executables that run one after another may
 * share it, as no value stays there from run to run. NULL: none for the time being. Errors: TCC_EINVAL (fewer bytes
 * than the program needs). */
tcc_status tcc_exec_set_arena(tcc_exec *exec, tcc_diag *d, void *memory, int64_t size_bytes);

/* Let binding `binding` be `memory`, device memory that the caller owns and keeps alive; it may change between runs.
 * Binding the same memory again costs nothing. Errors: TCC_EINVAL (no such binding, fewer bytes than its type needs, or
 * an address that is not a multiple of its element size). */
tcc_status tcc_exec_bind(tcc_exec *exec, tcc_diag *d, int binding, void *memory, int64_t size_bytes);

/* What runs the program's collectives from now on (tcc_collectives, device.h); NULL: nothing does. Borrowed. */
void tcc_exec_set_collectives(tcc_exec *exec, const tcc_collectives *collectives);

/* Run all steps once and return when they are done. Nothing is allocated. Runs of one executable are the caller's to
 * order; other executables of the device may run in other threads. Errors: TCC_EINVAL (a binding is unbound),
 * TCC_EDEVICE (a step failed). */
tcc_status tcc_exec_run(tcc_exec *exec, tcc_diag *d);

/* How later runs are made, and what came of it. On a device without graphs, TCC_REPLAY_REQUIRED is TCC_EUNSUPPORTED and
 * the rest does nothing. */
tcc_status tcc_exec_set_replay(tcc_exec *exec, tcc_diag *d, tcc_replay_mode mode);
void tcc_exec_get_replay(const tcc_exec *exec, tcc_replay *out);

/* The most memory that a thread of one of the program's kernels has for itself, where registers spill: bytes; 0 where
 * the device cannot tell. */
int64_t tcc_exec_local_bytes(const tcc_exec *exec);

/* Fill the arena and the outputs that are bound with bytes of 0xff (floats: NaN), so that a read of what no step wrote
 * shows. With TCC_POISON=1 in the environment when the executable is created, every run begins with this, but for the
 * first on a device with memory of its own, which nobody has written yet. For tests. */
tcc_status tcc_exec_poison(tcc_exec *exec, tcc_diag *d);

/* Where bytes of the arena lie in the device's memory, as the last run left them: with a plan that keeps values apart,
 * any value of the run. */
tcc_status tcc_exec_arena_part(const tcc_exec *exec, tcc_diag *d, int64_t offset_bytes, int64_t size_bytes,
                               const void **out);

const tcc_program *tcc_exec_get_program(const tcc_exec *exec);

/* --- Profile: what steps cost, over the runs made while it was on. */

typedef struct tcc_step_profile {
    int64_t runs;
    int64_t min_ns, total_ns;
    tcc_step_time last; /* of the last run */
} tcc_step_profile;

/* Switching it on starts afresh. Errors: TCC_ENOMEM. */
tcc_status tcc_exec_set_profiling(tcc_exec *exec, tcc_diag *d, bool on);
/* One entry a step; NULL if profiling was never on. Borrowed. */
const tcc_step_profile *tcc_exec_get_profile(const tcc_exec *exec);
/* When each of *threads threads of the host worked on each step in the last run, `*threads` entries a step; NULL if
 * profiling was never on, or no threads of the host run the steps. Borrowed. */
const tcc_step_time *tcc_exec_get_threads(const tcc_exec *exec, int *threads);

#endif
