/* SPDX-License-Identifier: MIT
 * f16 and bf16 compiled for this machine: the bits that the interpreter rounds to. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/rounding_cases.h"

#include <stdio.h>

static void chains(void **state) {
    (void)state;
    rounded_chains(check_compiled);
}

static void borders(void **state) {
    (void)state;
    rounded_borders(check_compiled);
}

static void sums(void **state) {
    (void)state;
    rounded_sums(check_compiled);
}

static void functions(void **state) {
    (void)state;
    rounded_functions(run_compiled);
}

/* Rounding by integers would carry a NaN with many bits set over to -0: of loaded f32 it must not, and bf16 have no
 * bits there. Every bf16 and f32 with such upper halves, through arithmetic, choices and sums. */
static void nan_is_not_carried(void **state) {
    (void)state;
    enum { ALL = 1 << 16 };
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @nan {\n"
                               "  %0 = input {name=\"x\"} : bf16[65536,1]\n"
                               "  %1 = input {name=\"y\"} : f32[65536,1]\n"
                               "  %2 = add(%0, %0) : bf16[65536,1]\n"
                               "  %3 = mul(%2, %0) : bf16[65536,1]\n"
                               "  output \"arithmetic\" %3\n"
                               "  %4 = cast(%1) : bf16[65536,1]\n"
                               "  output \"cast\" %4\n"
                               "  %5 = abs(%1) : f32[65536,1]\n"
                               "  %6 = max(%5, %1) : f32[65536,1]\n"
                               "  %7 = cast(%6) : bf16[65536,1]\n"
                               "  output \"choice\" %7\n"
                               "  %8 = cast(%0) : f32[65536,1]\n"
                               "  %9 = mul(%8, %1) : f32[65536,1]\n"
                               "  %10 = cast(%9) : bf16[65536,1]\n"
                               "  output \"both\" %10\n"
                               "  %11 = reduce_sum(%9) {axes=[1]} : f32[65536]\n"
                               "  %12 = cast(%11) : bf16[65536]\n"
                               "  output \"sum\" %12\n"
                               "}\n",
                               &diag);
    compiled *c = compiled_create(g, &(compiled_options){0});
    uint16_t *x = c->memory[0];
    uint32_t *y = c->memory[1];
    for (uint32_t i = 0; i < ALL; i++) x[i] = (uint16_t)i, y[i] = i << 16 | 0xffff;
    compiled_run(c);
    for (int o = 0; o < g->outputs.count; o++) {
        const uint16_t *out = compiled_output(c, o);
        for (uint32_t i = 0; i < ALL; i++) {
            const bool nan = ((o ? y[i] : (uint32_t)x[i] << 16) & 0x7fffffff) > 0x7f800000;
            if (nan) assert_true((out[i] & 0x7fff) > 0x7f80);
        }
    }
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

/* Every bf16 as f32, from rows of less than a vector, of whole ones of each width, and with a rest. */
static void halves_become_floats(void **state) {
    (void)state;
    enum { ALL = 1 << 16 };
    static const int widths[] = {3, 8, 12, 16, 24, 32, 40, 64, 100, 65536};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int width = widths[w], rows = (ALL + width - 1) / width;
        char text[512];
        tcc_diag diag = {0};
        snprintf(text, sizeof text,
                 "graph @halves {\n  %%0 = input {name=\"x\"} : bf16[%d,%d]\n"
                 "  %%1 = input {name=\"y\"} : f32[%d]\n  %%2 = cast(%%0) : f32[%d,%d]\n"
                 "  %%3 = broadcast(%%1) {dims=[1]} : f32[%d,%d]\n  %%4 = mul(%%2, %%3) : f32[%d,%d]\n"
                 "  output \"cast\" %%2\n  output \"scaled\" %%4\n}\n",
                 rows, width, width, rows, width, rows, width, rows, width);
        tcc_graph *g = parse_graph(text, &diag);
        compiled *c = compiled_create(g, &(compiled_options){0});
        uint16_t *x = c->memory[0];
        float *y = c->memory[1];
        for (int i = 0; i < rows * width; i++) x[i] = (uint16_t)i;
        for (int i = 0; i < width; i++) y[i] = 1;
        compiled_run(c);
        for (int o = 0; o < g->outputs.count; o++) {
            const uint32_t *out = compiled_output(c, o);
            for (int i = 0; i < rows * width; i++) {
                const uint32_t wanted = (uint32_t)x[i] << 16, quiet = o ? 0x400000 : 0; /* of a NaN */
                assert_int_equal(out[i], (wanted & 0x7fffffff) > 0x7f800000 ? wanted | quiet : wanted);
            }
        }
        compiled_destroy(c);
        tcc_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains),
                                       cmocka_unit_test(borders),
                                       cmocka_unit_test(sums),
                                       cmocka_unit_test(functions),
                                       cmocka_unit_test(nan_is_not_carried),
                                       cmocka_unit_test(halves_become_floats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
