/* SPDX-License-Identifier: MIT
 * Graphs with convolutions, compiled for a device with cuDNN: which steps are its calls, results as the interpreter's,
 * training as on the CPU. On the stand-in, or on a GPU with the library. */
#include "harness/check.h"
#include "harness/cuda_call.h"
#include "harness/cudnn_device.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool available(void) {
    if (!dnn.found) print_message("skipped: no libcudnn.so.9\n");
    return dnn.found;
}

/* --- one convolution --- */

typedef struct shape {
    const char *type, *attributes; /* of the op */
    const char *x, *w, *y;         /* dims */
} shape;

static const char same[] = "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1, channels_last=true";
static const shape plain = {"f32", same, "4,16,16,32", "64,3,3,32", "4,16,16,64"};

/* `rest`: what follows the result, %3; a bias of the channels of y is %2. */
static void check_conv(const char *op, const shape *s, const char *rest, int calls, int steps) {
    char text[2048];
    const bool forward = !strcmp(op, "conv"), data = !strcmp(op, "conv_grad_input");
    const char *last = strrchr(s->y, ',') + 1;
    snprintf(text, sizeof text,
             "graph @net {\n  %%0 = input {name=\"a\"} : %s[%s]\n  %%1 = input {name=\"b\"} : %s[%s]\n  %%2 = input "
             "{name=\"bias\"} : %s[%s]\n"
             "  %%3 = %s(%%0, %%1) {%s} : %s[%s]\n%s}\n",
             s->type, data ? s->y : s->x, s->type, forward || data ? s->w : s->y, s->type, last, op, s->attributes,
             s->type,
             forward ? s->y
             : data  ? s->x
                     : s->w,
             rest);
    if (sim.restart) sim.restart(); /* it tells the order of work in some sixty streams apart */
    const compiled_options options = {.tolerance = !strcmp(s->type, "bf16")  ? 1e-2
                                                   : !strcmp(s->type, "f16") ? 2e-3
                                                                             : 1e-4};
    check_graph_on_cuda(text, &options, calls, steps);
}

static const char out[] = "  output \"c\" %3\n";

static void check_all(const shape *s) {
    check_conv("conv", s, out, 1, 1);
    check_conv("conv_grad_input", s, out, 1, 1);
    check_conv("conv_grad_weight", s, out, 1, 1);
}

/* Those of f32 have work enough for the workspace that the library wants to copy images into. */
static void test_shapes(void **state) {
    (void)state;
    if (!available()) skip();
    static const shape shapes[] = {
        {"bf16", same, "4,16,16,32", "64,3,3,32", "4,16,16,64"},
        {"f16", "stride=[2, 2], pad_lo=[0, 1], pad_hi=[1, 2], dilation=[1, 1], groups=2, channels_last=true",
         "8,16,16,64", "128,3,3,32", "8,8,9,128"},
        {"f32", "stride=[1, 1], pad_lo=[2, 2], pad_hi=[2, 2], dilation=[2, 2], groups=1", "4,32,16,16", "64,32,3,3",
         "4,64,16,16"},
        {"f32", "stride=[2], pad_lo=[1], pad_hi=[1], dilation=[1], groups=1, channels_last=true", "4,256,64",
         "256,3,64", "4,128,256"},
        {"f32",
         "stride=[1, 2, 1], pad_lo=[1, 1, 0], pad_hi=[1, 0, 0], dilation=[1, 1, 1], groups=1, channels_last=true",
         "2,6,8,10,32", "64,3,3,3,32", "2,6,4,8,64"},
    };
    check_all(&plain);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!strcmp(shapes[i].type, "f32") &&
            strstr(shapes[i].attributes, "[1, 1], pad_lo=[2")) { /* channels first: the bias below would be of rows */
            check_conv("conv", &shapes[i], out, 1, 1);
            continue;
        }
        check_all(&shapes[i]);
    }
}

/* Kernels of one element are products of matrices, which cuBLASLt does on channels last as they lie; not with steps
 * between pixels. */
