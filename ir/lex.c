/* SPDX-License-Identifier: MIT
 * Tokens of the textual IR. The text is untrusted: not terminated, any bytes. */
#include "ir/lex.h"

#include <errno.h>
#include <locale.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NUMBER = 64, LONGEST_STRING = 4096 };

/* Not <ctype.h>, which depends on the user's locale. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_char(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static tcc_status fail(tcc_lexer *x, const char *what) { return tcc_error(x->diag, TCC_EPARSE, x->loc, "%s", what); }

/* -- Scanning -- */

static void skip_blanks(tcc_lexer *x) {
    while (x->next < x->end) {
        if (*x->next == '\n') {
            x->loc.line++;
            x->next++;
        } else if (*x->next == ' ' || *x->next == '\t' || *x->next == '\r') {
            x->next++;
        } else if (x->end - x->next >= 2 && x->next[0] == '/' && x->next[1] == '/') {
            while (x->next < x->end && *x->next != '\n') x->next++;
        } else {
            return;
        }
    }
}

static const char *skip_word(const tcc_lexer *x, const char *p) {
    while (p < x->end && is_word_char(*p)) p++;
    return p;
}

/* Digits, letters and dots; a sign only behind an exponent's letter. */
static const char *skip_number(const tcc_lexer *x, const char *p) {
    bool hex = x->end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    for (; p < x->end; p++) {
        if (is_word_char(*p) || *p == '.') continue;
        bool exponent = p[-1] == 'p' || p[-1] == 'P' || (!hex && (p[-1] == 'e' || p[-1] == 'E'));
        if (!exponent || (*p != '+' && *p != '-')) break;
    }
    return p;
}

static const char *skip_string(const tcc_lexer *x, const char *p) {
    for (p++; p < x->end && *p != '"'; p++) {
        if (*p == '\n' || !*p) return NULL;
        if (*p == '\\' && ++p == x->end) return NULL;
    }
    return p < x->end ? p + 1 : NULL;
}

tcc_status tcc__lex_next(tcc_lexer *x) {
    skip_blanks(x);
    const char *start = x->next, *p = start;
    tcc_token_kind kind = TCC_TOKEN_END;
    if (p == x->end) {
        x->token = (tcc_token){TCC_TOKEN_END, p, 0};
        return TCC_OK;
    }
    if (is_digit(*p)) {
        kind = TCC_TOKEN_NUMBER;
        p = skip_number(x, p);
    } else if (is_word_char(*p)) {
        kind = TCC_TOKEN_WORD;
        p = skip_word(x, p);
    } else if (*p == '-' && x->end - p > 1 && is_word_char(p[1])) {
        kind = TCC_TOKEN_NUMBER;
        p = skip_number(x, p + 1);
    } else if (*p == '%') {
        kind = TCC_TOKEN_NODE;
        p = skip_word(x, p + 1);
    } else if (*p == '@') {
        kind = TCC_TOKEN_AT;
        p = skip_word(x, p + 1);
    } else if (*p == '"') {
        kind = TCC_TOKEN_STRING;
        p = skip_string(x, p);
        if (!p) return fail(x, "a string does not end in its line");
        if (p - start > LONGEST_STRING) return fail(x, "a string is longer than 4096 characters");
    } else if (*p && strchr("(){}[],=:", *p)) {
        kind = TCC_TOKEN_PUNCT;
        p++;
    } else if (*p > ' ' && *p < 0x7f) {
        return tcc_error(x->diag, TCC_EPARSE, x->loc, "unexpected character '%c'", *p);
    } else {
        return tcc_error(x->diag, TCC_EPARSE, x->loc, "unexpected byte 0x%02x", (unsigned char)*p);
    }
    x->token = (tcc_token){kind, start, (size_t)(p - start)};
    x->next = p;
    return TCC_OK;
}

tcc_status tcc__lex_start(tcc_lexer *x, const char *text, size_t length, const char *file, tcc_diag *diag) {
    *x = (tcc_lexer){.next = text, .end = text + length, .loc = {file, 1}, .diag = diag};
    return tcc__lex_next(x);
}

/* -- Taking tokens -- */

