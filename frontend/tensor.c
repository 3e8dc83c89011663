/* SPDX-License-Identifier: MIT
 * Operations on tensors: broadcasting and argument checks, then one node or a small expression of the IR, which checks
 * the rest. Here: constants, element by element, shape, indexing. */
#include "tensor_ops.h"

#include <math.h>

/* -- What a tensor is -- */

/* A stale handle is like a poisoned one here: what uses it next says so, with its line. */
static const tcc_node *node_of(tcc_tensor x) {
    const tcc_tensor own = tcc_trace_poison();
    return x.trace == own.trace && x.trace_id == own.trace_id ? x.node : NULL;
}

int tcc_rank(tcc_tensor x) {
    const tcc_node *n = node_of(x);
    return n ? n->type.rank : 0;
}

static int normal_axis(tcc_tensor x, int64_t axis) { /* -1 when out of range */
    int rank = tcc_rank(x);
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

int64_t tcc_dim(tcc_tensor x, int axis) {
    int a = normal_axis(x, axis);
    return a < 0 ? 1 : x.node->type.dims[a];
}

tcc_dtype tcc_get_dtype(tcc_tensor x) {
    const tcc_node *n = node_of(x);
    return n ? n->type.dtype : TCC_F32;
}

/* -- Shared by all operations -- */

tcc_graph *tcc__tensor_begin(tcc_trace *t, tcc_loc at) {
    tcc_ir_set_loc(t->graph, at);
    return t->graph;
}

const char *tcc__tensor_op_text(tcc_op op) { return tcc_op_get_info(op)->text; }

bool tcc__tensor_axis(tcc_tensor x, const char *op, int64_t axis, tcc_loc at, int *out) {
    if (!tcc_trace_takes(op, at, 1, &x)) return false;
    *out = normal_axis(x, axis);
    if (*out >= 0) return true;
    tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: axis %lld is out of range for %s", op, (long long)axis,
                    tcc_type_text(&x.node->type));
    return false;
}

bool tcc__tensor_together(const char *op, tcc_tensor *const *xs, int count, tcc_loc at) {
    tcc_trace *t = xs[0]->trace;
    int rank = 0;
    for (int i = 0; i < count; i++) {
        if (xs[i]->node->type.rank > rank) rank = xs[i]->node->type.rank;
    }
    tcc_type common = {.rank = rank};
    for (int d = 0; d < rank; d++) {
        common.dims[d] = 1;
        for (int i = 0; i < count; i++) {
            const tcc_type *type = &xs[i]->node->type;
            int own = d - (rank - type->rank);
            int64_t extent = own < 0 ? 1 : type->dims[own];
            if (extent == 1 || extent == common.dims[d]) continue;
            if (common.dims[d] != 1) {
                tcc_trace_error(t, TCC_ESHAPE, at, "%s: shapes do not broadcast: %s and %s (%lld against %lld)", op,
                                tcc_type_text(&xs[0]->node->type), tcc_type_text(type), (long long)common.dims[d],
                                (long long)extent);
                tcc_note(t->graph->diag, xs[0]->node->loc, "first operand made here");
                tcc_note(t->graph->diag, xs[i]->node->loc, "other operand made here");
                return false;
            }
            common.dims[d] = extent;
        }
    }
    for (int i = 0; i < count; i++) {
        common.dtype = xs[i]->node->type.dtype;
        if (tcc_type_equal(&common, &xs[i]->node->type)) continue;
        int dims[TCC_MAX_RANK];
        for (int d = 0; d < xs[i]->node->type.rank; d++) dims[d] = d + rank - xs[i]->node->type.rank;
        xs[i]->node = tcc_ir_broadcast(t->graph, xs[i]->node, rank, common.dims, dims);
        if (!xs[i]->node) return false;
    }
    return true;
}

static tcc_tensor unary(tcc_op op, tcc_tensor x, tcc_loc at) {
    if (!tcc_trace_takes(tcc__tensor_op_text(op), at, 1, &x)) return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_unary(tcc__tensor_begin(x.trace, at), op, x.node));
}

