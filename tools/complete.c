/* SPDX-License-Identifier: MIT
 * Words that a shell completes a command line with. */
#include "complete.h"

#include <stdio.h>
#include <string.h>

void complete_word(const char *prefix, const char *word, const char *current) {
    const size_t length = strlen(prefix), typed = strlen(current);
    if (strncmp(current, prefix, typed < length ? typed : length) != 0) return;
    if (typed > length && strncmp(word, current + length, typed - length) != 0) return;
    printf("%s%s\n", prefix, word);
}

void complete_choices(const char *prefix, const char *choices, const char *current) {
    char word[128];
    if (choices && *choices == ':') puts(choices);
    else
        for (const char *c = choices; c && *c; c += strcspn(c, "|"), c += *c == '|') {
            snprintf(word, sizeof word, "%.*s", (int)strcspn(c, "|"), c);
            complete_word(prefix, word, current);
        }
}

bool complete_option_word(const complete_option *options, int count, const char *before, const char *current) {
    char prefix[64];
    const char *equals = *current == '-' ? strchr(current, '=') : NULL;
    for (int i = 0; i < count; i++) {
        if (options[i].value && !strcmp(options[i].name, before)) {
            complete_choices("", options[i].value, current);
            return true;
        }
        snprintf(prefix, sizeof prefix, "%s=", options[i].name);
        if (equals && options[i].value && !strncmp(current, prefix, strlen(prefix)))
            complete_choices(prefix, options[i].value, current);
    }
    for (int i = 0; i < count && *current == '-' && !equals; i++) complete_word("", options[i].name, current);
    return *current == '-';
}
