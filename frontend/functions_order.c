/* SPDX-License-Identifier: MIT
 * Functions made of operations: sorted order, and search in it.
 *
 * Few elements are counted: an element's place is how many come before it. More are counted in runs, which are then
 * merged two by two, log n times. Some places of the result find by halves how many elements of the first run come
 * before them (the merge path of Odeh et al. 2012). What lies between two of these is counted again.
 *
 * The first few of many are found without an order of all: they lie in those few parts of the line whose own first
 * elements come first. So the largest of each part are read, and what is ordered are those few parts. */
#include "tensor_ops.h"

#include "traincc/functions.h"

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

enum { MOST_COUNTED = 256, RUN = 16, MOST_SORTED = 1 << 29 /* sums of a few indices are i32 */ };

/* The index along `axis` in x's shape. */
static tcc_tensor index_along(tcc_tensor x, int axis, tcc_loc at) {
    return x.node ? tcc_iota(x.trace, axis, TCC_I32, tcc_rank(x), x.node->type.dims) : x;
}

/* Whether b comes before a, wherever they stand. NaN is the largest. */
static tcc_tensor precedes(tcc_tensor b, tcc_tensor a, bool descending, tcc_loc at) {
    if (!tcc_dtype_is_float(tcc_get_dtype(a))) return descending ? tcc_gt(b, a) : tcc_lt(b, a);
    return descending ? tcc_and(tcc_eq(a, a), tcc_not(tcc_le(b, a))) : tcc_and(tcc_eq(b, b), tcc_not(tcc_ge(b, a)));
}

static tcc_tensor number(tcc_tensor x, double value, tcc_loc at) {
    return x.node ? tcc_constant(x.trace, value, TCC_I32, 0, NULL) : x;
}

/* -1 where `truth` is, else 0: a mask's bits. */
static tcc_tensor as_mask(tcc_tensor truth, tcc_loc at) {
    return tcc_select(truth, number(truth, -1, at), number(truth, 0, at));
}

/* [rows, n] -> i32 [rows, n]: the place of each element in order, as how many come before it. Of equal ones those come
 * that stand before it. What comes before NaN is counted by itself. Masks are added up as they are. */
static tcc_tensor count_places(tcc_tensor x, bool descending, tcc_loc at) {
    const bool is_float = x.node && tcc_dtype_is_float(tcc_get_dtype(x));
    tcc_tensor a = tcc_expand_dims(x, TCC_DIMS(-1)), b = tcc_expand_dims(x, TCC_DIMS(-2)), less, most;
    if (!descending) less = tcc_lt(b, a), most = tcc_le(b, a);
    else if (is_float) less = tcc_not(tcc_le(b, a)), most = tcc_not(tcc_lt(b, a));
    else less = tcc_gt(b, a), most = tcc_ge(b, a);
    tcc_tensor earlier = tcc_lt(index_along(less, 2, at), index_along(less, 1, at));
    tcc_tensor before = tcc_select(earlier, as_mask(most, at), as_mask(less, at));
    tcc_tensor place = tcc_neg(tcc_sum(before, TCC_DIMS(-1)));
    if (!is_float) return place;
    tcc_tensor of_nan;
    if (descending) {
        tcc_tensor nan = tcc_expand_dims(as_mask(tcc_ne(x, x), at), TCC_DIMS(-2));
        of_nan = tcc_select(earlier, nan, number(nan, 0, at));
    } else {
        tcc_tensor other = tcc_expand_dims(as_mask(tcc_eq(x, x), at), TCC_DIMS(-2));
        of_nan = tcc_select(earlier, number(other, -1, at), other);
    }
    return tcc_select(tcc_eq(x, x), place, tcc_neg(tcc_sum(of_nan, TCC_DIMS(-1))));
}

/* [rows, n] -> i32 [rows, k]: where the first k in order stand. */
static tcc_tensor count(tcc_tensor x, int64_t k, bool descending, tcc_loc at) {
    tcc_tensor place = count_places(x, descending, at);
    tcc_tensor wanted = tcc_iota(x.trace, 0, TCC_I32, TCC_DIMS(k, 1));
    tcc_tensor is_there = tcc_eq(tcc_expand_dims(place, TCC_DIMS(-2)), wanted), turn = index_along(is_there, 2, at);
    return tcc_sum(tcc_select(is_there, turn, tcc__tensor_like(turn, 0, at)), TCC_DIMS(-1));
}

