/* SPDX-License-Identifier: MIT
 * The code that computes indices in 64 bits, which a program needs where a tensor has more than 2^31 elements. Here the
 * bound is lowered, so that small programs have it. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *what, *text;
    double tolerance;
} programs[] = {
    {"pointwise",
     "graph @g {\n  %0 = input {name=\"x\"} : f32[6,33,7,10]\n  %1 = input {name=\"b\"} : f32[33]\n"
     "  %2 = broadcast(%1) {dims=[1]} : f32[6,33,7,10]\n  %3 = mul(%0, %2) : f32[6,33,7,10]\n"
     "  %4 = slice(%3) {start=[1, 2, 0, 3], limit=[5, 30, 7, 9], stride=[1, 3, 2, 1]} : f32[4,10,4,6]\n"
     "  output \"o\" %3\n  output \"s\" %4\n}\n",
     0},
    {"transpose",
     "graph @g {\n  %0 = input {name=\"x\"} : f32[3,40,5,36]\n"
     "  %1 = transpose(%0) {perm=[0, 3, 2, 1]} : f32[3,36,5,40]\n  %2 = exp(%1) : f32[3,36,5,40]\n"
     "  output \"o\" %2\n}\n",
     0},
    {"rows and columns",
     "graph @g {\n  %0 = input {name=\"x\"} : f32[70,301]\n  %1 = softmax(%0) {axis=1} : f32[70,301]\n"
     "  %2 = reduce_sum(%0) {axes=[0]} : f32[301]\n  output \"o\" %1\n  output \"s\" %2\n}\n",
     1e-4},
    {"running sums",
     "graph @g {\n  %0 = input {name=\"x\"} : f32[5,700]\n  %1 = cumsum(%0) {axis=1} : f32[5,700]\n"
     "  output \"o\" %1\n}\n",
     1e-4},
    {"take and scatter",
     "graph @g {\n  %0 = input {name=\"w\"} : f32[50,96]\n  %1 = input {name=\"t\"} : i32[4,9]\n"
     "  %2 = take(%0, %1) {axis=0} : f32[4,9,96]\n  %3 = scatter_add(%0, %1, %2) {axis=0} : f32[50,96]\n"
     "  output \"o\" %2\n  output \"s\" %3\n}\n",
     1e-4},
    {"windows",
     "graph @g {\n  %0 = input {name=\"x\"} : f32[2,16,18,12]\n"
     "  %1 = max_pool(%0) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], channels_last=true} : "
     "f32[2,8,9,12]\n  output \"o\" %1\n}\n",
     0},
    {"products",
     "graph @g {\n  %0 = input {name=\"a\"} : f32[2,70,130]\n  %1 = input {name=\"b\"} : f32[2,130,36]\n"
     "  %2 = dot(%0, %1) {contract_a=[2], contract_b=[1], batch_a=[0], batch_b=[0]} : f32[2,70,36]\n"
     "  output \"o\" %2\n}\n",
     1e-4},
    {"tensor cores",
     "graph @g {\n  %0 = input {name=\"a\"} : f16[72,128]\n  %1 = input {name=\"b\"} : f16[128,80]\n"
     "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f16[72,80]\n  output \"o\" %2\n}\n",
     1e-3},
    {"convolution",
     "graph @g {\n  %0 = input {name=\"x\"} : f32[2,9,10,16]\n  %1 = input {name=\"w\"} : f32[24,3,3,16]\n"
     "  %2 = conv(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1, channels_last=true} "
     ": "
     "f32[2,9,10,24]\n  output \"o\" %2\n}\n",
     1e-4},
};

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
    return n;
}

/* Instructions that multiply, divide or shift in 64 bits. */
static int wide_instructions(const char *text, int64_t most_narrow) {
    static const char *const wide[] = {"mul.lo.s64", "mad.lo.s64", "mul.hi.u64", "div.u64", "rem.u64",
                                       "shl.b64",    "shr.u64",    "and.b64",    "add.s64"};
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    gpu_program *p = gpu_program_create(g, &(compiled_options){.simplify = true, .most_narrow = most_narrow}, "sm_90");
    int n = 0;
    for (int i = 0; i < p->program->n_modules; i++)
        for (size_t k = 0; k < sizeof wide / sizeof *wide; k++) n += count(p->program->modules[i].code, wide[k]);
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    return n;
}

/* With nothing in 32 bits that need not be, and with what is small in 32. */
static void test_programs(void **state) {
    (void)state;
    static const int64_t bounds[] = {1, 600};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const int usual = wide_instructions(programs[i].text, 0), wide = wide_instructions(programs[i].text, 1);
        printf("%s: %d instructions of 64 bits, %d where the bound is 1\n", programs[i].what, usual, wide);
        assert_true(wide > usual);
        for (int b = 0; b < 2; b++)
            check_gpu_text(programs[i].text, &(compiled_options){.simplify = true,
                                                                 .limit = 40,
                                                                 .most_narrow = bounds[b],
                                                                 .tolerance = programs[i].tolerance});
    }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
