/* SPDX-License-Identifier: MIT
 * The ends of a communicator on one machine, made at once: a pair of sockets for each pair of ranks. */
#include "runtime/comm/comm.h"

#include "ir/support/alloc.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* sockets[a * ranks + b] is the end of rank a towards rank b. */
static tcc_status connect_all(tcc_diag *d, int ranks, int *sockets) {
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < a; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
                return tcc_error(d, TCC_EIO, TCC_NOWHERE, "%d ranks: cannot connect ranks %d and %d: %s", ranks, b, a,
                                 strerror(errno));
            sockets[a * ranks + b] = pair[0];
            sockets[b * ranks + a] = pair[1];
        }
    return TCC_OK;
}

/* The end of rank r, which owns its sockets from now on. */
static tcc_status make_end(tcc_context *cx, int r, int ranks, int *sockets, tcc_comm **out) {
    tcc_transport *t;
    TCC_TRY(tcc_sockets_create(&cx->diag, r, ranks, sockets, &t));
    t->local_rank = r;
    for (int i = 0; i < ranks; i++) sockets[i] = -1;
    const tcc_status status = tcc_comm_over(cx, t, out);
    if (status != TCC_OK) t->ops->destroy(t, 0);
    return status;
}

tcc_status tcc_comm_create_local(tcc_context *const *contexts, int ranks, tcc_comm **out) {
    tcc_diag *d = &contexts[0]->diag;
    tcc_diag_begin(d);
    if (ranks < 1 || ranks > TCC_COMM_MOST_RANKS)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%d ranks: 1 to %d are possible", ranks, TCC_COMM_MOST_RANKS);
    const int count = ranks * ranks;
    int *sockets = tcc__malloc(sizeof *sockets * (size_t)count), made = 0;
    if (!sockets) return tcc_enomem(d);
    for (int i = 0; i < count; i++) sockets[i] = -1;
    tcc_status status = connect_all(d, ranks, sockets);
    for (; made < ranks && status == TCC_OK; made++) {
        out[made] = NULL;
        status = make_end(contexts[made], made, ranks, sockets + made * ranks, &out[made]);
        if (status != TCC_OK && contexts[made] != contexts[0])
            tcc_error(d, status, TCC_NOWHERE, "rank %d: %s", made, tcc_diag_words(&contexts[made]->diag));
    }
    for (int i = 0; status != TCC_OK && i < made; i++) tcc_comm_destroy(out[i]), out[i] = NULL;
    for (int i = 0; i < count; i++)
        if (sockets[i] >= 0) close(sockets[i]);
    tcc__free(sockets);
    return status;
}
