/* SPDX-License-Identifier: MIT
 * Small networks of twelve kinds by the public API alone, as people write them; networks.py has the same in PyTorch.
 * bench-networks NAME f32|bf16 [SECONDS] times training steps with AdamW and prints one JSON line, behind SECONDS
 * --explain the table of kernels, too; bench-networks --list prints the rows as JSON lines. bf16 is mixed precision.
 * TCC_NUM_THREADS is the number of threads. */
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_INPUTS = 4, WARM_UP = 2, MOST_STEPS = 10000 };

typedef tcc_tensor tensor;

static int labels;
/* A name of its own for each layer, the same in each trace. */
static const char *label(void) {
    static char names[64][8];
    char *name = names[labels % 64];
    snprintf(name, sizeof names[0], "l%d", labels++);
    return name;
}

static tensor conv_norm(tensor x, int64_t channels, int64_t kernel, int64_t stride, int64_t groups) {
    x = tcc_conv_layer(x, label(), channels, kernel, .stride = stride, .padding = kernel / 2, .groups = groups,
                       .no_bias = true);
    return tcc_batch_norm(x, label());
}

static tensor classify(tensor x, int64_t classes, tensor y) {
    return tcc_cross_entropy(tcc_linear(x, label(), classes), y);
}

static tensor mobilenet(const tensor *in) {
    static const int64_t blocks[][2] = {{16, 1}, {24, 2}, {24, 1}, {32, 2}, {32, 1}, {64, 2}, {64, 1}};
    tensor x = tcc_relu6(conv_norm(in[0], 32, 3, 2, 1));
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const int64_t from = tcc_dim(x, 1), to = blocks[i][0], stride = blocks[i][1];
        tensor h = tcc_relu6(conv_norm(x, 4 * from, 1, 1, 1));
        h = conv_norm(tcc_relu6(conv_norm(h, 4 * from, 3, stride, 4 * from)), to, 1, 1, 1);
        x = stride == 1 && from == to ? tcc_add(x, h) : h;
    }
    return classify(tcc_mean(tcc_relu6(conv_norm(x, 256, 1, 1, 1)), TCC_DIMS(2, 3)), 100, in[1]);
}

static tensor twice(tensor x, int64_t channels) {
    return tcc_relu(conv_norm(tcc_relu(conv_norm(x, channels, 3, 1, 1)), channels, 3, 1, 1));
}

static tensor rise(tensor x, tensor beside, int64_t channels) {
    x = tcc_conv_transpose_layer(x, label(), channels, 2, .stride = 2);
    return twice(tcc_concat(((tensor[]){beside, x}), 2, 1), channels);
}

static tensor unet(const tensor *in) {
    tensor a = twice(in[0], 16), b = twice(tcc_max_pool(a, 2), 32), c = twice(tcc_max_pool(b, 2), 64);
    tensor x = rise(rise(c, b, 32), a, 16);
    return tcc_cross_entropy(tcc_conv_layer(x, label(), 4, 1), in[1], .axis = 1);
}

static tensor deeplab(const tensor *in) {
    tensor x = tcc_relu(conv_norm(tcc_relu(conv_norm(in[0], 32, 3, 2, 1)), 64, 3, 2, 1)), parts[4];
    for (int i = 0; i < 4; i++) {
        const int64_t far = 2 * i;
        parts[i] = tcc_conv_layer(x, label(), 32, i ? 3 : 1, .padding = far, .dilation = i ? far : 1, .no_bias = true);
        parts[i] = tcc_relu(tcc_batch_norm(parts[i], label()));
    }
    x = tcc_relu(conv_norm(tcc_concat(parts, 4, 1), 64, 1, 1, 1));
    x = tcc_conv_layer(x, label(), 4, 1);
    return tcc_cross_entropy(tcc_resize_bilinear(x, false, TCC_DIMS(96, 96)), in[1], .axis = 1);
}

enum { LLAMA_WIDTH = 256, LLAMA_HEADS = 4, LLAMA_VOCAB = 4096 };

static tensor turned(tensor x, tensor cosine, tensor sine) {
    const int64_t half = tcc_dim(x, 3) / 2;
    tensor a = tcc_slice(x, 3, 0, half), b = tcc_slice(x, 3, half, 2 * half);
    tensor low = tcc_sub(tcc_mul(a, cosine), tcc_mul(b, sine)), high = tcc_add(tcc_mul(b, cosine), tcc_mul(a, sine));
    return tcc_concat(((tensor[]){low, high}), 2, 3);
}

