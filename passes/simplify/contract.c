/* SPDX-License-Identifier: MIT
 * simplify: contractions and scatter_add. Transposes and reshapes of operands go into the attributes of dot. A
 * transpose of a dot's result becomes another order of its operands or batch dims. Zero padding goes into a
 * convolution. Where something is added to a scatter onto zeros, it becomes the base of the scatter. */
#include "passes/simplify/simplify.h"

#include <string.h>

/* -- Dot: what becomes of an operand's dims -- */

typedef struct side {
    tcc_node *x;
    tcc_dims batch, contract;
} side;

static bool is_free(const side *a, int dim) {
    return tcc_dims_find(&a->batch, dim) < 0 && tcc_dims_find(&a->contract, dim) < 0;
}

static tcc_node *build_dot(tcc_simplifier *s, const side *a, const side *b) {
    tcc_attrs_dot attrs = {
        .batch_a = a->batch, .batch_b = b->batch, .contract_a = a->contract, .contract_b = b->contract};
    return tcc__simplify(s, tcc_ir_dot(s->g, a->x, b->x, &attrs));
}

/* Looks through a transpose that leaves the free dims in their order. */
static bool drop_transpose(side *a) {
    if (a->x->op != TCC_OP_TRANSPOSE) return false;
    const tcc_dims *perm = &a->x->attrs->perm.perm;
    int64_t last = -1;
    for (int i = 0; i < perm->count; i++) {
        if (!is_free(a, i)) continue;
        if (perm->v[i] < last) return false;
        last = perm->v[i];
    }
    for (int i = 0; i < a->batch.count; i++) a->batch.v[i] = perm->v[a->batch.v[i]];
    for (int i = 0; i < a->contract.count; i++) a->contract.v[i] = perm->v[a->contract.v[i]];
    a->x = a->x->operands[0];
    return true;
}

/* The dims of the reshape's operand that dim `dim` of its result was merged from, if that part holds `dim` alone. */
static bool dims_behind(const tcc_reshape_parts *parts, int64_t dim, int *begin, int *end) {
    for (int p = 0; p < parts->count; p++) {
        if (parts->to_begin[p] != dim || parts->to_begin[p + 1] != dim + 1) continue;
        *begin = parts->from_begin[p];
        *end = parts->from_begin[p + 1];
        return true;
    }
    return false;
}

/* Looks through reshapes of one or both operands that merge (or split) whole free dims, and merge the same contracted
 * or batch dims on both sides. */
static bool drop_reshapes(side *a, side *b, bool through_a, bool through_b) {
    side *sides[2] = {a, b};
    bool through[2] = {through_a, through_b};
    tcc_reshape_parts parts[2];
    side result[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        const tcc_type *to = &sides[i]->x->type;
        if (through[i] && sides[i]->x->op != TCC_OP_RESHAPE) return false;
        if (through[i]) result[i].x = sides[i]->x->operands[0];
        tcc__reshape_parts(&result[i].x->type, to, &parts[i]);
        result[i].batch.count = result[i].contract.count = 0;
        /* A part of the result is free as a whole, or one dim. */
        for (int p = 0; p < parts[i].count; p++) {
            int free_dims = 0, all = parts[i].to_begin[p + 1] - parts[i].to_begin[p];
            for (int d = parts[i].to_begin[p]; d < parts[i].to_begin[p + 1]; d++) free_dims += is_free(sides[i], d);
            if (free_dims != all && all != 1) return false;
        }
    }
    for (int which = 0; which < 2; which++) {
        const tcc_dims *la = which ? &a->contract : &a->batch, *lb = which ? &b->contract : &b->batch;
        tcc_dims *ra = which ? &result[0].contract : &result[0].batch,
                 *rb = which ? &result[1].contract : &result[1].batch;
        for (int i = 0; i < la->count; i++) {
            int a0, a1, b0, b1;
            if (!dims_behind(&parts[0], la->v[i], &a0, &a1) || !dims_behind(&parts[1], lb->v[i], &b0, &b1))
                return false;
            if (a1 - a0 != b1 - b0) return false;
            for (int k = 0; k < a1 - a0; k++) {
                if (result[0].x->type.dims[a0 + k] != result[1].x->type.dims[b0 + k] || ra->count == TCC_MAX_RANK)
                    return false;
                ra->v[ra->count++] = a0 + k;
                rb->v[rb->count++] = b0 + k;
            }
        }
    }
    int rank = result[0].x->type.rank + result[1].x->type.rank - result[0].batch.count - 2 * result[0].contract.count;
    if (rank > TCC_MAX_RANK) return false;
    *a = result[0];
    *b = result[1];
    return true;
}

