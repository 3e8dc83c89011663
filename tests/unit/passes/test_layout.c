/* SPDX-License-Identifier: MIT
 * layout on whole networks: every convolution runs channels-last, few transposes are left, and the meaning is the same.
 */
#include "harness/check.h"
#include "harness/passes.h"

#include <stdio.h>

static int count_ops(const tcc_graph *g, tcc_op op) {
    int count = 0;
    for (int i = 0; i < g->nodes.count; i++) count += g->nodes.data[i]->op == op;
    return count;
}

/* Transposes of values that are neither weights nor their gradients. */
static int count_activations_moved(const tcc_graph *g) {
    int count = 0;
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        count += n->op == TCC_OP_TRANSPOSE && n->operands[0]->op != TCC_OP_CONV_GRAD_WEIGHT &&
                 (n->operands[0]->op != TCC_OP_INPUT || n->operands[0]->attrs->input.role == TCC_ROLE_BATCH);
    }
    return count;
}

static void check_network(const char *model, int most_moved) {
    tcc_diag diag = {0};
    tcc_graph *traced = model_graph(model, 4, &diag), *g = run_passes(traced, "autodiff,decompose,simplify", NULL);
    tcc_graph *after = run_passes(g, "layout,simplify", NULL), *again = run_passes(after, "layout,simplify", NULL);
    printf("%s: %d convolutions, %d transposes, %d of activations\n", model, count_ops(after, TCC_OP_CONV),
           count_ops(after, TCC_OP_TRANSPOSE), count_activations_moved(after));
    for (int i = 0; i < after->nodes.count; i++) {
        const tcc_node *n = after->nodes.data[i];
        if (tcc_op_get_info(n->op)->attrs == TCC_ATTR_CLASS_conv) assert_true(n->attrs->conv.channels_last);
        if (tcc_op_get_info(n->op)->attrs == TCC_ATTR_CLASS_pool) assert_true(n->attrs->pool.channels_last);
    }
    assert_true(count_activations_moved(after) <= most_moved);
    assert_true(tcc_graph_equal(after, again));
    tcc_graph_destroy(again);
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
    tcc_graph_destroy(traced);
    tcc_diag_clear(&diag);
}

/* The images at the start. */
static void test_resnet(void **state) {
    (void)state;
    check_network("resnet", 1);
}

/* The images, and where features become a vector, there and back. */
static void test_cnn(void **state) {
    (void)state;
    check_network("cnn", 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resnet), cmocka_unit_test(test_cnn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