static tensor heads(tensor x) {
    const int64_t n = tcc_dim(x, 0), t = tcc_dim(x, 1);
    x = tcc_linear(x, label(), LLAMA_WIDTH, .no_bias = true);
    return tcc_transpose(tcc_reshape(x, TCC_DIMS(n, t, LLAMA_HEADS, LLAMA_WIDTH / LLAMA_HEADS)), TCC_DIMS(0, 2, 1, 3));
}

static tensor llama(const tensor *in) {
    tensor x = tcc_embedding(in[0], label(), LLAMA_VOCAB, LLAMA_WIDTH);
    const int64_t n = tcc_dim(x, 0), t = tcc_dim(x, 1);
    for (int i = 0; i < 2; i++) {
        tensor h = tcc_rms_norm(x, label());
        tensor q = turned(heads(h), in[2], in[3]), k = turned(heads(h), in[2], in[3]), v = heads(h);
        h = tcc_transpose(tcc_attention(q, k, v, .causal = true), TCC_DIMS(0, 2, 1, 3));
        x = tcc_add(x, tcc_linear(tcc_reshape(h, TCC_DIMS(n, t, LLAMA_WIDTH)), label(), LLAMA_WIDTH, .no_bias = true));
        h = tcc_rms_norm(x, label());
        tensor gate = tcc_silu(tcc_linear(h, label(), 704, .no_bias = true));
        h = tcc_mul(gate, tcc_linear(h, label(), 704, .no_bias = true));
        x = tcc_add(x, tcc_linear(h, label(), LLAMA_WIDTH, .no_bias = true));
    }
    return tcc_cross_entropy(tcc_linear(tcc_rms_norm(x, label()), label(), LLAMA_VOCAB, .no_bias = true), in[1]);
}

static tensor vit(const tensor *in) {
    tensor x = tcc_conv_layer(in[0], label(), 192, 16, .stride = 16);
    x = tcc_transpose(tcc_reshape(x, TCC_DIMS(tcc_dim(x, 0), 192, 36)), TCC_DIMS(0, 2, 1));
    for (int i = 0; i < 4; i++) {
        tensor h = tcc_layer_norm(x, label());
        x = tcc_add(x, tcc_multi_head_attention(h, h, h, label(), 3));
        h = tcc_gelu(tcc_linear(tcc_layer_norm(x, label()), label(), 768));
        x = tcc_add(x, tcc_linear(h, label(), 192));
    }
    return classify(tcc_mean(tcc_layer_norm(x, label()), TCC_DIMS(1)), 100, in[1]);
}

static tensor lstm(const tensor *in) {
    return classify(tcc_lstm(tcc_embedding(in[0], label(), 1000, 128), label(), 128).all, 1000, in[1]);
}

static tensor dlrm(const tensor *in) {
    tensor low = tcc_relu(tcc_linear(tcc_relu(tcc_linear(in[0], label(), 64)), label(), 16));
    tensor tables = tcc_embedding(in[1], label(), 8000, 16);
    tensor z = tcc_concat(((tensor[]){tcc_expand_dims(low, TCC_DIMS(1)), tables}), 2, 1);
    tensor pairs = tcc_reshape(tcc_matmul(z, tcc_transpose(z, TCC_DIMS(0, 2, 1))), TCC_DIMS(tcc_dim(z, 0), 81));
    tensor h = tcc_relu(tcc_linear(tcc_concat(((tensor[]){low, pairs}), 2, 1), label(), 64));
    return tcc_bce_with_logits(tcc_linear(h, label(), 1), in[2]);
}

static tensor graph(const tensor *in) {
    tensor x = in[0];
    for (int i = 0; i < 2; i++) {
        tensor h = tcc_relu(tcc_linear(x, label(), 64));
        h = tcc_scatter_add(tcc_full_like(h, 0), in[2], tcc_take(h, in[1], 0), 0);
        x = tcc_relu(tcc_linear(tcc_concat(((tensor[]){x, h}), 2, 1), label(), 64));
    }
    return classify(x, 10, in[3]);
}

