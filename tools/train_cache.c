/* SPDX-License-Identifier: MIT
 * tcc-train cache: what the cache holds, why something was compiled anew, and moving it. */
#include "train.h"

#include <traincc/cache.h>

#include <stdio.h>
#include <string.h>

static const char forms[] = "cache stat | list | why [KEY] | export FILE | import FILE | clear";

typedef enum command { STAT, LIST, WHY, EXPORT, IMPORT, CLEAR, COMMANDS } command;
static const struct {
    const char *name;
    int least, most; /* arguments */
} commands[COMMANDS] = {[STAT] = {"stat", 0, 0},     [LIST] = {"list", 0, 0},     [WHY] = {"why", 0, 1},
                        [EXPORT] = {"export", 1, 1}, [IMPORT] = {"import", 1, 1}, [CLEAR] = {"clear", 0, 0}};

static tcc_status run_command(tcc_context *cx, command c, const char *argument) {
    char *text = NULL;
    tcc_status status = TCC_OK;
    switch (c) {
    case STAT:
    case LIST:
    case WHY: status = tcc_cache_report(cx, commands[c].name, argument, &text); break;
    case EXPORT: status = tcc_cache_export(cx, argument); break;
    case IMPORT: status = tcc_cache_import(cx, argument, &text); break;
    case CLEAR: status = tcc_cache_clear(cx); break;
    case COMMANDS: break;
    }
    if (text) fputs(text, stdout);
    tcc_string_free(text);
    return status;
}

void train_cache_complete(const char *command, const char *current) {
    for (int c = 0; c < COMMANDS && !command; c++) complete_word("", commands[c].name, current);
    if (command && (!strcmp(command, "export") || !strcmp(command, "import"))) complete_choices("", ":files", current);
}

int train_cache(char *const *arguments, int count) {
    int c = 0;
    while (c < COMMANDS && (!count || strcmp(arguments[0], commands[c].name) != 0)) c++;
    if (c == COMMANDS || count - 1 < commands[c].least || count - 1 > commands[c].most) {
        fprintf(stderr, "tcc-train: usage: tcc-train %s\n", forms);
        return EXIT_USAGE;
    }
    tcc_context *cx;
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = run_command(cx, (command)c, count > 1 ? arguments[1] : NULL);
    if (status != TCC_OK) fprintf(stderr, "tcc-train: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_DONE : EXIT_FAILED;
}
