/* SPDX-License-Identifier: MIT
 * function-accuracy [NAME...]: the error of each function of functions.def, of all 2^32 arguments, at this CPU's level
 * and at x86-64-v3; prints a table, and fails if one is above its bound. FUNCTION_ACCURACY_STRIDE=N takes every N-th
 * argument alone.
 *
 * One unit in the last place is the distance of two floats beside the exact result. With glibc the exact results come
 * from libmvec, which is right to four units of a double: 1e-8 of a float's. */
#include "traincc/traincc.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 18, OWN = 0, NARROW = 1, LEVELS = 2 };

/* One step of Newton's method from y, which is right to a float: right to a double. */
static inline double newton(double x, double y) {
    const double a = fabs(x), b = fabs(y);
    const double miss = a < 0.5 ? erf(b) - a : (1 - a) - erfc(b);
    return copysign(b - miss * exp(b * b) / M_2_SQRTPI, x);
}

/* `first`: what is to be judged. Where it is far off, so is one step from it: judged wrong all the same. */
static inline double inverse_erf_from(double x, double first) {
    const double a = fabs(x);
    return !(a < 1) ? (a == 1 ? copysign(INFINITY, x) : NAN) : x == 0 ? x : newton(x, first);
}
#define inverse_erf(v) inverse_erf_from(v, (double)first[i])

typedef tcc_tensor maker(tcc_trace *t, tcc_tensor x);
typedef void exact_function(const float *x, const float *first, double *exact);

#define FUNCTION(name, bound, least, in_c, in_double)                             \
    static tcc_tensor make_##name(tcc_trace *t, tcc_tensor x) {                   \
        (void)t;                                                                  \
        return in_c;                                                              \
    }                                                                             \
    static void exact_##name(const float *x, const float *first, double *exact) { \
        (void)first;                                                              \
        _Pragma("omp simd") for (int i = 0; i < BLOCK; i++) {                     \
            const double v = (double)x[i];                                        \
            exact[i] = in_double;                                                 \
        }                                                                         \
    }
#include "functions.def"
#undef FUNCTION

static const struct function {
    const char *name, *formula;
    double bound, least;
    maker *make;
    exact_function *exact;
} functions[] = {
#define FUNCTION(name, bound, least, in_c, in_double) {#name, #in_double, bound, least, make_##name, exact_##name},
#include "functions.def"
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static void build(tcc_trace *t, void *user) {
    const struct function *f = user;
    tcc_output(t, "y", f->make(t, tcc_input(t, "x")));
}

/* -- Errors -- */

typedef struct error {
    double ulp, at; /* the largest in units of the last place, and its argument */
} error;

static inline double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The distance of the floats beside x. */
static inline double unit(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & 2047);
    return of_bits((uint64_t)((exponent > 897 ? exponent : 897) - 23) << 52);
}

/* In units of the last place: 0 where y is the nearest float, infinite where one alone is finite or a number. */
static inline double error_of(float y, double exact, double least) {
    const float nearest = (float)exact;
    const bool same = y == nearest || (y != y && exact != exact);
    const bool rounded_up = isinf(y) && !isinf(exact) && fabs(exact) > 0.999999 * (double)FLT_MAX;
    const double ulp = fabs((double)y - exact) / unit(fabs(exact) > least ? exact : least);
    return same || (rounded_up && (y > 0) == (exact > 0)) ? 0 : ulp < INFINITY ? ulp : INFINITY;
}

static void judge(const float *x, const float *y, const double *exact, double least, error *worst) {
    double largest = 0;
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < BLOCK; i++) {
        const double ulp = error_of(y[i], exact[i], least);
        largest = ulp > largest ? ulp : largest;
    }
    if (!(largest > worst->ulp)) return;
    int i = 0;
    while (error_of(y[i], exact[i], least) != largest) i++;
    *worst = (error){largest, (double)x[i]};
}

/* -- Running -- */

typedef struct level {
    const char *cpu; /* what TCC_CPU says; NULL: nothing */
    tcc_context *cx;
} level;

static void set_level(const level *l) {
    if (l->cpu) setenv("TCC_CPU", l->cpu, 1);
    else unsetenv("TCC_CPU");
}

