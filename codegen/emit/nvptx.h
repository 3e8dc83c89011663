/* SPDX-License-Identifier: MIT
 * Shared by the files of the NVPTX target. The ABI of kernels: codegen/program.h. */
#ifndef TCC_CODEGEN_EMIT_NVPTX_H
#define TCC_CODEGEN_EMIT_NVPTX_H

#include "codegen/emit/functions.h"

enum { TCC_CUDA_GLOBAL = 1, TCC_CUDA_SHARED = 3 }; /* address spaces */

/* An intrinsic of NVPTX; where it takes several types, of its first argument's. */
tcc_emit_value tcc_cuda_intrinsic(tcc_emitter *e, const char *name, tcc_emit_value *arguments, int n);

/* An instruction of values alone, as inline assembly: of n arguments, and a result of the first one's type. */
tcc_emit_value tcc_cuda_assemble(tcc_emitter *e, const char *text, const char *constraints, tcc_emit_value *arguments,
                                 int n);

/* Of the table: index_nvptx.c, math_nvptx.c. */
tcc_emit_value tcc_nvptx_narrow(tcc_emitter *e, tcc_emit_value v);
tcc_emit_value tcc_nvptx_within(tcc_emitter *e, tcc_emit_value v, int64_t high);
tcc_emit_value tcc_nvptx_offset(tcc_emitter *e, tcc_emit_value v, int64_t low, int64_t high, int64_t reach);
tcc_emit_value tcc_nvptx_copy_sign(tcc_emitter *e, tcc_emit_value magnitude, tcc_emit_value sign);
tcc_emit_value tcc_nvptx_exp(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_exp_negative(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_log(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_log_rough(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_log1p(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_erf(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_tanh_large(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_sigmoid(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_nvptx_rsqrt(tcc_emitter *e, tcc_emit_value x);

#endif
