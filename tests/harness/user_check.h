/* SPDX-License-Identifier: MIT
 * Whether a user's program trains as the reference interpreter says, in all modes. */
#ifndef TCC_TESTS_HARNESS_USER_CHECK_H
#define TCC_TESTS_HARNESS_USER_CHECK_H

#include "harness/user_program.h"

enum {
    USER_EAGER = 1,
    USER_DEFAULT = 2,
    USER_THREADS = 4,  /* default, with two and three threads: equal bits */
    USER_EVALUATE = 8, /* default, the forward pass alone */
    USER_GPU = 16,
    USER_GPU_EAGER = 32,
    USER_BUDGET = 64, /* in each of the modes asked for once more within the program's budget of memory: equal bits */
    USER_GPU_REPLAY = 128, /* the second of three steps a replay */
    USER_MODES = 7,        /* bits */
    USER_TRAIN_STEPS = 3
};

const char *user_mode_name(unsigned mode);

/* The options of the program's model in one mode, without its budget of memory. */
tcc_model_options user_program_options(const user_program *p, unsigned mode);
/* The program's model with such options, or in one mode; NULL after an error, which the context keeps. */
tcc_model *user_program_model_with(tcc_context *cx, const user_program *p, const tcc_model_options *options);
tcc_model *user_program_model(tcc_context *cx, const user_program *p, unsigned mode);

/* How many arrays a model stores, and a copy of all of them, each to be freed; or back. On the CPU. */
int user_model_states(const tcc_model *m);
void user_model_copy_state(tcc_model *m, float **copies, bool back);

typedef struct user_verdict {
    unsigned mode;   /* that disagrees; 0: none does */
    char text[1024]; /* what disagrees */
    double worst;    /* largest error over what is allowed, of all that agrees */
    int again;       /* nodes that the program's budget had computed again, in all modes */
    double vague;    /* share of values whose noise is more than 1 % of their tensor's magnitude, or not a number */
} user_verdict;

/* Trains the program for USER_TRAIN_STEPS steps in each mode of a set, from the same state and on the same batches, and
 * compares losses, outputs, gradients that are kept, and in the end all parameters, buffers and moments. */
void user_program_check(const user_program *p, unsigned modes, user_verdict *out);

/* The same with the reference of another program, so that a test can see that a difference is found. */
void user_program_compare(const user_program *p, const user_program *reference, unsigned modes, user_verdict *out);

/* Makes `p` smaller while the mode of its verdict still disagrees; at most `seconds`. */
void user_program_shrink(user_program *p, const user_verdict *verdict, double seconds);
/* The same while some function says that the program is still wrong. */
typedef bool user_wrong(const user_program *p, const void *verdict);
void user_program_shrink_while(user_program *p, user_wrong *wrong, const void *verdict, double seconds);

#endif
