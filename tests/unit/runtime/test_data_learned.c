/* SPDX-License-Identifier: MIT
 * What data sets learn: later data is read by it just as beside the training files, which are gone then. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "harness/train_data.h"
#include "ir/support/context.h"
#include "traincc/data.h"
#include "traincc/model.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tcc_context cx;

static tcc_dataset *open_data(tcc_data_options options) {
    tcc_dataset *data;
    options.size = sizeof options;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    return data;
}

static char *learn(const tcc_dataset *data) {
    char *text;
    assert_ok(tcc_dataset_learned(&cx, data, &text), &cx.diag);
    return text;
}

static int64_t bytes_of(const tcc_array *a) {
    int64_t bytes = a->dtype == TCC_F32 || a->dtype == TCC_I32 ? 4 : 0;
    for (int i = 0; i < a->rank; i++) bytes *= a->dims[i];
    assert_true(bytes > 0);
    return bytes;
}

/* The whole validation data of both, and what their classes are called. */
static void expect_equal(const tcc_dataset *a, const tcc_dataset *b) {
    const tcc_dataset *const data[2] = {a, b};
    tcc_dataset_info info[2];
    tcc_loader *loader[2];
    const tcc_batch *batch[2];
    for (int i = 0; i < 2; i++) {
        tcc_dataset_get_info(data[i], &info[i]);
        tcc_loader_options o = {.size = sizeof o,
                                .split = TCC_SPLIT_VALIDATION,
                                .batch_size = info[i].samples[TCC_SPLIT_VALIDATION],
                                .last_batch = TCC_LAST_KEEP};
        assert_ok(tcc_loader_create(&cx, data[i], &o, &loader[i]), &cx.diag);
        assert_ok(tcc_loader_next(loader[i], &batch[i]), &cx.diag);
    }
    assert_true(info[0].classes == info[1].classes && info[0].vocab_size == info[1].vocab_size);
    for (int k = 0; k < 2; k++) {
        const tcc_array *x = &batch[0]->arrays[k], *y = &batch[1]->arrays[k];
        assert_true(bytes_of(x) == bytes_of(y));
        assert_memory_equal(x->data, y->data, (size_t)bytes_of(x));
    }
    for (int64_t id = 0; id < info[0].classes; id++) {
        size_t length[2];
        const char *name = tcc_dataset_label(a, id, &length[0]), *other = tcc_dataset_label(b, id, &length[1]);
        assert_true(!name == !other && length[0] == length[1]);
        if (name) assert_memory_equal(name, other, length[0]);
    }
    for (int i = 0; i < 2; i++) tcc_loader_destroy(loader[i]);
}

/* `options` have val_path, or validation data beside the training data of path. */
static void check_kind(tcc_data_options options, bool beside) {
    tcc_dataset *data = open_data(options);
    char *learned = learn(data), away[4200];
    assert_ok(tcc_dataset_compare(&cx, data, learned), &cx.diag);
    options.learned = learned;
    if (beside) {
        tcc_dataset *again = open_data(options);
        expect_equal(data, again);
        tcc_dataset_close(again);
        options.val_path = options.path;
    }
    if (!beside) {
        snprintf(away, sizeof away, "%s.away", options.path);
        assert_int_equal(rename(options.path, away), 0);
    }
    options.path = NULL;
    tcc_dataset *later = open_data(options);
    tcc_dataset_info info;
    tcc_dataset_get_info(later, &info);
    assert_int_equal(info.samples[TCC_SPLIT_TRAIN], 0);
    expect_equal(data, later);
    char *same = learn(later);
    assert_string_equal(same, learned);
    tcc_string_free(same);
    tcc_dataset_close(later);

    options.val_path = NULL;
    later = open_data(options);
    tcc_dataset_get_info(later, &info);
    assert_int_equal(info.samples[TCC_SPLIT_VALIDATION], 0);
    tcc_dataset_close(later);
    tcc_dataset_close(data);
    options.learned = "{\"kind\":\"?\"}";
    dataset_refused(&cx, options, TCC_EINVAL, "data of kind ? was trained on");
    options.learned = "[";
    dataset_refused(&cx, options, TCC_EFORMAT, "no JSON");
    tcc_string_free(learned);
}

static void tables(void **state) {
    const char *rows = test_write_text(state, "rows.csv", "height,width,kind\n1,1e9,small\n0.1,-7,large\n");
    check_kind((tcc_data_options){.kind = "csv", .path = write_csv_data(state), .val_path = rows}, false);
    test_write_text(state, "numbers.csv", "1,2,3\n4,5,6\n0.1,0.2,0.3\n");
    rows = test_write_text(state, "rows.csv", "10,20,30\n");
    check_kind((tcc_data_options){.kind = "csv",
                                  .path = test_path(state, "numbers.csv"),
                                  .val_path = rows,
                                  .csv_label = "0",
                                  .csv_regression = true},
               false);
}

