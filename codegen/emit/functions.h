/* SPDX-License-Identifier: MIT
 * The differences between targets: one table of functions, which the host (host.c, math_host.c) and NVPTX (nvptx.c,
 * index_nvptx.c, math_nvptx.c) implement. Schedules do not call it. The emitter's functions (llvm.h, math.h) do, and
 * define what each of these means. */
#ifndef TCC_CODEGEN_EMIT_FUNCTIONS_H
#define TCC_CODEGEN_EMIT_FUNCTIONS_H

#include "codegen/emit/emitter.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

/* Tiles of registers that multiply: 16 rows of 64 bytes, numbered (llvm.h says what these mean). */
typedef struct tcc_emit_tiles {
    void (*configure)(tcc_emitter *e, const int *rows);
    void (*release)(tcc_emitter *e);
    void (*zero)(tcc_emitter *e, int tile);
    void (*load)(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes);
    void (*store)(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes);
    void (*multiply)(tcc_emitter *e, int sums, int a, int b);
} tcc_emit_tiles;

struct tcc_emit_functions {
    bool text;             /* finished modules are assembly text */
    bool narrow_registers; /* indices that fit are computed in 32 bits */
    bool calls;            /* code that several places share may be a function of the module */

    /* --- Kernels */
    void (*kernel_begin)(tcc_emitter *e, const char *symbol);
    /* Attributes of each function that only this target knows. */
    void (*set_attributes)(tcc_emitter *e, tcc_emit_value function);
    tcc_emit_value (*buffer)(tcc_emitter *e, int index);
    tcc_emit_value (*param)(tcc_emitter *e, int index);
    void (*items_begin)(tcc_emitter *e, tcc_emit_loop *loop);
    tcc_emit_value (*tail_mask)(tcc_emitter *e, int lanes, tcc_emit_value to, tcc_emit_value index);
    tcc_emit_value (*vectors_end)(tcc_emitter *e, tcc_emit_value to, int lanes);

    /* --- Indices */
    tcc_emit_value (*narrow)(tcc_emitter *e, tcc_emit_value v);
    tcc_emit_value (*within)(tcc_emitter *e, tcc_emit_value v, int64_t high);
    tcc_emit_value (*offset)(tcc_emitter *e, tcc_emit_value v, int64_t low, int64_t high, int64_t reach);
    tcc_emit_value (*anchor)(tcc_emitter *e, tcc_emit_value value);

    /* --- Memory */
    tcc_emit_value (*load_masked)(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask);
    void (*store_masked)(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask);
    tcc_emit_value (*gather_at)(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offsets,
                                tcc_emit_value mask);
    void (*scatter_at)(tcc_emitter *e, tcc_emit_value value, tcc_emit_value base, tcc_emit_value offsets,
                       tcc_emit_value mask);
    tcc_emit_value (*load_if)(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset,
                              tcc_emit_value condition);
    tcc_emit_value (*load_lanes_if)(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                    int alignment, tcc_emit_value condition);

    /* --- Products of bf16; NULL: none */
    tcc_emit_value (*multiply_pairs)(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value sums);
    tcc_emit_value (*round_pairs)(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high);
    const tcc_emit_tiles *tiles;

    tcc_emit_value (*round_bf16)(tcc_emitter *e, tcc_emit_value x);   /* NULL: by integers; or it gives NULL for that */
    tcc_emit_value (*from_bf16)(tcc_emitter *e, tcc_emit_value half); /* the same */

    /* --- Elementary functions (math.h) */
    tcc_emit_value (*copy_sign)(tcc_emitter *e, tcc_emit_value magnitude, tcc_emit_value sign); /* NULL: as LLVM does */
    tcc_emit_value (*exp)(tcc_emitter *e, tcc_emit_value x);
    tcc_emit_value (*exp_negative)(tcc_emitter *e, tcc_emit_value x);
    tcc_emit_value (*log)(tcc_emitter *e, tcc_emit_value x);
    tcc_emit_value (*log_rough)(tcc_emitter *e, tcc_emit_value x); /* to 2^-22, absolute or relative */
    tcc_emit_value (*log1p)(tcc_emitter *e, tcc_emit_value x);     /* NULL: by parts */
    tcc_emit_value (*erf)(tcc_emitter *e, tcc_emit_value x);
    tcc_emit_value (*erf_slope)(tcc_emitter *e, tcc_emit_value x);  /* NULL: none; or it gives NULL for that */
    tcc_emit_value (*tanh_large)(tcc_emitter *e, tcc_emit_value x); /* x >= 0.63 */
    tcc_emit_value (*sigmoid)(tcc_emitter *e, tcc_emit_value x);
    tcc_emit_value (*rsqrt)(tcc_emitter *e, tcc_emit_value x);
};

extern const tcc_emit_functions tcc_emit_host, tcc_emit_nvptx;

/* --- What the files of the emitter share */

/* The back ends, made known to LLVM once. */
tcc_status tcc_llvm_initialize_host(tcc_diag *diag); /* Errors: TCC_EUNSUPPORTED. */
tcc_status tcc_llvm_initialize_cuda(tcc_diag *diag); /* Errors: TCC_EUNSUPPORTED. */

int tcc_emit_scalar_bytes(tcc_emit_type type);
tcc_emit_value tcc_emit_splat_constant(tcc_emit_value scalar, int lanes);
/* An intrinsic that is overloaded on several types. */
tcc_emit_value tcc_emit_overloaded(tcc_emitter *e, const char *name, tcc_emit_type *overloads, int n_overloads,
                                   tcc_emit_value *arguments, int n);
static inline tcc_emit_block tcc_emit_new_block(tcc_emitter *e) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, "");
}
/* What it loads is the same in the whole kernel. */
static inline void tcc_emit_set_invariant(tcc_emitter *e, tcc_emit_value load) {
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
}

/* Of the host's table: mask_host.c. */
tcc_emit_value tcc_host_load_masked(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask);
void tcc_host_store_masked(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask);
tcc_emit_value tcc_host_gather_at(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offsets,
                                  tcc_emit_value mask);
void tcc_host_scatter_at(tcc_emitter *e, tcc_emit_value value, tcc_emit_value base, tcc_emit_value offsets,
                         tcc_emit_value mask);
tcc_emit_value tcc_host_load_if(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset,
                                tcc_emit_value condition);
tcc_emit_value tcc_host_load_lanes_if(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                      int alignment, tcc_emit_value condition);

/* Of the host's table: bf16_host.c. */
tcc_emit_value tcc_host_multiply_pairs(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value sums);
tcc_emit_value tcc_host_round_pairs(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high);
tcc_emit_value tcc_host_round_bf16(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_from_bf16(tcc_emitter *e, tcc_emit_value half);
extern const tcc_emit_tiles tcc_host_tiles;

/* Of the host: check_host.c. Puts a call in front of each access of the finished module. Tiles' calls have their rows
 * as metadata of this kind. */
tcc_status tcc_host_check_accesses(tcc_emitter *e);
unsigned tcc_host_tile_rows(tcc_emitter *e);

/* Of the host's table: math_host.c. */
tcc_emit_value tcc_host_exp(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_exp_negative(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_log(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_erf(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_erf_slope(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_tanh_large(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_sigmoid(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_host_rsqrt(tcc_emitter *e, tcc_emit_value x);

#endif
