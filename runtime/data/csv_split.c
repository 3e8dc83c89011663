/* SPDX-License-Identifier: MIT
 * Which rows samples are: drawn, or held out by a column, which are whole groups, the latest, or those that say so. */
#include "ir/support/alloc.h"
#include "runtime/data/csv_table.h"
#include "runtime/data/draw.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int64_t tcc__table_row(const tcc__table *t, tcc_split split, int64_t i) {
    if (t->listed) return t->rows[split].data[i];
    return split == TCC_SPLIT_TRAIN ? i : t->csv.rows[0] + i;
}

static const tcc__column *splitting_column(const tcc__csv *csv) {
    for (int i = 0; i < csv->columns.count; i++) {
        const tcc__column *c = &csv->columns.data[i];
        if (c->kind == TCC__COLUMN_GROUP || c->kind == TCC__COLUMN_TIME || c->kind == TCC__COLUMN_SPLIT) return c;
    }
    return NULL;
}

typedef struct word_list {
    int cell;
    int32_t *words;
} word_list;

static tcc_status take_word(void *user, int64_t number, const void *row) {
    word_list *list = user;
    list->words[number] = (int32_t)((const double *)row)[list->cell];
    return TCC_OK;
}

/* What each row says in the column; freed with tcc__free. */
static tcc_status list_words(tcc_diag *d, const tcc__csv *csv, const tcc__column *c, int32_t **words) {
    word_list list = {.cell = c->cell, .words = tcc__malloc((size_t)csv->store.count * sizeof(int32_t))};
    *words = list.words;
    return list.words ? tcc__row_store_each(d, &csv->store, take_word, &list) : tcc_enomem(d);
}

/* ---- by what a cell says ---- */

/* TCC_SPLIT_COUNT: the row is for neither; -1: it says nothing known. */
static int part_of(const char *word) {
    static const struct {
        const char *word;
        int part;
    } words[] = {{"train", TCC_SPLIT_TRAIN},      {"training", TCC_SPLIT_TRAIN},        {"val", TCC_SPLIT_VALIDATION},
                 {"valid", TCC_SPLIT_VALIDATION}, {"validation", TCC_SPLIT_VALIDATION}, {"dev", TCC_SPLIT_VALIDATION},
                 {"test", TCC_SPLIT_COUNT}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(word, words[i].word)) return words[i].part;
    return -1;
}

static tcc_status split_by_word(tcc_diag *d, const char *path, const tcc__column *c, const int32_t *words,
                                tcc__table *t) {
    for (int64_t i = 0; i < t->csv.rows[0]; i++) {
        const char *word = tcc__words_text(&c->words, words[i]);
        const int part = part_of(word);
        if (part < 0)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                             "column '%s' of kind split says '%.64s', which is "
                             "none of train, val and test",
                             c->name, word);
        if (part < TCC_SPLIT_COUNT && !tcc_vec_push(&t->rows[part], (int)i)) return tcc_enomem(d);
    }
    return TCC_OK;
}

/* ---- by groups ---- */

/* Groups are drawn, always in the same way, until they have as many rows as are to be held out; one is left. */
static tcc_status split_by_group(tcc_diag *d, int64_t held_out, const tcc__column *c, const int32_t *words,
                                 tcc__table *t) {
    const int groups = c->words.offsets.count;
    const tcc__permutation p = tcc__permutation_of(groups, 0, TCC__DRAW_HOLD_OUT, 0);
    int64_t *sizes = tcc__calloc((size_t)groups, sizeof *sizes), held = 0;
    bool *is_held = tcc__calloc((size_t)groups, sizeof *is_held), ok = sizes && is_held;
    for (int64_t i = 0; i < t->csv.rows[0] && ok; i++) sizes[words[i]]++;
    for (int i = 0; i < groups - 1 && held < held_out && ok; i++) {
        const int64_t group = tcc__permute(&p, i);
        is_held[group] = true;
        held += sizes[group];
    }
    for (int64_t i = 0; i < t->csv.rows[0] && ok; i++)
        ok = tcc_vec_push(&t->rows[is_held[words[i]] ? TCC_SPLIT_VALIDATION : TCC_SPLIT_TRAIN], (int)i);
    tcc__free(sizes);
    tcc__free(is_held);
    return ok ? TCC_OK : tcc_enomem(d);
}

