/* SPDX-License-Identifier: MIT
 * Definitions of the composite ops against their formulas in plain loops, and at values where naive
 * formulas fail. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "harness/graphs.h"
#include "ir/decompose.h"

#include <math.h>
#include <stdlib.h>

static void assert_close(double a, double b) {
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b)))) fail_msg("%.17g, expected %.17g", a, b);
}

static void free_all(int count, tcc_value *v) {
    for (int i = 0; i < count; i++) tcc_value_free(&v[i]);
}

/* -- Activations: constants in the graph are float64, so that they are exact -- */

#define F "%0 = constant {values=[-2, -0.5, 0, 0.5, 2]} : f64[5]\n%1 = "

static void test_activations(void **state) {
    (void)state;
    EXPECT(F "relu(%0) : f64[5]", 0, 0, 0, 0.5, 2);
    EXPECT("%0 = constant {values=[nan]} : f64[]\n%1 = relu(%0) : f64[]", NAN);
    EXPECT(F "leaky_relu(%0) {slope=0.25} : f64[5]", -0.5, -0.125, 0, 0.5, 2);
    EXPECT_NEAR(1e-14, F "gelu(%0) : f64[5]", -0.04550026389635842, -0.15426876936299344, 0, 0.34573123063700656,
                1.9544997361036416);
    EXPECT_NEAR(1e-14, F "gelu_tanh(%0) : f64[5]", -0.04540230591222181, -0.15428599017485633, 0, 0.34571400982514367,
                1.9545976940877782);
    EXPECT_NEAR(1e-14, F "silu(%0) : f64[5]", -0.2384058440442351, -0.18877033439907208, 0, 0.31122966560092728,
                1.7615941559557649);
    EXPECT_NEAR(1e-14, F "softplus(%0) : f64[5]", 0.1269280110429726, 0.47407698418010669, 0.69314718055994529,
                0.97407698418010669, 2.1269280110429725);
    EXPECT_NEAR(1e-300, "%0 = constant {values=[1000, -700]} : f64[2]\n%1 = softplus(%0) : f64[2]", 1000,
                9.8596765437597708e-305);
}

/* -- Order -- */

/* Equal elements are in turn, and NaN is the largest; -0 and 0 are equal. */
static void test_order(void **state) {
    (void)state;
#define LINES "%0 = constant {values=[2, nan, -0x0p+0, 0, 2, -1, 7, 3, 3, nan]} : f32[2,5]\n%1 = "
    EXPECT(LINES "argsort(%0) {count=5} : i32[2,5]", 2, 3, 0, 4, 1, 0, 2, 3, 1, 4);
    EXPECT(LINES "argsort(%0) {count=3, descending=true} : i32[2,3]", 1, 0, 4, 4, 1, 2);
    EXPECT("%0 = constant {values=[3, -1, 3, 0]} : i32[4]\n%1 = argsort(%0) {count=4} : i32[4]", 1, 3, 0, 2);
    EXPECT("%0 = constant {values=[5]} : u8[]\n%1 = reshape(%0) : u8[1]\n%2 = argsort(%1) {count=1} : i32[1]", 0);
#undef LINES
}

/* -- Products -- */