/* Lines of keys in sorted runs of `width`, the last of which may be shorter; of each two runs the first `kept` in their
 * order are wanted. */
typedef struct pairs {
    tcc_tensor keys; /* [rows, n] */
    int64_t width, kept;
    bool descending;
} pairs;

/* What belongs to each place of the result. */
typedef struct places {
    tcc_tensor middle, end; /* the runs are keys [.., middle) and [middle, end) */
    tcc_tensor least, most; /* of the first run's end of what comes before the place */
    tcc_tensor across;      /* what the places in both runs add up to */
} places;

/* Of `place`, i32 [rows, m]. */
static places find_places(const pairs *p, tcc_tensor place, tcc_loc at) {
    places s;
    tcc_tensor each = tcc__tensor_like(place, (double)p->kept, at), turn = tcc_rem(place, each),
               all = tcc__tensor_like(place, (double)tcc_dim(p->keys, 1), at),
               begin = tcc_scale(tcc_div(place, each), (double)(2 * p->width));
    s.middle = tcc_min(tcc_add_scalar(begin, (double)p->width), all);
    s.end = tcc_min(tcc_add_scalar(begin, (double)(2 * p->width)), all);
    s.across = tcc_add(begin, tcc_add(s.middle, turn));
    s.least = tcc_max(begin, tcc_sub(s.across, s.end));
    s.most = tcc_min(s.middle, tcc_add(begin, turn));
    return s;
}

/* Where the first run ends of what comes before each place, found by halves from `first` on, below first + 2 step. */
static tcc_tensor split(const pairs *p, const places *s, tcc_tensor first, int64_t step, tcc_loc at) {
    for (; step; step /= 2) {
        tcc_tensor next = tcc_add_scalar(first, (double)step);
        tcc_tensor a = tcc_take_along(p->keys, tcc_add_scalar(next, -1), 1),
                   b = tcc_take_along(p->keys, tcc_sub(s->across, next), 1);
        tcc_tensor comes = tcc_and(tcc_le(next, s->most), tcc_not(precedes(b, a, p->descending, at)));
        first = tcc_select(comes, next, first);
    }
    return first;
}

/* Along a new innermost dim. */
static tcc_tensor spread(tcc_tensor x, tcc_loc at) { return tcc_expand_dims(x, TCC_DIMS(-1)); }

/* The elements of [rows, n] at [rows, strides, RUN]. */
static tcc_tensor take_strides(tcc_tensor keys, tcc_tensor where, int64_t strides, tcc_loc at) {
    const int64_t rows = tcc_dim(keys, 0);
    tcc_tensor taken = tcc_take_along(keys, tcc_reshape(where, TCC_DIMS(rows, strides * RUN)), 1);
    return tcc_reshape(taken, TCC_DIMS(rows, strides, RUN));
}

/* [.., RUN], sorted: for each element of a, how many of the first `some` of b come before it. What b has behind those
 * is as the last of them. */
static tcc_tensor count_before(tcc_tensor a, tcc_tensor b, tcc_tensor some, bool descending, tcc_loc at) {
    tcc_tensor each_a = spread(a, at), each_b = tcc_expand_dims(b, TCC_DIMS(-2));
    const bool is_float = tcc_dtype_is_float(tcc_get_dtype(a));
    tcc_tensor less = !descending ? tcc_lt(each_b, each_a)
                      : is_float  ? tcc_not(tcc_le(each_b, each_a))
                                  : tcc_gt(each_b, each_a);
    tcc_tensor number = tcc_min(tcc_sum(tcc_cast(less, TCC_I32), TCC_DIMS(-1)), some);
    if (!is_float) return number;
    /* before NaN are all others, or none */
    tcc_tensor others = descending ? tcc__tensor_like(some, 0, at)
                                   : tcc_min(spread(tcc_sum(tcc_cast(tcc_eq(b, b), TCC_I32), TCC_DIMS(-1)), at), some);
    return tcc_select(tcc_eq(a, a), number, others);
}

/* [rows, m]: where the elements of each two runs stand in their order. Only each RUN-th place searches. The next RUN of
 * the result are among RUN elements of either run from there on, and those are counted: the place of one of the first
 * run is how many of both come before it. Places that no such element has are those of the second run. */
