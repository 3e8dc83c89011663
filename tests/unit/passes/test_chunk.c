/* SPDX-License-Identifier: MIT
 * chunk keeps the meaning of heads, losses and random graphs; gradients in chunks are the loss's differences. */
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "harness/graphs.h"
#include "harness/passes.h"
#include "harness/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Only the order of sums in double precision changes. */
#define TOLERANCE 1e-12

static tcc_pass_options options_of(int64_t rows) {
    return (tcc_pass_options){.chunk_rows = rows, .spec = {.n_groups = 1}};
}

static int count_dots(const tcc_graph *g) {
    int count = 0;
    for (int i = 0; i < g->nodes.count; i++) count += g->nodes.data[i]->op == TCC_OP_DOT;
    return count;
}

/* -- Heads and losses -- */

#define GRAPH(text) "graph @head {\n" text "}\n"
#define INPUTS                                                                                            \
    "%0 = input {role=param, name=\"w\"} : f64[12,3]\n%1 = input {role=param, name=\"x\"} : f64[4,2,3]\n" \
    "%2 = input {name=\"t\"} : i32[4,2]\n%3 = dot(%1, %0) {contract_a=[2], contract_b=[1]} : f64[4,2,12]\n"

typedef struct head {
    const char *name, *text;
    int more_dots; /* in chunks of 3 rows than whole, with gradients */
} head;

/* Chunks of at most 3 of 8 rows, in pairs: 4 chunks of 2. Three dots a head, so 9 more in 4 chunks. */
static const head heads[] = {
    {"mean", GRAPH(INPUTS "%4 = cross_entropy(%3, %2) {ignore_index=-100} : f64[]\noutput \"loss\" %4\n"), 9},
    {"label smoothing, ignored rows",
     GRAPH(INPUTS "%4 = cross_entropy(%3, %2) {ignore_index=3, label_smoothing=0.25} : f64[]\noutput \"loss\" %4\n"),
     9},
    {"class weights",
     GRAPH(INPUTS "%4 = input {name=\"c\"} : f64[12]\n%5 = exp(%4) : f64[12]\n"
                  "%6 = cross_entropy(%3, %2, %5) {ignore_index=3} : f64[]\noutput \"loss\" %6\n"),
     9},
    {"bias and softcap",
     GRAPH(INPUTS
           "%4 = input {role=param, name=\"b\"} : f64[12]\n%5 = broadcast(%4) {dims=[2]} : f64[4,2,12]\n"
           "%6 = add(%3, %5) : f64[4,2,12]\n%7 = tanh(%6) : f64[4,2,12]\n%8 = constant {values=[2]} : f64[4,2,12]\n"
           "%9 = mul(%7, %8) : f64[4,2,12]\n%10 = cross_entropy(%9, %2) {ignore_index=-100} : f64[]\n"
           "output \"loss\" %10\n"),
     9},
    {"sum over rows that a mask leaves",
     GRAPH(INPUTS "%4 = log_softmax(%3) {axis=2} : f64[4,2,12]\n%5 = reshape(%2) : i32[4,2,1]\n"
                  "%6 = take_along(%4, %5) {axis=2} : f64[4,2,1]\n%7 = reshape(%6) : f64[8]\n"
                  "%8 = input {name=\"mask\"} : f64[8]\n%9 = mul(%7, %8) : f64[8]\n"
                  "%10 = reduce_sum(%9) {axes=[0]} : f64[]\n%11 = neg(%10) : f64[]\noutput \"loss\" %11\n"),
     9},
    {"tied embedding",
     GRAPH("%0 = input {role=param, name=\"w\"} : f64[12,3]\n%1 = input {name=\"s\"} : i32[4,2]\n"
           "%2 = input {name=\"t\"} : i32[4,2]\n%3 = take(%0, %1) : f64[4,2,3]\n%4 = tanh(%3) : f64[4,2,3]\n"
           "%5 = dot(%4, %0) {contract_a=[2], contract_b=[1]} : f64[4,2,12]\n"
           "%6 = cross_entropy(%5, %2) {ignore_index=-100} : f64[]\noutput \"loss\" %6\n"),
     9},
    {"two heads",
     GRAPH(INPUTS "%4 = input {role=param, name=\"v\"} : f64[15,3]\n"
                  "%5 = dot(%1, %4) {contract_a=[2], contract_b=[1]} : f64[4,2,15]\n"
                  "%6 = cross_entropy(%3, %2) {ignore_index=-100} : f64[]\n"
                  "%7 = cross_entropy(%5, %2) {ignore_index=-100} : f64[]\n%8 = add(%6, %7) : f64[]\n"
                  "output \"loss\" %8\n"),
     18},
    {"a teacher's logits",
     GRAPH(INPUTS "%4 = input {name=\"v\"} : f64[12,3]\n"
                  "%5 = dot(%1, %4) {contract_a=[2], contract_b=[1]} : f64[4,2,12]\n"
                  "%6 = softmax(%5) {axis=2} : f64[4,2,12]\n%7 = log_softmax(%3) {axis=2} : f64[4,2,12]\n"
                  "%8 = mul(%6, %7) : f64[4,2,12]\n%9 = reduce_sum(%8) {axes=[0, 1, 2]} : f64[]\n"
                  "%10 = neg(%9) : f64[]\noutput \"loss\" %10\n"),
     15}, /* five dots: the teacher's is in chunks with them, and its gradient by x */
    {"rows flattened before the loss",
     GRAPH(INPUTS "%4 = reshape(%3) : f64[8,12]\n%5 = reshape(%2) : i32[8]\n"
                  "%6 = cross_entropy(%4, %5) {ignore_index=-100} : f64[]\noutput \"loss\" %6\n"),
     9},
    {"chunks of unequal size",
     GRAPH("%0 = input {role=param, name=\"w\"} : f64[3,12]\n%1 = input {role=param, name=\"x\"} : f64[7,3]\n"
           "%2 = input {name=\"t\"} : i32[7]\n%3 = dot(%1, %0) {contract_a=[1], contract_b=[0]} : f64[7,12]\n"
           "%4 = cross_entropy(%3, %2) {ignore_index=-100} : f64[]\noutput \"loss\" %4\n"),
     6},
};

