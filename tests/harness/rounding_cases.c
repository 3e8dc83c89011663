/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/rounding_cases.h"
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "harness/graphs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const narrow[] = {"f16", "bf16"};
enum { NARROW = sizeof narrow / sizeof *narrow };

/* `text` with `type` for each $. */
static tcc_graph *graph_of(const char *text, const char *type, tcc_diag *diag) {
    tcc_strbuf full = {0};
    for (; *text; text++) {
        if (*text == '$') tcc_strbuf_add(&full, type);
        else tcc_strbuf_printf(&full, "%c", *text);
    }
    tcc_graph *g = parse_graph(full.text, diag);
    tcc_strbuf_free(&full);
    return g;
}

/* Inputs named n... are whole numbers in low .. high, all others any numbers there. */
static tcc_value *inputs_of(const tcc_graph *g, double low, double high) {
    tcc_value *values = calloc((size_t)g->inputs.count + 1, sizeof *values);
    uint64_t state = 7;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_type *type = &g->inputs.data[i]->type;
        const bool whole = g->inputs.data[i]->attrs->input.name[0] == 'n';
        assert_int_equal(tcc_value_create(type, &values[i], NULL), TCC_OK);
        for (int64_t e = 0, count = tcc_type_numel(type); e < count; e++) {
            const double x = test_random(&state, low, high);
            if (tcc_dtype_is_float(type->dtype)) values[i].f[e] = whole ? floor(x) : x;
            else values[i].i[e] = (int64_t)floor(x);
        }
    }
    return values;
}

