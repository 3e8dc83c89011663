/* SPDX-License-Identifier: MIT
 * The meaning of a program's buffers, recorded while it is built. For each launch of each group it has the value of
 * each buffer, and the bytes that the kernel reads and writes. A program file has none of this; verify.c checks the
 * finished program against it. */
#ifndef TCC_CODEGEN_VERIFY_FACTS_H
#define TCC_CODEGEN_VERIFY_FACTS_H

#include "codegen/body/access.h"
#include "codegen/program.h"

struct tcc_lowering;
struct tcc_plan_launch;

/* A value of a node, a temporary of a group, or a table. */
typedef struct tcc_fact_value {
    const tcc_node *node; /* NULL: */
    int temporary;        /* -1: a table, known by its hash; else the temporary of that number of a group: */
    const char *label;    /* the group's, the program's */
    uint64_t hash;
    int64_t size_bytes;
} tcc_fact_value;

/* One buffer of a launch. Regions count from the buffer's start. */
typedef struct tcc_fact_use {
    int value;            /* index into values; -1: nothing */
    int64_t offset_bytes; /* of the buffer's start in the value */
    int n_reads, n_writes;
    const tcc_region *reads, *writes;
} tcc_fact_use;

/* The launch reads through one buffer, at each of its points, the very element that it then writes through another. */
typedef struct tcc_fact_pair {
    int read, write;
} tcc_fact_pair;

typedef struct tcc_fact_launch {
    const tcc_buffer *buffers; /* those of its instance, or call, in the program, by which it is found there */
    bool nothing; /* a copy of a value to where it lies: it is in no step, and done before the next launch */
    int n_uses, n_in_step;
    const tcc_fact_use *uses;
    const tcc_fact_pair *in_step;
    const char *label, *lines; /* the program's */
} tcc_fact_launch;

/* What the launches of a group evaluate. */
typedef struct tcc_fact_group {
    const tcc_group *group;
    const double *evaluations; /* by position in the group */
    const char *label, *lines; /* the program's */
} tcc_fact_group;

typedef struct tcc_program_facts {
    tcc_arena memory;
    const tcc_graph *graph; /* borrowed, like its nodes */
    tcc_vec(tcc_fact_value) values;
    tcc_vec(tcc_fact_launch) launches; /* in the order in which each sees what those before it wrote */
    tcc_vec(tcc_fact_group) groups;
    int *of_node;          /* by node id: its value, or -1; inputs and outputs have one */
    const tcc_group *open; /* while building: the group at hand, and the value of its first temporary */
    int first_temporary;
} tcc_program_facts;

/* Starts as {0}. */
tcc_status tcc_program_facts_begin(tcc_program_facts *f, const tcc_graph *g, tcc_diag *diag);
/* The launch of that group has these buffers in the program, or there is `nothing` to do. All launches of a group
 * follow each other. */
tcc_status tcc_program_facts_add(tcc_program_facts *f, const struct tcc_lowering *l,
                                 const struct tcc_plan_launch *launch, const tcc_buffer *buffers, bool nothing,
                                 const char *label, const char *lines);
/* After its launches. `evaluations` by position in the group. */
tcc_status tcc_program_facts_add_group(tcc_program_facts *f, const tcc_group *group, const double *evaluations,
                                       const char *label, const char *lines, tcc_diag *diag);
void tcc_program_facts_clear(tcc_program_facts *f);

#endif
