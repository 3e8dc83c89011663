/* SPDX-License-Identifier: MIT
 * Interpreter rules of reductions and running results. Elements are combined in row-major order. */
#include "ir/eval_rules.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

/* Combines `count` elements of x into those of out; a stride of 0 keeps combining into one. */
typedef void row_fn(tcc_value *out, int64_t out_at, int64_t out_stride, const tcc_value *x, int64_t x_at,
                    int64_t count);

static void sum_row(tcc_value *out, int64_t out_at, int64_t out_stride, const tcc_value *x, int64_t x_at,
                    int64_t count) {
    if (tcc__value_is_float(out)) {
        for (int64_t i = 0; i < count; i++) out->f[out_at + i * out_stride] += x->f[x_at + i];
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t *to = &out->i[out_at + i * out_stride];
        *to = tcc__wrap(out->type.dtype, (int64_t)((uint64_t)*to + (uint64_t)x->i[x_at + i]));
    }
}

static void max_row(tcc_value *out, int64_t out_at, int64_t out_stride, const tcc_value *x, int64_t x_at,
                    int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t to = out_at + i * out_stride;
        if (!tcc__value_is_float(out)) out->i[to] = x->i[x_at + i] > out->i[to] ? x->i[x_at + i] : out->i[to];
        else if (x->f[x_at + i] > out->f[to] || isnan(x->f[x_at + i])) out->f[to] = x->f[x_at + i];
    }
}

static void min_row(tcc_value *out, int64_t out_at, int64_t out_stride, const tcc_value *x, int64_t x_at,
                    int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t to = out_at + i * out_stride;
        if (!tcc__value_is_float(out)) out->i[to] = x->i[x_at + i] < out->i[to] ? x->i[x_at + i] : out->i[to];
        else if (x->f[x_at + i] < out->f[to] || isnan(x->f[x_at + i])) out->f[to] = x->f[x_at + i];
    }
}

static void walk(int rank, const int64_t *dims, const int64_t *out_strides, const int64_t *x_strides, row_fn *row,
                 tcc_value *out, int64_t out_at, const tcc_value *x, int64_t x_at) {
    if (rank == 0) {
        row(out, out_at, 0, x, x_at, 1);
    } else if (rank == 1) {
        row(out, out_at, out_strides[0], x, x_at, dims[0]);
    } else {
        for (int64_t i = 0; i < dims[0]; i++)
            walk(rank - 1, dims + 1, out_strides + 1, x_strides + 1, row, out, out_at + i * out_strides[0], x,
                 x_at + i * x_strides[0]);
    }
}

static tcc_status reduce(const tcc_node *n, const tcc_value *x, tcc_value *out, row_fn *row, double initial_float,
                         int64_t initial_int) {
    int64_t count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) {
        if (tcc__value_is_float(out)) out->f[e] = initial_float;
        else out->i[e] = initial_int;
    }
    const tcc_dims *axes = &n->attrs->axes.axes;
    int64_t kept_strides[TCC_MAX_RANK], out_strides[TCC_MAX_RANK] = {0}, x_strides[TCC_MAX_RANK];
    tcc__strides(&out->type, kept_strides);
    tcc__strides(&x->type, x_strides);
    for (int d = 0, k = 0, a = 0; d < x->type.rank; d++) {
        if (a < axes->count && axes->v[a] == d) a++;
        else out_strides[d] = kept_strides[k++];
    }
    walk(x->type.rank, x->type.dims, out_strides, x_strides, row, out, 0, x, 0);
    return TCC_OK;
}

TCC_EVAL_RULE(reduce_sum) { return reduce(n, in[0], out, sum_row, 0, 0); }
TCC_EVAL_RULE(reduce_max) { return reduce(n, in[0], out, max_row, -INFINITY, INT64_MIN); }
TCC_EVAL_RULE(reduce_min) { return reduce(n, in[0], out, min_row, INFINITY, INT64_MAX); }

