/* SPDX-License-Identifier: MIT
 * Graphs whose dots cuBLASLt multiplies: which steps they become, against the interpreter, with what follows a dot,
 * operands as they lie, and what the library refuses; and training steps against the CPU's. On the stand-in, or a GPU
 * with the library. */
#include "harness/check.h"
#include "harness/cublaslt.h"
#include "harness/cuda_call.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Whether there is a device with the library; says why not. */
static bool available(void) {
    tcc_context cx;
    tcc_device *device = NULL;
    tcc_strbuf text = {0};
    assert_int_equal(tcc_context_init(&cx), TCC_OK);
    tcc_status s = tcc_device_cuda_create(&cx, -1, &device);
    if (s == TCC_OK) device->ops->describe(device, &text);
    const char *line = text.text ? strstr(text.text, "cublaslt: ") : NULL;
    const bool found = line && line[10] >= '0' && line[10] <= '9';
    if (!found) printf("skipped: %s\n", s != TCC_OK ? tcc_diag_text(&cx.diag) : line ? line : "no cuBLASLt");
    tcc_strbuf_free(&text);
    tcc_device_destroy(device);
    tcc_context_clear(&cx);
    return found;
}

/* --- graphs */

static void check_graph(const char *text, int calls, int steps) {
    const double tolerance = strstr(text, "f64")    ? 1e-12
                             : strstr(text, "bf16") ? 1e-2
                             : strstr(text, "f16")  ? 2e-3
                                                    : 1e-4;
    check_graph_on_cuda(text, &(compiled_options){.tolerance = tolerance}, calls, steps);
}

/* A dot of a (m x k, or stored the other way) and b with `rest` behind it as %3 and following. */
static void check_dot(const char *type, int batch, int m, int n, int k, bool ta, bool tb, const char *rest, int calls,
                      int steps) {
    char text[2048], lead[16] = "", batches[64] = "";
    if (batch)
        snprintf(lead, sizeof lead, "%d,", batch), snprintf(batches, sizeof batches, "batch_a=[0], batch_b=[0], ");
    snprintf(text, sizeof text,
             "graph @dot {\n  %%0 = input {name=\"a\"} : %s[%s%d,%d]\n  %%1 = input {name=\"b\"} : %s[%s%d,%d]\n  %%2 "
             "= input {name=\"bias\"} : %s[%d]\n"
             "  %%3 = dot(%%0, %%1) {%scontract_a=[%d], contract_b=[%d]} : %s[%s%d,%d]\n%s}\n",
             type, lead, ta ? k : m, ta ? m : k, type, lead, tb ? n : k, tb ? k : n, type, n, batches,
             (batch > 0) + !ta, (batch > 0) + tb, type, lead, m, n, rest);
    check_graph(text, calls, steps);
}

static void test_graphs(void **state) {
    (void)state;
    if (!available()) skip();
    for (int form = 0; form < 4; form++) {
        check_dot("f32", 0, 256, 320, 272, form & 1, form & 2, "  output \"c\" %3\n", 1, 1);
        check_dot("f32", 4, 160, 176, 192, form & 1, form & 2, "  output \"c\" %3\n", 1, 1);
    }
    check_dot("bf16", 0, 256, 320, 272, false, true, "  output \"c\" %3\n", 1, 1);
    check_dot("f16", 0, 256, 320, 272, true, false, "  output \"c\" %3\n", 1, 1);
    check_dot("f64", 0, 256, 320, 272, true, false, "  output \"c\" %3\n", 1, 1);
    check_dot("f32", 0, 64, 64, 64, false, false, "  output \"c\" %3\n", 0, 1); /* too small */
}

