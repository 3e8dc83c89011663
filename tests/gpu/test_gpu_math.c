/* SPDX-License-Identifier: MIT
 * Elementary functions on a GPU against the C library in double precision: error in ulp over all exponents, and special
 * values. The stand-in's approximate instructions err as much as the PTX ISA lets them. */
#include "harness/check.h"
#include "harness/exact.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "ir/support/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double rsqrt(double x) { return 1 / sqrt(x); }

static const struct function {
    const char *name;
    double (*exact)(double x);
    double bound; /* ulp */
    bool flushes; /* a result below 2^-126 may be 0 */
} functions[] = {
    {"exp", exp, 4, false},
    {"log", log, 0.9, false},
    {"tanh", tanh, 3.6, false},
    {"erf", erf, 2, false},
    {"sigmoid", exact_sigmoid, 6, true},
    {"rsqrt", rsqrt, 2.2, false},
    {"sin", sin, 0.51, false},
    {"cos", cos, 0.51, false},
    {"expm1", expm1, 1.05, false},
    {"log1p", log1p, 0.9, false},
    {"atan", atan, 1.25, false},
    {"sinh", sinh, 1.45, false},
    {"cosh", cosh, 1.26, false},
    {"erfinv", exact_erfinv, 4.5, false},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions, COUNT = 1 << 16 };

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Distance of y from the exact value, in units of the last place of a float near it. */
static double error_ulp(float y, double exact, bool flushes) {
    if (isnan(exact)) return isnan(y) ? 0 : INFINITY;
    float nearest = (float)exact;
    if (y == nearest || (flushes && fabs(exact) < 0x1.0001p-126 && y == 0)) return 0;
    if (isinf(y) || isinf(nearest)) return isinf(y) && fabs(exact) > 0.999999 * 0x1.ffffffp127 ? 0 : INFINITY;
    int exponent;
    frexp(exact, &exponent);
    if (exponent < -125) exponent = -125;
    return fabs((double)y - exact) / ldexp(1, exponent - 24);
}

static gpu_program *program_of(const char *name, const char *type, const char *arch) {
    char text[256];
    snprintf(text, sizeof text,
             "graph @f {\n  %%0 = input {name=\"x\"} : %s[%d]\n  %%1 = %s(%%0) : %s[%d]\n  output \"y\" %%1\n}\n", type,
             COUNT, name, type, COUNT);
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    gpu_program *p = gpu_program_create(g, &(compiled_options){0}, arch);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    return p;
}

/* Every exponent and sign, numbers around 0 with a step that is a prime to powers of two, and special values. */
static void fill(float *x) {
    static const float special[] = {0,
                                    -0.0f,
                                    INFINITY,
                                    -INFINITY,
                                    NAN,
                                    1,
                                    -1,
                                    0x1p-149f,
                                    -0x1p-149f,
                                    0x1p-126f,
                                    0x1.fffffep127f,
                                    -0x1.fffffep127f,
                                    88.72284f,
                                    -88.72284f,
                                    -103.97208f,
                                    -87.4f,
                                    88.72283f,
                                    0.63f,
                                    0.9375f,
                                    3.95f,
                                    -0x1p-127f,
                                    2,
                                    0.5f,
                                    0x1.fffffep-1f,
                                    0x1.000002p0f};
    enum { N_SPECIAL = sizeof special / sizeof *special };
    int n = COUNT / 2;
    for (int i = 0; i < n; i++)
        x[i] = from_bits((uint32_t)((uint64_t)i * 131101u + 7u)); /* 2^32 / n, and a little more */
    for (int i = n; i < COUNT; i++) x[i] = (float)(i - n - n / 2) * 0.0075f + 0.00123f;
    memcpy(x, special, sizeof special);
    assert_true(N_SPECIAL < n);
}

