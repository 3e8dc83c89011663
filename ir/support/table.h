/* SPDX-License-Identifier: MIT
 * A hash table: open addressing, never more than half full, nothing is ever removed. What makes two values equal is the
 * caller's affair: a search walks the values of one hash. */
#ifndef TCC_SUPPORT_TABLE_H
#define TCC_SUPPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tcc_table_entry {
    uint64_t hash;
    void *value; /* NULL: free */
} tcc_table_entry;

typedef struct tcc_table {
    tcc_table_entry *entries;
    size_t capacity, count; /* capacity is a power of 2, or 0 */
} tcc_table;

/* Makes room for one value more; false when memory is short. */
bool tcc_table_reserve(tcc_table *t);
/* Room was reserved; `value` is not NULL. */
void tcc_table_add(tcc_table *t, uint64_t hash, void *value);
/* Walks the values with this hash, the first that was added first: start with *at = hash, until NULL. */
void *tcc_table_next(const tcc_table *t, uint64_t hash, size_t *at);
void tcc_table_free(tcc_table *t);

#endif
