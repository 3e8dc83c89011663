/* SPDX-License-Identifier: MIT
 * Executables on the CPU device: steps, instances, bindings, errors that name things, thread counts, users in several
 * threads. */
#include "harness/check.h"
#include "harness/environment.h"
#include "harness/sample_program.h"

#include "ir/support/alloc.h"
#include "runtime/cpu/device.h"
#include "runtime/exec.h"
#include "runtime/profile.h"
#include "runtime/program.h"

#include <cJSON.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t expected[SAMPLE_N];

static int64_t x_data[SAMPLE_N];

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < SAMPLE_N; i++) x_data[i] = (int64_t)i * 7919 % 1000003;
    sample_expected(x_data, expected);
    return 0;
}

typedef struct outputs {
    int64_t w[SAMPLE_N], y[SAMPLE_N];
} outputs;

static outputs *bind_all(tcc_exec *e, tcc_diag *d) {
    outputs *o = calloc(1, sizeof *o);
    assert_non_null(o);
    assert_ok(tcc_exec_bind(e, d, SAMPLE_X, x_data, SAMPLE_BYTES), d);
    assert_ok(tcc_exec_bind(e, d, SAMPLE_W, o->w, SAMPLE_BYTES), d);
    assert_ok(tcc_exec_bind(e, d, SAMPLE_Y, o->y, SAMPLE_BYTES), d);
    return o;
}

static void test_thread_counts(void **state) {
    (void)state;
    tcc_program *p = sample_program();
    for (int threads = 1; threads <= 5; threads++) {
        tcc_context cx;
        assert_ok(tcc_context_init(&cx), &cx.diag);
        tcc_device *device;
        tcc_exec *e;
        assert_ok(tcc_device_cpu_create(&cx, threads, &device), &cx.diag);
        assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
        outputs *o = bind_all(e, &cx.diag);
        for (int run = 0; run < 3; run++) {
            memset(o, 0, sizeof *o);
            assert_ok(tcc_exec_poison(e, &cx.diag), &cx.diag);
            assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
            assert_memory_equal(o->y, expected, SAMPLE_BYTES);
        }
        /* Other memory from now on: the old is left alone. */
        outputs *other = bind_all(e, &cx.diag);
        memset(o, 0, sizeof *o);
        assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
        assert_memory_equal(other->y, expected, SAMPLE_BYTES);
        for (int i = 0; i < SAMPLE_N; i++) assert_int_equal(o->y[i], 0);
        free(o);
        free(other);
        tcc_exec_destroy(e);
        tcc_device_destroy(device);
        tcc_context_clear(&cx);
    }
    tcc_program_destroy(p);
    tcc_program_destroy(NULL);
    tcc_exec_destroy(NULL);
    tcc_device_destroy(NULL);
}

static void expect_text(tcc_diag *d, const char *words) {
    if (!strstr(tcc_diag_text(d), words)) fail_msg("'%s' lacks '%s'", tcc_diag_text(d), words);
    tcc_diag_clear(d);
}

static void test_binding_errors(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_program *p = sample_program();
    tcc_device *device;
    tcc_exec *e;
    assert_ok(tcc_device_cpu_create(&cx, 2, &device), &cx.diag);
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    assert_int_equal(tcc_exec_run(e, &cx.diag), TCC_EINVAL);
    expect_text(&cx.diag, "program 'test': binding 'x' (i64[5000]) has no memory, nor have others");
    outputs *o = calloc(1, sizeof *o);
    assert_int_equal(tcc_exec_bind(e, &cx.diag, 3, o, SAMPLE_BYTES), TCC_EINVAL);
    expect_text(&cx.diag, "no binding 3, it has 3");
    assert_int_equal(tcc_exec_bind(e, &cx.diag, SAMPLE_W, o, SAMPLE_BYTES - 1), TCC_EINVAL);
    expect_text(&cx.diag, "binding 'w' is i64[5000] and needs 40000 bytes, got 39999");
    assert_int_equal(tcc_exec_bind(e, &cx.diag, SAMPLE_W, (char *)o + 4, SAMPLE_BYTES), TCC_EINVAL);
    expect_text(&cx.diag, "cannot lie at address");
    assert_int_equal(tcc_exec_bind(e, &cx.diag, SAMPLE_W, NULL, SAMPLE_BYTES), TCC_EINVAL);
    tcc_diag_clear(&cx.diag);
    assert_ok(tcc_exec_bind(e, &cx.diag, SAMPLE_X, x_data, SAMPLE_BYTES), &cx.diag);
    assert_ok(tcc_exec_bind(e, &cx.diag, SAMPLE_X, x_data, SAMPLE_BYTES), &cx.diag);
    assert_ok(tcc_exec_bind(e, &cx.diag, SAMPLE_W, o->w, SAMPLE_BYTES), &cx.diag);
    assert_int_equal(tcc_exec_run(e, &cx.diag), TCC_EINVAL);
    expect_text(&cx.diag, "binding 'y' (i64[5000]) has no memory");
    free(o);
    tcc_exec_destroy(e);
    tcc_device_destroy(device);
    tcc_program_destroy(p);
}

