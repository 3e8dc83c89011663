/* SPDX-License-Identifier: MIT
 * The contraction schedule: C[b,m,n] = sum over k of A[b,m,k] * B[b,n,k], where b, m, n and k are lists of dimensions
 * and every access is affine in them. Matrix products with batches and any transposes, convolutions on padded input and
 * their gradients all have this form. None needs a copy of its operands, because strides describe their memory.
 * Attention heads, for instance, are read and written inside a packed projection.
 *
 * The kernel is the register-blocked product of Goto and van de Geijn ("Anatomy of high-performance matrix
 * multiplication", 2008): a tile of rows x vectors of C stays in registers over a block of k. Panels of B are packed
 * into the thread's scratch, and so is A where its strides are unfavourable. Everything static is a constant of the
 * code, so each shape has its own kernel. There is a single copy of the inner loop: tails are tiles moved back inside,
 * or masked stores. Where at most four rows share a panel of B that would have to be transposed, vectors run along k
 * instead, and B is read where it lies (along_k.c).
 *
 * Operands are f32, f16 or bf16; sums are f32. Narrow operands are widened when they are packed or loaded, and
 * multiplied by fused multiply-adds. If the target multiplies bf16 itself, in pairs of k (AVX512-BF16) or in tiles
 * (AMX), both operands are packed as bf16, by pairs, and packing writes zeros outside of windows. The order of each sum
 * depends on the description and the target alone. */
#ifndef TCC_CODEGEN_CONTRACT_CONTRACT_H
#define TCC_CODEGEN_CONTRACT_CONTRACT_H

#include "codegen/emit/emitter.h"
#include "codegen/schedule/params.h"
#include "passes/group.h"

enum {
    TCC_CONTRACT_MAX_DIMS = 8,
    TCC_CONTRACT_MAX_ACCESSES = TCC_GROUP_MAX_ACCESSES + 6, /* and the result itself, and counters */
    TCC_CONTRACT_MAX_WINDOWS = 3,
    TCC_CONTRACT_MAX_FORMS = 6,
    TCC_CONTRACT_MAX_LOADS = TCC_GROUP_MAX_ACCESSES,
};

/* One dimension with its strides in elements. Strides may be negative; an operand that does not depend on it has stride
 * 0. */
typedef struct tcc_contract_dim {
    int64_t extent;
    int64_t a, b;                         /* of A and B */
    int64_t c[TCC_CONTRACT_MAX_ACCESSES]; /* of each access of the output space: C itself is 0; 0 in a k dimension */
    int64_t w[TCC_CONTRACT_MAX_WINDOWS];  /* coefficients in the windows' positions */
    int64_t f[2][TCC_CONTRACT_MAX_FORMS]; /* of the forms of A and of B where these are computed (prologue.h) */
    /* Of a k dimension: how far its elements are apart as the op numbers the terms of its sum; and a hash of how it was
     * merged where no such number is. */
    int64_t apart;
    uint64_t turned;
} tcc_contract_dim;

typedef struct tcc_contract_dims {
    int n;
    tcc_contract_dim d[TCC_CONTRACT_MAX_DIMS];
} tcc_contract_dims;

/* A window on the sum: only terms with 0 <= start + sum of w * index < extent count, and others are not even read. This
 * is how convolutions leave out their border instead of multiplying zeros. Each window has a coefficient in exactly one
 * k dimension, and none in the dimension that vectors run along. */
typedef struct tcc_contract_window {
    int64_t start, extent;
} tcc_contract_window;

/* How products are made, as the number of successive k that an instruction adds up. */
typedef enum tcc_contract_multiply {
    TCC_CONTRACT_FMA = 1,    /* multiply-adds of vectors of f32 */
    TCC_CONTRACT_PAIRS = 2,  /* of bf16: vectors of pairs */
    TCC_CONTRACT_TILES = 32, /* of bf16: tiles of 16 rows x 32 of k and of 16 pairs of k x 16 columns */
} tcc_contract_multiply;

/* What to compute. Accesses are the tensors that the epilogue reads or writes at element (b,m,n), C first: bias,
 * residual, further outputs; also a counter such as dropout's linear index, which is an offset without a buffer. */
typedef struct tcc_contract {
    tcc_dtype dtype; /* of A and B in memory; host: f32, f16 or bf16 */
    tcc_contract_dims b, m, n, k;
    int n_accesses; /* at least 1 */
    int n_windows;
    tcc_contract_window windows[TCC_CONTRACT_MAX_WINDOWS];
    bool window_b;      /* it is B that must not be read outside the windows, not A */
    bool computes_b;    /* B is computed as it is packed (tcc_contract_work); vectors run along n, as it lies */
    bool accumulate;    /* C += ...; only without an epilogue of the caller */
    bool lanes_along_n; /* an epilogue wants vectors along the last n dimension, whatever it costs */
} tcc_contract;

