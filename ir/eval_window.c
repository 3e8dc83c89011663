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
    double weight[4]; /* of the first inputs, or weight[0] of all if uniform */
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
        if (in == out) table[o] = (reach){.first = o, .count = 1, .weight = {1}};
        else if (first >= in - 1) table[o] = (reach){.first = in - 1, .count = 1, .weight = {1}};
        else table[o] = (reach){.first = first, .count = 2, .weight = {1 - part, part}};
    }
}

/* Keys' kernel with a = -3/4, at distance d. */
static double keys(double d) {
    const double a = -0.75;
    d = fabs(d);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static void reach_bicubic(const tcc_node *n, int d TCC_UNUSED, int64_t in, int64_t out, reach *table) {
    for (int64_t o = 0; o < out; o++) {
        double source = ((double)o + 0.5) * (double)in / (double)out - 0.5;
        if (n->attrs->resize.align_corners) source = out == 1 ? 0 : (double)(o * (in - 1)) / (double)(out - 1);
        const int64_t below = (int64_t)floor(source);
        reach r = {.first = below > 1 ? below - 1 : 0};
        for (int64_t tap = below - 1; tap <= below + 2; tap++) { /* the border is repeated */
            const int64_t place = tap < 0 ? 0 : tap < in ? tap : in - 1;
            r.count = place - r.first + 1;
            r.weight[place - r.first] += keys(source - (double)tap);
        }
        table[o] = in == out ? (reach){.first = o, .count = 1, .weight = {1}} : r;
    }
}

static void reach_without_signs(const tcc_node *n, int d, int64_t in, int64_t out, reach *table) {
    reach_bicubic(n, d, in, out, table);
    for (int64_t o = 0; o < out; o++)
        for (int64_t k = 0; k < table[o].count; k++) table[o].weight[k] = fabs(table[o].weight[k]);
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
RESIZE(resize_bicubic, reach_bicubic)

tcc_status tcc__eval_cubic_magnitudes(const tcc_node *n, const tcc_value *in, tcc_value *out, tcc_diag *diag) {
    const bool backward = n->op == TCC_OP_RESIZE_BICUBIC_GRAD;
    return separable(n, backward ? out : in, backward ? in : out, n->attrs->resize.channels_last, reach_without_signs,
                     backward, diag);
}

/* -- Max pooling -- */

/* A window over an image: where its first element would be, and what of it is no padding. */
typedef struct window {
    int64_t start[SPATIAL], size[SPATIAL];
    reach inside[SPATIAL];
} window;

static window window_at(const tcc_attrs_pool *pool, const int64_t extent[SPATIAL], int lead, const int64_t o[SPATIAL]) {
    window w;
    for (int d = 0; d < SPATIAL; d++) {
        const int p = d - lead;
        w.size[d] = p < 0 ? 1 : pool->window.v[p];
        w.start[d] = p < 0 ? 0 : o[d] * pool->stride.v[p] - pool->pad_lo.v[p];
        w.inside[d] = p < 0 ? (reach){.count = 1} : clipped_window(pool, p, extent[d], o[d]);
    }
    return w;
}

/* The offset in the image of element `number` of a window. */
static int64_t offset_in_image(const field *x, const window *w, int64_t number) {
    int64_t at[SPATIAL];
    for (int d = SPATIAL - 1; d >= 0; number /= w->size[d], d--) at[d] = w->start[d] + number % w->size[d];
    return ((at[0] * x->extent[1] + at[1]) * x->extent[2] + at[2]) * x->inner;
}

/* The number of the first maximum (first NaN, if any) of a window, in row-major order. */
static int64_t first_maximum(const field *x, const window *w, const double *image) {
    int64_t best = -1;
    double largest = 0;
    for (int64_t i = 0; i < w->inside[0].count; i++)
        for (int64_t j = 0; j < w->inside[1].count; j++)
            for (int64_t k = 0; k < w->inside[2].count; k++) {
                int64_t number = w->inside[0].first + i - w->start[0];
                number = number * w->size[1] + w->inside[1].first + j - w->start[1];
                number = number * w->size[2] + w->inside[2].first + k - w->start[2];
                const double value = image[offset_in_image(x, w, number)];
                if (best < 0 || (!isnan(largest) && (isnan(value) || value > largest))) best = number, largest = value;
            }
    return best;
}

/* Calls `visit` for each window of the image x and each element of `inner`: y is the place on the pooled side,
 * `image` the image's element of offset 0. */
static void each_window(const tcc_node *n, const tcc_value *x_value, const tcc_value *y_value,
                        void (*visit)(const field *x, const window *w, double *image, int64_t y, void *user),
                        void *user) {
    const tcc_attrs_pool *pool = &n->attrs->pool;
    field x = make_field(x_value, pool->channels_last), y = make_field(y_value, pool->channels_last);
    const int lead = SPATIAL - spatial_rank(&x_value->type);
    const int64_t image_size = x.extent[0] * x.extent[1] * x.extent[2] * x.inner;
    int64_t result = 0;
    for (int64_t outer = 0; outer < x.outer; outer++)
        for (int64_t i = 0; i < y.extent[0]; i++)
            for (int64_t j = 0; j < y.extent[1]; j++)
                for (int64_t k = 0; k < y.extent[2]; k++) {
                    const window w = window_at(pool, x.extent, lead, (int64_t[SPATIAL]){i, j, k});
                    for (int64_t c = 0; c < x.inner; c++)
                        visit(&x, &w, x.data + outer * image_size + c, result++, user);
                }
}

static void give_maximum(const field *x, const window *w, double *image, int64_t y, void *out) {
    ((tcc_value *)out)->f[y] = image[offset_in_image(x, w, first_maximum(x, w, image))];
}

static void give_place(const field *x, const window *w, double *image, int64_t y, void *out) {
    ((tcc_value *)out)->i[y] = first_maximum(x, w, image);
}

/* Adds dy to the image; `in`: place, dy. A place outside of the image gets nothing. */
static void give_back(const field *x, const window *w, double *image, int64_t y, void *in) {
    const tcc_value *const *operands = in;
    int64_t number = operands[0]->i[y];
    bool inside = number >= 0 && number < w->size[0] * w->size[1] * w->size[2];
    for (int d = SPATIAL - 1; inside && d >= 0; number /= w->size[d], d--) {
        const int64_t at = w->start[d] + number % w->size[d];
        inside = at >= 0 && at < x->extent[d];
    }
    if (inside) image[offset_in_image(x, w, operands[0]->i[y])] += operands[1]->f[y];
}

TCC_EVAL_RULE(max_pool) {
    each_window(n, in[0], out, give_maximum, out);
    return TCC_OK;
}

TCC_EVAL_RULE(max_pool_place) {
    each_window(n, in[0], out, give_place, out);
    return TCC_OK;
}

TCC_EVAL_RULE(max_pool_grad) {
    each_window(n, out, in[1], give_back, (void *)in);
    return TCC_OK;
}
