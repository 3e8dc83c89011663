/* SPDX-License-Identifier: MIT
 * Which values of a set need not be recomputed. */
#ifndef TCC_PASSES_REMAT_RELAX_H
#define TCC_PASSES_REMAT_RELAX_H

#include "passes/remat/model.h"

typedef tcc_vec(int) tcc_remat_kept;

/* Keeps values of the set at hand after all, those that cost most time first, as long as the peak of the model is at
 * most `bytes`: the last move before a peak is low enough may free much more, and others may be of no use any more once
 * it was made. `out`: the values, in place of what it had. */
tcc_status tcc_remat_relax(tcc_remat_model *m, int64_t bytes, tcc_diag *diag, tcc_remat_kept *out);
/* Makes the set at hand what tcc_remat_relax left of it. */
void tcc_remat_keep(tcc_remat_model *m, const tcc_remat_kept *kept);

#endif
