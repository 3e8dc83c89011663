/* SPDX-License-Identifier: MIT
 * align keeps the meaning of heads, losses, chains of products and convolutions, and leaves aligned ones alone. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include "passes/select.h"

#include <stdlib.h>
#include <string.h>

/* Only the order of sums in double precision may change. */
#define TOLERANCE 1e-12

static int64_t eight(void *user, tcc_dtype dtype) {
    (void)user;
    return tcc_dtype_is_float(dtype) ? 8 : 1;
}

static tcc_pass_target target = {.row_elements = eight};

#define GRAPH(text) "graph @g {\n" text "}\n"
#define HEAD                                                                                              \
    "%0 = input {role=param, name=\"w\"} : f64[13,8]\n%1 = input {role=param, name=\"x\"} : f64[3,2,8]\n" \
    "%2 = input {name=\"t\"} : i32[3,2]\n%3 = dot(%1, %0) {contract_a=[2], contract_b=[1]} : f64[3,2,13]\n"

typedef struct example {
    const char *name, *text;
    bool gradients;
    int grown, copied; /* products in which a dim is larger than before, pads that are left */
} example;

static const example examples[] = {
    {"a head: its pad is the only copy",
     GRAPH(HEAD "%4 = cross_entropy(%3, %2) {ignore_index=-100} : f64[]\noutput \"loss\" %4\n"), true, 3, 1},
    {"label smoothing",
     GRAPH(HEAD "%4 = cross_entropy(%3, %2) {ignore_index=3, label_smoothing=0.25} : f64[]\noutput \"loss\" %4\n"),
     true, 3, 1},
    {"bias, softcap, and rows in one dim",
     GRAPH(HEAD "%4 = input {role=param, name=\"b\"} : f64[13]\n%5 = broadcast(%4) {dims=[2]} : f64[3,2,13]\n"
                "%6 = add(%3, %5) : f64[3,2,13]\n%7 = tanh(%6) : f64[3,2,13]\n%8 = reshape(%7) : f64[6,13]\n"
                "%9 = reshape(%2) : i32[6]\n%10 = cross_entropy(%8, %9) {ignore_index=-100} : f64[]\n"
                "output \"loss\" %10\n"),
     true, 3, -1},
    {"all reductions",
     GRAPH(HEAD "%4 = reduce_max(%3) {axes=[2]} : f64[3,2]\n%5 = reduce_min(%3) {axes=[1, 2]} : f64[3]\n"
                "%6 = reduce_sum(%3) {axes=[0]} : f64[2,13]\n%7 = reduce_mean(%3) {axes=[2]} : f64[3,2]\n"
                "%8 = argmax(%3) {axis=2} : i32[3,2]\noutput \"a\" %4\noutput \"b\" %5\noutput \"c\" %6\n"
                "output \"d\" %7\noutput \"e\" %8\noutput \"f\" %3\n"),
     false, 1, 1},
    {"what nothing else can be made of: an input beside it",
     GRAPH(HEAD "%4 = input {name=\"m\"} : f64[3,2,13]\n%5 = mul(%3, %4) : f64[3,2,13]\n"
                "%6 = dot(%5, %0) {contract_a=[2], contract_b=[0]} : f64[3,2,8]\noutput \"y\" %6\n"),
     false, 2, 2},
    {"a sum of two products, cut once",
     GRAPH("%0 = input {name=\"a\"} : f64[5,13]\n%1 = input {name=\"b\"} : f64[5,16]\n%2 = input {name=\"c\"} : "
           "f64[4,13]\n%3 = input {name=\"d\"} : f64[4,16]\n%4 = dot(%0, %1) {contract_a=[0], contract_b=[0]} : "
           "f64[13,16]\n%5 = dot(%2, %3) {contract_a=[0], contract_b=[0]} : f64[13,16]\n%6 = add(%4, %5) : "
           "f64[13,16]\noutput \"y\" %6\n"),
     false, 2, 2},
    {"infinities behind the end do not come back",
     GRAPH("%0 = input {name=\"a\"} : f64[3,13]\n%1 = input {name=\"b\"} : f64[13,5]\n%2 = exp(%0) : f64[3,13]\n%3 = "
           "exp(%2) : f64[3,13]\n%4 = dot(%3, %1) {contract_a=[1], contract_b=[0]} : f64[3,5]\n%5 = log(%4) : "
           "f64[3,5]\n%6 = dot(%5, %1) {contract_a=[1], contract_b=[1]} : f64[3,13]\noutput \"y\" %6\n"),
     false, 2, -1},
    {"batches",
     GRAPH("%0 = input {name=\"a\"} : f64[2,3,13]\n%1 = input {name=\"b\"} : f64[2,5,13]\n%2 = dot(%0, %1) "
           "{batch_a=[0], batch_b=[0], contract_a=[2], contract_b=[2]} : f64[2,3,5]\noutput \"y\" %2\n"),
     false, 1, 2},
    {"a batch in the last dim stays",
     GRAPH("%0 = input {name=\"a\"} : f64[8,3]\n%1 = input {name=\"b\"} : f64[8,3]\n%2 = dot(%0, %1) {batch_a=[1], "
           "batch_b=[1], contract_a=[0], contract_b=[0]} : f64[3]\noutput \"y\" %2\n"),
     false, 0, 0},
    {"a scalar",
     GRAPH("%0 = input {name=\"a\"} : f64[13]\n%1 = input {name=\"b\"} : f64[13]\n%2 = dot(%0, %1) "
           "{contract_a=[0], contract_b=[0]} : f64[]\noutput \"y\" %2\n"),
     false, 1, 2},
    {"aligned",
     GRAPH("%0 = input {name=\"a\"} : f64[3,16]\n%1 = input {name=\"b\"} : f64[8,16]\n%2 = dot(%0, %1) "
           "{contract_a=[1], contract_b=[1]} : f64[3,8]\noutput \"y\" %2\n"),
     false, 0, 0},
    {"a stem of three channels and a head of five, with strides",
     GRAPH("%0 = input {name=\"x\"} : f64[2,5,5,3]\n%1 = input {role=param, name=\"w\"} : f64[8,3,3,3]\n"
           "%2 = conv(%0, %1) {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1, "
           "channels_last=true} : f64[2,3,3,8]\n%3 = tanh(%2) : f64[2,3,3,8]\n%4 = input {role=param, name=\"v\"} : "
           "f64[5,1,1,8]\n%5 = conv(%3, %4) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, "
           "channels_last=true} : f64[2,3,3,5]\n%6 = mul(%5, %5) : f64[2,3,3,5]\n%7 = reduce_sum(%6) {axes=[0, 1, 2, "
           "3]} : f64[]\noutput \"loss\" %7\n"),
     true, 5, -1},
    {"groups and channels first stay",
     GRAPH("%0 = input {name=\"x\"} : f64[2,5,5,6]\n%1 = input {name=\"w\"} : f64[6,3,3,3]\n"
           "%2 = conv(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=2, "
           "channels_last=true} : f64[2,5,5,6]\n%3 = input {name=\"z\"} : f64[2,3,5,5]\n%4 = input {name=\"v\"} : "
           "f64[6,3,3,3]\n%5 = conv(%3, %4) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1} "
           ": f64[2,6,5,5]\noutput \"a\" %2\noutput \"b\" %5\n"),
     false, 0, 0},
};

