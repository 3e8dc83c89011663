/* SPDX-License-Identifier: MIT
 * Tokenizers: GPT-2's and BERT's give what the reference gave for small vocabularies, which
 * tests/tokenizers/reference.py made. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "runtime/data/tokenize/tokenizer.h"
#include "traincc/tokenizer.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#define SMALL TCC_SOURCE_DIR "/tests/tokenizers/small/"

static tcc_context cx;

static const tcc_tokenizer_options gpt2 = {
    .size = sizeof gpt2, .kind = "gpt2", .vocab = SMALL "gpt2-vocab.json", .merges = SMALL "gpt2-merges.txt"};
static const tcc_tokenizer_options wordpiece = {
    .size = sizeof wordpiece, .kind = "wordpiece", .vocab = SMALL "bert-vocab.txt"};

static tcc_tokenizer *open_tokenizer(tcc_tokenizer_options options) {
    tcc_tokenizer *t;
    options.size = sizeof options;
    assert_ok(tcc_tokenizer_open(&cx, &options, &t), &cx.diag);
    return t;
}

enum { CAPACITY = 1 << 17 };
static int32_t ids[CAPACITY];

static int64_t encode(tcc_tokenizer *t, const char *text, size_t length) {
    int64_t count;
    assert_ok(tcc_tokenizer_encode(&cx, t, text, length, ids, CAPACITY, &count), &cx.diag);
    assert_true(count <= CAPACITY);
    return count;
}

static void check_decoded(const tcc_tokenizer *t, int64_t count, const char *expected) {
    char *text;
    size_t length;
    assert_ok(tcc_tokenizer_decode(&cx, t, ids, count, &text, &length), &cx.diag);
    assert_int_equal(length, strlen(text));
    assert_string_equal(text, expected);
    tcc__free(text);
}

static void check_ids(int64_t count, const cJSON *expected, const char *text) {
    int64_t at = 0;
    for (const cJSON *id = expected->child; id; id = id->next, at++)
        if (at >= count || ids[at] != id->valueint)
            fail_msg("'%s': token %lld is %d, should be %d", text, (long long)at, at < count ? ids[at] : -1,
                     id->valueint);
    assert_int_equal(count, at);
}

/* Each text twice: found, and found again. The vocabulary gives back what was encoded. */
static void like_the_reference(void **state) {
    (void)state;
    tcc_tokenizer *pairs = open_tokenizer(gpt2), *pieces = open_tokenizer(wordpiece);
    size_t size;
    char *file = test_read(SMALL "expected.jsonl", &size), *line = file;
    int lines = 0;
    for (char *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        cJSON *row = cJSON_ParseWithLength(line, (size_t)(end - line));
        assert_non_null(row);
        const char *text = cJSON_GetObjectItem(row, "text")->valuestring;
        for (int again = 0; again < 2; again++) {
            int64_t count = encode(pairs, text, strlen(text));
            check_ids(count, cJSON_GetObjectItem(row, "gpt2"), text);
            check_decoded(pairs, count, text);
            count = encode(pieces, text, strlen(text));
            check_ids(count, cJSON_GetObjectItem(row, "wordpiece"), text);
            check_decoded(pieces, count, cJSON_GetObjectItem(row, "words")->valuestring);
        }
        cJSON_Delete(row);
    }
    assert_true(lines > 300);
    free(file);
    tcc_tokenizer_close(pairs);
    tcc_tokenizer_close(pieces);
}

