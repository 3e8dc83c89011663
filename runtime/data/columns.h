/* SPDX-License-Identifier: MIT
 * The columns of a table: what each is for, and what its training rows tell of it. */
#ifndef TCC_RUNTIME_DATA_COLUMNS_H
#define TCC_RUNTIME_DATA_COLUMNS_H

#include "runtime/data/learned.h"
#include "runtime/data/words.h"

typedef enum tcc__column_kind {
    TCC__COLUMN_AUTO,
    TCC__COLUMN_NUMBER,
    TCC__COLUMN_CATEGORY,
    TCC__COLUMN_DROP,
    TCC__COLUMN_TARGET,
    TCC__COLUMN_WEIGHT,
    TCC__COLUMN_GROUP,
    TCC__COLUMN_TIME,
    TCC__COLUMN_SPLIT,
    TCC__COLUMN_KINDS
} tcc__column_kind;

typedef struct tcc__column {
    char *name; /* "" without a header */
    tcc__column_kind kind;
    bool guessed;
    int cell;            /* which of a row's cells is kept of it; -1: none is */
    int first, features; /* of a sample's x */
    bool embedded;       /* a category is one feature: its number from 1, 0 where it was not seen in training */
    bool comma;          /* its numbers are written as 1.234,5 where no comma separates cells */
    bool indicator;      /* the last feature says that the cell was missing */
    double mean, std, least, most;
    int64_t missing;
    tcc__words words; /* of kinds but numbers: what its cells say. Of a category: those of training, in their order */
    int32_t usual;    /* the most frequent one */
} tcc__column;

typedef tcc_vec(tcc__column) tcc__columns;

const char *tcc__column_kind_name(tcc__column_kind kind);
/* TCC__COLUMN_KINDS: there is none of this name. */
tcc__column_kind tcc__column_kind_of(const char *name);
/* Whether x has features of it. */
static inline bool tcc__column_is_input(const tcc__column *c) {
    return c->kind == TCC__COLUMN_NUMBER || c->kind == TCC__COLUMN_CATEGORY;
}
/* Whether its cells are numbers, rather than texts. */
static inline bool tcc__column_is_number(const tcc__column *c) {
    return c->kind == TCC__COLUMN_NUMBER || c->kind == TCC__COLUMN_WEIGHT;
}

bool tcc__columns_add(tcc__columns *columns, const char *name, tcc__column_kind kind);
/* Numbers the cells that are kept of a row; how many. */
int tcc__columns_number_cells(tcc__columns *columns);
/* Where each column's features lie in x; how many there are. Categories are one-hot up to `one_hot` of them. */
int tcc__columns_lay_out(tcc__columns *columns, int one_hot);
/* A row's features in x from its cells: NaN where a number or a category is missing, -1 for a category that was not
 * seen. */
void tcc__columns_write(const tcc__columns *columns, const float *cells, float *x);

bool tcc__columns_learn(const tcc__columns *columns, cJSON *to);
tcc_status tcc__columns_take(tcc_diag *d, const cJSON *from, tcc__columns *out);
void tcc__columns_free(tcc__columns *columns);

#endif
