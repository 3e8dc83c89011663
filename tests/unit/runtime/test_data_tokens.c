/* SPDX-License-Identifier: MIT
 * Data kind tokens: headers of files, and several files as one set. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 120, HEADER = 1024 };

static tcc_context cx;

static tcc_data_options tokens(const char *path) {
    return (tcc_data_options){
        .size = sizeof(tcc_data_options), .kind = "tokens", .path = path, .context = 4, .val_split = -1};
}

/* Tokens first, first + 1, ... of so many bytes each. */
static void put(uint8_t *to, int first, int count, int bytes) {
    memset(to, 0, (size_t)(count * bytes));
    for (int i = 0; i < count; i++) to[i * bytes] = (uint8_t)(first + i);
}

static const char *write_numpy(void **state, const char *type, int bytes, const char *shape) {
    uint8_t file[128 + TOKENS * 8] = "\x93NUMPY\1";
    char header[120];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memset(file + 8, ' ', 120);
    file[8] = 118;
    file[9] = 0;
    memcpy(file + 10, header, strlen(header));
    file[127] = '\n';
    put(file + 128, 0, TOKENS, bytes);
    return test_write(state, "t.npy", file, (size_t)(128 + TOKENS * bytes));
}

static const char *write_shard(void **state, const char *name, uint32_t magic, uint32_t version, int first, int bytes) {
    uint8_t file[HEADER + TOKENS * 4] = {0};
    const uint32_t header[3] = {magic, version, TOKENS};
    memcpy(file, header, sizeof header);
    put(file + HEADER, first, TOKENS, bytes);
    return test_write(state, name, file, (size_t)(HEADER + TOKENS * bytes));
}

/* The data set has tokens 0, 1, 2, ... */
static void expect_tokens(const char *path, int64_t count) {
    tcc_data_options options = tokens(path);
    tcc_dataset *data;
    tcc_dataset_info info;
    tcc_loader *l;
    const tcc_batch *batch;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.tokens[0], count);
    assert_int_equal(info.classes, count);
    tcc_loader_options how = {.size = sizeof how, .batch_size = info.samples[0]};
    assert_ok(tcc_loader_create(&cx, data, &how, &l), &cx.diag);
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    for (int64_t i = 0; i < 4 * info.samples[0]; i++) {
        assert_int_equal(((const int32_t *)batch->arrays[0].data)[i], i);
        assert_int_equal(((const int32_t *)batch->arrays[1].data)[i], i + 1);
    }
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void arrays_of_numpy(void **state) {
    static const struct {
        const char *type;
        int bytes;
    } types[] = {{"<u2", 2}, {"<u4", 4}, {"<i4", 4}, {"<i8", 8}};
    for (int i = 0; i < 4; i++) expect_tokens(write_numpy(state, types[i].type, types[i].bytes, "(120,)"), TOKENS);
    expect_tokens(write_numpy(state, "<u2", 2, "(10, 12)"), TOKENS);
    dataset_refused(&cx, tokens(write_numpy(state, "<f4", 4, "(120,)")), TCC_EFORMAT,
                    "t.npy: error: its .npy elements are of type '<f4'; tokens are '<u2', '<u4', '<i4' or '<i8'");
    dataset_refused(&cx, tokens(write_numpy(state, ">u2", 2, "(120,)")), TCC_EFORMAT, "of type '>u2'");
    dataset_refused(&cx, tokens(write_numpy(state, "<u2", 2, "(121,)")), TCC_EFORMAT,
                    "its npy header says that there are 121 tokens, but there are 120");
    dataset_refused(&cx, tokens(write_numpy(state, "<u2", 2, "120")), TCC_EFORMAT, "its .npy header is damaged");
    tcc_data_options options = tokens(write_numpy(state, "<u2", 2, "(120,)"));
    options.token_bytes = 4;
    dataset_refused(&cx, options, TCC_EINVAL,
                    "its npy header says that tokens have 2 bytes, token_bytes that they have 4");
}

static void shards_are_one_set(void **state) {
    expect_tokens(write_shard(state, "fine/train_000.bin", 20240520, 1, 0, 2), TOKENS);
    write_shard(state, "fine/train_001.bin", 20240520, 1, TOKENS, 2);
    write_shard(state, "fine/val_000.bin", 20240520, 1, 0, 2);
    expect_tokens(test_path(state, "fine/train_*.bin"), 2 * TOKENS); /* windows go across the files' ends */
    expect_tokens(write_shard(state, "three/a.bin", 20240801, 7, 0, 4), TOKENS);
    write_shard(state, "three/b.bin", 20240801, 7, TOKENS, 4);
    expect_tokens(test_path(state, "three"), 2 * TOKENS);
    dataset_refused(&cx, tokens(test_path(state, "fine/test_*.bin")), TCC_ENOTFOUND, "no file has a name like this");
}

static void other_files_are_refused(void **state) {
    dataset_refused(&cx, tokens(write_shard(state, "t.bin", 20240520, 2, 0, 2)), TCC_EFORMAT,
                    "begins as a shard of llm.c with magic number 20240520, version 2; known are 20240520, version 1");
    dataset_refused(&cx, tokens(write_shard(state, "t.bin", 20251231, 1, 0, 2)), TCC_EFORMAT, "magic number 20251231");
    dataset_refused(&cx, tokens(test_write_gzip(state, "t.gz", "01234567890123456789", 20)), TCC_EFORMAT,
                    "begins as a file of gzip, not of tokens");
    dataset_refused(&cx, tokens(test_write(state, "t.npz", "PK\3\4............", 16)), TCC_EFORMAT, "zip or .npz");
}

static void out_of_memory(void **state) {
    write_shard(state, "oom/a.bin", 20240520, 1, 0, 2);
    write_shard(state, "oom/b.bin", 20240520, 1, 0, 2);
    dataset_out_of_memory(&cx, tokens(test_path(state, "oom")));
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(arrays_of_numpy),
        FOLDER_TEST(shards_are_one_set),
        FOLDER_TEST(other_files_are_refused),
        FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
