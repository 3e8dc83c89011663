/* SPDX-License-Identifier: MIT
 * The work of a body: operations, and evaluations of each node. */
#include "codegen/body/access.h"
#include "codegen/body/body.h"

#include "ir/support/alloc.h"

#include <stdlib.h>
#include <string.h>

static uint64_t loops_around(uint64_t loops, const uint64_t *open) {
    uint64_t all = loops;
    for (int v = 0; v < TCC_BODY_MAX_LOOPS; v++)
        if (loops >> v & 1) all |= open[v];
    return all;
}

/* By loop of a fold: the loops that are open in it, itself among them. What depends on a fold's loop is evaluated anew
 * for each point at which the fold is, whether it depends on that or not. */
static void find_open_loops(const tcc_body *b, uint64_t *open) {
    memset(open, 0, sizeof *open * TCC_BODY_MAX_LOOPS);
    for (int i = b->exprs.count - 1; i >= 0; i--) { /* a fold inside another one comes before it */
        const tcc_expr *x = b->exprs.data[i];
        uint64_t all = x->fold ? loops_around(x->loops, open) : 0;
        for (int v = 0; v < TCC_BODY_MAX_LOOPS; v++)
            if (x->fold >> v & 1) open[v] = all |= UINT64_C(1) << v;
    }
}

/* Points of those loops. */
static double points_of(const tcc_body *b, uint64_t loops) {
    double points = 1;
    for (int v = 0; v < b->n_loops; v++)
        if (loops >> v & 1) points *= (double)(b->vars.data[v].high + 1);
    return points;
}

double tcc_body_flop(const tcc_body *b) {
    double flop = 0;
    uint64_t open[TCC_BODY_MAX_LOOPS];
    find_open_loops(b, open);
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        const uint64_t loops = loops_around(x->loops | x->fold, open);
        double points = points_of(b, loops);
        if (x->kind == TCC_EXPR_POINT && tcc_dtype_is_float(x->dtype) && !tcc_expr_rounds(x)) flop += points;
        if (x->kind == TCC_EXPR_REDUCE || x->kind == TCC_EXPR_FOLD) {
            points *= points_of(b, x->operands[0]->loops & ~(x->loops | x->fold));
            flop += points;
        }
    }
    return flop;
}

static int by_node_and_value(const void *a, const void *b) {
    const tcc_traced *x = a, *y = b;
    return x->position != y->position ? x->position - y->position : x->value->id - y->value->id;
}

bool tcc_body_count_evaluations(const tcc_body *b, double *evaluations) {
    const size_t n = (size_t)b->traced.count;
    tcc_traced *list = tcc__malloc(sizeof *list * (n + 1));
    bool *used = tcc__calloc((size_t)b->exprs.count + 1, sizeof *used);
    const bool ok = list && used;
    uint64_t open[TCC_BODY_MAX_LOOPS];
    if (ok) {
        find_open_loops(b, open);
        tcc_body_mark_used(b, used);
        if (n) memcpy(list, b->traced.data, n * sizeof *list);
        qsort(list, n, sizeof *list, by_node_and_value); /* a value that several places share is evaluated once */
    }
    for (size_t i = 0; ok && i < n; i++)
        if (used[list[i].value->id] && (!i || by_node_and_value(&list[i], &list[i - 1])))
            evaluations[list[i].position] += points_of(b, loops_around(list[i].value->loops, open));
    tcc__free(list);
    tcc__free(used);
    return ok;
}
