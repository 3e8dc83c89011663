/* SPDX-License-Identifier: MIT
 * The bytes that a kernel touches through a buffer, as regions: runs of bytes in rows, in rows of rows, and so on. */
#ifndef TCC_CODEGEN_BODY_ACCESS_H
#define TCC_CODEGEN_BODY_ACCESS_H

#include "codegen/body/body.h"

enum { TCC_REGION_MOST_LEVELS = 4 };

/* `count` of what the levels below make, `stride` bytes from one's begin to the next one's. */
typedef struct tcc_region_level {
    int64_t stride, count;
} tcc_region_level;

/* Runs of `run` bytes each, the first from `from` on, repeated by each level. What the levels up to one make ends
 * before the next one repeats it. `exact`: it is these bytes and no others, each touched once; else some among them,
 * and there are no levels. */
typedef struct tcc_region {
    int64_t from, run;
    tcc_region_level levels[TCC_REGION_MOST_LEVELS]; /* strides ascend */
    int n_levels;
    bool exact;
} tcc_region;

typedef struct tcc_region_dim {
    int64_t extent, stride; /* bytes; may be negative */
} tcc_region_dim;

int64_t tcc_region_end(const tcc_region *r);
int64_t tcc_region_bytes(const tcc_region *r); /* how many it has */
static inline tcc_region tcc_region_whole(int64_t bytes) { return (tcc_region){.run = bytes, .exact = true}; }
/* Elements of `element` bytes along some dims, of which the order does not matter; `dims` is overwritten. What is no
 * such region becomes the range from its first to its last byte, not exact. */
tcc_region tcc_region_of(int64_t from, int64_t element, tcc_region_dim *dims, int n);
/* Whether a byte may lie in both, of which each begins at the address given. */
bool tcc_region_overlap(const tcc_region *a, int64_t a_at, const tcc_region *b, int64_t b_at);
/* Whether all bytes of `part` surely lie in `whole`. */
bool tcc_region_contains(const tcc_region *whole, const tcc_region *part);

/* What a load reads, and what a store writes, in bytes from the start of its buffer. A load that has a guard reads only
 * where that holds. */
tcc_region tcc_region_of_load(const tcc_body *b, const tcc_expr *load);
tcc_region tcc_region_of_store(const tcc_body *b, const tcc_body_write *store);
/* Marks by id the expressions that the body's stores need. */
void tcc_body_mark_used(const tcc_body *b, bool *used);
/* The element that the load reads is the one that the store writes, at each point. */
bool tcc_body_same_element(const tcc_body *b, const tcc_expr *load, const tcc_body_write *store);

#endif