TCC_EVAL_RULE(reduce_mean) {
    TCC_TRY(reduce(n, in[0], out, sum_row, 0, 0));
    int64_t count = tcc_type_numel(&out->type), each = tcc_type_numel(&in[0]->type) / count;
    for (int64_t e = 0; e < count; e++) out->f[e] /= (double)each;
    return TCC_OK;
}

/* The offset of element `position` of the dims listed. */
static int64_t offset_in(const tcc_type *type, const int64_t *strides, const int *dims, int n, int64_t position) {
    int64_t offset = 0;
    for (int k = n - 1; k >= 0; k--) {
        offset += position % type->dims[dims[k]] * strides[dims[k]];
        position /= type->dims[dims[k]];
    }
    return offset;
}

/* By the mean in double precision, before any rounding to the result's type. */
TCC_EVAL_RULE(reduce_m2) {
    const tcc_value *x = in[0];
    const tcc_dims *axes = &n->attrs->axes.axes;
    int kept[TCC_MAX_RANK], reduced[TCC_MAX_RANK], n_kept = 0, n_reduced = 0;
    int64_t strides[TCC_MAX_RANK], count = tcc_type_numel(&out->type), each = tcc_type_numel(&x->type) / count;
    tcc__strides(&x->type, strides);
    for (int d = 0; d < x->type.rank; d++) {
        if (n_reduced < axes->count && axes->v[n_reduced] == d) reduced[n_reduced++] = d;
        else kept[n_kept++] = d;
    }
    for (int64_t e = 0; e < count; e++) {
        const double *first = x->f + offset_in(&x->type, strides, kept, n_kept, e);
        double sum = 0;
        for (int64_t i = 0; i < each; i++) sum += first[offset_in(&x->type, strides, reduced, n_reduced, i)];
        for (int64_t i = 0; i < each; i++) {
            double difference = first[offset_in(&x->type, strides, reduced, n_reduced, i)] - sum / (double)each;
            out->f[e] += difference * difference;
        }
    }
    return TCC_OK;
}

/* Is x[a] to be preferred to x[b], where the other one is of equal values and of NaNs? */
static bool wins(const tcc_value *x, int64_t a, int64_t b) {
    if (!tcc__value_is_float(x)) return x->i[a] > x->i[b];
    return !isnan(x->f[b]) && (isnan(x->f[a]) || x->f[a] > x->f[b]);
}

TCC_EVAL_RULE(argmax) {
    int64_t strides[TCC_MAX_RANK], axis = n->attrs->axis.axis;
    tcc__strides(&in[0]->type, strides);
    int64_t extent = in[0]->type.dims[axis], inner = strides[axis], count = tcc_type_numel(&out->type);
    for (int64_t e = 0; e < count; e++) {
        int64_t first = e / inner * extent * inner + e % inner, best = 0;
        for (int64_t i = 1; i < extent; i++)
            if (wins(in[0], first + i * inner, first + best * inner)) best = i;
        out->i[e] = best;
    }
    return TCC_OK;
}

/* Whether x[b] comes before x[a], wherever they stand: NaN is the largest. */
static bool precedes(const tcc_value *x, int64_t b, int64_t a, bool descending) {
    return descending ? wins(x, b, a) : wins(x, a, b);
}

/* A line of n elements of x from `first` on: merges of runs that are twice as long each time. */
static void sort_line(const tcc_value *x, int64_t first, int64_t n, bool descending, int64_t *order, int64_t *other) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t middle = begin + width < n ? begin + width : n,
                          end = begin + 2 * width < n ? begin + 2 * width : n;
            for (int64_t to = begin, a = begin, b = middle; to < end; to++) {
                const bool later = a == middle ||
                                   (b < end && precedes(x, first + order[b], first + order[a], descending));
                other[to] = order[later ? b++ : a++];
            }
        }
        memcpy(order, other, sizeof *order * (size_t)n);
    }
}

