/* SPDX-License-Identifier: MIT
 * Loaders of texts: rows as long as a batch needs, and batches of texts of like length. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 331, BATCH = 8, CONTEXT = 112, FIRST_WORD = 3 };

static tcc_context cx;

/* Text i is word i, between 1 and 130 times, most of them few. */
static int length_of(int i) { return i % 7 == 3 ? 60 + i * 13 % 71 : 1 + i * 5 % 23; }

static tcc_dataset *write_data(void **state) {
    char *text = malloc(COUNT * 1000), *vocab = malloc(COUNT * 10);
    size_t length = 0, size = (size_t)sprintf(vocab, "[UNK]\n[CLS]\n[SEP]\n");
    for (int i = 0; i < COUNT; i++) {
        size += (size_t)sprintf(vocab + size, "w%d\n", i);
        length += (size_t)sprintf(text + length, "%d\t", i % 2);
        for (int j = 0; j < length_of(i); j++) length += (size_t)sprintf(text + length, "w%d ", i);
        text[length++] = '\n';
    }
    tcc_data_options o = {.size = sizeof o,
                          .kind = "text_classes",
                          .path = test_write(state, "texts.tsv", text, length),
                          .vocab = test_write(state, "vocab.txt", vocab, size),
                          .context = CONTEXT,
                          .val_split = -1};
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &o, &data), &cx.diag);
    free(text);
    free(vocab);
    return data;
}

static tcc_loader *loader_of(const tcc_dataset *data, tcc_loader_options o) {
    tcc_loader *l;
    o.size = sizeof o;
    o.batch_size = BATCH;
    assert_ok(tcc_loader_create(&cx, data, &o, &l), &cx.diag);
    return l;
}

static const tcc_batch *next(tcc_loader *l) {
    const tcc_batch *batch;
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    return batch;
}

/* Which text a row is, which is there as a whole, with padding behind it; returns its tokens. */
static int64_t check_row(const int32_t *row, int64_t length, int *text) {
    *text = row[1] - FIRST_WORD;
    int64_t tokens = length_of(*text) + 2 < CONTEXT ? length_of(*text) + 2 : CONTEXT;
    assert_true(tokens <= length && row[0] == 1 && row[tokens - 1] == 2);
    for (int64_t i = 1; i < tokens - 1; i++) assert_int_equal(row[i], row[1]);
    for (int64_t i = tokens; i < length; i++) assert_int_equal(row[i], -1);
    return tokens;
}

typedef struct epoch {
    bool seen[COUNT];
    int64_t tokens, padded, batches, longest_of[COUNT / BATCH + 1], rows_of[COUNT / BATCH + 1];
} epoch;

static bool has_shape(const tcc_loader *l, const tcc_batch *b) {
    tcc_array shape[2];
    for (int i = 0; tcc_loader_shape(l, i, shape); i++) {
        assert_true(shape[0].rank == 2 && shape[1].rank == 1 && shape[0].dims[0] == shape[1].dims[0]);
        if (!memcmp(shape[0].dims, b->arrays[0].dims, 2 * sizeof shape[0].dims[0])) return true;
    }
    return false;
}

/* Takes an epoch's batches: each text comes once, in a shape that was announced. */
static void take_epoch(tcc_loader *l, epoch *e) {
    const tcc_batch *b;
    memset(e, 0, sizeof *e);
    do {
        b = next(l);
        const int64_t length = b->arrays[0].dims[1];
        assert_true(has_shape(l, b) && length <= CONTEXT);
        for (int64_t i = 0; i < b->count; i++) {
            int text;
            int64_t tokens = check_row((const int32_t *)b->arrays[0].data + i * length, length, &text);
            assert_false(e->seen[text]);
            assert_int_equal(((const int32_t *)b->arrays[1].data)[i], text % 2);
            e->seen[text] = true;
            e->tokens += tokens;
            if (tokens > e->longest_of[e->batches]) e->longest_of[e->batches] = tokens;
        }
        e->padded += b->count * length;
        e->rows_of[e->batches++] = b->count;
    } while (!b->ends_epoch);
}

static void every_text_once(void **state) {
    tcc_dataset *data = write_data(state);
    int64_t padded[3];
    for (int padding = TCC_PADDING_FIXED; padding <= TCC_PADDING_UNIFORM; padding++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            tcc_loader *l = loader_of(data, (tcc_loader_options){.shuffle = shuffle,
                                                                 .num_workers = 2,
                                                                 .last_batch = TCC_LAST_KEEP,
                                                                 .seed = 5,
                                                                 .padding = (tcc_padding)padding});
            tcc_padding_info info;
            assert_true(tcc_loader_padding(l, &info));
            for (int i = 0; i < 3; i++) {
                epoch e;
                take_epoch(l, &e);
                for (int t = 0; t < COUNT; t++) assert_true(e.seen[t]);
                if (i) continue;
                assert_int_equal(e.tokens, info.tokens);
                assert_int_equal(e.padded, info.padded);
                assert_int_equal(info.fixed, COUNT * CONTEXT);
                padded[padding] = e.padded;
            }
            tcc_loader_destroy(l);
        }
    assert_true(padded[TCC_PADDING_FIXED] == COUNT * CONTEXT && padded[1] < padded[0] && 2 * padded[2] < padded[1]);
    tcc_dataset_close(data);
}

static void same_batch(const tcc_batch *a, const tcc_batch *b) {
    assert_memory_equal(a->arrays[0].dims, b->arrays[0].dims, 2 * sizeof a->arrays[0].dims[0]);
    size_t size = (size_t)(a->arrays[0].dims[0] * a->arrays[0].dims[1]) * sizeof(int32_t);
    assert_memory_equal(a->arrays[0].data, b->arrays[0].data, size);
    assert_memory_equal(a->arrays[1].data, b->arrays[1].data, (size_t)a->arrays[0].dims[0] * sizeof(int32_t));
}

