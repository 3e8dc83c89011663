/* SPDX-License-Identifier: MIT
 * Evaluates lines of textual IR. */
#include "harness/evaluate.h"
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "harness/graphs.h"
#include "ir/support/element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count_lines(const char *lines) {
    int count = 1;
    for (; *lines; lines++) count += *lines == '\n';
    return count;
}

void value_store(const tcc_value *v, void *packed) {
    const tcc_dtype dtype = v->type.dtype;
    const int64_t count = tcc_type_numel(&v->type);
    const bool is_float = tcc_dtype_is_float(dtype);
    for (int64_t e = 0; e < count; e++)
        if (is_float) tcc_element_set(dtype, packed, e, v->f[e]);
        else tcc_element_set_int(dtype, packed, e, v->i[e]);
}

tcc_value evaluate_lines(const char *lines) {
    size_t size = strlen(lines) + 64;
    char *text = malloc(size);
    snprintf(text, size, "graph @test {\n%s\noutput \"y\" %%%d\n}\n", lines, count_lines(lines) - 1);
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    free(text);
    tcc_value y;
    assert_ok(tcc_graph_eval(g, NULL, &y, &diag), &diag);
    tcc_graph_destroy(g);
    return y;
}

tcc_value evaluate_op(tcc_op op, const tcc_attrs *attrs, const tcc_type *type, int n_operands,
                      const tcc_value *operands) {
    enum { MOST = 8 };
    assert_true(n_operands <= MOST);
    tcc_diag diag = {0};
    tcc_graph *g = tcc_graph_create("op", &diag);
    tcc_node *inputs[MOST];
    for (int i = 0; i < n_operands; i++) {
        char name[] = {(char)('a' + i), '\0'};
        inputs[i] = tcc_ir_input(g, name, TCC_ROLE_BATCH, &operands[i].type, TCC_NOWHERE);
    }
    tcc_node *n = tcc_ir_build(g, op, inputs, n_operands, attrs, type, TCC_NOWHERE);
    assert_ok(tcc_ir_output(g, "y", n, -1), &diag);
    tcc_value y;
    assert_ok(tcc_graph_eval(g, operands, &y, &diag), &diag);
    tcc_graph_destroy(g);
    return y;
}

tcc_value random_value(const tcc_type *type, uint64_t seed, double lo, double hi) {
    tcc_value v;
    tcc_diag diag = {0};
    assert_ok(tcc_value_create(type, &v, &diag), &diag);
    test_fill(&v, &seed, lo, hi);
    return v;
}

void expect_elements(const char *file, int line, const char *lines, double tolerance, int count,
                     const double *expected) {
    tcc_value y = evaluate_lines(lines);
    if (tcc_type_numel(&y.type) != count) {
        print_error("%s:%d: %s has not %d elements\n", file, line, tcc_type_text(&y.type), count);
        fail();
    }
    for (int e = 0; e < count; e++) {
        double v = tcc_dtype_is_float(y.type.dtype) ? y.f[e] : (double)y.i[e], x = expected[e];
        if (v == x || (isnan(v) && isnan(x)) || fabs(v - x) <= tolerance) continue;
        print_error("%s:%d: element %d is %.17g, expected %.17g\n", file, line, e, v, x);
        fail();
    }
    tcc_value_free(&y);
}
