/* SPDX-License-Identifier: MIT
 * Many random pairs of network and loss, in micro-batches against the whole batch: accumulate-campaign FIRST_SEED
 * COUNT. Odd seeds are bf16. Prints a line for each pair that differs, and at last how many are equal, refused (by what
 * is said of the op) and different. Exit status 1 where one is different. */
#include "harness/accumulate_random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REASONS = 64 };

static struct reason {
    char text[160];
    int count;
} reasons[MOST_REASONS];
static int n_reasons;

/* "this log, f32[], is not linear ...": without the type. */
static void count_reason(const char *message) {
    char text[160] = "";
    const char *op = strstr(message, "this "), *why = op ? strstr(op, "], ") : NULL,
               *end = why ? strstr(why, ", so ") : NULL;
    int i = 0;
    if (end) snprintf(text, sizeof text, "%.*s%.*s", (int)strcspn(op, ","), op, (int)(end - why - 1), why + 1);
    while (i < n_reasons && strcmp(reasons[i].text, text)) i++;
    if (i == MOST_REASONS) return;
    if (i == n_reasons) snprintf(reasons[n_reasons++].text, sizeof text, "%s", text);
    reasons[i].count++;
}

int main(int argc, char **argv) {
    const unsigned long long first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
                             count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    long counts[ACCUMULATE_VERDICTS] = {0};
    double worst[2] = {0};
    for (unsigned long long seed = first; seed < first + count; seed++) {
        accumulate_result r;
        accumulate_random(seed, seed % 2 ? TCC_MIXED_BF16 : TCC_MIXED_NONE, "cpu", &r);
        counts[r.verdict]++;
        if (r.verdict == ACCUMULATE_REFUSED) count_reason(r.text);
        if (r.verdict == ACCUMULATE_EQUAL && r.worst > worst[seed % 2]) worst[seed % 2] = r.worst;
        if (r.verdict == ACCUMULATE_DIFFERENT) printf("%llu (%s): %s\n", seed, r.network, r.text);
        fflush(stdout);
    }
    for (int i = 0; i < n_reasons; i++) printf("refused %d: %s\n", reasons[i].count, reasons[i].text);
    printf("seeds %llu to %llu: %ld equal (at most %.2f of what is allowed in float32, %.2f in bf16), %ld refused, %ld "
           "different\n",
           first, first + count - 1, counts[ACCUMULATE_EQUAL], worst[0], worst[1], counts[ACCUMULATE_REFUSED],
           counts[ACCUMULATE_DIFFERENT]);
    return counts[ACCUMULATE_DIFFERENT] > 0;
}
