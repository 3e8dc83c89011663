/* SPDX-License-Identifier: MIT
 * Inside the interpreter with noise: what disturbs the result of one node. */
#ifndef TCC_IR_NOISE_RULES_H
#define TCC_IR_NOISE_RULES_H

#include "ir/noise.h"

/* How a result comes to be inexact. */
typedef enum tcc_noise_origin {
    TCC_NOISE_NONE,     /* moved, compared, chosen, drawn; or a composite, whose definition says it */
    TCC_NOISE_POINT,    /* rounded once */
    TCC_NOISE_CONSTANT, /* the same, in its own type, where rounded constants are looked at */
    TCC_NOISE_CAST,     /* of ops.def: then CONSTANT, else POINT */
    TCC_NOISE_FUNCTION, /* by an approximation of a few units */
    TCC_NOISE_SUM,      /* of the terms that the node gives for its operands' magnitudes */
    TCC_NOISE_SQUARES,  /* a sum of squared differences from a mean */
    TCC_NOISE_OPERANDS, /* as if its operands had been rounded: too long a computation for a rule */
} tcc_noise_origin;

tcc_noise_origin tcc__noise_origin(const tcc_noise *noise, const tcc_node *n);
/* For a sum: the node on the magnitudes of its operands. */
tcc_status tcc__noise_magnitudes(const tcc_noise *noise, const tcc_node *n, const tcc_value *const *in, tcc_value *out,
                                 tcc_diag *diag);

/* One draw of the noise of one node. */
typedef struct tcc_noise_draw {
    const tcc_noise *noise;
    int draw;
    uint64_t seed;              /* of the node */
    bool inexact_operands;      /* the draws of some operand differ from its exact value */
    const tcc_value *exact;     /* the result of the exact run */
    const tcc_value *terms;     /* SUM: the magnitudes */
    const tcc_value *const *in; /* of this draw */
    const tcc_value *const *exact_in;
} tcc_noise_draw;

/* Disturbs the result of `n`, which was evaluated on d->in. `changed` is set if any element was. */
tcc_status tcc__noise_disturb(const tcc_node *n, const tcc_noise_draw *d, tcc_value *out, bool *changed,
                              tcc_diag *diag);

#endif
