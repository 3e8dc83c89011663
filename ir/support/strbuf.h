/* SPDX-License-Identifier: MIT
 * Growing text. A failed allocation sticks (`failed`), so that a printer checks once at the end. */
#ifndef TCC_SUPPORT_STRBUF_H
#define TCC_SUPPORT_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tcc_strbuf {
    char *text; /* NUL-terminated once anything was added; else NULL */
    size_t length, capacity;
    bool failed;
} tcc_strbuf;

void tcc_strbuf_add(tcc_strbuf *b, const char *s);
void tcc_strbuf_addn(tcc_strbuf *b, const char *s, size_t length);
void tcc_strbuf_printf(tcc_strbuf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An amount of memory in the unit that a person reads it in: "1.5 GiB". */
void tcc_strbuf_bytes(tcc_strbuf *b, double bytes);
/* The text, which the caller then frees with tcc__free; NULL if an allocation failed. Leaves the buffer empty. */
char *tcc_strbuf_take(tcc_strbuf *b);
void tcc_strbuf_free(tcc_strbuf *b);

#endif