/* How to compute it: a function of the description and the target's vector width and register count alone. */
typedef struct tcc_contract_plan {
    tcc_contract c; /* in normal form: lanes run along the only n dimension */
    tcc_contract_multiply multiply;
    bool swapped;       /* A and B changed places (C was contiguous along m) */
    int64_t M, N, K, B; /* products of extents */
    int64_t row_extent; /* of the dimension that rows of a tile lie in: M, or with windows on m, the last of m alone */
    int rows, vectors;  /* the register tile: rows x vectors * lanes */
    bool along_k;       /* vectors run along k, and each element of C has lanes of its own until they are added up */
    bool pack_a, pack_b;
    bool a_columns; /* A is contiguous along m: packed, it is [k][row of the block]; else [row][k] */
    /* Blocking, in units: rows for tiles, k elements for blocks. */
    int64_t tiles, tiles_per_block, row_blocks;
    int64_t panels, panels_per_block, panel_blocks;
    int k_split_dim; /* k dims inside it are whole in each block */
    int64_t k_step;  /* of dim k_split_dim in a block */
    int64_t k_inner; /* product of extents inside it, the innermost one even where it is packed by pairs */
    int64_t k_blocks, k_blocks_per_split, k_splits;
    int64_t block_k;            /* most k elements in a block */
    int64_t a_row;              /* distance of rows in packed A; of successive k, or pairs of it, if a_columns */
    int64_t a_floats, b_floats; /* scratch for packed A and B, in units of 4 bytes */
    int64_t items;
    int64_t scratch_bytes, workspace_bytes; /* workspace: partial sums of split k, else 0 */
    int64_t combine_items, combine_rows;    /* of the combining kernel, when split */
    double flop, bytes;
} tcc_contract_plan;

/* Settles what is decided: the register tile, tiles of rows and panels of columns in a block, elements of k in a block
 * and blocks of k in a part of the sum; of bf16 also which tcc_contract_multiply. `params` NULL: as the plan decides.
 * Errors: TCC_EINVAL where no plan is made by the text's. */
tcc_status tcc_contract_make_plan(const tcc_llvm_target *target, const tcc_contract *c, tcc_params *params,
                                  tcc_diag *diag, tcc_contract_plan *out);
/* Whether the host's kernel calls tcc_transpose. */
bool tcc_contract_calls_transpose(const tcc_contract_plan *p);
/* Text that is equal for equal kernels (the epilogue's own key is the caller's to add). */
void tcc_contract_key(const tcc_contract_plan *p, tcc_strbuf *out);

/* The position of an epilogue: one vector of output elements. */
typedef struct tcc_contract_place {
    int n_accesses;
    tcc_emit_value
        offset[TCC_CONTRACT_MAX_ACCESSES]; /* of lane 0 in access x, in elements (i64), instance offset included */
    int64_t lane_stride[TCC_CONTRACT_MAX_ACCESSES]; /* from lane to lane */
    tcc_emit_value mask;                            /* lanes that exist; NULL: all */
    int first_buffer;                               /* access x lies in buffer first_buffer + x of the kernel */
} tcc_contract_place;

/* What is done with finished sums, called while the kernel is emitted. Members may be NULL. */
typedef struct tcc_contract_epilogue {
    void *user;
    bool plain; /* nothing is computed: the vectors are only stored */
    bool wide;  /* `vector` also takes sums of several vectors side by side, in full rows */
    void (*begin)(void *user, tcc_emitter *e, int first_buffer); /* at the kernel's start */
    void (*end)(void *user, tcc_emitter *e);                     /* at its end */
    void (*row)(void *user, tcc_emitter *e,
                const tcc_contract_place *place); /* before the vectors of a row; offsets as of the first */
    void (*row_end)(void *user, tcc_emitter *e);
    /* Maps the sums of one vector to what is stored in C; may load and store other accesses. NULL result: it stored C
     * itself, or there is no C. */
    tcc_emit_value (*vector)(void *user, tcc_emitter *e, tcc_emit_value sums, const tcc_contract_place *place);
    /* Fetches what `vector` will load and store at that place; called before the sums are made. */
    void (*prefetch)(void *user, tcc_emitter *e, const tcc_contract_place *place);
} tcc_contract_epilogue;

/* How B is computed, called while the kernel is emitted. It has an address for each element, as if it were in memory;
 * it may be read from the addresses of elements alone that there are. */
typedef struct tcc_contract_work {
    void *user;
    int n_buffers;                                                           /* of the kernel, in the place of B's */
    tcc_emit_value (*begin)(void *user, tcc_emitter *e, int first_buffer);   /* where B begins */
    void (*columns)(void *user, tcc_emit_value column, tcc_emit_value mask); /* before vectors of these columns */
    tcc_emit_value (*vector)(void *user, tcc_emit_value address, tcc_emit_value mask); /* as f32 */
    void (*columns_end)(void *user);
    void (*end)(void *user);
} tcc_contract_work;

/* f32 access x at `place` as a vector, and back; any lane stride. */
tcc_emit_value tcc_contract_load(tcc_emitter *e, const tcc_contract_place *place, int x);
void tcc_contract_store(tcc_emitter *e, const tcc_contract_place *place, int x, tcc_emit_value value);

/* The kernel. Buffers: A, B, then the accesses in order, or the workspace alone when k is split. Params: for each of
 * these (the workspace has none), the element offset of its index (0,...,0) from the buffer's start; A and B as the
 * caller named them, swapped or not. `work` NULL: B is in memory. `epilogue` NULL: plain store, or accumulation. An
 * extent of 0 in k gives sums of 0. */
void tcc_contract_emit(tcc_emitter *e, const char *symbol, const tcc_contract_plan *p, const tcc_contract_work *work,
                       const tcc_contract_epilogue *epilogue);
/* With split k, the second kernel: adds the partial sums in order. Buffers: workspace, then accesses. Params: the
 * accesses' offsets. */
void tcc_contract_emit_combine(tcc_emitter *e, const char *symbol, const tcc_contract_plan *p,
                               const tcc_contract_epilogue *epilogue);

#endif
