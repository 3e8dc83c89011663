/* SPDX-License-Identifier: MIT
 * Kernels of earlier programs, if the caller has a store of them (tcc_kernel_store). */
#ifndef TCC_CODEGEN_COMPILE_STORE_H
#define TCC_CODEGEN_COMPILE_STORE_H

#include "codegen/build.h"
#include "codegen/schedule/lowering.h"

/* Takes what the store has: of such a kernel, found[i] is set, and p->kernels[i] has its module, which is in
 * p->modules, and its symbol. p->modules has room for a module a kernel. Errors: TCC_ENOMEM. */
tcc_status tcc_kernels_find(const tcc_kernel_store *store, tcc_diag *diag, const tcc_kernel_plan *kernels,
                            const bool *table, int n, tcc_program *p, bool *found);
/* Keeps the others, which lie in modules from `first` on; made_ns: what these took to make. What cannot be kept is done
 * without. */
void tcc_kernels_keep(const tcc_kernel_store *store, const tcc_kernel_plan *kernels, const bool *table,
                      const bool *found, const int64_t *made_ns, int first, const tcc_program *p);

#endif
