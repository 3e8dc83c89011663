/* SPDX-License-Identifier: MIT
 * The interpreter on whole graphs: packed memory and back, inputs and outputs, wrong inputs,
 * failing allocations. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "harness/graphs.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

static void test_packed_memory(void **state) {
    (void)state;
    tcc_diag diag = {0};
    for (int t = 0; t < TCC_DTYPE_COUNT; t++) {
        tcc_type type = {(tcc_dtype)t, 1, {3}};
        tcc_value v, back;
        assert_ok(tcc_value_create(&type, &v, &diag), &diag);
        assert_ok(tcc_value_create(&type, &back, &diag), &diag);
        bool floats = tcc_dtype_is_float((tcc_dtype)t);
        for (int i = 0; i < 3; i++) {
            if (floats) v.f[i] = i == 2 ? -1.5 : i;
            else v.i[i] = i == 2 ? 1 : i;
        }
        unsigned char packed[3 * sizeof(double)];
        value_store(&v, packed);
        tcc_value_load(&back, packed);
        assert_memory_equal(v.f, back.f, 3 * sizeof *v.f);
        tcc_value_free(&v);
        tcc_value_free(&back);
    }
    tcc_type type = {TCC_F16, 1, {2}};
    tcc_value v;
    uint16_t halves[2];
    assert_ok(tcc_value_create(&type, &v, &diag), &diag);
    v.f[0] = 0x1.0020000001p+0; /* above a tie: one rounding, up */
    v.f[1] = -NAN;
    value_store(&v, halves);
    assert_int_equal(halves[0], 0x3c01);
    assert_true((halves[1] & 0x7fff) > 0x7c00);
    tcc_value_free(&v);
}

/* Equal outputs are copies of their own; an input may be an output; %3 is needed by none. */
static const char text[] = "graph @g {\n"
                           "  %0 = input {name=\"x\"} : f32[2]\n"
                           "  %1 = input {role=param, name=\"w\"} : f32[2]\n"
                           "  %2 = mul(%0, %1) : f32[2]\n"
                           "  %3 = exp(%2) : f32[2]\n"
                           "  %4 = softmax(%2) : f32[2]\n"
                           "  output \"a\" %2\n"
                           "  output \"b\" %2\n"
                           "  output \"c\" %1 alias %1\n"
                           "  output \"d\" %4\n"
                           "}\n";

static tcc_value vector(double a, double b) {
    tcc_type type = {TCC_F32, 1, {2}};
    tcc_value v = {0};
    tcc_diag diag = {0};
    assert_ok(tcc_value_create(&type, &v, &diag), &diag);
    v.f[0] = a, v.f[1] = b;
    return v;
}

static void test_outputs(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value in[] = {vector(2, 3), vector(5, 7)}, out[4];
    assert_ok(tcc_graph_eval(g, in, out, &diag), &diag);
    assert_true(out[0].f[0] == 10 && out[1].f[1] == 21 && out[2].f[0] == 5);
    assert_ptr_not_equal(out[0].f, out[1].f);
    assert_true(fabs(out[3].f[1] - 1 / (1 + exp(-11))) < 1e-15);
    for (int i = 0; i < 4; i++) tcc_value_free(&out[i]);
    for (int i = 0; i < 2; i++) tcc_value_free(&in[i]);
    tcc_graph_destroy(g);
}

