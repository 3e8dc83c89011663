/* SPDX-License-Identifier: MIT
 * Attributes by table: every field of every class with its kind and place, so that printing,
 * parsing, hashing, comparing and copying are one loop each over the rows of attrs.def. */
#ifndef TCC_IR_ATTRS_H
#define TCC_IR_ATTRS_H

#include "ir/ir.h"

typedef enum tcc_attr_kind {
    TCC_ATTR_I64,
    TCC_ATTR_F64,
    TCC_ATTR_BOOL,
    TCC_ATTR_DIMS,
    TCC_ATTR_F64S,
    TCC_ATTR_STR,
    TCC_ATTR_ROLE,
} tcc_attr_kind;

typedef struct tcc_attr_field {
    const char *name;
    tcc_attr_kind kind;
    size_t offset; /* from the start of tcc_attrs */
} tcc_attr_field;

/* The fields of a class in the order of attrs.def, ended by one without a name. */
const tcc_attr_field *tcc_attr_fields(tcc_attr_class c);

/* The field within attributes: cast to the C type of its kind. */
static inline const void *tcc_attr_get(const tcc_attrs *a, const tcc_attr_field *f) {
    return (const char *)a + f->offset;
}
static inline void *tcc_attr_at(tcc_attrs *a, const tcc_attr_field *f) { return (char *)a + f->offset; }

/* Deep copy: strings and lists go to the arena, entries of lists past their count become 0. False
 * when memory is short. */
bool tcc_attrs_copy(tcc_arena *arena, tcc_attr_class c, const tcc_attrs *from, tcc_attrs *to);
/* "{axis=1, reverse=true}"; nothing when every field has its default. Returns whether anything was
 * printed. */
bool tcc_attrs_print(tcc_strbuf *b, tcc_attr_class c, const tcc_attrs *a);

const char *tcc_role_text(tcc_role role); /* "param" */
bool tcc_role_parse(const char *text, size_t length, tcc_role *out);

/* Prints a string in double quotes, with ", \ and control characters escaped (\n, \t, \xHH). */
void tcc_print_quoted(tcc_strbuf *b, const char *s);

#endif
