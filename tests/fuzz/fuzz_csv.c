/* SPDX-License-Identifier: MIT
 * Fuzzes the CSV parser. The first byte chooses the options, and where the rest is cut into a
 * training and a validation file. */
#include "runtime/data/csv.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_table(const tcc__csv *csv, bool regression) {
    int64_t rows = csv->rows[0] + csv->rows[1];
    int64_t labelled = 0;
    if (csv->store.count != rows) abort();
    for (int i = 0; i < csv->labels.count; i++) {
        if (csv->labels.data[i].id < 0 || csv->labels.data[i].id >= csv->classes.count) abort();
        labelled += csv->labels.data[i].count;
    }
    if (labelled != (regression ? 0 : rows)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 1) return 0;
    static const char *const labels[] = {NULL, "0", "y", "1"};
    uint8_t choice = bytes[0];
    tcc_data_options options = {
        .csv_header = (tcc_csv_header)((choice & 3) % 3),
        .csv_regression = choice >> 2 & 1,
        .csv_separator = choice >> 3 & 1 ? ';' : 0,
        .csv_missing = (tcc_csv_missing)((choice >> 3) % 3),
        .csv_label = labels[choice >> 4 & 3],
    };
    size_t first = choice >> 6 ? (size - 1) * (choice >> 6) / 4 : size - 1;
    tcc__bytes files[2] = {{(uint8_t *)(uintptr_t)bytes + 1, first},
                           {(uint8_t *)(uintptr_t)bytes + 1 + first, size - 1 - first}};
    tcc_diag d = {0};
    tcc__csv csv = {0};
    tcc_status status = tcc__csv_parse(&d, "train", &files[0], &options, 0, &csv);
    if (status == TCC_OK && files[1].size) status = tcc__csv_parse(&d, "val", &files[1], &options, 1, &csv);
    if (status == TCC_OK) status = tcc__csv_number_classes(&d, "val", &csv);
    if (status == TCC_OK) check_table(&csv, options.csv_regression);
    else if (!*tcc_diag_text(&d)) abort(); /* an error without words */
    tcc__csv_free(&csv);
    tcc_diag_clear(&d);
    return 0;
}
