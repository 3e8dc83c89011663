/* SPDX-License-Identifier: MIT
 * The one door to the heap: everything the library allocates passes here, so that tests can make the n-th allocation
 * fail. */
#ifndef TCC_SUPPORT_ALLOC_H
#define TCC_SUPPORT_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* As malloc, calloc, realloc and free; NULL when memory is short. */
void *tcc__malloc(size_t size_bytes);
void *tcc__calloc(size_t count, size_t size_bytes);
void *tcc__realloc(void *p, size_t size_bytes);
/* What lies there means nothing any more: the system may have the pages back until somebody writes them again. */
void tcc__forget(void *p, size_t size_bytes);
void *tcc__aligned(size_t alignment, size_t size_bytes); /* size is rounded up to the alignment */
void tcc__free(void *p);                                 /* frees what any of the above returned */
char *tcc__strdup(const char *s);

/* Zeros, 64-byte aligned, for what a training step reads and writes. Large blocks lie on huge pages and cost nothing
 * until they are touched. Freed by tcc__zeroed_free with the same size alone. */
void *tcc__zeroed(size_t size_bytes);
void tcc__zeroed_free(void *p, size_t size_bytes);

/* Test hook: allocation number n (counted from 0 at this call) fails and all after it; negative: none fails. Returns
 * how many allocations were made since the last call. Process-wide; for tests alone. */
int64_t tcc__alloc_fail_at(int64_t n);

#endif
