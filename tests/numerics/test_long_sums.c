/* SPDX-License-Identifier: MIT
 * Long sums err no more than ir/chain.h says: 20,011 terms that are all alike, so that every addition errs the same
 * way, and terms of 1e6 between many of 1e-8. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "harness/compiled.h"
#include "harness/graphs.h"
#include "ir/chain.h"

#include <math.h>
#include <stdlib.h>

enum { TERMS = 20011 };

/* -- Values -- */

typedef enum values {
    ALIKE_BY_COLUMN, /* equal along all dims but the last */
    ALIKE_BY_ROW,    /* along the last one */
    MIXED
} values;

static double some(int64_t index) { return 0.03 + 1.9 * (double)(index * 7919 % 1013) / 1013; }

/* Positive, so that the sum of magnitudes is the sum. */
static void fill(tcc_value *v, values kind) {
    const int64_t last = v->type.rank ? v->type.dims[v->type.rank - 1] : 1;
    for (int64_t e = 0, count = tcc_type_numel(&v->type); e < count; e++)
        v->f[e] = (float)(kind == ALIKE_BY_COLUMN ? some(e % last)
                          : kind == ALIKE_BY_ROW  ? some(e / last)
                          : e * 2654435761u % 97  ? 1e-8 * some(e)
                                                  : 1e6 * some(e));
}

/* -- One graph -- */

/* The largest error of an output, in half units of it. */
static double worst_error(const tcc_value *want, const void *memory) {
    tcc_value got;
    double worst = 0;
    assert_int_equal(tcc_value_create(&want->type, &got, NULL), TCC_OK);
    tcc_value_load(&got, memory);
    for (int64_t e = 0, count = tcc_type_numel(&want->type); e < count; e++)
        worst = fmax(worst, fabs(got.f[e] - want->f[e]) / want->f[e] * 0x1p24);
    tcc_value_free(&got);
    return worst;
}

static double run(const tcc_graph *g, values kind, bool eager) {
    tcc_diag diag = {0};
    tcc_value *in = calloc((size_t)g->inputs.count, sizeof *in);
    tcc_value *want = calloc((size_t)g->outputs.count, sizeof *want);
    double worst = 0;
    for (int i = 0; i < g->inputs.count; i++) {
        assert_ok(tcc_value_create(&g->inputs.data[i]->type, &in[i], &diag), &diag);
        fill(&in[i], kind);
    }
    assert_ok(tcc_graph_eval(g, in, want, &diag), &diag);
    compiled *c = compiled_create(g, &(compiled_options){.eager = eager});
    for (int i = 0; i < g->inputs.count; i++) value_store(&in[i], c->memory[i]);
    compiled_run(c);
    for (int i = 0; i < g->outputs.count; i++) worst = fmax(worst, worst_error(&want[i], compiled_output(c, i)));
    compiled_destroy(c);
    for (int i = 0; i < g->inputs.count; i++) tcc_value_free(&in[i]);
    for (int i = 0; i < g->outputs.count; i++) tcc_value_free(&want[i]);
    free(in);
    free(want);
    return worst;
}

/* All outputs are sums of TERMS terms that are cut at `length`. */
static void check(const char *name, const char *text, double length) {
    static const char *const names[] = {"alike by column", "alike by row", "mixed"};
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    bool ok = true;
    for (int kind = ALIKE_BY_COLUMN; kind <= MIXED; kind++) {
        /* While alike terms are added up, a sum is half of what it will be. And a few roundings of the terms. */
        const double most = tcc_chain_of(TERMS, length) / (kind == MIXED ? 1 : 2) + 4;
        for (int eager = 0; eager < 2; eager++) {
            const double worst = run(g, (values)kind, eager);
            if (worst > most || getenv("TCC_TEST_VERBOSE"))
                print_message("%s, %s, %s: %.1f half units, %.1f allowed\n", name, names[kind],
                              eager ? "eager" : "default", worst, most);
            ok = ok && worst <= most;
        }
    }
    tcc_graph_destroy(g);
    assert_true(ok);
}

/* -- Cases -- */

