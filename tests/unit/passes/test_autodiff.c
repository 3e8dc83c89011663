/* SPDX-License-Identifier: MIT
 * Autodiff where finite differences say nothing: ties, casts, what is shared with forward, frozen
 * and unused parameters, errors. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "ir/eval.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

static tcc_status differentiate(const tcc_graph *g, const bool *frozen, tcc_graph **out) {
    tcc_context context = {0};
    tcc_pass_options options = {.train = true, .spec = {.frozen = frozen}};
    tcc_pass_cx cx = {.cx = &context, .diag = g->diag, .options = &options};
    return tcc_pass_autodiff(&cx, g, out);
}

/* The joint graph of a graph in text, verified. */
static tcc_graph *joint_of(const char *text, tcc_diag *diag) {
    tcc_graph *g = parse_graph(text, diag), *joint = NULL;
    assert_ok(differentiate(g, NULL, &joint), diag);
    assert_ok(tcc_graph_verify(joint, diag), diag);
    tcc_graph_destroy(g);
    return joint;
}

static const tcc_node *output(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->outputs.count; i++)
        if (!strcmp(g->outputs.data[i].name, name)) return g->outputs.data[i].node;
    return NULL;
}

/* All nodes that the outputs reach. */
static int count_live(const tcc_graph *g, tcc_op op) {
    tcc_rewrite rw;
    assert_int_equal(tcc_rewrite_begin(&rw, g), TCC_OK);
    int count = 0;
    for (int i = 0; i < g->nodes.count; i++) count += rw.live[i] && g->nodes.data[i]->op == op;
    tcc_rewrite_abort(&rw);
    return count;
}

/* The gradients at given values of the only input. */
static void expect_gradient(const char *text, int count, const double *x, const double *expected) {
    tcc_diag diag = {0};
    tcc_graph *g = joint_of(text, &diag);
    assert_int_equal(g->inputs.count, 1);
    tcc_value in, *out = calloc((size_t)g->outputs.count, sizeof *out);
    assert_ok(tcc_value_create(&g->inputs.data[0]->type, &in, &diag), &diag);
    for (int e = 0; e < count; e++) in.f[e] = x[e];
    assert_ok(tcc_graph_eval(g, &in, out, &diag), &diag);
    for (int i = 0; i < g->outputs.count; i++) {
        if (!strcmp(g->outputs.data[i].name, "grad.x"))
            for (int e = 0; e < count; e++)
                if (out[i].f[e] != expected[e])
                    fail_msg("element %d: %.17g, expected %.17g", e, out[i].f[e], expected[e]);
        tcc_value_free(&out[i]);
    }
    free(out);
    tcc_value_free(&in);
    tcc_graph_destroy(g);
}

#define EXPECT_GRADIENT(lines, x, ...)                                                                          \
    expect_gradient("graph @g {\n" lines "}\n", (int)(sizeof((double[])x) / sizeof(double)), (const double[])x, \
                    (const double[])__VA_ARGS__)
#define X(...) {__VA_ARGS__}

#define SUM "%9 = reduce_sum(%5) {axes=[0]} : f64[]\noutput \"loss\" %9\n"

static void test_ties(void **state) {
    (void)state;
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[3]\n%1 = constant {values=[1]} : f64[3]\n"
                    "%5 = max(%0, %1) : f64[3]\n" SUM,
                    X(0, 1, 2), {0, 0.5, 1});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[3]\n%1 = constant {values=[1]} : f64[3]\n"
                    "%5 = min(%0, %1) : f64[3]\n" SUM,
                    X(0, 1, 2), {1, 0.5, 0});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[2]\n%5 = max(%0, %0) : f64[2]\n" SUM, X(3, 4), {1, 1});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[3]\n%5 = relu(%0) : f64[3]\n" SUM, X(-1, 0, 1),
                    {0, 0, 1});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[3]\n%5 = abs(%0) : f64[3]\n" SUM, X(-1, 0, 1),
                    {-1, 0, 1});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[4]\n%1 = reduce_max(%0) {axes=[0]} : f64[]\n"
                    "output \"loss\" %1\n",
                    X(1, 3, 3, 2), {0, 0.5, 0.5, 0});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[4]\n%1 = reduce_min(%0) {axes=[0]} : f64[]\n"
                    "output \"loss\" %1\n",
                    X(1, 1, 3, 1), {1.0 / 3, 1.0 / 3, 0, 1.0 / 3});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[1,1,4]\n"
                    "%1 = max_pool(%0) {window=[2], stride=[1], pad_lo=[0], pad_hi=[0]} : f64[1,1,3]\n"
                    "%2 = reduce_sum(%1) {axes=[0, 1, 2]} : f64[]\noutput \"loss\" %2\n",
                    X(2, 2, 1, 1), {1, 1, 1, 0});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[2]\n%1 = constant {values=[0, 2]} : f64[2]\n"
                    "%5 = pow(%0, %1) : f64[2]\n" SUM,
                    X(0, 0), {0, 0});
}

