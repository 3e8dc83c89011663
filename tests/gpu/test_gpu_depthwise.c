/* SPDX-License-Identifier: MIT
 * Depthwise convolutions and their gradients on a GPU, channels last and first, with strides, dilation, work before and
 * behind. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"

#include <stdio.h>
#include <string.h>

typedef struct shape {
    int images, rows, columns, channels, kernel[2], stride[2], dilation[2];
    bool first; /* channels first */
} shape;

static int out_of(const shape *s, int i) { /* with padding of 1 on either side */
    int in = i ? s->columns : s->rows;
    return (in + 2 - (s->kernel[i] - 1) * s->dilation[i] - 1) / s->stride[i] + 1;
}

/* y = conv(x, w), dx and dw of a dy, and something behind each. */
static void text_of(const shape *s, const char *type, char *text, size_t size) {
    char x[64], y[64], w[64], attrs[256];
    int r = out_of(s, 0), c = out_of(s, 1), n = s->images, k = s->channels;
    if (s->first) {
        snprintf(x, sizeof x, "%s[%d,%d,%d,%d]", type, n, k, s->rows, s->columns);
        snprintf(y, sizeof y, "%s[%d,%d,%d,%d]", type, n, k, r, c);
        snprintf(w, sizeof w, "%s[%d,1,%d,%d]", type, k, s->kernel[0], s->kernel[1]);
    } else {
        snprintf(x, sizeof x, "%s[%d,%d,%d,%d]", type, n, s->rows, s->columns, k);
        snprintf(y, sizeof y, "%s[%d,%d,%d,%d]", type, n, r, c, k);
        snprintf(w, sizeof w, "%s[%d,%d,%d,1]", type, k, s->kernel[0], s->kernel[1]);
    }
    int high[2];
    for (int i = 0; i < 2; i++) { /* what the stride leaves over is padding that is not there */
        int out = i ? c : r, in = i ? s->columns : s->rows;
        high[i] = (out - 1) * s->stride[i] + (s->kernel[i] - 1) * s->dilation[i] + 1 - in - 1;
    }
    snprintf(attrs, sizeof attrs, "stride=[%d, %d], pad_lo=[1, 1], pad_hi=[%d, %d], dilation=[%d, %d], groups=%d%s",
             s->stride[0], s->stride[1], high[0], high[1], s->dilation[0], s->dilation[1], k,
             s->first ? "" : ", channels_last=true");
    snprintf(text, size,
             "graph @d {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = input {name=\"w\"} : %s\n  %%2 = input "
             "{name=\"dy\"} : %s\n"
             "  %%3 = conv(%%0, %%1) {%s} : %s\n  %%4 = mul(%%3, %%2) : %s\n"
             "  %%5 = conv_grad_input(%%2, %%1) {%s} : %s\n  %%6 = add(%%5, %%0) : %s\n"
             "  %%7 = mul(%%0, %%0) : %s\n  %%8 = conv_grad_weight(%%7, %%2) {%s} : %s\n  %%9 = sub(%%8, %%1) : %s\n"
             "  output \"y\" %%4\n  output \"dx\" %%6\n  output \"dw\" %%9\n}\n",
             x, w, y, attrs, y, y, attrs, x, x, x, attrs, w, w);
}

static void results(void **state) {
    (void)state;
    static const shape shapes[] = {
        {2, 8, 9, 8, {3, 3}, {1, 1}, {1, 1}, false},    {1, 12, 16, 36, {3, 3}, {1, 1}, {1, 1}, false},
        {3, 9, 7, 5, {3, 3}, {2, 2}, {1, 1}, false},    {2, 11, 10, 16, {5, 3}, {2, 1}, {1, 1}, false},
        {1, 14, 14, 12, {3, 3}, {1, 1}, {2, 2}, false}, {5, 40, 6, 4, {1, 3}, {1, 1}, {1, 1}, false},
        {90, 4, 4, 8, {3, 3}, {1, 1}, {1, 1}, false},   {2, 8, 9, 6, {3, 3}, {1, 2}, {1, 1}, true},
    };
    static const char *const types[] = {"f32", "bf16", "f16"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char text[4096];
            text_of(&shapes[i], types[t], text, sizeof text);
            check_gpu_text(
                text, &(compiled_options){.seed = i, .simplify = true, .low = -0.5, .high = 0.5, .tolerance = 5e-5});
        }
}

