/* SPDX-License-Identifier: MIT
 * Batch norm by cuDNN: calls against plain sums, graphs against the interpreter, which norms are asked for and why
 * others are not, networks that train with it as without, what is refused, and every call of the library failing once.
 * On the stand-in; on a GPU with the library without the failures. */
#include "harness/check.h"
#include "harness/cuda_call.h"
#include "harness/cudnn_device.h"
#include "harness/graphs.h"
#include "harness/passes.h"
#include "harness/optimizer.h"

#include "codegen/calls.h"
#include "codegen/emit/emitter.h"
#include "passes/pass.h"
#include "passes/select.h"
#include "runtime/cuda/cudnn_norm.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- calls */

enum { FORWARD_X, FORWARD_WEIGHT, FORWARD_BIAS, FORWARD_Y, FORWARD_MEAN, FORWARD_SCALE, FORWARD_BUFFERS };
enum { BACK_DY, BACK_X, BACK_MEAN, BACK_SCALE, BACK_WEIGHT, BACK_DX, BACK_DWEIGHT, BACK_DBIAS, BACK_BUFFERS };
enum { A_THOUSANDTH = 0x3a83126f, WORKSPACE = 1 << 20 };

static tcc_norm_params norm_of(tcc_dtype type, int64_t rows, int64_t channels, bool backward) {
    return (tcc_norm_params){.rows = rows,
                             .channels = channels,
                             .eps_bits = backward ? 0 : A_THOUSANDTH,
                             .type = type,
                             .workspace_bytes = WORKSPACE};
}

static bool is_image(bool backward, int buffer) {
    return backward ? buffer == BACK_DY || buffer == BACK_X || buffer == BACK_DX
                    : buffer == FORWARD_X || buffer == FORWARD_Y;
}

static call_shape shape_of(bool backward, const tcc_norm_params *p) {
    call_shape s = {.entry = backward ? "cudnn.batch_norm_backward" : "cudnn.batch_norm_forward",
                    .n_params = TCC_NORM_FORWARD_PARAMS,
                    .n_buffers = backward ? BACK_BUFFERS : FORWARD_BUFFERS,
                    .n_outputs = 3,
                    .workspace_bytes = p->workspace_bytes};
    for (int i = 0; i < s.n_buffers; i++)
        s.types[i] = is_image(backward, i) ? (tcc_type){(tcc_dtype)p->type, 2, {p->rows, p->channels}}
                                           : (tcc_type){TCC_F32, 1, {p->channels}};
    return s;
}

/* What the outputs are to be, one after another, by the values of the inputs. */
static void expect(bool backward, const tcc_norm_params *p, double *const *in, double *const *out) {
    const int64_t n = p->rows, channels = p->channels;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, square = 0, along = 0;
        if (!backward) {
            for (int64_t i = 0; i < n; i++) sum += in[FORWARD_X][i * channels + c] / (double)n;
            for (int64_t i = 0; i < n; i++) square += pow(in[FORWARD_X][i * channels + c] - sum, 2) / (double)n;
            out[1][c] = sum, out[2][c] = 1 / sqrt(square + 1e-3);
            for (int64_t i = 0; i < n; i++)
                out[0][i * channels + c] = (in[FORWARD_X][i * channels + c] - sum) * out[2][c] * in[FORWARD_WEIGHT][c] +
                                           in[FORWARD_BIAS][c];
            continue;
        }
        const double mean = in[BACK_MEAN][c], scale = in[BACK_SCALE][c];
        for (int64_t i = 0; i < n; i++)
            sum += in[BACK_DY][i * channels + c],
                along += in[BACK_DY][i * channels + c] * (in[BACK_X][i * channels + c] - mean) * scale;
        out[1][c] = along, out[2][c] = sum;
        for (int64_t i = 0; i < n; i++) {
            const double normal = (in[BACK_X][i * channels + c] - mean) * scale;
            out[0][i * channels + c] = in[BACK_WEIGHT][c] * scale *
                                       (in[BACK_DY][i * channels + c] - sum / (double)n - normal * along / (double)n);
        }
    }
}

