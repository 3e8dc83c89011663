/* SPDX-License-Identifier: MIT
 * Tracing graph nodes into scalar expressions: a node's value at an index is its operands' values at the indices that
 * its op maps it to. Views vanish here. */
#include "codegen/body/body.h"

typedef struct tcc_memo {
    struct tcc_memo *next;
    const tcc_expr *guard, *value;
    tcc_affine coordinates[];
} tcc_memo;

static const tcc_expr *out_of_memory(tcc_body *b) {
    if (b->status == TCC_OK) b->status = tcc_enomem(b->diag);
    return NULL;
}

/* An alias for `a` that is known to lie in [0, extent) where the guard holds. */
static tcc_affine bounded(tcc_body *b, tcc_affine a, int64_t extent) {
    int64_t low, high;
    tcc_affine_range(b, &a, &low, &high);
    if (low >= 0 && high < extent) return a;
    tcc_var v = {.kind = TCC_VAR_ALIAS, .high = extent - 1, .alias = a};
    if (!tcc_vec_push(&b->vars, v)) {
        out_of_memory(b);
        return a;
    }
    return tcc_affine_var(b, b->vars.count - 1);
}

static const tcc_expr *trace_constant(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_doubles *values = &n->attrs->constant.values;
    if (values->count == 1) return tcc_expr_number(b, n->type.dtype, values->v[0]);
    tcc_affine position = tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims);
    return tcc_expr_load(b, tcc_body_buffer_of(b, n, 0, false), position, b->guard);
}

static const tcc_expr *trace_load(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    tcc_affine position = tcc_affine_expand(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims));
    /* An element at a fixed place (a hyper-parameter) moves into the buffer's address, so that kernels that differ in
     * it alone are one. Memory of an input may be addressed anywhere. */
    int64_t offset = 0;
    if (!position.n && !b->guard && n->op == TCC_OP_INPUT) offset = position.constant, position.constant = 0;
    return tcc_expr_load(b, tcc_body_buffer_of(b, n, offset, false), position, b->guard);
}

static const tcc_expr *trace_iota(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    tcc_dtype dtype = n->type.dtype == TCC_I64 ? TCC_I64 : TCC_I32;
    const tcc_expr *index = tcc_expr_index(b, coordinates[n->attrs->axis.axis], dtype);
    return dtype == n->type.dtype ? index : tcc_expr_point(b, TCC_OP_CAST, n->type.dtype, &index, 1);
}

static const tcc_expr *trace_random(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    tcc_affine zero = tcc_affine_constant(0), one = tcc_affine_constant(1);
    const tcc_expr *outer = b->guard;
    b->guard = NULL; /* the key can always be read, and is one for all lanes */
    const tcc_expr *operands[] = {
        tcc_expr_index(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims), TCC_I64),
        tcc_body_trace(b, n->operands[0], &zero),
        tcc_body_trace(b, n->operands[0], &one),
    };
    b->guard = outer;
    return tcc_expr_make(
        b, (tcc_expr){.kind = TCC_EXPR_POINT, .dtype = n->type.dtype, .op = n->op, .integer = n->attrs->rng.id},
        operands, 3);
}

static const tcc_expr *trace_pad(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_attrs_pad *pad = &n->attrs->pad;
    const tcc_node *x = n->operands[0];
    const tcc_expr *outer = b->guard, *inside = NULL;
    tcc_affine mapped[TCC_MAX_RANK];
    for (int i = 0; i < n->type.rank; i++) {
        int64_t step = pad->interior.v[i] + 1, extent = x->type.dims[i];
        tcc_affine at = tcc_affine_add_constant(coordinates[i], -pad->lo.v[i]);
        inside = tcc_expr_and(b, inside, tcc_expr_within(b, at, (extent - 1) * step + 1));
        if (step > 1 && extent > 1) {
            const tcc_expr *index = tcc_expr_index(b, at, TCC_I64);
            const tcc_expr *rest = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_MOD, .dtype = TCC_I64, .integer = step},
                                                 &index, 1);
            const tcc_expr *quotient =
                tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_DIV, .dtype = TCC_I64, .integer = step}, &index, 1);
            const tcc_expr *pair[] = {rest, tcc_expr_integer(b, TCC_I64, 0)};
            if (!rest || !quotient || !pair[1]) return NULL;
            inside = tcc_expr_and(b, inside, tcc_expr_point(b, TCC_OP_EQ, TCC_BOOL, pair, 2));
            mapped[i] = tcc_affine_var(b, tcc_body_value_var(b, quotient, 0, extent - 1));
        } else {
            mapped[i] = extent == 1 ? tcc_affine_constant(0) : bounded(b, at, extent);
        }
    }
    if (!inside) return b->status == TCC_OK ? tcc_body_trace(b, x, mapped) : NULL;
    b->guard = tcc_expr_and(b, outer, inside);
    const tcc_expr *value = tcc_body_trace(b, x, mapped);
    b->guard = outer;
    const tcc_expr *operands[] = {inside, value, tcc_expr_number(b, n->type.dtype, pad->value)};
    return tcc_expr_point(b, TCC_OP_SELECT, n->type.dtype, operands, 3);
}

