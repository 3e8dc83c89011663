/* SPDX-License-Identifier: MIT
 * autodiff: the sum of the gradients from all uses of a value.
 *
 * In general these are additions, in the order of the uses. Three cases have a better form. Each step of a recurrent
 * network gives a product for the gradient of its weight. They become one product of their concatenated operands, where
 * these are smaller than the products. The gradients of slices are padded with zeros: they become concatenations, each
 * of as many pads as do not overlap, with zeros between them. So a sequence that is read step by step needs one
 * concatenation, and windows of three steps need three, however many windows there are. The gradients of rows of a
 * table are scattered into zeros: they are scattered into the sum of the rest instead.
 *
 * Sums of f16 and bf16 are in f32, and rounded once. */
#include "ir/support/alloc.h"
#include "passes/gradient/vjp.h"

#include <stdlib.h>

typedef tcc_vec(tcc_node *) node_list;

static bool is_zero(const tcc_node *n) {
    if (n->op == TCC_OP_CAST) n = n->operands[0];
    return n->op == TCC_OP_CONSTANT && n->attrs->constant.values.count == 1 && n->attrs->constant.values.v[0] == 0;
}

/* The scatter into zeros that this is, or was before it was cast to a shorter type; NULL: it is none. */
static tcc_node *as_scatter(tcc_node *n) {
    const bool shortens = n->op == TCC_OP_CAST && tcc_dtype_is_narrow(n->type.dtype);
    tcc_node *s = shortens && n->operands[0]->type.dtype == TCC_F32 ? n->operands[0] : n;
    return (s->op == TCC_OP_SCATTER_ADD || s->op == TCC_OP_SCATTER_ADD_ALONG) && is_zero(s->operands[0]) ? s : NULL;
}

/* The only dim in which `n` is padded, by zeros outside; -1 if it is something else. */
static int padded_axis(const tcc_node *n) {
    if (n->op != TCC_OP_PAD || n->attrs->pad.value != 0) return -1;
    int axis = -1;
    for (int d = 0; d < n->type.rank; d++) {
        if (n->attrs->pad.interior.v[d]) return -1;
        if (!n->attrs->pad.lo.v[d] && !n->attrs->pad.hi.v[d]) continue;
        if (axis >= 0) return -1;
        axis = d;
    }
    return axis;
}

/* -- Pads along one axis -- */

/* A pad's range along the axis, and the sum that it is part of. */
typedef struct span {
    tcc_node *pad;
    int64_t begin, end;
    int given; /* its number among the gradients given, so that sorting is stable */
    int layer;
} span;

typedef tcc_vec(span) span_list;

static int by_begin(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->given - y->given;
}

/* Numbers the layers: each takes spans that do not overlap. Their number, or -1 when memory is short. */
static int make_layers(span_list *spans) {
    tcc_vec(int64_t) ends = {0}; /* of each layer */
    qsort(spans->data, (size_t)spans->count, sizeof *spans->data, by_begin);
    for (int i = 0; i < spans->count; i++) {
        span *s = &spans->data[i];
        s->layer = 0;
        while (s->layer < ends.count && ends.data[s->layer] > s->begin) s->layer++;
        if (s->layer == ends.count && !tcc_vec_push(&ends, 0)) {
            tcc_vec_free(&ends);
            return -1;
        }
        ends.data[s->layer] = s->end;
    }
    const int count = ends.count;
    tcc_vec_free(&ends);
    return count;
}

/* The spans of one layer, one after the other, with zeros where none is. NULL after an error. */
static tcc_node *join_layer(tcc_graph *g, const span_list *spans, int layer, int axis) {
    node_list parts = {0};
    const tcc_node *like = spans->data[0].pad;
    const int64_t extent = like->type.dims[axis];
    tcc_node *only = NULL;
    int64_t at = 0;
    int members = 0;
    bool complete = true;
    for (int i = 0; i <= spans->count && complete; i++) {
        const span *s = i < spans->count ? &spans->data[i] : NULL;
        if (s && s->layer != layer) continue;
        tcc_type gap = like->type;
        gap.dims[axis] = (s ? s->begin : extent) - at;
        if (gap.dims[axis] > 0) complete = tcc_vec_push(&parts, tcc_ir_splat(g, &gap, 0));
        if (!s) break;
        complete = complete && tcc_vec_push(&parts, s->pad->operands[0]);
        at = s->end;
        only = s->pad;
        members++;
    }
    tcc_attrs attrs = {.axis = {.axis = axis}};
    tcc_node *result = NULL;
    if (!complete) tcc_enomem(g->diag);
    else if (members == 1) result = only;
    else result = tcc_ir_build(g, TCC_OP_CONCAT, parts.data, parts.count, &attrs, NULL, like->loc);
    tcc_vec_free(&parts);
    return result;
}

static tcc_node *add(tcc_graph *g, tcc_node *sum, tcc_node *x) {
    x = tcc_ir_widen(g, x);
    return sum ? tcc_ir_binary(g, TCC_OP_ADD, sum, x) : x;
}

/* -- Products along one dim -- */

