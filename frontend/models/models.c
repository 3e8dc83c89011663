/* SPDX-License-Identifier: MIT
 * Ready-made models, by the public API alone. */
#include "frontend/models/extents.h"
#include "traincc/losses.h"
#include "traincc/models.h"
#include "traincc/nn.h"

#include <math.h>
#include <stdio.h>

/* -- GPT -- */

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "gpt")

/* Causal self-attention with one projection for queries, keys and values; x [B, T, C]. */
static tcc_tensor gpt_attention(tcc_trace *t, tcc_tensor x, const tcc_gpt_options *o, const tcc_init *init,
                                const tcc_init *residual_init, const tcc_init *bias) {
    int64_t batch = tcc_dim(x, 0), length = tcc_dim(x, 1), head = o->width / o->heads;
    tcc_scope(t, "attn");
    tcc_tensor qkv = tcc_linear(x, "c_attn", 3 * o->width, .no_bias = !o->bias, .weight_init = init, .bias_init = bias);
    tcc_tensor parts[3]; /* [B, heads, T, head] */
    for (int i = 0; i < 3; i++) {
        parts[i] = tcc_slice(qkv, 2, i * o->width, (i + 1) * o->width);
        parts[i] = tcc_transpose(tcc_reshape(parts[i], TCC_DIMS(batch, length, o->heads, head)), TCC_DIMS(0, 2, 1, 3));
    }
    tcc_tensor y = tcc_attention(parts[0], parts[1], parts[2], .causal = true, .dropout = o->dropout);
    y = tcc_reshape(tcc_transpose(y, TCC_DIMS(0, 2, 1, 3)), TCC_DIMS(batch, length, o->width));
    y = tcc_linear(y, "c_proj", o->width, .no_bias = !o->bias, .weight_init = residual_init, .bias_init = bias);
    tcc_scope_end(t);
    return tcc_dropout(y, o->dropout);
}

static tcc_tensor gpt_mlp(tcc_trace *t, tcc_tensor x, const tcc_gpt_options *o, const tcc_init *init,
                          const tcc_init *residual_init, const tcc_init *bias) {
    tcc_scope(t, "mlp");
    tcc_tensor h = tcc_linear(x, "c_fc", 4 * o->width, .no_bias = !o->bias, .weight_init = init, .bias_init = bias);
    h = o->gelu_tanh ? tcc_gelu_tanh(h) : tcc_gelu(h);
    h = tcc_linear(h, "c_proj", o->width, .no_bias = !o->bias, .weight_init = residual_init, .bias_init = bias);
    tcc_scope_end(t);
    return tcc_dropout(h, o->dropout);
}

