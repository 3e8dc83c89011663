/* SPDX-License-Identifier: MIT
 * Operations on tensors: convolutions, and windows over spatial dims. */
#include "tensor_ops.h"

#include "ir/builder.h"

#include <stdio.h>

enum { SPATIAL = 3 };

/* -- Options, one number for each spatial dim -- */

/* Whose options are read. */
typedef struct call {
    const char *what;
    tcc_tensor x;
    int spatial;
    tcc_loc at;
} call;

static bool begin(call *c, const char *what, tcc_tensor x, tcc_loc at) {
    *c = (call){what, x, tcc_rank(x) - 2, at};
    if (c->spatial >= 1 && c->spatial <= SPATIAL) return true;
    tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: x must be [N, C, spatial] with 1 to %d spatial dims, not %s", what,
                    SPATIAL, tcc_type_text(&x.node->type));
    return false;
}

static tcc_dims all(const call *c, int64_t value) {
    tcc_dims list = {.count = c->spatial};
    for (int d = 0; d < c->spatial; d++) list.v[d] = value;
    return list;
}

static bool is_in_range(const call *c, const char *option, int64_t value, int64_t least) {
    if (value >= least && value <= TCC_MAX_NUMEL) return true;
    tcc_trace_error(c->x.trace, TCC_EINVAL, c->at, "%s: %s is %lld; it must be %lld to %lld", c->what, option,
                    (long long)value, (long long)least, (long long)TCC_MAX_NUMEL);
    return false;
}

/* Puts what is given, which is not 0, into the list: first what holds for all dims. */
static bool read_all(const call *c, const char *option, int64_t value, int64_t least, tcc_dims *list) {
    if (!value) return true;
    *list = all(c, value);
    return is_in_range(c, option, value, least);
}

static bool read_each(const call *c, const char *option, const int64_t values[SPATIAL], int64_t least, tcc_dims *list) {
    for (int d = 0; d < SPATIAL; d++) {
        char name[32];
        if (!values[d]) continue;
        snprintf(name, sizeof name, "%s[%d]", option, d);
        if (d >= c->spatial) {
            tcc_trace_error(c->x.trace, TCC_EINVAL, c->at, "%s: %s is %lld, but x, %s, has %d spatial dim%s", c->what,
                            name, (long long)values[d], tcc_type_text(&c->x.node->type), c->spatial,
                            c->spatial == 1 ? "" : "s");
            return false;
        }
        if (!is_in_range(c, name, values[d], least)) return false;
        list->v[d] = values[d];
    }
    return true;
}

/* Both lists begin as zeros. */
static bool read_padding(const call *c, int64_t padding, const int64_t of[SPATIAL], const int64_t before[SPATIAL],
                         const int64_t after[SPATIAL], tcc_dims *lo, tcc_dims *hi) {
    if (!read_all(c, "padding", padding, 0, lo) || !read_each(c, "padding_of", of, 0, lo)) return false;
    *hi = *lo;
    return read_each(c, "padding_before", before, 0, lo) && read_each(c, "padding_after", after, 0, hi);
}

static bool is_zero(const int64_t list[SPATIAL]) {
    for (int d = 0; d < SPATIAL; d++)
        if (list[d]) return false;
    return true;
}

/* -- Convolutions -- */

static bool read_conv(const call *c, const tcc_conv_options *o, tcc_attrs_conv *a) {
    *a = (tcc_attrs_conv){.stride = all(c, 1),
                          .pad_lo = all(c, 0),
                          .pad_hi = all(c, 0),
                          .dilation = all(c, 1),
                          .groups = o->groups ? o->groups : 1};
    if (o->no_bias || o->weight_init || o->bias_init || !is_zero(o->kernel_of)) {
        tcc_trace_error(c->x.trace, TCC_EINVAL, c->at,
                        "%s: no_bias, kernel_of, weight_init and bias_init are options of layers", c->what);
        return false;
    }
    return is_in_range(c, "groups", a->groups, 1) && read_all(c, "stride", o->stride, 1, &a->stride) &&
           read_each(c, "stride_of", o->stride_of, 1, &a->stride) &&
           read_all(c, "dilation", o->dilation, 1, &a->dilation) &&
           read_each(c, "dilation_of", o->dilation_of, 1, &a->dilation) &&
           read_padding(c, o->padding, o->padding_of, o->padding_before, o->padding_after, &a->pad_lo, &a->pad_hi);
}

