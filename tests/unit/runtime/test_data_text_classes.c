/* SPDX-License-Identifier: MIT
 * Data kind text_classes: folders of texts, and files of rows. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <stdio.h>

static tcc_context cx;

enum { UNK, CLS, SEP, GOOD, BAD, FILM, ING, STOP };
static const char vocab_text[] = "[UNK]\n[CLS]\n[SEP]\ngood\nbad\nfilm\n##ing\n.\n";

static tcc_dataset *open_data(void **state, tcc_data_options options) {
    options.size = sizeof options;
    options.kind = "text_classes";
    options.vocab = test_write_text(state, "vocab.txt", vocab_text);
    options.context = options.context ? options.context : 6;
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    return data;
}

/* The samples of a split, in order, are these tokens and labels. */
static void expect_samples(const tcc_dataset *data, tcc_split split, int count, const int32_t (*tokens)[6],
                           const int32_t *labels) {
    tcc_loader_options how = {.size = sizeof how, .split = split, .batch_size = count};
    tcc_loader *l;
    const tcc_batch *batch;
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.samples[split], count);
    assert_ok(tcc_loader_create(&cx, data, &how, &l), &cx.diag);
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    assert_true(batch->arrays[0].rank == 2 && batch->arrays[0].dims[1] == 6 && batch->arrays[0].dtype == TCC_I32);
    assert_true(batch->arrays[1].rank == 1 && batch->arrays[1].dtype == TCC_I32);
    const int32_t *x = batch->arrays[0].data, *y = batch->arrays[1].data;
    int64_t seen[2] = {0};
    for (int i = 0; i < count; i++) {
        seen[y[i]]++;
        assert_memory_equal(x + 6 * i, tokens[i], sizeof tokens[i]);
        assert_int_equal(y[i], labels[i]);
    }
    for (int id = 0; id < 2 && split == TCC_SPLIT_TRAIN; id++) assert_int_equal(tcc_dataset_count(data, id), seen[id]);
    tcc_loader_destroy(l);
}

static const char *label(const tcc_dataset *data, int64_t id) {
    size_t length;
    const char *text = tcc_dataset_label(data, id, &length);
    assert_int_equal(strlen(text), length);
    return text;
}

static void folders(void **state) {
    test_write_text(state, "train/pos/0_9.txt", "\xEF\xBB\xBFGood film.");
    test_write_gzip(state, "train/pos/1_7.txt.gz", "good good good good good", 24);
    test_write_text(state, "train/neg/0_1.txt", "Filming<bad");
    test_write_text(state, "train/neg/notes.md", "no text of the set");
    test_write_text(state, "train/unsup/0_0.txt", "film");
    test_write_text(state, "train/urls_pos.txt", "no text of the set");
    test_write_text(state, "test/pos/0_8.txt", "good");
    tcc_dataset *data =
        open_data(state, (tcc_data_options){.path = test_path(state, "train"), .val_path = test_path(state, "test")});
    assert_string_equal(label(data, 0), "neg");
    assert_string_equal(label(data, 1), "pos");
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.classes == 2 && info.vocab_size == 8);
    expect_samples(data, TCC_SPLIT_TRAIN, 3,
                   (const int32_t[][6]){{CLS, FILM, ING, UNK, BAD, SEP},
                                        {CLS, GOOD, FILM, STOP, SEP, -1},
                                        {CLS, GOOD, GOOD, GOOD, GOOD, SEP}},
                   (const int32_t[]){0, 1, 1});
    expect_samples(data, TCC_SPLIT_VALIDATION, 1, (const int32_t[][6]){{CLS, GOOD, SEP, -1, -1, -1}},
                   (const int32_t[]){1});
    int32_t tokens[6];
    int64_t count;
    assert_ok(tcc_dataset_encode(&cx, data, "bad film", 8, tokens, 6, &count), &cx.diag);
    assert_int_equal(count, 4);
    assert_memory_equal(tokens, ((const int32_t[]){CLS, BAD, FILM, SEP}), 4 * sizeof *tokens);
    tcc_dataset_close(data);
}

