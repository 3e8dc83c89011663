/* SPDX-License-Identifier: MIT
 * Convolutions by cuDNN: every form against plain sums, which engine is taken, what the library refuses, a library that
 * is missing or of another version, and every call of it failing once. On the stand-in; on a GPU with the library the
 * convolutions alone. */
#include "harness/check.h"
#include "harness/conv_forms.h"
#include "harness/cuda_call.h"
#include "harness/cudnn_device.h"

#include "codegen/calls.h"
#include "runtime/cuda/cudnn_conv_graph.h"

#include <math.h>
#include <stdlib.h>

/* --- programs of one convolution --- */

static const char *const entries[] = {"cudnn.conv_forward", "cudnn.conv_data_gradient", "cudnn.conv_filter_gradient"};

static int64_t span(int64_t outer, int64_t channels, const int64_t *sizes, const int64_t *strides) {
    int64_t last = (outer - 1) * strides[0] + (channels - 1) * strides[1];
    for (int i = 0; i < CONV_SPATIAL; i++) last += (sizes[i] - 1) * strides[2 + i];
    return last + 1;
}

typedef struct spans {
    int64_t x, w, bias, y;
} spans;

static spans spans_of(const tcc_conv_params *c) {
    return (spans){span(c->batch, c->in, c->x_size, c->x_stride),
                   span(c->out, c->in / c->groups, c->kernel, c->w_stride), c->out,
                   span(c->batch, c->out, c->y_size, c->y_stride)};
}

static call_shape shape_of(tcc_cudnn_conv_kind kind, const tcc_cudnn_conv_params *p) {
    const spans s = spans_of(&p->conv);
    const int64_t counts[3][4] = {{s.x, s.w, s.bias, s.y}, {s.y, s.w, s.x}, {s.x, s.y, s.w}};
    call_shape shape = {.entry = entries[kind],
                        .n_params = TCC_CONV_FORWARD_PARAMS,
                        .n_buffers = kind == TCC_CUDNN_CONV_FORWARD ? 4 : 3,
                        .n_outputs = 1,
                        .workspace_bytes = p->workspace_bytes};
    for (int i = 0; i < shape.n_buffers; i++)
        shape.types[i] = (tcc_type){.dtype = (tcc_dtype)p->type, .rank = 1, .dims = {counts[kind][i]}};
    return shape;
}

/* Every product of the convolution, added where the result of that kind is: by places in memory, with the sum of
 * magnitudes. */
static void add_products(tcc_cudnn_conv_kind kind, const tcc_cudnn_conv_params *p, void *const *data, double *sum,
                         double *scale) {
    const tcc_conv_params *c = &p->conv;
    const int64_t in = c->in / c->groups, out = c->out / c->groups, pixels = c->y_size[0] * c->y_size[1] * c->y_size[2],
                  taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t k = 0; k < c->out; k++)
            for (int64_t i = 0; i < pixels * taps * in; i++) {
                int64_t pixel = i / in / taps, tap = i / in % taps, channel = i % in;
                int64_t x = n * c->x_stride[0] + (k / out * in + channel) * c->x_stride[1],
                        w = k * c->w_stride[0] + channel * c->w_stride[1];
                int64_t y = n * c->y_stride[0] + k * c->y_stride[1];
                bool inside = true;
                for (int d = CONV_SPATIAL; d-- > 0;) {
                    int64_t at_y = pixel % c->y_size[d], at_w = tap % c->kernel[d],
                            at_x = at_y * c->stride[d] - c->pad_low[d] + at_w * c->dilation[d];
                    pixel /= c->y_size[d], tap /= c->kernel[d];
                    inside = inside && at_x >= 0 && at_x < c->x_size[d];
                    x += at_x * c->x_stride[2 + d], w += at_w * c->w_stride[2 + d], y += at_y * c->y_stride[2 + d];
                }
                if (!inside) continue;
                double a = kind == TCC_CUDNN_CONV_DATA_GRADIENT ? call_value_at(data[0], p->type, y)
                                                                : call_value_at(data[0], p->type, x);
                double b = kind == TCC_CUDNN_CONV_FILTER_GRADIENT ? call_value_at(data[1], p->type, y)
                                                                  : call_value_at(data[1], p->type, w);
                int64_t to = kind == TCC_CUDNN_CONV_FORWARD ? y : kind == TCC_CUDNN_CONV_DATA_GRADIENT ? x : w;
                sum[to] += a * b;
                scale[to] += fabs(a * b);
            }
}

