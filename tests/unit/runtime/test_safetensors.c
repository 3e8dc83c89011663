/* SPDX-License-Identifier: MIT
 * Safetensors files: what is written reads back; nothing damaged is accepted; a failed write leaves
 * the old file. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "ir/support/dtype.h"
#include "runtime/files/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tcc_context cx;

static float weight[6] = {1, -2, 3.5f, 1e-30f, 5, 6};
static int64_t steps[1] = {1234567890123};
static uint8_t mask[3] = {1, 0, 1};
static const tcc_array arrays[] = {
    {.name = "mask", .dtype = TCC_BOOL, .rank = 1, .dims = {3}, .data = mask},
    {.name = "h.0.weight", .dtype = TCC_F32, .rank = 2, .dims = {2, 3}, .data = weight},
    {.name = "steps", .dtype = TCC_I64, .data = steps},
};

static void round_trip(void **state) {
    const char *path = test_path(state, "a.safetensors");
    tcc_pair values[] = {{"epoch", "3"}, {"note", "quotes \" and \\ and é"}};
    assert_ok(tcc_safetensors_write(&cx, path, arrays, 3, values, 2), &cx.diag);
    tcc_safetensors *f;
    assert_ok(tcc_safetensors_open(&cx, path, &f), &cx.diag);
    assert_int_equal(tcc_safetensors_count(f), 3);
    assert_string_equal(tcc_safetensors_get(f, 0).name, "steps"); /* the widest element comes first */
    assert_string_equal(tcc_safetensors_metadata(f, "epoch"), "3");
    assert_string_equal(tcc_safetensors_metadata(f, "note"), values[1].value);
    assert_string_equal(tcc_safetensors_metadata(f, "format"), "pt");
    assert_null(tcc_safetensors_metadata(f, "absent"));
    assert_int_equal(tcc_safetensors_find(f, "absent"), -1);
    float weight_in[6];
    int64_t steps_in;
    uint8_t mask_in[3];
    tcc_array to[] = {arrays[1], arrays[2], arrays[0]};
    to[0].data = weight_in, to[1].data = &steps_in, to[2].data = mask_in;
    assert_ok(tcc_safetensors_load(&cx, f, to, 3, 0), &cx.diag);
    assert_memory_equal(weight_in, weight, sizeof weight);
    assert_memory_equal(mask_in, mask, sizeof mask);
    assert_true(steps_in == steps[0]);
    tcc_safetensors_close(f);
    assert_false(test_exists(test_path(state, "a.safetensors.tmp")));
}

static void floats_are_converted(void **state) {
    const char *path = test_path(state, "half.safetensors");
    uint16_t half[2] = {tcc_f32_to_f16(1.5f), tcc_f32_to_f16(-0.25f)},
             brain[2] = {tcc_f32_to_bf16(3), tcc_f32_to_bf16(-8)};
    double wide[2] = {0.1, 1e300};
    const tcc_array from[] = {{.name = "half", .dtype = TCC_F16, .rank = 1, .dims = {2}, .data = half},
                              {.name = "brain", .dtype = TCC_BF16, .rank = 1, .dims = {2}, .data = brain},
                              {.name = "wide", .dtype = TCC_F64, .rank = 1, .dims = {2}, .data = wide}};
    assert_ok(tcc_safetensors_write(&cx, path, from, 3, NULL, 0), &cx.diag);
    tcc_safetensors *f;
    assert_ok(tcc_safetensors_open(&cx, path, &f), &cx.diag);
    float got[3][2];
    tcc_array to[3];
    for (int i = 0; i < 3; i++) {
        to[i] = from[i];
        to[i].dtype = TCC_F32;
        to[i].data = got[i];
    }
    assert_ok(tcc_safetensors_load(&cx, f, to, 3, 0), &cx.diag);
    const float expected[3][2] = {{1.5f, -0.25f}, {3, -8}, {0.1f, INFINITY}};
    assert_memory_equal(got, expected, sizeof got);
    tcc_safetensors_close(f);
}

