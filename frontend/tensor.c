/* SPDX-License-Identifier: MIT
 * Operations on tensors: broadcasting and argument checks, then one node or a small expression of the IR, which checks
 * the rest. */
#include "trace.h"

#include "traincc/tensor.h"

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

static tcc_graph *begin(tcc_trace *t, tcc_loc at) {
    tcc_ir_set_loc(t->graph, at, false);
    return t->graph;
}

static const char *text_of(tcc_op op) { return tcc_op_get_info(op)->text; }

static bool check_axis(tcc_tensor x, const char *op, int64_t axis, tcc_loc at, int *out) {
    if (!tcc_trace_takes(op, at, 1, &x)) return false;
    *out = normal_axis(x, axis);
    if (*out >= 0) return true;
    tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: axis %lld is out of range for %s", op, (long long)axis,
                    tcc_type_text(&x.node->type));
    return false;
}

/* Brings operands of the running trace to their common broadcast shape; false after an error. */
static bool broadcast_together(const char *op, tcc_tensor *const *xs, int count, tcc_loc at) {
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
    if (!tcc_trace_takes(text_of(op), at, 1, &x)) return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_unary(begin(x.trace, at), op, x.node));
}

static tcc_tensor binary(tcc_op op, tcc_tensor a, tcc_tensor b, tcc_loc at) {
    if (!tcc_trace_takes(text_of(op), at, 2, (tcc_tensor[]){a, b})) return tcc_trace_poison();
    begin(a.trace, at);
    if (!broadcast_together(text_of(op), (tcc_tensor *const[]){&a, &b}, 2, at)) return tcc_trace_poison();
    return tcc_trace_wrap(a.trace, tcc_ir_binary(a.trace->graph, op, a.node, b.node));
}

/* An op of one operand with attributes. */
static tcc_tensor with_attrs(tcc_op op, tcc_tensor x, const tcc_attrs *attrs, const tcc_type *type, tcc_loc at) {
    if (!tcc_trace_takes(text_of(op), at, 1, &x)) return tcc_trace_poison();
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

/* Whether a type has the value; otherwise that is an error: an integer that silently drops the fraction of its factor
 * is a wrong result. A float rounds. */
static bool holds(tcc_trace *t, const char *op, tcc_dtype dtype, double value, tcc_loc at) {
    const double two63 = 9223372036854775808.0;
    double low = 0, high = 0; /* [low, high) */
    switch (dtype) {
    case TCC_BOOL: high = 2; break;
    case TCC_U8: high = 256; break;
    case TCC_I32: low = -2147483648.0, high = 2147483648.0; break;
    case TCC_I64: low = -two63, high = two63; break;
    default: return true;
    }
    if (value >= low && value < high && value == floor(value)) return true;
    tcc_trace_error(t, TCC_EDTYPE, at, "%s: %.10g is no value of %s", op, value, tcc_dtype_text(dtype));
    tcc_note(t->graph->diag, at, "for arithmetic in floats convert x first: tcc_cast(x, TCC_F32)");
    return false;
}

tcc_tensor tcc_constant_at(tcc_trace *t, double value, tcc_dtype dtype, int rank, const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_is_open(t, "constant", at) || !check_rank(t, "constant", rank, at)) return tcc_trace_poison();
    tcc_type type = make_type(dtype, rank, dims);
    if (!holds(t, "constant", dtype, value, at)) return tcc_trace_poison();
    return tcc_trace_wrap(t, tcc_ir_splat(begin(t, at), &type, value));
}

