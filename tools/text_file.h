/* SPDX-License-Identifier: MIT
 * A text that becomes a file as a whole, or leaves the file that was there as it was. */
#ifndef TCC_TOOLS_TEXT_FILE_H
#define TCC_TOOLS_TEXT_FILE_H

#include <traincc/checkpoint.h>

#include <stdbool.h>
#include <stdio.h>

typedef struct text_file {
    FILE *out; /* to be written to */
    char *text;
    size_t length;
} text_file;

/* False when memory is short. */
bool text_file_begin(text_file *f);
/* Writes what came to `out` to the file, and frees it. The error's text is the context's. */
tcc_status text_file_end(text_file *f, tcc_context *cx, const char *path);

#endif
