/* SPDX-License-Identifier: MIT
 * What a shell may complete a command line with: the lines that the hidden option --complete prints for
 * tools/packaging/completion.bash. A line is a word, or ":files", ":files EXTENSION" or ":folders". */
#ifndef TCC_TOOLS_COMPLETE_H
#define TCC_TOOLS_COMPLETE_H

#include <stdbool.h>

/* An option, and what follows it: NULL, nothing; "a|b|c", one of these; ":files" and the like; "", anything else. */
typedef struct complete_option {
    const char *name, *value;
} complete_option;

/* Prints `prefix` and `word` if the two together begin with `current`. */
void complete_word(const char *prefix, const char *word, const char *current);
/* The same for each of "a|b|c"; for ":files" and the like the line itself; nothing for NULL. */
void complete_choices(const char *prefix, const char *choices, const char *current);
/* Completes an option, or the value of the option `before` or of "--name=value". False: `current` is none of these. */
bool complete_option_word(const complete_option *options, int count, const char *before, const char *current);

#endif
