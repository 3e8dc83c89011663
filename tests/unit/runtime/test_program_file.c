/* SPDX-License-Identifier: MIT
 * Programs as bytes: there and back, run from a file, damaged in thousands of ways, out of memory, a full disk. */
#include "harness/check.h"
#include "harness/sample_program.h"

#include "ir/support/alloc.h"
#include "runtime/cpu/device.h"
#include "runtime/exec.h"
#include "runtime/files/file.h"
#include "runtime/program.h"
#include "runtime/program_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static void expect_text(tcc_diag *d, const char *words) {
    if (!strstr(tcc_diag_text(d), words)) fail_msg("'%s' lacks '%s'", tcc_diag_text(d), words);
    tcc_diag_clear(d);
}

/* The sample, with a library call in it. */
static tcc_program *with_library_call(void) {
    tcc_program *p = sample_program();
    tcc_library_call *call = TCC_ARENA_NEW(&p->memory, tcc_library_call);
    tcc_buffer buffers[3] = {
        {.space = TCC_SPACE_ARENA, .size_bytes = 64}, {.space = TCC_SPACE_CONST, .size_bytes = 32}, p->steps[1].to};
    int64_t params[2] = {-5, INT64_MAX};
    *call = (tcc_library_call){"some.entry", 3, 2, tcc_arena_copy(&p->memory, buffers, sizeof buffers),
                               tcc_arena_copy(&p->memory, params, sizeof params)};
    p->steps[3] = (tcc_step){.kind = TCC_STEP_LIBRARY, .call = call, .flop = 0.1, .bytes = 1e300};
    return p;
}

static void test_there_and_back(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_program *p = with_library_call(), *back;
    void *bytes, *again;
    int64_t size, size_again;
    assert_ok(tcc_program_encode(&d, p, &bytes, &size), &d);
    assert_ok(tcc_program_decode(&d, "memory", bytes, size, &back), &d);
    assert_ok(tcc_program_encode(&d, back, &again, &size_again), &d);
    assert_int_equal(size, size_again);
    assert_memory_equal(bytes, again, (size_t)size);
    assert_string_equal(back->name, "test");
    assert_int_equal(back->n_steps, 5);
    assert_int_equal(back->steps[0].n_instances, p->steps[0].n_instances);
    assert_int_equal(back->steps[0].instances[2].buffers[1].offset_bytes, 800);
    assert_string_equal(back->steps[0].lines, "test.c:1,2");
    assert_string_equal(back->steps[1].lines, "");
    assert_null(back->steps[2].label);
    assert_true(back->steps[3].flop == 0.1 && back->steps[3].bytes == 1e300);
    assert_int_equal(back->steps[3].call->params[0], -5);
    assert_string_equal(back->steps[3].call->name, "some.entry");
    assert_int_equal(back->bindings[1].role, TCC_ROLE_OUTPUT);
    assert_true(back->bindings[0].begin == 0);
    assert_null(back->bindings[0].copy_of);
    tcc_program_destroy(p);
    tcc_program_destroy(back);
    tcc__free(bytes);
    tcc__free(again);
}

/* The program's first bindings as these; tcc_program_check, which the reader calls, finds the fault in the last. */
static void check_bindings(const tcc_binding *bindings, int count, const char *error) {
    tcc_diag d = {0};
    tcc_program *p = sample_program(), *back = NULL;
    void *bytes = NULL;
    int64_t size = 0;
    tcc_binding *all = TCC_ARENA_ARRAY(&p->memory, tcc_binding, SAMPLE_BINDINGS + count);
    memcpy(all, p->bindings, sizeof *all * SAMPLE_BINDINGS);
    memcpy(all + SAMPLE_BINDINGS, bindings, sizeof *all * (size_t)count);
    p->bindings = all;
    p->n_bindings = SAMPLE_BINDINGS + count;
    const tcc_status status = tcc_program_encode(&d, p, &bytes, &size);
    if (error) {
        assert_int_equal(status, TCC_EFORMAT);
        expect_text(&d, error);
    } else {
        assert_ok(status, &d);
        assert_ok(tcc_program_decode(&d, "memory", bytes, size, &back), &d);
        for (int i = 0; i < count; i++) {
            const tcc_binding *b = &back->bindings[SAMPLE_BINDINGS + i];
            assert_true(b->begin == bindings[i].begin);
            assert_int_equal(b->written, bindings[i].written);
            assert_int_equal(b->idle, bindings[i].idle);
            if (bindings[i].copy_of) assert_string_equal(b->copy_of, bindings[i].copy_of);
            else assert_null(b->copy_of);
        }
        tcc_program_destroy(back);
    }
    tcc__free(bytes);
    tcc_program_destroy(p);
}

