/* SPDX-License-Identifier: MIT
 * What calls of libraries touch of their buffers. */
#ifndef TCC_CODEGEN_LIBRARY_REGION_H
#define TCC_CODEGEN_LIBRARY_REGION_H

#include "codegen/body/access.h"

/* What a call of `entry` with these params touches through each of its buffers, as program.h describes them; count 0:
 * all of it, or nothing is known. `out` has room for n_buffers. */
void tcc_library_regions(const char *entry, const int64_t *params, int n_buffers, tcc_region *out);

#endif
