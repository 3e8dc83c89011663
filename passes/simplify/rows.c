/* SPDX-License-Identifier: MIT
 * simplify: arithmetic on a choice between values that are broadcast is done on these values, before they are. So the
 * gradient of an element that was picked from a row is a comparison and a choice at each place, and its arithmetic and
 * rounding are done once a row. */
#include "passes/simplify/simplify.h"

enum { LEAST_COPIES = 2, MOST_OPERANDS = 3 };

static bool same_dims(const tcc_dims *a, const tcc_dims *b) {
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++) same = a->v[i] == b->v[i];
    return same;
}

/* Whether x is broadcast as *like is, which is set by the first that is, or has one value. */
static bool is_of_rows(tcc_node *x, tcc_node **like) {
    if (tcc__is_splat(x)) return true;
    if (x->op != TCC_OP_BROADCAST) return false;
    if (!*like) *like = x;
    return same_dims(&x->attrs->broadcast.dims, &(*like)->attrs->broadcast.dims) &&
           tcc_type_same_dims(&x->operands[0]->type, &(*like)->operands[0]->type);
}

/* x before it is broadcast. */
static tcc_node *row_of(tcc_simplifier *s, tcc_node *x, const tcc_node *like) {
    if (!tcc__is_splat(x)) return x->operands[0];
    tcc_type type = like->operands[0]->type;
    type.dtype = x->type.dtype;
    return tcc_ir_splat(s->g, &type, tcc__splat_value(x));
}

/* The op of n with `value` for its operand k, on what is broadcast, and the broadcast of that. */
static tcc_node *of_rows(tcc_simplifier *s, const tcc_node *n, int k, tcc_node *value, const tcc_node *like) {
    tcc_node *operands[MOST_OPERANDS];
    for (int i = 0; i < n->n_operands; i++)
        if (!(operands[i] = row_of(s, i == k ? value : n->operands[i], like))) return NULL;
    tcc_type type = like->operands[0]->type;
    type.dtype = n->type.dtype;
    const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    tcc_node *y =
        tcc__simplify(s, tcc_ir_build(s->g, n->op, operands, n->n_operands, n->attrs, typed ? &type : NULL, n->loc));
    return y ? tcc__simplify(s, tcc_ir_build(s->g, TCC_OP_BROADCAST, &y, 1, like->attrs, &n->type, n->loc)) : NULL;
}

tcc_node *tcc__simplify_rows(tcc_simplifier *s, tcc_node *n) {
    if (tcc_op_get_info(n->op)->fusion != TCC_FUSION_POINT || n->n_operands < 1 || n->n_operands > MOST_OPERANDS)
        return NULL;
    tcc_node *like = NULL;
    int k = -1;
    for (int i = 0; i < n->n_operands; i++) {
        tcc_node *x = n->operands[i];
        if (k < 0 && x->op == TCC_OP_SELECT && tcc__used_once(s, n, i)) k = i;
        else if (!is_of_rows(x, &like)) return NULL;
    }
    if (k < 0) return NULL;
    tcc_node *choice = n->operands[k], *a = choice->operands[1], *b = choice->operands[2];
    if (!is_of_rows(a, &like) || !is_of_rows(b, &like) || !like ||
        tcc_type_numel(&n->type) < LEAST_COPIES * tcc_type_numel(&like->operands[0]->type))
        return NULL;
    tcc_node *one = of_rows(s, n, k, a, like), *two = of_rows(s, n, k, b, like);
    return one && two ? tcc__simplify(s, tcc_ir_select(s->g, choice->operands[0], one, two)) : NULL;
}
