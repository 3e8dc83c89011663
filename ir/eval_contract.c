/* SPDX-License-Identifier: MIT
 * Interpreter rules of dot and of convolution with its two gradients. */
#include "ir/eval_rules.h"
#include "ir/support/alloc.h"
#include "ir/support/widths.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* -- Loops, which take most of the time of an evaluation -- */

/* y[batch, row, column] of a[batch, row, k] and b[batch, k, column]. */
typedef struct product {
    double *y;
    const double *a, *b;
    int64_t batches, rows, depth, columns;
} product;

typedef struct form form; /* of a convolution */

/* For one vector width; each element is summed in one order, so that the bits are the same at every one. */
typedef struct loops {
    void (*multiply)(const product *p);
    void (*convolve)(const form *f);
} loops;
static const loops *best_loops(void);

#define VARIANT(scope, name, target)                                           \
    target static void multiply_##name(const product *p) { multiply_rows(p); } \
    target static void convolve_##name(const form *f) { convolve_copies(f); }  \
    static const loops loops_##name = {multiply_##name, convolve_##name};

enum { ROWS = 4, TILE = 16 }; /* sums that stay in registers */

/* y[j] += a[k] b[k stride + j], in the order of k. */
INLINE void add_products(double *restrict y, int64_t columns, const double *restrict a, int64_t depth,
                         const double *restrict b, int64_t stride) {
    enum { LONG_TILE = 32 };
    int64_t first = 0;
    for (; first + LONG_TILE <= columns; first += LONG_TILE) {
        double sums[LONG_TILE];
        memcpy(sums, y + first, sizeof sums);
        for (int64_t k = 0; k < depth; k++)
            for (int j = 0; j < LONG_TILE; j++) sums[j] += a[k] * b[k * stride + first + j];
        memcpy(y + first, sums, sizeof sums);
    }
    for (int64_t k = 0; k < depth && first < columns; k++)
        for (int64_t j = first; j < columns; j++) y[j] += a[k] * b[k * stride + j];
}

/* A few rows of y at the columns of a tile, with some of the products: of a from `a` on, and of b, packed. */
INLINE void add_tile(const product *p, double *restrict y, const double *restrict a, const double (*restrict b)[TILE],
                     int64_t depth) {
    typedef double lanes __attribute__((vector_size(TILE / 2 * sizeof(double)))); /* loops become shuffles */
    lanes sums[ROWS][2], x[2];
    for (int r = 0; r < ROWS; r++) memcpy(sums[r], y + r * p->columns, sizeof sums[r]);
    for (int64_t k = 0; k < depth; k++) {
        memcpy(x, b[k], sizeof x);
        for (int r = 0; r < ROWS; r++) {
            sums[r][0] += a[r * p->depth + k] * x[0];
            sums[r][1] += a[r * p->depth + k] * x[1];
        }
    }
    for (int r = 0; r < ROWS; r++) memcpy(y + r * p->columns, sums[r], sizeof sums[r]);
}

/* Tile by tile: what is read of b is packed, so that it stays in the nearest cache while all rows read it. */
INLINE void multiply_batch(const product *p, double *restrict y, const double *restrict a, const double *restrict b) {
    enum { DEPTH = 96 };
    const int64_t rows = p->rows / ROWS * ROWS, columns = rows ? p->columns / TILE * TILE : 0;
    double packed[DEPTH][TILE];
    for (int64_t first = 0; first < columns; first += TILE)
        for (int64_t k = 0; k < p->depth; k += DEPTH) {
            const int64_t depth = p->depth - k < DEPTH ? p->depth - k : DEPTH;
            for (int64_t i = 0; i < depth; i++) memcpy(packed[i], b + (k + i) * p->columns + first, sizeof packed[i]);
            for (int64_t row = 0; row < rows; row += ROWS)
                add_tile(p, y + row * p->columns + first, a + row * p->depth + k, packed, depth);
        }
    for (int64_t row = 0; row < p->rows; row++) {
        const int64_t done = row < rows ? columns : 0;
        add_products(y + row * p->columns + done, p->columns - done, a + row * p->depth, p->depth, b + done,
                     p->columns);
    }
}

