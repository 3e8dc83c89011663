/* SPDX-License-Identifier: MIT
 * Hash tables. */
#include "table.h"
#include "alloc.h"

bool tcc_table_reserve(tcc_table *t) {
    enum { FIRST_CAPACITY = 256 };
    if (2 * (t->count + 1) <= t->capacity) return true;
    const tcc_table old = *t;
    const size_t capacity = old.capacity ? 2 * old.capacity : FIRST_CAPACITY;
    tcc_table_entry *entries = tcc__calloc(capacity, sizeof *entries);
    if (!entries) return false;
    *t = (tcc_table){entries, capacity, 0};
    for (size_t i = 0; i < old.capacity; i++)
        if (old.entries[i].value) tcc_table_add(t, old.entries[i].hash, old.entries[i].value);
    tcc__free(old.entries);
    return true;
}

void tcc_table_add(tcc_table *t, uint64_t hash, void *value) {
    size_t at = hash & (t->capacity - 1);
    while (t->entries[at].value) at = (at + 1) & (t->capacity - 1);
    t->entries[at] = (tcc_table_entry){hash, value};
    t->count++;
}

void *tcc_table_next(const tcc_table *t, uint64_t hash, size_t *at) {
    if (!t->capacity) return NULL;
    for (;; ++*at) {
        const tcc_table_entry *e = &t->entries[*at & (t->capacity - 1)];
        if (!e->value) return NULL;
        if (e->hash == hash) {
            ++*at;
            return e->value;
        }
    }
}

void tcc_table_free(tcc_table *t) {
    tcc__free(t->entries);
    *t = (tcc_table){0};
}
