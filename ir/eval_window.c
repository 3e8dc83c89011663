/* SPDX-License-Identifier: MIT
 * Interpreter rules of pooling and resizing, and their gradients.
 *
 * All of them but max pooling are linear and separable: each spatial dim has a table that says
 * which input positions an output position reads, with what weights. Forward sums over the product
 * of the tables; the gradient walks the same tables the other way. So a gradient is the transpose
 * of its op by construction. */
#include "ir/eval_rules.h"
#include "ir/support/alloc.h"

#include <math.h>

enum { SPATIAL = 3 }; /* fewer spatial dims are padded with extents of 1 in front */

/* For each output position of a dim: inputs first .. first + count - 1, and their weights. */
typedef struct reach {
    int64_t first, count;
    double weight[2]; /* of the first and second input, or weight[0] of all if uniform */
    bool uniform;
} reach;

static double weight_of(const reach *r, int64_t i) { return r->weight[r->uniform ? 0 : i]; }

/* A tensor seen as [outer, spatial, inner]. */
typedef struct field {
    double *data;
    int64_t outer, extent[SPATIAL], inner;
} field;

static int spatial_rank(const tcc_type *type) { return type->rank - 2; }

static field make_field(const tcc_value *v, bool channels_last) {
    field f = {.data = v->f, .extent = {1, 1, 1}};
    const tcc_type *t = &v->type;
    int spatial = spatial_rank(t), first = channels_last ? 1 : 2;
    f.outer = channels_last ? t->dims[0] : t->dims[0] * t->dims[1];
    f.inner = channels_last ? t->dims[t->rank - 1] : 1;
    for (int i = 0; i < spatial; i++) f.extent[SPATIAL - spatial + i] = t->dims[first + i];
    return f;
}

/* Fills the table of spatial dim d: `in` and `out` are its extents. */
typedef void reach_fn(const tcc_node *n, int d, int64_t in, int64_t out, reach *table);

static void add_scaled(double *restrict to, const double *restrict from, double weight, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += weight * from[i];
}

/* One output position: every input that it reads. */
static void apply(const field *large, const field *small, const reach *const at[SPATIAL], int64_t outer,
                  int64_t small_at, bool backward) {
    double *s = small->data +
                (outer * small->extent[0] * small->extent[1] * small->extent[2] + small_at) * small->inner;
    for (int64_t i = 0; i < at[0]->count; i++)
        for (int64_t j = 0; j < at[1]->count; j++)
            for (int64_t k = 0; k < at[2]->count; k++) {
                int64_t place = at[0]->first + i;
                place = place * large->extent[1] + at[1]->first + j;
                place = place * large->extent[2] + at[2]->first + k;
                place += outer * large->extent[0] * large->extent[1] * large->extent[2];
                double *l = large->data + place * large->inner;
                double weight = weight_of(at[0], i) * weight_of(at[1], j) * weight_of(at[2], k);
                if (backward) add_scaled(l, s, weight, large->inner);
                else add_scaled(s, l, weight, large->inner);
            }
}

/* x is the op's operand side, y its result side; backward adds y's elements into x instead of the
 * reverse. */
static tcc_status separable(const tcc_node *n, const tcc_value *x, const tcc_value *y, bool channels_last,
                            reach_fn *fill, bool backward, tcc_diag *diag) {
    field from = make_field(x, channels_last), to = make_field(y, channels_last);
    reach *table[SPATIAL] = {0};
    tcc_status status = TCC_OK;
    int lead = SPATIAL - spatial_rank(&x->type);
    for (int d = 0; d < SPATIAL && status == TCC_OK; d++) {
        table[d] = tcc__calloc((size_t)to.extent[d], sizeof(reach));
        if (!table[d]) status = tcc_enomem(diag);
        else if (d < lead) table[d][0] = (reach){.count = 1, .weight = {1}, .uniform = true};
        else fill(n, d - lead, from.extent[d], to.extent[d], table[d]);
    }
    for (int64_t outer = 0; status == TCC_OK && outer < to.outer; outer++) {
        int64_t small_at = 0;
        for (int64_t i = 0; i < to.extent[0]; i++)
            for (int64_t j = 0; j < to.extent[1]; j++)
                for (int64_t k = 0; k < to.extent[2]; k++)
                    apply(&from, &to, (const reach *[]){&table[0][i], &table[1][j], &table[2][k]}, outer, small_at++,
                          backward);
    }
    for (int d = 0; d < SPATIAL; d++) tcc__free(table[d]);
    return status;
}

/* -- Which inputs an output reads -- */

/* The part of window `o` that is inside the input. */
static reach clipped_window(const tcc_attrs_pool *pool, int d, int64_t in, int64_t o) {
    int64_t first = o * pool->stride.v[d] - pool->pad_lo.v[d], end = first + pool->window.v[d];
    if (first < 0) first = 0;
    if (end > in) end = in;
    return (reach){.first = first, .count = end > first ? end - first : 0, .uniform = true};
}

