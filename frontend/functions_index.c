/* SPDX-License-Identifier: MIT
 * Functions made of operations: what is put by indices. */
#include "tensor_ops.h"

#include "traincc/functions.h"

#include <math.h>

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

bool tcc__tensor_takes_indices(const char *name, tcc_tensor x, tcc_loc at) {
    const tcc_dtype dtype = tcc_get_dtype(x);
    if (dtype == TCC_I32 || dtype == TCC_I64) return true;
    tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: indices are i32 or i64, not %s", name, tcc_type_text(&x.node->type));
    return false;
}

tcc_tensor tcc_one_hot_at(tcc_tensor indices, int64_t classes, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_takes("one_hot", at, 1, &indices) || !tcc__tensor_takes_indices("one_hot", indices, at))
        return tcc_trace_poison();
    if (classes < 1)
        return tcc_trace_error(indices.trace, TCC_EINVAL, at, "one_hot: there are no %lld classes", (long long)classes);
    tcc_tensor class = tcc_iota(indices.trace, 0, tcc_get_dtype(indices), 1, &classes);
    return tcc_cast(tcc_eq(tcc_expand_dims(indices, TCC_DIMS(-1)), class), dtype);
}

/* -- Scatter -- */

/* A base [a.., places, b..], n indices and their updates [a.., n, b..]. */
typedef struct scattered {
    tcc_tensor base, indices, updates;
    int axis;
    int64_t places, n;
} scattered;

static bool begin_scatter(scattered *s, const char *name, tcc_tensor base, tcc_tensor indices, tcc_tensor updates,
                          int axis, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 3, (tcc_tensor[]){base, indices, updates}) ||
        !tcc__tensor_takes_indices(name, indices, at) || !tcc__tensor_axis(base, name, axis, at, &axis))
        return false;
    const tcc_type *of = &base.node->type, *is = &updates.node->type;
    tcc_type want = {.dtype = of->dtype, .rank = of->rank - 1 + tcc_rank(indices)}, flat = *of;
    for (int d = 0; d < want.rank && want.rank <= TCC_MAX_RANK; d++)
        want.dims[d] = d < axis                       ? of->dims[d]
                       : d < axis + tcc_rank(indices) ? tcc_dim(indices, d - axis)
                                                      : of->dims[d - tcc_rank(indices) + 1];
    if (!tcc_type_equal(&want, is)) {
        tcc_trace_error(base.trace, TCC_ESHAPE, at, "%s: updates are %s, not %s, as indices are %s and the base %s",
                        name, tcc_type_text(is), tcc_type_text(&want), tcc_type_text(&indices.node->type),
                        tcc_type_text(of));
        return false;
    }
    const int64_t n = flat.dims[axis] = tcc_type_numel(&indices.node->type);
    *s = (scattered){.base = base,
                     .indices = tcc_reshape(indices, TCC_DIMS(n)),
                     .updates = tcc_reshape(updates, flat.rank, flat.dims),
                     .axis = axis,
                     .places = of->dims[axis],
                     .n = n};
    return true;
}

/* bool [places, n]: which index says which place. */
static tcc_tensor hits_of(const scattered *s, tcc_loc at) {
    return tcc_eq(tcc_iota(s->base.trace, 0, tcc_get_dtype(s->indices), TCC_DIMS(s->places, 1)), s->indices);
}

/* Which update comes last at each place, counted from 1, is the maximum over those that hit it; 0: none does. */
tcc_tensor tcc_scatter_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    scattered s;
    if (!begin_scatter(&s, "scatter", base, indices, updates, axis, at)) return tcc_trace_poison();
    tcc_tensor turn = tcc_add_scalar(tcc_iota(base.trace, 0, TCC_I32, TCC_DIMS(s.n)), 1);
    tcc_tensor last = tcc_reduce_max(tcc_select(hits_of(&s, at), turn, tcc__tensor_like(turn, 0, at)), TCC_DIMS(1));
    tcc_tensor rows = tcc_take(s.updates, tcc_add_scalar(last, -1), s.axis);
    int64_t along[TCC_MAX_RANK];
    for (int d = 0; d < tcc_rank(base); d++) along[d] = d == s.axis ? s.places : 1;
    tcc_tensor hit = tcc_gt(last, tcc__tensor_like(last, 0, at));
    return tcc_select(tcc_reshape(hit, tcc_rank(base), along), rows, base);
}

