/* SPDX-License-Identifier: MIT
 * Shared by the files of the NVPTX target. The ABI of kernels: codegen/program.h. */
#ifndef TCC_CODEGEN_EMIT_NVPTX_H
#define TCC_CODEGEN_EMIT_NVPTX_H

#include "codegen/emit/functions.h"

enum { TCC_CUDA_GLOBAL = 1, TCC_CUDA_SHARED = 3 }; /* address spaces */

/* An intrinsic of NVPTX; where it takes several types, of its first argument's. */
LLVMValueRef tcc_cuda_intrinsic(tcc_emitter *e, const char *name, LLVMValueRef *arguments, int n);

/* Of the table: index_nvptx.c, math_nvptx.c. */
LLVMValueRef tcc_nvptx_narrow(tcc_emitter *e, LLVMValueRef v);
LLVMValueRef tcc_nvptx_within(tcc_emitter *e, LLVMValueRef v, int64_t high);
LLVMValueRef tcc_nvptx_offset(tcc_emitter *e, LLVMValueRef v, int64_t low, int64_t high, int64_t reach);
LLVMValueRef tcc_nvptx_exp(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_nvptx_exp_negative(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_nvptx_erf(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_nvptx_tanh_large(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_nvptx_sigmoid(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_nvptx_rsqrt(tcc_emitter *e, LLVMValueRef x);

#endif
