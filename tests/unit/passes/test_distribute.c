/* SPDX-License-Identifier: MIT
 * distribute: an update on several ranks is that of their sums, which travel in buckets. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"
#include "ir/collective.h"
#include "ir/support/network.h"

#include <math.h>
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

static tcc_graph *distributed_part(const tcc_graph *g, tcc_step_part part, const tcc_network *network) {
    return run_passes(g, "distribute",
                      &(tcc_pass_options){.train = true, .spec = {.part = part, .ranks = RANKS, .network = network}});
}

static tcc_graph *distributed(const tcc_graph *g, const tcc_network *network) {
    return distributed_part(g, TCC_STEP_UPDATE, network);
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

/* What autodiff gives for the only micro-batch of a rank: a loss that weighs, two gradients and a buffer. */
static const char step[] = "graph @step {\n"
                           "  %0 = input {role=param, name=\"w\"} : f32[2,3]\n"
                           "  %1 = input {role=param, name=\"v\"} : f32[2]\n"
                           "  %2 = input {role=state, name=\"mean\"} : f32[2]\n"
                           "  %3 = input {name=\"loss\"} : f32[]\n"
                           "  %4 = input {name=\"weight\"} : f32[]\n"
                           "  %5 = input {name=\"gw\"} : f32[2,3]\n"
                           "  %6 = input {name=\"gv\"} : f32[2]\n"
                           "  %7 = mul(%1, %6) : f32[2]\n"
                           "  %8 = neg(%6) : f32[2]\n"
                           "  output \"loss\" %3\n"
                           "  output \"own\" %3\n"
                           "  output \"mean\" %7 alias %2\n"
                           "  output \"@loss_weight\" %4\n"
                           "  output \"grad.w\" %5\n"
                           "  output \"grad.v\" %8\n"
                           "}\n";
enum { STEP_INPUTS = 7, STEP_OUTPUTS = 6 };

static double step_value(int rank, int input, int64_t e) {
    return input == 4 ? rank : rank == 0 ? NAN : value_of(rank, input, e); /* the first rank weighs nothing */
}

static double step_expected(int rank, int output, int64_t e) {
    static const int of[STEP_OUTPUTS] = {3, 3, 0, 4, 5, 6};
    double sum = 0, weight = 0;
    if (output == 1) return step_value(rank, 3, e);
    if (output == 2) return step_value(0, 1, e) * step_value(0, 6, e);
    for (int r = 1; r < RANKS; r++) {
        sum += (output == 5 ? -1 : 1) * (output == 3 ? 1 : r) * step_value(r, of[output], e);
        weight += r;
    }
    return output == 3 ? sum : sum / weight;
}

/* Losses and gradients are weighed, and are of all ranks; a buffer is the first rank's, other outputs are one's own. */
static void steps_are_of_all_ranks(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_graph *g = parse_graph(step, &d), *after = distributed_part(g, TCC_STEP_RANK, NULL);
    tcc_value inputs[RANKS * STEP_INPUTS], outputs[RANKS * STEP_OUTPUTS];
    for (int i = 0; i < RANKS * STEP_INPUTS; i++) {
        const tcc_type *type = &g->inputs.data[i % STEP_INPUTS]->type;
        assert_ok(tcc_value_create(type, &inputs[i], &d), &d);
        for (int64_t e = 0; e < tcc_type_numel(type); e++)
            inputs[i].f[e] = step_value(i / STEP_INPUTS, i % STEP_INPUTS, e);
    }
    assert_ok(tcc_graph_eval_ranks(after, RANKS, inputs, outputs, &d), &d);
    for (int i = 0; i < RANKS * STEP_OUTPUTS; i++)
        for (int64_t e = 0; e < tcc_type_numel(&outputs[i].type); e++) {
            const double want = step_expected(i / STEP_OUTPUTS, i % STEP_OUTPUTS, e), got = outputs[i].f[e];
            if (isnan(want) ? !isnan(got) : !(fabs(got - want) < 1e-6))
                fail_msg("output %d[%d] of rank %d is %g, not %g", i % STEP_OUTPUTS, (int)e, i / STEP_OUTPUTS, got,
                         want);
        }
    assert_string_equal(after->outputs.data[3].name, "@weight_sum");
    for (int i = 0; i < RANKS * STEP_INPUTS; i++) tcc_value_free(&inputs[i]);
    for (int i = 0; i < RANKS * STEP_OUTPUTS; i++) tcc_value_free(&outputs[i]);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_are_of_sums), cmocka_unit_test(steps_are_of_all_ranks),
                                       cmocka_unit_test(buckets_follow_the_network),
                                       cmocka_unit_test(gradients_travel_in_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