static tcc_tensor merge_in_strides(const pairs *p, int64_t m, int64_t step, tcc_loc at) {
    const int64_t rows = tcc_dim(p->keys, 0), strides = (m + RUN - 1) / RUN;
    tcc_tensor begin = tcc_scale(tcc_iota(p->keys.trace, 1, TCC_I32, TCC_DIMS(rows, strides)), RUN);
    const places s = find_places(p, begin, at);
    tcc_tensor first = split(p, &s, s.least, step, at), second = tcc_sub(s.across, first);
    tcc_tensor turn = tcc_iota(p->keys.trace, 2, TCC_I32, TCC_DIMS(rows, strides, RUN));
    tcc_tensor of_a = tcc_add(spread(first, at), turn), of_b = tcc_add(spread(second, at), turn);
    tcc_tensor a = take_strides(p->keys, of_a, strides, at),
               b = take_strides(p->keys, tcc_min(of_b, spread(tcc_add_scalar(s.end, -1), at)), strides, at);
    tcc_tensor some = spread(tcc_sub(s.end, second), at);
    tcc_tensor place = tcc_add(turn, count_before(a, b, some, p->descending, at));
    place = tcc_select(tcc_lt(of_a, spread(s.middle, at)), place, tcc__tensor_like(place, 2 * RUN, at));
    /* of the first run up to each place, and up to the one before */
    tcc_tensor up_to = tcc_le(tcc_expand_dims(place, TCC_DIMS(-2)), spread(turn, at));
    tcc_tensor with = tcc_sum(tcc_cast(up_to, TCC_I32), TCC_DIMS(-1));
    tcc_tensor without = tcc_slice(tcc_pad(with, 2, 1, 0, 0), 2, 0, RUN);
    tcc_tensor merged = tcc_select(tcc_gt(with, without), tcc_add(spread(first, at), without), tcc_sub(of_b, with));
    return tcc_slice(tcc_reshape(merged, TCC_DIMS(rows, strides * RUN)), 1, 0, m);
}

/* [rows, m]: the same by a search for each place. */
static tcc_tensor merge(const pairs *p, tcc_loc at) {
    const int64_t rows = tcc_dim(p->keys, 0), n = tcc_dim(p->keys, 1), rest = n % (2 * p->width);
    const int64_t m = n / (2 * p->width) * p->kept + (rest < p->kept ? rest : p->kept);
    int64_t step = 1;
    while (step <= p->width / 2) step *= 2;
    if (p->kept % RUN == 0) return merge_in_strides(p, m, step, at);
    const places s = find_places(p, tcc_iota(p->keys.trace, 1, TCC_I32, TCC_DIMS(rows, m)), at);
    tcc_tensor first = split(p, &s, s.least, step, at), second = tcc_sub(s.across, first);
    tcc_tensor a = tcc_take_along(p->keys, first, 1), b = tcc_take_along(p->keys, second, 1);
    tcc_tensor a_first = tcc_or(tcc_ge(second, s.end), tcc_not(precedes(b, a, p->descending, at)));
    return tcc_select(tcc_and(tcc_lt(first, s.middle), a_first), first, second);
}

/* x [rows, n] in runs of `width`, the last of which may be shorter -> i32 [rows, m]: where the first `kept` of each run
 * in order stand. */
static tcc_tensor count_runs(tcc_tensor x, int64_t width, int64_t kept, bool descending, tcc_loc at) {
    const int64_t rows = tcc_dim(x, 0), n = tcc_dim(x, 1), rest = n % width, whole = n / width * kept;
    tcc_tensor runs = tcc_reshape(tcc_slice(x, 1, 0, n - rest), TCC_DIMS(-1, width));
    tcc_tensor found = tcc_reshape(count(runs, kept, descending, at), TCC_DIMS(rows, whole));
    tcc_tensor place = tcc_iota(x.trace, 1, TCC_I32, TCC_DIMS(rows, whole));
    found = tcc_add(found, tcc_scale(tcc_div(place, tcc__tensor_like(place, (double)kept, at)), (double)width));
    if (!rest) return found;
    tcc_tensor last = count(tcc_slice(x, 1, n - rest, n), rest < kept ? rest : kept, descending, at);
    return tcc_concat(((tcc_tensor[]){found, tcc_add_scalar(last, (double)(n - rest))}), 2, 1);
}

static tcc_tensor order(tcc_tensor x, int64_t k, bool descending, tcc_loc at);

