/* SPDX-License-Identifier: MIT
 * simplify: reshapes and reductions. A reshape does no work, but it hides that two values have the same dims. So
 * reshapes move towards outputs, through arithmetic, reductions and contractions, and merge there; only broadcasts let
 * them pass the other way. A reduction keeps no axis of extent 1. */
#include "passes/simplify/simplify.h"

void tcc__reshape_parts(const tcc_type *from, const tcc_type *to, tcc_reshape_parts *out) {
    *out = (tcc_reshape_parts){0};
    int i = 0, k = 0;
    while (i < from->rank || k < to->rank) {
        out->from_begin[out->count] = i;
        out->to_begin[out->count] = k;
        int64_t a = i < from->rank ? from->dims[i++] : 1, b = k < to->rank ? to->dims[k++] : 1;
        while (a != b) {
            if (a < b) a *= from->dims[i++];
            else b *= to->dims[k++];
        }
        while (i < from->rank && from->dims[i] == 1) i++;
        while (k < to->rank && to->dims[k] == 1) k++;
        out->count++;
        if (a == 1 && out->count > 1) out->count--; /* nothing but dims of 1: part of the one before */
    }
    out->from_begin[out->count] = from->rank;
    out->to_begin[out->count] = to->rank;
}

static tcc_node *reshape_to(tcc_simplifier *s, tcc_node *x, const tcc_type *type) {
    return tcc__simplify(s, tcc_ir_reshape(s->g, x, type->rank, type->dims));
}

/* -- Reshape of a broadcast: a broadcast of the reshaped operand, if no part mixes old dims with new ones -- */

typedef struct broadcast_cut {
    tcc_type operand; /* the operand's dims after the reshape */
    tcc_dims dims;
} broadcast_cut;

static bool cut_broadcast(const tcc_node *x, const tcc_type *to, broadcast_cut *out) {
    const tcc_dims *dims = &x->attrs->broadcast.dims;
    tcc_reshape_parts parts;
    tcc__reshape_parts(&x->type, to, &parts);
    *out = (broadcast_cut){.operand.dtype = x->type.dtype};
    for (int p = 0; p < parts.count; p++) {
        int old = 0, all = 0;
        for (int i = parts.from_begin[p]; i < parts.from_begin[p + 1]; i++) {
            if (x->type.dims[i] == 1) continue;
            int from = tcc_dims_find(dims, i);
            all++;
            old += from >= 0 && x->operands[0]->type.dims[from] > 1;
        }
        if (old && old < all) return false;
        for (int i = parts.to_begin[p]; old && i < parts.to_begin[p + 1]; i++) {
            if (to->dims[i] == 1) continue;
            out->operand.dims[out->operand.rank++] = to->dims[i];
            out->dims.v[out->dims.count++] = i;
        }
    }
    return true;
}

static tcc_node *simplify_reshape(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    if (tcc_type_same_dims(&x->type, &n->type)) return x;
    if (x->op == TCC_OP_RESHAPE) return reshape_to(s, x->operands[0], &n->type);
    if (tcc_op_draws(x->op)) return tcc_ir_build(s->g, x->op, x->operands, 1, x->attrs, &n->type, TCC_NOWHERE);
    broadcast_cut cut;
    if (x->op == TCC_OP_BROADCAST && cut_broadcast(x, &n->type, &cut)) {
        tcc_node *small = reshape_to(s, x->operands[0], &cut.operand);
        tcc_attrs attrs = {.broadcast.dims = cut.dims};
        return small ? tcc__simplify(s, tcc_ir_build(s->g, TCC_OP_BROADCAST, &small, 1, &attrs, &n->type, TCC_NOWHERE))
                     : NULL;
    }
    return NULL;
}

/* -- Arithmetic on reshaped values: a reshape of arithmetic -- */

/* Whether a reshape of `x` to `dims` costs nothing. */
static bool takes_dims(const tcc_node *x, const tcc_type *dims) {
    broadcast_cut cut;
    if (tcc__is_splat(x) || tcc_op_draws(x->op)) return true;
    if (x->op == TCC_OP_RESHAPE) return tcc_type_same_dims(&x->operands[0]->type, dims);
    return x->op == TCC_OP_BROADCAST && cut_broadcast(x, dims, &cut);
}