static tcc_status upload_all(rig *c, const call_shape *shape, void **data) {
    tcc_status s = TCC_OK;
    for (int i = 0; i < shape->n_buffers; i++) {
        data[i] = call_random_data(shape->types[i].dtype, tcc_type_numel(&shape->types[i]), (uint32_t)i + 1);
        if (s == TCC_OK) s = c->device->ops->upload(c->device, &c->cx.diag, c->memory[i], data[i], rig_bytes(c, i));
    }
    return s;
}

/* Runs it, and again with a tensor elsewhere. */
static void check_call(bool backward, const tcc_norm_params *p) {
    const double tolerance = p->type == TCC_BF16 ? 1e-2 : p->type == TCC_F16 ? 2e-3 : 1e-4;
    const call_shape shape = shape_of(backward, p);
    rig c;
    void *data[RIG_BINDINGS];
    double *values[RIG_BINDINGS];
    if (sim.restart) sim.restart();
    if (rig_start(&c, call_program(&shape, (const int64_t *)p)) != TCC_OK) fail_msg("%s", tcc_diag_text(&c.cx.diag));
    assert_ok(upload_all(&c, &shape, data), &c.cx.diag);
    for (int i = 0; i < shape.n_buffers; i++) {
        const int64_t count = tcc_type_numel(&shape.types[i]);
        values[i] = calloc((size_t)count, sizeof(double));
        for (int64_t k = 0; k < count; k++) values[i][k] = call_value_at(data[i], shape.types[i].dtype, k);
    }
    const int first = shape.n_buffers - 3;
    expect(backward, p, values, values + first);
    for (int run = 0; run < 2; run++) {
        assert_ok(tcc_exec_run(c.exec, &c.cx.diag), &c.cx.diag);
        for (int i = first; i < shape.n_buffers; i++) {
            assert_ok(c.device->ops->download(c.device, &c.cx.diag, data[i], c.memory[i], rig_bytes(&c, i)),
                      &c.cx.diag);
            for (int64_t k = 0; k < tcc_type_numel(&shape.types[i]); k++) {
                const double is = call_value_at(data[i], shape.types[i].dtype, k);
                if (!(fabs(is - values[i][k]) <= tolerance * (1 + fabs(values[i][k]))))
                    fail_msg("%s, output %d, place %lld: %g instead of %g", shape.entry, i - first, (long long)k, is,
                             values[i][k]);
            }
        }
        rig_move(&c, 0);
    }
    for (int i = 0; i < shape.n_buffers; i++) free(data[i]), free(values[i]);
    rig_stop(&c);
}

/* Whether there is a device with the library; says why not. */
static bool available(void) {
    tcc_norm_params p = norm_of(TCC_F32, 64, 16, false);
    const call_shape shape = shape_of(false, &p);
    return call_available(call_program(&shape, (const int64_t *)&p));
}

static void test_calls(void **state) {
    (void)state;
    static const struct {
        tcc_dtype type;
        int64_t rows, channels;
    } forms[] = {{TCC_F32, 196, 64}, {TCC_F32, 2, 4},   {TCC_F32, 1000, 12},
                 {TCC_F16, 50, 64},  {TCC_BF16, 50, 8}, {TCC_F16, 3, 8}};
    if (!available()) skip();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int backward = 0; backward < 2; backward++) {
            const tcc_norm_params p = norm_of(forms[i].type, forms[i].rows, forms[i].channels, backward);
            check_call(backward, &p);
        }
}

static void check_refused(bool backward, const tcc_norm_params *p, tcc_status expected, const char *words) {
    const call_shape shape = shape_of(backward, p);
    check_call_refused(call_program(&shape, (const int64_t *)p), expected, words);
}

