/* SPDX-License-Identifier: MIT
 * Communicators of processes that were started apart, by kind. */
#include "runtime/comm/comm.h"

#include <string.h>

tcc_status tcc_comm_create(tcc_context *cx, const char *kind, tcc_comm **out) {
    tcc_diag_begin(&cx->diag);
    *out = NULL;
    if (!strcmp(kind, "env")) return tcc_comm_open_env(cx, out);
    if (!strcmp(kind, "mpi")) return tcc_comm_open_mpi(cx, out);
    return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "\"%s\" is no kind of communicator; there are \"env\" and \"mpi\"", kind);
}
