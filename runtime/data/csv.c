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
} scanner;

#define LINE_ERROR(s, ...) \
    tcc_error((s)->records.diag, TCC_EFORMAT, (tcc_loc){(s)->records.path, (s)->records.line}, __VA_ARGS__)

static const char *cell(const scanner *s, int i) { return tcc__records_cell(&s->records, i); }

/* A finite number, and nothing else in the cell. */
static bool number_of(locale_t locale, const char *text, double *out) {
    char *end;
    *out = strtod_l(text, &end, locale);
    return end != text && !*end && isfinite(*out);
}

/* ---- columns ---- */

static bool add_text(tcc__csv *csv, const char *text, size_t *offset) {
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
        if (i != csv->label_column && !number_of(s->locale, cell(s, i), &x)) csv->has_header = true;
    }
    for (int i = 0; i < csv->n_columns && csv->has_header; i++) {
        size_t name;
        if (!add_text(csv, cell(s, i), &name) || !tcc_vec_push(&csv->names, name)) return tcc_enomem(s->records.diag);
    }
    return TCC_OK;
}

/* The second file's first line against the first file's. */
static tcc_status check_header(scanner *s, const tcc__csv *csv) {
    if (s->records.cells.count != csv->n_columns)
        return LINE_ERROR(s, "has %d columns, but the training file has %d", s->records.cells.count, csv->n_columns);
    for (int i = 0; i < csv->names.count; i++) {
        const char *name = csv->texts.text + csv->names.data[i];
        if (strcmp(name, cell(s, i)))
            return LINE_ERROR(s, "column %d is named '%s', but '%s' in the training file", i + 1, cell(s, i), name);
    }
    return TCC_OK;
}

/* ---- rows ---- */

static tcc_status add_row(scanner *s, const tcc_data_options *options, tcc__csv *csv) {
    if (s->records.cells.count != csv->n_columns)
        return LINE_ERROR(s, "the line has %d cells, but the first has %d", s->records.cells.count, csv->n_columns);
    for (int i = 0; i < csv->n_columns; i++) {
        const char *text = cell(s, i);
        const char *name = csv->has_header ? csv->texts.text + csv->names.data[i] : "";
        double x = 0;
        bool is_label = i == csv->label_column;
        if (is_label && !options->csv_regression) {
            tcc__csv_label label = {.line = s->records.line};
            if (!*text) return LINE_ERROR(s, "column %d ('%s'): the label is missing", i + 1, name);
            if (!add_text(csv, text, &label.text) || !tcc_vec_push(&csv->labels, label))
                return tcc_enomem(s->records.diag);
            continue;
        }
        if (!number_of(s->locale, text, &x))
            return LINE_ERROR(
                s, *text ? "column %d ('%s'): '%.64s' is not a finite number" : "column %d ('%s'): the cell is empty",
                i + 1, name, text);
        if (fabs(x) > FLT_MAX)
            return LINE_ERROR(s, "column %d ('%s'): %.64s is larger than a float32 can be", i + 1, name, text);
        if (!(is_label ? tcc_vec_push(&csv->targets, x) : tcc_vec_push(&csv->cells, x)))
            return tcc_enomem(s->records.diag);
    }
    return TCC_OK;
}

static bool label_recurs(const tcc__csv *csv, int row) {
    for (int i = row + 1; i < csv->labels.count; i++)
        if (!strcmp(csv->texts.text + csv->labels.data[i].text, csv->texts.text + csv->labels.data[row].text))
            return true;
    return false;
}

/* A first line whose features are numbers is taken for data. If it is the only one with its label, while the next
 * one's occurs again, it may as well be a header: only the user knows. */
