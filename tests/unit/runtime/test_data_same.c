/* SPDX-License-Identifier: MIT
 * Samples that are in both splits, of each kind of data that has single samples; and names that no text can hold. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "harness/train_data.h"
#include "ir/support/context.h"
#include "traincc/data.h"
#include "traincc/model.h"

#include <stdio.h>
#include <stdlib.h>

static tcc_context cx;

/* Describing the data says this; NULL: it warns of no such sample. */
static void said(tcc_data_options options, const char *what) {
    tcc_dataset *data;
    char *text;
    options.size = sizeof options;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    assert_ok(tcc_dataset_describe(&cx, data, &text), &cx.diag);
    if (what ? !strstr(text, what) : strstr(text, "are also among") != NULL)
        fail_msg("%s: not \"%s\":\n%s", options.kind, what ? what : "nothing", text);
    tcc_string_free(text);
    tcc_dataset_close(data);
}

/* The first bytes of a file as another; -1: all. */
static void copy(void **state, const char *from, const char *to, long bytes) {
    size_t size;
    char *text = test_read(test_path(state, from), &size);
    test_write(state, to, text, bytes < 0 ? size : (size_t)bytes);
    free(text);
}

static void records(void **state) {
    const char *cifar = write_cifar_data(state), *idx = write_idx_data(state);
    said((tcc_data_options){.kind = "idx", .path = idx}, NULL);
    copy(state, "idx/train-images-idx3-ubyte", "idx/t10k-images-idx3-ubyte", -1);
    copy(state, "idx/train-labels-idx1-ubyte", "idx/t10k-labels-idx1-ubyte", -1);
    said((tcc_data_options){.kind = "idx", .path = idx}, "warning: 96 of 96 samples to validate on are also among");
    said((tcc_data_options){.kind = "cifar", .path = cifar, .augment = true}, NULL);
    copy(state, "cifar/data_batch_1.bin", "cifar/test_batch.bin", 3 * 3073);
    said((tcc_data_options){.kind = "cifar", .path = cifar, .augment = true}, "warning: 3 of 3 samples to validate on");
}

static void texts(void **state) {
    const char *path = write_text_classes_data(state);
    tcc_data_options o = {.kind = "text_classes",
                          .path = path,
                          .vocab = test_path(state, "vocab.txt"),
                          .context = 64,
                          .csv_text = "text"};
    o.val_path = test_write_text(state, "new.tsv", "label\ttext\n1\tgood dull the film . . .\n0\tbad bad\n");
    said(o, NULL);
    o.val_path = path;
    said(o, "warning: 240 of 240 samples to validate on");
}

static void pictures(void **state) {
    const uint8_t gray[3] = {77, 78, 79};
    const char *path = write_image_data(state), *other = test_path(state, "other");
    tcc_data_options o = {.kind = "images", .path = path, .val_path = other};
    write_png(state, "other/above/new.png", 1, 1, 3, gray);
    write_png(state, "other/below/new.png", 1, 1, 3, gray);
    said(o, NULL);
    copy(state, "pictures/above/3.png", "other/above/a.png", -1);
    copy(state, "pictures/above/13.jpg", "other/below/b.jpg", -1); /* of another class */
    said(o, "warning: 2 of 4 samples to validate on are also among those to train on");
}

static void names_are_text(void **state) {
    const uint8_t gray[3] = {77, 78, 79};
    write_png(state, "odd/a\xff/0.png", 1, 1, 3, gray);
    write_png(state, "odd/b/0\xfe.png", 1, 1, 3, gray);
    const tcc_data_options o = {.kind = "images", .path = test_path(state, "odd"), .val_split = -1};
    dataset_refused(&cx, o, TCC_EFORMAT, "class 'a\xff': its name is not UTF-8; rename the folder");
    assert_int_equal(rename(test_path(state, "odd/a\xff"), test_path(state, "odd/\xc3\xa4")), 0);
    said(o, "classes (2): b 1, \xc3\xa4 1");
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {FOLDER_TEST(records), FOLDER_TEST(texts), FOLDER_TEST(pictures),
                                       FOLDER_TEST(names_are_text)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
