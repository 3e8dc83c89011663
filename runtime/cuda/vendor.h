/* SPDX-License-Identifier: MIT
 * Finding a library of NVIDIA's: its file, its functions, and a line of text that says what was found. The functions go
 * to a table of pointers, a struct that an X macro declares; the same macro lists them here. */
#ifndef TCC_RUNTIME_CUDA_VENDOR_H
#define TCC_RUNTIME_CUDA_VENDOR_H

#include "runtime/cuda/driver.h"

#include <stddef.h>

typedef struct tcc_vendor_function {
    const char *symbol;
    size_t at;     /* of its pointer in the table */
    bool optional; /* NULL where the library lacks it; without any other the library cannot be used */
} tcc_vendor_function;

enum { TCC_VENDOR_VERSION = 64, TCC_VENDOR_TEXT = PATH_MAX + 256 };

typedef struct tcc_vendor_library {
    const char *name;         /* in TCC_LIBRARIES and in what is printed */
    const char *const *files; /* the first one that is found is taken; NULL ends them */
    const char *packages;     /* of pip */
    const char *lost;         /* what is without it */
    size_t table_bytes;
    const tcc_vendor_function *functions;
    int n_functions;
    /* Writes the version, "9.2.1", and returns why the library cannot be used, or NULL. The table is filled. */
    const char *(*check)(const void *table, char version[TCC_VENDOR_VERSION]);
} tcc_vendor_library;

/* Opens it for the rest of the process, as such libraries keep threads and thread-local data, and fills the table.
 * Whether it can be used. `text`: version and file, or why not and what is lost. */
bool tcc_vendor_find(const tcc_vendor_library *library, void *table, char text[TCC_VENDOR_TEXT]);
/* That line, behind the library's name. */
void tcc__vendor_describe(const tcc_vendor_library *library, tcc_strbuf *out);

#endif
