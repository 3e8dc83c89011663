/* SPDX-License-Identifier: MIT
 * Definitions of products over dims and of their gradient. Nothing is divided, so that they are right where factors
 * are 0.
 *
 * A line of n factors becomes one of n / 2, its first half times its second, until one is left. Back from there, each
 * half gets what came to their products times the other half. So there are about three products an element, but all of
 * these lines are stored. Where a kernel has a line at once, running products store nothing in between: that of all
 * factors before an element times that of all behind it. */
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/decompose_rules.h"

#include <string.h>

enum { MOST_LEVELS = 64 };

/* The reduced dims of x as one, behind the others. */
typedef struct lines {
    int rank;
    int64_t dims[TCC_MAX_RANK];                    /* of the lines */
    int64_t moved[TCC_MAX_RANK];                   /* of x with its reduced dims last */
    int perm[TCC_MAX_RANK], inverse[TCC_MAX_RANK]; /* to there, and back */
} lines;

static lines find_lines(const tcc_type *x, const tcc_dims *axes) {
    lines l = {0};
    int64_t n = 1;
    int kept = 0, next = 0;
    for (int d = 0; d < x->rank; d++) {
        if (next < axes->count && axes->v[next] == d) next++;
        else l.perm[kept] = d, l.dims[kept++] = x->dims[d];
    }
    for (int i = 0; i < axes->count; i++) l.perm[kept + i] = (int)axes->v[i], n *= x->dims[axes->v[i]];
    for (int i = 0; i < x->rank; i++) l.moved[i] = x->dims[l.perm[i]], l.inverse[l.perm[i]] = i;
    l.dims[kept] = n;
    l.rank = kept + 1;
    return l;
}

static tcc_node *to_lines(tcc_graph *g, const lines *l, tcc_node *x) {
    return tcc_ir_reshape(g, tcc_ir_transpose(g, x, l->perm), l->rank, l->dims);
}

static tcc_node *from_lines(tcc_graph *g, const lines *l, int rank, tcc_node *x) {
    return tcc_ir_transpose(g, tcc_ir_reshape(g, x, rank, l->moved), l->inverse);
}

static tcc_node *join(tcc_graph *g, tcc_node *const *parts, int count) {
    if (!parts[0]) return NULL;
    const tcc_attrs attrs = {.axis = {.axis = parts[0]->type.rank - 1}};
    return tcc_ir_build(g, TCC_OP_CONCAT, parts, count, &attrs, NULL, TCC_NOWHERE);
}

/* -- In halves -- */

static int64_t extent_of(const tcc_node *lines) { return lines->type.dims[lines->type.rank - 1]; }

/* The lines that lead to the product, which is the last; their number, 0 after an error. */
static int multiply(tcc_graph *g, tcc_node *x, tcc_node *level[MOST_LEVELS]) {
    int count = 0;
    for (level[count++] = x; x && extent_of(x) > 1; level[count++] = x) {
        const int64_t n = extent_of(x), half = n / 2;
        tcc_node *pairs = tcc_ir_binary(g, TCC_OP_MUL, tcc_ir_part(g, x, 0, half), tcc_ir_part(g, x, half, 2 * half));
        x = n % 2 ? join(g, (tcc_node *[]){pairs, tcc_ir_part(g, x, n - 1, n)}, 2) : pairs;
    }
    return x ? count : 0;
}

static tcc_node *halves(tcc_graph *g, tcc_node *x) {
    tcc_node *level[MOST_LEVELS];
    const int count = multiply(g, x, level);
    return count ? level[count - 1] : NULL;
}

