/* SPDX-License-Identifier: MIT
 * Tables of separated values, from memory: what kind csv does once its file is read (fuzzed). */
#ifndef TCC_RUNTIME_DATA_CSV_H
#define TCC_RUNTIME_DATA_CSV_H

#include "ir/support/vec.h"
#include "runtime/data/columns.h"
#include "runtime/data/row_store.h"

#include <locale.h>

/* A label as it stands in a file, once. */
typedef struct tcc__csv_label {
    int line;      /* the first that has it */
    bool trained;  /* the first file has it */
    int32_t id;    /* of its class */
    int64_t count; /* of rows */
} tcc__csv_label;

/* A table of one or, with a file of its own for validation, two files, whose rows follow one
 * another. */
typedef struct tcc__csv {
    tcc__columns columns; /* as in the file */
    int n_cells;          /* that are kept of a row */
    int n_targets;
    bool has_header;
    int64_t surveyed;               /* rows that a survey has counted, a header among them */
    tcc__row_store store;           /* of a row n_cells doubles: NaN where one is missing, a word's number of texts, -1
                                       where it is not known. Then the targets: numbers, or a label's number or -1 */
    tcc__words label_texts;         /* classification: its labels */
    tcc_vec(tcc__csv_label) labels; /* the same by their numbers */
    tcc_strbuf texts;               /* of classes and ids, each NUL-terminated */
    tcc_vec(size_t) ids;            /* of rows, offsets into texts; none unless they are asked for */
    tcc_vec(size_t) classes;        /* distinct labels, offsets into texts; numbers by value, else by bytes */
    int64_t rows[2];                /* of each file */
} tcc__csv;

/* A finite number, and nothing else in the text. */
bool tcc__csv_number(locale_t locale, const char *text, double *out);
/* The same where numbers have a decimal comma: 3,14 and 1.234,5, and 1.234, which is 1234. */
bool tcc__csv_comma_number(locale_t locale, const char *text, double *out);
/* Whether a text stands for nothing: "", "?", "NA", "nan", ... */
bool tcc__csv_is_missing(const char *text);
/* Append a text; false when memory is short. */
bool tcc__csv_add_text(tcc__csv *csv, const char *text, size_t *offset);

/* A label of a row: its number. `line`: where it is, `trained`: in the first file. */
tcc_status tcc__csv_add_label(tcc_diag *d, tcc__csv *csv, const char *text, int line, bool trained, int32_t *number);

/* Parse the first file (`index` 0: finds header, columns) or the second (1: must agree with the
 * first). `file`: what it holds; NULL: it is read from `path`, in windows, twice if its columns are not known. Errors
 * leave `out` to be freed. */
tcc_status tcc__csv_parse(tcc_diag *d, const char *path, const tcc__bytes *file, const tcc_data_options *options,
                          int index, tcc__csv *out);
/* The columns are known before a file is parsed, which must then agree. */
tcc_status tcc__csv_take_columns(tcc_diag *d, const tcc_data_options *options, const cJSON *learned, tcc__csv *csv);
/* The classes in their order, known before. */
tcc_status tcc__csv_set_classes(tcc_diag *d, const tcc__file_list *names, tcc__csv *csv);
/* Number the classes after all files are parsed. A class that only the second file has is an error, and so is one that
 * is not among those that are known; `val_path` is for its message. */
tcc_status tcc__csv_number_classes(tcc_diag *d, const char *val_path, tcc__csv *csv);
void tcc__csv_free(tcc__csv *csv);

#endif