static void test_matrices(void **state) {
    (void)state;
    if (!available()) skip();
    cudnnsim_counts counts = {0};
    static const shape shapes[] = {
        {"f32", "stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, channels_last=true",
         "4,16,16,256", "64,1,1,256", "4,16,16,64"},
        {"bf16", "stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, channels_last=true",
         "4,16,16,256", "64,1,1,256", "4,16,16,64"},
        {"bf16", "stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, channels_last=true",
         "4,32,32,128", "128,1,1,128", "4,16,16,128"},
    };
    check_all(&shapes[0]);
    check_conv(
        "conv", &shapes[0],
        "  %4 = broadcast(%2) {dims=[3]} : f32[4,16,16,64]\n  %5 = add(%3, %4) : f32[4,16,16,64]\n"
        "  %6 = constant {values=[0]} : f32[4,16,16,64]\n  %7 = max(%5, %6) : f32[4,16,16,64]\n  output \"c\" %7\n",
        1, 1);
    check_all(&shapes[1]);
    if (dnn.get_counts) dnn.get_counts(&counts);
    assert_int_equal(counts.calls, 0);
    check_all(&shapes[2]);
    if (dnn.get_counts) dnn.get_counts(&counts);
    if (dnn.get_counts) assert_int_equal(counts.runs[CUDNNSIM_TENSOR_CORE], 3);
}

static void test_epilogues(void **state) {
    (void)state;
    if (!available()) skip();
    static const char bias[] =
        "  %4 = broadcast(%2) {dims=[3]} : f32[4,16,16,64]\n  %5 = add(%3, %4) : f32[4,16,16,64]\n";
    char text[1024];
    snprintf(text, sizeof text, "%s  output \"c\" %%5\n", bias);
    check_conv("conv", &plain, text, 1, 1);
    snprintf(text, sizeof text,
             "%s  %%6 = constant {values=[0]} : f32[4,16,16,64]\n  %%7 = max(%%5, %%6) : f32[4,16,16,64]\n  output "
             "\"c\" %%7\n",
             bias);
    check_conv("conv", &plain, text, 1, 1);
    /* what is stored before tanh is the library's, tanh ours */
    snprintf(text, sizeof text, "%s  %%6 = tanh(%%5) : f32[4,16,16,64]\n  output \"c\" %%5\n  output \"d\" %%6\n",
             bias);
    check_conv("conv", &plain, text, 1, 2);
    /* nothing is stored before tanh: the sum is long enough, or not */
    snprintf(text, sizeof text, "%s  %%6 = tanh(%%5) : f32[4,16,16,64]\n  output \"d\" %%6\n", bias);
    check_conv("conv", &plain, text, 1, 2);
    static const shape pointwise = {
        "f32", "stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, channels_last=true",
        "4,16,16,248", "72,1,1,248", "4,16,16,72"};
    check_conv("conv", &pointwise, "  %4 = tanh(%3) : f32[4,16,16,72]\n  output \"d\" %4\n", 0, 1);
    /* max(0, y) without a bias: the library has no engine, so that it is ours */
    check_conv(
        "conv", &plain,
        "  %4 = constant {values=[0]} : f32[4,16,16,64]\n  %5 = max(%3, %4) : f32[4,16,16,64]\n  output \"c\" %5\n", 1,
        2);
    /* the optimizer's step behind a gradient of weights, which stays in the library's layout until then */
    check_conv("conv_grad_weight", &plain,
               "  %4 = transpose(%3) {perm=[0, 3, 1, 2]} : f32[64,32,3,3]\n  output \"c\" %4\n", 1, -1);
}

/* An operand that the group computes is copied, channels last. */
static void test_operands(void **state) {
    (void)state;
    if (!available()) skip();
    if (sim.restart) sim.restart();
    const compiled_options options = {.tolerance = 1e-4};
    check_graph_on_cuda(
        "graph @net {\n  %0 = input {name=\"x\"} : f32[4,16,16,32]\n  %1 = input {name=\"w\"} : f32[64,32,3,3]\n"
        "  %2 = transpose(%1) {perm=[0, 2, 3, 1]} : f32[64,3,3,32]\n"
        "  %3 = conv(%0, %2) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1, "
        "channels_last=true} : f32[4,16,16,64]\n"
        "  output \"c\" %3\n}\n",
        &options, 1, 2);
}

/* --- what the library does not take --- */

static char logged[8192];

static void keep_lines(void *user, const char *topic, const char *message) {
    (void)user;
    const size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s: %s\n", topic, message);
}

