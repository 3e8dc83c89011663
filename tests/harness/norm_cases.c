/* SPDX-License-Identifier: MIT
 * See the header. In a text R and C stand for the numbers of rows and columns, H for half of the rows. */
#include "harness/norm_cases.h"
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *text;
} norms[] = {
    {"layer_norm", "  %0 = input {role=param, name=\"x\"} : f32[R,C]\n  %1 = input {role=param, name=\"w\"} : f32[C]\n"
                   "  %2 = input {role=param, name=\"b\"} : f32[C]\n  %3 = input {role=batch, name=\"dy\"} : f32[R,C]\n"
                   "  %4 = layer_norm(%0, %1, %2) {eps=0x1p-10, axis=1} : f32[R,C]\n  %5 = mul(%4, %3) : f32[R,C]\n"
                   "  %6 = reduce_sum(%5) {axes=[0, 1]} : f32[]\n  output \"loss\" %6\n"},
    {"layer_norm_plain",
     "  %0 = input {role=param, name=\"x\"} : f32[R,C]\n  %1 = input {role=param, name=\"w\"} : f32[C]\n"
     "  %2 = input {role=batch, name=\"dy\"} : f32[R,C]\n  %3 = layer_norm(%0, %1) {eps=0x1p-10, axis=1} : f32[R,C]\n"
     "  %4 = mul(%3, %2) : f32[R,C]\n  %5 = reduce_sum(%4) {axes=[0, 1]} : f32[]\n  output \"loss\" %5\n"},
    {"rms_norm",
     "  %0 = input {role=param, name=\"x\"} : f32[R,C]\n  %1 = input {role=param, name=\"w\"} : f32[C]\n"
     "  %2 = input {role=batch, name=\"dy\"} : f32[R,C]\n  %3 = rms_norm(%0, %1) {eps=0x1p-10, axis=1} : f32[R,C]\n"
     "  %4 = mul(%3, %2) : f32[R,C]\n  %5 = reduce_sum(%4) {axes=[0, 1]} : f32[]\n  output \"loss\" %5\n"},
    {"bf16", "  %0 = input {role=param, name=\"x\"} : bf16[R,C]\n  %1 = input {role=param, name=\"w\"} : f32[C]\n"
             "  %2 = input {role=param, name=\"b\"} : f32[C]\n  %3 = input {role=batch, name=\"dy\"} : bf16[R,C]\n"
             "  %4 = cast(%0) : f32[R,C]\n  %5 = layer_norm(%4, %1, %2) {eps=0x1p-10, axis=1} : f32[R,C]\n  %6 = "
             "cast(%3) : f32[R,C]\n"
             "  %7 = mul(%5, %6) : f32[R,C]\n  %8 = reduce_sum(%7) {axes=[0, 1]} : f32[]\n  output \"loss\" %8\n"},
    {"f64", "  %0 = input {role=param, name=\"x\"} : f64[R,C]\n  %1 = input {role=param, name=\"w\"} : f64[C]\n"
            "  %2 = input {role=param, name=\"b\"} : f64[C]\n  %3 = input {role=batch, name=\"dy\"} : f64[R,C]\n"
            "  %4 = layer_norm(%0, %1, %2) {eps=0x1p-10, axis=1} : f64[R,C]\n  %5 = mul(%4, %3) : f64[R,C]\n"
            "  %6 = reduce_sum(%5) {axes=[0, 1]} : f64[]\n  output \"loss\" %6\n"},
    {"residual",
     "  %0 = input {role=param, name=\"x\"} : f32[R,C]\n  %1 = input {role=param, name=\"w\"} : f32[C]\n"
     "  %2 = input {role=param, name=\"b\"} : f32[C]\n  %3 = input {role=batch, name=\"dy\"} : f32[R,C]\n"
     "  %4 = input {role=param, name=\"bias\"} : f32[C]\n  %5 = broadcast(%4) {dims=[1]} : f32[R,C]\n  %6 = add(%0, "
     "%5) : f32[R,C]\n"
     "  %7 = layer_norm(%6, %1, %2) {eps=0x1p-10, axis=1} : f32[R,C]\n  %8 = add(%6, %7) : f32[R,C]\n"
     "  %9 = mul(%8, %3) : f32[R,C]\n  %10 = reduce_sum(%9) {axes=[0, 1]} : f32[]\n  output \"loss\" %10\n"},
    /* rows of two dims, which positions keep apart */
    {"positions",
     "  %0 = input {role=param, name=\"x\"} : f32[2,H,C]\n  %1 = input {role=param, name=\"w\"} : f32[C]\n"
     "  %2 = input {role=param, name=\"b\"} : f32[C]\n  %3 = input {role=batch, name=\"dy\"} : f32[2,H,C]\n"
     "  %4 = input {role=batch, name=\"p\"} : f32[H,C]\n  %5 = broadcast(%4) {dims=[1, 2]} : f32[2,H,C]\n  %6 = "
     "add(%0, %5) : f32[2,H,C]\n"
     "  %7 = layer_norm(%6, %1, %2) {eps=0x1p-10, axis=2} : f32[2,H,C]\n  %8 = mul(%7, %3) : f32[2,H,C]\n"
     "  %9 = reduce_sum(%8) {axes=[0, 1, 2]} : f32[]\n  output \"loss\" %9\n"},
    /* columns of two dims */
    {"planes", "  %0 = input {role=param, name=\"x\"} : f32[R,3,C]\n  %1 = input {role=param, name=\"w\"} : f32[3,C]\n"
               "  %2 = input {role=param, name=\"b\"} : f32[3,C]\n  %3 = input {role=batch, name=\"dy\"} : f32[R,3,C]\n"
               "  %4 = layer_norm(%0, %1, %2) {eps=0x1p-10, axis=1} : f32[R,3,C]\n  %5 = mul(%4, %3) : f32[R,3,C]\n"
               "  %6 = reduce_sum(%5) {axes=[0, 1, 2]} : f32[]\n  output \"loss\" %6\n"},
    /* a softmax behind a linear layer: its bias has the column sums of softmax's own gradient */
    {"bias", "  %0 = input {role=batch, name=\"x\"} : f32[R,C]\n  %1 = input {role=param, name=\"b\"} : f32[C]\n"
             "  %2 = input {role=batch, name=\"t\"} : i32[R]\n  %3 = broadcast(%1) {dims=[1]} : f32[R,C]\n  %4 = "
             "add(%0, %3) : f32[R,C]\n"
             "  %5 = cross_entropy(%4, %2) {ignore_index=-1} : f32[]\n  output \"loss\" %5\n"},
};

