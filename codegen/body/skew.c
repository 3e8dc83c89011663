/* SPDX-License-Identifier: MIT
 * Sums of windows in neighbouring rows. What the window of one row has in its tap k, that of the row before has in tap
 * k + 1. So the taps go along the rows of what is seen, each of which is loaded once for all windows that see it. Each
 * sum still takes its terms in the order of its taps. */
#include "codegen/body/run.h"

#define BIT(v) (UINT64_C(1) << (v))

/* Whether all that x has of loops `a` and `b` is their sum, or, for `sign` -1, their difference. */
static bool moves_as_one(const tcc_body_run *r, const tcc_expr *x, int a, int b, int sign) {
    if (!(x->loops & (BIT(a) | BIT(b)))) return true;
    if (x->fold || tcc_affine_coefficient(&x->affine, a) != sign * tcc_affine_coefficient(&x->affine, b)) return false;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &r->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_ALIAS || (v->kind == TCC_VAR_VALUE && !moves_as_one(r, v->value, a, b, sign)))
            return false;
    }
    for (int i = 0; i < x->n_operands; i++)
        if (!moves_as_one(r, x->operands[i], a, b, sign)) return false;
    return true;
}

int tcc_body_seen_factor(const tcc_expr *fold, int jam) {
    return fold->operands[0]->operands[0]->loops >> jam & 1 ? 0 : 1;
}

int tcc_body_skew_of(const tcc_body_run *r, const tcc_expr *fold, int var, int jam, int turns) {
    const tcc_expr *of = fold->operands[0];
    if (jam < 0 || !fold->products || of->n_operands != 2 || r->body->vars.data[var].high + 1 < turns) return 0;
    const int seen = tcc_body_seen_factor(fold, jam);
    if (of->operands[1 - seen]->loops >> jam & 1) return 0;
    for (int sign = -1; sign <= 1; sign += 2)
        if (moves_as_one(r, of->operands[seen], jam, var, sign)) return sign;
    return 0;
}
