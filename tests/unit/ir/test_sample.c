/* SPDX-License-Identifier: MIT
 * Samples of random graphs: each element is the one that the whole graph has there. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/generator.h"
#include "ir/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a sample of one output is of the whole. */
typedef struct counts {
    double sampled, all;
} counts;

static void check_output(const tcc_sample *s, const tcc_graph *g, int i, const tcc_value *whole, const tcc_value *part,
                         counts *c) {
    const tcc_node *n = g->outputs.data[i].node;
    const int64_t count = tcc_type_numel(&part->type);
    c->sampled += (double)count, c->all += (double)tcc_type_numel(&n->type);
    for (int64_t e = 0; e < count; e++) {
        const int64_t at = tcc_sample_element(s, n, e);
        assert_true(at >= 0 && at < tcc_type_numel(&n->type));
        if (tcc_dtype_is_float(n->type.dtype)) {
            const double a = whole->f[at], b = part->f[e];
            if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-12 * fabs(a)) continue;
            fail_msg("output %d, element %d, sampled %d: %.17g is %.17g", i, (int)at, (int)e, a, b);
        } else if (whole->i[at] != part->i[e]) fail_msg("output %d, element %d, sampled %d", i, (int)at, (int)e);
    }
}

/* Compares the outputs of a sample of so much work with the whole graph's, on packed inputs: output `only`, -1: all. */
static void check_work(const tcc_graph *g, const void *const *packed, int only, double work, uint64_t seed, counts *c) {
    tcc_sample s;
    const int n_in = g->inputs.count, n_out = g->outputs.count, first = only < 0 ? 0 : only;
    assert_ok(tcc_sample_create(g, only, work, seed, &s, g->diag), g->diag);
    assert_int_equal(s.graph->outputs.count, only < 0 ? n_out : 1);
    assert_ok(tcc_graph_verify(s.graph, g->diag), g->diag);
    tcc_value *in = calloc((size_t)n_in + 1, sizeof *in), *out = calloc((size_t)n_out + 1, sizeof *out),
              *part_in = calloc((size_t)s.graph->inputs.count + 1, sizeof *part_in),
              *part = calloc((size_t)n_out + 1, sizeof *part);
    for (int i = 0; i < n_in; i++) {
        assert_ok(tcc_value_create(&g->inputs.data[i]->type, &in[i], g->diag), g->diag);
        tcc_value_load(&in[i], packed[i]);
    }
    assert_ok(tcc_graph_eval(g, in, out, g->diag), g->diag);
    assert_ok(tcc_sample_inputs(&s, packed, part_in, g->diag), g->diag);
    assert_ok(tcc_graph_eval(s.graph, part_in, part, g->diag), g->diag);
    for (int i = 0; i < s.graph->outputs.count; i++) check_output(&s, g, first + i, &out[first + i], &part[i], c);
    for (int i = 0; i < n_in; i++) tcc_value_free(&in[i]);
    for (int i = 0; i < s.graph->inputs.count; i++) tcc_value_free(&part_in[i]);
    for (int i = 0; i < n_out; i++) tcc_value_free(&out[i]), tcc_value_free(&part[i]);
    free(in), free(out), free(part_in), free(part);
    tcc_sample_free(&s);
}

static void random_graphs(void **state) {
    (void)state;
    enum { GRAPHS = 120 };
    counts c = {0};
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        tcc_diag diag = {0};
        tcc_graph *g = tcc_graph_random(&(tcc_random_options){.nodes = 4 + (int)(seed % 20), .max_elements = 600}, seed,
                                        &diag);
        assert_non_null(g);
        void **packed = calloc((size_t)g->inputs.count + 1, sizeof *packed);
        for (int i = 0; i < g->inputs.count; i++) {
            packed[i] = malloc((size_t)tcc_type_bytes(&g->inputs.data[i]->type));
            tcc_random_input(g, i, seed, packed[i]);
        }
        for (int part = 0; part < 3; part++)
            check_work(g, (const void *const *)packed, part == 1 ? (int)(seed % (uint64_t)g->outputs.count) : -1,
                       part == 2 ? 0 : tcc_graph_work(g) / (part ? 8 : 2), seed, &c);
        for (int i = 0; i < g->inputs.count; i++) free(packed[i]);
        free(packed);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    if (!(c.sampled < 0.9 * c.all)) fail_msg("%g of %g elements are no sample", c.sampled, c.all);
}