/* x of rows that are read as a table was that had columns a, b and k. */
static void expect_rows(void **state, const char *learned, const char *text, int count, const float *x) {
    tcc_data_options o = {.kind = "csv", .learned = learned, .unlabelled = true};
    o.val_path = test_write_text(state, "rows.csv", text);
    tcc_dataset *data = open_data(o);
    tcc_loader_options how = {.size = sizeof how, .split = TCC_SPLIT_VALIDATION, .batch_size = count};
    tcc_loader *loader;
    const tcc_batch *batch;
    assert_ok(tcc_loader_create(&cx, data, &how, &loader), &cx.diag);
    assert_ok(tcc_loader_next(loader, &batch), &cx.diag);
    assert_true(tcc_loader_batches(loader) == 1);
    for (int i = 0; i < 2 * count; i++) assert_true(((const float *)batch->arrays[0].data)[i] == x[i]);
    for (int i = 0; i < count; i++) assert_int_equal(((const int32_t *)batch->arrays[1].data)[i], -1);
    tcc_loader_destroy(loader);
    tcc_dataset_close(data);
}

/* By their names in any order, or in the order of training; with or without the label, which is not looked at. */
static void columns(void **state) {
    tcc_data_options o = {.kind = "csv", .csv_label = "k", .val_split = -1};
    o.path = test_write_text(state, "t.csv", "a,k,b\n1,x,10\n3,y,30\n"); /* a - 2, and (b - 20) / 10 */
    tcc_dataset *data = open_data(o);
    char *learned = learn(data);
    tcc_dataset_close(data);
    const float x[] = {3, -2, 0, 0};
    static const char *const same[] = {"a,b\n5,0\n2,20\n",
                                       "5,0\n2,20\n",
                                       "5,?,0\n2,,20\n",
                                       "b,a\n0,5\n20,2\n",
                                       "b,more,k,a\n0,q,,5\n20,,z,2\n",
                                       "\xEF\xBB\xBF\"a\",\"b\"\r\n\r\n\"5\", 0 \r\n2,2e1\r\n\r\n"};
    for (unsigned i = 0; i < sizeof same / sizeof *same; i++) expect_rows(state, learned, same[i], 2, x);
    o = (tcc_data_options){.kind = "csv", .learned = learned, .unlabelled = true};
    static const char *const wrong[][2] = {{"b,c\n1,2\n", "rows.csv:1: error: has no column 'a'"},
                                           {"1\n", "rows.csv:1: error: has 1 columns"},
                                           {"1,2\n1,inf\n", "rows.csv:2: error: column 2 ('b'): 'inf' is not a finite"},
                                           {"c,d\n1,2\n", "rows.csv:1: error: column 1 ('a'): 'c' is not a finite"}};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.val_path = test_write_text(state, "rows.csv", wrong[i][0]);
        dataset_refused(&cx, o, TCC_EFORMAT, wrong[i][1]);
    }
    o.unlabelled = false;
    o.val_path = test_write_text(state, "rows.csv", "b,a\n1,2\n");
    dataset_refused(&cx, o, TCC_EFORMAT, "has no column 'k'");
    o.unlabelled = true;
    o.learned = NULL;
    o.path = o.val_path;
    dataset_refused(&cx, o, TCC_EINVAL, "unlabelled goes with learned and val_path");
    tcc_string_free(learned);
}

static void texts(void **state) {
    const char *words = test_write_text(state, "words.txt", "a cat on the mat.\n");
    check_kind((tcc_data_options){.kind = "text", .path = write_text_data(state), .val_path = words, .context = 4},
               false);
    check_kind((tcc_data_options){.kind = "text",
                                  .path = test_write(state, "bytes", "\0\xff\x80z\0\0\xff", 7),
                                  .val_path = test_write(state, "more", "\0\0\xff\x80z\x80", 6),
                                  .context = 3,
                                  .bytes = true},
               false);
    static const uint16_t tokens[] = {3, 1, 4, 1, 5, 9, 2, 6}, more[] = {0, 1, 2, 0};
    check_kind((tcc_data_options){.kind = "tokens",
                                  .path = test_write(state, "tokens", tokens, sizeof tokens),
                                  .val_path = test_write(state, "more", more, sizeof more),
                                  .context = 2},
               false);
}

static void classes_of_texts(void **state) {
    tcc_data_options o = {.kind = "text_classes", .path = write_text_classes_data(state), .context = 16};
    o.vocab = test_path(state, "vocab.txt");
    o.val_path = test_write_text(state, "more.tsv", "label\ttext\n1\tthe film\n0\ta film\n1\tfine .\n");
    check_kind(o, false);
    test_write_text(state, "set/neg/1.txt", "bad");
    test_write_text(state, "set/pos/1.txt", "good");
    test_write_text(state, "more/pos/1.txt", "fine film");
    o.path = test_path(state, "set");
    o.val_path = test_path(state, "more");
    check_kind(o, false);
}

