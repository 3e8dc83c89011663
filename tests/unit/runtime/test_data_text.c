/* SPDX-License-Identifier: MIT
 * Data kinds text and tokens. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tcc_context cx;

static tcc_dataset *open_data(tcc_data_options options) {
    options.size = sizeof options;
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    return data;
}

static void refused(tcc_data_options options, tcc_status status, const char *part) {
    dataset_refused(&cx, options, status, part);
}

static const tcc_batch *first_batch(const tcc_dataset *data, tcc_split split, bool shuffle, tcc_loader **l) {
    tcc_loader_options options = {.size = sizeof options, .split = split, .batch_size = 1, .shuffle = shuffle};
    const tcc_batch *batch;
    assert_ok(tcc_loader_create(&cx, data, &options, l), &cx.diag);
    assert_ok(tcc_loader_next(*l, &batch), &cx.diag);
    return batch;
}

static const int32_t *x_of(const tcc_batch *b) { return b->arrays[0].data; }
static const int32_t *y_of(const tcc_batch *b) { return b->arrays[1].data; }

static void characters(void **state) {
    const char *path = test_write_text(state, "a.txt", "héllo wörld, hello world!\n€𝄞");
    tcc_dataset *data = open_data((tcc_data_options){.kind = "text", .path = path, .context = 2});
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_string_equal(info.kind, "text");
    assert_int_equal(info.tokens[TCC_SPLIT_TRAIN], 25); /* int(28 * 0.9) */
    assert_int_equal(info.tokens[TCC_SPLIT_VALIDATION], 3);
    tcc_dataset_close(data);
}

static void windows(void **state) {
    const char *path = test_write_text(state, "a.txt", "abcdefghijklmnopqrstuvwxyz");
    tcc_dataset *data = open_data((tcc_data_options){.kind = "text", .path = path, .context = 4, .val_split = 0.5});
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.classes == 26 && info.tokens[0] == 13 && info.tokens[1] == 13);
    assert_true(info.samples[0] == 3 && info.samples[1] == 3); /* windows of 4 and a target: 0-4, 4-8, 8-12 */
    assert_true(info.x.rank == 1 && info.x.dims[0] == 4 && info.x.dtype == TCC_I32);
    tcc_loader *l;
    const tcc_batch *batch = first_batch(data, TCC_SPLIT_VALIDATION, false, &l);
    for (int window = 0; window < 3; window++) {
        for (int i = 0; i < 4; i++) {
            assert_int_equal(x_of(batch)[i], 13 + 4 * window + i);
            assert_int_equal(y_of(batch)[i], 14 + 4 * window + i);
        }
        assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    }
    tcc_loader_destroy(l);
    /* Shuffled windows start anywhere in [0, len - T), each place about as often, and never touch
     * the other part. */
    int starts[9] = {0};
    batch = first_batch(data, TCC_SPLIT_TRAIN, true, &l);
    for (int i = 0; i < 9000; i++) {
        assert_true(x_of(batch)[0] >= 0 && x_of(batch)[0] < 9 && y_of(batch)[3] == x_of(batch)[0] + 4);
        starts[x_of(batch)[0]]++;
        assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    }
    for (int i = 0; i < 9; i++) assert_in_range(starts[i], 850, 1150);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void vocabulary(void **state) {
    const char *path = test_write_text(state, "a.txt", "\xEF\xBB\xBFz\ny€𝄞ab");
    tcc_dataset *data = open_data((tcc_data_options){.kind = "text", .path = path, .context = 2, .val_split = -1});
    static const char *const expected[] = {"\n", "a", "b", "y", "z", "€", "𝄞"};
    size_t length;
    for (int i = 0; i < 7; i++) {
        assert_string_equal(tcc_dataset_label(data, i, &length), expected[i]);
        assert_int_equal(length, strlen(expected[i]));
    }
    assert_null(tcc_dataset_label(data, 7, &length));
    assert_null(tcc_dataset_label(data, -1, &length));
    int32_t tokens[4];
    int64_t count;
    assert_ok(tcc_dataset_encode(&cx, data, "𝄞ba€\n", 10, tokens, 4, &count), &cx.diag);
    assert_int_equal(count, 5);
    assert_true(tokens[0] == 6 && tokens[1] == 2 && tokens[2] == 1 && tokens[3] == 5);
    assert_error(tcc_dataset_encode(&cx, data, "abQ", 3, tokens, 4, &count), TCC_EINVAL, &cx.diag,
                 "character 'Q' (U+0051) at byte 2");
    assert_error(tcc_dataset_encode(&cx, data, "a\xff", 2, tokens, 4, &count), TCC_EINVAL, &cx.diag,
                 "not UTF-8 at byte 1");
    tcc_diag_clear(&cx.diag);
    tcc_dataset_close(data);
}

