/* SPDX-License-Identifier: MIT
 * Compiled programs and plans as bytes. */
#ifndef TCC_FRONTEND_RUN_MADE_FILE_H
#define TCC_FRONTEND_RUN_MADE_FILE_H

#include "frontend/run/model.h"
#include "runtime/stream.h"

/* The program, its texts and what it took to make it. Programs that are read are checked (tcc_program_check), and texts
 * lie in c->arena. `diag` gets the reason of a failure, if it is the program's. */
void tcc__io_compiled(tcc_stream *s, tcc_compiled *c, tcc_diag *diag);

enum { TCC_PLAN_VERSION = 8 };

/* The plan's bytes, to be freed with tcc__free. Every program has all its texts. */
tcc_status tcc__plan_encode(tcc_model *m, const char *about, void **bytes, int64_t *size_bytes);
/* The bytes of a plan's file, to be freed with tcc__free. */
tcc_status tcc__plan_load(tcc_diag *d, const char *path, tcc__bytes *out);
/* Fills an empty model: options, `arch`, parameters without values, programs that are not loaded. `memory` gets *about;
 * NULL: there is none. `name` stands in messages. */
tcc_status tcc__plan_decode(tcc_model *m, const char *name, const void *bytes, int64_t size_bytes, tcc_arena *memory,
                            const char **about);

/* A program that is not loaded, with what the store needs for it, for models of other ranks: all of their parameters
 * so far, and those alone, are those of this one. The bytes are to be freed with tcc__free. */
tcc_status tcc__lent_encode(tcc_model *m, tcc_compiled *c, void **bytes, int64_t *size_bytes);
tcc_status tcc__lent_decode(tcc_model *m, tcc_compiled *c, const void *bytes, int64_t size_bytes);

#endif
