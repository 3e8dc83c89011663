/* SPDX-License-Identifier: MIT
 * Columns of tables: kinds, missing cells, and rows that are held out by a column. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"
#include "traincc/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tcc_context cx;

static tcc_data_options table(void **state, const char *text) {
    return (tcc_data_options){.size = sizeof(tcc_data_options),
                              .kind = "csv",
                              .path = test_write_text(state, "a.csv", text),
                              .val_split = -1};
}

static tcc_dataset *open_data(const tcc_data_options *options) {
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, options, &data), &cx.diag);
    return data;
}

/* All samples of a split, in their order; *count: how many. The loader owns them. */
static tcc_loader *load(const tcc_dataset *data, tcc_split split, const float **x, const void **y, int64_t *count) {
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    tcc_loader_options how = {.size = sizeof how, .split = split, .batch_size = info.samples[split]};
    tcc_loader *l;
    const tcc_batch *batch;
    assert_ok(tcc_loader_create(&cx, data, &how, &l), &cx.diag);
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    *x = batch->arrays[0].data;
    *y = batch->arrays[1].data;
    *count = batch->count;
    return l;
}

static void expect_x(const tcc_dataset *data, tcc_split split, const float *expected, int64_t rows, int64_t features) {
    const float *x;
    const void *y;
    int64_t count;
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.x.dims[0], features);
    tcc_loader *l = load(data, split, &x, &y, &count);
    assert_int_equal(count, rows);
    for (int64_t i = 0; i < rows * features; i++)
        if (!(fabsf(x[i] - expected[i]) < 1e-6f))
            fail_msg("row %lld, feature %lld: %g, expected %g", (long long)(i / features), (long long)(i % features),
                     (double)x[i], (double)expected[i]);
    tcc_loader_destroy(l);
}

static const char *describe(const tcc_dataset *data) {
    static char kept[8192];
    char *text;
    assert_ok(tcc_dataset_describe(&cx, data, &text), &cx.diag);
    snprintf(kept, sizeof kept, "%s", text);
    tcc_string_free(text);
    return kept;
}

static void expect_said(const tcc_dataset *data, const char *part) {
    const char *text = describe(data);
    if (!strstr(text, part)) fail_msg("no '%s' in:\n%s", part, text);
}

static void categories_are_one_hot(void **state) {
    tcc_data_options options = table(state, "n,color,y\n1,red,a\n3,blue,b\n1,red,a\n3,green,b\n");
    tcc_dataset *data = open_data(&options);
    /* blue, green, red: by bytes; n has mean 2 and deviation 1 */
    expect_x(data, TCC_SPLIT_TRAIN, (float[]){-1, 0, 0, 1, 1, 1, 0, 0, -1, 0, 0, 1, 1, 0, 1, 0}, 4, 4);
    tcc_column c;
    assert_true(tcc_dataset_column(data, 1, &c) && c.guessed && !c.embedded);
    assert_true(c.first == 1 && c.features == 3 && c.categories == 3);
    assert_string_equal(c.kind, "category");
    const char *name;
    double mean, std;
    assert_true(tcc_dataset_feature(data, 3, &name, &mean, &std));
    assert_true(!strcmp(name, "color") && mean == 0 && std == 1);
    expect_said(data, "3 values: blue, green, red  (guessed)");

    /* Later rows: a value that was not seen is none of them; columns lie in another order. */
    char *learned;
    assert_ok(tcc_dataset_learned(&cx, data, &learned), &cx.diag);
    tcc_data_options later = {.size = sizeof later, .kind = "csv", .learned = learned, .unlabelled = true};
    later.val_path = test_write_text(state, "b.csv", "color,n\nred,2\npink,3\n");
    tcc_dataset *rows = open_data(&later);
    expect_x(rows, TCC_SPLIT_VALIDATION, (float[]){0, 0, 0, 1, 1, 0, 0, 0}, 2, 4);
    tcc_dataset_close(rows);
    tcc_dataset_close(data);

    options.csv_one_hot = 2; /* three are too many: numbers from 1, and 0 for what was not seen */
    data = open_data(&options);
    expect_x(data, TCC_SPLIT_TRAIN, (float[]){-1, 3, 1, 1, -1, 3, 1, 2}, 4, 2);
    assert_true(tcc_dataset_column(data, 1, &c) && c.embedded && c.features == 1 && c.categories == 3);
    tcc_string_free(learned);
    assert_ok(tcc_dataset_learned(&cx, data, &learned), &cx.diag);
    later.learned = learned;
    rows = open_data(&later);
    expect_x(rows, TCC_SPLIT_VALIDATION, (float[]){0, 3, 1, 0}, 2, 2);
    tcc_dataset_close(rows);
    tcc_dataset_close(data);
    tcc_string_free(learned);
}