tcc_tensor tcc_literal_at(tcc_trace *t, const double *values, tcc_dtype dtype, int rank, const int64_t *dims,
                          tcc_loc at) {
    if (!tcc_trace_is_open(t, "literal", at) || !check_rank(t, "literal", rank, at)) return tcc_trace_poison();
    tcc_type type = make_type(dtype, rank, dims);
    tcc_attrs attrs = {.constant = {.values = {tcc_type_numel(&type), values}}};
    for (int64_t i = 0; i < attrs.constant.values.count && !tcc_dtype_is_float(dtype); i++)
        if (!holds(t, "literal", dtype, values[i], at)) return tcc_trace_poison();
    return tcc_trace_wrap(t, tcc_ir_build(t->graph, TCC_OP_CONSTANT, NULL, 0, &attrs, &type, at));
}

tcc_tensor tcc_iota_at(tcc_trace *t, int axis, tcc_dtype dtype, int rank, const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_is_open(t, "iota", at) || !check_rank(t, "iota", rank, at)) return tcc_trace_poison();
    tcc_type type = make_type(dtype, rank, dims);
    return tcc_trace_wrap(t, tcc_ir_iota(begin(t, at), &type, axis < 0 ? axis + rank : axis));
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
BINARY(eq, EQ)
BINARY(ne, NE)
BINARY(lt, LT)
BINARY(le, LE)
BINARY(gt, GT)
BINARY(ge, GE)
#undef BINARY

tcc_tensor tcc_cast_at(tcc_tensor x, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_takes("cast", at, 1, &x)) return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_cast(begin(x.trace, at), x.node, dtype));
}

tcc_tensor tcc_leaky_relu_at(tcc_tensor x, double slope, tcc_loc at) {
    return with_attrs(TCC_OP_LEAKY_RELU, x, &(tcc_attrs){.slope = {.slope = slope}}, NULL, at);
}

tcc_tensor tcc_select_at(tcc_tensor c, tcc_tensor a, tcc_tensor b, tcc_loc at) {
    if (!tcc_trace_takes("select", at, 3, (tcc_tensor[]){c, a, b})) return tcc_trace_poison();
    begin(c.trace, at);
    if (!broadcast_together("select", (tcc_tensor *const[]){&c, &a, &b}, 3, at)) return tcc_trace_poison();
    return tcc_trace_wrap(c.trace, tcc_ir_select(c.trace->graph, c.node, a.node, b.node));
}

static tcc_tensor with_scalar(tcc_op op, const char *name, tcc_tensor x, double c, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 1, &x) || !holds(x.trace, name, x.node->type.dtype, c, at))
        return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_binary_c(begin(x.trace, at), op, x.node, c));
}

tcc_tensor tcc_add_scalar_at(tcc_tensor x, double c, tcc_loc at) {
    return with_scalar(TCC_OP_ADD, "add_scalar", x, c, at);
}
tcc_tensor tcc_scale_at(tcc_tensor x, double c, tcc_loc at) { return with_scalar(TCC_OP_MUL, "scale", x, c, at); }

/* -- Shape -- */

tcc_tensor tcc_reshape_at(tcc_tensor x, int rank, const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_takes("reshape", at, 1, &x) || !check_rank(x.trace, "reshape", rank, at)) return tcc_trace_poison();
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
    return with_attrs(TCC_OP_RESHAPE, x, NULL, &type, at);
}

tcc_tensor tcc_flatten_at(tcc_tensor x, int first, tcc_loc at) {
    int axis;
    if (!check_axis(x, "flatten", first, at, &axis)) return tcc_trace_poison();
    tcc_type type = x.node->type;
    for (int d = axis + 1; d < type.rank; d++) type.dims[axis] *= type.dims[d];
    return tcc_reshape_at(x, axis + 1, type.dims, at);
}

tcc_tensor tcc_transpose_at(tcc_tensor x, int rank, const int64_t *perm, tcc_loc at) {
    if (!tcc_trace_takes("transpose", at, 1, &x) || !check_rank(x.trace, "transpose", rank, at))
        return tcc_trace_poison();
    tcc_attrs attrs = {.perm = {.perm = {.count = rank}}};
    for (int d = 0; d < rank; d++) attrs.perm.perm.v[d] = perm[d] < 0 ? perm[d] + rank : perm[d];
    return with_attrs(TCC_OP_TRANSPOSE, x, &attrs, NULL, at);
}

