/* SPDX-License-Identifier: MIT
 * Random numbers of initial values: the words are Philox's, the values are what the C library computes of them, and
 * they have the same bits at every vector width. */
#include "frontend/run/draws.h"

#include "ir/support/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static double uniform(uint32_t word) { return (word + 0.5) * 0x1p-32; }

static uint32_t word_of(const tcc_draws *d, uint64_t at) {
    const uint64_t block = at / 4;
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), d->name_hash, 0x696e6974u};
    uint32_t words[4];
    tcc_philox4x32(d->key, counter, words);
    return words[at % 4];
}

static void words_are_those_of_philox(void **state) {
    (void)state;
    const tcc_draws d = tcc_draws_of(0x123456789abcdef, "h.3.fc.weight");
    static const uint64_t firsts[] = {0, 1 << 14, (UINT64_C(1) << 34) - 128, UINT64_C(1) << 40};
    for (int f = 0; f < 4; f++) {
        double values[TCC_DRAWS], normals[TCC_NORMALS], expected[TCC_NORMALS];
        uint32_t radius[TCC_NORMALS], angle[TCC_NORMALS];
        tcc_draws_uniform(&d, firsts[f], values);
        tcc_draws_normal(&d, firsts[f], normals);
        for (int i = 0; i < TCC_DRAWS; i++) {
            const uint32_t word = word_of(&d, firsts[f] + (uint64_t)i);
            assert_true(values[i] == uniform(word));
            (i % 2 ? angle : radius)[i / 2] = word;
        }
        tcc_normals(radius, angle, expected);
        assert_memory_equal(normals, expected, sizeof normals);
    }
}

/* Random words, and those at the borders of what the functions distinguish. */
static void normals_are_exact_and_the_same_at_each_width(void **state) {
    (void)state;
    uint64_t random = 1;
    double worst = 0;
    for (int round = 0; round < 3000; round++) {
        uint32_t radius[TCC_NORMALS], angle[TCC_NORMALS];
        double values[TCC_NORMALS], portable[TCC_NORMALS];
        for (int i = 0; i < TCC_NORMALS; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            radius[i] = (uint32_t)(random >> 32);
            random = random * 6364136223846793005u + 1442695040888963407u;
            angle[i] = (uint32_t)(random >> 32);
            if (i < 8) radius[i] = i < 4 ? (uint32_t)i : UINT32_MAX - (uint32_t)(i - 4);
            else if (i < 16) radius[i] = 0xb504f333u - 4 + (uint32_t)i % 8; /* about sqrt(1/2) */
            else if (i < 64) angle[i] = (uint32_t)(i % 8) * 0x20000000u - 3 + (uint32_t)(i / 8);
        }
        tcc_normals(radius, angle, values);
        tcc_normals_portable(radius, angle, portable);
        assert_memory_equal(values, portable, sizeof values);
        for (int i = 0; i < TCC_NORMALS; i++) {
            const long double turn = 2 * 3.141592653589793238462643383279502884L;
            const long double u = uniform(radius[i]), v = uniform(angle[i]);
            const double error = (double)fabsl(sqrtl(-2 * logl(u)) * cosl(turn * v) - (long double)values[i]);
            assert_true(isfinite(values[i]));
            if (error > worst) worst = error;
        }
    }
    assert_true(worst < 0x1p-49);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_those_of_philox),
                                       cmocka_unit_test(normals_are_exact_and_the_same_at_each_width)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
