/* SPDX-License-Identifier: MIT
 * layout on whole networks: every convolution runs channels-last, few transposes are left, and the meaning is the same.
 */
#include "harness/check.h"
#include "harness/passes.h"

#include <stdio.h>
#include <string.h>

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

/* What a convolution gives, with its channels cut in groups, less a reduction of it over `axes`, scaled by a
 * value of the channels, and convolved again. */
static void check_groups(const char *op, const char *axes, int groups, int channels, const char *kept,
                         const char *dims) {
    char text[2048];
    tcc_diag diag = {0};
    tcc_graph *g;
    snprintf(text, sizeof text,
             "graph @g {\n  %%0 = input {name=\"x\"} : f32[3,16,4,5]\n"
             "  %%1 = input {name=\"w\", role=param} : f32[%d,16,1,1]\n"
             "  %%2 = input {name=\"v\", role=param} : f32[8,%d,1,1]\n"
             "  %%3 = input {name=\"s\", role=param} : f32[%d,%d]\n"
             "  %%4 = conv(%%0, %%1) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1} : "
             "f32[3,%d,4,5]\n"
             "  %%5 = reshape(%%4) : f32[3,%d,%d,4,5]\n  %%6 = reduce_%s(%%5) {axes=[%s]} : f32[%s]\n"
             "  %%7 = broadcast(%%6) {dims=[%s]} : f32[3,%d,%d,4,5]\n  %%8 = sub(%%5, %%7) : f32[3,%d,%d,4,5]\n"
             "  %%9 = broadcast(%%3) {dims=[1, 2]} : f32[3,%d,%d,4,5]\n  %%10 = mul(%%8, %%9) : f32[3,%d,%d,4,5]\n"
             "  %%11 = reshape(%%10) : f32[3,%d,4,5]\n"
             "  %%12 = conv(%%11, %%2) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1} : "
             "f32[3,8,4,5]\n  output \"y\" %%12\n  output \"sums\" %%6\n}\n",
             groups * channels, groups * channels, groups, channels, groups * channels, groups, channels, op, axes,
             kept, dims, groups, channels, groups, channels, groups, channels, groups, channels, groups * channels);
    assert_int_equal(tcc_graph_parse(text, strlen(text), "groups", &diag, &g), TCC_OK);
    tcc_graph *after = run_passes(g, "layout,simplify", NULL);
    assert_same_meaning(g, after, 1e-9);
    for (int i = 0; i < after->nodes.count; i++) /* no value has the channels in two dims behind the pixels */
        assert_true(after->nodes.data[i]->type.rank < 5);
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void test_groups(void **state) {
    (void)state;
    static const char *const ops[] = {"sum", "mean", "m2", "max", "min"};
    for (int i = 0; i < 5; i++)
        for (int one = 0; one < 3; one++) { /* of the groups, of their channels, or of neither there is one */
            const int groups = one == 1 ? 1 : 4, channels = one == 2 ? 1 : 6;
            char g[32], c[32], both[32], samples[32];
            snprintf(g, sizeof g, "3,%d", groups);
            snprintf(c, sizeof c, "3,%d", channels);
            snprintf(both, sizeof both, "3,%d,%d", groups, channels);
            snprintf(samples, sizeof samples, "%d,5", groups);
            check_groups(ops[i], "2, 3, 4", groups, channels, g, "0, 1");
            check_groups(ops[i], "1, 3, 4", groups, channels, c, "0, 2");
            check_groups(ops[i], "3, 4", groups, channels, both, "0, 1, 2");
            check_groups(ops[i], "1, 2, 3, 4", groups, channels, "3", "0");
            check_groups(ops[i], "0, 2, 3", groups, channels, samples, "1, 4");
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resnet), cmocka_unit_test(test_cnn),
                                       cmocka_unit_test(test_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