/* Fused and not. */
static void check_with(graph_check *check, const char *text, const char *type, double low, double high) {
    tcc_diag diag = {0};
    tcc_graph *g = graph_of(text, type, &diag);
    tcc_value *inputs = inputs_of(g, low, high);
    for (int eager = 0; eager < 2; eager++)
        check(g, &(compiled_options){.inputs = inputs, .exact = true, .eager = eager});
    free_values(inputs, g->inputs.count);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static const char arithmetic[] =
    "graph @chain {\n"
    "  %0 = input {name=\"x\"} : $[1003]\n"
    "  %1 = input {name=\"y\"} : $[1003]\n"
    "  %2 = input {name=\"z\"} : $[1003]\n"
    "  %3 = mul(%0, %1) : $[1003]\n" /* a b + c: one rounding too few where it is one instruction */
    "  %4 = add(%3, %2) : $[1003]\n"
    "  %5 = sub(%4, %0) : $[1003]\n"
    "  %6 = abs(%1) : $[1003]\n"
    "  %7 = constant {values=[0.125]} : $[1003]\n"
    "  %8 = max(%6, %7) : $[1003]\n"
    "  %9 = div(%5, %8) : $[1003]\n"
    "  %10 = abs(%9) : $[1003]\n"
    "  %11 = sqrt(%10) : $[1003]\n"
    "  %12 = mul(%11, %3) : $[1003]\n"
    "  %13 = neg(%12) : $[1003]\n"
    "  %14 = add(%13, %4) : $[1003]\n"
    "  %15 = gt(%14, %5) : bool[1003]\n"
    "  %16 = select(%15, %14, %11) : $[1003]\n"
    "  %17 = cast(%16) : f32[1003]\n"
    "  %18 = mul(%17, %17) : f32[1003]\n"
    "  %19 = cast(%18) : $[1003]\n"
    "  %20 = sub(%19, %9) : $[1003]\n"
    "  output \"last\" %20\n"
    "  output \"chosen\" %16\n"
    "  output \"wide\" %18\n"
    "  output \"product\" %3\n"
    "}\n";

/* Through views, to a result of f32. */
static const char views[] = "graph @views {\n"
                            "  %0 = input {name=\"x\"} : $[37,70]\n"
                            "  %1 = input {name=\"b\"} : $[70]\n"
                            "  %2 = broadcast(%1) {dims=[1]} : $[37,70]\n"
                            "  %3 = mul(%0, %2) : $[37,70]\n"
                            "  %4 = transpose(%3) {perm=[1, 0]} : $[70,37]\n"
                            "  %5 = add(%4, %4) : $[70,37]\n"
                            "  %6 = mul(%5, %4) : $[70,37]\n"
                            "  %7 = pad(%6) {lo=[1, 0], hi=[0, 2], interior=[0, 0], value=0.5} : $[71,39]\n"
                            "  %8 = mul(%7, %7) : $[71,39]\n"
                            "  %9 = cast(%8) : f32[71,39]\n"
                            "  output \"o\" %9\n"
                            "  output \"p\" %6\n"
                            "}\n";

/* x x overflows where |x| is large: infinity times 0 is no number, and a limit behind it is no cure for what is. */
static const char overflow[] = "graph @overflow {\n"
                               "  %0 = input {name=\"x\"} : $[517]\n"
                               "  %1 = mul(%0, %0) : $[517]\n"
                               "  %2 = constant {values=[0]} : $[517]\n"
                               "  %3 = mul(%1, %2) : $[517]\n"
                               "  %4 = constant {values=[1024]} : $[517]\n"
                               "  %5 = min(%1, %4) : $[517]\n"
                               "  %6 = div(%0, %1) : $[517]\n"
                               "  %7 = sub(%1, %1) : $[517]\n"
                               "  %8 = isfinite(%1) : bool[517]\n"
                               "  %9 = add(%1, %0) : $[517]\n"
                               "  %10 = sqrt(%9) : $[517]\n"
                               "  output \"nothing\" %3\n"
                               "  output \"limited\" %5\n"
                               "  output \"quotient\" %6\n"
                               "  output \"difference\" %7\n"
                               "  output \"finite\" %8\n"
                               "  output \"root\" %10\n"
                               "}\n";

/* f32 of each exponent, halfway between neighbours of the narrow type, beside that, and NaN; denormals among others and
 * among themselves. */
void rounded_borders(graph_check *check) {
    enum { EXPONENTS = 256, STEPS = 8, FLOATS = 2 * EXPONENTS * STEPS };
    static const uint32_t fractions[STEPS] = {0, 1, 0x7fff, 0x8000, 0x8001, 0x18000, 0x7f8000, 0x7fffff};
    for (int i = 0; i < NARROW; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = graph_of("graph @cast {\n  %0 = input {name=\"x\"} : f32[4096]\n  %1 = cast(%0) : $[4096]\n"
                                "  output \"y\" %1\n}\n",
                                narrow[i], &diag);
        tcc_value *inputs = inputs_of(g, 0, 1);
        for (uint32_t n = 0; n < FLOATS; n++) {
            const uint32_t bits = (n % 2) << 31 | (n / 2 / STEPS) << 23 | fractions[n / 2 % STEPS];
            float x;
            memcpy(&x, &bits, sizeof x);
            inputs[0].f[n] = x;
        }
        check(g, &(compiled_options){.inputs = inputs, .exact = true});
        free_values(inputs, 1);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

void rounded_chains(graph_check *check) {
    for (int t = 0; t < NARROW; t++) {
        const double large = t ? 0x1p66 : 400, small = t ? 0x1p-66 : 0x1p-12;
        check_with(check, arithmetic, narrow[t], -2, 2);
        check_with(check, arithmetic, narrow[t], -large, large);
        check_with(check, arithmetic, narrow[t], -small, small);
        check_with(check, views, narrow[t], -2, 2);
        check_with(check, overflow, narrow[t], -large, large);
        check_with(check, overflow, narrow[t], -small, small);
    }
}

static const char reduction[] = "graph @reduction {\n"
                                "  %0 = input {name=\"n\"} : $[40,300]\n"
                                "  %1 = input {name=\"b\"} : $[40]\n"
                                "  %2 = reduce_sum(%0) {axes=[1]} : $[40]\n"
                                "  %3 = add(%2, %1) : $[40]\n"
                                "  %4 = mul(%3, %1) : $[40]\n"
                                "  %5 = broadcast(%4) {dims=[0]} : $[40,300]\n"
                                "  %6 = sub(%0, %5) : $[40,300]\n"
                                "  %7 = mul(%6, %0) : $[40,300]\n"
                                "  %8 = reduce_max(%7) {axes=[1]} : $[40]\n"
                                "  %9 = sub(%8, %4) : $[40]\n"
                                "  output \"o\" %7\n"
                                "  output \"p\" %4\n"
                                "  output \"q\" %9\n"
                                "}\n";

static const char columns[] = "graph @columns {\n"
                              "  %0 = input {name=\"n\"} : $[700,24]\n"
                              "  %1 = input {name=\"m\"} : $[24]\n"
                              "  %2 = reduce_sum(%0) {axes=[0]} : $[24]\n"
                              "  %3 = mul(%2, %1) : $[24]\n"
                              "  %4 = sub(%3, %2) : $[24]\n"
                              "  output \"o\" %4\n"
                              "}\n";

static const char parts[] = "graph @parts {\n"
                            "  %0 = input {name=\"n\"} : $[3,90000]\n"
                            "  %1 = reduce_sum(%0) {axes=[1]} : $[3]\n"
                            "  %2 = constant {values=[0.3]} : $[3]\n"
                            "  %3 = mul(%1, %2) : $[3]\n"
                            "  %4 = add(%3, %1) : $[3]\n"
                            "  output \"o\" %4\n"
                            "}\n";

static const char running[] = "graph @running {\n"
                              "  %0 = input {name=\"n\"} : $[5,300]\n"
                              "  %1 = input {name=\"m\"} : $[5,300]\n"
                              "  %2 = cumsum(%0) {axis=1} : $[5,300]\n"
                              "  %3 = mul(%2, %1) : $[5,300]\n"
                              "  %4 = sub(%3, %0) : $[5,300]\n"
                              "  output \"o\" %4\n"
                              "}\n";

static const char window[] = "graph @window {\n"
                             "  %0 = input {name=\"n\"} : $[2,3,16,16]\n"
                             "  %1 = avg_pool(%0) {window=[4, 4], stride=[4, 4], pad_lo=[0, 0], pad_hi=[0, 0]} : "
                             "$[2,3,4,4]\n"
                             "  %2 = mul(%1, %1) : $[2,3,4,4]\n"
                             "  %3 = add(%2, %1) : $[2,3,4,4]\n"
                             "  output \"o\" %3\n"
                             "}\n";

/* A bias, a residual, an activation. */
static const char product[] = "graph @product {\n"
                              "  %0 = input {name=\"n\"} : $[64,96]\n"
                              "  %1 = input {name=\"nw\"} : $[96,80]\n"
                              "  %2 = input {name=\"b\"} : $[80]\n"
                              "  %3 = input {name=\"r\"} : $[64,80]\n"
                              "  %4 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : $[64,80]\n"
                              "  %5 = broadcast(%2) {dims=[1]} : $[64,80]\n"
                              "  %6 = add(%4, %5) : $[64,80]\n"
                              "  %7 = constant {values=[0]} : $[64,80]\n"
                              "  %8 = max(%6, %7) : $[64,80]\n"
                              "  %9 = mul(%8, %3) : $[64,80]\n"
                              "  %10 = add(%9, %3) : $[64,80]\n"
                              "  output \"o\" %10\n"
                              "  output \"p\" %6\n"
                              "}\n";

/* Its operand is computed too. */
static const char operand[] = "graph @operand {\n"
                              "  %0 = input {name=\"n\"} : $[48,64]\n"
                              "  %1 = input {name=\"nw\"} : $[64,40]\n"
                              "  %2 = constant {values=[1.5]} : $[48,64]\n"
                              "  %3 = mul(%0, %2) : $[48,64]\n"
                              "  %4 = add(%3, %0) : $[48,64]\n"
                              "  %5 = dot(%4, %1) {contract_a=[1], contract_b=[0]} : $[48,40]\n"
                              "  %6 = mul(%5, %5) : $[48,40]\n"
                              "  %7 = sub(%6, %5) : $[48,40]\n"
                              "  output \"o\" %7\n"
                              "}\n";

static const char convolution[] =
    "graph @convolution {\n"
    "  %0 = input {name=\"n\"} : $[2,8,12,12]\n"
    "  %1 = input {name=\"nw\"} : $[16,8,5,5]\n"
    "  %2 = input {name=\"b\"} : $[16]\n"
    "  %3 = conv(%0, %1) {stride=[1, 1], pad_lo=[2, 2], pad_hi=[2, 2], dilation=[1, 1], groups=1} : $[2,16,12,12]\n"
    "  %4 = broadcast(%2) {dims=[1]} : $[2,16,12,12]\n"
    "  %5 = add(%3, %4) : $[2,16,12,12]\n"
    "  %6 = mul(%5, %4) : $[2,16,12,12]\n"
    "  output \"o\" %6\n"
    "}\n";

static const char scattered[] = "graph @scattered {\n"
                                "  %0 = input {name=\"n\"} : $[6,20]\n"
                                "  %1 = input {name=\"i\"} : i32[90]\n"
                                "  %2 = input {name=\"nu\"} : $[90,20]\n"
                                "  %3 = constant {values=[0.7]} : $[90,20]\n"
                                "  %4 = mul(%2, %2) : $[90,20]\n"
                                "  %5 = scatter_add(%0, %1, %4) {axis=0} : $[6,20]\n"
                                "  %6 = mul(%5, %5) : $[6,20]\n"
                                "  output \"o\" %6\n"
                                "}\n";

void rounded_sums(graph_check *check) {
    static const char *const sums[] = {reduction, columns, parts,       running,  window,
                                       product,   operand, convolution, scattered};
    for (int t = 0; t < NARROW; t++)
        for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) check_with(check, sums[i], narrow[t], -3, 6);
}

static const char functions[] = "graph @functions {\n"
                                "  %0 = input {name=\"x\"} : $[1003]\n"
                                "  %1 = exp(%0) : $[1003]\n"
                                "  %2 = tanh(%1) : $[1003]\n"
                                "  %3 = add(%2, %0) : $[1003]\n"
                                "  %4 = sigmoid(%3) : $[1003]\n"
                                "  %5 = mul(%4, %1) : $[1003]\n"
                                "  %6 = gelu_tanh(%5) : $[1003]\n"
                                "  %7 = erf(%6) : $[1003]\n"
                                "  %8 = abs(%7) : $[1003]\n"
                                "  %9 = log1p(%8) : $[1003]\n"
                                "  %10 = rsqrt(%1) : $[1003]\n"
                                "  %11 = mul(%10, %9) : $[1003]\n"
                                "  %12 = sin(%11) : $[1003]\n"
                                "  %13 = pow(%1, %12) : $[1003]\n"
                                "  %14 = rem(%13, %4) : $[1003]\n"
                                "  %15 = gelu_tanh_grad(%3, %14) : $[1003]\n"
                                "  output \"o\" %15\n"
                                "  output \"p\" %6\n"
                                "}\n";

void rounded_functions(graph_run *run) {
    for (int t = 0; t < NARROW; t++) {
        tcc_diag diag = {0};
        tcc_graph *g = graph_of(functions, narrow[t], &diag);
        tcc_value *inputs = inputs_of(g, -3, 3);
        enum { OUTPUTS = 2 };
        void *bits[2][OUTPUTS];
        assert_int_equal(g->outputs.count, OUTPUTS);
        for (int eager = 0; eager < 2; eager++) run(g, inputs, &(compiled_options){.eager = eager}, bits[eager]);
        for (int i = 0; i < OUTPUTS; i++) {
            assert_memory_equal(bits[0][i], bits[1][i], (size_t)tcc_type_bytes(&g->outputs.data[i].node->type));
            free(bits[0][i]);
            free(bits[1][i]);
        }
        free_values(inputs, g->inputs.count);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}