/* A double is rounded once on its way to 16 bits: by way of f32 these would end elsewhere. */
static void floats_are_rounded_once(void **state) {
    const char *path = test_path(state, "wide.safetensors");
    double wide[2] = {1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11 + 0x1p-40};
    const tcc_array from = {.name = "wide", .dtype = TCC_F64, .rank = 1, .dims = {2}, .data = wide};
    assert_ok(tcc_safetensors_write(&cx, path, &from, 1, NULL, 0), &cx.diag);
    tcc_safetensors *f;
    assert_ok(tcc_safetensors_open(&cx, path, &f), &cx.diag);
    uint16_t got[2];
    tcc_array to = from;
    to.data = got;
    to.dtype = TCC_BF16;
    assert_ok(tcc_safetensors_load(&cx, f, &to, 1, 0), &cx.diag);
    assert_true(tcc_bf16_to_f32(got[0]) == 1 + 0x1p-7f && tcc_bf16_to_f32(got[1]) == 1);
    to.dtype = TCC_F16;
    assert_ok(tcc_safetensors_load(&cx, f, &to, 1, 0), &cx.diag);
    assert_true(tcc_f16_to_f32(got[0]) == 1 + 0x1p-8f && tcc_f16_to_f32(got[1]) == 1 + 0x1p-10f);
    to.dtype = TCC_I32;
    assert_error(tcc_safetensors_load(&cx, f, &to, 1, 0), TCC_EDTYPE, &cx.diag, "1 wrongly typed");
    assert_non_null(strstr(tcc_diag_text(&cx.diag), "type: 'wide' is f64[2] in the file, but i32[2] is wanted"));
    tcc_safetensors_close(f);
}

static void all_mismatches_in_one_error(void **state) {
    const char *path = test_path(state, "a.safetensors");
    assert_ok(tcc_safetensors_write(&cx, path, arrays, 3, NULL, 0), &cx.diag);
    tcc_safetensors *f;
    assert_ok(tcc_safetensors_open(&cx, path, &f), &cx.diag);
    float untouched[6] = {7, 7, 7, 7, 7, 7};
    const tcc_array to[] = {
        {.name = "h.0.weight", .dtype = TCC_F32, .rank = 2, .dims = {3, 2}, .data = untouched},
        {.name = "steps", .dtype = TCC_F32, .data = untouched},
        {.name = "h.0.bias", .dtype = TCC_F32, .rank = 1, .dims = {3}, .data = untouched},
    };
    assert_error(tcc_safetensors_load(&cx, f, to, 3, 0), TCC_ESHAPE, &cx.diag,
                 "1 missing, 1 unexpected, 1 wrongly shaped, 1 wrongly typed");
    const char *text = tcc_diag_text(&cx.diag);
    assert_non_null(strstr(text, "missing: 'h.0.bias' f32[3]"));
    assert_non_null(strstr(text, "unexpected: 'mask' bool[3]"));
    assert_non_null(strstr(text, "shape: 'h.0.weight' is f32[2,3] in the file, but f32[3,2] is wanted"));
    assert_non_null(strstr(text, "type: 'steps' is i64[] in the file, but f32[] is wanted"));
    assert_true(untouched[0] == 7);
    assert_error(tcc_safetensors_load(&cx, f, &to[2], 1, TCC_LOAD_ALLOW_UNEXPECTED), TCC_ENOTFOUND, &cx.diag,
                 "1 missing, 0 unexp");
    assert_ok(tcc_safetensors_load(&cx, f, &to[2], 1, TCC_LOAD_ALLOW_UNEXPECTED | TCC_LOAD_ALLOW_MISSING), &cx.diag);
    tcc_safetensors_close(f);
}

