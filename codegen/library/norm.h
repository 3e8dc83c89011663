/* SPDX-License-Identifier: MIT
 * Which batch norms a library computes. */
#ifndef TCC_CODEGEN_LIBRARY_NORM_H
#define TCC_CODEGEN_LIBRARY_NORM_H

#include "ir/ir.h"
#include "ir/support/context.h"

/* Who asks. */
typedef struct tcc_norm_asker {
    tcc_context *cx;                                                   /* for the log */
    bool (*takes_call)(void *user, const char *name, int64_t *params); /* as in tcc_codegen_options */
    void *takes_call_user;
    double call_bytes; /* that it has to save in a step */
    bool everywhere;   /* wherever a library takes it, not only where that is worth it */
} tcc_norm_asker;

/* takes_norm of tcc_pass_target; `user` is a tcc_norm_asker. Channels stay where they are. */
bool tcc_norm_takes(void *user, const tcc_graph *g, const tcc_node *n);

#endif
