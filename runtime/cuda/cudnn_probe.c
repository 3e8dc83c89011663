/* SPDX-License-Identifier: MIT
 * A convolution whose first input channel alone is not 0: it is 1, with a NaN and an infinity. Filters of even outputs
 * are positive and of odd ones negative small whole numbers, so that each result is known, but for roundings. */
#include "runtime/cuda/cudnn_probe.h"
#include "runtime/cuda/probe_values.h"

#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

enum { SPATIAL = 3, SIZE = 8, MOST_CHANNELS = 64, BATCH = 8, ALIGNMENT = 256, WORKSPACE_BYTES = 16 << 20 };
enum { X, W, BIAS, Y, TENSORS };
static const double tolerance = 0.02; /* bf16 rounds each term, and the sum */

typedef struct probe {
    tcc_cudnn_conv_params p;
    int64_t bytes[TENSORS], offset[TENSORS], all_bytes; /* offset: in one piece of memory; a missing bias has 0 bytes */
    unsigned char *memory;
} probe;

/* Dense, with channels last or first, as the strides of `like` say. */
static void set_strides(int64_t *strides, const int64_t *like, int64_t channels, const int64_t *sizes) {
    const bool last = like[1] == 1;
    int64_t dense = last ? channels : 1;
    for (int i = SPATIAL; i-- > 0;) strides[2 + i] = dense, dense *= sizes[i];
    strides[1] = last ? 1 : dense;
    strides[0] = last ? dense : dense * channels;
}

static int64_t channels_of(int64_t like) { return like < MOST_CHANNELS ? like : MOST_CHANNELS; }

void tcc__cudnn_probe_params(const tcc_cudnn_conv_params *like, tcc_cudnn_conv_params *out) {
    const tcc_conv_params *l = &like->conv;
    tcc_conv_params *c = &out->conv;
    *out = (tcc_cudnn_conv_params){
        .type = like->type, .allow_tf32 = like->allow_tf32, .alignment = ALIGNMENT, .workspace_bytes = WORKSPACE_BYTES};
    *c = (tcc_conv_params){.batch = BATCH,
                           .groups = 1,
                           .in = channels_of(l->in),
                           .out = channels_of(l->out),
                           .bias = l->bias,
                           .relu = l->relu};
    for (int i = 0; i < SPATIAL; i++) {
        const bool absent = l->x_size[i] == 1 && l->y_size[i] == 1 && l->kernel[i] == 1;
        c->kernel[i] = l->kernel[i];
        c->stride[i] = c->dilation[i] = 1;
        c->pad_low[i] = c->pad_high[i] = (c->kernel[i] - 1) / 2;
        c->x_size[i] = absent ? 1 : SIZE;
        c->y_size[i] = c->x_size[i] + 2 * c->pad_low[i] - c->kernel[i] + 1;
    }
    set_strides(c->x_stride, l->x_stride, c->in, c->x_size);
    set_strides(c->y_stride, l->y_stride, c->out, c->y_size);
    set_strides(c->w_stride, l->w_stride, c->in, c->kernel);
}

static int64_t numel(int64_t outer, int64_t channels, const int64_t *sizes) {
    return outer * channels * sizes[0] * sizes[1] * sizes[2];
}

