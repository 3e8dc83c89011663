/* SPDX-License-Identifier: MIT
 * The definition of argsort.
 *
 * Few elements are counted: an element's place is how many come before it. More are counted in runs, which are then
 * merged two by two, log n times. Some places of the result find by halves how many elements of the first run come
 * before them (the merge path of Odeh et al. 2012). What lies between two of these is counted again.
 *
 * The first few of many are found without an order of all: they lie in those few parts of the line whose own first
 * elements come first. So the largest of each part are read, and what is ordered are those few parts.
 *
 * Where a target sorts lines by itself, runs are as long as those. */
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/decompose_rules.h"

enum { MOST_COUNTED = 256, RUN = 16, LEAST_SORTED = 32 /* fewer are soon counted */ };

typedef struct order {
    tcc_graph *g;
    bool descending;
    int64_t longest; /* line that the target sorts; 0: it sorts none */
} order;

static tcc_node *binary(const order *o, tcc_op op, tcc_node *a, tcc_node *b) { return tcc_ir_binary(o->g, op, a, b); }
static tcc_node *with(const order *o, tcc_op op, tcc_node *x, double c) { return tcc_ir_binary_c(o->g, op, x, c); }
static tcc_node *choose(const order *o, tcc_node *c, tcc_node *a, tcc_node *b) { return tcc_ir_select(o->g, c, a, b); }

static tcc_node *indices(const order *o, int axis, int rank, const int64_t *dims) {
    tcc_type type = {TCC_I32, rank, {0}};
    for (int i = 0; i < rank; i++) type.dims[i] = dims[i];
    return tcc_ir_iota(o->g, &type, axis);
}

/* The index along `axis` in x's shape. */
static tcc_node *index_along(const order *o, const tcc_node *x, int axis) {
    return x ? indices(o, axis, x->type.rank, x->type.dims) : NULL;
}

static tcc_node *reshape(const order *o, tcc_node *x, int rank, const int64_t *dims) {
    return tcc_ir_reshape(o->g, x, rank, dims);
}
#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* Of [rows, n], by places [rows, m]. */
static tcc_node *take(const order *o, tcc_node *x, tcc_node *places) {
    const tcc_attrs attrs = {.axis = {.axis = 1}};
    return tcc_ir_build(o->g, TCC_OP_TAKE_ALONG, (tcc_node *[]){x, places}, 2, &attrs, NULL, TCC_NOWHERE);
}

static int64_t line_of(const tcc_node *x) { return x->type.dims[x->type.rank - 1]; }

static tcc_node *join(const order *o, tcc_node *a, tcc_node *b) {
    const tcc_attrs attrs = {.axis = {.axis = 1}};
    return tcc_ir_build(o->g, TCC_OP_CONCAT, (tcc_node *[]){a, b}, 2, &attrs, NULL, TCC_NOWHERE);
}

/* Over the last dim. */
static tcc_node *sum(const order *o, tcc_node *x) {
    if (!x) return NULL;
    const tcc_dims axes = {1, {x->type.rank - 1}};
    return tcc_ir_reduce(o->g, TCC_OP_REDUCE_SUM, x, &axes);
}

