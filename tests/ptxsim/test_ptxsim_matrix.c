/* SPDX-License-Identifier: MIT
 * Matrices that a warp holds: each mma.sync and ldmatrix against the places that CUTLASS gives elements (fragments.py),
 * and the sums that tensor cores truncate against what was measured on them. */
#include "driver.h"

#include <math.h>

#define assert_same(got, expected)                                                                      \
    do {                                                                                                \
        double g_ = (got), e_ = (expected);                                                             \
        if (g_ != e_) fail_msg("%s, sm_%s: %.17g instead of %.17g", #got, getenv("PTXSIM_SM"), g_, e_); \
    } while (0)

enum { LANES = 32, N = 8, MOST_M = 16, MOST_K = 32, MOST_WORDS = 16 };

/* Row and column of each value of each thread; of B the row is n. */
#define LAYOUT(name, ...) static const uint8_t name[] = {__VA_ARGS__};
#define PRODUCT(...)
#define LOAD(...)
#include "fragments.inc"
#undef LAYOUT
#undef PRODUCT
#undef LOAD

typedef struct product {
    const char *shape;
    int m, k, sm;
    const char *types; /* of D, A, B, C */
    const uint8_t *a, *b, *c;
    int n_a, n_b, n_c; /* values a thread */
} product;

static const product products[] = {
#define LAYOUT(...)
#define LOAD(...)
#define PRODUCT(shape, m, k, sm, types, a, b, c) \
    {shape, m, k, sm, types, a, b, c, sizeof a / 2 / LANES, sizeof b / 2 / LANES, sizeof c / 2 / LANES},
#include "fragments.inc"
#undef LAYOUT
#undef PRODUCT
#undef LOAD
};

typedef struct matrices {
    double a[MOST_M][MOST_K], b[N][MOST_K], c[MOST_M][N], d[MOST_M][N];
} matrices;

/* --- values of the types */

static const char *type_of(const product *p, int operand) { /* 0: D, 1: A, 2: B, 3: C */
    static char name[8];
    const char *s = p->types;
    for (; operand; operand--) s = strchr(s, '.') + 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(s, "."), s);
    return name;
}

static int bytes_of(const char *type) {
    const char *digits = type + strcspn(type, "123456789");
    return strcmp(type, "tf32") == 0 ? 4 : atoi(digits) / 8;
}

static uint32_t f16_of(double v) { /* of values that f16 has */
    if (v == 0) return 0;
    int e;
    const double m = frexp(fabs(v), &e);
    return (v < 0 ? 0x8000 : 0) |
           (e > -14 ? (uint32_t)(e + 14) << 10 | ((uint32_t)(m * 2048) & 0x3ff) : (uint32_t)(fabs(v) * 0x1p24));
}

static double of_f16(uint32_t h) {
    const int e = h >> 10 & 31;
    const double m = e ? ldexp(1024 + (h & 1023), e - 25) : ldexp(h & 1023, -24);
    return h & 0x8000 ? -m : m;
}

static void put(uint8_t *at, const char *type, double v) {
    const float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (strcmp(type, "f64") == 0) memcpy(at, &v, 8);
    else if (strcmp(type, "f16") == 0) memcpy(at, &(uint16_t){(uint16_t)f16_of(v)}, 2);
    else if (strcmp(type, "bf16") == 0) memcpy(at, &(uint16_t){(uint16_t)(u >> 16)}, 2);
    else if (strcmp(type, "s32") == 0) memcpy(at, &(int32_t){(int32_t)v}, 4);
    else if (bytes_of(type) == 1) *at = (uint8_t)(int)v;
    else memcpy(at, &u, 4);
}

static double get(const uint8_t *at, const char *type) {
    double d;
    float f;
    uint16_t h;
    int32_t s;
    memcpy(&f, at, 4), memcpy(&h, at, 2), memcpy(&s, at, 4);
    if (strcmp(type, "f64") == 0) return memcpy(&d, at, 8), d;
    return strcmp(type, "f16") == 0 ? of_f16(h) : strcmp(type, "s32") == 0 ? s : f;
}

/* --- running one */

static int words(int values, const char *type) { return (values * bytes_of(type) + 3) / 4; }

/* Appends the registers of an operand, `letter` 1, 2 and so on; f64 have their own. */
static size_t registers(char *text, size_t at, size_t size, char letter, int n, bool wide) {
    at += (size_t)snprintf(text + at, size - at, "{");
    for (int q = 0; q < (wide ? n / 2 : n); q++)
        at += (size_t)snprintf(text + at, size - at, "%s%%%c%s%d", q ? "," : "", letter, wide ? "w" : "r", q);
    return at + (size_t)snprintf(text + at, size - at, "}");
}

