/* SPDX-License-Identifier: MIT
 * Parameters and buffers of every element type. Integers and bool have no calls: a model here asks the store itself. */
#include "harness/typed_params.h"
#include "harness/check.h"
#include "harness/optimizer.h"

#include "frontend/compile/compile.h"
#include "ir/build.h"
#include "ir/support/element.h"
#include "traincc/checkpoint.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { N = 24 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static tcc_node *stored(tcc_trace *t, const char *name, tcc_role role, tcc_dtype dtype, tcc_init init) {
    const tcc_type type = {dtype, 1, {N}};
    int index = tcc_store_find(t->store, name);
    if (index < 0) tcc_store_add(t->store, name, role, &type, &init, t->graph->diag, TCC_NOWHERE, &index);
    return tcc_ir_input(t->graph, name, role, &type, TCC_NOWHERE);
}

static void net(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor x = tcc_input(t, "x");
    tcc_node *w = stored(t, "w", TCC_ROLE_PARAM, TCC_BF16, (tcc_init){TCC_INIT_NORMAL, .b = 1});
    for (tcc_dtype d = 0; d < TCC_DTYPE_COUNT; d++) {
        char name[32];
        snprintf(name, sizeof name, "seen.%s", tcc_dtype_text(d));
        tcc_node *s = stored(t, tcc_dtype_text(d), TCC_ROLE_STATE, d, (tcc_init){TCC_INIT_CONSTANT, .a = 2.7});
        tcc_output(t, name, tcc_trace_wrap(t, tcc_ir_cast(t->graph, s, TCC_F64)));
    }
    tcc_tensor product = tcc_mul(tcc_trace_wrap(t, tcc_ir_cast(t->graph, w, TCC_F32)), x);
    tcc_loss(t, tcc_mean(tcc_mul(product, product), TCC_DIMS(0)));
}

static void expect_seen(tcc_context *cx, tcc_model *m, tcc_dtype d, double expected) {
    char name[32];
    tcc_array a;
    snprintf(name, sizeof name, "seen.%s", tcc_dtype_text(d));
    OK(cx, tcc_model_output(m, name, &a));
    for (int i = 0; i < N; i++)
        if (((double *)a.data)[i] != expected)
            fail_msg("%s[%d] is %.17g, not %.17g", name, i, ((double *)a.data)[i], expected);
}

static void refused(tcc_context *cx, tcc_status got, tcc_status expected, const char *message) {
    if (got != expected || !strstr(tcc_context_error(cx), message))
        fail_msg("%s: %s, expected %s", tcc_status_name(got), tcc_context_error(cx), message);
    tcc_context_clear_error(cx);
}

/* What may be converted is, and all else is refused with both types. */
static void check_calls(tcc_context *cx, tcc_model *m, const tcc_array *batch) {
    double wide[N];
    float narrow[N];
    for (int i = 0; i < N; i++) wide[i] = 1 + 0x1p-8 + 0x1p-40;
    tcc_array from = {.dtype = TCC_F64, .rank = 1, .dims = {N}, .data = wide}, to = from;
    to.dtype = TCC_F32, to.data = narrow;
    for (tcc_dtype d = 0; d < TCC_DTYPE_COUNT; d++) {
        char message[96];
        from.name = to.name = tcc_dtype_text(d);
        snprintf(message, sizeof message, "\"%s\" is %s[24], the array f64[24]: only floats are converted", to.name,
                 to.name);
        if (!tcc_dtype_is_float(d)) {
            refused(cx, tcc_model_set_param(m, &from), TCC_EDTYPE, message);
            refused(cx, tcc_model_get_param(m, &to), TCC_EDTYPE, "use an array of ");
            continue;
        }
        OK(cx, tcc_model_set_param(m, &from));
        OK(cx, tcc_model_get_param(m, &to));
        for (int i = 0; i < N; i++) assert_true(narrow[i] == (float)tcc_dtype_round(d, wide[i]));
    }
    OK(cx, tcc_model_evaluate(m, batch, 1));
    for (tcc_dtype d = 0; d < TCC_DTYPE_COUNT; d++)
        if (tcc_dtype_is_float(d)) expect_seen(cx, m, d, tcc_dtype_round(d, wide[0]));
    const int64_t whole[N] = {INT64_MAX - 1};
    int64_t back[N];
    OK(cx, tcc_model_set_param(m, &(tcc_array){"i64", TCC_I64, 1, {N}, (void *)whole}));
    OK(cx, tcc_model_get_param(m, &(tcc_array){"i64", TCC_I64, 1, {N}, back}));
    assert_memory_equal(whole, back, sizeof whole);
    refused(cx, tcc_model_get_param(m, &(tcc_array){"f16", TCC_F32, 1, {N - 1}, narrow}), TCC_ESHAPE,
            "\"f16\" is f16[24], the array f32[23]");
    refused(cx, tcc_model_get_param(m, &(tcc_array){"v", TCC_F32, 1, {N}, narrow}), TCC_ENOTFOUND,
            "there is no parameter or buffer \"v\"");
    refused(cx, tcc_model_get_param(m, &(tcc_array){"f16", TCC_F32, 1, {N}, NULL}), TCC_EINVAL, "without name or data");
}

