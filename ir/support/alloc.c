/* SPDX-License-Identifier: MIT
 * Heap access with failure injection. */
#include "alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_int_fast64_t fail_at = -1;
static atomic_int_fast64_t made;

static int injected_failure(void) {
    int64_t limit = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (limit < 0) return 0;
    return atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) >= limit;
}

int64_t tcc__alloc_fail_at(int64_t n) {
    int64_t before = atomic_exchange(&made, 0);
    atomic_store(&fail_at, n);
    return before;
}

void *tcc__malloc(size_t size_bytes) { return injected_failure() ? NULL : malloc(size_bytes ? size_bytes : 1); }

void *tcc__calloc(size_t count, size_t size_bytes) {
    return injected_failure() ? NULL : calloc(count ? count : 1, size_bytes ? size_bytes : 1);
}

void *tcc__realloc(void *p, size_t size_bytes) {
    return injected_failure() ? NULL : realloc(p, size_bytes ? size_bytes : 1);
}

void *tcc__aligned(size_t alignment, size_t size_bytes) {
    size_t rounded = (size_bytes + alignment - 1) / alignment * alignment;
    if (rounded < size_bytes || injected_failure()) return NULL;
    return aligned_alloc(alignment, rounded ? rounded : alignment);
}

void tcc__free(void *p) { free(p); }

char *tcc__strdup(const char *s) {
    size_t size = strlen(s) + 1;
    char *copy = tcc__malloc(size);
    if (copy) memcpy(copy, s, size);
    return copy;
}
