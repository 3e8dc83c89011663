/* SPDX-License-Identifier: MIT
 * The definition of a scatter that replaces whole slices. Which update comes last at a place is the largest of the
 * turns, counted from 1, of those that go there; 0: none does. */
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/decompose_rules.h"

static tcc_node *indexed(tcc_graph *g, tcc_op op, tcc_node *const *operands, int count, int axis) {
    const tcc_attrs attrs = {.axis = {.axis = axis}};
    return tcc_ir_build(g, op, operands, count, &attrs, NULL, TCC_NOWHERE);
}

static tcc_node *flat(tcc_graph *g, tcc_node *x) {
    if (!x) return NULL;
    const int64_t count = tcc_type_numel(&x->type);
    return tcc_ir_reshape(g, x, 1, &count);
}

/* [n]: 1, 2, ... */
static tcc_node *turns(tcc_graph *g, int64_t n) {
    const tcc_type type = {n < INT32_MAX ? TCC_I32 : TCC_I64, 1, {n}};
    return tcc_ir_binary_c(g, TCC_OP_ADD, tcc_ir_iota(g, &type, 0), 1);
}

/* [count], of the places that `index` [n] says. */
static tcc_node *last_turns(tcc_graph *g, tcc_node *index, int64_t count) {
    if (!index) return NULL;
    tcc_node *turn = turns(g, tcc_type_numel(&index->type));
    if (!turn) return NULL;
    const tcc_type type = {turn->type.dtype, 1, {count}};
    return indexed(g, TCC_OP_SCATTER_MAX, (tcc_node *[]){tcc_ir_splat(g, &type, 0), index, turn}, 3, 0);
}

/* x, whose dims begin at the axis of the others. */
static tcc_node *put_at_axis(tcc_graph *g, tcc_node *x, const tcc_type *in, int axis) {
    int dims[TCC_MAX_RANK];
    if (!x) return NULL;
    for (int d = 0; d < x->type.rank; d++) dims[d] = axis + d;
    return tcc_ir_broadcast(g, x, in->rank, in->dims, dims);
}

tcc_ir_replaced tcc_ir_get_replaced(tcc_graph *g, const tcc_node *n, tcc_node *base, tcc_node *index,
                                    tcc_node *updates) {
    const int axis = (int)n->attrs->axis.axis;
    tcc_ir_replaced r = {0};
    tcc_node *turn = turns(g, tcc_type_numel(&index->type));
    turn = turn ? tcc_ir_reshape(g, turn, index->type.rank, index->type.dims) : NULL;
    r.last = last_turns(g, flat(g, index), base->type.dims[axis]);
    if (!r.last || !turn) return r;
    r.hit = put_at_axis(g, tcc_ir_binary_c(g, TCC_OP_GT, r.last, 0), &base->type, axis);
    tcc_node *found = indexed(g, TCC_OP_TAKE, (tcc_node *[]){r.last, index}, 2, 0);
    r.counts = put_at_axis(g, tcc_ir_binary(g, TCC_OP_EQ, found, turn), &updates->type, axis);
    return r;
}

TCC_DEFINITION(SCATTER) {
    const int axis = (int)n->attrs->axis.axis;
    const tcc_ir_replaced r = tcc_ir_get_replaced(g, n, in[0], in[1], in[2]);
    tcc_type rows = in[0]->type;
    rows.dims[axis] = tcc_type_numel(&in[1]->type);
    tcc_node *from = tcc_ir_reshape(g, in[2], rows.rank, rows.dims);
    tcc_node *picked[] = {from, tcc_ir_binary_c(g, TCC_OP_ADD, r.last, -1)};
    return tcc_ir_select(g, r.hit, indexed(g, TCC_OP_TAKE, picked, 2, axis), in[0]);
}
