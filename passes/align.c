/* SPDX-License-Identifier: MIT
 * align: gives the rows of a large product's tensors an extent that the target reads at full speed.
 *
 * Tensor cores are fed 16 bytes at a time. A matrix whose rows are no multiple of that is read element by element, in
 * our kernels and in libraries: a vocabulary of 50,257 costs 5 to 50 times as much as one of 50,264. So where the
 * target names a unit (row_elements of tcc_pass_target), a product with other rows becomes a larger product and a slice
 * of it. What is contracted is padded with zeros. In other dims, the rest of the larger product is not read.
 *
 * A head's logits are the operand of two more products in its gradient. Cutting them out and padding them again would
 * copy them, and keep the loss from being one kernel with its gradient. So the larger value is followed through
 * pointwise operations: it is their `image`. A sum over the rows leaves out what is behind their end, and a product
 * reads an image with zeros there. */
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"
#include "passes/select.h"

#include <math.h>
#include <string.h>

enum {
    DEPTH = 16, /* operations between a value and the constants that it is made of again, for other extents */
};

typedef struct aligning {
    const tcc_pass_target *target;
    tcc_costs costs;
    bool always; /* whatever it costs */
    tcc_rewrite rw;
    tcc_node **image; /* by old id: the larger value that it is the beginning of, along each dim; NULL: there is none */
    tcc_node **padded; /* by old id: an operand of products, with zeros behind the end of its rows */
} aligning;

static int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

static bool same_dims(const tcc_type *type, const int64_t *dims) {
    return !memcmp(type->dims, dims, (size_t)type->rank * sizeof *dims);
}

/* --- The images of values --- */

static tcc_node *cut(aligning *a, const tcc_node *n, tcc_node *image) {
    const int64_t start[TCC_MAX_RANK] = {0};
    int64_t stride[TCC_MAX_RANK];
    for (int d = 0; d < TCC_MAX_RANK; d++) stride[d] = 1;
    return image ? tcc_ir_slice(a->rw.to, image, start, n->type.dims, stride) : NULL;
}

/* True within `n`, false behind its end. Each dim's part is a vector, so that what shares it has little in common. */
static tcc_node *inside(aligning *a, const tcc_node *n, const tcc_node *image) {
    tcc_graph *g = a->rw.to;
    tcc_node *all = NULL;
    for (int d = 0; d < n->type.rank; d++) {
        if (image->type.dims[d] == n->type.dims[d]) continue;
        const tcc_type line = {.dtype = TCC_I32, .rank = 1, .dims = {image->type.dims[d]}};
        tcc_node *within = tcc_ir_binary_c(g, TCC_OP_LT, tcc_ir_iota(g, &line, 0), (double)n->type.dims[d]);
        within = tcc_ir_broadcast(g, within, n->type.rank, image->type.dims, &d);
        all = all ? tcc_ir_binary(g, TCC_OP_AND, all, within) : within;
    }
    return all;
}

/* The image with `value` behind the end. */
static tcc_node *filled(aligning *a, const tcc_node *n, tcc_node *image, double value) {
    tcc_node *within = inside(a, n, image);
    return within ? tcc_ir_select(a->rw.to, within, image, tcc_ir_splat_like(a->rw.to, image, value)) : NULL;
}

static bool is_pointwise(const tcc_node *n) { return tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT; }

static tcc_node *built(aligning *a, const tcc_node *n, tcc_node **operands, const int64_t *dims) {
    tcc_type type = n->type;
    memcpy(type.dims, dims, (size_t)type.rank * sizeof *dims);
    const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    tcc_ir_set_origin(a->rw.to, n);
    return tcc_ir_build(a->rw.to, n->op, operands, n->n_operands, n->attrs, typed ? &type : NULL, n->loc);
}

static tcc_node *widened(aligning *a, const tcc_node *n, const int64_t *dims, int depth);

