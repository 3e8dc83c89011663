/* SPDX-License-Identifier: MIT
 * Parsing separated values: columns, rows. Numbers are read in the C locale whatever the program's is. */
#include "runtime/data/csv.h"
#include "ir/support/alloc.h"
#include "runtime/data/csv_scan.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *cell(const tcc__csv_scan *s, int i) { return tcc__records_cell(&s->records, i); }

bool tcc__csv_add_text(tcc__csv *csv, const char *text, size_t *offset) {
    *offset = csv->texts.length;
    tcc_strbuf_addn(&csv->texts, text, strlen(text) + 1);
    return !csv->texts.failed;
}

tcc_status tcc__csv_add_label(tcc_diag *d, tcc__csv *csv, const char *text, int line, bool trained, int32_t *number) {
    *number = tcc__words_add(&csv->label_texts, text);
    if (*number < 0) return tcc_enomem(d);
    if (*number == csv->labels.count && !tcc_vec_push(&csv->labels, (tcc__csv_label){.line = line, .trained = trained}))
        return tcc_enomem(d);
    csv->labels.data[*number].count++;
    return TCC_OK;
}

/* ---- columns of a later file ---- */

static bool is_needed(const tcc__csv *csv, const tcc_data_options *options, int column) {
    const tcc__column *c = &csv->columns.data[column];
    return tcc__column_is_input(c) || (c->kind == TCC__COLUMN_TARGET && !options->unlabelled);
}

/* All columns in their order, or those alone that are needed. */
static tcc_status take_order(tcc__csv_scan *s, const tcc__csv *csv, const tcc_data_options *needed_by) {
    for (int i = 0, at = 0; i < csv->columns.count; i++)
        if (!tcc_vec_push(&s->columns, needed_by && !is_needed(csv, needed_by, i) ? -1 : at++))
            return tcc_enomem(s->records.diag);
    return TCC_OK;
}

/* All but the targets. */
static tcc_status take_untargeted(tcc__csv_scan *s, const tcc__csv *csv) {
    for (int i = 0, at = 0; i < csv->columns.count; i++)
        if (!tcc_vec_push(&s->columns, csv->columns.data[i].kind == TCC__COLUMN_TARGET ? -1 : at++))
            return tcc_enomem(s->records.diag);
    return TCC_OK;
}

static const char *name_of(const tcc__csv *csv, int column) { return csv->columns.data[column].name; }

/* The first cell of this name that no column in front of `column` has; -1: there is none. */
static int find_name(const tcc__csv_scan *s, const tcc__csv *csv, int column) {
    for (int i = 0; i < s->records.cells.count; i++) {
        bool taken = strcmp(cell(s, i), name_of(csv, column)) != 0;
        for (int k = 0; k < s->columns.count && !taken; k++) taken = s->columns.data[k] == i;
        if (!taken) return i;
    }
    return -1;
}

/* Where the columns are by the names in the first line; *found: how many features. */
static tcc_status match_names(tcc__csv_scan *s, const tcc__csv *csv, int *found) {
    *found = 0;
    s->columns.count = 0;
    for (int i = 0; i < csv->columns.count; i++) {
        const int at = find_name(s, csv, i);
        *found += tcc__column_is_input(&csv->columns.data[i]) && at >= 0;
        if (!tcc_vec_push(&s->columns, at)) return tcc_enomem(s->records.diag);
    }
    return TCC_OK;
}

static tcc_status match_places(tcc__csv_scan *s, const tcc_data_options *options, const tcc__csv *csv) {
    const int cells = s->records.cells.count, columns = csv->columns.count;
    int needed = 0;
    for (int i = 0; i < columns; i++) needed += is_needed(csv, options, i);
    if (cells == columns) return take_order(s, csv, NULL);
    if (options->unlabelled && cells == columns - csv->n_targets) return take_untargeted(s, csv);
    if (cells == needed) return take_order(s, csv, options);
    return LINE_ERROR(s, "has %d columns, but the training file has %d", cells, columns);
}

/* A later file's first line: where its columns are, by their names, or in their order. Rows to predict from need not
 * have a label, nor names. */