static void bytes_and_gzip(void **state) {
    const char *path = test_write_gzip(state, "a.gz", "\xff\x00\x01\xff\x00\x01\xff", 7);
    tcc_dataset *data =
        open_data((tcc_data_options){.kind = "text", .path = path, .context = 2, .val_split = -1, .bytes = true});
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.classes == 3 && info.tokens[0] == 7);
    size_t length;
    assert_memory_equal(tcc_dataset_label(data, 0, &length), "\0", 1);
    assert_int_equal(length, 1);
    assert_memory_equal(tcc_dataset_label(data, 2, &length), "\xff", 1);
    assert_int_equal(length, 1);
    tcc_dataset_close(data);
}

static void a_file_for_validation(void **state) {
    const char *path = test_write_text(state, "a.txt", "abcabcabc"),
               *other = test_write_text(state, "b.txt", "dcbadcba");
    tcc_dataset *data = open_data((tcc_data_options){.kind = "text", .path = path, .val_path = other, .context = 3});
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.classes == 4 && info.tokens[0] == 9 && info.tokens[1] == 8);
    tcc_loader *l;
    const tcc_batch *batch = first_batch(data, TCC_SPLIT_VALIDATION, false, &l);
    assert_true(x_of(batch)[0] == 3 && x_of(batch)[1] == 2 && y_of(batch)[2] == 0);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void many_characters(void **state) {
    char text[3 * 600];
    for (int i = 0; i < 600; i++) { /* U+4E00 and on, in descending order */
        unsigned c = 0x4E00u + 599u - (unsigned)i;
        text[3 * i] = (char)(0xE0 | c >> 12);
        text[3 * i + 1] = (char)(0x80 | (c >> 6 & 63));
        text[3 * i + 2] = (char)(0x80 | (c & 63));
    }
    tcc_dataset *data = open_data((tcc_data_options){
        .kind = "text", .path = test_write(state, "a.txt", text, sizeof text), .context = 10, .val_split = -1});
    tcc_loader *l;
    const tcc_batch *batch = first_batch(data, TCC_SPLIT_TRAIN, false, &l);
    assert_true(x_of(batch)[0] == 599 && y_of(batch)[9] == 589);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

/* Characters of one to four bytes over many pieces; windows from anywhere are what stands there. */
static void a_long_text(void **state) {
    enum { COUNT = 300000, CONTEXT = 5000 };
    static const char *const characters[] = {"a", "b", "é", "€", "𝄞"};
    char *text = malloc(4 * COUNT + 1);
    uint8_t *which = malloc(COUNT);
    size_t size = 0;
    uint64_t seed = 5;
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
        which[i] = (uint8_t)((seed >> 33) % 5);
        strcpy(text + size, characters[which[i]]);
        size += strlen(characters[which[i]]);
    }
    const char *path = test_write(state, "a.txt", text, size);
    tcc_dataset *data = open_data((tcc_data_options){.kind = "text", .path = path, .context = CONTEXT});
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        tcc_loader *l;
        const tcc_batch *batch = first_batch(data, (tcc_split)split, false, &l);
        for (int64_t i = 0, first = split ? COUNT * 9 / 10 : 0; i < tcc_loader_batches(l); i++, first += CONTEXT) {
            for (int j = 0; j < CONTEXT; j++)
                assert_true(x_of(batch)[j] == which[first + j] && y_of(batch)[j] == which[first + j + 1]);
            assert_ok(tcc_loader_next(l, &batch), &cx.diag);
        }
        tcc_loader_destroy(l);
    }
    tcc_loader *l;
    first_batch(data, TCC_SPLIT_VALIDATION, false, &l);
    assert_int_equal(truncate(path, 100000), 0);
    const tcc_batch *batch;
    assert_error(tcc_loader_next(l, &batch), TCC_EIO, &cx.diag, "it has become shorter while it was in use");
    tcc_diag_clear(&cx.diag);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
    free(which);
    free(text);
}

