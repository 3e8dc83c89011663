/* SPDX-License-Identifier: MIT
 * Lowering dots to the contraction schedule. An operand is read in place if its elements are an affine map of memory,
 * through transposes and reshapes of the group. On CUDA, an operand with a prologue is computed while it is read, if
 * the prologue's inputs are such maps (prologue.h). Else the operand is copied into a temporary first. */
#include "codegen/contract/launch.h"
#include "codegen/schedule/operand.h"
#include "passes/select.h"

enum { B = TCC_CONTRACT_B, M = TCC_CONTRACT_M, N = TCC_CONTRACT_N, K = TCC_CONTRACT_K };

/* The operand's value in the joint space, if it can be evaluated where it is read. `axes`: of the joint space, by dim
 * of n. */
static tcc_status computed_operand(tcc_lowering *l, const tcc_iteration *it, const tcc_node *n, const int *axes,
                                   tcc_prologue **out) {
    tcc_affine coordinates[TCC_MAX_RANK], at[TCC_MAX_RANK];
    tcc_body *b = tcc_lowering_body(l, l->group);
    if (!b) return tcc_enomem(l->diag);
    tcc_iteration_open(b, it, coordinates);
    for (int i = 0; i < n->type.rank; i++) at[i] = coordinates[axes[i]];
    return tcc_prologue_create(l, b, tcc_body_trace(b, n, at), out);
}

/* The index map of one operand of a dot in the joint space: in place, of what it is computed from, or over a copy. */
static tcc_status dot_operand(tcc_lowering *l, tcc_body *b, const tcc_iteration *it, const tcc_node *n, const int *axes,
                              const tcc_affine *at, tcc_contract_operand *out, tcc_affine *map) {
    const tcc_expr *x = tcc_body_trace(b, n, at);
    TCC_TRY(b->status);
    out->dtype = tcc_contract_type_in_place(l, n);
    if (tcc_operand_in_place(b, x, out->dtype, &out->buffer)) {
        *map = x->affine;
        out->offset = map->constant;
        return TCC_OK;
    }
    bool computes = tcc_contract_stages_operands(l) && tcc_group_has(l->group, n) && n->type.dtype == out->dtype;
    if (computes) TCC_TRY(computed_operand(l, it, n, axes, &out->prologue));
    if (out->prologue) {
        *map = out->prologue->forms[0];
        return TCC_OK;
    }
    out->buffer = (tcc_plan_buffer){0};
    out->dtype = tcc_contract_type_of_copy(l, n);
    TCC_TRY(tcc_operand_copy(l, n, out->dtype, NULL, NULL, NULL, &out->buffer.temporary));
    *map = tcc_affine_linear(b, at, n->type.rank, n->type.dims);
    out->offset = map->constant;
    return TCC_OK;
}

/* One dimension of the contraction for each loop of the joint space. */
static void add_loops(tcc_contract_shape *s, const tcc_iteration *it, const int *lists, const tcc_affine *map_a,
                      const tcc_affine *map_b) {
    int var = 0;
    for (int i = 0; i < it->rank; i++)
        for (int f = 0; f < it->axes[i].n; f++) {
            int64_t extent = it->axes[i].factors[f];
            if (extent == 1) continue; /* no loop either */
            int result = lists[i] == K ? -1 : tcc_contract_add_result(s, extent);
            tcc_contract_dim *d = tcc_contract_add(s, lists[i], extent, tcc_affine_coefficient(map_a, var),
                                                   tcc_affine_coefficient(map_b, var), result);
            for (int o = 0; o < 2; o++) {
                const tcc_prologue *p = o ? s->b.prologue : s->a.prologue;
                for (int f = 0; p && f < p->reads.n_forms; f++) d->f[o][f] = tcc_affine_coefficient(&p->forms[f], var);
            }
            var++;
        }
}

