/* SPDX-License-Identifier: MIT
 * Loads whose lanes lie near one another, as those of resized images do: vectors of memory, and picked from them. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const types[] = {"f32", "bf16", "f16"};
enum { ROWS = 3, TYPES = sizeof types / sizeof *types };

/* Images of ROWS x width resized to `high` x `out`; or the gradient of that. */
static tcc_graph *resized(const char *op, const char *type, int width, int high, int out, bool corners,
                          tcc_diag *diag) {
    const bool gradient = strstr(op, "_grad");
    const int from[] = {gradient ? high : ROWS, gradient ? out : width};
    const int to[] = {gradient ? ROWS : high, gradient ? width : out};
    char text[512];
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"x\"} : %s[1,2,%d,%d]\n"
             "  %%1 = %s(%%0) %s: %s[1,2,%d,%d]\n"
             "  output \"o\" %%1\n}\n",
             type, from[0], from[1], op, corners ? "{align_corners=true} " : "", type, to[0], to[1]);
    return parse_graph(text, diag);
}

/* With every access checked: nothing beside the image is read. */
static void check(tcc_graph *g, bool exact) {
    for (int checked = 0; checked < 2; checked++) {
        setenv("TCC_CHECK_ACCESS", checked ? "1" : "0", 1);
        check_compiled(g, &(compiled_options){.exact = exact});
    }
    tcc_graph_destroy(g);
}

/* Rows of less than a vector, of whole ones and of a rest; larger and smaller; by whole factors and by others. */
static void images_are_resized(void **state) {
    (void)state;
    static const char *const ops[] = {"resize_bilinear",     "resize_nearest", "resize_bilinear_grad",
                                      "resize_nearest_grad", "resize_bicubic", "resize_bicubic_grad"};
    static const int widths[] = {1, 2, 9, 16, 37, 48, 300}, sizes[] = {1, 7, 16, 33, 50, 96, 130};
    int t = 0;
    for (int op = 0; op < 6; op++)
        for (int w = 0; w < 7; w++)
            for (int s = 0; s < 7; s++, t++) {
                tcc_diag diag = {0};
                check(resized(ops[op], types[t % TYPES], widths[w], s % 2 ? 5 : ROWS, sizes[s], t % 5 == 0, &diag),
                      op == 1);
                tcc_diag_clear(&diag);
            }
    for (t = 0; t < TYPES; t++) /* the widest vectors, and two of them */
        for (int out = 700; out <= 2800; out += 700) {
            tcc_diag diag = {0};
            check(resized("resize_nearest", types[t], 1400, 5, out, false, &diag), true);
            tcc_diag_clear(&diag);
        }
}

/* With a border: rows and columns of the image are asked for that there are not. */
static void borders_are_left_out(void **state) {
    (void)state;
    static const char *const ops[] = {"resize_nearest", "resize_bilinear"};
    for (int op = 0; op < 2; op++)
        for (int border = 1; border < 20; border += 6) {
            enum { WIDTH = 40, OUT = 66 };
            tcc_diag diag = {0};
            char text[512];
            snprintf(text, sizeof text,
                     "graph @rows {\n"
                     "  %%0 = input {name=\"x\"} : f32[%d,2,%d,%d]\n"
                     "  %%1 = %s(%%0) : f32[%d,2,5,%d]\n"
                     "  %%2 = pad(%%1) {value=2, lo=[0, 1, %d, %d], hi=[0, 1, 2, %d], interior=[0, 0, 0, 0]} : "
                     "f32[%d,4,%d,%d]\n"
                     "  output \"o\" %%2\n}\n",
                     ROWS, ROWS, WIDTH, ops[op], ROWS, OUT, border, border, border, ROWS, 7 + border, OUT + 2 * border);
            check(parse_graph(text, &diag), op == 0);
            tcc_diag_clear(&diag);
        }
}