static void test_refused(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    tcc_norm_params p = norm_of(TCC_F32, 64, 16, false), odd = norm_of(TCC_F16, 64, 12, true), wrong = p, tight = p;
    check_refused(true, &odd, TCC_EUNSUPPORTED, "cudnn has no engine for it: of 0 proposed");
    check_refused(true, &odd, TCC_EUNSUPPORTED, "for cudnn.batch_norm_backward of 64 rows of 12 channels");
    wrong.type = TCC_F64;
    check_refused(false, &wrong, TCC_EFORMAT, "cudnn.batch_norm_forward: type must be f32, f16 or bf16: {rows=64, ");
    wrong = p, wrong.rows = 0;
    check_refused(false, &wrong, TCC_EFORMAT, "cudnn.batch_norm_forward: rows must be 1 or more: {channels=16, ");
    check_refused(true, &p, TCC_EFORMAT, "cudnn.batch_norm_backward: the gradient has no eps");
    tight.workspace_bytes = 1000;
    dnn.refuse(1u << CUDNNSIM_PLAIN);
    check_refused(false, &tight, TCC_EUNSUPPORTED, "1 take 4096 bytes of workspace or more, of 745");
    dnn.refuse(0);
    setenv("TCC_LIBRARIES", "none", 1);
    check_refused(false, &p, TCC_EUNSUPPORTED, "cudnn: switched off by TCC_LIBRARIES");
    unsetenv("TCC_LIBRARIES");
}

static void test_too_large(void **state) {
    (void)state;
    tcc_diag d = {0};
    const tcc_norm_params p = norm_of(TCC_F32, 1 << 20, 1 << 11, false);
    assert_error(tcc_cudnn_norm_describe(NULL, &d, false, &p), TCC_EUNSUPPORTED, &d,
                 "2147483648 elements are more than cudnn counts");
    tcc_diag_clear(&d);
}

static void test_failures(void **state) {
    (void)state;
    skip_without(dnn.inject, STAND_IN_FAILS);
    for (int backward = 0; backward < 2; backward++) {
        const tcc_norm_params p = norm_of(TCC_F32, 16, 8, backward);
        const call_shape shape = shape_of(backward, &p);
        const cudnn_failures all = cudnn_fail_each_call(&shape, (const int64_t *)&p, 5000,
                                                        ": CUDNN_STATUS_EXECUTION_FAILED", TCC_EDEVICE);
        assert_true(all.failed >= 60 && all.done == 0);
    }
}

/* --- graphs */

/* Norms of x [`dims`], f32 or what casts make of `type`, whose last dim is the channels. */
static void write_norm(char *text, const char *dims, int channels, const char *more) {
    sprintf(text,
            "graph @norm {\n  %%0 = input {name=\"x\"} : f32[%s]\n  %%1 = input {name=\"w\"} : f32[%d]\n  %%2 = input "
            "{name=\"b\"} : f32[%d]\n"
            "  %%3 = input {name=\"dy\"} : f32[%s]\n",
            dims, channels, channels, dims);
    int rank = 1;
    for (const char *p = dims; *p; p++) rank += *p == ',';
    char attrs[64];
    snprintf(attrs, sizeof attrs, "{eps=0x1p-10, axis=%d}", rank - 1);
    sprintf(text + strlen(text),
            "  %%4 = batch_norm(%%0, %%1, %%2) %s : f32[%s]\n  %%5 = batch_norm_mean(%%0) %s : f32[%d]\n  %%6 = "
            "batch_norm_scale(%%0) %s : f32[%d]\n"
            "  %%7 = batch_norm_variance(%%0) %s : f32[%d]\n",
            attrs, dims, attrs, channels, attrs, channels, attrs, channels);
    static const char *const grads[] = {"x", "weight", "bias"};
    for (int i = 0; i < 3; i++) {
        sprintf(text + strlen(text), "  %%%d = batch_norm_grad_%s(%%3, %%0, %%5, %%6, %%1) %s : f32[", 8 + i, grads[i],
                attrs);
        if (i) sprintf(text + strlen(text), "%d]\n", channels);
        else sprintf(text + strlen(text), "%s]\n", dims);
    }
    strcat(text, more);
    strcat(text, "}\n");
}

static const char all[] =
    "  output \"y\" %4\n  output \"v\" %7\n  output \"dx\" %8\n  output \"dw\" %9\n  output \"db\" %10\n";

static void check_norm(const char *dims, int channels, const char *more, int calls, int steps) {
    char text[2048];
    write_norm(text, dims, channels, more);
    check_graph_on_cuda(text, &(compiled_options){.norms = ALL_LIBRARY_NORMS, .tolerance = 1e-4}, calls, steps);
}

