/* SPDX-License-Identifier: MIT
 * What the files of chunk share: a region of row-wise work around a wide product, and its rewriting. */
#ifndef TCC_PASSES_CHUNK_H
#define TCC_PASSES_CHUNK_H

#include "ir/ir.h"

/* What becomes of a node. */
typedef enum tcc_chunk_role {
    TCC_CHUNK_OUTSIDE, /* it stays as it is; the region reads a slice of its rows, or all of it */
    TCC_CHUNK_INSIDE,  /* computed chunk by chunk; what else reads it gets the chunks joined */
    TCC_CHUNK_SUM,     /* adds up, or takes the extremum, over the rows: each chunk gives a part */
} tcc_chunk_role;

/* The region of one wide product. All arrays are by node id. */
typedef struct tcc_chunk_region {
    const tcc_graph *g;
    const bool *live;
    const tcc_node *wide;
    int64_t units;      /* chunks begin at multiples of a row dim's extent divided by this */
    int *row;           /* of an INSIDE node: the dim in which its rows lie; -1: it has no such dim */
    bool *depends;      /* on the wide product */
    bool *made_of_wide; /* it is wide, or depends on what is */
    bool *joined;       /* INSIDE, and read outside too */
    tcc_chunk_role *role;
    const char *reason; /* why there is no region */
} tcc_chunk_region;

enum { TCC_CHUNK_ALL = -1, TCC_CHUNK_NEVER = -2 };

/* The dim of operand k that goes along with dim `row` of the result: rows [a, b) of the result need rows [a, b) of that
 * dim alone. TCC_CHUNK_ALL: they need the whole operand. TCC_CHUNK_NEVER: `n` does not work row by row along that dim.
 * *units is lowered to what the extents of a reshape have in common. */
int tcc_chunk_operand_row(const tcc_node *n, int row, int k, int64_t *units);
/* The dim of operand k over which `n`, of role SUM, adds up. */
int tcc_chunk_summed_row(const tcc_chunk_region *r, const tcc_node *n, int k);

/* Finds the region of dot `wide` whose rows lie in dim `row` of it. False: there is none, *out says why. The arrays are
 * the caller's, for all nodes of g. */
bool tcc_chunk_find(tcc_chunk_region *r, const tcc_node *wide, int row);

/* The graph with the region in `count` chunks. */
tcc_status tcc_chunk_build(const tcc_chunk_region *r, int count, tcc_graph **out);

#endif