tcc_tensor tcc_broadcast_at(tcc_tensor x, int rank, const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_takes("broadcast", at, 1, &x) || !check_rank(x.trace, "broadcast", rank, at))
        return tcc_trace_poison();
    tcc_type type = make_type(x.node->type.dtype, rank, dims);
    tcc_attrs attrs = {.broadcast = {.dims = {.count = x.node->type.rank}}};
    int shift = rank - x.node->type.rank;
    if (shift < 0)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "broadcast: %s to fewer dims, %s", tcc_type_text(&x.node->type),
                               tcc_type_text(&type));
    for (int d = 0; d < x.node->type.rank; d++) attrs.broadcast.dims.v[d] = d + shift;
    return with_attrs(TCC_OP_BROADCAST, x, &attrs, &type, at);
}

tcc_tensor tcc_slice_at(tcc_tensor x, int axis, int64_t start, int64_t limit, int64_t stride, tcc_loc at) {
    int a;
    if (!check_axis(x, "slice", axis, at, &a)) return tcc_trace_poison();
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
    return with_attrs(TCC_OP_SLICE, x, &attrs, NULL, at);
}

tcc_tensor tcc_pad_at(tcc_tensor x, int axis, int64_t before, int64_t after, double value, tcc_loc at) {
    int a;
    if (!check_axis(x, "pad", axis, at, &a) || !holds(x.trace, "pad", x.node->type.dtype, value, at))
        return tcc_trace_poison();
    int rank = x.node->type.rank;
    tcc_attrs attrs = {
        .pad = {.value = value, .lo = {.count = rank}, .hi = {.count = rank}, .interior = {.count = rank}}};
    attrs.pad.lo.v[a] = before;
    attrs.pad.hi.v[a] = after;
    return with_attrs(TCC_OP_PAD, x, &attrs, NULL, at);
}

tcc_tensor tcc_concat_at(const tcc_tensor *xs, int count, int axis, tcc_loc at) {
    int a;
    tcc_trace *t = tcc_trace_poison().trace;
    if (!t) return tcc_trace_poison();
    if (!xs || count < 1)
        return tcc_trace_error(t, TCC_EINVAL, at, "concat: %s; it takes one operand at least",
                               xs ? "no operands" : "the list of operands is NULL");
    if (!tcc_trace_takes("concat", at, count, xs) || !check_axis(xs[0], "concat", axis, at, &a))
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
    if (!check_axis(x, "flip", axis, at, &a)) return tcc_trace_poison();
    return with_attrs(TCC_OP_FLIP, x, &(tcc_attrs){.axes = {.axes = {1, {a}}}}, NULL, at);
}

/* -- Indexing -- */

static tcc_tensor indexed(tcc_op op, tcc_tensor x, const tcc_tensor *others, int n_others, int axis, tcc_loc at) {
    int a;
    tcc_tensor all[3] = {x};
    for (int i = 0; i < n_others; i++) all[1 + i] = others[i];
    if (!tcc_trace_takes(text_of(op), at, 1 + n_others, all) || !check_axis(x, text_of(op), axis, at, &a))
        return tcc_trace_poison();
    tcc_node *operands[3] = {x.node};
    for (int i = 0; i < n_others; i++) operands[1 + i] = others[i].node;
    return tcc_trace_wrap(
        x.trace, tcc_ir_build(x.trace->graph, op, operands, 1 + n_others, &(tcc_attrs){.axis = {.axis = a}}, NULL, at));
}

tcc_tensor tcc_take_at(tcc_tensor x, tcc_tensor indices, int axis, tcc_loc at) {
    return indexed(TCC_OP_TAKE, x, &indices, 1, axis, at);
}

tcc_tensor tcc_take_along_at(tcc_tensor x, tcc_tensor indices, int axis, tcc_loc at) {
    return indexed(TCC_OP_TAKE_ALONG, x, &indices, 1, axis, at);
}