static tensor convnext(const tensor *in) {
    tensor x = tcc_conv_layer(in[0], label(), 64, 4, .stride = 4);
    for (int i = 0; i < 3; i++) {
        tensor h = tcc_conv_layer(x, label(), 64, 7, .padding = 3, .groups = 64);
        h = tcc_layer_norm(tcc_transpose(h, TCC_DIMS(0, 2, 3, 1)), label());
        h = tcc_linear(tcc_gelu(tcc_linear(h, label(), 256)), label(), 64);
        x = tcc_add(x, tcc_transpose(h, TCC_DIMS(0, 3, 1, 2)));
    }
    return classify(tcc_layer_norm(tcc_mean(x, TCC_DIMS(2, 3)), label()), 100, in[1]);
}

static tensor noised(tensor x, tensor time, int64_t channels) {
    tensor h = tcc_conv_layer(tcc_silu(tcc_group_norm(x, label(), 8)), label(), channels, 3, .padding = 1);
    h = tcc_add(h, tcc_expand_dims(tcc_linear(time, label(), channels), TCC_DIMS(2, 3)));
    h = tcc_conv_layer(tcc_silu(tcc_group_norm(h, label(), 8)), label(), channels, 3, .padding = 1);
    return tcc_add(h, tcc_dim(x, 1) == channels ? x : tcc_conv_layer(x, label(), channels, 1));
}

static tensor diffusion(const tensor *in) {
    tensor a = noised(tcc_conv_layer(in[0], label(), 32, 3, .padding = 1), in[1], 32);
    tensor x = noised(tcc_conv_layer(a, label(), 64, 3, .padding = 1, .stride = 2), in[1], 64);
    x = tcc_conv_layer(tcc_resize_nearest(x, false, TCC_DIMS(32, 32)), label(), 32, 3, .padding = 1);
    x = noised(tcc_concat(((tensor[]){a, x}), 2, 1), in[1], 32);
    return tcc_mse_loss(tcc_conv_layer(x, label(), 3, 3, .padding = 1), in[2]);
}

static tensor tcn(const tensor *in) {
    tensor x = in[0];
    for (int64_t far = 1; far <= 8; far *= 2) {
        tensor h = tcc_conv_layer(x, label(), 32, 3, .dilation = far, .padding_before = {2 * far});
        x = tcc_add(x, tcc_relu(h));
    }
    return classify(tcc_mean(x, TCC_DIMS(2)), 10, in[1]);
}

static tensor nerf(const tensor *in) {
    tensor parts[13] = {in[0]};
    for (int k = 0; k < 6; k++) {
        tensor angle = tcc_scale(in[0], (double)(1 << k));
        parts[1 + 2 * k] = tcc_sin(angle), parts[2 + 2 * k] = tcc_cos(angle);
    }
    tensor code = tcc_concat(parts, 13, 1), x = code;
    for (int i = 0; i < 6; i++) {
        if (i == 3) x = tcc_concat(((tensor[]){x, code}), 2, 1);
        x = tcc_relu(tcc_linear(x, label(), 128));
    }
    return tcc_mse_loss(tcc_sigmoid(tcc_linear(x, label(), 4)), in[1]);
}

/* Inputs: c floats in [-1, 1), u in (0, 1), iN i32 below N. */
typedef struct row {
    const char *name, *inputs;
    tensor (*loss)(const tensor *in);
} row;

static const row rows[] = {
    {"mobilenet", "c[8,3,96,96] i100[8]", mobilenet},
    {"unet", "c[2,3,96,96] i4[2,96,96]", unet},
    {"deeplab", "c[2,3,96,96] i4[2,96,96]", deeplab},
    {"llama", "i4096[4,128] i4096[4,128] c[128,32] c[128,32]", llama},
    {"vit", "c[8,3,96,96] i100[8]", vit},
    {"lstm", "i1000[64,16] i1000[64,16]", lstm},
    {"dlrm", "c[512,13] i8000[512,8] u[512,1]", dlrm},
    {"graph", "c[2000,64] i2000[10000] i2000[10000] i10[2000]", graph},
    {"convnext", "c[8,3,64,64] i100[8]", convnext},
    {"diffusion", "c[4,3,32,32] c[4,64] c[4,3,32,32]", diffusion},
    {"tcn", "c[16,32,256] i10[16]", tcn},
    {"nerf", "c[4096,3] u[4096,4]", nerf},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

typedef struct bench {
    const row *row;
    int n;
    char names[MOST_INPUTS][8];
    tcc_array x[MOST_INPUTS];
} bench;

static void build(tcc_trace *t, void *user) {
    const bench *b = user;
    tensor in[MOST_INPUTS];
    labels = 0;
    for (int i = 0; i < b->n; i++) in[i] = tcc_input(t, b->names[i]);
    tcc_loss(t, b->row->loss(in));
}

static double draw(void) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(state >> 40) * 0x1p-24;
}