static bool is_product(const tcc_node *n) { return tcc_op_get_info(n->op)->fusion == TCC_FUSION_CONTRACT; }

static int count(const tcc_graph *g, tcc_op op) {
    int sum = 0;
    for (int i = 0; i < g->nodes.count; i++) sum += g->nodes.data[i]->op == op;
    return sum;
}

/* Products of `after` of which `before` has none with the same extents. */
static int count_grown(const tcc_graph *before, const tcc_graph *after) {
    int sum = 0;
    for (int i = 0; i < after->nodes.count; i++) {
        const tcc_node *n = after->nodes.data[i];
        bool found = false;
        for (int k = 0; k < before->nodes.count && is_product(n); k++) {
            const tcc_node *old = before->nodes.data[k];
            found |= old->op == n->op && tcc_type_equal(&old->type, &n->type) &&
                     tcc_type_equal(&old->operands[0]->type, &n->operands[0]->type) &&
                     tcc_type_equal(&old->operands[1]->type, &n->operands[1]->type);
        }
        sum += is_product(n) && !found;
    }
    return sum;
}

static void check(const example *e) {
    tcc_diag diag = {0};
    tcc_graph *g;
    const tcc_pass_options options = {.align_all = true, .target = &target, .spec = {.n_groups = 1}};
    if (tcc_graph_parse(e->text, strlen(e->text), e->name, &diag, &g) != TCC_OK)
        fail_msg("%s: %s", e->name, tcc_diag_text(&diag));
    tcc_graph *before = run_passes(g, e->gradients ? "autodiff,decompose,simplify" : "decompose,simplify", &options);
    tcc_graph *after = run_passes(before, "align,simplify", &options);
    assert_same_meaning(before, after, TOLERANCE);
    const int grown = count_grown(before, after), copied = count(after, TCC_OP_PAD);
    if (grown != e->grown || (e->copied >= 0 && copied != e->copied))
        fail_msg("%s: %d products grew, not %d; %d are padded, not %d", e->name, grown, e->grown, copied, e->copied);
    tcc_graph_destroy(after);
    tcc_graph_destroy(before);
    tcc_graph_destroy(g);
}

static void keeps_meaning(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check(&examples[i]);
}

/* By cost: nothing of this size. */
static void small_products_stay(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g;
    const tcc_pass_options options = {.target = &target};
    assert_int_equal(tcc_graph_parse(examples[0].text, strlen(examples[0].text), "head", &diag, &g), TCC_OK);
    tcc_graph *after = run_passes(g, "decompose,simplify,align", &options);
    assert_int_equal(count(after, TCC_OP_PAD), 0);
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
}

int main(void) {
    tcc_hardware h100;
    tcc_hardware_of_sm(90, &h100);
    tcc_costs_of_gpu(&h100, &target.costs);
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_meaning), cmocka_unit_test(small_products_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