/* Filters whose kernels make a few positions of a row at once: rows that are cut into 4 to 7, 3, 2, or not at all. */
static void larger_filters(void **state) {
    (void)state;
    static const int columns[] = {9, 16, 7, 8, 10, 23, 12};
    for (int i = 0; i < 9; i++) {
        const bool far = i > 6; /* with strides, or dilation */
        const shape s = {2,
                         far ? 13 : 6,
                         far ? 14 : columns[i],
                         8,
                         {far ? 5 : 4, 4},
                         {1 + (i == 7), 1 + (i == 7)},
                         {1 + (i == 8), 1},
                         i == 3};
        char text[4096];
        text_of(&s, i % 3 ? "f32" : "bf16", text, sizeof text);
        check_gpu_text(text, &(compiled_options){
                                 .seed = (uint64_t)i, .simplify = true, .low = -0.5, .high = 0.5, .tolerance = 5e-5});
    }
}

/* An image of one number, and a result that is stored as other rows than it is computed by. */
static void constant_images(void **state) {
    (void)state;
    for (int side = 3; side <= 5; side += 2) {
        char text[2048], attrs[256];
        snprintf(attrs, sizeof attrs,
                 "stride=[1, 1], pad_lo=[%d, %d], pad_hi=[%d, %d], dilation=[1, 1], groups=8, channels_last=true",
                 side / 2, side / 2, side / 2, side / 2);
        snprintf(text, sizeof text,
                 "graph @d {\n  %%0 = constant {values=[0.5]} : f32[2,6,10,8]\n"
                 "  %%1 = input {name=\"w\"} : f32[8,%d,%d,1]\n  %%2 = input {name=\"dy\"} : f32[2,6,10,8]\n"
                 "  %%3 = conv(%%2, %%1) {%s} : f32[2,6,10,8]\n  %%4 = reshape(%%3) : f32[2,4,15,8]\n"
                 "  %%5 = conv_grad_weight(%%0, %%2) {%s} : f32[8,%d,%d,1]\n"
                 "  output \"y\" %%4\n  output \"dw\" %%5\n}\n",
                 side, side, attrs, attrs, side, side);
        check_gpu_text(text, &(compiled_options){.tolerance = 5e-5});
    }
}

/* The gradient of the weights is made in steps of many work items, not by a thread a weight. */
static void parts(void **state) {
    (void)state;
    static const shape s = {16, 24, 24, 32, {3, 3}, {1, 1}, {1, 1}, false};
    char text[4096];
    text_of(&s, "f32", text, sizeof text);
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    gpu_program *p = gpu_program_create(g, &(compiled_options){.simplify = true}, "sm_90");
    enum { WEIGHTS = 32 * 9 };
    int found = 0;
    for (int i = 0; i < p->program->n_steps; i++) {
        const tcc_step *step = &p->program->steps[i];
        const tcc_kernel *k = step->kind == TCC_STEP_KERNEL ? &p->program->kernels[step->kernel] : NULL;
        if (k && strstr(step->label, "conv_grad_weight") &&
            step->instances[0].items * k->threads / k->items_a_block > 16 * WEIGHTS)
            found++;
    }
    assert_int_equal(found, 1);
    assert_true(gpu_assemble(p->program, "sm_90") <= 0);
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(results), cmocka_unit_test(larger_filters),
                                       cmocka_unit_test(constant_images), cmocka_unit_test(parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