/* As the public files of SST-2 and of IMDb's reviews have them. */
static void tab_separated(void **state) {
    const char *path = test_write_text(
        state, "a.tsv", "label\tsentence\r\n0\tbad \"film\"\r\n1\tgood\\tfilm\r\n\r\n0\t\"bad\r\n1\tgood\r\n");
    const char *val = test_write_text(state, "b.tsv", "label\tcontent\n1\tgood film .\n");
    tcc_dataset *data = open_data(state, (tcc_data_options){.path = path, .val_path = val});
    assert_string_equal(label(data, 0), "0");
    expect_samples(data, TCC_SPLIT_TRAIN, 4,
                   (const int32_t[][6]){{CLS, BAD, UNK, FILM, UNK, SEP},
                                        {CLS, GOOD, FILM, SEP, -1, -1},
                                        {CLS, UNK, BAD, SEP, -1, -1},
                                        {CLS, GOOD, SEP, -1, -1, -1}},
                   (const int32_t[]){0, 1, 0, 1});
    expect_samples(data, TCC_SPLIT_VALIDATION, 1, (const int32_t[][6]){{CLS, GOOD, FILM, STOP, SEP, -1}},
                   (const int32_t[]){1});
    tcc_dataset_close(data);
    const char text[] = "1\t0\t9\tgood\n0\t1\t2\tbad\n1\t2\t8\tfilm\n";
    data = open_data(
        state, (tcc_data_options){.path = test_write_gzip(state, "c.tsv.gz", text, sizeof text - 1), .val_split = -1});
    expect_samples(
        data, TCC_SPLIT_TRAIN, 3,
        (const int32_t[][6]){{CLS, GOOD, SEP, -1, -1, -1}, {CLS, BAD, SEP, -1, -1, -1}, {CLS, FILM, SEP, -1, -1, -1}},
        (const int32_t[]){1, 0, 1});
    tcc_dataset_close(data);
}

static void comma_separated(void **state) {
    const char *path = test_write_text(state, "a.csv",
                                       "review,stars,kind\n\"good, \"\"good\"\"\nfilm\",5,yes\nbad,1,no\n");
    tcc_dataset *data =
        open_data(state, (tcc_data_options){.path = path, .csv_label = "kind", .csv_text = "review", .val_split = -1});
    assert_string_equal(label(data, 1), "yes");
    expect_samples(data, TCC_SPLIT_TRAIN, 2,
                   (const int32_t[][6]){{CLS, GOOD, UNK, UNK, GOOD, SEP}, {CLS, BAD, SEP, -1, -1, -1}},
                   (const int32_t[]){1, 0});
    tcc_dataset_close(data);
    data = open_data(
        state, (tcc_data_options){
                   .path = path, .csv_label = "1", .csv_text = "0", .csv_header = TCC_CSV_HEADER_YES, .val_split = -1});
    assert_string_equal(label(data, 0), "1");
    tcc_dataset_close(data);
}

static void refused(void **state, tcc_data_options options, tcc_status status, const char *part) {
    options.kind = "text_classes";
    if (!options.vocab) options.vocab = test_write_text(state, "vocab.txt", vocab_text);
    if (!options.context) options.context = 6;
    dataset_refused(&cx, options, status, part);
}

static void bad_options(void **state) {
    const char *path = test_write_text(state, "a.tsv", "1\tgood\n0\tbad\n1\tfilm\n");
    tcc_data_options none = {.kind = "text_classes", .path = path, .context = 6};
    dataset_refused(&cx, none, TCC_EINVAL, "needs vocab, the file vocab.txt");
    refused(state, (tcc_data_options){.path = path, .tokenizer = "gpt2"}, TCC_EINVAL, "tokenizer 'gpt2'");
    refused(state, (tcc_data_options){.path = *state, .csv_separator = ';'}, TCC_EINVAL, "is a folder; csv_header, ");
    refused(state, (tcc_data_options){.path = path, .context = 2}, TCC_EINVAL, "a context of at least 3 tokens, not 2");
    refused(state, (tcc_data_options){.path = path, .vocab = test_path(state, "absent")}, TCC_ENOTFOUND, "absent");
    refused(state, (tcc_data_options){.path = path, .vocab = test_write_text(state, "v", "[UNK]\n[SEP]\n")},
            TCC_EFORMAT, "has no line [CLS]");
    refused(state, (tcc_data_options){.path = path, .vocab = test_write_text(state, "v", "[UNK]\n[CLS]\n")},
            TCC_EFORMAT, "has no line [SEP]");
    refused(state, (tcc_data_options){.path = path, .csv_label = "stars"}, TCC_EFORMAT,
            "a.tsv:1: error: there is no column 'stars'; the first line has 2 columns");
    refused(state, (tcc_data_options){.path = path, .csv_text = "2"}, TCC_EFORMAT, "there is no column '2'");
    refused(state, (tcc_data_options){.path = path, .csv_text = "0"}, TCC_EFORMAT,
            "cannot be both the label and the text");
    refused(state, (tcc_data_options){.path = path, .csv_separator = ';'}, TCC_EFORMAT, "is the separator right?");
}

