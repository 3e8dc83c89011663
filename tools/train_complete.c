/* SPDX-License-Identifier: MIT
 * tcc-train --complete WORD...: what the last word can become, for a shell. */
#include "complete.h"
#include "train.h"

#include <string.h>

static void complete_keys(const char *current) {
    char prefix[128];
    for (int i = 0; recipe_key(i); i++) {
        snprintf(prefix, sizeof prefix, "%s=", recipe_key(i));
        if (strchr(current, '=')) {
            if (!strncmp(current, prefix, strlen(prefix))) complete_choices(prefix, recipe_key_values(i), current);
        } else {
            complete_word("", prefix, current);
        }
    }
}

/* Operands among the words before the last. */
static int count_operands(const complete_option *options, int n_options, char *const *words, int count) {
    int operands = 0;
    for (int i = 0; i + 1 < count; i++) {
        int takes = 0;
        for (int k = 0; k < n_options; k++) takes |= options[k].value && !strcmp(options[k].name, words[i]);
        operands += *words[i] != '-';
        i += takes;
    }
    return operands;
}

int train_complete(const complete_option *options, int n_options, train_task task, char *const *words, int count) {
    const char *current = count ? words[count - 1] : "", *before = count > 1 ? words[count - 2] : "";
    const char *command = count > 1 ? words[0] : "";
    if (!strcmp(command, "cache")) {
        train_cache_complete(count > 2 ? words[1] : NULL, current);
    } else if (!strcmp(command, "tokenize")) {
        train_tokenize_complete(before, current);
    } else if (!strcmp(command, "report")) {
        train_report_complete(before, current);
    } else if (!complete_option_word(options, n_options, before, current)) {
        const int operands = count_operands(options, n_options, words, count);
        const bool predict = task == TASK_PREDICT, looks = task != TASK_TRAIN;
        bool plan = false;
        for (int i = 0; i + 1 < count; i++) plan |= !strcmp(words[i], "--plan");
        const bool describes = !strcmp(command, "data");
        if (operands > (looks || describes) || plan) {
            if (predict && operands >= 2) complete_choices("", ":files", current);
            if (task == TASK_EXPORT && operands == 2) complete_choices("", ":folders", current);
            complete_keys(current);
        } else if (looks) {
            complete_choices("", ":folders", current);
            complete_choices("", ":files safetensors", current);
        } else {
            if (count == 1) complete_choices("", "cache|data|eval|export|generate|predict|report|tokenize", current);
            complete_choices("", ":files yaml", current);
        }
    }
    return EXIT_DONE;
}
