/* SPDX-License-Identifier: MIT
 * simplify: a few elements a row are picked before arithmetic, not after it. So what picks them reads nothing else, and
 * what they are made of need not be stored for it. */
#include "passes/simplify/simplify.h"

enum {
    LEAST_SHARE = 8, /* of a row, for one that is picked: arithmetic on these counts as none */
    MOST_VISITS = 32
};

typedef struct picking {
    tcc_simplifier *s;
    const tcc_node *n; /* take_along */
    int axis, visits;
} picking;

static bool is_arithmetic(const tcc_node *x) {
    bool same = tcc_op_get_info(x->op)->fusion == TCC_FUSION_POINT && x->n_operands > 0;
    for (int i = 0; same && i < x->n_operands; i++) same = tcc_type_same_dims(&x->operands[i]->type, &x->type);
    return same;
}

/* Whether x has one value in each row. */
static bool is_of_row(const picking *p, const tcc_node *x) {
    if (x->op != TCC_OP_BROADCAST) return false;
    const int at = tcc_dims_find(&x->attrs->broadcast.dims, p->axis);
    return at < 0 || x->operands[0]->type.dims[at] == 1;
}

/* The elements of x that n picks, where its indices are in range. NULL: that would be too much, or an error. */
static tcc_node *picked(picking *p, tcc_node *x) {
    enum { MOST_OPERANDS = 4 };
    tcc_graph *g = p->s->g;
    tcc_type type = p->n->type;
    type.dtype = x->type.dtype;
    if (p->visits++ == MOST_VISITS) return NULL;
    if (tcc__is_splat(x)) return tcc_ir_splat(g, &type, tcc__splat_value(x));
    if (is_of_row(p, x)) return tcc_ir_build(g, TCC_OP_BROADCAST, x->operands, 1, x->attrs, &type, x->loc);
    if (!is_arithmetic(x) || x->n_operands > MOST_OPERANDS) {
        tcc_node *operands[] = {x, p->n->operands[1]};
        return tcc_ir_build(g, TCC_OP_TAKE_ALONG, operands, 2, p->n->attrs, NULL, p->n->loc);
    }
    tcc_node *operands[MOST_OPERANDS];
    for (int i = 0; i < x->n_operands; i++)
        if (!(operands[i] = picked(p, x->operands[i]))) return NULL;
    const bool typed = tcc_op_get_info(x->op)->flags & TCC_FLAG_TYPED;
    return tcc_ir_build(g, x->op, operands, x->n_operands, x->attrs, typed ? &type : NULL, x->loc);
}

tcc_node *tcc__simplify_gather(tcc_simplifier *s, tcc_node *n) {
    if (n->op != TCC_OP_TAKE_ALONG) return NULL;
    tcc_node *x = n->operands[0], *index = n->operands[1];
    picking p = {.s = s, .n = n, .axis = (int)n->attrs->axis.axis};
    const int64_t extent = x->type.dims[p.axis];
    if (index->type.dims[p.axis] * LEAST_SHARE > extent || !(is_arithmetic(x) || is_of_row(&p, x))) return NULL;
    tcc_node *value = picked(&p, x);
    if (!value) return NULL;
    tcc_node *begins = tcc_ir_binary_c(s->g, TCC_OP_GE, index, 0),
             *ends = tcc_ir_binary_c(s->g, TCC_OP_LT, index, (double)extent);
    tcc_node *inside = tcc_ir_binary(s->g, TCC_OP_AND, begins, ends);
    return tcc__simplify(s, tcc_ir_select(s->g, inside, value, tcc_ir_splat_like(s->g, value, 0)));
}
