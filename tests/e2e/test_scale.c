/* SPDX-License-Identifier: MIT
 * Passes are near linear: a graph of twice the parts takes at most so many times the work. Work is counted, not timed:
 * ir and passes are compiled for this test so that each basic block counts when it is entered. */
#include "harness/check.h"
#include "harness/scale_shapes.h"

#include <stdlib.h>

static long long entered;

void __sanitizer_cov_trace_pc(void); /* the name is the compilers' */
void __sanitizer_cov_trace_pc(void) { entered++; }

static long long work_of(const char *shape, int64_t parts) {
    tcc_context *cx;
    tcc_model *m;
    if (tcc_context_create(&cx) != TCC_OK) fail_msg("no context");
    const long long before = entered;
    if (scale_compile(cx, scale_shape_find(shape), parts, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    const long long work = entered - before;
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return work;
}

static void twice_the_parts(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        int64_t parts;
        double most; /* times the work */
    } cases[] = {{"chain", 1000, 2.3}, {"residual", 60, 2.3}, {"gpt", 16, 2.3},
                 {"fan", 150, 2.3},    {"rnn", 150, 2.3},     {"ctc", 60, 2.3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const long long one = work_of(cases[i].shape, cases[i].parts),
                        two = work_of(cases[i].shape, 2 * cases[i].parts);
        print_message("%-8s %lld parts %lld blocks, twice the parts %.3f times\n", cases[i].shape,
                      (long long)cases[i].parts, one, (double)two / (double)one);
        assert_true(one > 100000);
        if ((double)two > cases[i].most * (double)one) fail_msg("%s takes more than twice the work", cases[i].shape);
    }
}

int main(void) {
    setenv("TCC_CACHE_DISABLE", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(twice_the_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
