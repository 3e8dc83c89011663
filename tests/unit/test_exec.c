/* SPDX-License-Identifier: MIT
 * Executables on the CPU device: steps, instances, bindings, errors that name things, thread counts, users in several threads. */
#include "harness/check.h"
#include "harness/ir_object.h"

#include "ir/support/alloc.h"
#include "runtime/device_cpu.h"
#include "runtime/exec.h"
#include "runtime/profile.h"
#include "runtime/program.h"

#include <cJSON.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIGNATURE "(ptr %buffers, ptr %params, i64 %begin, i64 %end, ptr %scratch)"
#define LOOP_HEAD                                                                                  \
    "  %empty = icmp sge i64 %begin, %end\n"                                                       \
    "  br i1 %empty, label %exit, label %loop\n"                                                   \
    "loop:\n"                                                                                      \
    "  %i = phi i64 [ %begin, %entry ], [ %i1, %loop ]\n"
#define LOOP_TAIL                                                                                  \
    "  %i1 = add i64 %i, 1\n"                                                                      \
    "  %more = icmp slt i64 %i1, %end\n"                                                           \
    "  br i1 %more, label %loop, label %exit\n"                                                    \
    "exit:\n  ret void\n}\n"

/* scale: buffers[1][i] = buffers[0][i] * params[0] + i, through the scratch. mix: buffers[2][i] = buffers[0][i] xor buffers[1][n-1-i]. */
static const char kernels_ir[] = "define void @scale" SIGNATURE " {\n"
                                 "entry:\n"
                                 "  %from = load ptr, ptr %buffers\n"
                                 "  %slot = getelementptr ptr, ptr %buffers, i64 1\n"
                                 "  %to = load ptr, ptr %slot\n"
                                 "  %factor = load i64, ptr %params\n" LOOP_HEAD "  %p = getelementptr i64, ptr %from, i64 %i\n"
                                 "  %q = getelementptr i64, ptr %to, i64 %i\n"
                                 "  %x = load i64, ptr %p\n"
                                 "  %y = mul i64 %x, %factor\n"
                                 "  %z = add i64 %y, %i\n"
                                 "  store volatile i64 %z, ptr %scratch\n"
                                 "  %w = load volatile i64, ptr %scratch\n"
                                 "  store i64 %w, ptr %q\n" LOOP_TAIL "define void @mix" SIGNATURE " {\n"
                                 "entry:\n"
                                 "  %a = load ptr, ptr %buffers\n"
                                 "  %slot1 = getelementptr ptr, ptr %buffers, i64 1\n"
                                 "  %b = load ptr, ptr %slot1\n"
                                 "  %slot2 = getelementptr ptr, ptr %buffers, i64 2\n"
                                 "  %to = load ptr, ptr %slot2\n"
                                 "  %n = load i64, ptr %params\n"
                                 "  %last = sub i64 %n, 1\n" LOOP_HEAD "  %j = sub i64 %last, %i\n"
                                 "  %pa = getelementptr i64, ptr %a, i64 %i\n"
                                 "  %pb = getelementptr i64, ptr %b, i64 %j\n"
                                 "  %q = getelementptr i64, ptr %to, i64 %i\n"
                                 "  %x = load i64, ptr %pa\n"
                                 "  %y = load i64, ptr %pb\n"
                                 "  %z = xor i64 %x, %y\n"
                                 "  store i64 %z, ptr %q\n" LOOP_TAIL;

enum { N = 50000, PARTS = 7, BYTES = N * 8 };
enum { X, W, Y, N_BINDINGS };

static void *object;
static int64_t object_bytes;

/* The program: the arena holds u (N) and v (N).
 *   0  scale  PARTS instances of uneven size: u[part] = x[part] * (part + 2) + i
 *   1  copy   v = u
 *   2  mix    w[i] = v[i] xor u[N-1-i]              (the constants' first element scales:)
 *   3  scale  one instance: y = w * 3 + i, reading the factor from params
 *   4  scale  y[0..4) = constants * 1 + i */
