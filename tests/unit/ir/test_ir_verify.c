/* SPDX-License-Identifier: MIT
 * The verifier: it accepts what the builder made, and finds each way to damage a graph. */
#include "harness/check.h"
#include "harness/graphs.h"

#include "ir/ir.h"
#include "ir/support/alloc.h"

#include <stdio.h>
#include <string.h>

static const char text[] = "graph @g {\n"
                           "  %0 = input {role=state, name=\"s\"} : f32[4]\n"
                           "  %1 = input {name=\"x\"} : f32[4]\n"
                           "  %2 = add(%0, %1) : f32[4]\n"
                           "  %3 = exp(%2) : f32[4]\n"
                           "  %4 = constant {values=[2]} : f32[4]\n"
                           "  %5 = mul(%2, %4) : f32[4]\n"
                           "  output \"o\" %3\n"
                           "  output \"s\" %5 alias %0 in_place\n"
                           "  group pointwise %3 nodes(%2, %3) outputs(%2, %3)\n"
                           "  group pointwise %5 nodes(%5) outputs(%5)\n"
                           "  place %2 @0\n"
                           "  arena 64\n"
                           "}\n";

static tcc_graph *fresh(void) {
    static tcc_diag diag;
    return parse_graph(text, &diag);
}

/* The graph is refused, with `message` in what is said; and is destroyed. */
static void expect(tcc_graph *g, const char *message) {
    tcc_diag diag = {0};
    tcc_status status = tcc_graph_verify(g, &diag);
    if (status == TCC_OK) fail_msg("accepted, but expected: %s", message);
    if (!strstr(tcc_diag_text(&diag), message)) fail_msg("'%s' does not say '%s'", tcc_diag_text(&diag), message);
    tcc_diag_clear(&diag);
    tcc_graph_destroy(g);
}

static void test_nodes(void **state) {
    (void)state;
    tcc_graph *g = fresh();
    g->nodes.data[3]->type.dims[0] = 5;
    expect(g, "%3 = exp(%2) : f32[5]: the type should be f32[4]");
    g = fresh();
    g->nodes.data[3]->op = TCC_OP_ADD;
    expect(g, "add: takes 2 operands, got 1");
    g = fresh();
    g->nodes.data[3]->op = TCC_OP_NEG; /* as good a node, but not the one that lookup knows */
    expect(g, "%3 = neg(%2) : f32[4] is not in the table of nodes");
    g = fresh();
    g->nodes.data[2]->id = 3;
    expect(g, "node 2 is damaged");
    g = fresh();
    tcc_node *swap = g->nodes.data[3];
    (g->nodes.data[3] = g->nodes.data[2])->id = 3;
    (g->nodes.data[2] = swap)->id = 2;
    expect(g, "uses %3 before it is defined");
    g = fresh();
    tcc_graph *other = fresh();
    ((tcc_node **)g->nodes.data[3]->operands)[0] = other->nodes.data[2];
    expect(g, "operand 0 of node 3 is not in the graph");
    tcc_graph_destroy(other);
    g = fresh();
    ((double *)g->nodes.data[4]->attrs->constant.values.v)[0] = 0.1;
    expect(g, "value 0 is not one of its element type");
}

static void test_all_errors_are_told(void **state) {
    (void)state;
    tcc_graph *g = fresh();
    g->nodes.data[3]->type.dims[0] = 5;
    g->nodes.data[5]->type.dtype = TCC_F16;
    tcc_diag diag = {0};
    assert_int_equal(tcc_graph_verify(g, &diag), TCC_EINVAL);
    assert_string_equal(tcc_diag_text(&diag), "error: %3 = exp(%2) : f32[5]: the type should be f32[4]\n"
                                              "note: %3 = exp(%2) : f32[5] is not in the table of nodes\n"
                                              "note: %5 = mul(%2, %4) : f16[4]: the type should be f32[4]\n"
                                              "note: %5 = mul(%2, %4) : f16[4] is not in the table of nodes");
    tcc_diag_clear(&diag);
    tcc_graph_destroy(g);
}

static void test_inputs_and_outputs(void **state) {
    (void)state;
    tcc_graph *g = fresh();
    g->inputs.count = 1;
    expect(g, "is not input 1 of the graph");
    g = fresh();
    g->outputs.data[1].name = "o";
    expect(g, "two outputs are named 'o'");
    g = fresh();
    g->outputs.data[0].alias = 0;
    expect(g, "outputs 'o' and 's' are both the next value of input 0");
    g = fresh();
    g->outputs.data[0].alias = 2;
    expect(g, "output 'o' aliases input 2 of 2");
    g = fresh();
    g->outputs.data[0].in_place = true;
    expect(g, "output 'o' is in place of no input");
}

