/* SPDX-License-Identifier: MIT
 * What an input of a graph, or a binding of a program, is for: TCC_ROLE(identifier, "text"). */
#ifndef TCC_SUPPORT_ROLE_H
#define TCC_SUPPORT_ROLE_H

#define TCC_ROLES(TCC_ROLE)                                                                 \
    TCC_ROLE(BATCH, "batch")   /* given anew for each run */                                \
    TCC_ROLE(PARAM, "param")   /* trainable; updated in place by a training program */      \
    TCC_ROLE(STATE, "state")   /* persistent, not trainable: moments, running statistics */ \
    TCC_ROLE(HYPER, "hyper")   /* f32 vector of hyper-parameters, rewritten by the host */  \
    TCC_ROLE(RNG, "rng")       /* i64[2]: seed, step */                                     \
    TCC_ROLE(OUTPUT, "output") /* bindings only: written by the run */

typedef enum tcc_role {
#define TCC_ROLE(id, text) TCC_ROLE_##id,
    TCC_ROLES(TCC_ROLE)
#undef TCC_ROLE
        TCC_ROLE_COUNT
} tcc_role;

#endif
