/* SPDX-License-Identifier: MIT
 * Parsing comma-separated values: columns, rows, classes. Numbers are read in the C locale whatever the program's
 * is. */
#include "runtime/data/csv.h"
#include "ir/support/alloc.h"
#include "runtime/data/records.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scanner {
    tcc__records records;
    locale_t locale;
    /* Of this file: */
    bool has_header, counts_up; /* its first line */
    int n_cells;
    tcc_vec(int) columns; /* the cell of each column; -1: it is not there */
} scanner;

#define LINE_ERROR(s, ...) \
    tcc_error((s)->records.diag, TCC_EFORMAT, (tcc_loc){(s)->records.path, (s)->records.line}, __VA_ARGS__)

static const char *cell(const scanner *s, int i) { return tcc__records_cell(&s->records, i); }

bool tcc__csv_number(locale_t locale, const char *text, double *out) {
    char *end;
    *out = strtod_l(text, &end, locale);
    return end != text && !*end && isfinite(*out);
}

/* ---- columns ---- */

bool tcc__csv_add_text(tcc__csv *csv, const char *text, size_t *offset) {
    *offset = csv->texts.length;
    tcc_strbuf_addn(&csv->texts, text, strlen(text) + 1);
    return !csv->texts.failed;
}

/* The label's column by the options, from the first line's cells; -1 if it is a name that is not
 * there. `by_name` tells that it was found as a name, so that the first line must be a header. */
static int find_label(const scanner *s, const tcc_data_options *options, bool *by_name) {
    int n = s->records.cells.count;
    *by_name = false;
    const char *label = options->csv_label;
    if (!label) return n - 1;
    if (options->csv_header != TCC_CSV_HEADER_NO) {
        for (int i = 0; i < n; i++) {
            if (strcmp(cell(s, i), label)) continue;
            *by_name = true;
            return i;
        }
    }
    char *end;
    long index = strtol(label, &end, 10);
    return *label && !*end && index >= 0 && index < n ? (int)index : -1;
}

/* The columns in their order. */
static tcc_status take_order(scanner *s, const tcc__csv *csv, bool labelled) {
    for (int i = 0, at = 0; i < csv->n_columns; i++)
        if (!tcc_vec_push(&s->columns, i == csv->label_column && !labelled ? -1 : at++))
            return tcc_enomem(s->records.diag);
    return TCC_OK;
}

/* Whether the cells are 0, 1, 2, ...: columns without names are called so, too. */
static bool counts_up(const scanner *s) {
    for (int i = 0; i < s->records.cells.count; i++) {
        char *end;
        if (strtol(cell(s, i), &end, 10) != i || end == cell(s, i) || *end) return false;
    }
    return true;
}

static tcc_status find_columns(scanner *s, const tcc_data_options *options, tcc__csv *csv) {
    bool by_name;
    csv->n_columns = s->records.cells.count;
    csv->label_column = find_label(s, options, &by_name);
    if (csv->n_columns < 2)
        return LINE_ERROR(s, "there is one column, separated by '%c'; a label and at least one feature are needed",
                          s->records.separator);
    if (csv->label_column < 0)
        return LINE_ERROR(s, "there is no column '%s'; the first line has %d columns, '%s' to '%s'", options->csv_label,
                          csv->n_columns, cell(s, 0), cell(s, csv->n_columns - 1));
    csv->has_header = options->csv_header == TCC_CSV_HEADER_YES || by_name;
    for (int i = 0; i < csv->n_columns && options->csv_header == TCC_CSV_HEADER_AUTO; i++) {
        double x;
        if (i != csv->label_column && !tcc__csv_number(s->locale, cell(s, i), &x)) csv->has_header = true;
    }
    for (int i = 0; i < csv->n_columns && csv->has_header; i++) {
        size_t name;
        if (!tcc__csv_add_text(csv, cell(s, i), &name) || !tcc_vec_push(&csv->names, name))
            return tcc_enomem(s->records.diag);
    }
    s->has_header = csv->has_header;
    s->counts_up = counts_up(s);
    return take_order(s, csv, true);
}

static const char *name_of(const tcc__csv *csv, int column) {
    return csv->names.count ? csv->texts.text + csv->names.data[column] : "";
}

