/* SPDX-License-Identifier: MIT
 * The interpreter with noise: exact where types are, as noisy as sums are long, undetermined where rounding decides. */
#include "harness/check.h"
#include "harness/graphs.h"

#include "ir/noise.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DRAWS = 4 };

static const tcc_noise plain = {.seed = 7, .draws = DRAWS, .factor = 4};

/* Output 0 of a graph whose inputs are given as f64; the caller frees it. */
static tcc_noisy eval(const char *text, const tcc_noise *noise, const double *const *given) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value inputs[4];
    tcc_noisy out;
    assert_int_equal(g->outputs.count, 1);
    for (int i = 0; i < g->inputs.count; i++) {
        assert_ok(tcc_value_create(&g->inputs.data[i]->type, &inputs[i], &diag), &diag);
        for (int64_t e = 0; e < tcc_type_numel(&inputs[i].type); e++) inputs[i].f[e] = given[i][e];
    }
    assert_ok(tcc_graph_eval_noisy(g, inputs, noise, &out, &diag), &diag);
    for (int i = 0; i < g->inputs.count; i++) tcc_value_free(&inputs[i]);
    tcc_graph_destroy(g);
    return out;
}

static void what_a_type_holds_has_no_noise(void **state) {
    (void)state;
    const double x[] = {1, -2, 3.5, 0};
    tcc_noisy y = eval("graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[4]\n"
                       "  %1 = add(%0, %0) : f32[4]\n"
                       "  %2 = transpose(%1) {perm=[0]} : f32[4]\n"
                       "  output \"y\" %2\n}\n",
                       &plain, (const double *[]){x});
    for (int e = 0; e < 4; e++) assert_true(y.value.f[e] == 2 * x[e] && y.noise[e] == 0);
    tcc_noisy_free(&y);
}

static void a_sum_that_cancels_has_its_terms_noise(void **state) {
    (void)state;
    const double x[] = {0.1, 1e6 + 0.1, -1e6 - 0.1, 0.2};
    tcc_noisy y = eval("graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[4]\n"
                       "  %1 = reduce_sum(%0) {axes=[0]} : f32[]\n"
                       "  output \"y\" %1\n}\n",
                       &plain, (const double *[]){x});
    assert_true(fabs(y.value.f[0] - 0.3) < 1e-9); /* exact */
    assert_true(y.noise[0] > 2e6 * 0x1p-24 && y.noise[0] < 2e6 * 0x1p-24 * 4 * 2.5 * 1.01);
    tcc_noisy_free(&y);
}

static void whole_numbers_add_up_exactly(void **state) {
    (void)state;
    const double x[] = {5, 6, 1e6, -7};
    tcc_noisy y = eval("graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[4]\n"
                       "  %1 = reduce_sum(%0) {axes=[0]} : f32[]\n"
                       "  output \"y\" %1\n}\n",
                       &plain, (const double *[]){x});
    assert_true(y.value.f[0] == 1e6 + 4 && y.noise[0] == 0);
    tcc_noisy_free(&y);
}

/* A comparison that the last digit decides is open; one that it does not decide is not. */
static void rounding_decides(void **state) {
    (void)state;
    const double x[] = {0.3, 0.3}, y[] = {0.1, 0.2};
    tcc_noisy c = eval("graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[2]\n"
                       "  %1 = input {name=\"y\"} : f32[2]\n"
                       "  %2 = mul(%1, %1) : f32[2]\n"
                       "  %3 = div(%2, %1) : f32[2]\n"
                       "  %4 = add(%3, %3) : f32[2]\n"
                       "  %5 = add(%4, %3) : f32[2]\n"
                       "  %6 = lt(%0, %5) : bool[2]\n"
                       "  output \"c\" %6\n}\n",
                       &plain, (const double *[]){x, y});
    assert_true(isinf(c.noise[0]) && c.noise[1] == 0 && c.value.i[1] == 1);
    tcc_noisy_free(&c);
}

/* What overflows in its type is known to, in some draws. */
static void overflow_is_open(void **state) {
    (void)state;
    const double x[] = {1e30, 1};
    tcc_noisy y = eval("graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[2]\n"
                       "  %1 = mul(%0, %0) : f32[2]\n"
                       "  output \"y\" %1\n}\n",
                       &plain, (const double *[]){x});
    assert_true(isinf(y.noise[0]) && y.noise[1] == 0);
    tcc_noisy_free(&y);
}

