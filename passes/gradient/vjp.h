/* SPDX-License-Identifier: MIT
 * Gradient rules (vector-Jacobian products): the interface of a rule. The head of gradients.c says how rules are used
 * and added. Rules are by family in vjp_*.c. */
#ifndef TCC_PASSES_VJP_H
#define TCC_PASSES_VJP_H

#include "ir/build.h"
#include "ir/ir.h"

/* What one use of a node gave to its gradient. */
typedef struct tcc_contribution {
    tcc_node *gradient;
    struct tcc_contribution *next;
} tcc_contribution;

/* The work on a graph. */
typedef struct tcc_autodiff {
    tcc_graph *g;
    bool backward; /* what is built is a training step's backward pass */
    int count;     /* nodes of the forward graph, definitions included */
    /* By such a node: */
    bool *needs;              /* on a path from a node whose gradient is wanted */
    tcc_node **definition;    /* equal to it, and its gradient goes there; NULL: it has a rule */
    int *uses;                /* by which a gradient may still come */
    tcc_contribution **first; /* in the order of the uses, from last to first */
    tcc_contribution **last;
    tcc_arena memory; /* of the contributions */
    bool failed;
} tcc_autodiff;

/* Adds to the gradient of node x. NULL is an error that the graph's diag tells. */
void tcc__gradient_add(tcc_autodiff *a, const tcc_node *x, tcc_node *gradient);
/* The gradient by node x: all that its uses gave. NULL if there was none, or after an error (`failed`). */
tcc_node *tcc__gradient_of(tcc_autodiff *a, tcc_graph *g, const tcc_node *x);

/* The gradient of the loss through one node: dy is the loss's gradient by y, of y's type. Of a composite that rounds
 * inside (ir/decompose.h) x and dy are in f32 instead, and so may be what the rule gives. */
typedef struct tcc_vjp {
    tcc_autodiff *autodiff;
    tcc_graph *g;
    tcc_node *y;        /* the node itself */
    tcc_node *const *x; /* its operands */
    tcc_node *dy;
} tcc_vjp;

/* Gives the gradient by operand i for each i that is wanted. */
typedef void tcc_vjp_rule(tcc_vjp *v);

/* Does a gradient that is wanted go through operand i? False for operands that are not
 * floats. */
bool tcc__vjp_wants(const tcc_vjp *v, int i);
/* Adds to the gradient of operand i, which is ignored if it is not wanted. NULL is an error that
 * the graph's diag tells. */
void tcc__vjp_give(tcc_vjp *v, int i, tcc_node *gradient);

/* The sum of `count` gradients of one value, one at least (sum.c). NULL after an error. */
tcc_node *tcc__gradient_sum(tcc_graph *g, tcc_node *const *given, int count);

/* One declaration a name in the vjp column. */
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    tcc_vjp_rule tcc__vjp_##vjp;
#include "ir/ops.def"
#undef TCC_OP

#define TCC_VJP_RULE(name) void tcc__vjp_##name(tcc_vjp *v)

/* -- Shorthand for expressions; NULL-safe, as builders are -- */

static inline tcc_node *vjp_add(tcc_vjp *v, tcc_node *a, tcc_node *b) { return tcc_ir_binary(v->g, TCC_OP_ADD, a, b); }
static inline tcc_node *vjp_sub(tcc_vjp *v, tcc_node *a, tcc_node *b) { return tcc_ir_binary(v->g, TCC_OP_SUB, a, b); }
static inline tcc_node *vjp_mul(tcc_vjp *v, tcc_node *a, tcc_node *b) { return tcc_ir_binary(v->g, TCC_OP_MUL, a, b); }
static inline tcc_node *vjp_div(tcc_vjp *v, tcc_node *a, tcc_node *b) { return tcc_ir_binary(v->g, TCC_OP_DIV, a, b); }
static inline tcc_node *vjp_neg(tcc_vjp *v, tcc_node *a) { return tcc_ir_unary(v->g, TCC_OP_NEG, a); }
static inline tcc_node *vjp_scale(tcc_vjp *v, tcc_node *a, double c) { return tcc_ir_binary_c(v->g, TCC_OP_MUL, a, c); }
static inline tcc_node *vjp_offset(tcc_vjp *v, tcc_node *a, double c) {
    return tcc_ir_binary_c(v->g, TCC_OP_ADD, a, c);
}
static inline tcc_node *vjp_zero(tcc_vjp *v, const tcc_node *like) { return tcc_ir_splat_like(v->g, like, 0); }
/* condition ? a : 0 */
static inline tcc_node *vjp_where(tcc_vjp *v, tcc_node *condition, tcc_node *a) {
    return tcc_ir_select(v->g, condition, a, vjp_zero(v, a));
}
static inline tcc_node *vjp_sum(tcc_vjp *v, tcc_node *a, const tcc_dims *axes) {
    return tcc_ir_reduce(v->g, TCC_OP_REDUCE_SUM, a, axes);
}
/* A value reduced over `axes` of `like`, put back at like's dims. */
static inline tcc_node *vjp_back(tcc_vjp *v, tcc_node *reduced, const tcc_node *like, const tcc_dims *axes) {
    return tcc_ir_unreduce(v->g, reduced, like->type.rank, like->type.dims, axes);
}
/* `op` with the attributes of the node itself. */
static inline tcc_node *vjp_build(tcc_vjp *v, tcc_op op, tcc_node *const *operands, int n_operands,
                                  const tcc_type *type) {
    return tcc_ir_build(v->g, op, operands, n_operands, v->y->attrs, type, v->y->loc);
}

#endif
