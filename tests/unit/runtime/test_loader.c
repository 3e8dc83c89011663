/* SPDX-License-Identifier: MIT
 * Loaders: what a batch holds depends on seed, epoch and number alone; a resumed loader goes on
 * where it stood. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "runtime/data/draw.h"
#include "traincc/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tcc_context cx;

/* A CSV file whose row i is (i, label i mod 3); standardized by (i - mean) / std, which row_of
 * undoes. */
static tcc_dataset *rows(void **state, int count, double val_split) {
    char *text = malloc((size_t)count * 16 + 1);
    size_t used = 0;
    for (int i = 0; i < count; i++) used += (size_t)sprintf(text + used, "%d,%d\n", i, i % 3);
    tcc_data_options options = {.size = sizeof options,
                                .kind = "csv",
                                .path = test_write(state, "rows.csv", text, used),
                                .val_split = val_split};
    free(text);
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    return data;
}

static int row_of(const tcc_dataset *data, const tcc_batch *batch, int64_t i) {
    double mean, std;
    assert_true(tcc_dataset_feature(data, 0, NULL, &mean, &std));
    double x = (double)((const float *)batch->arrays[0].data)[i] * std + mean;
    int row = (int)(x + 0.5);
    assert_int_equal(((const int32_t *)batch->arrays[1].data)[i], row % 3);
    return row;
}

static tcc_loader *loader_of(const tcc_dataset *data, tcc_loader_options options) {
    options.size = sizeof options;
    tcc_loader *l;
    assert_ok(tcc_loader_create(&cx, data, &options, &l), &cx.diag);
    return l;
}

/* The rows of the next `batches` batches, one after the other. */
static void collect(const tcc_dataset *data, tcc_loader *l, int batches, int *out) {
    for (int b = 0; b < batches; b++) {
        const tcc_batch *batch;
        assert_ok(tcc_loader_next(l, &batch), &cx.diag);
        assert_true((uintptr_t)batch->arrays[0].data % 64 == 0 && (uintptr_t)batch->arrays[1].data % 64 == 0);
        for (int64_t i = 0; i < batch->arrays[0].dims[0]; i++) *out++ = row_of(data, batch, i);
    }
}

static void permutations(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000};
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k];
        bool seen[1000] = {false};
        tcc__permutation p = tcc__permutation_of(n, 42, TCC__DRAW_ORDER, 7);
        for (int64_t i = 0; i < n; i++) {
            int64_t j = tcc__permute(&p, i);
            assert_true(j >= 0 && j < n && !seen[j]);
            seen[j] = true;
        }
    }
    /* Every element comes to every place about equally often: chi-square with 81 degrees of freedom
     * stays below 126 (p = 0.001). */
    int counts[10][10] = {{0}};
    for (int epoch = 0; epoch < 10000; epoch++) {
        tcc__permutation p = tcc__permutation_of(10, 1, TCC__DRAW_ORDER, epoch);
        for (int i = 0; i < 10; i++) counts[i][tcc__permute(&p, i)]++;
    }
    double chi = 0;
    for (int i = 0; i < 100; i++) chi += (counts[i / 10][i % 10] - 1000.0) * (counts[i / 10][i % 10] - 1000.0) / 1000;
    assert_true(chi < 126);
}