tcc_graph *norm_gradients(tcc_diag *diag, const char *name, int rows, int columns) {
    tcc_strbuf text = {0};
    tcc_strbuf_printf(&text, "graph @%s {\n", name);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        for (const char *c = norms[i].text; !strcmp(norms[i].name, name) && *c; c++) {
            if (*c == 'R') tcc_strbuf_printf(&text, "%d", rows);
            else if (*c == 'H') tcc_strbuf_printf(&text, "%d", rows / 2);
            else if (*c == 'C') tcc_strbuf_printf(&text, "%d", columns);
            else tcc_strbuf_addn(&text, c, 1);
        }
    tcc_strbuf_add(&text, "}\n");
    tcc_graph *g = parse_graph(text.text, diag), *step = run_passes(g, "simplify,autodiff", NULL);
    tcc_graph_destroy(g);
    tcc_strbuf_free(&text);
    return step;
}

static graph_check *check;

static void check_norm(const char *name, int rows, int columns) {
    tcc_diag diag = {0};
    tcc_graph *g = norm_gradients(&diag, name, rows, columns);
    check(g, &(compiled_options){
                 .simplify = true, .seed = (uint64_t)(rows * columns), .limit = columns, .tolerance = 1e-4});
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void shapes(void **state) {
    (void)state;
    static const struct {
        int rows, columns;
    } sizes[] = {{15, 8},   {16, 2},    {17, 7},    {40, 31},   {64, 64},   {130, 96},
                 {33, 768}, {300, 100}, {70, 1000}, {600, 256}, {20, 3000}, {16, 8192}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_norm("layer_norm", sizes[i].rows, sizes[i].columns);
}

static void kinds(void **state) {
    (void)state;
    static const int columns[] = {10, 128, 1600};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) check_norm(norms[i].name, 70, columns[k]);
}

tcc_graph *group_norm_gradients(tcc_diag *diag, const char *type, const int images[4], int groups) {
    char text[1024], all[64], channels[32];
    snprintf(all, sizeof all, "%s[%d,%d,%d,%d]", type, images[0], images[1], images[2], images[3]);
    snprintf(channels, sizeof channels, "%s[%d]", type, images[1]);
    snprintf(text, sizeof text,
             "graph @norm {\n  %%0 = input {name=\"x\", role=param} : %s\n"
             "  %%1 = input {name=\"w\", role=param} : %s\n  %%2 = input {name=\"b\", role=param} : %s\n"
             "  %%3 = input {name=\"dy\"} : %s\n"
             "  %%4 = group_norm(%%0, %%1, %%2) {axis=1, groups=%d, eps=0x1p-10} : %s\n"
             "  %%5 = mul(%%4, %%3) : %s\n  %%6 = reduce_sum(%%5) {axes=[0, 1, 2, 3]} : %s[]\n"
             "  output \"loss\" %%6\n}\n",
             all, channels, channels, all, groups, all, all, type);
    tcc_graph *g = parse_graph(text, diag);
    tcc_graph *both = run_passes(g, "simplify,autodiff,simplify,decompose,simplify", &(tcc_pass_options){0});
    tcc_graph_destroy(g);
    return both;
}

int norm_cases_run(graph_check *with) {
    check = with;
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(kinds)};
    return cmocka_run_group_tests_name("norm gradients", tests, NULL, NULL);
}
