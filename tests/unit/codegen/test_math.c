/* SPDX-License-Identifier: MIT
 * The vector math functions against the C library in double precision: error in ulp over all exponents, special values,
 * and the same bits from every vector width.
 *
 *     TCC_TEST_STRIDE=1 TCC_TEST_FUNCTIONS=exp,erf     all 2^32 arguments of these functions, each in minutes */
#include "codegen/emit/math.h"
#include "harness/object.h"
#include "harness/exact.h"
#include "ir/support/dtype.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double exp_flushed(double x) { return x < -126.5 * M_LN2 ? 0 : exp(x); } /* below 2^-126.5 */

static double erf_slope(double x) { return M_2_SQRTPI * exp(-x * x); }

static double power(double x) { return pow(x, 1.7f); }
static double root(double x) { return pow(x, -0.3f); }
static double cube(double x) { return x * x * x; }

static tcc_emit_value emit_exp2(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_pow(e, tcc_emit_float(e, tcc_emit_type_of(x), 2), x);
}
static tcc_emit_value emit_power(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_pow(e, x, tcc_emit_float(e, tcc_emit_type_of(x), 1.7f));
}
static tcc_emit_value emit_root(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_pow(e, x, tcc_emit_float(e, tcc_emit_type_of(x), -0.3f));
}
static tcc_emit_value emit_cube(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_pow(e, x, tcc_emit_float(e, tcc_emit_type_of(x), 3));
}

/* Or what stands for it where the target has no short way. */
static tcc_emit_value emit_erf_slope(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value slope = tcc_math_erf_slope(e, x);
    if (slope) return slope;
    tcc_emit_value power = tcc_emit_fneg(e, tcc_emit_fmul(e, x, x));
    return tcc_emit_fmul(e, tcc_math_exp(e, power), tcc_emit_float(e, tcc_emit_type_of(x), M_2_SQRTPI));
}

static const struct function {
    const char *name;
    tcc_emit_value (*emit)(tcc_emitter *e, tcc_emit_value x);
    double (*exact)(double x);
    double bound; /* ulp */
    float from, to;
    bool of_one; /* the error is in ulp of 1, not of the result */
} functions[] = {
    {"exp", tcc_math_exp, exp, 1.05, -INFINITY, INFINITY, false},
    {"exp_negative", tcc_math_exp_negative, exp_flushed, 1.05, -INFINITY, 0, false},
    {"log", tcc_math_log, log, 0.9, -INFINITY, INFINITY, false},
    {"tanh", tcc_math_tanh, tanh, 1.2, -INFINITY, INFINITY, false},
    {"erf", tcc_math_erf, erf, 1.1, -INFINITY, INFINITY, false},
    {"erfinv", tcc_math_erfinv, exact_erfinv, 2.85, -INFINITY, INFINITY, false},
    {"sigmoid", tcc_math_sigmoid, exact_sigmoid, 2.1, -INFINITY, INFINITY, false},
    {"expm1", tcc_math_expm1, expm1, 1.05, -INFINITY, INFINITY, false},
    {"expm1_negative", tcc_math_expm1, expm1, 0.85, -INFINITY, 0, false},
    {"log1p", tcc_math_log1p, log1p, 1.1, -INFINITY, INFINITY, false},
    {"atan", tcc_math_atan, atan, 1.25, -INFINITY, INFINITY, false},
    {"sinh", tcc_math_sinh, sinh, 1.45, -INFINITY, INFINITY, false},
    {"cosh", tcc_math_cosh, cosh, 1.26, -INFINITY, INFINITY, false},
    {"sin", tcc_math_sin, sin, 0.501, -INFINITY, INFINITY, false},
    {"cos", tcc_math_cos, cos, 0.501, -INFINITY, INFINITY, false},
    {"narrow_sin", tcc_math_narrow_sin, sin, 3, -INFINITY, INFINITY, true},
    {"narrow_cos", tcc_math_narrow_cos, cos, 3, -INFINITY, INFINITY, true},
    {"exp2", emit_exp2, exp2, 1, -INFINITY, INFINITY, false},
    {"power", emit_power, power, 0.55, -INFINITY, INFINITY, false},
    {"root", emit_root, root, 0.55, -INFINITY, INFINITY, false},
    {"cube", emit_cube, cube, 0.55, -INFINITY, INFINITY, false},
    {"erf_slope", emit_erf_slope, erf_slope, 1.3, -INFINITY, INFINITY, true},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static const int widths[] = {16, 64, 32, 8, 4, 1};
enum { N_WIDTHS = sizeof widths / sizeof *widths };

/* One kernel a function and lane count: y[i] = f(x[i]), an item is one vector. */
static void emit_map(tcc_emitter *e, const struct function *f, int lanes) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "%s_%d", f->name, lanes);
    tcc_emit_type type = tcc_emit_vector_type(e->f32, lanes);
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value x = tcc_emit_buffer(e, 0), y = tcc_emit_buffer(e, 1);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value at = tcc_emit_mul(e, items.index, tcc_emit_i64(e, lanes));
    tcc_emit_value value = tcc_emit_load(e, type, tcc_emit_at(e, e->f32, x, at), 0);
    tcc_emit_store(e, f->emit(e, value), tcc_emit_at(e, e->f32, y, at), 0);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}