static bool is_product(const tcc_node *n) {
    return n->op == TCC_OP_DOT && !n->attrs->dot.batch_a.count && n->attrs->dot.contract_a.count == 1;
}

/* Equal but for the extent of `axis`. */
static bool is_like(const tcc_type *a, const tcc_type *b, int64_t axis) {
    tcc_type other = *b;
    if (a->rank != b->rank) return false;
    other.dims[axis] = a->dims[axis];
    return tcc_type_equal(a, &other);
}

/* Whether two products differ in the extent alone that they contract. */
static bool can_join(const tcc_node *a, const tcc_node *b) {
    const int64_t in_a = a->attrs->dot.contract_a.v[0], in_b = a->attrs->dot.contract_b.v[0];
    return is_product(b) && b->attrs->dot.contract_a.v[0] == in_a && b->attrs->dot.contract_b.v[0] == in_b &&
           is_like(&a->operands[0]->type, &b->operands[0]->type, in_a) &&
           is_like(&a->operands[1]->type, &b->operands[1]->type, in_b);
}

/* Operand k of all products that can join `first`, along the dim that they contract. NULL after an error. */
static tcc_node *join_operands(tcc_graph *g, tcc_node *const *given, int count, const tcc_node *first, int k) {
    const tcc_attrs_dot *dot = &first->attrs->dot;
    const tcc_attrs attrs = {.axis = {.axis = (k ? dot->contract_b : dot->contract_a).v[0]}};
    node_list parts = {0};
    bool complete = true;
    for (int i = 0; i < count && complete; i++)
        if (can_join(first, given[i])) complete = tcc_vec_push(&parts, given[i]->operands[k]);
    tcc_node *joined = NULL;
    if (!complete) tcc_enomem(g->diag);
    else joined = tcc_ir_build(g, TCC_OP_CONCAT, parts.data, parts.count, &attrs, NULL, first->loc);
    tcc_vec_free(&parts);
    return joined;
}

/* The first of the products that are to be one; NULL: none are. */
static tcc_node *first_product(tcc_node *const *given, int count) {
    tcc_node *first = NULL;
    int64_t operands = 0, products = 0;
    for (int i = 0; i < count; i++) {
        if (!first && is_product(given[i])) first = given[i];
        if (!first || !can_join(first, given[i])) continue;
        for (int k = 0; k < 2; k++) operands += tcc_type_numel(&given[i]->operands[k]->type);
        products += tcc_type_numel(&first->type);
    }
    return operands < products && products > tcc_type_numel(&first->type) ? first : NULL;
}

/* Adds what is padded along `axis` to the sum. False after an error. */
static bool add_pads(tcc_graph *g, tcc_node *const *given, int count, int axis, tcc_node **sum) {
    span_list spans = {0};
    bool complete = true;
    for (int i = 0; i < count && complete; i++) {
        if (padded_axis(given[i]) != axis) continue;
        const tcc_attrs_pad *pad = &given[i]->attrs->pad;
        span s = {given[i], pad->lo.v[axis], given[i]->type.dims[axis] - pad->hi.v[axis], i, 0};
        complete = tcc_vec_push(&spans, s);
    }
    const int layers = complete && spans.count ? make_layers(&spans) : 0;
    if (!complete || layers < 0) tcc_enomem(g->diag);
    for (int layer = 0; layer < layers && complete; layer++) {
        tcc_node *joined = join_layer(g, &spans, layer, axis);
        if (joined) *sum = add(g, *sum, joined);
        complete = joined && *sum;
    }
    tcc_vec_free(&spans);
    return complete && layers >= 0;
}

tcc_node *tcc__gradient_sum(tcc_graph *g, tcc_node *const *given, int count) {
    tcc_node *sum = NULL;
    bool padded[TCC_MAX_RANK] = {false};
    if (count == 1) return given[0];
    tcc_node *first = first_product(given, count);
    if (first) {
        tcc_node *a = join_operands(g, given, count, first, 0), *b = join_operands(g, given, count, first, 1);
        if (!a || !b || !(sum = add(g, sum, tcc_ir_dot(g, a, b, &first->attrs->dot)))) return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (first && can_join(first, given[i])) continue;
        const int axis = padded_axis(given[i]);
        if (axis >= 0) padded[axis] = true;
        else if (!as_scatter(given[i]) && !(sum = add(g, sum, given[i]))) return NULL;
    }
    for (int axis = 0; axis < TCC_MAX_RANK; axis++)
        if (padded[axis] && !add_pads(g, given, count, axis, &sum)) return NULL;
    for (int i = 0; i < count; i++) {
        tcc_node *s = as_scatter(given[i]);
        if (!s) continue;
        tcc_node *base = sum ? sum : tcc_ir_widen(g, s->operands[0]);
        tcc_node *operands[] = {base, s->operands[1], tcc_ir_widen(g, s->operands[2])};
        sum = tcc_ir_build(g, s->op, operands, 3, s->attrs, NULL, s->loc);
        if (!sum) return NULL;
    }
    return tcc_ir_cast(g, sum, given[0]->type.dtype);
}
