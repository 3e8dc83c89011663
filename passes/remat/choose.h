/* SPDX-License-Identifier: MIT
 * How much of the search's list is recomputed. Points of the frontier of peak against time, and points between them,
 * are planned until one meets the budget. */
#ifndef TCC_PASSES_REMAT_CHOOSE_H
#define TCC_PASSES_REMAT_CHOOSE_H

#include "passes/pass.h"
#include "passes/remat/remat.h"
#include "passes/remat/relax.h"
#include "passes/remat/search.h"

/* A point of the frontier, less what is kept after all. */
typedef struct tcc_remat_set {
    int point;
    tcc_remat_kept kept;
    tcc_remat_point figures;
} tcc_remat_set;

typedef struct tcc_remat_choice {
    tcc_pass_cx *cx;
    const tcc_remat_spec *spec;
    const tcc_graph *g;       /* live nodes alone, inputs first, so that the passes that follow keep their numbers */
    const tcc_graph *planned; /* g, in which nothing is computed again */
    tcc_remat_model *model;   /* of `planned` */
    tcc_remat_moves moves;
    tcc_vec(int) ends;                /* by point of the frontier: how many moves lead there */
    int marked;                       /* the point to begin with: the user's segments, or what is nearly free */
    tcc_remat_set taken;              /* the choice so far */
    tcc_remat_set tried;              /* what is compared with it */
    tcc_vec(tcc_remat_point) between; /* what was planned and is no point of the frontier */
    tcc_remat_report *report;
    tcc_graph *least_plan; /* the one with the smallest peak of those that were made */
} tcc_remat_choice;

/* Whether the step takes so little memory that none is saved unless it is asked for. */
bool tcc_remat_is_small(const tcc_graph *planned);
/* Makes the moves and the frontier, and the chosen point the set at hand of the model. Errors: TCC_ENOMEM for a budget
 * that cannot be met, which says what the smallest peak is and what is alive then. */
tcc_status tcc_remat_choose(tcc_remat_choice *c);
void tcc_remat_choice_free(tcc_remat_choice *c);

#endif