static tcc_host_kernel find(test_object *o, const struct function *f, int lanes) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "%s_%d", f->name, lanes);
    return test_object_kernel(o, symbol);
}

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Distance of y from the exact value, in units of the last place of a float near it or near 1. */
static double error_ulp(const struct function *f, float y, double exact) {
    if (isnan(exact)) return isnan(y) ? 0 : INFINITY;
    float nearest = (float)exact;
    if (y == nearest) return 0;
    if (f->of_one) return fabs((double)y - exact) / FLT_EPSILON;
    if (isinf(y) || isinf(nearest)) {
        double limit = 0x1.ffffffp127; /* rounds to infinity from here on */
        return isinf(y) && fabs(exact) > 0.999999 * limit ? 0 : INFINITY;
    }
    int exponent;
    frexp(exact, &exponent);
    if (exponent < -125) exponent = -125;
    return fabs((double)y - exact) / ldexp(1, exponent - 24);
}

enum { CHUNK = 1 << 12 };

static bool is_wanted(const char *name) {
    const char *names = getenv("TCC_TEST_FUNCTIONS");
    const size_t length = strlen(name);
    for (const char *at = names; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !strncmp(at, name, length)) return true;
    return !names;
}

static void check_errors(const char *cpu) {
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(cpu, &diag, &target), TCC_OK);
    tcc_emitter e;
    assert_int_equal(tcc_emitter_init(&e, &target, "math", &diag), TCC_OK);
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int w = 0; w < N_WIDTHS; w++) emit_map(&e, &functions[f], widths[w]);
    test_object *o = test_object_load(&e);
    float *x = malloc(CHUNK * sizeof *x), *y = malloc(CHUNK * sizeof *y), *z = malloc(CHUNK * sizeof *z);
    const char *given = getenv("TCC_TEST_STRIDE");
    const uint64_t stride = given ? strtoull(given, NULL, 0) : 40009;
    assert_true(stride > 0);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        if (!is_wanted(functions[f].name)) continue;
        double worst = 0;
        float worst_at = 0;
        uint64_t bits = 0;
        while (bits < (uint64_t)1 << 32) {
            int n = 0;
            for (; n < CHUNK && bits < (uint64_t)1 << 32; bits += stride) {
                x[n] = from_bits((uint32_t)bits);
                if (!(x[n] < functions[f].from) && !(x[n] > functions[f].to)) n++;
            }
            for (int i = n; i < CHUNK; i++) x[i] = 0;
            find(o, &functions[f], 16)((void *[]){x, y}, NULL, 0, CHUNK / 16, NULL);
            for (int w = 1; w < N_WIDTHS; w++) {
                find(o, &functions[f], widths[w])((void *[]){x, z}, NULL, 0, CHUNK / widths[w], NULL);
                for (int i = 0; i < n; i++) assert_true(isnan(y[i]) ? isnan(z[i]) : !memcmp(&y[i], &z[i], sizeof *y));
            }
            for (int i = 0; i < n; i++) {
                double error = error_ulp(&functions[f], y[i], functions[f].exact((double)x[i]));
                if (error > worst) worst = error, worst_at = x[i];
            }
        }
        print_message("%-9s %-14s %.3f ulp at %a\n", cpu ? cpu : "this CPU", functions[f].name, worst,
                      (double)worst_at);
        assert_true(worst <= functions[f].bound);
    }
    free(x), free(y), free(z);
    test_object_free(o);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
}

