/* SPDX-License-Identifier: MIT
 * What was read, in words: on the terminal, and in the run's folder as data.txt. */
#include "train_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

tcc_status run_describe_data(run *s) {
    char *text;
    const tcc_status status = tcc_dataset_describe(s->cx, s->data, &text);
    if (status != TCC_OK) return status;
    fputs(text, stdout);
    fflush(stdout);
    tcc_string_free(text);
    return TCC_OK;
}

tcc_status run_keep_description(run *s) {
    char *path = NULL, *text = NULL;
    tcc_status status = tcc_dataset_describe(s->cx, s->data, &text);
    FILE *f = status == TCC_OK && asprintf(&path, "%s/data.txt", s->folder.path) >= 0 ? fopen(path, "w") : NULL;
    if (status == TCC_OK && (!f || fputs(text, f) < 0)) status = TCC_EIO;
    if (f && fclose(f)) status = TCC_EIO;
    if (status == TCC_EIO)
        snprintf(s->problem, sizeof s->problem, "cannot write %s/data.txt: %s", s->folder.path, strerror(errno));
    tcc_string_free(text);
    free(path);
    return status;
}

void run_tell_skipped(const run *s) {
    enum { SHOWN = 10 };
    int64_t count = 0;
    while (s->data && tcc_dataset_skipped(s->data, count)) count++;
    if (!count) return;
    fprintf(stderr, "tcc-train: %lld samples were left out:\n", (long long)count);
    for (int64_t i = 0; i < count && i < SHOWN; i++) fprintf(stderr, "  %s\n", tcc_dataset_skipped(s->data, i));
    if (count > SHOWN) fprintf(stderr, "  and %lld more\n", (long long)(count - SHOWN));
}
