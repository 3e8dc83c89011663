/* SPDX-License-Identifier: MIT
 * Functions made of operations: what is put by indices. */
#include "tensor_ops.h"

#include "traincc/functions.h"

#include <math.h>
#include <stdint.h>

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

static bool takes_indices(const char *name, tcc_tensor x, tcc_loc at) {
    const tcc_dtype dtype = tcc_get_dtype(x);
    if (dtype == TCC_I32 || dtype == TCC_I64) return true;
    tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: indices are i32 or i64, not %s", name, tcc_type_text(&x.node->type));
    return false;
}

tcc_tensor tcc_one_hot_at(tcc_tensor indices, int64_t classes, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_takes("one_hot", at, 1, &indices) || !takes_indices("one_hot", indices, at))
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
    if (!tcc_trace_takes(name, at, 3, (tcc_tensor[]){base, indices, updates}) || !takes_indices(name, indices, at) ||
        !tcc__tensor_axis(base, name, axis, at, &axis))
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

static tcc_tensor put_larger(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return tcc__tensor_indexed(TCC_OP_SCATTER_MAX, base, (tcc_tensor[]){indices, updates}, 2, axis, at);
}

tcc_tensor tcc_scatter_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    scattered s;
    if (!begin_scatter(&s, "scatter", base, indices, updates, axis, at)) return tcc_trace_poison();
    return tcc__tensor_indexed(TCC_OP_SCATTER, s.base, (tcc_tensor[]){s.indices, s.updates}, 2, s.axis, at);
}

static tcc_tensor scatter_extreme(const char *name, bool least, tcc_tensor base, tcc_tensor indices, tcc_tensor updates,
                                  int axis, tcc_loc at) {
    scattered s;
    if (!begin_scatter(&s, name, base, indices, updates, axis, at)) return tcc_trace_poison();
    const tcc_type *type = &base.node->type;
    if (type->dtype == TCC_BOOL)
        return tcc_trace_error(base.trace, TCC_EDTYPE, at, "%s: the base is %s; it takes numbers", name,
                               tcc_type_text(type));
    if (!least) return put_larger(s.base, s.indices, s.updates, s.axis, at);
    return tcc__tensor_reversed(
        put_larger(tcc__tensor_reversed(s.base, at), s.indices, tcc__tensor_reversed(s.updates, at), s.axis, at), at);
}

tcc_tensor tcc_scatter_max_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return scatter_extreme("scatter_max", false, base, indices, updates, axis, at);
}

tcc_tensor tcc_scatter_min_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return scatter_extreme("scatter_min", true, base, indices, updates, axis, at);
}

/* -- Scatter, element by element -- */

static tcc_tensor begin_along(const char *name, tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int *axis,
                              tcc_loc at) {
    if (!tcc_trace_takes(name, at, 3, (tcc_tensor[]){base, indices, updates}) || !takes_indices(name, indices, at) ||
        !tcc__tensor_axis(base, name, *axis, at, axis))
        return tcc_trace_poison();
    const tcc_tensor given = indices;
    tcc_type want = base.node->type, is;
    indices = tcc__tensor_stretched(indices, updates, -1, at);
    if (!indices.node) return indices;
    is = updates.node->type, is.dtype = tcc_get_dtype(indices);
    bool fits = tcc_type_equal(&is, &indices.node->type) && want.rank == is.rank;
    if (fits) want.dims[*axis] = tcc_dim(updates, *axis);
    if (fits && tcc_type_equal(&want, &updates.node->type)) return indices;
    return tcc_trace_error(base.trace, TCC_ESHAPE, at,
                           "%s: updates %s and indices %s of a base %s: updates agree with it in type and all dims but "
                           "%d, and indices stretch to their shape",
                           name, tcc_type_text(&updates.node->type), tcc_type_text(&given.node->type),
                           tcc_type_text(&base.node->type), *axis);
}

static tcc_tensor scatter_along(tcc_op op, const char *name, tcc_tensor base, tcc_tensor indices, tcc_tensor updates,
                                int axis, tcc_loc at) {
    indices = begin_along(name, base, indices, updates, &axis, at);
    return indices.node ? tcc__tensor_indexed(op, base, (tcc_tensor[]){indices, updates}, 2, axis, at) : indices;
}

tcc_tensor tcc_scatter_along_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return scatter_along(TCC_OP_SCATTER_ALONG, "scatter_along", base, indices, updates, axis, at);
}

tcc_tensor tcc_scatter_add_along_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at) {
    return scatter_along(TCC_OP_SCATTER_ADD_ALONG, "scatter_add_along", base, indices, updates, axis, at);
}