tcc_tensor tcc_scatter_add_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return indexed(TCC_OP_SCATTER_ADD, base, (tcc_tensor[]){indices, updates}, 2, axis, at);
}

/* -- Reductions -- */

/* Ascending distinct axes; none listed means all. */
static bool reduction_axes(tcc_tensor x, const char *op, int count, const int64_t *axes, tcc_loc at, tcc_dims *out) {
    if (!tcc_trace_takes(op, at, 1, &x)) return false;
    if (count == 0) {
        *out = tcc_ir_axes_from(0, x.node->type.rank);
        return true;
    }
    bool chosen[TCC_MAX_RANK] = {false};
    for (int i = 0; i < count; i++) {
        int a;
        if (!check_axis(x, op, axes[i], at, &a)) return false;
        chosen[a] = true;
    }
    *out = (tcc_dims){0};
    for (int d = 0; d < TCC_MAX_RANK; d++)
        if (chosen[d]) out->v[out->count++] = d;
    return true;
}

static tcc_tensor reduction(tcc_op op, tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!reduction_axes(x, tcc_op_get_info(op)->text, count, axes, at, &list)) return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_reduce(begin(x.trace, at), op, x.node, &list));
}

tcc_tensor tcc_sum_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_SUM, x, count, axes, at);
}

tcc_tensor tcc_reduce_max_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_MAX, x, count, axes, at);
}

tcc_tensor tcc_reduce_min_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_MIN, x, count, axes, at);
}

tcc_tensor tcc_mean_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!reduction_axes(x, "mean", count, axes, at, &list)) return tcc_trace_poison();
    if (!tcc_dtype_is_float(x.node->type.dtype))
        return tcc_trace_error(x.trace, TCC_EDTYPE, at,
                               "mean: the mean of %s is no integer; convert first: tcc_mean(tcc_cast(x, TCC_F32), ..)",
                               tcc_type_text(&x.node->type));
    return tcc_trace_wrap(x.trace, tcc_ir_mean(begin(x.trace, at), x.node, &list));
}

tcc_tensor tcc_argmax_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!check_axis(x, "argmax", axis, at, &a)) return tcc_trace_poison();
    return with_attrs(TCC_OP_ARGMAX, x, &(tcc_attrs){.axis = {.axis = a}}, NULL, at);
}

tcc_tensor tcc_cumsum_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!check_axis(x, "cumsum", axis, at, &a)) return tcc_trace_poison();
    return with_attrs(TCC_OP_CUMSUM, x, &(tcc_attrs){.scan = {.axis = a}}, NULL, at);
}

/* -- Contractions -- */

/* Broadcasts the leading dims of a and b (all but the last two) together; the ranks become equal. */
static bool broadcast_batch(tcc_graph *g, tcc_tensor *a, tcc_tensor *b, tcc_loc at) {
    tcc_tensor *both[2] = {a, b};
    int rank = tcc_rank(*a) > tcc_rank(*b) ? tcc_rank(*a) : tcc_rank(*b);
    int64_t batch[TCC_MAX_RANK];
    for (int d = 0; d < rank - 2; d++) {
        batch[d] = 1;
        for (int i = 0; i < 2; i++) {
            int own = d - (rank - tcc_rank(*both[i]));
            int64_t extent = own < 0 ? 1 : both[i]->node->type.dims[own];
            if (extent == 1) continue;
            if (batch[d] != 1 && batch[d] != extent) {
                tcc_trace_error(a->trace, TCC_ESHAPE, at, "matmul: batch dims do not broadcast: %s x %s",
                                tcc_type_text(&a->node->type), tcc_type_text(&b->node->type));
                return false;
            }
            batch[d] = extent;
        }
    }
    for (int i = 0; i < 2; i++) {
        const tcc_type *type = &both[i]->node->type;
        int64_t want[TCC_MAX_RANK];
        int dims[TCC_MAX_RANK], shift = rank - type->rank;
        memcpy(want, batch, sizeof batch);
        for (int d = rank - 2; d < rank; d++) want[d] = type->dims[d - shift];
        for (int d = 0; d < type->rank; d++) dims[d] = d + shift;
        if (type->rank == rank && !memcmp(want, type->dims, sizeof want[0] * (size_t)rank)) continue;
        both[i]->node = tcc_ir_broadcast(g, both[i]->node, rank, want, dims);
        if (!both[i]->node) return false;
    }
    return true;
}

