/* SPDX-License-Identifier: MIT
 * Hashing of plain data: for hash tables and content keys, not for security. */
#ifndef TCC_SUPPORT_HASH_H
#define TCC_SUPPORT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
 * generators"). */
static inline uint64_t tcc_hash_mix(uint64_t h) {
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return h ^ (h >> 31);
}

/* Adds one word to a running hash; the order of words matters. */
static inline uint64_t tcc_hash_add(uint64_t h, uint64_t word) {
    return tcc_hash_mix(h + 0x9e3779b97f4a7c15u + word * 0xff51afd7ed558ccdu);
}

static inline uint64_t tcc_hash_bytes(uint64_t h, const void *data, size_t size_bytes) {
    const unsigned char *p = (const unsigned char *)data;
    uint64_t word = 0;
    h = tcc_hash_add(h, size_bytes);
    for (; size_bytes >= 8; size_bytes -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = tcc_hash_add(h, word);
    }
    word = 0;
    if (size_bytes) memcpy(&word, p, size_bytes);
    return tcc_hash_add(h, word);
}

static inline uint64_t tcc_hash_string(uint64_t h, const char *s) { return tcc_hash_bytes(h, s, strlen(s)); }

static inline uint64_t tcc_hash_f64(uint64_t h, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return tcc_hash_add(h, bits);
}

#endif
