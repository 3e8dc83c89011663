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
        double values[TCC_DRAWS], normals[TCC_DRAWS], expected[2][TCC_PAIRS];
        uint32_t radius[TCC_PAIRS], angle[TCC_PAIRS];
        tcc_draws_uniform(&d, firsts[f], values);
        tcc_draws_normal(&d, firsts[f], normals);
        for (int i = 0; i < TCC_DRAWS; i++) {
            const uint32_t word = word_of(&d, firsts[f] + (uint64_t)i);
            assert_true(values[i] == uniform(word));
            (i % 2 ? angle : radius)[i / 2] = word;
        }
        tcc_draws_best()->normals(radius, angle, expected[0], expected[1]);
        for (int i = 0; i < TCC_DRAWS; i++) assert_true(normals[i] == expected[i % 2][i / 2]);
    }
}

/* Random words, and those at the borders of what the functions distinguish. */
static void normals_are_exact_and_the_same_at_each_width(void **state) {
    (void)state;
    uint64_t random = 1;
    double worst = 0;
    for (int round = 0; round < 3000; round++) {
        uint32_t radius[TCC_PAIRS], angle[TCC_PAIRS];
        double values[2][TCC_PAIRS], portable[2][TCC_PAIRS];
        for (int i = 0; i < TCC_PAIRS; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            radius[i] = (uint32_t)(random >> 32);
            random = random * 6364136223846793005u + 1442695040888963407u;
            angle[i] = (uint32_t)(random >> 32);
            if (i < 8) radius[i] = i < 4 ? (uint32_t)i : UINT32_MAX - (uint32_t)(i - 4);
            else if (i < 16) radius[i] = 0xb504f333u - 4 + (uint32_t)i % 8; /* about sqrt(1/2) */
            else if (i < 64) angle[i] = (uint32_t)(i % 8) * 0x20000000u - 3 + (uint32_t)(i / 8);
        }
        tcc_draws_best()->normals(radius, angle, values[0], values[1]);
        tcc_draws_portable.normals(radius, angle, portable[0], portable[1]);
        assert_memory_equal(values, portable, sizeof values);
        for (int i = 0; i < TCC_PAIRS; i++) {
            const long double turn = 2 * 3.141592653589793238462643383279502884L;
            const long double v = turn * uniform(angle[i]), r = sqrtl(-2 * logl(uniform(radius[i])));
            const double errors[] = {(double)fabsl(r * cosl(v) - (long double)values[0][i]),
                                     (double)fabsl(r * sinl(v) - (long double)values[1][i])};
            for (int k = 0; k < 2; k++) {
                assert_true(isfinite(values[k][i]));
                if (errors[k] > worst) worst = errors[k];
            }
        }
    }
    assert_true(worst < 0x1p-49);
}

/* A million of them: moments, tails and the two values of a pair, each within 5 standard errors. */
static void normals_are_distributed_normally(void **state) {
    (void)state;
    enum { BATCHES = 4096, COUNT = BATCHES * TCC_DRAWS };
    const tcc_draws d = tcc_draws_of(7, "wte.weight");
    double sums[5] = {0}, pairs = 0, squares = 0;
    int beyond[6] = {0};
    for (int batch = 0; batch < BATCHES; batch++) {
        double z[TCC_DRAWS];
        tcc_draws_normal(&d, (uint64_t)batch * TCC_DRAWS, z);
        for (int i = 0; i < TCC_DRAWS; i++) {
            for (int k = 1; k < 5; k++) sums[k] += pow(z[i], k);
            for (int k = 0; k < 6; k++) beyond[k] += fabs(z[i]) > k;
        }
        for (int i = 0; i < TCC_DRAWS; i += 2) {
            pairs += z[i] * z[i + 1];
            squares += (z[i] * z[i] - 1) * (z[i + 1] * z[i + 1] - 1);
        }
    }
    static const double moments[] = {1, 0, 1, 0, 3}, variances[] = {0, 1, 2, 15, 96};
    for (int k = 1; k < 5; k++) assert_true(fabs(sums[k] / COUNT - moments[k]) < 5 * sqrt(variances[k] / COUNT));
    for (int k = 1; k < 6; k++) {
        const double expected = COUNT * erfc(k / sqrt(2.0));
        assert_true(fabs(beyond[k] - expected) < 5 * sqrt(expected));
    }
    assert_true(fabs(pairs) < 5 * sqrt(COUNT / 2.0));
    assert_true(fabs(squares) < 5 * sqrt(4 * COUNT / 2.0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_those_of_philox),
                                       cmocka_unit_test(normals_are_exact_and_the_same_at_each_width),
                                       cmocka_unit_test(normals_are_distributed_normally)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
