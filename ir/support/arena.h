/* SPDX-License-Identifier: MIT
 * Bump arenas: many small objects with one lifetime, freed together. Chunks never move, so pointers stay valid. */
#ifndef TCC_SUPPORT_ARENA_H
#define TCC_SUPPORT_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tcc_arena {
    struct tcc_arena_chunk *head;
    size_t used, capacity; /* bytes in head */
} tcc_arena;

/* An arena starts as {0}. Every allocation is zeroed and aligned to 16 bytes; NULL when memory is short. */
void *tcc_arena_alloc(tcc_arena *a, size_t size_bytes);
void *tcc_arena_copy(tcc_arena *a, const void *data, size_t size_bytes);
char *tcc_arena_strdup(tcc_arena *a, const char *s);
char *tcc_arena_printf(tcc_arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *tcc_arena_vprintf(tcc_arena *a, const char *format, va_list args);
void tcc_arena_free(tcc_arena *a); /* frees everything and leaves {0} */

#define TCC_ARENA_NEW(arena, type) ((type *)tcc_arena_alloc((arena), sizeof(type)))
#define TCC_ARENA_ARRAY(arena, type, count) ((type *)tcc_arena_alloc((arena), sizeof(type) * (size_t)(count)))

#endif
