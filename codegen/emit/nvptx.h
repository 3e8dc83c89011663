/* SPDX-License-Identifier: MIT
 * What the emission helpers do on CUDA: emitter.c calls these where the target is a GPU. The ABI of kernels:
 * codegen/program.h. */
#ifndef TCC_CODEGEN_EMIT_NVPTX_H
#define TCC_CODEGEN_EMIT_NVPTX_H

#include "codegen/emit/llvm.h"

enum { TCC_CUDA_GLOBAL = 1, TCC_CUDA_SHARED = 3 }; /* address spaces */

/* The back end, made known to LLVM once (llvm.c). Errors: TCC_EUNSUPPORTED. */
tcc_status tcc_llvm_initialize_cuda(tcc_diag *diag);
void tcc_cuda_kernel_begin(tcc_emitter *e, const char *symbol);
/* An intrinsic of NVPTX; where it takes several types, of its first argument's. */
LLVMValueRef tcc_cuda_intrinsic(tcc_emitter *e, const char *name, LLVMValueRef *arguments, int n);
LLVMValueRef tcc_cuda_buffer(tcc_emitter *e, int index);
LLVMValueRef tcc_cuda_param(tcc_emitter *e, int index);
void tcc_cuda_items_begin(tcc_emitter *e, tcc_emit_loop *loop);
/* One access a lane, at base[offsets[lane]], or base[lane] if `offsets` is NULL; a lane whose mask bit is off reads 0
 * and touches no memory. `mask`: a bit a lane, one bit for a scalar; NULL: all. */
LLVMValueRef tcc_cuda_load_lanes(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offsets,
                                 LLVMValueRef mask);
void tcc_cuda_store_lanes(tcc_emitter *e, LLVMValueRef value, LLVMValueRef base, LLVMValueRef offsets,
                          LLVMValueRef mask);

#endif
