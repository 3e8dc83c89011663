/* SPDX-License-Identifier: MIT
 * What the training rows of a table tell of its columns. What is held out has no part in it. */
#include "ir/support/alloc.h"
#include "runtime/data/csv_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fitting {
    const tcc_dataset *data;
    tcc__table *table;
    int64_t rows; /* to train on */
} fitting;

static double cell_at(const fitting *f, const tcc__column *c, int64_t sample) {
    const tcc__csv *csv = &f->table->csv;
    return csv->cells.data[tcc__table_row(f->table, TCC_SPLIT_TRAIN, sample) * csv->n_cells + c->cell];
}

/* ---- numbers ---- */

static void fit_number(const fitting *f, tcc__column *c) {
    int64_t count = 0;
    double sum = 0, squares = 0;
    c->least = INFINITY;
    c->most = -INFINITY;
    for (int64_t i = 0; i < f->rows; i++) {
        const double x = cell_at(f, c, i);
        if (isnan(x)) continue;
        count++;
        sum += x;
        c->least = fmin(c->least, x);
        c->most = fmax(c->most, x);
    }
    c->missing = f->rows - count;
    if (!count) c->least = c->most = 0;
    c->mean = count ? sum / (double)count : 0;
    for (int64_t i = 0; i < f->rows; i++) {
        const double x = cell_at(f, c, i);
        if (!isnan(x)) squares += (x - c->mean) * (x - c->mean);
    }
    c->std = count ? sqrt(squares / (double)count) : 1;
    /* A constant column says nothing; dividing by rounding errors would make it say something. */
    if (!(c->std > 1e-12 * fabs(c->mean)) || !isfinite(c->std)) c->std = 1;
    if (c->kind == TCC__COLUMN_WEIGHT) { /* weights are 1 on average */
        c->std = c->mean > 0 ? c->mean : 1;
        c->mean = 0;
    }
    c->indicator = c->kind == TCC__COLUMN_NUMBER && c->missing > 0;
}

/* ---- categories ---- */

typedef struct word_order {
    const tcc__words *words;
    const double *values; /* where all are numbers */
} word_order;

static int compare_words(const void *a, const void *b, void *context) {
    const word_order *o = context;
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (o->values && o->values[i] != o->values[j]) return o->values[i] > o->values[j] ? 1 : -1;
    return strcmp(tcc__words_text(o->words, i), tcc__words_text(o->words, j));
}

/* Sorts `count` words: by value where all are numbers, else by bytes. */
static bool sort_words(const tcc__words *words, int32_t *order, int count) {
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double *values = tcc__malloc((size_t)(words->offsets.count + 1) * sizeof *values);
    bool numbers = true, ok = locale && values;
    for (int i = 0; i < count && ok && numbers; i++)
        numbers = tcc__csv_number(locale, tcc__words_text(words, order[i]), &values[order[i]]);
    word_order o = {.words = words, .values = numbers ? values : NULL};
    if (ok) qsort_r(order, (size_t)count, sizeof *order, compare_words, &o);
    if (locale) freelocale(locale);
    tcc__free(values);
    return ok;
}

/* Gives the column's cells, of all rows, the numbers of its new words. */
static void renumber(const tcc__csv *csv, const tcc__column *c, const int32_t *place) {
    for (int64_t i = 0; i < csv->rows[0] + csv->rows[1]; i++) {
        double *cell = &csv->cells.data[i * csv->n_cells + c->cell];
        if (!isnan(*cell) && *cell >= 0) *cell = place[(int32_t)*cell];
    }
}

/* Keeps the words of training rows alone, in their order. `counts`: how often each occurs; `order`, `place`: room. */
static bool keep_words(const fitting *f, tcc__column *c, const int64_t *counts, int32_t *order, int32_t *place) {
    const int all = c->words.offsets.count;
    tcc__words kept = {0};
    int count = 0;
    for (int32_t i = 0; i < all; i++) {
        place[i] = -1;
        if (counts[i]) order[count++] = i;
    }
    bool ok = sort_words(&c->words, order, count);
    for (int i = 0; i < count && ok; i++) {
        place[order[i]] = tcc__words_add(&kept, tcc__words_text(&c->words, order[i]));
        ok = place[order[i]] >= 0;
        if (counts[order[i]] > counts[order[c->usual]]) c->usual = i;
    }
    if (ok) renumber(&f->table->csv, c, place);
    tcc__words_free(&c->words);
    c->words = kept;
    return ok;
}

static bool fit_category(const fitting *f, tcc__column *c) {
    const size_t all = (size_t)c->words.offsets.count + 1;
    int64_t *counts = tcc__calloc(all, sizeof *counts);
    int32_t *order = tcc__malloc(all * sizeof *order), *place = tcc__malloc(all * sizeof *place);
    bool ok = counts && order && place;
    for (int64_t i = 0; i < f->rows && ok; i++) {
        const double word = cell_at(f, c, i);
        if (isnan(word)) c->missing++;
        else if (word >= 0) counts[(int32_t)word]++;
    }
    const int32_t none = tcc__words_find(&c->words, "");
    c->indicator = c->missing > 0;
    ok = ok && keep_words(f, c, counts, order, place);
    if (ok && none >= 0) c->missing += counts[none]; /* a category of its own */
    tcc__free(counts);
    tcc__free(order);
    tcc__free(place);
    return ok;
}

/* Texts that hardly recur, as names, say nothing of other rows. */
static bool hardly_recurs(const fitting *f, const tcc__column *c) {
    enum { FEW = 20 };
    const int words = c->words.offsets.count;
    return c->guessed && words > FEW && 2 * (int64_t)words > f->rows - c->missing;
}

static bool fit(const fitting *f) {
    tcc__columns *columns = &f->table->csv.columns;
    for (int i = 0; i < columns->count; i++) {
        tcc__column *c = &columns->data[i];
        if (tcc__column_is_number(c)) fit_number(f, c);
        if (c->kind != TCC__COLUMN_CATEGORY) continue;
        if (!fit_category(f, c)) return false;
        if (!hardly_recurs(f, c)) continue;
        c->kind = TCC__COLUMN_DROP;
        c->indicator = false;
    }
    return true;
}

/* ---- cells of all rows ---- */

static bool standardize(tcc__table *t) {
    tcc__csv *csv = &t->csv;
    const int64_t rows = csv->rows[0] + csv->rows[1];
    t->cells = tcc__malloc((size_t)(rows * csv->n_cells + 1) * sizeof *t->cells);
    for (int i = 0; i < csv->columns.count && t->cells; i++) {
        const tcc__column *c = &csv->columns.data[i];
        const bool number = tcc__column_is_number(c);
        for (int64_t row = 0; row < rows && c->cell >= 0; row++) {
            const double x = csv->cells.data[row * csv->n_cells + c->cell];
            t->cells[row * csv->n_cells + c->cell] = (float)(number ? (x - c->mean) / c->std : x);
        }
    }
    tcc_vec_free(&csv->cells);
    return t->cells != NULL;
}

tcc_status tcc__table_fit(tcc_diag *d, const tcc_dataset *data, tcc__table *t) {
    const fitting f = {.data = data, .table = t, .rows = data->info.samples[TCC_SPLIT_TRAIN]};
    if ((!data->learned && !fit(&f)) || !standardize(t)) return tcc_enomem(d);
    t->n_features = tcc__columns_lay_out(&t->csv.columns, t->one_hot);
    if (t->n_features) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "no column of the table is left to predict the target from");
}
