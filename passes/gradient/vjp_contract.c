/* SPDX-License-Identifier: MIT
 * Gradient rules of dot and convolution. Both are bilinear, so the gradient by one operand is a
 * contraction of dy with the other. */
#include "passes/gradient/vjp.h"

static void append(tcc_dims *dims, int64_t d) { dims->v[dims->count++] = d; }

/* How the gradient by one operand (`self`) is a dot of dy and the other: self's free dims and the
 * contracted ones come out in some order, which depends on whether dy or the other operand goes
 * first. */
typedef struct dot_side {
    const tcc_type *self, *other;
    const tcc_dims *self_batch, *self_contract, *other_batch, *other_contract;
    int other_free; /* where the other's free dims begin in dy */
} dot_side;

/* Dims of self in the order in which the dot gives them: batch, then its free dims (from dy) and
 * its contracted dims (from other, in ascending order of other's dims), the one or the other first.
 */
static tcc_dims result_order(const dot_side *s, bool dy_first) {
    tcc_dims order = {0};
    for (int i = 0; i < s->self_batch->count; i++) append(&order, s->self_batch->v[i]);
    for (int part = 0; part < 2; part++) {
        if ((part == 0) == dy_first) {
            for (int d = 0; d < s->self->rank; d++)
                if (!tcc_dims_has(s->self_batch, d) && !tcc_dims_has(s->self_contract, d)) append(&order, d);
        } else {
            for (int d = 0; d < s->other->rank; d++) {
                const int i = tcc_dims_find(s->other_contract, d);
                if (i >= 0) append(&order, s->self_contract->v[i]);
            }
        }
    }
    return order;
}

static bool is_identity(const tcc_dims *order) {
    for (int i = 0; i < order->count; i++)
        if (order->v[i] != i) return false;
    return true;
}

static tcc_node *dot_gradient(tcc_vjp *v, const dot_side *s, tcc_node *other) {
    tcc_dims dy_batch = {0}, dy_contract = {0}, other_contract = {0};
    for (int i = 0; i < s->self_batch->count; i++) append(&dy_batch, i);
    for (int d = 0; d < s->other->rank; d++) {
        if (tcc_dims_has(s->other_batch, d) || tcc_dims_has(s->other_contract, d)) continue;
        append(&dy_contract, s->other_free + other_contract.count);
        append(&other_contract, d);
    }
    tcc_dims order = result_order(s, true);
    bool dy_first = is_identity(&order);
    if (!dy_first) {
        tcc_dims swapped = result_order(s, false);
        if (is_identity(&swapped)) order = swapped;
        else dy_first = true;
    }
    tcc_attrs_dot attrs = dy_first ? (tcc_attrs_dot){.batch_a = dy_batch,
                                                     .batch_b = *s->other_batch,
                                                     .contract_a = dy_contract,
                                                     .contract_b = other_contract}
                                   : (tcc_attrs_dot){.batch_a = *s->other_batch,
                                                     .batch_b = dy_batch,
                                                     .contract_a = other_contract,
                                                     .contract_b = dy_contract};
    tcc_node *dot = dy_first ? tcc_ir_dot(v->g, v->dy, other, &attrs) : tcc_ir_dot(v->g, other, v->dy, &attrs);
    int perm[TCC_MAX_RANK] = {0}; /* result dim d of the transpose is self's dim d */
    for (int i = 0; i < order.count; i++) perm[order.v[i]] = i;
    return tcc_ir_transpose(v->g, dot, perm);
}

/* y has the dims batch, free of a, free of b. For y = x W^T with W (out, in) the gradient by W
 * comes out as dot(dy, x) in (out, in) directly; a transpose is left only where neither order of
 * operands gives self's order of dims. */
TCC_VJP_RULE(dot) {
    const tcc_attrs_dot *attrs = &v->y->attrs->dot;
    const tcc_type *a = &v->x[0]->type, *b = &v->x[1]->type;
    int batch = attrs->batch_a.count, free_a = a->rank - batch - attrs->contract_a.count;
    if (tcc__vjp_wants(v, 0)) {
        dot_side s = {a, b, &attrs->batch_a, &attrs->contract_a, &attrs->batch_b, &attrs->contract_b, batch + free_a};
        tcc__vjp_give(v, 0, dot_gradient(v, &s, v->x[1]));
    }
    if (tcc__vjp_wants(v, 1)) {
        dot_side s = {b, a, &attrs->batch_b, &attrs->contract_b, &attrs->batch_a, &attrs->contract_a, batch};
        tcc__vjp_give(v, 1, dot_gradient(v, &s, v->x[0]));
    }
}

/* -- Convolution: y, x and w are the sides of one trilinear form, so each op's gradients are the
 * other two -- */

static tcc_node *conv(tcc_vjp *v, tcc_node *x, tcc_node *w) {
    return vjp_build(v, TCC_OP_CONV, (tcc_node *[]){x, w}, 2, NULL);
}

static tcc_node *conv_grad_input(tcc_vjp *v, tcc_node *dy, tcc_node *w, const tcc_node *x) {
    return vjp_build(v, TCC_OP_CONV_GRAD_INPUT, (tcc_node *[]){dy, w}, 2, &x->type);
}

static tcc_node *conv_grad_weight(tcc_vjp *v, tcc_node *x, tcc_node *dy, const tcc_node *w) {
    return vjp_build(v, TCC_OP_CONV_GRAD_WEIGHT, (tcc_node *[]){x, dy}, 2, &w->type);
}

TCC_VJP_RULE(conv) {
    if (tcc__vjp_wants(v, 0)) tcc__vjp_give(v, 0, conv_grad_input(v, v->dy, v->x[1], v->x[0]));
    if (tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, conv_grad_weight(v, v->x[0], v->dy, v->x[1]));
}

TCC_VJP_RULE(conv_grad_input) {
    if (tcc__vjp_wants(v, 0)) tcc__vjp_give(v, 0, conv(v, v->dy, v->x[1]));
    if (tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, conv_grad_weight(v, v->dy, v->x[0], v->x[1]));
}

TCC_VJP_RULE(conv_grad_weight) {
    if (tcc__vjp_wants(v, 0)) tcc__vjp_give(v, 0, conv_grad_input(v, v->x[1], v->dy, v->x[0]));
    if (tcc__vjp_wants(v, 1)) tcc__vjp_give(v, 1, conv(v, v->x[0], v->dy));
}
