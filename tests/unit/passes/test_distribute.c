/* SPDX-License-Identifier: MIT
 * distribute: an update on several ranks is that of their sums, which travel in buckets. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"
#include "ir/collective.h"
#include "ir/support/network.h"

#include <stdlib.h>

enum { RANKS = 3, INPUTS = 7, OUTPUTS = 5 };

static const char text[] = "graph @update {\n"
                           "  %0 = input {role=param, name=\"w\"} : f32[2,3]\n"
                           "  %1 = input {role=state, name=\"@loss_sum\"} : f32[]\n"
                           "  %2 = input {role=state, name=\"@counts\"} : f32[]\n"
                           "  %3 = input {role=state, name=\"mean\"} : f32[2]\n"
                           "  %4 = input {role=state, name=\"@next.mean\"} : f32[2]\n"
                           "  %5 = input {role=state, name=\"@sum.w\"} : f32[2,3]\n"
                           "  %6 = input {role=state, name=\"@sum.v\"} : f64[2]\n"
                           "  %7 = sub(%0, %5) : f32[2,3]\n"
                           "  output \"loss\" %1\n"
                           "  output \"counts\" %2\n"
                           "  output \"mean\" %4 alias %3\n"
                           "  output \"w\" %7 alias %0\n"
                           "  output \"v\" %6\n"
                           "}\n";

static double value_of(int rank, int input, int64_t e) {
    return (double)((rank * 5 + input * 3 + (int)e * 7) % 11 - 4);
}

/* What is summed, or is the first rank's. */
static double expected(int rank, int input, int64_t e) {
    double sum = 0;
    for (int r = 0; r < RANKS; r++) sum += value_of(r, input, e);
    return input == 1 || input >= 5 ? sum : input == 4 ? value_of(0, input, e) : value_of(rank, input, e);
}

static tcc_graph *distributed(const tcc_graph *g, const tcc_network *network) {
    return run_passes(
        g, "distribute",
        &(tcc_pass_options){.train = true, .spec = {.part = TCC_STEP_UPDATE, .ranks = RANKS, .network = network}});
}

static void updates_are_of_sums(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_graph *g = parse_graph(text, &d), *after = distributed(g, NULL);
    tcc_value inputs[RANKS * INPUTS], outputs[RANKS * OUTPUTS];
    for (int i = 0; i < RANKS * INPUTS; i++) {
        const tcc_type *type = &g->inputs.data[i % INPUTS]->type;
        assert_ok(tcc_value_create(type, &inputs[i], &d), &d);
        for (int64_t e = 0; e < tcc_type_numel(type); e++) inputs[i].f[e] = value_of(i / INPUTS, i % INPUTS, e);
    }
    assert_ok(tcc_graph_eval_ranks(after, RANKS, inputs, outputs, &d), &d);
    static const int of[OUTPUTS] = {1, 2, 4, 5, 6};
    for (int i = 0; i < RANKS * OUTPUTS; i++)
        for (int64_t e = 0; e < tcc_type_numel(&outputs[i].type); e++) {
            const int r = i / OUTPUTS, input = of[i % OUTPUTS];
            const double want = expected(r, input, e), w = input == 5 ? value_of(r, 0, e) - want : want;
            if (outputs[i].f[e] != w)
                fail_msg("output %d[%d] of rank %d is %g, not %g", i % OUTPUTS, (int)e, r, outputs[i].f[e], w);
        }
    for (int i = 0; i < RANKS * INPUTS; i++) tcc_value_free(&inputs[i]);
    for (int i = 0; i < RANKS * OUTPUTS; i++) tcc_value_free(&outputs[i]);
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
}

static int exchanges(const tcc_graph *g, const tcc_network *network) {
    tcc_graph *after = distributed(g, network);
    int count = 0;
    for (int i = 0; i < after->nodes.count; i++) count += tcc_op_is_collective(after->nodes.data[i]->op);
    tcc_graph_destroy(after);
    return count;
}

/* One for each way and type; where a message costs nothing, one for each state. */
static void buckets_follow_the_network(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_graph *g = parse_graph(text, &d);
    assert_int_equal(exchanges(g, &(tcc_network){20e3, 2}), 3);
    assert_int_equal(exchanges(g, &(tcc_network){0, 2}), 4);
    tcc_graph_destroy(g);
}

/* Gradients of f32 alone are rounded on their way. */
static void gradients_travel_in_bf16(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_graph *g = parse_graph(text, &d);
    const tcc_pass_options low = {.train = true,
                                  .spec = {.part = TCC_STEP_UPDATE, .ranks = RANKS, .reduce_in_bf16 = true}};
    tcc_graph *after = run_passes(g, "distribute", &low);
    int in_low = 0, others = 0;
    for (int i = 0; i < after->nodes.count; i++) {
        const tcc_node *n = after->nodes.data[i];
        if (!tcc_op_is_collective(n->op)) continue;
        if (n->type.dtype == TCC_BF16) in_low += (int)tcc_type_numel(&n->type);
        else others += (int)tcc_type_numel(&n->type);
    }
    assert_int_equal(in_low, 6);
    assert_int_equal(others, 1 + 2 + 2); /* the loss, a buffer, and a gradient in f64 */
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_are_of_sums),
                                       cmocka_unit_test(buckets_follow_the_network),
                                       cmocka_unit_test(gradients_travel_in_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
