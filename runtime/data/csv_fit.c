/* SPDX-License-Identifier: MIT
 * What the training rows of a table tell of its columns. What is held out has no part in it. */
#include "ir/support/alloc.h"
#include "runtime/data/csv_scan.h"
#include "runtime/data/csv_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of one column, over the rows to train on. */
typedef struct sums {
    int64_t count; /* numbers that are there */
    double sum, squares, least, most;
    int64_t *counts; /* of its words */
    int32_t *place;  /* of each word among those that are kept; -1: it is not */
} sums;

typedef struct fitting {
    tcc_diag *diag;
    tcc_dataset *data;
    tcc__table *table;
    int64_t rows;     /* to train on */
    uint8_t *trained; /* of each row: whether it is one of them */
    sums *sums;       /* of each column */
    float *out;       /* a row as it is kept */
} fitting;

/* Where a column's value is in a row, its cell or the target; -1: it is in none. */
static int value_of(const tcc__csv *csv, int column) {
    const tcc__column *c = &csv->columns.data[column];
    int target = 0;
    if (c->kind != TCC__COLUMN_TARGET) return c->cell;
    for (int i = 0; i < column; i++) target += csv->columns.data[i].kind == TCC__COLUMN_TARGET;
    return csv->n_cells + target;
}

static bool is_numbers(const fitting *f, const tcc__column *c) {
    return tcc__column_is_number(c) || (c->kind == TCC__COLUMN_TARGET && !f->table->csv.labels.count);
}

/* ---- one pass for sums, one for squares ---- */

static tcc_status add_row(void *user, int64_t number, const void *from) {
    fitting *f = user;
    const tcc__csv *csv = &f->table->csv;
    const double *row = from;
    if (!f->trained[number]) return TCC_OK;
    for (int i = 0; i < csv->columns.count; i++) {
        tcc__column *c = &csv->columns.data[i];
        sums *s = &f->sums[i];
        const int at = value_of(csv, i);
        const double x = at < 0 ? NAN : row[at];
        if (is_numbers(f, c)) {
            if (isnan(x)) continue;
            s->count++;
            s->sum += x;
            s->least = fmin(s->least, x);
            s->most = fmax(s->most, x);
        } else if (c->kind == TCC__COLUMN_CATEGORY) {
            if (isnan(x)) c->missing++;
            else if (x >= 0) s->counts[(int32_t)x]++;
        } else if (c->kind == TCC__COLUMN_TARGET) f->data->counts[csv->labels.data[(int32_t)x].id]++;
    }
    return TCC_OK;
}

static tcc_status add_squares(void *user, int64_t number, const void *from) {
    const fitting *f = user;
    const tcc__csv *csv = &f->table->csv;
    const double *row = from;
    for (int i = 0; i < csv->columns.count && f->trained[number]; i++) {
        const tcc__column *c = &csv->columns.data[i];
        const double x = tcc__column_is_number(c) ? row[c->cell] : NAN;
        if (!isnan(x)) f->sums[i].squares += (x - c->mean) * (x - c->mean);
    }
    return TCC_OK;
}

/* ---- numbers ---- */

static void fit_mean(const fitting *f, const sums *s, tcc__column *c) {
    c->missing = f->rows - s->count;
    c->least = s->count ? s->least : 0;
    c->most = s->count ? s->most : 0;
    c->mean = s->count ? s->sum / (double)s->count : 0;
}