static bool any(const tcc_dims *list) {
    for (int d = 0; d < list->count; d++)
        if (list->v[d]) return true;
    return false;
}

/* What the kernel spans in a spatial dim; 0: too much. */
static int64_t reach(tcc_tensor w, const tcc_attrs_conv *a, int d) {
    const int64_t steps = tcc_dim(w, 2 + d) - 1;
    return steps > TCC_MAX_NUMEL / a->dilation.v[d] ? 0 : steps * a->dilation.v[d] + 1;
}

/* Padding for results of ceil(extent / stride). */
static bool pad_same(const call *c, tcc_tensor w, tcc_attrs_conv *a) {
    if (any(&a->pad_lo) || any(&a->pad_hi)) {
        tcc_trace_error(c->x.trace, TCC_EINVAL, c->at, "%s: padding is given, and same, which finds the padding",
                        c->what);
        return false;
    }
    for (int d = 0; d < c->spatial; d++) {
        const int64_t extent = tcc_dim(c->x, 2 + d), stride = a->stride.v[d];
        const int64_t total = (extent - 1) / stride * stride + reach(w, a, d) - extent;
        if (total <= 0) continue;
        a->pad_lo.v[d] = total / 2, a->pad_hi.v[d] = total - total / 2;
    }
    return true;
}

tcc_tensor tcc_conv_at(tcc_tensor x, tcc_tensor w, const tcc_conv_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_conv_options, options, given);
    call c;
    tcc_attrs attrs = {0};
    if (!tcc_trace_takes("conv", at, 2, (tcc_tensor[]){x, w}) ||
        (given && !tcc_trace_takes_size("conv", given->size, sizeof options, at)))
        return tcc_trace_poison();
    if (!begin(&c, "conv", x, at) || !read_conv(&c, &options, &attrs.conv)) return tcc_trace_poison();
    if (options.output_padding || !is_zero(options.output_padding_of))
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "conv: output_padding is an option of transposed convolutions");
    if (options.same && tcc_rank(w) == tcc_rank(x) && !pad_same(&c, w, &attrs.conv)) return tcc_trace_poison();
    return tcc_trace_wrap(
        x.trace, tcc_ir_build(x.trace->graph, TCC_OP_CONV, (tcc_node *const[]){x.node, w.node}, 2, &attrs, NULL, at));
}

/* The extent of spatial dim d of a transposed convolution's result, with `more` elements behind it; 0: an error. */
static int64_t transposed_extent(const call *c, tcc_tensor w, const tcc_attrs_conv *a, int64_t more, int d) {
    const int64_t steps = tcc_dim(c->x, 2 + d) - 1, stride = a->stride.v[d], span = reach(w, a, d);
    const int64_t cut = a->pad_lo.v[d] + a->pad_hi.v[d];
    if (more >= stride && more >= a->dilation.v[d]) {
        tcc_trace_error(c->x.trace, TCC_EINVAL, c->at,
                        "%s: output_padding is %lld in spatial dim %d; it must be less than the stride, %lld, or the "
                        "dilation, %lld",
                        c->what, (long long)more, d, (long long)stride, (long long)a->dilation.v[d]);
        return 0;
    }
    const bool small = span && steps <= TCC_MAX_NUMEL / stride;
    const int64_t extent = small ? steps * stride + span + more - cut : TCC_MAX_NUMEL + 1;
    if (extent > 0 && extent <= TCC_MAX_NUMEL) return extent;
    tcc_trace_error(c->x.trace, TCC_ESHAPE, c->at,
                    "%s: spatial dim %d of the result would have %s: x is %s, w %s, the stride %lld, the padding "
                    "%lld + %lld",
                    c->what, d, extent > 0 ? "too many elements" : "no element", tcc_type_text(&c->x.node->type),
                    tcc_type_text(&w.node->type), (long long)stride, (long long)a->pad_lo.v[d],
                    (long long)a->pad_hi.v[d]);
    return 0;
}