static void test_how_states_begin(void **state) {
    (void)state;
    const tcc_type f32 = {TCC_F32, 1, {4}}, bf16 = {TCC_BF16, 1, {4}}, other = {TCC_BF16, 1, {5}};
    const tcc_binding w = {.name = "weight", .role = TCC_ROLE_PARAM, .type = f32},
                      low = {.name = "low", .role = TCC_ROLE_STATE, .type = bf16, .copy_of = "weight"},
                      scale = {.name = "scale", .role = TCC_ROLE_STATE, .type = f32, .begin = 65536, .written = true};
    tcc_binding bad = low;
    tcc_binding idle = w;
    idle.idle = true;
    check_bindings((tcc_binding[]){w, low, scale}, 3, NULL);
    check_bindings((tcc_binding[]){idle, low}, 2, NULL);
    check_bindings((tcc_binding[]){low, w}, 2, "program 'test': binding 'low' cannot begin as it says");
    bad.type = other;
    check_bindings((tcc_binding[]){w, bad}, 2, "binding 'low' cannot begin as it says");
    bad = low, bad.begin = 1;
    check_bindings((tcc_binding[]){w, bad}, 2, "binding 'low' cannot begin as it says");
    bad = low, bad.copy_of = "x"; /* a batch */
    bad.type = (tcc_type){TCC_BF16, 1, {SAMPLE_N}};
    check_bindings(&bad, 1, "binding 'low' cannot begin as it says");
    bad = scale, bad.role = TCC_ROLE_PARAM;
    check_bindings(&bad, 1, "binding 'scale' cannot begin as it says");
    bad = low, bad.name = "lower", bad.copy_of = "low";
    check_bindings((tcc_binding[]){w, low, bad}, 3, "binding 'lower' cannot begin as it says");
}

static void test_idle_bindings_are_left_alone(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_program *p = sample_program();
    assert_ok(tcc_program_check(&d, p), &d);
    ((tcc_binding *)p->bindings)[0].idle = true;
    assert_int_equal(tcc_program_check(&d, p), TCC_EFORMAT);
    expect_text(&d, "which no step touches, as it says");
    tcc_program_destroy(p);
}

static tcc_status save(tcc_diag *d, const tcc_program *p, const char *path) {
    void *bytes;
    int64_t size_bytes;
    TCC_TRY(tcc_program_encode(d, p, &bytes, &size_bytes));
    const tcc_status status = tcc__file_save(d, path, bytes, (size_t)size_bytes);
    tcc__free(bytes);
    return status;
}

static tcc_status load(tcc_diag *d, const char *path, tcc_program **out) {
    tcc__bytes bytes;
    TCC_TRY(tcc__file_load(d, path, &bytes));
    const tcc_status status = tcc_program_decode(d, path, bytes.data, (int64_t)bytes.size, out);
    tcc__free(bytes.data);
    return status;
}

static void test_runs_from_a_file(void **state) {
    (void)state;
    char path[] = "/tmp/tcc-program-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_program *p = sample_program();
    assert_ok(save(&cx.diag, p, path), &cx.diag);
    tcc_program_destroy(p);
    assert_ok(load(&cx.diag, path, &p), &cx.diag);
    tcc_device *device;
    tcc_exec *e;
    assert_ok(tcc_device_cpu_create(&cx, 2, &device), &cx.diag);
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    int64_t *data = calloc(4, SAMPLE_BYTES);
    assert_non_null(data);
    for (int i = 0; i < SAMPLE_N; i++) data[i] = (int64_t)i * i;
    for (int b = 0; b < SAMPLE_BINDINGS; b++)
        assert_ok(tcc_exec_bind(e, &cx.diag, b, data + b * SAMPLE_N, SAMPLE_BYTES), &cx.diag);
    assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
    sample_expected(data, data + 3 * SAMPLE_N);
    assert_memory_equal(data + SAMPLE_Y * SAMPLE_N, data + 3 * SAMPLE_N, SAMPLE_BYTES);
    tcc_exec_destroy(e);

    /* A full disk leaves the old file. */
    tcc__io_fail_after(100);
    assert_int_equal(save(&cx.diag, p, path), TCC_EIO);
    tcc__io_fail_after(-1);
    tcc_diag_clear(&cx.diag);
    tcc_program *old;
    assert_ok(load(&cx.diag, path, &old), &cx.diag);
    tcc_program_destroy(old);
    assert_int_equal(load(&cx.diag, "/nonexistent/program", &old), TCC_ENOTFOUND);
    tcc_diag_clear(&cx.diag);
    unlink(path);
    free(data);
    tcc_program_destroy(p);
    tcc_device_destroy(device);
}

static uint32_t next_random(uint32_t *x) {
    *x ^= *x << 13;
    *x ^= *x >> 17;
    return *x ^= *x << 5;
}

/* Put the right checksum and size under a damaged body, so that the reader itself is tested. */
static void seal(unsigned char *bytes, int64_t size) {
    uint64_t length = (uint64_t)size, crc = crc32_z(0, bytes + 32, (size_t)size - 32);
    for (int i = 0; i < 8; i++) {
        bytes[16 + i] = (unsigned char)(length >> 8 * i);
        bytes[24 + i] = (unsigned char)(crc >> 8 * i);
    }
}