static void test_epilogues(void **state) {
    (void)state;
    if (!available()) skip();
    static const char bias[] = "  %4 = broadcast(%2) {dims=[1]} : f32[256,320]\n  %5 = add(%3, %4) : f32[256,320]\n";
    char text[1024];
    snprintf(text, sizeof text, "%s  output \"c\" %%5\n", bias);
    check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 1);
    snprintf(
        text, sizeof text,
        "%s  %%6 = constant {values=[0]} : f32[256,320]\n  %%7 = max(%%5, %%6) : f32[256,320]\n  output \"c\" %%7\n",
        bias);
    check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 1);
    /* what is stored before tanh is the library's, tanh ours */
    snprintf(text, sizeof text, "%s  %%6 = tanh(%%5) : f32[256,320]\n  output \"c\" %%5\n  output \"d\" %%6\n", bias);
    check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 2);
    /* nothing is stored before tanh: the sum is long enough, or not */
    snprintf(text, sizeof text, "%s  %%6 = tanh(%%5) : f32[256,320]\n  output \"d\" %%6\n", bias);
    check_dot("f32", 0, 256, 320, 272, true, true, text, 1, 2);
    check_dot("f32", 0, 256, 320, 240, true, true, text, 0, 1);
    /* a bias of the rows is not the library's */
    check_dot(
        "f32", 0, 512, 320, 272, false, false,
        "  %4 = slice(%0) {start=[0, 0], limit=[512, 1], stride=[1, 1]} : f32[512,1]\n  %5 = reshape(%4) : f32[512]\n"
        "  %6 = broadcast(%5) {dims=[0]} : f32[512,320]\n  %7 = add(%3, %6) : f32[512,320]\n  output \"c\" %7\n",
        1, 2);
}

/* gelu_tanh behind a dot, its input stored as well or not, and its gradient; by erf it is not the library's. */
static void test_gelu(void **state) {
    (void)state;
    if (!available()) skip();
    static const char bias[] = "  %4 = broadcast(%2) {dims=[1]} : f32[256,320]\n  %5 = add(%3, %4) : f32[256,320]\n";
    char text[1024];
    cublasltsim_counts counts = {0};
    check_dot("f32", 0, 256, 320, 240, false, true, "  %4 = gelu_tanh(%3) : f32[256,320]\n  output \"c\" %4\n", 1, 1);
    snprintf(text, sizeof text, "%s  %%6 = gelu_tanh(%%5) : f32[256,320]\n  output \"c\" %%6\n", bias);
    check_dot("f32", 0, 256, 320, 240, false, true, text, 1, 1);
    snprintf(text, sizeof text, "%s  %%6 = gelu_tanh(%%5) : f32[256,320]\n  output \"c\" %%6\n  output \"d\" %%5\n",
             bias);
    check_dot("f32", 0, 256, 320, 240, false, true, text, 1, 1);
    if (lt.get_counts) lt.get_counts(&counts);
    if (lt.get_counts) assert_true(counts.epilogues[5] == 3 && counts.epilogues[2] == 2 && counts.epilogues[7] == 1);
    if (lt.refuse_epilogues) { /* then as far as what is stored, if the sum is long enough */
        lt.refuse_epilogues(true);
        check_dot("f32", 0, 256, 320, 240, false, true, text, 0, 1);
        check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 2);
        lt.refuse_epilogues(false);
    }
    check_dot("bf16", 0, 256, 320, 240, false, true,
              "  %4 = gelu_tanh(%3) : bf16[256,320]\n  output \"c\" %4\n  output \"d\" %3\n", 1, 1);
    snprintf(text, sizeof text, "%s  %%6 = gelu(%%5) : f32[256,320]\n  output \"c\" %%6\n  output \"d\" %%5\n", bias);
    check_dot("f32", 0, 256, 320, 240, false, true, text, 0, 1);
    static const char gradient[] = "  %4 = input {name=\"x\"} : f32[4,160,176]\n  %5 = gelu_tanh_grad(%4, %3) : "
                                   "f32[4,160,176]\n  output \"c\" %5\n";
    check_dot("f32", 4, 160, 176, 192, true, false, gradient, 1, 1);
    /* the input's rows are no multiple of 8 elements */
    check_dot(
        "f32", 0, 512, 180, 240, false, true,
        "  %4 = input {name=\"x\"} : f32[512,180]\n  %5 = gelu_tanh_grad(%4, %3) : f32[512,180]\n  output \"c\" %5\n",
        0, 1);
    check_dot("f32", 0, 512, 180, 240, false, true, "  %4 = gelu_tanh(%3) : f32[512,180]\n  output \"c\" %4\n", 1,
              1); /* none is needed */
}

