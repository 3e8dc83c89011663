/* SPDX-License-Identifier: MIT
 * simplify: nodes whose operands are constants. A splat stays a splat, so that no large literal is ever made. */
#include "ir/collective.h"
#include "ir/support/alloc.h"
#include "passes/simplify/simplify.h"

#include <math.h>

enum { MOST_OPERANDS = 8, MOST_ELEMENTS = 1024 };

bool tcc__is_splat_of(const tcc_node *n, double value) {
    return tcc__is_splat(n) && tcc__splat_value(n) == value && signbit(tcc__splat_value(n)) == signbit(value);
}

/* The constant of type `type` with these elements; NULL if an integer would not survive as a double. */
static tcc_node *make_constant(tcc_simplifier *s, const tcc_type *type, const tcc_value *value) {
    const double exact = 9007199254740992.0; /* 2^53 */
    int64_t count = tcc_type_numel(&value->type);
    double *values = tcc__malloc(sizeof *values * (size_t)count);
    if (!values) {
        tcc_enomem(s->g->diag);
        return NULL;
    }
    bool is_float = tcc_dtype_is_float(value->type.dtype), fits = true;
    for (int64_t i = 0; i < count; i++) {
        values[i] = is_float ? value->f[i] : (double)value->i[i];
        fits &= is_float || fabs(values[i]) <= exact;
    }
    tcc_attrs attrs = {.constant.values = {count, values}};
    tcc_node *n = fits ? tcc_ir_build(s->g, TCC_OP_CONSTANT, NULL, 0, &attrs, type, TCC_NOWHERE) : NULL;
    tcc__free(values);
    return n;
}

static tcc_status constant_value(const tcc_node *n, const tcc_type *type, tcc_value *out, tcc_diag *diag) {
    TCC_TRY(tcc_value_create(type, out, diag));
    int64_t count = tcc_type_numel(type);
    const tcc_doubles *from = &n->attrs->constant.values;
    for (int64_t i = 0; i < count; i++) {
        double v = from->v[from->count == 1 ? 0 : i];
        if (tcc_dtype_is_float(type->dtype)) out->f[i] = v;
        else out->i[i] = (int64_t)v;
    }
    return TCC_OK;
}

/* Evaluates `n`, or with `one` set a single element of it, on its constant operands. */
static tcc_node *evaluate(tcc_simplifier *s, const tcc_node *n, bool one) {
    tcc_value values[MOST_OPERANDS] = {0}, result = {0};
    const tcc_value *operands[MOST_OPERANDS];
    tcc_node small = *n;
    if (one) small.type.rank = 0;
    tcc_status status = TCC_OK;
    for (int i = 0; i < n->n_operands && status == TCC_OK; i++) {
        tcc_type type = n->operands[i]->type;
        if (one) type.rank = 0;
        status = constant_value(n->operands[i], &type, &values[i], s->g->diag);
        operands[i] = &values[i];
    }
    if (status == TCC_OK) status = tcc_node_eval(&small, operands, &result, s->g->diag);
    tcc_node *folded = status == TCC_OK ? make_constant(s, &n->type, &result) : NULL;
    for (int i = 0; i < n->n_operands; i++) tcc_value_free(&values[i]);
    tcc_value_free(&result);
    return folded;
}

/* What a view or reduction of a splat is; NULL for others. */
static tcc_node *view_of_splat(tcc_simplifier *s, const tcc_node *n) {
    const tcc_node *x = n->operands[0];
    double value = tcc__splat_value(x);
    switch (n->op) {
    case TCC_OP_RESHAPE:
    case TCC_OP_TRANSPOSE:
    case TCC_OP_BROADCAST:
    case TCC_OP_SLICE:
    case TCC_OP_FLIP:
    case TCC_OP_REDUCE_MEAN:
    case TCC_OP_REDUCE_MAX:
    case TCC_OP_REDUCE_MIN: return tcc_ir_splat(s->g, &n->type, value);
    case TCC_OP_PAD: return tcc__is_splat_of(x, n->attrs->pad.value) ? tcc_ir_splat(s->g, &n->type, value) : NULL;
    case TCC_OP_CONCAT:
        for (int i = 1; i < n->n_operands; i++)
            if (!tcc__is_splat_of(n->operands[i], value)) return NULL;
        return tcc_ir_splat(s->g, &n->type, value);
    case TCC_OP_REDUCE_M2: return tcc_ir_splat(s->g, &n->type, value - value);
    case TCC_OP_REDUCE_SUM: {
        if (!tcc_dtype_is_float(n->type.dtype)) return NULL;
        int64_t count = tcc_type_numel(&x->type) / tcc_type_numel(&n->type);
        return tcc_ir_splat(s->g, &n->type, value * (double)count);
    }
    default: return NULL;
    }
}

tcc_node *tcc__simplify_fold(tcc_simplifier *s, tcc_node *n) {
    if (n->n_operands == 0 || n->n_operands > MOST_OPERANDS || tcc_op_is_collective(n->op)) return NULL;
    bool constant = true, splat = true;
    int64_t elements = tcc_type_numel(&n->type);
    for (int i = 0; i < n->n_operands; i++) {
        constant &= n->operands[i]->op == TCC_OP_CONSTANT;
        splat &= tcc__is_splat(n->operands[i]);
        elements += tcc_type_numel(&n->operands[i]->type);
    }
    if (!constant) return NULL;
    if (splat && !tcc_op_draws(n->op)) {
        if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT) return evaluate(s, n, true);
        tcc_node *view = view_of_splat(s, n);
        if (view) return view;
    }
    return elements <= MOST_ELEMENTS ? evaluate(s, n, false) : NULL;
}