static void compare(tcc_cudnn_conv_kind kind, const tcc_cudnn_conv_params *p, void *const *data, const void *got,
                    int64_t count) {
    const double tolerance = p->allow_tf32 || p->type == TCC_BF16 ? 1e-2 : p->type == TCC_F16 ? 2e-3 : 1e-5;
    const tcc_conv_params *c = &p->conv;
    double *sum = calloc((size_t)count, sizeof *sum), *scale = calloc((size_t)count, sizeof *scale);
    add_products(kind, p, data, sum, scale);
    for (int64_t i = 0; i < count; i++) {
        if (kind == TCC_CUDNN_CONV_FORWARD) { /* dense: the channel of a place */
            int64_t channel = i / c->y_stride[1] % c->out;
            if (c->bias) sum[i] += call_value_at(data[2], p->type, channel);
            if (c->relu && sum[i] < 0) sum[i] = 0;
        }
        double is = call_value_at(got, p->type, i);
        if (!(fabs(is - sum[i]) <= tolerance * (1 + scale[i])))
            fail_msg("%s, place %lld: %g instead of %g", entries[kind], (long long)i, is, sum[i]);
    }
    free(sum);
    free(scale);
}

static void upload_random(rig *c, int64_t type, int n, void **data) {
    for (int i = 0; i < n; i++) {
        data[i] = call_random_data(type, c->program->bindings[i].type.dims[0], (uint32_t)i + 1);
        assert_ok(c->device->ops->upload(c->device, &c->cx.diag, c->memory[i], data[i], rig_bytes(c, i)), &c->cx.diag);
    }
}

/* Runs it, and again with a tensor elsewhere. */
static void check_conv(tcc_cudnn_conv_kind kind, const tcc_cudnn_conv_params *p) {
    const call_shape shape = shape_of(kind, p);
    const int result = shape.n_buffers - 1;
    rig c;
    void *data[RIG_BINDINGS];
    if (sim.restart) sim.restart(); /* it tells the order of work in some sixty streams apart */
    if (rig_start(&c, call_program(&shape, (const int64_t *)p)) != TCC_OK) fail_msg("%s", tcc_diag_text(&c.cx.diag));
    upload_random(&c, p->type, shape.n_buffers, data);
    for (int run = 0; run < 3; run++) {
        assert_ok(tcc_exec_run(c.exec, &c.cx.diag), &c.cx.diag);
        assert_ok(c.device->ops->download(c.device, &c.cx.diag, data[result], c.memory[result], rig_bytes(&c, result)),
                  &c.cx.diag);
        compare(kind, p, data, data[result], shape.types[result].dims[0]);
        if (run == 1) rig_move(&c, 0);
    }
    for (int i = 0; i < shape.n_buffers; i++) free(data[i]);
    rig_stop(&c);
}

/* Whether there is a device with the library; says why not. */
static bool available(void) {
    tcc_cudnn_conv_params p = conv_2d(8, 8, 8, 3);
    const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, &p);
    return call_available(call_program(&shape, (const int64_t *)&p));
}

static void test_convolutions(void **state) {
    (void)state;
    if (!available()) skip();
    for (int i = 0; i < CONV_FORMS; i++) {
        const tcc_cudnn_conv_params p = conv_form(i);
        for (int kind = TCC_CUDNN_CONV_FORWARD; kind <= TCC_CUDNN_CONV_FILTER_GRADIENT; kind++)
            check_conv((tcc_cudnn_conv_kind)kind, &p);
    }
}

/* Whether the library's own max(0, x) is another, as the device has found out; says so. */
static bool declined_for_relu(const tcc_cudnn_conv_params *p) {
    const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, p);
    rig c;
    const tcc_status s = rig_start(&c, call_program(&shape, (const int64_t *)p));
    const bool declined = s == TCC_EUNSUPPORTED && strstr(tcc_diag_text(&c.cx.diag), ": its max(0, x) ");
    if (declined) print_message("%s: %s\n", tcc_dtype_text((tcc_dtype)p->type), tcc_diag_text(&c.cx.diag));
    rig_stop(&c);
    return declined;
}

static void test_epilogues(void **state) {
    (void)state;
    if (!available()) skip();
    static const tcc_dtype types[] = {TCC_F32, TCC_F16, TCC_BF16};
    for (int type = 0; type < 3; type++)
        for (int relu = 0; relu < 2; relu++) {
            tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3);
            p.type = types[type];
            p.conv.bias = 1, p.conv.relu = relu;
            if (relu && !dnn.refuse && declined_for_relu(&p)) continue;
            check_conv(TCC_CUDNN_CONV_FORWARD, &p);
        }
}

/* --- engines --- */

