/* SPDX-License-Identifier: MIT
 * Graphs of any size, to see how compiling grows with them. */
#ifndef TCC_TESTS_HARNESS_SCALE_SHAPES_H
#define TCC_TESTS_HARNESS_SCALE_SHAPES_H

#include "traincc/traincc.h"

typedef struct scale_shape {
    const char *name;
    void (*build)(tcc_trace *t, int64_t parts);
} scale_shape;

/* chain (adds), residual (blocks of two products), gpt (layers), fan (uses of one value), rnn (steps), ctc (frames).
 * NULL: none is called that. */
const scale_shape *scale_shape_find(const char *name);

/* Compiles the training step of a graph of the shape with so many parts, on the CPU and without running it. The model
 * is the caller's, on any status; so is what the context says. */
tcc_status scale_compile(tcc_context *cx, const scale_shape *shape, int64_t parts, tcc_model **out);

#endif
