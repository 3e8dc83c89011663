/* SPDX-License-Identifier: MIT
 * SegFormer (Xie et al. 2021) as super-gradients has it, with its names. */
#include "frontend/models/blocks.h"

#include <math.h>

#undef TCC_HERE
#define TCC_HERE NET_PLACE

enum { STAGES = 4, BLOCKS = 2, EMBEDDING = 256 };

static const tcc_init normal = {.kind = TCC_INIT_NORMAL, .b = 0.02}, zero = {.kind = TCC_INIT_ZEROS};

/* A stage of the encoder. */
typedef struct stage {
    int64_t channels, heads;
    int64_t reduction; /* of the sides of the map of keys and values */
} stage;

/* -- Tokens [N, H W, C], which are maps [N, C, H, W] -- */

static tcc_tensor dense(const net *n, tcc_tensor x, const char *name, int64_t features) {
    return tcc_linear(x, name, features, .weight_init = &normal, .bias_init = &zero);
}

static tcc_tensor tokens_of(const net *n, tcc_tensor x) { return tcc_transpose(tcc_flatten(x, 2), TCC_DIMS(0, 2, 1)); }

/* `like` has the sides of the map. */
static tcc_tensor map_of(const net *n, tcc_tensor x, tcc_tensor like) {
    return tcc_reshape(tcc_transpose(x, TCC_DIMS(0, 2, 1)),
                       TCC_DIMS(tcc_dim(x, 0), tcc_dim(x, 2), tcc_dim(like, 2), tcc_dim(like, 3)));
}

/* -- The encoder -- */

/* Attention to a coarser map; x are tokens. */
static tcc_tensor attention(const net *n, tcc_tensor x, tcc_tensor map, const stage *s) {
    const int64_t batch = tcc_dim(x, 0), length = tcc_dim(x, 1), head = s->channels / s->heads;
    tcc_scope(n->t, "attn");
    tcc_tensor q = tcc_reshape(dense(n, x, "q", s->channels), TCC_DIMS(batch, length, s->heads, head)), from = x;
    if (s->reduction > 1) {
        const int64_t r = s->reduction;
        const tcc_init he = {.kind = TCC_INIT_KAIMING_NORMAL, .a = sqrt(2), .fan_in = s->channels * r * r};
        from = tcc_conv_layer(map_of(n, x, map), "sr", s->channels, r, .stride = r, .weight_init = &he,
                              .bias_init = &zero);
        from = tcc_layer_norm(tokens_of(n, from), "norm");
    }
    tcc_tensor kv = dense(n, from, "kv", 2 * s->channels), parts[2];
    tcc_chunk(kv, 2, 2, parts);
    for (int i = 0; i < 2; i++)
        parts[i] = tcc_transpose(tcc_reshape(parts[i], TCC_DIMS(batch, tcc_dim(from, 1), s->heads, head)),
                                 TCC_DIMS(0, 2, 1, 3));
    tcc_tensor y = tcc_attention(tcc_transpose(q, TCC_DIMS(0, 2, 1, 3)), parts[0], parts[1]);
    y = tcc_reshape(tcc_transpose(y, TCC_DIMS(0, 2, 1, 3)), TCC_DIMS(batch, length, s->channels));
    y = dense(n, y, "proj", s->channels);
    tcc_scope_end(n->t);
    return y;
}

/* With a depthwise convolution in between, which tells the tokens where they are. */
static tcc_tensor feed_forward(const net *n, tcc_tensor x, tcc_tensor map, const stage *s) {
    const int64_t wide = 4 * s->channels;
    tcc_scope(n->t, "mlp");
    tcc_tensor y = map_of(n, dense(n, x, "fc1", wide), map);
    y = tcc__net_conv(n, y, "dwconv", (conv){.channels = wide, .kernel = 3, .groups = wide, .bias = true});
    y = dense(n, tcc_gelu(tokens_of(n, y)), "fc2", s->channels);
    tcc_scope_end(n->t);
    return y;
}

