/* SPDX-License-Identifier: MIT
 * Sorted order, and search in it. */
#include "tensor_ops.h"

#include "traincc/functions.h"

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

enum { MOST_SORTED = 1 << 29 /* sums of a few indices are i32 */ };

static bool is_short(const char *name, tcc_tensor x, int64_t n, tcc_loc at) {
    if (n <= MOST_SORTED) return true;
    tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: %lld elements are too many; it takes 2^29 in a line", name,
                    (long long)n);
    return false;
}

/* Where the first k along `axis` stand in their order. */
static tcc_tensor order_along(const char *name, tcc_tensor x, int64_t k, int axis, bool descending, tcc_loc at) {
    const int rank = tcc_rank(x);
    if (!is_short(name, x, tcc_dim(x, axis), at)) return tcc_trace_poison();
    int64_t perm[TCC_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = d == axis ? rank - 1 : d == rank - 1 ? axis : d;
    if (tcc_get_dtype(x) == TCC_BOOL) x = tcc_cast(x, TCC_U8); /* which has a largest */
    const tcc_attrs attrs = {.order = {.count = k, .descending = descending}};
    return tcc_transpose(tcc__tensor_op(TCC_OP_ARGSORT, tcc_transpose(x, rank, perm), &attrs, NULL, at), rank, perm);
}

tcc_tensor tcc_argsort_at(tcc_tensor x, int axis, bool descending, tcc_loc at) {
    if (!tcc__tensor_axis(x, "argsort", axis, at, &axis)) return tcc_trace_poison();
    return order_along("argsort", x, tcc_dim(x, axis), axis, descending, at);
}

tcc_tensor tcc_sort_at(tcc_tensor x, int axis, bool descending, tcc_loc at) {
    if (!tcc__tensor_axis(x, "sort", axis, at, &axis)) return tcc_trace_poison();
    return tcc_take_along(x, order_along("sort", x, tcc_dim(x, axis), axis, descending, at), axis);
}

tcc_tensor tcc_top_k_at(tcc_tensor x, int64_t k, int axis, tcc_tensor *indices, tcc_loc at) {
    tcc_tensor found = tcc_trace_poison();
    if (tcc__tensor_axis(x, "top_k", axis, at, &axis)) {
        if (k < 1 || k > tcc_dim(x, axis))
            found = tcc_trace_error(x.trace, TCC_EINVAL, at, "top_k: k must be in 1 .. %lld, not %lld",
                                    (long long)tcc_dim(x, axis), (long long)k);
        else found = order_along("top_k", x, k, axis, true, at);
    }
    if (indices) *indices = found;
    return tcc_take_along(x, found, axis);
}

/* How many of the sorted numbers do not lie behind x, so that NaN is behind all: found by halves. */
static tcc_tensor search(tcc_tensor sorted, tcc_tensor x, bool right, tcc_loc at) {
    const int64_t n = tcc_dim(sorted, -1);
    tcc_tensor found = tcc_constant(x.trace, 0, TCC_I32, tcc_rank(x), x.node->type.dims);
    int64_t step = 1;
    while (step <= n / 2) step *= 2;
    for (; step; step /= 2) {
        tcc_tensor next = tcc_add_scalar(found, (double)step), last = tcc_add_scalar(next, -1);
        tcc_tensor there = tcc_rank(sorted) > 1 ? tcc_take_along(sorted, last, -1) : tcc_take(sorted, last, 0);
        tcc_tensor behind = right ? tcc_gt(there, x) : tcc_ge(there, x),
                   inside = tcc_le(next, tcc_full_like(next, (double)n));
        found = tcc_select(tcc_and(inside, tcc_not(behind)), next, found);
    }
    return found;
}

tcc_tensor tcc_searchsorted_at(tcc_tensor sorted, tcc_tensor x, bool right, tcc_loc at) {
    if (!tcc_trace_takes("searchsorted", at, 2, (tcc_tensor[]){sorted, x})) return tcc_trace_poison();
    const tcc_type *of = &sorted.node->type, *is = &x.node->type;
    bool fits = of->dtype == is->dtype && of->dtype != TCC_BOOL && of->rank >= 1 &&
                (of->rank == 1 || of->rank == is->rank);
    for (int d = 0; fits && d < of->rank - 1; d++) fits = of->dims[d] == is->dims[d];
    if (!fits)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "searchsorted: sorted numbers %s and x %s: they must be of one type, [n] and any shape, "
                               "or [.., n] and [.., m]",
                               tcc_type_text(of), tcc_type_text(is));
    if (!is_short("searchsorted", sorted, tcc_dim(sorted, -1), at)) return tcc_trace_poison();
    return search(sorted, x, right, at);
}
