/* SPDX-License-Identifier: MIT
 * The classes of a table: its labels, each once, ascending. Where all labels are numbers they are told apart by their
 * values: "1" and "1.0" are one class. */
#include "ir/support/alloc.h"
#include "runtime/data/csv.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Texts in the order of classes. */
typedef struct label_order {
    locale_t locale;
    bool numeric;
    const char *const *texts;
} label_order;

static int compare_texts(const label_order *o, const char *x, const char *y) {
    double p, q;
    if (o->numeric && tcc__csv_number(o->locale, x, &p) && tcc__csv_number(o->locale, y, &q)) return (p > q) - (p < q);
    return strcmp(x, y);
}

/* Equal ones as they come, so that the first file's come first. */
static int compare_places(const void *a, const void *b, void *context) {
    const label_order *o = context;
    const int i = *(const int *)a, j = *(const int *)b, order = compare_texts(o, o->texts[i], o->texts[j]);
    return order ? order : (i > j) - (i < j);
}

/* The places of `count` texts in their order; NULL when memory is short. */
static int *sort(label_order *o, const char *const *texts, int count) {
    int *order = tcc__malloc((size_t)count * sizeof *order);
    o->texts = texts;
    o->numeric = true;
    for (int i = 0; i < count && order; i++) {
        double value;
        order[i] = i;
        o->numeric = o->numeric && tcc__csv_number(o->locale, texts[i], &value);
    }
    if (order) qsort_r(order, (size_t)count, sizeof *order, compare_places, o);
    return order;
}

static tcc_status number_sorted(tcc_diag *d, const char *val_path, tcc__csv *csv, const label_order *o,
                                const int *order) {
    for (int i = 0; i < csv->labels.count; i++) {
        tcc__csv_label *label = &csv->labels.data[order[i]];
        if (i == 0 || compare_texts(o, o->texts[order[i - 1]], o->texts[order[i]])) {
            size_t text;
            if (!label->trained)
                return tcc_error(d, TCC_EFORMAT, (tcc_loc){val_path, label->line},
                                 "label '%.64s' does not occur in the training file", o->texts[order[i]]);
            if (!tcc__csv_add_text(csv, o->texts[order[i]], &text) || !tcc_vec_push(&csv->classes, text))
                return tcc_enomem(d);
        }
        label->id = csv->classes.count - 1;
    }
    return TCC_OK;
}

/* The labels' numbers among classes that are known, which lie in this order. */
static tcc_status find_classes(tcc_diag *d, const char *path, tcc__csv *csv, const label_order *o, const int *order) {
    for (int i = 0; i < csv->labels.count; i++) {
        tcc__csv_label *label = &csv->labels.data[i];
        const char *text = tcc__words_text(&csv->label_texts, i);
        int low = 0, high = csv->classes.count; /* it is in [low, high) */
        while (high - low > 1) {
            const int middle = low + (high - low) / 2;
            if (compare_texts(o, o->texts[order[middle]], text) <= 0) low = middle;
            else high = middle;
        }
        label->id = order[low];
        if (compare_texts(o, o->texts[order[low]], text))
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, label->line},
                             "label '%.64s' is none of the %d classes that were trained", text, csv->classes.count);
    }
    return TCC_OK;
}

tcc_status tcc__csv_number_classes(tcc_diag *d, const char *val_path, tcc__csv *csv) {
    const bool known = csv->classes.count > 0;
    const int count = known ? csv->classes.count : csv->labels.count;
    if (!csv->labels.count) return TCC_OK;
    label_order o = {.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    const char **texts = tcc__malloc((size_t)count * sizeof *texts);
    for (int i = 0; i < count && texts; i++)
        texts[i] = known ? csv->texts.text + csv->classes.data[i] : tcc__words_text(&csv->label_texts, i);
    int *order = texts && o.locale ? sort(&o, texts, count) : NULL;
    tcc_status status = !order  ? tcc_enomem(d)
                        : known ? find_classes(d, val_path, csv, &o, order)
                                : number_sorted(d, val_path, csv, &o, order);
    if (o.locale) freelocale(o.locale);
    tcc__free(texts);
    tcc__free(order);
    return status;
}

tcc_status tcc__csv_set_classes(tcc_diag *d, const tcc__file_list *names, tcc__csv *csv) {
    for (int i = 0; i < names->count; i++) {
        size_t text;
        if (!tcc__csv_add_text(csv, names->data[i], &text) || !tcc_vec_push(&csv->classes, text)) return tcc_enomem(d);
    }
    return TCC_OK;
}