static void bad_rows(void **state) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"1\tgood\n0\tbad\tfilm\n1\tfilm\n", "a.tsv:2: error: the line has 3 cells, but the first has 2"},
        {"1\tgood\n\tbad\n1\tfilm\n", "a.tsv:2: error: the label, in column 0, is missing"},
        {"1\tgood\n0\tbad\n1\t \n", "a.tsv:3: error: the text is empty"},
        {"1\tgood\n1\tfilm\n", "all labels are '1'"},
        {"label\tsentence\n", "has no rows of data"},
        {"", "has no rows of data"},
        {"1\tgood\n0\tb\xff\x64\n", "byte 10 (0xff) is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = test_write_text(state, "a.tsv", cases[i].text);
        refused(state, (tcc_data_options){.path = path, .val_split = -1}, TCC_EFORMAT, cases[i].part);
    }
    const char *path = test_write_text(state, "a.tsv", "1\tgood\n0\tbad\n1\tfilm\n");
    refused(state, (tcc_data_options){.path = path, .val_path = test_write_text(state, "b.tsv", "2\tgood\n")},
            TCC_EFORMAT, "b.tsv:1: error: label '2' does not occur in the training file");
    refused(state, (tcc_data_options){.path = path, .val_path = test_write_text(state, "b.tsv", "1\t3\tgood\n")},
            TCC_EFORMAT, "b.tsv:1: error: has 3 columns, but the training file has 2");
    refused(state, (tcc_data_options){.path = test_path(state, "absent.tsv")}, TCC_ENOTFOUND, "absent.tsv");
}

static void bad_folders(void **state) {
    const char *train = test_path(state, "train"), *test = test_path(state, "test");
    test_write_text(state, "train/pos/0.txt", "good");
    refused(state, (tcc_data_options){.path = train}, TCC_EFORMAT, "train: error: has 1 folders");
    test_write_text(state, "train/neg/0.md", "bad");
    refused(state, (tcc_data_options){.path = train}, TCC_EFORMAT, "train/neg: error: has no .txt file");
    test_write_text(state, "train/neg/0.txt", "b\xff");
    refused(state, (tcc_data_options){.path = train}, TCC_EFORMAT, "neg/0.txt: error: the text is not UTF-8 at byte 1");
    test_write_text(state, "train/neg/0.txt", "\n");
    refused(state, (tcc_data_options){.path = train}, TCC_EFORMAT, "neg/0.txt: error: the text is empty");
    test_write_text(state, "train/neg/0.txt", "bad");
    test_write_text(state, "test/neutral/0.txt", "film");
    refused(state, (tcc_data_options){.path = train, .val_path = test}, TCC_EFORMAT,
            "test: error: class neutral is not among those of the training texts");
    refused(state, (tcc_data_options){.path = train, .val_path = test_path(state, "train/neg")}, TCC_EFORMAT,
            "has no folder of texts");
}

static void out_of_memory(void **state) {
    const char *vocab = test_write_text(state, "vocab.txt", vocab_text);
    test_write_text(state, "set/a/0.txt", "good");
    test_write_text(state, "set/b/0.txt", "bad");
    const char *path = test_write_text(state, "a.tsv", "label\ttext\n1\tgood\n0\tbad\n1\tfilm\n");
    const tcc_data_options cases[] = {
        {.size = sizeof cases[0], .kind = "text_classes", .path = path, .val_path = path, .context = 6, .vocab = vocab},
        {.size = sizeof cases[0],
         .kind = "text_classes",
         .path = test_path(state, "set"),
         .val_path = test_path(state, "set"),
         .context = 6,
         .vocab = vocab}};
    for (int i = 0; i < 2; i++) dataset_out_of_memory(&cx, cases[i]);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(folders),  FOLDER_TEST(tab_separated), FOLDER_TEST(comma_separated), FOLDER_TEST(bad_options),
        FOLDER_TEST(bad_rows), FOLDER_TEST(bad_folders),   FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
