/* SPDX-License-Identifier: MIT
 * Gradient rules of pooling and resizing. Each op but max pooling is linear, so that op and
 * gradient are each other's gradient. */
#include "passes/gradient/vjp.h"

TCC_VJP_RULE(max_pool) {
    tcc_node *place = vjp_build(v, TCC_OP_MAX_POOL_PLACE, &v->x[0], 1, NULL);
    tcc__vjp_give(v, 0, vjp_build(v, TCC_OP_MAX_POOL_GRAD, (tcc_node *[]){place, v->dy}, 2, &v->x[0]->type));
}

TCC_VJP_RULE(avg_pool) { tcc__vjp_give(v, 0, vjp_build(v, TCC_OP_AVG_POOL_GRAD, &v->dy, 1, &v->x[0]->type)); }
TCC_VJP_RULE(avg_pool_grad) { tcc__vjp_give(v, 0, vjp_build(v, TCC_OP_AVG_POOL, &v->dy, 1, NULL)); }

#define LINEAR(name, transpose) \
    TCC_VJP_RULE(name) { tcc__vjp_give(v, 0, vjp_build(v, TCC_OP_##transpose, &v->dy, 1, &v->x[0]->type)); }
LINEAR(adaptive_avg_pool, ADAPTIVE_AVG_POOL_GRAD)
LINEAR(adaptive_avg_pool_grad, ADAPTIVE_AVG_POOL)
LINEAR(resize_nearest, RESIZE_NEAREST_GRAD)
LINEAR(resize_nearest_grad, RESIZE_NEAREST)
LINEAR(resize_bilinear, RESIZE_BILINEAR_GRAD)
LINEAR(resize_bilinear_grad, RESIZE_BILINEAR)
LINEAR(resize_bicubic, RESIZE_BICUBIC_GRAD)
LINEAR(resize_bicubic_grad, RESIZE_BICUBIC)
