/* SPDX-License-Identifier: MIT
 * What all statements of the text are made of: words, nodes by number, offsets, and errors at a token. */
#include "ir/parser.h"

#include "ir/support/nearest.h"

#include <stdio.h>

tcc_status tcc__parse_fail(tcc_parser *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tcc_verror(p->x.diag, TCC_EPARSE, p->x.loc, format, args);
    va_end(args);
    return TCC_EPARSE;
}

tcc_status tcc__parse_word(tcc_parser *p, const char *word) {
    char what[32];
    snprintf(what, sizeof what, "'%s'", word);
    return is_word(p, word) ? tcc__lex_next(&p->x) : tcc__lex_expected(&p->x, what);
}

/* The word as a C string in a small buffer, cut: for messages and nearest words. */
static const char *word_text(const tcc_parser *p, char text[64]) {
    snprintf(text, 64, "%.*s", p->x.token.length < 63 ? (int)p->x.token.length : 63, p->x.token.text);
    return text;
}

/* "unknown <what> 'wrod', did you mean 'word'?" */
tcc_status tcc__parse_unknown(tcc_parser *p, const char *what, const char *const *known, int n) {
    char text[64];
    const char *nearest = tcc_nearest(word_text(p, text), known, n);
    if (nearest) return tcc__parse_fail(p, "unknown %s '%s', did you mean '%s'?", what, text, nearest);
    return tcc__parse_fail(p, "unknown %s '%s'", what, text);
}

tcc_status tcc__parse_node(tcc_parser *p, tcc_node **out) {
    int64_t number;
    const tcc_loc at = p->x.loc;
    TCC_TRY(tcc__lex_node(&p->x, &number));
    *out = number < p->by_number.count ? p->by_number.data[number] : NULL;
    if (*out) return TCC_OK;
    return tcc_error(p->x.diag, TCC_EPARSE, at, "%%%lld is not defined above", (long long)number);
}

tcc_status tcc__parse_nodes(tcc_parser *p, int most) {
    p->list.count = 0;
    TCC_TRY(tcc__lex_punct(&p->x, '('));
    while (!tcc__lex_is(&p->x, ')')) {
        tcc_node *n;
        if (p->list.count) TCC_TRY(tcc__lex_punct(&p->x, ','));
        if (p->list.count == most) return tcc__parse_fail(p, "more than %d nodes in a list", most);
        TCC_TRY(tcc__parse_node(p, &n));
        if (!tcc_vec_push(&p->list, n)) return tcc_enomem(p->x.diag);
    }
    return tcc__lex_next(&p->x);
}

tcc_status tcc__parse_offset(tcc_parser *p, int64_t *out) {
    const tcc_token at = p->x.token;
    if (at.kind != TCC_TOKEN_AT) return tcc__lex_expected(&p->x, "'@' and an offset");
    *out = 0;
    for (size_t i = 1; i < at.length; i++) {
        int digit = at.text[i] - '0';
        if (digit < 0 || digit > 9 || *out > (INT64_MAX - digit) / 10)
            return tcc__lex_expected(&p->x, "an offset in bytes");
        *out = *out * 10 + digit;
    }
    if (at.length == 1) return tcc__lex_expected(&p->x, "an offset in bytes");
    return tcc__lex_next(&p->x);
}
