/* SPDX-License-Identifier: MIT
 * Draws of tokens from a language model's logits. */
#ifndef TCC_FRONTEND_RUN_SAMPLER_H
#define TCC_FRONTEND_RUN_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tcc__candidate {
    float logit;
    int32_t id;
    double weight; /* its share of the draw, not normalized */
} tcc__candidate;

typedef struct tcc__sampler {
    double temperature, top_p;
    int64_t top_k;
    uint64_t state;
    tcc__candidate *candidates; /* room for the whole vocabulary */
} tcc__sampler;

/* One of the first `count` tokens; -1: their logits are not numbers. */
int32_t tcc__sampler_draw(tcc__sampler *s, const float *logits, int64_t count);

#endif