/* Each thread reads its registers of A, B, C from MOST_WORDS words each, and writes those of D. */
static void kernel_text(char *text, size_t size, const product *p) {
    const int n[4] = {words(p->n_c, type_of(p, 0)), words(p->n_a, type_of(p, 1)), words(p->n_b, type_of(p, 2)),
                      words(p->n_c, type_of(p, 3))};
    const bool wide = strcmp(type_of(p, 0), "f64") == 0;
    const char *access = wide ? "b64" : "b32";
    size_t at = (size_t)snprintf(text, size,
                                 ".version 7.8\n.target sm_%d\n.address_size 64\n.visible .entry k(.param .u64 in, "
                                 ".param .u64 out) {\n .reg .b64 "
                                 "%%d<6>;\n .reg .b32 %%t<3>;\n",
                                 p->sm);
    for (const char *c = "dabc"; *c; c++)
        at += (size_t)snprintf(text + at, size - at, " .reg .%s %%%c%s<%d>;\n", wide ? "f64" : "b32", *c,
                               wide ? "w" : "r", MOST_WORDS);
    at += (size_t)snprintf(
        text + at, size - at,
        " ld.param.u64 %%d1, [in];\n ld.param.u64 %%d2, [out];\n mov.u32 %%t1, %%tid.x;\n mul.wide.u32 "
        "%%d3, %%t1, %d;\n add.s64 %%d1, %%d1, %%d3;\n mul.wide.u32 %%d3, %%t1, %d;\n add.s64 %%d2, "
        "%%d2, %%d3;\n",
        3 * MOST_WORDS * 4, MOST_WORDS * 4);
    for (int o = 1; o < 4; o++)
        for (int q = 0; q < (wide ? n[o] / 2 : n[o]); q++)
            at += (size_t)snprintf(text + at, size - at, " ld.global.%s %%%c%s%d, [%%d1+%d];\n", access, "dabc"[o],
                                   wide ? "w" : "r", q, (o - 1) * MOST_WORDS * 4 + q * (wide ? 8 : 4));
    at += (size_t)snprintf(text + at, size - at, " mma.sync.aligned.%s.row.col.%s ", p->shape, p->types);
    for (int o = 0; o < 4; o++) {
        at = registers(text, at, size, "dabc"[o], n[o], wide);
        at += (size_t)snprintf(text + at, size - at, o < 3 ? ", " : ";\n");
    }
    for (int q = 0; q < (wide ? n[0] / 2 : n[0]); q++)
        at += (size_t)snprintf(text + at, size - at, " st.global.%s [%%d2+%d], %%d%s%d;\n", access, q * (wide ? 8 : 4),
                               wide ? "w" : "r", q);
    snprintf(text + at, size - at, " ret;\n}\n");
}

static CUfunction kernel(const product *p, const char *sums, int sm) {
    char text[8192], number[8];
    snprintf(number, sizeof number, "%d", sm);
    setenv("PTXSIM_MMA", sums, 1), setenv("PTXSIM_SM", number, 1);
    fresh_device();
    kernel_text(text, sizeof text, p);
    return function_of(load(text), "k");
}

static void multiply(CUfunction k, const product *p, matrices *m) {
    static uint8_t in[LANES][3][MOST_WORDS * 4], out[LANES][MOST_WORDS * 4];
    char type[4][8];
    for (int o = 0; o < 4; o++) snprintf(type[o], sizeof type[o], "%s", type_of(p, o));
    memset(in, 0, sizeof in);
    for (int t = 0; t < LANES; t++) {
        for (int v = 0; v < p->n_a; v++) {
            const uint8_t *at = p->a + 2 * (t * p->n_a + v);
            put(in[t][0] + v * bytes_of(type[1]), type[1], m->a[at[0]][at[1]]);
        }
        for (int v = 0; v < p->n_b; v++) {
            const uint8_t *at = p->b + 2 * (t * p->n_b + v);
            put(in[t][1] + v * bytes_of(type[2]), type[2], m->b[at[0]][at[1]]);
        }
        for (int v = 0; v < p->n_c; v++) {
            const uint8_t *at = p->c + 2 * (t * p->n_c + v);
            put(in[t][2] + v * bytes_of(type[3]), type[3], m->c[at[0]][at[1]]);
        }
    }
    CUdeviceptr a = device_copy(in, sizeof in), b = device_alloc(sizeof out);
    assert_cuda(cuLaunchKernel(k, 1, 1, 1, LANES, 1, 1, 0, NULL, (void *[]){&a, &b}, NULL));
    assert_cuda(cuCtxSynchronize());
    for (int t = 0; t < LANES; t++)
        assert_cuda(cuMemcpyDtoH_v2(out[t], b + (unsigned)t * sizeof out[t], (size_t)(p->n_c * bytes_of(type[0]))));
    for (int t = 0; t < LANES; t++)
        for (int v = 0; v < p->n_c; v++) {
            const uint8_t *at = p->c + 2 * (t * p->n_c + v);
            m->d[at[0]][at[1]] = get(out[t] + v * bytes_of(type[0]), type[0]);
        }
    assert_cuda(cuMemFree_v2(a));
    assert_cuda(cuMemFree_v2(b));
}

