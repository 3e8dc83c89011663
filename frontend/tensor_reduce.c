/* SPDX-License-Identifier: MIT
 * Operations on tensors: reductions and softmax. */
#include "tensor_ops.h"

/* -- Reductions -- */

bool tcc__tensor_axes(tcc_tensor x, const char *op, int count, const int64_t *axes, tcc_loc at, tcc_dims *out) {
    if (!tcc_trace_takes(op, at, 1, &x)) return false;
    if (count > 0) count &= ~TCC_KEEP_DIMS;
    if (count < 0 || count > TCC_MAX_RANK || (count && !axes)) {
        tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: %d axes%s; it takes 0, for all, to %d", op, count,
                        count > 0 && !axes ? ", which are NULL" : "", TCC_MAX_RANK);
        return false;
    }
    if (count == 0) {
        *out = tcc_ir_axes_from(0, x.node->type.rank);
        return true;
    }
    bool chosen[TCC_MAX_RANK] = {false};
    for (int i = 0; i < count; i++) {
        int a;
        if (!tcc__tensor_axis(x, op, axes[i], at, &a)) return false;
        if (chosen[a]) {
            tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: axis %d is named twice", op, a);
            return false;
        }
        chosen[a] = true;
    }
    *out = (tcc_dims){0};
    for (int d = 0; d < TCC_MAX_RANK; d++)
        if (chosen[d]) out->v[out->count++] = d;
    return true;
}

tcc_tensor tcc__tensor_kept(tcc_tensor y, tcc_tensor x, int count, const tcc_dims *axes, tcc_loc at) {
    if (count < 0 || !(count & TCC_KEEP_DIMS) || !y.node) return y;
    tcc_type type = x.node->type;
    for (int i = 0; i < axes->count; i++) type.dims[axes->v[i]] = 1;
    return tcc_reshape_at(y, type.rank, type.dims, at);
}

static tcc_tensor reduction(tcc_op op, tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_axes(x, tcc_op_get_info(op)->text, count, axes, at, &list)) return tcc_trace_poison();
    tcc_tensor y = tcc_trace_wrap(x.trace, tcc_ir_reduce(tcc__tensor_begin(x.trace, at), op, x.node, &list));
    return tcc__tensor_kept(y, x, count, &list, at);
}

tcc_tensor tcc_sum_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_SUM, x, count, axes, at);
}

tcc_tensor tcc_sum_i64_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    if (!tcc_trace_takes("sum_i64", at, 1, &x)) return tcc_trace_poison();
    if (tcc_dtype_is_float(x.node->type.dtype))
        return tcc_trace_error(x.trace, TCC_EDTYPE, at, "sum_i64: x is %s; it takes integers and bool",
                               tcc_type_text(&x.node->type));
    return tcc_sum_at(tcc_cast_at(x, TCC_I64, at), count, axes, at);
}

tcc_tensor tcc_reduce_max_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_MAX, x, count, axes, at);
}

tcc_tensor tcc_reduce_min_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_MIN, x, count, axes, at);
}

tcc_tensor tcc_mean_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_axes(x, "mean", count, axes, at, &list)) return tcc_trace_poison();
    if (!tcc_dtype_is_float(x.node->type.dtype))
        return tcc_trace_error(x.trace, TCC_EDTYPE, at,
                               "mean: the mean of %s is no integer; convert first: tcc_mean(tcc_cast(x, TCC_F32), ..)",
                               tcc_type_text(&x.node->type));
    tcc_tensor y = tcc_trace_wrap(x.trace, tcc_ir_mean(tcc__tensor_begin(x.trace, at), x.node, &list));
    return tcc__tensor_kept(y, x, count, &list, at);
}

tcc_tensor tcc_argmax_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "argmax", axis, at, &a)) return tcc_trace_poison();
    return tcc__tensor_op(TCC_OP_ARGMAX, x, &(tcc_attrs){.axis = {.axis = a}}, NULL, at);
}

tcc_tensor tcc_cumsum_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "cumsum", axis, at, &a)) return tcc_trace_poison();
    return tcc__tensor_op(TCC_OP_CUMSUM, x, &(tcc_attrs){.scan = {.axis = a}}, NULL, at);
}

tcc_tensor tcc_linear_scan_at(tcc_tensor a, tcc_tensor b, int axis, tcc_loc at) {
    const char *name = tcc__tensor_op_text(TCC_OP_LINEAR_SCAN);
    if (!tcc_trace_takes(name, at, 2, (tcc_tensor[]){a, b})) return tcc_trace_poison();
    tcc__tensor_begin(a.trace, at);
    if (!tcc__tensor_together(name, (tcc_tensor *const[]){&a, &b}, 2, at) ||
        !tcc__tensor_axis(b, name, axis, at, &axis))
        return tcc_trace_poison();
    const tcc_attrs attrs = {.scan = {.axis = axis}};
    return tcc_trace_wrap(a.trace, tcc_ir_build(a.trace->graph, TCC_OP_LINEAR_SCAN, (tcc_node *const[]){a.node, b.node},
                                                2, &attrs, NULL, at));
}

/* -- Softmax -- */

static tcc_tensor along_axis(tcc_op op, tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, tcc_op_get_info(op)->text, axis, at, &a)) return tcc_trace_poison();
    return tcc__tensor_op(op, x, &(tcc_attrs){.axis = {.axis = a}}, NULL, at);
}

tcc_tensor tcc_softmax_at(tcc_tensor x, int axis, tcc_loc at) { return along_axis(TCC_OP_SOFTMAX, x, axis, at); }
tcc_tensor tcc_log_softmax_at(tcc_tensor x, int axis, tcc_loc at) {
    return along_axis(TCC_OP_LOG_SOFTMAX, x, axis, at);
}
