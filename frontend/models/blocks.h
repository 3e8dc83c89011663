/* SPDX-License-Identifier: MIT
 * What networks for images are made of: the public API alone. */
#ifndef TCC_FRONTEND_MODELS_BLOCKS_H
#define TCC_FRONTEND_MODELS_BLOCKS_H

#include "traincc/functions.h"
#include "traincc/models.h"
#include "traincc/nn.h"

/* A network in the making. */
typedef struct net {
    tcc_trace *t;
    const char *model; /* what places of errors begin with */
} net;

/* The place of what a file of models builds; `n` is its net. */
#define NET_PLACE tcc_scope_place(n->t, n->model)

/* -- Convolutions -- */

typedef struct conv {
    int64_t channels, kernel;
    int64_t stride; /* 0: 1; the padding keeps extents, but for the stride */
    int64_t groups; /* 0: 1 */
    bool bias;
    bool usual_init; /* PyTorch's; false: He's, by what goes out, and biases of 0 */
} conv;

/* NAME.weight, and NAME.bias if it has one. He's normal init counts the outputs of all groups, as PyTorch does. */
tcc_tensor tcc__net_conv(const net *n, tcc_tensor x, const char *name, conv c);
/* NAME.seq.conv, then the batch norm NAME.seq.bn; the second with ReLU behind it. */
tcc_tensor tcc__net_conv_bn(const net *n, tcc_tensor x, const char *name, conv c);
tcc_tensor tcc__net_conv_bn_relu(const net *n, tcc_tensor x, const char *name, conv c);
/* The convolution CONV, then the batch norm NORM. */
tcc_tensor tcc__net_conv_norm(const net *n, tcc_tensor x, const char *conv_name, const char *norm, conv c);

/* -- Maps -- */

/* The mean over each map: [N, C, 1, 1]. */
tcc_tensor tcc__net_pool_all(const net *n, tcc_tensor x);
/* The maximum over the channels [N, 1, H, W], whose gradient goes to the first of equals, as in PyTorch. */
tcc_tensor tcc__net_channel_max(const net *n, tcc_tensor x);
/* x in the spatial extents of `like`, or `factor` times as large. */
tcc_tensor tcc__net_resize_like(const net *n, tcc_tensor x, tcc_tensor like);
tcc_tensor tcc__net_enlarge(const net *n, tcc_tensor x, int64_t factor, bool align_corners);
tcc_tensor tcc__net_repeat_pixels(const net *n, tcc_tensor x, int64_t factor);
/* x, whose samples or whose channels of samples are dropped whole, as tcc_dropout drops elements: `kept` is the number
 * of leading dims that draws differ in. */
tcc_tensor tcc__net_drop(const net *n, tcc_tensor x, double p, int kept);

/* -- Networks -- */

/* Whether x is [N, 3, H, W] with H and W multiples of `multiple`, `least` or more, and there are classes. */
bool tcc__net_takes(const net *n, tcc_tensor x, int64_t classes, int64_t multiple, int64_t least);
/* A network that failed: its heads carry the error. */
tcc_segmentation tcc__net_failed(tcc_tensor error);
/* A head of two convolutions: NAME.seg_head.0.seq of `middle` channels, NAME.seg_head.2. */
tcc_tensor tcc__net_seg_head(const net *n, tcc_tensor x, const char *name, int64_t middle, int64_t classes,
                             double dropout);
/* STDC-1 or -2 (Fan et al. 2021) without its classifier, names under "stages": x -> maps of 1/8, 1/16 and 1/32 of its
 * extents, with 256, 512 and 1024 channels. */
void tcc__net_stdc(const net *n, tcc_tensor x, int variant, tcc_tensor maps[3]);

#endif
