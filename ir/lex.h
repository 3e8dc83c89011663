/* SPDX-License-Identifier: MIT
 * Tokens of the textual IR. Private to ir/. */
#ifndef TCC_IR_LEX_H
#define TCC_IR_LEX_H

#include "ir/support/arena.h"
#include "ir/support/diag.h"

#include <stdint.h>

typedef enum tcc_token_kind {
    TCC_TOKEN_END,
    TCC_TOKEN_WORD,   /* letters, digits and _, not beginning with a digit */
    TCC_TOKEN_NUMBER, /* -?digit followed by what a number may hold; -inf and -nan too */
    TCC_TOKEN_STRING, /* with its quotes */
    TCC_TOKEN_NODE,   /* %12 */
    TCC_TOKEN_AT,     /* @ and the letters, digits and _ after it, possibly none */
    TCC_TOKEN_PUNCT,  /* one of ( ) { } [ ] , = : */
} tcc_token_kind;

typedef struct tcc_token {
    tcc_token_kind kind;
    const char *text; /* in the source, not terminated */
    size_t length;
} tcc_token;

typedef struct tcc_lexer {
    const char *next, *end;
    tcc_loc loc; /* of the token */
    tcc_token token;
    tcc_diag *diag;
} tcc_lexer;

/* Starts before the first token; every function reports its error with the line. */
tcc_status tcc__lex_start(tcc_lexer *x, const char *text, size_t length, const char *file, tcc_diag *diag);
tcc_status tcc__lex_next(tcc_lexer *x);
/* "expected <what>, got <token>". */
tcc_status tcc__lex_expected(tcc_lexer *x, const char *what);

static inline bool tcc__lex_is(const tcc_lexer *x, char punct) {
    return x->token.kind == TCC_TOKEN_PUNCT && *x->token.text == punct;
}
bool tcc__lex_is_word(const tcc_lexer *x, const char *word);

/* Take one token of a kind, or report what was expected. */
tcc_status tcc__lex_punct(tcc_lexer *x, char punct);
tcc_status tcc__lex_i64(tcc_lexer *x, int64_t *out);
tcc_status tcc__lex_f64(tcc_lexer *x, double *out); /* a number, or the words inf and nan */
tcc_status tcc__lex_string(tcc_lexer *x, tcc_arena *arena, const char **out);
tcc_status tcc__lex_node(tcc_lexer *x, int64_t *number);

#endif
