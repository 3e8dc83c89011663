/* SPDX-License-Identifier: MIT
 * Files of text to a file of tokens. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "runtime/files/file.h"
#include "traincc/tokenizer.h"

#include <stdlib.h>
#include <sys/stat.h>

#define SMALL TCC_SOURCE_DIR "/tests/tokenizers/small/"

static tcc_context cx;

static tcc_tokenizer *open_tokenizer(const char *kind, const char *vocab) {
    tcc_tokenizer_options o = {.size = sizeof o, .kind = kind, .vocab = vocab};
    if (!strcmp(kind, "gpt2")) o.merges = SMALL "gpt2-merges.txt";
    tcc_tokenizer *t;
    assert_ok(tcc_tokenizer_open(&cx, &o, &t), &cx.diag);
    return t;
}

static tcc_status tokenize(tcc_tokenizer *t, tcc_tokenize_options o, tcc_tokenize_result *result) {
    o.size = sizeof o;
    return tcc_tokenize_files(&cx, t, &o, result);
}

static void check_file(const char *path, const uint16_t *expected, size_t count) {
    size_t size;
    char *file = test_read(path, &size);
    assert_int_equal(size, 2 * count);
    assert_memory_equal(file, expected, size);
    free(file);
}

/* Files of several pieces have the tokens of their text at once. */
static void pieces(void **state) {
    size_t size, copies = 40;
    char *small = test_read(SMALL "expected.jsonl", &size), *text = malloc(copies * size);
    for (size_t i = 0; i < copies; i++) memcpy(text + i * size, small, size);
    const char *plain = test_write(state, "a.txt", text, copies * size),
               *zipped = test_write_gzip(state, "a.gz", text, copies * size), *out = test_path(state, "out.bin");
    int32_t *ids = malloc(copies * size * sizeof *ids);
    const char *const kinds[][2] = {{"gpt2", SMALL "gpt2-vocab.json"},
                                    {"wordpiece", SMALL "bert-vocab.txt"},
                                    {"characters", SMALL "expected.jsonl"},
                                    {"bytes", NULL}};
    for (int i = 0; i < 4; i++) {
        tcc_tokenizer *t = open_tokenizer(kinds[i][0], kinds[i][1]);
        int64_t count;
        tcc_tokenize_result result;
        assert_ok(tcc_tokenizer_encode(&cx, t, text, copies * size, ids, (int64_t)(copies * size), &count), &cx.diag);
        uint16_t *narrow = (uint16_t *)ids;
        for (int64_t j = 0; j < count; j++) narrow[j] = (uint16_t)ids[j];
        for (int j = 0; j < 2; j++) {
            assert_ok(tokenize(t, (tcc_tokenize_options){.inputs = j ? &zipped : &plain, .n_inputs = 1, .output = out},
                               &result),
                      &cx.diag);
            assert_true(result.tokens == count && result.text_bytes == (int64_t)(copies * size));
            check_file(out, narrow, (size_t)count);
        }
        tcc_tokenizer_close(t);
    }
    free(ids);
    free(text);
    free(small);
}

static void folders(void **state) {
    const char *folder = test_path(state, "texts"), *out = test_path(state, "out.bin");
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(mkdir(test_path(state, "texts/b"), 0777), 0);
    test_write_text(state, "texts/a.txt",
                    "\xEF\xBB\xBF"
                    "ba");
    test_write_text(state, "texts/b/x.txt", "c");
    test_write_text(state, "texts/c.txt", "");
    test_write_text(state, "texts/.hidden", "z");
    tcc_tokenizer_options from = {.size = sizeof from, .kind = "characters", .texts = &folder, .n_texts = 1};
    tcc_tokenizer *t;
    assert_ok(tcc_tokenizer_open(&cx, &from, &t), &cx.diag);
    assert_int_equal(tcc_tokenizer_vocab_size(t), 3);
    tcc_tokenize_result result;
    tcc_tokenize_options o = {.inputs = &folder, .n_inputs = 1, .output = out, .end = "a"};
    assert_ok(tokenize(t, o, &result), &cx.diag);
    assert_true(result.files == 3 && result.tokens == 6 && result.token_bytes == 2);
    check_file(out, (uint16_t[]){1, 0, 0, 2, 0, 0}, 6);
    o.token_bytes = 4;
    assert_ok(tokenize(t, o, &result), &cx.diag);
    size_t size;
    char *file = test_read(out, &size);
    assert_int_equal(size, 24);
    assert_int_equal(((int32_t *)(void *)file)[3], 2);
    free(file);
    tcc_tokenizer_close(t);
}

