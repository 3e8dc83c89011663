/* SPDX-License-Identifier: MIT
 * What library calls of all kinds share: reading what follows the hero, and running in kernels of ours what the library
 * leaves. */
#include "codegen/lower_library.h"

/* --- What is fused */

static bool is_point(const tcc_expr *x, tcc_op op) {
    return x->kind == TCC_EXPR_POINT && x->op == op && x->n_operands == 2;
}

static bool is_zero(const tcc_expr *x) { return x->kind == TCC_EXPR_CONST && x->number == 0; }

static bool is_load(const tcc_expr *x) { return x->kind == TCC_EXPR_LOAD && !x->n_operands; }

bool tcc_library_read_value(const tcc_expr *x, const tcc_expr *port, tcc_library_fused *out) {
    out->bias = out->addend = NULL;
    out->relu = is_point(x, TCC_OP_MAX) && (is_zero(x->operands[0]) || is_zero(x->operands[1]));
    if (out->relu) x = x->operands[is_zero(x->operands[0])];
    while (is_point(x, TCC_OP_ADD) && !out->addend) {
        const int load = !is_load(x->operands[0]);
        if (!is_load(x->operands[load])) return false;
        out->addend = out->bias;
        out->bias = x->operands[load];
        x = x->operands[1 - load];
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

static bool contains(tcc_node *const *list, int n, const tcc_node *x) {
    for (int i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

static bool behind(const tcc_group *group, const tcc_node *n, const tcc_node *first) {
    if (n == first) return true;
    if (!tcc_group_has(group, n)) return false;
    for (int i = 0; i < n->n_operands; i++)
        if (behind(group, n->operands[i], first)) return true;
    return false;
}

tcc_group *tcc_library_rest(tcc_lowering *l, const tcc_node *cut) {
    const tcc_group *from = l->group;
    tcc_group *rest = TCC_ARENA_NEW(l->arena, tcc_group);
    tcc_node **nodes = TCC_ARENA_ARRAY(l->arena, tcc_node *, 2 * (from->n_nodes + 1));
    if (!rest || !nodes) return NULL;
    *rest = (tcc_group){.kind = TCC_GROUP_POINTWISE, .nodes = nodes, .outputs = nodes + from->n_nodes + 1};
    for (int i = 0; i < from->n_nodes;
         i++) /* what `cut` is made of stays outside, but work on other inputs may serve both */
        if (from->nodes[i] != cut && !(behind(from, cut, from->nodes[i]) && behind(from, from->nodes[i], from->hero)))
            nodes[rest->n_nodes++] = from->nodes[i];
    for (int i = 0; i < rest->n_nodes; i++)
        for (int o = 0; o < nodes[i]->n_operands; o++) {
            const tcc_node *x = nodes[i]->operands[o];
            if (x != cut && tcc_group_has(from, x) && !contains(nodes, rest->n_nodes, x)) return NULL;
        }
    for (int i = 0; i < from->n_outputs; i++)
        if (from->outputs[i] != cut) {
            if (!contains(nodes, rest->n_nodes, from->outputs[i])) return NULL;
            rest->outputs[rest->n_outputs++] = from->outputs[i];
        }
    rest->hero = rest->n_outputs ? rest->outputs[0] : NULL;
    return rest;
}

tcc_status tcc_library_lower_rest(tcc_lowering *l, const tcc_group *rest, const tcc_node *cut, int temporary) {
    const tcc_group *whole = l->group;
    int first = l->launches.count;
    l->group = rest;
    tcc_status status = tcc_lower_pointwise(l);
    l->group = whole;
    for (int i = first; i < l->launches.count && temporary >= 0; i++) {
        tcc_plan_launch *launch = &l->launches.data[i];
        for (int k = 0; k < launch->kernel.n_buffers; k++)
            if (launch->buffers[k].node == cut)
                launch->buffers[k] = (tcc_plan_buffer){.temporary = temporary,
                                                       .offset_bytes = launch->buffers[k].offset_bytes};
    }
    return status;
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
        tcc_body *b = tcc_body_create(l->arena, l->diag, l->graph, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_affine at[TCC_MAX_RANK];
        tcc_iteration_open(b, &it, at);
        const tcc_affine row = tcc_affine_scale(b, tcc_affine_linear(b, at, last, dims), row_bits / 8);
        const tcc_store store = {.buffer = tcc_body_temporary(b, temporary, TCC_U8, true),
                                 .offset = tcc_affine_expand(b, tcc_affine_add(b, row, at[last])),
                                 .value = pack_byte(b, value, at)};
        if (store.value && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        if (!tcc_iteration_refine(&it, b)) return tcc_schedule_points(l, b);
        tcc_body_free(b);
    }
}

tcc_status tcc_library_add_call(tcc_lowering *l, const char *entry, const int64_t *params, int n_params,
                                const tcc_plan_buffer *buffers, int n_buffers, double flop) {
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    launch->library = entry;
    launch->kernel.schedule = "library";
    launch->kernel.n_buffers = n_buffers;
    launch->kernel.n_params = n_params;
    launch->buffers = tcc_arena_copy(l->arena, buffers, sizeof *buffers * (size_t)n_buffers);
    launch->params = tcc_arena_copy(l->arena, params, sizeof *params * (size_t)n_params);
    launch->flop = flop;
    return launch->buffers && launch->params ? TCC_OK : tcc_enomem(l->diag);
}