/* Zeros where a stored mask is false: the mask is packed for the library, if its rows are whole bytes. */
static void test_masks(void **state) {
    (void)state;
    if (!available()) skip();
#define MASKED(type, dims)                                                                               \
    "  %4 = input {name=\"mask\"} : bool[" dims "]\n  %5 = constant {values=[0]} : " type "[" dims "]\n" \
    "  %6 = select(%4, %3, %5) : " type "[" dims "]\n  output \"c\" %6\n"
    check_dot("f32", 0, 256, 320, 240, false, true, MASKED("f32", "256,320"), 1, 2);
    if (sim.reset_stats) sim.reset_stats();
    check_dot("f32", 0, 256, 384, 240, true, false, MASKED("f32", "256,384"), 1, 2);
    ptxsim_stats s = {0};
    if (sim.get_stats) { /* the mask is all that a kernel of ours reads, its bits all that it writes */
        assert_int_equal(sim.get_stats(NULL, &s), 0);
        assert_true(s.global_read_bytes == 256 * 384 && s.global_write_bytes == 256 * 384 / 8);
    }
    check_dot("bf16", 4, 160, 176, 192, true, false, MASKED("bf16", "4,160,176"), 1, 2);
    cublasltsim_counts counts = {0};
    if (lt.get_counts) lt.get_counts(&counts);
    if (lt.get_counts) assert_int_equal(counts.epilogues[3], 3 + 3); /* each device tries the epilogue first */
    check_dot("f32", 0, 512, 180, 240, false, true, MASKED("f32", "512,180"), 0, 1);
    if (lt.refuse_epilogues) {
        lt.refuse_epilogues(true);
        check_dot("f32", 0, 256, 320, 240, false, true, MASKED("f32", "256,320"), 0, 1);
        check_dot("f32", 0, 256, 320, 272, false, true, MASKED("f32", "256,320"), 1, 2);
        lt.refuse_epilogues(false);
    }
#undef MASKED
}

/* A matrix of the result's layout is added behind a dot, before or behind a bias; on the stand-in, by the library. */
static void test_addends(void **state) {
    (void)state;
    if (!available()) skip();
    static const char bias[] = "  %4 = broadcast(%2) {dims=[1]} : f32[256,320]\n  %5 = add(%3, %4) : f32[256,320]\n  "
                               "%6 = input {name=\"r\"} : f32[256,320]\n";
    char text[1024];
    check_dot("f32", 0, 256, 320, 240, false, true,
              "  %4 = input {name=\"r\"} : f32[256,320]\n  %5 = add(%4, %3) : f32[256,320]\n  output \"c\" %5\n", 1, 1);
    snprintf(text, sizeof text, "%s  %%7 = add(%%6, %%5) : f32[256,320]\n  output \"c\" %%7\n", bias);
    check_dot("f32", 0, 256, 320, 240, false, true, text, 1, 1);
    check_dot("f32", 0, 256, 320, 240, false, false,
              "  %4 = broadcast(%2) {dims=[1]} : f32[256,320]\n  %5 = input {name=\"r\"} : f32[256,320]\n  %6 = "
              "add(%3, %5) : f32[256,320]\n"
              "  %7 = add(%6, %4) : f32[256,320]\n  %8 = constant {values=[0]} : f32[256,320]\n  %9 = max(%7, %8) : "
              "f32[256,320]\n  output \"c\" %9\n",
              1, 1);
    check_dot("bf16", 4, 160, 176, 192, true, false,
              "  %4 = input {name=\"r\"} : bf16[4,160,176]\n  %5 = add(%3, %4) : bf16[4,160,176]\n  output \"c\" %5\n",
              1, 1);
    check_dot("f64", 0, 256, 320, 240, false, true,
              "  %4 = input {name=\"r\"} : f64[256,320]\n  %5 = add(%3, %4) : f64[256,320]\n  output \"c\" %5\n", 1, 1);
    cublasltsim_counts counts = {0};
    if (lt.get_counts) lt.get_counts(&counts);
    if (lt.get_counts)
        assert_true(counts.added == 5 && counts.epilogues[2] == 2 &&
                    counts.epilogues[1] == 1 + 1); /* ReLU was tried first */
    /* lying otherwise, or two of them, it is read by a kernel of ours */
    check_dot("f32", 0, 256, 320, 272, false, true,
              "  %4 = input {name=\"r\"} : f32[320,256]\n  %5 = transpose(%4) {perm=[1, 0]} : f32[256,320]\n"
              "  %6 = add(%5, %3) : f32[256,320]\n  output \"c\" %6\n",
              1, 2);
    check_dot("f32", 0, 256, 320, 272, false, true,
              "  %4 = input {name=\"r\"} : f32[256,320]\n  %5 = input {name=\"s\"} : f32[256,320]\n"
              "  %6 = add(%3, %4) : f32[256,320]\n  %7 = add(%6, %5) : f32[256,320]\n  output \"c\" %7\n",
              1, 2);
    /* what is added to is stored as well */
    snprintf(text, sizeof text, "%s  %%7 = add(%%6, %%5) : f32[256,320]\n  output \"c\" %%7\n  output \"d\" %%5\n",
             bias);
    check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 2);
}