static void parse(bench *b) {
    for (const char *p = b->row->inputs; *p && b->n < MOST_INPUTS; b->n++) {
        tcc_array *a = &b->x[b->n];
        char *end;
        const char kind = *p++;
        const int modulus = (int)strtol(p, &end, 10);
        snprintf(b->names[b->n], sizeof b->names[0], "x%d", b->n);
        *a = (tcc_array){.name = b->names[b->n], .dtype = kind == 'i' ? TCC_I32 : TCC_F32};
        int64_t n = 1;
        for (p = end; *p && *p != ']'; n *= a->dims[a->rank++]) a->dims[a->rank] = strtoll(p + 1, (char **)&p, 10);
        a->data = malloc((size_t)n * 4);
        for (int64_t i = 0; a->data && i < n; i++) {
            const double u = draw();
            if (kind == 'i') ((int32_t *)a->data)[i] = (int32_t)(u * modulus);
            else ((float *)a->data)[i] = (float)(kind == 'u' ? u : 2 * u - 1);
        }
        p += strspn(p, "] ");
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tcc_status measure(tcc_context *cx, bench *b, bool bf16, double seconds, bool explain) {
    const tcc_optimizer_options adam = {
        .size = sizeof adam, .kind = TCC_ADAMW, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    const tcc_model_options options = {.size = sizeof options,
                                       .seed = 1,
                                       .optimizer = &adam,
                                       .mixed_precision = bf16 ? TCC_MIXED_BF16 : TCC_MIXED_NONE};
    tcc_model *m;
    double least = 1e300;
    int64_t parameters = 0;
    tcc_status status = tcc_model_create(cx, build, b, &options, &m);
    if (status != TCC_OK) return status;
    tcc_model_profile(m, explain);
    int steps = 0;
    for (const double begin = now();
         status == TCC_OK && steps < MOST_STEPS && (steps <= WARM_UP || now() - begin < seconds);) {
        const double start = now();
        status = tcc_model_train(m, b->x, b->n);
        const double loss = tcc_model_loss(m); /* waits */
        if (steps++ >= WARM_UP && now() - start < least) least = now() - start;
        if (loss != loss) return TCC_EINVAL;
    }
    tcc_array p;
    for (int i = 0; tcc_model_param(m, i, &p); i++) {
        int64_t n = tcc_model_param_is_trained(m, i);
        for (int d = 0; d < p.rank; d++) n *= p.dims[d];
        parameters += n;
    }
    char *report = NULL;
    if (status == TCC_OK && explain && tcc_model_report(m, "kernels", &report) == TCC_OK) puts(report);
    free(report);
    tcc_model_destroy(m);
    if (status == TCC_OK)
        printf("{\"network\": \"%s\", \"step_ms\": %.4f, \"parameters\": %lld}\n", b->row->name, 1e3 * least,
               (long long)parameters);
    return status;
}

int main(int argc, char **argv) {
    bench b = {0};
    for (int i = 0; i < ROWS && argc == 2 && !strcmp(argv[1], "--list"); i++)
        printf("{\"name\": \"%s\", \"inputs\": \"%s\"}\n", rows[i].name, rows[i].inputs);
    if (argc == 2 && !strcmp(argv[1], "--list")) return 0;
    for (int i = 0; i < ROWS && argc > 2; i++)
        if (!strcmp(rows[i].name, argv[1])) b.row = &rows[i];
    if (!b.row || (strcmp(argv[2], "f32") && strcmp(argv[2], "bf16"))) {
        fprintf(stderr, "usage: bench-networks --list | NAME f32|bf16 [SECONDS [--explain]]\n");
        return 2;
    }
    tcc_context *cx;
    if (tcc_context_create(&cx) != TCC_OK) return 1;
    parse(&b);
    const tcc_status status = measure(cx, &b, !strcmp(argv[2], "bf16"), argc > 3 ? strtod(argv[3], NULL) : 1,
                                      argc > 4 && !strcmp(argv[4], "--explain"));
    if (status != TCC_OK) fprintf(stderr, "bench-networks: %s\n", tcc_context_error(cx));
    for (int i = 0; i < b.n; i++) free(b.x[i].data);
    tcc_context_destroy(cx);
    return status != TCC_OK;
}