/* Of thousands of tensors that nobody asked for a few are listed, and the number of the others. */
static void a_file_of_something_else(void **state) {
    enum { COUNT = 1000 };
    static char names[COUNT][16];
    static tcc_array many[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        many[i] = (tcc_array){.name = names[i], .dtype = TCC_F32, .data = weight};
    }
    const char *path = test_path(state, "many.safetensors");
    assert_ok(tcc_safetensors_write(&cx, path, many, COUNT, NULL, 0), &cx.diag);
    tcc_safetensors *f;
    assert_ok(tcc_safetensors_open(&cx, path, &f), &cx.diag);
    assert_error(tcc_safetensors_load(&cx, f, arrays, 3, 0), TCC_ENOTFOUND, &cx.diag, "3 missing, 1000 unexpected");
    const char *text = tcc_diag_text(&cx.diag);
    assert_non_null(strstr(text, "unexpected: 980 more"));
    int lines = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    assert_true(lines < 30);
    tcc_safetensors_close(f);
}

static void parse_header(const char *header, size_t data_bytes, tcc_status expected, const char *part) {
    uint8_t bytes[1024] = {0};
    uint64_t length = strlen(header);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    tcc_safetensors *f = NULL;
    tcc_diag_clear(&cx.diag);
    tcc_status status = tcc__safetensors_parse(&cx.diag, "x", bytes, 8 + length + data_bytes, &f);
    tcc_safetensors_close(f);
    if (status != expected || !strstr(tcc_diag_text(&cx.diag), part))
        fail_msg("%s: %s: %s", header, tcc_status_name(status), tcc_diag_text(&cx.diag));
}

static void bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *part;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, "the file holds 9"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "f32[3] needs 12 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "data_offsets [8,0]"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0.5,8]}}", 8, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "dimension 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,8]}}", 8,
         "larger than any memory"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, "unknown field 'x'"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "two fields 'dtype'"},
        {"{\"a\":7}", 0, "not described"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[4],\"data_offsets\":[2,6]}}",
         6, "'a' and 'b' overlap at byte 2"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[4,6]}}",
         6, "belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"a\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[2,4]}}",
         4, "two tensors are named 'a'"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "not a string"},
        {"{\"__metadata__\":[]}", 0, "not a JSON object"},
        {"{\"a\":", 0, "not JSON at byte"},
        {"{} {}", 0, "not JSON at byte 11"},
        {"[]", 0, "not a safetensors file"},
        {"{\"\xff\":1}", 0, "not UTF-8 at byte 10"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        parse_header(cases[i].header, cases[i].data_bytes, TCC_EFORMAT, cases[i].part);
    parse_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}   ", 0, TCC_OK, "");
}

/* A type or a rank that we lack makes its own tensor unreadable, and no other. */
static void what_cannot_be_read_is_one_tensor(void **state) {
    static const char header[] = "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,1],\"data_offsets\":[0,2]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[2,3]},"
                                 "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}";
    uint8_t bytes[8 + sizeof header - 1 + 4], value = 0;
    const uint64_t length = sizeof header - 1;
    (void)state;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    memcpy(bytes + 8 + length, "\1\2\3\7", 4);
    tcc_safetensors *f;
    assert_ok(tcc__safetensors_parse(&cx.diag, "narrow", bytes, sizeof bytes, &f), &cx.diag);
    assert_int_equal(tcc_safetensors_count(f), 3);
    assert_null(tcc_safetensors_get(f, 0).data);
    assert_null(tcc_safetensors_get(f, 1).data);
    tcc_array to[] = {{.name = "c", .dtype = TCC_U8, .rank = 1, .dims = {1}, .data = &value},
                      {.name = "a", .dtype = TCC_U8, .rank = 1, .dims = {2}, .data = &value}};
    assert_ok(tcc_safetensors_load(&cx, f, to, 1, TCC_LOAD_ALLOW_UNEXPECTED), &cx.diag);
    assert_int_equal(value, 7);
    assert_error(tcc_safetensors_load(&cx, f, to, 2, TCC_LOAD_ALLOW_UNEXPECTED), TCC_EDTYPE, &cx.diag,
                 "type: 'a' is F8_E4M3[2,1] in the file, but u8[2] is wanted");
    assert_error(tcc_safetensors_load(&cx, f, to, 1, 0), TCC_ENOTFOUND, &cx.diag, "'b' U8[1,1,1,1,1,1,1,1,1]");
    tcc_safetensors_close(f);
    tcc_diag_clear(&cx.diag);
}

