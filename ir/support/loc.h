/* SPDX-License-Identifier: MIT
 * A place in a text: the user's C file, a recipe, a .tir file. Part of the public headers. */
#ifndef TCC_SUPPORT_LOC_H
#define TCC_SUPPORT_LOC_H

typedef struct tcc_loc {
    const char *file; /* borrowed; NULL: unknown */
    int line;         /* from 1; 0: unknown */
} tcc_loc;

#endif
