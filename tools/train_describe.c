/* SPDX-License-Identifier: MIT
 * What was read, in words: on the terminal, and in the run's folder as dataset.txt. */
#include "train_run.h"

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
    if (status == TCC_OK && asprintf(&path, "%s/dataset.txt", s->folder.path) < 0) path = NULL, status = TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_file_write(s->cx, path, text, strlen(text));
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
