/* SPDX-License-Identifier: MIT
 * Data kind csv. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tcc_context cx;

static tcc_data_options csv(void **state, const char *text) {
    return (tcc_data_options){.size = sizeof(tcc_data_options),
                              .kind = "csv",
                              .path = test_write_text(state, "a.csv", text),
                              .val_split = -1};
}

static tcc_dataset *open_data(tcc_data_options options) {
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    return data;
}

static void refused(tcc_data_options options, tcc_status status, const char *part) {
    dataset_refused(&cx, options, status, part);
}

static tcc_loader *load(const tcc_dataset *data, tcc_split split, const tcc_batch **batch) {
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    tcc_loader_options options = {.size = sizeof options, .split = split, .batch_size = info.samples[split]};
    tcc_loader *l;
    assert_ok(tcc_loader_create(&cx, data, &options, &l), &cx.diag);
    assert_ok(tcc_loader_next(l, batch), &cx.diag);
    return l;
}

static const char *label(const tcc_dataset *data, int64_t id) {
    size_t length;
    return tcc_dataset_label(data, id, &length);
}

static void a_header_and_names(void **state) {
    tcc_dataset *data =
        open_data(csv(state, "\xEF\xBB\xBFwidth, height ,\"kind, of\"\r\n1,10,b\r\n\r\n3, 1e1 ,\"a \"\"x\"\"\"\r\n"));
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 2 && info.classes == 2 && info.x.rank == 1 && info.x.dims[0] == 2 &&
                info.y.dtype == TCC_I32);
    assert_string_equal(label(data, 0), "a \"x\"");
    assert_string_equal(label(data, 1), "b");
    const char *name;
    double mean, std;
    assert_true(tcc_dataset_feature(data, 0, &name, &mean, &std));
    assert_string_equal(name, "width");
    assert_true(mean == 2 && std == 1);
    assert_true(tcc_dataset_feature(data, 1, &name, &mean, &std));
    assert_string_equal(name, "height");
    assert_true(mean == 10 && std == 1); /* constant: not scaled */
    assert_false(tcc_dataset_feature(data, 2, &name, &mean, &std));
    const tcc_batch *batch;
    tcc_loader *l = load(data, TCC_SPLIT_TRAIN, &batch);
    const float *x = batch->arrays[0].data;
    const int32_t *y = batch->arrays[1].data;
    assert_true(x[0] == -1 && x[1] == 0 && x[2] == 1 && x[3] == 0 && y[0] == 1 && y[1] == 0);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void finding_the_label(void **state) {
    static const struct {
        const char *text, *label;
        tcc_csv_header header;
        int rows, features;
        const char *first_class;
    } cases[] = {
        {"1,2,3\n4,5,6\n", NULL, TCC_CSV_HEADER_AUTO, 2, 2, "3"},
        {"1,2,3\n4,5,6\n", "0", TCC_CSV_HEADER_AUTO, 2, 2, "1"},
        {"1,2,3\n4,5,6", "0", TCC_CSV_HEADER_YES, 1, 2, "4"},
        {"1,2,3\n4,5,6\n", "3", TCC_CSV_HEADER_AUTO, 1, 2, "6"}, /* a name goes before a number */
        {"1,2,3\n4,5,6\n", "2", TCC_CSV_HEADER_NO, 2, 2, "3"},
        {"k,x,y\na,5,6\nb,6,7\n", "k", TCC_CSV_HEADER_AUTO, 2, 2, "a"},
        {"a,5,6\nb,6,7\n", "0", TCC_CSV_HEADER_AUTO, 2, 2, "a"}, /* words in the label's column make no header */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_data_options options = csv(state, cases[i].text);
        options.csv_label = cases[i].label;
        options.csv_header = cases[i].header;
        tcc_dataset *data = open_data(options);
        tcc_dataset_info info;
        tcc_dataset_get_info(data, &info);
        if (info.samples[0] != cases[i].rows || info.x.dims[0] != cases[i].features ||
            strcmp(label(data, 0), cases[i].first_class))
            fail_msg("case %u: %lld rows, class '%s'", i, (long long)info.samples[0], label(data, 0));
        tcc_dataset_close(data);
    }
}

