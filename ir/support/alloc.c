/* SPDX-License-Identifier: MIT
 * Heap access with failure injection. */
#include "alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, PAGE = 65536 /* a multiple of any system's */, HUGE_PAGE = 2 << 20, HUGE_FROM = 2 * HUGE_PAGE };

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

void tcc__forget(void *p, size_t size_bytes) {
    const uintptr_t begin = ((uintptr_t)p + PAGE - 1) / PAGE * PAGE, end = ((uintptr_t)p + size_bytes) / PAGE * PAGE;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

char *tcc__strdup(const char *s) {
    size_t size = strlen(s) + 1;
    char *copy = tcc__malloc(size);
    if (copy) memcpy(copy, s, size);
    return copy;
}

/* Large blocks are mapped on their own and ask for huge pages: a training step walks hundreds of megabytes, far past
 * what the TLB covers with small ones. */
static void *map_huge(size_t size_bytes) {
    size_t whole = size_bytes + HUGE_PAGE;
    if (whole < size_bytes) return NULL;
    unsigned char *mapping = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                                  0);
    if (mapping == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)mapping % HUGE_PAGE), after = HUGE_PAGE - before;
    if (before) munmap(mapping, before);
    munmap(mapping + before + size_bytes, after);
    madvise(mapping + before, size_bytes, MADV_HUGEPAGE);
    return mapping + before;
}

static size_t pages(size_t size_bytes) { return (size_bytes + PAGE - 1) / PAGE * PAGE; }

void *tcc__zeroed(size_t size_bytes) {
    if (size_bytes >= HUGE_FROM) {
        const bool wraps = pages(size_bytes) < size_bytes;
        return wraps || injected_failure() ? NULL : map_huge(pages(size_bytes));
    }
    void *memory = tcc__aligned(ALIGNMENT, size_bytes);
    if (memory) memset(memory, 0, size_bytes);
    return memory;
}

void tcc__zeroed_free(void *p, size_t size_bytes) {
    if (p && size_bytes >= HUGE_FROM) munmap(p, pages(size_bytes));
    else free(p);
}