/* The first cell of this name that no column in front of `column` has; -1: there is none. */
static int find_name(const scanner *s, const tcc__csv *csv, int column) {
    for (int i = 0; i < s->records.cells.count; i++) {
        bool taken = strcmp(cell(s, i), name_of(csv, column)) != 0;
        for (int k = 0; k < s->columns.count && !taken; k++) taken = s->columns.data[k] == i;
        if (!taken) return i;
    }
    return -1;
}

/* Where the columns are by the names in the first line; *found: how many features. */
static tcc_status match_names(scanner *s, const tcc__csv *csv, int *found) {
    *found = 0;
    s->columns.count = 0;
    for (int i = 0; i < csv->n_columns; i++) {
        const int at = find_name(s, csv, i);
        *found += i != csv->label_column && at >= 0;
        if (!tcc_vec_push(&s->columns, at)) return tcc_enomem(s->records.diag);
    }
    return TCC_OK;
}

/* A later file's first line: where its columns are, by their names, or in their order. Rows to predict from need not
 * have a label, nor names. */
static tcc_status match_columns(scanner *s, const tcc_data_options *options, const tcc__csv *csv) {
    const int cells = s->records.cells.count, features = csv->n_columns - 1;
    int found = 0;
    s->has_header = csv->has_header;
    if (csv->has_header) TCC_TRY(match_names(s, csv, &found));
    if (options->unlabelled && !found) {
        s->has_header = false;
        s->columns.count = 0;
    }
    if (!s->has_header) {
        if (cells == csv->n_columns || (cells == features && options->unlabelled))
            return take_order(s, csv, cells == csv->n_columns);
        return LINE_ERROR(s, "has %d columns, but the training file has %d", cells, csv->n_columns);
    }
    for (int i = 0; i < csv->n_columns; i++)
        if (s->columns.data[i] < 0 && (i != csv->label_column || !options->unlabelled))
            return LINE_ERROR(s, "has no column '%s', which the training file has", name_of(csv, i));
    return TCC_OK;
}

tcc_status tcc__csv_set_columns(tcc_diag *d, const cJSON *columns, int label_column, bool has_header, tcc__csv *csv) {
    const cJSON *column;
    csv->n_columns = cJSON_GetArraySize(columns);
    csv->label_column = label_column;
    csv->has_header = has_header;
    cJSON_ArrayForEach(column, columns) {
        const char *text;
        size_t name;
        TCC_TRY(tcc__learned_text(d, column, "name", &text));
        if (has_header && (!tcc__csv_add_text(csv, text, &name) || !tcc_vec_push(&csv->names, name)))
            return tcc_enomem(d);
    }
    if (csv->n_columns >= 2 && label_column >= 0 && label_column < csv->n_columns) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned from the training data has %d columns, label %d",
                     csv->n_columns, label_column);
}

/* ---- rows ---- */

static tcc_status add_number(scanner *s, const tcc__csv *csv, int column, double *out) {
    const int at = s->columns.data[column];
    const char *text = cell(s, at), *name = name_of(csv, column);
    if (!tcc__csv_number(s->locale, text, out))
        return LINE_ERROR(
            s, *text ? "column %d ('%s'): '%.64s' is not a finite number" : "column %d ('%s'): the cell is empty",
            at + 1, name, text);
    if (fabs(*out) > FLT_MAX)
        return LINE_ERROR(s, "column %d ('%s'): %.64s is larger than a float32 can be", at + 1, name, text);
    return TCC_OK;
}

static tcc_status add_label(scanner *s, const tcc_data_options *options, tcc__csv *csv) {
    const int column = csv->label_column, at = options->unlabelled ? -1 : s->columns.data[column];
    tcc__csv_label label = {.line = s->records.line, .id = -1};
    double x = NAN;
    if (options->csv_regression) {
        if (at >= 0) TCC_TRY(add_number(s, csv, column, &x));
        return tcc_vec_push(&csv->targets, x) ? TCC_OK : tcc_enomem(s->records.diag);
    }
    if (at >= 0 && !*cell(s, at))
        return LINE_ERROR(s, "column %d ('%s'): the label is missing", at + 1, name_of(csv, column));
    if (!tcc__csv_add_text(csv, at < 0 ? "" : cell(s, at), &label.text) || !tcc_vec_push(&csv->labels, label))
        return tcc_enomem(s->records.diag);
    return TCC_OK;
}