static void reach_avg_pool(const tcc_node *n, int d, int64_t in, int64_t out, reach *table) {
    const tcc_attrs_pool *pool = &n->attrs->pool;
    for (int64_t o = 0; o < out; o++) {
        table[o] = clipped_window(pool, d, in, o);
        table[o].weight[0] = 1.0 / (double)(pool->include_pad ? pool->window.v[d] : table[o].count);
    }
}

static void reach_adaptive(const tcc_node *n TCC_UNUSED, int d TCC_UNUSED, int64_t in, int64_t out, reach *table) {
    for (int64_t o = 0; o < out; o++) {
        int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
        table[o] =
            (reach){.first = first, .count = end - first, .weight = {1.0 / (double)(end - first)}, .uniform = true};
    }
}

static void reach_nearest(const tcc_node *n, int d TCC_UNUSED, int64_t in, int64_t out, reach *table) {
    for (int64_t o = 0; o < out; o++) {
        int64_t first = o * in / out;
        if (n->attrs->resize.align_corners) /* half rounds up: floor(x + 1/2) in integers */
            first = out == 1 ? 0 : (2 * o * (in - 1) + out - 1) / (2 * (out - 1));
        table[o] = (reach){.first = first, .count = 1, .weight = {1}, .uniform = true};
    }
}

static void reach_bilinear(const tcc_node *n, int d TCC_UNUSED, int64_t in, int64_t out, reach *table) {
    for (int64_t o = 0; o < out; o++) {
        double source;
        if (n->attrs->resize.align_corners) source = out == 1 ? 0 : (double)(o * (in - 1)) / (double)(out - 1);
        else source = fmax(((double)o + 0.5) * (double)in / (double)out - 0.5, 0);
        int64_t first = (int64_t)source;
        double part = source - (double)first;
        if (first >= in - 1) table[o] = (reach){.first = in - 1, .count = 1, .weight = {1}};
        else table[o] = (reach){.first = first, .count = 2, .weight = {1 - part, part}};
    }
}

/* -- Rules -- */

TCC_EVAL_RULE(avg_pool) { return separable(n, in[0], out, n->attrs->pool.channels_last, reach_avg_pool, false, diag); }
TCC_EVAL_RULE(avg_pool_grad) {
    return separable(n, out, in[0], n->attrs->pool.channels_last, reach_avg_pool, true, diag);
}

#define RESIZE(name, fill)                                                                                      \
    TCC_EVAL_RULE(name) { return separable(n, in[0], out, n->attrs->resize.channels_last, fill, false, diag); } \
    TCC_EVAL_RULE(name##_grad) { return separable(n, out, in[0], n->attrs->resize.channels_last, fill, true, diag); }
RESIZE(adaptive_avg_pool, reach_adaptive)
RESIZE(resize_nearest, reach_nearest)
RESIZE(resize_bilinear, reach_bilinear)

/* -- Max pooling -- */

/* Place of the first maximum (first NaN, if any) of a window, from the start of the image; -1 if
 * all of it is padding. */
static int64_t first_maximum(const field *x, const reach at[SPATIAL], const double *image) {
    int64_t best = -1;
    for (int64_t i = 0; i < at[0].count; i++)
        for (int64_t j = 0; j < at[1].count; j++)
            for (int64_t k = 0; k < at[2].count; k++) {
                int64_t place = at[0].first + i;
                place = place * x->extent[1] + at[1].first + j;
                place = (place * x->extent[2] + at[2].first + k) * x->inner;
                if (best < 0 || (!isnan(image[best]) && (isnan(image[place]) || image[place] > image[best])))
                    best = place;
            }
    return best;
}

/* y is the pooled side: written (forward), or read and added to dx where each maximum came from. */
static void pool_max(const tcc_node *n, const tcc_value *x_value, const tcc_value *y_value, tcc_value *dx) {
    const tcc_attrs_pool *pool = &n->attrs->pool;
    field x = make_field(x_value, pool->channels_last), y = make_field(y_value, pool->channels_last);
    int lead = SPATIAL - spatial_rank(&x_value->type);
    int64_t image_size = x.extent[0] * x.extent[1] * x.extent[2] * x.inner;
    double *result = y.data;
    for (int64_t outer = 0; outer < x.outer; outer++)
        for (int64_t i = 0; i < y.extent[0]; i++)
            for (int64_t j = 0; j < y.extent[1]; j++)
                for (int64_t k = 0; k < y.extent[2]; k++) {
                    int64_t o[SPATIAL] = {i, j, k};
                    reach at[SPATIAL];
                    for (int d = 0; d < SPATIAL; d++)
                        at[d] = d < lead ? (reach){.count = 1} : clipped_window(pool, d - lead, x.extent[d], o[d]);
                    for (int64_t c = 0; c < x.inner; c++, result++) {
                        int64_t start = outer * image_size + c, best = first_maximum(&x, at, x.data + start);
                        if (!dx) *result = best < 0 ? -INFINITY : x.data[start + best];
                        else if (best >= 0) dx->f[start + best] += *result;
                    }
                }
}

TCC_EVAL_RULE(max_pool) {
    pool_max(n, in[0], out, NULL);
    return TCC_OK;
}

TCC_EVAL_RULE(max_pool_grad) {
    pool_max(n, in[0], in[1], out);
    return TCC_OK;
}
