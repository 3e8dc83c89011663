/* SPDX-License-Identifier: MIT
 * Shared by the files of the host's schedule, including attention and Winograd. */
#ifndef TCC_CODEGEN_CONTRACT_INTERNAL_H
#define TCC_CODEGEN_CONTRACT_INTERNAL_H

#include "codegen/contract/contract.h"

enum { TCC_OPERAND_A = -2, TCC_OPERAND_B = -1 }; /* else: an access */

/* --- Normal forms (normal.c) */
typedef enum tcc_contract_order { TCC_CONTRACT_BY_OUTPUT, TCC_CONTRACT_BY_A, TCC_CONTRACT_BY_B } tcc_contract_order;

int64_t tcc_contract_extent(const tcc_contract_dims *l); /* of all dimensions together */
/* Whether windows move along a dimension; along one of several. */
bool tcc_contract_has_window(const tcc_contract_dim *d);
bool tcc_contract_have_windows(const tcc_contract_dims *l);
/* Leaves out dimensions of one element; not a k dimension that may lie outside a window. */
void tcc_contract_drop_ones(tcc_contract_dims *l, bool is_k);
void tcc_contract_swap_operands(tcc_contract_dims *l);
/* Outer to inner by stride; stable. */
void tcc_contract_sort(tcc_contract_dims *l, tcc_contract_order by);
/* Two neighbours that are one loop for the operands and the first `n_accesses` accesses become one. */
void tcc_contract_merge(tcc_contract_dims *l, int n_accesses);
/* Sorts k as A lies in memory, unless only B is contiguous along it, or as a choice wants it: one that has `ordering`
 * is of the loops that it names. `n_accesses` above 0: neighbours are merged as above, and which of them counts for the
 * order of the sum, as blocks end where loops do. */
tcc_status tcc_contract_settle_k(tcc_contract_dims *k, int n_accesses, tcc_param ordering, tcc_params *params);

/* Windows say which elements of that operand count. */
bool tcc_contract_has_windows_on(const tcc_contract_plan *p, int operand);

/* --- Blocks (blocks.c) of a plan that has its tile and what it packs */
bool tcc_contract_reads_bf16(const tcc_contract_plan *p);                                /* as pairs or tiles */
double tcc_contract_rate(const tcc_llvm_target *target, tcc_contract_multiply multiply); /* multiply-adds a cycle */
/* Rows of B that a core's cache keeps: those whose distance has a large power of two for a factor share a few sets. */
int64_t tcc_contract_rows_kept(const tcc_contract_plan *p, const tcc_llvm_target *target);
/* The extent of a k dimension in packed memory. */
int64_t tcc_contract_k_extent(const tcc_contract_plan *p, int dim);
/* Whole inner dimensions of k and a part of one: about `most` elements in a block. */
void tcc_contract_choose_k_blocks(tcc_contract_plan *p, int64_t most);
void tcc_contract_choose_blocks(tcc_contract_plan *p, const tcc_llvm_target *target);

/* An address among an operand's elements. */
tcc_emit_value tcc_contract_at(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value base, tcc_emit_value offset);
/* An element, or a vector of them, as f32: aligned to `alignment` bytes (0: as an element is); NULL mask: all lanes. */
tcc_emit_value tcc_contract_load_element(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int alignment);
tcc_emit_value tcc_contract_load_lanes(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int alignment,
                                       tcc_emit_value mask);
/* Lanes that lie `stride` elements apart. */
tcc_emit_value tcc_contract_gather_lanes(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int64_t stride,
                                         tcc_emit_value mask);

/* The indices of each dimension from a row-major index over all of them. */
void tcc_contract_split_index(tcc_emitter *e, const tcc_contract_dims *l, tcc_emit_value index, tcc_emit_value *out);
/* Sum of index times stride in elements. */
tcc_emit_value tcc_contract_offset(tcc_emitter *e, const tcc_contract_dims *l, const tcc_emit_value *index,
                                   int operand);

/* The first row that tiles from tile0 on read, where A is packed by columns: the last tile of all is moved back inside,
 * and may be alone in its block. */
tcc_emit_value tcc_contract_first_row(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value tile0);
/* Copy the rows of tiles [tile0, tile_end) of a block of k, which begins at `a` and has `count` of the split dimension,
 * to `to`. */
void tcc_contract_pack_a(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value a, tcc_emit_value to,
                         tcc_emit_value tile0, tcc_emit_value tile_end, tcc_emit_value count);
/* Copy the panel of columns from n0 on as [k][vectors * lanes]; columns past N are whatever is cheap to read. */
void tcc_contract_pack_b(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value b, tcc_emit_value to,
                         tcc_emit_value n0, tcc_emit_value count);
/* The same of what is computed. Rows outside the windows, in which the block begins at `positions`, are left as they
 * are. */
void tcc_contract_pack_computed_b(tcc_emitter *e, const tcc_contract_plan *p, const tcc_contract_work *work,
                                  tcc_emit_value b, tcc_emit_value to, tcc_emit_value n0, tcc_emit_value count,
                                  const tcc_emit_value *positions);

/* The same as bf16 (pack_bf16.c): A as [row][k], or, where vectors of pairs meet a_columns, as [pair of k][row]; B as
 * [pair of k][vectors * lanes]. What is missing in the last step of k is 0, and so is what lies outside the windows,
 * in which the block begins at `positions`. */