/* Break one thing, expect one refusal. */
static void refused(tcc_context *cx, tcc_device *device, tcc_program *p, tcc_status status, const char *words) {
    tcc_exec *e;
    assert_int_equal(tcc_exec_create(cx, device, p, &e), status);
    assert_null(e);
    expect_text(&cx->diag, words);
    tcc_program_destroy(p);
}

static void test_malformed_programs(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_device *device;
    assert_ok(tcc_device_cpu_create(&cx, 1, &device), &cx.diag);
    tcc_program *p = sample_program();
    p->steps[0].kernel = 2;
    refused(&cx, device, p, TCC_EFORMAT, "step 0 (scale parts; test.c:1,2): kernel 2 of 2");
    p = sample_program();
    ((tcc_buffer *)p->steps[0].instances[2].buffers)[1].offset_bytes = 2 * SAMPLE_BYTES - 8;
    refused(&cx, device, p, TCC_EFORMAT, "16000 bytes at 79992 of 80000");
    p = sample_program();
    ((tcc_buffer *)p->steps[0].instances[2].buffers)[0].binding = 3;
    refused(&cx, device, p, TCC_EFORMAT, "binding 3 of 3");
    p = sample_program();
    p->steps[1].to.size_bytes -= 1;
    refused(&cx, device, p, TCC_EFORMAT, "step 1 (copy): copy of 40000 bytes to 39999");
    p = sample_program();
    p->kernels[1].symbol = "mixer";
    refused(&cx, device, p, TCC_ENOTFOUND, "module 0 has no kernel 'mixer'");
    p = sample_program();
    p->bindings[1].type.dims[0] = INT64_MAX / 4;
    refused(&cx, device, p, TCC_EFORMAT, "binding 1 is malformed");
    p = sample_program();
    p->modules[0].size_bytes = 100;
    refused(&cx, device, p, TCC_EFORMAT, "object 'module 0'");
    p = sample_program();
    p->target = TCC_TARGET_CUDA;
    refused(&cx, device, p, TCC_EUNSUPPORTED, "was not made for device 'cpu'");
#if defined __x86_64__
    test_environment_set("TCC_CPU", "x86-64-v2");
    p = sample_program();
    p->cpu = "x86-64-v3,+sse3,+avx2";
    refused(&cx, device, p, TCC_EUNSUPPORTED, "made for x86-64-v3, a CPU with avx2, which x86-64-v2 (TCC_CPU) lacks");
    test_environment_restore();
#endif
    p = sample_program();
    p->cpu = "imaginary,+avx999,+no-such";
    tcc_exec *e; /* what is not known is ignored */
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    tcc_exec_destroy(e);
    tcc_library_call call = {.name = "nothing.at_all"};
    p->steps[3] = (tcc_step){.kind = TCC_STEP_LIBRARY, .call = &call, .label = "dot"};
    refused(&cx, device, p, TCC_EUNSUPPORTED, "'nothing.at_all': no such library entry");
    p = sample_program();
    p->arena_bytes = INT64_MAX / 2;
    refused(&cx, device, p, TCC_ENOMEM, "for the arena of program 'test'");
    tcc_device_destroy(device);
}

static void test_out_of_memory(void **state) {
    (void)state;
    tcc_program *p = sample_program();
    for (int64_t n = 0;; n++) {
        tcc_context cx;
        assert_ok(tcc_context_init(&cx), &cx.diag);
        tcc_device *device = NULL;
        tcc_exec *e = NULL;
        tcc__alloc_fail_at(n);
        tcc_status s = tcc_device_cpu_create(&cx, 2, &device);
        if (s == TCC_OK) s = tcc_exec_create(&cx, device, p, &e);
        if (s == TCC_OK) s = tcc_exec_set_profiling(e, &cx.diag, true);
        tcc__alloc_fail_at(-1);
        tcc_exec_destroy(e);
        tcc_device_destroy(device);
        tcc_context_clear(&cx);
        if (s == TCC_OK) {
            assert_true(n > 8);
            break;
        }
        assert_int_equal(s, TCC_ENOMEM);
    }
    tcc_program_destroy(p);
}

