/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/product_cases.h"
#include "harness/check.h"
#include "harness/graphs.h"

#include <stdio.h>
#include <string.h>

typedef struct shape {
    const char *x, *y, *axes;
    int kept, reduced; /* positions of the result; factors of each */
    int inner;         /* positions of the result whose factors lie side by side, each one apart */
} shape;

static const shape shapes[] = {
    {"[7,256]", "[7]", "1", 7, 256, 1},
    {"[7,4]", "[7]", "1", 7, 4, 1},
    {"[7,12]", "[7]", "1", 7, 12, 1},
    {"[7,2]", "[7]", "1", 7, 2, 1},
    {"[2,3,1024]", "[2,3]", "2", 6, 1024, 1},
    {"[5,2048]", "[5]", "1", 5, 2048, 1},
    {"[5,2052]", "[5]", "1", 5, 2052, 1},
    {"[7,255]", "[7]", "1", 7, 255, 1},
    {"[7,1]", "[7]", "1", 7, 1, 1},
    {"[64]", "[]", "0", 1, 64, 1},
    {"[3]", "[]", "0", 1, 3, 1},
    {"[8,7]", "[7]", "0", 7, 8, 7},
    {"[1,9,7]", "[1,7]", "1", 7, 9, 7},
    {"[6,3,8]", "[6]", "1, 2", 6, 24, 1},
    {"[1,6,12]", "[1,6]", "2", 6, 12, 1},
};

static double magnitude(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const double u = (double)(*state >> 40) * 0x1p-24;
    return (*state >> 39 & 1 ? -1 : 1) * (0.9 + 0.2 * u);
}

static double factor(int kind, int place, int count, uint64_t *state) {
    const double x = magnitude(state);
    switch (kind) {
    case 1: return place == count / 2 ? 0 : x;
    case 2: return place == 0 || place == count - 1 ? 0 : x;
    case 3: return place == count / 3 ? __builtin_nan("") : x;
    case 4: return place == count - 1 ? __builtin_inf() : x;
    case 5: return place == 0 ? -__builtin_inf() : place == count - 1 ? 0 : x;
    default: return x;
    }
}

/* Factor `place` of result `position` lies at place * inner + position % inner within a block of positions. */
static void fill(tcc_value *x, const shape *s, uint64_t seed) {
    for (int64_t e = 0; e < (int64_t)s->kept * s->reduced; e++) {
        const int64_t place = e / s->inner % s->reduced, position = s->inner > 1 ? e % s->inner : e / s->reduced;
        if (x->f) x->f[e] = factor((int)(position + (int64_t)seed) % 6, (int)place, s->reduced, &seed);
        else x->i[e] = 1 + e * 7 % 5 % 3;
    }
}

static void check_product(graph_check *check, const char *dtype, const shape *s, uint64_t seed, double tolerance) {
    char text[1024];
    tcc_diag diag = {0};
    const bool floats = strchr("fb", *dtype);
    int length = snprintf(text, sizeof text,
                          "graph @p {\n  %%0 = input {name=\"x\"} : %s%s\n  %%1 = input {name=\"dy\"} : %s%s\n"
                          "  %%2 = prod(%%0) {axes=[%s]} : %s%s\n  %%3 = add(%%2, %%1) : %s%s\n  output \"y\" %%3\n",
                          dtype, s->x, dtype, s->y, s->axes, dtype, s->y, dtype, s->y);
    if (floats)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "  %%4 = prod_grad(%%0, %%1) {axes=[%s]} : %s%s\n  output \"dx\" %%4\n"
                           "  %%5 = prod_grad(%%0, %%2) {axes=[%s]} : %s%s\n  output \"dz\" %%5\n",
                           s->axes, dtype, s->x, s->axes, dtype, s->x);
    snprintf(text + length, sizeof text - (size_t)length, "}\n");
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value inputs[2];
    for (int i = 0; i < 2; i++) assert_ok(tcc_value_create(&g->inputs.data[i]->type, &inputs[i], &diag), &diag);
    fill(&inputs[0], s, seed);
    for (int64_t e = 0; e < s->kept; e++)
        if (floats) inputs[1].f[e] = magnitude(&seed);
        else inputs[1].i[e] = e;
    check(g, &(compiled_options){.inputs = inputs, .tolerance = tolerance, .simplify = true, .eager = seed % 3 == 0});
    for (int i = 0; i < 2; i++) tcc_value_free(&inputs[i]);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

void products(graph_check *check) {
    static const struct {
        const char *dtype;
        double tolerance;
    } types[] = {{"f32", 2e-4}, {"bf16", 0.03}, {"f16", 4e-3}, {"f64", 1e-12}, {"i32", 0}, {"i64", 0}, {"u8", 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            check_product(check, types[t].dtype, &shapes[i], i + t, types[t].tolerance);
}