tcc_tensor tcc_matmul_at(tcc_tensor a, tcc_tensor b, tcc_loc at) {
    if (!tcc_trace_takes("matmul", at, 2, (tcc_tensor[]){a, b})) return tcc_trace_poison();
    tcc_graph *g = begin(a.trace, at);
    if (tcc_rank(a) < 2 || tcc_rank(b) < 2)
        return tcc_trace_error(a.trace, TCC_ESHAPE, at, "matmul: operands must have at least 2 dims: %s x %s",
                               tcc_type_text(&a.node->type), tcc_type_text(&b.node->type));
    if (tcc_dim(a, -1) != tcc_dim(b, -2)) {
        tcc_tensor poison = tcc_trace_error(a.trace, TCC_ESHAPE, at,
                                            "matmul: inner dimensions differ: %s x %s (%lld vs %lld)",
                                            tcc_type_text(&a.node->type), tcc_type_text(&b.node->type),
                                            (long long)tcc_dim(a, -1), (long long)tcc_dim(b, -2));
        tcc_note(g->diag, a.node->loc, "first operand made here");
        tcc_note(g->diag, b.node->loc, "second operand made here");
        return poison;
    }
    tcc_attrs_dot attrs = {.contract_a = {1, {tcc_rank(a) - 1}}, .contract_b = {1, {tcc_rank(b) - 2}}};
    if (tcc_rank(b) > 2) { /* a plain matrix b needs no batch: a's rows just grow */
        if (!broadcast_batch(g, &a, &b, at)) return tcc_trace_poison();
        int rank = tcc_rank(a);
        attrs = (tcc_attrs_dot){.contract_a = {1, {rank - 1}}, .contract_b = {1, {rank - 2}}};
        for (int d = 0; d < rank - 2; d++) {
            attrs.batch_a.v[attrs.batch_a.count++] = d;
            attrs.batch_b.v[attrs.batch_b.count++] = d;
        }
    }
    return tcc_trace_wrap(a.trace, tcc_ir_dot(g, a.node, b.node, &attrs));
}

/* What is added to the scores [.., T, S] of q and k; NULL after an error. It is converted before it is broadcast, while
 * it is small. */
static tcc_node *attention_mask(tcc_tensor mask, tcc_tensor q, tcc_tensor k, tcc_loc at) {
    const tcc_type *is = &mask.node->type;
    tcc_type scores = q.node->type;
    if (scores.rank < 2 || tcc_rank(k) != scores.rank) return mask.node; /* the op says what is wrong */
    scores.dims[scores.rank - 1] = tcc_dim(k, -2);
    const int shift = scores.rank - is->rank;
    bool fits = shift >= 0 && (is->dtype == TCC_BOOL || is->dtype == scores.dtype);
    for (int d = 0; fits && d < is->rank; d++) fits = is->dims[d] == 1 || is->dims[d] == scores.dims[d + shift];
    if (!fits)
        return tcc_trace_error(
                   q.trace, TCC_ESHAPE, at,
                   "attention: the mask, %s, does not broadcast to the scores, %s, or is not of bool or their type",
                   tcc_type_text(is), tcc_type_text(&scores))
            .node;
    if (is->dtype == TCC_BOOL) {
        const int64_t one = 1;
        tcc_tensor seen = tcc_constant_at(q.trace, 0, scores.dtype, 1, &one, at),
                   hidden = tcc_constant_at(q.trace, -INFINITY, scores.dtype, 1, &one, at);
        mask = tcc_select_at(mask, seen, hidden, at);
    }
    if (!mask.node || tcc_type_equal(&mask.node->type, &scores)) return mask.node;
    return tcc_broadcast_at(mask, scores.rank, scores.dims, at).node;
}