static void classes_are_sorted(void **state) {
    tcc_dataset *data = open_data(csv(state, "1,10\n1,9\n1,-2\n1,10\n"));
    assert_string_equal(label(data, 0), "-2"); /* as numbers */
    assert_string_equal(label(data, 2), "10");
    tcc_dataset_close(data);
    data = open_data(csv(state, "a,b\n1,1\n1,0.0\n1,1.0\n1,0\n")); /* 1 and 1.0 are one class, the first one's name */
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.classes, 2);
    assert_string_equal(label(data, 0), "0.0");
    assert_string_equal(label(data, 1), "1");
    tcc_dataset_close(data);
    data = open_data(csv(state, "1,10\n1,9\n1,x\n"));
    assert_string_equal(label(data, 0), "10"); /* as text */
    tcc_dataset_close(data);
}

static void regression(void **state) {
    tcc_data_options options = csv(state, "1;2.5\n2;-1e3\n");
    options.csv_regression = true;
    options.csv_separator = ';';
    tcc_dataset *data = open_data(options);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.classes == 0 && info.y.dtype == TCC_F32 && info.y.rank == 1 && info.y.dims[0] == 1);
    assert_null(label(data, 0));
    const tcc_batch *batch;
    tcc_loader *l = load(data, TCC_SPLIT_TRAIN, &batch);
    const float *y = batch->arrays[1].data;
    assert_true(batch->arrays[1].rank == 2 && batch->arrays[1].dims[0] == 2 && y[0] == 2.5f && y[1] == -1000);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void splits(void **state) {
    char text[4096];
    size_t used = 0;
    for (int i = 0; i < 100; i++) used += (size_t)sprintf(text + used, "%d,%s\n", i, i < 50 ? "low" : "high");
    tcc_data_options options = csv(state, text);
    options.val_split = 0;
    tcc_dataset *data = open_data(options);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 90 && info.samples[1] == 10);
    double mean, std, sum = 0, all = 0;
    assert_true(tcc_dataset_feature(data, 0, NULL, &mean, &std));
    for (int split = 0; split < 2; split++) {
        const tcc_batch *batch;
        tcc_loader *l = load(data, (tcc_split)split, &batch);
        int high = 0;
        for (int i = 0; i < batch->count; i++) {
            double x = (double)((const float *)batch->arrays[0].data)[i] * std + mean;
            if (split == 0) sum += x;
            all += x;
            high += ((const int32_t *)batch->arrays[1].data)[i] == 0; /* "high" sorts first */
        }
        if (split == 1) assert_in_range(high, 1, 9); /* drawn from everywhere, not the end of the file */
        tcc_loader_destroy(l);
    }
    assert_true(fabs(sum / 90 - mean) < 1e-3); /* the training rows' mean alone */
    assert_true(fabs(all - 4950) < 1e-2);
    tcc_dataset_close(data);

    options = csv(state, "x,y\n1,a\n3,b\n");
    options.val_split = 0;
    options.val_path = test_write_text(state, "b.csv", "x,y\n5,b\n");
    data = open_data(options);
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 2 && info.samples[1] == 1);
    const tcc_batch *batch;
    tcc_loader *l = load(data, TCC_SPLIT_VALIDATION, &batch);
    assert_true(((const float *)batch->arrays[0].data)[0] == 3 && ((const int32_t *)batch->arrays[1].data)[0] == 1);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void bad_csv(void **state) {
    static const struct {
        const char *text, *label, *part;
    } cases[] = {
        {"", NULL, "a.csv: error: has no rows"},
        {"a,b\n", NULL, "has no rows"},
        {"1\n2\n", NULL, "a.csv:1: error: there is one column"},
        {"1,2\n3,4\n5\n", NULL, "a.csv:3: error: the line has 1 cells, but the first has 2"},
        {"1,2\n\n3,4,5\n", NULL, "a.csv:3: error: the line has 3 cells"},
        {"x,y\n1,2\nfoo,4\n", NULL, "a.csv:3: error: column 1 ('x'): 'foo' is not a finite number"},
        {"x,y\n1,2\n,4\n", NULL, "a.csv:3: error: column 1 ('x'): the cell is empty"},
        {"x,y\n1,2\n3,\n", NULL, "a.csv:3: error: column 2 ('y'): the label is missing"},
        {"1,2\nnan,4\n", NULL, "a.csv:2: error: column 1 (''): 'nan' is not a finite number"},
        {"1,2\n1e999,4\n", NULL, "'1e999' is not a finite number"},
        {"1,2\n1e300,4\n", NULL, "a.csv:2: error: column 1 (''): 1e300 is larger than a float32 can be"},
        {"1,2,label\n3,4,x\n5,6,y\n7,8,x\n", NULL, /* words for classes make no header, or is it one? */
         "a.csv:1: error: its label 'label' occurs in no other line: say whether it names the columns (header: yes)"},
        {"0,1,2\n5,5,1\n6,6,1\n", NULL, "a.csv:1: error: its label '2' occurs in no other line: say whether it names"},
        {"1,2\n\"3\"x,4\n", NULL, "a.csv:2: error: cell 1 goes on after its closing quote"},
        {"1,2\n\"3,4\n", NULL, "a.csv:2: error: a quoted cell has no closing quote"},
        {"1,\"a\nb\"\nz,3\n", NULL, "a.csv:3: error: column 1 (''): 'z'"}, /* a quoted cell may hold line ends */
        {"x,y\n1,2\n", "z", "there is no column 'z'; the first line has 2 columns, 'x' to 'y'"},
        {"1,2\n1,\xff\n", NULL, "byte 6 (0xff) is not UTF-8"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_data_options options = csv(state, cases[i].text);
        options.csv_label = cases[i].label;
        refused(options, TCC_EFORMAT, cases[i].part);
    }
    tcc_data_options options = csv(state, "x,y\n1,a\n");
    options.csv_regression = true;
    refused(options, TCC_EFORMAT, "a.csv:2: error: column 2 ('y'): 'a' is not a finite number");
    options = csv(state, "1,2\n");
    options.csv_separator = '"';
    refused(options, TCC_EINVAL, "cannot separate");
    options = csv(state, "1,2\n");
    options.path = test_write(state, "nul.csv", "1,2\n3\0,4\n", 9);
    refused(options, TCC_EFORMAT, "nul.csv:2: error: cell 1 holds a NUL byte");
    options = csv(state, "x,y\n1,a\n");
    options.val_split = 0;
    options.val_path = test_write_text(state, "b.csv", "x,y\n1,a\n2,c\n");
    refused(options, TCC_EFORMAT, "b.csv:3: error: label 'c' does not occur in the training file");
    test_write_text(state, "b.csv", "x,z\n1,a\n");
    refused(options, TCC_EFORMAT, "b.csv:1: error: has no column 'y', which the training file has");
    test_write_text(state, "b.csv", "1,a\n");
    refused(options, TCC_EFORMAT, "b.csv:1: error: has no column 'x'");
    options.path = test_write_text(state, "a.csv", "1,a\n2,b\n");
    test_write_text(state, "b.csv", "1,a,3\n");
    refused(options, TCC_EFORMAT, "b.csv:1: error: has 3 columns, but the training file has 2");
    options = csv(state, "1,2\n");
    options.val_split = 0.9;
    refused(options, TCC_EFORMAT, "there are 1 samples, too few to hold out 1");
}

static void out_of_memory(void **state) {
    tcc_data_options options = csv(state, "x,y\n1,a\n2,\"b\"\n3,c\n");
    dataset_out_of_memory(&cx, options);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_header_and_names),
        FOLDER_TEST(finding_the_label),
        FOLDER_TEST(classes_are_sorted),
        FOLDER_TEST(regression),
        FOLDER_TEST(splits),
        FOLDER_TEST(bad_csv),
        FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