/* Heads that lie packed as [images, time, (q, k, v), heads, width] are read where they lie: one call a head, without
 * copies; and the sum over images and times of what lies in two orders, one call an image. */
static void test_packed(void **state) {
    (void)state;
    if (!available()) skip();
#define PACKED                                                                                                         \
    "graph @packed {\n  %0 = input {name=\"qkv\"} : f32[6,256,3,2,64]\n"                                               \
    "  %1 = slice(%0) {start=[0, 0, 0, 0, 0], limit=[6, 256, 1, 2, 64], stride=[1, 1, 1, 1, 1]} : f32[6,256,1,2,64]\n" \
    "  %2 = reshape(%1) : f32[6,256,2,64]\n"                                                                           \
    "  %3 = slice(%0) {start=[0, 0, 1, 0, 0], limit=[6, 256, 2, 2, 64], stride=[1, 1, 1, 1, 1]} : f32[6,256,1,2,64]\n" \
    "  %4 = reshape(%3) : f32[6,256,2,64]\n"
    check_graph(PACKED "  %5 = dot(%2, %4) {batch_a=[0, 2], batch_b=[0, 2], contract_a=[3], contract_b=[3]} : "
                       "f32[6,2,256,256]\n  output \"c\" %5\n}\n",
                1, 1);
    check_graph(PACKED "  %5 = input {name=\"p\"} : f32[6,2,256,256]\n"
                       "  %6 = dot(%5, %4) {batch_a=[0, 1], batch_b=[0, 2], contract_a=[2], contract_b=[1]} : "
                       "f32[6,2,256,64]\n  output \"c\" %6\n}\n",
                1, 1);
    cublasltsim_counts counts = {0};
    if (lt.get_counts) lt.get_counts(&counts);
    if (lt.get_counts) assert_int_equal(counts.products, 4);
    check_graph(
        "graph @orders {\n  %0 = input {name=\"a\"} : f32[3,256,160]\n  %1 = input {name=\"b\"} : f32[3,4,256,112]\n"
        "  %2 = dot(%0, %1) {contract_a=[0, 1], contract_b=[0, 2]} : f32[160,4,112]\n  output \"c\" %2\n}\n",
        1, 1);
    if (lt.get_counts) lt.get_counts(&counts);
    if (lt.get_counts) assert_int_equal(counts.products, 7);
#undef PACKED
}

