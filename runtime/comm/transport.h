/* SPDX-License-Identifier: MIT
 * A transport: how bytes get from rank to rank. It has one operation, an exchange, from which comm.c builds all
 * collectives. So sums are taken in one place, and their order does not depend on the transport. */
#ifndef TCC_RUNTIME_COMM_TRANSPORT_H
#define TCC_RUNTIME_COMM_TRANSPORT_H

#include "ir/support/diag.h"
#include "ir/support/network.h"

#include <stdbool.h>
#include <stdint.h>

/* What goes to another rank and comes from it in an exchange; sizes of 0: nothing does. */
typedef struct tcc_comm_part {
    const void *to;
    void *from;
    int64_t to_bytes, from_bytes;
} tcc_comm_part;

typedef struct tcc_transport tcc_transport;

typedef struct tcc_transport_ops {
    /* Moves parts[r] to and from each rank r but this one. Both ends give equal sizes. Errors: TCC_EIO, with a message
     * that begins with the rank that is the cause: it is gone, it gave up, or it did not answer within timeout_s. */
    tcc_status (*exchange)(tcc_transport *t, tcc_diag *d, const tcc_comm_part *parts, double timeout_s);
    /* Tells the others why this rank makes no further exchange, if they listen. */
    void (*abort)(tcc_transport *t, const char *why);
    /* The first rank that has ended or given up, -1: none has, with its words, "" where it left none. It returns at
     * once, and may be called beside an exchange. NULL: nobody can tell. */
    int (*find_gone)(tcc_transport *t, char *words, size_t size);
    /* The others are told, too. Some wait for the others to do the same, but not longer than timeout_s. */
    void (*destroy)(tcc_transport *t, double timeout_s);
} tcc_transport_ops;

struct tcc_transport {
    const tcc_transport_ops *ops;
    int rank, size;
    bool any_thread; /* its functions may be called by any thread, one at a time */
    bool planned;    /* the other ranks are not there */
    int local_rank;  /* of the ranks on this machine, from 0 */
    tcc_network network;
};

/* A transport over connected stream sockets, sockets[r] to rank r, which it takes over when it succeeds; that of its
 * own rank is -1. */
tcc_status tcc_sockets_create(tcc_diag *d, int rank, int size, const int *sockets, tcc_transport **out);

#endif