static const tcc_expr *trace_concat(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    int axis = (int)n->attrs->axis.axis;
    const tcc_expr *outer = b->guard, *value = NULL;
    tcc_affine mapped[TCC_MAX_RANK];
    for (int i = 0; i < n->type.rank; i++) mapped[i] = coordinates[i];
    int64_t end = n->type.dims[axis];
    for (int k = n->n_operands - 1; k >= 0; k--) {
        const tcc_node *x = n->operands[k];
        int64_t extent = x->type.dims[axis];
        end -= extent;
        tcc_affine at = tcc_affine_add_constant(coordinates[axis], -end);
        const tcc_expr *inside = tcc_expr_within(b, at, extent);
        if (b->status != TCC_OK) return NULL;
        mapped[axis] = extent == 1 ? tcc_affine_constant(0) : bounded(b, at, extent);
        b->guard = tcc_expr_and(b, outer, inside);
        const tcc_expr *part = tcc_body_trace(b, x, mapped);
        b->guard = outer;
        if (!inside) return part; /* the whole range falls into this operand */
        const tcc_expr *operands[] = {inside, part, value};
        value = value ? tcc_expr_point(b, TCC_OP_SELECT, n->type.dtype, operands, 3) : part;
        if (!value) return NULL;
    }
    return value;
}

static const tcc_expr *trace_take(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_node *x = n->operands[0], *indices = n->operands[1];
    int axis = (int)n->attrs->axis.axis;
    bool along = n->op == TCC_OP_TAKE_ALONG;
    const tcc_expr *index = tcc_body_trace(b, indices, along ? coordinates : coordinates + axis);
    if (!index) return NULL;
    tcc_affine mapped[TCC_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++)
        mapped[i] = i < axis || along ? coordinates[i] : coordinates[i == axis ? i : i - 1 + indices->type.rank];
    int64_t extent = x->type.dims[axis];
    const tcc_expr *inside = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_WITHIN, .dtype = TCC_BOOL, .integer = extent},
                                           &index, 1);
    if (!inside) return NULL;
    mapped[axis] = extent == 1 ? tcc_affine_constant(0)
                               : tcc_affine_var(b, tcc_body_value_var(b, index, 0, extent - 1));
    const tcc_expr *outer = b->guard;
    b->guard = tcc_expr_and(b, outer, inside);
    const tcc_expr *value = tcc_body_trace(b, x, mapped);
    b->guard = outer;
    if (!value || (value->kind == TCC_EXPR_LOAD && value->n_operands))
        return value; /* a guarded load gives 0 by itself */
    const tcc_expr *operands[] = {inside, value, tcc_expr_number(b, n->type.dtype, 0)};
    return tcc_expr_point(b, TCC_OP_SELECT, n->type.dtype, operands, 3);
}

/* A reduction whose value is wanted at some point: a loop of its own there. */
static const tcc_expr *trace_reduce(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_node *x = n->operands[0];
    tcc_affine mapped[TCC_MAX_RANK], start[TCC_MAX_RANK];
    uint64_t loops = 0;
    bool reduced[TCC_MAX_RANK] = {false};
    if (n->op == TCC_OP_ARGMAX) reduced[n->attrs->axis.axis] = true;
    else
        for (int i = 0; i < n->attrs->axes.axes.count; i++) reduced[n->attrs->axes.axes.v[i]] = true;
    for (int i = 0, k = 0; i < x->type.rank; i++) {
        if (!reduced[i]) {
            mapped[i] = coordinates[k++];
        } else if (x->type.dims[i] == 1) {
            mapped[i] = tcc_affine_constant(0);
        } else {
            int var = tcc_body_loop(b, x->type.dims[i]);
            loops |= UINT64_C(1) << var;
            mapped[i] = tcc_affine_var(b, var);
        }
        start[i] = reduced[i] ? tcc_affine_constant(0) : mapped[i];
    }
    const tcc_expr *value = tcc_body_trace(b, x, mapped);
    const tcc_dtype dtype = n->type.dtype;
    if (!tcc_is_moment(n->op)) return tcc_expr_fold(b, n->op, dtype, value, loops);
    /* by differences from the first element: the mean of equal elements is exactly what they are */
    const tcc_expr *first = tcc_body_trace(b, x, start);
    const tcc_expr *difference = tcc_expr_point(b, TCC_OP_SUB, dtype, (const tcc_expr *[]){value, first}, 2);
    const tcc_expr *sum = tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, difference, loops);
    const tcc_expr *share = tcc_expr_mean(b, sum, tcc_type_numel(&x->type) / tcc_type_numel(&n->type));
    const tcc_expr *mean = tcc_expr_point(b, TCC_OP_ADD, dtype, (const tcc_expr *[]){first, share}, 2);
    if (n->op == TCC_OP_REDUCE_MEAN) return mean;
    return tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, tcc_expr_deviation(b, value, mean), loops);
}

