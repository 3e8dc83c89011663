/* SPDX-License-Identifier: MIT
 * The cache of compiled programs, shared by processes. Private to the composition root. */
#ifndef TCC_FRONTEND_CACHE_CACHE_H
#define TCC_FRONTEND_CACHE_CACHE_H

#include "codegen/options.h"
#include "frontend/compile/compile.h"
#include "runtime/cache/cache.h"

/* In key.c. All that the program of a traced graph depends on; texts lie in `memory`. The selector is there. */
tcc_status tcc__cache_key(tcc_model *m, bool train, tcc_step_part part, const tcc_graph *traced, tcc_arena *memory,
                          tcc_cache_key *key);

/* Of these parts, those that a program has in common with all others that this version makes for the model's device:
 * added to *key. */
tcc_status tcc__cache_machine(tcc_model *m, tcc_arena *memory, tcc_cache_key *key);

/* The processor that code is made for, first in a line for people; and the version of what makes it. The selector is
 * there. */
void tcc__cache_print_compiler(const tcc_model *m, tcc_strbuf *machine, tcc_strbuf *version);

/* In code.c. NULL where there is no cache, and where somebody wants to see programs made. */
tcc_cache *tcc__cache_of(tcc_model *m);

/* The cache as codegen asks it for kernels, by all that their code depends on: the machine's parts,
 * and the kernel's own key or, of a module, a hash of its code. The caller clears out->memory. NULL: there is no cache.
 */
typedef struct tcc_kept_kernels {
    tcc_model *m;
    tcc_arena memory;
    tcc_cache_key machine;
    tcc_kernel_store store;
} tcc_kept_kernels;
const tcc_kernel_store *tcc__cache_kernels(tcc_model *m, tcc_kept_kernels *out);

/* In tune/tune.c. Where the model tunes: *found: the step of that key (tcc__cache_key) was tuned before, by this or
 * another process, or there is nothing to measure; then *used says what runs its groups. Errors: those of a file that
 * is held. */
tcc_status tcc__model_tune_recall(tcc_model *m, const tcc_cache_key *step, tcc_strbuf *used, bool *found);

#endif
