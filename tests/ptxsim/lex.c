/* SPDX-License-Identifier: MIT
 * PTX as text: words, numbers, punctuation, with the line for messages. */
#include "read.h"

#include "numbers.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void parse_fail(parser *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = snprintf(p->error, p->error_size, "line %d: error: ", p->line);
    if (n >= 0 && (size_t)n < p->error_size) vsnprintf(p->error + n, p->error_size - (size_t)n, format, args);
    va_end(args);
    longjmp(p->fail, 1);
}

void *parse_alloc(parser *p, size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) parse_fail(p, "out of memory");
    return memory;
}

char *parse_copy(parser *p, const char *s) {
    char *copy = parse_alloc(p, strlen(s) + 1);
    strcpy(copy, s);
    return copy;
}

void lex_skip_space(parser *p) {
    for (; p->at < p->end; p->at++) {
        if (*p->at == '\n') {
            p->line++;
        } else if (*p->at == '/' && p->at + 1 < p->end && p->at[1] == '/') {
            while (p->at < p->end && *p->at != '\n') p->at++;
            p->at--;
        } else if (*p->at == '/' && p->at + 1 < p->end && p->at[1] == '*') {
            for (p->at += 2; p->at + 1 < p->end && !(p->at[0] == '*' && p->at[1] == '/'); p->at++)
                if (*p->at == '\n') p->line++;
            p->at++;
        } else if (!isspace((unsigned char)*p->at)) {
            return;
        }
    }
}

char lex_peek(parser *p) {
    lex_skip_space(p);
    return p->at < p->end ? *p->at : 0;
}

bool lex_accept(parser *p, char c) {
    if (lex_peek(p) != c) return false;
    p->at++;
    return true;
}

void lex_expect(parser *p, char c) {
    char got = lex_peek(p);
    if (got != c) {
        if (got) parse_fail(p, "'%c' expected before '%.16s'", c, p->at);
        parse_fail(p, "'%c' expected at the end", c);
    }
    p->at++;
}

static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%'; }

/* A name, directive or opcode into `out`; empty when there is none. */
void lex_word(parser *p, char *out, size_t size, bool colons) {
    lex_skip_space(p);
    size_t n = 0;
    while (p->at < p->end &&
           (word_char(*p->at) || (colons && *p->at == ':' && (p->at[1] == ':' || p->at[-1] == ':')))) {
        if (n + 1 >= size) parse_fail(p, "name too long");
        out[n++] = *p->at++;
    }
    out[n] = 0;
}

void lex_skip_statement(parser *p) {
    while (p->at < p->end && *p->at != ';') p->line += *p->at++ == '\n';
    if (p->at < p->end) p->at++;
}

void lex_skip_line(parser *p) {
    while (p->at < p->end && *p->at != '\n') p->at++;
}

bool lex_number(parser *p, operand *o) {
    lex_skip_space(p);
    const char *s = p->at;
    bool negative = false;
    if (*s == '-' || *s == '+') negative = *s == '-', s++;
    if (!isdigit((unsigned char)*s)) return false;
    char *end;
    if (*s == '0' && (s[1] == 'f' || s[1] == 'F') && isxdigit((unsigned char)s[2])) {
        uint32_t bits = (uint32_t)strtoul(s + 2, &end, 16);
        if (end - s != 10) parse_fail(p, "0f needs eight hexadecimal digits");
        o->kind = OPD_FLOAT, o->single = true, o->bits = bits ^ (negative ? 0x80000000u : 0);
    } else if (*s == '0' && (s[1] == 'd' || s[1] == 'D') && isxdigit((unsigned char)s[2])) {
        uint64_t bits = strtoull(s + 2, &end, 16);
        if (end - s != 18) parse_fail(p, "0d needs sixteen hexadecimal digits");
        o->kind = OPD_FLOAT, o->single = false, o->bits = bits ^ (negative ? UINT64_C(1) << 63 : 0);
    } else {
        uint64_t value = strtoull(s, &end, 0);
        if (*end == '.' || ((*end == 'e' || *end == 'E') && !(s[0] == '0' && (s[1] == 'x' || s[1] == 'X')))) {
            double d = strtod(s, &end);
            o->kind = OPD_FLOAT, o->single = false, o->bits = as_u64(negative ? -d : d);
        } else {
            if (*end == 'U') end++;
            o->kind = OPD_INT, o->bits = negative ? -value : value;
        }
    }
    p->at = end;
    return true;
}
