/* SPDX-License-Identifier: MIT
 * Examples of cache.h. */
#include "examples.h"

EXAMPLE(tcc_cache_report) {
    char *text = NULL;
    if (!tcc_cache_report(cx, "stat", NULL, &text)) fputs(text, stdout);
    tcc_string_free(text);
}

EXAMPLE(tcc_cache_export) {
    if (tcc_cache_export(cx, "programs.cache")) puts(tcc_context_error(cx));
}

EXAMPLE(tcc_cache_import) {
    char *text = NULL;
    if (!tcc_cache_import(cx, "programs.cache", &text)) fputs(text, stdout);
    tcc_string_free(text);
}

EXAMPLE(tcc_cache_clear) {
    if (tcc_cache_clear(cx)) puts(tcc_context_error(cx));
}
