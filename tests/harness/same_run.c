/* SPDX-License-Identifier: MIT */
#include "same_run.h"
#include "check.h"
#include "files.h"

#include <stdio.h>
#include <stdlib.h>

void same_file(void **state, const char *a, const char *b, const char *name) {
    char path[256];
    size_t a_size, b_size;
    snprintf(path, sizeof path, "%s/%s", a, name);
    char *a_bytes = test_read(test_path(state, path), &a_size);
    snprintf(path, sizeof path, "%s/%s", b, name);
    char *b_bytes = test_read(test_path(state, path), &b_size);
    if (a_size != b_size || memcmp(a_bytes, b_bytes, a_size)) fail_msg("%s and %s differ in %s", a, b, name);
    free(a_bytes);
    free(b_bytes);
}

/* The metrics of a run without what depends on the clock. From malloc. */
static char *timeless_metrics(void **state, const char *run) {
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text = test_read(test_path(state, path), NULL), *to = text;
    for (const char *from = text; *from;) {
        bool timed = !strncmp(from, "\"step_ms\":", 10) || !strncmp(from, "\"tokens_per_s\":", 15) ||
                     !strncmp(from, "\"samples_per_s\":", 16);
        if (timed) from += strcspn(from, ",}") + (from[strcspn(from, ",}")] == ',');
        else *to++ = *from++;
    }
    *to = '\0';
    return text;
}

void same_metrics(void **state, const char *a, const char *b) {
    char *x = timeless_metrics(state, a), *y = timeless_metrics(state, b);
    const char *p = x, *q = y; /* the first lines that differ */
    while (*p && !strncmp(p, q, strcspn(p, "\n") + 1)) p += strcspn(p, "\n") + 1, q += strcspn(q, "\n") + 1;
    if (*p || *q)
        fail_msg("the metrics of %s and %s differ:\n%.*s\n%.*s", a, b, (int)strcspn(p, "\n"), p, (int)strcspn(q, "\n"),
                 q);
    free(x);
    free(y);
}
