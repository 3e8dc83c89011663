// SPDX-License-Identifier: MIT
// The models of configs.py, built with the public API.
#ifndef TCC_TESTS_BENCH_MODELS_H
#define TCC_TESTS_BENCH_MODELS_H

#include <traincc/traincc.h>

typedef struct bench_model {
    const char *name;
    tcc_gpt_options gpt;   /* layers 0: another kind */
    int64_t batch, length; /* length: of a text, or an image's side */
    int resnet;
    bool cnn;
    int64_t lstm; /* its width; 0: another kind */
    tcc_optimizer_options optimizer;
    int64_t crop[2]; /* height and width of images for the segmentation network of that name; 0: another kind */
} bench_model;

extern const bench_model bench_models[];
extern const int n_bench_models;

// NULL: there is none of that name.
const bench_model *bench_model_find(const char *name);
// A tcc_model_fn; `user` is the model.
void bench_model_build(tcc_trace *t, void *user);
// x as the model wants it, random; y random classes. The caller frees both arrays' data.
void bench_model_batch(const bench_model *c, tcc_array batch[2]);
// Parameters to begin with, where the models of configs.py have some of their own; the model was compiled.
tcc_status bench_model_begin(const bench_model *c, tcc_model *m);

#endif
