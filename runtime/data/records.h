/* SPDX-License-Identifier: MIT
 * Records of separated values, from memory or from a file of any size, of which a window is in memory. Cells are as in
 * RFC 4180 (quoted cells, doubled quotes, any line ends), or as in files of tab-separated values: no quotes, and \t,
 * \n, \r and \\ stand for a tab, line ends and a backslash. */
#ifndef TCC_RUNTIME_DATA_RECORDS_H
#define TCC_RUNTIME_DATA_RECORDS_H

#include "ir/support/diag.h"
#include "ir/support/strbuf.h"
#include "ir/support/vec.h"
#include "runtime/files/file.h"
#include "runtime/files/inflate.h"

typedef struct tcc__records {
    tcc_diag *diag;
    const char *path;
    const char *at, *end; /* of what is in memory */
    tcc__inflate file;
    bool opened, unread; /* a file; not all of it is in the window yet */
    char *window;
    size_t capacity;
    const char *checked; /* the window is UTF-8 up to here */
    int64_t before;      /* bytes of the file in front of the window */
    int next_line;
    char separator;
    bool escapes; /* instead of quotes */
    /* The record that was read: */
    tcc_strbuf text;       /* its cells, each NUL-terminated */
    tcc_vec(size_t) cells; /* offsets into text */
    int line;              /* where it starts */
    bool blank;
} tcc__records;

/* Borrows path and file; without one `path` is read in windows. `separator` 0: a comma, semicolon, tab or |, which the
 * first lines agree on. `escapes`: for the separator that is given. An error leaves `out` to be freed. Errors: EINVAL
 * (the separator), EFORMAT (not UTF-8), as tcc__inflate_open's. */
tcc_status tcc__records_begin(tcc_diag *d, const char *path, const tcc__bytes *file, char separator, bool escapes,
                              tcc__records *out);
/* The next record; *more is false at the end. Errors: EFORMAT, with the line. */
tcc_status tcc__records_next(tcc__records *r, bool *more);
const char *tcc__records_cell(const tcc__records *r, int i);
void tcc__records_free(tcc__records *r);

#endif