/* `at`: of the logits that are asked for; NULL: all are. */
static tcc_tensor gpt(tcc_trace *t, tcc_tensor tokens, const tcc_tensor *at, const tcc_gpt_options *o) {
    if (!o) return tcc_fail(t, "the options are NULL");
    const extent *bad = first_below_1(EXTENTS({"layers", o->layers}, {"heads", o->heads}, {"width", o->width},
                                              {"context", o->context}, {"vocab", o->vocab}));
    if (bad) return tcc_fail(t, "%s must be 1 or more, not %lld", bad->name, (long long)bad->value);
    const tcc_init init = {.kind = TCC_INIT_NORMAL, .b = 0.02}, zero = {.kind = TCC_INIT_ZEROS};
    /* Radford et al. 2019: residual projections start smaller, by the number of residual layers. */
    const tcc_init residual_init = {.kind = TCC_INIT_NORMAL, .b = 0.02 / sqrt(2.0 * (double)o->layers)};
    int64_t batch = tcc_dim(tokens, 0), length = tcc_dim(tokens, 1);
    if (o->heads < 1 || o->width % o->heads)
        return tcc_fail(t, "width %lld is not a multiple of %lld heads", (long long)o->width, (long long)o->heads);
    if (length > o->context)
        return tcc_fail(t, "%lld tokens do not fit the context of %lld", (long long)length, (long long)o->context);

    tcc_scope(t, "transformer");
    tcc_tensor x = tcc_embedding(tokens, "wte", o->vocab, o->width, .weight_init = &init);
    tcc_tensor wte = tcc_param(t, "wte.weight", init, TCC_DIMS(o->vocab, o->width));
    tcc_tensor wpe = tcc_param(t, "wpe.weight", init, TCC_DIMS(o->context, o->width));
    x = tcc_dropout(tcc_add(x, tcc_slice(wpe, 0, 0, length)), o->dropout);
    for (int64_t i = 0; i < o->layers; i++) {
        tcc_scope(t, "h.%lld", (long long)i);
        tcc_checkpoint_segment(t);
        x = tcc_add(x,
                    gpt_attention(t, tcc_layer_norm(x, "ln_1", .no_bias = !o->bias), o, &init, &residual_init, &zero));
        x = tcc_add(x, gpt_mlp(t, tcc_layer_norm(x, "ln_2", .no_bias = !o->bias), o, &init, &residual_init, &zero));
        tcc_checkpoint_segment_end(t);
        tcc_scope_end(t);
    }
    if (at) {
        const tcc_tensor first = tcc_iota(t, 0, TCC_I32, TCC_DIMS(batch)),
                         step = tcc_constant(t, (double)length, TCC_I32, TCC_DIMS(1));
        x = tcc_reshape(x, TCC_DIMS(batch * length, o->width));
        x = tcc_take(x, tcc_add(*at, tcc_mul(first, step)), 0);
    }
    x = tcc_layer_norm(x, "ln_f", .no_bias = !o->bias);
    tcc_scope_end(t);
    /* The head is the token embedding again: [B T, C] x [C, vocab]. */
    tcc_scope(t, "head");
    const tcc_tensor rows = at ? x : tcc_reshape(x, TCC_DIMS(batch * length, o->width));
    x = tcc_matmul(rows, tcc_transpose(wte, TCC_DIMS(1, 0)));
    if (!at) x = tcc_reshape(x, TCC_DIMS(batch, length, o->vocab));
    tcc_scope_end(t);
    return x;
}

tcc_tensor tcc_gpt(tcc_trace *t, tcc_tensor tokens, const tcc_gpt_options *o) { return gpt(t, tokens, NULL, o); }

tcc_tensor tcc_gpt_next(tcc_trace *t, tcc_tensor tokens, tcc_tensor at, const tcc_gpt_options *o) {
    return gpt(t, tokens, &at, o);
}

/* -- MLP and CNN -- */

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "mlp")

static const char *numbered(char *buffer, size_t size, const char *stem, int number) {
    snprintf(buffer, size, "%s%d", stem, number);
    return buffer;
}

tcc_tensor tcc_mlp(tcc_trace *t, tcc_tensor x, const tcc_mlp_options *o) {
    char name[32];
    if (!o) return tcc_fail(t, "the options are NULL");
    if (o->n_hidden < 0 || (o->n_hidden && !o->hidden))
        return tcc_fail(t, "n_hidden %d must be 0 or more, with a list of them, hidden", o->n_hidden);
    for (int i = 0; i < o->n_hidden; i++)
        x = tcc_dropout(tcc_relu(tcc_linear(x, numbered(name, sizeof name, "fc", i + 1), o->hidden[i])), o->dropout);
    return tcc_linear(x, numbered(name, sizeof name, "fc", o->n_hidden + 1), o->outputs);
}

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "cnn")

tcc_tensor tcc_cnn(tcc_trace *t, tcc_tensor x, const tcc_cnn_options *o) {
    if (!o) return tcc_fail(t, "the options are NULL");
    x = tcc_max_pool(tcc_relu(tcc_conv_layer(x, "conv1", o->channels1, 3, .padding = 1)), 2);
    x = tcc_max_pool(tcc_relu(tcc_conv_layer(x, "conv2", o->channels2, 3, .padding = 1)), 2);
    x = tcc_dropout(tcc_flatten(x, 1), o->dropout);
    x = tcc_dropout(tcc_relu(tcc_linear(x, "fc1", o->hidden)), o->dropout);
    return tcc_linear(x, "fc2", o->classes);
}

