/* SPDX-License-Identifier: MIT
 * For tests and campaigns: kernels that an earlier program had are not compiled again. Most of a small program's time
 * is LLVM's, and small programs share most of their kernels. The linker puts this in front of tcc_compile_kernels
 * (--wrap). A kernel's key and its target say everything that its code depends on (codegen/schedule/lowering.h). That
 * this is so is tested by the way, since a kernel found by too short a key computes something else;
 * CAMPAIGN_CHECK_KEYS=1 compares the code.
 *
 * The cache is in memory that all workers share, or in a file that all tests of a build map (TCC_TEST_KERNELS: its
 * folder). It only grows: a process that dies while it adds an entry leaves the others a few bytes poorer, and needs no
 * lock. When it is full, what it has is kept: frequent kernels come early. */
#include "bench/kernel_cache.h"

#include "codegen/compile.h"
#include "codegen/options.h"
#include "ir/support/strbuf.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char tcc__compiler_sources[]; /* a hash of them */

enum { SLOTS = 1 << 18 };

/* Bytes from the begin of the cache, which is at another address in each process; 0: nowhere. */
typedef uint64_t place;

/* A module's code; one or more entries lie in it. */
typedef struct code {
    int64_t size_bytes;
    char bytes[];
} code;

typedef struct entry {
    place next, code, symbol, target; /* target: what it was compiled for */
    bool table;
    tcc_kernel kernel; /* without its texts */
    char key[];
} entry;

typedef struct cache {
    _Atomic size_t used; /* 0 in a new file */
    atomic_long hits, misses;
    _Atomic place slots[SLOTS];
} cache;

bool kernel_cache_off;

static cache *shared;
static size_t limit;

static bool map(size_t bytes, int flags, int file) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | flags, file, 0);
    if (memory == MAP_FAILED) return false;
    shared = memory;
    limit = bytes;
    size_t none = 0;
    atomic_compare_exchange_strong(&shared->used, &none, sizeof *shared);
    return true;
}

bool kernel_cache_create(size_t bytes) { return map(bytes, MAP_ANONYMOUS, -1); }

/* What is at a place. */
static void *at(place p) { return (char *)shared + p; }
static place place_of(const void *what) { return (place)((const char *)what - (const char *)shared); }

/* -- The file that tests share -- */

/* What other compilers had. */
static void remove_others(const char *folder, const char *own) {
    DIR *d = opendir(folder);
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        const char *suffix = strrchr(e->d_name, '.');
        if (suffix && !strcmp(suffix, ".kernels") && strcmp(e->d_name, own) != 0) unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
}

/* Where there is no such file, the test has a cache of its own. The file of each compiler has another name, so that
 * after a change of its sources nothing is found. */
static bool map_file(size_t bytes) {
    const char *folder = getenv("TCC_TEST_KERNELS");
    char name[64], path[4096];
    if (!folder) return false;
    snprintf(name, sizeof name, "%.32s.kernels", tcc__compiler_sources);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return false;
    struct stat now;
    if (!fstat(file, &now) && !now.st_size) remove_others(folder, name);
    const bool mapped = !ftruncate(file, (off_t)bytes) && map(bytes, 0, file);
    close(file);
    return mapped;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* For tests, which say nothing of it. */
static void create_by_itself(void) {
    if (!shared && !map_file((size_t)1 << 30)) kernel_cache_create((size_t)1 << 30);
}

void kernel_cache_count(long *hits, long *misses) {
    *hits = shared->hits;
    *misses = shared->misses;
}

/* NULL: it is full. */
static void *take(size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    const size_t begin = atomic_fetch_add(&shared->used, bytes);
    if (begin + bytes <= limit) return at(begin);
    atomic_fetch_sub(&shared->used, bytes);
    return NULL;
}

static _Atomic place *slot_of(const char *key) {
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 1099511628211u;
    return &shared->slots[(h ^ h >> 32) % SLOTS];
}

static const entry *find(const char *target, const tcc_kernel_plan *plan, bool table) {
    for (place p = *slot_of(plan->key); p;) {
        const entry *e = at(p);
        if (e->table == table && !strcmp(e->key, plan->key) && !strcmp(at(e->target), target)) return e;
        p = e->next;
    }
    return NULL;
}

/* A kernel of a program that was just compiled. */
static void add(const char *target, const tcc_kernel_plan *plan, bool table, const tcc_kernel *kernel,
                const code *where) {
    const size_t key = strlen(plan->key) + 1, symbol = strlen(kernel->symbol) + 1, text = strlen(target) + 1;
    entry *e = take(sizeof *e + key + symbol + text);
    if (!e) return;
    *e = (entry){.table = table, .kernel = *kernel, .code = place_of(where)};
    e->kernel.symbol = e->kernel.schedule = NULL; /* another process has them elsewhere */
    e->symbol = place_of(memcpy((char *)memcpy(e->key, plan->key, key) + key, kernel->symbol, symbol));
    e->target = place_of(memcpy((char *)at(e->symbol) + symbol, target, text));
    _Atomic place *slot = slot_of(plan->key);
    e->next = *slot;
    while (!atomic_compare_exchange_weak(slot, &e->next, place_of(e))) {}
}

/* -- Compiling what is not there -- */

/* Whether LLVM optimizes nothing of a kernel: of three in four that random programs have (TCC_TEST_QUICK_KERNELS),
 * whatever program it lies in. What we emit is the same, and most of the time was LLVM's optimizing. */
static bool is_quick(const char *key) {
    unsigned sum = 0;
    for (; *key; key++) sum = sum * 31 + (unsigned char)*key;
    return (sum ^ sum >> 16) % 4 != 0;
}

tcc_status __real_tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                                      const tcc_kernel_plan *kernels, const bool *table, int n,
                                      const tcc_codegen_options *options, tcc_program *p);