static tcc_graph *pooled(const char *type, int width, int window, int stride, bool places, tcc_diag *diag) {
    const int pad = window / 2, out = (width + 2 * pad - window) / stride + 1;
    const int rows = (ROWS + 2 * pad - window) / stride + 1;
    char text[1024], attrs[256];
    snprintf(attrs, sizeof attrs, "{window=[%d, %d], stride=[%d, %d], pad_lo=[%d, %d], pad_hi=[%d, %d]}", window,
             window, stride, stride, pad, pad, pad, pad);
    int at = snprintf(text, sizeof text,
                      "graph @rows {\n"
                      "  %%0 = input {name=\"x\"} : %s[2,2,%d,%d]\n"
                      "  %%1 = max_pool(%%0) %s : %s[2,2,%d,%d]\n",
                      type, ROWS, width, attrs, type, rows, out);
    if (places)
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "  %%2 = max_pool_place(%%0) %s : i32[2,2,%d,%d]\n  output \"places\" %%2\n", attrs, rows, out);
    snprintf(text + at, sizeof text - (size_t)at, "  output \"o\" %%1\n}\n");
    return parse_graph(text, diag);
}

/* Windows that reach over the border, a stride apart. */
static void windows_are_guarded(void **state) {
    (void)state;
    int t = 0;
    for (int window = 2; window <= 5; window++)
        for (int stride = 1; stride <= 4; stride++)
            for (int width = 6; width < 300; width += width < 100 ? 13 : 60, t++) {
                tcc_diag diag = {0};
                check(pooled(types[t % TYPES], width, window, stride, t % 2, &diag), true);
                tcc_diag_clear(&diag);
            }
}

/* A maximum and its place are made together, of elements that are picked once, under no mask. */
static void places_come_with_maxima(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v4");
    int picked[2];
    for (int places = 0; places < 2; places++) {
        tcc_diag diag = {0};
        tcc_graph *g = pooled("f32", 60, 3, 2, places, &diag);
        picked[places] = count_in_code(g, "x86-64-v4", "@llvm.x86.avx512.vpermi2var");
        assert_int_equal(count_in_code(g, "x86-64-v4", "@llvm.masked.load"), 0);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    assert_int_equal(picked[0], picked[1]);
    assert_true(picked[0] >= 9);
}

/* Each element so many times: what is divided ascends. */
static void elements_are_repeated(void **state) {
    (void)state;
    for (int times = 2; times < 9; times++)
        for (int width = 5; width < 90; width += 21) {
            tcc_diag diag = {0};
            char text[512];
            const char *type = (times + width) % 2 ? "i32" : "bf16";
            snprintf(text, sizeof text,
                     "graph @rows {\n"
                     "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
                     "  %%1 = broadcast(%%0) {dims=[0, 1]} : %s[%d,%d,%d]\n"
                     "  %%2 = reshape(%%1) : %s[%d,%d]\n"
                     "  %%3 = slice(%%2) {start=[0, 1], limit=[%d, %d], stride=[1, 1]} : %s[%d,%d]\n"
                     "  output \"o\" %%3\n}\n",
                     type, ROWS, width, type, ROWS, width, times, type, ROWS, width * times, ROWS, width * times, type,
                     ROWS, width * times - 1);
            check(parse_graph(text, &diag), true);
            tcc_diag_clear(&diag);
        }
}

/* Elements i / slow of rows of `width`, the last one `jump` more. */
static tcc_graph *taken(const char *type, int width, int count, int slow, int jump, tcc_diag *diag) {
    char text[2048], places[1024];
    int n = 0;
    for (int i = 0; i < count; i++) {
        const int at = i / slow + (i == count - 1 ? jump : 0);
        n += snprintf(places + n, sizeof places - (size_t)n, "%s%d", i ? ", " : "", at < width ? at : width - 1);
    }
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"x\"} : %s[3,%d]\n"
             "  %%1 = constant {values=[%s]} : i32[%d]\n"
             "  %%2 = take(%%0, %%1) {axis=1} : %s[3,%d]\n"
             "  output \"o\" %%2\n}\n",
             type, width, places, count, type, count);
    return parse_graph(text, diag);
}