/* Each text has an output of which a hundredth or so is enough: what all of its dims but those that are summed tell. */
#define QKV                                                                              \
    "  %10 = input {name=\"q\"} : f32[6,5,4]\n  %11 = input {name=\"k\"} : f32[6,7,4]\n" \
    "  %12 = input {name=\"v\"} : f32[6,7,3]\n  %13 = input {name=\"mask\"} : f32[6,5,7]\n"
#define QKV_BACK                                                                             \
    QKV "  %14 = input {name=\"o\"} : f32[6,5,3]\n  %15 = input {name=\"lse\"} : f32[6,5]\n" \
        "  %16 = input {name=\"do\"} : f32[6,5,3]\n"

static void known_graphs(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t least; /* elements of the output, with one block of each dim that need not be whole */
    } cases[] = {
        {"  %0 = input {name=\"x\"} : f32[8,6,9,9]\n  %1 = input {name=\"w\"} : f32[12,6,3,3]\n"
         "  %2 = conv(%0, %1) {stride=[1,1], pad_lo=[0,0], pad_hi=[0,0], dilation=[1,1], groups=1} : f32[8,12,7,7]\n",
         49},
        {"  %0 = input {name=\"x\"} : f32[8,6,9,9]\n  %1 = input {name=\"w\"} : f32[12,2,3,3]\n"
         "  %2 = conv(%0, %1) {stride=[1,1], pad_lo=[0,0], pad_hi=[0,0], dilation=[1,1], groups=3} : f32[8,12,7,7]\n",
         4 * 49},
        {"  %0 = input {name=\"y\"} : f32[8,7,7,6]\n  %1 = input {name=\"w\"} : f32[6,3,3,1]\n"
         "  %2 = conv_grad_input(%0, %1) {stride=[1,1], pad_lo=[0,0], pad_hi=[0,0], dilation=[1,1], groups=6, "
         "channels_last=true} : f32[8,9,9,6]\n",
         81},
        {"  %0 = input {name=\"x\"} : f32[8,9,9,6]\n  %1 = input {name=\"y\"} : f32[8,7,7,12]\n"
         "  %2 = conv_grad_weight(%0, %1) {stride=[1,1], pad_lo=[0,0], pad_hi=[0,0], dilation=[1,1], groups=6, "
         "channels_last=true} : f32[12,3,3,1]\n",
         18},
        {"  %0 = input {name=\"x\"} : f32[8,9,9,6]\n  %1 = input {name=\"y\"} : f32[8,7,7,12]\n"
         "  %2 = conv_grad_weight(%0, %1) {stride=[1,1], pad_lo=[0,0], pad_hi=[0,0], dilation=[1,1], groups=1, "
         "channels_last=true} : f32[12,3,3,6]\n",
         9},
        {"  %0 = input {name=\"x\"} : f32[8,12,16]\n  %1 = reshape(%0) : f32[96,16]\n"
         "  %2 = reduce_sum(%1) {axes=[1]} : f32[96]\n",
         12},
        {"  %0 = input {name=\"x\"} : f32[96,16]\n  %1 = input {name=\"w\"} : f32[16,40]\n"
         "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[96,40]\n",
         1},
        {"  %0 = input {name=\"k\", role=rng} : i64[2]\n  %1 = input {name=\"x\"} : f32[40,30]\n"
         "  %3 = rng_uniform(%0) {id=3} : f32[40,30]\n  %2 = mul(%3, %1) : f32[40,30]\n",
         1},
        {"  %0 = input {name=\"q\"} : f32[6,5,4]\n  %1 = input {name=\"k\", role=rng} : i64[2]\n"
         "  %2 = sdpa(%0, %0, %0, %1) {scale=0.5, p=0.25, id=2} : f32[6,5,4]\n",
         20},
        {QKV "  %2 = sdpa(%10, %11, %12, %13) {scale=0.5} : f32[6,5,3]\n", 3},
        {QKV "  %2 = sdpa_lse(%10, %11, %13) {scale=0.5} : f32[6,5]\n", 1},
        {QKV "  %2 = sdpa(%10, %11, %12) {scale=0.5, causal=true} : f32[6,5,3]\n", 3},
        {QKV "  %2 = sdpa(%10, %11, %12, %13) {scale=0.5, causal=true} : f32[6,5,3]\n", 3},
        {QKV "  %2 = sdpa_lse(%10, %11) {scale=0.5, causal=true} : f32[6,5]\n", 1},
        {QKV "  %3 = input {name=\"r\", role=rng} : i64[2]\n"
             "  %2 = sdpa(%10, %11, %12, %13, %3) {scale=0.5, causal=true, p=0.5, id=2} : f32[6,5,3]\n",
         3},
        {QKV_BACK "  %2 = sdpa_grad_q(%10, %11, %12, %14, %15, %16) {scale=0.5, causal=true} : f32[6,5,4]\n", 4},
        {QKV_BACK "  %2 = sdpa_grad_k(%10, %11, %12, %14, %15, %16) {scale=0.5, causal=true} : f32[6,7,4]\n", 4},
        {QKV_BACK "  %3 = input {name=\"r\", role=rng} : i64[2]\n"
                  "  %2 = sdpa_grad_v(%10, %11, %12, %14, %15, %16, %13, %3) {scale=0.5, causal=true, p=0.5, id=2} : "
                  "f32[6,7,3]\n",
         3},
        {QKV_BACK "  %2 = sdpa_grad_q(%10, %11, %12, %14, %15, %16, %13) {scale=0.5} : f32[6,5,4]\n", 4},
        {QKV_BACK "  %2 = sdpa_grad_k(%10, %11, %12, %14, %15, %16, %13) {scale=0.5} : f32[6,7,4]\n", 4},
        {QKV_BACK "  %2 = sdpa_grad_v(%10, %11, %12, %14, %15, %16, %13) {scale=0.5} : f32[6,7,3]\n", 3},
        {"  %0 = input {name=\"t\"} : f32[50,8]\n  %1 = input {name=\"i\"} : i32[7,5]\n"
         "  %2 = take(%0, %1) {axis=0} : f32[7,5,8]\n",
         1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        tcc_diag diag = {0};
        counts c = {0};
        void *packed[8];
        snprintf(text, sizeof text, "graph @g {\n%s  output \"y\" %%2\n}\n", cases[i].text);
        tcc_graph *g = parse_graph(text, &diag);
        for (int k = 0; k < g->inputs.count; k++) {
            packed[k] = malloc((size_t)tcc_type_bytes(&g->inputs.data[k]->type));
            tcc_random_input(g, k, 3, packed[k]);
        }
        check_work(g, (const void *const *)packed, -1, 0, 5, &c);
        if ((int64_t)c.sampled != cases[i].least) fail_msg("case %d: %g elements", (int)i, c.sampled);
        check_work(g, (const void *const *)packed, -1, tcc_graph_work(g) / 4, 5, &c);
        for (int k = 0; k < g->inputs.count; k++) free(packed[k]);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* Gradients of attention by all operands need all queries and all keys; each alone does with a few rows of its own. */
static void outputs_alone(void **state) {
    (void)state;
    tcc_diag diag = {0};
    void *packed[4];
    tcc_graph *g = parse_graph("graph @g {\n"
                               "  %0 = input {name=\"q\"} : f32[2,20,4]\n  %1 = input {name=\"k\"} : f32[2,30,4]\n"
                               "  %2 = input {name=\"l\"} : f32[2,20]\n  %3 = input {name=\"m\"} : f32[2,20,30]\n"
                               "  %4 = sdpa_grad_q(%0, %1, %1, %0, %2, %0, %3) {scale=0.5} : f32[2,20,4]\n"
                               "  %5 = sdpa_grad_k(%0, %1, %1, %0, %2, %0, %3) {scale=0.5} : f32[2,30,4]\n"
                               "  %6 = sdpa_grad_v(%0, %1, %1, %0, %2, %0, %3) {scale=0.5} : f32[2,30,4]\n"
                               "  output \"a\" %4\n  output \"b\" %5\n  output \"c\" %6\n}\n",
                               &diag);
    for (int k = 0; k < 4; k++) {
        packed[k] = malloc((size_t)tcc_type_bytes(&g->inputs.data[k]->type));
        tcc_random_input(g, k, 3, packed[k]);
    }
    for (int only = -1; only < 3; only++) {
        counts least = {0}, more = {0};
        check_work(g, (const void *const *)packed, only, 0, 7, &least);
        assert_true(least.sampled == (only < 0 ? 4 * (20 + 30 + 30) : 4));
        check_work(g, (const void *const *)packed, only, tcc_graph_work(g) / 8, 7, &more);
        assert_true(more.sampled >= least.sampled && more.sampled < more.all);
    }
    for (int k = 0; k < 4; k++) free(packed[k]);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs), cmocka_unit_test(known_graphs),
                                       cmocka_unit_test(outputs_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
