/* SPDX-License-Identifier: MIT
 * A table as a data set: which rows are for what, and their features. */
#ifndef TCC_RUNTIME_DATA_CSV_TABLE_H
#define TCC_RUNTIME_DATA_CSV_TABLE_H

#include "runtime/data/csv.h"

#include <string.h>

typedef struct tcc__table {
    tcc__csv csv;
    int n_features, one_hot;
    tcc_csv_missing missing;
    tcc__row_store cells; /* of a row n_cells floats: numbers standardized, a word's place among those of training. Then
                             the targets, or the class as an int32_t, or -1 */
    bool listed;          /* which rows each split has: */
    tcc_vec(int) rows[TCC_SPLIT_COUNT];
} tcc__table;

static inline int32_t tcc__table_class(const tcc__table *t, const float *row) {
    int32_t id;
    memcpy(&id, row + t->csv.n_cells, sizeof id);
    return id;
}

/* The row behind the i-th sample of a split. */
int64_t tcc__table_row(const tcc__table *t, tcc_split split, int64_t i);

/* Lists the rows of each split, where a column of kind group, time or split says so: sets info.samples. *listed is
 * false where there is none. */
tcc_status tcc__table_split(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data, tcc__table *t);
/* What the training rows tell of each column and class, unless it is known, and the layout of x. */
tcc_status tcc__table_fit(tcc_diag *d, tcc_dataset *data, tcc__table *t);
bool tcc__table_describe(const tcc_dataset *data, tcc_strbuf *out);
/* Of a row's features and targets, as tcc__reader has it. */
uint64_t tcc__table_hash(const tcc_dataset *data, tcc_split split, int64_t number, bool rough);

#endif
