/* SPDX-License-Identifier: MIT
 * How the processes of ranks begin, however they were started. */
#ifndef TCC_TRAIN_RANKS_H
#define TCC_TRAIN_RANKS_H

#include "train.h"

/* Ranks share the CPUs: each gets its part of those that this process may use, one at least. */
void ranks_take_cpus(int rank, int ranks);
/* The run of one rank, whose end is freed. Returns the program's exit status. */
int ranks_run(const train_options *given, recipe *r, train_signals *signals, tcc_context *cx, tcc_comm *comm);
/* The same, of a rank that options->launcher has started. */
int join_ranks(const train_options *o, recipe *r, train_signals *signals);

#endif