static void an_epoch_has_every_sample_once(void **state) {
    tcc_dataset *data = rows(state, 103, -1);
    tcc_loader *l = loader_of(
        data, (tcc_loader_options){
                  .batch_size = 10, .num_workers = 2, .shuffle = true, .seed = 5, .last_batch = TCC_LAST_KEEP});
    assert_int_equal(tcc_loader_batches(l), 11);
    int first[103], second[103], sums[103] = {0};
    collect(data, l, 11, first);
    collect(data, l, 11, second);
    for (int i = 0; i < 103; i++) sums[first[i]]++, sums[second[i]]++;
    for (int i = 0; i < 103; i++) assert_int_equal(sums[i], 2);
    assert_memory_not_equal(first, second, sizeof first);
    tcc_loader_destroy(l);
    l = loader_of(data, (tcc_loader_options){.batch_size = 103});
    collect(data, l, 1, first);
    for (int i = 0; i < 103; i++) assert_int_equal(first[i], i);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void workers_do_not_show(void **state) {
    tcc_dataset *data = rows(state, 200, 0);
    enum { BATCHES = 60, SIZE = 7 };
    int expected[BATCHES * SIZE], got[BATCHES * SIZE];
    tcc_loader *l = loader_of(data, (tcc_loader_options){.batch_size = SIZE, .shuffle = true, .seed = 9});
    collect(data, l, BATCHES, expected);
    tcc_loader_destroy(l);
    for (int workers = 1; workers <= 4; workers++) {
        for (int prefetch = 0; prefetch < 3; prefetch++) {
            l = loader_of(
                data,
                (tcc_loader_options){
                    .batch_size = SIZE, .shuffle = true, .seed = 9, .num_workers = workers, .prefetch = prefetch});
            collect(data, l, BATCHES, got);
            tcc_loader_destroy(l);
            assert_memory_equal(expected, got, sizeof got);
        }
    }
    l = loader_of(data, (tcc_loader_options){.batch_size = SIZE, .shuffle = true, .seed = 10});
    collect(data, l, BATCHES, got);
    assert_memory_not_equal(expected, got, sizeof got);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

/* Batches that are held stay as they were given, however far the workers are ahead; the memory of all is told. */
static void held_batches_stay(void **state) {
    enum { BATCHES = 40, SIZE = 5, HELD = 3 };
    tcc_dataset *data = rows(state, 60, 0);
    int expected[BATCHES * SIZE];
    tcc_loader *l = loader_of(data, (tcc_loader_options){.batch_size = SIZE, .shuffle = true, .seed = 9});
    collect(data, l, BATCHES, expected);
    tcc_loader_destroy(l);
    for (int workers = 0; workers <= 2; workers++) {
        l = loader_of(data, (tcc_loader_options){
                                .batch_size = SIZE, .shuffle = true, .seed = 9, .num_workers = workers, .held = HELD});
        tcc_batch given[BATCHES];
        for (int b = 0; b < BATCHES; b++) {
            const tcc_batch *batch;
            assert_ok(tcc_loader_next(l, &batch), &cx.diag);
            given[b] = *batch;
            if (workers) usleep(500);
            for (int back = 0; back <= HELD && back <= b; back++)
                for (int i = 0; i < SIZE; i++)
                    assert_int_equal(row_of(data, &given[b - back], i), expected[(b - back) * SIZE + i]);
        }
        void *memory;
        size_t bytes;
        int pieces = 0, found = 0;
        for (; tcc_loader_memory(l, pieces, &memory, &bytes); pieces++) {
            const char *begin = memory, *x = given[BATCHES - 1].arrays[0].data, *y = given[BATCHES - 1].arrays[1].data;
            assert_true((uintptr_t)begin % 4096 == 0 && bytes % 4096 == 0);
            found += x >= begin && x < begin + bytes && y >= begin && y + SIZE * sizeof(int32_t) <= begin + bytes;
        }
        assert_int_equal(pieces, 1 + HELD + 2 * workers);
        assert_int_equal(found, 1);
        tcc_loader_destroy(l);
    }
    const tcc_loader_options bad = {.size = sizeof bad, .batch_size = SIZE, .held = -1};
    assert_int_equal(tcc_loader_create(&cx, data, &bad, &l), TCC_EINVAL);
    tcc_diag_clear(&cx.diag);
    tcc_dataset_close(data);
}

/* Parts of a batch one behind the other are the batch, the smaller last one of an epoch too. */
static void parts_are_the_batch(void **state) {
    tcc_dataset *data = rows(state, 103, -1);
    enum { PARTS = 3, BATCHES = 24, SIZE = 10 };
    tcc_loader_options how = {.batch_size = SIZE, .shuffle = true, .seed = 9, .last_batch = TCC_LAST_KEEP};
    tcc_loader *whole = loader_of(data, how), *parts[PARTS];
    for (int p = 0; p < PARTS; p++) {
        how.parts = PARTS;
        how.part = p;
        how.num_workers = p;
        parts[p] = loader_of(data, how);
        assert_int_equal(tcc_loader_batches(parts[p]), tcc_loader_batches(whole));
    }
    for (int b = 0; b < BATCHES; b++) {
        const tcc_batch *batch;
        int expected[SIZE], got[SIZE];
        int64_t n = 0;
        assert_ok(tcc_loader_next(whole, &batch), &cx.diag);
        const int64_t count = batch->count;
        for (int64_t i = 0; i < count; i++) expected[i] = row_of(data, batch, i);
        for (int p = 0; p < PARTS; p++) {
            tcc_array shape[2];
            assert_ok(tcc_loader_next(parts[p], &batch), &cx.diag);
            assert_int_equal(batch->count, batch->arrays[0].dims[0]);
            assert_true(batch->count == (p < PARTS - 1 ? (count + PARTS - 1) / PARTS : count - n));
            assert_true(tcc_loader_shape(parts[p], count == SIZE, shape));
            assert_int_equal(shape[0].dims[0], batch->count);
            for (int64_t i = 0; i < batch->count; i++) got[n++] = row_of(data, batch, i);
        }
        assert_int_equal(n, count);
        assert_memory_equal(got, expected, (size_t)n * sizeof *got);
    }
    for (int p = 0; p < PARTS; p++) tcc_loader_destroy(parts[p]);
    tcc_loader_destroy(whole);
    tcc_dataset_close(data);
}

static void resuming(void **state) {
    tcc_dataset *data = rows(state, 50, 0);
    int expected[30 * 4], got[30 * 4];
    for (int workers = 0; workers <= 3; workers++) {
        tcc_loader *l =
            loader_of(data, (tcc_loader_options){.batch_size = 4, .shuffle = true, .seed = 3, .num_workers = workers});
        collect(data, l, 17, got);
        tcc_loader_state at = tcc_loader_get_state(l);
        assert_true(at.seed == 3 && at.epoch == 1 && at.index == 17 - 11);
        collect(data, l, 30, expected);
        tcc_loader *other =
            loader_of(data, (tcc_loader_options){.batch_size = 4, .shuffle = true, .seed = 77, .num_workers = workers});
        for (int again = 0; again < 20; again++) { /* again and again while the workers are busy */
            assert_ok(tcc_loader_set_state(other, at), &cx.diag);
            collect(data, other, again == 19 ? 30 : again % 3, got);
        }
        assert_memory_equal(expected, got, sizeof got);
        at.index = 11;
        assert_error(tcc_loader_set_state(other, at), TCC_EINVAL, &cx.diag, "no batch 11 in epoch 1; an epoch has 11");
        tcc_diag_clear(&cx.diag);
        tcc_loader_destroy(l);
        tcc_loader_destroy(other);
    }
    tcc_dataset_close(data);
}

static void the_last_batch(void **state) {
    tcc_dataset *data = rows(state, 10, -1);
    tcc_loader *l = loader_of(data, (tcc_loader_options){.batch_size = 8, .last_batch = TCC_LAST_PAD});
    const tcc_batch *batch;
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    assert_true(batch->count == 8 && batch->index == 0 && !batch->ends_epoch);
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    assert_true(batch->count == 2 && batch->arrays[0].dims[0] == 8 && batch->ends_epoch);
    for (int i = 0; i < 8; i++) assert_int_equal(row_of(data, batch, i), 8 + i % 2);
    tcc_loader_destroy(l);
    l = loader_of(data, (tcc_loader_options){.batch_size = 8, .last_batch = TCC_LAST_KEEP});
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    assert_true(batch->count == 2 && batch->arrays[0].dims[0] == 2 && batch->arrays[1].dims[0] == 2);
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    assert_true(batch->count == 8 && batch->arrays[0].dims[0] == 8 && batch->epoch == 1);
    tcc_loader_destroy(l);
    l = loader_of(data, (tcc_loader_options){.batch_size = 8, .last_batch = TCC_LAST_DROP});
    assert_int_equal(tcc_loader_batches(l), 1);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void bad_options(void **state) {
    tcc_dataset *data = rows(state, 10, -1);
    tcc_loader *l;
    tcc_loader_options o = {.size = sizeof o, .batch_size = 11};
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag,
                 "has 10 samples, too few for one batch of 11");
#define REFUSED(field, value, part)                              \
    o = (tcc_loader_options){.size = sizeof o, .batch_size = 1}; \
    o.field = value;                                             \
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag, part)
    REFUSED(batch_size, 0, "batch_size is 0; it must be from 1 to 2147483647");
    REFUSED(batch_size, INT64_MIN, "batch_size is -9223372036854775808; it must be");
    REFUSED(num_workers, -1, "num_workers is -1; it must be from 0 to 1024");
    REFUSED(prefetch, -2, "prefetch is -2; it must be from 0 to 65536");
    REFUSED(held, 1025, "held is 1025; it must be from 0 to 1024");
    REFUSED(split, (tcc_split)-1, "split is -1; it must be from 0 to 1");
    REFUSED(last_batch, (tcc_last_batch)3, "last_batch is 3; it must be from 0 to 2");
    REFUSED(parts, -1, "parts is -1; it must be from 0 to 2147483647");
    REFUSED(part, 1, "part is 1; it must be from 0 to 0");
    REFUSED(parts, 2, "a batch of 1 samples in 2 parts leaves one without samples; take larger batches");
    o = (tcc_loader_options){.size = sizeof o, .batch_size = 8, .parts = 2, .last_batch = TCC_LAST_PAD};
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag, "cannot be filled up");
    o = (tcc_loader_options){.size = sizeof o, .batch_size = 9, .parts = 3, .last_batch = TCC_LAST_KEEP};
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag,
                 "the last batch of an epoch, of 1 samples in 3 parts leaves one without samples; drop it");
    o = (tcc_loader_options){.size = offsetof(tcc_loader_options, parts), .batch_size = 1, .parts = -1};
    assert_ok(tcc_loader_create(&cx, data, &o, &l), &cx.diag); /* of a caller that knows no parts */
    tcc_loader_destroy(l);
    o = (tcc_loader_options){.size = sizeof o, .batch_size = 1};
