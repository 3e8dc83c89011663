/* SPDX-License-Identifier: MIT
 * Plans: a model from a file trains as the one that was saved does, bit for bit, and nothing but a whole plan for this
 * machine is taken. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "harness/patience.h"

#include "frontend/run/compiled_file.h"
#include "ir/support/alloc.h"
#include "ir/support/cpu.h"
#include "runtime/files/file.h"
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum { ROWS = 8, WIDTH = 16, STEPS = 4 };

static float x[ROWS][WIDTH];
static int32_t y[ROWS];

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_linear(tcc_input(t, "x"), "fc1", 32);
    h = tcc_dropout(tcc_relu(tcc_batch_norm(h, "norm")), 0.25); /* random numbers, buffers */
    tcc_tensor logits = tcc_linear(h, "fc2", 4);
    tcc_output(t, "logits", logits);
    if (tcc_has_input(t, "y")) tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static void batch_of(int rows, tcc_array out[2]) {
    out[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {rows, WIDTH}, .data = x};
    out[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {rows}, .data = y};
}

static tcc_model *make(tcc_context *cx, const char *arch) {
    tcc_model *m;
    const tcc_model_options options = {
        .size = sizeof options,
        .seed = 7,
        .arch = arch,
        .mixed_precision = TCC_MIXED_FP16, /* derived states, a scale */
        .optimizer = OPTIMIZER_OF(TCC_ADAMW, 0.02, .weight_decay = 0.1, .clip_grad_norm = 1)};
    tcc_array batch[2];
    batch_of(ROWS, batch);
    assert_ok(tcc_model_create(cx, net, NULL, &options, &m), &cx->diag);
    assert_ok(tcc_model_compile(m, true, batch, 2), &cx->diag);
    assert_ok(tcc_model_compile(m, false, batch, 1), &cx->diag);
    return m;
}

static tcc_context *fresh_context(void) {
    tcc_context *cx;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    for (int i = 0; i < ROWS * WIDTH; i++) ((float *)x)[i] = (float)((i * 37) % 101) / 50 - 1;
    for (int i = 0; i < ROWS; i++) y[i] = i % 4;
    return cx;
}

static void expect_error(tcc_context *cx, const char *words) {
    if (!strstr(tcc_context_error(cx), words)) fail_msg("'%s' lacks '%s'", tcc_context_error(cx), words);
}

static void train(tcc_context *cx, tcc_model *m, double losses[STEPS], float logits[ROWS * 4]) {
    tcc_array batch[2], out;
    batch_of(ROWS, batch);
    for (int i = 0; i < STEPS; i++) {
        assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
        losses[i] = tcc_model_loss(m);
    }
    assert_ok(tcc_model_evaluate(m, batch, 1), &cx->diag);
    assert_ok(tcc_model_output(m, "logits", &out), &cx->diag);
    memcpy(logits, out.data, sizeof(float) * ROWS * 4);
}

