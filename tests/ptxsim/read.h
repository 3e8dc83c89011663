/* SPDX-License-Identifier: MIT
 * Shared by the files that read PTX text: lex.c, symbols.c, operand.c, variable.c, function.c, parse.c. Each uses those
 * before it. What the decoder of instructions uses of them is in parse.h. All of them end by parse_fail at an error. */
#ifndef PTXSIM_READ_H
#define PTXSIM_READ_H

#include "parse.h"

#include <string.h>

/* --- lex.c. Spaces and comments before a token are skipped. */
char *parse_copy(parser *p, const char *s);
void lex_skip_space(parser *p);
char lex_peek(parser *p);           /* the next character; 0 at the end */
bool lex_accept(parser *p, char c); /* takes the character if it is next */
void lex_expect(parser *p, char c);
/* A name, directive or opcode into `out`; empty when there is none. */
void lex_word(parser *p, char *out, size_t size, bool colons);
bool lex_number(parser *p, operand *o); /* false: there is none */
void lex_skip_statement(parser *p);
void lex_skip_line(parser *p);

/* --- symbols.c */
static inline bool type_is_wide(sim_type t) { return sim_type_size(t) == 8; }
symbol *symbol_find(parser *p, const char *name); /* NULL: there is none of exactly that name */
symbol *symbol_add(parser *p, const char *name, symbol_kind kind);
void symbol_leave_scope(parser *p);

/* --- operand.c */
/* What a name stands for. */
void parse_name(parser *p, operand *o, const char *name);
void parse_operand(parser *p, operand *o);

/* --- variable.c */
static inline uint64_t parse_round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }
/* `.align 4 .b8 name[16]` after the space; also a formal parameter. */
sim_var *parse_variable_of(parser *p, sim_space space, bool external);
void symbol_declare(parser *p, sim_var *v);
void parse_variable(parser *p, sim_space space, bool external); /* one or more, with initializers, up to the ';' */
void parse_registers(parser *p);

/* --- function.c */
void parse_function(parser *p, bool kernel);

#endif