/* Output padding of a stride or more is no convolution's: so many elements are cut off less at the end, and where there
 * are none to spare, zeros follow the result, which loses them from its extents. */
static void spare_padding(tcc_attrs_conv *a, const tcc_dims *more, tcc_type *type, int64_t zeros[2 * SPATIAL]) {
    const int spatial = type->rank - 2;
    for (int d = 0; d < spatial; d++) {
        if (more->v[d] < a->stride.v[d]) continue;
        const int64_t spared = more->v[d] < a->pad_hi.v[d] ? more->v[d] : a->pad_hi.v[d];
        a->pad_hi.v[d] -= spared;
        zeros[2 * (spatial - 1 - d) + 1] = more->v[d] - spared;
        type->dims[2 + d] -= more->v[d] - spared;
    }
}

tcc_tensor tcc_conv_transpose_at(tcc_tensor x, tcc_tensor w, const tcc_conv_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_conv_options, options, given);
    call c;
    tcc_attrs attrs = {0};
    if (!tcc_trace_takes("conv_transpose", at, 2, (tcc_tensor[]){x, w}) ||
        (given && !tcc_trace_takes_size("conv_transpose", given->size, sizeof options, at)))
        return tcc_trace_poison();
    if (!begin(&c, "conv_transpose", x, at) || !read_conv(&c, &options, &attrs.conv)) return tcc_trace_poison();
    if (options.same)
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "conv_transpose: same is no option of transposed convolutions");
    const int64_t groups = attrs.conv.groups;
    tcc_type type = x.node->type;
    if (!tcc_dtype_is_float(type.dtype) || type.dtype != w.node->type.dtype)
        return tcc_trace_error(x.trace, TCC_EDTYPE, at,
                               "conv_transpose: x is %s and w %s; they must be of one float type", tcc_type_text(&type),
                               tcc_type_text(&w.node->type));
    if (tcc_rank(w) != type.rank || tcc_dim(w, 0) != type.dims[1] || type.dims[1] % groups)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "conv_transpose: w must be [C, O / groups, kernel], %lld groups dividing C: x is %s, "
                               "w %s",
                               (long long)groups, tcc_type_text(&type), tcc_type_text(&w.node->type));
    tcc_dims more = all(&c, 0);
    if (!read_all(&c, "output_padding", options.output_padding, 0, &more) ||
        !read_each(&c, "output_padding_of", options.output_padding_of, 0, &more))
        return tcc_trace_poison();
    type.dims[1] = tcc_dim(w, 1) * groups;
    for (int d = 0; d < c.spatial; d++)
        if (!(type.dims[2 + d] = transposed_extent(&c, w, &attrs.conv, more.v[d], d))) return tcc_trace_poison();
    int64_t zeros[2 * SPATIAL] = {0};
    spare_padding(&attrs.conv, &more, &type, zeros);
    tcc_tensor y = tcc_trace_wrap(x.trace, tcc_ir_build(x.trace->graph, TCC_OP_CONV_GRAD_INPUT,
                                                        (tcc_node *const[]){x.node, w.node}, 2, &attrs, &type, at));
    return zeros[1] || zeros[3] || zeros[5] ? tcc_pad_dims_at(y, 0, 2 * c.spatial, zeros, at) : y;
}

/* -- Pools -- */

/* How far the last window reaches behind x and its padding where results are rounded up; 0 where it does not. */
static int64_t overhang(const tcc_attrs_pool *a, int64_t extent, int d) {
    const int64_t stride = a->stride.v[d], padded = extent + a->pad_lo.v[d] + a->pad_hi.v[d];
    const int64_t room = padded - a->window.v[d];
    if (room <= -stride) return 0; /* no window at all: the op says so */
    int64_t start = (room + stride - 1) / stride * stride;
    if (start >= extent + a->pad_lo.v[d]) start -= stride;
    return start > room ? start - room : 0;
}

/* Windows may reach beyond the padding. What averages divide by counts the padding, but nothing beyond it: then the
 * padding becomes elements of x. */
