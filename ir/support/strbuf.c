/* SPDX-License-Identifier: MIT
 * Growing text. */
#include "strbuf.h"
#include "alloc.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve(tcc_strbuf *b, size_t extra) {
    if (b->failed) return false;
    if (b->length + extra + 1 <= b->capacity) return true;
    size_t capacity = (b->length + extra + 1) * 2;
    char *text = tcc__realloc(b->text, capacity);
    if (!text) {
        b->failed = true;
        return false;
    }
    b->text = text;
    b->capacity = capacity;
    return true;
}

void tcc_strbuf_addn(tcc_strbuf *b, const char *s, size_t length) {
    if (!reserve(b, length)) return;
    memcpy(b->text + b->length, s, length);
    b->length += length;
    b->text[b->length] = '\0';
}

void tcc_strbuf_add(tcc_strbuf *b, const char *s) { tcc_strbuf_addn(b, s, strlen(s)); }

/* In the C locale, so that numbers have a point whatever the program's locale is. That one needs no memory. */
void tcc_strbuf_printf(tcc_strbuf *b, const char *format, ...) {
    const locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && reserve(b, (size_t)length)) {
        vsnprintf(b->text + b->length, (size_t)length + 1, format, again);
        b->length += (size_t)length;
    }
    va_end(again);
    uselocale(before);
}

void tcc_strbuf_bytes(tcc_strbuf *b, double bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++) bytes /= 1024;
    tcc_strbuf_printf(b, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

char *tcc_strbuf_take(tcc_strbuf *b) {
    if (!b->text) tcc_strbuf_addn(b, "", 0);
    char *text = b->failed ? NULL : b->text;
    if (b->failed) tcc__free(b->text);
    *b = (tcc_strbuf){0};
    return text;
}

void tcc_strbuf_free(tcc_strbuf *b) {
    tcc__free(b->text);
    *b = (tcc_strbuf){0};
}
