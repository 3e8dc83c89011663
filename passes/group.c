/* SPDX-License-Identifier: MIT
 * Questions about groups that more than one pass and codegen ask, and copying them to another graph. */
#include "passes/group.h"

#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

static bool contains(tcc_node *const *nodes, int count, const tcc_node *n) {
    for (int i = 0; i < count; i++)
        if (nodes[i] == n) return true;
    return false;
}

int tcc_group_position(const tcc_group *group, const tcc_node *n) {
    int low = 0, high = group->n_nodes;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (group->nodes[middle]->id < n->id) low = middle + 1;
        else high = middle;
    }
    return low < group->n_nodes && group->nodes[low] == n ? low : -1;
}

bool tcc_group_has(const tcc_group *group, const tcc_node *n) { return tcc_group_position(group, n) >= 0; }

bool tcc_group_stores(const tcc_group *group, const tcc_node *n) {
    return contains(group->outputs, group->n_outputs, n);
}

bool tcc_group_sums(tcc_group_kind kind) {
    return kind != TCC_GROUP_POINTWISE && kind != TCC_GROUP_WINDOW && kind != TCC_GROUP_SORT;
}

tcc_node *tcc_group_hero_among(const tcc_group *group, tcc_node *const *become) {
    const tcc_fusion_class classes[] = {tcc_op_get_info(group->hero->op)->fusion, TCC_FUSION_REDUCE};
    const int own = tcc_group_position(group, group->hero);
    if (own >= 0 && become[own]) return become[own];
    tcc_node *found = NULL;
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < group->n_nodes; i++) {
            if (!become[i] || tcc_op_get_info(group->nodes[i]->op)->fusion != classes[c]) continue;
            if (!found || (c == 0 && classes[0] == TCC_FUSION_REDUCE && tcc_sums_parts(become[i], found)))
                found = become[i];
        }
    return found;
}

tcc_dims tcc_reduction_axes(const tcc_node *n) {
    return n->op == TCC_OP_ARGMAX ? (tcc_dims){1, {n->attrs->axis.axis}} : n->attrs->axes.axes;
}

bool tcc_sums_parts(const tcc_node *row, const tcc_node *n) {
    if (n->op != TCC_OP_REDUCE_SUM || !tcc_type_same_dims(&n->operands[0]->type, &row->operands[0]->type)) return false;
    const tcc_dims axes = tcc_reduction_axes(row), inner = tcc_reduction_axes(n);
    const tcc_type *x = &n->operands[0]->type;
    int64_t parts = 1;
    bool begun = false;
    for (int i = 0; i < x->rank; i++) {
        if (x->dims[i] == 1) continue;
        const bool in_row = tcc_dims_has(&axes, i), in_part = tcc_dims_has(&inner, i);
        if ((in_part && !in_row) || (begun && !in_part)) return false;
        begun |= in_part;
        parts *= in_row && !in_part ? x->dims[i] : 1;
    }
    return begun && parts > 1;
}

void tcc_group_mark_across(const tcc_group *group, bool *across) {
    bool reduces = group->kind == TCC_GROUP_REDUCE;
    tcc_dims rows = reduces ? tcc_reduction_axes(group->hero) : (tcc_dims){0};
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_node *n = group->nodes[i];
        across[i] = false;
        if (reduces && tcc_op_get_info(n->op)->fusion == TCC_FUSION_REDUCE) {
            tcc_dims axes = tcc_reduction_axes(n);
            across[i] = axes.count != rows.count || memcmp(axes.v, rows.v, sizeof axes.v[0] * (size_t)axes.count);
            across[i] = across[i] && !tcc_sums_parts(group->hero, n);
        }
        for (int k = 0; k < n->n_operands; k++)
            for (int j = 0; j < i; j++) across[i] = across[i] || (across[j] && group->nodes[j] == n->operands[k]);
    }
}

static bool same_set(const tcc_dims *a, const tcc_dims *b) {
    for (int i = 0; i < a->count; i++)
        if (!tcc_dims_has(b, a->v[i])) return false;
    return a->count == b->count;
}