/* Neither workers nor where one goes on change what comes. Another seed does. */
static void same_whoever_reads(void **state) {
    tcc_dataset *data = write_data(state);
    for (int padding = TCC_PADDING_DYNAMIC; padding <= TCC_PADDING_UNIFORM; padding++) {
        tcc_loader_options o = {.shuffle = true, .seed = 9, .padding = (tcc_padding)padding};
        tcc_loader *alone = loader_of(data, o);
        o.num_workers = 4;
        tcc_loader *many = loader_of(data, o), *late = loader_of(data, o);
        for (int64_t i = 0; i < 3 * tcc_loader_batches(alone); i++) {
            const tcc_batch *a = next(alone);
            same_batch(a, next(many));
            if (i % 17) continue;
            assert_ok(tcc_loader_set_state(late, (tcc_loader_state){9, a->epoch, a->index}), &cx.diag);
            same_batch(a, next(late));
        }
        o.seed = 10;
        tcc_loader *other = loader_of(data, o);
        assert_memory_not_equal(next(alone)->arrays[0].data, next(other)->arrays[0].data, 3 * sizeof(int32_t));
        tcc_loader_destroy(alone);
        tcc_loader_destroy(many);
        tcc_loader_destroy(late);
        tcc_loader_destroy(other);
    }
    tcc_dataset_close(data);
}

/* With two lengths: no other shorter one has less padding in the first epoch. */
static void lengths_are_the_best(void **state) {
    tcc_dataset *data = write_data(state);
    for (int padding = TCC_PADDING_DYNAMIC; padding <= TCC_PADDING_UNIFORM; padding++) {
        tcc_loader *l = loader_of(data, (tcc_loader_options){.shuffle = true,
                                                             .last_batch = TCC_LAST_KEEP,
                                                             .seed = 2,
                                                             .padding = (tcc_padding)padding,
                                                             .lengths = 2});
        epoch e;
        take_epoch(l, &e);
        int64_t least = INT64_MAX;
        for (int64_t shorter = 8; shorter <= CONTEXT; shorter += 8) {
            int64_t cost = 0;
            for (int64_t i = 0; i < e.batches; i++)
                cost += e.rows_of[i] * (e.longest_of[i] <= shorter ? shorter : CONTEXT);
            least = cost < least ? cost : least;
        }
        assert_int_equal(e.padded, least);
        tcc_loader_destroy(l);
    }
    tcc_dataset_close(data);
}

/* Whole batches of the longest rows come last; without shuffling, only what occurs. */
static void shapes(void **state) {
    tcc_dataset *data = write_data(state);
    tcc_array shape[2];
    tcc_loader *l = loader_of(
        data, (tcc_loader_options){
                  .shuffle = true, .last_batch = TCC_LAST_KEEP, .padding = TCC_PADDING_UNIFORM, .lengths = 3});
    static const int64_t rows[6] = {COUNT % BATCH, COUNT % BATCH, COUNT % BATCH, BATCH, BATCH, BATCH};
    for (int i = 0; i < 6; i++) {
        assert_true(tcc_loader_shape(l, i, shape));
        assert_true(shape[0].dims[0] == rows[i] && shape[1].dims[0] == rows[i]);
    }
    assert_int_equal(shape[0].dims[1], CONTEXT);
    assert_false(tcc_loader_shape(l, 6, shape));
    tcc_loader_destroy(l);
    l = loader_of(data,
                  (tcc_loader_options){.last_batch = TCC_LAST_KEEP, .padding = TCC_PADDING_UNIFORM, .lengths = 3});
    assert_true(tcc_loader_shape(l, 3, shape) && !tcc_loader_shape(l, 4, shape)); /* one left over */
    tcc_loader_destroy(l);
    l = loader_of(data, (tcc_loader_options){.last_batch = TCC_LAST_DROP});
    assert_true(tcc_loader_shape(l, 0, shape) && shape[0].dims[0] == BATCH && shape[0].dims[1] == CONTEXT);
    assert_false(tcc_loader_shape(l, 1, shape));
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void bad_options(void **state) {
    tcc_dataset *data = write_data(state);
    tcc_loader_options o = {.size = sizeof o, .batch_size = BATCH, .padding = (tcc_padding)3};
    tcc_loader *l;
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag, "padding is 3; it must be from 0 to 2");
    o.padding = TCC_PADDING_DYNAMIC, o.lengths = 33;
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag, "lengths is 33; it must be from 0 to 32");
    tcc_dataset_close(data);
    tcc_data_options csv = {
        .size = sizeof csv, .kind = "csv", .path = test_write_text(state, "a.csv", "1,x\n2,y\n1,x\n"), .val_split = -1};
    tcc_diag_clear(&cx.diag);
    assert_ok(tcc_dataset_open(&cx, &csv, &data), &cx.diag);
    o = (tcc_loader_options){.size = sizeof o, .batch_size = 2, .padding = TCC_PADDING_DYNAMIC};
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag,
                 "samples of kind csv are all of one length");
    tcc_diag_clear(&cx.diag);
    tcc_padding_info info;
    o.padding = TCC_PADDING_FIXED;
    assert_ok(tcc_loader_create(&cx, data, &o, &l), &cx.diag);
    assert_false(tcc_loader_padding(l, &info));
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {FOLDER_TEST(every_text_once), FOLDER_TEST(same_whoever_reads),
                                       FOLDER_TEST(lengths_are_the_best), FOLDER_TEST(shapes),
                                       FOLDER_TEST(bad_options)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