/* --- the tests */

static uint32_t state_of_random = 1;
static int drawn(int low, int high) {
    state_of_random = state_of_random * 1664525 + 1013904223;
    return low + (int)((state_of_random >> 8) % (uint32_t)(high - low + 1));
}

/* Of small whole numbers all sums are exact: an element out of place gives another number. */
static void elements_have_their_places(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        for (int sums = 0; sums < 2; sums++) {
            const product *p = &products[i];
            CUfunction k = kernel(p, sums ? "truncate" : "exact", p->sm);
            for (int round = 0; round < 4; round++) {
                matrices m;
                const int least_a = strcmp(type_of(p, 1), "u8") ? -7 : 0,
                          least_b = strcmp(type_of(p, 2), "u8") ? -7 : 0;
                for (int x = 0; x < MOST_K; x++) {
                    for (int r = 0; r < MOST_M; r++) m.a[r][x] = drawn(least_a, 7);
                    for (int n = 0; n < N; n++) m.b[n][x] = drawn(least_b, 7);
                }
                for (int r = 0; r < MOST_M; r++)
                    for (int n = 0; n < N; n++) m.c[r][n] = drawn(-100, 100);
                multiply(k, p, &m);
                for (int r = 0; r < p->m; r++)
                    for (int n = 0; n < N; n++) {
                        double e = m.c[r][n];
                        for (int x = 0; x < p->k; x++) e += m.a[r][x] * m.b[n][x];
                        if (m.d[r][n] != e)
                            fail_msg("%s.%s, row %d, column %d: %g instead of %g", p->shape, p->types, r, n, m.d[r][n],
                                     e);
                    }
            }
        }
}

/* 32 rows of 16 bytes in shared memory, whose lane l gives the address of row 31 - l. */
static void matrices_are_loaded(void **state) {
    (void)state;
    unsetenv("PTXSIM_SM");
    const struct load_case {
        int n, transposed;
        const uint8_t *places;
    } cases[] = {
#define LAYOUT(...)
#define PRODUCT(...)
#define LOAD(matrices, transposed, ...) {matrices, transposed, (const uint8_t[]){__VA_ARGS__}},
#include "fragments.inc"
#undef LAYOUT
#undef PRODUCT
#undef LOAD
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct load_case *c = &cases[i];
        const char *const lists[] = {[1] = "{%r10}", [2] = "{%r10,%r11}", [4] = "{%r10,%r11,%r12,%r13}"};
        char text[4096];
        uint16_t in[LANES][8], out[LANES][8];
        int n = 0;
        snprintf(text, sizeof text, PTX_HEAD ".shared .align 16 .b8 s[512];\n");
        size_t at = strlen(text);
        static const char template[] = KERNEL(
            "k", "mov.u32 %r4, s;\n mul.lo.u32 %r5, %r2, 16;\n add.u32 %r6, %r4, %r5;\n mul.wide.u32 %d6, %r2, "
                 "16;\n add.s64 %d7, %d1, %d6;\n add.s64 %d8, %d2, %d6;\n ld.global.v4.u32 "
                 "{%r7,%r8,%r9,%r10}, [%d7];\n st.shared.v4.u32 [%r6], {%r7,%r8,%r9,%r10};\n bar.sync 0;\n "
                 "sub.u32 %r6, 496, %r5;\n add.u32 %r6, %r6, %r4;\n mov.u32 %r10, 0;\n mov.u32 %r11, 0;\n mov.u32 "
                 "%r12, 0;\n mov.u32 %r13, 0;\n @\n st.global.v4.u32 [%d8], {%r10,%r11,%r12,%r13};");
        const char *mark = strchr(strstr(template, "%r13, 0;\n"), '@');
        snprintf(text + at, sizeof text - at, "%.*sldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%%r6];%s",
                 (int)(mark - template), template, c->n, c->transposed ? ".trans" : "", lists[c->n], mark + 1);
        fresh_device();
        CUfunction k = function_of(load(text), "k");
        for (int r = 0; r < LANES; r++)
            for (int h = 0; h < 8; h++) in[r][h] = (uint16_t)(r * 8 + h + 1);
        CUdeviceptr a = device_copy(in, sizeof in), b = device_alloc(sizeof out);
        assert_cuda(cuLaunchKernel(k, 1, 1, 1, LANES, 1, 1, 0, NULL, (void *[]){&a, &b, &n}, NULL));
        assert_cuda(cuMemcpyDtoH_v2(out, b, sizeof out));
        for (int t = 0; t < LANES; t++)
            for (int h = 0; h < 2 * c->n; h++) {
                const uint8_t *place = c->places + 2 * (t * 2 * c->n + h);
                const int e = in[LANES - 1 - place[0]][place[1]];
                if (out[t][h] != e)
                    fail_msg("x%d%s, thread %d, half %d: %d instead of %d", c->n, c->transposed ? ".trans" : "", t, h,
                             out[t][h], e);
            }
    }
}

