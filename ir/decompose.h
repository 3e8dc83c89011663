/* SPDX-License-Identifier: MIT
 * Composite ops by their definitions. The interpreter, autodiff and the decompose pass all use this
 * one table.
 *
 * A gradient in closed form needs parts of the definition: the mean and scale of a norm, the
 * denominators of a softmax. It asks for them here, by the same functions that the definitions use;
 * since equal expressions are one node, nothing is computed twice. */
#ifndef TCC_IR_DECOMPOSE_H
#define TCC_IR_DECOMPOSE_H

#include "ir/ir.h"

/* Whether composite `n`, whose floats are all f16 or bf16, is made of operations that round: its definition and its
 * gradient are then of f32, from its operands to its result, which is rounded once. */
bool tcc_ir_rounds_inside(const tcc_node *n);

/* Builds in `g` the definition of composite node `n` (which may be of another graph) on `operands`
 * of g, and returns its value; NULL after an error, which g->diag tells. The value holds no
 * composite. */
tcc_node *tcc_ir_decompose(tcc_graph *g, const tcc_node *n, tcc_node *const *operands);

/* For a pass: the same for node `n` of rw->from on its mapped operands, stored in rw->map. */
tcc_node *tcc_rewrite_decompose(tcc_rewrite *rw, const tcc_node *n);

/* -- Parts that definitions and gradients share. All are NULL-safe as builders are. -- */

/* Mean and biased variance over `axes`. */
typedef struct tcc_ir_moments {
    tcc_node *mean, *variance; /* dims of x without axes */
    tcc_node *centred;         /* x - mean, dims of x */
} tcc_ir_moments;

/* x normalized, as layer_norm, batch_norm and rms_norm do before weight and bias. */
typedef struct tcc_ir_normal {
    tcc_node *scale;   /* 1 / sqrt(variance + eps), dims of x without axes */
    tcc_node *value;   /* dims of x */
    tcc_node *centred; /* the value before it is scaled: x - mean, and x itself of rms_norm */
} tcc_ir_normal;
tcc_ir_normal tcc_ir_get_normal(tcc_graph *g, tcc_node *x, const tcc_dims *axes, double eps);
tcc_ir_normal tcc_ir_get_rms_normal(tcc_graph *g, tcc_node *x, const tcc_dims *axes, double eps);
/* The dims over which layer_norm, rms_norm, batch_norm or an op of its family, `n`, normalizes. */
tcc_dims tcc_ir_norm_axes(const tcc_node *n);
/* What group_norm `n` normalizes, with a dim for the groups, and the dims over which it does. */
tcc_node *tcc_ir_group_rows(tcc_graph *g, const tcc_node *n, tcc_node *x, tcc_dims *axes);
/* Weight or bias of norm `n` at the dims of its first operand. */
tcc_node *tcc_ir_norm_weight(tcc_graph *g, const tcc_node *n, tcc_node *weight);

typedef struct tcc_ir_softmax {
    tcc_node *shifted; /* x - max */
    tcc_node *power;   /* e^shifted */
    tcc_node *sum;     /* of power along the axis, without it */
} tcc_ir_softmax;
/* power / sum */
tcc_node *tcc_ir_softmax_value(tcc_graph *g, const tcc_ir_softmax *s, int axis);

/* What scatter `n` replaces on these operands. */
typedef struct tcc_ir_replaced {
    tcc_node *last;   /* integers, [places]: 1 + the position of the update that counts; 0: none */
    tcc_node *hit;    /* bool, dims of the base: it is replaced */
    tcc_node *counts; /* bool, dims of the updates: it is the last one of its place */
} tcc_ir_replaced;
tcc_ir_replaced tcc_ir_get_replaced(tcc_graph *g, const tcc_node *n, tcc_node *base, tcc_node *index,
                                    tcc_node *updates);

/* What argsort `n` gives of x. Lines of up to `longest` elements, a power of two, are sorted by the target: argsort of
 * the whole line, and longer lines are merged of such. 0: the target sorts none. */
tcc_node *tcc_ir_order(tcc_graph *g, const tcc_node *n, tcc_node *x, int64_t longest);

/* What prod `n` gives of x, and prod_grad `n` of x and dy. `scans`: kernels of the target have the lines at once, so
 * both are made of running products, between which nothing is stored, and not of products of halves. */
tcc_node *tcc_ir_product(tcc_graph *g, const tcc_node *n, tcc_node *x, bool scans);
tcc_node *tcc_ir_product_gradient(tcc_graph *g, const tcc_node *n, tcc_node *x, tcc_node *dy, bool scans);

/* Phi(x), the distribution function of the standard normal. */
tcc_node *tcc_ir_normal_cdf(tcc_graph *g, tcc_node *x);

/* Parts of cross-entropy; rows are the dims of the targets, R, and C the classes. */
typedef struct tcc_ir_cross_entropy {
    tcc_ir_softmax softmax;
    tcc_node *onehot;      /* bool [R,C]: class equals target */
    tcc_node *valid;       /* bool [R]: target is not ignore_index */
    tcc_node *row_weight;  /* [R]: the target's class weight; NULL without class weights */
    tcc_node *denominator; /* []: what the sum over rows is divided by; NaN where a valid target is no class */
} tcc_ir_cross_entropy;
/* `weights` may be NULL. */
tcc_ir_cross_entropy tcc_ir_get_cross_entropy(tcc_graph *g, const tcc_node *n, tcc_node *logits, tcc_node *targets,
                                              tcc_node *weights);

#endif