static tcc_tensor binary(tcc_op op, tcc_tensor a, tcc_tensor b, tcc_loc at) {
    if (!tcc_trace_takes(tcc__tensor_op_text(op), at, 2, (tcc_tensor[]){a, b})) return tcc_trace_poison();
    tcc__tensor_begin(a.trace, at);
    if (!tcc__tensor_together(tcc__tensor_op_text(op), (tcc_tensor *const[]){&a, &b}, 2, at)) return tcc_trace_poison();
    return tcc_trace_wrap(a.trace, tcc_ir_binary(a.trace->graph, op, a.node, b.node));
}

tcc_tensor tcc__tensor_op(tcc_op op, tcc_tensor x, const tcc_attrs *attrs, const tcc_type *type, tcc_loc at) {
    if (!tcc_trace_takes(tcc__tensor_op_text(op), at, 1, &x)) return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_build(x.trace->graph, op, &x.node, 1, attrs, type, at));
}

/* -- Constants -- */

static tcc_type make_type(tcc_dtype dtype, int rank, const int64_t *dims) {
    tcc_type type = {.dtype = dtype, .rank = rank};
    for (int d = 0; d < rank && d < TCC_MAX_RANK; d++) type.dims[d] = dims[d];
    return type;
}

static bool check_rank(tcc_trace *t, const char *op, int rank, tcc_loc at) {
    if (rank >= 0 && rank <= TCC_MAX_RANK) return true;
    tcc_trace_error(t, TCC_EINVAL, at, "%s: rank %d is out of range (0 to %d)", op, rank, TCC_MAX_RANK);
    return false;
}

static bool check_dtype(tcc_trace *t, const char *op, tcc_dtype dtype, tcc_loc at) {
    if ((unsigned)dtype < TCC_DTYPE_COUNT) return true;
    tcc_trace_error(t, TCC_EINVAL, at, "%s: there is no element type %d", op, (int)dtype);
    return false;
}

/* What a constant is made of. */
static bool takes_constant(tcc_trace *t, const char *op, tcc_dtype dtype, int rank, const int64_t *dims, tcc_loc at) {
    return tcc_trace_is_open(t, op, at) && check_rank(t, op, rank, at) && check_dtype(t, op, dtype, at) &&
           tcc_trace_takes_list(t, op, "extents", rank, dims, at);
}

/* Whether a type has the value; otherwise that is an error: an integer that silently drops the fraction of its factor
 * is a wrong result. A float rounds, but what is finite must not become infinite. */
static bool holds(tcc_trace *t, const char *op, tcc_dtype dtype, double value, tcc_loc at) {
    const double two63 = 9223372036854775808.0;
    double low = 0, high = 0; /* [low, high) */
    switch (dtype) {
    case TCC_BOOL: high = 2; break;
    case TCC_U8: high = 256; break;
    case TCC_I32: low = -2147483648.0, high = 2147483648.0; break;
    case TCC_I64: low = -two63, high = two63; break;
    default:
        if (!isfinite(value) || isfinite(tcc_dtype_round(dtype, value))) return true;
    }
    if (value >= low && value < high && value == floor(value)) return true;
    tcc_trace_error(t, TCC_EDTYPE, at, "%s: %.10g is no value of %s", op, value, tcc_dtype_text(dtype));
    tcc_note(t->graph->diag, at, "for arithmetic in floats convert x first: tcc_cast(x, TCC_F32)");
    return false;
}

tcc_tensor tcc_constant_at(tcc_trace *t, double value, tcc_dtype dtype, int rank, const int64_t *dims, tcc_loc at) {
    if (!takes_constant(t, "constant", dtype, rank, dims, at)) return tcc_trace_poison();
    tcc_type type = make_type(dtype, rank, dims);
    if (!holds(t, "constant", dtype, value, at)) return tcc_trace_poison();
    return tcc_trace_wrap(t, tcc_ir_splat(tcc__tensor_begin(t, at), &type, value));
}