bool tcc_is_batch_norm(tcc_op op) { return op >= TCC_OP_BATCH_NORM && op <= TCC_OP_BATCH_NORM_GRAD_BIAS; }

static bool is_norm_gradient(const tcc_node *n) {
    return n->op >= TCC_OP_BATCH_NORM_GRAD_X && n->op <= TCC_OP_BATCH_NORM_GRAD_BIAS;
}

bool tcc_same_batch_norm(const tcc_node *a, const tcc_node *b) {
    const tcc_attrs_norm *p = &a->attrs->norm, *q = &b->attrs->norm;
    if (is_norm_gradient(a) != is_norm_gradient(b) || p->axis != q->axis || p->eps != q->eps || p->ranks != q->ranks)
        return false;
    if (a->op == b->op) return a == b;
    if (!is_norm_gradient(a)) return a->operands[0] == b->operands[0];
    for (int i = 0; i < a->n_operands; i++)
        if (i >= b->n_operands || a->operands[i] != b->operands[i]) return false;
    return a->n_operands == b->n_operands;
}

bool tcc_is_whole_order(const tcc_node *n) {
    if (n->op != TCC_OP_ARGSORT) return false;
    const tcc_type *x = &n->operands[0]->type;
    return n->attrs->order.count == x->dims[x->rank - 1] && tcc_dtype_bytes(x->dtype) <= 4;
}

bool tcc_is_first_in_order(const tcc_node *n) {
    const int rank = n->type.rank;
    if (n->op != TCC_OP_SLICE || !tcc_is_whole_order(n->operands[0]) || rank == TCC_MAX_RANK) return false;
    for (int i = 0; i < rank; i++) {
        if (n->attrs->slice.start.v[i] != 0 || n->attrs->slice.stride.v[i] != 1) return false;
        if (i < rank - 1 && n->type.dims[i] != n->operands[0]->type.dims[i]) return false;
    }
    return true;
}

const tcc_node *tcc_group_first_in_order(const tcc_group *group) {
    for (int i = 0; i < group->n_nodes; i++)
        if (tcc_is_first_in_order(group->nodes[i]) && group->nodes[i]->operands[0] == group->hero)
            return group->nodes[i];
    return NULL;
}

bool tcc_is_zeros(const tcc_node *n) {
    const tcc_doubles *values = n->op == TCC_OP_CONSTANT ? &n->attrs->constant.values : NULL;
    return values && values->count == 1 && values->v[0] == 0 && !signbit(values->v[0]);
}

bool tcc_is_put_in_order(const tcc_node *n) {
    if (n->op != TCC_OP_SCATTER_ADD_ALONG) return false;
    const tcc_node *order = n->operands[1], *put = n->operands[2];
    return tcc_is_whole_order(order) && n->attrs->axis.axis == n->type.rank - 1 &&
           tcc_type_numel(&put->type) == tcc_type_numel(&n->type) &&
           tcc_type_numel(&order->type) == tcc_type_numel(&n->type) && tcc_is_zeros(n->operands[0]);
}

bool tcc_same_maxima(const tcc_node *a, const tcc_node *b) {
    const bool maxima = (a->op == TCC_OP_MAX_POOL || a->op == TCC_OP_MAX_POOL_PLACE) &&
                        (b->op == TCC_OP_MAX_POOL || b->op == TCC_OP_MAX_POOL_PLACE);
    return maxima && a->operands[0] == b->operands[0] && tcc_attrs_equal(TCC_ATTR_CLASS_pool, a->attrs, b->attrs);
}

int tcc_group_summed_operand(const tcc_node *dot, const tcc_node *sum) {
    if (dot->op != TCC_OP_DOT || sum->op != TCC_OP_REDUCE_SUM || dot->attrs->dot.batch_a.count) return -1;
    for (int i = 0; i < 2; i++)
        if (sum->operands[0] == dot->operands[i] &&
            same_set(&sum->attrs->axes.axes, i ? &dot->attrs->dot.contract_b : &dot->attrs->dot.contract_a))
            return i;
    return -1;
}