static void test_graphs(void **state) {
    (void)state;
    if (!available()) skip();
    check_norm("4,7,7,64", 64, all, 2, 3); /* the variance is a step of its own */
    check_norm("33,16", 16, all, 2, 3);
    check_norm("2,3,4,5,8", 8, all, 2, 3);
    check_norm("4,7,7,64", 64, "  output \"dw\" %9\n", 0,
               -1); /* the gradient by x is not wanted: nothing is asked for */
    check_norm("4,7,7,64", 64, "  output \"y\" %4\n  output \"dx\" %8\n", 2, 2);
    check_norm("4,7,7,64", 64,
               "  %11 = constant {values=[0]} : f32[4,7,7,64]\n  %12 = max(%4, %11) : f32[4,7,7,64]\n  %13 = add(%12, "
               "%3) : f32[4,7,7,64]\n"
               "  output \"z\" %13\n",
               1, 2); /* work behind it is one kernel */
    check_norm("4,7,7,30", 30, all, 0, -1);
}

/* Between casts the library reads and writes f16 and bf16; where y is wanted in f32 as well, casts are kernels of their
 * own. */
static void test_casts(void **state) {
    (void)state;
    if (!available()) skip();
    static const char *const types[] = {"f16", "bf16"};
    for (int i = 0; i < 2; i++)
        for (int wide = 0; wide < 2; wide++) {
            char text[2048];
            const char *t = types[i];
            snprintf(text, sizeof text,
                     "graph @half {\n  %%0 = input {name=\"x\"} : %s[4,7,7,64]\n  %%1 = input {name=\"w\"} : f32[64]\n "
                     " %%2 = input {name=\"b\"} : f32[64]\n"
                     "  %%3 = input {name=\"dy\"} : %s[4,7,7,64]\n  %%4 = cast(%%0) : f32[4,7,7,64]\n  %%5 = cast(%%3) "
                     ": f32[4,7,7,64]\n"
                     "  %%6 = batch_norm(%%4, %%1, %%2) {eps=0x1p-10, axis=3} : f32[4,7,7,64]\n  %%7 = cast(%%6) : "
                     "%s[4,7,7,64]\n"
                     "  %%8 = batch_norm_mean(%%4) {eps=0x1p-10, axis=3} : f32[64]\n  %%9 = batch_norm_scale(%%4) "
                     "{eps=0x1p-10, axis=3} : f32[64]\n"
                     "  %%10 = batch_norm_grad_x(%%5, %%4, %%8, %%9, %%1) {eps=0x1p-10, axis=3} : f32[4,7,7,64]\n  "
                     "%%11 = cast(%%10) : %s[4,7,7,64]\n"
                     "  %%12 = batch_norm_grad_weight(%%5, %%4, %%8, %%9, %%1) {eps=0x1p-10, axis=3} : f32[64]\n"
                     "  output \"y\" %%7\n  output \"dx\" %%11\n  output \"dw\" %%12\n%s}\n",
                     t, t, t, t, wide ? "  output \"wide\" %6\n" : "");
            check_graph_on_cuda(text, &(compiled_options){.norms = ALL_LIBRARY_NORMS, .tolerance = i ? 2e-2 : 4e-3}, 2,
                                wide ? -1 : 2);
        }
}

/* Random small shapes, of which some are not the library's. */
static void test_random_shapes(void **state) {
    (void)state;
    if (!available()) skip();
    uint32_t seed = 5;
    for (int i = 0; i < 12; i++) {
        char dims[64] = "";
        const int rank = 2 + i % 3;
        for (int k = 0; k < rank - 1; k++)
            seed = seed * 1664525 + 1013904223,
            sprintf(dims + strlen(dims), "%d,", 1 + (int)(seed >> 24) % 7 + (k == 0));
        seed = seed * 1664525 + 1013904223;
        const int channels = 1 + (int)(seed >> 24) % 24;
        sprintf(dims + strlen(dims), "%d", channels);
        check_norm(dims, channels, all, channels % 4 ? 0 : 2, -1);
    }
}

