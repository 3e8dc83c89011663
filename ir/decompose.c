/* SPDX-License-Identifier: MIT
 * Definitions of the composite ops: the table, activations, softmax, dropout and cross-entropy.
 * Norms are in decompose_norm.c, scatters in decompose_scatter.c, orders in decompose_order.c, products in
 * decompose_prod.c, and gradients that are ops in decompose_gradient.c.
 *
 * Each is written so that fusion makes one kernel of it: reductions over the same dims, broadcasts
 * that put their values back, and elementwise work. No view or cast is there without need.
 */
#include "ir/decompose.h"
#include "ir/build.h"
#include "ir/decompose_rules.h"

#include <math.h>

#define DEFINITION_LEAF(id)
#define DEFINITION_POINT(id)
#define DEFINITION_VIEW(id)
#define DEFINITION_INDEX(id)
#define DEFINITION_REDUCE(id)
#define DEFINITION_SCAN(id)
#define DEFINITION_SCATTER(id)
#define DEFINITION_CONTRACT(id)
#define DEFINITION_WINDOW(id)
#define DEFINITION_ATTENTION(id)
#define DEFINITION_COLLECTIVE(id)
#define DEFINITION_COMPOSITE(id) [TCC_OP_##id] = tcc__define_##id,

static tcc_definition *const definitions[TCC_OP_COUNT] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    DEFINITION_##fusion(id)
#include "ir/ops.def"
#undef TCC_OP
    /* Gradients that are ops are differentiated through these. */
    DEFINITION_COMPOSITE(MAX_POOL_GRAD) DEFINITION_COMPOSITE(SDPA_LSE) DEFINITION_COMPOSITE(SDPA_GRAD_Q)
        DEFINITION_COMPOSITE(SDPA_GRAD_K) DEFINITION_COMPOSITE(SDPA_GRAD_V)};

enum { MOST_OPERANDS = 8 }; /* of a composite */

bool tcc_ir_rounds_inside(const tcc_node *n) {
    const tcc_op_info *info = tcc_op_get_info(n->op);
    if (info->fusion != TCC_FUSION_COMPOSITE || info->flags & TCC_FLAG_EXACT) return false;
    bool narrow = false;
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_dtype dtype = n->operands[i]->type.dtype;
        if (dtype == TCC_F32 || dtype == TCC_F64) return false; /* it computes in that */
        narrow |= tcc_dtype_is_float(dtype);
    }
    return narrow;
}

tcc_node *tcc_ir_decompose(tcc_graph *g, const tcc_node *n, tcc_node *const *operands) {
    if (!definitions[n->op]) {
        TCC_BUG(g->diag, "decompose: %s has no definition", tcc_op_get_info(n->op)->text);
        return NULL;
    }
    const bool widens = tcc_ir_rounds_inside(n);
    tcc_node *in[MOST_OPERANDS];
    tcc_ir_set_origin(g, n);
    for (int i = 0; i < n->n_operands; i++) {
        in[i] = widens ? tcc_ir_widen(g, operands[i]) : operands[i];
        if (!in[i]) return NULL;
    }
    tcc_node *y = definitions[n->op](g, n, in);
    return widens ? tcc_ir_cast(g, y, n->type.dtype) : y;
}

tcc_node *tcc_rewrite_decompose(tcc_rewrite *rw, const tcc_node *n) {
    tcc_node *operands[MOST_OPERANDS];
    if (n->n_operands > MOST_OPERANDS) {
        TCC_BUG(rw->to->diag, "decompose: %s has %d operands", tcc_op_get_info(n->op)->text, n->n_operands);
        return NULL;
    }
    for (int i = 0; i < n->n_operands; i++) operands[i] = rw->map[n->operands[i]->id];
    return rw->map[n->id] = tcc_ir_decompose(rw->to, n, operands);
}

/* -- Activations -- */

TCC_DEFINITION(RELU) { return tcc_ir_binary_c(g, TCC_OP_MAX, in[0], 0); }

TCC_DEFINITION(LEAKY_RELU) {
    tcc_node *positive = tcc_ir_binary_c(g, TCC_OP_GT, in[0], 0);
    return tcc_ir_select(g, positive, in[0], tcc_ir_binary_c(g, TCC_OP_MUL, in[0], n->attrs->slope.slope));
}

