/* SPDX-License-Identifier: MIT
 * tcc-train's command line. */
#ifndef TCC_TOOLS_TRAIN_OPTIONS_H
#define TCC_TOOLS_TRAIN_OPTIONS_H

#include "train.h"

typedef struct arguments {
    train_options options;
    const char *device;
    bool devices;
    char **operands;
    int n_operands;
    uint64_t given; /* options, a bit for each */
} arguments;

/* Says what is wrong; returns EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *format, ...);

/* Operands are moved to the front of argv. A status to end with; -1: none. */
int read_arguments(int argc, char **argv, arguments *a);
/* What the command of this name does; TASK_TRAIN for all else. */
train_task task_of(const char *operand);
/* Prints what the last of the words can become. */
int complete_options(char *const *words, int count);

bool ends_with(const char *s, const char *suffix);

#endif