TCC_EVAL_RULE(argsort) {
    const int64_t line = in[0]->type.dims[in[0]->type.rank - 1], count = n->attrs->order.count;
    int64_t *order = tcc__malloc(2 * sizeof *order * (size_t)line);
    if (!order) return tcc_enomem(diag);
    for (int64_t i = 0; i < tcc_type_numel(&in[0]->type) / line; i++) {
        sort_line(in[0], i * line, line, n->attrs->order.descending, order, order + line);
        memcpy(out->i + i * count, order, sizeof *order * (size_t)count);
    }
    tcc__free(order);
    return TCC_OK;
}

/* Element i of a line, of `extent` elements `inner` apart, as a scan meets them. */
static int64_t nth_of_line(const tcc_node *n, int64_t line, int64_t i, int64_t extent, int64_t inner) {
    const int64_t first = line / inner * extent * inner + line % inner;
    return first + (n->attrs->scan.reverse ? extent - 1 - i : i) * inner;
}

/* y = a y + b along each line; NULL a: 1, NULL b: 0. `before` is y in front of a line. */
static tcc_status scan(const tcc_node *n, const tcc_value *a, const tcc_value *b, int before, tcc_value *out) {
    int64_t strides[TCC_MAX_RANK], axis = n->attrs->scan.axis;
    tcc__strides(&out->type, strides);
    int64_t extent = out->type.dims[axis], inner = strides[axis], lines = tcc_type_numel(&out->type) / extent;
    for (int64_t line = 0; line < lines; line++) {
        double y = before;
        uint64_t int_y = (uint64_t)before;
        for (int64_t i = 0; i < extent; i++) {
            const int64_t e = nth_of_line(n, line, i, extent, inner);
            if (tcc__value_is_float(out)) {
                if (a) y *= a->f[e];
                if (b) y += b->f[e];
                out->f[e] = y;
            } else {
                int_y = int_y * (a ? (uint64_t)a->i[e] : 1) + (b ? (uint64_t)b->i[e] : 0);
                out->i[e] = tcc__wrap(out->type.dtype, (int64_t)int_y);
            }
        }
    }
    return TCC_OK;
}

/* Of x, anew where `on` is false. */
static tcc_status sums_of_runs(const tcc_node *n, const tcc_value *x, const tcc_value *on, tcc_value *out) {
    int64_t strides[TCC_MAX_RANK], axis = n->attrs->scan.axis;
    tcc__strides(&out->type, strides);
    const int64_t extent = out->type.dims[axis], inner = strides[axis], lines = tcc_type_numel(&out->type) / extent;
    for (int64_t line = 0; line < lines; line++) {
        double y = 0;
        uint64_t int_y = 0;
        for (int64_t i = 0; i < extent; i++) {
            const int64_t e = nth_of_line(n, line, i, extent, inner);
            if (!on->i[e]) y = 0, int_y = 0;
            if (tcc__value_is_float(out)) out->f[e] = y += x->f[e];
            else out->i[e] = tcc__wrap(out->type.dtype, (int64_t)(int_y += (uint64_t)x->i[e]));
        }
    }
    return TCC_OK;
}

TCC_EVAL_RULE(cumsum) { return n->n_operands > 1 ? sums_of_runs(n, in[0], in[1], out) : scan(n, NULL, in[0], 0, out); }

TCC_EVAL_RULE(cummax) {
    int64_t strides[TCC_MAX_RANK], axis = n->attrs->scan.axis;
    tcc__strides(&out->type, strides);
    const int64_t extent = out->type.dims[axis], inner = strides[axis], lines = tcc_type_numel(&out->type) / extent;
    for (int64_t line = 0; line < lines; line++)
        for (int64_t i = 0, best = 0; i < extent; i++) {
            const int64_t e = nth_of_line(n, line, i, extent, inner);
            if (!i || !wins(in[0], best, e)) best = e;
            if (tcc__value_is_float(out)) out->f[e] = in[0]->f[best];
            else out->i[e] = in[0]->i[best];
        }
    return TCC_OK;
}

TCC_EVAL_RULE(linear_scan) { return n->n_operands > 1 ? scan(n, in[0], in[1], 0, out) : scan(n, in[0], NULL, 1, out); }