static void fit_deviation(const sums *s, tcc__column *c) {
    c->std = s->count ? sqrt(s->squares / (double)s->count) : 1;
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

/* Keeps the words of training rows alone, in their order. `order`: room. */
static bool keep_words(tcc__column *c, const sums *s, int32_t *order) {
    const int all = c->words.offsets.count;
    tcc__words kept = {0};
    int count = 0;
    for (int32_t i = 0; i < all; i++) {
        s->place[i] = -1;
        if (s->counts[i]) order[count++] = i;
    }
    bool ok = sort_words(&c->words, order, count);
    for (int i = 0; i < count && ok; i++) {
        s->place[order[i]] = tcc__words_add(&kept, tcc__words_text(&c->words, order[i]));
        ok = s->place[order[i]] >= 0;
        if (s->counts[order[i]] > s->counts[order[c->usual]]) c->usual = i;
    }
    tcc__words_free(&c->words);
    c->words = kept;
    return ok;
}

/* Texts that hardly recur, as names, say nothing of other rows. `words`: those of all rows. */
static bool hardly_recurs(const fitting *f, const tcc__column *c, int words) {
    enum { FEW = 20 };
    const int trained = c->words.offsets.count;
    return c->guessed &&
           (words >= TCC__GUESSED_WORDS || (trained > FEW && 2 * (int64_t)trained > f->rows - c->missing));
}

static bool fit_category(const fitting *f, const sums *s, tcc__column *c) {
    const int all = c->words.offsets.count;
    int32_t *order = tcc__malloc(((size_t)all + 1) * sizeof *order);
    const int32_t none = tcc__words_find(&c->words, "");
    c->indicator = c->missing > 0;
    const bool ok = order && keep_words(c, s, order);
    if (ok && none >= 0) c->missing += s->counts[none]; /* a category of its own */
    tcc__free(order);
    if (!ok || !hardly_recurs(f, c, all)) return ok;
    c->kind = TCC__COLUMN_DROP;
    c->indicator = false;
    return true;
}

/* ---- all of it ---- */

static bool begin_sums(fitting *f) {
    const tcc__columns *columns = &f->table->csv.columns;
    const int64_t classes = f->data->info.classes;
    f->trained = tcc__calloc((size_t)f->table->csv.store.count + 1, sizeof *f->trained);
    if (classes) f->data->counts = tcc__calloc((size_t)classes, sizeof *f->data->counts);
    bool ok = f->trained && (!classes || f->data->counts);
    for (int64_t i = 0; i < f->rows && ok; i++) f->trained[tcc__table_row(f->table, TCC_SPLIT_TRAIN, i)] = 1;
    for (int i = 0; i < columns->count && ok; i++) {
        sums *s = &f->sums[i];
        const size_t words = (size_t)columns->data[i].words.offsets.count + 1;
        s->least = INFINITY;
        s->most = -INFINITY;
        if (columns->data[i].kind != TCC__COLUMN_CATEGORY) continue;
        s->counts = tcc__calloc(words, sizeof *s->counts);
        s->place = tcc__malloc(words * sizeof *s->place);
        ok = s->counts && s->place;
    }
    return ok;
}

static tcc_status fit(fitting *f) {
    const tcc__row_store *store = &f->table->csv.store;
    tcc__columns *columns = &f->table->csv.columns;
    if (!begin_sums(f)) return tcc_enomem(f->diag);
    TCC_TRY(tcc__row_store_each(f->diag, store, add_row, f));
    for (int i = 0; i < columns->count; i++)
        if (is_numbers(f, &columns->data[i])) fit_mean(f, &f->sums[i], &columns->data[i]);
    TCC_TRY(tcc__row_store_each(f->diag, store, add_squares, f));
    for (int i = 0; i < columns->count; i++) {
        tcc__column *c = &columns->data[i];
        if (tcc__column_is_number(c)) fit_deviation(&f->sums[i], c);
        if (c->kind == TCC__COLUMN_CATEGORY && !fit_category(f, &f->sums[i], c)) return tcc_enomem(f->diag);
    }
    return TCC_OK;
}

/* ---- cells of all rows ---- */

static tcc_status write_row(void *user, int64_t number, const void *from) {
    fitting *f = user;
    const tcc__csv *csv = &f->table->csv;
    const double *row = from;
    (void)number;
    for (int i = 0; i < csv->columns.count; i++) {
        const tcc__column *c = &csv->columns.data[i];
        const int at = value_of(csv, i);
        const double x = at < 0 ? NAN : row[at];
        if (at < 0) continue;
        const int32_t *place = f->sums[i].place;
        if (tcc__column_is_number(c)) f->out[at] = (float)((x - c->mean) / c->std);
        else if (c->kind == TCC__COLUMN_TARGET && f->data->info.classes) {
            const int32_t id = x < 0 ? -1 : csv->labels.data[(int32_t)x].id;
            memcpy(&f->out[at], &id, sizeof id);
        } else f->out[at] = place && x >= 0 ? (float)place[(int32_t)x] : (float)x;
    }
    return tcc__row_store_append(f->diag, &f->table->cells, f->out);
}

static tcc_status standardize(fitting *f) {
    tcc__table *t = f->table;
    const int width = t->csv.n_cells + t->csv.n_targets;
    f->out = tcc__malloc((size_t)width * sizeof *f->out);
    if (!f->out) return tcc_enomem(f->diag);
    tcc__row_store_begin(&t->cells, (size_t)width * sizeof *f->out, t->csv.store.count);
    TCC_TRY(tcc__row_store_each(f->diag, &t->csv.store, write_row, f));
    tcc__row_store_free(&t->csv.store);
    return tcc__row_store_finish(f->diag, &t->cells);
}

tcc_status tcc__table_fit(tcc_diag *d, tcc_dataset *data, tcc__table *t) {
    fitting f = {.diag = d, .data = data, .table = t, .rows = data->info.samples[TCC_SPLIT_TRAIN]};
    const int columns = t->csv.columns.count;
    f.sums = tcc__calloc((size_t)columns + 1, sizeof *f.sums);
    tcc_status status = f.sums ? TCC_OK : tcc_enomem(d);
    if (status == TCC_OK && !data->learned) status = fit(&f);
    if (status == TCC_OK) status = standardize(&f);
    for (int i = 0; i < columns && f.sums; i++) {
        tcc__free(f.sums[i].counts);
        tcc__free(f.sums[i].place);
    }
    tcc__free(f.sums);
    tcc__free(f.trained);
    tcc__free(f.out);
    TCC_TRY(status);
    t->n_features = tcc__columns_lay_out(&t->csv.columns, t->one_hot);
    if (t->n_features) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "no column of the table is left to predict the target from");
}
