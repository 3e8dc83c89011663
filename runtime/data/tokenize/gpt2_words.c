/* SPDX-License-Identifier: MIT
 * GPT-2's pattern: the first of these that matches,
 *     's|'t|'re|'ve|'m|'ll|'d      an English ending
 *     | ?\p{L}+| ?\p{N}+           letters, or digits, with a space before them
 *     | ?[^\s\p{L}\p{N}]+          others
 *     |\s+(?!\S)                   spaces; the last one is left to the word behind them
 *     |\s+ */
#include "runtime/data/tokenize/gpt2_words.h"
#include "runtime/data/tokenize/unicode.h"
#include "runtime/files/utf8.h"

typedef enum kind { LETTERS, DIGITS, OTHERS, SPACES } kind;

static kind kind_of(const uint8_t *text, size_t size, size_t *length) {
    uint8_t c = text[0];
    if (c < 0x80) {
        *length = 1;
        if ((uint8_t)((c | 0x20) - 'a') < 26) return LETTERS;
        if ((uint8_t)(c - '0') < 10) return DIGITS;
        return c == ' ' || (c >= '\t' && c <= '\r') ? SPACES : OTHERS;
    }
    uint32_t code = 0;
    *length = (size_t)tcc__utf8_decode(text, size, &code);
    switch (tcc__char_class_of(code)) {
    case TCC__CHAR_LETTER: return LETTERS;
    case TCC__CHAR_NUMBER: return DIGITS;
    case TCC__CHAR_SPACE: return SPACES;
    default: return OTHERS;
    }
}

/* 0: the text does not begin with an ending. */
static size_t ending(const uint8_t *text, size_t size) {
    if (text[0] != '\'' || size < 2) return 0;
    uint8_t a = text[1], b = size > 2 ? text[2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* The end of the characters of one kind that begin at `at`; *last: where the last of them begins. */
static size_t run(const uint8_t *text, size_t size, size_t at, kind of, size_t *last) {
    size_t length;
    while (at < size && kind_of(text + at, size - at, &length) == of) {
        *last = at;
        at += length;
    }
    return at;
}

size_t tcc__gpt2_word(const uint8_t *text, size_t size) {
    size_t length, last = 0, n = ending(text, size);
    if (n) return n;
    kind first = kind_of(text, size, &length);
    if (first != SPACES) return run(text, size, 0, first, &last);
    if (text[0] == ' ' && size > 1) {
        kind second = kind_of(text + 1, size - 1, &length);
        if (second != SPACES) return run(text, size, 1, second, &last);
    }
    size_t end = run(text, size, 0, SPACES, &last);
    return end == size || last == 0 ? end : last;
}