enum { HEADS = sizeof heads / sizeof heads[0] };

static void check_head(const head *h, const char *passes, int more_dots) {
    const tcc_pass_options options = options_of(3);
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(h->text, &diag), *whole = run_passes(g, passes, &options),
              *cut = run_passes(whole, "chunk", &options);
    if (count_dots(cut) - count_dots(whole) != more_dots)
        fail_msg("%s: %d dots became %d", h->name, count_dots(whole), count_dots(cut));
    assert_same_meaning(whole, cut, TOLERANCE);
    tcc_graph *after = run_passes(cut, "layout,simplify,fuse,order,plan-memory", &options);
    assert_same_meaning(whole, after, TOLERANCE);
    tcc_graph *again = run_passes(cut, "chunk", &options);
    if (!tcc_graph_equal(cut, again)) fail_msg("%s: cut twice", h->name);
    tcc_graph_destroy(again);
    tcc_graph_destroy(after);
    tcc_graph_destroy(cut);
    tcc_graph_destroy(whole);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void test_heads(void **state) {
    (void)state;
    for (int i = 0; i < HEADS; i++) check_head(&heads[i], "autodiff,decompose,simplify", heads[i].more_dots);
}

/* Without gradients the logits are cut too: one dot a head, and the teacher's. */
static void test_evaluation(void **state) {
    (void)state;
    for (int i = 0; i < HEADS; i++) {
        const bool two = !strcmp(heads[i].name, "two heads") || !strcmp(heads[i].name, "a teacher's logits");
        check_head(&heads[i], "decompose,simplify", strstr(heads[i].name, "unequal") ? 2 : two ? 6 : 3);
    }
}

/* -- Gradients against differences -- */

static double loss_of(const tcc_graph *g, const tcc_value *inputs) {
    tcc_value *outputs = calloc((size_t)g->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(g, inputs, outputs, g->diag), g->diag);
    const double loss = outputs[0].f[0];
    for (int i = 0; i < g->outputs.count; i++) tcc_value_free(&outputs[i]);
    free(outputs);
    return loss;
}

static void check_gradient(const head *h, const tcc_graph *g, tcc_value *inputs, const tcc_value *gradient, int input) {
    const double step = 1e-4;
    for (int64_t k = 0; k < tcc_type_numel(&gradient->type); k++) {
        double *x = &inputs[input].f[k], kept = *x, loss[2];
        for (int side = 0; side < 2; side++) {
            *x = kept + (side ? -step : step);
            loss[side] = loss_of(g, inputs);
        }
        *x = kept;
        const double difference = (loss[0] - loss[1]) / (2 * step);
        if (fabs(difference - gradient->f[k]) > 1e-6)
            fail_msg("%s: gradient %g by element %lld of %s, but the loss changes by %g", h->name, gradient->f[k],
                     (long long)k, g->inputs.data[input]->attrs->input.name, difference);
    }
}

static void test_gradients(void **state) {
    (void)state;
    const tcc_pass_options options = options_of(3);
    for (int i = 0; i < HEADS; i++) {
        tcc_diag diag = {0};
        uint64_t seed = 7 + (uint64_t)i;
        tcc_graph *traced = parse_graph(heads[i].text, &diag),
                  *g = run_passes(traced, "autodiff,decompose,simplify,chunk", &options);
        tcc_value *inputs = calloc((size_t)g->inputs.count, sizeof *inputs),
                  *outputs = calloc((size_t)g->outputs.count, sizeof *outputs);
        for (int k = 0; k < g->inputs.count; k++) {
            const tcc_type *type = &g->inputs.data[k]->type;
            assert_ok(tcc_value_create(type, &inputs[k], &diag), &diag);
            test_fill(&inputs[k], &seed, tcc_dtype_is_float(type->dtype) ? -1 : 0,
                      tcc_dtype_is_float(type->dtype) ? 1 : 12);
        }
        assert_ok(tcc_graph_eval(g, inputs, outputs, &diag), &diag);
        assert_string_equal(g->outputs.data[0].name, "loss");
        int checked = 0;
        for (int o = 1; o < g->outputs.count; o++)
            for (int k = 0; k < g->inputs.count; k++)
                if (!strcmp(g->outputs.data[o].name + strlen("grad."), g->inputs.data[k]->attrs->input.name)) {
                    check_gradient(&heads[i], g, inputs, &outputs[o], k);
                    checked++;
                }
        assert_int_equal(checked, g->outputs.count - 1);
        for (int k = 0; k < g->inputs.count; k++) tcc_value_free(&inputs[k]);
        for (int k = 0; k < g->outputs.count; k++) tcc_value_free(&outputs[k]);
        free(inputs);
        free(outputs);
        tcc_graph_destroy(g);
        tcc_graph_destroy(traced);
        tcc_diag_clear(&diag);
    }
}

/* -- Models and random graphs -- */

static void test_models(void **state) {
    (void)state;
    static const char *const models[] = {"gpt", "mlp"};
    for (int i = 0; i < 2; i++) {
        const tcc_pass_options options = options_of(1);
        tcc_diag diag = {0};
        tcc_graph *g = model_graph(models[i], 1, &diag),
                  *whole = run_passes(g, "autodiff,decompose,simplify", &options),
                  *cut = run_passes(whole, "chunk", &options);
        if (count_dots(cut) == count_dots(whole)) fail_msg("nothing of %s was cut", models[i]);
        assert_same_meaning(whole, cut, TOLERANCE);
        tcc_graph_destroy(cut);
        tcc_graph_destroy(whole);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* Chunks of 1, 2 or 3 rows of whatever can be cut. */
static void check_random(const tcc_random_options *of, const char *passes, uint64_t seed, int *cut) {
    const tcc_pass_options options = options_of(1 + (int64_t)(seed % 3));
    random_case *c = random_case_create(of, seed);
    tcc_graph *before = run_passes(c->graph, passes, &options), *after = run_passes(before, "chunk", &options);
    tcc_value *inputs = random_case_inputs(c, before);
    tcc_value *outputs = calloc((size_t)before->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(before, inputs, outputs, &c->diag), &c->diag);
    random_case whole = {.graph = before, .inputs = inputs, .outputs = outputs};
    const char *wrong = random_case_compare(&whole, after, 1e-9);
    if (wrong) fail_msg("%s; %s", wrong, random_case_write(c, seed));
    *cut += count_dots(after) > count_dots(before);
    random_case_free(inputs, before->inputs.count);
    random_case_free(outputs, before->outputs.count);
    tcc_graph_destroy(before);
    tcc_graph_destroy(after);
    random_case_destroy(c);
}

static void test_random_graphs(void **state) {
    (void)state;
    enum { SEEDS = 300 };
    int cut = 0, cut_steps = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const int nodes = 20 + (int)(seed % 40);
        check_random(&(tcc_random_options){.max_elements = 600, .nodes = nodes}, "decompose,simplify", seed, &cut);
        check_random(&(tcc_random_options){.differentiable = true, .max_elements = 300, .nodes = nodes},
                     "autodiff,decompose,simplify", seed, &cut_steps);
    }
    print_message("%d of %d graphs and %d of their training steps have chunks\n", cut, (int)SEEDS, cut_steps);
    assert_true(cut >= 3 && cut_steps >= 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),  cmocka_unit_test(test_evaluation),    cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_models), cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