tcc_tensor tcc_attention_at(tcc_tensor q, tcc_tensor k, tcc_tensor v, const tcc_attention_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_attention_options, options, given);
    const bool masked = options.mask.trace || options.mask.node;
    if (!tcc_trace_takes("attention", at, 3 + masked, (tcc_tensor[]){q, k, v, options.mask})) return tcc_trace_poison();
    if (!(options.dropout >= 0 && options.dropout < 1))
        return tcc_trace_error(q.trace, TCC_EINVAL, at, "attention: dropout must be in [0, 1), not %g",
                               options.dropout);
    double scale = options.scale != 0 ? options.scale : 1 / sqrt((double)tcc_dim(q, -1));
    tcc_attrs attrs = {.sdpa = {.scale = scale, .causal = options.causal}};
    tcc_node *operands[5] = {q.node, k.node, v.node};
    int n = 3;
    if (masked && !(operands[n++] = attention_mask(options.mask, q, k, at))) return tcc_trace_poison();
    if (options.dropout > 0 && q.trace->training) {
        attrs.sdpa.p = options.dropout, attrs.sdpa.id = q.trace->next_random_id++;
        operands[n++] = tcc_trace_rng_key(q.trace);
    }
    return tcc_trace_wrap(q.trace, tcc_ir_build(q.trace->graph, TCC_OP_SDPA, operands, n, &attrs, NULL, at));
}

tcc_tensor tcc_conv_at(tcc_tensor x, tcc_tensor w, const tcc_conv_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_conv_options, options, given);
    if (!tcc_trace_takes("conv", at, 2, (tcc_tensor[]){x, w})) return tcc_trace_poison();
    int spatial = tcc_rank(x) - 2;
    if (spatial < 1 || spatial > 3)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "conv: x must be [N, C, spatial] with 1 to 3 spatial dims, not %s",
                               tcc_type_text(&x.node->type));
    tcc_attrs attrs = {.conv = {.groups = options.groups ? options.groups : 1}};
    tcc_dims *lists[] = {&attrs.conv.stride, &attrs.conv.pad_lo, &attrs.conv.pad_hi, &attrs.conv.dilation};
    int64_t values[] = {options.stride ? options.stride : 1, options.padding, options.padding,
                        options.dilation ? options.dilation : 1};
    for (int i = 0; i < 4; i++) {
        lists[i]->count = spatial;
        for (int d = 0; d < spatial; d++) lists[i]->v[d] = values[i];
    }
    return tcc_trace_wrap(
        x.trace, tcc_ir_build(x.trace->graph, TCC_OP_CONV, (tcc_node *const[]){x.node, w.node}, 2, &attrs, NULL, at));
}

/* -- Windows -- */

static tcc_tensor pool(tcc_op op, tcc_tensor x, int64_t window, const tcc_pool_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_pool_options, options, given);
    if (!tcc_trace_takes(text_of(op), at, 1, &x)) return tcc_trace_poison();
    int spatial = tcc_rank(x) - 2;
    if (spatial < 1 || spatial > 3)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "%s: x must be [N, C, spatial] with 1 to 3 spatial dims, not %s",
                               tcc_op_get_info(op)->text, tcc_type_text(&x.node->type));
    tcc_attrs attrs = {.pool = {.include_pad = op == TCC_OP_AVG_POOL && !options.exclude_pad}};
    tcc_dims *lists[] = {&attrs.pool.window, &attrs.pool.stride, &attrs.pool.pad_lo, &attrs.pool.pad_hi};
    int64_t values[] = {window, options.stride ? options.stride : window, options.padding, options.padding};
    for (int i = 0; i < 4; i++) {
        lists[i]->count = spatial;
        for (int d = 0; d < spatial; d++) lists[i]->v[d] = values[i];
    }
    return with_attrs(op, x, &attrs, NULL, at);
}

