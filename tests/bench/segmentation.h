// SPDX-License-Identifier: MIT
// The segmentation networks that are compared with PyTorch's, with their losses, and what they are given there:
// numbers from a hash of a tensor's name and an element's place, as in tests/numerics/golden/segmentation.py.
#ifndef TCC_TESTS_BENCH_SEGMENTATION_H
#define TCC_TESTS_BENCH_SEGMENTATION_H

#include <traincc/traincc.h>

typedef struct bench_network {
    const char *name;
    tcc_segmentation (*make)(tcc_trace *t, tcc_tensor x, const char *name, int64_t classes);
    tcc_segmentation_loss_options loss;
} bench_network;

// NULL: there is none of that name.
const bench_network *bench_network_find(const char *name);
// The loss at labels that may be ignored: class `classes`.
tcc_tensor bench_network_loss(tcc_trace *t, const bench_network *n, const tcc_segmentation *heads, tcc_tensor labels,
                              int64_t classes);
// Of a model that was compiled: weights as large as He's, factors around 1.
tcc_status bench_network_begin(tcc_model *m);
// x [n, 3, h, w] and y [n, h, w], whose labels come in squares of 8 x 8. The caller frees both arrays' data.
void bench_network_batch(int64_t n, int64_t h, int64_t w, int64_t classes, tcc_array batch[2]);

#endif