tcc_status __wrap_tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                                      const tcc_kernel_plan *kernels, const bool *table, int n,
                                      const tcc_codegen_options *options, tcc_program *p);

/* What a kernel of a program is taken from. */
typedef struct source {
    const tcc_kernel *kernel;
    const char *symbol;
    const void *code;
    int64_t size_bytes;
} source;

/* Compiles what the cache lacks, all together, or one by one where codes are compared. */
static tcc_status compile_misses(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                                 const char *target_text, const tcc_kernel_plan *plans, const bool *table,
                                 const int *misses, int n, const tcc_codegen_options *options, tcc_program *fresh,
                                 source *sources) {
    tcc_kernel_plan *few = calloc((size_t)n + 1, sizeof *few);
    bool *few_table = calloc((size_t)n + 1, sizeof *few_table);
    for (int i = 0; i < n; i++) few[i] = plans[misses[i]], few_table[i] = table && table[misses[i]];
    tcc_status status = __real_tcc_compile_kernels(cx, diag, target, few, few_table, n, options, fresh);
    const code **codes = calloc((size_t)fresh->n_modules + 1, sizeof *codes);
    for (int i = 0; status == TCC_OK && i < fresh->n_modules; i++) {
        const tcc_module *m = &fresh->modules[i];
        code *c = take(sizeof *c + (size_t)m->size_bytes);
        if (!c) continue;
        c->size_bytes = m->size_bytes;
        memcpy(c->bytes, m->code, (size_t)m->size_bytes);
        codes[i] = c;
    }
    for (int i = 0; status == TCC_OK && i < n; i++) {
        const tcc_kernel *k = &fresh->kernels[i];
        const tcc_module *m = &fresh->modules[k->module];
        sources[misses[i]] = (source){k, k->symbol, m->code, m->size_bytes};
        if (codes[k->module]) add(target_text, &few[i], few_table[i], k, codes[k->module]);
    }
    free(codes);
    free(few);
    free(few_table);
    return status;
}

/* Equal keys, equal code: a kernel that was found is compiled all the same. */
static tcc_status check_key(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target, const tcc_kernel_plan *plan,
                            bool table, const tcc_codegen_options *options, const source *s) {
    tcc_program again = {.name = "again"};
    tcc_status status = __real_tcc_compile_kernels(cx, diag, target, plan, &table, 1, options, &again);
    if (status == TCC_OK &&
        (again.modules[0].size_bytes != s->size_bytes || memcmp(again.modules[0].code, s->code, (size_t)s->size_bytes)))
        printf("other code by the same key: %s\n", plan->key);
    tcc_arena_free(&again.memory);
    return status;
}