/* One map in, a smaller one out. `first` is the number of the stage's first block in the network. */
static tcc_tensor encode(const net *n, tcc_tensor x, const stage *s, int number, double drop_path) {
    const int64_t kernel = number == 1 ? 7 : 3, stride = number == 1 ? 4 : 2;
    tcc_scope(n->t, "patch_embed%d", number);
    tcc_tensor map = tcc__net_conv(n, x, "proj",
                                   (conv){.channels = s->channels, .kernel = kernel, .stride = stride, .bias = true});
    x = tcc_layer_norm(tokens_of(n, map), "norm");
    tcc_scope_end(n->t);
    for (int i = 0; i < BLOCKS; i++) {
        /* blocks are dropped the more often the later they come */
        const double p = drop_path * ((number - 1) * BLOCKS + i) / (STAGES * BLOCKS - 1);
        tcc_scope(n->t, "block%d.%d", number, i);
        tcc_checkpoint_segment(n->t);
        x = tcc_add(x, tcc__net_drop(n, attention(n, tcc_layer_norm(x, "norm1"), map, s), p, 1));
        x = tcc_add(x, tcc__net_drop(n, feed_forward(n, tcc_layer_norm(x, "norm2"), map, s), p, 1));
        tcc_checkpoint_segment_end(n->t);
        tcc_scope_end(n->t);
    }
    const char *const norms[] = {"norm1", "norm2", "norm3", "norm4"};
    return map_of(n, tcc_layer_norm(x, norms[number - 1]), map);
}

/* -- The head -- */

/* A 1 x 1 convolution of all maps side by side, in the size of the first. It is linear, as is resizing, whose weights
 * add up to 1: so each map goes through its own part of the weight before it is enlarged. */
static tcc_tensor mixed(const net *n, const tcc_tensor maps[STAGES]) {
    const tcc_init he = {.kind = TCC_INIT_KAIMING_NORMAL, .a = sqrt(2), .fan_in = EMBEDDING};
    tcc_tensor weight = tcc_param(n->t, "linear_fuse.seq.conv.weight", he,
                                  TCC_DIMS(EMBEDDING, STAGES * EMBEDDING, 1, 1));
    tcc_tensor sum = {0};
    for (int i = 0; i < STAGES; i++) {
        const char *const names[] = {"linear_c1.proj", "linear_c2.proj", "linear_c3.proj", "linear_c4.proj"};
        tcc_tensor x = map_of(n, dense(n, tokens_of(n, maps[i]), names[i], EMBEDDING), maps[i]);
        const int64_t from = (STAGES - 1 - i) * EMBEDDING; /* the coarsest map comes first */
        x = tcc_conv(x, tcc_slice(weight, 1, from, from + EMBEDDING));
        x = tcc__net_resize_like(n, x, maps[0]);
        sum = i ? tcc_add(sum, x) : x;
    }
    return tcc_relu(tcc_batch_norm(sum, "linear_fuse.seq.bn"));
}

tcc_segmentation tcc_segformer(tcc_trace *t, tcc_tensor x, const tcc_segformer_options *o) {
    static const stage variants[][STAGES] = {{{32, 1, 8}, {64, 2, 4}, {160, 5, 2}, {256, 8, 1}},
                                             {{64, 1, 8}, {128, 2, 4}, {320, 5, 2}, {512, 8, 1}}};
    const net *const n = &(net){t, "segformer"};
    if (!o) return tcc__net_failed(tcc_fail(t, "the options are NULL"));
    if (o->variant != 0 && o->variant != 1)
        return tcc__net_failed(tcc_fail(t, "variant must be 0 or 1, not %d", o->variant));
    if (!(o->drop_path >= 0 && o->drop_path < 1))
        return tcc__net_failed(tcc_fail(t, "drop_path must be in [0, 1), not %g", o->drop_path));
    /* so that the first map of 1/4 has the 8 x 8 pixels that attention makes one of */
    if (!tcc__net_takes(n, x, o->classes, 1, 29)) return tcc__net_failed((tcc_tensor){0});

    tcc_tensor maps[STAGES], y = x;
    tcc_scope(t, "_backbone");
    for (int i = 0; i < STAGES; i++) y = maps[i] = encode(n, y, &variants[o->variant][i], i + 1, o->drop_path);
    tcc_scope_end(t);
    tcc_scope(t, "decode_head");
    y = tcc__net_drop(n, mixed(n, maps), o->dropout, 2);
    y = tcc__net_conv(n, y, "linear_pred", (conv){.channels = o->classes, .kernel = 1, .bias = true});
    tcc_scope_end(t);
    return (tcc_segmentation){.count = 1, .logits = {tcc__net_resize_like(n, y, x)}};
}