typedef struct user {
    tcc_device *device;
    const tcc_program *program;
    int failed;
} user;

static void *user_thread(void *arg) {
    user *u = arg;
    tcc_context cx;
    tcc_exec *e;
    u->failed = 1;
    if (tcc_context_init(&cx) != TCC_OK || tcc_exec_create(&cx, u->device, u->program, &e) != TCC_OK) return NULL;
    outputs *o = calloc(1, sizeof *o);
    if (!o || tcc_exec_bind(e, &cx.diag, SAMPLE_X, x_data, SAMPLE_BYTES) ||
        tcc_exec_bind(e, &cx.diag, SAMPLE_W, o->w, SAMPLE_BYTES) ||
        tcc_exec_bind(e, &cx.diag, SAMPLE_Y, o->y, SAMPLE_BYTES))
        return NULL;
    u->failed = 0;
    for (int run = 0; run < 20; run++) {
        memset(o, 0, sizeof *o);
        if (tcc_exec_run(e, &cx.diag) != TCC_OK || memcmp(o->y, expected, SAMPLE_BYTES)) u->failed = 1;
    }
    free(o);
    tcc_exec_destroy(e);
    return NULL;
}

static void test_users_in_threads(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_program *p = sample_program();
    tcc_device *device;
    assert_ok(tcc_device_cpu_create(&cx, 2, &device), &cx.diag);
    enum { USERS = 3 };
    user users[USERS];
    pthread_t threads[USERS];
    for (int i = 0; i < USERS; i++) {
        users[i] = (user){device, p, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, user_thread, &users[i]), 0);
    }
    for (int i = 0; i < USERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(users[i].failed, 0);
    }
    tcc_device_destroy(device);
    tcc_program_destroy(p);
}

static void check_reports(tcc_exec *e, tcc_device *device, tcc_context *cx) {
    tcc_roofline roofline = {0};
    assert_ok(device->ops->measure(device, &cx->diag, &roofline), &cx->diag);
    assert_true(roofline.flop_per_s > 1e8 && roofline.bytes_per_s > 1e7);
    tcc_strbuf text = {0};
    assert_ok(tcc_profile_print(e, &cx->diag, &roofline, &text), &cx->diag);
    assert_non_null(strstr(text.text, "program 'test': 5 steps, arena 0.1 MB, minima of 3 runs; the device does"));
    assert_non_null(strstr(text.text, "scale parts"));
    assert_non_null(strstr(text.text, "test.c:1,2\n"));
    int lines = 0;
    for (const char *c = text.text; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 2 + 5 + 1);
    tcc_strbuf_free(&text);

    char path[] = "/tmp/tcc-trace-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    tcc_step_time times[5];
    for (int i = 0; i < 5; i++) times[i] = tcc_exec_get_profile(e)[i].last;
    const tcc_profile_run runs[] = {{e, 7, 1000, 3000, 9000, times, NULL, 0},
                                    {e, 8, 10000, 11000, 19000, times, NULL, 0}};
    assert_ok(tcc_profile_write_trace(runs, 2, &cx->diag, NULL, path), &cx->diag);
    char json[8192];
    file = open(path, O_RDONLY);
    ssize_t length = read(file, json, sizeof json - 1);
    assert_true(length > 0);
    json[length] = 0;
    cJSON *root = cJSON_Parse(json), *events = cJSON_GetObjectItem(root, "traceEvents");
    /* The names of three lanes; then of each run the host, the copies and five steps. */
    assert_int_equal(cJSON_GetArraySize(events), 3 + 2 * (2 + 5));
    const char *lanes[] = {"host", "copies to the device", "compute"};
    for (int i = 0; i < 3; i++) {
        const cJSON *event = cJSON_GetArrayItem(events, i);
        assert_int_equal(cJSON_GetObjectItem(event, "tid")->valueint, i + 1);
        assert_string_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(event, "args"), "name")->valuestring, lanes[i]);
    }
    const cJSON *host = cJSON_GetArrayItem(events, 3 + 7), *copy = cJSON_GetArrayItem(events, 3 + 8);
    assert_non_null(strstr(cJSON_GetObjectItem(host, "name")->valuestring, ", step 8"));
    assert_true(cJSON_GetObjectItem(host, "ts")->valuedouble == 9 &&
                cJSON_GetObjectItem(host, "dur")->valuedouble == 9);
    assert_true(cJSON_GetObjectItem(copy, "ts")->valuedouble == 9 &&
                cJSON_GetObjectItem(copy, "dur")->valuedouble == 1);
    const cJSON *first = cJSON_GetArrayItem(events, 3 + 9);
    assert_true(cJSON_GetObjectItem(first, "ts")->valuedouble >= 10); /* after what it reads was copied */
    assert_int_equal(cJSON_GetObjectItem(first, "tid")->valueint, 3);
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(first, "args"), "run")->valueint, 1);
    assert_string_equal(cJSON_GetObjectItem(first, "name")->valuestring, "scale parts");
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(events, 5 + 2), "cat")->valuestring, "pointwise");
    cJSON_Delete(root);
    close(file);
    unlink(path);
    assert_int_equal(tcc_profile_write_trace(runs, 2, &cx->diag, NULL, "/nonexistent/trace"), TCC_EIO);
    expect_text(&cx->diag, "/nonexistent/trace: error: cannot create the file: No such file");
}