int *tcc_group_producers(const tcc_graph *g) {
    int *producers = tcc__malloc(sizeof *producers * (size_t)(g->nodes.count + 1));
    if (!producers) return NULL;
    for (int i = 0; i < g->nodes.count; i++) producers[i] = -1;
    for (int i = 0; i < g->groups.count; i++)
        for (int k = 0; k < g->groups.data[i].n_outputs; k++) producers[g->groups.data[i].outputs[k]->id] = i;
    return producers;
}

int tcc_group_inputs(const tcc_group *group, tcc_node **out) {
    int count = 0;
    for (int i = 0; i < group->n_nodes; i++)
        for (int k = 0; k < group->nodes[i]->n_operands; k++) {
            tcc_node *operand = group->nodes[i]->operands[k];
            if (operand->op == TCC_OP_CONSTANT || tcc_group_has(group, operand) || contains(out, count, operand))
                continue;
            out[count++] = operand;
        }
    return count;
}

static tcc_node **map_nodes(tcc_rewrite *rw, tcc_node *const *nodes, int count) {
    tcc_node **mapped = TCC_ARENA_ARRAY(&rw->to->arena, tcc_node *, count ? count : 1);
    for (int i = 0; mapped && i < count; i++) mapped[i] = rw->map[nodes[i]->id];
    return mapped;
}

static tcc_status copy_all(tcc_rewrite *rw, const int *order) {
    const tcc_graph *from = rw->from;
    tcc_graph *to = rw->to;
    for (int i = 0; i < from->nodes.count; i++) {
        const tcc_node *old = from->nodes.data[i];
        if (!rw->map[old->id] && !tcc_rewrite_copy(rw, old)) return to->diag->status;
    }
    for (int i = 0; i < from->groups.count; i++) {
        const tcc_group *old = &from->groups.data[order ? order[i] : i];
        tcc_group group = {.kind = old->kind, .n_nodes = old->n_nodes, .n_outputs = old->n_outputs};
        group.hero = rw->map[old->hero->id];
        group.nodes = map_nodes(rw, old->nodes, old->n_nodes);
        group.outputs = map_nodes(rw, old->outputs, old->n_outputs);
        if (old->implementation)
            group.implementation = tcc_implementation_copy(&to->arena, old->implementation, rw->map);
        if (!group.nodes || !group.outputs || !group.implementation != !old->implementation ||
            !tcc_vec_push(&to->groups, group))
            return tcc_enomem(to->diag);
    }
    for (int i = 0; i < from->places.count; i++) {
        const tcc_place *old = &from->places.data[i];
        if (!tcc_vec_push(&to->places, (tcc_place){rw->map[old->node->id], old->offset_bytes}))
            return tcc_enomem(to->diag);
    }
    to->arena_bytes = from->arena_bytes;
    return TCC_OK;
}

tcc_status tcc_group_copy_graph(const tcc_graph *in, const int *order, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    const tcc_status status = copy_all(&rw, order);
    if (status == TCC_OK) return tcc_rewrite_end(&rw, out);
    tcc_rewrite_abort(&rw);
    return status;
}

static bool has_equal_parts(const tcc_node *n) {
    for (int k = 1; n->op == TCC_OP_CONCAT && k < n->n_operands; k++)
        if (!tcc_type_equal(&n->operands[k]->type, &n->operands[0]->type)) return false;
    return n->op == TCC_OP_CONCAT;
}

bool tcc_group_weaves(tcc_node *const *outputs, int count, int64_t *part) {
    int stores = 0;
    *part = count ? tcc_type_numel(&outputs[0]->type) : 0;
    for (int i = 1; i < count; i++)
        if (tcc_type_numel(&outputs[i]->type) < *part) *part = tcc_type_numel(&outputs[i]->type);
    for (int i = 0; i < count; i++) {
        const bool whole = tcc_type_numel(&outputs[i]->type) == *part;
        if (!whole && (!has_equal_parts(outputs[i]) || tcc_type_numel(&outputs[i]->operands[0]->type) != *part))
            return false;
        stores += whole ? 1 : outputs[i]->n_operands;
    }
    return stores > count && stores <= TCC_GROUP_MAX_WOVEN;
}
