/* SPDX-License-Identifier: MIT
 * The noise column of ir/ops.def against what f32 really does: each op compiled, with operands of ordinary sizes and
 * with such as nearly cancel. Its error lies within the noise, and the noise is not far above it: a bound that any
 * error meets would tell nothing. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"
#include "harness/random.h"

#include "ir/noise.h"
#include "ir/support/element.h"
#include "ir/support/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *noise, *infer;
} rules[] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    {#noise, #infer},
#include "ir/ops.def"
#undef TCC_OP
};

static bool seen[TCC_OP_COUNT];

/* What f32 does to one output. */
typedef struct errors {
    double error, noise; /* root mean squares */
    double worst;        /* error over noise, of an element */
} errors;

/* `usual`: an element has the noise that is usual there at least, since draws of its operands may be lucky. */
static errors measure(const tcc_noisy *expected, const void *memory, bool usual) {
    const tcc_dtype dtype = expected->value.type.dtype;
    const int64_t count = tcc_type_numel(&expected->value.type);
    errors all = {0};
    for (int64_t e = 0; e < count; e++) {
        const double exact = expected->value.f[e], got = tcc_element_get(dtype, memory, e);
        all.error += (got - exact) * (got - exact) / (double)count;
        all.noise += expected->noise[e] * expected->noise[e] / (double)count;
    }
    all.error = sqrt(all.error), all.noise = sqrt(all.noise);
    for (int64_t e = 0; e < count; e++) {
        const double error = fabs(tcc_element_get(dtype, memory, e) - expected->value.f[e]);
        if (error > 0) all.worst = fmax(all.worst, error / fmax(expected->noise[e], usual ? all.noise : 0));
    }
    return all;
}

/* All are of one magnitude, of either sign. */
static void keep_signs(tcc_value *v) {
    for (int64_t e = 0; tcc_dtype_is_float(v->type.dtype) && e < tcc_type_numel(&v->type); e++)
        v->f[e] = copysign(0x1.666666p-1, v->f[e]);
}

/* Each output of the graph is an op of its inputs, which are from `low` to `high`. */
static void check_graph(const char *text, double low, double high, bool signs) {
    enum { MOST = 3000 }; /* times the error: factor 8, the largest of 8 draws, sums of terms that are alike */
    const tcc_noise noise = {.seed = 3, .draws = 8, .factor = 8};
    const compiled_options options = {.low = low, .high = high, .limit = 6};
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value *inputs = random_inputs(g, &options);
    for (int i = 0; signs && i < g->inputs.count; i++) keep_signs(&inputs[i]);
    tcc_noisy *expected = calloc((size_t)g->outputs.count, sizeof *expected);
    void **memory = calloc((size_t)g->outputs.count, sizeof *memory);
    assert_ok(tcc_graph_eval_noisy(g, inputs, &noise, expected, &diag), &diag);
    run_compiled(g, inputs, &options, memory);
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_node *n = g->outputs.data[i].node;
        const char *name = tcc_op_get_info(n->op)->text, *rule = rules[n->op].noise;
        seen[n->op] = true;
        if (tcc_dtype_is_float(n->type.dtype)) {
            /* normal_density is right within 2^-24, as ops.def says, which is much of its small values. */
            const bool usual = !strcmp(rule, "OPERANDS") || n->op == TCC_OP_NORMAL_DENSITY;
            const errors all = measure(&expected[i], memory[i], usual);
            if (getenv("TCC_TEST_VERBOSE"))
                print_message("%-24s %-8s error %-11.3g noise %-11.3g worst %-9.3g %.3g\n", name, rule, all.error,
                              all.noise, all.worst, all.noise / all.error);
            if (!(all.worst <= 1)) fail_msg("%s of %g to %g errs by %g of its noise", name, low, high, all.worst);
            if (all.noise > MOST * all.error)
                fail_msg("%s of %g to %g: the noise is %g times the error", name, low, high, all.noise / all.error);
        }
        tcc_noisy_free(&expected[i]);
        free(memory[i]);
    }
    free(expected), free(memory);
    free_values(inputs, g->inputs.count);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void points(void **state) {
    (void)state;
    tcc_strbuf text = {0}, outputs = {0};
    int next = 2;
    tcc_strbuf_add(&text, "graph @points {\n  %0 = input {name=\"x\"} : f32[3000]\n"
                          "  %1 = input {name=\"y\"} : f32[3000]\n");
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        const tcc_op_info *info = tcc_op_get_info((tcc_op)op);
        const char *infer = rules[op].infer;
        if (info->fusion != TCC_FUSION_POINT || info->attrs != TCC_ATTR_CLASS_none || info->flags & TCC_FLAG_COMPARE ||
            info->flags & TCC_FLAG_TYPED || info->most > 2 || strstr(infer, "_bits") || strstr(infer, "_ints"))
            continue;
        tcc_strbuf_printf(&text, "  %%%d = %s(%%0%s) : f32[3000]\n", next, info->text, info->most == 2 ? ", %1" : "");
        tcc_strbuf_printf(&outputs, "  output \"%s\" %%%d\n", info->text, next++);
    }
    tcc_strbuf_printf(&text, "%s}\n", outputs.text);
    check_graph(text.text, 0.1, 3, false);
    tcc_strbuf_free(&text), tcc_strbuf_free(&outputs);
}

