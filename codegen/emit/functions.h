/* SPDX-License-Identifier: MIT
 * The differences between targets: one table of functions, which the host (host.c, math_host.c) and NVPTX (nvptx.c,
 * index_nvptx.c, math_nvptx.c) implement. Schedules do not call it. The emitter's functions (llvm.h, math.h) do, and
 * define what each of these means. */
#ifndef TCC_CODEGEN_EMIT_FUNCTIONS_H
#define TCC_CODEGEN_EMIT_FUNCTIONS_H

#include "codegen/emit/llvm.h"

/* Tiles of registers that multiply: 16 rows of 64 bytes, numbered (llvm.h says what these mean). */
typedef struct tcc_emit_tiles {
    void (*configure)(tcc_emitter *e, const int *rows);
    void (*release)(tcc_emitter *e);
    void (*zero)(tcc_emitter *e, int tile);
    void (*load)(tcc_emitter *e, int tile, LLVMValueRef address, int64_t row_bytes);
    void (*store)(tcc_emitter *e, int tile, LLVMValueRef address, int64_t row_bytes);
    void (*multiply)(tcc_emitter *e, int sums, int a, int b);
} tcc_emit_tiles;

struct tcc_emit_functions {
    bool text;             /* finished modules are assembly text */
    bool narrow_registers; /* indices that fit are computed in 32 bits */
    bool calls;            /* code that several places share may be a function of the module */

    /* --- Kernels */
    void (*kernel_begin)(tcc_emitter *e, const char *symbol);
    /* Attributes of each function that only this target knows. */
    void (*set_attributes)(tcc_emitter *e, LLVMValueRef function);
    LLVMValueRef (*buffer)(tcc_emitter *e, int index);
    LLVMValueRef (*param)(tcc_emitter *e, int index);
    void (*items_begin)(tcc_emitter *e, tcc_emit_loop *loop);
    LLVMValueRef (*tail_mask)(tcc_emitter *e, int lanes, LLVMValueRef to, LLVMValueRef index);
    LLVMValueRef (*vectors_end)(tcc_emitter *e, LLVMValueRef to, int lanes);

    /* --- Indices */
    LLVMValueRef (*narrow)(tcc_emitter *e, LLVMValueRef v);
    LLVMValueRef (*within)(tcc_emitter *e, LLVMValueRef v, int64_t high);
    LLVMValueRef (*offset)(tcc_emitter *e, LLVMValueRef v, int64_t low, int64_t high, int64_t reach);
    LLVMValueRef (*anchor)(tcc_emitter *e, LLVMValueRef value);

    /* --- Memory */
    LLVMValueRef (*load_masked)(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef address, LLVMValueRef mask);
    void (*store_masked)(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address, LLVMValueRef mask);
    LLVMValueRef (*gather_at)(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offsets,
                              LLVMValueRef mask);
    void (*scatter_at)(tcc_emitter *e, LLVMValueRef value, LLVMValueRef base, LLVMValueRef offsets, LLVMValueRef mask);
    LLVMValueRef (*load_if)(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offset,
                            LLVMValueRef condition);
    LLVMValueRef (*load_lanes_if)(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef base, LLVMValueRef offset,
                                  int alignment, LLVMValueRef condition);

    /* --- Products of bf16; NULL: none */
    LLVMValueRef (*multiply_pairs)(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sums);
    LLVMValueRef (*round_pairs)(tcc_emitter *e, LLVMValueRef low, LLVMValueRef high);
    const tcc_emit_tiles *tiles;

    LLVMValueRef (*round_bf16)(tcc_emitter *e, LLVMValueRef x); /* NULL: by integers; or it gives NULL for that */

    /* --- Elementary functions (math.h) */
    LLVMValueRef (*exp)(tcc_emitter *e, LLVMValueRef x);
    LLVMValueRef (*exp_negative)(tcc_emitter *e, LLVMValueRef x);
    LLVMValueRef (*erf)(tcc_emitter *e, LLVMValueRef x);
    LLVMValueRef (*erf_slope)(tcc_emitter *e, LLVMValueRef x);  /* NULL: none; or it gives NULL for that */
    LLVMValueRef (*tanh_large)(tcc_emitter *e, LLVMValueRef x); /* x >= 0.63 */
    LLVMValueRef (*sigmoid)(tcc_emitter *e, LLVMValueRef x);
    LLVMValueRef (*rsqrt)(tcc_emitter *e, LLVMValueRef x);
};

extern const tcc_emit_functions tcc_emit_host, tcc_emit_nvptx;

/* --- What the files of the emitter share */

/* The back ends, made known to LLVM once. */
tcc_status tcc_llvm_initialize_host(tcc_diag *diag); /* Errors: TCC_EUNSUPPORTED. */
tcc_status tcc_llvm_initialize_cuda(tcc_diag *diag); /* Errors: TCC_EUNSUPPORTED. */

LLVMTypeRef tcc_emit_scalar_of(LLVMTypeRef type); /* of a vector's lanes; else the type */
int tcc_emit_scalar_bytes(LLVMTypeRef type);
LLVMValueRef tcc_emit_splat_constant(LLVMValueRef scalar, int lanes);
/* An intrinsic that is overloaded on several types. */
LLVMValueRef tcc_emit_overloaded(tcc_emitter *e, const char *name, LLVMTypeRef *overloads, int n_overloads,
                                 LLVMValueRef *arguments, int n);
static inline LLVMBasicBlockRef tcc_emit_new_block(tcc_emitter *e) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, "");
}
/* What it loads is the same in the whole kernel. */
static inline void tcc_emit_set_invariant(tcc_emitter *e, LLVMValueRef load) {
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
}

/* Of the host's table: bf16_host.c. */
LLVMValueRef tcc_host_multiply_pairs(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sums);
LLVMValueRef tcc_host_round_pairs(tcc_emitter *e, LLVMValueRef low, LLVMValueRef high);
LLVMValueRef tcc_host_round_bf16(tcc_emitter *e, LLVMValueRef x);
extern const tcc_emit_tiles tcc_host_tiles;

/* Of the host: check_host.c. Puts a call in front of each access of the finished module. Tiles' calls have their rows
 * as metadata of this kind. */
tcc_status tcc_host_check_accesses(tcc_emitter *e);
unsigned tcc_host_tile_rows(tcc_emitter *e);

/* Of the host's table: math_host.c. */
LLVMValueRef tcc_host_exp(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_host_exp_negative(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_host_erf(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_host_erf_slope(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_host_tanh_large(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_host_sigmoid(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_host_rsqrt(tcc_emitter *e, LLVMValueRef x);

#endif