/* Padding may be zeros that are multiplied, or nothing: that is open where a gradient overflowed, and nowhere else. */
/* Whatever the signs of the disturbances are. */
static void the_border_of_a_type_is_open(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double largest, half; /* finite, and half of the distance to what would be next */
    } types[] = {{"f16", 65504, 16}, {"bf16", 0x1.fep127, 0x1p119}, {"f32", 0x1.fffffep127, 0x1p103}};
    for (int t = 0; t < 3; t++)
        for (uint64_t seed = 1; seed <= 40; seed++)
            for (int k = -1; k <= 3; k++) {
                const double x[] = {types[t].largest / 2, -types[t].largest / 2},
                             y[] = {types[t].largest / 2 + (1 + 0.5 * k) * types[t].half,
                                    -(types[t].largest / 2 + (1 + 0.5 * k) * types[t].half)};
                char text[256];
                tcc_noise noise = plain;
                noise.seed = seed;
                snprintf(text, sizeof text,
                         "graph @g {\n  %%0 = input {name=\"x\"} : %s[2]\n  %%1 = input {name=\"y\"} : %s[2]\n"
                         "  %%2 = add(%%0, %%1) : %s[2]\n  output \"y\" %%2\n}\n",
                         types[t].type, types[t].type, types[t].type);
                tcc_noisy z = eval(text, &noise, (const double *[]){x, y});
                if (!isinf(z.noise[0]) || !isinf(z.noise[1])) fail_msg("%s, seed %d, %d", types[t].type, (int)seed, k);
                tcc_noisy_free(&z);
            }
}

/* Halves of the least number that f16 has come out as 0 or as that. */
static void the_least_numbers_have_noise(void **state) {
    (void)state;
    const double x[] = {0x1p-24, -0x1p-20}, y[] = {0.3, 0.7};
    tcc_noisy z = eval("graph @g {\n"
                       "  %0 = input {name=\"x\"} : f16[2]\n"
                       "  %1 = input {name=\"y\"} : f16[2]\n"
                       "  %2 = mul(%0, %1) : f16[2]\n"
                       "  output \"y\" %2\n}\n",
                       &plain, (const double *[]){x, y});
    for (int e = 0; e < 2; e++) assert_true(z.noise[e] >= 0x1p-25 && z.noise[e] <= 6 * 0x1p-25);
    tcc_noisy_free(&z);
}

static void padding_is_open_beside_infinity(void **state) {
    (void)state;
    const double x[] = {2, 3}, dy[] = {INFINITY, 1};
    const char *text = "graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[1,1,2]\n"
                       "  %1 = input {name=\"dy\"} : f32[1,1,2]\n"
                       "  %2 = conv_grad_weight(%0, %1) {stride=[1], pad_lo=[1], pad_hi=[1], "
                       "dilation=[1], groups=1} : f32[1,1,3]\n"
                       "  output \"dw\" %2\n}\n";
    tcc_noisy dw = eval(text, &plain, (const double *[]){x, dy});
    assert_true(dw.value.f[0] == 2 && isinf(dw.noise[0])); /* 0 inf + 2 1 */
    for (int e = 1; e < 3; e++) assert_true(dw.value.f[e] == INFINITY && dw.noise[e] == 0);
    tcc_noisy_free(&dw);
}

/* So it is with the keys that a query does not see, and nowhere else. */
static void unseen_keys_are_open_beside_infinity(void **state) {
    (void)state;
    const double ones[] = {1, 1, 1}, lse[] = {1, 1 + M_LN2, 1 + 1.0986122886681098}, dy[] = {3, INFINITY, 6};
    const char *text = "graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[1,3,1]\n"
                       "  %1 = input {name=\"lse\"} : f32[1,3]\n"
                       "  %2 = input {name=\"dy\"} : f32[1,3,1]\n"
                       "  %3 = sdpa_grad_v(%0, %0, %0, %0, %1, %2) {scale=1, causal=true} : f32[1,3,1]\n"
                       "  output \"dv\" %3\n}\n";
    tcc_noisy dv = eval(text, &plain, (const double *[]){ones, lse, dy});
    for (int e = 0; e < 2; e++) assert_true(dv.value.f[e] == INFINITY && dv.noise[e] == 0);
    assert_true(fabs(dv.value.f[2] - 2) < 1e-6 && isinf(dv.noise[2])); /* 0 inf + 6 / 3 */
    tcc_noisy_free(&dv);
    dv = eval(text, &plain, (const double *[]){ones, lse, ones});
    for (int e = 0; e < 3; e++) assert_true(dv.noise[e] < 1e-5);
    tcc_noisy_free(&dv);
}