static void products(void **state) {
    (void)state;
    check("dot",
          "graph @g {\n"
          "  %0 = input {name=\"a\"} : f32[5,20011]\n"
          "  %1 = input {name=\"b\"} : f32[20011,40]\n"
          "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[5,40]\n"
          "  output \"y\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
    check("dot of rows",
          "graph @g {\n"
          "  %0 = input {name=\"a\"} : f32[3,20011]\n"
          "  %1 = input {name=\"b\"} : f32[2,20011]\n"
          "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[1]} : f32[3,2]\n"
          "  output \"y\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
    check("dot of columns",
          "graph @g {\n"
          "  %0 = input {name=\"a\"} : f32[20011,33]\n"
          "  %1 = input {name=\"b\"} : f32[20011,17]\n"
          "  %2 = dot(%0, %1) {contract_a=[0], contract_b=[0]} : f32[33,17]\n"
          "  output \"y\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
    check("dot of vectors",
          "graph @g {\n"
          "  %0 = input {name=\"a\"} : f32[20011]\n"
          "  %1 = input {name=\"b\"} : f32[20011]\n"
          "  %2 = dot(%0, %1) {contract_a=[0], contract_b=[0]} : f32[]\n"
          "  output \"y\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
}

static void filter_gradients(void **state) {
    (void)state;
    check("1 x 1",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[1,20011,1,16]\n"
          "  %1 = input {name=\"dy\"} : f32[1,20011,1,24]\n"
          "  %2 = conv_grad_weight(%0, %1) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, "
          "channels_last=true} : f32[24,1,1,16]\n"
          "  output \"dw\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
    check("3 x 3 of stride 2",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[1,40023,3,16]\n"
          "  %1 = input {name=\"dy\"} : f32[1,20011,1,24]\n"
          "  %2 = conv_grad_weight(%0, %1) {stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, "
          "channels_last=true} : f32[24,3,3,16]\n"
          "  output \"dw\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
    check("3 x 3 by Winograd",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[1,20013,3,16]\n"
          "  %1 = input {name=\"dy\"} : f32[1,20011,1,16]\n"
          "  %2 = conv_grad_weight(%0, %1) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1, "
          "channels_last=true} : f32[16,3,3,16]\n"
          "  output \"dw\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
    check("channels first",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[1,3,20013,3]\n"
          "  %1 = input {name=\"dy\"} : f32[1,5,20011,1]\n"
          "  %2 = conv_grad_weight(%0, %1) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1} : "
          "f32[5,3,3,3]\n"
          "  output \"dw\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
    check("depthwise",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[1,20013,3,16]\n"
          "  %1 = input {name=\"dy\"} : f32[1,20011,1,16]\n"
          "  %2 = conv_grad_weight(%0, %1) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=16, "
          "channels_last=true} : f32[16,3,3,1]\n"
          "  output \"dw\" %2\n}\n",
          TCC_CHAIN_PRODUCTS);
}

static void reductions(void **state) {
    (void)state;
    check("rows",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[40,20011]\n"
          "  %1 = reduce_sum(%0) {axes=[1]} : f32[40]\n"
          "  output \"y\" %1\n}\n",
          TCC_CHAIN_TERMS);
    check("columns",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[20011,40]\n"
          "  %1 = reduce_sum(%0) {axes=[0]} : f32[40]\n"
          "  output \"y\" %1\n}\n",
          TCC_CHAIN_TERMS);
    check("sums of rows beside their mean",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[3,20011]\n"
          "  %1 = reduce_mean(%0) {axes=[1]} : f32[3]\n"
          "  %2 = reduce_m2(%0) {axes=[1]} : f32[3]\n"
          "  %3 = mul(%0, %0) : f32[3,20011]\n"
          "  %4 = reduce_sum(%3) {axes=[1]} : f32[3]\n"
          "  %5 = constant {values=[0]} : f32[3]\n"
          "  %6 = mul(%2, %5) : f32[3]\n"
          "  %7 = add(%4, %6) : f32[3]\n"
          "  output \"m\" %1\n"
          "  output \"y\" %7\n}\n",
          TCC_CHAIN_TERMS);
    check("sums of columns beside their mean",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[20011,3]\n"
          "  %1 = reduce_mean(%0) {axes=[0]} : f32[3]\n"
          "  %2 = reduce_m2(%0) {axes=[0]} : f32[3]\n"
          "  %3 = mul(%0, %0) : f32[20011,3]\n"
          "  %4 = reduce_sum(%3) {axes=[0]} : f32[3]\n"
          "  %5 = constant {values=[0]} : f32[3]\n"
          "  %6 = mul(%2, %5) : f32[3]\n"
          "  %7 = add(%4, %6) : f32[3]\n"
          "  output \"m\" %1\n"
          "  output \"y\" %7\n}\n",
          TCC_CHAIN_TERMS);
}

static void column_sums_beside_row_sums(void **state) {
    (void)state;
    check("narrow",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[20011,2]\n"
          "  %1 = reduce_sum(%0) {axes=[1]} : f32[20011]\n"
          "  %2 = reduce_sum(%0) {axes=[0]} : f32[2]\n"
          "  output \"rows\" %1\n"
          "  output \"columns\" %2\n}\n",
          TCC_CHAIN_TERMS);
    check("wide",
          "graph @g {\n"
          "  %0 = input {name=\"x\"} : f32[20011,64]\n"
          "  %1 = reduce_sum(%0) {axes=[1]} : f32[20011]\n"
          "  %2 = reduce_sum(%0) {axes=[0]} : f32[64]\n"
          "  output \"rows\" %1\n"
          "  output \"columns\" %2\n}\n",
          TCC_CHAIN_TERMS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(filter_gradients),
                                       cmocka_unit_test(reductions), cmocka_unit_test(column_sums_beside_row_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
