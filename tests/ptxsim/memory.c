/* SPDX-License-Identifier: MIT
 * Device memory: one reserved range of addresses, backed by pages as they are touched, with red zones between
 * allocations. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 512, RED_ZONE = 512, PAGE = 4096, GHOSTS = 64 };

static struct {
    uint64_t total, range, used, peak, next;
    uint8_t *data, *init;
    uint64_t *words;
    sim_alloc **live; /* sorted by base */
    int n_live, cap_live, ids;
    struct {
        uint64_t base, size;
        int id;
    } ghosts[GHOSTS]; /* lately freed */
    int n_ghosts;
} mem;

static void *reserve(uint64_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes, MADV_HUGEPAGE); /* fewer page faults; refused where there are none */
    return p;
}

bool sim_memory_open(uint64_t bytes) {
    sim_memory_close();
    mem.total = bytes;
    mem.range = bytes * 2 + (UINT64_C(64) << 20); /* fresh addresses first, so that a stale pointer hits nothing */
    mem.data = reserve(mem.range), mem.init = reserve(mem.range), mem.words = reserve(mem.range * 4);
    if (mem.data && mem.init && mem.words) return true;
    sim_memory_close();
    return false;
}

void sim_memory_close(void) {
    while (mem.n_live) {
        sim_alloc *a = mem.live[--mem.n_live];
        free(a);
    }
    free(mem.live);
    if (mem.data) munmap(mem.data, mem.range);
    if (mem.init) munmap(mem.init, mem.range);
    if (mem.words) munmap(mem.words, mem.range * 4);
    memset(&mem, 0, sizeof mem);
}

uint64_t sim_memory_total(void) { return mem.total; }
uint64_t sim_memory_used(void) { return mem.used; }
uint64_t sim_memory_peak(void) { return mem.peak; }

/* Index of the first live allocation above the address. */
static int above(uint64_t address) {
    int low = 0, high = mem.n_live;
    while (low < high) {
        int middle = (low + high) / 2;
        if (mem.live[middle]->base <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static sim_alloc *insert(uint64_t base, uint64_t size) {
    if (mem.n_live == mem.cap_live) {
        int cap = mem.cap_live ? mem.cap_live * 2 : 64;
        sim_alloc **grown = realloc(mem.live, (size_t)cap * sizeof *grown);
        if (!grown) return NULL;
        mem.live = grown, mem.cap_live = cap;
    }
    sim_alloc *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->base = base, a->size = size, a->id = ++mem.ids;
    int at = above(base);
    memmove(mem.live + at + 1, mem.live + at, (size_t)(mem.n_live - at) * sizeof *mem.live);
    mem.live[at] = a, mem.n_live++;
    return a;
}

/* First gap of `need` bytes from offset `from` on; UINT64_MAX when there is none. */
static uint64_t gap(uint64_t from, uint64_t need) {
    uint64_t at = from;
    for (int k = 0; k < mem.n_live; k++) {
        const sim_alloc *a = mem.live[k];
        if (a->host) continue;
        uint64_t start = a->base - DEVICE_BASE,
                 end = (start + a->size + RED_ZONE + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (end <= at) continue;
        if (start >= at + need + RED_ZONE) break;
        at = end;
    }
    return at + need + RED_ZONE <= mem.range ? at : UINT64_MAX;
}

sim_alloc *sim_memory_alloc(uint64_t bytes, bool hidden) {
    if (bytes == 0 || mem.used + bytes > mem.total || mem.used + bytes < bytes) return NULL;
    uint64_t at = gap(mem.next ? mem.next : ALIGNMENT, bytes);
    if (at == UINT64_MAX) at = gap(ALIGNMENT, bytes);
    if (at == UINT64_MAX) return NULL;
    sim_alloc *a = insert(DEVICE_BASE + at, bytes);
    if (!a) return NULL;
    mem.next = (at + bytes + RED_ZONE + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    a->data = mem.data + at, a->init = mem.init + at,
    a->words = mem.words + at / 2; /* 2 records a 4 bytes; 8 bytes a record */
    a->hidden = hidden;
    mem.used += bytes;
    if (mem.used > mem.peak) mem.peak = mem.used;
    return a;
}

sim_alloc *sim_memory_add_host(void *data, uint64_t bytes, bool registered) {
    sim_alloc *a = insert((uint64_t)(uintptr_t)data, bytes);
    if (a) a->data = data, a->host = true, a->registered = registered;
    return a;
}

static void forget(void *p, uint64_t bytes) {
    uintptr_t begin = (uintptr_t)p, end = begin + bytes, first = (begin + PAGE - 1) / PAGE * PAGE,
              last = end / PAGE * PAGE;
    if (first >= last) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, first - begin);
    memset((void *)last, 0, end - last);
    madvise((void *)first, last - first, MADV_DONTNEED);
}

void sim_memory_free(sim_alloc *a) {
    if (!a->host) {
        forget(a->data, a->size), forget(a->init, a->size), forget(a->words, (a->size + 3) / 4 * 16);
        mem.used -= a->size;
    }
    int g = mem.n_ghosts++ % GHOSTS;
    mem.ghosts[g].base = a->base, mem.ghosts[g].size = a->size, mem.ghosts[g].id = a->id;
    int at = above(a->base) - 1;
    memmove(mem.live + at, mem.live + at + 1, (size_t)(mem.n_live - at - 1) * sizeof *mem.live);
    mem.n_live--;
    free(a);
}

sim_alloc *sim_memory_find(uint64_t address) {
    int at = above(address) - 1;
    if (at < 0 || address - mem.live[at]->base >= mem.live[at]->size) return NULL;
    return mem.live[at];
}

void sim_memory_describe(uint64_t address, char *text, size_t size) {
    for (int k = mem.n_ghosts; k > 0 && k > mem.n_ghosts - GHOSTS; k--) {
        int g = (k - 1) % GHOSTS;
        if (address - mem.ghosts[g].base < mem.ghosts[g].size) {
            snprintf(text, size, "%llu bytes into freed allocation #%d of %llu bytes",
                     (unsigned long long)(address - mem.ghosts[g].base), mem.ghosts[g].id,
                     (unsigned long long)mem.ghosts[g].size);
            return;
        }
    }
    int at = above(address);
    const sim_alloc *below = at > 0 ? mem.live[at - 1] : NULL, *next = at < mem.n_live ? mem.live[at] : NULL;
    if (below && address - below->base - below->size < (UINT64_C(1) << 20))
        snprintf(text, size, "%llu bytes after the end of allocation #%d of %llu bytes",
                 (unsigned long long)(address - below->base - below->size), below->id, (unsigned long long)below->size);
    else if (next && next->base - address < (UINT64_C(1) << 20))
        snprintf(text, size, "%llu bytes before allocation #%d of %llu bytes",
                 (unsigned long long)(next->base - address), next->id, (unsigned long long)next->size);
    else snprintf(text, size, "not near any allocation");
}

int sim_memory_count(bool host) {
    int n = 0;
    for (int k = 0; k < mem.n_live; k++) n += mem.live[k]->host == host && !mem.live[k]->hidden;
    return n;
}

void sim_memory_each(void (*visit)(const sim_alloc *a, void *user), void *user) {
    for (int k = 0; k < mem.n_live; k++) visit(mem.live[k], user);
}
