/* SPDX-License-Identifier: MIT
 * See the header. Bounds are relative. */
#include "harness/moment_cases.h"
#include "harness/check.h"
#include "harness/graphs.h"

#include <math.h>
#include <stdio.h>

typedef struct shape {
    const char *type, *axes, *kept;
} shape;

/* Data by name: a value for element i of n, from a draw in [-1, 1). */
typedef double draw(int64_t i, int64_t n, double u);

static double centred(int64_t i, int64_t n, double u) { return (void)i, (void)n, u; }
static double far(int64_t i, int64_t n, double u) { return (void)i, (void)n, 1e4 + u * 1.7320508; }
static double farther(int64_t i, int64_t n, double u) { return (void)i, (void)n, 1e6 + u * 1.7320508; }
static double constant(int64_t i, int64_t n, double u) { return (void)i, (void)n, (void)u, 1e6 + 0.3125; }
/* What would be a shift if the first elements were one. */
static double outlier(int64_t i, int64_t n, double u) { return i < n / 64 + 1 ? 0 : 1e4 + u; }
static double trend(int64_t i, int64_t n, double u) { return 1000 * (double)i / (double)n + u; }
static double large(int64_t i, int64_t n, double u) { return (void)i, (void)n, (3 + u) * 1e15; }

/* A value whose sums round; alone, and beside its neighbours. */
static double equal(int64_t i, int64_t n, double u) { return (void)i, (void)n, (void)u, 10.3f * 11 / 7; }
static double nearly(int64_t i, int64_t n, double u) { return (void)i, (void)n, 10.3f * 11 / 7 + (u > 0.5) * 0x1p-19; }

static graph_check *check;

/* A graph whose one input is such data, within `tolerance`. */
static void check_data(const char *text, draw *draw, double tolerance, bool eager) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value x;
    assert_ok(tcc_value_create(&g->inputs.data[0]->type, &x, &diag), &diag);
    uint64_t state = 1;
    int64_t n = tcc_type_numel(&x.type);
    for (int64_t i = 0; i < n; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double value = draw(i, n, ldexp((double)(int64_t)state, -63));
        x.f[i] = x.type.dtype == TCC_F64 ? value : (float)value;
    }
    check(g, &(compiled_options){.simplify = true, .inputs = &x, .tolerance = tolerance, .eager = eager});
    tcc_value_free(&x);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

/* The mean and M2 of such data, within `tolerance`. */
static void check_moments(const shape *s, draw *draw, double tolerance) {
    char text[1024];
    snprintf(text, sizeof text,
             "graph @moments {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = reduce_mean(%%0) {axes=[%s]} : %s\n"
             "  %%2 = reduce_m2(%%0) {axes=[%s]} : %s\n  output \"mean\" %%1\n  output \"m2\" %%2\n}\n",
             s->type, s->axes, s->kept, s->axes, s->kept);
    check_data(text, draw, tolerance, false);
}

static const shape columns[] = {
    {"f32[1,3]", "0", "f32[3]"},        {"f32[2,5]", "0", "f32[5]"},
    {"f32[3,40]", "0", "f32[40]"},      {"f32[1003,7]", "0", "f32[7]"},
    {"f32[4099,64]", "0", "f32[64]"},   {"f32[50001,3]", "0", "f32[3]"},
    {"f32[77,1000]", "0", "f32[1000]"}, {"f32[4,9,33,16]", "0, 1, 2", "f32[16]"},
    {"f64[3001,12]", "0", "f64[12]"},
};
/* Rows that are cut into pieces. */
static const shape rows[] = {{"f32[1,70001]", "1", "f32[1]"}, {"f32[2,200003]", "1", "f32[2]"}};
/* Such as some target reads in two sweeps: rows that it then finds in registers, in shared memory, in a cache; planes
 * of several rows. */
static const shape at_hand[] = {{"f32[5,33]", "1", "f32[5]"},
                                {"f32[33,768]", "1", "f32[33]"},
                                {"f32[300,1600]", "1", "f32[300]"},
                                {"f64[270,8200]", "1", "f64[270]"},
                                {"f32[8,6,20,20]", "0, 2, 3", "f32[6]"},
                                {"f32[60,3,37,11]", "0, 2, 3", "f32[3]"}};

