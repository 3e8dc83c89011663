/* SPDX-License-Identifier: MIT
 * A place in a text: the user's C file, a recipe, a .tir file; or in a model. Part of the public headers. */
#ifndef TCC_SUPPORT_LOC_H
#define TCC_SUPPORT_LOC_H

typedef struct tcc_loc {
    const char *file; /* or layer of a model, "gpt.transformer.h.0.attn"; borrowed; NULL: unknown */
    int line;         /* from 1; 0: none */
} tcc_loc;

#endif
