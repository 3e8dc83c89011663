/* SPDX-License-Identifier: MIT
 * Random graphs: views and indexing. */
#include "harness/generator_values.h"

#include <string.h>

/* -- Views -- */

static tcc_node *reshaped(tcc_gen *r, tcc_node *x) {
    int64_t dims[TCC_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->type.rank; i++) {
        int64_t extent = x->type.dims[i], factor = 2;
        if (rank && tcc__gen_chance(r, 40)) { /* joined to the one before */
            dims[rank - 1] *= extent;
            continue;
        }
        if (extent == 1 && tcc__gen_chance(r, 50)) continue;
        while (factor < extent && extent % factor) factor++;
        bool split = factor < extent && rank + (x->type.rank - i) < TCC_MAX_RANK - 1 && tcc__gen_chance(r, 40);
        if (split) dims[rank++] = tcc__gen_chance(r, 50) ? factor : extent / factor;
        dims[rank] = split ? extent / dims[rank - 1] : extent;
        rank++;
    }
    if (rank + 1 < TCC_MAX_RANK && tcc__gen_chance(r, 20)) {
        int at = (int)tcc__gen_below(r, rank + 1);
        memmove(&dims[at + 1], &dims[at], sizeof dims[0] * (size_t)(rank - at));
        dims[at] = 1;
        rank++;
    }
    return tcc_ir_reshape(r->g, x, rank, dims);
}

static tcc_node *transposed(tcc_gen *r, tcc_node *x) {
    int perm[TCC_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        int at = (int)tcc__gen_below(r, i + 1);
        perm[i] = i;
        int swap = perm[at];
        perm[at] = perm[i];
        perm[i] = swap;
    }
    return tcc_ir_transpose(r->g, x, perm);
}

static tcc_node *broadcast(tcc_gen *r, tcc_node *x) {
    tcc_type type = {.dtype = x->type.dtype};
    int dims[TCC_MAX_RANK];
    for (int i = 0; i <= x->type.rank; i++) {
        if (type.rank + (x->type.rank - i) < TCC_MAX_RANK && tcc__gen_chance(r, 35))
            type.dims[type.rank++] = tcc__gen_extent(r, 40);
        if (i == x->type.rank) break;
        dims[i] = type.rank;
        type.dims[type.rank++] = x->type.dims[i] == 1 && tcc__gen_chance(r, 60) ? tcc__gen_extent(r, 40)
                                                                                : x->type.dims[i];
    }
    return tcc__gen_fits(r, &type) ? tcc_ir_broadcast(r->g, x, type.rank, type.dims, dims) : NULL;
}

static tcc_node *sliced(tcc_gen *r, tcc_node *x) {
    int64_t start[TCC_MAX_RANK], limit[TCC_MAX_RANK], stride[TCC_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        bool whole = tcc__gen_chance(r, 40);
        start[i] = whole ? 0 : tcc__gen_below(r, x->type.dims[i]);
        limit[i] = whole ? x->type.dims[i] : start[i] + 1 + tcc__gen_below(r, x->type.dims[i] - start[i]);
        stride[i] = tcc__gen_chance(r, 75) ? 1 : 2 + tcc__gen_below(r, 2);
    }
    return tcc_ir_slice(r->g, x, start, limit, stride);
}

static void add_pad(tcc_gen *r, tcc_gen_value x) {
    static const double values[] = {0, 0, 1, -0.5};
    const bool is_float = tcc_dtype_is_float(x.n->type.dtype);
    const double value = is_float ? TCC_GEN_ONE_OF(r, values) : 0;
    tcc_type type = x.n->type;
    int64_t lo[TCC_MAX_RANK], hi[TCC_MAX_RANK], interior[TCC_MAX_RANK];
    for (int i = 0; i < type.rank; i++) {
        lo[i] = tcc__gen_chance(r, 50) ? 0 : tcc__gen_below(r, 4);
        hi[i] = tcc__gen_chance(r, 50) ? 0 : tcc__gen_below(r, 4);
        interior[i] = tcc__gen_chance(r, 85) ? 0 : 1;
        type.dims[i] += lo[i] + hi[i] + (type.dims[i] - 1) * interior[i];
    }
    if (!tcc__gen_fits(r, &type)) return;
    tcc_node *n = tcc_ir_pad(r->g, x.n, value, lo, hi, interior);
    tcc__gen_keep(r, (tcc_gen_value){n, tcc__gen_min(x.lo, value), tcc__gen_max(x.hi, value), x.err,
                                     is_float ? tcc__gen_join_grid(x.grid, 1) : 0});
}

static void add_concat(tcc_gen *r, tcc_gen_value x) {
    enum { MOST_PARTS = 4 };
    if (!x.n->type.rank) return;
    tcc_node *parts[MOST_PARTS] = {x.n};
    const int axis = (int)tcc__gen_below(r, x.n->type.rank), count = 2 + (int)tcc__gen_below(r, MOST_PARTS - 1);
    tcc_type total = x.n->type;
    for (int i = 1; i < count; i++) {
        tcc_type type = x.n->type;
        if (tcc__gen_chance(r, 60)) type.dims[axis] = tcc__gen_extent(r, 20);
        total.dims[axis] += type.dims[axis];
        if (!tcc__gen_fits(r, &total)) return;
        tcc_gen_value part = tcc__gen_like(r, &type);
        parts[i] = part.n;
        x = (tcc_gen_value){x.n, tcc__gen_min(x.lo, part.lo), tcc__gen_max(x.hi, part.hi),
                            tcc__gen_max(x.err, part.err), tcc__gen_join_grid(x.grid, part.grid)};
    }
    tcc_attrs attrs = {.axis.axis = axis};
    x.n = tcc__gen_build(r, TCC_OP_CONCAT, parts, count, &attrs, NULL);
    tcc__gen_keep(r, x);
}

