/* SPDX-License-Identifier: MIT
 * Bump arenas. */
#include "arena.h"
#include "alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, CHUNK_BYTES = 64 * 1024 };

struct tcc_arena_chunk {
    struct tcc_arena_chunk *next;
    size_t padding; /* keeps data 16-byte aligned */
    unsigned char data[];
};

void *tcc_arena_alloc(tcc_arena *a, size_t size_bytes) {
    if (size_bytes > SIZE_MAX / 2) return NULL;
    size_t size = (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!a->head || a->capacity - a->used < size) {
        size_t capacity = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        struct tcc_arena_chunk *c = tcc__calloc(1, sizeof *c + capacity);
        if (!c) return NULL;
        c->next = a->head;
        a->head = c;
        a->used = 0;
        a->capacity = capacity;
    }
    void *p = a->head->data + a->used;
    a->used += size;
    return p;
}

void *tcc_arena_copy(tcc_arena *a, const void *data, size_t size_bytes) {
    void *p = tcc_arena_alloc(a, size_bytes);
    if (p && size_bytes) memcpy(p, data, size_bytes);
    return p;
}

char *tcc_arena_strdup(tcc_arena *a, const char *s) { return tcc_arena_copy(a, s, strlen(s) + 1); }

char *tcc_arena_vprintf(tcc_arena *a, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : tcc_arena_alloc(a, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *tcc_arena_printf(tcc_arena *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = tcc_arena_vprintf(a, format, args);
    va_end(args);
    return text;
}

void tcc_arena_free(tcc_arena *a) {
    for (struct tcc_arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        tcc__free(c);
    }
    *a = (tcc_arena){0};
}
