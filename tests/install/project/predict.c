/* SPDX-License-Identifier: MIT
 * Answers for a file from what tcc-train export wrote: predict FOLDER FILE. */
#include <traincc/run.h>

#include <stdio.h>

static bool print(void *user, const tcc_answer *a) {
    size_t length;
    printf("%s\t%.4f\n", tcc_dataset_label(tcc_run_data(user), a->label, &length), a->values[a->label]);
    return true;
}

int main(int argc, char **argv) {
    tcc_context *cx;
    tcc_run *run = NULL;
    if (argc != 3 || tcc_context_create(&cx)) return 2;
    if (tcc_run_open(cx, argv[1], &run) || tcc_run_predict(run, argv[2], print, run))
        fprintf(stderr, "%s\n", tcc_context_error(cx));
    const int status = *tcc_context_error(cx) != '\0';
    tcc_run_close(run);
    tcc_context_destroy(cx);
    return status;
}
