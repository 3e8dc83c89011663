/* SPDX-License-Identifier: MIT
 * Interpreter rules of collectives. */
#include "ir/collective.h"
#include "ir/eval_rules.h"

#include <math.h>
#include <string.h>

static double combine(tcc_rank_reduction how, double all, double x) {
    if (how == TCC_REDUCTION_SUM) return all + x;
    if (isnan(all) || isnan(x)) return NAN;
    return (how == TCC_REDUCTION_MAX) == (x > all) ? x : all;
}

static int64_t combine_integers(tcc_dtype dtype, tcc_rank_reduction how, int64_t all, int64_t x) {
    if (how == TCC_REDUCTION_SUM) return tcc__wrap(dtype, (int64_t)((uint64_t)all + (uint64_t)x));
    return (how == TCC_REDUCTION_MAX) == (x > all) ? x : all;
}

/* Elements of `out` and of what the ranks bring, from element `from` on, in the order of ranks. */
static void reduce(const tcc_node *n, const tcc_value *const *in, int64_t from, tcc_value *out) {
    const tcc_rank_reduction how = tcc_reduction_of(n);
    const int64_t ranks = how == TCC_REDUCTION_FIRST ? 1 : n->attrs->collective.ranks;
    bool any = false;
    for (int64_t r = 0; r < ranks; r++) {
        for (int64_t e = 0, count = in[r] ? tcc_type_numel(&out->type) : 0; e < count; e++)
            if (tcc__value_is_float(out))
                out->f[e] = any ? combine(how, out->f[e], in[r]->f[from + e]) : in[r]->f[from + e];
            else
                out->i[e] = any ? combine_integers(out->type.dtype, how, out->i[e], in[r]->i[from + e])
                                : in[r]->i[from + e];
        any |= in[r] != NULL;
    }
}

void tcc__eval_ranks(const tcc_node *n, int rank, const tcc_value *const *in, tcc_value *out) {
    const int64_t part = tcc_type_numel(&n->operands[0]->type);
    if (n->op == TCC_OP_ALL_REDUCE) reduce(n, in, 0, out);
    else if (n->op == TCC_OP_REDUCE_SCATTER) reduce(n, in, rank * tcc_type_numel(&n->type), out);
    else
        for (int64_t r = 0; r < n->attrs->collective.ranks; r++)
            if (in[r]) memcpy(out->f + r * part, in[r]->f, (size_t)part * sizeof *out->f);
}

TCC_EVAL_RULE(collective) {
    const tcc_value *all[TCC_MOST_RANKS] = {in[0]};
    tcc__eval_ranks(n, 0, all, out);
    return TCC_OK;
}
