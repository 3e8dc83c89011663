/* SPDX-License-Identifier: MIT */
#include "harness/scale_shapes.h"

#include <string.h>

static tcc_tensor input(tcc_trace *t) { return tcc_input(t, "x"); }

static void lose(tcc_trace *t, tcc_tensor h) { tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL)); }

static void chain(tcc_trace *t, int64_t parts) {
    tcc_tensor w = tcc_param(t, "w", (tcc_init){TCC_INIT_NORMAL, .b = 0.1}, TCC_DIMS(16)), h = input(t);
    for (int64_t i = 0; i < parts; i++) h = tcc_add(h, i % 2 ? w : tcc_tanh(h));
    lose(t, h);
}

static void residual(tcc_trace *t, int64_t parts) {
    tcc_tensor h = input(t);
    for (int64_t i = 0; i < parts; i++) {
        tcc_scope(t, "block.%lld", (long long)i);
        h = tcc_add(h, tcc_linear(tcc_relu(tcc_linear(tcc_layer_norm(h, "norm"), "up", 32)), "down", 16));
        tcc_scope_end(t);
    }
    lose(t, h);
}

static void gpt(tcc_trace *t, int64_t parts) {
    const tcc_gpt_options o = {.layers = parts, .heads = 2, .width = 32, .context = 8, .vocab = 65};
    tcc_tensor tokens = tcc_cast(tcc_mul(input(t), tcc_constant(t, 0, TCC_F32, 0, NULL)), TCC_I32);
    lose(t, tcc_gpt(t, tcc_slice(tokens, 1, 0, 8), &o));
}

static void fan(tcc_trace *t, int64_t parts) {
    tcc_tensor h = tcc_linear(input(t), "in", 16), sum = h;
    for (int64_t i = 0; i < parts; i++) sum = tcc_add(sum, tcc_sin(tcc_scale(h, 1 + (double)i / 1024)));
    lose(t, sum);
}

static void rnn(tcc_trace *t, int64_t parts) {
    tcc_tensor x = input(t), h = tcc_scale(x, 0);
    for (int64_t i = 0; i < parts; i++) h = tcc_tanh(tcc_add(tcc_linear(h, "hidden", 16), tcc_linear(x, "in", 16)));
    lose(t, h);
}

/* Each frame reads its part of one tensor that is computed where it is read. */
static void ctc(tcc_trace *t, int64_t parts) {
    const int64_t batch = 8, classes = 40, labels = 32;
    tcc_tensor h = tcc_reshape(tcc_linear(input(t), "in", parts * classes), TCC_DIMS(batch, parts, classes));
    tcc_tensor x = tcc_log_softmax(tcc_transpose(h, TCC_DIMS(1, 0, 2)), -1),
               y = tcc_add_scalar(tcc_iota(t, 1, TCC_I32, TCC_DIMS(batch, labels)), 1);
    tcc_tensor frames = tcc_full_like(tcc_iota(t, 0, TCC_I32, TCC_DIMS(batch)), (double)parts);
    tcc_loss(t, tcc_ctc_loss(x, y, frames, tcc_full_like(frames, (double)labels)));
}

static const scale_shape shapes[] = {{"chain", chain}, {"residual", residual}, {"gpt", gpt},
                                     {"fan", fan},     {"rnn", rnn},           {"ctc", ctc}};

const scale_shape *scale_shape_find(const char *name) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(name, shapes[i].name)) return &shapes[i];
    return NULL;
}

typedef struct job {
    const scale_shape *shape;
    int64_t parts;
} job;

static void build(tcc_trace *t, void *user) {
    const job *j = user;
    j->shape->build(t, j->parts);
}

tcc_status scale_compile(tcc_context *cx, const scale_shape *shape, int64_t parts, tcc_model **out) {
    static float zeros[8 * 16];
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {8, 16}, .data = zeros};
    const tcc_model_options options = {.size = sizeof options, .compile_only = true};
    job j = {shape, parts};
    *out = NULL;
    tcc_status status = tcc_model_create(cx, build, &j, &options, out);
    return status == TCC_OK ? tcc_model_compile(*out, true, &batch, 1) : status;
}
