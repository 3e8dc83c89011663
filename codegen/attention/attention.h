/* SPDX-License-Identifier: MIT
 * Scaled dot-product attention and its gradients as one kernel each, after Dao et al., "FlashAttention" (2022). Scores
 * are made block by block in the thread's scratch, never as a T x S matrix in memory. Blocks that the causal rule masks
 * are skipped.
 *
 * o = dropout(softmax(scale q k^T + mask)) v; lse: the logarithm of each softmax denominator. Causal: key s is seen by
 * query t if s <= t + S - T. Dropout: the mask is recomputed wherever it is needed, from the element's position in the
 * matrix. A query that sees no key gives 0. Sums are f32 in an order fixed by shape. The backward kernel recomputes the
 * scores and needs no atomics, because one work item owns all of a batch entry (a head). */
#ifndef TCC_CODEGEN_ATTENTION_ATTENTION_H
#define TCC_CODEGEN_ATTENTION_ATTENTION_H

#include "codegen/body/access.h"
#include "codegen/contract/contract.h"
#include "codegen/emit/emitter.h"
#include "codegen/schedule/params.h"

enum { TCC_ATTENTION_MAX_BATCH = 4 };

/* An operand [batch..., row, element]; elements are contiguous. Strides in elements. Host: of f32, f16 or bf16; lse is
 * f32. */
typedef struct tcc_attention_operand {
    int64_t batch[TCC_ATTENTION_MAX_BATCH], row;
} tcc_attention_operand;

/* Buffers of the forward kernel in order: q, k, v, mask if any, o, lse if wanted. Of the backward kernel: q, k, v, o,
 * lse, do, mask if any, then those of dq, dk, dv that are wanted. Last the key of dropout's draws, if any: i64[2]. The
 * mask is [batch..., T, S], added to the scores; lse is [batch..., T]. */
typedef enum tcc_attention_role {
    TCC_ATTENTION_Q,
    TCC_ATTENTION_K,
    TCC_ATTENTION_V,
    TCC_ATTENTION_MASK,
    TCC_ATTENTION_O,
    TCC_ATTENTION_LSE,
    TCC_ATTENTION_DO,
    TCC_ATTENTION_DQ,
    TCC_ATTENTION_DK,
    TCC_ATTENTION_DV,
    TCC_ATTENTION_RNG,
    TCC_ATTENTION_DELTA, /* [batch..., T]: sums of do o along rows, from one kernel of a GPU to the next */
    TCC_ATTENTION_ROLES
} tcc_attention_role;

typedef struct tcc_attention {
    bool backward;
    int n_batch;
    int64_t batch[TCC_ATTENTION_MAX_BATCH]; /* extents */
    int64_t T, S, D, E;                     /* queries, keys, width of q and k, width of v and o */
    double scale;
    bool causal;
    double p; /* of dropout, where there is TCC_ATTENTION_RNG */
    bool has[TCC_ATTENTION_ROLES];
    tcc_attention_operand operands[TCC_ATTENTION_ROLES];
    tcc_dtype dtype; /* host: of all in memory but lse */
} tcc_attention;

typedef struct tcc_attention_plan {
    tcc_attention a;
    tcc_contract_multiply multiply;              /* how products are made: of bf16 by pairs or tiles, else of f32 */
    int rows;                                    /* of the register tile */
    int buffers[TCC_ATTENTION_ROLES], n_buffers; /* place of each role; -1: none */
    int64_t key_block, query_block;
    int64_t key_stride; /* key_block rounded up to an odd number of cache lines: row length of blocks of scores */
    int64_t d_padded, e_padded; /* widths rounded up to vectors */
    int64_t items, scratch_bytes;
    double flop, bytes;
} tcc_attention_plan;

/* What a kernel touches of an operand whose index (0, ..., 0) lies `offset` elements of `bytes` bytes from its buffer's
 * start. */
tcc_region tcc_attention_region(const tcc_attention *a, tcc_attention_role role, int64_t offset, int64_t bytes);
/* Settles rows, keys and queries of blocks; `params` NULL: as the plan decides. Errors: TCC_EBUG for an impossible
 * description, TCC_EINVAL where no plan is made by the text's parameters. */
tcc_status tcc_attention_make_plan(const tcc_llvm_target *target, const tcc_attention *a, tcc_params *params,
                                   tcc_diag *diag, tcc_attention_plan *out);
void tcc_attention_key(const tcc_attention_plan *p, tcc_strbuf *out);
/* Params: for each buffer the element offset of its index (0,...,0); with TCC_ATTENTION_RNG, last, the id of the draws.
 */
void tcc_attention_emit(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p);

#endif