/* All of them through a file; then from a file in f32. */
static void check_files(tcc_context *cx, tcc_model *m, const tcc_array *batch) {
    char path[] = "typed_params.safetensors";
    enum { COUNT = TCC_DTYPE_COUNT + 1 };
    unsigned char before[COUNT][8 * N];
    tcc_array all[COUNT];
    tcc_safetensors *file;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < COUNT; i++) {
            assert_true(tcc_model_param(m, i, &all[i]));
            const size_t bytes = N * (size_t)tcc_dtype_bytes(all[i].dtype);
            if (pass) assert_memory_equal(before[i], all[i].data, bytes);
            else memcpy(before[i], all[i].data, bytes);
            if (i < COUNT - 1) continue;
            if (!pass) OK(cx, tcc_safetensors_write(cx, path, all, COUNT, NULL, 0));
            for (int k = 0; k < COUNT && !pass; k++) memset(all[k].data, 0, N);
            OK(cx, tcc_safetensors_open(cx, path, &file));
            OK(cx, tcc_safetensors_load(cx, file, all, COUNT, 0));
            tcc_safetensors_close(file);
        }
    float values[N];
    tcc_array half;
    for (int i = 0; i < N; i++) values[i] = 0.1f;
    const tcc_array wide = {.name = "f16", .dtype = TCC_F32, .rank = 1, .dims = {N}, .data = values};
    OK(cx, tcc_safetensors_write(cx, path, &wide, 1, NULL, 0));
    OK(cx, tcc_safetensors_open(cx, path, &file));
    assert_true(tcc_model_find_param(m, "f16", &half));
    OK(cx, tcc_safetensors_load(cx, file, &half, 1, 0));
    tcc_safetensors_close(file);
    unlink(path);
    OK(cx, tcc_model_evaluate(m, batch, 1));
    expect_seen(cx, m, TCC_F16, tcc_dtype_round(TCC_F16, (double)0.1f));
}

/* -- Layers of other types -- */

enum { ROWS = 5, WIDTH = 3 };

static void layers(tcc_trace *t, void *user) {
    const tcc_dtype dtype = *(const tcc_dtype *)user;
    tcc_param_type(t, dtype);
    tcc_tensor x = tcc_embedding(tcc_input(t, "i"), "table", ROWS, WIDTH, .padding_index = 2);
    x = tcc_lstm(tcc_layer_norm(x, "norm"), "lstm", WIDTH, .batch_first = true).all;
    x = tcc_linear(x, "head", 1);
    tcc_param_type_end(t);
    tcc_loss(t, tcc_cast(tcc_mean(tcc_mul(x, x), TCC_ALL), TCC_F32));
}

/* Parameters have their type, the row of padding stays 0, and updates are as fine as the type, or f32 where it is
 * narrower. */