static tcc_program *make_program(void) {
    static const int64_t part_items[PARTS] = {1, 999, 20000, 0, 9000, 19000, 1000};
    tcc_program *p = tcc__calloc(1, sizeof *p);
    assert_non_null(p);
    tcc_arena *m = &p->memory;
    p->name = tcc_arena_strdup(m, "test");
    p->target = TCC_TARGET_HOST;
    p->cpu = tcc_arena_strdup(m, "x86-64");
    p->arena_bytes = 2 * BYTES;
    static const int64_t constants[4] = {11, 22, 33, 44};
    p->constants = tcc_arena_copy(m, constants, sizeof constants);
    p->constants_bytes = sizeof constants;

    p->n_bindings = N_BINDINGS;
    p->bindings = TCC_ARENA_ARRAY(m, tcc_binding, N_BINDINGS);
    static const char *const names[] = {"x", "w", "y"};
    for (int i = 0; i < N_BINDINGS; i++)
        p->bindings[i] = (tcc_binding){names[i], i ? TCC_ROLE_OUTPUT : TCC_ROLE_BATCH, {.dtype = TCC_I64, .rank = 1, .dims = {N}}};

    p->n_modules = 1;
    p->modules = TCC_ARENA_NEW(m, tcc_module);
    p->modules[0] = (tcc_module){tcc_arena_copy(m, object, (size_t)object_bytes), object_bytes};
    p->n_kernels = 2;
    p->kernels = TCC_ARENA_ARRAY(m, tcc_kernel, 2);
    p->kernels[0] = (tcc_kernel){"scale", 0, 2, 1, 64, "pointwise"};
    p->kernels[1] = (tcc_kernel){"mix", 0, 3, 1, 0, "pointwise"};

    const tcc_buffer u = {.space = TCC_SPACE_ARENA, .size_bytes = BYTES};
    const tcc_buffer v = {.space = TCC_SPACE_ARENA, .offset_bytes = BYTES, .size_bytes = BYTES};
    tcc_buffer bound[N_BINDINGS];
    for (int i = 0; i < N_BINDINGS; i++) bound[i] = (tcc_buffer){.space = TCC_SPACE_BINDING, .binding = i, .size_bytes = BYTES};

    p->n_steps = 5;
    p->steps = TCC_ARENA_ARRAY(m, tcc_step, 5);
    tcc_instance *parts = TCC_ARENA_ARRAY(m, tcc_instance, PARTS);
    int64_t at = 0;
    for (int i = 0; i < PARTS; i++) {
        tcc_buffer *b = TCC_ARENA_ARRAY(m, tcc_buffer, 2);
        b[0] = bound[X];
        b[1] = u;
        for (int k = 0; k < 2; k++) b[k].offset_bytes += at * 8, b[k].size_bytes = part_items[i] * 8;
        at += part_items[i];
        int64_t factor = i + 2;
        parts[i] = (tcc_instance){b, tcc_arena_copy(m, &factor, 8), part_items[i]};
    }
    p->steps[0] = (tcc_step){.kernel = 0, .n_instances = PARTS, .instances = parts, .grain = 100, .label = "scale parts",
                             .lines = "test.c:1,2", .bytes = 2 * BYTES};
    p->steps[1] = (tcc_step){.kind = TCC_STEP_COPY, .from = u, .to = v, .label = "copy", .lines = ""};
    tcc_buffer mix_buffers[3] = {v, u, bound[W]};
    int64_t n = N, three = 3, one = 1;
    tcc_instance mix = {tcc_arena_copy(m, mix_buffers, sizeof mix_buffers), tcc_arena_copy(m, &n, 8), N};
    p->steps[2] = (tcc_step){.kernel = 1, .n_instances = 1, .instances = tcc_arena_copy(m, &mix, sizeof mix), .grain = 1};
    tcc_buffer scale_buffers[2] = {bound[W], bound[Y]};
    tcc_instance scale = {tcc_arena_copy(m, scale_buffers, sizeof scale_buffers), tcc_arena_copy(m, &three, 8), N};
    p->steps[3] = (tcc_step){.kernel = 0, .n_instances = 1, .instances = tcc_arena_copy(m, &scale, sizeof scale), .grain = 5000};
    tcc_buffer const_buffers[2] = {{.space = TCC_SPACE_CONST, .size_bytes = 32}, bound[Y]};
    const_buffers[1].size_bytes = 32;
    tcc_instance last = {tcc_arena_copy(m, const_buffers, sizeof const_buffers), tcc_arena_copy(m, &one, 8), 4};
    p->steps[4] = (tcc_step){.kernel = 0, .n_instances = 1, .instances = tcc_arena_copy(m, &last, sizeof last), .grain = 1};
    return p;
}

static int64_t expected[N];

