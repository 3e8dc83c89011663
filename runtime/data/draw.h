/* SPDX-License-Identifier: MIT
 * Random draws of data sets and loaders: functions of a seed and of what is drawn, without any
 * state. */
#ifndef TCC_RUNTIME_DATA_DRAW_H
#define TCC_RUNTIME_DATA_DRAW_H

#include "ir/support/philox.h"

#include <stdint.h>

/* What a draw is for; draws for different purposes are independent. */
typedef enum tcc__purpose {
    TCC__DRAW_ORDER,
    TCC__DRAW_WINDOW,
    TCC__DRAW_AUGMENT,
    TCC__DRAW_HOLD_OUT,
    TCC__DRAW_COLOUR,
    TCC__DRAW_BATCHES,
    TCC__DRAW_PART,    /* and those behind it: one for each try */
    TCC__DRAW_MIX = 64 /* likewise */
} tcc__purpose;

typedef struct tcc__draw {
    uint32_t bits[4];
} tcc__draw;

static inline tcc__draw tcc__draw_at(uint64_t seed, tcc__purpose purpose, int64_t epoch, int64_t position) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)((uint64_t)position >> 32), (uint32_t)epoch,
                           (uint32_t)purpose};
    tcc__draw draw;
    tcc_philox4x32(key, counter, draw.bits);
    return draw;
}

/* Uniform in [0, n); the bias, below n / 2^64, is of no account. */
static inline int64_t tcc__draw_below(const tcc__draw *draw, int64_t n) {
    uint64_t bits = (uint64_t)draw->bits[1] << 32 | draw->bits[0];
    return (int64_t)((unsigned __int128)bits * (uint64_t)n >> 64);
}

/* A random permutation of [0, n) that is computed element by element: a Feistel network over the
 * next power of four, repeated until the result lies within n (less than four times on average).
 * Needs no table, so that any position of any epoch costs the same. */
typedef struct tcc__permutation {
    int64_t n;
    int half_bits;
    uint32_t keys[8];
} tcc__permutation;

static inline tcc__permutation tcc__permutation_of(int64_t n, uint64_t seed, tcc__purpose purpose, int64_t epoch) {
    tcc__permutation p = {.n = n};
    while (((uint64_t)1 << (2 * p.half_bits)) < (uint64_t)n) p.half_bits++;
    for (int i = 0; i < 2; i++) {
        tcc__draw draw = tcc__draw_at(seed, purpose, epoch, i);
        for (int j = 0; j < 4; j++) p.keys[4 * i + j] = draw.bits[j];
    }
    return p;
}

static inline uint32_t tcc__mix(uint32_t x) { /* the finalizer of MurmurHash3 */
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

static inline int64_t tcc__permute(const tcc__permutation *p, int64_t i) {
    uint32_t mask = (uint32_t)(((uint64_t)1 << p->half_bits) - 1);
    uint64_t x = (uint64_t)i;
    do {
        uint32_t left = (uint32_t)(x >> p->half_bits), right = (uint32_t)x & mask;
        for (int round = 0; round < 8; round++) {
            uint32_t next = left ^ (tcc__mix(right + p->keys[round]) & mask);
            left = right;
            right = next;
        }
        x = (uint64_t)left << p->half_bits | right;
    } while (x >= (uint64_t)p->n);
    return (int64_t)x;
}

#endif
