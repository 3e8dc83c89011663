/* SPDX-License-Identifier: MIT
 * Interpreter rules of dot and of convolution with its two gradients. */
#include "ir/eval_rules.h"
#include "ir/support/alloc.h"

static bool has(const tcc_dims *dims, int64_t d) {
    for (int i = 0; i < dims->count; i++)
        if (dims->v[i] == d) return true;
    return false;
}

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
        if (!has(batch, d) && !has(contract, d)) dims.v[dims.count++] = d;
    return dims;
}

static double *gather(const tcc_value *v, const ordered *o) {
    double *copy = tcc__malloc((size_t)tcc_type_numel(&v->type) * sizeof *copy);
    if (!copy) return NULL;
    tcc_type type = {.rank = o->rank};
    int64_t strides[TCC_MAX_RANK];
    for (int i = 0; i < o->rank; i++) type.dims[i] = o->dims[i];
    tcc__strides(&type, strides);
    tcc__copy_strided(o->rank, o->dims, copy, strides, v->f, o->strides);
    return copy;
}

/* Copies a to [batch, m, k] and b to [batch, k, n]; then a plain triple loop whose inner one runs
 * over n, so that every element of the result is summed in the order of k. */
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
    double *a = gather(in[0], &order_a), *b = gather(in[1], &order_b);
    tcc_status status = a && b ? TCC_OK : tcc_enomem(diag);
    for (int64_t row = 0; status == TCC_OK && row < batches * rows; row++) {
        double *restrict y = out->f + row * columns;
        for (int64_t k = 0; k < depth; k++) {
            const double *restrict x = b + (row / rows * depth + k) * columns;
            double scale = a[row * depth + k];
            for (int64_t j = 0; j < columns; j++) y[j] += scale * x[j];
        }
    }
    tcc__free(a);
    tcc__free(b);
    return status;
}

/* -- Convolution --
 * y, x and w are the three sides of one trilinear form, sum of y[n,o,i] x[n,c,j] w[o,c,k] over all
 * places where j = i stride - pad + k dilation lies inside x. Each of the three ops multiplies two
 * of the sides into the third. */

enum { SPATIAL = 3 }; /* fewer spatial dims are padded with extents of 1 in front */

/* A tensor [batch, channel, spatial] in whichever order its memory has; for w: [output channel,
 * input channel, kernel]. */
typedef struct side {
    double *data;
    int64_t extent[2 + SPATIAL], stride[2 + SPATIAL];
} side;

static side make_side(double *data, const tcc_type *type, bool channels_last) {
    side s = {.data = data};
    int64_t strides[TCC_MAX_RANK];
    tcc__strides(type, strides);
    int spatial = type->rank - 2, channel = channels_last ? type->rank - 1 : 1,
        first = channels_last ? 1 : 2;
    for (int i = 0; i < 2 + SPATIAL; i++) s.extent[i] = 1;
    s.extent[0] = type->dims[0], s.stride[0] = strides[0];
    s.extent[1] = type->dims[channel], s.stride[1] = strides[channel];
    for (int i = 0; i < spatial; i++) {
        s.extent[2 + SPATIAL - spatial + i] = type->dims[first + i];
        s.stride[2 + SPATIAL - spatial + i] = strides[first + i];
    }
    return s;
}

typedef struct form {
    side y, x, w;
    int64_t stride[SPATIAL], pad[SPATIAL], dilation[SPATIAL];
    enum { INTO_Y, INTO_X, INTO_W } into;
} form;

/* One weight and one line of y along its last dim, with the line of x that the weight reads. */
static void line(const form *f, double *y, double *x, double *w, int64_t k) {
    int64_t step = f->stride[2], first = k * f->dilation[2] - f->pad[2], extent = f->x.extent[4];
    int64_t lo = first >= 0 ? 0 : (-first + step - 1) / step;
    int64_t hi = first >= extent ? 0 : (extent - 1 - first) / step + 1; /* i < hi: still inside x */
    if (hi > f->y.extent[4]) hi = f->y.extent[4];
    int64_t ys = f->y.stride[4], xs = f->x.stride[4] * step, x0 = first * f->x.stride[4];
    double weight = *w, sum = 0;
    switch (f->into) {
    case INTO_Y:
        for (int64_t i = lo; i < hi; i++) y[i * ys] += weight * x[x0 + i * xs];
        break;
    case INTO_X:
        for (int64_t i = lo; i < hi; i++) x[x0 + i * xs] += weight * y[i * ys];
        break;
    case INTO_W:
        for (int64_t i = lo; i < hi; i++) sum += x[x0 + i * xs] * y[i * ys];
        *w += sum;
        break;
    }
}

