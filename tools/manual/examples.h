/* SPDX-License-Identifier: MIT
 * The examples of the reference manual, one for each public function: a file for each header. They are compiled and run
 * by tests/manual, and pages.py puts them on the functions' pages.
 *
 * TRACED(tcc_relu) { ... } stands in a model's function, with its trace `t`. The comment behind a tcc_output is its
 * value, row by row, or its type and shape: "f32 [2, 3]". EXAMPLE(tcc_model_train) { ... } stands in a program, with
 * what the parameters below say. The comment behind a printf is the line that it prints; what ends in "..." is how the
 * line begins. */
#ifndef TCC_TOOLS_MANUAL_EXAMPLES_H
#define TCC_TOOLS_MANUAL_EXAMPLES_H

#include <traincc/checkpoint.h>
#include <traincc/data.h>
#include <traincc/ir.h>
#include <traincc/metrics.h>
#include <traincc/nearest.h>
#include <traincc/random.h>
#include <traincc/tokenizer.h>
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>

/* What an example finds ready. */
typedef struct example_given {
    tcc_context *cx;
    tcc_model *model; /* keeps gradients, statistics and averages; trained for a step */
    const tcc_array *batch;
    int batch_count;
    tcc_dataset *data;
    tcc_loader *loader;
    tcc_tokenizer *tokenizer;
    tcc_metrics *metrics;
    tcc_ir *ir;
} example_given;

typedef struct example {
    const char *name, *file;
    int line;
    void (*traced)(tcc_trace *t, void *user);                   /* or */
    void (*run)(const example_given *given, tcc_status *error); /* *error is what the first TCC_TRY that fails gives */
    struct example *next;
} example;

/* Before main. */
void example_add(example *e);

#define EXAMPLE_ADD_(example_name, member)                                                                \
    __attribute__((constructor)) static void add_##example_name(void) {                                   \
        static example e = {                                                                              \
            .name = #example_name, .file = __FILE__, .line = __LINE__, .member = example_##example_name}; \
        example_add(&e);                                                                                  \
    }

#define TRACED(name)                                        \
    static void example_##name(tcc_trace *t, void *unused); \
    EXAMPLE_ADD_(name, traced)                              \
    static void example_##name(__attribute__((unused)) tcc_trace *t, __attribute__((unused)) void *unused)

#define EXAMPLE(name)                                                                                               \
    static void body_##name(EXAMPLE_PARAMETERS_);                                                                   \
    static void example_##name(const example_given *g, tcc_status *error) {                                         \
        body_##name(g->cx, g->model, g->batch, g->batch_count, g->data, g->loader, g->tokenizer, g->metrics, g->ir, \
                    error);                                                                                         \
    }                                                                                                               \
    EXAMPLE_ADD_(name, run)                                                                                         \
    static void body_##name(EXAMPLE_PARAMETERS_)

#define EXAMPLE_UNUSED_ __attribute__((unused))
#define EXAMPLE_PARAMETERS_                                                                                         \
    EXAMPLE_UNUSED_ tcc_context *cx, EXAMPLE_UNUSED_ tcc_model *model, EXAMPLE_UNUSED_ const tcc_array *batch,      \
        EXAMPLE_UNUSED_ int batch_count, EXAMPLE_UNUSED_ tcc_dataset *data, EXAMPLE_UNUSED_ tcc_loader *loader,     \
        EXAMPLE_UNUSED_ tcc_tokenizer *tokenizer, EXAMPLE_UNUSED_ tcc_metrics *metrics, EXAMPLE_UNUSED_ tcc_ir *ir, \
        EXAMPLE_UNUSED_ tcc_status *example_error

/* As the library's, in a function without a result. */
#undef TCC_TRY
#define TCC_TRY(call)                                    \
    do {                                                 \
        if ((*example_error = (call)) != TCC_OK) return; \
    } while (0)

#endif
