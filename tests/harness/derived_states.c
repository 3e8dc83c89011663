/* SPDX-License-Identifier: MIT
 * Derived states. No layer makes one: the model here puts them into its graph as a pass would. */
#include "harness/derived_states.h"
#include "harness/check.h"

#include "frontend/compile/compile.h"
#include "ir/build.h"
#include "traincc/checkpoint.h"
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 40 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* Training updates "w" and nothing its copy. It updates "s", and its copy too where a batch array "keep" is given. */
static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_graph *g = t->graph;
    tcc_tensor x = tcc_input(t, "x"), w = tcc_param(t, "w", (tcc_init){TCC_INIT_NORMAL, .b = 1}, TCC_DIMS(N));
    tcc_tensor s = tcc_state(t, "s", (tcc_init){TCC_INIT_NORMAL, .b = 1}, TCC_DIMS(N));
    tcc_node *low_w = tcc_ir_state_copy(g, "low.w", TCC_BF16, w.node, TCC_NOWHERE);
    tcc_node *low_s = tcc_ir_state_copy(g, "low.s", TCC_BF16, s.node, TCC_NOWHERE);
    tcc_output(t, "seen.w", tcc_trace_wrap(t, tcc_ir_cast(g, low_w, TCC_F32)));
    tcc_output(t, "seen.s", tcc_trace_wrap(t, tcc_ir_cast(g, low_s, TCC_F32)));
    tcc_tensor next = tcc_add(tcc_scale(s, 0.75), x);
    if (tcc_is_training(t)) tcc_update(s, next);
    for (int i = 0; tcc_is_training(t) && tcc_has_input(t, "keep") && i < g->inputs.count; i++)
        if (g->inputs.data[i] == low_s) tcc_ir_output(g, "low.s", tcc_ir_cast(g, next.node, TCC_BF16), i);
    tcc_tensor error = tcc_sub(tcc_mul(w, x), s);
    tcc_loss(t, tcc_mean(tcc_mul(error, error), TCC_DIMS(0)));
}

typedef struct fixture {
    tcc_context *cx;
    tcc_model *m;
    float x[N], keep[1];
    tcc_array batch[2];
} fixture;

static void start(fixture *f, const char *device) {
    *f = (fixture){0};
    const tcc_model_options o = {.size = sizeof o, .device = device, .seed = 5, .verify_passes = true};
    for (int i = 0; i < N; i++) f->x[i] = (float)(i % 7) / 3;
    f->batch[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 1, .dims = {N}, .data = f->x};
    f->batch[1] = (tcc_array){.name = "keep", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = f->keep};
    OK(f->cx, tcc_context_create(&f->cx));
    OK(f->cx, tcc_model_create(f->cx, net, NULL, &o, &f->m));
    OK(f->cx, tcc_model_compile(f->m, true, f->batch, 2));
}

static void finish(fixture *f) {
    tcc_model_destroy(f->m);
    tcc_context_destroy(f->cx);
}

static void read_source(fixture *f, const char *name, float *out) {
    tcc_array a;
    const int index = tcc_store_find(&f->m->shared->store,
                                     name); /* not by the public way, after which it may be written */
    OK(f->cx, tcc_model_synchronize(f->m));
    a.data = f->m->shared->store.entries.data[index].data;
    memcpy(out, a.data, N * sizeof *out);
}

static void expect_seen(fixture *f, const char *output, const float *source) {
    tcc_array seen;
    OK(f->cx, tcc_model_output(f->m, output, &seen));
    for (int i = 0; i < N; i++) {
        const float got = ((const float *)seen.data)[i], expected = tcc_bf16_to_f32(tcc_f32_to_bf16(source[i]));
        if (got != expected) fail_msg("%s[%d] is %.9g, but the source was %.9g", output, i, got, source[i]);
    }
}

/* One run, in which the copies are those of what the sources are before it. */
static void run(fixture *f, bool train, bool keep) {
    float w[N], s[N];
    read_source(f, "w", w);
    read_source(f, "s", s);
    OK(f->cx, (train ? tcc_model_train : tcc_model_evaluate)(f->m, f->batch, 1 + keep));
    expect_seen(f, "seen.w", w);
    expect_seen(f, "seen.s", s);
}

static bool is_stale(const fixture *f, const char *name) {
    return f->m->shared->copies.entries.data[tcc_store_find(&f->m->shared->copies, name)].stale;
}

static void add_to(fixture *f, const char *name, float difference) {
    tcc_array a;
    assert_true(tcc_model_find_param(f->m, name, &a));
    for (int i = 0; i < N; i++) ((float *)a.data)[i] += difference;
}

static void follow_runs_and_writes(fixture *f) {
    tcc_array a;
    for (int i = 0; tcc_model_optimizer_state(f->m, i, &a); i++) assert_null(strstr(a.name, "low."));
    run(f, false, false);
    for (int i = 0; i < 3; i++) run(f, true, true);
    assert_true(is_stale(f, "low.w"));
    assert_false(is_stale(f, "low.s")); /* kept up by the program: nothing to do */
    run(f, false, true);
    for (int i = 0; i < 2; i++) run(f, true, false);
    assert_true(is_stale(f, "low.s"));
    run(f, true, true);
    run(f, false, false);
    add_to(f, "w", 0.37f);
    run(f, false, false);
    add_to(f, "s", -1.1f);
    run(f, true, true);
    run(f, true, true);
}

