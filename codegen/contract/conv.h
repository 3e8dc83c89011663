/* SPDX-License-Identifier: MIT
 * Convolutions: how one is read, and the ways to lower it. */
#ifndef TCC_CODEGEN_CONTRACT_CONV_H
#define TCC_CODEGEN_CONTRACT_CONV_H

#include "codegen/schedule/lowering.h"

/* A convolution or one of its gradients: one of x, w and y is the hero of the group. */
typedef struct tcc_conv {
    const tcc_attrs_conv *attrs;
    int n_spatial, first, channel; /* dims of images and kernels */
    const tcc_node *x, *w, *y;
    int64_t groups, ci, co; /* channels of a group */
} tcc_conv;

tcc_conv tcc_conv_read(const tcc_node *hero);

/* Elements of a channel's kernel. */
static inline int64_t tcc_conv_taps(const tcc_conv *c) {
    int64_t taps = 1;
    for (int i = 0; i < c->n_spatial; i++) taps *= c->w->type.dims[c->first + i];
    return taps;
}

/* Whether the host's kernels may compute operand `n` of the hero as they pack or transform it. */
bool tcc_conv_computes_image(const tcc_lowering *l, const tcc_conv *c, const tcc_node *n);

/* Adds a library call for the group's hero with its whole epilogue, or cuts the group where a call leaves part of it,
 * if a library supports that and it is worth it. */
tcc_status tcc_lower_conv_library(tcc_lowering *l, const tcc_conv *c);

/* Depthwise: each group has one channel of x and of y. Adds no launch where the channels are not last, but for images
 * on the host. */
tcc_status tcc_lower_conv_depthwise(tcc_lowering *l, const tcc_conv *c);

#endif