static void test_fallback(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    if (!available()) skip();
    dnn.refuse(~0u);
    check_norm("4,7,7,64", 64, all, 0, -1);
    dnn.refuse(0);
    setenv("TCC_LIBRARIES", "cublaslt", 1);
    check_norm("4,7,7,64", 64, all, 0, -1);
    unsetenv("TCC_LIBRARIES");
}

/* --- which are asked for */

static int asked;

static bool take_all(void *user, const char *name, int64_t *params) {
    (void)user;
    (void)name;
    ((tcc_norm_params *)params)->workspace_bytes = 0;
    asked++;
    return true;
}

/* Compiled for a library that takes every call; so many of its steps are calls, and the log has the words. */
static void check_choice(const char *dims, int channels, const char *more, bool worthy_alone, int calls,
                         const char *words) {
    char text[2048];
    tcc_context cx = {0};
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_strbuf logged = {0};
    keep_log(&cx, TCC_LOG_FUSION, &logged);
    write_norm(text, dims, channels, more);
    tcc_graph *g = parse_graph(text, &cx.diag), *planned;
    tcc_llvm_target target;
    tcc_program *program;
    asked = 0;
    assert_ok(tcc_llvm_target_cuda("sm_80", NULL, &cx.diag, &target), &cx.diag);
    compiled_build(
        g,
        &(compiled_options){.takes_call = take_all, .norms = worthy_alone ? WORTHY_LIBRARY_NORMS : ALL_LIBRARY_NORMS},
        &target, &cx, &planned, &program);
    int found = 0;
    for (int i = 0; i < program->n_steps; i++) found += program->steps[i].kind == TCC_STEP_LIBRARY;
    assert_int_equal(found, calls);
    assert_int_equal(asked, calls); /* once: what it said is remembered */
    if (!logged.text || !strstr(logged.text, words)) fail_msg("the log says \"%s\", not \"%s\"", logged.text, words);
    tcc_strbuf_free(&logged);
    tcc_program_destroy(program);
    tcc_llvm_target_clear(&target);
    tcc_graph_destroy(g);
    tcc_graph_destroy(planned);
    tcc_context_clear(&cx);
}

static void test_choice(void **state) {
    (void)state;
    static const char y[] = "  output \"y\" %4\n", relu[] = "  %11 = constant {values=[0]} : f32[32,112,112,64]\n  %12 "
                                                            "= max(%4, %11) : f32[32,112,112,64]\n  output \"z\" %12\n";
    check_choice(
        "32,112,112,64", 64, y, true, 0,
        "our own kernels for batch_norm of 401408 x 64: a call would save 0 bytes, and is worth it from 40000000 on");
    check_choice("32,112,112,64", 64, relu, true, 0,
                 "our own kernels for batch_norm of 401408 x 64: a call would save -205520896 bytes");
    check_choice("32,112,112,64", 64, "  output \"dx\" %8\n", true, 0,
                 "our own kernels for batch_norm_grad_x of 401408 x 64: a call would save 0 bytes");
    check_choice("32,112,112,64", 64, relu, false, 1, "cudnn.batch_norm_forward of 401408 x 64");
    check_choice("8,4,66", 66, y, false, 0,
                 "our own kernels for batch_norm of 32 x 66: its channels are no multiple of 16 bytes");
    check_choice("8,4,64", 64, "  %11 = batch_norm(%0) {eps=0x1p-10, axis=2} : f32[8,4,64]\n  output \"z\" %11\n",
                 false, 0, "it has no weight or no bias");
    check_choice("8,4,64", 64,
                 "  %11 = exp(%1) : f32[64]\n  %12 = batch_norm(%0, %11, %2) {eps=0x1p-10, axis=2} : f32[8,4,64]\n  "
                 "output \"z\" %12\n",
                 false, 0, "its weight or bias is computed");
    check_choice("8,64,64", 64,
                 "  %11 = batch_norm(%0, %1, %2) {eps=0x1p-10, axis=1} : f32[8,64,64]\n  output \"z\" %11\n", false, 0,
                 "its channels are not last");
}

static bool take_none(void *user, const tcc_graph *g, const tcc_node *n) {
    (void)user;
    (void)g;
    (void)n;
    asked++;
    return false;
}