static void test_states(void **state) {
    (void)state;
    static const char copies[] = "graph @g {\n"
                                 "  %0 = input {role=param, name=\"w\"} : f32[4]\n"
                                 "  %1 = input {role=param, name=\"v\"} : f32[5]\n"
                                 "  %2 = input {role=state, name=\"low\", copy_of=\"w\"} : bf16[4]\n"
                                 "  %3 = input {role=state, name=\"s\", begin=0.1} : f32[]\n"
                                 "  %4 = input {role=state, name=\"late\"} : f32[4]\n"
                                 "  output \"o\" %2\n"
                                 "}\n";
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(copies, &diag);
    assert_true(g->nodes.data[3]->attrs->input.begin == (double)0.1f);
    assert_ok(tcc_graph_verify(g, &diag), &diag);
    ((tcc_attrs *)g->nodes.data[2]->attrs)->input.copy_of = "v";
    expect(g, "%2 = input {role=state, name=\"low\", copy_of=\"v\"} : bf16[4] cannot begin as that copy: the shapes "
              "differ: bf16[4] and f32[5]");
    g = parse_graph(copies, &diag);
    ((tcc_attrs *)g->nodes.data[2]->attrs)->input.copy_of = "late";
    expect(g, "cannot begin as that copy: there is no input of that name above");
    g = parse_graph(copies, &diag);
    ((tcc_attrs *)g->nodes.data[2]->attrs)->input.role = TCC_ROLE_BATCH;
    expect(g, "'low' is no state: only a state says how it begins");
    g = parse_graph(copies, &diag);
    ((tcc_attrs *)g->nodes.data[3]->attrs)->input.begin = 0.1;
    expect(g, "what it begins with is not of its element type");
}

static void test_groups(void **state) {
    (void)state;
    tcc_graph *g = fresh();
    g->groups.data[0].n_outputs = 1; /* %2 */
    expect(g, "no group stores output 'o', %3 = exp(%2) : f32[4]");
    g = fresh();
    g->groups.data[0].outputs++;
    g->groups.data[0].n_outputs = 1; /* %3 */
    expect(g, "group 1: no earlier group stores %2, which %5 = mul(%2, %4) : f32[4] needs");
    g = fresh();
    tcc_group first = g->groups.data[0];
    g->groups.data[0] = g->groups.data[1];
    g->groups.data[1] = first;
    expect(g, "group 0: no earlier group stores %2");
    g = fresh();
    g->groups.data[1].hero = g->nodes.data[3];
    expect(g, "group 1: its hero is not in it");
    g = fresh();
    g->groups.data[1] = g->groups.data[0];
    expect(g, "groups 0 and 1 both store %2");
    g = fresh();
    g->groups.data[0].nodes[0] = g->nodes.data[3];
    expect(g, "group 0: its nodes are not in order at %3");
    g = fresh();
    g->groups.data[0].nodes[0] = g->nodes.data[0];
    expect(g, "group 0 evaluates %0 = input");
}

static void test_places(void **state) {
    (void)state;
    tcc_graph *g = fresh();
    g->places.data[0].offset_bytes = 56;
    expect(g, "%2 = add(%0, %1) : f32[4] lies at 56, outside the arena of 64 bytes");
    g = fresh();
    g->places.data[0].offset_bytes = -64;
    expect(g, "lies at -64, outside the arena");
    g = fresh();
    g->places.data[0].offset_bytes = 2;
    expect(g, "lies at 2, which is not aligned");
    g = fresh();
    g->places.data[0].node = g->nodes.data[1];
    expect(g, "has a place, but no group stores it");
    g = fresh();
    tcc_place again = g->places.data[0];
    assert_true(tcc_vec_push(&g->places, again));
    expect(g, "has two places");
}

/* Memory that runs out is no fault of the graph's. */
static void test_memory(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @g {\n"
                               "  %0 = input {name=\"x\"} : f32[4]\n"
                               "  %1 = exp(%0) : f32[4]\n"
                               "  output \"y\" %1\n"
                               "  group pointwise %1 nodes(%1) outputs(%1)\n"
                               "    by \"pointwise\"\n"
                               "    temporary t0 bytes 64 launches 0 to 0\n"
                               "    launch \"pointwise\" reads(%0) writes(t0, %1) bytes 0 flop 0 ns 0\n"
                               "}\n",
                               &diag);
    tcc__alloc_fail_at(INT64_MAX);
    assert_ok(tcc_graph_verify(g, &diag), &diag);
    const int64_t all = tcc__alloc_fail_at(-1);
    for (int64_t n = 0; n < all; n++) {
        tcc__alloc_fail_at(n);
        const tcc_status status = tcc_graph_verify(g, &diag);
        tcc__alloc_fail_at(-1);
        assert_int_equal(status, TCC_ENOMEM);
        tcc_diag_clear(&diag);
    }
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_all_errors_are_told),
        cmocka_unit_test(test_inputs_and_outputs),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