/* By a constant of the graph. */
static void elements_are_taken(void **state) {
    (void)state;
    int t = 0;
    for (int width = 11; width < 80; width += 34)
        for (int count = 8; count < 80; count += 27)
            for (int slow = 1; slow < 4; slow++)
                for (int jump = 0; jump <= 20; jump += 20) {
                    tcc_diag diag = {0};
                    check(taken(types[t++ % TYPES], width, count, slow, jump, &diag), true);
                    tcc_diag_clear(&diag);
                }
}

/* What goes back is gathered. */
static void taken_elements_are_not_gathered(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64");
    static const int jumps[] = {0, 1, -2};
    for (int i = 0; i < 3; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = taken("f32", 128, 32, 1, jumps[i], &diag);
        assert_int_equal(count_in_code(g, "x86-64-v3", "@llvm.masked.gather") > 0, jumps[i] < 0);
        assert_int_equal(count_in_code(g, "x86-64-v4", "@llvm.masked.gather") > 0, jumps[i] < 0);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* Kernels of one text but for their tables: what one loads for a vector does not reach for the other. */
static void tables_tell_kernels_apart(void **state) {
    (void)state;
    static const char *const ops[] = {"resize_nearest", "resize_bilinear", "resize_bicubic"};
    static const int sizes[][2] = {{18, 17}, {35, 33}, {66, 32}, {67, 65}, {131, 64}};
    for (int op = 0; op < 3; op++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int first = 0; first < 2; first++) {
                tcc_diag diag = {0};
                char text[512];
                snprintf(text, sizeof text,
                         "graph @rows {\n"
                         "  %%0 = input {name=\"x\"} : f32[1,2,5,%d]\n"
                         "  %%1 = %s(%%0) {align_corners=%s} : f32[1,2,7,%d]\n"
                         "  %%2 = %s(%%1) : f32[1,2,5,%d]\n"
                         "  %%3 = %s(%%2) {align_corners=%s} : f32[1,2,7,%d]\n"
                         "  output \"o\" %%1\n  output \"p\" %%3\n}\n",
                         sizes[i][0], ops[op], first ? "true" : "false", sizes[i][1], ops[op], sizes[i][0], ops[op],
                         first ? "false" : "true", sizes[i][1]);
                tcc_graph *g = parse_graph(text, &diag);
                check_compiled(g, &(compiled_options){.eager = true, .exact = op == 0});
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

/* Two vectors are worth it, more are not. */
static void near_lanes_are_not_gathered(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64");
    static const char *const cpus[] = {"x86-64-v3", "x86-64-v4"};
    static const struct {
        const char *op;
        int width, out;
        bool gathers;
    } cases[] = {
        {"resize_bilinear", 48, 96, false},      {"resize_bilinear", 48, 50, false}, {"resize_nearest", 50, 77, false},
        {"resize_bilinear_grad", 48, 80, false}, {"resize_bilinear", 96, 50, false}, {"resize_bilinear", 400, 90, true},
        {"resize_bilinear_grad", 48, 200, true}, {"resize_bicubic", 48, 96, false},  {"resize_bicubic", 96, 50, false},
        {"resize_bicubic_grad", 48, 80, false},  {"resize_bicubic", 400, 90, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < TYPES; t++)
            for (int c = 0; c < 2; c++) {
                tcc_diag diag = {0};
                tcc_graph *g = resized(cases[i].op, types[t], cases[i].width, 5, cases[i].out, false, &diag);
                assert_int_equal(count_in_code(g, cpus[c], "@llvm.masked.gather") > 0, cases[i].gathers);
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(images_are_resized),
                                       cmocka_unit_test(borders_are_left_out),
                                       cmocka_unit_test(windows_are_guarded),
                                       cmocka_unit_test(places_come_with_maxima),
                                       cmocka_unit_test(elements_are_repeated),
                                       cmocka_unit_test(near_lanes_are_not_gathered),
                                       cmocka_unit_test(tables_tell_kernels_apart),
                                       cmocka_unit_test(elements_are_taken),
                                       cmocka_unit_test(taken_elements_are_not_gathered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
