/* SPDX-License-Identifier: MIT
 * Nearest word by Levenshtein distance. */
#include "nearest.h"

#include <stddef.h>
#include <string.h>

enum { LONGEST = 63 };

static int distance(const char *a, size_t n, const char *b, size_t m) {
    int row[LONGEST + 1]; /* distances of the first i characters of a to each prefix of b */
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = replace < shorter + 1 ? replace : shorter + 1;
        }
    }
    return row[m];
}

const char *tcc_nearest(const char *word, const char *const *candidates, int count) {
    size_t n = strlen(word);
    if (n > LONGEST) return NULL;
    const char *best = NULL;
    int least = 0;
    for (int i = 0; i < count; i++) {
        size_t m = strlen(candidates[i]);
        if (m > LONGEST) continue;
        int d = distance(word, n, candidates[i], m);
        if (3 * (size_t)d > (n > m ? n : m) || (best && d >= least)) continue;
        best = candidates[i];
        least = d;
    }
    return best;
}