/* Of an odd number of factors, and of dims on both sides of another; gradients are right where factors are 0. */
static void test_products(void **state) {
    (void)state;
#define FACTORS "%0 = constant {values=[2, 3, -1, 5, 0.5, 2, 0, 4, 1, -2, 3, 0, 0, 2, 7]} : f64[3,5]\n"
#define DY "%1 = constant {values=[1, 10, 3]} : f64[3]\n"
    EXPECT(FACTORS "%1 = prod(%0) {axes=[1]} : f64[3]", -15, 0, 0);
    EXPECT(FACTORS "%1 = prod(%0) {axes=[0]} : f64[5]", 12, 0, 0, 10, -7);
    EXPECT(FACTORS "%1 = prod(%0) {axes=[0, 1]} : f64[]", 0);
    EXPECT("%0 = constant {values=[1, 2, 3, 4, 5, 6, 7, 8]} : f64[2,2,2]\n%1 = prod(%0) {axes=[0, 2]} : f64[2]", 60,
           672);
    EXPECT("%0 = constant {values=[5, 7]} : f64[2,1]\n%1 = prod(%0) {axes=[1]} : f64[2]", 5, 7);
    EXPECT("%0 = constant {values=[5, nan, 0, 7]} : f64[2,2]\n%1 = prod(%0) {axes=[1]} : f64[2]", NAN, 0);
    EXPECT("%0 = constant {values=[20, 13]} : u8[2]\n%1 = prod(%0) {axes=[0]} : u8[]", 4);
    EXPECT(FACTORS DY "%2 = prod_grad(%0, %1) {axes=[1]} : f64[3,5]", -7.5, -5, 15, -3, -30, 0, -160, 0, 0, 0, 0, 0, 0,
           0, 0);
    EXPECT("%0 = constant {values=[1, 2, 3, 4, 5, 6, 7, 8]} : f64[2,2,2]\n%1 = constant {values=[1, 10]} : f64[2]\n"
           "%2 = prod_grad(%0, %1) {axes=[0, 2]} : f64[2,2,2]",
           60, 30, 2240, 1680, 12, 10, 960, 840);
#undef DY
#undef FACTORS
}

