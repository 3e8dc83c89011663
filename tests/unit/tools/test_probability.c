/* SPDX-License-Identifier: MIT
 * Probabilities are written as printf writes them. */
#include "harness/check.h"
#include "probability.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void same(float p) {
    for (int fixed = 0; fixed < 2; fixed++) {
        char is[PROBABILITY_MAX], should[64];
        probability_print(p, fixed, is);
        snprintf(should, sizeof should, fixed ? "%.4f" : "%.6g", (double)p);
        if (strcmp(is, should) != 0) fail_msg("%a: '%s' should be '%s'", (double)p, is, should);
    }
}

static void as_printf(void **state) {
    (void)state;
    static const float places[] = {0,        1,     0.5f,  0.1f, 0.01f,   0.001f,   1e-4f, 1e-5f,  0.03125f,
                                   0.00005f, 0.25f, 0.75f, 2,    -0.125f, INFINITY, NAN,   1e-38f, 1e-45f};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (float up = places[i], down = up, n = 0; n < 100; n++) {
            same(up);
            same(down);
            up = nextafterf(up, 2);
            down = nextafterf(down, 0);
        }
    for (int i = 0; i <= 1 << 16; i++) same((float)i * 0x1p-16f); /* halves between two texts are among them */
    for (uint32_t bits = 0x30000000; bits <= 0x3f800000; bits += 1999) {
        float p;
        memcpy(&p, &bits, sizeof p);
        same(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_printf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