/* A layer's gradients: the sum of dy over the batch beside the product with it, of either operand. */
static void test_sums(void **state) {
    (void)state;
    if (!available()) skip();
#define GRADIENTS \
    "graph @gradients {\n  %0 = input {name=\"dy\"} : f32[4,64,240]\n  %1 = input {name=\"x\"} : f32[4,64,304]\n"
    static const char *const texts[] = {
        GRADIENTS "  %2 = dot(%0, %1) {contract_a=[0, 1], contract_b=[0, 1]} : f32[240,304]\n  %3 = reduce_sum(%0) "
                  "{axes=[0, 1]} : f32[240]\n"
                  "  output \"dw\" %2\n  output \"db\" %3\n}\n",
        GRADIENTS "  %2 = reduce_sum(%0) {axes=[0, 1]} : f32[240]\n  %3 = dot(%1, %0) {contract_a=[0, 1], "
                  "contract_b=[0, 1]} : f32[304,240]\n"
                  "  output \"dw\" %3\n  output \"db\" %2\n}\n",
        /* both operands' sums: one of them is a kernel of its own */
        GRADIENTS "  %2 = dot(%0, %1) {contract_a=[0, 1], contract_b=[0, 1]} : f32[240,304]\n  %3 = reduce_sum(%0) "
                  "{axes=[0, 1]} : f32[240]\n"
                  "  %4 = reduce_sum(%1) {axes=[0, 1]} : f32[304]\n  output \"dw\" %2\n  output \"db\" %3\n  output "
                  "\"dc\" %4\n}\n",
        /* a sum over other dims, and one that work of its own follows */
        GRADIENTS "  %2 = dot(%0, %1) {contract_a=[0, 1], contract_b=[0, 1]} : f32[240,304]\n  %3 = reduce_sum(%0) "
                  "{axes=[0]} : f32[64,240]\n"
                  "  output \"dw\" %2\n  output \"db\" %3\n}\n",
        GRADIENTS "  %2 = dot(%0, %1) {contract_a=[0, 1], contract_b=[0, 1]} : f32[240,304]\n  %3 = reduce_sum(%0) "
                  "{axes=[0, 1]} : f32[240]\n"
                  "  %4 = exp(%3) : f32[240]\n  output \"dw\" %2\n  output \"db\" %4\n}\n",
        /* as large as is worth no call */
        "graph @small {\n  %0 = input {name=\"dy\"} : f32[30,24]\n  %1 = input {name=\"x\"} : f32[30,40]\n"
        "  %2 = dot(%0, %1) {contract_a=[0], contract_b=[0]} : f32[24,40]\n  %3 = reduce_sum(%0) {axes=[0]} : f32[24]\n"
        "  output \"dw\" %2\n  output \"db\" %3\n}\n"};
#undef GRADIENTS
    static const struct {
        int calls, steps, sums_of_a, sums_of_b;
    } expected[] = {{1, 1, 1, 0},  {1, 1, 0, 1}, {1, -1, 1, 0},
                    {1, -1, 0, 0}, {1, 2, 1, 0}, {0, -1, 0, 0}}; /* our sums may be in parts */
    const compiled_options options = {.tolerance = 1e-4, .operand_sums = true};
    for (int i = 0; i < 6; i++) {
        cublasltsim_counts counts = {0};
        if (lt.restart) lt.restart();
        check_graph_on_cuda(texts[i], &options, expected[i].calls, expected[i].steps);
        if (!lt.restart) continue;
        lt.get_counts(&counts); /* the library's first operand is our second one */
        if (i != 2)
            assert_true(counts.epilogues[9] == expected[i].sums_of_a && counts.epilogues[8] == expected[i].sums_of_b);
        else assert_int_equal(counts.epilogues[8] + counts.epilogues[9], 1);
        lt.refuse_epilogues(true);
        check_graph_on_cuda(texts[i], &options, expected[i].calls, -1);
        lt.refuse_epilogues(false);
    }
}

/* What the library refuses when it is asked is our own kernel's; sums with workspace are the library's. */
static void test_fallback(void **state) {
    (void)state;
    skip_without(lt.refuse, STAND_IN_REFUSES);
    if (!available()) skip();
    check_dot("f32", 0, 256, 256, 600, false, false, "  output \"c\" %3\n", 1, 1);
    lt.refuse(512);
    check_dot("f32", 0, 256, 256, 600, false, false, "  output \"c\" %3\n", 0,
              2); /* in parts that a second step adds */
    check_dot("f32", 0, 256, 256, 300, false, false, "  output \"c\" %3\n", 1, 1);
    setenv("TCC_LIBRARIES", "none", 1);
    check_dot("f32", 0, 256, 256, 300, false, false, "  output \"c\" %3\n", 0, 2);
    unsetenv("TCC_LIBRARIES");
}

/* --- training */

enum { STEPS = 3, BATCH = 256, WIDTH = 256, CLASSES = 5, TEXTS = 8, CONTEXT = 64, VOCAB = 24 };

static void mlp(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor y = tcc_mlp(t, tcc_input(t, "x"),
                           &(tcc_mlp_options){.n_hidden = 2, .hidden = (int64_t[]){WIDTH, WIDTH}, .outputs = CLASSES});
    tcc_loss(t, tcc_cross_entropy(y, tcc_input(t, "y")));
}

static void gpt(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor y = tcc_gpt(t, tcc_input(t, "x"),
                           &(tcc_gpt_options){.layers = 2,
                                              .heads = 2,
                                              .width = 128,
                                              .context = CONTEXT,
                                              .vocab = VOCAB,
                                              .bias = true,
                                              .gelu_tanh = true});
    tcc_loss(t, tcc_cross_entropy(y, tcc_input(t, "y")));
}