static void check_layers(tcc_context *cx, const char *device, tcc_dtype dtype) {
    int32_t indices[2][4] = {{0, 2, 1, 4}, {2, 2, 3, 3}};
    const tcc_array batch = {.name = "i", .dtype = TCC_I32, .rank = 2, .dims = {2, 4}, .data = indices};
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .seed = 3,
                                 .verify_passes = true,
                                 .optimizer = OPTIMIZER_OF(TCC_ADAM, 0.01, .momentum = 0)};
    double before[ROWS * WIDTH], after[ROWS * WIDTH], bias[1];
    tcc_array got = {.name = "table.weight", .dtype = TCC_F64, .rank = 2, .dims = {ROWS, WIDTH}, .data = before};
    tcc_array head = {.name = "head.bias", .dtype = TCC_F64, .rank = 1, .dims = {1}, .data = bias}, a, moment;
    tcc_model *m;
    OK(cx, tcc_model_create(cx, layers, &dtype, &o, &m));
    OK(cx, tcc_model_evaluate(m, &batch, 1));
    OK(cx, tcc_model_get_param(m, &got));
    OK(cx, tcc_model_get_param(m, &head));
    const float first = tcc_model_loss(m);
    const double start = bias[0];
    for (int i = 0; i < ROWS * WIDTH; i++) assert_int_equal(before[i] == 0, i / WIDTH == 2);
    OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_get_param(m, &head));
    assert_true(fabs(start - bias[0]) > 0.009); /* Adam's first step: the learning rate */
    if (dtype == TCC_F64) assert_true(bias[0] != (float)bias[0]);
    for (int i = 0; i < 20; i++) OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_evaluate(m, &batch, 1));
    assert_true(tcc_model_loss(m) < first);
    got.data = after;
    OK(cx, tcc_model_get_param(m, &got));
    for (int i = 0; i < ROWS * WIDTH; i++) assert_int_equal(after[i] == before[i], i / WIDTH == 2);
    for (int i = 0; tcc_model_param(m, i, &a); i++) assert_int_equal(a.dtype, dtype);
    for (int i = 0; tcc_model_optimizer_state(m, i, &moment); i++)
        if (tcc_dtype_is_float(moment.dtype)) assert_int_equal(moment.dtype, dtype == TCC_F64 ? TCC_F64 : TCC_F32);
    tcc_model_destroy(m);
}

void check_typed_params(const char *device) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array w, moment;
    float x[N], before[N], after[N];
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 1, .dims = {N}, .data = x};
    const tcc_array old = {.name = "w", .dtype = TCC_F32, .rank = 1, .dims = {N}, .data = before};
    const tcc_array new = {.name = "w", .dtype = TCC_F32, .rank = 1, .dims = {N}, .data = after};
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .seed = 5,
                                 .verify_passes = true,
                                 .optimizer = OPTIMIZER_OF(TCC_ADAM, 0.125, .momentum = 0)};
    for (int i = 0; i < N; i++) x[i] = 1 + (float)(i % 5);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    refused(cx, tcc_model_get_param(m, &old), TCC_ENOTFOUND, "parameters are there after the first run or compile");
    OK(cx, tcc_model_evaluate(m, &batch, 1));
    for (tcc_dtype d = 0; d < TCC_DTYPE_COUNT; d++) expect_seen(cx, m, d, tcc_dtype_round(d, 2.7));
    OK(cx, tcc_model_get_param(m, &old));
    OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_get_param(m, &new));
    for (int i = 0; i < N; i++) /* Adam's first step is lr towards 0, rounded to bf16 */
        assert_true(fabsf(after[i] - (before[i] - (before[i] > 0 ? 0.125f : -0.125f))) <= 0x1p-8f * fabsf(before[i]));
    assert_true(tcc_model_find_param(m, "w", &w) && w.dtype == TCC_BF16);
    assert_true(tcc_model_optimizer_state(m, 0, &moment) && moment.dtype == TCC_F32);
    check_calls(cx, m, &batch);
    check_files(cx, m, &batch);
    OK(cx, tcc_model_verify(m, &batch, 1, 0, NULL));
    tcc_model_destroy(m);
    for (tcc_dtype d = 0; d < TCC_DTYPE_COUNT; d++)
        if (tcc_dtype_is_float(d)) check_layers(cx, device, d);
    tcc_context_destroy(cx);
}