/* [rows, n] -> i32 [rows, m], ascending: where elements stand that have the k largest among them, in k of the parts of
 * `width` elements. What the line has beside whole parts is among them. Of two parts whose largest are equal the first
 * one is taken, so its largest is the first of the two, and equal elements are still in turn. */
static tcc_tensor narrow(tcc_tensor x, int64_t k, int64_t width, tcc_loc at) {
    const int64_t rows = tcc_dim(x, 0), n = tcc_dim(x, 1), parts = n / width, rest = n % width;
    tcc_tensor largest = tcc_reduce_max(tcc_reshape(tcc_slice(x, 1, 0, n - rest), TCC_DIMS(rows, parts, width)),
                                        TCC_DIMS(2));
    tcc_tensor taken = order(tcc__tensor_widened(largest, at), k, true, at);
    taken = tcc_take_along(taken, order(taken, k, false, at), 1);
    tcc_tensor begin = tcc_scale(tcc_expand_dims(taken, TCC_DIMS(2)), (double)width);
    tcc_tensor within = tcc_iota(x.trace, 2, TCC_I32, TCC_DIMS(rows, k, width));
    tcc_tensor found = tcc_reshape(tcc_add(begin, within), TCC_DIMS(rows, k * width));
    if (!rest) return found;
    tcc_tensor last = tcc_add_scalar(tcc_iota(x.trace, 1, TCC_I32, TCC_DIMS(rows, rest)), (double)(n - rest));
    return tcc_concat(((tcc_tensor[]){found, last}), 2, 1);
}

/* The width at which there are about as many parts as elements in k of them; a power of two. */
static int64_t part_width(int64_t n, int64_t k) {
    int64_t width = 1;
    while (4 * width * width * k <= 2 * n) width *= 2;
    return width;
}

/* [rows, n] -> i32 [rows, k]: where the first k in order stand; equal ones in turn. */
static tcc_tensor order(tcc_tensor x, int64_t k, bool descending, tcc_loc at) {
    if (!x.node || tcc_dim(x, 1) <= MOST_COUNTED) return count(x, k, descending, at);
    const int64_t part = descending ? part_width(tcc_dim(x, 1), k) : 1;
    if (part > 1) {
        tcc_tensor some = narrow(x, k, part, at), keys = tcc_take_along(x, some, 1);
        return tcc_take_along(some, order(tcc__tensor_widened(keys, at), k, true, at), 1);
    }
    x = tcc__tensor_widened(x, at); /* halves of words are gathered more slowly */
    int64_t width = k < RUN ? k : RUN;
    tcc_tensor found = count_runs(x, RUN, width, descending, at), keys = tcc_take_along(x, found, 1);
    while (keys.node && width < tcc_dim(keys, 1)) {
        const int64_t kept = 2 * width < k ? 2 * width : k;
        tcc_tensor merged = merge(&(pairs){keys, width, kept, descending}, at);
        found = tcc_take_along(found, merged, 1);
        keys = tcc_take_along(keys, merged, 1);
        width = kept;
    }
    return found;
}

static bool is_short(const char *name, tcc_tensor x, int64_t n, tcc_loc at) {
    if (n <= MOST_SORTED) return true;
    tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: %lld elements are too many; it takes 2^29 in a line", name,
                    (long long)n);
    return false;
}

/* The same along any axis. */
static tcc_tensor order_along(const char *name, tcc_tensor x, int64_t k, int axis, bool descending, tcc_loc at) {
    const int rank = tcc_rank(x);
    if (!is_short(name, x, tcc_dim(x, axis), at)) return tcc_trace_poison();
    int64_t perm[TCC_MAX_RANK], dims[TCC_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = d == axis ? rank - 1 : d == rank - 1 ? axis : d;
    if (x.node && tcc_get_dtype(x) == TCC_BOOL) x = tcc_cast(x, TCC_U8); /* which has a largest */
    tcc_tensor y = tcc_transpose(tcc_stop_gradient(x), rank, perm);
    for (int d = 0; d < rank; d++) dims[d] = d < rank - 1 ? tcc_dim(y, d) : k;
    tcc_tensor found = order(tcc_reshape(y, TCC_DIMS(-1, tcc_dim(x, axis))), k, descending, at);
    return tcc_transpose(tcc_reshape(found, rank, dims), rank, perm);
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