static void test_damaged(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_program *p = with_library_call(), *back;
    p->modules[0].size_bytes = 40; /* the code is not looked at here; most bytes shall be structure */
    unsigned char *bytes;
    int64_t size;
    assert_ok(tcc_program_encode(&d, p, (void **)&bytes, &size), &d);
    assert_int_equal(tcc_program_decode(&d, "x.tccp", bytes, 10, &back), TCC_EFORMAT);
    expect_text(&d, "x.tccp: error: not a stored program");
    bytes[size / 2] ^= 1;
    assert_int_equal(tcc_program_decode(&d, "x.tccp", bytes, size, &back), TCC_EFORMAT);
    expect_text(&d, "x.tccp: error: the stored program is damaged (its checksum differs)");
    bytes[size / 2] ^= 1;
    assert_int_equal(tcc_program_decode(&d, "x.tccp", bytes, size - 1, &back), TCC_EFORMAT);
    expect_text(&d, "but there are");
    bytes[8] = 77;
    assert_int_equal(tcc_program_decode(&d, "x.tccp", bytes, size, &back), TCC_EFORMAT);
    expect_text(&d, "of version 77; this runtime reads version");
    bytes[8] = TCC_PROGRAM_FILE_VERSION;

    int refused = 0;
    uint32_t random = 99;
    for (int round = 0; round < 20000; round++) {
        int64_t length = round % 10 ? size : 33 + next_random(&random) % (uint32_t)(size - 33);
        unsigned char *bad = malloc((size_t)length); /* to size: a sanitizer sees a read past the end */
        assert_non_null(bad);
        memcpy(bad, bytes, (size_t)length);
        for (int i = 0; i < 1 + round % 3; i++) {
            static const unsigned char values[] = {0, 1, 2, 0x7f, 0x80, 0xff};
            int64_t at = 32 + next_random(&random) % (uint32_t)(length - 32);
            bad[at] = next_random(&random) % 2 ? values[next_random(&random) % sizeof values]
                                               : (unsigned char)next_random(&random);
        }
        seal(bad, length);
        if (tcc_program_decode(&d, "bad", bad, length, &back) == TCC_OK) tcc_program_destroy(back);
        else refused++;
        tcc_diag_clear(&d);
        free(bad);
    }
    assert_in_range(refused, 2000, 19999);
    tcc_program_destroy(p);
    tcc__free(bytes);
}

/* What a kernel is asked for has to lie in its buffers. */
static void test_work_beyond_memory(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_program *p = sample_program();
    tcc_instance *n = (tcc_instance *)&p->steps[0].instances[0];
    const int64_t items = n->items, param = n->params[0];
    int64_t bytes = 0, most = 0;
    for (int b = 0; b < p->kernels[p->steps[0].kernel].n_buffers; b++) {
        bytes += n->buffers[b].size_bytes;
        if (n->buffers[b].size_bytes > most) most = n->buffers[b].size_bytes;
    }
    n->items = bytes;
    assert_ok(tcc_program_check(&d, p), &d);
    n->items = bytes + 1;
    assert_int_equal(tcc_program_check(&d, p), TCC_EFORMAT);
    expect_text(&d, "asks for more than there is memory");
    n->items = items;
    for (int sign = -1; sign < 2; sign += 2) {
        ((int64_t *)n->params)[0] = sign * (most + 1);
        assert_int_equal(tcc_program_check(&d, p), TCC_EFORMAT);
        expect_text(&d, "asks for more than there is memory");
        ((int64_t *)n->params)[0] = param;
    }
    assert_ok(tcc_program_check(&d, p), &d);
    tcc_program_destroy(p);
}

static void test_out_of_memory(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_program *p = with_library_call(), *back;
    void *bytes = NULL;
    int64_t size = 0;
    for (int64_t n = 0; !bytes; n++) {
        tcc__alloc_fail_at(n);
        tcc_status s = tcc_program_encode(&d, p, &bytes, &size);
        tcc__alloc_fail_at(-1);
        tcc_diag_clear(&d);
        if (s != TCC_OK) assert_int_equal(s, TCC_ENOMEM);
    }
    for (int64_t n = 0;; n++) {
        tcc__alloc_fail_at(n);
        tcc_status s = tcc_program_decode(&d, "memory", bytes, size, &back);
        tcc__alloc_fail_at(-1);
        tcc_diag_clear(&d);
        if (s == TCC_OK) break;
        assert_int_equal(s, TCC_ENOMEM);
        assert_null(back);
    }
    tcc_program_destroy(back);
    tcc_program_destroy(p);
    tcc__free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_how_states_begin),
        cmocka_unit_test(test_idle_bindings_are_left_alone),
        cmocka_unit_test(test_runs_from_a_file),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_work_beyond_memory),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