static tcc_node *simplify_dot(tcc_simplifier *s, tcc_node *n) {
    const tcc_attrs_dot *attrs = &n->attrs->dot;
    side a = {n->operands[0], attrs->batch_a, attrs->contract_a},
         b = {n->operands[1], attrs->batch_b, attrs->contract_b};
    bool dropped_a = drop_transpose(&a), dropped_b = drop_transpose(&b);
    if (dropped_a || dropped_b) return build_dot(s, &a, &b);
    if (drop_reshapes(&a, &b, true, true) || drop_reshapes(&a, &b, true, false) || drop_reshapes(&a, &b, false, true)) {
        tcc_node *dot = build_dot(s, &a, &b);
        return dot ? tcc__simplify(s, tcc_ir_reshape(s->g, dot, n->type.rank, n->type.dims)) : NULL;
    }
    return NULL;
}

/* Transpose of a dot that nobody else uses: another order of the batch dims, or the operands the other way round. */
static tcc_node *transpose_of_dot(tcc_simplifier *s, tcc_node *n) {
    const tcc_node *dot = n->operands[0];
    const tcc_dims *perm = &n->attrs->perm.perm;
    const tcc_attrs_dot *attrs = &dot->attrs->dot;
    int batch = attrs->batch_a.count;
    int free_a = dot->operands[0]->type.rank - batch - attrs->contract_a.count;
    int free_b = dot->type.rank - batch - free_a;
    side a = {dot->operands[0], attrs->batch_a, attrs->contract_a},
         b = {dot->operands[1], attrs->batch_b, attrs->contract_b};
    for (int i = 0; i < batch; i++) {
        if (perm->v[i] >= batch) return NULL;
        a.batch.v[i] = attrs->batch_a.v[perm->v[i]];
        b.batch.v[i] = attrs->batch_b.v[perm->v[i]];
    }
    bool same = true, swapped = true;
    for (int i = batch; i < perm->count; i++) {
        same &= perm->v[i] == i;
        swapped &= perm->v[i] == (i < batch + free_b ? i + free_a : i - free_b);
    }
    if (same) return build_dot(s, &a, &b);
    return swapped ? build_dot(s, &b, &a) : NULL;
}

/* -- Convolution -- */

static tcc_node *conv_of_pad(tcc_simplifier *s, tcc_node *n) {
    tcc_node *x = n->operands[0];
    if (x->op != TCC_OP_PAD || x->attrs->pad.value != 0) return NULL;
    const tcc_attrs_pad *pad = &x->attrs->pad;
    tcc_attrs attrs = {.conv = n->attrs->conv};
    int spatial = n->type.rank - 2, first = attrs.conv.channels_last ? 1 : 2;
    for (int i = 0; i < n->type.rank; i++) {
        bool is_spatial = i >= first && i < first + spatial;
        if (pad->interior.v[i] || (!is_spatial && (pad->lo.v[i] || pad->hi.v[i]))) return NULL;
        if (!is_spatial) continue;
        attrs.conv.pad_lo.v[i - first] += pad->lo.v[i];
        attrs.conv.pad_hi.v[i - first] += pad->hi.v[i];
    }
    tcc_node *operands[] = {x->operands[0], n->operands[1]};
    return tcc_ir_build(s->g, TCC_OP_CONV, operands, 2, &attrs, NULL, TCC_NOWHERE);
}

/* -- Scatter -- */

/* Something is added to a scatter onto zeros: it becomes the base instead, so that no zeros are written and nothing is
 * added afterwards. This changes the order of additions; those of one element stay ordered by position. */
static tcc_node *add_of_scatter(tcc_simplifier *s, tcc_node *n) {
    for (int k = 0; k < 2; k++) {
        const tcc_node *scatter = n->operands[k];
        bool scatters = scatter->op == TCC_OP_SCATTER_ADD || scatter->op == TCC_OP_SCATTER_ADD_ALONG;
        if (!scatters || !tcc__used_once(s, n, k) || !tcc__is_splat_of(scatter->operands[0], 0)) continue;
        tcc_node *operands[] = {n->operands[1 - k], scatter->operands[1], scatter->operands[2]};
        return tcc_ir_build(s->g, scatter->op, operands, 3, scatter->attrs, NULL, TCC_NOWHERE);
    }
    return NULL;
}

tcc_node *tcc__simplify_contract(tcc_simplifier *s, tcc_node *n) {
    switch (n->op) {
    case TCC_OP_DOT: return simplify_dot(s, n);
    case TCC_OP_CONV: return conv_of_pad(s, n);
    case TCC_OP_ADD: return add_of_scatter(s, n);
    case TCC_OP_TRANSPOSE:
        return n->operands[0]->op == TCC_OP_DOT && tcc__used_once(s, n, 0) ? transpose_of_dot(s, n) : NULL;
    default: return NULL;
    }
}
