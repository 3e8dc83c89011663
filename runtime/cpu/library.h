/* SPDX-License-Identifier: MIT
 * The CPU's libraries of others, opened at run time, behind one table of entries. A program's library step names an
 * entry, whose buffers and params codegen/program.h documents; results never depend on the number of threads.
 *
 * An entry's work is cut into slices by shape alone, and our pool runs the slices; the library itself runs on one
 * thread in each of ours. TCC_LIBRARIES restricts what is opened (runtime/wanted.h). TCC_OPENBLAS_PATH and
 * TCC_ONEDNN_PATH name a file to open instead of what the loader finds. */
#ifndef TCC_RUNTIME_CPU_LIBRARY_H
#define TCC_RUNTIME_CPU_LIBRARY_H

#include "codegen/program.h"
#include "ir/support/context.h"
#include "runtime/cpu/pool.h"

typedef struct tcc_libraries tcc_libraries;

typedef struct tcc_library_entry {
    const char *name; /* "cblas.sgemm" */
    int n_params, n_buffers;
    /* Prepare a call with these params for this pool, whose scratch it may enlarge; the pool must not be locked by the
     * caller. Errors: TCC_EUNSUPPORTED (the library refuses the shape), TCC_EFORMAT, TCC_ENOMEM. */
    tcc_status (*create)(const tcc_libraries *libraries, tcc_diag *d, tcc_pool *pool, const int64_t *params,
                         void **call);
    void (*destroy)(void *call);
    /* The pool is locked. Errors: TCC_EDEVICE with the library's own words. */
    tcc_status (*run)(void *call, tcc_diag *d, tcc_pool *pool, void *const *buffers);
} tcc_library_entry;

/* Open what is there; a missing library is no error but logged (topic `library`). Errors: TCC_EINVAL for a malformed
 * TCC_LIBRARIES, TCC_ENOMEM. */
tcc_status tcc_libraries_open(tcc_context *cx, tcc_libraries **out);
void tcc_libraries_close(tcc_libraries *libraries); /* NULL is allowed */
/* The entry of that name; NULL if its library is missing or there is no such entry. */
const tcc_library_entry *tcc_libraries_find(const tcc_libraries *libraries, const char *name);
/* One line a library: version and file, or what is lost without it. */
void tcc_libraries_describe(const tcc_libraries *libraries, tcc_strbuf *out);

#endif
