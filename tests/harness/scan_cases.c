/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/scan_cases.h"
#include "harness/check.h"
#include "harness/graphs.h"

#include <stdio.h>

/* 2^24 at both ends of each line, ones between: the first of them alone is large, whichever way the sum goes. */
static void check_long(graph_check *check, const char *type, int axis, bool reverse, double tolerance) {
    char text[1024];
    tcc_diag diag = {0};
    snprintf(text, sizeof text,
             "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = abs(%%0) : %s\n  %%2 = cumsum(%%1) {axis=%d%s} : "
             "%s\n  %%3 = neg(%%2) : %s\n  output \"o\" %%3\n}\n",
             type, type, axis, reverse ? ", reverse=true" : "", type, type);
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value x;
    assert_ok(tcc_value_create(&g->inputs.data[0]->type, &x, &diag), &diag);
    int64_t inner = 1, extent = x.type.dims[axis];
    for (int i = axis + 1; i < x.type.rank; i++) inner *= x.type.dims[i];
    for (int64_t i = 0, n = tcc_type_numel(&x.type); i < n; i++) {
        const int64_t at = i / inner % extent;
        x.f[i] = at == 0 || at == extent - 1 ? 16777216 : 1;
    }
    for (int eager = 0; eager < 2; eager++)
        check(g, &(compiled_options){.inputs = &x, .tolerance = tolerance, .eager = eager});
    tcc_value_free(&x);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

void running_sums_of_long_lines(graph_check *check) {
    static const struct {
        const char *type;
        int axis;
    } shapes[] = {{"f32[4000]", 0}, {"f32[3,1003]", 1}, {"f32[2,1000]", 1}, {"f32[2100,5]", 0}, {"f32[2,700,33]", 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int reverse = 0; reverse < 2; reverse++) check_long(check, shapes[i].type, shapes[i].axis, reverse, 1e-7);
}

void running_sums_of_equal_values(graph_check *check) {
    for (int reverse = 0; reverse < 2; reverse++) {
        char text[1024];
        tcc_diag diag = {0};
        snprintf(text, sizeof text,
                 "graph @s {\n  %%0 = input {name=\"x\"} : f32[3,1]\n  %%1 = broadcast(%%0) {dims=[0, 1]} : "
                 "f32[3,69]\n  %%2 = cumsum(%%1) {axis=1%s} : f32[3,69]\n  %%3 = cos(%%2) : f32[3,69]\n"
                 "  %%4 = constant {values=[1]} : i32[69,5]\n  %%5 = cumsum(%%4) {axis=0%s} : i32[69,5]\n"
                 "  %%6 = mul(%%5, %%5) : i32[69,5]\n  output \"o\" %%3\n  output \"p\" %%6\n}\n",
                 reverse ? ", reverse=true" : "", reverse ? ", reverse=true" : "");
        tcc_graph *g = parse_graph(text, &diag);
        check(g, &(compiled_options){.tolerance = 1e-5});
        check(g, &(compiled_options){.tolerance = 1e-5, .eager = true});
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}
