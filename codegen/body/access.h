/* SPDX-License-Identifier: MIT
 * The bytes that a kernel touches through a buffer, as regions: byte ranges at equal distances. */
#ifndef TCC_CODEGEN_BODY_ACCESS_H
#define TCC_CODEGEN_BODY_ACCESS_H

#include "codegen/body/body.h"

/* `count` runs of `run` bytes each, `stride` bytes from one's begin to the next one's, the first from `from` on.
 * `exact`: it is these bytes and no others, each touched once; else some among them. */
typedef struct tcc_region {
    int64_t from, run, stride, count;
    bool exact;
} tcc_region;

typedef struct tcc_region_dim {
    int64_t extent, stride; /* bytes; may be negative */
} tcc_region_dim;

static inline int64_t tcc_region_end(const tcc_region *r) { return r->from + (r->count - 1) * r->stride + r->run; }
static inline tcc_region tcc_region_whole(int64_t bytes) { return (tcc_region){0, bytes, bytes, 1, true}; }
/* Elements of `element` bytes along some dims, of which the order does not matter; `dims` is overwritten. What is no
 * set of equal runs becomes the range from its first to its last byte, not exact. */
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
