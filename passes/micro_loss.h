/* SPDX-License-Identifier: MIT
 * The loss of the whole batch, cut down to a micro-batch: private to micro*.c. */
#ifndef TCC_PASSES_MICRO_LOSS_H
#define TCC_PASSES_MICRO_LOSS_H

#include "passes/micro_axis.h"

/* A value of the whole batch's graph. */
typedef enum tcc_micro_kind {
    TCC_MICRO_SAME, /* for all samples */
    TCC_MICRO_ROWS,
    TCC_MICRO_SUM,
} tcc_micro_kind;

typedef struct tcc_micro_value {
    tcc_micro_kind kind;
    tcc_axis axis;         /* ROWS */
    tcc_node *node;        /* of a micro-batch; NULL: the loss does not need it */
    bool trained;          /* a parameter is in it */
    int level;             /* of the totals in it, the highest; 0: there are none */
    const tcc_node *local; /* SAME, SUM: statistics of a micro-batch in it, which are not those of the batch; or NULL */
    tcc_axis cut;          /* SAME: for rows along this axis */
    tcc_node *cut_node;    /* it has been cut to this; NULL: not yet */
} tcc_micro_value;

typedef struct tcc_micro_total {
    tcc_node *part, *all; /* of a micro-batch; and of all: a state, or the sum over ranks */
    tcc_op op;            /* that adds them up: ADD, MAX or MIN */
    int level;
} tcc_micro_total;

/* Why the loss is refused. */
typedef struct tcc_micro_refusal {
    const tcc_node *node; /* NULL: it is not */
    const char *why;      /* behind "this log (f32[])" */
    const tcc_node *of;   /* that it reads; NULL: nothing to tell */
} tcc_micro_refusal;

typedef struct tcc_micro_cut {
    const tcc_graph *from; /* of the whole batch */
    tcc_graph *g;
    int64_t whole, samples;
    int ranks;               /* tcc_micro_spec */
    tcc_micro_value *values; /* by node of `from` */
    tcc_vec(tcc_micro_total) totals;
    tcc_vec(tcc_node *) divisors; /* scalars made of totals that something is divided by */
    tcc_micro_refusal refusal;
} tcc_micro_cut;

/* The input of that name, or NULL. */
tcc_node *tcc_micro_input(const tcc_graph *g, const char *name);
/* bool[]: this is the first micro-batch of a step that this rank runs. */
tcc_node *tcc_micro_first(tcc_graph *g);
/* Element `index` of TCC_MICRO_INPUT, f32[]. */
tcc_node *tcc_micro_hyper(tcc_graph *g, int index);
/* Builds the loss in c->g, whose inputs are those of a micro-batch; NULL where it is refused, which c->refusal tells,
 * or after an error. */
tcc_node *tcc_micro_cut_loss(tcc_micro_cut *c, const tcc_node *loss);
void tcc_micro_cut_clear(tcc_micro_cut *c);

#endif