/* With a sum of an operand wanted or NULL; *summed: it is made. */
static tcc_status lower_product(tcc_lowering *l, const tcc_node *sum, bool *summed) {
    const tcc_node *hero = l->group->hero, *x = hero->operands[0], *w = hero->operands[1];
    const tcc_attrs_dot *dot = &hero->attrs->dot;
    int64_t dims[4 * TCC_MAX_RANK];
    int lists[4 * TCC_MAX_RANK], axis_a[TCC_MAX_RANK], axis_b[TCC_MAX_RANK], rank = 0;
    for (int i = 0; i < dot->batch_a.count; i++, rank++) {
        axis_a[dot->batch_a.v[i]] = axis_b[dot->batch_b.v[i]] = rank;
        dims[rank] = x->type.dims[dot->batch_a.v[i]], lists[rank] = B;
    }
    for (int i = 0; i < x->type.rank; i++)
        if (!tcc_dims_has(&dot->batch_a, i) && !tcc_dims_has(&dot->contract_a, i))
            axis_a[i] = rank, dims[rank] = x->type.dims[i], lists[rank++] = M;
    for (int i = 0; i < w->type.rank; i++)
        if (!tcc_dims_has(&dot->batch_b, i) && !tcc_dims_has(&dot->contract_b, i))
            axis_b[i] = rank, dims[rank] = w->type.dims[i], lists[rank++] = N;
    for (int i = 0; i < dot->contract_a.count; i++, rank++) {
        axis_a[dot->contract_a.v[i]] = axis_b[dot->contract_b.v[i]] = rank;
        dims[rank] = x->type.dims[dot->contract_a.v[i]], lists[rank] = K;
    }
    if (rank > TCC_MAX_RANK) return TCC_OK; /* rare enough for plain loops */
    tcc_iteration it;
    tcc_iteration_init(&it, rank, dims);
    for (;;) { /* refined until reshapes resolve */
        tcc_contract_shape s = {.matrices = true, .sum = sum, .summed = summed};
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_affine coordinates[TCC_MAX_RANK], at_a[TCC_MAX_RANK], at_b[TCC_MAX_RANK], map_a = {0}, map_b = {0};
        tcc_iteration_open(b, &it, coordinates);
        for (int i = 0; i < x->type.rank; i++) at_a[i] = coordinates[axis_a[i]];
        for (int i = 0; i < w->type.rank; i++) at_b[i] = coordinates[axis_b[i]];
        tcc_body_trace(b, x, at_a);
        tcc_body_trace(b, w, at_b);
        bool again = tcc_iteration_refine(&it, b);
        b->split_var = -1;
        tcc_status status = b->status;
        if (status == TCC_OK && !again) status = dot_operand(l, b, &it, x, axis_a, at_a, &s.a, &map_a);
        if (status == TCC_OK && !again) status = dot_operand(l, b, &it, w, axis_b, at_b, &s.b, &map_b);
        tcc_body_free(b);
        TCC_TRY(status);
        if (again) continue;
        add_loops(&s, &it, lists, &map_a, &map_b);
        return tcc_contract_launch(l, &s);
    }
}

/* The sum of an operand beside the dot; NULL: there is none. */
static tcc_node *sum_beside(const tcc_group *group) {
    for (int i = 0; i < group->n_nodes; i++)
        if (tcc_group_summed_operand(group->hero, group->nodes[i]) >= 0) return group->nodes[i];
    return NULL;
}

/* Both by one call of a library. */
static tcc_status lower_dot_and_sum(tcc_lowering *l, tcc_node *sum) {
    const tcc_group *both = l->group;
    tcc_group *dot = TCC_ARENA_NEW(l->arena, tcc_group), alone;
    bool possible, summed = false;
    if (!dot) return tcc_enomem(l->diag);
    if (!l->library) return TCC_OK;
    TCC_TRY(tcc_group_cut(l->arena, l->diag, both, sum, &alone, dot, &possible));
    if (!possible) return TCC_OK;
    l->group = dot;
    tcc_status status = lower_product(l, sum, &summed);
    l->group = both;
    return status;
}

tcc_status tcc_lower_dot(tcc_lowering *l) {
    tcc_node *sum = sum_beside(l->group);
    return sum ? lower_dot_and_sum(l, sum) : lower_product(l, NULL, NULL);
}

tcc_status tcc_lower_apart(tcc_lowering *l) {
    l->cut = l->group->hero->op == TCC_OP_DOT ? sum_beside(l->group) : NULL;
    return TCC_OK;
}
