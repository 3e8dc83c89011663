/* SPDX-License-Identifier: MIT
 * Rows in which a condition holds at a few places alone, as that of a matrix's diagonal or of a label's class. Whether
 * it does is asked for the vectors of those places; in all others it is known that it does not. */
#include "codegen/schedule/spot.h"

/* Whether it is a loop's index, plus what is the same in all lanes. */
static bool is_lane_index(const tcc_body *b, const tcc_expr *x, int lane_var) {
    if (x->kind != TCC_EXPR_INDEX || tcc_affine_coefficient(&x->affine, lane_var) != 1) return false;
    for (int i = 0; i < x->affine.n; i++)
        if (b->vars.data[x->affine.terms[i].var].kind != TCC_VAR_LOOP) return false;
    return true;
}

/* Operand `side` of an equality is the lanes' index, and the other is the same in all lanes. */
static bool is_equality(const tcc_body *b, const tcc_expr *x, int lane_var, int side) {
    return x->kind == TCC_EXPR_POINT && x->op == TCC_OP_EQ && is_lane_index(b, x->operands[side], lane_var) &&
           !(x->operands[1 - side]->loops >> lane_var & 1) && x->operands[1 - side]->dtype != TCC_U8;
}

const tcc_expr *tcc_spot_of(const tcc_body *b, int lane_var, int most) {
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->loops >> b->n_space) continue; /* of a fold */
        if (x->kind == TCC_EXPR_WITHIN && x->integer <= most && is_lane_index(b, x->operands[0], lane_var)) return x;
        if (is_equality(b, x, lane_var, 0) || is_equality(b, x, lane_var, 1)) return x;
    }
    return NULL;
}

void tcc_spot_vectors(tcc_body_run *r, const tcc_expr *spot, int lane_var, int lanes, tcc_emit_value from,
                      tcc_emit_value to, tcc_emit_value *first, tcc_emit_value *end) {
    tcc_emitter *e = r->e;
    const bool within = spot->kind == TCC_EXPR_WITHIN;
    const int side = within || is_equality(r->body, spot, lane_var, 0) ? 0 : 1;
    tcc_body_enter(r, lane_var, tcc_emit_i64(e, 0));
    tcc_emit_value at = tcc_emit_isub(e, tcc_emit_i64(e, 0), tcc_body_offset(r, &spot->operands[side]->affine));
    tcc_body_leave(r, lane_var);
    if (!within) at = tcc_emit_iadd(e, at, tcc_emit_sext(e, r->values[spot->operands[1 - side]->id], e->i64));
    tcc_emit_value behind = tcc_emit_iadd(e, at, tcc_emit_i64(e, (within ? spot->integer : 1) + lanes - 1));
    const tcc_emit_value whole = tcc_emit_i64(e, -lanes);
    *first = tcc_emit_min(e, tcc_emit_max(e, tcc_emit_and(e, at, whole), from), to);
    *end = tcc_emit_min(e, tcc_emit_max(e, tcc_emit_and(e, behind, whole), *first), to);
}
