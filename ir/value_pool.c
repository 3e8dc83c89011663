/* SPDX-License-Identifier: MIT */
#include "ir/value_pool.h"
#include "ir/support/alloc.h"

#include <pthread.h>
#include <string.h>

enum { MOST_KEPT = 256, LEAST_BYTES = 64 << 10 };

struct tcc_value_pool {
    pthread_mutex_t lock;
    size_t in_use, most_in_use, kept; /* bytes */
    int count;
    struct {
        void *memory;
        size_t bytes;
    } blocks[MOST_KEPT]; /* the one that was given back first is the first */
};

tcc_value_pool *tcc_value_pool_create(void) {
    tcc_value_pool *p = tcc__calloc(1, sizeof *p);
    if (p) pthread_mutex_init(&p->lock, NULL);
    return p;
}

/* A block serves all sizes that are rounded up to the same one: by an eighth at most. */
static size_t rounded(size_t bytes) {
    size_t step = 1;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

static void remove_block(tcc_value_pool *p, int i) {
    p->kept -= p->blocks[i].bytes;
    for (p->count--; i < p->count; i++) p->blocks[i] = p->blocks[i + 1];
}

/* Frees the oldest blocks until there is room for `more` in the table, and no more bytes than were in use. */
static void make_room(tcc_value_pool *p, int more) {
    while (p->count && (p->count + more > MOST_KEPT || p->in_use + p->kept > p->most_in_use)) {
        tcc__free(p->blocks[0].memory);
        remove_block(p, 0);
    }
}

void tcc_value_pool_destroy(tcc_value_pool *p) {
    if (!p) return;
    for (int i = 0; i < p->count; i++) tcc__free(p->blocks[i].memory);
    pthread_mutex_destroy(&p->lock);
    tcc__free(p);
}

/* The block of this size that was given back last; NULL: there is none. */
static void *take_kept(tcc_value_pool *p, size_t bytes) {
    void *memory = NULL;
    pthread_mutex_lock(&p->lock);
    for (int i = p->count - 1; i >= 0 && !memory; i--) {
        if (p->blocks[i].bytes != bytes) continue;
        memory = p->blocks[i].memory;
        remove_block(p, i);
    }
    p->in_use += bytes;
    if (p->in_use > p->most_in_use) p->most_in_use = p->in_use;
    make_room(p, 0);
    pthread_mutex_unlock(&p->lock);
    return memory;
}

void *tcc_value_pool_take(tcc_value_pool *p, size_t bytes, bool zeroed) {
    if (!p || bytes < LEAST_BYTES) return zeroed ? tcc__calloc(bytes, 1) : tcc__malloc(bytes);
    const size_t all = rounded(bytes);
    void *memory = take_kept(p, all);
    if (memory) return zeroed ? memset(memory, 0, bytes) : memory;
    if ((memory = zeroed ? tcc__calloc(all, 1) : tcc__malloc(all))) return memory;
    pthread_mutex_lock(&p->lock);
    p->in_use -= all;
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void tcc_value_pool_give(tcc_value_pool *p, void *memory, size_t bytes) {
    if (!p || bytes < LEAST_BYTES || !memory) {
        tcc__free(memory);
        return;
    }
    pthread_mutex_lock(&p->lock);
    make_room(p, 1);
    p->in_use -= rounded(bytes);
    p->blocks[p->count].memory = memory;
    p->blocks[p->count++].bytes = rounded(bytes);
    p->kept += rounded(bytes);
    pthread_mutex_unlock(&p->lock);
}