/* A network's step, planned for a library that takes no norm, is what it is where nobody asks. */
static void test_nothing_taken(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_graph *g = model_graph("resnet", 4, &d), *planned[2];
    asked = 0;
    for (int i = 0; i < 2; i++)
        planned[i] = run_passes(
            g,
            i ? "simplify,autodiff,train-step,decompose,simplify,layout,simplify,norms,simplify,fuse,order,plan-memory"
              : "simplify,autodiff,train-step,decompose,simplify,layout,simplify,fuse,order,plan-memory",
            &(tcc_pass_options){.train = true,
                                .spec = {.optimizer = TCC_SGD, .n_groups = 1},
                                .target = i ? &(tcc_pass_target){.takes_norm = take_none} : NULL});
    assert_int_equal(asked, 40);
    int apart = planned[0]->groups.count -
                planned[1]->groups.count; /* nodes in another order: of the loss's small groups others may join */
    assert_in_range(apart < 0 ? -apart : apart, 0, 1);
    assert_int_equal(planned[0]->nodes.count, planned[1]->nodes.count);
    assert_in_range(planned[1]->arena_bytes, 0,
                    planned[0]->arena_bytes + planned[0]->arena_bytes / 256); /* steps in another order */
    for (int i = 0; i < 2; i++) tcc_graph_destroy(planned[i]);
    tcc_graph_destroy(g);
    tcc_diag_clear(&d);
}

/* --- training */

enum { STEPS = 2 };

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_resnet(t, tcc_input(t, "x"),
                              &(tcc_resnet_options){.depth = 18, .classes = 5, .width = 8, .cifar_stem = true});
    tcc_loss(t, tcc_cross_entropy(x, tcc_input(t, "y")));
}

static void small_net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_relu(
        tcc_batch_norm(tcc_conv_layer(tcc_input(t, "x"), "conv1", 16, 3, .padding = 1, .no_bias = true), "bn1"));
    x = tcc_add(x, tcc_batch_norm(tcc_conv_layer(x, "conv2", 16, 3, .padding = 1, .no_bias = true), "bn2"));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(tcc_flatten(tcc_max_pool(x, 4), 1), "fc", 5), tcc_input(t, "y")));
}

