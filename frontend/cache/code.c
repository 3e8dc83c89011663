/* SPDX-License-Identifier: MIT
 * The cache of a model's programs, opened at its first use. It also keeps code: machine code that the device's driver
 * makes of a program, and kernels that codegen compiled. */
#include "frontend/cache/cache.h"

/* Logs of what passes, codegen and libraries do are of programs that are made. */
static bool is_watched(const tcc_model *m) {
    static const tcc_topic topics[] = {TCC_LOG_PASSES, TCC_LOG_FUSION, TCC_LOG_CODEGEN, TCC_LOG_MEMORY,
                                       TCC_LOG_LIBRARY};
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++)
        if (tcc_log_on(m->cx, topics[i])) return true;
    return false;
}

static void tell(void *user, const char *text) {
    tcc_compiler *compiler = user;
    tcc__free(compiler->cache_trouble);
    compiler->cache_trouble = tcc__strdup(text);
}

tcc_cache *tcc__cache_of(tcc_model *m) {
    tcc_compiler *compiler = m->compiler;
    if (compiler->fresh || compiler->dump_dir || is_watched(m)) return NULL;
    if (!compiler->cache_asked) {
        tcc_diag *diag = &m->cx->diag;
        const tcc_cache_options options = {.tell = tell, .user = compiler};
        compiler->cache_asked = true;
        if (tcc_cache_open(diag, &options, &compiler->cache) != TCC_OK) {
            if (!compiler->cache_trouble) tell(compiler, tcc_diag_words(diag));
            tcc_diag_clear(diag);
            compiler->cache = NULL;
        }
    }
    return compiler->cache;
}

/* -- What the device's driver makes of a program's code -- */

static tcc_cache_key code_key(const char *maker, const char *code) {
    return (tcc_cache_key){2, {{"maker", maker}, {"code", code}}};
}

static bool find_code(void *user, const char *maker, const char *code, void **machine, int64_t *size_bytes) {
    const tcc_cache_key key = code_key(maker, code);
    return tcc_cache_get(((tcc_compiler *)user)->cache, TCC_CACHE_KERNEL, &key, machine, size_bytes);
}

static void keep_code(void *user, const char *maker, const char *code, const void *machine, int64_t size_bytes,
                      int64_t made_ns) {
    const tcc_cache_key key = code_key(maker, code);
    tcc_cache_put(((tcc_compiler *)user)->cache, TCC_CACHE_KERNEL, &key, machine, size_bytes, made_ns);
}

static void flush_code(void *user) { tcc_cache_flush(((tcc_compiler *)user)->cache); }

const tcc_code_store *tcc__cache_code_store(tcc_model *m) {
    if (!tcc__cache_of(m)) return NULL;
    m->compiler->code_store = (tcc_code_store){m->compiler, find_code, keep_code, flush_code};
    return &m->compiler->code_store;
}

/* -- What codegen makes of kernels -- */

static tcc_cache_key kernel_key(const tcc_kept_kernels *kept, tcc_kept kind, const char *text) {
    tcc_cache_key key = kept->machine;
    key.parts[key.count++] = (tcc_cache_part){kind == TCC_KEPT_KERNEL ? "kernel" : "module", text};
    return key;
}

static bool find_kernel(void *user, tcc_kept kind, const char *text, void **value, int64_t *size_bytes) {
    const tcc_kept_kernels *kept = user;
    const tcc_cache_key key = kernel_key(kept, kind, text);
    return tcc_cache_get(tcc__cache_of(kept->m), TCC_CACHE_CODE, &key, value, size_bytes);
}

static void keep_kernel(void *user, tcc_kept kind, const char *text, const void *value, int64_t size_bytes,
                        int64_t made_ns) {
    const tcc_kept_kernels *kept = user;
    const tcc_cache_key key = kernel_key(kept, kind, text);
    tcc_cache_put(tcc__cache_of(kept->m), TCC_CACHE_CODE, &key, value, size_bytes, made_ns);
}

static void count_kernels(void *user, int found) { ((tcc_kept_kernels *)user)->m->cached_kernels += found; }

const tcc_kernel_store *tcc__cache_kernels(tcc_model *m, tcc_kept_kernels *out) {
    *out = (tcc_kept_kernels){.m = m, .store = {out, find_kernel, keep_kernel, count_kernels}};
    if (!tcc__cache_of(m)) return NULL;
    if (tcc__cache_machine(m, &out->memory, &out->machine) == TCC_OK) return &out->store;
    tcc_diag_begin(&m->cx->diag); /* done without */
    return NULL;
}
