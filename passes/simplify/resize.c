/* SPDX-License-Identifier: MIT
 * simplify: enlarging an image by much is done along one dim after the other, and so is its gradient. An element of the
 * gradient then adds up s + s others instead of s * s, and those of a row at once. What is between has one dim of the
 * large image alone, and is f32 where the images are narrow: results are rounded once. A host makes cubic images of any
 * extents so: of each element it reads 4 + 4 others instead of 16. */
#include "passes/simplify/simplify.h"

/* From this factor on: the value between is small beside the large image, which is written or read once. */
enum { LEAST_FACTOR = 4 };

/* Spatial dims whose extent changes; 0 if there are fewer than two, or if one does not grow by `least`. */
static int enlarged_dims(const tcc_type *small, const tcc_type *large, int first, int least, int *dims) {
    int count = 0;
    for (int i = first; i < first + small->rank - 2; i++) {
        if (small->dims[i] == large->dims[i]) continue;
        if (large->dims[i] < least * small->dims[i]) return 0;
        dims[count++] = i;
    }
    return count > 1 ? count : 0;
}

static tcc_node *resized(tcc_simplifier *s, const tcc_node *n, tcc_node *x, int dim) {
    tcc_type type = x->type;
    type.dims[dim] = n->type.dims[dim];
    return tcc_ir_build(s->g, n->op, &x, 1, n->attrs, &type, n->loc);
}

/* The gradient begins with the outermost dim, and the image ends with it: rows lie together there. */
tcc_node *tcc__simplify_resize(tcc_simplifier *s, tcc_node *n) {
    const bool is_gradient = n->op == TCC_OP_RESIZE_BILINEAR_GRAD || n->op == TCC_OP_RESIZE_BICUBIC_GRAD;
    if (!is_gradient && n->op != TCC_OP_RESIZE_BILINEAR && n->op != TCC_OP_RESIZE_BICUBIC) return NULL;
    const bool is_cubic = n->op == TCC_OP_RESIZE_BICUBIC || n->op == TCC_OP_RESIZE_BICUBIC_GRAD;
    tcc_node *x = n->operands[0];
    int dims[TCC_MAX_RANK];
    const int count = enlarged_dims(is_gradient ? &n->type : &x->type, is_gradient ? &x->type : &n->type,
                                    n->attrs->resize.channels_last ? 1 : 2, is_cubic && s->vectors ? 0 : LEAST_FACTOR,
                                    dims);
    if (!count) return NULL;
    const tcc_dtype dtype = x->type.dtype;
    if (tcc_dtype_is_narrow(dtype)) x = tcc_ir_cast(s->g, x, TCC_F32);
    for (int i = 0; i < count; i++) x = resized(s, n, x, dims[is_gradient ? i : count - 1 - i]);
    return tcc_ir_cast(s->g, x, dtype);
}