tcc_tensor tcc_literal_at(tcc_trace *t, const double *values, tcc_dtype dtype, int rank, const int64_t *dims,
                          tcc_loc at) {
    if (!takes_constant(t, "literal", dtype, rank, dims, at)) return tcc_trace_poison();
    if (!values) return tcc_trace_error(t, TCC_EINVAL, at, "literal: the list of values is NULL");
    tcc_type type = make_type(dtype, rank, dims);
    tcc_attrs attrs = {.constant = {.values = {tcc_type_numel(&type), values}}};
    for (int64_t i = 0; i < attrs.constant.values.count && !tcc_dtype_is_float(dtype); i++)
        if (!holds(t, "literal", dtype, values[i], at)) return tcc_trace_poison();
    return tcc_trace_wrap(t, tcc_ir_build(t->graph, TCC_OP_CONSTANT, NULL, 0, &attrs, &type, at));
}

tcc_tensor tcc_iota_at(tcc_trace *t, int axis, tcc_dtype dtype, int rank, const int64_t *dims, tcc_loc at) {
    if (!takes_constant(t, "iota", dtype, rank, dims, at)) return tcc_trace_poison();
    tcc_type type = make_type(dtype, rank, dims);
    const int along = axis < 0 ? axis + rank : axis;
    if (along >= 0 && along < rank && !holds(t, "iota", dtype, (double)(dims[along] - 1), at))
        return tcc_trace_poison();
    return tcc_trace_wrap(t, tcc_ir_iota(tcc__tensor_begin(t, at), &type, axis < 0 ? axis + rank : axis));
}

tcc_tensor tcc__tensor_like(tcc_tensor x, double value, tcc_loc at) {
    return x.node ? tcc_constant_at(x.trace, value, x.node->type.dtype, 0, NULL, at) : tcc_trace_poison();
}

/* -- Element by element -- */

#define UNARY(name, OP) \
    tcc_tensor tcc_##name##_at(tcc_tensor x, tcc_loc at) { return unary(TCC_OP_##OP, x, at); }
UNARY(neg, NEG)
UNARY(abs, ABS)
UNARY(sign, SIGN)
UNARY(exp, EXP)
UNARY(expm1, EXPM1)
UNARY(log, LOG)
UNARY(log1p, LOG1P)
UNARY(sqrt, SQRT)
UNARY(rsqrt, RSQRT)
UNARY(sin, SIN)
UNARY(cos, COS)
UNARY(tanh, TANH)
UNARY(sigmoid, SIGMOID)
UNARY(erf, ERF)
UNARY(floor, FLOOR)
UNARY(ceil, CEIL)
UNARY(round, ROUND)
UNARY(isfinite, ISFINITE)
UNARY(not, NOT)
UNARY(relu, RELU)
UNARY(gelu, GELU)
UNARY(gelu_tanh, GELU_TANH)
UNARY(silu, SILU)
UNARY(softplus, SOFTPLUS)
#undef UNARY

#define BINARY(name, OP) \
    tcc_tensor tcc_##name##_at(tcc_tensor a, tcc_tensor b, tcc_loc at) { return binary(TCC_OP_##OP, a, b, at); }
BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
BINARY(rem, REM)
BINARY(pow, POW)
BINARY(max, MAX)
BINARY(min, MIN)
BINARY(and, AND)
BINARY(or, OR)
BINARY(xor, XOR)
BINARY(shift_left, SHIFT_LEFT)
BINARY(shift_right, SHIFT_RIGHT)
BINARY(eq, EQ)
BINARY(ne, NE)
BINARY(lt, LT)
BINARY(le, LE)
BINARY(gt, GT)
BINARY(ge, GE)
#undef BINARY

tcc_tensor tcc_cast_at(tcc_tensor x, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_takes("cast", at, 1, &x) || !check_dtype(x.trace, "cast", dtype, at)) return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_cast(tcc__tensor_begin(x.trace, at), x.node, dtype));
}

tcc_tensor tcc_leaky_relu_at(tcc_tensor x, double slope, tcc_loc at) {
    if (!tcc_trace_takes("leaky_relu", at, 1, &x)) return tcc_trace_poison();
    if (!isfinite(slope))
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "leaky_relu: the slope must be finite, not %g", slope);
    return tcc__tensor_op(TCC_OP_LEAKY_RELU, x, &(tcc_attrs){.slope = {.slope = slope}}, NULL, at);
}

