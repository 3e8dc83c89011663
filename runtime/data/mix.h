/* SPDX-License-Identifier: MIT
 * Mixtures of images: mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019). */
#ifndef TCC_RUNTIME_DATA_MIX_H
#define TCC_RUNTIME_DATA_MIX_H

#include "traincc/data.h"

static inline bool tcc__mixes(const tcc_loader_options *o) { return o->mixup > 0 || o->cutmix > 0; }

/* Mixes two samples each that lie beside one another in a batch of `count`, and sets y to the shares of `classes`.
 * `position`: of the first sample in the epoch, of which with the seed all depends that is drawn. */
void tcc__mix_pairs(const tcc_loader_options *o, int64_t epoch, int64_t position, const int32_t *classes, int64_t count,
                    const tcc_array arrays[2]);

#endif
