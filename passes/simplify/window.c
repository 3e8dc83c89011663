/* SPDX-License-Identifier: MIT
 * simplify: adaptive pools whose windows are all alike. One window that is all of the image is a reduction, in f32 for
 * narrow types; others are those of a pool with a stride. */
#include "passes/simplify/simplify.h"

/* Spatial dims of an image. */
static tcc_dims spatial_axes(const tcc_type *x, bool channels_last) {
    tcc_dims axes = {.count = x->rank - 2};
    for (int i = 0; i < axes.count; i++) axes.v[i] = i + (channels_last ? 1 : 2);
    return axes;
}

static tcc_node *mean_of_image(tcc_simplifier *s, tcc_node *n, const tcc_dims *axes) {
    tcc_node *x = n->operands[0];
    const tcc_dtype dtype = x->type.dtype;
    tcc_node *wide = tcc_dtype_is_narrow(dtype) ? tcc_ir_cast(s->g, x, TCC_F32) : x;
    tcc_node *mean = tcc_ir_cast(s->g, tcc_ir_mean(s->g, wide, axes), dtype);
    return tcc__simplify(s, tcc_ir_reshape(s->g, mean, n->type.rank, n->type.dims));
}

/* The pool with a stride whose windows these are, if the extents of the image are multiples of those of its pool. */
static tcc_node *with_stride(tcc_simplifier *s, tcc_node *n, const tcc_dims *axes) {
    const bool is_gradient = n->op == TCC_OP_ADAPTIVE_AVG_POOL_GRAD;
    const tcc_type *image = is_gradient ? &n->type : &n->operands[0]->type;
    const tcc_type *pool = is_gradient ? &n->operands[0]->type : &n->type;
    tcc_attrs attrs = {.pool.channels_last = n->attrs->resize.channels_last};
    tcc_dims *const lists[] = {&attrs.pool.window, &attrs.pool.stride, &attrs.pool.pad_lo, &attrs.pool.pad_hi};
    for (int l = 0; l < 4; l++) lists[l]->count = axes->count;
    for (int i = 0; i < axes->count; i++) {
        const int64_t in = image->dims[axes->v[i]], out = pool->dims[axes->v[i]];
        if (in % out) return NULL;
        attrs.pool.window.v[i] = attrs.pool.stride.v[i] = in / out;
    }
    const tcc_op op = is_gradient ? TCC_OP_AVG_POOL_GRAD : TCC_OP_AVG_POOL;
    return tcc_ir_build(s->g, op, n->operands, 1, &attrs, is_gradient ? &n->type : NULL, n->loc);
}

tcc_node *tcc__simplify_window(tcc_simplifier *s, tcc_node *n) {
    if (n->op != TCC_OP_ADAPTIVE_AVG_POOL && n->op != TCC_OP_ADAPTIVE_AVG_POOL_GRAD) return NULL;
    const tcc_dims axes = spatial_axes(&n->type, n->attrs->resize.channels_last);
    bool is_one = n->op == TCC_OP_ADAPTIVE_AVG_POOL;
    for (int i = 0; i < axes.count; i++) is_one &= n->type.dims[axes.v[i]] == 1;
    return is_one ? mean_of_image(s, n, &axes) : with_stride(s, n, &axes);
}
