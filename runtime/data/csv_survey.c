/* SPDX-License-Identifier: MIT
 * The columns of a table, from a first reading of all its rows.
 *
 * A column is numbers if at least half of the cells that it has are, so that one that is mistyped is an error and not
 * the beginning of a category. The first line names the columns if it has a text where the column has numbers; in a
 * table without numbers, if none of its texts occurs again below. */
#include "ir/support/alloc.h"
#include "runtime/data/csv_scan.h"

#include <stdlib.h>
#include <string.h>

/* What the lines below the first have in one column. */
typedef struct finding {
    int64_t numbers, texts, missing;
    int64_t points, commas; /* numbers as 3.14, and others as 3,14 */
    bool recurs;            /* the first line's cell */
} finding;

typedef struct survey {
    tcc__csv_scan *scan;
    const tcc_data_options *options;
    tcc__csv *csv;
    tcc__file_list first; /* the first line's cells */
    int line;             /* where it is */
    finding *found;
    bool named; /* a column was given by its name */
} survey;

#define FIRST_LINE_ERROR(s, ...) \
    tcc_error((s)->scan->records.diag, TCC_EFORMAT, (tcc_loc){(s)->scan->records.path, (s)->line}, __VA_ARGS__)

/* ---- reading ---- */

/* A number with a decimal comma, where no comma separates cells. */
static bool has_comma(const survey *s, const char *text) {
    double x;
    return s->scan->records.separator != ',' && tcc__csv_comma_number(s->scan->locale, text, &x);
}

static void look_at(survey *s, int column, const char *text) {
    double x, y;
    finding *f = &s->found[column];
    if (tcc__csv_number(s->scan->locale, text, &x)) {
        f->numbers++; /* 1.234 may be grouped digits */
        f->points += strchr(text, '.') && tcc__csv_comma_number(s->scan->locale, text, &y) && x == y;
    } else if (has_comma(s, text)) f->commas++;
    else if (tcc__csv_is_missing(text)) f->missing++;
    else f->texts++;
    f->recurs = f->recurs || !strcmp(text, s->first.data[column]);
}

static bool keep_first(survey *s) {
    const tcc__records *r = &s->scan->records;
    s->line = r->line;
    s->found = tcc__calloc((size_t)r->cells.count, sizeof *s->found);
    for (int i = 0; s->found && i < r->cells.count; i++) {
        char *copy = tcc__strdup(tcc__records_cell(r, i));
        if (copy && tcc_vec_push(&s->first, copy)) continue;
        tcc__free(copy);
        return false;
    }
    return s->found != NULL;
}

static tcc_status read_all(survey *s) {
    tcc__records *r = &s->scan->records;
    for (bool more;;) {
        TCC_TRY(tcc__records_next(r, &more));
        if (!more) return TCC_OK;
        if (r->blank) continue;
        if (!s->found) {
            if (!keep_first(s)) return tcc_enomem(r->diag);
            continue;
        }
        for (int i = 0; i < r->cells.count && i < s->first.count; i++) look_at(s, i, tcc__records_cell(r, i));
    }
}

/* ---- what is asked for ---- */

/* The column of this name, or of this number from 0; -1: there is none. */
static int find_column(survey *s, const char *given) {
    for (int i = 0; i < s->first.count && s->options->csv_header != TCC_CSV_HEADER_NO; i++) {
        if (strcmp(s->first.data[i], given)) continue;
        s->named = true;
        return i;
    }
    char *end;
    const long index = strtol(given, &end, 10);
    return *given && !*end && index >= 0 && index < s->first.count ? (int)index : -1;
}

static tcc_status no_column(const survey *s, const char *name) {
    return FIRST_LINE_ERROR(s, "there is no column '%s'; the first line has %d columns, '%s' to '%s'", name,
                            s->first.count, s->first.data[0], s->first.data[s->first.count - 1]);
}

/* Gives a column the kind that is asked for. */
static tcc_status ask(survey *s, const char *name, tcc__column_kind kind) {
    const int at = find_column(s, name);
    if (at < 0) return no_column(s, name);
    tcc__column *c = &s->csv->columns.data[at];
    if (c->kind != TCC__COLUMN_AUTO && c->kind != kind)
        return tcc_error(s->scan->records.diag, TCC_EINVAL, TCC_NOWHERE, "column '%s' is both %s and %s", name,
                         tcc__column_kind_name(c->kind), tcc__column_kind_name(kind));
    c->kind = kind;
    c->guessed = false;
    return TCC_OK;
}

