/* SPDX-License-Identifier: MIT
 * Examples of context.h. */
#include "examples.h"

EXAMPLE(tcc_context_create) {
    tcc_context *mine;
    if (tcc_context_create(&mine)) puts(mine ? tcc_context_error(mine) : "out of memory");
    tcc_context_destroy(mine);
}

EXAMPLE(tcc_context_destroy) {
    tcc_context *mine;
    TCC_TRY(tcc_context_create(&mine));
    tcc_context_destroy(mine); /* after all that was made with it */
}

EXAMPLE(tcc_context_error) {
    tcc_dataset *none;
    tcc_data_options from = {.size = sizeof from, .kind = "csv", .path = "no such file"};
    if (tcc_dataset_open(cx, &from, &none))
        printf("%s\n",
               tcc_context_error(cx)); /* no such file: error: cannot open the file: No such file or directory */
}

EXAMPLE(tcc_context_clear_error) {
    tcc_context_clear_error(cx);
    printf("\"%s\"\n", tcc_context_error(cx)); /* "" */
}

static void log_line(void *user, const char *topic, const char *message) {
    fprintf((FILE *)user, "%s: %s\n", topic, message);
}

EXAMPLE(tcc_context_set_log) {
    tcc_context_set_log(cx, log_line, stderr); /* void log_line(void *user, const char *topic, const char *message) */
}
