/* SPDX-License-Identifier: MIT
 * Tables whose rows lie in a temporary file, and files that are read in windows, give the same as in memory. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "ir/support/strbuf.h"
#include "runtime/data/csv.h"
#include "traincc/data.h"
#include "traincc/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tcc_context cx;

/* ---- rows in a file ---- */

/* All that a data set tells: what it learned, and the samples of both splits in two epochs. */
static char *all_of(tcc_data_options options, size_t *size) {
    tcc_dataset *data;
    tcc_dataset_info info;
    tcc_strbuf out = {0};
    char *learned;
    options.size = sizeof options;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    assert_ok(tcc_dataset_learned(&cx, data, &learned), &cx.diag);
    tcc_dataset_get_info(data, &info);
    tcc_strbuf_add(&out, learned);
    tcc_string_free(learned);
    for (int i = 0; i < 2 * TCC_SPLIT_COUNT; i++) {
        const tcc_loader_options how = {.size = sizeof how,
                                        .split = (tcc_split)(i / 2),
                                        .batch_size = info.samples[i / 2],
                                        .num_workers = i % 2 ? 3 : 0,
                                        .shuffle = i % 2};
        tcc_loader *l;
        const tcc_batch *batch;
        assert_ok(tcc_loader_create(&cx, data, &how, &l), &cx.diag);
        assert_ok(tcc_loader_next(l, &batch), &cx.diag);
        assert_int_equal(batch->count, info.samples[i / 2]);
        for (int k = 0; k < 2; k++) {
            const tcc_array *a = &batch->arrays[k];
            const int64_t width = a->rank > 1 ? a->dims[1] : 1;
            tcc_strbuf_addn(&out, a->data, (size_t)(batch->count * width) * 4);
        }
        tcc_loader_destroy(l);
    }
    tcc_dataset_close(data);
    assert_false(out.failed);
    *size = out.length;
    return tcc_strbuf_take(&out);
}

static void expect_same(tcc_data_options options) {
    size_t size[2];
    tcc__row_store_limit(-1);
    char *memory = all_of(options, &size[0]);
    tcc__row_store_limit(3000); /* some rows are in memory first */
    char *file = all_of(options, &size[1]);
    tcc__row_store_limit(-1);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(memory, file, size[0]);
    free(memory);
    free(file);
}

enum { ROWS = 400 };

static const char *write_table(void **state, const char *name) {
    static char text[ROWS * 80];
    size_t used = (size_t)sprintf(text, "age,city,name,group,pay,w,y\n");
    for (int i = 0; i < ROWS; i++)
        used += (size_t)sprintf(text + used, "%s%d.%d,city %d,person %d,%d,%g,%d,%s\n", i % 7 ? "" : "-", i % 83, i,
                                i % 5, i, i % 13, i * 0.37, 1 + i % 3, i % 11 < 4 ? "no" : "yes");
    return test_write(state, name, text, used);
}

static void rows_in_a_file(void **state) {
    const char *path = write_table(state, "a.csv");
    expect_same((tcc_data_options){.kind = "csv", .path = path});
    tcc_column_option columns[] = {{"group", "group"}, {"w", "weight"}, {"age", "category"}};
    expect_same((tcc_data_options){.kind = "csv", .path = path, .csv_columns = columns, .n_csv_columns = 3});
    columns[0].kind = "time";
    expect_same((tcc_data_options){.kind = "csv", .path = path, .csv_columns = columns, .n_csv_columns = 3});
    expect_same(
        (tcc_data_options){.kind = "csv", .path = path, .csv_regression = true, .csv_label = "pay", .val_path = path});
}

static void a_file_is_said(void **state) {
    tcc_data_options options = {
        .size = sizeof options, .kind = "csv", .path = write_table(state, "a.csv"), .csv_label = "y"};
    tcc_dataset *data;
    char *text;
    tcc__row_store_limit(3000);
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    assert_ok(tcc_dataset_describe(&cx, data, &text), &cx.diag);
    if (!strstr(text, "MiB in a temporary file")) fail_msg("%s", text);
    tcc_string_free(text);
    tcc_dataset_close(data);

    tcc__io_fail_after(2000); /* the disk is full when rows leave the memory, and later */
    dataset_refused(&cx, options, TCC_EIO, "No space left on device; TMPDIR names another folder");
    tcc__io_fail_after(20000);
    dataset_refused(&cx, options, TCC_EIO, "No space left on device; TMPDIR names another folder");
    tcc__io_fail_after(-1);
    const char *const before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    setenv("TMPDIR", test_path(state, "none"), 1);
    dataset_refused(&cx, options, TCC_EIO, "none: error: the rows of a large table lie in a temporary file, which");
    if (kept) setenv("TMPDIR", kept, 1);
    else unsetenv("TMPDIR");
    free(kept);
    options.path = test_write_text(state, "small.csv", "a,city,y\n1,Rome,u\n2,Bonn,v\n3,Bonn,u\n");
    tcc__row_store_limit(0);
    dataset_out_of_memory(&cx, options);
    tcc__row_store_limit(-1);
}