static tcc_tensor reach_beyond(const call *c, tcc_op op, tcc_attrs_pool *a) {
    int64_t lo[TCC_MAX_RANK] = {0}, hi[TCC_MAX_RANK] = {0}, none[TCC_MAX_RANK] = {0};
    tcc_dims beyond = all(c, 0);
    for (int d = 0; d < c->spatial; d++) {
        beyond.v[d] = overhang(a, tcc_dim(c->x, 2 + d), d);
        lo[2 + d] = a->pad_lo.v[d], hi[2 + d] = a->pad_hi.v[d];
    }
    if (!any(&beyond)) return c->x;
    tcc_tensor x = c->x;
    if (op == TCC_OP_AVG_POOL && a->include_pad) {
        if (any(&a->pad_lo) || any(&a->pad_hi))
            x = tcc_trace_wrap(x.trace, tcc_ir_pad(tcc__tensor_begin(x.trace, c->at), x.node, 0, lo, hi, none));
        a->pad_lo = a->pad_hi = all(c, 0);
        a->include_pad = false;
    }
    for (int d = 0; d < c->spatial; d++) a->pad_hi.v[d] += beyond.v[d];
    return x;
}

static tcc_tensor pool(tcc_op op, tcc_tensor x, int64_t window, const tcc_pool_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_pool_options, options, given);
    const char *what = tcc__tensor_op_text(op);
    call c;
    if (!tcc_trace_takes(what, at, 1, &x) || (given && !tcc_trace_takes_size(what, given->size, sizeof options, at)) ||
        !begin(&c, what, x, at))
        return tcc_trace_poison();
    if (op == TCC_OP_MAX_POOL && options.exclude_pad)
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: exclude_pad is an option of averages", what);
    tcc_attrs attrs = {.pool = {.window = all(&c, window),
                                .pad_lo = all(&c, 0),
                                .pad_hi = all(&c, 0),
                                .include_pad = op == TCC_OP_AVG_POOL && !options.exclude_pad}};
    tcc_attrs_pool *a = &attrs.pool;
    if (!read_each(&c, "window_of", options.window_of, 1, &a->window)) return tcc_trace_poison();
    for (int d = 0; d < c.spatial; d++)
        if (!is_in_range(&c, "the window", a->window.v[d], 1)) return tcc_trace_poison();
    a->stride = a->window;
    if (!read_all(&c, "stride", options.stride, 1, &a->stride) ||
        !read_each(&c, "stride_of", options.stride_of, 1, &a->stride) ||
        !read_padding(&c, options.padding, options.padding_of, options.padding_before, options.padding_after,
                      &a->pad_lo, &a->pad_hi))
        return tcc_trace_poison();
    for (int d = 0; d < c.spatial; d++)
        if (a->pad_lo.v[d] >= a->window.v[d] || a->pad_hi.v[d] >= a->window.v[d])
            return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                                   "%s: the padding must be less than the window, but it is %lld and %lld of a window "
                                   "of %lld in spatial dim %d",
                                   what, (long long)a->pad_lo.v[d], (long long)a->pad_hi.v[d],
                                   (long long)a->window.v[d], d);
    if (options.ceil_mode) x = reach_beyond(&c, op, a);
    return tcc__tensor_op(op, x, &attrs, NULL, at);
}

tcc_tensor tcc_max_pool_at(tcc_tensor x, int64_t window, const tcc_pool_options *options, tcc_loc at) {
    return pool(TCC_OP_MAX_POOL, x, window, options, at);
}

tcc_tensor tcc_avg_pool_at(tcc_tensor x, int64_t window, const tcc_pool_options *options, tcc_loc at) {
    return pool(TCC_OP_AVG_POOL, x, window, options, at);
}

/* x's type with other spatial extents. */
static tcc_tensor resized(tcc_op op, tcc_tensor x, bool align_corners, int rank, const int64_t *spatial, tcc_loc at) {
    if (!tcc_trace_takes(tcc__tensor_op_text(op), at, 1, &x)) return tcc_trace_poison();
    if (rank != tcc_rank(x) - 2)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: %d spatial extents for x of type %s",
                               tcc_op_get_info(op)->text, rank, tcc_type_text(&x.node->type));
    tcc_type type = x.node->type;
    for (int d = 0; d < rank; d++) type.dims[2 + d] = spatial[d];
    return tcc__tensor_op(op, x, &(tcc_attrs){.resize = {.align_corners = align_corners}}, &type, at);
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