static void train(const char *device, void (*model)(tcc_trace *, void *), const tcc_array *batch,
                  double losses[STEPS]) {
    tcc_context *cx;
    tcc_model *m;
    const tcc_model_options o = {
        .size = sizeof o, .device = device, .seed = 7, .optimizer = OPTIMIZER_OF(TCC_ADAMW, 1e-3, .momentum = 0)};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, model, NULL, &o, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    for (int i = 0; i < STEPS; i++) {
        if (tcc_model_train(m, batch, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
        losses[i] = tcc_model_loss(m);
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void check_losses(const double *got, const double *expected, const char *what) {
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-5 * expected[i]))
            fail_msg("step %d: loss %.9g instead of %.9g %s", i, got[i], expected[i], what);
}

/* Losses on the device are the CPU's, and on a GPU those of our own kernels; `after`: what the stand-in has counted. */
static void check_training(void (*model)(tcc_trace *, void *), const tcc_array *batch, cublasltsim_counts *after) {
    double expected[STEPS], got[STEPS];
    train("cpu", model, batch, expected);
    if (lt.restart) lt.restart();
    train("cuda", model, batch, got);
    if (lt.get_counts) lt.get_counts(after);
    check_losses(got, expected, "on the CPU");
    if (lt.restart) return; /* our own kernels are slow there, and tested by themselves */
    setenv("TCC_LIBRARIES", "none", 1);
    train("cuda", model, batch, expected);
    unsetenv("TCC_LIBRARIES");
    check_losses(got, expected, "by our own kernels");
}

static void test_mlp(void **state) {
    (void)state;
    if (!available()) skip();
    static float x[BATCH * WIDTH];
    static int32_t y[BATCH];
    for (int i = 0; i < BATCH * WIDTH; i++) x[i] = (float)((i * 37 + i / WIDTH * 11) % 101) / 101 - 0.5f;
    for (int i = 0; i < BATCH; i++) y[i] = i % CLASSES;
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {BATCH, WIDTH}, .data = x},
                               {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = y}};
    cublasltsim_counts counts;
    check_training(mlp, batch, &counts);
    if (!lt.get_counts) return;
    assert_int_equal(
        counts.products,
        STEPS * 5 + 2); /* two layers forward, their weights, and one input; first, ReLU and its gradient are tried */
    assert_int_equal(counts.epilogues[3], STEPS + 1); /* that one's is ReLU's as well */
    assert_int_equal(counts.epilogues[9], STEPS * 2); /* with the weights' gradients those of the biases */
}

static void test_gpt(void **state) {
    (void)state;
    if (!available()) skip();
    static int32_t x[TEXTS * CONTEXT], y[TEXTS * CONTEXT];
    for (int i = 0; i < TEXTS * CONTEXT; i++) x[i] = (i * i + i / CONTEXT) % VOCAB, y[i] = (x[i] * 2 + 1) % VOCAB;
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {TEXTS, CONTEXT}, .data = x},
                               {.name = "y", .dtype = TCC_I32, .rank = 2, .dims = {TEXTS, CONTEXT}, .data = y}};
    cublasltsim_counts counts;
    check_training(gpt, batch, &counts);
    if (!lt.get_counts) return;
    /* Of each layer, forward, by inputs, by weights: queries, keys and values together, and the two layers behind. */
    assert_int_equal(counts.products, 2 * STEPS * 9);
    assert_int_equal(counts.added, STEPS);            /* a residual that is stored */
    assert_int_equal(counts.epilogues[5], 2 * STEPS); /* gelu_tanh ... */
    assert_int_equal(counts.epilogues[7], 4 * STEPS); /* ... with its input stored, and its gradient */
    /* With the weights' gradients those of two biases; the third's is a norm's kernel's work. */
    assert_int_equal(counts.epilogues[9], 4 * STEPS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUBLASLT_TEST(test_graphs), CUBLASLT_TEST(test_epilogues), CUBLASLT_TEST(test_gelu),
        CUBLASLT_TEST(test_packed), CUBLASLT_TEST(test_addends),   CUBLASLT_TEST(test_masks),
        CUBLASLT_TEST(test_sums),   CUBLASLT_TEST(test_fallback),  CUBLASLT_TEST(test_mlp),
        CUBLASLT_TEST(test_gpt),
    };
    return cmocka_run_group_tests(tests, cublaslt_set_up, NULL);
}