static void every_truncation_is_refused(void **state) {
    const char *path = test_path(state, "a.safetensors");
    assert_ok(tcc_safetensors_write(&cx, path, arrays, 3, NULL, 0), &cx.diag);
    size_t size;
    char *bytes = test_read(path, &size);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut + 1); /* exactly sized, so that a sanitizer sees a byte too many */
        memcpy(copy, bytes, cut);
        tcc_safetensors *f = NULL;
        tcc_diag_clear(&cx.diag);
        assert_int_equal(tcc__safetensors_parse(&cx.diag, "x", copy, cut, &f), TCC_EFORMAT);
        free(copy);
    }
    free(bytes);
}

static void flipped_data_is_noticed(void **state) {
    const char *path = test_path(state, "a.safetensors");
    assert_ok(tcc_safetensors_write(&cx, path, arrays, 3, NULL, 0), &cx.diag);
    size_t size;
    char *bytes = test_read(path, &size);
    bytes[size - 5] ^= 4;
    test_write(state, "a.safetensors", bytes, size);
    free(bytes);
    tcc_safetensors *f;
    assert_ok(tcc_safetensors_open(&cx, path, &f), &cx.diag);
    assert_error(tcc_safetensors_load(&cx, f, NULL, 0, TCC_LOAD_ALLOW_UNEXPECTED), TCC_EFORMAT, &cx.diag, "checksum");
    assert_error(tcc_safetensors_load(&cx, f, NULL, -1, TCC_LOAD_ALLOW_UNEXPECTED), TCC_EINVAL, &cx.diag, "-1 arrays");
    assert_error(tcc_safetensors_load(&cx, f, arrays, 1, 4), TCC_EINVAL, &cx.diag, "allow is 4");
    const tcc_array unnamed = {.dtype = TCC_F32, .data = steps}, empty = {.name = "w", .dtype = TCC_F32};
    assert_error(tcc_safetensors_load(&cx, f, &unnamed, 1, 0), TCC_EINVAL, &cx.diag, "array 0 has no name");
    assert_error(tcc_safetensors_load(&cx, f, &empty, 1, 0), TCC_EINVAL, &cx.diag, "array 0 has no data");
    tcc_safetensors_close(f);
}

static void bad_writes(void **state) {
    const char *path = test_path(state, "a.safetensors");
    tcc_array twice[] = {arrays[1], {.name = "h.0.weight", .dtype = TCC_I64, .data = steps}};
    assert_error(tcc_safetensors_write(&cx, path, twice, 2, NULL, 0), TCC_EINVAL, &cx.diag,
                 "two tensors are named 'h.0.weight'");
    tcc_array reserved = arrays[0];
    reserved.name = "__metadata__";
    assert_error(tcc_safetensors_write(&cx, path, &reserved, 1, NULL, 0), TCC_EINVAL, &cx.diag, "__metadata__");
    tcc_pair format = {"format", "np"};
    assert_error(tcc_safetensors_write(&cx, path, arrays, 1, &format, 1), TCC_EINVAL, &cx.diag,
                 "given twice or reserved");
    tcc_array bad = {.dtype = TCC_F32, .rank = 1, .dims = {2}, .data = steps};
#define REFUSED(part) assert_error(tcc_safetensors_write(&cx, path, &bad, 1, NULL, 0), TCC_EINVAL, &cx.diag, part)
    REFUSED("tensor 0 has no name");
    bad.name = "w", bad.data = NULL;
    REFUSED("tensor 'w' has no data");
    bad.data = steps, bad.dims[0] = -2;
    REFUSED("tensor 'w': dim 0 is -2");
    bad.dims[0] = 2, bad.dtype = (tcc_dtype)99;
    REFUSED("tensor 'w' has element type 99, which there is not");
#undef REFUSED
    assert_error(tcc_safetensors_write(&cx, path, arrays, -1, NULL, 0), TCC_EINVAL, &cx.diag, "-1 arrays and 0 values");
    assert_error(tcc_safetensors_write(&cx, path, NULL, 2, NULL, 1), TCC_EINVAL, &cx.diag,
                 "2 arrays that are NULL and");
    const tcc_pair half = {"key", NULL};
    assert_error(tcc_safetensors_write(&cx, path, arrays, 1, &half, 1), TCC_EINVAL, &cx.diag,
                 "metadata 0 has no value");
    assert_error(tcc_safetensors_write(&cx, test_path(state, "no/a.safetensors"), arrays, 1, NULL, 0), TCC_EIO,
                 &cx.diag, "No such file or directory");
    assert_false(test_exists(path));
    tcc_safetensors *f;
    assert_error(tcc_safetensors_open(&cx, path, &f), TCC_ENOTFOUND, &cx.diag, "a.safetensors: error: cannot open");
    assert_error(tcc_safetensors_open(&cx, *state, &f), TCC_EIO, &cx.diag, "not a regular file");
    assert_error(tcc_safetensors_open(&cx, test_write(state, "empty", "", 0), &f), TCC_EFORMAT, &cx.diag, "empty");
}