#define X "  %0 = input {name=\"x\"} : f32[64,257]\n  %1 = input {name=\"y\"} : f32[64,257]\n"

/* Each is a graph of its own, so that the ops stay apart. */
static const char *const sums[] = {
    "  %9 = reduce_sum(%0) {axes=[1]} : f32[64]\n",
    "  %9 = reduce_mean(%0) {axes=[1]} : f32[64]\n",
    "  %9 = reduce_m2(%0) {axes=[1]} : f32[64]\n",
    "  %9 = cumsum(%0) {axis=1} : f32[64,257]\n",
    "  %9 = dot(%0, %1) {contract_a=[1], contract_b=[1]} : f32[64,64]\n",
};

static void check_lines(const char *inputs, const char *lines, double low, double high, bool signs) {
    tcc_strbuf text = {0};
    tcc_strbuf_printf(&text, "graph @case {\n%s%s  output \"y\" %%9\n}\n", inputs, lines);
    check_graph(text.text, low, high, signs);
    tcc_strbuf_free(&text);
}

static void sums_of_terms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        check_lines(X, sums[i], -1, 1, false);
        check_lines(X, sums[i], 100, 100.01, false);
        check_lines(X, sums[i], -1, 1, true);
    }
}

#define POOL "{window=[3], stride=[2], pad_lo=[1], pad_hi=[1]}"
#define CONV "{stride=[1], pad_lo=[1], pad_hi=[1], dilation=[1], groups=1}"
static const struct {
    const char *inputs, *lines;
} others[] = {
    {X, "  %9 = cast(%0) : bf16[64,257]\n"},
    {"  %0 = input {name=\"key\", role=rng} : i64[2]\n", "  %9 = rng_normal(%0) {id=1} : f32[4000]\n"},
    {X "  %2 = input {name=\"i\"} : i32[64]\n  %3 = input {name=\"b\"} : f32[7,257]\n",
     "  %9 = scatter_add(%3, %2, %0) {axis=0} : f32[7,257]\n"},
    {X "  %2 = input {name=\"i\"} : i32[64,257]\n  %3 = input {name=\"b\"} : f32[7,257]\n",
     "  %9 = scatter_add_along(%3, %2, %0) {axis=0} : f32[7,257]\n"},
    {X, "  %9 = linear_scan(%0, %1) {axis=1} : f32[64,257]\n"},
    {"  %0 = input {name=\"x\"} : f32[4,6,40]\n  %1 = input {name=\"w\"} : f32[8,6,3]\n",
     "  %9 = conv(%0, %1) " CONV " : f32[4,8,40]\n"},
    {"  %0 = input {name=\"d\"} : f32[4,8,40]\n  %1 = input {name=\"w\"} : f32[8,6,3]\n",
     "  %9 = conv_grad_input(%0, %1) " CONV " : f32[4,6,40]\n"},
    {"  %0 = input {name=\"x\"} : f32[4,6,40]\n  %1 = input {name=\"d\"} : f32[4,8,40]\n",
     "  %9 = conv_grad_weight(%0, %1) " CONV " : f32[8,6,3]\n"},
    {"  %0 = input {name=\"p\"} : i32[4,6,20]\n  %1 = input {name=\"d\"} : f32[4,6,20]\n",
     "  %9 = max_pool_grad(%0, %1) " POOL " : f32[4,6,40]\n"},
    {"  %0 = input {name=\"x\"} : f32[4,6,40]\n", "  %9 = avg_pool(%0) " POOL " : f32[4,6,20]\n"},
    {"  %0 = input {name=\"d\"} : f32[4,6,20]\n", "  %9 = avg_pool_grad(%0) " POOL " : f32[4,6,40]\n"},
    {"  %0 = input {name=\"x\"} : f32[4,6,40]\n", "  %9 = adaptive_avg_pool(%0) : f32[4,6,7]\n"},
    {"  %0 = input {name=\"d\"} : f32[4,6,7]\n", "  %9 = adaptive_avg_pool_grad(%0) : f32[4,6,40]\n"},
    {"  %0 = input {name=\"d\"} : f32[4,6,40]\n", "  %9 = resize_nearest_grad(%0) : f32[4,6,7]\n"},
    {"  %0 = input {name=\"x\"} : f32[4,6,5,7]\n", "  %9 = resize_bilinear(%0) : f32[4,6,8,9]\n"},
    {"  %0 = input {name=\"d\"} : f32[4,6,8,9]\n", "  %9 = resize_bilinear_grad(%0) : f32[4,6,5,7]\n"},
    {"  %0 = input {name=\"x\"} : f32[4,6,5,7]\n", "  %9 = resize_bicubic(%0) : f32[4,6,8,9]\n"},
    {"  %0 = input {name=\"d\"} : f32[4,6,8,9]\n", "  %9 = resize_bicubic_grad(%0) : f32[4,6,5,7]\n"},
};