static tcc_status check_first_row(scanner *s, const tcc_data_options *options, const tcc__csv *csv) {
    if (options->csv_header != TCC_CSV_HEADER_AUTO || csv->has_header || options->csv_regression) return TCC_OK;
    const char *first = csv->texts.text + csv->labels.data[0].text;
    double x;
    if (number_of(s->locale, first, &x) || label_recurs(csv, 0) || !label_recurs(csv, 1)) return TCC_OK;
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
            TCC_TRY(csv->n_columns ? check_header(s, csv) : find_columns(s, options, csv));
            if (csv->has_header) continue;
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

/* ---- classes ---- */

typedef struct label_order {
    const char *texts;
    const tcc__csv_label *labels;
    locale_t locale;
    bool numeric; /* every label is a number */
} label_order;

/* Labels by value or by bytes; equal ones by their place, so that the first file's come first. */
static int compare_labels(const void *a, const void *b, void *context) {
    const label_order *o = context;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const char *x = o->texts + o->labels[i].text, *y = o->texts + o->labels[j].text;
    double p, q;
    if (o->numeric && number_of(o->locale, x, &p) && number_of(o->locale, y, &q) && p != q) return p < q ? -1 : 1;
    int order = strcmp(x, y);
    return order ? order : (i > j) - (i < j);
}

static tcc_status number_sorted(tcc_diag *d, const char *val_path, tcc__csv *csv, const int64_t *order) {
    for (int i = 0; i < csv->labels.count; i++) {
        tcc__csv_label *label = &csv->labels.data[order[i]];
        const char *text = csv->texts.text + label->text;
        int known = csv->classes.count;
        if (known == 0 || strcmp(csv->texts.text + csv->classes.data[known - 1], text)) {
            if (order[i] >= csv->rows[0])
                return tcc_error(d, TCC_EFORMAT, (tcc_loc){val_path, label->line},
                                 "label '%.64s' does not occur in the training file", text);
            if (!tcc_vec_push(&csv->classes, label->text)) return tcc_enomem(d);
        }
        label->id = csv->classes.count - 1;
    }
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
        if (has_header && (!add_text(csv, text, &name) || !tcc_vec_push(&csv->names, name))) return tcc_enomem(d);
    }
    if (csv->n_columns >= 2 && label_column >= 0 && label_column < csv->n_columns) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned from the training data has %d columns, label %d",
                     csv->n_columns, label_column);
}

tcc_status tcc__csv_set_classes(tcc_diag *d, const tcc__file_list *names, tcc__csv *csv) {
    for (int i = 0; i < names->count; i++) {
        size_t text;
        if (!add_text(csv, names->data[i], &text) || !tcc_vec_push(&csv->classes, text)) return tcc_enomem(d);
    }
    return TCC_OK;
}

typedef struct class_order {
    const char *texts;
    const size_t *classes;
} class_order;

static int compare_classes(const void *a, const void *b, void *context) {
    const class_order *o = context;
    return strcmp(o->texts + o->classes[*(const int *)a], o->texts + o->classes[*(const int *)b]);
}

/* The labels' numbers among classes that are known. */
static tcc_status find_classes(tcc_diag *d, const char *path, tcc__csv *csv) {
    const int count = csv->classes.count;
    const class_order how = {csv->texts.text, csv->classes.data};
    int *order = tcc__malloc((size_t)count * sizeof *order);
    if (!order) return tcc_enomem(d);
    for (int i = 0; i < count; i++) order[i] = i;
    qsort_r(order, (size_t)count, sizeof *order, compare_classes, (void *)&how);
    tcc_status status = TCC_OK;
    for (int i = 0; i < csv->labels.count && status == TCC_OK; i++) {
        tcc__csv_label *label = &csv->labels.data[i];
        const char *text = csv->texts.text + label->text;
        int low = 0, high = count; /* it is in [low, high) */
        while (high - low > 1) {
            const int middle = low + (high - low) / 2;
            if (strcmp(csv->texts.text + csv->classes.data[order[middle]], text) <= 0) low = middle;
            else high = middle;
        }
        label->id = order[low];
        if (strcmp(csv->texts.text + csv->classes.data[label->id], text))
            status = tcc_error(d, TCC_EFORMAT, (tcc_loc){path, label->line},
                               "label '%.64s' is none of the %d classes that were trained", text, count);
    }
    tcc__free(order);
    return status;
}

tcc_status tcc__csv_number_classes(tcc_diag *d, const char *val_path, tcc__csv *csv) {
    if (!csv->labels.count) return TCC_OK;
    if (csv->classes.count) return find_classes(d, val_path, csv);
    int64_t *order = tcc__malloc((size_t)csv->labels.count * sizeof *order);
    label_order how = {csv->texts.text, csv->labels.data, newlocale(LC_ALL_MASK, "C", (locale_t)0), true};
    tcc_status status = order && how.locale ? TCC_OK : tcc_enomem(d);
    for (int i = 0; i < csv->labels.count && status == TCC_OK; i++) {
        double value;
        order[i] = i;
        how.numeric = how.numeric && number_of(how.locale, csv->texts.text + csv->labels.data[i].text, &value);
    }
    if (status == TCC_OK) {
        qsort_r(order, (size_t)csv->labels.count, sizeof *order, compare_labels, &how);
        status = number_sorted(d, val_path, csv, order);
    }
    if (how.locale) freelocale(how.locale);
    tcc__free(order);
    return status;
}
