// SPDX-License-Identifier: MIT
#include "segmentation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- Networks -- */

static tcc_segmentation pp_liteseg(tcc_trace *t, tcc_tensor x, const char *name, int64_t classes) {
    const char variant = strstr(name, "_b") ? 'B' : 'T';
    return tcc_pp_liteseg(t, x, &(tcc_pp_liteseg_options){.variant = variant, .classes = classes});
}

static tcc_segmentation stdc_seg(tcc_trace *t, tcc_tensor x, const char *name, int64_t classes) {
    return tcc_stdc_seg(t, x, &(tcc_stdc_seg_options){.variant = name[4] - '0', .classes = classes});
}

static tcc_segmentation ddrnet(tcc_trace *t, tcc_tensor x, const char *name, int64_t classes) {
    return tcc_ddrnet(t, x, &(tcc_ddrnet_options){.slim = strstr(name, "slim") != NULL, .classes = classes});
}

static tcc_segmentation regseg(tcc_trace *t, tcc_tensor x, const char *name, int64_t classes) {
    (void)name;
    return tcc_regseg(t, x, &(tcc_regseg_options){.classes = classes});
}

static tcc_segmentation segformer(tcc_trace *t, tcc_tensor x, const char *name, int64_t classes) {
    return tcc_segformer(t, x, &(tcc_segformer_options){.variant = name[11] - '0', .classes = classes});
}

#define LOSS(...) {.size = sizeof(tcc_segmentation_loss_options), __VA_ARGS__}
static const bench_network networks[] = {
    {"pp_liteseg_t", pp_liteseg, LOSS(.kind = TCC_SEGMENTATION_EDGE_DICE)},
    {"pp_liteseg_b", pp_liteseg, LOSS(.kind = TCC_SEGMENTATION_EDGE_DICE)},
    {"stdc1_seg", stdc_seg, LOSS(.kind = TCC_SEGMENTATION_OHEM, .weights = {1, 0.6, 0.4})},
    {"stdc2_seg", stdc_seg, LOSS(.kind = TCC_SEGMENTATION_OHEM, .weights = {1, 0.6, 0.4})},
    {"ddrnet_23_slim", ddrnet, LOSS(.kind = TCC_SEGMENTATION_EDGE_DICE, .weights = {1, 0.4})},
    {"ddrnet_23", ddrnet, LOSS(.kind = TCC_SEGMENTATION_EDGE_DICE, .weights = {1, 0.4})},
    {"regseg", regseg, LOSS(.kind = TCC_SEGMENTATION_CROSS_ENTROPY)},
    {"segformer_b0", segformer, LOSS(.kind = TCC_SEGMENTATION_CROSS_ENTROPY)},
    {"segformer_b1", segformer, LOSS(.kind = TCC_SEGMENTATION_CROSS_ENTROPY)},
};

const bench_network *bench_network_find(const char *name) {
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (!strcmp(networks[i].name, name)) return &networks[i];
    return NULL;
}

tcc_tensor bench_network_loss(tcc_trace *t, const bench_network *n, const tcc_segmentation *heads, tcc_tensor labels,
                              int64_t classes) {
    tcc_segmentation_loss_options loss = n->loss;
    loss.ignore_index = classes;
    return tcc_segmentation_loss(t, heads, labels, &loss);
}

/* -- Numbers -- */

static uint64_t hash(const char *name) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h;
}

static double drawn(uint64_t h, int64_t e) {
    uint64_t z = h + (uint64_t)(e + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 40) / 0x1p23 - 1;
}

tcc_status bench_network_begin(tcc_model *m) {
    tcc_status status = TCC_OK;
    tcc_array p;
    for (int i = 0; status == TCC_OK && tcc_model_param(m, i, &p); i++) {
        if (!tcc_model_param_is_trained(m, i)) continue;
        int64_t count = 1;
        for (int d = 0; d < p.rank; d++) count *= p.dims[d];
        float *values = malloc((size_t)count * sizeof *values);
        if (!values) return TCC_ENOMEM;
        const uint64_t h = hash(p.name);
        const size_t length = strlen(p.name);
        const bool factor = p.rank == 1 && length > 6 && !strcmp(p.name + length - 6, "weight");
        const double bound = p.rank > 1 ? sqrt(6 / (double)(count / p.dims[0])) : factor ? 0.25 : 0.125;
        for (int64_t e = 0; e < count; e++) values[e] = (float)(factor + drawn(h, e) * bound);
        p.dtype = TCC_F32, p.data = values;
        status = tcc_model_set_param(m, &p);
        free(values);
    }
    return status;
}

void bench_network_batch(int64_t n, int64_t h, int64_t w, int64_t classes, tcc_array batch[2]) {
    const int64_t pixels = n * h * w;
    const uint64_t hx = hash("x"), hy = hash("y");
    float *x = calloc((size_t)(3 * pixels), sizeof *x);
    int32_t *y = calloc((size_t)pixels, sizeof *y);
    if (!x || !y) exit(EXIT_FAILURE);
    for (int64_t e = 0; e < 3 * pixels; e++) x[e] = (float)(2 * drawn(hx, e));
    for (int64_t e = 0; e < pixels; e++) {
        const int64_t row = e / w % h, column = e % w, block = (e / (h * w) * (h / 8) + row / 8) * (w / 8) + column / 8;
        y[e] = (int32_t)((drawn(hy, block) + 1) / 2 * (double)(classes + 1));
    }
    batch[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {n, 3, h, w}, .data = x};
    batch[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 3, .dims = {n, h, w}, .data = y};
}
