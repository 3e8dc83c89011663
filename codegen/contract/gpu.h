/* SPDX-License-Identifier: MIT
 * The contraction schedule for CUDA: the same description as contract.h, so that dots, convolutions and their gradients
 * are one schedule here too. A block of threads owns a tile of C. Tiles of A and B pass through shared memory; the next
 * tile is read while this one is multiplied. A thread keeps its part of the sums in registers. Elements outside of
 * windows are never read; shared memory gets zeros for them. Finished tiles pass through shared memory to the epilogue,
 * so the epilogue runs along the rows of C and its code occurs once in the kernel.
 *
 * Where both operands are f16 or both bf16 and lie in whole vectors, tensor cores multiply them (sm_80; mma.c).
 * Asynchronous copies fill a ring of tiles, fragments come from it by ldmatrix, sums are f32. Where that is allowed,
 * f32 operands are multiplied this way as tf32.
 *
 * In both kernels a computed operand (prologue.h) passes through registers. Its inputs for a tile are read while the
 * tile before is multiplied, and evaluated on the way into shared memory, where elements outside of k and windows are
 * zeros.
 *
 * Other f32 and f64 operands are multiplied by fused multiply-adds in the order of k. If C alone would keep too few
 * blocks busy, k is split into parts that a second launch adds in order. The plan is a function of the description
 * alone, so results do not depend on the device. */
#ifndef TCC_CODEGEN_CONTRACT_GPU_H
#define TCC_CODEGEN_CONTRACT_GPU_H

#include "codegen/contract/contract.h"

/* A read of an operand that is computed: at a form's value plus a constant, in elements. */
typedef struct tcc_contract_read {
    int form;
    int64_t constant;
    tcc_dtype dtype;
} tcc_contract_read;

/* What a plan must know of an operand that is computed. Strides of forms are in tcc_contract_dim. */
typedef struct tcc_contract_computed {
    int n_forms, n_loads;
    int64_t begin[TCC_CONTRACT_MAX_FORMS]; /* the forms' values at element (0, ..., 0) */
    tcc_contract_read loads[TCC_CONTRACT_MAX_LOADS];
} tcc_contract_computed;

/* The index map of an operand: its dimensions from outer to inner, those merged that its strides and windows do not
 * tell apart. In memory, it has one stride a dimension, else one of each form. */
typedef struct tcc_contract_index_map {
    int n;
    int64_t extent[TCC_CONTRACT_MAX_DIMS], stride[TCC_CONTRACT_MAX_DIMS][TCC_CONTRACT_MAX_FORMS];
    int64_t w[TCC_CONTRACT_MAX_DIMS][TCC_CONTRACT_MAX_WINDOWS];
} tcc_contract_index_map;

typedef struct tcc_contract_side {
    tcc_contract_index_map b, o, k; /* o: m for A, n for B */
    bool windows;                   /* only what lies inside the windows is read */
    bool along_k;                   /* neighbouring threads read along k, else along o */
    tcc_dtype dtype;                /* in memory: that of sums, or f16 or bf16 */
    int vector;                     /* elements of one access */
    int rows;                       /* of o in a tile */
    int slots;                      /* accesses of a thread for a tile */
    int pitch;                      /* elements from k to k in shared memory */
    bool wide;                      /* offsets need 64 bits */
    bool computed;
    bool rounds; /* tensor cores of f16 or bf16: a computed value is rounded to dtype on its way to shared memory */
    int n_forms; /* 1 in memory */
    int64_t begin[TCC_CONTRACT_MAX_FORMS];    /* the forms' values at element (0, ..., 0), where computed */
    int64_t step[TCC_CONTRACT_MAX_FORMS];     /* from element to element of an access */
    int64_t multiple[TCC_CONTRACT_MAX_FORMS]; /* that the value at an access's first element is of, a power of two; at
                                                 most 16 */
    int first_buffer;                         /* of the kernel */
} tcc_contract_side;