#undef REFUSED
    o.last_batch = TCC_LAST_DROP, o.split = TCC_SPLIT_VALIDATION;
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag, "no validation part");
    o.size = 3;
    assert_error(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL, &cx.diag, "size is 3");
    tcc_dataset_close(data);
    tcc_diag_clear(&cx.diag);
}

/* A file of tokens is read as it is used: one that shrinks meanwhile is an error of the worker that
 * meets it. */
static void errors_of_workers_come_out(void **state) {
    uint16_t tokens[1000] = {0};
    const char *path = test_write(state, "tokens.bin", tokens, sizeof tokens);
    for (int workers = 0; workers <= 2; workers++) {
        test_write(state, "tokens.bin", tokens, sizeof tokens);
        tcc_data_options options = {
            .size = sizeof options, .kind = "tokens", .path = path, .context = 9, .val_split = -1};
        tcc_dataset *data;
        assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
        assert_int_equal(truncate(path, 1000), 0);
        tcc_loader *l = loader_of(data, (tcc_loader_options){.batch_size = 10, .num_workers = workers});
        const tcc_batch *batch;
        for (int i = 0; i < 5; i++) assert_ok(tcc_loader_next(l, &batch), &cx.diag); /* 5 x 10 x 9 tokens */
        for (int again = 0; again < 3; again++) {
            assert_error(tcc_loader_next(l, &batch), TCC_EIO, &cx.diag,
                         "tokens.bin: error: the file ends at byte 1000");
            assert_null(batch);
        }
        tcc_diag_clear(&cx.diag);
        tcc_loader_destroy(l);
        tcc_dataset_close(data);
    }
}