tcc_node *tcc_ir_normal_cdf(tcc_graph *g, tcc_node *x) {
    tcc_node *e = tcc_ir_unary(g, TCC_OP_ERF, tcc_ir_binary_c(g, TCC_OP_MUL, x, M_SQRT1_2));
    return tcc_ir_binary_c(g, TCC_OP_MUL, tcc_ir_binary_c(g, TCC_OP_ADD, e, 1), 0.5);
}

TCC_DEFINITION(GELU) { return tcc_ir_binary(g, TCC_OP_MUL, in[0], tcc_ir_normal_cdf(g, in[0])); }

TCC_DEFINITION(SILU) { return tcc_ir_binary(g, TCC_OP_MUL, in[0], tcc_ir_unary(g, TCC_OP_SIGMOID, in[0])); }

/* max(x, 0) + log(1 + e^-|x|): no overflow on one side, no loss of the tail on the other. */
TCC_DEFINITION(SOFTPLUS) {
    tcc_node *falling = tcc_ir_unary(g, TCC_OP_NEG, tcc_ir_unary(g, TCC_OP_ABS, in[0]));
    tcc_node *rest = tcc_ir_unary(g, TCC_OP_LOG1P, tcc_ir_unary(g, TCC_OP_EXP, falling));
    return tcc_ir_binary(g, TCC_OP_ADD, tcc_ir_binary_c(g, TCC_OP_MAX, in[0], 0), rest);
}

/* -- Softmax -- */

static tcc_node *back(tcc_graph *g, tcc_node *reduced, const tcc_node *like, int axis) {
    if (!reduced || !like) return NULL;
    tcc_dims axes = {1, {axis}};
    return tcc_ir_unreduce(g, reduced, like->type.rank, like->type.dims, &axes);
}

static tcc_ir_softmax get_softmax(tcc_graph *g, tcc_node *x, int axis) {
    tcc_dims axes = {1, {axis}};
    tcc_ir_softmax s;
    s.shifted = tcc_ir_binary(g, TCC_OP_SUB, x, back(g, tcc_ir_reduce(g, TCC_OP_REDUCE_MAX, x, &axes), x, axis));
    s.power = tcc_ir_unary(g, TCC_OP_EXP, s.shifted);
    s.sum = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, s.power, &axes);
    return s;
}

/* One division a row, then products. */
tcc_node *tcc_ir_softmax_value(tcc_graph *g, const tcc_ir_softmax *s, int axis) {
    if (!s->sum) return NULL;
    tcc_node *inverse = tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_splat_like(g, s->sum, 1), s->sum);
    return tcc_ir_binary(g, TCC_OP_MUL, s->power, back(g, inverse, s->power, axis));
}

TCC_DEFINITION(SOFTMAX) {
    tcc_ir_softmax s = get_softmax(g, tcc_ir_widen(g, in[0]), (int)n->attrs->axis.axis);
    return tcc_ir_cast(g, tcc_ir_softmax_value(g, &s, (int)n->attrs->axis.axis), n->type.dtype);
}

TCC_DEFINITION(LOG_SOFTMAX) {
    int axis = (int)n->attrs->axis.axis;
    tcc_ir_softmax s = get_softmax(g, tcc_ir_widen(g, in[0]), axis);
    tcc_node *log_sum = back(g, tcc_ir_unary(g, TCC_OP_LOG, s.sum), s.shifted, axis);
    return tcc_ir_cast(g, tcc_ir_binary(g, TCC_OP_SUB, s.shifted, log_sum), n->type.dtype);
}

/* -- Dropout -- */

TCC_DEFINITION(DROPOUT) { return tcc_ir_dropout(g, in[0], in[1], n->attrs->dropout.p, n->attrs->dropout.id); }

TCC_DEFINITION(STOP_GRADIENT) { return in[0]; }

/* -- Cross-entropy --
 * The target's logit is picked by comparing an iota with the target, not by indexing, so that it
 * joins the sweeps over the row that the softmax makes anyway. A target out of range picks nothing.
 */

static tcc_node *sum_all(tcc_graph *g, tcc_node *x) {
    if (!x || x->type.rank == 0) return x;
    tcc_dims axes = tcc_ir_axes_from(0, x->type.rank);
    return tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, x, &axes);
}

static tcc_node *sum_classes(tcc_graph *g, tcc_node *x) {
    if (!x) return NULL;
    tcc_dims axes = {1, {x->type.rank - 1}};
    return tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, x, &axes);
}