static void test_profile_counts(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_program *p = sample_program();
    tcc_device *device;
    tcc_exec *e;
    assert_ok(tcc_device_cpu_create(&cx, 2, &device), &cx.diag);
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    outputs *o = bind_all(e, &cx.diag);
    assert_null(tcc_exec_get_profile(e));
    tcc_strbuf untimed = {0};
    assert_int_equal(tcc_profile_print(e, &cx.diag, NULL, &untimed), TCC_OK);
    assert_non_null(strstr(untimed.text, "not profiled, so without times"));
    tcc_strbuf_free(&untimed);
    assert_ok(tcc_exec_set_profiling(e, &cx.diag, true), &cx.diag);
    for (int run = 0; run < 3; run++) assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
    assert_ok(tcc_exec_set_profiling(e, &cx.diag, false), &cx.diag);
    assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
    const tcc_step_profile *profile = tcc_exec_get_profile(e);
    int64_t before = 0;
    for (int i = 0; i < p->n_steps; i++) {
        assert_int_equal(profile[i].runs, 3);
        assert_true(profile[i].min_ns >= 0 && profile[i].total_ns >= 3 * profile[i].min_ns);
        assert_true(profile[i].last.begin_ns >= before && profile[i].last.end_ns >= profile[i].last.begin_ns);
        before = profile[i].last.end_ns;
    }
    check_reports(e, device, &cx);
    free(o);
    tcc_exec_destroy(e);
    tcc_device_destroy(device);
    tcc_program_destroy(p);
}

static void test_memory(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_device *device;
    assert_ok(tcc_device_cpu_create(&cx, 1, &device), &cx.diag);
    static const int64_t sizes[] = {0, 1, 64, 100000, (4 << 20) - 1, 4 << 20, (9 << 20) + 12345};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        unsigned char *memory;
        assert_ok(device->ops->alloc(device, &cx.diag, sizes[i], (void **)&memory), &cx.diag);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (int64_t k = 0; k < sizes[i]; k++)
            if (memory[k]) fail();
        memset(memory, 1, (size_t)sizes[i]);
        device->ops->free(device, memory, sizes[i]);
    }
    void *memory;
    assert_int_equal(device->ops->alloc(device, &cx.diag, -1, &memory), TCC_ENOMEM);
    assert_null(memory);
    tcc_context_clear(&cx);
    assert_int_equal(device->ops->alloc(device, &cx.diag, INT64_MAX, &memory), TCC_ENOMEM);
    expect_text(&cx.diag, "out of memory: 9223372036854775807 bytes");
    device->ops->free(device, NULL, 5 << 20);
    tcc_strbuf text = {0};
    device->ops->describe(device, &text);
    assert_non_null(strstr(text.text, "cpu: 1 thread"));
    tcc_strbuf_free(&text);
    tcc_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_counts),
        cmocka_unit_test(test_binding_errors),
        cmocka_unit_test(test_malformed_programs),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_users_in_threads),
        cmocka_unit_test(test_profile_counts),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
