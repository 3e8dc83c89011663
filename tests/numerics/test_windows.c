/* SPDX-License-Identifier: MIT
 * Convolutions with a channel a group, whose kernels go along rows of the image without guards but at their ends:
 * strides, dilations, padding, kernels that are wider than the image, and values in the image that are no numbers.
 * Several positions of a row are made at once. The same with channels first, where vectors run along rows, and masks
 * leave out the border. And gradients of resizing, of what is computed where it is read. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "ir/ir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct form {
    int rows, columns, channels, kernel, stride, pad_low, pad_high, dilation;
    bool first; /* the channels are */
} form;

static const form forms[] = {
    {5, 40, 32, 3, 1, 1, 1, 1},                              /* as in networks */
    {4, 37, 32, 7, 1, 3, 3, 1},  {6, 41, 16, 3, 2, 1, 1, 1}, /* the ends of rows are uneven */
    {6, 60, 33, 3, 3, 1, 1, 1},                              /* a stride that is no shift; a rest of channels */
    {9, 90, 48, 5, 4, 2, 0, 1},                              /* padded on one side */
    {3, 19, 32, 3, 1, 30, 1, 1},                             /* more padding than image */
    {2, 3, 32, 7, 1, 12, 12, 2},                             /* windows that never lie inside */
    {7, 33, 64, 3, 2, 4, 4, 4},                              /* dilated */
    {5, 40, 32, 3, 1, 0, 0, 1},                              /* without padding */
};
static const form by_rows[] = {
    {8, 56, 3, 3, 1, 1, 1, 1},  {8, 56, 3, 7, 1, 3, 3, 1},  /* as in networks */
    {12, 28, 3, 5, 1, 2, 2, 1}, {6, 14, 3, 7, 1, 3, 3, 1},  /* rows of a few vectors, or of one */
    {7, 64, 2, 5, 1, 2, 2, 1},  {4, 65, 2, 5, 1, 2, 2, 1},  /* vectors that are all whole, or one of which has a lane */
    {4, 130, 2, 5, 1, 2, 2, 1}, {2, 301, 2, 3, 1, 1, 1, 1}, /* several wide vectors, and more than are written out */
    {4, 29, 2, 7, 1, 1, 5, 1},  {4, 29, 2, 5, 1, 6, 0, 1},  /* padded unevenly */
    {3, 19, 2, 3, 1, 30, 1, 1}, {2, 3, 2, 7, 1, 12, 12, 2}, /* hardly any window lies inside */
    {10, 40, 2, 5, 1, 4, 4, 3}, {8, 40, 2, 5, 1, 0, 0, 1},  /* dilated; without padding */
    {10, 61, 2, 5, 2, 2, 2, 1}, {9, 47, 2, 3, 3, 1, 1, 2},  /* strides */
    {5, 23, 2, 1, 1, 0, 0, 1},  {4, 40, 2, 19, 1, 9, 9, 1}, /* one tap; more in a row than are written out */
};
enum { FORMS = sizeof forms / sizeof *forms, BY_ROWS = sizeof by_rows / sizeof *by_rows, IMAGES = 2 };

static void print_form(char *to, size_t size, const form *f, const char *op, const char *operands, const char *inputs,
                       const char *result) {
    snprintf(to, size,
             "graph @g {\n%s  %%2 = %s(%s) {stride=[%d, %d], pad_lo=[%d, %d], pad_hi=[%d, %d], dilation=[%d, %d], "
             "groups=%d%s} : %s\n  output \"y\" %%2\n}\n",
             inputs, op, operands, f->stride, f->stride, f->pad_low, f->pad_low, f->pad_high, f->pad_high, f->dilation,
             f->dilation, f->channels, f->first ? "" : ", channels_last=true", result);
}

static int size_of(int size, const form *f) {
    return (size + f->pad_low + f->pad_high - (f->kernel - 1) * f->dilation - 1) / f->stride + 1;
}

static void print_image(char *to, size_t size, const form *f, const char *type, int rows, int columns) {
    if (f->first) snprintf(to, size, "%s[%d,%d,%d,%d]", type, IMAGES, f->channels, rows, columns);
    else snprintf(to, size, "%s[%d,%d,%d,%d]", type, IMAGES, rows, columns, f->channels);
}