static void test_fallback(void **state) {
    (void)state;
    if (!available()) skip();
    static const shape small = {"f32", same, "4,4,4,32", "64,3,3,32", "4,4,4,64"},
                       stem = {"f32", same, "4,64,64,4", "64,3,3,4", "4,64,64,64"};
    check_conv("conv_grad_input", &small, out, 0, -1);
    check_conv("conv_grad_weight", &stem, out, 0, -1);
    if (!dnn.refuse) return;
    dnn.refuse(~0u);
    check_conv("conv_grad_input", &plain, out, 0, -1);
    dnn.refuse(0);
    setenv("TCC_LIBRARIES", "cublaslt", 1);
    check_conv("conv_grad_input", &plain, out, 0, -1);
    unsetenv("TCC_LIBRARIES");
}

/* --- training --- */

enum { BATCH = 8, PIXELS = 12, CLASSES = 5, STEPS = 10, STEPS_WITHOUT = 2 };

static void cnn(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_relu(tcc_conv_layer(tcc_input(t, "x"), "conv1", 32, 3, .padding = 1));
    x = tcc_relu(tcc_conv_layer(x, "conv2", 64, 3, .padding = 1));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(tcc_flatten(x, 1), "fc", CLASSES), tcc_input(t, "y")));
}

static void train(const char *device, double *losses, int steps) {
    static float x[BATCH * PIXELS * PIXELS];
    static int32_t y[BATCH];
    tcc_context *cx;
    tcc_model *m;
    for (int i = 0; i < BATCH; i++) y[i] = i % CLASSES;
    for (int i = 0; i < BATCH * PIXELS * PIXELS; i++)
        x[i] = (float)((i * 37 + y[i / (PIXELS * PIXELS)] * 50) % 101) / 101 + (float)y[i / (PIXELS * PIXELS)] - 2;
    const tcc_array batch[] = {
        {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {BATCH, 1, PIXELS, PIXELS}, .data = x},
        {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = y}};
    const tcc_model_options o = {
        .size = sizeof o, .device = device, .seed = 7, .optimizer = OPTIMIZER_OF(TCC_ADAMW, 1e-3, .momentum = 0)};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    tcc_context_set_log(cx, keep_lines, NULL);
    if (tcc_model_create(cx, cnn, NULL, &o, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    for (int i = 0; i < steps; i++) {
        if (tcc_model_train(m, batch, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
        losses[i] = tcc_model_loss(m);
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void check_losses(const double *got, const double *expected, int steps) {
    for (int i = 0; i < steps; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-4 * fabs(expected[i])))
            fail_msg("step %d: loss %.9g instead of %.9g", i, got[i], expected[i]);
}

/* The second layer is the library's, forward and both gradients; the losses are the CPU's. Without the library too, as
 * the log says. */
static void test_training(void **state) {
    (void)state;
    if (!available()) skip();
    cudnnsim_counts counts = {0};
    double expected[STEPS], got[STEPS];
    train("cpu", expected, STEPS);
    assert_true(expected[STEPS - 1] < 0.9 * expected[0]);
    train("cuda", got, STEPS);
    check_losses(got, expected, STEPS);
    if (!dnn.refuse) return;
    const int runs = 3 * STEPS + 1; /* one tries the engine's max(0, x) */
    dnn.get_counts(&counts);
    assert_int_equal(counts.runs[CUDNNSIM_WORKSPACE], runs);
    dnn.refuse(~0u);
    setenv("TCC_LOG", "library", 1);
    *logged = 0;
    train("cuda", got, STEPS_WITHOUT);
    unsetenv("TCC_LOG");
    check_losses(got, expected, STEPS_WITHOUT);
    dnn.get_counts(&counts);
    assert_int_equal(counts.runs[CUDNNSIM_WORKSPACE], runs);
    if (!strstr(logged, "library: our own kernel instead: cudnn has no engine for it"))
        fail_msg("the log says \"%s\"", logged);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDNN_TEST(test_shapes),   CUDNN_TEST(test_epilogues), CUDNN_TEST(test_operands),
        CUDNN_TEST(test_fallback), CUDNN_TEST(test_training),  CUDNN_TEST(test_matrices),
    };
    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
