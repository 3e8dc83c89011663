/* SPDX-License-Identifier: MIT
 * Ranks as threads of the test. */
#ifndef TCC_TESTS_HARNESS_RANK_THREADS_H
#define TCC_TESTS_HARNESS_RANK_THREADS_H

#include "traincc/comm.h"

#include <stdbool.h>

/* `comm` is NULL where there is one rank. */
typedef void rank_body(void *user, int rank, tcc_context *cx, tcc_comm *comm);

/* Calls `body` for each of `count` ranks, at most 8, in a thread of its own with a context and an end of its own, which
 * are destroyed behind it. False: one of them could not be made. */
bool run_rank_threads(int count, rank_body *body, void *user);

#endif
