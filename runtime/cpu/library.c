/* SPDX-License-Identifier: MIT
 * Opening the libraries of others, and the table of their entries. */
#include "runtime/cpu/library_table.h"

#include "ir/support/alloc.h"
#include "runtime/wanted.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct library_row {
    const char *name; /* in TCC_LIBRARIES */
    const char *path_variable;
    const char *const files[3]; /* as the loader finds them, best first */
    const char *lost;           /* without it */
    size_t info_offset;         /* of its tcc_library_info in tcc_libraries */
    const char *(*attach)(tcc_libraries *libraries, char *version, size_t version_bytes);
    void (*detach)(tcc_libraries *libraries); /* after attach; NULL: nothing to do */
    const tcc_library_entry *entries[4];
} library_row;

static const library_row library_rows[] = {
    {"openblas",
     "TCC_OPENBLAS_PATH",
     {"libopenblas.so.0", "libopenblas.so"},
     "large matrix products use our own kernels",
     offsetof(tcc_libraries, openblas.info),
     tcc__openblas_attach,
     NULL,
     {&tcc__openblas_sgemm}},
    {"onednn",
     "TCC_ONEDNN_PATH",
     {"libdnnl.so.3", "libdnnl.so.2"},
     "convolutions use our own kernels",
     offsetof(tcc_libraries, onednn.info),
     tcc__onednn_attach,
     tcc__onednn_detach,
     {&tcc__onednn_conv_forward, &tcc__onednn_conv_data_gradient, &tcc__onednn_conv_filter_gradient}},
};
enum { LIBRARIES = sizeof library_rows / sizeof *library_rows };

static tcc_library_info *info_of(const tcc_libraries *l, int row) {
    return (tcc_library_info *)((char *)l + library_rows[row].info_offset);
}

static void open_library(tcc_libraries *l, int row) {
    const library_row *r = &library_rows[row];
    tcc_library_info *info = info_of(l, row);
    const char *path = getenv(r->path_variable);
    bool given = path && *path;
    for (int i = 0; !info->handle && (given ? i < 1 : r->files[i] != NULL); i++)
        info->handle = dlopen(given ? path : r->files[i], RTLD_NOW | RTLD_LOCAL);
    if (!info->handle) {
        const char *why = dlerror();
        snprintf(info->text, sizeof info->text, "not found (%s): %s", why ? why : "unknown error", r->lost);
        return;
    }
    char version[64] = "unknown version";
    struct link_map *map;
    const char *file = dlinfo(info->handle, RTLD_DI_LINKMAP, &map) ? "" : map->l_name;
    const char *refused = r->attach(l, version, sizeof version);
    if (refused) {
        snprintf(info->text, sizeof info->text, "%s (%s) cannot be used: %s; %s", version, file, refused, r->lost);
        info->handle = NULL;
    } else {
        snprintf(info->text, sizeof info->text, "%s (%s)", version, file);
    }
}

tcc_status tcc_libraries_open(tcc_context *cx, tcc_libraries **out) {
    *out = NULL;
    TCC_TRY(tcc_libraries_check_wanted(&cx->diag));
    tcc_libraries *l = tcc__calloc(1, sizeof *l);
    if (!l) return tcc_enomem(&cx->diag);
    for (int i = 0; i < LIBRARIES; i++) {
        if (tcc_library_wanted(library_rows[i].name)) open_library(l, i);
        else snprintf(info_of(l, i)->text, sizeof info_of(l, i)->text, "switched off by TCC_LIBRARIES");
        tcc_logf(cx, TCC_LOG_LIBRARY, "%s: %s", library_rows[i].name, info_of(l, i)->text);
    }
    *out = l;
    return TCC_OK;
}

/* The files stay open: these libraries keep threads and thread-local data, which do not survive dlclose. */
void tcc_libraries_close(tcc_libraries *l) {
    for (int i = 0; l && i < LIBRARIES; i++)
        if (library_rows[i].detach && info_of(l, i)->handle) library_rows[i].detach(l);
    tcc__free(l);
}

const tcc_library_entry *tcc_libraries_find(const tcc_libraries *l, const char *name) {
    for (int i = 0; i < LIBRARIES; i++)
        for (int e = 0; library_rows[i].entries[e]; e++)
            if (!strcmp(library_rows[i].entries[e]->name, name))
                return info_of(l, i)->handle ? library_rows[i].entries[e] : NULL;
    return NULL;
}

void tcc_libraries_describe(const tcc_libraries *l, tcc_strbuf *out) {
    for (int i = 0; i < LIBRARIES; i++) tcc_strbuf_printf(out, "%s: %s\n", library_rows[i].name, info_of(l, i)->text);
}
