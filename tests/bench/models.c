// SPDX-License-Identifier: MIT
#include "models.h"
#include "segmentation.h"

#include <stdlib.h>
#include <string.h>

#define ADAMW_(beta2_, ...)                 \
    {.size = sizeof(tcc_optimizer_options), \
     .kind = TCC_ADAMW,                     \
     .lr = 1e-3,                            \
     .beta1 = 0.9,                          \
     .beta2 = (beta2_),                     \
     .eps = 1e-8,                           \
     __VA_ARGS__}
#define ADAMW_GPT ADAMW_(0.99, .weight_decay = 0.1, .clip_grad_norm = 1)
#define ADAM ADAMW_(0.999, .weight_decay = 0)
#define SGD                                 \
    {.size = sizeof(tcc_optimizer_options), \
     .kind = TCC_SGD,                       \
     .lr = 0.1,                             \
     .momentum = 0.9,                       \
     .weight_decay = 5e-4,                  \
     .decay_all = true}
/* A rate at which weights that nobody trained before stay finite for as long as is measured. */
#define SGD_PIXELS(all)                     \
    {.size = sizeof(tcc_optimizer_options), \
     .kind = TCC_SGD,                       \
     .lr = 1e-3,                            \
     .momentum = 0.9,                       \
     .weight_decay = 5e-4,                  \
     .decay_all = (all)}
#define GPT2 {.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocab = 50257, .bias = true}
#define NETWORK(name_, batch_, height, width, ...) \
    {.name = (name_), .batch = (batch_), .crop = {(height), (width)}, .optimizer = __VA_ARGS__}

const bench_model bench_models[] = {
    {.name = "char_gpt",
     .gpt = {.layers = 4, .heads = 4, .width = 128, .context = 64, .vocab = 65},
     .batch = 12,
     .length = 64,
     .optimizer = ADAMW_GPT},
    {.name = "gpt_10m",
     .gpt = {.layers = 6, .heads = 6, .width = 384, .context = 256, .vocab = 65},
     .batch = 8,
     .length = 256,
     .optimizer = ADAMW_GPT},
    {.name = "gpt2_124m", .gpt = GPT2, .batch = 4, .length = 64, .optimizer = ADAMW_GPT},
    {.name = "gpt2_1024", .gpt = GPT2, .batch = 16, .length = 1024, .optimizer = ADAMW_GPT},
    {.name = "mnist_cnn", .batch = 64, .length = 28, .cnn = true, .optimizer = ADAM},
    {.name = "resnet18_cifar", .batch = 32, .length = 32, .resnet = 18, .optimizer = SGD},
    {.name = "resnet50", .batch = 128, .length = 224, .resnet = 50, .optimizer = SGD},
    {.name = "mlp", .batch = 128, .optimizer = ADAM},
    {.name = "lstm_1000", .batch = 32, .length = 1000, .lstm = 128, .optimizer = ADAM},
    NETWORK("pp_liteseg_t", 8, 768, 768, SGD_PIXELS(false)),
    NETWORK("stdc1_seg", 4, 768, 1536, SGD_PIXELS(false)),
    NETWORK("ddrnet_23", 6, 1024, 1024, SGD_PIXELS(false)),
    NETWORK("regseg", 4, 1024, 1024, SGD_PIXELS(true)),
    NETWORK("segformer_b0", 2, 1024, 1024, ADAMW_(0.999, .weight_decay = 0)),
};

const int n_bench_models = sizeof bench_models / sizeof bench_models[0];

const bench_model *bench_model_find(const char *name) {
    for (int i = 0; i < n_bench_models; i++)
        if (!strcmp(bench_models[i].name, name)) return &bench_models[i];
    return NULL;
}

enum { PIXEL_CLASSES = 19 };

static int64_t classes_of(const bench_model *c) { return c->gpt.layers ? c->gpt.vocab : c->resnet == 50 ? 1000 : 10; }

static void build_network(tcc_trace *t, const bench_model *c) {
    const bench_network *n = bench_network_find(c->name);
    const tcc_segmentation heads = n->make(t, tcc_input(t, "x"), n->name, PIXEL_CLASSES);
    tcc_loss(t, bench_network_loss(t, n, &heads, tcc_input(t, "y"), PIXEL_CLASSES));
}

void bench_model_build(tcc_trace *t, void *user) {
    const bench_model *c = user;
    if (c->crop[0]) {
        build_network(t, c);
        return;
    }
    tcc_tensor x = tcc_input(t, "x"), logits;
    if (c->gpt.layers) logits = tcc_gpt(t, x, &c->gpt);
    else if (c->cnn)
        logits = tcc_cnn(t, x, &(tcc_cnn_options){.channels1 = 32, .channels2 = 64, .hidden = 128, .classes = 10});
    else if (c->resnet)
        logits =
            tcc_resnet(t, x,
                       &(tcc_resnet_options){
                           .depth = c->resnet, .classes = classes_of(c), .width = 64, .cifar_stem = c->length == 32});
    else if (c->lstm)
        logits = tcc_linear(tcc_reshape(tcc_lstm(x, "lstm", c->lstm).h, TCC_DIMS(c->batch, c->lstm)), "fc", 10);
    else logits = tcc_mlp(t, x, &(tcc_mlp_options){.n_hidden = 2, .hidden = (int64_t[]){1024, 1024}, .outputs = 10});
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static uint64_t random_state = 1;
static uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

tcc_status bench_model_begin(const bench_model *c, tcc_model *m) {
    return c->crop[0] ? bench_network_begin(m) : TCC_OK;
}

void bench_model_batch(const bench_model *c, tcc_array batch[2]) {
    if (c->crop[0]) {
        bench_network_batch(c->batch, c->crop[0], c->crop[1], PIXEL_CLASSES, batch);
        return;
    }
    int64_t classes = classes_of(c), numel = 1, targets = c->gpt.layers ? c->batch * c->length : c->batch;
    tcc_array x = {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {c->batch, c->cnn ? 1 : 3, c->length, c->length}};
    tcc_array y = {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {c->batch}};
    if (c->gpt.layers) {
        x = (tcc_array){.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {c->batch, c->length}};
        y = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 2, .dims = {c->batch, c->length}};
    } else if (c->lstm) {
        x = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 3, .dims = {c->length, c->batch, c->lstm}};
    } else if (!c->cnn && !c->resnet) {
        x = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {c->batch, 784}};
    }
    for (int d = 0; d < x.rank; d++) numel *= x.dims[d];
    x.data = aligned_alloc(64, (size_t)(numel * 4 + 63) / 64 * 64);
    y.data = aligned_alloc(64, (size_t)(targets * 4 + 63) / 64 * 64);
    if (!x.data || !y.data) exit(EXIT_FAILURE);
    for (int64_t i = 0; i < numel; i++) {
        if (x.dtype == TCC_I32) ((int32_t *)x.data)[i] = (int32_t)(random_bits() % (uint32_t)classes);
        else ((float *)x.data)[i] = (float)((double)random_bits() * 0x1p-30 - 1) * 1.7f; /* variance near 1 */
    }
    for (int64_t i = 0; i < targets; i++) ((int32_t *)y.data)[i] = (int32_t)(random_bits() % (uint32_t)classes);
    batch[0] = x;
    batch[1] = y;
}