/* Through a cast the gradient is cast back; through integers, rounding and comparisons nothing
 * flows. */
static void test_casts(void **state) {
    (void)state;
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[2]\n%1 = cast(%0) : f32[2]\n"
                    "%2 = constant {values=[0x1.921fb6p+1]} : f32[2]\n%3 = mul(%1, %2) : "
                    "f32[2]\n%5 = cast(%3) : f64[2]\n" SUM,
                    X(0.1, 0.2), {0x1.921fb6p+1, 0x1.921fb6p+1});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[2]\n%1 = cast(%0) : i32[2]\n%5 = "
                    "cast(%1) : f64[2]\n" SUM,
                    X(3, 4), {0, 0});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[2]\n%1 = floor(%0) : f64[2]\n%5 = "
                    "mul(%0, %1) : f64[2]\n" SUM,
                    X(3.5, -1.5), {3, -2});
}

/* What forward has is used, not made again: one normalization, one softmax's power and sum. */
static void test_forward_is_shared(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = joint_of("graph @g {\n%0 = input {role=param, name=\"x\"} : f32[4,8]\n%1 = input {name=\"t\"} : "
                            "i32[4]\n"
                            "%2 = layer_norm(%0) {eps=0x1p-10, axis=1} : f32[4,8]\n%3 = cross_entropy(%2, %1) : f32[]\n"
                            "output \"loss\" %3\n}\n",
                            &diag);
    tcc_context context = {0};
    tcc_pass_cx cx = {.cx = &context, .diag = &diag, .options = NULL};
    tcc_graph *plain = NULL;
    assert_ok(tcc_pass_decompose(&cx, g, &plain), &diag);
    assert_int_equal(count_live(plain, TCC_OP_RSQRT), 1);
    assert_int_equal(count_live(plain, TCC_OP_EXP), 1);
    assert_int_equal(count_live(plain, TCC_OP_REDUCE_MAX), 1);
    assert_int_equal(count_live(plain, TCC_OP_REDUCE_MEAN), 1);
    assert_int_equal(count_live(plain, TCC_OP_REDUCE_M2), 1);
    /* Forward: powers, picked logit, denominator, total. Backward: two means. */
    assert_int_equal(count_live(plain, TCC_OP_REDUCE_SUM), 6);
    tcc_graph_destroy(plain);
    tcc_graph_destroy(g);
}

/* The weight of y = x W^T gets dy x^T in W's own order of dims; slices of one value get one
 * concatenation; a table that is read and multiplied with is scattered into, with no zeros and no
 * sum. */
static void test_forms(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = joint_of("graph @g {\n%0 = input {role=param, name=\"w\"} : f32[6,4]\n%1 = input {name=\"x\"} : "
                            "f32[2,3,4]\n"
                            "%2 = dot(%1, %0) {contract_a=[2], contract_b=[1]} : f32[2,3,6]\n"
                            "%3 = slice(%2) {start=[0, 0, 0], limit=[2, 3, 3], stride=[1, 1, 1]} : f32[2,3,3]\n"
                            "%4 = slice(%2) {start=[0, 0, 3], limit=[2, 3, 6], stride=[1, 1, 1]} : f32[2,3,3]\n"
                            "%5 = mul(%3, %4) : f32[2,3,3]\n%6 = reduce_sum(%5) {axes=[0, 1, 2]} : f32[]\noutput "
                            "\"loss\" %6\n}\n",
                            &diag);
    const tcc_node *w = output(g, "grad.w");
    assert_int_equal(w->op, TCC_OP_DOT);
    assert_int_equal(w->operands[0]->op, TCC_OP_CONCAT);
    assert_ptr_equal(w->operands[1], g->inputs.data[1]);
    assert_int_equal(count_live(g, TCC_OP_PAD), 0);
    assert_int_equal(count_live(g, TCC_OP_TRANSPOSE), 0);
    tcc_graph_destroy(g);

    g = joint_of("graph @g {\n%0 = input {role=param, name=\"w\"} : f32[6,4]\n%1 = input "
                 "{name=\"i\"} : i32[3]\n"
                 "%2 = take(%0, %1) : f32[3,4]\n%3 = dot(%2, %0) {contract_a=[1], contract_b=[1]} "
                 ": f32[3,6]\n"
                 "%4 = reduce_sum(%3) {axes=[0, 1]} : f32[]\noutput \"loss\" %4\n}\n",
                 &diag);
    w = output(g, "grad.w");
    assert_int_equal(w->op, TCC_OP_SCATTER_ADD);
    assert_int_equal(w->operands[0]->op, TCC_OP_DOT);
    assert_int_equal(count_live(g, TCC_OP_ADD), 0);
    tcc_graph_destroy(g);
}

