/* SPDX-License-Identifier: MIT
 * A kernel has a key of its own, independent of the kernels that are compiled with it. Its entry names its module, by a
 * hash of the module's code, and its symbol there. The module is kept by that hash. So a program takes modules from
 * several others, and compiles the kernels that none of them has. */
#include "codegen/compile_store.h"

#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "ir/support/strbuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HASH_DIGITS = 32 };

typedef struct module_name {
    char text[HASH_DIGITS + 1];
} module_name;

/* Two hashes of 64 bits: one of 128, whose chance of being another code's is none in practice. */
static module_name name_of(const void *code, int64_t size_bytes) {
    module_name name;
    snprintf(name.text, sizeof name.text, "%016" PRIx64 "%016" PRIx64, tcc_hash_bytes(1, code, (size_t)size_bytes),
             tcc_hash_bytes(2, code, (size_t)size_bytes));
    return name;
}

/* A kernel with an entry for several instances is another one. */
static char *key_of(const tcc_kernel_plan *kernel, bool table) {
    tcc_strbuf b = {0};
    tcc_strbuf_printf(&b, "%s\n%s", table ? "table" : "single", kernel->key);
    return tcc_strbuf_take(&b);
}

typedef struct finding {
    const tcc_kernel_store *store;
    tcc_program *p;
    module_name *names; /* by module of p */
} finding;

/* The module of that name in f->p; -1: the store does not have it. */
static tcc_status find_module(finding *f, tcc_diag *diag, const module_name *name, int *out) {
    void *code;
    int64_t size_bytes;
    for (*out = 0; *out < f->p->n_modules; ++*out)
        if (!memcmp(&f->names[*out], name, sizeof *name)) return TCC_OK;
    *out = -1;
    if (!f->store->find(f->store->user, TCC_KEPT_MODULE, name->text, &code, &size_bytes)) return TCC_OK;
    const module_name is = name_of(code, size_bytes);
    const bool right = !memcmp(&is, name, sizeof is);
    const void *copy = right ? tcc_arena_copy(&f->p->memory, code, (size_t)size_bytes) : NULL;
    tcc__free(code);
    if (!right) return TCC_OK;
    if (!copy) return tcc_enomem(diag);
    *out = f->p->n_modules++;
    f->names[*out] = *name;
    f->p->modules[*out] = (tcc_module){copy, size_bytes};
    return TCC_OK;
}

/* The value of a kernel's entry: "HASH SYMBOL". */
static tcc_status take(finding *f, tcc_diag *diag, const char *value, int64_t size_bytes, tcc_kernel *out,
                       bool *found) {
    module_name name = {""};
    const int64_t length = size_bytes - HASH_DIGITS - 1;
    if (length < 1 || value[HASH_DIGITS] != ' ' || memchr(value, 0, (size_t)size_bytes)) return TCC_OK;
    memcpy(name.text, value, HASH_DIGITS);
    int module;
    TCC_TRY(find_module(f, diag, &name, &module));
    if (module < 0) return TCC_OK;
    char *symbol = tcc_arena_printf(&f->p->memory, "%.*s", (int)length, value + HASH_DIGITS + 1);
    if (!symbol) return tcc_enomem(diag);
    out->module = module, out->symbol = symbol;
    *found = true;
    return TCC_OK;
}

tcc_status tcc_kernels_find(const tcc_kernel_store *store, tcc_diag *diag, const tcc_kernel_plan *kernels,
                            const bool *table, int n, tcc_program *p, bool *found) {
    finding f = {store, p, tcc__calloc((size_t)n + 1, sizeof *f.names)};
    tcc_status status = f.names ? TCC_OK : tcc_enomem(diag);
    for (int i = 0; i < n && status == TCC_OK; i++) {
        void *value;
        int64_t size_bytes;
        char *key = key_of(&kernels[i], table[i]);
        if (key && store->find(store->user, TCC_KEPT_KERNEL, key, &value, &size_bytes)) {
            status = take(&f, diag, value, size_bytes, &p->kernels[i], &found[i]);
            tcc__free(value);
        }
        tcc__free(key);
    }
    tcc__free(f.names);
    return status;
}

void tcc_kernels_keep(const tcc_kernel_store *store, const tcc_kernel_plan *kernels, const bool *table,
                      const bool *found, const int64_t *made_ns, int first, const tcc_program *p) {
    for (int m = first; m < p->n_modules; m++) {
        const tcc_module *module = &p->modules[m];
        const module_name name = name_of(module->code, module->size_bytes);
        store->keep(store->user, TCC_KEPT_MODULE, name.text, module->code, module->size_bytes, made_ns[m - first]);
        for (int i = 0; i < p->n_kernels; i++) {
            tcc_strbuf value = {0};
            if (found[i] || p->kernels[i].module != m) continue;
            char *key = key_of(&kernels[i], table[i]);
            tcc_strbuf_printf(&value, "%s %s", name.text, p->kernels[i].symbol);
            if (key && !value.failed)
                store->keep(store->user, TCC_KEPT_KERNEL, key, value.text, (int64_t)value.length, 0);
            tcc_strbuf_free(&value);
            tcc__free(key);
        }
    }
}
