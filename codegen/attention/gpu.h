/* SPDX-License-Identifier: MIT
 * Attention on CUDA, after Dao, "FlashAttention-2" (2023): a block of threads owns rows of the score matrix and visits
 * its columns block by block. Scores live in registers, never in memory. The gradients are two kernels without atomics:
 * one owns queries (dq, and the sums delta of do o along rows, for the other), one owns keys (dk and dv). The results
 * are those of attention.h.
 *
 * Sums are f32 fused multiply-adds in an order that shape alone fixes. */
#ifndef TCC_CODEGEN_ATTENTION_GPU_H
#define TCC_CODEGEN_ATTENTION_GPU_H

#include "codegen/attention/attention.h"

enum { TCC_ATTENTION_GPU_WIDTH = 128 }; /* most that q, k, v may be wide */

typedef enum tcc_attention_gpu_kind {
    TCC_ATTENTION_GPU_FORWARD, /* rows: queries; o, lse */
    TCC_ATTENTION_GPU_QUERIES, /* rows: queries; delta, dq if wanted */
    TCC_ATTENTION_GPU_KEYS,    /* rows: keys; dk and dv, those that are wanted */
} tcc_attention_gpu_kind;

typedef struct tcc_attention_gpu_plan {
    tcc_attention a; /* has: what this kernel touches */
    tcc_attention_gpu_kind kind;
    int buffers[TCC_ATTENTION_ROLES], n_buffers; /* place of each role; -1: none */
    tcc_dtype dtype[TCC_ATTENTION_ROLES];        /* in memory */
    bool aligned[TCC_ATTENTION_ROLES];           /* rows are whole vectors of 4 elements */
    tcc_dtype matrix;           /* of what tensor cores multiply: f16, bf16; f32: multiply-adds (mma.c) */
    int rows, columns, threads; /* of a block: 16 rows a warp */
    int blocks;                 /* that a processor should hold at once */
    int64_t row_blocks, items, scratch_bytes;
    double flop;
} tcc_attention_gpu_plan;

/* `a` as for tcc_attention_make_plan, with TCC_ATTENTION_DELTA where KEYS needs it; `begins`: elements from a multiple
 * of 16 bytes to index (0, ..., 0) of each role. `dtypes`: of each in memory: f32; or q, k, v, do of one narrow type,
 * in rows and widths of whole 16 bytes, and o, dq, dk, dv of it or f32, for sm_80; the mask f32, f16 or bf16.
 * Settles rows and columns of a block. Errors: TCC_EBUG for an impossible description, TCC_EINVAL where no plan is made
 * by the text's parameters. */
tcc_status tcc_attention_gpu_make_plan(const tcc_hardware *hw, const tcc_attention *a, tcc_attention_gpu_kind kind,
                                       const int64_t *begins, const tcc_dtype *dtypes, tcc_params *params,
                                       tcc_diag *diag, tcc_attention_gpu_plan *out);
void tcc_attention_gpu_key(const tcc_attention_gpu_plan *p, tcc_strbuf *out);
/* Buffers in the order of roles; params: for each the element offset of its index (0, ..., 0); with TCC_ATTENTION_RNG,
 * last, the id of the draws. */
void tcc_attention_gpu_emit(tcc_emitter *e, const char *symbol, const tcc_attention_gpu_plan *p);

#endif
