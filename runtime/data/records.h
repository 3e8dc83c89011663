/* SPDX-License-Identifier: MIT
 * Records of a file of separated values, from memory. Cells are as in RFC 4180 (quoted cells, doubled quotes, any line
 * ends), or as in files of tab-separated values: no quotes, and \t, \n, \r and \\ stand for a tab, line ends and a
 * backslash. */
#ifndef TCC_RUNTIME_DATA_RECORDS_H
#define TCC_RUNTIME_DATA_RECORDS_H

#include "ir/support/diag.h"
#include "ir/support/strbuf.h"
#include "ir/support/vec.h"
#include "runtime/files/file.h"

typedef struct tcc__records {
    tcc_diag *diag;
    const char *path;
    const char *at, *end;
    int next_line;
    char separator;
    bool escapes; /* instead of quotes */
    /* The record that was read: */
    tcc_strbuf text;       /* its cells, each NUL-terminated */
    tcc_vec(size_t) cells; /* offsets into text */
    int line;              /* where it starts */
    bool blank;
} tcc__records;

/* Borrows path and file. Errors: EINVAL (the separator), EFORMAT (not UTF-8). */
tcc_status tcc__records_begin(tcc_diag *d, const char *path, const tcc__bytes *file, char separator, bool escapes,
                              tcc__records *out);
/* The next record; *more is false at the end. Errors: EFORMAT, with the line. */
tcc_status tcc__records_next(tcc__records *r, bool *more);
const char *tcc__records_cell(const tcc__records *r, int i);
void tcc__records_free(tcc__records *r);

#endif