/* Inside a composite each step is disturbed. */
static void composites_are_their_definitions(void **state) {
    (void)state;
    const double x[] = {7.3, 7.3, 7.3, 1, 2, 3};
    const char *text = "graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[2,3]\n"
                       "  %1 = layer_norm(%0) {eps=0x1.4f8b58p-17, axis=1} : f32[2,3]\n"
                       "  output \"y\" %1\n}\n";
    tcc_noisy y = eval(text, &plain, (const double *[]){x});
    for (int e = 0; e < 3; e++) assert_true(fabs(y.value.f[e]) < 1e-9);
    for (int e = 3; e < 6; e++) assert_true(y.noise[e] > 1e-8 && y.noise[e] < 1e-5);
    tcc_noisy_free(&y);
}

/* What passes may do: constants have noise, the rest has f64's. */
static void graphs_have_the_noise_of_constants(void **state) {
    (void)state;
    const double x[] = {0.7};
    tcc_noise noise = plain;
    noise.constants = true;
    tcc_noisy y = eval("graph @g {\n"
                       "  %0 = input {name=\"x\"} : f32[1]\n"
                       "  %1 = exp(%0) : f32[1]\n"
                       "  output \"y\" %1\n}\n",
                       &noise, (const double *[]){x});
    assert_true(y.noise[0] > 0 && y.noise[0] < 1e-13);
    tcc_noisy_free(&y);
    y = eval("graph @g {\n"
             "  %0 = input {name=\"x\"} : f32[1]\n"
             "  %1 = constant {values=[0x1.99999ap-4]} : f32[1]\n"
             "  %2 = mul(%0, %1) : f32[1]\n"
             "  output \"y\" %2\n}\n",
             &noise, (const double *[]){x});
    assert_true(y.noise[0] > 0.07 * 0x1p-26 && y.noise[0] < 0.07 * 0x1p-23);
    tcc_noisy_free(&y);
}

/* In the first pair of draws, not in the second. */
static void equal_values_err_alike(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @g {\n"
                               "  %0 = input {name=\"x\"} : f32[3]\n"
                               "  %1 = exp(%0) : f32[3]\n"
                               "  output \"y\" %1\n}\n",
                               &diag);
    double x[] = {0.3, 0.3, 0.7};
    const tcc_drawn in = {.exact = {.type = g->inputs.data[0]->type, .f = x}};
    tcc_noise noise = plain;
    tcc_drawn y, z, again;
    assert_ok(tcc_graph_eval_draws(g, &in, &noise, &y, &diag), &diag);
    for (int d = 0; d < DRAWS; d++) {
        assert_true(y.draws[d].f[0] != y.exact.f[0] && y.draws[d].f[2] != y.exact.f[2]);
        assert_true((y.draws[d].f[0] == y.draws[d].f[1]) == (d < 2));
    }
    /* The same draws by two calls; and draws of what is disturbed already. */
    noise.draws = 2, noise.first = 2;
    assert_ok(tcc_graph_eval_draws(g, &in, &noise, &z, &diag), &diag);
    for (int d = 0; d < 2; d++) assert_memory_equal(z.draws[d].f, y.draws[2 + d].f, 3 * sizeof(double));
    assert_ok(tcc_graph_eval_draws(g, &z, &noise, &again, &diag), &diag);
    for (int d = 0; d < 2; d++) assert_true(fabs(again.draws[d].f[0] / exp(z.draws[d].f[0]) - 1) < 0x1p-18);
    assert_true(again.exact.f[0] == exp(exp(x[0])));
    tcc_drawn_free(&noise, &again);
    tcc_drawn_free(&noise, &z);
    noise.first = 6; /* of two, the second is not disturbed */
    assert_ok(tcc_graph_eval_draws(g, &in, &noise, &z, &diag), &diag);
    assert_true(z.draws[1].f[2] == (float)exp(x[2]) && z.draws[0].f[2] != z.draws[1].f[2]);
    tcc_drawn_free(&noise, &z);
    tcc_drawn_free(&plain, &y);
    tcc_graph_destroy(g);
}