static void of_columns(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        check_moments(&columns[i], centred, 2e-6);
        check_moments(&columns[i], far, 1e-5);
        check_moments(&columns[i], farther, 1e-5);
        check_moments(&columns[i], constant, 1e-12);
        check_moments(&columns[i], outlier, 4e-5); /* long sums of about equal terms */
        check_moments(&columns[i], trend, 2e-6);
        check_moments(&columns[i], large, 2e-6);
    }
}

static void of_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_moments(&rows[i], centred, 2e-6);
        check_moments(&rows[i], far, 1e-5);
        check_moments(&rows[i], constant, 1e-12);
        check_moments(&rows[i], farther, 1e-5);
        check_moments(&rows[i], outlier, 1e-5);
        check_moments(&rows[i], trend, 2e-6);
    }
}

/* Plain sums of terms that are alike, of which a single chain of additions errs by 1e-4 and more; and a maximum, which
 * the same loops make. */
static void sums_of_equal_terms(void **state) {
    (void)state;
    static const shape sums[] = {
        {"f32[20011,3]", "0", "f32[3]"},
        {"f32[50001,40]", "0", "f32[40]"},
        {"f32[40,50,33,16]", "0, 1, 2", "f32[16]"},
        {"f32[3000,2,17]", "0, 2", "f32[2]"},
        {"f32[3,300007]", "1", "f32[3]"},
        {"f32[150,40,6,31]", "0, 1, 3", "f32[6]"},
    };
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        const shape *s = &sums[i];
        char text[1024];
        snprintf(text, sizeof text,
                 "graph @sums {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = reduce_sum(%%0) {axes=[%s]} : %s\n"
                 "  %%2 = reduce_max(%%0) {axes=[%s]} : %s\n  output \"sum\" %%1\n  output \"max\" %%2\n}\n",
                 s->type, s->axes, s->kept, s->axes, s->kept);
        check_data(text, equal, 2e-5, false);
        check_data(text, trend, 2e-5, false);
        check_data(text, equal, 2e-5, true);
    }
}

static void of_rows_at_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof at_hand / sizeof *at_hand; i++) {
        check_moments(&at_hand[i], centred, 1e-5);
        check_moments(&at_hand[i], far, 2e-5);
        check_moments(&at_hand[i], constant, 1e-12);
    }
}

