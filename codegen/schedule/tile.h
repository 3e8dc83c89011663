/* SPDX-License-Identifier: MIT
 * A planned transposing kernel: what tile.c decides, and what it or tile_block.c emits. */
#ifndef TCC_CODEGEN_SCHEDULE_TILE_H
#define TCC_CODEGEN_SCHEDULE_TILE_H

#include "codegen/schedule/items.h"
#include "codegen/schedule/lowering.h"

enum { TCC_TILE_MOST_STAGED = 8 };

typedef struct tcc_tile {
    tcc_body *body;
    tcc_item_cut cut; /* of all loops but the lane loop; the last is the other loop of the tile */
    int across;       /* the loop along which staged loads are contiguous */
    int along;        /* the lane loop */
    int lanes, n_staged;
    int side;          /* a block's: points along either side of a tile */
    bool far;          /* a result is not in the caches when it is read, and so are, about, its operands */
    bool dense;        /* all but what is staged lies densely along both loops: a vector goes over the ends of rows */
    int rows, columns; /* of a block of tiles: along `across` and `along` */
    const tcc_expr *staged[TCC_TILE_MOST_STAGED];
} tcc_tile;

/* The same by the threads of a block, through shared memory: an item is a tile; the loops of the cut but the last are
 * its outer ones. */
tcc_status tcc_tile_emit_block(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);
tcc_status tcc_tile_block_plan(tcc_lowering *l, tcc_tile *p); /* lanes and side, on which all below depends */
int64_t tcc_tile_block_items(const tcc_tile *p);
int64_t tcc_tile_block_bytes(const tcc_tile *p); /* of shared memory */
tcc_thread_shape tcc_tile_block_shape(const tcc_lowering *l, const tcc_tile *p);

#endif