/* Which engine of the stand-in ran a convolution of these limits, without those of the set. */
static int engine_of(tcc_cudnn_conv_params p, unsigned refused) {
    cudnnsim_counts counts;
    dnn.restart();
    dnn.refuse(refused);
    check_conv(TCC_CUDNN_CONV_DATA_GRADIENT, &p);
    dnn.get_counts(&counts);
    int engine = -1;
    for (int i = 0; i < CUDNNSIM_ENGINES; i++)
        if (counts.runs[i]) {
            assert_int_equal(engine, -1);
            engine = i;
        }
    return engine;
}

static void test_engines(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    if (!available()) skip();
    tcc_cudnn_conv_params exact = conv_2d(6, 8, 16, 3), tf32 = exact, half = exact, tight = exact;
    tf32.allow_tf32 = 1;
    half.type = TCC_BF16;
    tight.type = TCC_F16;
    tight.workspace_bytes = CUDNNSIM_WORKSPACE_BYTES; /* nothing to round up with */
    assert_int_equal(engine_of(exact, 0), CUDNNSIM_WORKSPACE);
    assert_int_equal(engine_of(exact, 1u << CUDNNSIM_WORKSPACE), CUDNNSIM_PLAIN);
    assert_int_equal(engine_of(tf32, 0), CUDNNSIM_TENSOR_CORE);
    assert_int_equal(engine_of(half, 0), CUDNNSIM_TENSOR_CORE);
    assert_int_equal(engine_of(half, 1u << CUDNNSIM_TENSOR_CORE), CUDNNSIM_WORKSPACE);
    assert_int_equal(engine_of(tight, 1u << CUDNNSIM_TENSOR_CORE), CUDNNSIM_PLAIN);
}

/* Asked by rank, the library names each engine that may be taken. One that is prescribed by its name runs, until the
 * library has it no more. */
static void test_engines_by_rank(void **state) {
    (void)state;
    static const int expected[2][3] = {{CUDNNSIM_WORKSPACE, CUDNNSIM_PLAIN, -1},
                                       {CUDNNSIM_TENSOR_CORE, CUDNNSIM_WORKSPACE, CUDNNSIM_PLAIN}};
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    if (!available()) skip();
    rig c;
    tcc_cudnn_conv_params named[5];
    int engines[5], n = 0;
    assert_ok(tcc_context_init(&c.cx), &c.cx.diag);
    assert_ok(tcc_device_cuda_create(&c.cx, 0, &c.device), &c.cx.diag);
    for (int half = 0; half < 2; half++)
        for (int rank = 1; rank <= 4; rank++) {
            tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3);
            p.type = half ? TCC_F16 : TCC_F32;
            p.by.rank = rank;
            const bool takes = c.device->ops->takes_call(c.device, &c.cx, entries[1], (int64_t *)&p);
            assert_int_equal(takes, rank <= 2 + half);
            if (!takes) continue;
            const int engine = expected[half][rank - 1];
            assert_int_equal(p.by.algorithm, engine + 1);
            assert_int_equal(p.by.option != 0, engine != CUDNNSIM_WORKSPACE);
            assert_int_equal(p.by.rank, 0);
            p.workspace_bytes = 1 << 16;
            tcc_cudnn_conv_params other = p;
            other.by.option ^= 1;
            assert_false(c.device->ops->takes_call(c.device, &c.cx, entries[1], (int64_t *)&other));
            other = p;
            dnn.refuse(1u << engine);
            assert_false(c.device->ops->takes_call(c.device, &c.cx, entries[1], (int64_t *)&other));
            dnn.refuse(0);
            named[n] = p, engines[n++] = engine;
        }
    tcc_device_destroy(c.device);
    tcc_context_clear(&c.cx);
    assert_int_equal(n, 5);
    for (int i = 0; i < n; i++) assert_int_equal(engine_of(named[i], 0), engines[i]);
}

/* An engine of that rank that is declined for its max(0, x) has a name all the same, so the next one is asked for; that
 * there is no further one has none. */
static void test_declined_by_rank(void **state) {
    (void)state;
    static const int expected[] = {CUDNNSIM_TENSOR_CORE, CUDNNSIM_WORKSPACE, CUDNNSIM_PLAIN, -1};
    skip_without(dnn.relu_of, STAND_IN_REFUSES);
    if (!available()) skip();
    rig c;
    assert_ok(tcc_context_init(&c.cx), &c.cx.diag);
    assert_ok(tcc_device_cuda_create(&c.cx, 0, &c.device), &c.cx.diag);
    dnn.relu(CUDNNSIM_ZERO);
    dnn.relu_of(1u << CUDNNSIM_WORKSPACE);
    for (int rank = 1; rank <= 4; rank++) {
        tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3);
        p.type = TCC_F16, p.conv.bias = p.conv.relu = 1;
        p.by.rank = rank;
        const bool takes = c.device->ops->takes_call(c.device, &c.cx, entries[0], (int64_t *)&p);
        assert_int_equal(takes, rank == 1 || rank == 3);
        assert_int_equal(p.by.algorithm, expected[rank - 1] + 1);
        assert_int_equal(p.by.rank, rank <= 3 ? 0 : rank);
    }
    tcc_device_destroy(c.device);
    tcc_context_clear(&c.cx);
}

