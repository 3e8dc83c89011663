/* SPDX-License-Identifier: MIT
 * A graph for each schedule, and values of its parameters beside those that are chosen. */
#ifndef TCC_TESTS_HARNESS_CHOICE_CASES_H
#define TCC_TESTS_HARNESS_CHOICE_CASES_H

#include "harness/compiled.h"

enum { MOST_CHOICE_EDITS = 8 };

typedef struct choice_case {
    const char *name, *text;
    const char *host[MOST_CHOICE_EDITS], *gpu[MOST_CHOICE_EDITS]; /* compiled_options.edits, each by itself */
    double tolerance;
} choice_case;

extern const choice_case choice_cases[];
extern const int n_choice_cases;

/* Each edit of each case gives the results that the graph means. */
void check_choice_cases(graph_check *check, bool gpu);
/* Each variation of each case that a measurement may try does so too; fails where there are fewer than `least`. */
void check_choice_variations(graph_check *check, int least);

#endif