/* By running products they are the same, forward and back, and of narrow types as well. */
static void test_definitions_of_products(void **state) {
    (void)state;
    static const tcc_dims axes[] = {{1, {2}}, {1, {1}}, {2, {0, 2}}};
    static const tcc_dtype dtypes[] = {TCC_F32, TCC_BF16, TCC_F64};
    for (int i = 0; i < 9; i++) {
        const tcc_attrs attrs = {.axes = {.axes = axes[i % 3]}};
        const tcc_type type = {dtypes[i / 3], 3, {2, 3, 5}};
        tcc_diag diag = {0};
        tcc_graph *g = tcc_graph_create("g", &diag);
        tcc_node *x = tcc_ir_input(g, "x", TCC_ROLE_BATCH, &type, TCC_NOWHERE);
        tcc_node *y = tcc_ir_build(g, TCC_OP_PROD, &x, 1, &attrs, NULL, TCC_NOWHERE);
        tcc_node *dx = tcc_ir_build(g, TCC_OP_PROD_GRAD, (tcc_node *[]){x, y}, 2, &attrs, NULL, TCC_NOWHERE);
        tcc_ir_output(g, "y", y, -1);
        tcc_ir_output(g, "by_scans", tcc_ir_product(g, y, x, true), -1);
        tcc_ir_output(g, "dx", dx, -1);
        tcc_ir_output(g, "dx_by_scans", tcc_ir_product_gradient(g, dx, x, y, true), -1);
        tcc_value in = random_value(&type, (uint64_t)i, -2, 2);
        in.f[4] = in.f[19] = 0;
        tcc_value out[4];
        assert_ok(tcc_graph_eval(g, &in, out, &diag), &diag);
        for (int o = 0; o < 4; o += 2)
            for (int64_t e = 0; e < tcc_type_numel(&out[o].type); e++) assert_close(out[o + 1].f[e], out[o].f[e]);
        free_all(4, out);
        tcc_value_free(&in);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* The definition says the same as the rule of the interpreter, of counted lines and of merged ones, in runs of 16 and
 * in such as a target sorts. */
static void test_definition_of_order(void **state) {
    (void)state;
    static const int64_t lines[] = {1, 9, 33, 300, 531};
    for (int i = 0; i < 5; i++)
        for (int variant = 0; variant < 8; variant++) {
            const tcc_type type = {TCC_F32, 2, {2, lines[i]}};
            const tcc_attrs attrs = {
                .order = {.count = variant & 1 ? (lines[i] + 9) / 10 : lines[i], .descending = variant & 2}};
            tcc_value x = random_value(&type, (uint64_t)variant, -9, 9);
            for (int64_t e = 0; e < tcc_type_numel(&type); e++) x.f[e] = e % 11 ? round(x.f[e]) : NAN;
            tcc_value expected = evaluate_op(TCC_OP_ARGSORT, &attrs, NULL, 1, &x);
            tcc_diag diag = {0};
            tcc_graph *g = tcc_graph_create("g", &diag);
            tcc_node *in = tcc_ir_input(g, "x", TCC_ROLE_BATCH, &type, TCC_NOWHERE);
            tcc_node *n = tcc_ir_build(g, TCC_OP_ARGSORT, &in, 1, &attrs, NULL, TCC_NOWHERE);
            assert_int_equal(tcc_ir_output(g, "y", tcc_ir_order(g, n, in, variant & 4 ? 64 : 0), -1), TCC_OK);
            tcc_value y = {0};
            assert_int_equal(tcc_graph_eval(g, &x, &y, &diag), TCC_OK);
            for (int64_t e = 0; e < tcc_type_numel(&expected.type); e++) assert_int_equal(y.i[e], expected.i[e]);
            tcc_graph_destroy(g);
            free_all(3, (tcc_value[]){x, y, expected});
        }
}

/* -- Softmax -- */

static void test_softmax(void **state) {
    (void)state;
    const tcc_type type = {TCC_F64, 3, {2, 4, 3}};
    tcc_value x = random_value(&type, 1, -3, 3);
    tcc_attrs attrs = {.axis = {.axis = 1}};
    tcc_value p = evaluate_op(TCC_OP_SOFTMAX, &attrs, NULL, 1, &x),
              l = evaluate_op(TCC_OP_LOG_SOFTMAX, &attrs, NULL, 1, &x);
    for (int a = 0; a < 2; a++)
        for (int c = 0; c < 3; c++) {
            double sum = 0;
            for (int b = 0; b < 4; b++) sum += exp(x.f[(a * 4 + b) * 3 + c]);
            for (int b = 0; b < 4; b++) {
                int e = (a * 4 + b) * 3 + c;
                assert_close(p.f[e], exp(x.f[e]) / sum);
                assert_close(l.f[e], x.f[e] - log(sum));
            }
        }
    free_all(3, (tcc_value[]){x, p, l});
    EXPECT_NEAR(1e-15, "%0 = constant {values=[1000, 999]} : f64[2]\n%1 = softmax(%0) : f64[2]", 0.7310585786300049,
                0.2689414213699951);
    EXPECT_NEAR(1e-12, "%0 = constant {values=[0, -1000]} : f64[2]\n%1 = log_softmax(%0) : f64[2]", 0, -1000);
}

/* -- Norms: x [2,6,3,2] -- */

enum { B = 2, C = 6, S = 6 /* 3 * 2 */ };
static const tcc_type x_type = {TCC_F64, 4, {B, C, 3, 2}};

/* Normalized value of element e among those elements j for which same(e, j). */
typedef bool same_fn(int e, int j);
static bool same_row(int e, int j) { return e / S == j / S; }
static bool same_sample(int e, int j) { return e / (C * S) == j / (C * S); }
static bool same_channel(int e, int j) { return e / S % C == j / S % C; }
static bool same_group(int e, int j) { return e / (2 * S) == j / (2 * S); } /* 3 groups of 2 channels */

static double normalized(const tcc_value *x, int e, same_fn *same, bool centred, double eps) {
    double sum = 0, squares = 0, count = 0;
    for (int j = 0; j < B * C * S; j++)
        if (same(e, j)) sum += x->f[j], count++;
    double mean = centred ? sum / count : 0;
    for (int j = 0; j < B * C * S; j++)
        if (same(e, j)) squares += (x->f[j] - mean) * (x->f[j] - mean);
    return (x->f[e] - mean) / sqrt(squares / count + eps);
}

/* `op` with weight and bias; `channels`: those have the channels' extent, else all dims from `axis`
 * on. */
static void check_norm(tcc_op op, int axis, int groups, bool channels, bool has_bias, same_fn *same) {
    const double eps = 0.125; /* exact in any type */
    tcc_type weight_type = {TCC_F64, 1, {C}};
    if (!channels) {
        weight_type.rank = 4 - axis;
        for (int d = axis; d < 4; d++) weight_type.dims[d - axis] = x_type.dims[d];
    }
    tcc_attrs attrs = {.norm = {.eps = eps, .axis = axis, .groups = groups}};
    tcc_value in[] = {random_value(&x_type, 1, -1, 3), random_value(&weight_type, 2, -1, 1),
                      random_value(&weight_type, 3, -1, 1)};
    tcc_value y = evaluate_op(op, &attrs, NULL, has_bias ? 3 : 2, in), plain = evaluate_op(op, &attrs, NULL, 1, in);
    int64_t weights = tcc_type_numel(&weight_type);
    for (int e = 0; e < B * C * S; e++) {
        double expected = normalized(&in[0], e, same, op != TCC_OP_RMS_NORM, eps);
        int64_t at = channels ? e / S % C : e % weights;
        assert_close(plain.f[e], expected);
        assert_close(y.f[e], expected * in[1].f[at] + (has_bias ? in[2].f[at] : 0));
    }
    free_all(3, in);
    free_all(2, (tcc_value[]){y, plain});
}

static void test_norms(void **state) {
    (void)state;
    check_norm(TCC_OP_LAYER_NORM, 2, 0, false, true, same_row);
    check_norm(TCC_OP_LAYER_NORM, 1, 0, false, true, same_sample);
    check_norm(TCC_OP_RMS_NORM, 2, 0, false, false, same_row);
    check_norm(TCC_OP_BATCH_NORM, 1, 0, true, true, same_channel);
    check_norm(TCC_OP_GROUP_NORM, 1, 3, true, true, same_group);
}

static void test_batch_norm_inference(void **state) {
    (void)state;
    tcc_type c_type = {TCC_F64, 1, {C}};
    tcc_attrs attrs = {.norm = {.eps = 0.125, .axis = 1}};
    tcc_value in[5] = {random_value(&x_type, 1, -1, 3)};
    for (int i = 1; i < 5; i++) in[i] = random_value(&c_type, 1 + (uint64_t)i, 0.5, 2);
    tcc_value y = evaluate_op(TCC_OP_BATCH_NORM_INFERENCE, &attrs, NULL, 5, in);
    for (int e = 0; e < B * C * S; e++) {
        int c = e / S % C;
        assert_close(y.f[e], (in[0].f[e] - in[3].f[c]) / sqrt(in[4].f[c] + 0.125) * in[1].f[c] + in[2].f[c]);
    }
    free_all(5, in);
    tcc_value_free(&y);
}

/* Values far from zero: the variance is that of the centred values, not a difference of large
 * squares. */
static void test_variance_does_not_cancel(void **state) {
    (void)state;
    EXPECT_NEAR(1e-6, "%0 = constant {values=[100000001, 99999999]} : f64[2]\n%1 = layer_norm(%0) : f64[2]", 1, -1);
}

/* -- Dropout -- */

static void test_dropout(void **state) {
    (void)state;
    const char *lines = "%0 = constant {values=[3]} : f64[10000]\n%1 = constant {values=[7, 1]} : i64[2]\n"
                        "%2 = dropout(%0, %1) {p=0.25, id=4} : f64[10000]";
    tcc_value y = evaluate_lines(lines), again = evaluate_lines(lines);
    tcc_value u = evaluate_lines("%0 = constant {values=[7, 1]} : i64[2]\n%1 = rng_uniform(%0) {id=4} : f32[10000]");
    int kept = 0;
    for (int e = 0; e < 10000; e++) {
        assert_close(y.f[e], u.f[e] >= 0.25 ? 4 : 0);
        assert_true(y.f[e] == again.f[e]);
        kept += y.f[e] != 0;
    }
    assert_true(abs(kept - 7500) < 5 * 44); /* five standard deviations */
    free_all(3, (tcc_value[]){y, again, u});
    EXPECT("%0 = constant {values=[3, -2]} : f64[2]\n%1 = constant {values=[7, 1]} : i64[2]\n%2 = "
           "dropout(%0, %1) : f64[2]",
           3, -2);
}

/* -- Cross-entropy, as torch.nn.functional.cross_entropy documents it -- */

enum { ROWS = 7, CLASSES = 4 };

static double reference_cross_entropy(const tcc_value *x, const tcc_value *t, const tcc_value *w, int ignore,
                                      double smoothing) {
    double total = 0, weight_sum = 0;
    for (int r = 0; r < ROWS; r++) {
        if (t->i[r] == ignore) continue;
        double sum = 0, smooth = 0;
        for (int c = 0; c < CLASSES; c++) sum += exp(x->f[r * CLASSES + c]);
        for (int c = 0; c < CLASSES; c++) smooth -= (w ? w->f[c] : 1) * (x->f[r * CLASSES + c] - log(sum));
        double weight = w ? w->f[t->i[r]] : 1;
        double nll = -weight * (x->f[r * CLASSES + t->i[r]] - log(sum));
        total += (1 - smoothing) * nll + smoothing / CLASSES * smooth;
        weight_sum += weight;
    }
    return total / weight_sum;
}

static void check_cross_entropy(bool weighted, int ignore, double smoothing) {
    const tcc_type types[] = {{TCC_F64, 2, {ROWS, CLASSES}}, {TCC_I32, 1, {ROWS}}, {TCC_F64, 1, {CLASSES}}};
    tcc_value in[3];
    in[0] = random_value(&types[0], 1, -3, 3);
    in[1] = random_value(&types[1], 2, 0, CLASSES);
    in[2] = random_value(&types[2], 3, 0.5, 2);
    tcc_attrs attrs = {.cross_entropy = {.ignore_index = ignore, .label_smoothing = smoothing}};
    tcc_value y = evaluate_op(TCC_OP_CROSS_ENTROPY, &attrs, NULL, weighted ? 3 : 2, in);
    assert_close(y.f[0], reference_cross_entropy(&in[0], &in[1], weighted ? &in[2] : NULL, ignore, smoothing));
    free_all(3, in);
    tcc_value_free(&y);
}

static void test_cross_entropy(void **state) {
    (void)state;
    for (int weighted = 0; weighted < 2; weighted++)
        for (int ignored = 0; ignored < 2; ignored++) {
            check_cross_entropy(weighted, ignored ? 1 : -100, 0);
            check_cross_entropy(weighted, ignored ? 1 : -100, 0.25);
        }
    /* Ignored targets need not be classes. All ignored: 0 / 0. Large logits do not overflow. */
    EXPECT_NEAR(1e-15,
                "%0 = constant {values=[1, 2, 3, 4]} : f64[2,2]\n%1 = constant {values=[-100, 1]} "
                ": i32[2]\n"
                "%2 = cross_entropy(%0, %1) {ignore_index=-100} : f64[]",
                0.31326168751822286);
    EXPECT("%0 = constant {values=[1, 2]} : f64[1,2]\n%1 = constant {values=[-100]} : i32[1]\n"
           "%2 = cross_entropy(%0, %1) {ignore_index=-100} : f64[]",
           NAN);
    EXPECT("%0 = constant {values=[1000, -1000]} : f64[1,2]\n%1 = constant {values=[1]} : i32[1]\n"
           "%2 = cross_entropy(%0, %1) {ignore_index=-100} : f64[]",
           2000);
}

/* -- The table -- */

static void test_what_is_not_composite(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @g {\n %0 = input {name=\"x\"} : f32[2]\n %1 = exp(%0) : "
                               "f32[2]\n output \"y\" %1\n}\n",
                               &diag);
    tcc_node *operand = g->nodes.data[0];
    assert_null(tcc_ir_decompose(g, g->nodes.data[1], &operand));
    assert_int_equal(diag.status, TCC_EBUG);
    tcc_diag_clear(&diag);
    tcc_graph_destroy(g);
}

/* Definitions hold no composites, and their nodes carry the op's line. */
static void test_nodes_of_a_definition(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g =
        parse_graph("graph @g {\n %0 = input {name=\"x\"} : f32[2,3]\n %1 = layer_norm(%0) {axis=1} : f32[2,3]"
                    " loc(\"net.c\":12)\n output \"y\" %1\n}\n",
                    &diag);
    tcc_node *operand = g->nodes.data[0], *y = tcc_ir_decompose(g, g->nodes.data[1], &operand);
    assert_non_null(y);
    for (int i = 2; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        assert_int_not_equal(tcc_op_get_info(n->op)->fusion, TCC_FUSION_COMPOSITE);
        assert_string_equal(n->loc.file, "net.c");
        assert_int_equal(n->loc.line, 12);
        assert_false(n->backward);
    }
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_definitions_of_products),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_definition_of_order),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_batch_norm_inference),
        cmocka_unit_test(test_variance_does_not_cancel),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_what_is_not_composite),
        cmocka_unit_test(test_nodes_of_a_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
