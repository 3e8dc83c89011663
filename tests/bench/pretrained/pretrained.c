/* SPDX-License-Identifier: MIT
 * Our side of pretrained.py: a network with weights of other code: logits, loss and gradients of one batch.
 *   bench-pretrained NETWORK WEIGHTS BATCH RESULT
 * BATCH has "x" and "y" as safetensors; RESULT gets "logits", "loss" and "grad.NAME" of each parameter. */
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, NAME = 200 };

/* -- Networks -- */

/* One of ViT's layers, by the names of Hugging Face's code. x [B, T, C] */
static tcc_tensor vit_layer(tcc_tensor x, int64_t heads) {
    static const char *const names[] = {"attention.q_proj", "attention.k_proj", "attention.v_proj"};
    const int64_t batch = tcc_dim(x, 0), length = tcc_dim(x, 1), width = tcc_dim(x, 2);
    const tcc_tensor y = tcc_layer_norm(x, "layernorm_before", .eps = 1e-12);
    tcc_tensor parts[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = tcc_reshape(tcc_linear(y, names[i], width), TCC_DIMS(batch, length, heads, width / heads));
        parts[i] = tcc_transpose(parts[i], TCC_DIMS(0, 2, 1, 3));
    }
    const tcc_tensor seen = tcc_transpose(tcc_attention(parts[0], parts[1], parts[2]), TCC_DIMS(0, 2, 1, 3));
    x = tcc_add(x, tcc_linear(tcc_reshape(seen, TCC_DIMS(batch, length, width)), "attention.o_proj", width));
    const tcc_tensor h = tcc_linear(tcc_layer_norm(x, "layernorm_after", .eps = 1e-12), "mlp.fc1", 4 * width);
    return tcc_add(x, tcc_linear(tcc_gelu(h), "mlp.fc2", width));
}

/* ViT-tiny (Touvron et al. 2021) for images of 224 x 224. */
static tcc_tensor vit_tiny(tcc_trace *t, tcc_tensor x, int64_t classes) {
    enum { WIDTH = 192, HEADS = 3, LAYERS = 12, PATCH = 16 };
    const tcc_init zeros = {.kind = TCC_INIT_ZEROS};
    const int64_t batch = tcc_dim(x, 0), patches = tcc_dim(x, 2) / PATCH * (tcc_dim(x, 3) / PATCH);
    tcc_scope(t, "embeddings");
    x = tcc_conv_layer(x, "patch_embeddings.projection", WIDTH, PATCH, .stride = PATCH);
    x = tcc_transpose(tcc_reshape(x, TCC_DIMS(batch, WIDTH, patches)), TCC_DIMS(0, 2, 1));
    const tcc_tensor first = tcc_param(t, "cls_token", zeros, TCC_DIMS(1, 1, WIDTH));
    const tcc_tensor rows[] = {tcc_broadcast(first, TCC_DIMS(batch, 1, WIDTH)), x};
    x = tcc_concat(rows, 2, 1);
    x = tcc_add(x, tcc_param(t, "position_embeddings", zeros, TCC_DIMS(1, patches + 1, WIDTH)));
    tcc_scope_end(t);
    for (int i = 0; i < LAYERS; i++) {
        tcc_scope(t, "layers.%d", i);
        x = vit_layer(x, HEADS);
        tcc_scope_end(t);
    }
    x = tcc_layer_norm(x, "layernorm", .eps = 1e-12);
    return tcc_linear(tcc_reshape(tcc_slice(x, 1, 0, 1), TCC_DIMS(batch, WIDTH)), "classifier", classes);
}

static tcc_tensor logits_of(tcc_trace *t, const char *name, tcc_tensor x) {
    tcc_bert_options o = {.size = sizeof o, .layers = 6, .heads = 12, .width = 384, .context = 512, .vocab = 30522};
    const tcc_distilbert_options d = {
        .layers = 6, .heads = 12, .width = 768, .context = 512, .vocab = 30522, .classes = 2};
    o.classes = 2;
    o.roberta = !strcmp(name, "roberta");
    if (o.roberta) o.layers = 12, o.width = 768, o.vocab = 50265;
    if (!strcmp(name, "minilm") || o.roberta) return tcc_bert(t, x, &o);
    if (!strcmp(name, "distilbert")) return tcc_distilbert(t, x, &d);
    if (!strcmp(name, "vit-tiny")) return vit_tiny(t, x, 1000);
    return tcc_resnet(t, x,
                      &(tcc_resnet_options){.depth = atoi(name + strlen("resnet")), .classes = 1000, .width = 64});
}

static void network(tcc_trace *t, void *user) {
    const tcc_tensor logits = logits_of(t, user, tcc_input(t, "x"));
    tcc_output(t, "logits", logits);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

/* -- One step -- */

static void check(tcc_context *cx, tcc_status status) {
    if (status == TCC_OK) return;
    fprintf(stderr, "%s\n", tcc_context_error(cx));
    exit(1);
}

static void write_results(tcc_context *cx, tcc_model *m, const char *path) {
    static tcc_array results[MOST], params[MOST];
    static char names[MOST][NAME];
    float loss = (float)tcc_model_loss(m);
    int count = 2;
    check(cx, tcc_model_output(m, "logits", &results[0]));
    results[0].name = "logits";
    results[1] = (tcc_array){.name = "loss", .dtype = TCC_F32, .data = &loss};
    for (int i = 0; count < MOST && tcc_model_param(m, i, &params[i]); i++) {
        if (tcc_model_gradient(m, params[i].name, &results[count]) != TCC_OK) continue; /* a buffer */
        snprintf(names[count], NAME, "grad.%s", params[i].name);
        results[count].name = names[count];
        count++;
    }
    check(cx, tcc_safetensors_write(cx, path, results, count, NULL, 0));
}

int main(int argc, char **argv) {
    tcc_array batch[2], all[MOST];
    tcc_safetensors *file;
    tcc_context *cx;
    tcc_model *m;
    char *report;
    if (argc != 5) return 2;
    const tcc_model_options o = {.size = sizeof o, .keep_gradients = true};
    int count = 0;
    if (tcc_context_create(&cx) != TCC_OK) return 1;
    check(cx, tcc_safetensors_open(cx, argv[3], &file));
    for (int i = 0; i < 2; i++) {
        batch[i] = tcc_safetensors_get(file, tcc_safetensors_find(file, i ? "y" : "x"));
        batch[i].name = i ? "y" : "x";
    }
    check(cx, tcc_model_create(cx, network, argv[1], &o, &m));
    check(cx, tcc_model_compile(m, true, batch, 2));
    while (count < MOST && tcc_model_param(m, count, &all[count])) count++;
    check(cx, tcc_weights_load(cx, argv[2], all, count, NULL, &report));
    printf("%s", report);
    tcc_string_free(report);
    check(cx, tcc_model_train(m, batch, 2));
    write_results(cx, m, argv[4]);
    tcc_model_destroy(m);
    tcc_safetensors_close(file);
    tcc_context_destroy(cx);
    return 0;
}
