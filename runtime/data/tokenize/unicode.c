/* SPDX-License-Identifier: MIT
 * Unicode, by utf8proc. */
#include "runtime/data/tokenize/unicode.h"

#include <stdbool.h>
#include <utf8proc.h>

static bool is_space(uint32_t code) {
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

tcc__char_class tcc__char_class_of(uint32_t code) {
    if (is_space(code)) return TCC__CHAR_SPACE;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return TCC__CHAR_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return TCC__CHAR_NUMBER;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return TCC__CHAR_PUNCTUATION;
    case UTF8PROC_CATEGORY_MN: return TCC__CHAR_MARK;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO: return TCC__CHAR_CONTROL;
    default: return TCC__CHAR_OTHER;
    }
}

uint32_t tcc__char_lower(uint32_t code) { return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code); }

int tcc__char_decompose(uint32_t code, uint32_t out[TCC__DECOMPOSED_MAX]) {
    utf8proc_int32_t parts[TCC__DECOMPOSED_MAX];
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)code, parts, TCC__DECOMPOSED_MAX,
                                                     UTF8PROC_DECOMPOSE, NULL);
    if (count < 1 || count > TCC__DECOMPOSED_MAX) {
        out[0] = code;
        return 1;
    }
    for (int i = 0; i < count; i++) out[i] = (uint32_t)parts[i];
    return (int)count;
}

int tcc__char_combining_class(uint32_t code) { return utf8proc_get_property((utf8proc_int32_t)code)->combining_class; }