static void place_tensors(probe *o) {
    const tcc_conv_params *c = &o->p.conv;
    const int64_t elements[TENSORS] = {numel(BATCH, c->in, c->x_size), numel(c->out, c->in, c->kernel),
                                       c->bias ? c->out : 0, numel(BATCH, c->out, c->y_size)};
    for (int i = 0; i < TENSORS; i++) {
        o->bytes[i] = elements[i] * tcc_dtype_bytes((tcc_dtype)o->p.type);
        o->offset[i] = o->all_bytes;
        o->all_bytes += (o->bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

static int64_t offset_at(const int64_t *strides, int64_t outer, int64_t channel, const int64_t *at) {
    int64_t offset = outer * strides[0] + channel * strides[1];
    for (int i = 0; i < SPATIAL; i++) offset += at[i] * strides[2 + i];
    return offset;
}

/* Counts `at` up within the sizes; false: it was the last one. */
static bool next(int64_t *at, const int64_t *sizes) {
    for (int i = SPATIAL; i-- > 0;) {
        if (++at[i] < sizes[i]) return true;
        at[i] = 0;
    }
    return false;
}

static double value_of_x(const int64_t *at) {
    return at[1] == 1 && at[2] == 1 ? (double)NAN : at[1] == 6 && at[2] == 6 ? (double)INFINITY : 1;
}
static double value_of_w(int64_t out, const int64_t *at) {
    const double size = (double)(1 + (at[0] + at[1] + at[2]) % 3);
    return out % 2 ? -size : size;
}

static void fill(const probe *o) {
    const tcc_conv_params *c = &o->p.conv;
    memset(o->memory, 0, (size_t)o->all_bytes);
    int64_t at[SPATIAL] = {0};
    do
        for (int64_t b = 0; b < BATCH; b++)
            tcc_probe_put(o->memory + o->offset[X], o->p.type, offset_at(c->x_stride, b, 0, at), value_of_x(at));
    while (next(at, c->x_size));
    do
        for (int64_t k = 0; k < c->out; k++)
            tcc_probe_put(o->memory + o->offset[W], o->p.type, offset_at(c->w_stride, k, 0, at), value_of_w(k, at));
    while (next(at, c->kernel));
}

static double sum_at(const tcc_conv_params *c, int64_t out, const int64_t *at) {
    double sum = 0;
    int64_t tap[SPATIAL] = {0};
    do {
        int64_t from[SPATIAL];
        bool inside = true;
        for (int i = 0; i < SPATIAL; i++) {
            from[i] = at[i] + tap[i] - c->pad_low[i];
            inside = inside && from[i] >= 0 && from[i] < c->x_size[i];
        }
        if (inside) sum += value_of_x(from) * value_of_w(out, tap);
    } while (next(tap, c->kernel));
    return sum;
}

static const char *compare(const probe *o) {
    const tcc_conv_params *c = &o->p.conv;
    int64_t at[SPATIAL] = {0};
    do
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t k = 0; k < c->out; k++) {
                const double got = tcc_probe_get(o->memory + o->offset[Y], o->p.type, offset_at(c->y_stride, b, k, at));
                const double sum = sum_at(c, k, at), expected = sum < 0 ? 0 : sum;
                if (isnan(expected) && !isnan(got)) return "its max(0, x) makes a number of NaN";
                if (!isnan(expected) && got != expected && !(fabs(got - expected) <= tolerance * expected))
                    return "its max(0, x) is another";
            }
    while (next(at, c->y_size));
    return NULL;
}

static tcc_status run(const probe *o, tcc_device_cuda *cuda, tcc_diag *d, tcc_cudnn_graph *g, tcc_cuda_address at) {
    tcc_cuda_address addresses[TENSORS];
    int n = 0;
    for (int i = 0; i < TENSORS; i++)
        if (o->bytes[i]) addresses[n++] = at + (tcc_cuda_address)o->offset[i];
    TCC_CUDA_TRY(cuda, d, copy_to_device, at, o->memory, (size_t)o->all_bytes, cuda->compute);
    TCC_TRY(tcc_cudnn_graph_run(g, d, addresses, at + (tcc_cuda_address)o->all_bytes));
    TCC_CUDA_TRY(cuda, d, copy_to_host, o->memory, at, (size_t)o->all_bytes, cuda->compute);
    TCC_CUDA_TRY(cuda, d, stream_synchronize, cuda->compute);
    return TCC_OK;
}

static tcc_status ask(const probe *o, tcc_device_cuda *cuda, const tcc_cudnn *cudnn, tcc_diag *d, int64_t engine) {
    tcc_cudnn_graph *g;
    tcc_cuda_address at = 0;
    int64_t workspace_bytes = 0;
    tcc_cudnn_limits limits = tcc_cudnn_conv_limits(&o->p);
    limits.engine = &engine;
    TCC_TRY(tcc_cudnn_graph_create(cudnn, d, &g));
    tcc_status s = tcc_cudnn_conv_describe(g, d, TCC_CUDNN_CONV_FORWARD, &o->p);
    if (s == TCC_OK) s = tcc_cudnn_graph_finish(g, d, &limits, &workspace_bytes);
    if (s == TCC_OK)
        s = tcc__cuda_alloc(cuda, d, o->all_bytes + workspace_bytes, "a convolution that tries cudnn's max(0, x)", &at);
    if (s == TCC_OK) s = run(o, cuda, d, g, at);
    if (at) cuda->cu.free(at);
    tcc_cudnn_graph_destroy(g);
    return s;
}

tcc_status tcc__cudnn_probe_relu(tcc_device_cuda *cuda, const tcc_cudnn *cudnn, tcc_diag *d,
                                 const tcc_cudnn_conv_params *like, int64_t engine, const char **differs) {
    probe o = {0};
    *differs = NULL;
    tcc__cudnn_probe_params(like, &o.p);
    place_tensors(&o);
    o.memory = tcc__malloc((size_t)o.all_bytes);
    if (!o.memory) return tcc_enomem(d);
    fill(&o);
    tcc_status s = ask(&o, cuda, cudnn, d, engine);
    if (s == TCC_OK) *differs = compare(&o);
    else
        tcc_note(d, TCC_NOWHERE, "in a small convolution, by which engine %lld shows what it makes of NaN",
                 (long long)engine);
    tcc__free(o.memory);
    return s;
}