/* x where it is finite, less its own value: 0, with a gradient of 1. */
static tcc_tensor slope_of(tcc_tensor x, tcc_loc at) {
    tcc_tensor finite = tcc_select(tcc_isfinite(x), x, tcc__tensor_like(x, 0, at));
    return tcc_sub(finite, tcc_stop_gradient(finite));
}

/* The gradients of a largest value: the same share to the base and to each update that is equal to it. Nothing is added
 * to the value but zeros, whose slopes have these shares. */
static tcc_tensor shared_slopes(const scattered *s, tcc_tensor most, tcc_loc at) {
    tcc_tensor updates = tcc__tensor_widened(s->updates, at), base = tcc__tensor_widened(s->base, at),
               y = tcc__tensor_widened(most, at), none = tcc_full_like(base, 0), one = tcc__tensor_like(base, 1, at),
               zero = tcc__tensor_like(base, 0, at);
    tcc_tensor equal = tcc_eq(updates, tcc_take(y, s->indices, s->axis)),
               own = tcc_cast(tcc_eq(base, y), tcc_get_dtype(y));
    tcc_tensor count = tcc_scatter_add(own, s->indices, tcc_select(equal, one, zero), s->axis);
    tcc_tensor share = tcc_div(one, tcc_max(count, one)), inside = tcc_take(share, s->indices, s->axis);
    tcc_tensor slopes = tcc_mul(slope_of(updates, at), tcc_select(equal, inside, zero));
    y = tcc_add(y, tcc_mul(slope_of(base, at), tcc_mul(own, share)));
    return tcc_add(y, tcc_scatter_add(none, s->indices, slopes, s->axis));
}

/* Of each place the base and all updates that hit it are compared. */
static tcc_tensor scatter_extreme(const char *name, bool least, tcc_tensor base, tcc_tensor indices, tcc_tensor updates,
                                  int axis, tcc_loc at) {
    scattered s;
    if (!begin_scatter(&s, name, base, indices, updates, axis, at)) return tcc_trace_poison();
    const tcc_type type = base.node->type;
    if (type.rank == TCC_MAX_RANK || type.dtype == TCC_BOOL)
        return tcc_trace_error(base.trace, TCC_ESHAPE, at, "%s: the base is %s; it takes numbers of %d dims", name,
                               tcc_type_text(&type), TCC_MAX_RANK - 1);
    int64_t along[TCC_MAX_RANK];
    for (int d = 0; d <= type.rank; d++) along[d] = d == s.axis ? s.places : d == s.axis + 1 ? s.n : 1;
    tcc_tensor hits = tcc_reshape(hits_of(&s, at), type.rank + 1, along);
    tcc_tensor u = tcc_expand_dims(tcc_stop_gradient(s.updates), TCC_DIMS(s.axis)),
               b = tcc_expand_dims(tcc_stop_gradient(s.base), TCC_DIMS(s.axis + 1)), all = tcc_select(hits, u, b);
    tcc_tensor most = least ? tcc_reduce_min(all, TCC_DIMS(s.axis + 1)) : tcc_reduce_max(all, TCC_DIMS(s.axis + 1));
    return tcc_dtype_is_float(type.dtype) ? tcc_cast(shared_slopes(&s, most, at), type.dtype) : most;
}

tcc_tensor tcc_scatter_max_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return scatter_extreme("scatter_max", false, base, indices, updates, axis, at);
}

tcc_tensor tcc_scatter_min_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return scatter_extreme("scatter_min", true, base, indices, updates, axis, at);
}
