/* SPDX-License-Identifier: MIT
 * The public vocabularies and real texts, which are not part of the project: runs where TCC_TEST_DATA names the folder
 * that has them. What is expected was printed by `tests/tokenizers/reference.py checksums FOLDER`. */
#include "harness/check.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "runtime/files/file.h"
#include "traincc/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

static const struct {
    const char *file, *kind; /* of a line the last column, without a carriage return */
    int64_t lines, tokens;
    uint32_t crc; /* of all tokens as int32 */
} expected[] = {
    {"tinyshakespeare/input.txt", "gpt2", 40001, 298027, 0x0b45e735},
    {"tinyshakespeare/input.txt", "wordpiece", 40001, 288719, 0xf9f315dd},
    {"imdb/train.tsv.gz", "gpt2", 25001, 7491938, 0xb725a453},
    {"imdb/train.tsv.gz", "wordpiece", 25001, 7796903, 0x752b9a48},
    {"sst2/train.tsv.gz", "gpt2", 67351, 765058, 0x59b924aa},
    {"sst2/train.tsv.gz", "wordpiece", 67351, 762341, 0x1c7a2eb6},
};

static tcc_context cx;
static const char *folder;

static tcc_tokenizer *open_tokenizer(const char *kind) {
    bool pairs = !strcmp(kind, "gpt2");
    char *vocab = tcc__path_join(folder, pairs ? "gpt2-bpe/encoder.json" : "bert-vocab/vocab.txt");
    char *merges = tcc__path_join(folder, "gpt2-bpe/vocab.bpe");
    tcc_tokenizer_options o = {.size = sizeof o, .kind = kind, .vocab = vocab, .merges = pairs ? merges : NULL};
    tcc_tokenizer *t;
    assert_ok(tcc_tokenizer_open(&cx, &o, &t), &cx.diag);
    tcc__free(vocab);
    tcc__free(merges);
    return t;
}

static void check_file(int i) {
    enum { CAPACITY = 1 << 16 };
    static int32_t ids[CAPACITY];
    tcc_tokenizer *t = open_tokenizer(expected[i].kind);
    char *path = tcc__path_join(folder, expected[i].file);
    tcc__bytes file;
    assert_ok(tcc__file_load(&cx.diag, path, &file), &cx.diag);
    int64_t lines = 0, tokens = 0;
    uLong crc = 0;
    const char *at = (const char *)file.data, *end = at + file.size;
    for (bool more = true; more; lines++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        more = stop;
        if (!stop) stop = end;
        const char *last = stop > at && stop[-1] == '\r' ? stop - 1 : stop, *tab;
        while ((tab = memchr(at, '\t', (size_t)(last - at)))) at = tab + 1;
        int64_t count;
        assert_ok(tcc_tokenizer_encode(&cx, t, at, (size_t)(last - at), ids, CAPACITY, &count), &cx.diag);
        assert_true(count <= CAPACITY);
        tokens += count;
        crc = crc32(crc, (const Bytef *)ids, (uInt)(4 * count));
        at = stop + 1;
    }
    printf("%s, %s: %lld lines, %lld tokens\n", expected[i].file, expected[i].kind, (long long)lines,
           (long long)tokens);
    assert_int_equal(lines, expected[i].lines);
    assert_int_equal(tokens, expected[i].tokens);
    assert_int_equal(crc, expected[i].crc);
    tcc__free(path);
    tcc__free(file.data);
    tcc_tokenizer_close(t);
}

static void like_the_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) check_file((int)i);
}

int main(void) {
    folder = getenv("TCC_TEST_DATA");
    if (!folder || !*folder) {
        puts("skipped: TCC_TEST_DATA names no folder with gpt2-bpe, bert-vocab, tinyshakespeare, imdb and sst2");
        return 77;
    }
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_the_reference)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
