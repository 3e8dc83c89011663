/* SPDX-License-Identifier: MIT
 * Elements of 8 and 16 bits that are read at computed places: from rows that begin at any element, by vectors and what
 * is left of them. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include <stdio.h>

static void elements_of_all_sizes(void **state) {
    (void)state;
    static const char *const types[] = {"bf16", "f16", "u8", "bool", "f32"};
    enum { ROWS = 5 };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int width = 24; width < 28; width++) /* of rows, which begin at multiples of it */
            for (int count = 1; count <= 70; count += 23) {
                char text[1024];
                tcc_diag diag = {0};
                snprintf(text, sizeof text,
                         "graph @take {\n"
                         "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
                         "  %%1 = input {name=\"at\"} : i32[%d,%d]\n"
                         "  %%2 = constant {values=[1]} : i32[%d,%d]\n"
                         "  %%3 = add(%%1, %%2) : i32[%d,%d]\n"
                         "  %%4 = take_along(%%0, %%3) {axis=1} : %s[%d,%d]\n"
                         "  output \"o\" %%4\n}\n",
                         types[t], ROWS, width, ROWS, count, ROWS, count, ROWS, count, types[t], ROWS, count);
                tcc_graph *g = parse_graph(text, &diag);
                check_compiled(g, &(compiled_options){.seed = t + 1, .limit = width - 2, .exact = true});
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_of_all_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
