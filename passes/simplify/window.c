/* SPDX-License-Identifier: MIT
 * simplify: a window that is all of an image. Its mean is a reduction, in f32 for narrow types. */
#include "passes/simplify/simplify.h"

/* Spatial dims of an image. */
static tcc_dims spatial_axes(const tcc_type *x, bool channels_last) {
    tcc_dims axes = {.count = x->rank - 2};
    for (int i = 0; i < axes.count; i++) axes.v[i] = i + (channels_last ? 1 : 2);
    return axes;
}

tcc_node *tcc__simplify_window(tcc_simplifier *s, tcc_node *n) {
    if (n->op != TCC_OP_ADAPTIVE_AVG_POOL) return NULL;
    tcc_node *x = n->operands[0];
    const tcc_dims axes = spatial_axes(&x->type, n->attrs->resize.channels_last);
    for (int i = 0; i < axes.count; i++)
        if (n->type.dims[axes.v[i]] != 1) return NULL;
    const tcc_dtype dtype = x->type.dtype;
    tcc_node *wide = tcc_dtype_is_narrow(dtype) ? tcc_ir_cast(s->g, x, TCC_F32) : x;
    tcc_node *mean = tcc_ir_cast(s->g, tcc_ir_mean(s->g, wide, &axes), dtype);
    return tcc__simplify(s, tcc_ir_reshape(s->g, mean, n->type.rank, n->type.dims));
}