/* NULL: one of the operands has no image of these dims. */
static tcc_node *widened_point(aligning *a, const tcc_node *n, const int64_t *dims, int depth) {
    tcc_node *operands[3];
    if (n->n_operands > 3) return NULL;
    for (int k = 0; k < n->n_operands; k++)
        if (!(operands[k] = widened(a, n->operands[k], dims, depth - 1))) return NULL;
    return built(a, n, operands, dims);
}

static tcc_node *widened_broadcast(aligning *a, const tcc_node *n, const int64_t *dims) {
    const tcc_dims *to = &n->attrs->broadcast.dims;
    const tcc_type *from = &n->operands[0]->type;
    for (int i = 0; i < to->count; i++)
        if (from->dims[i] != 1 && dims[to->v[i]] != n->type.dims[to->v[i]]) return NULL;
    return built(a, n, &a->rw.map[n->operands[0]->id], dims);
}

/* `n` with these dims, at least its own: its image, or made of constants, positions and values that are the same along
 * the dims which grow. NULL: it can't be had so. */
static tcc_node *widened(aligning *a, const tcc_node *n, const int64_t *dims, int depth) {
    tcc_node *image = a->image[n->id];
    if (same_dims(&n->type, dims)) return a->rw.map[n->id];
    if (image) return same_dims(&image->type, dims) ? image : NULL;
    if (!depth) return NULL;
    tcc_type type = n->type;
    memcpy(type.dims, dims, (size_t)type.rank * sizeof *dims);
    if (n->op == TCC_OP_CONSTANT && n->attrs->constant.values.count == 1)
        return tcc_ir_splat(a->rw.to, &type, n->attrs->constant.values.v[0]);
    if (n->op == TCC_OP_IOTA) return tcc_ir_iota(a->rw.to, &type, (int)n->attrs->axis.axis);
    if (n->op == TCC_OP_BROADCAST) return widened_broadcast(a, n, dims);
    return is_pointwise(n) ? widened_point(a, n, dims, depth) : NULL;
}

/* --- Products --- */

enum { TENSORS = 3, RESULT = 2, LABELS = 2 * TCC_MAX_RANK };

/* A product's tensors, its result last, and which of their dims are one dim of the product: those of equal label. */
typedef struct product {
    const tcc_node *tensors[TENSORS];
    int label[TENSORS][TCC_MAX_RANK]; /* -1: it can't grow */
    int64_t dims[TENSORS][TCC_MAX_RANK];
    double flop;
} product;

/* Dims of the result by their number, contracted ones behind them. */
static void label_dot(product *p, const tcc_node *n) {
    const tcc_attrs_dot *dot = &n->attrs->dot;
    int at = dot->batch_a.count;
    p->flop = 2 * (double)tcc_type_numel(&n->type);
    for (int d = at; d < n->type.rank; d++) p->label[RESULT][d] = d;
    for (int k = 0; k < RESULT; k++) {
        const tcc_dims *batch = k ? &dot->batch_b : &dot->batch_a, *sum = k ? &dot->contract_b : &dot->contract_a;
        for (int d = 0; d < n->operands[k]->type.rank; d++)
            if (!tcc_dims_has(batch, d) && !tcc_dims_has(sum, d)) p->label[k][d] = at++;
        for (int i = 0; i < sum->count; i++) p->label[k][sum->v[i]] = TCC_MAX_RANK + i;
    }
    for (int i = 0; i < dot->contract_a.count; i++) p->flop *= (double)n->operands[0]->type.dims[dot->contract_a.v[i]];
}

/* Channels can grow. */
static bool label_conv(product *p, const tcc_node *n) {
    enum { IN, OUT };
    const int x = n->op == TCC_OP_CONV_GRAD_INPUT ? RESULT : 0;
    const int w = n->op == TCC_OP_CONV_GRAD_WEIGHT ? RESULT : 1, y = RESULT + 1 - x - w;
    const int last = n->type.rank - 1;
    if (n->attrs->conv.groups != 1 || !n->attrs->conv.channels_last) return false;
    p->label[x][last] = p->label[w][last] = IN;
    p->label[y][last] = p->label[w][0] = OUT;
    p->flop = 2 * (double)tcc_type_numel(&p->tensors[y]->type) * (double)tcc_type_numel(&p->tensors[w]->type) /
              (double)p->tensors[w]->type.dims[0];
    return true;
}