static tcc_node *point_of_reshape(tcc_simplifier *s, tcc_node *n) {
    enum { MOST = 3 };
    const tcc_type *dims = NULL;
    for (int i = 0; i < n->n_operands && !dims; i++)
        if (n->operands[i]->op == TCC_OP_RESHAPE) dims = &n->operands[i]->operands[0]->type;
    if (!dims || n->n_operands > MOST || tcc_op_draws(n->op)) return NULL;
    for (int i = 0; i < n->n_operands; i++)
        if (!takes_dims(n->operands[i], dims)) return NULL;
    tcc_node *operands[MOST];
    for (int i = 0; i < n->n_operands; i++) operands[i] = reshape_to(s, n->operands[i], dims);
    tcc_type type = *dims;
    type.dtype = n->type.dtype;
    bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    tcc_node *work = tcc_ir_build(s->g, n->op, operands, n->n_operands, n->attrs, typed ? &type : NULL, TCC_NOWHERE);
    work = tcc__simplify(s, work);
    return work ? reshape_to(s, work, &n->type) : NULL;
}

/* -- Reductions -- */

static tcc_node *reduce_over(tcc_simplifier *s, tcc_op op, tcc_node *x, const tcc_dims *axes, const tcc_type *type) {
    if (!axes->count && op == TCC_OP_REDUCE_M2) x = tcc_ir_binary(s->g, TCC_OP_SUB, x, x); /* 0, or NaN */
    if (!x) return NULL;
    tcc_node *reduced = axes->count ? tcc__simplify(s, tcc_ir_reduce(s->g, op, x, axes)) : x;
    return reduced ? reshape_to(s, reduced, type) : NULL;
}

static tcc_node *simplify_reduce(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    const tcc_dims *axes = &n->attrs->axes.axes;
    tcc_dims longer = {0};
    for (int i = 0; i < axes->count; i++)
        if (x->type.dims[axes->v[i]] > 1) longer.v[longer.count++] = axes->v[i];
    if (longer.count < axes->count || axes->count == 0) return reduce_over(s, n->op, x, &longer, &n->type);
    if (x->op == n->op && (n->op == TCC_OP_REDUCE_MAX || n->op == TCC_OP_REDUCE_MIN)) {
        /* The maximum of maxima. Axes of the inner one count in its operand's dims, where the outer's skip them. */
        tcc_dims both = {0};
        const tcc_dims *inner = &x->attrs->axes.axes;
        for (int i = 0, kept = 0; i < x->operands[0]->type.rank; i++) {
            bool gone = tcc_dims_find(inner, i) >= 0;
            if (gone || tcc_dims_find(axes, kept) >= 0) both.v[both.count++] = i;
            kept += !gone;
        }
        return tcc__simplify(s, tcc_ir_reduce(s->g, n->op, x->operands[0], &both));
    }
    if (x->op != TCC_OP_RESHAPE) return NULL;
    tcc_node *y = x->operands[0];
    tcc_reshape_parts parts;
    tcc__reshape_parts(&y->type, &x->type, &parts);
    tcc_dims over = {0};
    for (int p = 0; p < parts.count; p++) {
        int gone = 0, all = 0;
        for (int i = parts.to_begin[p]; i < parts.to_begin[p + 1]; i++) {
            if (x->type.dims[i] == 1) continue;
            all++;
            gone += tcc_dims_find(axes, i) >= 0;
        }
        if (gone && gone < all) return NULL;
        for (int i = parts.from_begin[p]; gone && i < parts.from_begin[p + 1]; i++)
            if (y->type.dims[i] > 1) over.v[over.count++] = i;
    }
    return reduce_over(s, n->op, y, &over, &n->type);
}

tcc_node *tcc__simplify_reshape(tcc_simplifier *s, tcc_node *n) {
    if (n->op == TCC_OP_RESHAPE) return simplify_reshape(s, n);
    tcc_fusion_class fusion = tcc_op_get_info(n->op)->fusion;
    if (fusion == TCC_FUSION_REDUCE && n->op != TCC_OP_ARGMAX) return simplify_reduce(s, n);
    return fusion == TCC_FUSION_POINT ? point_of_reshape(s, n) : NULL;
}
