/* SPDX-License-Identifier: MIT
 * Sines and remainders of f64 over all exponents, against the C library's: sines in long double, remainders exactly.
 * Huge arguments, powers of two, multiples of a quarter turn, and the same bits from every vector width. */
#include "codegen/emit/math64.h"
#include "harness/object.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct function {
    const char *name;
    tcc_emit_value (*emit)(tcc_emitter *e, tcc_emit_value x);
    tcc_emit_value (*emit_two)(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y);
} functions[] = {{"sin", tcc_math64_sin, NULL}, {"cos", tcc_math64_cos, NULL}, {"rem", NULL, tcc_math64_rem}};
enum { SIN, COS, REM, N_FUNCTIONS, COUNT = 1 << 15 };

static void name_kernel(char *symbol, size_t size, int f, int lanes) {
    snprintf(symbol, size, "%s_%d", functions[f].name, lanes);
}

/* z[i] = f(x[i], y[i]); an item is one vector. */
static void emit_map(tcc_emitter *e, int f, int lanes) {
    char symbol[64];
    name_kernel(symbol, sizeof symbol, f, lanes);
    tcc_emit_type type = tcc_emit_vector_type(e->f64, lanes);
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value from[2], to = tcc_emit_buffer(e, 2);
    for (int i = 0; i < 2; i++) from[i] = tcc_emit_buffer(e, i);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value at = tcc_emit_mul(e, items.index, tcc_emit_i64(e, lanes)), value[2];
    for (int i = 0; i < 2; i++) value[i] = tcc_emit_load(e, type, tcc_emit_at(e, e->f64, from[i], at), 0);
    tcc_emit_value z = functions[f].emit ? functions[f].emit(e, value[0])
                                         : functions[f].emit_two(e, value[0], value[1]);
    tcc_emit_store(e, z, tcc_emit_at(e, e->f64, to, at), 0);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}

typedef struct world {
    tcc_llvm_target target;
    tcc_emitter e;
    test_object *object;
    double x[COUNT], y[COUNT], z[COUNT], other[COUNT];
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(NULL, &diag, &w->target), TCC_OK);
    assert_int_equal(tcc_emitter_init(&w->e, &w->target, "far", &diag), TCC_OK);
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int lanes = 1; lanes <= 16; lanes *= 4) emit_map(&w->e, f, lanes);
    w->object = test_object_load(&w->e);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    test_object_free(w->object);
    tcc_emitter_clear(&w->e);
    tcc_llvm_target_clear(&w->target);
    free(w);
    return 0;
}

static uint64_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state ^ *state >> 33;
}

static double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* All widths give the same bits, in w->z. */
static void run(world *w, int f) {
    for (int lanes = 16; lanes; lanes /= 4) {
        char symbol[64];
        name_kernel(symbol, sizeof symbol, f, lanes);
        double *z = lanes == 16 ? w->z : w->other;
        test_object_kernel(w->object, symbol)((void *[]){w->x, w->y, z}, NULL, 0, COUNT / lanes, NULL);
        for (int i = 0; lanes < 16 && i < COUNT; i++)
            assert_true(isnan(z[i]) ? isnan(w->z[i]) : !memcmp(&z[i], &w->z[i], sizeof *z));
    }
}

/* The largest error, in units of the last place. */
static void check_sines(world *w, const char *what) {
    for (int f = SIN; f <= COS; f++) {
        run(w, f);
        double worst = 0, at = 0;
        for (int i = 0; i < COUNT; i++) {
            if (!isfinite(w->x[i])) {
                assert_true(isnan(w->z[i]));
                continue;
            }
            long double exact = f == SIN ? sinl((long double)w->x[i]) : cosl((long double)w->x[i]);
            assert_true(exact != 0 || !signbit(exact) == !signbit(w->z[i]));
            int exponent;
            frexpl(exact, &exponent);
            if (exponent < -1021) exponent = -1021;
            double error = (double)(fabsl((long double)w->z[i] - exact) / ldexpl(1, exponent - 53));
            if (error > worst || isnan(error)) worst = error, at = w->x[i];
        }
        print_message("%s of %s: %.3f ulp at %a\n", functions[f].name, what, worst, at);
        assert_true(worst <= 2.5);
    }
}

static void sines(void **state) {
    world *w = *state;
    uint64_t random = 1;
    if (LDBL_MANT_DIG < 64) skip(); /* nothing to compare with */
    for (int i = 0; i < COUNT; i++) w->x[i] = of_bits(next(&random));
    w->x[0] = INFINITY, w->x[1] = -INFINITY, w->x[2] = NAN, w->x[3] = 0, w->x[4] = DBL_MAX, w->x[5] = 0x1p-1074;
    w->x[6] = 0x1.6ac5b262ca1ffp+849; /* the f64 that is nearest to a multiple of pi / 2 */
    w->x[7] = 0x1p45, w->x[8] = 0x1.fffffffffffffp44, w->x[9] = -0.0;
    check_sines(w, "all exponents");
    for (int i = 0; i < COUNT; i++) w->x[i] = ldexp(i % 2 ? -1 : 1, i % 2098 - 1074);
    check_sines(w, "powers of two");
    for (int i = 0; i < COUNT; i++) w->x[i] = (i < COUNT / 2 ? i : ldexp(i, i % 970)) * 1.5707963267948966;
    check_sines(w, "multiples of pi / 2");
    for (int i = 0; i < COUNT; i++) w->x[i] = ldexp((double)(int64_t)next(&random), -63 + i % 64);
    check_sines(w, "near and far beside each other");
    for (int i = 0; i < COUNT; i++) w->x[i] = (float)ldexp((double)(int64_t)next(&random), -63 + i % 128);
    check_sines(w, "all f32");
}

static void check_remainders(world *w) {
    run(w, REM);
    for (int i = 0; i < COUNT; i++) {
        double exact = fmod(w->x[i], w->y[i]);
        if (isnan(exact) ? !isnan(w->z[i]) : memcmp(&exact, &w->z[i], sizeof exact))
            fail_msg("rem of %a and %a: %a instead of %a", w->x[i], w->y[i], w->z[i], exact);
    }
}

static void remainders(void **state) {
    world *w = *state;
    static const double special[] = {
        0,   -0.0,    1,  -1,        INFINITY, -INFINITY,   NAN,       DBL_MAX,
        3.0, DBL_MIN, -7, 0x1p-1074, 0x1p53,   0x1.8p-1073, -0x1p1023, 0x1.fffffffffffffp51};
    enum { N_SPECIAL = sizeof special / sizeof *special };
    uint64_t random = 1;
    for (int i = 0; i < COUNT; i++) w->x[i] = of_bits(next(&random)), w->y[i] = of_bits(next(&random));
    for (int i = 0; i < N_SPECIAL * N_SPECIAL; i++) w->x[i] = special[i / N_SPECIAL], w->y[i] = special[i % N_SPECIAL];
    check_remainders(w);
    for (int i = 0; i < COUNT; i++) { /* quotients of 40 to 64 bits */
        w->x[i] = (double)(int64_t)next(&random);
        w->y[i] = ldexp((double)(next(&random) | 1), i % 25 - 64);
    }
    check_remainders(w);
    for (int i = 0; i < COUNT; i++) { /* denormals, and multiples */
        w->y[i] = of_bits(next(&random) >> (12 + i % 52));
        w->x[i] = i % 3 ? of_bits(next(&random)) : w->y[i] * ldexp((double)(i % 1000), i % 500);
    }
    check_remainders(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sines), cmocka_unit_test(remainders)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
