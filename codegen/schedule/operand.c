/* SPDX-License-Identifier: MIT
 * Operands of dense schedules. */
#include "codegen/schedule/operand.h"

tcc_dtype tcc_operand_sum_type(tcc_dtype dtype) { return dtype == TCC_F64 ? TCC_F64 : TCC_F32; }

void tcc_operand_dense(const tcc_type *type, int64_t *strides) {
    int64_t stride = 1;
    for (int i = type->rank - 1; i >= 0; i--) strides[i] = stride, stride *= type->dims[i];
}

bool tcc_operand_in_place(const tcc_body *b, const tcc_expr *x, tcc_dtype dtype, tcc_plan_buffer *out) {
    if (x->kind != TCC_EXPR_LOAD || x->n_operands || x->dtype != dtype) return false;
    for (int i = 0; i < x->affine.n; i++)
        if (b->vars.data[x->affine.terms[i].var].kind != TCC_VAR_LOOP) return false;
    const tcc_body_buffer *from = &b->buffers.data[x->buffer];
    *out = (tcc_plan_buffer){
        from->node, from->temporary, from->literal, from->literal_bytes, from->offset * tcc_dtype_bytes(from->dtype),
        false};
    return true;
}

tcc_status tcc_operand_copy(tcc_lowering *l, const tcc_node *n, tcc_dtype dtype, const int *perm, const int64_t *lo,
                            const int64_t *hi, int *temporary) {
    static const int64_t none[TCC_MAX_RANK];
    static const int same[TCC_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (!perm) perm = same;
    if (!lo) lo = none, hi = none;
    int rank = n->type.rank;
    int64_t dims[TCC_MAX_RANK], bytes = tcc_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++) {
        dims[i] = n->type.dims[perm[i]] + lo[perm[i]] + hi[perm[i]];
        bytes *= dims[i];
    }
    *temporary = tcc_lowering_temporary(l, bytes);
    if (*temporary < 0) return TCC_ENOMEM;
    tcc_iteration it;
    tcc_iteration_init(&it, rank, dims);
    for (;;) { /* refined until reshapes resolve */
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_affine coordinates[TCC_MAX_RANK], mapped[TCC_MAX_RANK];
        tcc_iteration_open(b, &it, coordinates);
        tcc_affine position = tcc_affine_linear(b, coordinates, rank, dims);
        const tcc_expr *inside = NULL;
        for (int i = 0; i < rank; i++) {
            mapped[perm[i]] = tcc_affine_add_constant(coordinates[i], -lo[perm[i]]);
            inside = tcc_expr_and(b, inside, tcc_expr_within(b, mapped[perm[i]], n->type.dims[perm[i]]));
        }
        b->guard = inside;
        const tcc_expr *value = tcc_body_trace(b, n, mapped);
        b->guard = NULL;
        if (value && inside &&
            !(value->kind == TCC_EXPR_LOAD && value->n_operands)) { /* a guarded load gives 0 by itself */
            const tcc_expr *operands[] = {inside, value, tcc_expr_number(b, n->type.dtype, 0)};
            value = tcc_expr_point(b, TCC_OP_SELECT, n->type.dtype, operands, 3);
        }
        if (value && n->type.dtype != dtype) value = tcc_expr_point(b, TCC_OP_CAST, dtype, &value, 1);
        if (value) {
            tcc_body_write store = {.buffer = tcc_body_temporary(b, *temporary, dtype, true),
                                    .offset = tcc_affine_expand(b, position),
                                    .value = value};
            if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        }
        if (!tcc_iteration_refine(&it, b)) return tcc_schedule_points(l, b);
        tcc_body_free(b);
    }
}
