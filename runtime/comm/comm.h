/* SPDX-License-Identifier: MIT
 * Communicators over transports, for the library alone. */
#ifndef TCC_RUNTIME_COMM_COMM_H
#define TCC_RUNTIME_COMM_COMM_H

#include "ir/support/context.h"
#include "runtime/comm/transport.h"
#include "traincc/comm.h"

#include <stdbool.h>

/* A communicator over a transport, which it takes over when it succeeds. */
tcc_status tcc_comm_over(tcc_context *cx, tcc_transport *t, tcc_comm **out);
/* The end of this process among those that meet by torchrun's variables. */
tcc_status tcc_comm_open_env(tcc_context *cx, tcc_comm **out);
/* The end of this process in MPI's world. */
tcc_status tcc_comm_open_mpi(tcc_context *cx, tcc_comm **out);
/* TCC_COMM_TIMEOUT, or 60. TCC_EINVAL where it is no number. */
tcc_status tcc_comm_timeout_of_environment(tcc_diag *d, double *seconds);
/* What its collectives take. It lives as long as the communicator. */
const tcc_network *tcc_comm_network(const tcc_comm *c);
void tcc_comm_set_network(tcc_comm *c, const tcc_network *n);
/* Collectives, which set that alike on all ranks: what is between them is measured; or only where some are on another
 * machine, while it is known for those of one. */
tcc_status tcc_comm_measure_network(tcc_comm *c);
tcc_status tcc_comm_find_network(tcc_comm *c);
/* Whether the other ranks are not there (tcc_comm_create_planned). */
bool tcc_comm_is_planned(const tcc_comm *c);
/* Whose calls keep their errors there. */
tcc_context *tcc_comm_context(const tcc_comm *c);
double tcc_comm_get_timeout(const tcc_comm *c);
bool tcc_comm_has_failed(const tcc_comm *c);
/* This rank's number among those on its machine. */
int tcc_comm_local_rank(const tcc_comm *c);
/* Whether a rank is known to have ended or given up, with words for it. It returns at once and is no collective. */
bool tcc_comm_is_gone(tcc_comm *c, char *words, size_t size);
/* Whether its ranks are to train on CUDA devices: it was created as "nccl". */
bool tcc_comm_wants_cuda(const tcc_comm *c);
void tcc_comm_set_wants_cuda(tcc_comm *c);
/* The first of these variables of the environment that is a number; else `otherwise`. NULL ends them. */
int tcc_comm_number_of_environment(const char *const *names, int otherwise);
/* False: MPI allows no thread, and a rank that is at work gives no signs of life. */
bool tcc_comm_tells_of_work(const tcc_comm *c);

#endif