static void test_trains_the_same(void **state) {
    (void)state;
    tcc_context *cx = fresh_context();
    tcc_model *m = make(cx, NULL), *loaded;
    double losses[STEPS], again[STEPS];
    float logits[ROWS * 4], logits_again[ROWS * 4];
    char *about, *text, *text_again;
    tcc_array a, b;
    assert_ok(tcc_model_save_plan(m, "of a test", "test.plan"), &cx->diag);
    assert_ok(tcc_plan_about(cx, "test.plan", &about), &cx->diag);
    assert_string_equal(about, "of a test");
    tcc_string_free(about);
    train(cx, m, losses, logits);
    assert_ok(tcc_model_load_plan(cx, "test.plan", NULL, &loaded), &cx->diag);
    train(cx, loaded, again, logits_again);
    assert_memory_equal(losses, again, sizeof losses);
    assert_memory_equal(logits, logits_again, sizeof logits);
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        assert_true(tcc_model_param(loaded, i, &b));
        assert_string_equal(a.name, b.name);
        assert_int_equal(tcc_model_param_is_trained(m, i), tcc_model_param_is_trained(loaded, i));
        assert_memory_equal(a.data, b.data, sizeof(float)); /* the first of each; all have one history */
    }
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++) {
        assert_true(tcc_model_optimizer_state(loaded, i, &b));
        assert_string_equal(a.name, b.name);
    }
    /* Reports are there, and what needs the function says so. */
    static const char *const kept[] = {"memory", "remat", "passes"};
    for (int i = 0; i < 3; i++) {
        assert_ok(tcc_model_report(m, kept[i], &text), &cx->diag);
        assert_ok(tcc_model_report(loaded, kept[i], &text_again), &cx->diag);
        assert_string_equal(text, text_again);
        tcc_string_free(text);
        tcc_string_free(text_again);
    }
    assert_int_equal(tcc_model_report(loaded, "tir", &text), TCC_EINVAL);
    expect_error(
        cx,
        "no report \"tir\"; there are passes, memory, remat, kernels, ptx, graphs, groups, ranks of a plan's program");
    tcc_array batch[2];
    batch_of(ROWS / 2, batch);
    assert_int_equal(tcc_model_verify(loaded, batch, 2, 0, NULL), TCC_EUNSUPPORTED);
    expect_error(cx, "the model comes from a plan");
    assert_int_equal(tcc_model_train(loaded, batch, 2), TCC_EUNSUPPORTED);
    expect_error(cx, "the plan has no training program for these inputs");
    expect_error(cx, "asked for: \"x\" f32[4,16], \"y\" i32[4]");
    expect_error(cx, "training: \"x\" f32[8,16], \"y\" i32[8]");
    /* What was loaded can be saved again. */
    assert_ok(tcc_model_save_plan(loaded, "of a test", "again.plan"), &cx->diag);
    tcc__bytes first, second;
    assert_ok(tcc__file_load(&cx->diag, "test.plan", &first), &cx->diag);
    assert_ok(tcc__file_load(&cx->diag, "again.plan", &second), &cx->diag);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    tcc__free(first.data);
    tcc__free(second.data);
    tcc_model_destroy(m);
    tcc_model_destroy(loaded);
    tcc_context_destroy(cx);
}