static bool stop(void *user, int64_t bytes, int64_t of_bytes, int64_t tokens) {
    assert_true(bytes <= of_bytes && tokens > 0);
    ++*(int *)user;
    return false;
}

/* What fails leaves the earlier output. */
static void failures(void **state) {
    const char *a = test_write_text(state, "a.txt", "abc def"), *out = test_write_text(state, "out.bin", "old"),
               *bad = test_write(state, "bad.txt", "ab\xff", 3), *none = test_path(state, "none.txt");
    const char *empty = test_path(state, "empty");
    assert_int_equal(mkdir(empty, 0777), 0);
    tcc_tokenizer *t = open_tokenizer("gpt2", SMALL "gpt2-vocab.json");
    tcc_tokenize_result r;
    tcc_tokenize_options o = {.inputs = (const char *const[]){a, bad}, .n_inputs = 2, .output = out};
    assert_error(tokenize(t, o, &r), TCC_EFORMAT, &cx.diag, "bad.txt: error: the text is not UTF-8 at byte 2 (0xff)");
    o.inputs = &none;
    o.n_inputs = 1;
    assert_error(tokenize(t, o, &r), TCC_ENOTFOUND, &cx.diag, "none.txt");
    o.inputs = &empty;
    assert_error(tokenize(t, o, &r), TCC_EFORMAT, &cx.diag, "has no files");
    o.inputs = &out;
    assert_error(tokenize(t, o, &r), TCC_EINVAL, &cx.diag, "is both an input and the output");
    o.inputs = &a;
    o.end = "[SEP]";
    assert_error(tokenize(t, o, &r), TCC_EINVAL, &cx.diag, "the vocabulary has no token '[SEP]'");
    o.end = NULL;
    o.token_bytes = 3;
    assert_error(tokenize(t, o, &r), TCC_EINVAL, &cx.diag, "token_bytes is 3");
    o.token_bytes = 0;
    int calls = 0;
    o.progress = stop;
    o.user = &calls;
    assert_error(tokenize(t, o, &r), TCC_EINTERRUPTED, &cx.diag, "nothing was written");
    assert_int_equal(calls, 1);
    o.progress = NULL;
    tcc__io_fail_after(2);
    assert_error(tokenize(t, o, &r), TCC_EIO, &cx.diag, "out.bin");
    tcc__io_fail_after(-1);
    size_t size;
    char *file = test_read(out, &size);
    assert_string_equal(file, "old");
    free(file);
    assert_false(test_exists(test_path(state, "out.bin.tmp")));
    tcc_tokenizer_close(t);

    /* no space in it, and not text */
    char *noise = malloc(3 << 20);
    memset(noise, 'x', 3 << 20);
    noise[(2 << 20) + 5] = '\x80';
    o.inputs = (const char *const[]){test_write(state, "noise", noise, 3 << 20)};
    t = open_tokenizer("gpt2", SMALL "gpt2-vocab.json");
    assert_error(tokenize(t, o, &r), TCC_EFORMAT, &cx.diag, "not UTF-8 at byte 2097157 (0x80)");
    tcc_tokenizer_close(t);
    free(noise);
    tcc_diag_clear(&cx.diag);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {FOLDER_TEST(pieces), FOLDER_TEST(folders), FOLDER_TEST(failures)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