/* One weight w[o, c, k] and one plane of y (image b): all its lines. */
static void plane(const form *f, int64_t b, int64_t o, int64_t c, int64_t c_all, const int64_t *k) {
    double *w = f->w.data + o * f->w.stride[0] + c * f->w.stride[1];
    for (int d = 0; d < SPATIAL; d++) w += k[d] * f->w.stride[2 + d];
    for (int64_t i0 = 0; i0 < f->y.extent[2]; i0++) {
        int64_t j0 = i0 * f->stride[0] - f->pad[0] + k[0] * f->dilation[0];
        if (j0 < 0 || j0 >= f->x.extent[2]) continue;
        for (int64_t i1 = 0; i1 < f->y.extent[3]; i1++) {
            int64_t j1 = i1 * f->stride[1] - f->pad[1] + k[1] * f->dilation[1];
            if (j1 < 0 || j1 >= f->x.extent[3]) continue;
            double *y = f->y.data + b * f->y.stride[0] + o * f->y.stride[1] + i0 * f->y.stride[2] +
                        i1 * f->y.stride[3];
            double *x = f->x.data + b * f->x.stride[0] + c_all * f->x.stride[1] +
                        j0 * f->x.stride[2] + j1 * f->x.stride[3];
            line(f, y, x, w, k[2]);
        }
    }
}

static tcc_status convolve(const tcc_node *n, form f) {
    const tcc_attrs_conv *attrs = &n->attrs->conv;
    int lead = SPATIAL - attrs->stride.count;
    for (int d = 0; d < SPATIAL; d++) {
        f.stride[d] = d < lead ? 1 : attrs->stride.v[d - lead];
        f.dilation[d] = d < lead ? 1 : attrs->dilation.v[d - lead];
        f.pad[d] = d < lead ? 0 : attrs->pad_lo.v[d - lead];
    }
    int64_t outputs_a_group = f.y.extent[1] / attrs->groups, channels = f.w.extent[1];
    for (int64_t b = 0; b < f.y.extent[0]; b++)
        for (int64_t o = 0; o < f.y.extent[1]; o++)
            for (int64_t c = 0; c < channels; c++)
                for (int64_t k0 = 0; k0 < f.w.extent[2]; k0++)
                    for (int64_t k1 = 0; k1 < f.w.extent[3]; k1++)
                        for (int64_t k2 = 0; k2 < f.w.extent[4]; k2++)
                            plane(&f, b, o, c, o / outputs_a_group * channels + c,
                                  (int64_t[]){k0, k1, k2});
    return TCC_OK;
}

TCC_EVAL_RULE(conv) {
    bool last = n->attrs->conv.channels_last;
    return convolve(n, (form){.y = make_side(out->f, &out->type, last),
                              .x = make_side(in[0]->f, &in[0]->type, last),
                              .w = make_side(in[1]->f, &in[1]->type, last),
                              .into = INTO_Y});
}

TCC_EVAL_RULE(conv_grad_input) {
    bool last = n->attrs->conv.channels_last;
    return convolve(n, (form){.y = make_side(in[0]->f, &in[0]->type, last),
                              .x = make_side(out->f, &out->type, last),
                              .w = make_side(in[1]->f, &in[1]->type, last),
                              .into = INTO_X});
}

TCC_EVAL_RULE(conv_grad_weight) {
    bool last = n->attrs->conv.channels_last;
    return convolve(n, (form){.y = make_side(in[1]->f, &in[1]->type, last),
                              .x = make_side(in[0]->f, &in[0]->type, last),
                              .w = make_side(out->f, &out->type, last),
                              .into = INTO_W});
}
