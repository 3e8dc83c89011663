/* SPDX-License-Identifier: MIT
 * Any bytes as a recipe: parsed or refused with a message, never more. What parses prints as a recipe that parses
 * again. */
#include "train_recipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    recipe r;
    char error[RECIPE_ERROR_MAX] = "";
    if (!recipe_init(&r)) return 0;
    if (!recipe_parse(&r, (const char *)data, size, "fuzz.yaml", error)) {
        if (!*error) abort();
    } else if (recipe_check(&r, error)) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        bool printed = out && recipe_print(&r, out);
        if (out) fclose(out);
        recipe again;
        if (printed && recipe_init(&again)) {
            if (!recipe_parse(&again, text, length, "printed.yaml", error)) abort();
            recipe_free(&again);
        }
        free(text);
    }
    recipe_free(&r);
    return 0;
}
