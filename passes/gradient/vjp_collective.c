/* SPDX-License-Identifier: MIT
 * Gradient rules of collectives. The loss whose gradient is taken is the sum of the losses of all ranks; so what a rank
 * gives to the others comes back as a sum over them. */
#include "ir/collective.h"
#include "passes/gradient/vjp.h"

static tcc_node *across(tcc_vjp *v, tcc_op op, tcc_node *x, tcc_rank_reduction reduction) {
    return tcc_ir_collective(v->g, op, x, reduction, v->y->attrs->collective.ranks);
}

static tcc_node *sum_of_ranks(tcc_vjp *v, tcc_node *x) { return across(v, TCC_OP_ALL_REDUCE, x, TCC_REDUCTION_SUM); }

/* Elements equal to the extremum share dy. There may be more ranks than a narrow type can count. */
static tcc_node *share_of_extremum(tcc_vjp *v, tcc_node *extremum, tcc_node *dy) {
    tcc_node *x = v->x[0], *hit = tcc_ir_binary(v->g, TCC_OP_EQ, x, extremum);
    tcc_node *one = tcc_ir_widen(v->g, tcc_ir_splat_like(v->g, x, 1)), *hits = sum_of_ranks(v, vjp_where(v, hit, one));
    tcc_node *share = tcc_ir_cast(v->g, vjp_div(v, tcc_ir_widen(v->g, dy), hits), x->type.dtype);
    return vjp_where(v, hit, share);
}

TCC_VJP_RULE(all_reduce) {
    const tcc_rank_reduction reduction = tcc_reduction_of(v->y);
    if (reduction == TCC_REDUCTION_FIRST) {
        tcc_error(v->g->diag, TCC_EUNSUPPORTED, v->y->loc,
                  "all_reduce: the value of the first rank has no gradient on the others");
        tcc__vjp_give(v, 0, NULL);
        return;
    }
    tcc_node *sum = sum_of_ranks(v, v->dy);
    tcc__vjp_give(v, 0, reduction == TCC_REDUCTION_SUM ? sum : share_of_extremum(v, v->y, sum));
}

TCC_VJP_RULE(reduce_scatter) {
    tcc_node *dy = across(v, TCC_OP_ALL_GATHER, v->dy, TCC_REDUCTIONS);
    if (tcc_reduction_of(v->y) != TCC_REDUCTION_SUM)
        dy = share_of_extremum(v, across(v, TCC_OP_ALL_GATHER, v->y, TCC_REDUCTIONS), dy);
    tcc__vjp_give(v, 0, dy);
}

TCC_VJP_RULE(all_gather) { tcc__vjp_give(v, 0, across(v, TCC_OP_REDUCE_SCATTER, v->dy, TCC_REDUCTION_SUM)); }