static void compute_expected(const int64_t *x) {
    static const int64_t part_items[PARTS] = {1, 999, 20000, 0, 9000, 19000, 1000};
    int64_t *u = malloc(BYTES);
    for (int part = 0, at = 0; part < PARTS; part++)
        for (int i = 0; i < part_items[part]; i++, at++) u[at] = x[at] * (part + 2) + i;
    for (int i = 0; i < N; i++) expected[i] = (u[i] ^ u[N - 1 - i]) * 3 + i;
    for (int i = 0; i < 4; i++) expected[i] = 11 * (i + 1) + i;
    free(u);
}

static int64_t x_data[N];

static int set_up(void **state) {
    (void)state;
    object = test_ir_object(kernels_ir, NULL, &object_bytes);
    for (int i = 0; i < N; i++) x_data[i] = (int64_t)i * 7919 % 1000003;
    compute_expected(x_data);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(object);
    return 0;
}

typedef struct outputs {
    int64_t w[N], y[N];
} outputs;

static outputs *bind_all(tcc_exec *e, tcc_diag *d) {
    outputs *o = calloc(1, sizeof *o);
    assert_non_null(o);
    assert_ok(tcc_exec_bind(e, d, X, x_data, BYTES), d);
    assert_ok(tcc_exec_bind(e, d, W, o->w, BYTES), d);
    assert_ok(tcc_exec_bind(e, d, Y, o->y, BYTES), d);
    return o;
}

static void test_thread_counts(void **state) {
    (void)state;
    tcc_program *p = make_program();
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
            assert_memory_equal(o->y, expected, BYTES);
        }
        /* Other memory from now on: the old is left alone. */
        outputs *other = bind_all(e, &cx.diag);
        memset(o, 0, sizeof *o);
        assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
        assert_memory_equal(other->y, expected, BYTES);
        for (int i = 0; i < N; i++) assert_int_equal(o->y[i], 0);
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
    tcc_program *p = make_program();
    tcc_device *device;
    tcc_exec *e;
    assert_ok(tcc_device_cpu_create(&cx, 2, &device), &cx.diag);
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    assert_int_equal(tcc_exec_find_binding(e, "y"), Y);
    assert_int_equal(tcc_exec_find_binding(e, "nothing"), -1);
    assert_int_equal(tcc_exec_run(e, &cx.diag), TCC_EINVAL);
    expect_text(&cx.diag, "program 'test': binding 'x' (i64[50000]) has no memory, nor have others");
    outputs *o = calloc(1, sizeof *o);
    assert_int_equal(tcc_exec_bind(e, &cx.diag, 3, o, BYTES), TCC_EINVAL);
    expect_text(&cx.diag, "no binding 3, it has 3");
    assert_int_equal(tcc_exec_bind(e, &cx.diag, W, o, BYTES - 1), TCC_EINVAL);
    expect_text(&cx.diag, "binding 'w' is i64[50000] and needs 400000 bytes, got 399999");
    assert_int_equal(tcc_exec_bind(e, &cx.diag, W, (char *)o + 4, BYTES), TCC_EINVAL);
    expect_text(&cx.diag, "cannot lie at address");
    assert_int_equal(tcc_exec_bind(e, &cx.diag, W, NULL, BYTES), TCC_EINVAL);
    tcc_diag_clear(&cx.diag);
    assert_ok(tcc_exec_bind(e, &cx.diag, X, x_data, BYTES), &cx.diag);
    assert_ok(tcc_exec_bind(e, &cx.diag, X, x_data, BYTES), &cx.diag);
    assert_ok(tcc_exec_bind(e, &cx.diag, W, o->w, BYTES), &cx.diag);
    assert_int_equal(tcc_exec_run(e, &cx.diag), TCC_EINVAL);
    expect_text(&cx.diag, "binding 'y' (i64[50000]) has no memory");
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
    tcc_program *p = make_program();
    p->steps[0].kernel = 2;
    refused(&cx, device, p, TCC_EFORMAT, "step 0 (scale parts; test.c:1,2): kernel 2 of 2");
    p = make_program();
    ((tcc_buffer *)p->steps[0].instances[2].buffers)[1].offset_bytes = 2 * BYTES - 8;
    refused(&cx, device, p, TCC_EFORMAT, "160000 bytes at 799992 of 800000");
    p = make_program();
    ((tcc_buffer *)p->steps[0].instances[2].buffers)[0].binding = 3;
    refused(&cx, device, p, TCC_EFORMAT, "binding 3 of 3");
    p = make_program();
    p->steps[1].to.size_bytes -= 1;
    refused(&cx, device, p, TCC_EFORMAT, "step 1 (copy): copy of 400000 bytes to 399999");
    p = make_program();
    p->kernels[1].symbol = "mixer";
    refused(&cx, device, p, TCC_ENOTFOUND, "module 0 has no kernel 'mixer'");
    p = make_program();
    p->bindings[1].type.dims[0] = INT64_MAX / 4;
    refused(&cx, device, p, TCC_EFORMAT, "binding 1 is malformed");
    p = make_program();
    p->modules[0].size_bytes = 100;
    refused(&cx, device, p, TCC_EFORMAT, "object 'module 0'");
    p = make_program();
    p->target = TCC_TARGET_CUDA;
    refused(&cx, device, p, TCC_EUNSUPPORTED, "was not made for device 'cpu'");
    p = make_program();
    tcc_library_call call = {.name = "nothing.at_all"};
    p->steps[3] = (tcc_step){.kind = TCC_STEP_LIBRARY, .call = &call, .label = "dot"};
    refused(&cx, device, p, TCC_EUNSUPPORTED, "'nothing.at_all': no such library entry");
    p = make_program();
    p->arena_bytes = INT64_MAX / 2;
    refused(&cx, device, p, TCC_ENOMEM, "for the arena of program 'test'");
    tcc_device_destroy(device);
}

