/* SPDX-License-Identifier: MIT
 * Programs as users write them, kept as data: a list of calls of tensor.h and nn.h, each on results of earlier ones.
 * Such a program is traced through the public API, printed as C or as JSON, and shortened step by step. */
#ifndef TCC_TESTS_HARNESS_USER_PROGRAM_H
#define TCC_TESTS_HARNESS_USER_PROGRAM_H

#include "ir/support/strbuf.h"

#include <traincc/traincc.h>

typedef enum user_op {
#define USER_OP(name, text) USER_##name,
#include "harness/user_program_ops.def"
#undef USER_OP
    USER_OP_COUNT
} user_op;

enum {
    USER_ARGS = 64,   /* operands of a step */
    USER_INTS = 24,   /* integers of a step */
    USER_STEPS = 512, /* of a program */
    USER_INPUTS = 24, /* batch arrays */
    USER_NAME = 16
};

/* One call. Leaves have their type before the call, other steps get it from the result. */
typedef struct user_step {
    user_op op;
    char name[USER_NAME]; /* of a parameter, layer, input or output */
    int n_args, args[USER_ARGS];
    int n_ints;
    int64_t ints[USER_INTS];
    double real;
    tcc_dtype dtype;
    int rank;
    int64_t dims[TCC_MAX_RANK];
} user_step;

/* What a batch array holds. */
typedef enum user_fill {
    USER_FILL_UNIFORM,       /* floats in -1 .. 1 */
    USER_FILL_LARGE,         /* the same times 1e6 */
    USER_FILL_SMALL,         /* the same times 1e-8 */
    USER_FILL_CONSTANT_ROWS, /* a number a row of the last dim */
    USER_FILL_CONSTANT_CHANNELS,
    USER_FILL_INDEX,      /* integers in 0 .. limit - 1 */
    USER_FILL_FEW,        /* of these only two */
    USER_FILL_SORTED,     /* ascending, repeated */
    USER_FILL_STRAY,      /* sometimes out of range */
    USER_FILL_MASK,       /* bool; whole rows are false */
    USER_FILL_MASK_FLOAT, /* 0 or -inf; whole rows are -inf */
} user_fill;

typedef struct user_input {
    char name[USER_NAME];
    tcc_dtype dtype;
    int rank;
    int64_t dims[TCC_MAX_RANK];
    user_fill fill;
    int64_t limit;
} user_input;

typedef struct user_program {
    uint64_t seed;
    tcc_model_fn model; /* traces the program instead of the steps, unless NULL */
    int n_inputs, n_steps;
    user_input inputs[USER_INPUTS];
    user_step steps[USER_STEPS];
    tcc_optimizer_options optimizer;
    bool keep_gradients;
    tcc_mixed_precision precision;
    const char *memory_budget; /* that the same bits are trained with once more; NULL: none */
    int segment_steps;         /* as many steps in turn are in a segment (tcc_checkpoint_segment) and in none; 0: all in
                                  none */
    int64_t batch_accumulate, chunk_rows; /* as in tcc_model_options */
} user_program;

/* The same of layers, windows, attention and losses. Private to user_program*.c. */
tcc_tensor user_layer_apply(const user_step *s, const tcc_tensor *a);
/* Calls one step's function. `values` are the results of the steps before. */
tcc_tensor user_step_apply(tcc_trace *t, const user_step *s, const tcc_tensor *values);
/* A tcc_model_fn: `user` is a const user_program. */
void user_program_trace(tcc_trace *t, void *user);

/* The batch of step `step`, in memory that the caller frees with user_batch_free. `out` has room for USER_INPUTS. */
void user_batch_make(const user_program *p, int step, tcc_array *out);
void user_batch_free(const user_program *p, tcc_array *batch);

/* Number e of a literal's pattern (the step's integers 1 and 2, and its real number). */
double user_literal(const user_step *s, int64_t e);

void user_program_print_c(tcc_strbuf *out, const user_program *p);
/* The steps alone, as members of a JSON object. */
void user_program_print_json(tcc_strbuf *out, const user_program *p);

/* Removes steps that neither the loss, nor an output, nor an update needs, and inputs that no step reads. */
void user_program_drop_dead(user_program *p);

#endif