static const tcc_expr *trace_view(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_node *x = n->operands[0];
    const tcc_attrs *a = n->attrs;
    tcc_affine mapped[TCC_MAX_RANK];
    switch (n->op) {
    case TCC_OP_RESHAPE:
        tcc_affine_split(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims), x->type.rank, x->type.dims,
                         mapped);
        break;
    case TCC_OP_TRANSPOSE:
        for (int i = 0; i < n->type.rank; i++) mapped[a->perm.perm.v[i]] = coordinates[i];
        break;
    case TCC_OP_BROADCAST:
        for (int i = 0; i < x->type.rank; i++)
            mapped[i] = x->type.dims[i] == 1 ? tcc_affine_constant(0) : coordinates[a->broadcast.dims.v[i]];
        break;
    case TCC_OP_SLICE:
        for (int i = 0; i < x->type.rank; i++)
            mapped[i] = tcc_affine_add_constant(tcc_affine_scale(b, coordinates[i], a->slice.stride.v[i]),
                                                a->slice.start.v[i]);
        break;
    case TCC_OP_FLIP:
        for (int i = 0; i < x->type.rank; i++) mapped[i] = coordinates[i];
        for (int i = 0; i < a->axes.axes.count; i++) {
            int axis = (int)a->axes.axes.v[i];
            mapped[axis] = tcc_affine_add_constant(tcc_affine_scale(b, coordinates[axis], -1), x->type.dims[axis] - 1);
        }
        break;
    case TCC_OP_PAD: return trace_pad(b, n, coordinates);
    default: return trace_concat(b, n, coordinates);
    }
    return tcc_body_trace(b, x, mapped);
}

static const tcc_expr *trace_point(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_expr *operands[3];
    if (n->op == TCC_OP_IOTA) return trace_iota(b, n, coordinates);
    if (n->op == TCC_OP_RNG_BITS || n->op == TCC_OP_RNG_UNIFORM || n->op == TCC_OP_RNG_NORMAL)
        return trace_random(b, n, coordinates);
    for (int i = 0; i < n->n_operands; i++) {
        operands[i] = tcc_body_trace(b, n->operands[i], coordinates);
        if (!operands[i]) return NULL;
    }
    return tcc_expr_point(b, n->op, n->type.dtype, operands, n->n_operands);
}

static const tcc_expr *trace_new(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    if (n->op == TCC_OP_CONSTANT) return trace_constant(b, n, coordinates);
    if (!b->inside[n->id]) return trace_load(b, n, coordinates);
    if (b->special) {
        const tcc_expr *value = b->special(b, n, coordinates, b->special_user);
        if (value || b->status != TCC_OK) return value;
    }
    switch (tcc_op_get_info(n->op)->fusion) {
    case TCC_FUSION_POINT: return trace_point(b, n, coordinates);
    case TCC_FUSION_VIEW: return trace_view(b, n, coordinates);
    case TCC_FUSION_INDEX: return trace_take(b, n, coordinates);
    case TCC_FUSION_REDUCE: return trace_reduce(b, n, coordinates);
    case TCC_FUSION_WINDOW: return tcc_body_trace_window(b, n, coordinates);
    case TCC_FUSION_CONTRACT:
    case TCC_FUSION_ATTENTION: return tcc_body_trace_dense(b, n, coordinates);
    default: b->status = TCC_BUG(b->diag, "no scalar form of %s", tcc_node_text(n));
    }
    return NULL;
}

const tcc_expr *tcc_body_trace(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    if (b->status != TCC_OK) return NULL;
    size_t rank = (size_t)n->type.rank;
    for (tcc_memo *m = b->memo[n->id]; m; m = m->next) {
        bool equal = m->guard == b->guard;
        for (size_t i = 0; equal && i < rank; i++) equal = tcc_affine_equal(&m->coordinates[i], &coordinates[i]);
        if (equal) return m->value;
    }
    const tcc_expr *value = trace_new(b, n, coordinates);
    if (!value) return NULL;
    tcc_memo *m = tcc_arena_alloc(b->arena, sizeof *m + rank * sizeof *coordinates);
    if (!m) return out_of_memory(b);
    m->guard = b->guard;
    m->value = value;
    for (size_t i = 0; i < rank; i++) m->coordinates[i] = coordinates[i];
    m->next = b->memo[n->id];
    b->memo[n->id] = m;
    return value;
}

void tcc_body_store(tcc_body *b, const tcc_node *n, tcc_affine position, bool kept) {
    tcc_affine coordinates[TCC_MAX_RANK];
    tcc_affine_split(b, position, n->type.rank, n->type.dims, coordinates);
    const tcc_expr *value = tcc_body_trace(b, n, coordinates);
    if (!value) return;
    int buffer = tcc_body_buffer_of(b, n, 0, true);
    if (!tcc_vec_push(&b->stores, (tcc_store){buffer, tcc_affine_expand(b, position), value, NULL, .kept = kept}))
        out_of_memory(b);
}
