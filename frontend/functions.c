/* SPDX-License-Identifier: MIT
 * Functions made of operations: activations, reductions. */
#include "tensor_ops.h"

#include "traincc/functions.h"

#include <math.h>

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

bool tcc__tensor_takes_floats(const char *name, tcc_tensor x, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 1, &x)) return false;
    if (tcc_dtype_is_float(x.node->type.dtype)) return true;
    tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: x is %s; convert it first: tcc_cast(x, TCC_F32)", name,
                    tcc_type_text(&x.node->type));
    return false;
}

tcc_tensor tcc__tensor_widened(tcc_tensor x, tcc_loc at) {
    return tcc_trace_wrap(x.trace, tcc_ir_widen(tcc__tensor_begin(x.trace, at), x.node));
}

/* -- Activations -- */

tcc_tensor tcc_relu6_at(tcc_tensor x, tcc_loc at) {
    if (!tcc__tensor_takes_floats("relu6", x, at)) return tcc_trace_poison();
    tcc_tensor six = tcc__tensor_like(x, 6, at), y = tcc_relu(x);
    return tcc_select(tcc_ge(y, six), six, y);
}

tcc_tensor tcc_hardswish_at(tcc_tensor x, tcc_loc at) {
    if (!tcc__tensor_takes_floats("hardswish", x, at)) return tcc_trace_poison();
    tcc_tensor wide = tcc__tensor_widened(x, at);
    return tcc_cast(tcc_mul(wide, tcc_scale(tcc_relu6(tcc_add_scalar(wide, 3)), 1.0 / 6)), tcc_get_dtype(x));
}

tcc_tensor tcc_mish_at(tcc_tensor x, tcc_loc at) {
    if (!tcc__tensor_takes_floats("mish", x, at)) return tcc_trace_poison();
    tcc_tensor wide = tcc__tensor_widened(x, at);
    return tcc_cast(tcc_mul(wide, tcc_tanh(tcc_softplus(wide))), tcc_get_dtype(x));
}

tcc_tensor tcc_elu_at(tcc_tensor x, double alpha, tcc_loc at) {
    if (!tcc__tensor_takes_floats("elu", x, at)) return tcc_trace_poison();
    if (!isfinite(alpha)) return tcc_trace_error(x.trace, TCC_EINVAL, at, "elu: alpha must be finite, not %g", alpha);
    tcc_tensor wide = tcc__tensor_widened(x, at), zero = tcc__tensor_like(wide, 0, at), above = tcc_gt(wide, zero);
    tcc_tensor below = tcc_scale(tcc_expm1(tcc_select(above, zero, wide)), alpha);
    return tcc_cast(tcc_select(above, wide, below), tcc_get_dtype(x));
}

tcc_tensor tcc_prelu_at(tcc_tensor x, tcc_tensor slope, tcc_loc at) {
    if (!tcc__tensor_takes_floats("prelu", x, at) || !tcc_trace_takes("prelu", at, 1, &slope))
        return tcc_trace_poison();
    const tcc_type *is = &slope.node->type, *of = &x.node->type;
    const int64_t n = tcc_type_numel(is);
    if (is->dtype != of->dtype || is->rank > 1 || (n != 1 && (of->rank < 2 || n != of->dims[1])))
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "prelu: the slope, %s, must have one element, or one for each channel (dim 1) of x, %s, "
                               "and its type",
                               tcc_type_text(is), tcc_type_text(of));
    int64_t dims[TCC_MAX_RANK] = {n};
    for (int d = 1; d < of->rank - 1; d++) dims[d] = 1;
    slope = n == 1 ? tcc_reshape(slope, 0, NULL) : tcc_reshape(slope, of->rank - 1, dims);
    return tcc_select(tcc_gt(x, tcc__tensor_like(x, 0, at)), x, tcc_mul(x, slope));
}

tcc_tensor tcc_glu_at(tcc_tensor x, int axis, tcc_loc at) {
    if (!tcc__tensor_takes_floats("glu", x, at)) return tcc_trace_poison();
    if (!tcc__tensor_axis(x, "glu", axis, at, &axis)) return tcc_trace_poison();
    const int64_t n = tcc_dim(x, axis);
    if (n % 2)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "glu: dim %d of %s, %lld, has no halves", axis,
                               tcc_type_text(&x.node->type), (long long)n);
    tcc_tensor wide = tcc__tensor_widened(x, at);
    return tcc_cast(tcc_mul(tcc_slice(wide, axis, 0, n / 2), tcc_sigmoid(tcc_slice(wide, axis, n / 2, n))),
                    tcc_get_dtype(x));
}

tcc_tensor tcc_clamp_at(tcc_tensor x, double low, double high, tcc_loc at) {
    if (!tcc_trace_takes("clamp", at, 1, &x)) return tcc_trace_poison();
    if (x.node->type.dtype == TCC_BOOL)
        return tcc_trace_error(x.trace, TCC_EDTYPE, at, "clamp: x is %s, no numbers", tcc_type_text(&x.node->type));
    if (!(low <= high))
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "clamp: there is nothing from %g to %g", low, high);
    tcc_tensor y = x;
    if (tcc_dtype_is_float(x.node->type.dtype)) /* a bound beyond the type is none */
        low = tcc_dtype_round(x.node->type.dtype, low), high = tcc_dtype_round(x.node->type.dtype, high);
    if (low > -INFINITY) {
        tcc_tensor bound = tcc__tensor_like(x, low, at);
        y = tcc_select(tcc_lt(x, bound), bound, y);
    }
    if (high < INFINITY) {
        tcc_tensor bound = tcc__tensor_like(x, high, at);
        y = tcc_select(tcc_gt(x, bound), bound, y);
    }
    return y;
}

