/* SPDX-License-Identifier: MIT
 * Data kind csv: rows of numbers and categories, and a label. Numbers are standardized by the statistics of the
 * training rows alone. */
#include "ir/support/alloc.h"
#include "runtime/data/csv_table.h"

#include <string.h>
#include <sys/stat.h>

enum { ONE_HOT = 32 }; /* by default: the most categories of a column that is one-hot */

/* A table whose columns are not known is read twice; what cannot be, as a pipe, is read as a whole. */
static tcc_status parse_file(tcc_diag *d, const char *path, const tcc_data_options *options, int index, tcc__csv *csv) {
    struct stat info;
    if (csv->columns.count || stat(path, &info) || S_ISREG(info.st_mode))
        return tcc__csv_parse(d, path, NULL, options, index, csv);
    tcc__bytes file;
    TCC_TRY(tcc__file_load(d, path, &file));
    const tcc_status status = tcc__csv_parse(d, path, &file, options, index, csv);
    tcc__free(file.data);
    return status;
}

/* Columns and classes as they were in training. */
static tcc_status take_columns(tcc_diag *d, const tcc_data_options *options, const cJSON *learned, tcc__table *t) {
    TCC_TRY(tcc__csv_take_columns(d, options, learned, &t->csv));
    int64_t one_hot;
    TCC_TRY(tcc__learned_integer(d, learned, "one_hot", INT32_MAX, &one_hot));
    t->one_hot = (int)one_hot;
    if (options->csv_regression) return TCC_OK;
    tcc__file_list names = {0};
    tcc_status status = tcc__learned_classes(d, learned, &names);
    if (status == TCC_OK) status = tcc__csv_set_classes(d, &names, &t->csv);
    tcc__file_list_free(&names);
    return status;
}

static bool learn_columns(const tcc_dataset *data, cJSON *to) {
    const tcc__table *t = data->own;
    return tcc__columns_learn(&t->csv.columns, to) && tcc__learn_number(to, "header", t->csv.has_header) &&
           tcc__learn_number(to, "one_hot", t->one_hot) &&
           (t->missing == TCC_MISSING_ERROR || tcc__learn_number(to, "missing", t->missing));
}

static tcc_status check_options(tcc_diag *d, const tcc_data_options *o) {
    if ((unsigned)o->csv_missing > TCC_MISSING_CATEGORY)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "csv_missing is %d", (int)o->csv_missing);
    if (o->csv_one_hot < 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "csv_one_hot is %d; it is a number of categories", o->csv_one_hot);
    for (int i = 0; i < o->n_csv_columns; i++)
        if (tcc__column_kind_of(o->csv_columns[i].kind) == TCC__COLUMN_KINDS)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "column '%s' is of kind '%s', which is none of " TCC_COLUMN_KINDS, o->csv_columns[i].name,
                             o->csv_columns[i].kind);
    return TCC_OK;
}

/* Lists rows that are drawn, so that each is drawn once and not whenever a column is looked at. */
static tcc_status hold_out(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data, tcc__table *t) {
    TCC_TRY(tcc__hold_out(d, options->path, data, t->csv.rows[0], options->val_split));
    for (int split = 0; split < TCC_SPLIT_COUNT; split++)
        for (int64_t i = 0; i < data->info.samples[split]; i++)
            if (!tcc_vec_push(&t->rows[split], (int)tcc__source_of(data, (tcc_split)split, i))) return tcc_enomem(d);
    data->held_out_of = 0;
    t->listed = true;
    return TCC_OK;
}

static tcc_status split(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data, tcc__table *t) {
    TCC_TRY(tcc__table_split(d, options, data, t));
    if (t->listed) return TCC_OK;
    if (!options->val_path) return options->path ? hold_out(d, options, data, t) : TCC_OK;
    for (int part = 0; part < TCC_SPLIT_COUNT; part++) data->info.samples[part] = t->csv.rows[part];
    return TCC_OK;
}

