/* SPDX-License-Identifier: MIT */
#include "runtime/cuda/vendor.h"
#include "runtime/wanted.h"

#include "ir/support/alloc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The symbol that is missing, or NULL. */
static const char *find_functions(const tcc_vendor_library *library, void *handle, void *table) {
    for (int i = 0; i < library->n_functions; i++) {
        const tcc_vendor_function *f = &library->functions[i];
        void *address = dlsym(handle, f->symbol);
        if (!address && !f->optional) return f->symbol;
        memcpy((char *)table + f->at, &address, sizeof address); /* ISO C has no cast from object to function pointer */
    }
    return NULL;
}

bool tcc_vendor_find(const tcc_vendor_library *library, void *table, char text[TCC_VENDOR_TEXT]) {
    char file[PATH_MAX], version[TCC_VENDOR_VERSION] = "";
    if (!tcc_library_wanted(library->name)) {
        snprintf(text, TCC_VENDOR_TEXT, "switched off by TCC_LIBRARIES: %s", library->lost);
        return false;
    }
    void *handle = tcc_cuda_library_open(library->files, file);
    if (!handle) {
        snprintf(text, TCC_VENDOR_TEXT, "%s not found (TCC_CUDA_PATH names its folder; pip install %s brings it): %s",
                 *library->files, library->packages, library->lost);
        return false;
    }
    const char *missing = find_functions(library, handle, table);
    const char *refused = missing ? missing : library->check(table, version);
    if (refused)
        snprintf(text, TCC_VENDOR_TEXT, "%s%s(%s) cannot be used: %s%s; %s", version, *version ? " " : "", file,
                 missing ? "it lacks " : "", refused, library->lost);
    else snprintf(text, TCC_VENDOR_TEXT, "%s (%s)", version, file);
    return !refused;
}

void tcc__vendor_describe(const tcc_vendor_library *library, tcc_strbuf *out) {
    char *text = tcc__calloc(1, TCC_VENDOR_TEXT);
    void *table = tcc__calloc(1, library->table_bytes);
    if (text && table) {
        tcc_vendor_find(library, table, text);
        tcc_strbuf_printf(out, "%s: %s\n", library->name, text);
    }
    tcc__free(table);
    tcc__free(text);
}