/* x [.., n] for each of m elements along a new dim: [.., n, m], or, before the last one, [.., m, n]. */
static tcc_node *for_each(const order *o, tcc_node *x, int64_t m, bool before) {
    if (!x) return NULL;
    const int rank = x->type.rank;
    int64_t dims[TCC_MAX_RANK];
    int to[TCC_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = x->type.dims[d], to[d] = d;
    dims[rank] = m;
    if (before) dims[rank] = dims[rank - 1], dims[rank - 1] = m, to[rank - 1] = rank;
    return tcc_ir_broadcast(o->g, x, rank + 1, dims, to);
}

/* Whether b comes before a, wherever they stand. NaN is the largest. */
static tcc_node *precedes(const order *o, tcc_node *b, tcc_node *a) {
    if (!a) return NULL;
    if (!tcc_dtype_is_float(a->type.dtype)) return binary(o, o->descending ? TCC_OP_GT : TCC_OP_LT, b, a);
    tcc_node *x = o->descending ? a : b;
    tcc_node *other = binary(o, o->descending ? TCC_OP_LE : TCC_OP_GE, b, a);
    return binary(o, TCC_OP_AND, binary(o, TCC_OP_EQ, x, x), tcc_ir_unary(o->g, TCC_OP_NOT, other));
}

/* -1 where `truth` is, else 0: a mask's bits. */
static tcc_node *as_mask(const order *o, tcc_node *truth) {
    if (!truth) return NULL;
    tcc_type type = truth->type;
    type.dtype = TCC_I32;
    return choose(o, truth, tcc_ir_splat(o->g, &type, -1), tcc_ir_splat(o->g, &type, 0));
}

static tcc_node *negative(const order *o, tcc_node *x) { return tcc_ir_unary(o->g, TCC_OP_NEG, x); }
static tcc_node *no(const order *o, tcc_node *x) { return tcc_ir_unary(o->g, TCC_OP_NOT, x); }

/* [rows, n] -> i32 [rows, n]: the place of each element in order, as how many come before it. Of equal ones those come
 * that stand before it. What comes before NaN is counted by itself. Masks are added up as they are. */
static tcc_node *count_places(const order *o, tcc_node *x) {
    const int64_t n = x->type.dims[1];
    const bool is_float = tcc_dtype_is_float(x->type.dtype), descending = o->descending;
    tcc_node *a = for_each(o, x, n, false), *b = for_each(o, x, n, true), *less, *most;
    if (!descending) less = binary(o, TCC_OP_LT, b, a), most = binary(o, TCC_OP_LE, b, a);
    else if (is_float) less = no(o, binary(o, TCC_OP_LE, b, a)), most = no(o, binary(o, TCC_OP_LT, b, a));
    else less = binary(o, TCC_OP_GT, b, a), most = binary(o, TCC_OP_GE, b, a);
    tcc_node *earlier = binary(o, TCC_OP_LT, index_along(o, less, 2), index_along(o, less, 1));
    tcc_node *place = negative(o, sum(o, choose(o, earlier, as_mask(o, most), as_mask(o, less))));
    if (!is_float) return place;
    tcc_node *is_number = binary(o, TCC_OP_EQ, x, x);
    tcc_node *mask = as_mask(o, descending ? binary(o, TCC_OP_NE, x, x) : is_number), *of_nan;
    mask = for_each(o, mask, n, true);
    if (descending) of_nan = choose(o, earlier, mask, tcc_ir_splat_like(o->g, mask, 0));
    else of_nan = choose(o, earlier, tcc_ir_splat_like(o->g, mask, -1), mask);
    return choose(o, is_number, place, negative(o, sum(o, of_nan)));
}

/* [rows, n] -> i32 [rows, k]: where the first k in order stand. */
static tcc_node *count(const order *o, tcc_node *x, int64_t k) {
    tcc_node *place = for_each(o, count_places(o, x), k, true), *wanted = index_along(o, place, 1);
    tcc_node *is_there = binary(o, TCC_OP_EQ, place, wanted), *turn = index_along(o, place, 2);
    return sum(o, choose(o, is_there, turn, tcc_ir_splat_like(o->g, turn, 0)));
}

static bool is_sorted_whole(const order *o, const tcc_node *x) {
    return line_of(x) > LEAST_SORTED && line_of(x) <= o->longest && tcc_dtype_bytes(x->type.dtype) <= 4;
}

/* The same by the target, of lines in any dims. */
static tcc_node *sort_whole(const order *o, tcc_node *x, int64_t k) {
    const tcc_attrs attrs = {.order = {.count = line_of(x), .descending = o->descending}};
    return tcc_ir_part(o->g, tcc_ir_build(o->g, TCC_OP_ARGSORT, &x, 1, &attrs, NULL, TCC_NOWHERE), 0, k);
}

static tcc_node *order_short(const order *o, tcc_node *x, int64_t k) {
    if (!x) return NULL;
    return is_sorted_whole(o, x) ? sort_whole(o, x, k) : count(o, x, k);
}

/* Lines of keys in sorted runs of `width`, the last of which may be shorter; of each two runs the first `kept` in their
 * order are wanted. */
typedef struct pairs {
    tcc_node *keys; /* [rows, n] */
    int64_t width, kept;
} pairs;

/* What belongs to each place of the result. */
typedef struct places {
    tcc_node *middle, *end; /* the runs are keys [.., middle) and [middle, end) */
    tcc_node *least, *most; /* of the first run's end of what comes before the place */
    tcc_node *across;       /* what the places in both runs add up to */
} places;

/* Of `place`, i32 [rows, m]. */
static places find_places(const order *o, const pairs *p, tcc_node *place) {
    places s;
    tcc_node *turn = with(o, TCC_OP_REM, place, (double)p->kept),
             *all = tcc_ir_splat_like(o->g, place, (double)p->keys->type.dims[1]),
             *begin = with(o, TCC_OP_MUL, with(o, TCC_OP_DIV, place, (double)p->kept), (double)(2 * p->width));
    s.middle = binary(o, TCC_OP_MIN, with(o, TCC_OP_ADD, begin, (double)p->width), all);
    s.end = binary(o, TCC_OP_MIN, with(o, TCC_OP_ADD, begin, (double)(2 * p->width)), all);
    s.across = binary(o, TCC_OP_ADD, begin, binary(o, TCC_OP_ADD, s.middle, turn));
    s.least = binary(o, TCC_OP_MAX, begin, binary(o, TCC_OP_SUB, s.across, s.end));
    s.most = binary(o, TCC_OP_MIN, s.middle, binary(o, TCC_OP_ADD, begin, turn));
    return s;
}

/* Where the first run ends of what comes before each place, found by halves from `first` on, below first + 2 step. */
static tcc_node *split(const order *o, const pairs *p, const places *s, tcc_node *first, int64_t step) {
    for (; step; step /= 2) {
        tcc_node *next = with(o, TCC_OP_ADD, first, (double)step);
        tcc_node *a = take(o, p->keys, with(o, TCC_OP_ADD, next, -1)),
                 *b = take(o, p->keys, binary(o, TCC_OP_SUB, s->across, next));
        tcc_node *comes = binary(o, TCC_OP_AND, binary(o, TCC_OP_LE, next, s->most), no(o, precedes(o, b, a)));
        first = choose(o, comes, next, first);
    }
    return first;
}

/* The elements of [rows, n] at [rows, strides, RUN]. */
static tcc_node *take_strides(const order *o, tcc_node *keys, tcc_node *where, int64_t strides) {
    const int64_t rows = keys->type.dims[0];
    return reshape(o, take(o, keys, reshape(o, where, DIMS(rows, strides * RUN))), DIMS(rows, strides, RUN));
}

/* [.., RUN], sorted: for each element of a, how many of the first `some` of b come before it. What b has behind those
 * is as the last of them. */
static tcc_node *count_before(const order *o, tcc_node *a, tcc_node *b, tcc_node *some) {
    if (!a || !b) return NULL;
    tcc_node *each_a = for_each(o, a, RUN, false), *each_b = for_each(o, b, RUN, true);
    const bool is_float = tcc_dtype_is_float(a->type.dtype);
    tcc_node *less = !o->descending ? binary(o, TCC_OP_LT, each_b, each_a)
                     : is_float     ? no(o, binary(o, TCC_OP_LE, each_b, each_a))
                                    : binary(o, TCC_OP_GT, each_b, each_a);
    tcc_node *number = binary(o, TCC_OP_MIN, sum(o, tcc_ir_cast(o->g, less, TCC_I32)), some);
    if (!is_float) return number;
    /* before NaN are all others, or none */
    tcc_node *others = tcc_ir_splat_like(o->g, some, 0);
    if (!o->descending) {
        tcc_node *numbers = sum(o, tcc_ir_cast(o->g, binary(o, TCC_OP_EQ, b, b), TCC_I32));
        others = binary(o, TCC_OP_MIN, for_each(o, numbers, RUN, false), some);
    }
    return choose(o, binary(o, TCC_OP_EQ, a, a), number, others);
}

/* [rows, m]: where the elements of each two runs stand in their order. Only each RUN-th place searches. The next RUN of
 * the result are among RUN elements of either run from there on, and those are counted: the place of one of the first
 * run is how many of both come before it. Places that no such element has are those of the second run. */
static tcc_node *merge_in_strides(const order *o, const pairs *p, int64_t m, int64_t step) {
    const int64_t rows = p->keys->type.dims[0], strides = (m + RUN - 1) / RUN;
    tcc_node *begin = with(o, TCC_OP_MUL, indices(o, 1, DIMS(rows, strides)), RUN);
    const places s = find_places(o, p, begin);
    tcc_node *first = split(o, p, &s, s.least, step), *second = binary(o, TCC_OP_SUB, s.across, first);
    tcc_node *turn = indices(o, 2, DIMS(rows, strides, RUN)), *from = for_each(o, first, RUN, false);
    tcc_node *of_a = binary(o, TCC_OP_ADD, from, turn),
             *of_b = binary(o, TCC_OP_ADD, for_each(o, second, RUN, false), turn);
    tcc_node *last = for_each(o, with(o, TCC_OP_ADD, s.end, -1), RUN, false);
    tcc_node *a = take_strides(o, p->keys, of_a, strides),
             *b = take_strides(o, p->keys, binary(o, TCC_OP_MIN, of_b, last), strides);
    tcc_node *some = for_each(o, binary(o, TCC_OP_SUB, s.end, second), RUN, false);
    tcc_node *place = binary(o, TCC_OP_ADD, turn, count_before(o, a, b, some));
    place = choose(o, binary(o, TCC_OP_LT, of_a, for_each(o, s.middle, RUN, false)), place,
                   tcc_ir_splat_like(o->g, place, 2 * RUN));
    /* of the first run up to each place, and up to the one before */
    tcc_node *up_to = binary(o, TCC_OP_LE, for_each(o, place, RUN, true), for_each(o, turn, RUN, false));
    tcc_node *within = sum(o, tcc_ir_cast(o->g, up_to, TCC_I32));
    if (!within) return NULL;
    tcc_node *without = tcc_ir_pad(o->g, within, 0, (int64_t[]){0, 0, 1}, (int64_t[]){0, 0, 0}, (int64_t[]){0, 0, 0});
    without = tcc_ir_slice(o->g, without, (int64_t[]){0, 0, 0}, within->type.dims, (int64_t[]){1, 1, 1});
    tcc_node *merged = choose(o, binary(o, TCC_OP_GT, within, without), binary(o, TCC_OP_ADD, from, without),
                              binary(o, TCC_OP_SUB, of_b, within));
    return tcc_ir_part(o->g, reshape(o, merged, DIMS(rows, strides * RUN)), 0, m);
}

/* [rows, m]: the same by a search for each place. */
static tcc_node *merge(const order *o, const pairs *p) {
    const int64_t rows = p->keys->type.dims[0], n = p->keys->type.dims[1], rest = n % (2 * p->width);
    const int64_t m = n / (2 * p->width) * p->kept + (rest < p->kept ? rest : p->kept);
    int64_t step = 1;
    while (step <= p->width / 2) step *= 2;
    if (p->kept % RUN == 0) return merge_in_strides(o, p, m, step);
    const places s = find_places(o, p, indices(o, 1, DIMS(rows, m)));
    tcc_node *first = split(o, p, &s, s.least, step), *second = binary(o, TCC_OP_SUB, s.across, first);
    tcc_node *a = take(o, p->keys, first), *b = take(o, p->keys, second);
    tcc_node *a_first = binary(o, TCC_OP_OR, binary(o, TCC_OP_GE, second, s.end), no(o, precedes(o, b, a)));
    return choose(o, binary(o, TCC_OP_AND, binary(o, TCC_OP_LT, first, s.middle), a_first), first, second);
}

/* x [rows, n] in runs of `width`, the last of which may be shorter -> i32 [rows, m]: where the first `kept` of each run
 * in order stand. */
static tcc_node *order_runs(const order *o, tcc_node *x, int64_t width, int64_t kept) {
    const int64_t rows = x->type.dims[0], n = x->type.dims[1], rest = n % width, whole = n / width * kept;
    tcc_node *runs = reshape(o, tcc_ir_part(o->g, x, 0, n - rest), DIMS(rows * (n / width), width));
    tcc_node *found = reshape(o, order_short(o, runs, kept), DIMS(rows, whole));
    tcc_node *run = with(o, TCC_OP_DIV, indices(o, 1, DIMS(rows, whole)), (double)kept);
    found = binary(o, TCC_OP_ADD, found, with(o, TCC_OP_MUL, run, (double)width));
    if (!rest) return found;
    tcc_node *last = order_short(o, tcc_ir_part(o->g, x, n - rest, n), rest < kept ? rest : kept);
    return join(o, found, with(o, TCC_OP_ADD, last, (double)(n - rest)));
}

static tcc_node *order_line(const order *o, tcc_node *x, int64_t k);

/* i32 [rows, m]: where those elements stand that have numbers `at` among those of some parts of the line, followed by
 * what it has beside whole parts. begin [rows, k]: of the parts. */
static tcc_node *find_in_parts(const order *o, tcc_node *begin, tcc_node *at, int64_t n, int64_t width) {
    if (!begin) return NULL;
    const int64_t k = begin->type.dims[1], rest = n % width, in_parts = k * width;
    tcc_node *within = rest ? with(o, TCC_OP_MIN, at, (double)(in_parts - 1)) : at;
    tcc_node *found = binary(o, TCC_OP_ADD, take(o, begin, with(o, TCC_OP_DIV, within, (double)width)),
                             with(o, TCC_OP_REM, within, (double)width));
    if (!rest) return found;
    tcc_node *behind = with(o, TCC_OP_ADD, at, (double)(n - rest - in_parts));
    return choose(o, with(o, TCC_OP_LT, at, (double)in_parts), found, behind);
}

/* [rows, n] -> i32 [rows, m], ascending: where elements stand that have the k largest among them, in k of the parts of
 * `width` elements, and in *begins where these parts begin. What the line has beside whole parts is among them. Of two
 * parts whose largest are equal the first one is taken, so its largest is the first of the two, and equal elements are
 * still in turn. */
static tcc_node *narrow(const order *o, tcc_node *x, int64_t k, int64_t width, tcc_node **begins) {
    const int64_t rows = x->type.dims[0], n = x->type.dims[1], parts = n / width, rest = n % width;
    const tcc_dims last_dim = {1, {2}};
    const order ascending = {o->g, false, o->longest};
    tcc_node *cut = reshape(o, tcc_ir_part(o->g, x, 0, n - rest), DIMS(rows, parts, width));
    tcc_node *largest = tcc_ir_reduce(o->g, TCC_OP_REDUCE_MAX, cut, &last_dim);
    tcc_node *taken = order_line(o, tcc_ir_widen(o->g, largest), k);
    taken = take(o, taken, order_line(&ascending, taken, k));
    *begins = with(o, TCC_OP_MUL, taken, (double)width);
    tcc_node *begin = for_each(o, *begins, width, false);
    tcc_node *found = binary(o, TCC_OP_ADD, begin, indices(o, 2, DIMS(rows, k, width)));
    found = reshape(o, found, DIMS(rows, k * width));
    if (!rest) return found;
    return join(o, found, with(o, TCC_OP_ADD, indices(o, 1, DIMS(rows, rest)), (double)(n - rest)));
}

/* The width at which there are about as many parts as elements in k of them; a power of two. */
static int64_t part_width(int64_t n, int64_t k) {
    int64_t width = 1;
    while (4 * width * width * k <= 2 * n) width *= 2;
    return width;
}

/* [rows, n] -> i32 [rows, k]: where the first k in order stand; equal ones in turn. */
static tcc_node *order_line(const order *o, tcc_node *x, int64_t k) {
    if (!x) return NULL;
    if (x->type.dims[1] <= MOST_COUNTED || is_sorted_whole(o, x)) return order_short(o, x, k);
    const int64_t width_of_parts = o->descending ? part_width(x->type.dims[1], k) : 1;
    if (width_of_parts > 1) {
        tcc_node *begins, *some = narrow(o, x, k, width_of_parts, &begins), *keys = take(o, x, some);
        return find_in_parts(o, begins, order_line(o, tcc_ir_widen(o->g, keys), k), x->type.dims[1], width_of_parts);
    }
    x = tcc_ir_widen(o->g, x); /* halves of words are gathered more slowly */
    if (!x) return NULL;
    const int64_t run = o->longest && tcc_dtype_bytes(x->type.dtype) <= 4 ? o->longest : RUN;
    int64_t width = k < run ? k : run;
    tcc_node *found = order_runs(o, x, run, width), *keys = take(o, x, found);
    while (keys && width < keys->type.dims[1]) {
        const int64_t kept = 2 * width < k ? 2 * width : k;
        tcc_node *merged = merge(o, &(pairs){keys, width, kept});
        found = take(o, found, merged);
        keys = take(o, keys, merged);
        width = kept;
    }
    return found;
}

tcc_node *tcc_ir_order(tcc_graph *g, const tcc_node *n, tcc_node *x, int64_t longest) {
    if (!x) return NULL;
    const order o = {g, n->attrs->order.descending, longest};
    if (is_sorted_whole(&o, x)) return sort_whole(&o, x, n->attrs->order.count);
    tcc_node *lines = reshape(&o, x, DIMS(tcc_type_numel(&x->type) / line_of(x), line_of(x)));
    return reshape(&o, order_line(&o, lines, n->attrs->order.count), n->type.rank, n->type.dims);
}

TCC_DEFINITION(ARGSORT) { return tcc_ir_order(g, n, in[0], 0); }