static tcc_status open_csv(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    tcc__table *t = data->own = tcc__calloc(1, sizeof *t);
    if (!t) return tcc_enomem(d);
    TCC_TRY(check_options(d, options));
    t->one_hot = options->csv_one_hot ? options->csv_one_hot : ONE_HOT;
    t->missing = options->csv_missing;
    if (data->learned) TCC_TRY(take_columns(d, options, data->learned, t));
    if (options->path) TCC_TRY(parse_file(d, options->path, options, 0, &t->csv));
    if (options->val_path) TCC_TRY(parse_file(d, options->val_path, options, 1, &t->csv));
    TCC_TRY(tcc__row_store_finish(d, &t->csv.store));
    TCC_TRY(split(d, options, data, t));
    if (!options->unlabelled)
        TCC_TRY(tcc__csv_number_classes(d, options->val_path ? options->val_path : options->path, &t->csv));
    data->info.classes = t->csv.classes.count;
    TCC_TRY(tcc__table_fit(d, data, t));
    data->in_file = t->cells.in_file;
    data->info.x.dtype = TCC_F32;
    data->info.x.rank = 1;
    data->info.x.dims[0] = t->n_features;
    data->info.y.dtype = options->csv_regression ? TCC_F32 : TCC_I32;
    data->info.y.rank = options->csv_regression;
    data->info.y.dims[0] = options->csv_regression ? t->csv.n_targets : 0;
    return TCC_OK;
}

static void write_sample(const tcc_dataset *data, const float *row, void *x, void *y) {
    const tcc__table *t = data->own;
    tcc__columns_write(&t->csv.columns, row, x);
    if (data->info.classes) *(int32_t *)y = tcc__table_class(t, row);
    else memcpy(y, row + t->csv.n_cells, (size_t)t->csv.n_targets * sizeof *row);
}

static tcc_status read_csv(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const tcc__table *t = data->own;
    const int64_t row = tcc__table_row(t, sample->split, sample->number);
    const float *here = tcc__row_store_at(&t->cells, row);
    if (here) return write_sample(data, here, x, y), TCC_OK;
    float *read = tcc__malloc(t->cells.row_bytes);
    const tcc_status status = read ? tcc__row_store_read(d, &t->cells, row, read) : tcc_enomem(d);
    if (status == TCC_OK) write_sample(data, read, x, y);
    tcc__free(read);
    return status;
}

static void close_csv(tcc_dataset *data) {
    tcc__table *t = data->own;
    tcc__csv_free(&t->csv);
    tcc__row_store_free(&t->cells);
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) tcc_vec_free(&t->rows[i]);
    tcc__free(t);
}

static const char *label_csv(const tcc_dataset *data, int64_t id, size_t *length) {
    const tcc__table *t = data->own;
    const char *text = t->csv.texts.text + t->csv.classes.data[id];
    *length = strlen(text);
    return text;
}

static const char *id_of_row(const tcc_dataset *data, tcc_split split, int64_t number) {
    const tcc__table *t = data->own;
    if (!t->csv.ids.count) return NULL;
    return t->csv.texts.text + t->csv.ids.data[tcc__table_row(t, split, number)];
}

bool tcc_dataset_column(const tcc_dataset *data, int64_t index, tcc_column *out) {
    if (data->reader != &tcc__csv_reader) return false;
    const tcc__table *t = data->own;
    if (index < 0 || index >= t->csv.columns.count) return false;
    const tcc__column *c = &t->csv.columns.data[index];
    *out = (tcc_column){.name = c->name,
                        .kind = tcc__column_kind_name(c->kind),
                        .guessed = c->guessed,
                        .first = c->first,
                        .features = c->features,
                        .categories = c->kind == TCC__COLUMN_CATEGORY ? c->words.offsets.count : 0,
                        .embedded = c->embedded,
                        .mean = c->mean,
                        .std = c->std};
    return true;
}

bool tcc_dataset_feature(const tcc_dataset *data, int64_t index, const char **name, double *mean, double *std) {
    tcc_column c;
    for (int64_t i = 0; index >= 0 && tcc_dataset_column(data, i, &c); i++) {
        if (index < c.first || index >= c.first + c.features) continue;
        const bool number = !c.categories && index == c.first;
        if (name) *name = c.name;
        if (mean) *mean = number ? c.mean : 0;
        if (std) *std = number ? c.std : 1;
        return true;
    }
    return false;
}

const tcc__reader tcc__csv_reader = {
    .kind = "csv",
    .open = open_csv,
    .read = read_csv,
    .close = close_csv,
    .sample_name = id_of_row,
    .label = label_csv,
    .names_classes = true,
    .counts = true,
    .hash = tcc__table_hash,
    .describe = tcc__table_describe,
    .learn = learn_columns,
};