static void destroyed_while_busy(void **state) {
    tcc_dataset *data = rows(state, 500, 0);
    for (int i = 0; i < 50; i++) {
        tcc_loader *l = loader_of(data, (tcc_loader_options){.batch_size = 50, .num_workers = 3, .shuffle = true});
        const tcc_batch *batch;
        for (int j = 0; j < i % 4; j++) assert_ok(tcc_loader_next(l, &batch), &cx.diag);
        tcc_loader_destroy(l);
    }
    tcc_dataset_close(data);
}

static void out_of_memory(void **state) {
    tcc_dataset *data = rows(state, 10, -1);
    for (int64_t n = 0;; n++) {
        tcc_diag_clear(&cx.diag);
        tcc_loader_options o = {.size = sizeof o, .batch_size = 2, .num_workers = 2};
        tcc_loader *l;
        tcc__alloc_fail_at(n);
        tcc_status status = tcc_loader_create(&cx, data, &o, &l);
        tcc__alloc_fail_at(-1);
        tcc_loader_destroy(l);
        if (status == TCC_OK) break;
        assert_int_equal(status, TCC_ENOMEM);
        assert_true(n < 100);
    }
    tcc_dataset_close(data);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations),
        FOLDER_TEST(an_epoch_has_every_sample_once),
        FOLDER_TEST(workers_do_not_show),
        FOLDER_TEST(held_batches_stay),
        FOLDER_TEST(parts_are_the_batch),
        FOLDER_TEST(resuming),
        FOLDER_TEST(the_last_batch),
        FOLDER_TEST(bad_options),
        FOLDER_TEST(errors_of_workers_come_out),
        FOLDER_TEST(destroyed_while_busy),
        FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