static void errors_stay_below_the_bound(void **state) {
    (void)state;
    static const char *const archs[] = {"sm_75", "sm_90"};
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    fill(x);
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int a = 0; a < 2; a++) {
            gpu_program *p = program_of(functions[f].name, "f32", archs[a]);
            gpu_program_upload(p, 0, x);
            gpu_program_run(p);
            gpu_program_download(p, compiled_output_binding(p->graph, 0), y);
            double worst = 0;
            float worst_at = 0;
            for (int i = 0; i < COUNT; i++) {
                double exact = functions[f].exact((double)x[i]), error = error_ulp(y[i], exact, functions[f].flushes);
                if (error > worst) worst = error, worst_at = x[i];
                if ((exact == 0 || isinf(exact)) && !signbit(y[i]) != !signbit(exact))
                    fail_msg("%s of %a: %a", functions[f].name, (double)x[i], (double)y[i]);
            }
            print_message("%-8s %s %.3f ulp at %a\n", functions[f].name, archs[a], worst, (double)worst_at);
            if (!(worst <= functions[f].bound))
                fail_msg("%s is %.3f ulp off at %a", functions[f].name, worst, (double)worst_at);
            gpu_program_destroy(p);
        }
    free(x), free(y);
}

/* Of every argument of 16 bits the nearest number, or the one beside it where the exact value lies in the middle of
 * both. */
static void sines_of_narrow_types(void **state) {
    (void)state;
    static const struct {
        const char *type;
        float (*widen)(uint16_t bits);
        int digits, least; /* of the significand; exponent of the least number that is no denormal, as frexp has it */
    } types[] = {{"f16", tcc_f16_to_f32, 11, -13}, {"bf16", tcc_bf16_to_f32, 8, -125}};
    uint16_t *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    for (int i = 0; i < COUNT; i++) x[i] = (uint16_t)i;
    for (int t = 0; t < 2; t++)
        for (int f = 0; f < 2; f++) {
            gpu_program *p = program_of(f ? "cos" : "sin", types[t].type, "sm_90");
            gpu_program_upload(p, 0, x);
            gpu_program_run(p);
            gpu_program_download(p, compiled_output_binding(p->graph, 0), y);
            for (int i = 0; i < COUNT; i++) {
                const double of = (double)types[t].widen(x[i]), got = (double)types[t].widen(y[i]),
                             exact = f ? cos(of) : sin(of);
                int exponent;
                frexp(exact, &exponent);
                if (exponent < types[t].least) exponent = types[t].least;
                if (isnan(exact) ? !isnan(got) : !(fabs(got - exact) <= 0.501 * ldexp(1, exponent - types[t].digits)))
                    fail_msg("%s of %a in %s: %a, not %a", f ? "cos" : "sin", of, types[t].type, got, exact);
                if (!isnan(exact)) assert_int_equal(!signbit(got), !signbit(exact));
            }
            gpu_program_destroy(p);
        }
    free(x), free(y);
}

/* Rows whose elements reach from far below the least exp that is no denormal, up to inf and -inf. */
static void softmax_of_far_elements(void **state) {
    (void)state;
    check_gpu_text("graph @s {\n  %0 = input {name=\"x\"} : f32[40,96]\n  %1 = softmax(%0) {axis=1} : f32[40,96]\n  "
                   "output \"y\" %1\n}\n",
                   &(compiled_options){.low = -90, .high = 90, .tolerance = 4e-6});
    enum { ROWS = 4, WIDTH = 32 };
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @s {\n  %0 = input {name=\"x\"} : f32[4,32]\n  %1 = softmax(%0) {axis=1} : "
                               "f32[4,32]\n  output \"y\" %1\n}\n",
                               &diag);
    gpu_program *p = gpu_program_create(g, &(compiled_options){0}, "sm_90");
    float x[ROWS][WIDTH] = {0}, y[ROWS][WIDTH];
    x[0][3] = -INFINITY, x[1][4] = NAN, x[2][5] = INFINITY, x[3][6] = 3e38f, x[3][7] = -3e38f;
    gpu_program_upload(p, 0, x);
    gpu_program_run(p);
    gpu_program_download(p, compiled_output_binding(p->graph, 0), y);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(i == 3 ? y[0][i] == 0 : fabs((double)y[0][i] * (WIDTH - 1) - 1) < 1e-6);
        assert_true(isnan(y[1][i]));
        assert_true(i == 5 ? isnan(y[2][i]) : y[2][i] == 0 || isnan(y[2][i]));
        assert_true(y[3][i] == (i == 6 ? 1 : 0));
    }
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_stay_below_the_bound),
                                       cmocka_unit_test(sines_of_narrow_types),
                                       cmocka_unit_test(softmax_of_far_elements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