/* Later rows are read by what was learned alone: the policy is part of it, and any column tells rows apart. */
static void later_rows(void **state, const tcc_dataset *data) {
    char *learned;
    assert_ok(tcc_dataset_learned(&cx, data, &learned), &cx.diag);
    tcc_data_options later = {.size = sizeof later, .kind = "csv", .learned = learned, .unlabelled = true};
    later.val_path = test_write_text(state, "later.csv", "key,c,n\n\"k, 1\",u,\nk2,,3\n");
    later.csv_id = "key";
    tcc_dataset *rows = open_data(&later);
    expect_x(rows, TCC_SPLIT_VALIDATION, (float[]){0, 1, 0, 1, 0, 0, 0, 1, 0, 0}, 2, 5);
    assert_string_equal(tcc_dataset_sample_name(rows, TCC_SPLIT_VALIDATION, 0), "k, 1");
    assert_string_equal(tcc_dataset_sample_name(rows, TCC_SPLIT_VALIDATION, 1), "k2");
    assert_null(tcc_dataset_sample_name(rows, TCC_SPLIT_VALIDATION, 2));
    tcc_dataset_close(rows);
    later.csv_id = "2";
    rows = open_data(&later);
    assert_string_equal(tcc_dataset_sample_name(rows, TCC_SPLIT_VALIDATION, 1), "3");
    tcc_dataset_close(rows);
    later.csv_id = "keys";
    dataset_refused(&cx, later, TCC_EFORMAT,
                    "later.csv:1: error: there is no column 'keys' to tell rows by; the first line has 3 columns, "
                    "'key' to 'n'");
    later.val_path = test_write_text(state, "bare.csv", "3,u\n5,v\n");
    dataset_refused(&cx, later, TCC_EFORMAT, "without names it is a number from 0 to 1");
    later.csv_id = "1";
    rows = open_data(&later);
    assert_string_equal(tcc_dataset_sample_name(rows, TCC_SPLIT_VALIDATION, 1), "v");
    tcc_dataset_close(rows);
    tcc_string_free(learned);
}

static void missing_cells(void **state) {
    tcc_data_options options = table(state, "n,c,y\n1,u,a\n?,u,b\n5,NA,a\n3,v,b\n");
    dataset_refused(&cx, options, TCC_EFORMAT,
                    "a.csv:3: error: column 1 ('n'): '?' is not a finite number; missing: mean or category");
    options.csv_missing = TCC_MISSING_MEAN; /* n: mean 3; c: u is the most frequent */
    tcc_dataset *data = open_data(&options);
    const float s = sqrtf(8.0f / 3); /* deviation of 1, 5, 3 */
    expect_x(data, TCC_SPLIT_TRAIN, (float[]){-2 / s, 0, 1, 0, 0, 0, 1, 1, 0, 0, 2 / s, 0, 1, 0, 1, 0, 0, 0, 1, 0}, 4,
             5);
    expect_said(data, "1 to 5, 1 missing (25.0%)");
    tcc_dataset_close(data);
    options.csv_missing = TCC_MISSING_CATEGORY;
    data = open_data(&options); /* "", u, v */
    expect_x(data, TCC_SPLIT_TRAIN, (float[]){-2 / s, 0, 0, 1, 0, 0, 1, 0, 1, 0, 2 / s, 0, 1, 0, 0, 0, 0, 0, 0, 1}, 4,
             5);
    expect_said(data, "3 values: (missing), u, v");
    later_rows(state, data);
    tcc_dataset_close(data);
    options.csv_id = "n";
    dataset_refused(&cx, options, TCC_EINVAL, "csv_id goes with learned");
    options = table(state, "n,c,y\n1,NA,a\n2,u,b\n"); /* a category may be called NA */
    data = open_data(&options);
    expect_said(data, "2 values: NA, u");
    tcc_dataset_close(data);
}