static int count_kind(const tcc__csv *csv, tcc__column_kind kind) {
    int count = 0;
    for (int i = 0; i < csv->columns.count; i++) count += csv->columns.data[i].kind == kind;
    return count;
}

/* Without a word of the user the last column that has no other purpose is the target. */
static tcc_status ask_all(survey *s) {
    const tcc_data_options *o = s->options;
    tcc__columns *columns = &s->csv->columns;
    for (int i = 0; i < s->first.count; i++) {
        if (!tcc__columns_add(columns, "", TCC__COLUMN_AUTO)) return tcc_enomem(s->scan->records.diag);
        columns->data[i].guessed = true;
    }
    for (int i = 0; i < o->n_csv_columns; i++) {
        const tcc__column_kind kind = tcc__column_kind_of(o->csv_columns[i].kind);
        if (kind != TCC__COLUMN_AUTO) TCC_TRY(ask(s, o->csv_columns[i].name, kind));
    }
    if (o->csv_label) TCC_TRY(ask(s, o->csv_label, TCC__COLUMN_TARGET));
    for (int i = s->first.count - 1; i >= 0 && !count_kind(s->csv, TCC__COLUMN_TARGET); i--)
        if (columns->data[i].kind == TCC__COLUMN_AUTO) columns->data[i].kind = TCC__COLUMN_TARGET;
    return TCC_OK;
}

/* ---- what is found ---- */

static bool is_numbers(const finding *f) { return f->numbers + f->commas >= f->texts; }

static bool is_number(const survey *s, const char *cell) {
    double x;
    return tcc__csv_number(s->scan->locale, cell, &x) || has_comma(s, cell);
}

static bool is_text(const survey *s, const char *cell) { return !is_number(s, cell) && !tcc__csv_is_missing(cell); }

/* The target's cell says nothing of this: words are usual there. */
static bool first_line_names(const survey *s) {
    bool numbers = false, recurs = false;
    for (int i = 0; i < s->first.count; i++) {
        if (s->csv->columns.data[i].kind == TCC__COLUMN_TARGET) continue;
        if (is_numbers(&s->found[i]) && is_text(s, s->first.data[i])) return true;
        numbers = numbers || is_numbers(&s->found[i]) || is_number(s, s->first.data[i]);
        recurs = recurs || s->found[i].recurs;
    }
    return !numbers && !recurs;
}

static bool counts_up(const survey *s) {
    for (int i = 0; i < s->first.count; i++) {
        char *end;
        if (strtol(s->first.data[i], &end, 10) != i || end == s->first.data[i] || *end) return false;
    }
    return true;
}

static tcc_status find_header(survey *s) {
    const tcc_csv_header asked = s->options->csv_header;
    tcc__csv *csv = s->csv;
    csv->has_header = asked == TCC_CSV_HEADER_YES || s->named || (asked == TCC_CSV_HEADER_AUTO && first_line_names(s));
    s->scan->has_header = csv->has_header;
    s->scan->counts_up = counts_up(s);
    for (int i = 0; i < csv->columns.count; i++) {
        tcc__column *c = &csv->columns.data[i];
        if (!csv->has_header) {
            look_at(s, i, s->first.data[i]);
            continue;
        }
        char *name = tcc__strdup(s->first.data[i]);
        if (!name) return tcc_enomem(s->scan->records.diag);
        tcc__free(c->name);
        c->name = name;
    }
    return TCC_OK;
}

static void guess_kinds(survey *s) {
    for (int i = 0; i < s->first.count; i++) {
        tcc__column *c = &s->csv->columns.data[i];
        const finding *f = &s->found[i];
        c->comma = f->commas && !f->points;
        if (c->kind != TCC__COLUMN_AUTO) continue;
        c->kind = !is_numbers(f)                 ? TCC__COLUMN_CATEGORY
                  : f->numbers || f->missing < 2 ? TCC__COLUMN_NUMBER
                                                 : TCC__COLUMN_DROP; /* nothing is in it */
    }
}

