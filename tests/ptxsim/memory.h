/* SPDX-License-Identifier: MIT
 * Device and pinned memory with their shadows: which bytes are live, which were written, and who touched each word
 * last. */
#ifndef PTXSIM_MEMORY_H
#define PTXSIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Device addresses are no host addresses, so that a host access to device memory crashes as it does with a real GPU. */
#define DEVICE_BASE UINT64_C(0x200000000000)

typedef struct sim_alloc {
    uint64_t base, size; /* address as kernels see it */
    uint8_t *data;       /* the bytes on the host */
    uint8_t *init;       /* a byte a byte: 1 when it was written; NULL: everything counts as written */
    uint64_t *words;     /* two records (writer, reader) for each 4 bytes; NULL: not tracked */
    int id;
    bool host, read_only, registered, hidden, async; /* hidden: the simulator's own, no leak */
    int device;
    struct sim_module *module;
} sim_alloc;

/* A record of who touched a word: bytes in bits 0-3, atomic, many blocks, the block, the operation. 0: nobody. Where it
 * was many blocks, in place of the block the bytes that two of them touched; whose the others are is not known. */
enum {
    WORD_ATOMIC = 1 << 4,
    WORD_UNORDERED =
        1 << 4, /* of a reader: the one before it belongs to an operation that nothing orders before this one */
    WORD_MANY = 1 << 5
};
#define WORD_BLOCK_SHIFT 6
#define WORD_BLOCK_MASK UINT64_C(0x7fffffff)
#define WORD_OP_SHIFT 37
#define WORD_OP_MASK UINT32_C(0x7ffffff)
static inline uint32_t word_op(uint64_t record) { return (uint32_t)(record >> WORD_OP_SHIFT); }
static inline uint32_t word_block(uint64_t record) { return (uint32_t)(record >> WORD_BLOCK_SHIFT & WORD_BLOCK_MASK); }
/* Bytes that a block other than this one touched. */
static inline uint32_t word_foreign(uint64_t record, uint64_t block) {
    return record & WORD_MANY ? word_block(record) & 15 : word_block(record) == block ? 0 : (uint32_t)record & 15;
}

/* An element of 1, 2, 4 or 8 bytes, without a call for it. */
static inline uint64_t read_element(const uint8_t *from, uint32_t bytes) {
    uint64_t v = 0;
    switch (bytes) {
    case 1: memcpy(&v, from, 1); break;
    case 2: memcpy(&v, from, 2); break;
    case 4: memcpy(&v, from, 4); break;
    default: memcpy(&v, from, 8);
    }
    return v;
}
static inline void write_element(uint8_t *to, uint64_t v, uint32_t bytes) {
    switch (bytes) {
    case 1: memcpy(to, &v, 1); break;
    case 2: memcpy(to, &v, 2); break;
    case 4: memcpy(to, &v, 4); break;
    default: memcpy(to, &v, 8);
    }
}
/* Marks of bytes that were written: whether all are set, and setting them. */
#define ALL_WRITTEN UINT64_C(0x0101010101010101)
static inline bool all_written(const uint8_t *init, uint32_t bytes) {
    for (; bytes >= 8; bytes -= 8, init += 8)
        if (read_element(init, 8) != ALL_WRITTEN) return false;
    for (; bytes >= 4; bytes -= 4, init += 4)
        if (read_element(init, 4) != (uint32_t)ALL_WRITTEN) return false;
    for (; bytes; bytes--, init++)
        if (!*init) return false;
    return true;
}
static inline void mark_written(uint8_t *init, uint32_t bytes) {
    for (; bytes >= 8; bytes -= 8, init += 8) write_element(init, ALL_WRITTEN, 8);
    for (; bytes >= 4; bytes -= 4, init += 4) write_element(init, ALL_WRITTEN, 4);
    for (; bytes; bytes--, init++) *init = 1;
}

bool sim_memory_open(uint64_t bytes);
void sim_memory_close(void);
uint64_t sim_memory_total(void);
uint64_t sim_memory_used(void);
uint64_t sim_memory_peak(void);

/* NULL: out of memory. Fresh device memory is uninitialized and filled with a pattern no program expects only where it
 * was used before. */
sim_alloc *sim_memory_alloc(uint64_t bytes, bool hidden);
sim_alloc *sim_memory_add_host(void *data, uint64_t bytes, bool registered);
void sim_memory_free(sim_alloc *a);
/* The live allocation that contains the address, or NULL. */
sim_alloc *sim_memory_find(uint64_t address);
/* In words: where an address lies that no live allocation contains. */
void sim_memory_describe(uint64_t address, char *text, size_t size);
int sim_memory_count(bool host);
void sim_memory_each(void (*visit)(const sim_alloc *a, void *user), void *user);

#endif
