/* SPDX-License-Identifier: MIT
 * Communicators of processes that were started apart, by kind. */
#include "runtime/comm/comm.h"

#include <stdlib.h>
#include <string.h>

tcc_status tcc_comm_create(tcc_context *cx, const char *kind, tcc_comm **out) {
    tcc_diag_begin(&cx->diag);
    *out = NULL;
    if (!strcmp(kind, "env")) return tcc_comm_open_env(cx, out);
    if (!strcmp(kind, "mpi")) return tcc_comm_open_mpi(cx, out);
    if (strcmp(kind, "nccl") != 0)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "\"%s\" is no kind of communicator; there are \"env\", \"mpi\" and \"nccl\"", kind);
    TCC_TRY(getenv("RANK") ? tcc_comm_open_env(cx, out) : tcc_comm_open_mpi(cx, out));
    tcc_comm_set_wants_cuda(*out);
    return TCC_OK;
}