/* -- ResNet -- */

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(t, "resnet")

/* Convolution without bias, initialized as torchvision does (He normal, fan_out), then batch norm. */
static tcc_tensor conv_norm(tcc_trace *t, tcc_tensor x, const char *conv, const char *norm, int64_t channels,
                            int64_t kernel, int64_t stride) {
    const tcc_init init = {.kind = TCC_INIT_KAIMING_NORMAL, .a = sqrt(2), .fan_in = channels * kernel * kernel};
    return tcc_batch_norm(tcc_conv_layer(x, conv, channels, kernel, .stride = stride, .padding = kernel / 2,
                                         .no_bias = true, .weight_init = &init),
                          norm);
}

static tcc_tensor shortcut(tcc_trace *t, tcc_tensor x, int64_t channels, int64_t stride) {
    if (stride == 1 && tcc_dim(x, 1) == channels) return x;
    return conv_norm(t, x, "downsample.0", "downsample.1", channels, 1, stride);
}

static tcc_tensor basic_block(tcc_trace *t, tcc_tensor x, int64_t planes, int64_t stride) {
    tcc_tensor y = tcc_relu(conv_norm(t, x, "conv1", "bn1", planes, 3, stride));
    y = conv_norm(t, y, "conv2", "bn2", planes, 3, 1);
    return tcc_relu(tcc_add(y, shortcut(t, x, planes, stride)));
}

static tcc_tensor bottleneck(tcc_trace *t, tcc_tensor x, int64_t planes, int64_t stride) {
    tcc_tensor y = tcc_relu(conv_norm(t, x, "conv1", "bn1", planes, 1, 1));
    y = tcc_relu(conv_norm(t, y, "conv2", "bn2", planes, 3, stride));
    y = conv_norm(t, y, "conv3", "bn3", 4 * planes, 1, 1);
    return tcc_relu(tcc_add(y, shortcut(t, x, 4 * planes, stride)));
}

tcc_tensor tcc_resnet(tcc_trace *t, tcc_tensor x, const tcc_resnet_options *o) {
    static const struct {
        int depth, blocks[4];
        bool bottleneck;
    } family[] = {{18, {2, 2, 2, 2}, false}, {34, {3, 4, 6, 3}, false}, {50, {3, 4, 6, 3}, true}};
    if (!o) return tcc_fail(t, "the options are NULL");
    int f = 0;
    while (f < 3 && family[f].depth != o->depth) f++;
    if (f == 3) return tcc_fail(t, "depth must be 18, 34 or 50, not %d", o->depth);
    const extent *bad = first_below_1(EXTENTS({"classes", o->classes}, {"width", o->width}));
    if (bad) return tcc_fail(t, "%s must be 1 or more, not %lld", bad->name, (long long)bad->value);

    x = o->cifar_stem ? conv_norm(t, x, "conv1", "bn1", o->width, 3, 1)
                      : conv_norm(t, x, "conv1", "bn1", o->width, 7, 2);
    x = tcc_relu(x);
    if (!o->cifar_stem) x = tcc_max_pool(x, 3, .stride = 2, .padding = 1);
    for (int stage = 0; stage < 4; stage++) {
        int64_t planes = o->width << stage;
        for (int block = 0; block < family[f].blocks[stage]; block++) {
            int64_t stride = stage && !block ? 2 : 1;
            tcc_scope(t, "layer%d.%d", stage + 1, block);
            tcc_checkpoint_segment(t);
            x = family[f].bottleneck ? bottleneck(t, x, planes, stride) : basic_block(t, x, planes, stride);
            tcc_checkpoint_segment_end(t);
            tcc_scope_end(t);
        }
    }
    int64_t axes[] = {2, 3};
    return tcc_linear(tcc_mean(x, 2, axes), "fc", o->classes);
}