static tcc_status match_columns(tcc__csv_scan *s, const tcc_data_options *options, const tcc__csv *csv) {
    int found = 0;
    s->has_header = csv->has_header;
    if (csv->has_header) TCC_TRY(match_names(s, csv, &found));
    if (options->unlabelled && !found) {
        s->has_header = false;
        s->columns.count = 0;
    }
    if (!s->has_header) return match_places(s, options, csv);
    for (int i = 0; i < csv->columns.count; i++)
        if (s->columns.data[i] < 0 && is_needed(csv, options, i))
            return LINE_ERROR(s, "has no column '%s', which the training file has", name_of(csv, i));
    return TCC_OK;
}

/* The cell of each row that identifies it: any that the file has, by its name, or by its number from 0. */
static tcc_status find_id(tcc__csv_scan *s, const char *given) {
    const int count = s->records.cells.count;
    for (s->id = 0; s->has_header && s->id < count; s->id++)
        if (!strcmp(cell(s, s->id), given)) return TCC_OK;
    char *end;
    const long number = strtol(given, &end, 10);
    if (*given && !*end && number >= 0 && number < count) {
        s->id = (int)number;
        return TCC_OK;
    }
    if (s->has_header)
        return LINE_ERROR(s, "there is no column '%s' to tell rows by; the first line has %d columns, '%s' to '%s'",
                          given, count, cell(s, 0), cell(s, count - 1));
    return LINE_ERROR(s, "there is no column '%s' to tell rows by; without names it is a number from 0 to %d", given,
                      count - 1);
}

tcc_status tcc__csv_take_columns(tcc_diag *d, const tcc_data_options *options, const cJSON *learned, tcc__csv *csv) {
    double header = 0;
    TCC_TRY(tcc__columns_take(d, learned, &csv->columns));
    TCC_TRY(tcc__learned_number(d, learned, "header", &header));
    csv->has_header = header != 0;
    int inputs = 0;
    for (int i = 0; i < csv->columns.count; i++) {
        csv->n_targets += csv->columns.data[i].kind == TCC__COLUMN_TARGET;
        inputs += tcc__column_is_input(&csv->columns.data[i]);
    }
    if (!inputs || csv->n_targets < 1 || (csv->n_targets > 1 && !options->csv_regression))
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE,
                         "what was learned from the training data has %d columns, %d of "
                         "them targets",
                         csv->columns.count, csv->n_targets);
    csv->n_cells = tcc__columns_number_cells(&csv->columns);
    return TCC_OK;
}

/* ---- rows ---- */

static tcc_status add_number(tcc__csv_scan *s, const tcc__csv *csv, int column, double *out) {
    const int at = s->columns.data[column];
    const char *text = cell(s, at), *name = name_of(csv, column);
    const bool comma = csv->columns.data[column].comma && s->records.separator != ',';
    if (!(comma ? tcc__csv_comma_number : tcc__csv_number)(s->locale, text, out))
        return LINE_ERROR(
            s, *text ? "column %d ('%s'): '%.64s' is not a finite number" : "column %d ('%s'): the cell is empty",
            at + 1, name, text);
    if (fabs(*out) > FLT_MAX)
        return LINE_ERROR(s, "column %d ('%s'): %.64s is larger than a float32 can be", at + 1, name, text);
    return TCC_OK;
}

/* An empty cell, or a word for one, without a policy. */
static tcc_status missing_cell(tcc__csv_scan *s, const tcc__csv *csv, int column) {
    const int at = s->columns.data[column];
    const char *text = cell(s, at);
    return LINE_ERROR(s,
                      *text ? "column %d ('%s'): '%.64s' is not a finite number; missing: mean or category says what a "
                              "missing one becomes"
                            : "column %d ('%s'): the cell is empty; missing: mean or category says what it becomes",
                      at + 1, name_of(csv, column), text);
}

/* "1.0" is what "1" becomes where another cell of the column was missing. */
static void cut_zeros(char *text) {
    char *dot = strchr(text, '.');
    if (!dot || dot == text || dot[1] != '0' || dot[1 + strspn(dot + 1, "0")]) return;
    for (const char *c = text; c < dot; c++)
        if ((*c < '0' || *c > '9') && !(c == text && *c == '-' && dot > text + 1)) return;
    *dot = '\0';
}

