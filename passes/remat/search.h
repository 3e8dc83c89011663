/* SPDX-License-Identifier: MIT
 * The search for the values to recompute. */
#ifndef TCC_PASSES_REMAT_SEARCH_H
#define TCC_PASSES_REMAT_SEARCH_H

#include "passes/remat/model.h"

/* A step of the search, and the model's figures after it and all before it. */
typedef struct tcc_remat_move {
    int value;  /* index in plan.values */
    bool again; /* it is computed again; else, of an extra value, it is stored */
    bool whole; /* the set after this move is one to consider; else the next move belongs to it */
    int64_t peak;
    double added_ns;
} tcc_remat_move;

typedef tcc_vec(tcc_remat_move) tcc_remat_moves;

/* Adds to the set at hand the values of the user's segments (tcc_node.segment): all that a segment computes but what
 * the forward pass reads outside of it. */
tcc_status tcc_remat_list_segments(tcc_remat_model *m, tcc_diag *diag, tcc_remat_moves *out);
/* From the set at hand on, one value after the other, as long as that lowers the peak of the model: of the values that
 * are idle at the peak, the one that frees most bytes for the time that it costs is computed again. Or an extra value
 * is stored, and what follows from it is computed again. The set at hand ends with all of them. */
tcc_status tcc_remat_list_moves(tcc_remat_model *m, tcc_diag *diag, tcc_remat_moves *out);
/* Makes the first `count` moves the set at hand. */
void tcc_remat_make_moves(tcc_remat_model *m, const tcc_remat_moves *moves, int count);

#endif