static void characters_and_bytes(void **state) {
    const char *a = test_write_text(state, "a.txt", "héllo\n"), *b = test_write_text(state, "b.txt", "𝄞b");
    tcc_tokenizer *t = open_tokenizer(
        (tcc_tokenizer_options){.kind = "characters", .texts = (const char *const[]){a, b}, .n_texts = 2});
    assert_int_equal(tcc_tokenizer_vocab_size(t), 7); /* \n b h l o é 𝄞 */
    assert_int_equal(tcc_tokenizer_find(t, "é"), 5);
    assert_int_equal(encode(t, "olé𝄞", strlen("olé𝄞")), 4);
    assert_true(ids[0] == 4 && ids[1] == 3 && ids[2] == 5 && ids[3] == 6);
    check_decoded(t, 4, "olé𝄞");
    int64_t count;
    assert_error(tcc_tokenizer_encode(&cx, t, "hox", 3, ids, CAPACITY, &count), TCC_EINVAL, &cx.diag,
                 "character 'x' (U+0078) at byte 2 is not in the vocabulary");
    tcc_tokenizer_close(t);

    t = open_tokenizer((tcc_tokenizer_options){.kind = "bytes"});
    assert_int_equal(encode(t, "a\xff\0", 3), 3);
    assert_true(ids[0] == 'a' && ids[1] == 255 && ids[2] == 0 && tcc_tokenizer_vocab_size(t) == 256);
    tcc_tokenizer_close(t);
    tcc_diag_clear(&cx.diag);
}