/* Whether targets name classes. */
static tcc_node *is_class(tcc_graph *g, tcc_node *targets, int64_t classes) {
    tcc_node *from_first = tcc_ir_binary_c(g, TCC_OP_GE, targets, 0),
             *to_last = tcc_ir_binary_c(g, TCC_OP_LT, targets, (double)classes);
    return tcc_ir_binary(g, TCC_OP_AND, from_first, to_last);
}

tcc_ir_cross_entropy tcc_ir_get_cross_entropy(tcc_graph *g, const tcc_node *n, tcc_node *logits, tcc_node *targets,
                                              tcc_node *weights) {
    tcc_ir_cross_entropy c = {0};
    if (!logits || !targets) return c;
    int axis = logits->type.rank - 1;
    c.softmax = get_softmax(g, logits, axis);
    tcc_type classes = logits->type, rows = logits->type;
    classes.dtype = targets->type.dtype;
    rows.rank--;
    rows.dims[rows.rank] = 0;
    tcc_node *target = back(g, targets, logits, axis);
    c.onehot = tcc_ir_binary(g, TCC_OP_EQ, tcc_ir_iota(g, &classes, axis), target);
    c.valid = tcc_ir_binary_c(g, TCC_OP_NE, targets, (double)n->attrs->cross_entropy.ignore_index);
    if (weights) {
        tcc_attrs attrs = {.axis = {.axis = 0}};
        c.row_weight = tcc_ir_build(g, TCC_OP_TAKE, (tcc_node *[]){weights, targets}, 2, &attrs, NULL, n->loc);
    }
    tcc_node *share = weights ? c.row_weight : tcc_ir_splat(g, &rows, 1);
    tcc_node *known = is_class(g, targets, logits->type.dims[axis]);
    share = tcc_ir_select(g, known, share, tcc_ir_splat(g, &rows, NAN));
    c.denominator = sum_all(g, tcc_ir_select(g, c.valid, share, tcc_ir_splat(g, &rows, 0)));
    return c;
}

/* In f32 at least, for sums over many classes or rows are more than a narrow type holds.
 *
 * With l_c = -log p_c, class weights w (1 if none) and label smoothing s, a row contributes (1 - s)
 * w_t l_t + s/C sum_c w_c l_c; the loss is the sum over valid rows divided by the sum of w_t over
 * them. With shifted logits z and L = log sum e^z: l_c = L - z_c. */
TCC_DEFINITION(CROSS_ENTROPY) {
    tcc_node *logits = tcc_ir_widen(g, in[0]), *weights = n->n_operands > 2 ? tcc_ir_widen(g, in[2]) : NULL;
    tcc_ir_cross_entropy c = tcc_ir_get_cross_entropy(g, n, logits, in[1], weights);
    double smoothing = n->attrs->cross_entropy.label_smoothing;
    int axis = in[0]->type.rank - 1;
    double classes = (double)in[0]->type.dims[axis];
    tcc_node *z = c.softmax.shifted, *log_sum = tcc_ir_unary(g, TCC_OP_LOG, c.softmax.sum);
    tcc_node *picked = sum_classes(g, tcc_ir_select(g, c.onehot, z, tcc_ir_splat_like(g, logits, 0)));
    tcc_node *row = tcc_ir_binary(g, TCC_OP_SUB, log_sum, picked);
    if (weights) row = tcc_ir_binary(g, TCC_OP_MUL, row, c.row_weight);
    if (smoothing != 0) {
        tcc_node *all, *weighted = z; /* all: sum over classes of w_c L */
        if (weights) {
            weighted = tcc_ir_binary(g, TCC_OP_MUL, z, tcc_ir_broadcast_like(g, weights, z));
            all = tcc_ir_binary(g, TCC_OP_MUL, log_sum, tcc_ir_broadcast_like(g, sum_all(g, weights), log_sum));
        } else {
            all = tcc_ir_binary_c(g, TCC_OP_MUL, log_sum, classes);
        }
        tcc_node *uniform = tcc_ir_binary(g, TCC_OP_SUB, all, sum_classes(g, weighted));
        row = tcc_ir_binary(g, TCC_OP_ADD, tcc_ir_binary_c(g, TCC_OP_MUL, row, 1 - smoothing),
                            tcc_ir_binary_c(g, TCC_OP_MUL, uniform, smoothing / classes));
    }
    if (!row) return NULL;
    tcc_node *total = sum_all(g, tcc_ir_select(g, c.valid, row, tcc_ir_splat_like(g, row, 0)));
    return tcc_ir_cast(g, tcc_ir_binary(g, TCC_OP_DIV, total, c.denominator), n->type.dtype);
}