/* False: it is no product, or one that can't grow. */
static bool describe(product *p, const tcc_node *n) {
    if (tcc_op_get_info(n->op)->fusion != TCC_FUSION_CONTRACT) return false;
    *p = (product){.tensors = {n->operands[0], n->operands[1], n}};
    memset(p->label, -1, sizeof p->label);
    if (n->op != TCC_OP_DOT) return label_conv(p, n);
    label_dot(p, n);
    return true;
}

/* Fills in dims. False: all rows are aligned. */
static bool grow(const aligning *a, product *p) {
    const int64_t unit = a->target->row_elements(a->target->user, p->tensors[0]->type.dtype);
    int64_t grown[LABELS] = {0};
    bool any = false;
    for (int t = 0; t < TENSORS; t++) {
        const tcc_type *type = &p->tensors[t]->type;
        const int label = type->rank ? p->label[t][type->rank - 1] : -1;
        if (label < 0 || type->dims[type->rank - 1] % unit == 0) continue;
        grown[label] = round_up(type->dims[type->rank - 1], unit);
        any = true;
    }
    for (int t = 0; t < TENSORS; t++)
        for (int d = 0; d < p->tensors[t]->type.rank; d++) {
            const int label = p->label[t][d];
            p->dims[t][d] = label >= 0 && grown[label] ? grown[label] : p->tensors[t]->type.dims[d];
        }
    return any;
}

static bool is_image(const tcc_node *image, const int64_t *dims) { return image && same_dims(&image->type, dims); }

/* Whether the larger product is faster, together with the copies of operands that it takes. */
static bool pays(const aligning *a, const product *p) {
    double bytes = 0;
    for (int k = 0; k < RESULT; k++) {
        const tcc_node *x = p->tensors[k];
        if (same_dims(&x->type, p->dims[k]) || is_image(a->image[x->id], p->dims[k]) ||
            is_image(a->padded[x->id], p->dims[k]))
            continue;
        tcc_type larger = x->type;
        memcpy(larger.dims, p->dims[k], (size_t)larger.rank * sizeof *larger.dims);
        bytes += (double)tcc_type_bytes(&x->type) + (double)tcc_type_bytes(&larger);
    }
    return a->always || (p->flop >= a->costs.least_aligned_flop && p->flop >= a->costs.padding_flop * bytes);
}

static tcc_node *operand(aligning *a, const tcc_node *x, const int64_t *dims) {
    const int64_t none[TCC_MAX_RANK] = {0};
    int64_t behind[TCC_MAX_RANK] = {0};
    if (same_dims(&x->type, dims)) return a->rw.map[x->id];
    if (is_image(a->padded[x->id], dims)) return a->padded[x->id];
    for (int d = 0; d < x->type.rank; d++) behind[d] = dims[d] - x->type.dims[d];
    a->padded[x->id] = is_image(a->image[x->id], dims) ? filled(a, x, a->image[x->id], 0)
                                                       : tcc_ir_pad(a->rw.to, a->rw.map[x->id], 0, none, behind, none);
    return a->padded[x->id];
}

static void set_image(aligning *a, const tcc_node *n, tcc_node *image) {
    const bool larger = image && !same_dims(&n->type, image->type.dims);
    a->image[n->id] = larger ? image : NULL;
    a->rw.map[n->id] = larger ? cut(a, n, image) : image;
}

/* --- What reads images --- */

/* How many of the dims in which the image is larger are among the axes of reduction `n`; all of them in *of. */
static int reduced_dims(const tcc_node *n, const tcc_node *image, int *of) {
    const tcc_type *type = &n->operands[0]->type;
    int count = 0;
    *of = 0;
    for (int d = 0; d < type->rank; d++)
        if (image->type.dims[d] != type->dims[d]) {
            ++*of;
            count += tcc_dims_has(&n->attrs->axes.axes, d);
        }
    return count;
}