/* ---- by time ---- */

typedef struct time_order {
    const int32_t *words;
    const tcc__column *column;
    double *values; /* of each word, where all are numbers; else NULL */
} time_order;

static int compare_times(const void *a, const void *b, void *context) {
    const time_order *o = context;
    const int i = *(const int *)a, j = *(const int *)b;
    const int32_t x = o->words[i], y = o->words[j];
    int order = 0;
    if (x != y && o->values) order = (o->values[x] > o->values[y]) - (o->values[x] < o->values[y]);
    else if (x != y) order = strcmp(tcc__words_text(&o->column->words, x), tcc__words_text(&o->column->words, y));
    return order ? order : (i > j) - (i < j);
}

/* Dates as 2024-05-31 are in order as texts. */
static tcc_status split_by_time(tcc_diag *d, int64_t held_out, const tcc__column *c, const int32_t *words,
                                tcc__table *t) {
    time_order o = {
        .words = words, .column = c, .values = tcc__malloc((size_t)c->words.offsets.count * sizeof(double))};
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const int rows = (int)t->csv.rows[0];
    int *order = tcc__malloc((size_t)rows * sizeof *order);
    bool ok = o.values && locale && order, numbers = true;
    for (int i = 0; i < c->words.offsets.count && ok && numbers; i++)
        numbers = tcc__csv_number(locale, tcc__words_text(&c->words, i), &o.values[i]);
    if (!numbers) {
        tcc__free(o.values);
        o.values = NULL;
    }
    for (int i = 0; i < rows && ok; i++) order[i] = i;
    if (ok) qsort_r(order, (size_t)rows, sizeof *order, compare_times, &o);
    for (int i = 0; i < rows && ok; i++)
        ok = tcc_vec_push(&t->rows[i < rows - held_out ? TCC_SPLIT_TRAIN : TCC_SPLIT_VALIDATION], order[i]);
    if (locale) freelocale(locale);
    tcc__free(o.values);
    tcc__free(order);
    return ok ? TCC_OK : tcc_enomem(d);
}

static tcc_status list_rows(tcc_diag *d, const char *path, int64_t held_out, const tcc__column *c, const int32_t *words,
                            tcc__table *t) {
    t->listed = true;
    if (c->kind == TCC__COLUMN_SPLIT) return split_by_word(d, path, c, words, t);
    if (c->kind == TCC__COLUMN_GROUP) return split_by_group(d, held_out, c, words, t);
    return split_by_time(d, held_out, c, words, t);
}

tcc_status tcc__table_split(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data, tcc__table *t) {
    const tcc__column *c = splitting_column(&t->csv);
    if (!c || !options->path || (options->val_path && options->learned)) return TCC_OK;
    if (options->val_path)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "column '%s' of kind %s says what is held out, and so does "
                         "val_path",
                         c->name, tcc__column_kind_name(c->kind));
    if (c->kind == TCC__COLUMN_SPLIT && options->val_split > 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "column '%s' of kind split says what is held out, and so does "
                         "val_split",
                         c->name);
    const int64_t held_out = tcc__val_count(t->csv.rows[0], options->val_split);
    int32_t *words;
    tcc_status status = list_words(d, &t->csv, c, &words);
    if (status == TCC_OK) status = list_rows(d, options->path, held_out, c, words, t);
    tcc__free(words);
    TCC_TRY(status);
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) data->info.samples[split] = t->rows[split].count;
    if (t->rows[TCC_SPLIT_TRAIN].count) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){options->path, 0}, "column '%s' of kind %s leaves no row to train on",
                     c->name, tcc__column_kind_name(c->kind));
}