static void check_op(const form *f, const char *type, int op, const compiled_options *options) {
    static const char *const ops[] = {"conv", "conv_grad_input", "conv_grad_weight"};
    char x[64], w[64], y[64], inputs[256], text[1024];
    print_image(x, sizeof x, f, type, f->rows, f->columns);
    snprintf(w, sizeof w, f->first ? "%s[%d,1,%d,%d]" : "%s[%d,%d,%d,1]", type, f->channels, f->kernel, f->kernel);
    print_image(y, sizeof y, f, type, size_of(f->rows, f), size_of(f->columns, f));
    const char *const operands[][3] = {{x, w, y}, {y, w, x}, {x, y, w}};
    const char *const *o = operands[op];
    snprintf(inputs, sizeof inputs, "  %%0 = input {name=\"a\"} : %s\n  %%1 = input {name=\"b\"} : %s\n", o[0], o[1]);
    print_form(text, sizeof text, f, ops[op], "%0, %1", inputs, o[2]);
    check_text(text, options);
}

static void test_each_form(void **state) {
    (void)state;
    for (int i = 0; i < FORMS; i++)
        for (int op = 0; op < 3; op++) {
            check_op(&forms[i], "f32", op, &(compiled_options){.tolerance = 1e-5});
            check_op(&forms[i], "bf16", op, &(compiled_options){.tolerance = 2e-2});
        }
}

static void test_each_form_by_rows(void **state) {
    (void)state;
    for (int i = 0; i < BY_ROWS; i++)
        for (int op = 0; op < 2; op++) {
            form f = by_rows[i];
            f.first = true;
            check_op(&f, "f32", op, &(compiled_options){.tolerance = 1e-5});
            check_op(&f, "bf16", op, &(compiled_options){.tolerance = 2e-2});
        }
}

/* Along one line; with filters of one row, and rows that are padded; and in space, with work before and behind: what is
 * before does not count in the border. */
static void test_rows_of_other_ranks(void **state) {
    (void)state;
    check_text("graph @line {\n"
               "  %0 = input {name=\"x\"} : f32[3,4,75]\n  %1 = input {name=\"w\"} : f32[4,1,6]\n"
               "  %2 = conv(%0, %1) {stride=[1], pad_lo=[5], pad_hi=[0], dilation=[1], groups=4} : f32[3,4,75]\n"
               "  output \"y\" %2\n}\n",
               &(compiled_options){.tolerance = 1e-5});
    check_text("graph @flat {\n"
               "  %0 = input {name=\"x\"} : f32[2,3,5,40]\n  %1 = input {name=\"w\"} : f32[3,1,1,3]\n"
               "  %2 = conv(%0, %1) {stride=[1, 1], pad_lo=[2, 1], pad_hi=[1, 1], dilation=[1, 1], groups=3} : "
               "f32[2,3,8,40]\n"
               "  output \"y\" %2\n}\n",
               &(compiled_options){.tolerance = 1e-5});
    check_text("graph @space {\n"
               "  %0 = input {name=\"x\"} : f32[2,3,4,6,33]\n  %1 = input {name=\"w\"} : f32[3,1,3,3,3]\n"
               "  %2 = exp(%0) : f32[2,3,4,6,33]\n"
               "  %3 = conv(%2, %1) {stride=[1, 1, 1], pad_lo=[1, 1, 1], pad_hi=[1, 1, 1], dilation=[1, 1, 1], "
               "groups=3} : f32[2,3,4,6,33]\n"
               "  %4 = sin(%3) : f32[2,3,4,6,33]\n"
               "  output \"y\" %4\n}\n",
               &(compiled_options){.tolerance = 1e-5});
}

