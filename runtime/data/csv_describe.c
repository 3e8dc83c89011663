/* SPDX-License-Identifier: MIT
 * A table in words: its columns, and what in it is likely to be a mistake. */
#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "runtime/data/csv_table.h"
#include "runtime/data/describe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t training_rows(const tcc_dataset *data) { return data->info.samples[TCC_SPLIT_TRAIN]; }

/* Rows that lie in memory; those of a file are not compared with each other. */
static const float *row_at(const tcc__table *t, int64_t row) { return tcc__row_store_at(&t->cells, row); }

static float cell_at(const tcc__table *t, const tcc__column *c, int64_t row) { return row_at(t, row)[c->cell]; }

/* ---- columns ---- */

enum { SHOWN = 5, NAME_WIDTH = 24, COLUMNS_SHOWN = 60 };

static void describe_category(const tcc__column *c, tcc_strbuf *out) {
    const int count = c->words.offsets.count;
    tcc_strbuf_printf(out, "%d values%s:", count, c->embedded ? ", embedded" : "");
    for (int i = 0; i < count && i < SHOWN; i++) {
        const char *word = tcc__words_text(&c->words, i);
        tcc_strbuf_printf(out, "%s %.24s", i ? "," : "", *word ? word : "(missing)");
    }
    if (count > SHOWN) tcc_strbuf_add(out, ", ...");
}

static void describe_column(const tcc__table *t, int index, int64_t rows, tcc_strbuf *out) {
    const tcc__column *c = &t->csv.columns.data[index];
    char number[32];
    snprintf(number, sizeof number, "column %d", index);
    tcc_strbuf_printf(out, "  %-*.40s %s", NAME_WIDTH, *c->name ? c->name : number, tcc__column_kind_name(c->kind));
    if (tcc__column_is_number(c) && rows) tcc_strbuf_printf(out, ", %g to %g", c->least, c->most);
    if (c->comma && tcc__column_is_number(c)) tcc_strbuf_add(out, ", decimal commas");
    if (c->kind == TCC__COLUMN_CATEGORY) tcc_strbuf_add(out, ", "), describe_category(c, out);
    else if (c->kind == TCC__COLUMN_DROP && c->words.offsets.count)
        tcc_strbuf_printf(out, ", %d different texts in %lld rows", c->words.offsets.count, (long long)rows);
    else if (c->kind == TCC__COLUMN_GROUP || c->kind == TCC__COLUMN_SPLIT)
        tcc_strbuf_printf(out, ", %d values", c->words.offsets.count);
    if (c->missing)
        tcc_strbuf_printf(out, ", %lld missing (%.1f%%)", (long long)c->missing,
                          100 * (double)c->missing / (double)(rows ? rows : 1));
    tcc_strbuf_add(out, c->guessed && c->kind != TCC__COLUMN_TARGET ? "  (guessed)\n" : "\n");
}

/* ---- the target ---- */

static void describe_targets(const tcc_dataset *data, const tcc__table *t, tcc_strbuf *out) {
    for (int i = 0; i < t->csv.columns.count && !data->info.classes && !data->learned; i++) {
        const tcc__column *c = &t->csv.columns.data[i];
        if (c->kind != TCC__COLUMN_TARGET) continue;
        tcc_strbuf_printf(out, "  target '%s': %g to %g, mean %g\n", c->name, c->least, c->most, c->mean);
    }
}

/* The target as a number of training sample i. */
static double target_of(const tcc_dataset *data, const tcc__table *t, int64_t i) {
    const float *row = row_at(t, tcc__table_row(t, TCC_SPLIT_TRAIN, i));
    return data->info.classes ? tcc__table_class(t, row) : (double)row[t->csv.n_cells];
}

/* ---- warnings ---- */

static void warn_constant(const tcc__table *t, const tcc__column *c, int64_t rows, tcc_strbuf *out) {
    (void)t;
    const bool constant = c->kind == TCC__COLUMN_NUMBER     ? c->least == c->most && !c->missing
                          : c->kind == TCC__COLUMN_CATEGORY ? c->words.offsets.count < 2 && !c->indicator
                                                            : false;
    if (constant && rows > 1) tcc__warn(out, "column '%s' never varies", c->name);
}

/* A number that grows by 1 from row to row is where a row lies in the file. */
static void warn_counter(const tcc_dataset *data, const tcc__table *t, const tcc__column *c, tcc_strbuf *out) {
    enum { FEW = 20 };
    const int64_t rows = t->csv.rows[0];
    if (c->kind != TCC__COLUMN_NUMBER || rows < FEW || !training_rows(data)) return;
    const double first = (double)cell_at(t, c, 0) * c->std + c->mean;
    for (int64_t i = 1; i < rows; i++)
        if (fabs((double)cell_at(t, c, i) * c->std + c->mean - first - (double)i) > 0.01) return;
    tcc__warn(out, "column '%s' numbers the rows; 'drop' leaves it out", c->name);
}

/* Whether a column's values and the target's go with each other one to one. Their pairs are kept in a hash table. */
static bool tells_target(const tcc_dataset *data, const tcc__table *t, const tcc__column *c, int64_t *slots,
                         size_t mask) {
    const int64_t rows = training_rows(data);
    for (int pass = 0; pass < 2; pass++) { /* the target by the value, the value by the target */
        memset(slots, 0, (mask + 1) * sizeof *slots);
        for (int64_t i = 0; i < rows; i++) {
            const double value = (double)cell_at(t, c, tcc__table_row(t, TCC_SPLIT_TRAIN, i));
            const double target = target_of(data, t, i), key = pass ? target : value, other = pass ? value : target;
            if (isnan(value)) return false;
            size_t at = (size_t)tcc_hash_f64(0, key + 0.0) & mask;
            for (; slots[at]; at = (at + 1) & mask) {
                const int64_t j = slots[at] - 1;
                const double v = (double)cell_at(t, c, tcc__table_row(t, TCC_SPLIT_TRAIN, j));
                const double y = target_of(data, t, j);
                if ((pass ? y : v) != key) continue;
                if ((pass ? v : y) != other) return false;
                break;
            }
            if (!slots[at]) slots[at] = i + 1;
        }
    }
    return true;
}