/* ---- files in windows ---- */

static char *read_rows(const char *path, const tcc__bytes *file, tcc_status *status, tcc__csv *out) {
    const tcc_data_options options = {.csv_header = TCC_CSV_HEADER_YES};
    tcc_diag d = {0};
    *out = (tcc__csv){0};
    *status = tcc__csv_parse(&d, path, file, &options, 0, out);
    if (*status == TCC_OK) *status = tcc__csv_number_classes(&d, path, out);
    char *text = strdup(tcc_diag_text(&d));
    tcc_diag_clear(&d);
    return text;
}

/* A file and the same bytes in memory are the same table, or refused in the same words. */
static void expect_windows(const char *path, const char *text, size_t size, const char *problem) {
    const tcc__bytes file = {(uint8_t *)(uintptr_t)text, size};
    tcc_status status[2];
    tcc__csv csv[2];
    char *said[2] = {read_rows(path, &file, &status[0], &csv[0]), read_rows(path, NULL, &status[1], &csv[1])};
    assert_string_equal(said[1], said[0]);
    assert_int_equal(status[1], status[0]);
    if (!strstr(said[0], problem)) fail_msg("no '%s' in '%s'", problem, said[0]);
    if (status[0] == TCC_OK) {
        assert_int_equal(csv[0].store.count, csv[1].store.count);
        assert_memory_equal(csv[0].store.data, csv[1].store.data, (size_t)csv[0].store.count * csv[0].store.row_bytes);
        for (int i = 0; i < csv[0].columns.count; i++)
            assert_int_equal(csv[0].columns.data[i].words.texts.length, csv[1].columns.data[i].words.texts.length);
    }
    for (int i = 0; i < 2; i++) {
        tcc__csv_free(&csv[i]);
        free(said[i]);
    }
}

/* Over one MiB: cells with quotes, line ends and letters of several bytes lie across the ends of windows; one cell is
 * larger than a window. */
static void files_in_windows(void **state) {
    tcc_strbuf b = {0};
    tcc_strbuf_add(&b, "\xEF\xBB\xBFn,city,y\r\n");
    for (int i = 0; i < 32000; i++)
        tcc_strbuf_printf(
            &b, i % 3 ? "%d,\"M\u00fcnchen \"\"%d\"\", \u65e5\u672c\r\nFluss\",%d\r\n" : "%d,K\u00f6ln %d,%d\n", i,
            i % 50, i % 4);
    const size_t plain = b.length;
    assert_false(b.failed);
    expect_windows(test_write(state, "a.csv", b.text, b.length), b.text, b.length, "");
    expect_windows(test_write_gzip(state, "a.csv.gz", b.text, b.length), b.text, b.length, "");

    tcc_strbuf_add(&b, "7,\"");
    for (int i = 0; i < 50000; i++) tcc_strbuf_add(&b, "a long cell, with commas\n");
    tcc_strbuf_add(&b, "\",1\n8,Bonn,2");
    expect_windows(test_write(state, "a.csv", b.text, b.length), b.text, b.length, "");

    b.length = plain;
    tcc_strbuf_add(&b, "7,\"no end,1\n8,Bonn,2\n");
    expect_windows(test_write(state, "a.csv", b.text, b.length), b.text, b.length, "has no closing quote");
    b.length = plain;
    tcc_strbuf_add(&b, "7,Bonn,1\n8,Bonn\n9,Bonn,2\n");
    expect_windows(test_write(state, "a.csv", b.text, b.length), b.text, b.length, "has 2 cells, but the first has 3");
    b.length = plain;
    tcc_strbuf_add(&b, "7,B\xF6nn,1\n");
    expect_windows(test_write(state, "a.csv", b.text, b.length), b.text, b.length, "(0xf6) is not UTF-8");
    tcc_strbuf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(rows_in_a_file), FOLDER_TEST(a_file_is_said),
                                       FOLDER_TEST(files_in_windows)};
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
