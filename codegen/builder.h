/* SPDX-License-Identifier: MIT
 * A program that is being built: shared by build.c and the files that place values and join steps. */
#ifndef TCC_CODEGEN_BUILDER_H
#define TCC_CODEGEN_BUILDER_H

#include "codegen/options.h"
#include "codegen/program.h"
#include "codegen/schedule/lowering.h"
#include "codegen/verify/facts.h"
#include "ir/support/table.h"

/* A step being built. */
typedef struct tcc_step_draft {
    int kernel; /* -1: a library call, a copy, or one that was merged away */
    bool gone;
    tcc_step step;
    tcc_vec(tcc_instance) instances;
    bool *written; /* by buffer of the kernel; equal for all instances */
    int n_buffers;
} tcc_step_draft;

typedef struct tcc_builder {
    tcc_context *cx;
    tcc_diag *diag;
    const tcc_graph *g;
    const tcc_codegen_options *options;
    const tcc_llvm_target *target;
    tcc_arena scratch; /* what lowering makes; alive until kernels are emitted */
    tcc_program *p;
    int *output_binding; /* by output: its own binding, or -1 */
    tcc_buffer *home;    /* by node id; size 0: none */
    bool *far;           /* by node id: see build_far.c; NULL: none is */
    tcc_vec(tcc_lowering) lowerings;
    tcc_vec(tcc_kernel_plan) kernels;
    tcc_table kernel_of; /* numbers + 1 of kernels, by key */
    tcc_vec(tcc_step_draft) drafts;
    tcc_vec(uint8_t) constants;
    tcc_table constant_of;    /* tcc_buffer in `scratch`, by content */
    tcc_program_facts *facts; /* what the program is checked against; NULL: it is not */
} tcc_builder;

/* In the program's memory. */
static inline void *tcc_builder_keep(tcc_builder *b, const void *data, size_t bytes) {
    return bytes ? tcc_arena_copy(&b->p->memory, data, bytes) : tcc_arena_alloc(&b->p->memory, 1);
}

/* --- build_memory.c */

/* Bindings, and where each value lives: its place in the arena, the input whose state it replaces, or its own binding.
 */
tcc_status tcc_builder_place_values(tcc_builder *b);
/* A table among the constants; equal ones are one. */
tcc_status tcc_builder_add_constant(tcc_builder *b, const void *data, int64_t bytes, tcc_buffer *out);
/* The same of a node, which becomes its home. */
tcc_status tcc_builder_place_constant(tcc_builder *b, const tcc_node *n);

/* --- build_far.c: finds the values that have left the caches before anyone reads them. */
tcc_status tcc_builder_find_far(tcc_builder *b);

/* --- build_join.c: moves a step over the ones between (they must not touch its memory) to join another of its kernel,
 * first later ones up to earlier ones, then earlier ones down to later ones. */
tcc_status tcc_builder_join_steps(tcc_builder *b);

#endif