static uint32_t next_random(uint32_t *r) {
    *r ^= *r << 13;
    *r ^= *r >> 17;
    return *r ^= *r << 5;
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void seal(unsigned char *bytes, size_t size) {
    const uint64_t length = size, crc = crc32_z(0, bytes + 32, size - 32);
    for (int i = 0; i < 8; i++) {
        bytes[16 + i] = (unsigned char)(length >> 8 * i);
        bytes[24 + i] = (unsigned char)(crc >> 8 * i);
    }
}

static void expect_refused(tcc_context *cx, const char *why) {
    tcc_model *m;
    assert_int_equal(tcc_model_load_plan(cx, "bad.plan", NULL, &m), TCC_EFORMAT);
    assert_null(m);
    expect_error(cx, "bad.plan");
    expect_error(cx, why);
}

static void test_damaged(void **state) {
    (void)state;
    tcc_context *cx = fresh_context();
    tcc_model *m = make(cx, NULL);
    tcc__bytes plan;
    assert_ok(tcc_model_save_plan(m, NULL, "good.plan"), &cx->diag);
    tcc_model_destroy(m);
    assert_ok(tcc__file_load(&cx->diag, "good.plan", &plan), &cx->diag);
    assert_int_equal(tcc_model_load_plan(cx, "nowhere.plan", NULL, &m), TCC_ENOTFOUND);
    write_file("bad.plan", "TCCPROG", 8);
    expect_refused(cx, "not a training plan");
    write_file("bad.plan", plan.data, plan.size / 2);
    expect_refused(cx, "but there are");
    assert_int_equal(tcc_model_load_plan(cx, "/dev/zero", NULL, &m), TCC_EFORMAT); /* it has no end */
    expect_error(cx, "not a training plan");
    plan.data[8] = 77;
    write_file("bad.plan", plan.data, plan.size);
    expect_refused(cx, "a training plan of version 77; this runtime reads version");
    plan.data[8] = TCC_PLAN_VERSION;
    uint32_t random = 5;
    for (int i = 0; i < 50; i++) {
        unsigned char *byte = &plan.data[32 + next_random(&random) % (plan.size - 32)];
        *byte ^= 1 << i % 8;
        write_file("bad.plan", plan.data, plan.size);
        expect_refused(cx, "the training plan is damaged (its checksum differs)");
        *byte ^= 1 << i % 8;
    }
    /* Sealed again, so that fields are read: refused, or a plan. Nothing is run. */
    int refused = 0;
    for (int i = 0; i < 2000; i++) {
        const size_t size = i % 8 ? plan.size : 33 + next_random(&random) % (plan.size - 33);
        unsigned char *bad = malloc(size); /* to size: a sanitizer sees a read past the end */
        tcc_arena memory = {0};
        const char *about = NULL;
        assert_non_null(bad);
        memcpy(bad, plan.data, size);
        for (int k = 0; k <= i % 3; k++)
            bad[32 + next_random(&random) % (size < 1500 ? size - 32 : 1468)] = (unsigned char)next_random(&random);
        seal(bad, size);
        m = tcc__calloc(1, sizeof *m);
        m->cx = cx;
        tcc_diag_begin(&cx->diag);
        if (tcc__plan_decode(m, "bad", bad, (int64_t)size, &memory, &about) != TCC_OK) {
            assert_true(*tcc_context_error(cx));
            refused++;
        }
        tcc_model_destroy(m);
        tcc_arena_free(&memory);
        free(bad);
    }
    assert_in_range(refused, 300, 1999);
    tcc__free(plan.data);
    tcc_context_destroy(cx);
}

/* Loads a plan and trains with it; as the exit status of a process: 0: it did, 1: it was refused. */
static int load_and_train(const char *path) {
    tcc_context *cx = fresh_context();
    tcc_model *m;
    tcc_array batch[2];
    batch_of(ROWS, batch);
    tcc_status status = tcc_model_load_plan(cx, path, NULL, &m);
    if (status == TCC_OK) status = tcc_model_train(m, batch, 2);
    if (status == TCC_OK) status = tcc_model_evaluate(m, batch, 1);
    const bool said = status == TCC_OK || *tcc_context_error(cx);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return !said ? 3 : status != TCC_OK;
}

/* Whether byte `at` is machine code, which is trusted. */
static bool is_code(const tcc__bytes *plan, const tcc_model *m, size_t at) {
    for (int i = 0; i < m->programs.count; i++) {
        const tcc_program *p = m->programs.data[i]->program;
        for (int k = 0; k < p->n_modules; k++) {
            const unsigned char *code = memmem(plan->data, plan->size, p->modules[k].code,
                                               (size_t)p->modules[k].size_bytes);
            if (code && at >= (size_t)(code - plan->data) &&
                at < (size_t)(code - plan->data) + (size_t)p->modules[k].size_bytes)
                return true;
        }
    }
    return false;
}

/* So many more bytes of memory than this process has now, a sanitizer's own included. */
static void limit_memory(int64_t bytes) {
    char line[256];
    long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmData: %lld", &kib) != 1) {}
    if (f) fclose(f);
    const rlim_t limit = (rlim_t)(kib * 1024 + bytes);
    setrlimit(RLIMIT_DATA, &(struct rlimit){limit, limit});
}

/* Plans with right checksums and one wrong byte: each is refused, or trains, and ends. TCC_TEST_COUNT says how many. */
static void test_changed_and_run(void **state) {
    (void)state;
    const char *count = getenv("TCC_TEST_COUNT");
    tcc_context *cx = fresh_context();
    tcc_model *m = make(cx, NULL);
    tcc__bytes plan;
    uint32_t random = 11;
    int ends[2] = {0};
    assert_ok(tcc_model_save_plan(m, NULL, "good.plan"), &cx->diag);
    assert_ok(tcc__file_load(&cx->diag, "good.plan", &plan), &cx->diag);
    for (int i = 0; i < (count ? atoi(count) : 40); i++) {
        size_t at;
        do at = 32 + next_random(&random) % (plan.size - 32);
        while (is_code(&plan, m, at));
        const unsigned char before = plan.data[at];
        static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
        plan.data[at] = i % 2 ? values[next_random(&random) % sizeof values] : (unsigned char)next_random(&random);
        seal(plan.data, plan.size);
        write_file("changed.plan", plan.data, plan.size);
        int status;
        const pid_t child = fork();
        if (!child) {
            alarm((unsigned)test_seconds(20));
            limit_memory(INT64_C(2) << 30); /* a large claim is refused, not met */
            _exit(load_and_train("changed.plan"));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
            fail_msg("byte %zu, %d instead of %d: ended with %d", at, plan.data[at], before, status);
        ends[WEXITSTATUS(status)]++;
        plan.data[at] = before;
    }
    print_message("%d changed plans trained, %d were refused\n", ends[0], ends[1]);
    assert_true(ends[1]);
    tcc__free(plan.data);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* The plan of `m`, its first program changed. */
static void save_changed(tcc_context *cx, tcc_model *m, const char *cpu) {
    void *bytes;
    int64_t size;
    tcc_program *p = m->programs.data[0]->program;
    const char *before = p->cpu;
    if (cpu) p->cpu = cpu;
    assert_ok(tcc__plan_encode(m, NULL, &bytes, &size), &cx->diag);
    write_file("bad.plan", bytes, (size_t)size);
    tcc__free(bytes);
    p->cpu = before;
}

static void test_another_machine(void **state) {
    (void)state;
    tcc_context *cx = fresh_context();
    tcc_model *m = make(cx, NULL), *loaded;
    static const char other[] = "another,+avx512bf16,+amx-bf16";
    if (tcc_cpu_lacks(other)) {
        save_changed(cx, m, other);
        assert_int_equal(tcc_model_load_plan(cx, "bad.plan", NULL, &loaded), TCC_EUNSUPPORTED);
        expect_error(cx, "was made for another, a CPU with ");
        expect_error(cx, "bad.plan");
    }
    /* A parameter that the program takes for another. */
    tcc_type *type = &m->shared->store.entries.data[0].type;
    type->dims[0]--;
    save_changed(cx, m, NULL);
    expect_refused(cx, "the model has nothing that could be 'fc1.weight', f32[32,16]");
    type->dims[0] = INT64_C(1) << 40; /* no memory is taken for it */
    save_changed(cx, m, NULL);
    expect_refused(cx, "the model has nothing that could be 'fc1.weight', f32[32,16]");
    type->dims[0] = 32;
    m->programs.data[0]->inputs[0].dims[0]--;
    save_changed(cx, m, NULL);
    expect_refused(cx, "the model has nothing that could be 'x', f32[8,16]");
    m->programs.data[0]->inputs[0].dims[0]++;
    const char *name = m->programs.data[0]->inputs[0].name; /* a batch that the program does not read */
    m->programs.data[0]->inputs[0].name = "z";
    save_changed(cx, m, NULL);
    expect_refused(cx, "the model has nothing that could be 'x', f32[8,16]");
    m->programs.data[0]->inputs[0].name = name;
    tcc_model_destroy(m);

    /* A parameter that no program reads. */
    m = make(cx, NULL);
    int unread;
    const tcc_type huge = {TCC_F32, 1, {INT64_C(1) << 44}};
    assert_ok(tcc_store_add(&m->shared->store, "unread", TCC_ROLE_PARAM, &huge, &(tcc_init){.kind = TCC_INIT_CONSTANT},
                            &cx->diag, TCC_NOWHERE, &unread),
              &cx->diag);
    assert_ok(tcc__model_use(m, unread), &cx->diag);
    assert_ok(tcc_model_save_plan(m, NULL, "bad.plan"), &cx->diag);
    assert_int_equal(tcc_model_load_plan(cx, "bad.plan", NULL, &loaded), TCC_ENOMEM);
    expect_error(cx, "the program does not fit: 64.0 TiB more are needed");
    tcc_model_destroy(m);

    /* For a GPU, on a CPU. */
    m = make(cx, "sm_90");
    assert_ok(tcc_model_save_plan(m, NULL, "gpu.plan"), &cx->diag);
    assert_int_equal(tcc_model_load_plan(cx, "gpu.plan", "cpu", &loaded), TCC_EUNSUPPORTED);
    expect_error(cx, "was not made for device 'cpu'");
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void test_out_of_memory(void **state) {
    (void)state;
    tcc_context *cx = fresh_context();
    tcc_model *m = make(cx, NULL), *loaded = NULL;
    assert_ok(tcc_model_save_plan(m, "text", "memory.plan"), &cx->diag);
    tcc_model_destroy(m);
    for (int64_t n = 0; !loaded; n++) {
        tcc__alloc_fail_at(n);
        const tcc_status status = tcc_model_load_plan(cx, "memory.plan", NULL, &loaded);
        tcc__alloc_fail_at(-1);
        if (status != TCC_OK) assert_int_equal(status, TCC_ENOMEM);
    }
    tcc_model_destroy(loaded);
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trains_the_same), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_changed_and_run), cmocka_unit_test(test_another_machine),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
