/* SPDX-License-Identifier: MIT
 * Rematerialization: which values of the forward pass are kept for the backward pass, and which are recomputed there.
 * The pass's options and its report. */
#ifndef TCC_PASSES_REMAT_REMAT_H
#define TCC_PASSES_REMAT_REMAT_H

#include "ir/ir.h"

typedef enum tcc_budget_kind {
    TCC_BUDGET_NONE,  /* only what costs next to no time is computed again */
    TCC_BUDGET_BYTES, /* of all memory of a step: the arena, parameters, states, batch and outputs */
    TCC_BUDGET_SHARE, /* of the arena of the step in which nothing is computed again */
    TCC_BUDGET_LEAST, /* the smallest peak that is found */
} tcc_budget_kind;

typedef struct tcc_remat_spec {
    bool segments; /* computes again what lies in the user's segments (tcc_node.segment), whatever the budget */
    tcc_budget_kind budget;
    int64_t bytes;                   /* of BUDGET_BYTES */
    int64_t beside_bytes;            /* memory that a step takes and the graph does not show; counts in BUDGET_BYTES */
    bool keeps_idle;                 /* parameters that the graph leaves alone (tcc_graph_find_idle) take memory, too */
    double share;                    /* of BUDGET_SHARE, above 0 and at most 1 */
    struct tcc_remat_report *report; /* is filled; NULL: nobody asks */
} tcc_remat_spec;

/* A set of values that are computed again. The estimated peaks of the frontier's fall from one to the next. */
typedef struct tcc_remat_point {
    int values;             /* how many are computed again */
    int64_t estimated_peak; /* of the arena, by the model of passes/remat/model.h, in bytes */
    int64_t estimated_ns;   /* time of the work that is done twice, by that model */
    int64_t peak;           /* of the arena, planned; -1: this point was not planned */
    int64_t added_ns;       /* of a planned point: by how much the predicted time of the step grows */
} tcc_remat_point;

/* A value of the forward pass that backward needs. */
typedef struct tcc_remat_value {
    const char *what;  /* its op and type: "add f32[8,64]" */
    const char *where; /* its place: "train.c:41"; "" if that is unknown */
    int64_t bytes, ns; /* memory that it takes; predicted time to compute it again */
    bool again;        /* is computed again; else kept */
    bool refused;      /* is kept although the user marked it: else a sum would be in another order */
} tcc_remat_value;

/* Zero before it is filled; free with tcc_remat_report_free. */
typedef struct tcc_remat_report {
    tcc_arena arena;
    tcc_vec(tcc_remat_point) frontier; /* the first: nothing is computed again */
    int taken;                         /* index of the point that the graph is */
    int64_t budget_bytes;              /* what the arena may take; 0: it has no limit in bytes */
    int64_t fixed_bytes;               /* of a step beside the arena: parameters, states, batch, outputs */
    int64_t step_ns;                   /* predicted time of the step in which nothing is computed again; 0: unknown */
    int64_t added_flop;                /* of the contractions that are done twice */
    tcc_vec(tcc_remat_value) values;   /* by bytes, the largest first */
    double milliseconds;               /* of the search */
} tcc_remat_report;

void tcc_remat_report_free(tcc_remat_report *report);

#endif
