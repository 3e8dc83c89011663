/* SPDX-License-Identifier: MIT
 * The epilogue that a library computes after a product or a convolution, and where the group is cut for the rest. */
#ifndef TCC_CODEGEN_LIBRARY_CALL_H
#define TCC_CODEGEN_LIBRARY_CALL_H

#include "codegen/calls.h"
#include "codegen/schedule/lowering.h"

/* What the library does behind the product, and where it leaves it. */
typedef struct tcc_library_fused {
    const tcc_node *node;          /* whose value it is */
    tcc_affine offset;             /* of its element at the hero's index */
    const tcc_expr *bias, *addend; /* loads that are added, `bias` first; NULL: none */
    bool relu, whole;              /* nothing is left to do */
} tcc_library_fused;

/* The port, plus up to two loads, not below zero if there is that: sets `bias`, `addend` and `relu`. False: `x` is no
 * such. */
bool tcc_library_read_value(const tcc_expr *x, const tcc_expr *port, tcc_library_fused *out);
/* Nothing but loops moves this offset. */
bool tcc_library_along_loops(const tcc_body *b, const tcc_affine *a);
/* The largest power of two that divides both. */
int64_t tcc_library_alignment(int64_t alignment, int64_t bytes);

/* The group can be cut where the call leaves `n`: what is behind does not need the hero itself. */
bool tcc_library_leaves(tcc_lowering *l, const tcc_node *n);
/* The proposal is to cut there. */
tcc_status tcc_library_cut(tcc_lowering *l, const tcc_node *n);
/* Adds a launch that packs a bool value as bits, the last dim along bytes, which it is whole ones of: bit i of a row is
 * bit i % 8 of byte i / 8. Rows are `row_bits` bits apart. */
tcc_status tcc_library_pack_bits(tcc_lowering *l, const tcc_node *value, int64_t row_bits, int temporary);
/* Adds a launch that is this call, with all of its params and buffers (calls.def). */
tcc_status tcc_library_add_call(tcc_lowering *l, tcc_call call, const int64_t *params, const tcc_plan_buffer *buffers,
                                double flop);

/* What a call with these params touches through each of its buffers; count 0: all of it, or nothing is known. `out` has
 * room for all of them. */
void tcc_library_regions(tcc_call call, const int64_t *params, tcc_region *out);

#endif