tcc_tensor tcc_select_at(tcc_tensor c, tcc_tensor a, tcc_tensor b, tcc_loc at) {
    if (!tcc_trace_takes("select", at, 3, (tcc_tensor[]){c, a, b})) return tcc_trace_poison();
    tcc__tensor_begin(c.trace, at);
    if (!tcc__tensor_together("select", (tcc_tensor *const[]){&c, &a, &b}, 3, at)) return tcc_trace_poison();
    return tcc_trace_wrap(c.trace, tcc_ir_select(c.trace->graph, c.node, a.node, b.node));
}

static tcc_tensor with_scalar(tcc_op op, const char *name, tcc_tensor x, double c, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 1, &x) || !holds(x.trace, name, x.node->type.dtype, c, at))
        return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_binary_c(tcc__tensor_begin(x.trace, at), op, x.node, c));
}

tcc_tensor tcc_add_scalar_at(tcc_tensor x, double c, tcc_loc at) {
    return with_scalar(TCC_OP_ADD, "add_scalar", x, c, at);
}
tcc_tensor tcc_scale_at(tcc_tensor x, double c, tcc_loc at) { return with_scalar(TCC_OP_MUL, "scale", x, c, at); }

tcc_tensor tcc_rsub_scalar_at(tcc_tensor x, double c, tcc_loc at) {
    if (!tcc_trace_takes("rsub_scalar", at, 1, &x) || !holds(x.trace, "rsub_scalar", x.node->type.dtype, c, at))
        return tcc_trace_poison();
    return binary(TCC_OP_SUB, tcc__tensor_like(x, c, at), x, at);
}

#define COMPARISON(name, OP) \
    tcc_tensor tcc_##name##_at(tcc_tensor x, double c, tcc_loc at) { return with_scalar(TCC_OP_##OP, #name, x, c, at); }
COMPARISON(eq_scalar, EQ)
COMPARISON(ne_scalar, NE)
COMPARISON(lt_scalar, LT)
COMPARISON(le_scalar, LE)
COMPARISON(gt_scalar, GT)
COMPARISON(ge_scalar, GE)
#undef COMPARISON

tcc_tensor tcc_select_scalar_at(tcc_tensor c, tcc_tensor x, double value, tcc_loc at) {
    if (!tcc_trace_takes("select_scalar", at, 2, (tcc_tensor[]){c, x}) ||
        !holds(x.trace, "select_scalar", x.node->type.dtype, value, at))
        return tcc_trace_poison();
    return tcc_select_at(c, x, tcc__tensor_like(x, value, at), at);
}

tcc_tensor tcc__tensor_root(tcc_tensor x, tcc_loc at) {
    tcc_tensor zero = tcc__tensor_like(x, 0, at), none = tcc_eq_at(x, zero, at); /* false of NaN, which stays */
    tcc_tensor root = tcc_sqrt_at(tcc_select_at(none, tcc__tensor_like(x, 1, at), x, at), at);
    return tcc_select_at(none, zero, root, at);
}

/* -- Shape -- */

tcc_tensor tcc_reshape_at(tcc_tensor x, int rank, const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_takes("reshape", at, 1, &x) || !check_rank(x.trace, "reshape", rank, at) ||
        !tcc_trace_takes_list(x.trace, "reshape", "extents", rank, dims, at))
        return tcc_trace_poison();
    tcc_type type = make_type(x.node->type.dtype, rank, dims);
    int64_t known = 1, numel = tcc_type_numel(&x.node->type);
    int open = -1;
    for (int d = 0; d < rank; d++) {
        if (dims[d] != -1) known *= dims[d];
        else if (open < 0) open = d;
        else return tcc_trace_error(x.trace, TCC_EINVAL, at, "reshape: only one extent may be -1");
    }
    if (open >= 0) {
        if (known < 1 || numel % known)
            return tcc_trace_error(x.trace, TCC_ESHAPE, at, "reshape: %s has %lld elements, not a multiple of %lld",
                                   tcc_type_text(&x.node->type), (long long)numel, (long long)known);
        type.dims[open] = numel / known;
    }
    return tcc__tensor_op(TCC_OP_RESHAPE, x, NULL, &type, at);
}

tcc_tensor tcc_flatten_at(tcc_tensor x, int first, tcc_loc at) {
    int axis;
    if (!tcc__tensor_axis(x, "flatten", first, at, &axis)) return tcc_trace_poison();
    tcc_type type = x.node->type;
    for (int d = axis + 1; d < type.rank; d++) type.dims[axis] *= type.dims[d];
    return tcc_reshape_at(x, axis + 1, type.dims, at);
}