void tcc_contract_pack_a_bf16(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value a, tcc_emit_value to,
                              tcc_emit_value tile0, tcc_emit_value tile_end, tcc_emit_value count,
                              const tcc_emit_value *positions);
void tcc_contract_pack_b_bf16(tcc_emitter *e, const tcc_contract_plan *p, const tcc_contract_work *work,
                              tcc_emit_value b, tcc_emit_value to, tcc_emit_value n0, tcc_emit_value count,
                              const tcc_emit_value *positions); /* `work` NULL: B is in memory */
/* Two rows of bf16 as one of pairs: i32. */
tcc_emit_value tcc_contract_pairs_of(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high);
/* The same lane of both halves of a vector as neighbours: so pairs are made of two rows that tcc_emit_round_pairs has
 * rounded. */
tcc_emit_value tcc_contract_interleave(tcc_emitter *e, tcc_emit_value halves);
/* One of the rows that pairs are made of, 0: the low one, as f32. */
tcc_emit_value tcc_contract_half_of_pairs(tcc_emitter *e, tcc_emit_value pairs, int half);
/* tcc_emit_transpose of elements of any type that is multiplied, to f32. */
void tcc_contract_transpose(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value from, int64_t from_stride,
                            tcc_emit_value rows, tcc_emit_value columns, tcc_emit_value to, int64_t to_stride);
/* tcc_emit_transpose of pairs of successive bf16, whose rows and `columns` count elements of memory; `to`: of i32, with
 * rows of `to_stride`. */
void tcc_contract_transpose_by_pairs(tcc_emitter *e, tcc_emit_value from, int64_t from_stride, tcc_emit_value rows,
                                     tcc_emit_value columns, tcc_emit_value to, int64_t to_stride);

/* The register tile, the inner loop of everything here: sums[rows][vectors] += A[row, k] * B[k, vectors * lanes] over
 * nested loops of k, in steps of as many k as `multiply` takes at once. `runtime`, if not NULL, is the count of a level
 * instead of `count`, and a multiple of `multiple`. Strides in elements. Levels are merged where they can be. Tiles
 * have their sums in registers of their own, from tcc_tile_begin to tcc_tile_end: `sums` is not used. */
typedef struct tcc_tile_level {
    int64_t count;
    tcc_emit_value runtime;
    int64_t multiple;
    int64_t a, b;
} tcc_tile_level;

/* Cache lines that the inner loop fetches into the second-level cache while it multiplies: `count` from `first` on, of
 * a rectangle of rows with `width` lines each. They are what the next panel is packed from: fetched only when it is
 * packed, they would be waited for. `count` 0: none. */
typedef struct tcc_tile_ahead {
    tcc_dtype type;             /* of elements */
    tcc_emit_value from, first; /* the rectangle's first element; a line's number */
    int64_t width, row;         /* lines in a row; elements from row to row */
    int64_t count;
} tcc_tile_ahead;

typedef struct tcc_contract_tile {
    tcc_contract_multiply multiply;
    tcc_dtype a_type, b_type; /* in memory: f32 where they are packed as such */
    int rows, vectors;
    int64_t a_row;  /* from row to row of A */
    bool b_aligned; /* rows of B begin at multiples of a vector of f32 */
    int64_t b_row;  /* of tiles: bytes from one pair of k to the next; 0: the vectors of one */
    tcc_tile_ahead ahead;
    int n_levels;
    tcc_tile_level levels[TCC_CONTRACT_MAX_DIMS];
} tcc_contract_tile;

/* Sums of tiles begin as zeros, and end in memory as rows of f32 that lie `row_bytes` apart. */
void tcc_tile_begin(tcc_emitter *e, int rows, int vectors);
void tcc_tile_end(tcc_emitter *e, int rows, int vectors, tcc_emit_value to, int64_t row_bytes);
/* Rows of each tile of registers, for tcc_emit_tiles_begin. */
void tcc_tile_configure(int rows, int vectors, int *out);

/* Of a step of k, in cycles of a core with one full-width multiply-add a cycle. */
double tcc_tile_cycles(const tcc_llvm_target *target, int rows, int vectors);
void tcc_tile_emit(tcc_emitter *e, tcc_contract_tile *t, tcc_emit_value a, tcc_emit_value b, tcc_emit_value *sums);

/* The same of a plan that runs along k (along_k.c): the sums of a tile, whose panel of B begins at `b` with column n0,
 * over a block of k of `count`. */
void tcc_contract_sum_along_k(tcc_emitter *e, const tcc_contract_plan *p, const tcc_contract_tile *t, tcc_emit_value a,
                              tcc_emit_value b, tcc_emit_value n0, tcc_emit_value count, tcc_emit_value *sums);

/* Part of a k dimension: its first index and how many follow, inside the block. `count` NULL: all that the level has.
 */
typedef struct tcc_contract_part {
    tcc_emit_value from, count;
} tcc_contract_part;

/* Cuts the k dimensions to the windows as they lie for the batch and the tile at hand. `block`: indices of the block of
 * k, `count` of the split dimension. */
void tcc_contract_find_parts(tcc_emitter *e, const tcc_contract_plan *p, const tcc_emit_value *batch,
                             const tcc_emit_value *row, const tcc_emit_value *block, tcc_emit_value count,
                             tcc_contract_part *parts);
/* The k loops inside a block, as strides of what the tile reads; moves a and b to where the windows begin. */
void tcc_contract_make_levels(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value count,
                              const tcc_contract_part *parts, tcc_contract_tile *t, tcc_emit_value *a,
                              tcc_emit_value *b);

#endif