/* -- Reductions, in f32 at least -- */

static tcc_tensor variance(const char *name, tcc_tensor x, double correction, int count, const int64_t *axes,
                           tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_takes_floats(name, x, at) || !tcc__tensor_axes(x, name, count, axes, at, &list))
        return tcc_trace_poison();
    double n = 1;
    for (int i = 0; i < list.count; i++) n *= (double)tcc_dim(x, (int)list.v[i]);
    if (!(n - correction > 0 && isfinite(correction)))
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: %g elements less a correction of %g are not above 0", name,
                               n, correction);
    tcc_tensor wide = tcc__tensor_widened(x, at);
    if (!wide.node) return wide;
    tcc_node *m2 = tcc_ir_reduce(tcc__tensor_begin(x.trace, at), TCC_OP_REDUCE_M2, wide.node, &list);
    return tcc__tensor_kept(tcc_scale(tcc_trace_wrap(x.trace, m2), 1 / (n - correction)), x, count, &list, at);
}

tcc_tensor tcc_var_at(tcc_tensor x, double correction, int count, const int64_t *axes, tcc_loc at) {
    return tcc_cast(variance("var", x, correction, count, axes, at), tcc_get_dtype(x));
}

tcc_tensor tcc_std_at(tcc_tensor x, double correction, int count, const int64_t *axes, tcc_loc at) {
    return tcc_cast(tcc__tensor_root(variance("std", x, correction, count, axes, at), at), tcc_get_dtype(x));
}

tcc_tensor tcc_norm_at(tcc_tensor x, double p, int count, const int64_t *axes, tcc_loc at) {
    if (!tcc__tensor_takes_floats("norm", x, at)) return tcc_trace_poison();
    tcc_tensor wide = tcc__tensor_widened(x, at), y;
    if (p == 1) y = tcc_sum(tcc_abs(wide), count, axes);
    else if (p == 2) y = tcc__tensor_root(tcc_sum(tcc_mul(wide, wide), count, axes), at);
    else if (p > 0 && isinf(p)) y = tcc_reduce_max(tcc_abs(wide), count, axes);
    else return tcc_trace_error(x.trace, TCC_EINVAL, at, "norm: p must be 1, 2 or INFINITY, not %g", p);
    return tcc_cast(y, tcc_get_dtype(x));
}

/* Shifted by the maximum's floor: an integer suffices, and floor has no gradient, as is right for a shift. */
tcc_tensor tcc_logsumexp_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_takes_floats("logsumexp", x, at) || !tcc__tensor_axes(x, "logsumexp", count, axes, at, &list))
        return tcc_trace_poison();
    const int flat = count & ~TCC_KEEP_DIMS;
    tcc_tensor wide = tcc__tensor_widened(x, at), most = tcc_floor(tcc_reduce_max(wide, flat, axes));
    most = tcc_select(tcc_isfinite(most), most, tcc__tensor_like(wide, 0, at));
    if (!most.node) return most;
    tcc_node *shift = tcc_ir_unreduce(tcc__tensor_begin(x.trace, at), most.node, tcc_rank(x), x.node->type.dims, &list);
    tcc_tensor sum = tcc_sum(tcc_exp(tcc_sub(wide, tcc_trace_wrap(x.trace, shift))), flat, axes);
    return tcc__tensor_kept(tcc_cast(tcc_add(tcc_log(sum), most), tcc_get_dtype(x)), x, count, &list, at);
}

/* The complement reverses the order of integers, of the least one too, which has no negative. */
tcc_tensor tcc__tensor_reversed(tcc_tensor x, tcc_loc at) {
    return tcc_dtype_is_float(tcc_get_dtype(x)) ? tcc_neg(x) : tcc_not(x);
}

tcc_tensor tcc_argmin_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "argmin", axis, at, &a)) return tcc_trace_poison();
    return tcc_argmax(tcc__tensor_reversed(x, at), a);
}

tcc_tensor tcc_weight_norm_at(tcc_tensor v, tcc_tensor g, int axis, tcc_loc at) {
    if (!tcc_trace_takes("weight_norm", at, 2, (tcc_tensor[]){v, g}) ||
        !tcc__tensor_takes_floats("weight_norm", v, at) || !tcc__tensor_axis(v, "weight_norm", axis, at, &axis))
        return tcc_trace_poison();
    tcc_type want = v.node->type;
    int64_t others[TCC_MAX_RANK];
    int n = 0;
    for (int d = 0; d < want.rank; d++)
        if (d != axis) want.dims[d] = 1, others[n++] = d;
    if (!tcc_type_equal(&want, &g.node->type))
        return tcc_trace_error(v.trace, TCC_ESHAPE, at, "weight_norm: g is %s; of v, %s, along dim %d it must be %s",
                               tcc_type_text(&g.node->type), tcc_type_text(&v.node->type), axis, tcc_type_text(&want));
    tcc_tensor wide = tcc__tensor_widened(v, at),
               length = n ? tcc_norm(wide, 2, n | TCC_KEEP_DIMS, others) : tcc_abs(wide);
    return tcc_cast(tcc_mul(wide, tcc_div(tcc__tensor_widened(g, at), length)), tcc_get_dtype(v));
}
