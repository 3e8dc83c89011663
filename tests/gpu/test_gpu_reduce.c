/* SPDX-License-Identifier: MIT
 * Reductions on a GPU: rows in registers, in shared memory and longer, columns, whole tensors; against the interpreter.
 */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/moment_cases.h"
#include "harness/norm_cases.h"
#include "harness/passes.h"

#include "ir/support/strbuf.h"

#include <stdio.h>

static void rows(void **state) {
    (void)state;
    static const struct {
        int rows, length;
    } shapes[] = {{3, 1},    {5, 2},    {70, 5},   {9, 31},   {6, 33},   {130, 64},  {40, 96},  {7, 320},
                  {33, 768}, {5, 1000}, {2, 4096}, {2, 5001}, {1, 8192}, {2, 20000}, {1, 70001}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[2048];
        int r = shapes[i].rows, n = shapes[i].length;
        snprintf(text, sizeof text,
                 "graph @rows {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = input {name=\"w\"} : f32[%d]\n  %%2 "
                 "= input {name=\"b\"} : f32[%d]\n"
                 "  %%3 = softmax(%%0) {axis=1} : f32[%d,%d]\n  output \"s\" %%3\n}\n",
                 r, n, n, n, r, n);
        check_gpu_text(text, &(compiled_options){.simplify = true, .seed = i});
        snprintf(text, sizeof text,
                 "graph @rows {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = input {name=\"w\"} : f32[%d]\n  %%2 "
                 "= input {name=\"b\"} : f32[%d]\n"
                 "  %%3 = layer_norm(%%0, %%1, %%2) {eps=0x1p-10, axis=1} : f32[%d,%d]\n  output \"n\" %%3\n}\n",
                 r, n, n, n, r, n);
        check_gpu_text(text, &(compiled_options){.simplify = true, .seed = i});
        snprintf(
            text, sizeof text,
            "graph @rows {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = reduce_max(%%0) {axes=[1]} : f32[%d]\n"
            "  %%2 = argmax(%%0) {axis=1} : i32[%d]\n  %%3 = reduce_min(%%0) {axes=[1]} : f32[%d]\n  output \"a\" "
            "%%1\n  output \"b\" %%2\n  output \"c\" %%3\n}\n",
            r, n, r, r, r);
        check_gpu_text(text, &(compiled_options){.simplify = true, .seed = i});
        snprintf(
            text, sizeof text,
            "graph @rows {\n  %%0 = input {name=\"x\"} : i64[%d,%d]\n  %%1 = reduce_max(%%0) {axes=[1]} : i64[%d]\n"
            "  %%2 = argmax(%%0) {axis=1} : i32[%d]\n  %%3 = reduce_sum(%%0) {axes=[1]} : i64[%d]\n  output \"a\" "
            "%%1\n  output \"b\" %%2\n  output \"c\" %%3\n}\n",
            r, n, r, r, r);
        check_gpu_text(text, &(compiled_options){.simplify = true, .seed = i});
    }
}

/* Few rows whose elements are wanted again once their sum is known: one launch, as long as a block holds them. */
static void rows_read_again(void **state) {
    (void)state;
    static const struct {
        int rows, length;
        bool stays;
    } shapes[] = {{5, 16384, true}, {7, 16411, true}, {4, 40000, true}, {4, 70001, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[1024];
        const int r = shapes[i].rows, n = shapes[i].length;
        snprintf(text, sizeof text,
                 "graph @again {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = input {name=\"t\"} : f32[%d,%d]\n"
                 "  %%2 = mul(%%0, %%1) : f32[%d,%d]\n  %%3 = reduce_sum(%%2) {axes=[1]} : f32[%d]\n"
                 "  %%4 = broadcast(%%3) {dims=[0]} : f32[%d,%d]\n  %%5 = mul(%%4, %%1) : f32[%d,%d]\n"
                 "  output \"s\" %%3\n  output \"d\" %%5\n}\n",
                 r, n, r, n, r, n, r, r, n, r, n);
        const compiled_options options = {.seed = i};
        assert_true((gpu_steps_of_text(text, &options) == 1) == shapes[i].stays);
        check_gpu_text(text, &options);
    }
}

static void columns(void **state) {
    (void)state;
    static const int lengths[] = {1, 3, 40, 300, 3000}, widths[] = {1, 4, 7, 130, 768};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
            char text[2048];
            int n = lengths[i], c = widths[k];
            if (n * c > 500000) continue;
            snprintf(text, sizeof text,
                     "graph @columns {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = softmax(%%0) {axis=0} : "
                     "f32[%d,%d]\n"
                     "  %%2 = argmax(%%0) {axis=0} : i32[%d]\n  %%3 = reduce_sum(%%0) {axes=[0]} : f32[%d]\n  %%4 = "
                     "reduce_max(%%0) {axes=[0]} : f32[%d]\n"
                     "  %%5 = reduce_sum(%%0) {axes=[0, 1]} : f32[]\n"
                     "  output \"a\" %%1\n  output \"b\" %%2\n  output \"c\" %%3\n  output \"d\" %%4\n  output \"e\" "
                     "%%5\n}\n",
                     n, c, n, c, c, c, c);
            check_gpu_text(text, &(compiled_options){.simplify = true, .seed = i, .tolerance = 1e-4});
        }
}