/* A NaN of the image counts where a window meets it, and nowhere else. */
static void test_not_numbers(void **state) {
    (void)state;
    const form *f = &forms[0];
    char text[1024], inputs[256];
    snprintf(inputs, sizeof inputs,
             "  %%0 = input {name=\"a\"} : f32[2,%d,%d,%d]\n  %%1 = input {name=\"b\"} : f32[2,%d,%d,%d]\n", f->rows,
             f->columns, f->channels, size_of(f->rows, f), size_of(f->columns, f), f->channels);
    print_form(text, sizeof text, f, "conv_grad_weight", "%0, %1", inputs, "f32[32,3,3,1]");
    tcc_diag diag = {0};
    tcc_graph *g;
    assert_int_equal(tcc_graph_parse(text, strlen(text), "text", &diag, &g), TCC_OK);
    compiled_options options = {.seed = 3};
    tcc_value *values = random_inputs(g, &options);
    values[0].f[0] = NAN; /* the first position of all, which the lower right taps do not meet */
    options.inputs = values;
    check_compiled(g, &options);
    free_values(values, 2);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

/* Of all magnitudes, so that hardly two orders of a sum give the same bits, and the same in a row of any image. */
static void fill_rows(tcc_value *v, uint64_t seed) {
    const int64_t columns = v->type.dims[3], rows = v->type.dims[2];
    for (int64_t e = 0, count = tcc_type_numel(&v->type); e < count; e++) {
        uint64_t x = seed + (uint64_t)(e / (rows * columns) * 10007 + e / columns % rows * 101 + e % columns);
        x = (x + 1) * 6364136223846793005u;
        x = (x ^ x >> 32) * 1442695040888963407u;
        v->f[e] = (float)((double)(x >> 40) / 0x1p23 - 1) * (float)(1 + (x >> 33) % 1000);
    }
}

/* The first `to` rows of the second channel, of an image of so many rows. */
static void rows_of_image(const char *op, int kernel, int rows, float *out, int to) {
    enum { COLUMNS = 45 };
    char text[1024];
    snprintf(text, sizeof text,
             "graph @g {\n  %%0 = input {name=\"a\"} : f32[1,2,%d,%d]\n  %%1 = input {name=\"b\"} : f32[2,1,%d,%d]\n"
             "  %%2 = %s(%%0, %%1) {stride=[1, 1], pad_lo=[%d, %d], pad_hi=[%d, %d], dilation=[1, 1], groups=2} : "
             "f32[1,2,%d,%d]\n  output \"y\" %%2\n}\n",
             rows, COLUMNS, kernel, kernel, op, kernel / 2, kernel / 2, kernel / 2, kernel / 2, rows, COLUMNS);
    tcc_diag diag = {0};
    tcc_graph *g;
    assert_int_equal(tcc_graph_parse(text, strlen(text), "text", &diag, &g), TCC_OK);
    compiled *c = compiled_run_filled(g, &(compiled_options){0}, fill_rows);
    const float *y = compiled_output(c, 0);
    memcpy(out, y + rows * COLUMNS, sizeof *out * (size_t)(to * COLUMNS));
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

/* Positions in neighbouring rows, whose windows share most of what they see, are made together: with the bits that each
 * has by itself, as those of an image of 23 rows, which no such number divides. */
static void test_rows_made_together(void **state) {
    (void)state;
    enum { MOST = 24 * 45 };
    static const char *const ops[] = {"conv", "conv_grad_input"};
    static const int kernels[] = {5, 7, 9};
    for (int op = 0; op < 2; op++)
        for (int k = 0; k < 3; k++)
            for (int rows = 20; rows <= 24; rows++) {
                float alone[MOST], together[MOST];
                const int to = 20 - kernels[k] / 2; /* the windows of rows behind see where the shortest image ends */
                rows_of_image(ops[op], kernels[k], 23, alone, to);
                rows_of_image(ops[op], kernels[k], rows, together, to);
                assert_memory_equal(alone, together, sizeof *alone * (size_t)(to * 45));
            }
}

/* As many values of y as lie where a value of x comes from, which is not equally many for each. */
static void test_uneven_windows_of_computed_values(void **state) {
    (void)state;
    check_text("graph @g {\n"
               "  %0 = input {name=\"y\"} : bf16[2,12,7,19]\n"
               "  %1 = cast(%0) : f32[2,12,7,19]\n"
               "  %2 = resize_bilinear_grad(%1) {channels_last=true} : f32[2,5,3,19]\n"
               "  output \"x\" %2\n}\n",
               &(compiled_options){.tolerance = 1e-5});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_form),           cmocka_unit_test(test_each_form_by_rows),
        cmocka_unit_test(test_rows_of_other_ranks), cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_rows_made_together),  cmocka_unit_test(test_uneven_windows_of_computed_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