static void kinds_are_guessed_or_given(void **state) {
    char text[8192];
    size_t used = (size_t)sprintf(text, "id,name,zip,when,y\n");
    for (int i = 0; i < 30; i++)
        used += (size_t)sprintf(text + used, "%d,person %d,0%d,%s,%s\n", i + 1, i, 70 + i % 3, i % 2 ? "am" : "pm",
                                i % 2 ? "yes" : "no");
    tcc_data_options options = table(state, text);
    const tcc_column_option given[] = {{"zip", "category"}, {"id", "drop"}};
    options.csv_columns = given;
    options.n_csv_columns = 2;
    tcc_dataset *data = open_data(&options);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.x.dims[0], 3 + 2);
    expect_said(data, "30 different texts in 30 rows  (guessed)"); /* names are dropped */
    expect_said(data, "3 values: 070, 071, 072\n");                /* as they are written */
    expect_said(data, "column 'when' tells the target by itself");
    expect_said(data, "classes (2): no 15, yes 15\n");
    tcc_dataset_close(data);
    options.n_csv_columns = 0;
    data = open_data(&options);
    expect_said(data, "column 'id' numbers the rows");
    tcc_dataset_close(data);

    const struct {
        tcc_column_option column;
        tcc_status status;
        const char *part;
    } bad[] = {{{"nope", "drop"}, TCC_EFORMAT, "a.csv:1: error: there is no column 'nope'"},
               {{"zip", "colour"}, TCC_EINVAL, "column 'zip' is of kind 'colour', which is none of auto, number"},
               {{"name", "number"}, TCC_EFORMAT, "column 2 ('name'): 'person 0' is not a finite number"},
               {{"y", "drop"}, TCC_EINVAL, "column 'y' is both drop and target"},
               {{"id", "target"}, TCC_EINVAL, "columns 'id', 'y' are targets, but a model has one class"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.csv_label = "y";
        options.csv_columns = &bad[i].column;
        options.n_csv_columns = 1;
        dataset_refused(&cx, options, bad[i].status, bad[i].part);
    }
}

static void tables_without_a_header(void **state) {
    tcc_data_options options = table(state,
                                     "39, State-gov, 77, <=50K\n50, Private, 83, >50K\n38, Private, 21, <=50K\n");
    tcc_dataset *data = open_data(&options); /* texts of categories make no header */
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 3 && info.x.dims[0] == 4);
    tcc_dataset_close(data);
    options = table(state, "cap,odor,kind\nx,n,e\nx,a,p\nb,n,e\n"); /* all are texts: those of a header do not recur */
    data = open_data(&options);
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 3 && info.x.dims[0] == 4);
    tcc_dataset_close(data);
    options = table(state, "x,n,e\nx,a,p\nb,n,e\n");
    data = open_data(&options);
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.samples[0], 3);
    tcc_dataset_close(data);
}

static void separators_are_found(void **state) {
    static const char *const texts[] = {"\"a\";\"b\";y\n1;2;u\n3;4;v\n", "a\tb\ty\n1\t2\tu\n3\t4\tv\n",
                                        "a|b|y\n1|2|u\n3|4|v\n", "a;x,b,y\n1,2,u\n3,4,v\n"};
    for (int i = 0; i < 4; i++) {
        tcc_data_options options = table(state, texts[i]);
        tcc_dataset *data = open_data(&options);
        tcc_dataset_info info;
        tcc_dataset_get_info(data, &info);
        assert_true(info.samples[0] == 2 && info.x.dims[0] == 2 && info.classes == 2);
        tcc_dataset_close(data);
    }
}

/* Zstandard's frame without compression: magic, header, one block, which is the last. */
static const char *write_zstd(void **state, const char *text, size_t cut) {
    const size_t length = strlen(text);
    uint8_t file[512] = {0x28, 0xB5, 0x2F, 0xFD, 0x20, (uint8_t)length};
    const uint32_t block = (uint32_t)(length << 3 | 1);
    memcpy(file + 6, &block, 3);
    memcpy(file + 9, text, length);
    return test_write(state, "a.csv.zst", file, 9 + length - cut);
}

static void zstandard_is_inflated(void **state) {
    static const char text[] = "a,b,y\n1,2,u\n3,4,v\n";
    tcc_data_options options = table(state, text);
    options.path = write_zstd(state, text, 0);
    tcc_dataset *data = open_data(&options);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 2 && info.x.dims[0] == 2);
    tcc_dataset_close(data);
    options.path = write_zstd(state, text, 3);
    dataset_refused(&cx, options, TCC_EFORMAT, "a.csv.zst: error: zstd stream, after");
}