tcc_status tcc__lex_expected(tcc_lexer *x, const char *what) {
    enum { SHOWN = 40 };
    if (x->token.kind == TCC_TOKEN_END)
        return tcc_error(x->diag, TCC_EPARSE, x->loc, "expected %s, got the end of the text", what);
    int shown = x->token.length > SHOWN ? SHOWN : (int)x->token.length;
    return tcc_error(x->diag, TCC_EPARSE, x->loc, "expected %s, got %.*s%s", what, shown, x->token.text,
                     x->token.length > SHOWN ? "..." : "");
}

bool tcc__lex_is_word(const tcc_lexer *x, const char *word) {
    return x->token.kind == TCC_TOKEN_WORD && x->token.length == strlen(word) &&
           !memcmp(x->token.text, word, x->token.length);
}

tcc_status tcc__lex_punct(tcc_lexer *x, char punct) {
    const char what[] = {'\'', punct, '\'', '\0'};
    return tcc__lex_is(x, punct) ? tcc__lex_next(x) : tcc__lex_expected(x, what);
}

/* The token as a C string; false if it is too long for a number. */
static bool number_text(const tcc_token *t, char text[LONGEST_NUMBER]) {
    if (t->length >= LONGEST_NUMBER) return false;
    memcpy(text, t->text, t->length);
    text[t->length] = '\0';
    return true;
}

tcc_status tcc__lex_i64(tcc_lexer *x, int64_t *out) {
    char text[LONGEST_NUMBER], *rest;
    if (x->token.kind != TCC_TOKEN_NUMBER || !number_text(&x->token, text)) return tcc__lex_expected(x, "an integer");
    errno = 0;
    long long value = strtoll(text, &rest, 10);
    if (*rest) return tcc__lex_expected(x, "an integer");
    if (errno == ERANGE) return tcc__lex_expected(x, "an integer that fits 64 bits");
    *out = value;
    return tcc__lex_next(x);
}

tcc_status tcc__lex_f64(tcc_lexer *x, double *out) {
    char text[LONGEST_NUMBER + 8], *rest;
    const bool word = tcc__lex_is_word(x, "inf") || tcc__lex_is_word(x, "nan");
    if ((x->token.kind != TCC_TOKEN_NUMBER && !word) || !number_text(&x->token, text))
        return tcc__lex_expected(x, "a number");
    /* strtod reads the decimal point of the user's locale. */
    char *point = strchr(text, '.');
    const char *local = localeconv()->decimal_point;
    const size_t length = strlen(local);
    if (point && length && length <= 8) {
        memmove(point + length, point + 1, strlen(point + 1) + 1);
        memcpy(point, local, length);
    }
    *out = strtod(text, &rest);
    if (*rest) return tcc__lex_expected(x, "a number");
    return tcc__lex_next(x);
}

static int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

tcc_status tcc__lex_string(tcc_lexer *x, tcc_arena *arena, const char **out) {
    if (x->token.kind != TCC_TOKEN_STRING) return tcc__lex_expected(x, "a string in quotes");
    char *to = tcc_arena_alloc(arena, x->token.length);
    if (!to) return tcc_enomem(x->diag);
    *out = to;
    const char *p = x->token.text + 1, *last = x->token.text + x->token.length - 1;
    while (p < last) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        p++; /* the lexer saw to it that a character follows */
        int value = -1;
        if (*p == '"' || *p == '\\') value = *p;
        else if (*p == 'n') value = '\n';
        else if (*p == 't') value = '\t';
        else if (*p == 'x' && last - p > 2 && hex_value(p[1]) >= 0 && hex_value(p[2]) >= 0) {
            value = 16 * hex_value(p[1]) + hex_value(p[2]);
            p += 2;
        }
        if (value <= 0) return fail(x, "unknown escape in a string; known are \\\" \\\\ \\n \\t \\xHH");
        *to++ = (char)value;
        p++;
    }
    *to = '\0';
    return tcc__lex_next(x);
}

tcc_status tcc__lex_node(tcc_lexer *x, int64_t *number) {
    const char *p = x->token.text + 1, *end = x->token.text + x->token.length;
    if (x->token.kind != TCC_TOKEN_NODE || p == end || end - p > 9) return tcc__lex_expected(x, "a node like %0");
    for (*number = 0; p < end; p++) {
        if (!is_digit(*p)) return tcc__lex_expected(x, "a node like %0");
        *number = *number * 10 + (*p - '0');
    }
    return tcc__lex_next(x);
}
