/* SPDX-License-Identifier: MIT
 * Convolutions with 3 x 3 filters by Winograd's minimal filtering F(2 x 2, 3 x 3), after Lavin and Gray, "Fast
 * algorithms for convolutional neural networks" (2016). It needs 16 products for 2 x 2 results of a channel instead of
 * 36, at the price of sums before and after. Channels last, stride 1, images of even size.
 *
 *     y tile = A' [ sum over channels of (G w G') * (B' x B) ] A        x tile: 4 x 4 around the 2 x 2 of y
 *     dw     = G' [ sum over tiles of (A dy A') * (B' x B) ] G
 *
 * A work item transforms a block of tiles into the thread's scratch, multiplies matrices for each of the 16 points
 * there, and transforms the products back. Only filters are transformed in memory, by a kernel before. The gradient by
 * the input is a convolution with the filter turned around.
 *
 * Images and filters may be stored in 16 bits; they are transformed in f32. Where multiplying pairs of bf16 is faster,
 * the transformed values are rounded to bf16 once more. A value of B' x B is a sum of 4 values of x. A value of G w G'
 * is a weighted sum of 1 to 9 values of w. A result has contributions from 9 of the 16 points. So for values of random
 * sign the error is sqrt(50 / 9) = 2.4 times that of rounding each term of the direct sum once. That is of the order of
 * the errors that x, w and y have as bf16, a relative 2^-9 each, and does not grow with the number of channels. */
#ifndef TCC_CODEGEN_CONTRACT_WINOGRAD_H
#define TCC_CODEGEN_CONTRACT_WINOGRAD_H

#include "codegen/contract/computed.h"
#include "codegen/contract/contract.h"
#include "codegen/contract/epilogue.h"
#include "codegen/schedule/lowering.h"

/* Scratch and transformed filters count words of 32 bits: one f32, or a pair of bf16, neighbours of the sum. */
enum { TCC_WINOGRAD_POINTS = 16, TCC_WINOGRAD_SLACK = 16 /* words behind a block, a cache line */ };

typedef struct tcc_winograd {
    tcc_dtype type;                          /* of the images and the filter in memory */
    int64_t images, rows, columns, channels; /* of the image that is read in tiles of 4 x 4 */
    int64_t pad[2];                          /* places that the first tile begins before the image */
    int64_t out_channels; /* of the image in tiles of 2 x 2: the result, or for the filter's gradient its dy */
    int64_t tile_rows, tile_columns; /* tiles of an image */
    /* The filter as a matrix of `channels` x `out_channels` at each tap; strides in elements, one of the first two
     * is 1. */
    int64_t filter_in, filter_out, filter_tap[2];
    bool turned; /* taps are read from the last to the first */

    /* How: a function of what is above and of the target's registers and units. */
    tcc_contract_multiply multiply; /* without tiles */
    int64_t tiles, block_tiles, blocks;
    int tile_height, vectors;   /* the register tile: rows x vectors * lanes */
    int64_t width, panels;      /* of columns in an item, and how many such there are */
    int64_t block_k, row;       /* channels transformed at once; words from line to line of them */
    int64_t lines;              /* of a block: tiles, or for the filter's gradient steps of the sum over them */
    int64_t block_rows;         /* the filter's gradient: rows (channels of dy) in an item */
    int64_t row_blocks, splits; /* of it: blocks of rows, and parts that the sum over tiles is cut into */
    int64_t blocks_per_split, items, scratch_bytes;
    const tcc_prologue *prologue; /* the filter's gradient: the image is computed; NULL: it is in memory */
    tcc_epilogue epilogue;
    uint64_t lane_loops;
} tcc_winograd;

/* Sets, and settles, the second half of a forward convolution's or of a filter gradient's plan. */
tcc_status tcc_winograd_plan_forward(const tcc_llvm_target *target, tcc_params *params, tcc_winograd *w);
tcc_status tcc_winograd_plan_filter(const tcc_llvm_target *target, tcc_params *params, tcc_winograd *w);
int64_t tcc_winograd_filter_words(const tcc_winograd *w); /* of a transformed filter */
/* Of a point of a panel of it. Points are written side by side: they lie a cache line off a power of two apart, because
 * 16 lines that fall into one set would push each other out. */
int64_t tcc_winograd_filter_point_words(const tcc_winograd *w);
int64_t tcc_winograd_point_words(const tcc_winograd *w); /* of a point of all tiles of a block */
int64_t tcc_winograd_filter_items(const tcc_llvm_target *target, const tcc_winograd *w);

/* Kernels; the plan's data is a tcc_winograd. No params. Buffers: */
tcc_status tcc_winograd_emit_filter(tcc_emitter *e, const tcc_kernel_plan *plan,
                                    const char *symbol); /* filter, transformed one */
tcc_status tcc_winograd_emit_forward(tcc_emitter *e, const tcc_kernel_plan *plan,
                                     const char *symbol); /* image, transformed filter, epilogue's */
tcc_status tcc_winograd_emit_gradient(tcc_emitter *e, const tcc_kernel_plan *plan,
                                      const char *symbol); /* image's, dy, workspace */
tcc_status tcc_winograd_emit_sum(tcc_emitter *e, const tcc_kernel_plan *plan,
                                 const char *symbol); /* workspace, epilogue's */

#endif