static void test_out_of_memory(void **state) {
    (void)state;
    tcc_program *p = make_program();
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
    if (!o || tcc_exec_bind(e, &cx.diag, X, x_data, BYTES) || tcc_exec_bind(e, &cx.diag, W, o->w, BYTES) ||
        tcc_exec_bind(e, &cx.diag, Y, o->y, BYTES))
        return NULL;
    u->failed = 0;
    for (int run = 0; run < 20; run++) {
        memset(o, 0, sizeof *o);
        if (tcc_exec_run(e, &cx.diag) != TCC_OK || memcmp(o->y, expected, BYTES)) u->failed = 1;
    }
    free(o);
    tcc_exec_destroy(e);
    return NULL;
}

static void test_users_in_threads(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_program *p = make_program();
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
    assert_non_null(strstr(text.text, "program 'test': 5 steps, arena 0.8 MB, minima of 3 runs; the device does"));
    assert_non_null(strstr(text.text, "scale parts"));
    assert_non_null(strstr(text.text, "test.c:1,2\n"));
    int lines = 0;
    for (const char *c = text.text; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 2 + 5 + 1);
    tcc_strbuf_free(&text);

    char path[] = "/tmp/tcc-trace-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_ok(tcc_profile_write_trace(e, &cx->diag, path), &cx->diag);
    char json[8192];
    ssize_t length = read(file, json, sizeof json - 1);
    assert_true(length > 0);
    json[length] = 0;
    cJSON *root = cJSON_Parse(json), *events = cJSON_GetObjectItem(root, "traceEvents");
    assert_int_equal(cJSON_GetArraySize(events), 5);
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(events, 0), "name")->valuestring, "scale parts");
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(events, 2), "cat")->valuestring, "pointwise");
    cJSON_Delete(root);
    close(file);
    unlink(path);
    assert_int_equal(tcc_profile_write_trace(e, &cx->diag, "/nonexistent/trace"), TCC_EIO);
    expect_text(&cx->diag, "/nonexistent/trace: error: cannot write the trace: No such file");
    assert_true(tcc_peak_resident_bytes() > 1 << 20);
}

static void test_profile_counts(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_program *p = make_program();
    tcc_device *device;
    tcc_exec *e;
    assert_ok(tcc_device_cpu_create(&cx, 2, &device), &cx.diag);
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    outputs *o = bind_all(e, &cx.diag);
    assert_null(tcc_exec_get_profile(e));
    assert_int_equal(tcc_profile_print(e, &cx.diag, NULL, &(tcc_strbuf){0}), TCC_EINVAL);
    expect_text(&cx.diag, "program 'test' has not been run with profiling on");
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
    assert_non_null(strstr(text.text, "cpu: 1 thread\n"));
    tcc_strbuf_free(&text);
    tcc_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_counts),   cmocka_unit_test(test_binding_errors), cmocka_unit_test(test_malformed_programs),
        cmocka_unit_test(test_out_of_memory),   cmocka_unit_test(test_users_in_threads), cmocka_unit_test(test_profile_counts),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