static tcc_status add_word(tcc__csv_scan *s, int column, const char *text, bool learns, tcc__csv *csv, double *out) {
    char *word = tcc__strdup(text);
    tcc__words *words = &csv->columns.data[column].words;
    if (!word) return tcc_enomem(s->records.diag);
    cut_zeros(word);
    const int32_t number = learns ? tcc__words_add(words, word) : tcc__words_find(words, word);
    tcc__free(word);
    *out = number;
    return learns && number < 0 ? tcc_enomem(s->records.diag) : TCC_OK;
}

/* Texts of a column that nobody asked for: where they are so many, they are no category. */
static bool learns_more(const tcc__column *c) { return !c->guessed || c->words.offsets.count < TCC__GUESSED_WORDS; }

/* What is kept of a cell. `learns`: categories that are new are taken, as words of other columns always are. */
static tcc_status add_cell(tcc__csv_scan *s, const tcc_data_options *options, int column, bool learns, tcc__csv *csv) {
    const tcc__column *c = &csv->columns.data[column];
    const int at = s->columns.data[column];
    const bool input = tcc__column_is_input(c), strict = options->csv_missing == TCC_MISSING_ERROR;
    const char *text = at < 0 ? "" : cell(s, at);
    double x = c->kind == TCC__COLUMN_WEIGHT ? 1 : -1; /* where there is no such column */
    if (at >= 0 && input && (strict && !tcc__column_is_number(c) ? !*text : tcc__csv_is_missing(text))) {
        if (strict) return missing_cell(s, csv, column);
        if (c->kind == TCC__COLUMN_CATEGORY && options->csv_missing == TCC_MISSING_CATEGORY)
            TCC_TRY(add_word(s, column, "", learns, csv, &x));
        else x = NAN;
    } else if (at >= 0 && tcc__column_is_number(c)) {
        TCC_TRY(add_number(s, csv, column, &x));
        if (c->kind == TCC__COLUMN_WEIGHT && x < 0)
            return LINE_ERROR(s, "column %d ('%s'): %g is a weight below 0", at + 1, c->name, x);
    } else if (at >= 0) {
        TCC_TRY(add_word(s, column, text, (learns && learns_more(c)) || !input, csv, &x));
    }
    s->row[c->cell] = x;
    return TCC_OK;
}

static tcc_status add_target(tcc__csv_scan *s, const tcc_data_options *options, int column, bool trained, tcc__csv *csv,
                             double *out) {
    const int at = options->unlabelled ? -1 : s->columns.data[column];
    *out = options->csv_regression ? NAN : -1;
    if (at < 0) return TCC_OK;
    if (options->csv_regression) return add_number(s, csv, column, out);
    int32_t number;
    if (!*cell(s, at)) return LINE_ERROR(s, "column %d ('%s'): the label is missing", at + 1, name_of(csv, column));
    TCC_TRY(tcc__csv_add_label(s->records.diag, csv, cell(s, at), s->records.line, trained, &number));
    *out = number;
    return TCC_OK;
}

static tcc_status add_row(tcc__csv_scan *s, const tcc_data_options *options, int index, bool learns, tcc__csv *csv) {
    size_t id;
    int target = csv->n_cells;
    if (s->records.cells.count != s->n_cells)
        return LINE_ERROR(s, "the line has %d cells, but the first has %d", s->records.cells.count, s->n_cells);
    for (int i = 0; i < csv->columns.count; i++) {
        const tcc__column *c = &csv->columns.data[i];
        if (c->cell >= 0) TCC_TRY(add_cell(s, options, i, learns, csv));
        if (c->kind == TCC__COLUMN_TARGET) TCC_TRY(add_target(s, options, i, !index, csv, &s->row[target++]));
    }
    if (s->id >= 0 && (!tcc__csv_add_text(csv, cell(s, s->id), &id) || !tcc_vec_push(&csv->ids, id)))
        return tcc_enomem(s->records.diag);
    if (csv->store.count == INT_MAX) return LINE_ERROR(s, "a table has at most %d rows", INT_MAX);
    csv->rows[index]++;
    return tcc__row_store_append(s->records.diag, &csv->store, s->row);
}