/* Where values recur: a number that is another in each row tells every target. */
static int64_t different(const tcc_dataset *data, const tcc__table *t, const tcc__column *c, int64_t *slots,
                         size_t mask) {
    int64_t count = 0;
    memset(slots, 0, (mask + 1) * sizeof *slots);
    for (int64_t i = 0; i < training_rows(data); i++) {
        const float value = cell_at(t, c, tcc__table_row(t, TCC_SPLIT_TRAIN, i));
        size_t at = (size_t)tcc_hash_f64(0, (double)value + 0.0) & mask;
        while (slots[at] && cell_at(t, c, tcc__table_row(t, TCC_SPLIT_TRAIN, slots[at] - 1)) != value)
            at = (at + 1) & mask;
        count += !slots[at];
        slots[at] = i + 1;
    }
    return count;
}

/* Whether a number is the target up to a factor and a shift. */
static bool is_linear(const tcc_dataset *data, const tcc__table *t, const tcc__column *c) {
    double xy = 0, yy = 0, mean = 0;
    const int64_t rows = training_rows(data);
    if (c->kind != TCC__COLUMN_NUMBER || c->missing || data->info.classes) return false;
    for (int64_t i = 0; i < rows; i++) mean += target_of(data, t, i) / (double)rows;
    for (int64_t i = 0; i < rows; i++) {
        const double y = target_of(data, t, i) - mean;
        xy += (double)cell_at(t, c, tcc__table_row(t, TCC_SPLIT_TRAIN, i)) * y / (double)rows;
        yy += y * y / (double)rows;
    }
    return yy > 0 && fabs(xy) / sqrt(yy) > 0.99999;
}

static bool warn_leaks(const tcc_dataset *data, const tcc__table *t, tcc_strbuf *out) {
    enum { FEW = 20 };
    const int64_t rows = training_rows(data);
    size_t size = 64;
    if (rows < FEW) return true;
    while (size < 2 * (size_t)rows) size *= 2;
    int64_t *slots = tcc__malloc(size * sizeof *slots);
    for (int i = 0; i < t->csv.columns.count && slots; i++) {
        const tcc__column *c = &t->csv.columns.data[i];
        if (!tcc__column_is_input(c)) continue;
        const bool labels = data->info.classes > 1 && different(data, t, c, slots, size - 1) <= data->info.classes;
        if (is_linear(data, t, c) || (labels && tells_target(data, t, c, slots, size - 1)))
            tcc__warn(out, "column '%s' tells the target by itself; is it known when predicting?", c->name);
    }
    tcc__free(slots);
    return slots != NULL;
}

uint64_t tcc__table_hash(const tcc_dataset *data, tcc_split split, int64_t number, bool rough) {
    const tcc__table *t = data->own;
    const int64_t row = tcc__table_row(t, split, number);
    uint64_t hash = 0;
    (void)rough;
    for (int i = 0; i < t->csv.columns.count; i++) {
        const tcc__column *c = &t->csv.columns.data[i];
        if (tcc__column_is_input(c)) hash = tcc_hash_f64(hash, (double)cell_at(t, c, row) + 0.0);
    }
    if (data->info.classes) return tcc_hash_add(hash, (uint64_t)tcc__table_class(t, row_at(t, row)));
    for (int i = 0; i < t->csv.n_targets; i++) hash = tcc_hash_f64(hash, (double)row_at(t, row)[t->csv.n_cells + i]);
    return hash;
}

/* Labels that are many different numbers. */
static void warn_many_classes(const tcc_dataset *data, const tcc__table *t, tcc_strbuf *out) {
    enum { MANY = 50 };
    double x;
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const int64_t classes = data->info.classes;
    if (locale && classes > MANY && 10 * classes > training_rows(data) &&
        tcc__csv_number(locale, t->csv.texts.text + t->csv.classes.data[0], &x))
        tcc__warn(out, "the target has %lld different numbers: is it one to predict (regression: true)?",
                  (long long)classes);
    if (locale) freelocale(locale);
}

bool tcc__table_describe(const tcc_dataset *data, tcc_strbuf *out) {
    const tcc__table *t = data->own;
    const tcc__columns *columns = &t->csv.columns;
    const int64_t rows = training_rows(data);
    tcc_strbuf_printf(out, "columns (%d features):\n", t->n_features);
    for (int i = 0; i < columns->count && i < COLUMNS_SHOWN; i++) describe_column(t, i, rows, out);
    if (columns->count > COLUMNS_SHOWN) tcc_strbuf_printf(out, "  and %d more\n", columns->count - COLUMNS_SHOWN);
    if (!rows) return true;
    describe_targets(data, t, out);
    for (int i = 0; i < columns->count; i++) warn_constant(t, &columns->data[i], rows, out);
    warn_many_classes(data, t, out);
    if (t->cells.in_file) {
        tcc_strbuf_printf(out, "rows: %.1f MiB in a temporary file, so they are not compared with each other\n",
                          (double)t->cells.count * (double)t->cells.row_bytes / (1 << 20));
        return true;
    }
    for (int i = 0; i < columns->count; i++) warn_counter(data, t, &columns->data[i], out);
    return warn_leaks(data, t, out);
}
