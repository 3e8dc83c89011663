/* SPDX-License-Identifier: MIT
 * Shared by the files that parse text: the state of a parser, and what all statements are made of. parse.c has the
 * grammar. */
#ifndef TCC_IR_PARSER_H
#define TCC_IR_PARSER_H

#include "ir/ir.h"
#include "ir/lex.h"

typedef struct tcc_parser {
    tcc_lexer x;
    tcc_graph *g;
    tcc_arena scratch;             /* strings and lists until they are copied into the graph */
    tcc_vec(tcc_node *) by_number; /* nodes by their number in the text */
    tcc_vec(tcc_node *) list;      /* the list that was read last */
    tcc_vec(double) values;
} tcc_parser;

/* An error at the token that was read last. */
tcc_status tcc__parse_fail(tcc_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "unknown <what> 'wrod', did you mean 'word'?" */
tcc_status tcc__parse_unknown(tcc_parser *p, const char *what, const char *const *known, int n);

static inline bool is_word(const tcc_parser *p, const char *word) { return tcc__lex_is_word(&p->x, word); }

tcc_status tcc__parse_word(tcc_parser *p, const char *word); /* that word and no other */
tcc_status tcc__parse_node(tcc_parser *p, tcc_node **out);   /* one that is defined above */
/* "(" nodes ")" into p->list. */
tcc_status tcc__parse_nodes(tcc_parser *p, int most);
tcc_status tcc__parse_offset(tcc_parser *p, int64_t *out);

/* parse_group.c: these statements. */
tcc_status tcc__parse_group(tcc_parser *p);
tcc_status tcc__parse_place(tcc_parser *p);

#endif