/* Losses, and in the end a running mean and variance. */
static void train(tcc_model_fn fn, const char *device, int batch, int pixels, const char *norm, double *losses,
                  float *mean, float *variance, int channels) {
    const int64_t size = (int64_t)batch * 3 * pixels * pixels;
    float *x = calloc((size_t)size, sizeof *x);
    int32_t *y = calloc((size_t)batch, sizeof *y);
    tcc_context *cx;
    tcc_model *m;
    for (int i = 0; i < batch; i++) y[i] = i % 5;
    for (int64_t i = 0; i < size; i++)
        x[i] = (float)((i * 37 + y[i / (3 * pixels * pixels)] * 50) % 101) / 101 + (float)y[i / (3 * pixels * pixels)] -
               2;
    const tcc_array arrays[] = {
        {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {batch, 3, pixels, pixels}, .data = x},
        {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {batch}, .data = y}};
    const tcc_model_options o = {
        .size = sizeof o, .device = device, .seed = 7, .optimizer = OPTIMIZER_OF(TCC_SGD, 1e-2, .momentum = 0)};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, fn, NULL, &o, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    for (int i = 0; i < STEPS; i++) {
        if (tcc_model_train(m, arrays, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
        losses[i] = tcc_model_loss(m);
    }
    float *const statistics[] = {mean, variance};
    for (int i = 0; i < 2; i++) {
        char name[64];
        tcc_array a;
        snprintf(name, sizeof name, "%s.running_%s", norm, i ? "var" : "mean");
        assert_true(tcc_model_find_param(m, name, &a));
        memcpy(statistics[i], a.data, (size_t)channels * sizeof(float));
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    free(x);
    free(y);
}

/* With the library for all norms as on the CPU, losses and running statistics; so many calls of norms a step. */
static void check_training(tcc_model_fn fn, int batch, int pixels, const char *norm, int channels, int calls) {
    enum { MOST = 512 };
    double expected[STEPS], got[STEPS];
    float means[2][MOST], variances[2][MOST];
    cudnnsim_counts counts = {0};
    train(fn, "cpu", batch, pixels, norm, expected, means[0], variances[0], channels);
    setenv("TCC_LIBRARIES", "cudnn.batch_norm", 1);
    train(fn, "cuda", batch, pixels, norm, got, means[1], variances[1], channels);
    unsetenv("TCC_LIBRARIES");
    if (dnn.get_counts) {
        dnn.get_counts(&counts);
        assert_int_equal(counts.runs[CUDNNSIM_WORKSPACE], calls * STEPS);
    }
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-4 * fabs(expected[i])))
            fail_msg("step %d: loss %.9g instead of %.9g", i, got[i], expected[i]);
    for (int c = 0; c < channels; c++)
        if (!(fabsf(means[0][c] - means[1][c]) <= 1e-4F * (1 + fabsf(means[0][c]))) ||
            !(fabsf(variances[0][c] - variances[1][c]) <= 1e-4F * (1 + variances[0][c])))
            fail_msg("channel %d: running mean %g and variance %g instead of %g and %g", c, (double)means[1][c],
                     (double)variances[1][c], (double)means[0][c], (double)variances[0][c]);
}

static void test_training(void **state) {
    (void)state;
    if (!available()) skip();
    check_training(small_net, 4, 8, "bn2", 16, 4);
    if (dnn.restart) dnn.restart();
    check_training(net, 8, 4, "layer2.0.bn1", 16, 40);
}

/* --- verifying: the pass that asks the library about norms is among those that are walked */

static bool norms_are_wrong;

tcc_status __real_tcc_pass_norms(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_norms(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_norms(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    TCC_TRY(__real_tcc_pass_norms(cx, in, out));
    for (int i = 0; norms_are_wrong && i < (*out)->nodes.count; i++) {
        tcc_node *n = (*out)->nodes.data[i];
        if (n->op != TCC_OP_BATCH_NORM && n->op != TCC_OP_BATCH_NORM_MEAN && n->op != TCC_OP_BATCH_NORM_SCALE) continue;
        tcc_attrs *attrs = tcc_arena_copy(&(*out)->arena, n->attrs, sizeof *attrs);
        if (!attrs) return tcc_enomem(cx->diag);
        attrs->norm.eps *= 100;
        n->attrs = attrs;
    }
    return TCC_OK;
}

static void verify(tcc_status expected, const char *words) {
    enum { BATCH = 4, PIXELS = 8, SIZE = BATCH * 3 * PIXELS * PIXELS };
    static float x[SIZE];
    int32_t y[BATCH] = {0, 3, 1, 4};
    for (int i = 0; i < SIZE; i++) x[i] = (float)(i * 37 % 101) / 101;
    const tcc_array arrays[] = {
        {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {BATCH, 3, PIXELS, PIXELS}, .data = x},
        {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = y}};
    const tcc_model_options o = {.size = sizeof o, .device = "cuda", .seed = 7};
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, small_net, NULL, &o, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    const tcc_status status = tcc_model_verify(m, arrays, 2, 0, NULL);
    if (status != expected || !strstr(tcc_context_error(cx), words))
        fail_msg("%s, not '%s': %s", tcc_status_name(status), words, tcc_context_error(cx));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void test_verify(void **state) {
    (void)state;
    if (!available()) skip();
    setenv("TCC_LIBRARIES", "cudnn.batch_norm", 1);
    verify(TCC_OK, "");
    norms_are_wrong = true;
    verify(TCC_EBUG, "the first wrong graph comes out of pass norms");
    norms_are_wrong = false;
    unsetenv("TCC_LIBRARIES");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDNN_TEST(test_calls),         CUDNN_TEST(test_refused),  CUDNN_TEST(test_too_large),
        CUDNN_TEST(test_failures),      CUDNN_TEST(test_graphs),   CUDNN_TEST(test_casts),
        CUDNN_TEST(test_random_shapes), CUDNN_TEST(test_fallback), CUDNN_TEST(test_choice),
        CUDNN_TEST(test_nothing_taken), CUDNN_TEST(test_training), CUDNN_TEST(test_verify),
    };
    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
