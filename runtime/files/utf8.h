/* SPDX-License-Identifier: MIT
 * UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef TCC_RUNTIME_FILES_UTF8_H
#define TCC_RUNTIME_FILES_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The code point at `s` and its length in bytes; 0 if the bytes there are not UTF-8. `size` >= 1 is
 * what is left of the text. */
static inline int tcc__utf8_decode(const uint8_t *s, size_t size, uint32_t *code) {
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    int length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || (size_t)length > size) return 0;
    uint32_t c = s[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3F);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0;
    *code = c;
    return length;
}

/* The bytes of a code point, NUL-terminated; returns their number. */
static inline int tcc__utf8_encode(uint32_t c, char out[5]) {
    int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[length] | c);
    out[length] = '\0';
    return length;
}

/* Offset of the first byte that is not UTF-8; `size` if all is well. */
static inline size_t tcc__utf8_check(const uint8_t *s, size_t size) {
    size_t at = 0;
    while (at < size) {
        uint64_t word;
        if (size - at >= sizeof word && (memcpy(&word, s + at, sizeof word), !(word & 0x8080808080808080u))) {
            at += sizeof word;
            continue;
        }
        uint32_t code;
        int length = tcc__utf8_decode(s + at, size - at, &code);
        if (!length) return at;
        at += (size_t)length;
    }
    return size;
}

#endif
