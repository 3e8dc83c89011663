/* SPDX-License-Identifier: MIT
 * Shared by all library calls: reading the epilogue, and cutting the group where the library stops. */
#include "codegen/library/call.h"

#include "passes/select.h"

/* --- What is fused */

static bool is_point(const tcc_expr *x, tcc_op op) {
    return x->kind == TCC_EXPR_POINT && x->op == op && x->n_operands == 2;
}

static bool is_zero(const tcc_expr *x) { return x->kind == TCC_EXPR_CONST && x->number == 0; }

static bool is_load(const tcc_expr *x) { return x->kind == TCC_EXPR_LOAD && !x->n_operands; }

/* A library rounds once, at the end: what of the types between it passes over is its choice. */
bool tcc_library_read_value(const tcc_expr *x, const tcc_expr *port, tcc_library_fused *out) {
    out->bias = out->addend = NULL;
    x = tcc_expr_unrounded(x);
    out->relu = is_point(x, TCC_OP_MAX) && (is_zero(x->operands[0]) || is_zero(x->operands[1]));
    if (out->relu) x = tcc_expr_unrounded(x->operands[is_zero(x->operands[0])]);
    while (is_point(x, TCC_OP_ADD) && !out->addend) {
        const int load = !is_load(x->operands[0]);
        if (!is_load(x->operands[load])) return false;
        out->addend = out->bias;
        out->bias = x->operands[load];
        x = tcc_expr_unrounded(x->operands[1 - load]);
    }
    return x == port;
}

bool tcc_library_along_loops(const tcc_body *b, const tcc_affine *a) {
    for (int i = 0; i < a->n; i++)
        if (b->vars.data[a->terms[i].var].kind != TCC_VAR_LOOP) return false;
    return true;
}

int64_t tcc_library_alignment(int64_t alignment, int64_t bytes) { return (alignment | bytes) & -(alignment | bytes); }

/* --- What is left */

/* The group's own pointer to the node. */
static tcc_node *member(const tcc_group *group, const tcc_node *n) {
    for (int i = 0; i < group->n_nodes; i++)
        if (group->nodes[i] == n) return group->nodes[i];
    return NULL;
}

bool tcc_library_leaves(tcc_lowering *l, const tcc_node *n) {
    tcc_group first, rest;
    bool possible = false;
    tcc_node *cut = member(l->group, n);
    return cut && tcc_group_cut(l->arena, l->diag, l->group, cut, &first, &rest, &possible) == TCC_OK && possible;
}

tcc_status tcc_library_cut(tcc_lowering *l, const tcc_node *n) {
    l->cut = member(l->group, n);
    return tcc_lowering_give_up(l);
}

/* --- The call */

/* Byte `at` of the last dim. */
static const tcc_expr *pack_byte(tcc_body *b, const tcc_node *value, const tcc_affine *at) {
    const int last = value->type.rank - 1;
    const tcc_expr *sum = NULL;
    tcc_affine from[TCC_MAX_RANK];
    for (int i = 0; i < last; i++) from[i] = at[i];
    for (int i = 0; i < 8; i++) {
        from[last] = tcc_affine_add_constant(tcc_affine_scale(b, at[last], 8), i);
        const tcc_expr *bit = tcc_body_trace(b, value, from);
        if (!bit) return NULL;
        const tcc_expr *choice[] = {bit, tcc_expr_number(b, TCC_I32, 1 << i), tcc_expr_number(b, TCC_I32, 0)};
        const tcc_expr *terms[] = {sum, tcc_expr_point(b, TCC_OP_SELECT, TCC_I32, choice, 3)};
        sum = sum ? tcc_expr_point(b, TCC_OP_ADD, TCC_I32, terms, 2) : terms[1];
    }
    return tcc_expr_point(b, TCC_OP_CAST, TCC_U8, &sum, 1);
}

tcc_status tcc_library_pack_bits(tcc_lowering *l, const tcc_node *value, int64_t row_bits, int temporary) {
    const int last = value->type.rank - 1;
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i <= last; i++) dims[i] = value->type.dims[i] / (i == last ? 8 : 1);
    tcc_iteration it;
    tcc_iteration_init(&it, last + 1, dims);
    for (;;) {
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_affine at[TCC_MAX_RANK];
        tcc_iteration_open(b, &it, at);
        const tcc_affine row = tcc_affine_scale(b, tcc_affine_linear(b, at, last, dims), row_bits / 8);
        const tcc_body_write store = {.buffer = tcc_body_temporary(b, temporary, TCC_U8, true),
                                      .offset = tcc_affine_expand(b, tcc_affine_add(b, row, at[last])),
                                      .value = pack_byte(b, value, at)};
        if (store.value && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        if (!tcc_iteration_refine(&it, b)) return tcc_schedule_points(l, b);
        tcc_body_free(b);
    }
}

tcc_status tcc_library_add_call(tcc_lowering *l, tcc_call call, const int64_t *params, const tcc_plan_buffer *buffers,
                                double flop) {
    const tcc_call_info *info = tcc_call_get_info(call);
    const int n_params = info->n_params, n_buffers = info->n_buffers;
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    launch->library = info->name;
    launch->kernel.schedule = "library";
    launch->kernel.n_buffers = n_buffers;
    launch->kernel.n_params = n_params;
    launch->buffers = tcc_arena_copy(l->arena, buffers, sizeof *buffers * (size_t)n_buffers);
    launch->params = tcc_arena_copy(l->arena, params, sizeof *params * (size_t)n_params);
    tcc_region *regions = TCC_ARENA_ARRAY(l->arena, tcc_region, n_buffers + 1);
    launch->flop = flop;
    launch->regions = regions;
    if (!launch->buffers || !launch->params || !regions) return tcc_enomem(l->diag);
    tcc_library_regions(call, params, regions);
    return TCC_OK;
}
