/* SPDX-License-Identifier: MIT
 * What networks for images are made of. */
#include "frontend/models/blocks.h"

#include <math.h>

#undef TCC_HERE
#define TCC_HERE NET_PLACE

/* -- Convolutions -- */

tcc_tensor tcc__net_conv(const net *n, tcc_tensor x, const char *name, conv c) {
    const tcc_init he = {.kind = TCC_INIT_KAIMING_NORMAL, .a = sqrt(2), .fan_in = c.channels * c.kernel * c.kernel},
                   zero = {.kind = TCC_INIT_ZEROS};
    return tcc_conv_layer(x, name, c.channels, c.kernel, .stride = c.stride, .padding = c.kernel / 2,
                          .groups = c.groups, .no_bias = !c.bias, .weight_init = c.usual_init ? NULL : &he,
                          .bias_init = c.usual_init ? NULL : &zero);
}

tcc_tensor tcc__net_conv_norm(const net *n, tcc_tensor x, const char *conv_name, const char *norm, conv c) {
    return tcc_batch_norm(tcc__net_conv(n, x, conv_name, c), norm);
}

tcc_tensor tcc__net_conv_bn(const net *n, tcc_tensor x, const char *name, conv c) {
    tcc_scope(n->t, "%s.seq", name);
    x = tcc__net_conv_norm(n, x, "conv", "bn", c);
    tcc_scope_end(n->t);
    return x;
}

tcc_tensor tcc__net_conv_bn_relu(const net *n, tcc_tensor x, const char *name, conv c) {
    return tcc_relu(tcc__net_conv_bn(n, x, name, c));
}

/* -- Maps -- */

tcc_tensor tcc__net_pool_all(const net *n, tcc_tensor x) { return tcc_mean(x, TCC_KEEP(2, 3)); }

tcc_tensor tcc__net_channel_max(const net *n, tcc_tensor x) {
    tcc_tensor largest = tcc_expand_dims(tcc_argmax(tcc_stop_gradient(x), 1), TCC_DIMS(1));
    tcc_tensor channel = tcc_iota(n->t, 0, TCC_I32, TCC_DIMS(tcc_dim(x, 1), 1, 1));
    return tcc_sum(tcc_select_scalar(tcc_eq(channel, largest), x, 0), TCC_KEEP(1));
}

tcc_tensor tcc__net_resize_like(const net *n, tcc_tensor x, tcc_tensor like) {
    if (tcc_dim(x, 2) == tcc_dim(like, 2) && tcc_dim(x, 3) == tcc_dim(like, 3)) return x;
    return tcc_resize_bilinear(x, false, TCC_DIMS(tcc_dim(like, 2), tcc_dim(like, 3)));
}

tcc_tensor tcc__net_enlarge(const net *n, tcc_tensor x, int64_t factor, bool align_corners) {
    return tcc_resize_bilinear(x, align_corners, TCC_DIMS(factor * tcc_dim(x, 2), factor * tcc_dim(x, 3)));
}

tcc_tensor tcc__net_repeat_pixels(const net *n, tcc_tensor x, int64_t factor) {
    return tcc_resize_nearest(x, false, TCC_DIMS(factor * tcc_dim(x, 2), factor * tcc_dim(x, 3)));
}

tcc_tensor tcc__net_drop(const net *n, tcc_tensor x, double p, int kept) {
    int64_t dims[8]; /* of x, which has 4 at most */
    for (int d = 0; d < tcc_rank(x); d++) dims[d] = d < kept ? tcc_dim(x, d) : 1;
    if (!tcc_is_training(n->t) || p == 0) return x;
    return tcc_mul(x, tcc_dropout(tcc_constant(n->t, 1, tcc_get_dtype(x), tcc_rank(x), dims), p));
}

/* -- Networks -- */

bool tcc__net_takes(const net *n, tcc_tensor x, int64_t classes, int64_t multiple, int64_t least) {
    const long long h = tcc_dim(x, 2), w = tcc_dim(x, 3), m = multiple;
    if (classes < 1) {
        tcc_fail(n->t, "classes must be 1 or more, not %lld", (long long)classes);
    } else if (tcc_rank(x) != 4 || tcc_dim(x, 1) != 3) {
        tcc_fail(n->t, "x has %d dims and %lld channels; it must be [N, 3, H, W]", tcc_rank(x),
                 (long long)tcc_dim(x, 1));
    } else if (h % m || w % m) {
        tcc_fail(n->t,
                 "images of %lld x %lld: height and width must be multiples of %lld; next are %lld x %lld (pad) and "
                 "%lld x %lld (crop)",
                 h, w, m, (h + m - 1) / m * m, (w + m - 1) / m * m, h / m ? h / m * m : m, w / m ? w / m * m : m);
    } else if (h < least || w < least) {
        tcc_fail(n->t, "images of %lld x %lld: height and width must be %lld or more", h, w, (long long)least);
    } else {
        return true;
    }
    return false;
}

tcc_segmentation tcc__net_failed(tcc_tensor error) {
    return (tcc_segmentation){.count = 1, .logits = {error, error, error, error}};
}

tcc_tensor tcc__net_seg_head(const net *n, tcc_tensor x, const char *name, int64_t middle, int64_t classes,
                             double dropout) {
    tcc_scope(n->t, "%s.seg_head", name);
    x = tcc__net_conv_bn_relu(n, x, "0", (conv){.channels = middle, .kernel = 3});
    x = tcc__net_conv(n, tcc_dropout(x, dropout), "2", (conv){.channels = classes, .kernel = 1});
    tcc_scope_end(n->t);
    return x;
}