static void errors_stay_below_the_bound(void **state) {
    (void)state;
    check_errors(NULL);
}

/* A machine with AVX-512 computes some functions by other instructions than one with AVX2, whose code it can run. */
static void errors_stay_below_the_bound_with_avx2(void **state) {
    (void)state;
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(NULL, &diag, &target), TCC_OK);
    bool wider = target.lanes == 16;
    tcc_llvm_target_clear(&target);
    if (!wider) skip();
    check_errors("x86-64-v3");
}

static void special_values_are_those_of_libm(void **state) {
    (void)state;
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(NULL, &diag, &target), TCC_OK);
    tcc_emitter e;
    assert_int_equal(tcc_emitter_init(&e, &target, "math", &diag), TCC_OK);
    for (int f = 0; f < N_FUNCTIONS; f++) emit_map(&e, &functions[f], 16);
    test_object *o = test_object_load(&e);
    float x[16] = {
        0,          -0.0f,     INFINITY,        -INFINITY,        NAN,       1,          -1,          0x1p-149f,
        -0x1p-149f, 0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f, 88.72284f, -88.72284f, -103.97208f, -87.4f};
    for (int f = 0; f < N_FUNCTIONS; f++) {
        float y[16];
        find(o, &functions[f], 16)((void *[]){x, y}, NULL, 0, 1, NULL);
        for (int i = 0; i < 16; i++) {
            if (x[i] > functions[f].to) continue;
            float exact = (float)functions[f].exact((double)x[i]);
            if (isnan(exact)) assert_true(isnan(y[i]));
            else if (exact == 0 || isinf(exact)) assert_true(y[i] == exact && signbit(y[i]) == signbit(exact));
            else assert_true(error_ulp(&functions[f], y[i], functions[f].exact((double)x[i])) <= functions[f].bound);
        }
    }
    test_object_free(o);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
}

/* All arguments of 16 bits: bf16 are the upper halves of f32. */
static void narrow_sines_of_narrow_arguments(void **state) {
    (void)state;
    enum { VALUES = 1 << 16 };
    static const struct function sines[] = {{.name = "narrow_sin", .emit = tcc_math_narrow_sin, .exact = sin},
                                            {.name = "narrow_cos", .emit = tcc_math_narrow_cos, .exact = cos}};
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(NULL, &diag, &target), TCC_OK);
    tcc_emitter e;
    assert_int_equal(tcc_emitter_init(&e, &target, "math", &diag), TCC_OK);
    for (int f = 0; f < 2; f++) emit_map(&e, &sines[f], 16);
    test_object *o = test_object_load(&e);
    float *x = malloc(VALUES * sizeof *x), *y = malloc(VALUES * sizeof *y);
    for (int f16 = 0; f16 < 2; f16++) {
        for (uint32_t i = 0; i < VALUES; i++) x[i] = f16 ? tcc_f16_to_f32((uint16_t)i) : from_bits(i << 16);
        for (int f = 0; f < 2; f++) {
            find(o, &sines[f], 16)((void *[]){x, y}, NULL, 0, VALUES / 16, NULL);
            for (int i = 0; i < VALUES; i++) {
                const double exact = sines[f].exact((double)x[i]);
                if (isnan(exact)) assert_true(isnan(y[i]));
                else if (!(fabs((double)y[i] - exact) <= 0x1p-21 * fabs(exact)))
                    fail_msg("%s(%a): %a, not %a", sines[f].name, (double)x[i], (double)y[i], exact);
                else assert_int_equal(!signbit(y[i]), !signbit(exact));
            }
        }
    }
    free(x), free(y);
    test_object_free(o);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_stay_below_the_bound),
        cmocka_unit_test(errors_stay_below_the_bound_with_avx2),
        cmocka_unit_test(special_values_are_those_of_libm),
        cmocka_unit_test(narrow_sines_of_narrow_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