/* Where the terms are alike, an error grows with their number, not with its root. */
static void a_long_chain_has_more_noise(void **state) {
    (void)state;
    enum { TERMS = 20011 };
    static double x[TERMS], w[TERMS];
    double noise[2];
    for (int i = 0; i < TERMS; i++) x[i] = 0.1, w[i] = 0.3;
    for (int chain = 0; chain < 2; chain++) {
        tcc_noise how = plain;
        how.one_chain = chain;
        tcc_noisy y = eval("graph @g {\n"
                           "  %0 = input {name=\"x\"} : f32[20011]\n"
                           "  %1 = input {name=\"w\"} : f32[20011]\n"
                           "  %2 = dot(%0, %1) {contract_a=[0], contract_b=[0]} : f32[]\n"
                           "  output \"y\" %2\n}\n",
                           &how, (const double *[]){x, w});
        noise[chain] = y.noise[0] / y.value.f[0];
        tcc_noisy_free(&y);
    }
    assert_true(noise[0] > 0x1p-24 && noise[0] < 400 * 0x1p-24);
    assert_true(noise[1] > 10 * noise[0]);
}

/* The same seed, the same noise, in whatever order the tasks run. */
static void backwards(void *user, tcc_noise_task *task, void *arg, int count) {
    (*(int *)user)++;
    while (count--) task(arg, count);
}

static void order_of_tasks_does_not_matter(void **state) {
    (void)state;
    const double a[] = {0.1, 0.2, 0.3, 0.4}, b[] = {1.1, 2.2, 3.3, 4.4};
    const char *text = "graph @g {\n"
                       "  %0 = input {name=\"a\"} : f32[2,2]\n"
                       "  %1 = input {name=\"b\"} : f32[2,2]\n"
                       "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[2,2]\n"
                       "  %3 = softmax(%2) {axis=1} : f32[2,2]\n"
                       "  %4 = dot(%3, %1) {contract_a=[1], contract_b=[0]} : f32[2,2]\n"
                       "  output \"y\" %4\n}\n";
    int calls = 0;
    tcc_noise other = plain;
    other.run = backwards, other.run_user = &calls;
    tcc_noisy x = eval(text, &plain, (const double *[]){a, b}), y = eval(text, &other, (const double *[]){a, b});
    assert_memory_equal(x.value.f, y.value.f, 4 * sizeof(double));
    assert_memory_equal(x.noise, y.noise, 4 * sizeof(double));
    assert_true(calls > 3 && x.noise[0] > 0);
    tcc_noisy_free(&x);
    tcc_noisy_free(&y);
}

static void memory_runs_out_anywhere(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @g {\n"
                               "  %0 = input {name=\"x\"} : f32[2,3]\n"
                               "  %1 = layer_norm(%0) {eps=0x1.4f8b58p-17, axis=1} : f32[2,3]\n"
                               "  %2 = dot(%1, %0) {contract_a=[1], contract_b=[1]} : f32[2,2]\n"
                               "  output \"y\" %2\n  output \"z\" %1\n}\n",
                               &diag);
    double elements[] = {1, 2, 4, 8, 3, 5};
    const tcc_value x = {.type = g->inputs.data[0]->type, .f = elements};
    tcc_noisy out[2];
    tcc__alloc_fail_at(INT64_MAX);
    assert_ok(tcc_graph_eval_noisy(g, &x, &plain, out, &diag), &diag);
    const int64_t all = tcc__alloc_fail_at(-1);
    tcc_noisy_free(&out[0]);
    tcc_noisy_free(&out[1]);
    assert_true(all > 100);
    for (int64_t n = 0; n < all; n++) {
        tcc__alloc_fail_at(n);
        const tcc_status status = tcc_graph_eval_noisy(g, &x, &plain, out, &diag);
        tcc__alloc_fail_at(-1);
        if (status != TCC_ENOMEM) fail_msg("allocation %d: %s", (int)n, tcc_status_name(status));
        tcc_diag_clear(&diag);
    }
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_type_holds_has_no_noise),
                                       cmocka_unit_test(a_sum_that_cancels_has_its_terms_noise),
                                       cmocka_unit_test(whole_numbers_add_up_exactly),
                                       cmocka_unit_test(rounding_decides),
                                       cmocka_unit_test(overflow_is_open),
                                       cmocka_unit_test(the_border_of_a_type_is_open),
                                       cmocka_unit_test(the_least_numbers_have_noise),
                                       cmocka_unit_test(padding_is_open_beside_infinity),
                                       cmocka_unit_test(unseen_keys_are_open_beside_infinity),
                                       cmocka_unit_test(composites_are_their_definitions),
                                       cmocka_unit_test(graphs_have_the_noise_of_constants),
                                       cmocka_unit_test(equal_values_err_alike),
                                       cmocka_unit_test(a_long_chain_has_more_noise),
                                       cmocka_unit_test(order_of_tasks_does_not_matter),
                                       cmocka_unit_test(memory_runs_out_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
