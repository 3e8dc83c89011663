/* SPDX-License-Identifier: MIT
 * Tables whose numbers have a decimal comma, and their separators. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "runtime/data/csv.h"
#include "traincc/data.h"
#include "traincc/model.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tcc_context cx;

static void reads_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value; /* NaN: no number */
    } cases[] = {{"3,14", 3.14},
                 {"-0,5", -0.5},
                 {"+1,5e3", 1500},
                 {"1.234", 1234},
                 {"1.234.567,25", 1234567.25},
                 {"3.14", 3.14},
                 {"0.123", 0.123},
                 {"1.2345", 1.2345},
                 {"12345.678", 12345.678},
                 {"7", 7},
                 {",5", 0.5},
                 {"1,2,3", NAN},
                 {",", NAN},
                 {"", NAN},
                 {"1.234.56", NAN},
                 {"1,234.5", NAN},
                 {"x1,5", NAN},
                 {"1,5 m", NAN},
                 {"31.12.2024", NAN}};
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double x = NAN;
        const bool is = tcc__csv_comma_number(c, cases[i].text, &x);
        if (is != !isnan(cases[i].value) || (is && x != cases[i].value)) fail_msg("'%s': %g", cases[i].text, x);
    }
    freelocale(c);
}

static tcc_dataset *open_data(const tcc_data_options *options) {
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, options, &data), &cx.diag);
    return data;
}

/* Column i of a table of numbers alone has this mean. */
static void expect_mean(const tcc_dataset *data, int64_t i, const char *kind, double mean) {
    tcc_column c;
    assert_true(tcc_dataset_column(data, i, &c));
    assert_string_equal(c.kind, kind);
    if (fabs(c.mean - mean) > 1e-9) fail_msg("column %lld: mean %g, not %g", (long long)i, c.mean, mean);
}

static tcc_data_options table(void **state, const char *text) {
    return (tcc_data_options){.size = sizeof(tcc_data_options),
                              .kind = "csv",
                              .path = test_write_text(state, "a.csv", text),
                              .csv_regression = true,
                              .val_split = -1};
}

/* y of all validation samples, one target each. */
static double sum_of_targets(const tcc_dataset *data) {
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    tcc_loader_options how = {.size = sizeof how, .split = 1, .batch_size = info.samples[1]};
    tcc_loader *l;
    const tcc_batch *batch;
    double sum = 0;
    assert_ok(tcc_loader_create(&cx, data, &how, &l), &cx.diag);
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    for (int64_t i = 0; i < info.samples[1]; i++) sum += (double)((const float *)batch->arrays[1].data)[i];
    tcc_loader_destroy(l);
    return sum;
}

static void tables_are_read(void **state) {
    tcc_data_options o = table(state, "preis;menge;ort;ziel\n1.250,50;3;Köln;0,25\n2.749,50;4;Bonn;1,5\n");
    tcc_dataset *data = open_data(&o);
    expect_mean(data, 0, "number", 2000);
    expect_mean(data, 1, "number", 3.5);
    char *learned, *text;
    assert_ok(tcc_dataset_learned(&cx, data, &learned), &cx.diag);
    assert_ok(tcc_dataset_describe(&cx, data, &text), &cx.diag);
    if (!strstr(text, "number, 1250.5 to 2749.5, decimal commas")) fail_msg("%s", text);
    tcc_string_free(text);
    tcc_dataset_close(data);

    /* A later file is read in the same way; one that a comma separates has points. */
    o.learned = learned;
    o.val_split = 0;
    o.val_path = test_write_text(state, "b.csv", "preis;menge;ort;ziel\n1.000;1;Bonn;0,5\n2,5;1;Bonn;2,5\n");
    data = open_data(&o);
    assert_true(sum_of_targets(data) == 3);
    tcc_dataset_close(data);
    o.val_path = test_write_text(state, "c.csv", "preis,menge,ort,ziel\n1.000,1,Bonn,1.125\n2.5,1,Bonn,2.5\n");
    data = open_data(&o);
    assert_true(sum_of_targets(data) == 3.625);
    tcc_dataset_close(data);
    tcc_string_free(learned);
}

static void separators_beside_commas(void **state) {
    tcc_data_options o = table(state, "1,5;2,5;3,5\n2,5;3,5;4,5\n");
    tcc_dataset *data = open_data(&o);
    expect_mean(data, 0, "number", 2);
    tcc_dataset_close(data);
    o = table(state, "1,5\t2,5\n2,5\t3,5\n3,5\t4,0\n");
    data = open_data(&o);
    expect_mean(data, 0, "number", 2.5);
    tcc_dataset_close(data);
    o = table(state, "a,b,c\n1;2,2,1\n2;2,1,2\n"); /* texts with semicolons */
    data = open_data(&o);
    expect_mean(data, 1, "number", 1.5);
    tcc_dataset_close(data);
}

static void points_and_commas_are_refused(void **state) {
    dataset_refused(&cx, table(state, "a;b\n1,5;1\n2.55;1\n"), TCC_EFORMAT,
                    "column 1 ('a') has numbers with a decimal point and with a decimal comma");
    tcc_data_options o = table(state, "a;b;c\n1,5;1.5;1\n2,5;2.25;2\n"); /* in columns of their own they are clear */
    tcc_dataset *data = open_data(&o);
    expect_mean(data, 0, "number", 2);
    expect_mean(data, 1, "number", 1.875);
    tcc_dataset_close(data);
    dataset_refused(&cx, table(state, "a,b\n\"1,5\",1\n\"2,5\",2\n3,1\n4,2\n"), TCC_EFORMAT,
                    "'1,5' is not a finite number");
}

static void other_formats_are_named(void **state) {
    dataset_refused(&cx, table(state, "PAR1\x15\x04 and so on"), TCC_EFORMAT,
                    "a.csv: error: is a file of Parquet, which is not read; convert it to CSV");
    dataset_refused(&cx, table(state, "ARROW1\x01\x02"), TCC_EFORMAT, "is a file of Arrow");
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(reads_numbers), FOLDER_TEST(tables_are_read), FOLDER_TEST(separators_beside_commas),
        FOLDER_TEST(points_and_commas_are_refused), FOLDER_TEST(other_formats_are_named)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