static void images(void **state) {
    check_kind((tcc_data_options){.kind = "idx", .path = write_idx_data(state)}, true);
    check_kind((tcc_data_options){.kind = "cifar", .path = write_cifar_data(state)}, true);
    static const uint8_t grey[6] = {0, 50, 100, 150, 200, 250}, dark[6] = {1, 2, 3, 4, 5, 6}, labels[7] = {0, 1, 2};
    for (int i = 0; i < 2; i++) {
        write_png(state, i ? "more/b/1.png" : "set/b/1.png", 2, 3, 1, i ? dark : grey);
        write_png(state, i ? "more/images/1.png" : "pairs/images/1.png", 2, 3, 1, i ? dark : grey);
        write_png(state, i ? "more/labels/1.png" : "pairs/labels/1.png", 2, 3, 1, labels + i);
    }
    write_png(state, "set/a/1.png", 2, 3, 1, dark);
    check_kind((tcc_data_options){.kind = "segmentation",
                                  .path = test_path(state, "pairs"),
                                  .val_path = test_path(state, "more")},
               false);
    write_png(state, "others/b/1.png", 2, 3, 1, dark);
    check_kind(
        (tcc_data_options){.kind = "images", .path = test_path(state, "set"), .val_path = test_path(state, "others")},
        false);
}

/* A class, a character or a column that the training data did not have, and data that is no longer the same. */
static void other_data(void **state) {
    tcc_data_options o = {
        .kind = "csv", .path = test_write_text(state, "t.csv", "a,b\n1,x\n2,y\n3,x\n4,y\n"), .val_split = 0.5};
    tcc_dataset *data = open_data(o);
    char *learned = learn(data);
    tcc_dataset_close(data);
    test_write_text(state, "t.csv", "a,b\n1,x\n2,z\n3,x\n4,z\n");
    data = open_data(o);
    assert_error(tcc_dataset_compare(&cx, data, learned), TCC_EINVAL, &cx.diag,
                 "its classes[1] was \"y\" and is \"z\"");
    tcc_diag_clear(&cx.diag);
    tcc_dataset_close(data);
    test_write_text(state, "t.csv", "a,b\n1,x\n2,y\n3,x\n4,y\n5,y\n6,x\n");
    data = open_data(o);
    assert_error(tcc_dataset_compare(&cx, data, learned), TCC_EINVAL, &cx.diag, "the training data has changed");
    tcc_diag_clear(&cx.diag);
    tcc_dataset_close(data);
    o.learned = learned;
    dataset_refused(&cx, o, TCC_EINVAL, "is not as it was when it was trained on");
    o.val_split = 0;
    o.path = NULL;
    o.val_path = test_write_text(state, "v.csv", "a,b\n1,x\n2,z\n");
    dataset_refused(&cx, o, TCC_EFORMAT, "label 'z' is none of the 2 classes that were trained");
    o.val_path = test_write_text(state, "v.csv", "c,b\n1,x\n");
    dataset_refused(&cx, o, TCC_EFORMAT, "has no column 'a', which the training file has");
    tcc_string_free(learned);

    o = (tcc_data_options){
        .kind = "text", .path = test_write_text(state, "t", "abcabc"), .context = 2, .val_split = -1};
    data = open_data(o);
    learned = learn(data);
    tcc_dataset_close(data);
    o = (tcc_data_options){.kind = "text", .learned = learned, .context = 2};
    o.val_path = test_write_text(state, "v", "abdc");
    dataset_refused(&cx, o, TCC_EFORMAT, "character 'd' (U+0064) at byte 2 does not occur in the training text");
    tcc_string_free(learned);
}

/* The text is the same in a locale that has another decimal point; statistics survive it bit for bit. */
static void locales(void **state) {
    tcc_data_options o = {.kind = "csv", .path = write_csv_data(state)};
    tcc_dataset *data = open_data(o);
    char *learned = learn(data);
    const char *decimal_comma = setlocale(LC_NUMERIC, "de_DE.UTF-8");
    char *again = learn(data);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(again, learned);
    if (!decimal_comma) print_message("no locale de_DE.UTF-8 here\n");
    o.learned = learned;
    tcc_dataset *later = open_data(o);
    double mean[2], std[2];
    for (int i = 0; i < 2; i++) {
        assert_true(tcc_dataset_feature(data, i, NULL, &mean[0], &std[0]));
        assert_true(tcc_dataset_feature(later, i, NULL, &mean[1], &std[1]));
        assert_true(mean[0] == mean[1] && std[0] == std[1]);
    }
    tcc_string_free(learned);
    tcc_string_free(again);
    tcc_dataset_close(data);
    tcc_dataset_close(later);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(tables),           FOLDER_TEST(columns), FOLDER_TEST(texts),
                                       FOLDER_TEST(classes_of_texts), FOLDER_TEST(images),  FOLDER_TEST(other_data),
                                       FOLDER_TEST(locales)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