static void others_of_terms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_lines(others[i].inputs, others[i].lines, -1, 1, false);
}

#define QKV                                                                                \
    "  %0 = input {name=\"q\"} : f32[4,20,16]\n  %1 = input {name=\"k\"} : f32[4,24,16]\n" \
    "  %2 = input {name=\"v\"} : f32[4,24,16]\n"                                           \
    "  %3 = input {name=\"o\"} : f32[4,20,16]\n  %4 = input {name=\"lse\"} : f32[4,20]\n"
#define GRADIENT(name, result) "  %9 = " name "(%0, %1, %2, %3, %4, %5) {scale=0.25} : " result "\n"

static void attention(void **state) {
    (void)state;
    static const char *const lines[] = {
        "  %9 = sdpa(%0, %1, %2) {scale=0.25} : f32[4,20,16]\n",
        "  %9 = sdpa_lse(%0, %1) {scale=0.25} : f32[4,20]\n",
        GRADIENT("sdpa_grad_q", "f32[4,20,16]"),
        GRADIENT("sdpa_grad_k", "f32[4,24,16]"),
        GRADIENT("sdpa_grad_v", "f32[4,24,16]"),
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        check_lines(QKV "  %5 = input {name=\"d\"} : f32[4,20,16]\n", lines[i], -1, 1, false);
}

/* What IEEE 754 has rounded once, and so what a machine does; the rest is not. */
static void once_rounded_are_what_ieee_754_says(void **state) {
    (void)state;
    static const tcc_op ops[] = {TCC_OP_ADD, TCC_OP_SUB, TCC_OP_MUL, TCC_OP_DIV, TCC_OP_SQRT};
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        bool once = false;
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) once = once || ops[i] == (tcc_op)op;
        if (once != !strcmp(rules[op].noise, "POINT")) fail_msg("%s", tcc_op_get_info((tcc_op)op)->text);
    }
}

/* Between ranks errors are sums' (collectives); constants are inexact only where passes are judged. */
static void every_rule_is_judged(void **state) {
    (void)state;
    for (int op = 0; op < TCC_OP_COUNT; op++)
        if (strcmp(rules[op].noise, "NONE") && !seen[op] && op != TCC_OP_ALL_REDUCE && op != TCC_OP_REDUCE_SCATTER &&
            op != TCC_OP_CONSTANT)
            fail_msg("%s: nothing judges its noise", tcc_op_get_info((tcc_op)op)->text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(points),
                                       cmocka_unit_test(sums_of_terms),
                                       cmocka_unit_test(others_of_terms),
                                       cmocka_unit_test(attention),
                                       cmocka_unit_test(once_rounded_are_what_ieee_754_says),
                                       cmocka_unit_test(every_rule_is_judged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
