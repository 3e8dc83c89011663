/* SPDX-License-Identifier: MIT
 * Points of two spirals, for the examples that learn to tell them apart. */
#ifndef TCC_EXAMPLES_SPIRALS_H
#define TCC_EXAMPLES_SPIRALS_H

#include <math.h>
#include <stdint.h>

enum { POINTS = 256 };

static inline void make_points(float points[POINTS][2], int32_t labels[POINTS]) {
    for (int i = 0; i < POINTS; i++) {
        double turn = 1.5 * 6.2832 * (i / 2) / (POINTS / 2), radius = 0.1 + turn / 10;
        labels[i] = i % 2;
        points[i][0] = (float)(radius * cos(turn + 3.1416 * labels[i]));
        points[i][1] = (float)(radius * sin(turn + 3.1416 * labels[i]));
    }
}

#endif