static const product *find(const char *shape, const char *types) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (!strcmp(products[i].shape, shape) && !strcmp(products[i].types, types)) return &products[i];
    fail_msg("no %s.%s", shape, types);
    return NULL;
}

/* Element 0, 0 of D where row 0 of A times column 0 of B has these products, the factor of A given, B's a power of 2.
 */
static double sum(const char *shape, const char *types, int sm, double c, const double *a, const double *b) {
    const product *p = find(shape, types);
    matrices m;
    memset(&m, 0, sizeof m);
    for (int k = 0; k < p->k; k++) m.a[0][k] = a[k], m.b[0][k] = b[k];
    m.c[0][0] = c;
    multiply(kernel(p, "truncate", sm), p, &m);
    return m.d[0][0];
}

/* What was found on V100 and T4, A100, and H100: 4, 8, 16 products at once, 0, 1, 2 bits more than float32; half of
 * these of tf32. */
static void sums_are_cut_off_as_measured(void **state) {
    (void)state;
    static const struct {
        int sm, block, extra;
    } cores[] = {{75, 4, 0}, {80, 8, 1}, {86, 8, 1}, {89, 8, 1}, {90, 16, 2}, {120, 16, 2}};
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
        const int sm = cores[i].sm, extra = cores[i].extra;
        const char *shape = sm < 80 ? "m16n8k8" : "m16n8k16", *types = "f32.f16.f16.f32";
        const int K = sm < 80 ? 8 : 16, blocks = K / cores[i].block;
        double one[16], tiny[16], next[16];
        for (int k = 0; k < 16; k++) one[k] = 0x1p-12, tiny[k] = 0x1p-13, next[k] = 0x1p-12;
        /* what is below the extra bits is lost, however many there are: 1 + K 2^(-24 - extra) */
        for (int k = 0; k < 16; k++) tiny[k] = ldexp(1, -12 - extra), one[k] = 0x1p-12;
        assert_same(sum(shape, types, sm, 1, one, tiny), 1);
        assert_same(sum(shape, types, sm, -1, one, tiny), -1);
        /* twice as large, they count within a block, whose sum is cut off to float32 */
        for (int k = 0; k < 16; k++) next[k] = ldexp(1, -11 - extra);
        double e = 1;
        for (int b = 0; b < blocks; b++) e = ldexp(floor(ldexp(e + cores[i].block * ldexp(1, -23 - extra), 23)), -23);
        assert_same(sum(shape, types, sm, 1, one, next), e);
        /* towards zero, not to the nearest */
        double a[16] = {0x1.8p-12}, b[16] = {0x1p-12};
        assert_same(sum(shape, types, sm, 1, a, b), 1);
        b[0] = -0x1p-12;
        assert_same(sum(shape, types, sm, -1, a, b), -1);
        /* 1 - 1.5 2^-24 */
        assert_same(sum(shape, types, sm, 1, a, b), sm < 80 ? 1 : 1 - 0x1p-24 * (extra > 1 ? 2 : 1));
        /* a block's largest product decides, also when it cancels: 2^24 - 2^24 + 0.25 */
        double large[16] = {0x1p12, 0x1p12, 0.5}, factor[16] = {0x1p12, -0x1p12, 0.5};
        assert_same(sum(shape, types, sm, 0, large, factor), 0);
        /* but not one of another block */
        double late[16] = {0x1p12, 0x1p12}, last[16] = {0x1p12, -0x1p12};
        late[K - 1] = last[K - 1] = 0.5;
        assert_same(sum(shape, types, sm, 0, late, last), blocks > 1 ? 0.25 : 0);
    }
}

