/* SPDX-License-Identifier: MIT
 * Groups as order schedules them: what each waits for, what it loads and stores, and when it may run. Values are
 * numbered by node id. */
#ifndef TCC_PASSES_MEMORY_TASKS_H
#define TCC_PASSES_MEMORY_TASKS_H

#include "ir/ir.h"

typedef tcc_vec(int) tcc_order_ids;

typedef struct tcc_order_task {
    const tcc_implementation *launches;
    int moments;
    tcc_order_ids loads, stores; /* values in the arena; of each, the moment of the last read and of the first write */
    tcc_order_ids load_moments, store_moments;
    tcc_order_ids over;  /* triples: a value that it loads, one that it may write over that, and the moment */
    tcc_order_ids after; /* groups that read what this one stores */
    int waits_for;       /* groups */
    int64_t input_bytes; /* of all inputs, wherever they are */
    bool waits;          /* may wait for its like */
    bool again;          /* computes values again */
    bool soon;           /* it is a collective, or all that waits for it is soon */
    bool late;           /* it reads what a collective gives */
    int needed_at;       /* the group itself; of one that computes values again, the first other one that needs them */
    uint64_t shape;      /* equal for groups that are likely to be one kernel */
} tcc_order_task;

typedef struct tcc_order_tasks {
    const tcc_graph *g;
    tcc_order_task *of;  /* by group */
    int *program;        /* groups in the order of the program */
    int *place;          /* by group: where it is in the program */
    int64_t *size_bytes; /* by node: in the arena */
    int *users;          /* by node: groups that load it; one more if it is copied to an output at the end */
    tcc_arena arena;     /* of launches that are not in the graph */
} tcc_order_tasks;

/* TCC_ENOMEM; destroy takes what create left in either case. */
tcc_status tcc_order_tasks_create(const tcc_graph *g, tcc_order_tasks *out);
void tcc_order_tasks_destroy(tcc_order_tasks *tasks);

#endif
