/* SPDX-License-Identifier: MIT
 * Memory whose bytes are marked with the value that they are part of, for the verifier of programs. */
#ifndef TCC_CODEGEN_VERIFY_MEMORY_H
#define TCC_CODEGEN_VERIFY_MEMORY_H

#include "codegen/body/access.h"

/* Bytes [from, to) are part of a value that begins at `base`. `written` tells who wrote them, in which order; what is
 * written in rows has `part`, else -1. */
typedef struct tcc_marked {
    int64_t from, to, base;
    int value, part;
    uint64_t written;
} tcc_marked;

typedef tcc_vec(tcc_marked) tcc_marked_memory; /* ascending; what is missing was never written */

/* A range of a value of which some regions have been written so far. */
typedef struct tcc_marked_part {
    int64_t from, to; /* in the value */
    int64_t filled;   /* bytes */
    uint64_t written;
    tcc_vec(tcc_region) regions;
} tcc_marked_part;

typedef tcc_vec(tcc_marked_part) tcc_marked_parts;

/* What a read found. */
typedef struct tcc_marked_read {
    uint64_t written; /* who wrote all of it; equal marks, equal contents */
    bool wrong;       /* some byte is not the value's: */
    bool partial;     /* it is, but was not written */
    int64_t at;       /* the first one, as an offset in the value */
    int value;        /* what lies there; -1: nothing */
    int64_t value_at; /* which byte of that */
} tcc_marked_read;

void tcc_marked_parts_free(tcc_marked_parts *parts);
/* Reads a region (offsets in the value) of a value that should begin at `base`. */
tcc_marked_read tcc_marked_find(const tcc_marked_memory *m, const tcc_marked_parts *parts, int64_t base, int value,
                                const tcc_region *region);
/* `writer` writes a region of a value that begins at `base` and has size_bytes. False: memory is short. */
bool tcc_marked_write(tcc_marked_memory *m, tcc_marked_parts *parts, int64_t base, int value, int64_t size_bytes,
                      const tcc_region *region, uint64_t writer);
/* [from, to) gets this mark. */
bool tcc_marked_set(tcc_marked_memory *m, tcc_marked mark);
/* Marks of [from, from + bytes) go to [to, to + bytes) of another or the same memory. */
bool tcc_marked_copy(const tcc_marked_memory *source, int64_t from, tcc_marked_memory *target, int64_t to,
                     int64_t bytes);

#endif