/* From a file: as checkpoints are loaded. */
static void follow_a_load(fixture *f) {
    char path[] = "derived_states.safetensors";
    float w[N], s[N];
    tcc_array params[2];
    tcc_safetensors *file;
    for (int i = 0; i < 2; i++) assert_true(tcc_model_param(f->m, i, &params[i]));
    OK(f->cx, tcc_safetensors_write(f->cx, path, params, 2, NULL, 0));
    read_source(f, "w", w);
    read_source(f, "s", s);
    for (int i = 0; i < 3; i++) run(f, true, true);
    OK(f->cx, tcc_safetensors_open(f->cx, path, &file));
    for (int i = 0; i < 2; i++) assert_true(tcc_model_param(f->m, i, &params[i]));
    OK(f->cx, tcc_safetensors_load(f->cx, file, params, 2, 0));
    tcc_safetensors_close(file);
    unlink(path);
    run(f, true, true);
    expect_seen(f, "seen.w", w);
    expect_seen(f, "seen.s", s);
}

void check_derived_states(const char *device) {
    fixture f;
    start(&f, device);
    follow_runs_and_writes(&f);
    follow_a_load(&f);
    OK(f.cx, tcc_model_verify(f.m, f.batch, 2, 0, NULL));
    finish(&f);

    start(&f, device); /* verified before it has run */
    tcc_model_destroy(f.m);
    const tcc_model_options o = {.size = sizeof o, .device = device, .seed = 6};
    OK(f.cx, tcc_model_create(f.cx, net, NULL, &o, &f.m));
    OK(f.cx, tcc_model_verify(f.m, f.batch, 2, 0, NULL));
    run(&f, true, true);
    finish(&f);
}

/* -- Weights that a program knows by their copies alone -- */

enum { WIDE = 24 };

static void product(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor y = tcc_linear(tcc_reshape(tcc_input(t, "x"), TCC_DIMS(1, N)), "l", WIDE);
    tcc_output(t, "y", tcc_cast(y, TCC_F32));
    tcc_loss(t, tcc_mean(tcc_mul(y, y), TCC_ALL));
}

static void *device_memory(const fixture *f, const char *name) {
    return f->m->shared->store.entries.data[tcc_store_find(&f->m->shared->store, name)].device;
}

static void set_weight(fixture *f, float value) {
    static float w[WIDE * N];
    const tcc_array weight = {"l.weight", TCC_F32, 2, {WIDE, N}, w};
    for (int i = 0; i < WIDE * N; i++) w[i] = value;
    OK(f->cx, tcc_model_set_param(f->m, &weight));
}

static float first_answer(fixture *f) {
    tcc_array y;
    OK(f->cx, tcc_model_evaluate(f->m, f->batch, 1));
    OK(f->cx, tcc_model_output(f->m, "y", &y));
    return *(const float *)y.data;
}

void check_idle_weights(const char *device) {
    const bool own = strcmp(device, "cpu") != 0; /* the device has memory of its own */
    const int64_t copies = 2 * WIDE * N, weights = 4 * WIDE * N, bias = 4 * WIDE;
    fixture f;
    tcc_memory_plan plan;
    tcc_program_info info;
    start(&f, device);
    tcc_model_destroy(f.m);
    const tcc_model_options o = {.size = sizeof o, .device = device, .seed = 6, .mixed_precision = TCC_MIXED_BF16};
    OK(f.cx, tcc_model_create(f.cx, product, NULL, &o, &f.m));
    OK(f.cx, tcc_model_plan(f.m, false, f.batch, 1, &plan));
    assert_int_equal(plan.state_bytes, copies + bias + (own ? 0 : weights));
    const float before = first_answer(&f);
    OK(f.cx, tcc_model_info(f.m, &info));
    assert_int_equal(info.param_bytes, bias + (own ? 0 : weights));
    assert_int_equal(info.peak_bytes, plan.arena_bytes + plan.state_bytes + plan.batch_bytes);
    assert_null(device_memory(&f, "l.weight"));
    set_weight(&f, 0);
    const float none = first_answer(&f);
    assert_true(none != before);
    assert_null(device_memory(&f, "l.weight"));
    OK(f.cx, tcc_model_train(f.m, f.batch, 1)); /* which updates it */
    assert_true(!device_memory(&f, "l.weight") == !own);
    OK(f.cx, tcc_model_train(f.m, f.batch, 1));
    assert_true(first_answer(&f) != none);
    set_weight(&f, 0);
    const float again = first_answer(&f);
    assert_true(again != none); /* the bias has learned, too */
    set_weight(&f, 0.5F);
    assert_true(first_answer(&f) != again);
    finish(&f);
}