typedef struct tcc_contract_gpu_plan {
    tcc_contract c; /* normal form: C runs along the last n dimension */
    bool swapped;   /* A and B changed places */
    int64_t M, N, K, B;
    tcc_dtype sum;              /* f32 or f64; so are tiles in shared memory, and the workspace */
    int chunk;                  /* elements of it in 16 bytes, which a thread handles at once */
    int tile_m, tile_n, tile_k; /* of a block */
    tcc_dtype matrix;       /* what tensor cores multiply: f16, bf16, or f32 for tf32; TCC_DTYPE_COUNT: multiply-adds */
    int thread_m, thread_n; /* of a thread; not of tensor cores */
    int warp_m, warp_n;     /* of a warp, 4 x 8 threads */
    int stages;             /* tiles in the ring of tensor cores */
    int warps_m, warps_n, threads;
    int blocks; /* that a processor should hold at once */
    tcc_contract_side a, b;
    int64_t m_tiles, n_tiles;
    int64_t k_splits, k_per_split; /* k_per_split is a multiple of tile_k */
    int vector;                    /* elements of C that the epilogue handles at once: `chunk` or 1 */
    int64_t n_padded;              /* row of the workspace */
    int64_t items, scratch_bytes, workspace_bytes;
    int64_t combine_items; /* of combine_threads vectors each */
    int combine_threads;
    int first_access; /* buffer of the epilogue, or the workspace */
    double flop, bytes;
} tcc_contract_gpu_plan;

/* What the plan must know of A and B in memory. */
typedef struct tcc_contract_gpu_operands {
    tcc_dtype dtype[2];                       /* that of sums, or f16 or bf16 */
    tcc_dtype sum;                            /* f32 or f64 */
    bool aligned[2];                          /* element (0, ..., 0) lies at a multiple of 16 bytes */
    const tcc_contract_computed *computed[2]; /* NULL: in memory */
    int n_buffers[2];
    bool tf32; /* f32 may be rounded to tf32 */
} tcc_contract_gpu_operands;

/* Settles what is decided: the tile that a block of threads makes, and elements of k that it sums. Errors:
 * TCC_EUNSUPPORTED where an extent passes 2^30; TCC_EINVAL where no plan is made by the text's. */
tcc_status tcc_contract_gpu_make_plan(const tcc_llvm_target *target, const tcc_contract *c,
                                      const tcc_contract_gpu_operands *operands, tcc_params *params, tcc_diag *diag,
                                      tcc_contract_gpu_plan *out);
void tcc_contract_gpu_key(const tcc_contract_gpu_plan *p, tcc_strbuf *out);
/* Elements, a power of two up to 16, that the offsets of an access's vectors are multiples of, if it begins at `begin`.
 */
int64_t tcc_contract_gpu_multiple(const tcc_contract_gpu_plan *p, int access, int64_t begin);

/* Elements from row to row of a finished tile in shared memory. */
int tcc_contract_gpu_pitch(const tcc_contract_gpu_plan *p);
/* Rows of each warp that are finished at once. */
int tcc_contract_gpu_strip(const tcc_contract_gpu_plan *p);

/* How an operand is computed, called while the kernel is emitted. A vector is side->vector elements; its forms are
 * given as of its first element (i64). */
typedef struct tcc_contract_prologue {
    void *user;
    void (*begin)(void *user, tcc_emitter *e, const tcc_contract_side *side,
                  int first_buffer); /* at the kernel's start */
    void (*end)(void *user);
    /* Reads what a vector needs into raw[TCC_CONTRACT_MAX_LOADS]; nothing is touched where `inside` (i1) is false. */
    void (*load)(void *user, tcc_emitter *e, const tcc_emit_value *forms, tcc_emit_value inside, tcc_emit_value *raw);
    tcc_emit_value (*value)(void *user, tcc_emitter *e, const tcc_emit_value *forms,
                            const tcc_emit_value *raw); /* of the sums' type; a scalar if vector is 1 */
} tcc_contract_prologue;

/* The kernels; buffers and params as of tcc_contract_emit and tcc_contract_emit_combine, with all buffers of an operand
 * that is computed in its place. `prologues`: of A and B as the caller named them, NULL for those in memory. */
void tcc_contract_gpu_emit(tcc_emitter *e, const char *symbol, const tcc_contract_gpu_plan *p,
                           const tcc_contract_prologue *const *prologues, const tcc_contract_epilogue *epilogue);
void tcc_contract_gpu_emit_combine(tcc_emitter *e, const char *symbol, const tcc_contract_gpu_plan *p,
                                   const tcc_contract_epilogue *epilogue);

#endif