tcc_tensor tcc_max_pool_at(tcc_tensor x, int64_t window, const tcc_pool_options *options, tcc_loc at) {
    return pool(TCC_OP_MAX_POOL, x, window, options, at);
}

tcc_tensor tcc_avg_pool_at(tcc_tensor x, int64_t window, const tcc_pool_options *options, tcc_loc at) {
    return pool(TCC_OP_AVG_POOL, x, window, options, at);
}

/* x's type with other spatial extents. */
static tcc_tensor resized(tcc_op op, tcc_tensor x, bool align_corners, int rank, const int64_t *spatial, tcc_loc at) {
    if (!tcc_trace_takes(text_of(op), at, 1, &x)) return tcc_trace_poison();
    if (rank != tcc_rank(x) - 2)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: %d spatial extents for x of type %s",
                               tcc_op_get_info(op)->text, rank, tcc_type_text(&x.node->type));
    tcc_type type = x.node->type;
    for (int d = 0; d < rank; d++) type.dims[2 + d] = spatial[d];
    return with_attrs(op, x, &(tcc_attrs){.resize = {.align_corners = align_corners}}, &type, at);
}

tcc_tensor tcc_adaptive_avg_pool_at(tcc_tensor x, int rank, const int64_t *spatial, tcc_loc at) {
    return resized(TCC_OP_ADAPTIVE_AVG_POOL, x, false, rank, spatial, at);
}

tcc_tensor tcc_resize_nearest_at(tcc_tensor x, bool align_corners, int rank, const int64_t *spatial, tcc_loc at) {
    return resized(TCC_OP_RESIZE_NEAREST, x, align_corners, rank, spatial, at);
}

tcc_tensor tcc_resize_bilinear_at(tcc_tensor x, bool align_corners, int rank, const int64_t *spatial, tcc_loc at) {
    return resized(TCC_OP_RESIZE_BILINEAR, x, align_corners, rank, spatial, at);
}

/* -- Softmax and losses -- */

static tcc_tensor along_axis(tcc_op op, tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!check_axis(x, tcc_op_get_info(op)->text, axis, at, &a)) return tcc_trace_poison();
    return with_attrs(op, x, &(tcc_attrs){.axis = {.axis = a}}, NULL, at);
}

tcc_tensor tcc_softmax_at(tcc_tensor x, int axis, tcc_loc at) { return along_axis(TCC_OP_SOFTMAX, x, axis, at); }
tcc_tensor tcc_log_softmax_at(tcc_tensor x, int axis, tcc_loc at) {
    return along_axis(TCC_OP_LOG_SOFTMAX, x, axis, at);
}

/* What a target that does not change can be: the least and largest value, where it is known. */
static bool known_targets(const tcc_node *n, tcc_doubles *values, double ends[2]) {
    while (n->op == TCC_OP_RESHAPE || n->op == TCC_OP_TRANSPOSE || n->op == TCC_OP_BROADCAST) n = n->operands[0];
    if (n->op == TCC_OP_CONSTANT) *values = n->attrs->constant.values;
    if (n->op == TCC_OP_IOTA) {
        ends[1] = (double)(n->type.dims[n->attrs->axis.axis] - 1);
        *values = (tcc_doubles){2, ends};
    }
    return values->count > 0;
}