/* A run makes no descriptor as long as nothing moves. */
static void test_runs_make_nothing(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    if (!available()) skip();
    cudnnsim_counts before, after;
    rig c;
    void *data[RIG_BINDINGS];
    tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3);
    const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, &p);
    assert_ok(rig_start(&c, call_program(&shape, (const int64_t *)&p)), &c.cx.diag);
    upload_random(&c, p.type, shape.n_buffers, data);
    assert_ok(tcc_exec_run(c.exec, &c.cx.diag), &c.cx.diag);
    dnn.get_counts(&before);
    for (int i = 0; i < 3; i++) assert_ok(tcc_exec_run(c.exec, &c.cx.diag), &c.cx.diag);
    dnn.get_counts(&after);
    assert_int_equal(after.made, before.made);
    assert_int_equal(after.calls, before.calls + 3);
    rig_move(&c, 1);
    assert_ok(tcc_exec_run(c.exec, &c.cx.diag), &c.cx.diag);
    dnn.get_counts(&after);
    assert_int_equal(after.made, before.made + 1);
    assert_int_equal(after.descriptors, before.descriptors + 1); /* steps that share the graph may lie elsewhere */
    for (int i = 0; i < shape.n_buffers; i++) free(data[i]);
    rig_stop(&c);
}

static void test_workspace_is_lowered(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    rig c;
    tcc_cudnn_conv_params exact = conv_2d(6, 8, 16, 3), half = exact;
    half.type = TCC_F16;
    const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, &exact);
    const int64_t expected[] = {CUDNNSIM_WORKSPACE_BYTES + 255, 0};
    tcc_cudnn_conv_params *const all[] = {&exact, &half};
    assert_ok(rig_start(&c, call_program(&shape, (const int64_t *)&exact)), &c.cx.diag);
    for (int i = 0; i < 2; i++) {
        assert_true(c.device->ops->takes_call(c.device, &c.cx, entries[0], (int64_t *)all[i]));
        assert_int_equal(all[i]->workspace_bytes, expected[i]);
    }
    rig_stop(&c);
}

/* --- what cannot be had --- */

static void check_refused(const tcc_cudnn_conv_params *p, tcc_status expected, const char *words) {
    const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, p);
    check_call_refused(call_program(&shape, (const int64_t *)p), expected, words);
}

static void check_described(const char *words) {
    const tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3);
    const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, &p);
    check_device_described(call_program(&shape, (const int64_t *)&p), words);
}

static void test_refused(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3), tight = p, relu = p, wrong = p;
    dnn.refuse(1u << CUDNNSIM_WORKSPACE | 1u << CUDNNSIM_PLAIN);
    check_refused(&p, TCC_EUNSUPPORTED,
                  "cudnn has no engine for it: of 6 proposed, 4 are not exact or not deterministic, 2 fail; first ");
    check_refused(&p, TCC_EUNSUPPORTED, "cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED");
    check_refused(&p, TCC_EUNSUPPORTED,
                  "for cudnn.conv_forward of 2 images of 1 x 6 x 7 with 8 channels, kernels of 1 x 3 x 3 to 16 "
                  "channels in 1 groups");
    dnn.refuse(0);
    tight.workspace_bytes = 1024; /* another engine needs none, but in f32 that is the worse choice */
    check_refused(
        &tight, TCC_EUNSUPPORTED,
        "of 5 proposed, 4 are not exact or not deterministic, 1 take 4096 bytes of workspace or more, of 769");
    dnn.refuse(~(1u << CUDNNSIM_NONDETERMINISTIC)); /* the one engine that there is may not be taken */
    p.type = TCC_F16;
    check_refused(&p, TCC_EUNSUPPORTED, "of 6 proposed, 3 are not exact or not deterministic");
    dnn.refuse(0);
    relu.conv.relu = 1; /* without a bias: no engine of the library's takes that */
    check_refused(&relu, TCC_EUNSUPPORTED, "cudnn has no engine for it: of 0 proposed");
    wrong.conv.y_size[1]++;
    check_refused(&wrong, TCC_EFORMAT,
                  "cudnn.conv_forward: y_size is not what x_size, padding, kernel and stride give: {batch=2, ");
}