static void bad_text(void **state) {
    const char *text = test_write_text(state, "a.txt", "hello");
    const char *binary = test_write(state, "b.txt", "abc\xff", 4);
    refused((tcc_data_options){.kind = "text", .path = test_path(state, "absent")}, TCC_ENOTFOUND,
            "absent: error: cannot open");
    refused((tcc_data_options){.kind = "text", .path = *state}, TCC_EIO, "is a folder");
    refused((tcc_data_options){.kind = "text", .path = binary, .context = 1}, TCC_EFORMAT,
            "b.txt: error: byte 3 (0xff) is not UTF-8");
    refused((tcc_data_options){.kind = "text", .path = text}, TCC_EINVAL, "context of at least 1");
    refused((tcc_data_options){.kind = "text", .path = text, .context = 4}, TCC_EFORMAT,
            "training part has 4 tokens; a context of 4 needs");
    refused((tcc_data_options){.kind = "text", .path = text, .context = 3}, TCC_EFORMAT,
            "validation part has 1 tokens");
    refused((tcc_data_options){.kind = "text", .path = test_write(state, "c", "", 0), .context = 4}, TCC_EFORMAT,
            "has 0 tokens");
    refused((tcc_data_options){.kind = "text", .path = text, .context = 2, .val_split = 1}, TCC_EINVAL,
            "val_split is 1");
    refused((tcc_data_options){.kind = "text", .path = text, .val_path = text, .val_split = 0.1}, TCC_EINVAL,
            "exclude each other");
    refused((tcc_data_options){.kind = "txt", .path = text}, TCC_EINVAL, "'txt' is unknown; kinds are text, tokens");
    refused((tcc_data_options){.kind = "text"}, TCC_EINVAL, "needs a path");
    size_t size;
    char *zipped = test_read(test_write_gzip(state, "d.gz", "hello hello hello", 17), &size);
    refused((tcc_data_options){.kind = "text", .path = test_write(state, "e.gz", zipped, size - 9), .context = 2},
            TCC_EFORMAT, "truncated after");
    zipped[size - 6] ^= 1; /* checksum */
    refused((tcc_data_options){.kind = "text", .path = test_write(state, "f.gz", zipped, size), .context = 2},
            TCC_EFORMAT, "damaged");
    free(zipped);
}

static void tokens(void **state) {
    uint16_t narrow[100];
    uint32_t wide[100];
    for (int i = 0; i < 100; i++) narrow[i] = (uint16_t)(i * 500), wide[i] = (uint32_t)i * 50000;
    const char *path2 = test_write(state, "2.bin", narrow, sizeof narrow),
               *path4 = test_write(state, "4.bin", wide, sizeof wide);
    const tcc_data_options cases[] = {
        {.kind = "tokens", .path = path2, .context = 8},
        {.kind = "tokens", .path = path4, .context = 8, .token_bytes = 4},
        {.kind = "tokens", .path = path2, .val_path = path2, .context = 8, .vocab_size = 50257}};
    for (int i = 0; i < 3; i++) {
        tcc_dataset *data = open_data(cases[i]);
        tcc_dataset_info info;
        tcc_dataset_get_info(data, &info);
        int32_t scale = i == 1 ? 50000 : 500;
        assert_int_equal(info.classes, i == 2 ? 50257 : 99 * scale + 1);
        assert_int_equal(info.tokens[1], i == 2 ? 100 : 10);
        tcc_loader *l;
        const tcc_batch *batch = first_batch(data, TCC_SPLIT_VALIDATION, false, &l);
        int32_t first = i == 2 ? 0 : 90;
        assert_true(x_of(batch)[0] == first * scale && x_of(batch)[7] == (first + 7) * scale &&
                    y_of(batch)[7] == (first + 8) * scale);
        tcc_loader_destroy(l);
        batch = first_batch(data, TCC_SPLIT_TRAIN, true, &l);
        for (int j = 0; j < 8; j++) assert_int_equal(y_of(batch)[j], x_of(batch)[0] + (j + 1) * scale);
        tcc_loader_destroy(l);
        size_t length;
        assert_null(tcc_dataset_label(data, 0, &length));
        int64_t count;
        assert_error(tcc_dataset_encode(&cx, data, "a", 1, NULL, 0, &count), TCC_EINVAL, &cx.diag,
                     "the tokenizer of this data is not known");
        tcc_diag_clear(&cx.diag);
        tcc_dataset_close(data);
    }
}