static void halves_are_rounded_and_what_is_no_number_stays(void **state) {
    (void)state;
    double a[16] = {1, 0x1p-11}, b[16] = {1, 1};
    assert_same(sum("m16n8k8", "f16.f16.f16.f16", 75, 0, a, b), 1); /* a tie, to even */
    a[2] = 0x1p-14, b[2] = 1;
    assert_same(sum("m16n8k8", "f16.f16.f16.f16", 75, 0, a, b), 1 + 0x1p-10);
    double tf[16] = {0x1p127, 0x1p127}, two[16] = {2, 2};
    assert_true(isinf(sum("m16n8k8", "f32.tf32.tf32.f32", 80, 0, tf, two)));
    tf[1] = -0x1p127, two[0] = INFINITY, two[1] = INFINITY;
    assert_true(isnan(sum("m16n8k8", "f32.tf32.tf32.f32", 80, 0, tf, two)));
    double small[16] = {0x1.4p-74}, less[16] = {0x1p-74}; /* cut off to a denormal float32 */
    assert_same(sum("m16n8k8", "f32.bf16.bf16.f32", 80, 0, small, less), 0x1p-148);
}

/* Against exact sums, an error of less than (n + 1) 2^-extra + 2 units of the last place of the largest term each block
 * of n products, and always towards zero where all have one sign. */
static void errors_are_bounded(void **state) {
    (void)state;
    static const struct {
        const char *shape, *types;
        int sm, block, extra;
    } cases[] = {{"m16n8k16", "f32.bf16.bf16.f32", 80, 8, 1},
                 {"m16n8k16", "f32.f16.f16.f32", 90, 16, 2},
                 {"m16n8k8", "f32.tf32.tf32.f32", 90, 8, 2},
                 {"m16n8k8", "f32.f16.f16.f32", 75, 4, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const product *p = find(cases[i].shape, cases[i].types);
        CUfunction f = kernel(p, "truncate", cases[i].sm);
        int wrong = 0;
        for (int round = 0; round < 20; round++) {
            const bool positive = round & 1;
            matrices m;
            for (int k = 0; k < MOST_K; k++) {
                for (int r = 0; r < MOST_M; r++) m.a[r][k] = ldexp(drawn(positive ? 1 : -127, 127), drawn(-9, 0));
                for (int n = 0; n < N; n++) m.b[n][k] = ldexp(drawn(positive ? 1 : -127, 127), drawn(-9, 0));
            }
            for (int r = 0; r < MOST_M; r++)
                for (int n = 0; n < N; n++) m.c[r][n] = (float)(drawn(positive ? 1 : -9999, 9999) * 0.37);
            multiply(f, p, &m);
            for (int r = 0; r < p->m; r++)
                for (int n = 0; n < N; n++) {
                    double exact = m.c[r][n], all = fabs(exact);
                    for (int k = 0; k < p->k; k++) exact += m.a[r][k] * m.b[n][k], all += fabs(m.a[r][k] * m.b[n][k]);
                    const double error = m.d[r][n] - exact, bound = (p->k / cases[i].block) *
                                                                    (ldexp(cases[i].block + 1, -cases[i].extra) + 1) *
                                                                    0x1p-23 * all;
                    if (fabs(error) > bound) fail_msg("%s.%s: %g instead of %g", p->shape, p->types, m.d[r][n], exact);
                    if (positive && error > 0) fail_msg("%.9g, more than %.9g", m.d[r][n], exact);
                    wrong += error != 0;
                }
        }
        assert_true(wrong > 1000);
    }
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "64", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_have_their_places),
        cmocka_unit_test(matrices_are_loaded),
        cmocka_unit_test(sums_are_cut_off_as_measured),
        cmocka_unit_test(halves_are_rounded_and_what_is_no_number_stays),
        cmocka_unit_test(errors_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
