/* SPDX-License-Identifier: MIT
 * The columns of a table: their features, and what is kept of them with a run. */
#include "runtime/data/columns.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[TCC__COLUMN_KINDS] = {"auto",   "number", "category", "drop", "target",
                                                          "weight", "group",  "time",     "split"};

const char *tcc__column_kind_name(tcc__column_kind kind) { return kind_names[kind]; }

tcc__column_kind tcc__column_kind_of(const char *name) {
    int kind = 0;
    while (kind < TCC__COLUMN_KINDS && strcmp(kind_names[kind], name)) kind++;
    return (tcc__column_kind)kind;
}

bool tcc__columns_add(tcc__columns *columns, const char *name, tcc__column_kind kind) {
    tcc__column c = {.name = tcc__strdup(name), .kind = kind, .cell = -1, .std = 1};
    if (c.name && tcc_vec_push(columns, c)) return true;
    tcc__free(c.name);
    return false;
}

/* ---- features ---- */

int tcc__columns_number_cells(tcc__columns *columns) {
    int count = 0;
    for (int i = 0; i < columns->count; i++) {
        tcc__column *c = &columns->data[i];
        c->cell = c->kind == TCC__COLUMN_DROP || c->kind == TCC__COLUMN_TARGET ? -1 : count++;
    }
    return count;
}

int tcc__columns_lay_out(tcc__columns *columns, int one_hot) {
    int at = 0;
    for (int weights = 0; weights < 2; weights++) { /* the weight is the last */
        for (int i = 0; i < columns->count; i++) {
            tcc__column *c = &columns->data[i];
            const int categories = c->words.offsets.count;
            if (weights != (c->kind == TCC__COLUMN_WEIGHT)) continue;
            c->first = at;
            c->embedded = c->kind == TCC__COLUMN_CATEGORY && categories > one_hot;
            if (tcc__column_is_number(c) || c->embedded) c->features = 1;
            else c->features = c->kind == TCC__COLUMN_CATEGORY ? categories : 0;
            c->features += c->indicator;
            at += c->features;
        }
    }
    return at;
}

static void write_column(const tcc__column *c, float cell, float *x) {
    const bool missing = isnan(cell);
    if (c->indicator) x[c->features - 1] = missing;
    if (tcc__column_is_number(c)) {
        x[0] = missing ? 0 : cell;
        return;
    }
    const int32_t word = missing ? c->usual : (int32_t)cell;
    if (c->embedded) {
        x[0] = (float)(word + 1);
        return;
    }
    memset(x, 0, (size_t)c->words.offsets.count * sizeof *x);
    if (word >= 0 && word < c->words.offsets.count) x[word] = 1;
}

void tcc__columns_write(const tcc__columns *columns, const float *cells, float *x) {
    for (int i = 0; i < columns->count; i++) {
        const tcc__column *c = &columns->data[i];
        if (c->features) write_column(c, cells[c->cell], x + c->first);
    }
}

/* ---- what a run keeps ---- */

static bool learn_words(const tcc__column *c, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "categories");
    bool ok = list && tcc__learn_number(to, "usual", c->usual);
    for (int i = 0; i < c->words.offsets.count && ok; i++) {
        cJSON *name = cJSON_CreateString(tcc__words_text(&c->words, i));
        ok = name && cJSON_AddItemToArray(list, name);
    }
    return ok;
}

bool tcc__columns_learn(const tcc__columns *columns, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "columns");
    bool ok = list != NULL;
    for (int i = 0; i < columns->count && ok; i++) {
        const tcc__column *c = &columns->data[i];
        cJSON *column = cJSON_CreateObject();
        ok = column && cJSON_AddItemToArray(list, column) && tcc__learn_text(column, "name", c->name) &&
             tcc__learn_text(column, "kind", tcc__column_kind_name(c->kind));
        if (ok && tcc__column_is_number(c))
            ok = tcc__learn_number(column, "mean", c->mean) && tcc__learn_number(column, "std", c->std);
        if (ok && c->kind == TCC__COLUMN_CATEGORY) ok = learn_words(c, column);
        if (ok && c->comma) ok = tcc__learn_number(column, "comma", 1);
        if (ok && c->indicator) ok = tcc__learn_number(column, "indicator", 1);
    }
    return ok;
}

static tcc_status take_words(tcc_diag *d, const cJSON *from, tcc__column *c) {
    const cJSON *list, *name;
    int64_t usual;
    TCC_TRY(tcc__learned_list(d, from, "categories", &list));
    cJSON_ArrayForEach(name, list) {
        if (!cJSON_IsString(name))
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE,
                             "what was learned of column '%s' has a category that is no "
                             "text",
                             c->name);
        if (tcc__words_add(&c->words, name->valuestring) < 0) return tcc_enomem(d);
    }
    TCC_TRY(tcc__learned_integer(d, from, "usual", c->words.offsets.count, &usual));
    c->usual = (int32_t)usual;
    return TCC_OK;
}

static tcc_status take_column(tcc_diag *d, const cJSON *from, tcc__column *c) {
    if (c->kind == TCC__COLUMN_CATEGORY) TCC_TRY(take_words(d, from, c));
    if (tcc__column_is_number(c)) {
        TCC_TRY(tcc__learned_number(d, from, "mean", &c->mean));
        TCC_TRY(tcc__learned_number(d, from, "std", &c->std));
        if (!(c->std > 0))
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned of column '%s' has a deviation of %g",
                             c->name, c->std);
    }
    c->comma = cJSON_HasObjectItem(from, "comma");
    c->indicator = tcc__column_is_input(c) && cJSON_HasObjectItem(from, "indicator");
    return TCC_OK;
}

tcc_status tcc__columns_take(tcc_diag *d, const cJSON *from, tcc__columns *out) {
    const cJSON *list, *column;
    TCC_TRY(tcc__learned_list(d, from, "columns", &list));
    cJSON_ArrayForEach(column, list) {
        const char *name, *kind;
        TCC_TRY(tcc__learned_text(d, column, "name", &name));
        TCC_TRY(tcc__learned_text(d, column, "kind", &kind));
        const tcc__column_kind k = tcc__column_kind_of(kind);
        if (k == TCC__COLUMN_KINDS || k == TCC__COLUMN_AUTO)
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned of column '%s' has the kind '%s'", name,
                             kind);
        if (!tcc__columns_add(out, name, k)) return tcc_enomem(d);
        TCC_TRY(take_column(d, column, &out->data[out->count - 1]));
    }
    return TCC_OK;
}

void tcc__columns_free(tcc__columns *columns) {
    for (int i = 0; i < columns->count; i++) {
        tcc__free(columns->data[i].name);
        tcc__words_free(&columns->data[i].words);
    }
    tcc_vec_free(columns);
}