/* Which of 3.14 and 3,14 means what, nobody can tell where a column has both. */
static tcc_status check_commas(const survey *s) {
    for (int i = 0; i < s->first.count; i++) {
        const tcc__column *c = &s->csv->columns.data[i];
        const bool number = tcc__column_is_number(c) || (c->kind == TCC__COLUMN_TARGET && s->options->csv_regression);
        if (number && s->found[i].commas && s->found[i].points)
            return FIRST_LINE_ERROR(s, "column %d ('%s') has numbers with a decimal point and with a decimal comma",
                                    i + 1, c->name);
    }
    return TCC_OK;
}

/* Several numbers are one vector, which one loss compares; several classes would be as many tasks. */
static tcc_status several_classes(const survey *s) {
    tcc_strbuf names = {0};
    bool numbers = true;
    for (int i = 0; i < s->first.count; i++) {
        const tcc__column *c = &s->csv->columns.data[i];
        if (c->kind != TCC__COLUMN_TARGET) continue;
        tcc_strbuf_add(&names, names.length ? ", " : "");
        if (*c->name) tcc_strbuf_printf(&names, "'%s'", c->name);
        else tcc_strbuf_printf(&names, "%d", i);
        numbers = numbers && is_numbers(&s->found[i]);
    }
    const tcc_status status = tcc_error(
        s->scan->records.diag, TCC_EINVAL, (tcc_loc){s->scan->records.path, s->line},
        "columns %s are targets, but a model has one class to predict: let all but one be of kind drop, and train a "
        "model for each%s",
        names.text ? names.text : "", numbers ? "; regression predicts numbers together" : "");
    tcc_strbuf_free(&names);
    return status;
}

static tcc_status check_columns(const survey *s) {
    static const tcc__column_kind splits[] = {TCC__COLUMN_GROUP, TCC__COLUMN_TIME, TCC__COLUMN_SPLIT};
    const tcc__csv *csv = s->csv;
    tcc_diag *d = s->scan->records.diag;
    int splitting = 0;
    TCC_TRY(check_commas(s));
    for (int i = 0; i < 3; i++) splitting += count_kind(csv, splits[i]);
    if (!count_kind(csv, TCC__COLUMN_NUMBER) && !count_kind(csv, TCC__COLUMN_CATEGORY))
        return FIRST_LINE_ERROR(s, "no column is left to predict the target from");
    if (csv->n_targets > 1 && !s->options->csv_regression) return several_classes(s);
    if (count_kind(csv, TCC__COLUMN_WEIGHT) > 1)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "there are %d columns of kind weight; one is enough",
                         count_kind(csv, TCC__COLUMN_WEIGHT));
    if (splitting > 1)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "there are %d columns of kinds group, time and split; rows are "
                         "held out by one",
                         splitting);
    return TCC_OK;
}

static tcc_status find_columns(survey *s) {
    if (!s->found) return TCC_OK; /* an empty file */
    if (s->first.count < 2) {
        s->scan->records.line = s->line;
        return LINE_ERROR(s->scan,
                          "there is one column, separated by '%c'; a label and at least one feature are needed",
                          s->scan->records.separator);
    }
    TCC_TRY(ask_all(s));
    TCC_TRY(find_header(s));
    guess_kinds(s);
    s->csv->n_targets = count_kind(s->csv, TCC__COLUMN_TARGET);
    s->csv->n_cells = tcc__columns_number_cells(&s->csv->columns);
    const finding *f = &s->found[0];
    s->csv->surveyed = 1 + f->numbers + f->commas + f->texts + f->missing;
    return check_columns(s);
}

tcc_status tcc__csv_survey(tcc__csv_scan *scan, const tcc__bytes *file, const tcc_data_options *options,
                           tcc__csv *csv) {
    survey s = {.scan = scan, .options = options, .csv = csv};
    tcc__records *r = &scan->records;
    tcc_status status = tcc__records_begin(r->diag, r->path, file, options->csv_separator, false, r);
    if (status == TCC_OK) status = read_all(&s);
    if (status == TCC_OK) status = find_columns(&s);
    tcc__records_free(r);
    tcc__file_list_free(&s.first);
    tcc__free(s.found);
    return status;
}