static tcc_status add_row(scanner *s, const tcc_data_options *options, tcc__csv *csv) {
    if (s->records.cells.count != s->n_cells)
        return LINE_ERROR(s, "the line has %d cells, but the first has %d", s->records.cells.count, s->n_cells);
    for (int i = 0; i < csv->n_columns; i++) {
        double x = 0;
        if (i == csv->label_column) continue;
        TCC_TRY(add_number(s, csv, i, &x));
        if (!tcc_vec_push(&csv->cells, x)) return tcc_enomem(s->records.diag);
    }
    return add_label(s, options, csv);
}

static bool label_recurs(const tcc__csv *csv, int row) {
    for (int i = row + 1; i < csv->labels.count; i++)
        if (!strcmp(csv->texts.text + csv->labels.data[i].text, csv->texts.text + csv->labels.data[row].text))
            return true;
    return false;
}

/* A first line whose features are numbers is taken for data. If it is the only one with its label, while the next
 * one's occurs again, it may as well be a header: only the user knows. So may 0, 1, 2. */
static tcc_status check_first_row(scanner *s, const tcc_data_options *options, const tcc__csv *csv) {
    double x;
    if (options->csv_header != TCC_CSV_HEADER_AUTO || csv->has_header) return TCC_OK;
    if (options->csv_regression) {
        if (!s->counts_up || csv->n_columns < 3) return TCC_OK;
        s->records.line = 1;
        return LINE_ERROR(s, "its cells are 0, 1, 2: say whether they name the columns (header: yes) or are data "
                             "(header: no)");
    }
    const char *first = csv->texts.text + csv->labels.data[0].text;
    const bool named = !tcc__csv_number(s->locale, first, &x) || s->counts_up;
    if (!named || label_recurs(csv, 0) || !label_recurs(csv, 1)) return TCC_OK;
    s->records.line = csv->labels.data[0].line;
    return LINE_ERROR(s,
                      "its label '%.64s' occurs in no other line: say whether it names the columns (header: yes) or is "
                      "data (header: no)",
                      first);
}

static tcc_status parse_rows(scanner *s, const tcc_data_options *options, int index, tcc__csv *csv) {
    bool more, first = true;
    for (;;) {
        TCC_TRY(tcc__records_next(&s->records, &more));
        if (!more) break;
        if (s->records.blank) continue;
        if (first) {
            first = false;
            s->n_cells = s->records.cells.count;
            TCC_TRY(csv->n_columns ? match_columns(s, options, csv) : find_columns(s, options, csv));
            if (s->has_header) continue;
        }
        TCC_TRY(add_row(s, options, csv));
        csv->rows[index]++;
    }
    if (csv->rows[index] == 0)
        return tcc_error(s->records.diag, TCC_EFORMAT, (tcc_loc){s->records.path, 0}, "has no rows of data");
    return index == 0 && !csv->classes.count ? check_first_row(s, options, csv) : TCC_OK;
}

tcc_status tcc__csv_parse(tcc_diag *d, const char *path, const tcc__bytes *file, const tcc_data_options *options,
                          int index, tcc__csv *out) {
    scanner s = {.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (!s.locale) return tcc_enomem(d);
    tcc_status status = tcc__records_begin(d, path, file, options->csv_separator ? options->csv_separator : ',', false,
                                           &s.records);
    if (status == TCC_OK) status = parse_rows(&s, options, index, out);
    freelocale(s.locale);
    tcc_vec_free(&s.columns);
    tcc__records_free(&s.records);
    return status;
}

void tcc__csv_free(tcc__csv *csv) {
    tcc_strbuf_free(&csv->texts);
    tcc_vec_free(&csv->names);
    tcc_vec_free(&csv->cells);
    tcc_vec_free(&csv->targets);
    tcc_vec_free(&csv->labels);
    tcc_vec_free(&csv->classes);
    *csv = (tcc__csv){0};
}
