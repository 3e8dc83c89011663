/* SPDX-License-Identifier: MIT
 * Diagnostics: what was wrong, where, and what would be right. A tcc_diag holds the first error of an operation and its
 * notes; later errors are ignored, because they usually follow from the first. */
#ifndef TCC_SUPPORT_DIAG_H
#define TCC_SUPPORT_DIAG_H

#include "loc.h"
#include "status.h"
#include "strbuf.h"

#include <stdarg.h>

/* Add "train.c:41", or what the place has instead. It has a file. */
void tcc_loc_print(tcc_strbuf *out, tcc_loc loc);

typedef struct tcc_diag {
    tcc_status status;
    tcc_strbuf text; /* "train.c:41: error: ..." and note lines */
    tcc_status last; /* of an earlier operation, which the text tells until there is another error (tcc_diag_begin) */
} tcc_diag;

/* Another operation begins: an earlier error no longer counts. Its text can still be read, by tcc_diag_last. */
void tcc_diag_begin(tcc_diag *d);
/* The text of the last operation that failed, as tcc_diag_text; "" if none did. */
const char *tcc_diag_last(const tcc_diag *d);

/* Record `status` with a message and return it, so that `return tcc_error(...)` reads well. Message style: lower case,
 * no full stop, with the values ("inner dimensions differ: f32[32,784] x f32[768,128] (784 vs 768)"). `d` may be NULL.
 */
tcc_status tcc_error(tcc_diag *d, tcc_status status, tcc_loc loc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
tcc_status tcc_verror(tcc_diag *d, tcc_status status, tcc_loc loc, const char *format, va_list args);
/* Out of memory, in words. */
tcc_status tcc_enomem(tcc_diag *d);
/* Add a note to the error just recorded. */
void tcc_note(tcc_diag *d, tcc_loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The whole text without a final newline; "" if there was no error. Borrowed until the diag changes. */
const char *tcc_diag_text(const tcc_diag *d);
/* The same without "error: " in front, to go on a sentence. */
const char *tcc_diag_words(const tcc_diag *d);
void tcc_diag_clear(tcc_diag *d);

#define TCC_NOWHERE ((tcc_loc){0})
/* A broken promise of our own code: reported, never an abort. */
#define TCC_BUG(d, ...) tcc_error((d), TCC_EBUG, (tcc_loc){__FILE__, __LINE__}, __VA_ARGS__)

#endif