/* Rows that are not at hand, normalized by what one sweep gave; those of f64 are too many to be cut. */
static void of_long_rows(void **state) {
    (void)state;
    static const char *const types[] = {"f32[9,100001]", "f64[270,8200]"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[512];
        tcc_diag diag = {0};
        snprintf(text, sizeof text,
                 "graph @norm {\n  %%0 = input {role=state, name=\"x\"} : %s\n  %%1 = layer_norm(%%0) {eps=0x1p-10, "
                 "axis=1} : %s\n  output \"y\" %%1 alias %%0\n}\n",
                 types[i], types[i]);
        tcc_graph *g = parse_graph(text, &diag);
        check(g, &(compiled_options){.simplify = true, .low = 9, .high = 11});
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* Equal elements normalize to exactly 0, whatever their number; where they differ by a unit in the last place, the mean
 * is off by no more than that. In f32, and of f16 and bf16 as mixed precision has them. */
static void of_equal_elements(void **state) {
    (void)state;
    static const struct {
        const char *dims, *norm;
    } norms[] = {
        {"[16,23]", "layer_norm(%1) {eps=0x1p-20, axis=1}"},
        {"[16,768]", "layer_norm(%1) {eps=0x1p-20, axis=1}"},
        {"[5,3000]", "layer_norm(%1) {eps=0x1p-20, axis=1}"},
        {"[2,9000]", "layer_norm(%1) {eps=0x1p-20, axis=1}"},
        {"[1,70001]", "layer_norm(%1) {eps=0x1p-20, axis=1}"},
        {"[3,10,11,7]", "batch_norm(%1) {eps=0x1p-20, axis=1}"},
        {"[700,9]", "batch_norm(%1) {eps=0x1p-20, axis=1}"},
        {"[5,30,20,12]", "batch_norm(%1) {eps=0x1p-20, axis=3}"},
        {"[4,6,9,11]", "group_norm(%1) {eps=0x1p-20, axis=1, groups=2}"},
        {"[5,9,6]", "group_norm(%1) {eps=0x1p-20, axis=2, groups=3}"},
    };
    static const char *const types[] = {"f32", "bf16", "f16"};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        for (int eager = 0; eager < 2; eager++)
            for (int t = 0; t < (eager ? 1 : 3); t++) {
                char text[1024];
                const char *dims = norms[i].dims;
                snprintf(text, sizeof text,
                         "graph @norm {\n  %%0 = input {name=\"x\"} : %s%s\n  %%1 = cast(%%0) : f32%s\n"
                         "  %%2 = %s : f32%s\n  output \"y\" %%2\n}\n",
                         types[t], dims, dims, norms[i].norm, dims);
                check_data(text, equal, 1e-12, eager);
                if (t == 0) check_data(text, nearly, 2.5e-3, eager);
            }
}

/* Beside rows and columns that are cut into parts: values of each point, of which some follow from no sum, as the
 * gradient of a mean, some from sums of the first sweep alone, and some from all of them. */
static void beside_parts(void **state) {
    (void)state;
    static const struct {
        const char *type, *axis, *kept, *back, *known, *last;
    } shapes[] = {
        {"f32[1,250003]", "1", "f32[1]", "0", "output \"a\" %5\n", "output \"b\" %8\n  output \"c\" %12\n"},
        {"f32[5,80001]", "1", "f32[5]", "0", "output \"a\" %5\n", "output \"b\" %8\n  output \"c\" %12\n"},
        {"bf16[6,80008]", "1", "bf16[6]", "0", "output \"a\" %5\n", "output \"b\" %8\n  output \"c\" %12\n"},
        {"f32[6,40000]", "1", "f32[6]", "0", "output \"a\" %5\n", "output \"b\" %8\n"},
        {"f32[70001,3]", "0", "f32[3]", "1", "output \"a\" %5\n", ""},
        {"f32[30000,16]", "0", "f32[16]", "1", "output \"a\" %5\n  output \"d\" %2\n", ""},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[2048];
        const char *type = shapes[i].type, *axis = shapes[i].axis, *kept = shapes[i].kept, *back = shapes[i].back;
        tcc_diag diag = {0};
        snprintf(text, sizeof text,
                 "graph @beside {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = input {name=\"t\"} : %s\n"
                 "  %%2 = sub(%%0, %%1) : %s\n  %%3 = mul(%%2, %%2) : %s\n  %%4 = reduce_mean(%%3) {axes=[%s]} : %s\n"
                 "  %%5 = add(%%2, %%2) : %s\n  %%6 = reduce_max(%%0) {axes=[%s]} : %s\n"
                 "  %%7 = broadcast(%%6) {dims=[%s]} : %s\n  %%8 = sub(%%0, %%7) : %s\n"
                 "  %%9 = mul(%%8, %%1) : %s\n  %%10 = reduce_mean(%%9) {axes=[%s]} : %s\n"
                 "  %%11 = broadcast(%%10) {dims=[%s]} : %s\n  %%12 = sub(%%9, %%11) : %s\n"
                 "  output \"mean\" %%4\n  output \"max\" %%6\n  %s  %s}\n",
                 type, type, type, type, axis, kept, type, axis, kept, back, type, type, type, axis, kept, back, type,
                 type, shapes[i].known, shapes[i].last);
        tcc_graph *g = parse_graph(text, &diag);
        check(g, &(compiled_options){.simplify = true, .seed = i});
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

int moment_cases_run(graph_check *with) {
    check = with;
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_columns),          cmocka_unit_test(of_rows),
                                       cmocka_unit_test(sums_of_equal_terms), cmocka_unit_test(of_rows_at_hand),
                                       cmocka_unit_test(of_long_rows),        cmocka_unit_test(of_equal_elements),
                                       cmocka_unit_test(beside_parts)};
    return cmocka_run_group_tests_name("moments", tests, NULL, NULL);
}