/* Where the notes of an engine do not promise that max(0, x) keeps NaN, it is tried before it is taken. */
static void test_relu_of_nan(void **state) {
    (void)state;
    skip_without(dnn.relu, STAND_IN_REFUSES);
    static const tcc_dtype types[] = {TCC_F32, TCC_F16, TCC_BF16};
    for (int t = 0; t < 3; t++)
        for (int how = CUDNNSIM_NAN; how <= CUDNNSIM_PROMISED_NAN; how++) {
            tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3), plain;
            cudnnsim_counts counts;
            rig r;
            int runs = 0;
            p.type = types[t], p.conv.bias = 1;
            plain = p;
            p.conv.relu = 1;
            dnn.relu(how);
            if (how == CUDNNSIM_ZERO) {
                check_refused(&p, TCC_EUNSUPPORTED, "its max(0, x) makes a number of NaN");
                check_conv(TCC_CUDNN_CONV_FORWARD, &plain);
                continue;
            }
            dnn.restart();
            dnn.relu(how);
            const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, &p);
            assert_ok(rig_start(&r, call_program(&shape, (const int64_t *)&p)), &r.cx.diag);
            dnn.get_counts(&counts);
            for (int i = 0; i < CUDNNSIM_ENGINES; i++) runs += counts.runs[i];
            assert_int_equal(runs, how == CUDNNSIM_NAN); /* the one that tries it */
            rig_stop(&r);
        }
    tcc_cudnn_conv_params grouped = conv_2d(6, 8, 16, 3);
    grouped.conv.groups = 2, grouped.conv.bias = grouped.conv.relu = 1;
    grouped.conv.w_stride[0] /= 2, grouped.conv.w_stride[2] /= 2, grouped.conv.w_stride[3] /= 2;
    grouped.conv.w_stride[4] /= 2;
    dnn.relu(CUDNNSIM_NAN);
    check_refused(&grouped, TCC_EUNSUPPORTED, "nothing says that max(0, x) of a convolution in groups keeps NaN");
}

static void test_library_missing(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3);
    setenv("CUDNNSIM_VERSION", "8907", 1);
    check_refused(
        &p, TCC_EUNSUPPORTED,
        "cannot be used: only version 9 is known; convolutions, attention and batch norms use our own kernels");
    check_described("cudnn: 8.9.7 (");
    setenv("CUDNNSIM_VERSION", "90102", 1);
    check_described("cudnn: 9.1.2 (");
    unsetenv("CUDNNSIM_VERSION");
    setenv("TCC_LIBRARIES", "cublaslt", 1);
    check_refused(&p, TCC_EUNSUPPORTED, "cudnn: switched off by TCC_LIBRARIES");
    setenv("TCC_LIBRARIES", "cudnn", 1);
    check_described("cudnn: 9.19.0 (");
    unsetenv("TCC_LIBRARIES");
}

/* Each call of the library fails once. While engines are tried, the next one may do instead. */
static void test_failures(void **state) {
    (void)state;
    skip_without(dnn.inject, STAND_IN_FAILS);
    tcc_cudnn_conv_params p = conv_2d(6, 8, 16, 3);
    const call_shape shape = shape_of(TCC_CUDNN_CONV_FORWARD, &p);
    p.conv.bias = p.conv.relu = 1;
    const cudnn_failures fatal = cudnn_fail_each_call(&shape, (const int64_t *)&p, 5000,
                                                      ": CUDNN_STATUS_EXECUTION_FAILED", TCC_EDEVICE);
    assert_true(fatal.failed >= 40 && fatal.done == 0);
    const cudnn_failures refused = cudnn_fail_each_call(&shape, (const int64_t *)&p, 3000,
                                                        ": CUDNN_STATUS_NOT_SUPPORTED", TCC_EUNSUPPORTED);
    assert_true(refused.failed >= 40 && refused.done >= 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDNN_TEST(test_convolutions),         CUDNN_TEST(test_epilogues), CUDNN_TEST(test_engines_by_rank),
        CUDNN_TEST(test_declined_by_rank),     CUDNN_TEST(test_engines),   CUDNN_TEST(test_runs_make_nothing),
        CUDNN_TEST(test_workspace_is_lowered), CUDNN_TEST(test_refused),   CUDNN_TEST(test_relu_of_nan),
        CUDNN_TEST(test_library_missing),      CUDNN_TEST(test_failures),
    };
    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