static void bad_tokens(void **state) {
    uint32_t wide[100] = {0};
    wide[50] = 0x80000000u;
    const char *path = test_write(state, "a.bin", wide, sizeof wide), *odd = test_write(state, "b.bin", wide, 41);
    refused((tcc_data_options){.kind = "tokens", .path = odd, .context = 2}, TCC_EFORMAT,
            "41 bytes are not a whole number of 2-byte");
    refused((tcc_data_options){.kind = "tokens", .path = path, .context = 2, .token_bytes = 3}, TCC_EINVAL,
            "token_bytes is 3");
    refused((tcc_data_options){.kind = "tokens", .path = path, .context = 2, .token_bytes = 4}, TCC_EFORMAT,
            "token 2147483648 at byte 200");
    refused((tcc_data_options){.kind = "tokens", .path = path, .context = 2, .vocab_size = -4}, TCC_EINVAL,
            "vocab_size is -4");
    refused((tcc_data_options){.kind = "tokens", .path = test_path(state, "absent"), .context = 2}, TCC_ENOTFOUND,
            "No such file");
    refused((tcc_data_options){.kind = "tokens", .path = "/dev/null", .context = 2}, TCC_EIO, "not a regular file");
    refused((tcc_data_options){.kind = "tokens", .path = path, .val_path = odd, .context = 2}, TCC_EFORMAT, "b.bin");
    /* A vocabulary size given by the user is trusted until a window shows otherwise. */
    tcc_dataset *data =
        open_data((tcc_data_options){.kind = "tokens", .path = path, .context = 20, .vocab_size = 3, .val_split = -1});
    tcc_loader_options options = {.size = sizeof options, .batch_size = 9, .num_workers = 1};
    tcc_loader *l;
    const tcc_batch *batch;
    assert_ok(tcc_loader_create(&cx, data, &options, &l), &cx.diag);
    assert_error(tcc_loader_next(l, &batch), TCC_EFORMAT, &cx.diag,
                 "token 32768 at byte 202 is not below the vocabulary's size, 3");
    tcc_diag_clear(&cx.diag);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void out_of_memory(void **state) {
    const char *path = test_write_text(state, "a.txt", "hello world hello world");
    const char *binary = test_write_text(state, "b.bin", "hello world hello world.");
    const tcc_data_options cases[] = {
        {.size = sizeof cases[0], .kind = "text", .path = path, .val_path = binary, .context = 1},
        {.size = sizeof cases[0], .kind = "tokens", .path = binary, .val_path = binary, .context = 1}};
    for (int i = 0; i < 2; i++) dataset_out_of_memory(&cx, cases[i]);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(characters),
        FOLDER_TEST(windows),
        FOLDER_TEST(vocabulary),
        FOLDER_TEST(bytes_and_gzip),
        FOLDER_TEST(a_file_for_validation),
        FOLDER_TEST(many_characters),
        FOLDER_TEST(a_long_text),
        FOLDER_TEST(bad_text),
        FOLDER_TEST(tokens),
        FOLDER_TEST(bad_tokens),
        FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
