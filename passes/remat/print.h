/* SPDX-License-Identifier: MIT
 * The report of rematerialization. */
#ifndef TCC_PASSES_REMAT_PRINT_H
#define TCC_PASSES_REMAT_PRINT_H

#include "passes/remat/remat.h"

/* The plan in lines of 80 columns: memory with it and without, what is computed again and what is kept. */
void tcc_remat_print(tcc_strbuf *b, const tcc_remat_spec *spec, const tcc_remat_report *r);
/* The frontier of peak against time, as a table and as a picture: all points by the model, those that were planned by
 * their plans too, and the one that was taken. */
void tcc_remat_print_frontier(tcc_strbuf *b, const tcc_remat_report *r);
void tcc_remat_frontier_svg(tcc_strbuf *b, const tcc_remat_report *r);

#endif