tcc_tensor tcc_transpose_at(tcc_tensor x, int rank, const int64_t *perm, tcc_loc at) {
    if (!tcc_trace_takes("transpose", at, 1, &x) || !check_rank(x.trace, "transpose", rank, at) ||
        !tcc_trace_takes_list(x.trace, "transpose", "axes", rank, perm, at))
        return tcc_trace_poison();
    tcc_attrs attrs = {.perm = {.perm = {.count = rank}}};
    for (int d = 0; d < rank; d++) attrs.perm.perm.v[d] = perm[d] < 0 ? perm[d] + rank : perm[d];
    return tcc__tensor_op(TCC_OP_TRANSPOSE, x, &attrs, NULL, at);
}

tcc_tensor tcc_broadcast_at(tcc_tensor x, int rank, const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_takes("broadcast", at, 1, &x) || !check_rank(x.trace, "broadcast", rank, at) ||
        !tcc_trace_takes_list(x.trace, "broadcast", "extents", rank, dims, at))
        return tcc_trace_poison();
    tcc_type type = make_type(x.node->type.dtype, rank, dims);
    tcc_attrs attrs = {.broadcast = {.dims = {.count = x.node->type.rank}}};
    int shift = rank - x.node->type.rank;
    if (shift < 0)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "broadcast: %s to fewer dims, %s", tcc_type_text(&x.node->type),
                               tcc_type_text(&type));
    for (int d = 0; d < x.node->type.rank; d++) attrs.broadcast.dims.v[d] = d + shift;
    return tcc__tensor_op(TCC_OP_BROADCAST, x, &attrs, &type, at);
}

tcc_tensor tcc_slice_at(tcc_tensor x, int axis, int64_t start, int64_t limit, int64_t stride, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "slice", axis, at, &a)) return tcc_trace_poison();
    int64_t extent = x.node->type.dims[a];
    if (start < 0) start += extent;
    if (limit < 0) limit += extent;
    int rank = x.node->type.rank;
    tcc_attrs attrs = {.slice = {.start = {.count = rank}, .limit = {.count = rank}, .stride = {.count = rank}}};
    for (int d = 0; d < rank; d++) {
        attrs.slice.start.v[d] = d == a ? start : 0;
        attrs.slice.limit.v[d] = d == a ? limit : x.node->type.dims[d];
        attrs.slice.stride.v[d] = d == a ? stride : 1;
    }
    return tcc__tensor_op(TCC_OP_SLICE, x, &attrs, NULL, at);
}

tcc_tensor tcc_pad_at(tcc_tensor x, int axis, int64_t before, int64_t after, double value, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "pad", axis, at, &a) || !holds(x.trace, "pad", x.node->type.dtype, value, at))
        return tcc_trace_poison();
    int rank = x.node->type.rank;
    tcc_attrs attrs = {
        .pad = {.value = value, .lo = {.count = rank}, .hi = {.count = rank}, .interior = {.count = rank}}};
    attrs.pad.lo.v[a] = before;
    attrs.pad.hi.v[a] = after;
    return tcc__tensor_op(TCC_OP_PAD, x, &attrs, NULL, at);
}

tcc_tensor tcc_pad_dims_at(tcc_tensor x, double value, int count, const int64_t *sides, tcc_loc at) {
    if (!tcc_trace_takes("pad_dims", at, 1, &x) ||
        !tcc_trace_takes_list(x.trace, "pad_dims", "sides", count, sides, at) ||
        !holds(x.trace, "pad_dims", x.node->type.dtype, value, at))
        return tcc_trace_poison();
    const int rank = tcc_rank(x);
    if (count < 0 || count % 2 || count > 2 * rank)
        return tcc_trace_error(x.trace, TCC_EINVAL, at,
                               "pad_dims: %d sides of %s; it takes two for each of the last dims, 0 to %d", count,
                               tcc_type_text(&x.node->type), 2 * rank);
    tcc_attrs attrs = {
        .pad = {.value = value, .lo = {.count = rank}, .hi = {.count = rank}, .interior = {.count = rank}}};
    for (int i = 0; i < count / 2; i++) {
        attrs.pad.lo.v[rank - 1 - i] = sides[2 * i];
        attrs.pad.hi.v[rank - 1 - i] = sides[2 * i + 1];
    }
    return tcc__tensor_op(TCC_OP_PAD, x, &attrs, NULL, at);
}

