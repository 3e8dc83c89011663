/* SPDX-License-Identifier: MIT
 * What a communicator is made of: private to the room, which makes communicators over transports. */
#ifndef TCC_RUNTIME_COMM_COMM_H
#define TCC_RUNTIME_COMM_COMM_H

#include "ir/support/context.h"
#include "runtime/comm/transport.h"
#include "traincc/comm.h"

/* A communicator over a transport, which it takes over when it succeeds. */
tcc_status tcc_comm_over(tcc_context *cx, tcc_transport *t, tcc_comm **out);

#endif