static void several_targets_and_weights(void **state) {
    tcc_data_options options = table(state, "a,w,t,u\n1,1,10,20\n3,3,30,40\n");
    const tcc_column_option given[] = {{"t", "target"}, {"u", "target"}, {"w", "weight"}};
    options.csv_regression = true;
    options.csv_columns = given;
    options.n_csv_columns = 3;
    tcc_dataset *data = open_data(&options);
    expect_x(data, TCC_SPLIT_TRAIN, (float[]){-1, 0.5f, 1, 1.5f}, 2, 2); /* weights last, 1 on average */
    const float *x;
    const void *y;
    int64_t count;
    tcc_loader *l = load(data, TCC_SPLIT_TRAIN, &x, &y, &count);
    const float *targets = y;
    assert_true(targets[0] == 10 && targets[1] == 20 && targets[2] == 30 && targets[3] == 40);
    tcc_loader_destroy(l);
    expect_said(data, "target 'u': 20 to 40, mean 30");
    tcc_dataset_close(data);
    options.path = test_write_text(state, "a.csv", "a,w,t,u\n1,1,10,20\n3,-3,30,40\n");
    dataset_refused(&cx, options, TCC_EFORMAT, "a.csv:3: error: column 2 ('w'): -3 is a weight below 0");
}

/* Rows 0 to 39, whose `by` is i % 8, 40 - i, or a word. Which are held out, as a set of bits. */
static uint64_t held_out(void **state, const char *kind, double val_split) {
    char text[4096];
    size_t used = (size_t)sprintf(text, "a,by,y\n");
    for (int i = 0; i < 40; i++) {
        if (!strcmp(kind, "split"))
            used += (size_t)sprintf(text + used, "%d,%s,%d\n", i,
                                    i % 4 == 1   ? "val"
                                    : i % 4 == 2 ? "test"
                                                 : "train",
                                    i);
        else used += (size_t)sprintf(text + used, "%d,%d,%d\n", i, *kind == 'g' ? i % 8 : 40 - i, i);
    }
    tcc_data_options options = table(state, text);
    const tcc_column_option by = {"by", kind};
    options.csv_columns = &by;
    options.n_csv_columns = 1;
    options.csv_regression = true;
    options.val_split = val_split;
    tcc_dataset *data = open_data(&options);
    uint64_t bits[2] = {0};
    for (int split = 0; split < 2; split++) {
        const float *x;
        const void *y;
        int64_t count;
        tcc_loader *l = load(data, (tcc_split)split, &x, &y, &count);
        for (int64_t i = 0; i < count; i++) bits[split] |= (uint64_t)1 << (int)((const float *)y)[i];
        tcc_loader_destroy(l);
    }
    assert_int_equal(bits[0] & bits[1], 0);
    if (strcmp(kind, "split")) assert_int_equal(bits[0] | bits[1], ((uint64_t)1 << 40) - 1);
    tcc_dataset_close(data);
    return bits[1];
}

static void rows_are_held_out_by_a_column(void **state) {
    assert_int_equal(held_out(state, "time", 0.25), (1 << 10) - 1); /* the latest are the first */
    uint64_t val = 0;
    for (int i = 1; i < 40; i += 4) val |= (uint64_t)1 << i;
    assert_int_equal(held_out(state, "split", 0), val);
    const uint64_t groups = held_out(state, "group", 0.25);
    int count = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t group = 0;
        for (int k = i; k < 40; k += 8) group |= (uint64_t)1 << k;
        if (groups & group) assert_int_equal(groups & group, group), count++;
    }
    assert_int_equal(count, 2);
}

static void rows_in_both_splits_are_said(void **state) {
    tcc_data_options options = table(state, "a,y\n1,u\n2,v\n3,u\n");
    options.val_split = 0;
    options.val_path = test_write_text(state, "b.csv", "a,y\n2,v\n3,v\n");
    tcc_dataset *data = open_data(&options);
    expect_said(data, "warning: 1 of 2 samples to validate on are also among those to train on");
    expect_said(data, "warning: 2 classes have under 10 samples");
    tcc_dataset_close(data);
}

static void out_of_memory(void **state) {
    tcc_data_options options = table(state, "n,c,g,y\n1,u,1,a\n?,u,2,b\n5,NA,2,a\n3,v,3,b\n");
    const tcc_column_option by = {"g", "group"};
    options.csv_missing = TCC_MISSING_CATEGORY;
    options.csv_columns = &by;
    options.n_csv_columns = 1;
    options.val_split = 0.3;
    dataset_out_of_memory(&cx, options);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(categories_are_one_hot),       FOLDER_TEST(missing_cells),
        FOLDER_TEST(kinds_are_guessed_or_given),   FOLDER_TEST(tables_without_a_header),
        FOLDER_TEST(separators_are_found),         FOLDER_TEST(zstandard_is_inflated),
        FOLDER_TEST(several_targets_and_weights),  FOLDER_TEST(rows_are_held_out_by_a_column),
        FOLDER_TEST(rows_in_both_splits_are_said), FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