/* What comes to x where `dy` comes to the product. */
static tcc_node *back_through_halves(tcc_graph *g, tcc_node *x, tcc_node *dy) {
    tcc_node *level[MOST_LEVELS];
    for (int i = multiply(g, x, level) - 2; i >= 0; i--) {
        const int64_t n = extent_of(level[i]), half = n / 2;
        tcc_node *pairs = tcc_ir_part(g, dy, 0, half);
        tcc_node *parts[] = {tcc_ir_binary(g, TCC_OP_MUL, pairs, tcc_ir_part(g, level[i], half, 2 * half)),
                             tcc_ir_binary(g, TCC_OP_MUL, pairs, tcc_ir_part(g, level[i], 0, half)),
                             n % 2 ? tcc_ir_part(g, dy, half, half + 1) : NULL};
        dy = join(g, parts, n % 2 ? 3 : 2);
    }
    return dy;
}

/* -- By running products -- */

static tcc_node *running(tcc_graph *g, tcc_node *x, bool reverse) {
    if (!x) return NULL;
    const tcc_attrs attrs = {.scan = {.axis = x->type.rank - 1, .reverse = reverse}};
    return tcc_ir_build(g, TCC_OP_LINEAR_SCAN, &x, 1, &attrs, NULL, TCC_NOWHERE);
}

/* Each element of x one further along its line, or one nearer to its beginning. 1 comes in. */
static tcc_node *moved(tcc_graph *g, tcc_node *x, bool further) {
    int64_t none[TCC_MAX_RANK] = {0}, one[TCC_MAX_RANK] = {0};
    if (!x) return NULL;
    const int64_t n = extent_of(x);
    one[x->type.rank - 1] = 1;
    tcc_node *some = further ? tcc_ir_part(g, x, 0, n - 1) : tcc_ir_part(g, x, 1, n);
    return tcc_ir_pad(g, some, 1, further ? one : none, further ? none : one, none);
}

static tcc_node *last(tcc_graph *g, tcc_node *x) {
    return x ? tcc_ir_part(g, x, extent_of(x) - 1, extent_of(x)) : NULL;
}

/* The product of all others than each element. What is before it is the running product of factors that were moved, not
 * a running product that is moved: that would be the one of the product itself, and stored for the backward pass. */
static tcc_node *others(tcc_graph *g, tcc_node *x) {
    tcc_node *before = running(g, moved(g, x, true), false), *behind = moved(g, running(g, x, true), false);
    return tcc_ir_binary(g, TCC_OP_MUL, before, behind);
}

/* -- Either way -- */

tcc_node *tcc_ir_product(tcc_graph *g, const tcc_node *n, tcc_node *x, bool scans) {
    if (!x) return NULL;
    const lines l = find_lines(&x->type, &n->attrs->axes.axes);
    x = to_lines(g, &l, tcc_ir_widen(g, x));
    tcc_node *y = scans ? last(g, running(g, x, false)) : halves(g, x);
    return tcc_ir_cast(g, tcc_ir_reshape(g, y, l.rank - 1, l.dims), n->type.dtype);
}

tcc_node *tcc_ir_product_gradient(tcc_graph *g, const tcc_node *n, tcc_node *x, tcc_node *dy, bool scans) {
    if (!x || !dy) return NULL;
    const int rank = x->type.rank;
    const lines l = find_lines(&x->type, &n->attrs->axes.axes);
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, l.dims, sizeof dims);
    dims[l.rank - 1] = 1;
    x = to_lines(g, &l, tcc_ir_widen(g, x));
    dy = tcc_ir_reshape(g, tcc_ir_widen(g, dy), l.rank, dims);
    if (scans) {
        dy = tcc_ir_binary(g, TCC_OP_MUL, others(g, x), tcc_ir_broadcast_like(g, dy, x));
    } else {
        dy = back_through_halves(g, x, dy);
    }
    return tcc_ir_cast(g, from_lines(g, &l, rank, dy), n->type.dtype);
}

TCC_DEFINITION(PROD) { return tcc_ir_product(g, n, in[0], false); }

TCC_DEFINITION(PROD_GRAD) { return tcc_ir_product_gradient(g, n, in[0], in[1], false); }