/* The program's kernels, and each module that one of them lies in once. */
static tcc_status gather(tcc_diag *diag, const tcc_kernel_plan *plans, const source *sources, int n, tcc_program *p) {
    p->n_kernels = n;
    p->kernels = TCC_ARENA_ARRAY(&p->memory, tcc_kernel, n + 1);
    p->modules = TCC_ARENA_ARRAY(&p->memory, tcc_module, n + 1);
    const void **from = calloc((size_t)n + 1, sizeof *from);
    bool ok = p->kernels && p->modules;
    for (int i = 0; ok && i < n; i++) {
        int m = 0;
        while (m < p->n_modules && from[m] != sources[i].code) m++;
        if (m == p->n_modules) {
            const void *code = tcc_arena_copy(&p->memory, sources[i].code, (size_t)sources[i].size_bytes);
            p->modules[p->n_modules++] = (tcc_module){code, sources[i].size_bytes};
            from[m] = sources[i].code;
            ok = code;
        }
        p->kernels[i] = *sources[i].kernel;
        p->kernels[i].symbol = tcc_arena_strdup(&p->memory, sources[i].symbol);
        p->kernels[i].schedule = plans[i].schedule;
        p->kernels[i].module = m;
        ok = ok && p->kernels[i].symbol;
    }
    free(from);
    return ok ? TCC_OK : tcc_enomem(diag);
}

/* A target as it is, or a quick one, and its text, which is part of what a kernel is found by. */
typedef struct kind {
    tcc_llvm_target target;
    tcc_strbuf text;
    int *misses, n_misses; /* of the program's kernels */
} kind;

enum { WHOLE, QUICK, KINDS };

/* Of the whole kind, if there is one: an earlier test may have had it. */
static bool find_source(kind *kinds, const tcc_kernel_plan *plan, bool table, bool quick, source *out) {
    const entry *e = find(kinds[WHOLE].text.text, plan, table);
    if (!e && quick) e = find(kinds[QUICK].text.text, plan, table);
    if (!e) return false;
    const code *c = at(e->code);
    *out = (source){&e->kernel, at(e->symbol), c->bytes, c->size_bytes};
    return true;
}

tcc_status __wrap_tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                                      const tcc_kernel_plan *kernels, const bool *table, int n,
                                      const tcc_codegen_options *options, tcc_program *p) {
    const bool compare = getenv("CAMPAIGN_CHECK_KEYS");
    const bool quick = getenv("TCC_TEST_QUICK_KERNELS") && target->kind == TCC_TARGET_HOST && !compare;
    pthread_once(&once, create_by_itself);
    if (kernel_cache_off || !shared || options->dump_dir)
        return __real_tcc_compile_kernels(cx, diag, target, kernels, table, n, options, p);
    kind kinds[KINDS] = {{.target = *target}, {.target = *target}};
    kinds[QUICK].target.quick = true;
    for (int k = 0; k < KINDS; k++) {
        tcc_codegen_describe_target(&kinds[k].target, &kinds[k].text);
        tcc_codegen_describe_llvm(&kinds[k].text);
        kinds[k].misses = calloc((size_t)n + 1, sizeof *kinds[k].misses);
    }
    source *sources = calloc((size_t)n + 1, sizeof *sources);
    tcc_program fresh[KINDS] = {{.name = "fresh"}, {.name = "quick"}};
    tcc_status status = TCC_OK;
    for (int i = 0; i < n && status == TCC_OK; i++) {
        const bool with_table = table && table[i], fast = quick && is_quick(kernels[i].key);
        kind *k = &kinds[fast ? QUICK : WHOLE];
        if (!find_source(kinds, &kernels[i], with_table, fast, &sources[i])) k->misses[k->n_misses++] = i;
        else if (compare) status = check_key(cx, diag, target, &kernels[i], with_table, options, &sources[i]);
    }
    shared->hits += n - kinds[WHOLE].n_misses - kinds[QUICK].n_misses;
    shared->misses += kinds[WHOLE].n_misses + kinds[QUICK].n_misses;
    for (int k = 0; k < KINDS; k++)
        for (int first = 0, all = kinds[k].n_misses, step = compare ? 1 : all; first < all && status == TCC_OK;
             first += step)
            status = compile_misses(cx, diag, &kinds[k].target, kinds[k].text.text, kernels, table,
                                    kinds[k].misses + first, step, options, &fresh[k], sources);
    if (status == TCC_OK) status = gather(diag, kernels, sources, n, p);
    for (int k = 0; k < KINDS; k++) {
        tcc_strbuf_free(&kinds[k].text);
        tcc_arena_free(&fresh[k].memory);
        free(kinds[k].misses);
    }
    free(sources);
    return status;
}