static tcc_status run(tcc_model *m, const float *x, const float **y) {
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 1, .dims = {BLOCK}, .data = (void *)x};
    tcc_array out;
    tcc_status s = tcc_model_evaluate(m, &batch, 1);
    if (s == TCC_OK) s = tcc_model_output(m, "y", &out);
    if (s == TCC_OK) *y = out.data;
    return s;
}

static tcc_status sweep(const struct function *f, tcc_model **models, uint64_t stride, error *worst) {
    static float x[BLOCK];
    static double exact[BLOCK];
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
        for (int i = 0; i < BLOCK; i++, bits += stride) {
            const uint32_t argument = bits < (uint64_t)1 << 32 ? (uint32_t)bits : 0;
            memcpy(&x[i], &argument, sizeof argument);
        }
        for (int l = 0; l < LEVELS; l++) {
            const float *y;
            if (!models[l]) continue;
            tcc_status s = run(models[l], x, &y);
            if (s != TCC_OK) return s;
            if (l == OWN || f->exact == exact_erfinv) f->exact(x, y, exact);
            judge(x, y, exact, f->least, &worst[l]);
        }
    }
    return TCC_OK;
}

/* *good becomes false where the bound does not hold. */
static tcc_status report(const level *levels, const struct function *f, uint64_t stride, bool *good) {
    tcc_model *models[LEVELS] = {NULL};
    error worst[LEVELS] = {0};
    const tcc_model_options options = {.size = sizeof options};
    tcc_status s = TCC_OK;
    for (int l = 0; l < LEVELS && s == TCC_OK; l++) {
        set_level(&levels[l]);
        if (levels[l].cx) s = tcc_model_create(levels[l].cx, build, (void *)f, &options, &models[l]);
        static const float x[BLOCK];
        const float *y;
        if (s == TCC_OK && models[l]) s = run(models[l], x, &y); /* compiles it, at this level */
        if (s != TCC_OK) fprintf(stderr, "function-accuracy: %s: %s\n", f->name, tcc_context_error(levels[l].cx));
    }
    if (s == TCC_OK) s = sweep(f, models, stride, worst);
    if (s == TCC_OK) {
        printf("| %s | `%s` |", f->name, f->formula);
        for (int l = 0; l < LEVELS; l++)
            if (models[l]) printf(" %.3f | %a |", worst[l].ulp, worst[l].at);
            else printf(" | |");
        putchar('\n');
        fflush(stdout);
        for (int l = 0; l < LEVELS; l++) {
            if (worst[l].ulp <= f->bound) continue;
            fprintf(stderr, "function-accuracy: %s is above its bound, %g\n", f->name, f->bound);
            *good = false;
        }
    }
    for (int l = 0; l < LEVELS; l++) tcc_model_destroy(models[l]);
    return s;
}

static bool is_wanted(const struct function *f, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], f->name)) return true;
    return argc < 2;
}

int main(int argc, char **argv) {
    const char *given = getenv("FUNCTION_ACCURACY_STRIDE"), *cpu = getenv("TCC_CPU");
    const uint64_t stride = given ? strtoull(given, NULL, 0) : 1;
    level levels[LEVELS] = {[NARROW] = {.cpu = "x86-64-v3"}, [OWN] = {.cpu = cpu ? strdup(cpu) : NULL}};
    if (!stride) return 2;
    bool good = true;
    tcc_status s = TCC_OK;
    for (int l = 0; l < LEVELS; l++) {
        set_level(&levels[l]);
        s = tcc_context_create(&levels[l].cx);
        if (s != TCC_OK && l == OWN) return 1;
        if (s != TCC_OK) fprintf(stderr, "function-accuracy: this CPU has no level %s\n", levels[l].cpu);
    }
    printf("| function | exact | error, ulp | at | x86-64-v3 | at |\n| --- | --- | --- | --- | --- | --- |\n");
    s = TCC_OK;
    for (int f = 0; f < FUNCTIONS && s == TCC_OK; f++)
        if (is_wanted(&functions[f], argc, argv)) s = report(levels, &functions[f], stride, &good);
    for (int l = 0; l < LEVELS; l++) tcc_context_destroy(levels[l].cx);
    free((char *)levels[OWN].cpu);
    return s != TCC_OK || !good;
}