static tcc_node *flipped(tcc_gen *r, tcc_node *x) {
    tcc_attrs attrs = {0};
    for (int i = 0; i < x->type.rank; i++)
        if (tcc__gen_chance(r, 50)) attrs.axes.axes.v[attrs.axes.axes.count++] = i;
    return attrs.axes.axes.count ? tcc__gen_build(r, TCC_OP_FLIP, &x, 1, &attrs, NULL) : NULL;
}

void tcc__gen_view(tcc_gen *r) {
    tcc_gen_value x = tcc__gen_pick(r,
                                    (tcc_gen_want){tcc__gen_chance(r, 85) ? TCC_GEN_FLOAT : 0, 0, TCC_MAX_RANK, false});
    if (!x.n) return;
    tcc_node *from = x.n;
    switch (tcc__gen_below(r, 8)) {
    case 0: add_pad(r, x); return;
    case 1: add_concat(r, x); return;
    case 2: x.n = sliced(r, x.n); break;
    case 3: x.n = flipped(r, x.n); break;
    case 4: x.n = broadcast(r, x.n); break;
    case 5: x.n = reshaped(r, x.n); break;
    default: x.n = transposed(r, x.n); break;
    }
    /* Often views come in chains. */
    if (x.n && tcc__gen_chance(r, 30)) x.n = tcc__gen_chance(r, 50) ? reshaped(r, x.n) : transposed(r, x.n);
    if (x.n != from) tcc__gen_keep(r, x);
}

/* -- Indexing -- */

void tcc__gen_take(tcc_gen *r) {
    tcc_gen_value x = tcc__gen_pick_float(r, 1, false);
    if (!x.n) return;
    tcc_type index = x.n->type, result = {0};
    tcc_attrs attrs = {.axis.axis = tcc__gen_below(r, x.n->type.rank)};
    const bool along = tcc__gen_chance(r, 50);
    if (along) {
        result = index;
        result.dims[attrs.axis.axis] = index.dims[attrs.axis.axis] = tcc__gen_extent(r, 40);
    } else {
        index.rank = (int)tcc__gen_below(r, x.n->type.rank > 6 ? 2 : 3);
        for (int i = 0; i < index.rank; i++) index.dims[i] = tcc__gen_extent(r, 40);
        for (int i = 0; i < index.rank; i++) result.dims[result.rank++] = index.dims[i];
        for (int i = 0; i < x.n->type.rank; i++)
            if (i != attrs.axis.axis) result.dims[result.rank++] = x.n->type.dims[i];
    }
    if (!tcc__gen_fits(r, &result)) return;
    tcc_node *operands[] = {x.n, tcc__gen_index(r, index.rank, index.dims)};
    x.n = tcc__gen_build(r, along ? TCC_OP_TAKE_ALONG : TCC_OP_TAKE, operands, 2, &attrs, NULL);
    tcc__gen_keep(r, (tcc_gen_value){x.n, tcc__gen_min(x.lo, 0), tcc__gen_max(x.hi, 0), x.err, x.grid});
}

void tcc__gen_scatter(tcc_gen *r) {
    tcc_gen_value base = tcc__gen_pick_float(r, 1, false);
    if (!base.n) return;
    const int axis = (int)tcc__gen_below(r, base.n->type.rank);
    const bool along = tcc__gen_chance(r, 50);
    tcc_attrs attrs = {.axis.axis = axis};
    tcc_type index = base.n->type, updates = base.n->type;
    if (along) {
        updates.dims[axis] = index.dims[axis] = tcc__gen_extent(r, 40);
    } else {
        index = (tcc_type){.rank = 1, .dims = {tcc__gen_extent(r, 40)}};
        updates.dims[axis] = index.dims[0];
    }
    if (!tcc__gen_fits(r, &updates)) return;
    tcc_gen_value u = tcc__gen_like(r, &updates);
    tcc_node *operands[] = {base.n, tcc__gen_index(r, index.rank, index.dims), u.n};
    const bool replaces = tcc__gen_allows_composites(r) && tcc__gen_chance(r, 30);
    if (replaces || (!along && tcc__gen_chance(r, 30))) {
        const tcc_op op = !replaces ? TCC_OP_SCATTER_MAX : along ? TCC_OP_SCATTER_ALONG : TCC_OP_SCATTER;
        tcc_node *one = tcc__gen_build(r, op, operands, 3, &attrs, NULL);
        const double lo = replaces ? tcc__gen_min(base.lo, u.lo) : base.lo;
        tcc__gen_keep(r, tcc__gen_made(one, lo, tcc__gen_max(base.hi, u.hi), tcc__gen_max(base.err, u.err),
                                       tcc__gen_join_grid(base.grid, u.grid)));
        return;
    }
    tcc_node *n = tcc__gen_build(r, along ? TCC_OP_SCATTER_ADD_ALONG : TCC_OP_SCATTER_ADD, operands, 3, &attrs, NULL);
    /* At worst, all go to one place. */
    const double count = (double)updates.dims[axis];
    tcc__gen_keep(r, tcc__gen_made(n, base.lo + tcc__gen_min(0, count * u.lo), base.hi + tcc__gen_max(0, count * u.hi),
                                   base.err + count * u.err, tcc__gen_join_grid(base.grid, u.grid)));
}