/* A first line whose features are numbers is taken for data. If it is the only one with its label, while the next
 * one's occurs again, it may as well be a header: only the user knows. So may 0, 1, 2. */
static tcc_status check_first_row(tcc__csv_scan *s, const tcc_data_options *options, const tcc__csv *csv) {
    double x;
    if (options->csv_header != TCC_CSV_HEADER_AUTO || csv->has_header) return TCC_OK;
    if (options->csv_regression) {
        if (!s->counts_up || csv->columns.count < 3) return TCC_OK;
        s->records.line = 1;
        return LINE_ERROR(s, "its cells are 0, 1, 2: say whether they name the columns (header: yes) or are data "
                             "(header: no)");
    }
    const char *first = tcc__words_text(&csv->label_texts, 0);
    const bool named = !tcc__csv_number(s->locale, first, &x) || s->counts_up;
    if (!named || csv->labels.data[0].count > 1 || csv->labels.count < 2 || csv->labels.data[1].count < 2)
        return TCC_OK;
    s->records.line = csv->labels.data[0].line;
    return LINE_ERROR(s,
                      "its label '%.64s' occurs in no other line: say whether it names the columns (header: yes) or is "
                      "data (header: no)",
                      first);
}

/* The first line of data, or of names. */
static tcc_status begin_rows(tcc__csv_scan *s, const tcc_data_options *options, bool known, tcc__csv *csv) {
    s->n_cells = s->records.cells.count;
    if (!known && s->n_cells != csv->columns.count) return LINE_ERROR(s, "the file changes while it is read");
    TCC_TRY(known ? match_columns(s, options, csv) : take_order(s, csv, NULL));
    if (options->csv_id) TCC_TRY(find_id(s, options->csv_id));
    const size_t row_bytes = (size_t)(csv->n_cells + csv->n_targets) * sizeof *s->row;
    tcc__row_store_begin(&csv->store, row_bytes, csv->surveyed);
    s->row = tcc__malloc(row_bytes);
    return s->row ? TCC_OK : tcc_enomem(s->records.diag);
}

static tcc_status parse_rows(tcc__csv_scan *s, const tcc_data_options *options, int index, bool known, tcc__csv *csv) {
    for (bool more;;) {
        TCC_TRY(tcc__records_next(&s->records, &more));
        if (!more) break;
        if (s->records.blank) continue;
        if (!s->row) {
            TCC_TRY(begin_rows(s, options, known, csv));
            if (s->has_header) continue;
        }
        TCC_TRY(add_row(s, options, index, !known, csv));
    }
    if (csv->rows[index] == 0)
        return tcc_error(s->records.diag, TCC_EFORMAT, (tcc_loc){s->records.path, 0}, "has no rows of data");
    return known ? TCC_OK : check_first_row(s, options, csv);
}

tcc_status tcc__csv_parse(tcc_diag *d, const char *path, const tcc__bytes *file, const tcc_data_options *options,
                          int index, tcc__csv *out) {
    tcc__csv_scan s = {
        .records = {.diag = d, .path = path}, .locale = newlocale(LC_ALL_MASK, "C", (locale_t)0), .id = -1};
    const bool known = out->columns.count > 0;
    tcc_status status = TCC_OK;
    if (!s.locale) return tcc_enomem(d);
    if (!known) status = tcc__csv_survey(&s, file, options, out);
    if (status == TCC_OK) status = tcc__records_begin(d, path, file, options->csv_separator, false, &s.records);
    if (status == TCC_OK) status = parse_rows(&s, options, index, known, out);
    freelocale(s.locale);
    tcc__free(s.row);
    tcc_vec_free(&s.columns);
    tcc__records_free(&s.records);
    return status;
}

void tcc__csv_free(tcc__csv *csv) {
    tcc__columns_free(&csv->columns);
    tcc_strbuf_free(&csv->texts);
    tcc__row_store_free(&csv->store);
    tcc__words_free(&csv->label_texts);
    tcc_vec_free(&csv->labels);
    tcc_vec_free(&csv->ids);
    tcc_vec_free(&csv->classes);
    *csv = (tcc__csv){0};
}
