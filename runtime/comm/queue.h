/* SPDX-License-Identifier: MIT
 * Collectives that a thread makes, one after the other, while the caller computes. */
#ifndef TCC_RUNTIME_COMM_QUEUE_H
#define TCC_RUNTIME_COMM_QUEUE_H

#include "ir/support/diag.h"

#include <stdint.h>

/* A call as the ranks compare it. */
typedef struct tcc_comm_call {
    int64_t number; /* calls before it */
    int64_t kind, reduction, type, count, root;
} tcc_comm_call;

/* With the data, which is this rank's own. */
typedef struct tcc_comm_job {
    tcc_comm_call call;
    const void *from;
    void *to;
    double timeout_s;
} tcc_comm_job;

typedef struct tcc_comm_queue tcc_comm_queue;

/* `run` is called by the thread. TCC_ENOMEM, TCC_EIO. */
tcc_status tcc_comm_queue_create(tcc_diag *d, tcc_status (*run)(void *user, const tcc_comm_job *job), void *user,
                                 tcc_comm_queue **out);
/* When all jobs are done. NULL is allowed. */
void tcc_comm_queue_destroy(tcc_comm_queue *q);
/* The number of the job, from 0. Waits where many are in the queue. */
int64_t tcc_comm_queue_add(tcc_comm_queue *q, const tcc_comm_job *job);
/* Jobs that were added. */
int64_t tcc_comm_queue_added(tcc_comm_queue *q);
/* Returns when the job and those before it are done, with the first error among them. */
tcc_status tcc_comm_queue_wait(tcc_comm_queue *q, int64_t number);
/* Returns when all are done. NULL is allowed. */
void tcc_comm_queue_drain(tcc_comm_queue *q);

#endif