tcc_tensor tcc_concat_at(const tcc_tensor *xs, int count, int axis, tcc_loc at) {
    int a;
    tcc_trace *t = tcc_trace_poison().trace;
    if (!t) return tcc_trace_poison();
    if (!xs || count < 1)
        return tcc_trace_error(t, TCC_EINVAL, at, "concat: %s; it takes one operand at least",
                               xs ? "no operands" : "the list of operands is NULL");
    if (!tcc_trace_takes("concat", at, count, xs) || !tcc__tensor_axis(xs[0], "concat", axis, at, &a))
        return tcc_trace_poison();
    tcc_node **operands = TCC_ARENA_ARRAY(&t->graph->arena, tcc_node *, count);
    if (!operands) {
        tcc_enomem(t->graph->diag);
        return tcc_trace_poison();
    }
    for (int i = 0; i < count; i++) operands[i] = xs[i].node;
    return tcc_trace_wrap(
        t, tcc_ir_build(t->graph, TCC_OP_CONCAT, operands, count, &(tcc_attrs){.axis = {.axis = a}}, NULL, at));
}

tcc_tensor tcc_flip_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "flip", axis, at, &a)) return tcc_trace_poison();
    return tcc__tensor_op(TCC_OP_FLIP, x, &(tcc_attrs){.axes = {.axes = {1, {a}}}}, NULL, at);
}

/* -- Indexing -- */

tcc_tensor tcc__tensor_indexed(tcc_op op, tcc_tensor x, const tcc_tensor *others, int n_others, int axis, tcc_loc at) {
    int a;
    tcc_tensor all[3] = {x};
    for (int i = 0; i < n_others; i++) all[1 + i] = others[i];
    if (!tcc_trace_takes(tcc__tensor_op_text(op), at, 1 + n_others, all) ||
        !tcc__tensor_axis(x, tcc__tensor_op_text(op), axis, at, &a))
        return tcc_trace_poison();
    tcc_node *operands[3] = {x.node};
    for (int i = 0; i < n_others; i++) operands[1 + i] = others[i].node;
    return tcc_trace_wrap(
        x.trace, tcc_ir_build(x.trace->graph, op, operands, 1 + n_others, &(tcc_attrs){.axis = {.axis = a}}, NULL, at));
}

tcc_tensor tcc_take_at(tcc_tensor x, tcc_tensor indices, int axis, tcc_loc at) {
    return tcc__tensor_indexed(TCC_OP_TAKE, x, &indices, 1, axis, at);
}

tcc_tensor tcc__tensor_stretched(tcc_tensor x, tcc_tensor to, int axis, tcc_loc at) {
    tcc_type type = x.node->type;
    if (type.rank != tcc_rank(to)) return x; /* the op says so */
    for (int d = 0; d < type.rank; d++)
        if (d != axis && type.dims[d] == 1) type.dims[d] = tcc_dim(to, d);
    return tcc_type_equal(&type, &x.node->type) ? x : tcc_broadcast_at(x, type.rank, type.dims, at);
}

tcc_tensor tcc_take_along_at(tcc_tensor x, tcc_tensor indices, int axis, tcc_loc at) {
    int a;
    if (!tcc_trace_takes("take_along", at, 2, (tcc_tensor[]){x, indices}) ||
        !tcc__tensor_axis(x, "take_along", axis, at, &a))
        return tcc_trace_poison();
    const tcc_tensor given = x;
    x = tcc__tensor_stretched(x, indices, a, at), indices = tcc__tensor_stretched(indices, given, a, at);
    return tcc__tensor_indexed(TCC_OP_TAKE_ALONG, x, &indices, 1, axis, at);
}

tcc_tensor tcc_scatter_add_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return tcc__tensor_indexed(TCC_OP_SCATTER_ADD, base, (tcc_tensor[]){indices, updates}, 2, axis, at);
}