INLINE void multiply_rows(const product *p) {
    for (int64_t i = 0; i < p->batches; i++)
        multiply_batch(p, p->y + i * p->rows * p->columns, p->a + i * p->rows * p->depth,
                       p->b + i * p->depth * p->columns);
}

static size_t bytes_of(const tcc_value *v) { return (size_t)tcc_type_numel(&v->type) * sizeof *v->f; }

/* The extents and strides of `from`'s dims, in the order: those of `first`, of `second`, of
 * `third`. */
typedef struct ordered {
    int rank;
    int64_t dims[TCC_MAX_RANK], strides[TCC_MAX_RANK];
} ordered;

static int64_t append(ordered *o, const tcc_type *type, const tcc_dims *which) {
    int64_t strides[TCC_MAX_RANK], product = 1;
    tcc__strides(type, strides);
    for (int i = 0; i < which->count; i++) {
        o->dims[o->rank] = type->dims[which->v[i]];
        o->strides[o->rank++] = strides[which->v[i]];
        product *= type->dims[which->v[i]];
    }
    return product;
}

static tcc_dims free_dims(const tcc_type *type, const tcc_dims *batch, const tcc_dims *contract) {
    tcc_dims dims = {0};
    for (int d = 0; d < type->rank; d++)
        if (!tcc_dims_has(batch, d) && !tcc_dims_has(contract, d)) dims.v[dims.count++] = d;
    return dims;
}

/* The elements in that order: where they lie, if they have it, else in a copy. NULL when memory is short. */
static double *gather(tcc_value_pool *pool, const tcc_value *v, const ordered *o) {
    tcc_type type = {.rank = o->rank};
    int64_t strides[TCC_MAX_RANK];
    for (int i = 0; i < o->rank; i++) type.dims[i] = o->dims[i];
    tcc__strides(&type, strides);
    if (!memcmp(strides, o->strides, (size_t)o->rank * sizeof *strides)) return v->f;
    double *copy = tcc_value_pool_take(pool, bytes_of(v), false);
    if (copy) tcc__copy_strided(o->rank, o->dims, copy, strides, v->f, o->strides);
    return copy;
}

static void drop(tcc_value_pool *pool, const tcc_value *v, double *gathered) {
    if (gathered != v->f) tcc_value_pool_give(pool, gathered, bytes_of(v));
}

/* a as [batch, m, k] and b as [batch, k, n]. */
TCC_EVAL_RULE(dot) {
    const tcc_attrs_dot *attrs = &n->attrs->dot;
    tcc_dims free_a = free_dims(&in[0]->type, &attrs->batch_a, &attrs->contract_a);
    tcc_dims free_b = free_dims(&in[1]->type, &attrs->batch_b, &attrs->contract_b);
    ordered order_a = {0}, order_b = {0};
    int64_t batches = append(&order_a, &in[0]->type, &attrs->batch_a);
    int64_t rows = append(&order_a, &in[0]->type, &free_a);
    int64_t depth = append(&order_a, &in[0]->type, &attrs->contract_a);
    append(&order_b, &in[1]->type, &attrs->batch_b);
    append(&order_b, &in[1]->type, &attrs->contract_b);
    int64_t columns = append(&order_b, &in[1]->type, &free_b);
    double *a = gather(out->pool, in[0], &order_a), *b = gather(out->pool, in[1], &order_b);
    tcc_status status = a && b ? TCC_OK : tcc_enomem(diag);
    if (status == TCC_OK) best_loops()->multiply(&(product){out->f, a, b, batches, rows, depth, columns});
    drop(out->pool, in[0], a);
    drop(out->pool, in[1], b);
    return status;
}

/* -- Convolution --
 * y, x and w are the three sides of one trilinear form: the sum of y[n,i,o] x[n,j,c] w[o,k,c] over
 * all places where j = i stride - pad + k dilation lies inside x. Each of the three ops multiplies
 * two of the sides into the third. The work is done on copies in which the channels of that third
 * side are innermost, so that every inner loop adds multiples of rows to another. */

