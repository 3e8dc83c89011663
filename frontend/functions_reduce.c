/* SPDX-License-Identifier: MIT
 * Functions made of operations: reductions, running results, distances. */
#include "tensor_ops.h"

#include "traincc/functions.h"

#include <math.h>

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

static bool takes_numbers(const char *name, tcc_tensor x, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 1, &x)) return false;
    if (tcc_get_dtype(x) != TCC_BOOL) return true;
    tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: x is %s, no numbers", name, tcc_type_text(&x.node->type));
    return false;
}

/* -- Reductions -- */

/* i32: 1 where x is not 0. */
static tcc_tensor ones_where(tcc_tensor x, tcc_loc at) {
    return tcc_cast(tcc_get_dtype(x) == TCC_BOOL ? x : tcc_ne(x, tcc__tensor_like(x, 0, at)), TCC_I32);
}

tcc_tensor tcc_count_nonzero_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_axes(x, "count_nonzero", count, axes, at, &list)) return tcc_trace_poison();
    double most = 1;
    for (int i = 0; i < list.count; i++) most *= (double)tcc_dim(x, (int)list.v[i]);
    if (most > INT32_MAX)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "count_nonzero: %.0f elements may be more than an i32 counts",
                               most);
    return tcc_sum(ones_where(x, at), count, axes);
}

tcc_tensor tcc_any_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_axes(x, "any", count, axes, at, &list)) return tcc_trace_poison();
    return tcc_cast(tcc_reduce_max(ones_where(x, at), count, axes), TCC_BOOL);
}

tcc_tensor tcc_all_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_axes(x, "all", count, axes, at, &list)) return tcc_trace_poison();
    return tcc_cast(tcc_reduce_min(ones_where(x, at), count, axes), TCC_BOOL);
}

tcc_tensor tcc_prod_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_axes(x, "prod", count, axes, at, &list) || !takes_numbers("prod", x, at))
        return tcc_trace_poison();
    if (!list.count) return x;
    tcc_node *y = tcc_ir_reduce(tcc__tensor_begin(x.trace, at), TCC_OP_PROD, x.node, &list);
    return tcc__tensor_kept(tcc_trace_wrap(x.trace, y), x, count, &list, at);
}

/* -- Running results -- */

tcc_tensor tcc_cumprod_at(tcc_tensor x, int axis, tcc_loc at) {
    if (!tcc__tensor_axis(x, "cumprod", axis, at, &axis) || !takes_numbers("cumprod", x, at)) return tcc_trace_poison();
    return tcc__tensor_op(TCC_OP_LINEAR_SCAN, x, &(tcc_attrs){.scan = {.axis = axis}}, NULL, at);
}

/* Running maximum of x, or of what is as much larger as x is smaller. */
static tcc_tensor running_extreme(const char *name, bool least, tcc_tensor x, int axis, tcc_tensor *indices,
                                  tcc_loc at) {
    if (indices) *indices = tcc_trace_poison();
    if (!tcc__tensor_axis(x, name, axis, at, &axis) || !takes_numbers(name, x, at)) return tcc_trace_poison();
    if (least) x = tcc__tensor_reversed(x, at);
    const tcc_attrs along = {.scan = {.axis = axis}};
    tcc_tensor y = tcc__tensor_op(TCC_OP_CUMMAX, x, &along, NULL, at);
    if (indices) { /* the last element so far that is its own maximum */
        tcc_tensor place = tcc_iota(x.trace, axis, TCC_I32, tcc_rank(x), x.node->type.dims);
        tcc_tensor stays = tcc_and(tcc_ne(x, y), tcc_eq(x, x));
        *indices = tcc__tensor_op(TCC_OP_CUMMAX, tcc_select(stays, tcc__tensor_like(place, 0, at), place), &along, NULL,
                                  at);
    }
    return least ? tcc__tensor_reversed(y, at) : y;
}

tcc_tensor tcc_cummax_at(tcc_tensor x, int axis, tcc_tensor *indices, tcc_loc at) {
    return running_extreme("cummax", false, x, axis, indices, at);
}

tcc_tensor tcc_cummin_at(tcc_tensor x, int axis, tcc_tensor *indices, tcc_loc at) {
    return running_extreme("cummin", true, x, axis, indices, at);
}

/* -- Lengths and distances -- */

tcc_tensor tcc_normalize_at(tcc_tensor x, double p, int axis, tcc_loc at) {
    if (!tcc__tensor_axis(x, "normalize", axis, at, &axis) || !tcc__tensor_takes_floats("normalize", x, at))
        return tcc_trace_poison();
    tcc_tensor wide = tcc__tensor_widened(x, at);
    tcc_tensor length = tcc_clamp(tcc_norm(wide, p, TCC_KEEP(axis)), 1e-12, INFINITY);
    return tcc_cast(tcc_div(wide, length), tcc_get_dtype(x));
}

tcc_tensor tcc_cosine_similarity_at(tcc_tensor a, tcc_tensor b, int axis, tcc_loc at) {
    static const char name[] = "cosine_similarity";
    if (!tcc_trace_takes(name, at, 2, (tcc_tensor[]){a, b}) || !tcc__tensor_takes_floats(name, a, at) ||
        !tcc__tensor_axis(a, name, axis, at, &axis))
        return tcc_trace_poison();
    const tcc_type *of = &a.node->type, *is = &b.node->type;
    if (!tcc_type_equal(of, is))
        return tcc_trace_error(a.trace, TCC_ESHAPE, at, "%s: a is %s, b %s; they must have one shape and type", name,
                               tcc_type_text(of), tcc_type_text(is));
    tcc_tensor x = tcc__tensor_widened(a, at), y = tcc__tensor_widened(b, at), product = tcc_mul(x, y);
    tcc_tensor lengths = tcc_mul(tcc_clamp(tcc_norm(x, 2, TCC_DIMS(axis)), 1e-8, INFINITY),
                                 tcc_clamp(tcc_norm(y, 2, TCC_DIMS(axis)), 1e-8, INFINITY));
    return tcc_cast(tcc_div(tcc_sum(product, TCC_DIMS(axis)), lengths), tcc_get_dtype(a));
}

tcc_tensor tcc_cdist_at(tcc_tensor a, tcc_tensor b, double p, tcc_loc at) {
    if (!tcc_trace_takes("cdist", at, 2, (tcc_tensor[]){a, b}) || !tcc__tensor_takes_floats("cdist", a, at))
        return tcc_trace_poison();
    const tcc_type *of = &a.node->type, *is = &b.node->type;
    if (of->dtype != is->dtype || of->rank < 2 || is->rank < 2 || of->rank == TCC_MAX_RANK ||
        is->rank == TCC_MAX_RANK || of->dims[of->rank - 1] != is->dims[is->rank - 1])
        return tcc_trace_error(a.trace, TCC_ESHAPE, at,
                               "cdist: a is %s, b %s; they must be [.., M, D] and [.., N, D] of one type",
                               tcc_type_text(of), tcc_type_text(is));
    tcc_tensor x = tcc__tensor_widened(a, at), y = tcc__tensor_widened(b, at);
    tcc_tensor ways = tcc_sub(tcc_expand_dims(x, TCC_DIMS(-2)), tcc_expand_dims(y, TCC_DIMS(-3)));
    return tcc_cast(tcc_norm(ways, p, TCC_DIMS(-1)), tcc_get_dtype(a));
}
