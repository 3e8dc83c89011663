/* SPDX-License-Identifier: MIT
 * order: what there is to schedule. A task is a group as the scheduler sees it. Values are numbered by node id. */
#ifndef TCC_PASSES_ORDER_TASKS_H
#define TCC_PASSES_ORDER_TASKS_H

#include "ir/ir.h"

typedef tcc_vec(int) tcc_ints;

typedef struct tcc_task {
    const tcc_implementation *launches;
    int moments;
    tcc_ints loads, stores; /* values in the arena; of each, the moment of the last read and of the first write */
    tcc_ints load_moments, store_moments;
    tcc_ints over;       /* triples: a value that it loads, one that it may write over that, and the moment */
    tcc_ints before;     /* groups that it waits for, and */
    tcc_ints after;      /* those that wait for it: they read what it stores, or overwrite what it reads */
    int64_t input_bytes; /* of all inputs, wherever they are */
    bool waits;          /* may wait for its like */
    bool again;          /* computes values again */
    int needed_at;       /* the group itself; of one that computes values again, the first other one that needs them */
    uint64_t shape;      /* equal for groups that are likely to be one kernel */
} tcc_task;

typedef struct tcc_tasks {
    const tcc_graph *g;
    tcc_task *data;      /* by group */
    int *program;        /* groups in the order of the program */
    int *place;          /* by group: where it is in the program */
    int64_t *size_bytes; /* by node: in the arena */
    int *users;          /* by node: groups that load it; one more if it is copied to an output at the end */
    int *first_reader;   /* by node: its value is loaded by the groups */
    int *readers;        /* readers[first_reader[id]] .. readers[first_reader[id + 1] - 1] */
    tcc_arena arena;     /* of launches that are not in the graph */
} tcc_tasks;

/* Errors: TCC_ENOMEM; tcc_tasks_free all the same. */
tcc_status tcc_tasks_create(tcc_tasks *out, const tcc_graph *g);
void tcc_tasks_free(tcc_tasks *s);

#endif
