/* SPDX-License-Identifier: MIT
 * A file of separated values while it is read. */
#ifndef TCC_RUNTIME_DATA_CSV_SCAN_H
#define TCC_RUNTIME_DATA_CSV_SCAN_H

#include "runtime/data/csv.h"
#include "runtime/data/records.h"

/* A column that is guessed to be a category, and has as many different texts, is none. */
enum { TCC__GUESSED_WORDS = 1 << 20 };

typedef struct tcc__csv_scan {
    tcc__records records;
    locale_t locale;
    /* Of this file: */
    bool has_header, counts_up; /* its first line; counts_up: it is 0, 1, 2, ..., as columns without names are called */
    int n_cells;
    tcc_vec(int) columns; /* the cell of each column; -1: it is not there */
    double *row;          /* that is read, as the table keeps it */
    int id;               /* the cell that identifies a row; -1: none */
} tcc__csv_scan;

#define LINE_ERROR(s, ...) \
    tcc_error((s)->records.diag, TCC_EFORMAT, (tcc_loc){(s)->records.path, (s)->records.line}, __VA_ARGS__)

/* Reads all of the first file once to find its header, its columns and their kinds: csv->columns, csv->has_header. */
tcc_status tcc__csv_survey(tcc__csv_scan *s, const tcc__bytes *file, const tcc_data_options *options, tcc__csv *csv);

#endif
