/* SPDX-License-Identifier: MIT
 * The search for what to compute again. */
#ifndef TCC_PASSES_REMAT_SEARCH_H
#define TCC_PASSES_REMAT_SEARCH_H

#include "passes/remat_model.h"

/* One more value that is computed again, and the model's figures with it and all before it. */
typedef struct tcc_remat_move {
    int value; /* index in plan.values */
    int64_t peak;
    double added_ns;
} tcc_remat_move;

typedef tcc_vec(tcc_remat_move) tcc_remat_moves;

/* Adds to the set at hand the values of the user's segments (tcc_node.segment): all that a segment computes but what the
 * forward pass reads outside of it. */
tcc_status tcc_remat_list_segments(tcc_remat_model *m, tcc_diag *diag, tcc_remat_moves *out);
/* From the set at hand on, one value after the other, as long as that lowers the peak of the model: of the values that
 * are idle at the peak, the one that frees most bytes for the time that it costs. The set at hand ends with all of
 * them. */
tcc_status tcc_remat_list_moves(tcc_remat_model *m, tcc_diag *diag, tcc_remat_moves *out);

#endif