static const char three[] =
    "graph @g {\n%0 = input {role=param, name=\"a\"} : f32[] loc(\"m.c\":1)\n"
    "%1 = input {role=param, name=\"b\"} : f32[] loc(\"m.c\":2)\n"
    "%2 = input {role=param, name=\"c\"} : f32[] loc(\"m.c\":3)\n"
    "%3 = mul(%0, %1) : f32[] loc(\"m.c\":4)\noutput \"loss\" %3\noutput \"b\" %1 alias %1\n}\n";

static void test_frozen_and_unused_parameters(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(three, &diag), *joint = NULL;
    bool frozen[] = {false, true, false};
    assert_ok(differentiate(g, frozen, &joint), &diag);
    assert_int_equal(joint->outputs.count, 4);
    assert_string_equal(joint->outputs.data[0].name, "loss");
    assert_int_equal(joint->outputs.data[1].alias, 1);
    assert_string_equal(joint->outputs.data[2].name, "grad.a");
    assert_string_equal(joint->outputs.data[3].name, "grad.c");
    const tcc_node *zero = output(joint, "grad.c");
    assert_int_equal(zero->op, TCC_OP_CONSTANT);
    assert_true(zero->attrs->constant.values.v[0] == 0);
    const tcc_node *a = output(joint, "grad.a"); /* 1 * b */
    assert_int_equal(a->op, TCC_OP_MUL);
    assert_true(a->backward);
    assert_int_equal(a->loc.line, 4);
    tcc_graph_destroy(joint);
    bool all[] = {true, true, true};
    assert_ok(differentiate(g, all, &joint), &diag);
    assert_int_equal(joint->outputs.count, 2);
    assert_int_equal(joint->nodes.count, g->nodes.count);
    tcc_graph_destroy(joint);
    tcc_graph_destroy(g);
}

/* The loss may be a parameter itself, or depend on none. */
static void test_trivial_losses(void **state) {
    (void)state;
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[]\noutput \"loss\" %0\n", X(3), {1});
    EXPECT_GRADIENT("%0 = input {role=param, name=\"x\"} : f64[]\n%1 = constant {values=[2]} : "
                    "f64[]\noutput \"loss\" %1\n",
                    X(3), {0});
}

static void refuse(const char *text, tcc_status status, const char *message) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag), *joint = NULL;
    assert_int_equal(differentiate(g, NULL, &joint), status);
    assert_null(joint);
    assert_string_equal(tcc_diag_text(&diag), message);
    tcc_diag_clear(&diag);
    tcc_graph_destroy(g);
}

static void test_errors(void **state) {
    (void)state;
    refuse("graph @net {\n%0 = input {role=param, name=\"x\"} : f32[]\noutput \"y\" %0\n}\n", TCC_EINVAL,
           "error: the graph 'net' has no output 'loss' to take the gradient of");
    refuse("graph @net {\n%0 = input {role=param, name=\"x\"} : f32[2] loc(\"m.c\":7)\noutput "
           "\"loss\" %0\n}\n",
           TCC_ESHAPE, "m.c:7: error: the loss must be a float scalar to have a gradient, but it is f32[2]");
    refuse("graph @net {\n%0 = input {role=param, name=\"x\"} : i32[2] loc(\"m.c\":7)\n%1 = "
           "constant {values=[1]} : f32[]\n"
           "output \"loss\" %1\n}\n",
           TCC_EDTYPE, "m.c:7: error: parameter 'x' is i32[2]: only floats can be trained, freeze it");
}

static void test_failing_allocations(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @g {\n%0 = input {role=param, name=\"x\"} : f32[4,8]\n%1 = input {name=\"t\"} : "
                               "i32[4]\n"
                               "%2 = group_norm(%0) {axis=1, groups=2} : f32[4,8]\n%3 = cross_entropy(%2, %1) : f32[]\n"
                               "output \"loss\" %3\n}\n",
                               &diag);
    tcc_status status = TCC_ENOMEM;
    for (int64_t n = 0; status != TCC_OK; n++) {
        tcc_graph *joint = NULL;
        assert_true(n < 2000);
        tcc__alloc_fail_at(n);
        status = differentiate(g, NULL, &joint);
        tcc__alloc_fail_at(-1);
        if (status != TCC_OK) {
            assert_int_equal(status, TCC_ENOMEM);
            assert_null(joint);
        }
        tcc_diag_clear(&diag);
        tcc_graph_destroy(joint);
    }
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_forward_is_shared),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_frozen_and_unused_parameters),
        cmocka_unit_test(test_trivial_losses),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