static void a_full_disk_loses_nothing(void **state) {
    const char *path = test_path(state, "a.safetensors");
    assert_ok(tcc_safetensors_write(&cx, path, arrays, 1, NULL, 0), &cx.diag);
    size_t before_size, after_size;
    char *before = test_read(path, &before_size);
    for (int64_t limit = 0;; limit += 7) {
        tcc_diag_clear(&cx.diag);
        tcc__io_fail_after(limit);
        tcc_status status = tcc_safetensors_write(&cx, path, arrays, 3, NULL, 0);
        tcc__io_fail_after(-1);
        assert_false(test_exists(test_path(state, "a.safetensors.tmp")));
        if (status == TCC_OK) break;
        assert_int_equal(status, TCC_EIO);
        assert_non_null(
            strstr(tcc_diag_text(&cx.diag), "a.safetensors: error: writing failed: No space left on device"));
        char *after = test_read(path, &after_size);
        assert_int_equal(before_size, after_size);
        assert_memory_equal(before, after, before_size);
        free(after);
    }
    free(before);
}

static void out_of_memory(void **state) {
    const char *path = test_path(state, "a.safetensors");
    for (int64_t n = 0;; n++) {
        tcc_diag_clear(&cx.diag);
        tcc__alloc_fail_at(n);
        tcc_safetensors *f = NULL;
        tcc_status status = tcc_safetensors_write(&cx, path, arrays, 3, NULL, 0);
        if (status == TCC_OK) status = tcc_safetensors_open(&cx, path, &f);
        float copy[6];
        tcc_array to = arrays[1];
        to.data = copy;
        if (status == TCC_OK) status = tcc_safetensors_load(&cx, f, &to, 1, TCC_LOAD_ALLOW_UNEXPECTED);
        tcc__alloc_fail_at(-1);
        tcc_safetensors_close(f);
        if (status == TCC_OK) break;
        if (status != TCC_EIO) assert_int_equal(status, TCC_ENOMEM); /* EIO: the folder could not be synced */
        assert_true(n < 1000);
    }
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(round_trip),
        FOLDER_TEST(floats_are_converted),
        FOLDER_TEST(floats_are_rounded_once),
        FOLDER_TEST(all_mismatches_in_one_error),
        FOLDER_TEST(a_file_of_something_else),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(what_cannot_be_read_is_one_tensor),
        FOLDER_TEST(every_truncation_is_refused),
        FOLDER_TEST(flipped_data_is_noticed),
        FOLDER_TEST(bad_writes),
        FOLDER_TEST(a_full_disk_loses_nothing),
        FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