enum { SPATIAL = 3 }; /* fewer spatial dims are padded with extents of 1 in front */

typedef enum into { INTO_Y, INTO_X, INTO_W } into;

/* One side as the op has it, and its copy: [batch, spatial, channels]; w: [kernel, o, c] or, for
 * INTO_Y, [kernel, c, o]. */
typedef struct side {
    double *original, *copy;
    int64_t batch, channels, extent[SPATIAL]; /* w: output channels, input channels of a group, kernel */
    int64_t stride_batch, stride_channels, stride[SPATIAL];
} side;

struct form {
    side y, x, w;
    int64_t groups, stride[SPATIAL], pad[SPATIAL], dilation[SPATIAL];
    into into;
    double *padding; /* channels of x where it is padded, which are multiplied; NULL: nothing is there */
};

static side make_side(double *data, const tcc_type *type, bool channels_last) {
    int64_t strides[TCC_MAX_RANK];
    tcc__strides(type, strides);
    int spatial = type->rank - 2, channel = channels_last ? type->rank - 1 : 1, first = channels_last ? 1 : 2;
    side s = {.original = data,
              .batch = type->dims[0],
              .channels = type->dims[channel],
              .extent = {1, 1, 1},
              .stride_batch = strides[0],
              .stride_channels = strides[channel]};
    for (int i = 0; i < spatial; i++) {
        s.extent[SPATIAL - spatial + i] = type->dims[first + i];
        s.stride[SPATIAL - spatial + i] = strides[first + i];
    }
    return s;
}

/* The dims of a side in the order of its copy, with the strides of the original. */
static void copied_order(const side *s, bool is_w, bool output_last, int64_t *dims, int64_t *strides) {
    int at = 0;
    if (!is_w) dims[at] = s->batch, strides[at++] = s->stride_batch;
    for (int d = 0; d < SPATIAL; d++) dims[at] = s->extent[d], strides[at++] = s->stride[d];
    if (is_w && output_last) {
        dims[at] = s->channels, strides[at++] = s->stride_channels;
        dims[at] = s->batch, strides[at++] = s->stride_batch;
        return;
    }
    if (is_w) dims[at] = s->batch, strides[at++] = s->stride_batch;
    dims[at] = s->channels, strides[at++] = s->stride_channels;
}

/* Between original and copy. The copy is made here. */
static tcc_status exchange(const form *f, side *s, bool back, tcc_diag *diag) {
    tcc_type type = {.rank = 2 + SPATIAL};
    int64_t strides[2 + SPATIAL], copy_strides[TCC_MAX_RANK];
    copied_order(s, s == &f->w, f->into == INTO_Y, type.dims, strides);
    tcc__strides(&type, copy_strides);
    if (back) {
        tcc__copy_strided(type.rank, type.dims, s->original, strides, s->copy, copy_strides);
        return TCC_OK;
    }
    s->copy = tcc__malloc((size_t)tcc_type_numel(&type) * sizeof *s->copy);
    if (!s->copy) return tcc_enomem(diag);
    tcc__copy_strided(type.rank, type.dims, s->copy, copy_strides, s->original, strides);
    return TCC_OK;
}

/* All channels at one place of y, one of x, and one of the kernel. */
INLINE void multiply(const form *f, double *restrict y, double *restrict x, double *restrict w) {
    const int64_t outputs = f->y.channels / f->groups, inputs = f->w.channels;
    if (outputs == 1 && inputs == 1) {
        double *to = f->into == INTO_Y ? y : f->into == INTO_X ? x : w;
        const double *a = f->into == INTO_Y ? x : y, *b = f->into == INTO_W ? x : w;
        for (int64_t c = 0; c < f->groups; c++) to[c] += a[c] * b[c];
        return;
    }
    for (int64_t group = 0; group < f->groups; group++) {
        double *yg = y + group * outputs, *xg = x + group * inputs, *wg = w + group * outputs * inputs;
        if (f->into == INTO_Y) add_products(yg, outputs, xg, inputs, w + group * outputs, f->y.channels);
        else if (f->into == INTO_X) add_products(xg, inputs, yg, outputs, wg, inputs);
        else
            for (int64_t o = 0; o < outputs; o++) add_products(wg + o * inputs, inputs, yg + o, 1, xg, 0);
    }
}

