/* SPDX-License-Identifier: MIT
 * Data kind csv: rows of numbers and a label. Features are standardized by the statistics of the
 * training rows alone. */
#include "ir/support/alloc.h"
#include "runtime/data/csv.h"

#include <math.h>
#include <string.h>

typedef struct table {
    tcc__csv csv;
    int n_features;
    double *mean, *std; /* a feature */
    float *features;    /* standardized, row after row */
} table;

/* Row of the table behind a sample: by random hold-out within the first file, or the second file's
 * rows after the first's. */
static int64_t row_of(const tcc_dataset *data, const tcc__sample *sample) {
    const table *t = data->own;
    if (data->held_out_of || sample->split == TCC_SPLIT_TRAIN) return sample->number;
    return t->csv.rows[0] + sample->number;
}

static void measure(const tcc_dataset *data, table *t) {
    const int n = t->n_features;
    const int64_t n_train = data->info.samples[TCC_SPLIT_TRAIN];
    const double *cells = t->csv.cells.data;
    for (int64_t i = 0; i < n_train; i++) {
        const double *row = cells + tcc__source_of(data, TCC_SPLIT_TRAIN, i) * n;
        for (int j = 0; j < n; j++) t->mean[j] += row[j] / (double)n_train;
    }
    for (int64_t i = 0; i < n_train; i++) {
        const double *row = cells + tcc__source_of(data, TCC_SPLIT_TRAIN, i) * n;
        for (int j = 0; j < n; j++) t->std[j] += (row[j] - t->mean[j]) * (row[j] - t->mean[j]) / (double)n_train;
    }
    for (int j = 0; j < n; j++) {
        t->std[j] = sqrt(t->std[j]);
        /* A constant column says nothing; dividing by rounding errors would make it say something.
         */
        if (!(t->std[j] > 1e-12 * fabs(t->mean[j])) || !isfinite(t->std[j])) t->std[j] = 1;
    }
}

static tcc_status take_statistics(tcc_diag *d, const cJSON *learned, table *t) {
    const cJSON *columns, *column;
    int i = 0, feature = 0;
    TCC_TRY(tcc__learned_list(d, learned, "columns", &columns));
    cJSON_ArrayForEach(column, columns) {
        if (i++ == t->csv.label_column) continue;
        TCC_TRY(tcc__learned_number(d, column, "mean", &t->mean[feature]));
        TCC_TRY(tcc__learned_number(d, column, "std", &t->std[feature++]));
    }
    return TCC_OK;
}

static tcc_status standardize(tcc_diag *d, const tcc_dataset *data, table *t) {
    const int n = t->n_features;
    const int64_t rows = t->csv.rows[0] + t->csv.rows[1];
    t->mean = tcc__calloc((size_t)n, sizeof *t->mean);
    t->std = tcc__calloc((size_t)n, sizeof *t->std);
    t->features = tcc__malloc((size_t)(rows * n + 1) * sizeof *t->features);
    if (!t->mean || !t->std || !t->features) return tcc_enomem(d);
    if (data->learned) TCC_TRY(take_statistics(d, data->learned, t));
    else measure(data, t);
    const double *cells = t->csv.cells.data;
    for (int64_t i = 0; i < rows * n; i++) t->features[i] = (float)((cells[i] - t->mean[i % n]) / t->std[i % n]);
    tcc_vec_free(&t->csv.cells);
    return TCC_OK;
}

static tcc_status parse_file(tcc_diag *d, const char *path, const tcc_data_options *options, int index, tcc__csv *csv) {
    tcc__bytes file;
    TCC_TRY(tcc__file_load(d, path, &file));
    tcc_status status = tcc__csv_parse(d, path, &file, options, index, csv);
    tcc__free(file.data);
    return status;
}

/* Columns and classes as they were in training. */
static tcc_status take_columns(tcc_diag *d, const tcc_data_options *options, const cJSON *learned, table *t) {
    const cJSON *columns;
    double label = 0, header = 0;
    TCC_TRY(tcc__learned_list(d, learned, "columns", &columns));
    TCC_TRY(tcc__learned_number(d, learned, "label_column", &label));
    TCC_TRY(tcc__learned_number(d, learned, "header", &header));
    TCC_TRY(tcc__csv_set_columns(d, columns, (int)label, header != 0, &t->csv));
    if (options->csv_regression) return TCC_OK;
    tcc__file_list names = {0};
    tcc_status status = tcc__learned_classes(d, learned, &names);
    if (status == TCC_OK) status = tcc__csv_set_classes(d, &names, &t->csv);
    tcc__file_list_free(&names);
    return status;
}