/* From its description a tokenizer gives the same tokens, and describes itself the same, without its files. */
static void described(void **state) {
    const char *text = "The quick brown fox, isn't it? ";
    const tcc_tokenizer_options kinds[] = {
        gpt2, wordpiece, {.kind = "bytes"}, {.kind = "characters", .vocab = test_write(state, "a.txt", text, 32)}};
    for (int i = 0; i < 4; i++) {
        int32_t before[CAPACITY];
        char *first, *second;
        tcc_tokenizer *t = open_tokenizer(kinds[i]);
        const int64_t count = encode(t, text, strlen(text));
        memcpy(before, ids, (size_t)count * sizeof *ids);
        assert_ok(tcc_tokenizer_describe(&cx, t, &first), &cx.diag);
        tcc_tokenizer_close(t);
        t = open_tokenizer((tcc_tokenizer_options){.described = first});
        assert_int_equal(encode(t, text, strlen(text)), count);
        assert_memory_equal(ids, before, (size_t)count * sizeof *ids);
        assert_ok(tcc_tokenizer_describe(&cx, t, &second), &cx.diag);
        assert_string_equal(first, second);
        tcc_tokenizer_close(t);
        tcc__free(first);
        tcc__free(second);
    }
    const char *const bad[][2] = {{"", "is no JSON with its kind"},
                                  {"{\"kind\":3}", "is no JSON with its kind"},
                                  {"{\"kind\":\"none\"}", "tokenizer 'none' is unknown"},
                                  {"{\"kind\":\"gpt2\"}", "has no text 'vocab'"},
                                  {"{\"kind\":\"characters\"}", "has no list 'characters'"},
                                  {"{\"kind\":\"characters\",\"characters\":[1.5]}", "has character 1.5"},
                                  {"{\"kind\":\"characters\",\"characters\":[\"a\"]}", "has character -1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tcc_tokenizer_options o = {.size = sizeof o, .described = bad[i][0]};
        tcc_tokenizer *t;
        tcc_diag_clear(&cx.diag);
        assert_int_not_equal(tcc_tokenizer_open(&cx, &o, &t), TCC_OK);
        assert_null(t);
        if (!strstr(tcc_diag_text(&cx.diag), bad[i][1])) fail_msg("%s: %s", bad[i][0], tcc_diag_text(&cx.diag));
    }
    tcc_diag_clear(&cx.diag);
}

static void special_tokens(void **state) {
    (void)state;
    tcc_tokenizer *t = open_tokenizer(wordpiece);
    assert_int_equal(tcc_tokenizer_find(t, "[PAD]"), 0);
    assert_int_equal(tcc_tokenizer_find(t, "[CLS]"), 2);
    assert_int_equal(tcc_tokenizer_find(t, "[none]"), -1);
    size_t length;
    assert_memory_equal(tcc_tokenizer_token(t, 1, &length), "[UNK]", 5);
    assert_int_equal(length, 5);
    assert_null(tcc_tokenizer_token(t, tcc_tokenizer_vocab_size(t), &length));
    for (int64_t i = 0; i < encode(t, "[CLS]", 5); i++) assert_int_not_equal(ids[i], 2); /* it is text */
    tcc_tokenizer_close(t);
    t = open_tokenizer(gpt2);
    assert_int_equal(tcc_tokenizer_find(t, "<|endoftext|>"), 0);
    tcc_tokenizer_close(t);
}

/* A word without end takes time in proportion. */
static void a_long_word(void **state) {
    (void)state;
    enum { LENGTH = 1 << 17 };
    char *text = malloc(LENGTH);
    memset(text, 'e', LENGTH);
    tcc_tokenizer *t = open_tokenizer(gpt2);
    assert_true(encode(t, text, LENGTH) > 0);
    tcc_tokenizer_close(t);
    t = open_tokenizer(wordpiece);
    assert_int_equal(encode(t, text, LENGTH), 1);
    assert_int_equal(ids[0], 1);
    tcc_tokenizer_close(t);
    free(text);
}

static void refused(tcc_tokenizer_options options, tcc_status status, const char *part) {
    tcc_tokenizer *t;
    options.size = sizeof options;
    assert_error(tcc_tokenizer_open(&cx, &options, &t), status, &cx.diag, part);
    assert_null(t);
    tcc_diag_clear(&cx.diag);
}

/* A vocabulary of all bytes, and `more` behind them. */
static const char *write_vocab(void **state, const char *more) {
    tcc_strbuf b = {0};
    tcc_strbuf_add(&b, "{");
    for (int i = 0, next = 256; i < 256; i++) {
        bool printable = (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        tcc_strbuf_printf(&b, "%s\"\\u%04x\":%d", i ? "," : "", printable ? i : next++, i);
    }
    tcc_strbuf_printf(&b, "%s}", more);
    const char *path = test_write_text(state, "vocab.json", b.text);
    tcc_strbuf_free(&b);
    return path;
}

static void bad_files(void **state) {
    tcc_tokenizer_options o = {.kind = "gpt3"};
    refused(o, TCC_EINVAL, "tokenizer 'gpt3' is unknown; there are characters, bytes, gpt2, wordpiece");
    o = (tcc_tokenizer_options){.kind = "wordpiece"};
    refused(o, TCC_EINVAL, "needs vocab, the file vocab.txt");
    o.vocab = "none.txt";
    refused(o, TCC_ENOTFOUND, "none.txt");
    o.vocab = test_write_text(state, "v.txt", "a\nb\n");
    refused(o, TCC_EFORMAT, "has no line [UNK]");
    o.vocab = test_write_text(state, "v.txt", "[UNK]\nb\n\xff\n");
    refused(o, TCC_EFORMAT, "v.txt:3: error: the token is not UTF-8");

    o = (tcc_tokenizer_options){.kind = "gpt2", .vocab = write_vocab(state, ",\"th\":256")};
    refused(o, TCC_EINVAL, "needs merges");
    o.merges = test_write_text(state, "m.txt", "#version: 0.2\nt h\nth\n");
    refused(o, TCC_EFORMAT, "m.txt:3: error: 'th' is not two tokens");
    o.merges = test_write_text(state, "m.txt", "t h\nt h\n");
    refused(o, TCC_EFORMAT, "m.txt:2: error: the same pair is merge 1 already");
    o.merges = test_write_text(state, "m.txt", "z \xc4\xa0\n");
    refused(o, TCC_EFORMAT, "m.txt:1: error: the token that both make is not in the vocabulary");
    o.vocab = test_write_text(state, "w.json", "{\"a\": 0, \"b\" 1}");
    refused(o, TCC_EFORMAT, "malformed JSON at byte 13");
    o.vocab = test_write_text(state, "w.json", "[1]");
    refused(o, TCC_EFORMAT, "is not an object");
    o.vocab = test_write_text(state, "w.json", "{\"a\": 0, \"b\": 0}");
    refused(o, TCC_EFORMAT, "token \"b\" has number 0, as an earlier one has");
    o.vocab = test_write_text(state, "w.json", "{\"a\": 0, \"b\": 1.5}");
    refused(o, TCC_EFORMAT, "token \"b\" has no number from 0");
    o.vocab = test_write_text(state, "w.json", "{\"a\": 0, \"b\": 2}");
    refused(o, TCC_EFORMAT, "no token has number 1");
    o.vocab = test_write_text(state, "w.json", "{\"a\": 0, \"b\": 1}");
    refused(o, TCC_EFORMAT, "has no token for byte 0x00");
    o.vocab = write_vocab(state, ",\"th\":256");
    o.merges = test_write_text(state, "m.txt", "t h\n");
    tcc_tokenizer *t = open_tokenizer(o);
    assert_int_equal(encode(t, "thth", 4), 2);
    assert_int_equal(ids[1], 256);
    int64_t count;
    assert_error(tcc_tokenizer_encode(&cx, t, "ab\xc3", 3, ids, CAPACITY, &count), TCC_EINVAL, &cx.diag,
                 "the text is not UTF-8 at byte 2 (0xc3)");
    char *text;
    size_t length;
    assert_error(tcc_tokenizer_decode(&cx, t, (int32_t[]){1, 257}, 2, &text, &length), TCC_EINVAL, &cx.diag,
                 "token 257 at 1");
    tcc_tokenizer_close(t);
    tcc_diag_clear(&cx.diag);
}

/* Where each allocation in turn fails, opening and encoding end in TCC_ENOMEM, until none does. */
static void out_of_memory(void **state) {
    const char *a = test_write_text(state, "a.txt", "ab");
    const tcc_tokenizer_options options[] = {gpt2,
                                             wordpiece,
                                             {.size = sizeof gpt2, .kind = "characters", .vocab = a},
                                             {.size = sizeof gpt2, .kind = "bytes"}};
    for (int i = 0; i < 4; i++) {
        tcc_status status = TCC_ENOMEM;
        for (int64_t n = 0; status != TCC_OK; n++) {
            assert_true(n < 200);
            tcc_tokenizer *t;
            int64_t count;
            tcc_diag_clear(&cx.diag);
            tcc__alloc_fail_at(n);
            status = tcc_tokenizer_open(&cx, &options[i], &t);
            if (status == TCC_OK) status = tcc_tokenizer_encode(&cx, t, "abba", 4, ids, CAPACITY, &count);
            tcc__alloc_fail_at(-1);
            tcc_tokenizer_close(t);
            if (status != TCC_OK) assert_int_equal(status, TCC_ENOMEM);
        }
    }
    tcc_diag_clear(&cx.diag);
}

/* A text cut where its kind says so has the same tokens. */
static void cuts(void **state) {
    (void)state;
    size_t size;
    char *text = test_read(SMALL "expected.jsonl", &size);
    static int32_t parts[CAPACITY];
    const tcc_tokenizer_options options[] = {
        gpt2, wordpiece, {.kind = "characters", .vocab = SMALL "expected.jsonl"}, {.kind = "bytes"}};
    for (int i = 0; i < 4; i++) {
        tcc_tokenizer *t = open_tokenizer(options[i]);
        int64_t whole = encode(t, text, size), count = 0, more;
        for (size_t at = 0, cut; at < size; at += cut) {
            size_t piece = size - at < 1000 ? size - at : 1000;
            cut = t->kind->cut((const uint8_t *)text + at, piece);
            assert_true(cut <= piece && (cut || piece < 1000));
            if (piece < 1000) cut = piece;
            assert_ok(tcc_tokenizer_encode(&cx, t, text + at, cut, parts + count, CAPACITY - count, &more), &cx.diag);
            count += more;
        }
        assert_int_equal(count, whole);
        assert_memory_equal(parts, ids, (size_t)count * sizeof *ids);
        tcc_tokenizer_close(t);
    }
    free(text);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_the_reference),
        FOLDER_TEST(characters_and_bytes),
        FOLDER_TEST(described),
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(a_long_word),
        FOLDER_TEST(bad_files),
        FOLDER_TEST(out_of_memory),
        cmocka_unit_test(cuts),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