static void channels(void **state) {
    (void)state;
    check_gpu_text("graph @batch_norm {\n"
                   "  %0 = input {name=\"x\"} : f32[8,6,20,20]\n"
                   "  %1 = input {name=\"w\"} : f32[6]\n"
                   "  %2 = input {name=\"b\"} : f32[6]\n"
                   "  %3 = batch_norm(%0, %1, %2) {eps=0x1p-10, axis=1} : f32[8,6,20,20]\n"
                   "  %4 = reduce_sum(%3) {axes=[0, 2, 3]} : f32[6]\n"
                   "  output \"o\" %3\n  output \"s\" %4\n}\n",
                   &(compiled_options){.simplify = true, .tolerance = 1e-4});
    check_gpu_text("graph @losses {\n"
                   "  %0 = input {name=\"x\"} : f32[20,5003]\n"
                   "  %1 = input {name=\"t\"} : i32[20]\n"
                   "  %2 = cross_entropy(%0, %1) {ignore_index=-1} : f32[]\n"
                   "  output \"o\" %2\n}\n",
                   &(compiled_options){.simplify = true, .limit = 5000});
}

/* Rows of a block each, several to a slice, and one reduction a row: a row's threads meet in one place of shared
 * memory, turn after turn. */
static void sums_beside_long_rows(void **state) {
    (void)state;
    static const struct {
        int rows, length;
        const char *type;
    } shapes[] = {{33, 1025, "f32"}, {300, 4096, "f32"}, {40, 5003, "f32"}, {70, 2050, "f64"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tcc_strbuf text = {0};
        const char *t = shapes[i].type;
        int r = shapes[i].rows, n = shapes[i].length;
        tcc_strbuf_printf(&text,
                          "graph @sums {\n  %%0 = input {name=\"x\"} : %s[%d,%d]\n  %%1 = rms_norm(%%0) {eps=0x1p-10, "
                          "axis=1} : %s[%d,%d]\n"
                          "  %%2 = reduce_sum(%%1) {axes=[0]} : %s[%d]\n  output \"o\" %%1\n  output \"s\" %%2\n}\n",
                          t, r, n, t, r, n, t, n);
        check_gpu_text(text.text, &(compiled_options){.simplify = true, .seed = i, .tolerance = 1e-4});
        tcc_strbuf_free(&text);
    }
}

/* Few images of many points, whose loops are not one: parts and lane groups cut the points. */
static void few_long_images(void **state) {
    (void)state;
    static const struct {
        int n, points, channels;
    } shapes[] = {{2, 700, 8}, {3, 1031, 33}, {4, 4096, 16}, {5, 67, 130}, {2, 9, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int n = shapes[i].n, p = shapes[i].points, c = shapes[i].channels;
        char text[2048];
        snprintf(text, sizeof text,
                 "graph @gated {\n  %%0 = input {name=\"x\"} : f32[%d,%d,%d]\n  %%1 = input {name=\"s\"} : f32[%d,%d]\n"
                 "  %%2 = broadcast(%%1) {dims=[0, 2]} : f32[%d,%d,%d]\n  %%3 = mul(%%0, %%2) : f32[%d,%d,%d]\n"
                 "  %%4 = reduce_sum(%%3) {axes=[0, 1]} : f32[%d]\n  %%5 = reduce_max(%%3) {axes=[0, 1]} : f32[%d]\n"
                 "  output \"a\" %%4\n  output \"b\" %%5\n}\n",
                 n, p, c, n, c, n, p, c, n, p, c, c, c);
        check_gpu_text(text, &(compiled_options){.seed = i});
        snprintf(
            text, sizeof text,
            "graph @moments {\n  %%0 = input {name=\"x\"} : f32[%d,%d,%d]\n  %%1 = input {name=\"s\"} : f32[%d,%d]\n"
            "  %%2 = broadcast(%%1) {dims=[0, 2]} : f32[%d,%d,%d]\n  %%3 = mul(%%0, %%2) : f32[%d,%d,%d]\n"
            "  %%4 = reduce_mean(%%3) {axes=[0, 1]} : f32[%d]\n"
            "  %%5 = reduce_m2(%%3) {axes=[0, 1]} : f32[%d]\n  output \"a\" %%4\n  output \"b\" %%5\n}\n",
            n, p, c, n, c, n, p, c, n, p, c, c, c);
        check_gpu_text(text, &(compiled_options){.seed = i});
        snprintf(text, sizeof text,
                 "graph @turned {\n  %%0 = input {name=\"x\"} : f32[%d,%d,%d]\n"
                 "  %%1 = transpose(%%0) {perm=[0, 2, 1]} : f32[%d,%d,%d]\n"
                 "  %%2 = reduce_sum(%%1) {axes=[0, 2]} : f32[%d]\n  output \"a\" %%2\n}\n",
                 n, p, c, n, c, p, c);
        check_gpu_text(text, &(compiled_options){.seed = i});
    }
}

/* Rows that lie across memory, whose results are stored in the input's order by their own kernel: an image's channels,
 * also of equal extents, where a wrong order has the same shape, and of odd ones, which end within vectors. */
static void stored_across(void **state) {
    (void)state;
    static const struct {
        int n, c, h, w;
        const char *type;
    } shapes[] = {{2, 19, 24, 32, "f32"},  {3, 7, 5, 9, "f32"},   {6, 6, 6, 6, "f32"},    {1, 130, 3, 33, "f32"},
                  {2, 19, 16, 32, "bf16"}, {3, 5, 7, 11, "bf16"}, {8, 8, 8, 8, "bf16"},   {2, 600, 2, 3, "f32"},
                  {1, 3, 1, 257, "f32"},   {4, 1, 5, 6, "f32"},   {1, 70001, 1, 2, "f32"}};
    static const char *const works[] = {"softmax(%1) {axis=3}", "log_softmax(%1) {axis=3}",
                                        "rms_norm(%1) {axis=3, eps=0x1p-10}", "layer_norm(%1) {axis=3, eps=0x1p-10}"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof works / sizeof *works; k++) {
            const int n = shapes[i].n, c = shapes[i].c, h = shapes[i].h, w = shapes[i].w;
            const char *t = shapes[i].type;
            tcc_strbuf text = {0};
            tcc_strbuf_printf(&text,
                              "graph @image {\n  %%0 = input {name=\"x\"} : %s[%d,%d,%d,%d]\n"
                              "  %%1 = transpose(%%0) {perm=[0, 2, 3, 1]} : %s[%d,%d,%d,%d]\n  %%2 = ",
                              t, n, c, h, w, t, n, h, w, c);
            tcc_strbuf_printf(&text,
                              "%s : %s[%d,%d,%d,%d]\n  %%3 = transpose(%%2) {perm=[0, 3, 1, 2]} : %s[%d,%d,%d,%d]\n"
                              "  %%4 = reduce_max(%%2) {axes=[3]} : %s[%d,%d,%d]\n"
                              "  output \"y\" %%3\n  output \"m\" %%4\n}\n",
                              works[k], t, n, h, w, c, t, n, c, h, w, t, n, h, w);
            check_gpu_text(text.text, &(compiled_options){.simplify = k == 1, .seed = i, .tolerance = 1e-4});
            tcc_strbuf_free(&text);
        }
}

/* Of equal extents, so that all types agree: what stands in front of the reduction is stored at its own place, what
 * stands behind it at that of its transpose, beside a value that is stored as it is. */
static void stored_in_two_orders(void **state) {
    (void)state;
    for (int n = 5; n <= 40; n += 7) {
        tcc_strbuf text = {0};
        tcc_strbuf_printf(&text,
                          "graph @orders {\n  %%0 = input {name=\"x\"} : f32[N]\n  %%1 = input {name=\"z\"} : f32[N]\n"
                          "  %%2 = transpose(%%0) {perm=[2, 0, 1]} : f32[N]\n  %%3 = mul(%%2, %%1) : f32[N]\n"
                          "  %%4 = reduce_sum(%%3) {axes=[2]} : f32[M]\n"
                          "  %%5 = broadcast(%%4) {dims=[0, 1]} : f32[N]\n  %%6 = add(%%5, %%2) : f32[N]\n"
                          "  %%7 = transpose(%%6) {perm=[1, 2, 0]} : f32[N]\n"
                          "  %%8 = transpose(%%3) {perm=[1, 2, 0]} : f32[N]\n"
                          "  output \"moved\" %%7\n  output \"front\" %%8\n  output \"own\" %%6\n}\n");
        tcc_strbuf all = {0};
        for (const char *p = text.text; *p; p++)
            if (*p == 'N') tcc_strbuf_printf(&all, "%d,%d,%d", n, n, n);
            else if (*p == 'M') tcc_strbuf_printf(&all, "%d,%d", n, n);
            else tcc_strbuf_printf(&all, "%c", *p);
        check_gpu_text(all.text, &(compiled_options){.seed = (uint64_t)n, .tolerance = 1e-4});
        tcc_strbuf_free(&text);
        tcc_strbuf_free(&all);
    }
}

/* A loss of an image's classes and its gradient, some labels of which do not count. */
static void classes_of_images(void **state) {
    (void)state;
    static const struct {
        int n, c, h, w;
        const char *type;
    } shapes[] = {{2, 19, 24, 32, "f32"}, {3, 7, 5, 9, "f32"}, {6, 6, 6, 6, "f32"}, {2, 5, 16, 32, "bf16"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int n = shapes[i].n, c = shapes[i].c, h = shapes[i].h, w = shapes[i].w;
        const char *t = shapes[i].type;
        tcc_diag diag = {0};
        tcc_strbuf text = {0};
        tcc_strbuf_printf(&text,
                          "graph @loss {\n  %%0 = input {name=\"x\", role=param} : %s[%d,%d,%d,%d]\n"
                          "  %%1 = input {name=\"t\"} : i32[%d,%d,%d]\n"
                          "  %%2 = transpose(%%0) {perm=[0, 2, 3, 1]} : %s[%d,%d,%d,%d]\n"
                          "  %%3 = cross_entropy(%%2, %%1) {ignore_index=-1} : %s[]\n  output \"loss\" %%3\n}\n",
                          t, n, c, h, w, n, h, w, t, n, h, w, c, t);
        tcc_graph *g = parse_graph(text.text, &diag);
        tcc_graph *both = run_passes(g, "simplify,autodiff,simplify", &(tcc_pass_options){0});
        check_gpu(both, &(compiled_options){.simplify = true, .limit = c - 1, .seed = i, .tolerance = 1e-4});
        tcc_graph_destroy(both);
        tcc_graph_destroy(g);
        tcc_strbuf_free(&text);
        tcc_diag_clear(&diag);
    }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),          cmocka_unit_test(rows_read_again),       cmocka_unit_test(columns),
        cmocka_unit_test(channels),      cmocka_unit_test(sums_beside_long_rows), cmocka_unit_test(few_long_images),
        cmocka_unit_test(stored_across), cmocka_unit_test(stored_in_two_orders),  cmocka_unit_test(classes_of_images)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + norm_cases_run(check_gpu) + moment_cases_run(check_gpu);
}
