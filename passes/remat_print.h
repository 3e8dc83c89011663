/* SPDX-License-Identifier: MIT
 * What rematerialization did, for people. */
#ifndef TCC_PASSES_REMAT_PRINT_H
#define TCC_PASSES_REMAT_PRINT_H

#include "passes/remat.h"

/* The plan in lines of 80 columns: memory with it and without, what is computed again and what is kept. */
void tcc_remat_print(tcc_strbuf *b, const tcc_remat_spec *spec, const tcc_remat_report *r);

#endif
