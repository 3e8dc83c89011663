/* SPDX-License-Identifier: MIT
 * Comma-separated values, from memory: what kind csv does once its file is read (fuzzed). */
#ifndef TCC_RUNTIME_DATA_CSV_H
#define TCC_RUNTIME_DATA_CSV_H

#include "ir/support/vec.h"
#include "runtime/data/learned.h"

#include <locale.h>

/* One label as it stands in a file. */
typedef struct tcc__csv_label {
    size_t text; /* offset into `texts`, NUL-terminated */
    int line;
    int32_t id;
} tcc__csv_label;

/* A table of one or, with a file of its own for validation, two files, whose rows follow one
 * another. */
typedef struct tcc__csv {
    int n_columns, label_column; /* as in the file */
    bool has_header;
    tcc_strbuf texts;               /* of names and labels, each NUL-terminated */
    tcc_vec(size_t) names;          /* columns' names as offsets into texts; empty without a header */
    tcc_vec(double) cells;          /* features, row after row */
    tcc_vec(double) targets;        /* regression */
    tcc_vec(tcc__csv_label) labels; /* classification */
    tcc_vec(size_t) classes;        /* distinct labels, offsets into texts; numbers by value, else by bytes */
    int64_t rows[2];                /* of each file */
} tcc__csv;

/* A finite number, and nothing else in the text. */
bool tcc__csv_number(locale_t locale, const char *text, double *out);
/* Append a text; false when memory is short. */
bool tcc__csv_add_text(tcc__csv *csv, const char *text, size_t *offset);

/* Parse the first file (`index` 0: finds header, columns) or the second (1: must agree with the
 * first). Errors leave `out` to be freed. */
tcc_status tcc__csv_parse(tcc_diag *d, const char *path, const tcc__bytes *file, const tcc_data_options *options,
                          int index, tcc__csv *out);
/* What is known before a file is parsed, which must then agree: the columns ("name" each, the label's too), and the
 * classes in their order. */
tcc_status tcc__csv_set_columns(tcc_diag *d, const cJSON *columns, int label_column, bool has_header, tcc__csv *csv);
tcc_status tcc__csv_set_classes(tcc_diag *d, const tcc__file_list *names, tcc__csv *csv);
/* Number the classes after all files are parsed. A class that only the second file has is an error, and so is one that
 * is not among those that are known; `val_path` is for its message. */
tcc_status tcc__csv_number_classes(tcc_diag *d, const char *val_path, tcc__csv *csv);
void tcc__csv_free(tcc__csv *csv);

#endif
