/* SPDX-License-Identifier: MIT
 * Compiles kernels: distributes them over modules, which are compiled in parallel. */
#ifndef TCC_CODEGEN_COMPILE_H
#define TCC_CODEGEN_COMPILE_H

#include "codegen/build.h"
#include "codegen/schedule/lowering.h"

/* Emits and compiles all kernels into p->modules and p->kernels, in the order given. `table`: by kernel, whether a step
 * has several instances of it. */
tcc_status tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                               const tcc_kernel_plan *kernels, const bool *table, int n,
                               const tcc_codegen_options *options, tcc_program *p);

#endif