/* Position `at` of a side's spatial dims, in row-major order. */
INLINE void position_of(const side *s, int64_t at, int64_t *position) {
    for (int d = SPATIAL - 1; d >= 0; at /= s->extent[d--]) position[d] = at % s->extent[d];
}

INLINE void convolve_copies(const form *f) {
    int64_t places = f->y.extent[0] * f->y.extent[1] * f->y.extent[2];
    int64_t taps = f->w.extent[0] * f->w.extent[1] * f->w.extent[2];
    for (int64_t row = 0; row < f->y.batch * places; row++) {
        int64_t i[SPATIAL], k[SPATIAL];
        position_of(&f->y, row % places, i);
        for (int64_t tap = 0; tap < taps; tap++) {
            position_of(&f->w, tap, k);
            int64_t from = row / places;
            bool inside = true;
            for (int d = 0; d < SPATIAL; d++) {
                int64_t j = i[d] * f->stride[d] - f->pad[d] + k[d] * f->dilation[d];
                inside &= j >= 0 && j < f->x.extent[d];
                from = from * f->x.extent[d] + j;
            }
            double *x = inside ? f->x.copy + from * f->x.channels : f->padding;
            if (x) multiply(f, f->y.copy + row * f->y.channels, x, f->w.copy + tap * f->w.batch * f->w.channels);
        }
    }
}

/* -- The loops, for each vector width -- */

TCC_FOR_EACH_WIDTH(VARIANT)

static const loops *best_loops(void) { return TCC_WIDEST(loops_); }

static tcc_status convolve(const tcc_node *n, const tcc_value *y, const tcc_value *x, const tcc_value *w, into into,
                           double *padding, tcc_diag *diag) {
    const tcc_attrs_conv *attrs = &n->attrs->conv;
    form f = {.y = make_side(y->f, &y->type, attrs->channels_last),
              .x = make_side(x->f, &x->type, attrs->channels_last),
              .w = make_side(w->f, &w->type, attrs->channels_last),
              .groups = attrs->groups,
              .into = into,
              .padding = padding};
    int lead = SPATIAL - attrs->stride.count;
    for (int d = 0; d < SPATIAL; d++) {
        f.stride[d] = d < lead ? 1 : attrs->stride.v[d - lead];
        f.dilation[d] = d < lead ? 1 : attrs->dilation.v[d - lead];
        f.pad[d] = d < lead ? 0 : attrs->pad_lo.v[d - lead];
    }
    side *sides[] = {[INTO_Y] = &f.y, [INTO_X] = &f.x, [INTO_W] = &f.w};
    tcc_status status = TCC_OK;
    for (int s = 0; s < 3 && status == TCC_OK; s++) status = exchange(&f, sides[s], false, diag);
    if (status == TCC_OK) {
        best_loops()->convolve(&f);
        exchange(&f, sides[into], true, diag);
    }
    for (int s = 0; s < 3; s++) tcc__free(sides[s]->copy);
    return status;
}

TCC_EVAL_RULE(conv) { return convolve(n, out, in[0], in[1], INTO_Y, NULL, diag); }
TCC_EVAL_RULE(conv_grad_input) { return convolve(n, in[0], out, in[1], INTO_X, NULL, diag); }
TCC_EVAL_RULE(conv_grad_weight) { return convolve(n, in[1], in[0], out, INTO_W, NULL, diag); }

tcc_status tcc__eval_padded(const tcc_node *n, const tcc_value *const *in, tcc_value *out, tcc_diag *diag) {
    double *zeros = tcc__calloc((size_t)tcc_type_numel(&in[0]->type) + 1, sizeof *zeros);
    if (!zeros) return tcc_enomem(diag);
    const tcc_status status = n->op == TCC_OP_CONV ? convolve(n, out, in[0], in[1], INTO_Y, zeros, diag)
                                                   : convolve(n, in[1], in[0], out, INTO_W, zeros, diag);
    tcc__free(zeros);
    return status;
}
