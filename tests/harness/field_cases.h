/* SPDX-License-Identifier: MIT
 * What other compilers of tensor programs got wrong without a word: for each case the graph as our operations say it,
 * and where it was reported. */
#ifndef TCC_TESTS_HARNESS_FIELD_CASES_H
#define TCC_TESTS_HARNESS_FIELD_CASES_H

#include "harness/user_check.h"

/* A value that is known without any interpreter, in the first training step. */
typedef struct field_fact {
    const char *output;         /* "grad.NAME" for a gradient */
    double (*value)(int64_t e); /* element e */
    bool half;                  /* it went through float16 */
} field_fact;

typedef struct field_case {
    const char *name, *source; /* the project and issue, and what was wrong there */
    tcc_model_fn model;
    user_input inputs[3];
    field_fact facts[2];
} field_case;

extern const field_case field_cases_memory[], field_cases_gradients[], field_cases_values[]; /* ended by a NULL */

/* All of them; NULL from the last on. */
const field_case *field_case_at(int index);
/* As a program that user_program_check trains. */
void field_case_program(const field_case *c, user_program *out);
/* What differs from a fact in this mode, in a static buffer, or NULL. */
const char *field_case_by_hand(const field_case *c, unsigned mode);

/* -- For the models -- */

/* Shapes in one word: FIELD_PARAM(t, "w", 4, 5). */
#define FIELD_PARAM(t, name, ...) \
    tcc_param(t, name, ((tcc_init){.kind = TCC_INIT_UNIFORM, .a = -1, .b = 1}), TCC_DIMS(__VA_ARGS__))
#define FIELD_PARAM_OF(t, name, value, ...) \
    tcc_param(t, name, ((tcc_init){.kind = TCC_INIT_CONSTANT, .a = value}), TCC_DIMS(__VA_ARGS__))
#define FIELD_STATE(t, name, value, ...) \
    tcc_state(t, name, ((tcc_init){.kind = TCC_INIT_CONSTANT, .a = value}), TCC_DIMS(__VA_ARGS__))
#define FIELD_INPUT(name, type, fill, limit, rank, ...) {name, type, rank, {__VA_ARGS__}, fill, limit}
#define FIELD_FLOATS(name, rank, ...) FIELD_INPUT(name, TCC_F32, USER_FILL_UNIFORM, 0, rank, __VA_ARGS__)

/* The mean of x, each element with another weight, so that no two elements have one gradient. */
tcc_tensor field_weighed(tcc_trace *t, tcc_tensor x);
/* x is output "y", its weighed mean the loss. */
void field_finish(tcc_trace *t, tcc_tensor x);
static inline tcc_tensor field_transposed(tcc_tensor x) { return tcc_transpose(x, TCC_DIMS(1, 0)); }

#endif