static bool reduce_image(aligning *a, const tcc_node *n) {
    const bool sum = n->op == TCC_OP_REDUCE_SUM, extremum = n->op == TCC_OP_REDUCE_MAX || n->op == TCC_OP_REDUCE_MIN;
    if (!sum && !extremum) return false;
    const tcc_node *x = n->operands[0];
    tcc_node *image = a->image[x->id];
    int of;
    const int count = image ? reduced_dims(n, image, &of) : 0;
    if (!image || (count && (count < of || (extremum && !tcc_dtype_is_float(x->type.dtype))))) return false;
    if (count) image = filled(a, x, image, sum ? 0 : n->op == TCC_OP_REDUCE_MAX ? -INFINITY : INFINITY);
    if (!image) return true; /* the error is the graph's */
    set_image(a, n, tcc_ir_reduce(a->rw.to, n->op, image, &n->attrs->axes.axes));
    return true;
}

/* The first operand that has an image. */
static const tcc_node *image_among_operands(const aligning *a, const tcc_node *n) {
    for (int k = 0; k < n->n_operands; k++)
        if (a->image[n->operands[k]->id]) return a->image[n->operands[k]->id];
    return NULL;
}

/* A reshape that leaves the last dim, the only one in which the image is larger. */
static bool reshape_image(aligning *a, const tcc_node *n) {
    const tcc_node *x = n->operands[0];
    tcc_node *image = a->image[x->id];
    const int from = x->type.rank - 1, to = n->type.rank - 1;
    int64_t dims[TCC_MAX_RANK];
    if (!image || to < 0 || x->type.dims[from] != n->type.dims[to] ||
        memcmp(x->type.dims, image->type.dims, (size_t)from * sizeof *dims) != 0)
        return false;
    memcpy(dims, n->type.dims, sizeof dims);
    dims[to] = image->type.dims[from];
    set_image(a, n, built(a, n, &image, dims));
    return true;
}

static bool follow_image(aligning *a, const tcc_node *n) {
    const tcc_node *image = image_among_operands(a, n);
    if (!image) return false;
    if (n->op == TCC_OP_RESHAPE) return reshape_image(a, n);
    if (!is_pointwise(n)) return reduce_image(a, n);
    tcc_node *wide = widened_point(a, n, image->type.dims, DEPTH);
    if (wide) set_image(a, n, wide);
    return wide != NULL;
}

static void rewrite(aligning *a, const tcc_node *n) {
    product p;
    tcc_ir_set_origin(a->rw.to, n);
    if (describe(&p, n) && grow(a, &p) && pays(a, &p)) {
        tcc_node *operands[] = {operand(a, p.tensors[0], p.dims[0]), operand(a, p.tensors[1], p.dims[1])};
        set_image(a, n, operands[0] && operands[1] ? built(a, n, operands, p.dims[RESULT]) : NULL);
    } else if (!follow_image(a, n)) tcc_rewrite_copy(&a->rw, n);
}

tcc_status tcc_pass_align(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    aligning a = {
        .target = cx->options->target, .costs = tcc_costs_of(cx->options->target), .always = cx->options->align_all};
    TCC_TRY(tcc_rewrite_begin(&a.rw, in));
    a.image = tcc__calloc((size_t)in->nodes.count + 1, sizeof *a.image);
    a.padded = tcc__calloc((size_t)in->nodes.count + 1, sizeof *a.padded);
    if (!a.image || !a.padded) {
        tcc__free(a.image);
        tcc__free(a.padded);
        tcc_rewrite_abort(&a.rw);
        return tcc_enomem(in->diag);
    }
    for (int id = 0; id < in->nodes.count; id++)
        if (a.rw.live[id]) rewrite(&a, in->nodes.data[id]);
    tcc__free(a.image);
    tcc__free(a.padded);
    return tcc_rewrite_end(&a.rw, out);
}