/* Each result is rounded to its type, also inside a composite; sums only when they are complete. */
static void test_rounded(void **state) {
    (void)state;
    static const char narrow[] = "graph @narrow {\n"
                                 "  %0 = input {name=\"x\"} : f16[2]\n"
                                 "  %1 = mul(%0, %0) : f16[2]\n"
                                 "  %2 = constant {values=[60000]} : f16[2]\n"
                                 "  %3 = min(%1, %2) : f16[2]\n"
                                 "  %4 = sub(%1, %3) : f16[2]\n"
                                 "  %5 = silu(%0) : f16[2]\n"
                                 "  %6 = reduce_sum(%3) {axes=[0]} : f16[]\n"
                                 "  output \"limited\" %3\n"
                                 "  output \"rest\" %4\n"
                                 "  output \"silu\" %5\n"
                                 "  output \"sum\" %6\n"
                                 "}\n";
    enum { OUTPUTS = 4 };
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(narrow, &diag);
    tcc_type type = {TCC_F16, 1, {2}};
    tcc_value in = {0}, out[OUTPUTS], wide[OUTPUTS];
    assert_ok(tcc_value_create(&type, &in, &diag), &diag);
    in.f[0] = 300, in.f[1] = 1.0009765625;
    assert_ok(tcc_graph_eval_rounded(g, &in, out, &diag), &diag);
    assert_ok(tcc_graph_eval(g, &in, wide, &diag), &diag);
    assert_true(out[0].f[0] == 60000 && isinf(out[1].f[0]) && wide[1].f[0] == 30000);
    assert_true(out[0].f[1] == 1.001953125 && wide[0].f[1] > 1.001953125);
    const double x = in.f[1], sigmoid = tcc_dtype_round(TCC_F16, 1 / (1 + exp(-x)));
    assert_true(out[2].f[1] == tcc_dtype_round(TCC_F16, x * sigmoid));
    assert_true(out[3].f[0] == 60000 && wide[3].f[0] > 60001);
    for (int i = 0; i < OUTPUTS; i++) tcc_value_free(&out[i]), tcc_value_free(&wide[i]);
    tcc_value_free(&in);
    tcc_graph_destroy(g);
}

/* The first op behind which there is more than its operands had; infinite constants are meant. */
static void test_overflow(void **state) {
    (void)state;
    static const char graph[] = "graph @masked {\n"
                                "  %0 = input {name=\"x\"} : f16[3]\n"
                                "  %1 = constant {values=[-inf]} : f16[3]\n"
                                "  %2 = constant {values=[2]} : f16[3]\n"
                                "  %3 = gt(%0, %2) : bool[3]\n"
                                "  %4 = select(%3, %0, %1) : f16[3]\n"
                                "  %5 = mul(%0, %0) : f16[3]\n"
                                "  %6 = add(%5, %4) : f16[3]\n"
                                "  output \"o\" %6\n"
                                "}\n";
    static const double values[][3] = {{1, 3, 255}, {1, -300, 400}, {1, 3, INFINITY}};
    static const int nodes[] = {-1, 5, 0}, elements[] = {0, 1, 2};
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(graph, &diag);
    tcc_value in = {0};
    assert_ok(tcc_value_create(&g->inputs.data[0]->type, &in, &diag), &diag);
    for (int i = 0; i < 3; i++) {
        tcc_overflow o;
        memcpy(in.f, values[i], sizeof values[i]);
        assert_ok(tcc_graph_find_overflow(g, &in, &o, &diag), &diag);
        assert_int_equal(o.node ? o.node->id : -1, nodes[i]);
        if (o.node) assert_int_equal(o.element, elements[i]);
        if (i == 1) assert_true(o.value == INFINITY && o.largest == 400);
    }
    tcc_value_free(&in);
    tcc_graph_destroy(g);
}

static void test_wrong_input(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_type type = {TCC_F32, 1, {3}};
    tcc_value in[2] = {vector(2, 3)}, out[4];
    assert_ok(tcc_value_create(&type, &in[1], &diag), &diag);
    assert_int_equal(tcc_graph_eval(g, in, out, &diag), TCC_EINVAL);
    assert_non_null(strstr(tcc_diag_text(&diag), "input 'w' is f32[2], but the value given for it is f32[3]"));
    for (int i = 0; i < 2; i++) tcc_value_free(&in[i]);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

/* Whichever allocation fails, the evaluation reports it and gives back what it took (the sanitizers
 * watch). */
static void test_failing_allocations(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value in[] = {vector(2, 3), vector(5, 7)}, out[4];
    tcc_status status = TCC_ENOMEM;
    int64_t n = 0;
    for (; status != TCC_OK; n++) {
        assert_true(n < 500);
        tcc__alloc_fail_at(n);
        status = tcc_graph_eval(g, in, out, &diag);
        tcc__alloc_fail_at(-1);
        assert_true(status == TCC_OK || status == TCC_ENOMEM);
        assert_int_equal(status, diag.status);
        tcc_diag_clear(&diag);
    }
    assert_true(n > 10);
    for (int i = 0; i < 4; i++) tcc_value_free(&out[i]);
    for (int i = 0; i < 2; i++) tcc_value_free(&in[i]);
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_memory), cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_rounded),       cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_wrong_input),   cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