static bool learn_columns(const tcc_dataset *data, cJSON *to) {
    const table *t = data->own;
    cJSON *list = cJSON_AddArrayToObject(to, "columns");
    bool ok = list && tcc__learn_number(to, "label_column", t->csv.label_column) &&
              tcc__learn_number(to, "header", t->csv.has_header);
    for (int i = 0, feature = 0; i < t->csv.n_columns && ok; i++) {
        cJSON *column = cJSON_CreateObject();
        ok = column && cJSON_AddItemToArray(list, column) &&
             tcc__learn_text(column, "name", t->csv.has_header ? t->csv.texts.text + t->csv.names.data[i] : "");
        if (!ok || i == t->csv.label_column) continue;
        ok = tcc__learn_number(column, "mean", t->mean[feature]) && tcc__learn_number(column, "std", t->std[feature]);
        feature++;
    }
    return ok;
}

static tcc_status open_csv(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    table *t = data->own = tcc__calloc(1, sizeof *t);
    if (!t) return tcc_enomem(d);
    if (data->learned) TCC_TRY(take_columns(d, options, data->learned, t));
    if (options->path) TCC_TRY(parse_file(d, options->path, options, 0, &t->csv));
    if (options->val_path) {
        TCC_TRY(parse_file(d, options->val_path, options, 1, &t->csv));
        data->info.samples[TCC_SPLIT_TRAIN] = t->csv.rows[0];
        data->info.samples[TCC_SPLIT_VALIDATION] = t->csv.rows[1];
    } else if (options->path) {
        TCC_TRY(tcc__hold_out(d, options->path, data, t->csv.rows[0], options->val_split));
    }
    if (!options->unlabelled)
        TCC_TRY(tcc__csv_number_classes(d, options->val_path ? options->val_path : options->path, &t->csv));
    t->n_features = t->csv.n_columns - 1;
    data->info.classes = t->csv.classes.count;
    data->info.x.dtype = TCC_F32;
    data->info.x.rank = 1;
    data->info.x.dims[0] = t->n_features;
    data->info.y.dtype = options->csv_regression ? TCC_F32 : TCC_I32;
    data->info.y.rank = options->csv_regression;
    data->info.y.dims[0] = options->csv_regression;
    return standardize(d, data, t);
}

static tcc_status read_csv(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    (void)d;
    const table *t = data->own;
    int64_t row = row_of(data, sample);
    memcpy(x, t->features + row * t->n_features, (size_t)t->n_features * sizeof *t->features);
    if (data->info.classes) *(int32_t *)y = t->csv.labels.data[row].id;
    else *(float *)y = (float)t->csv.targets.data[row];
    return TCC_OK;
}

static void close_csv(tcc_dataset *data) {
    table *t = data->own;
    tcc__csv_free(&t->csv);
    tcc__free(t->mean);
    tcc__free(t->std);
    tcc__free(t->features);
    tcc__free(t);
}

static const char *label_csv(const tcc_dataset *data, int64_t id, size_t *length) {
    const table *t = data->own;
    const char *text = t->csv.texts.text + t->csv.classes.data[id];
    *length = strlen(text);
    return text;
}

bool tcc_dataset_feature(const tcc_dataset *data, int64_t index, const char **name, double *mean, double *std) {
    if (data->reader != &tcc__csv_reader) return false;
    const table *t = data->own;
    if (index < 0 || index >= t->n_features) return false;
    int64_t column = index + (index >= t->csv.label_column);
    if (name) *name = t->csv.has_header ? t->csv.texts.text + t->csv.names.data[column] : "";
    if (mean) *mean = t->mean[index];
    if (std) *std = t->std[index];
    return true;
}

const tcc__reader tcc__csv_reader = {
    .kind = "csv",
    .open = open_csv,
    .read = read_csv,
    .close = close_csv,
    .label = label_csv,
    .names_classes = true,
    .learn = learn_columns,
};