/* Constant targets are checked here; others make the loss NaN where they are none. */
static bool check_targets(tcc_tensor logits, tcc_tensor targets, int64_t ignored, tcc_loc at) {
    const tcc_type *type = &logits.node->type;
    tcc_doubles values = {0};
    double ends[2] = {0};
    if (!type->rank || !known_targets(targets.node, &values, ends)) return true;
    const int64_t classes = type->dims[type->rank - 1];
    for (int64_t i = 0; i < values.count; i++) {
        const double v = values.v[i];
        if ((v >= 0 && v < (double)classes) || v == (double)ignored) continue;
        tcc_trace_error(
            logits.trace, TCC_EINVAL, at,
            "cross_entropy: target %g is no class of the logits, %s: neither in 0 .. %lld nor ignore_index, "
            "%lld",
            v, tcc_type_text(type), (long long)classes - 1, (long long)ignored);
        return false;
    }
    return true;
}

tcc_tensor tcc_cross_entropy_at(tcc_tensor logits, tcc_tensor targets, const tcc_cross_entropy_options *given,
                                tcc_loc at) {
    TCC_OPTIONS(tcc_cross_entropy_options, options, given);
    const int count = options.weight ? 3 : 2;
    const tcc_tensor all[3] = {logits, targets, options.weight ? *options.weight : logits};
    if (!tcc_trace_takes("cross_entropy", at, count, all)) return tcc_trace_poison();
    const bool chosen = options.has_ignore_index || options.ignore_index != 0;
    tcc_attrs attrs = {.cross_entropy = {.ignore_index = chosen ? options.ignore_index : -100,
                                         .label_smoothing = options.label_smoothing}};
    if (!check_targets(logits, targets, attrs.cross_entropy.ignore_index, at)) return tcc_trace_poison();
    tcc_node *operands[3] = {logits.node, targets.node, all[2].node};
    return tcc_trace_wrap(logits.trace,
                          tcc_ir_build(logits.trace->graph, TCC_OP_CROSS_ENTROPY, operands, count, &attrs, NULL, at));
}

/* Whether x and its target are alike: [N, 1] against [N] would broadcast to N x N and train to the mean. */
static bool check_target(const char *loss, tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!tcc_trace_takes(loss, at, 2, (tcc_tensor[]){x, target})) return false;
    const tcc_type *a = &x.node->type, *b = &target.node->type;
    if (!tcc_dtype_is_float(a->dtype)) {
        tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: x is %s; convert it first: tcc_cast(x, TCC_F32)", loss,
                        tcc_type_text(a));
    } else if (a->dtype != b->dtype) {
        tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: element types differ: x is %s, the target %s; tcc_cast converts",
                        loss, tcc_type_text(a), tcc_type_text(b));
    } else if (!tcc_type_equal(a, b)) {
        tcc_trace_error(
            x.trace, TCC_ESHAPE, at,
            "%s: x is %s, the target %s; they must have one shape (nothing broadcasts in a loss): tcc_reshape "
            "or tcc_broadcast one of them",
            loss, tcc_type_text(a), tcc_type_text(b));
    } else {
        return true;
    }
    tcc_note(x.trace->graph->diag, x.node->loc, "x made here");
    tcc_note(x.trace->graph->diag, target.node->loc, "the target made here");
    return false;
}

tcc_tensor tcc_mse_loss_at(tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!check_target("mse_loss", x, target, at)) return tcc_trace_poison();
    tcc_tensor d = tcc_sub_at(x, target, at);
    return tcc_mean_at(tcc_mul_at(d, d, at), 0, NULL, at);
}

tcc_tensor tcc_l1_loss_at(tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!check_target("l1_loss", x, target, at)) return tcc_trace_poison();
    return tcc_mean_at(tcc_abs_at(tcc_sub_at(x, target, at), at), 0, NULL, at);
}

tcc_tensor tcc_bce_with_logits_at(tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!check_target("bce_with_logits", x, target, at)) return tcc_trace_poison();
    /* -t log s(x) - (1 - t) log(1 - s(x)) = softplus(x) - t x */
    return tcc_mean_at(tcc_sub_at(tcc_softplus_at(x, at), tcc_mul_at(target, x, at), at), 0, NULL, at);
}
