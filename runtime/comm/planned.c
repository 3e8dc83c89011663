/* SPDX-License-Identifier: MIT
 * A communicator whose other ranks are not there: to compile what one rank of many would run. They are taken to be like
 * this one, rank 0: what they send of a size is what it sends of that size. So batches and options agree. */
#include "runtime/comm/comm.h"

#include "ir/support/alloc.h"

#include <string.h>

static tcc_status exchange(tcc_transport *t, tcc_diag *d, const tcc_comm_part *parts, double timeout_s) {
    (void)timeout_s;
    for (int r = 0; r < t->size; r++) {
        if (r == t->rank || !parts[r].from_bytes) continue;
        if (parts[r].from_bytes != parts[r].to_bytes)
            return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "rank %d is only planned, and sends nothing", r);
        memcpy(parts[r].from, parts[r].to, (size_t)parts[r].from_bytes);
    }
    return TCC_OK;
}

static void abort_nobody(tcc_transport *t, const char *why) { (void)t, (void)why; }

static void destroy(tcc_transport *t, double timeout_s) {
    (void)timeout_s;
    tcc__free(t);
}

static const tcc_transport_ops ops = {.exchange = exchange, .abort = abort_nobody, .destroy = destroy};

tcc_status tcc_comm_create_planned(tcc_context *cx, int ranks, const char *network, tcc_comm **out) {
    tcc_diag *d = &cx->diag;
    tcc_network figures;
    tcc_diag_begin(d);
    *out = NULL;
    if (ranks < 1 || ranks > TCC_COMM_MOST_RANKS)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%d ranks: 1 to %d are possible", ranks, TCC_COMM_MOST_RANKS);
    if (!network || !tcc_network_parse(network, &figures))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "network \"%s\": must be LATENCY,BANDWIDTH, in microseconds and GB/s, or one of\n%s",
                         network ? network : "", tcc_network_names);
    tcc_transport *t = tcc__calloc(1, sizeof *t);
    if (!t) return tcc_enomem(d);
    *t = (tcc_transport){.ops = &ops, .size = ranks, .any_thread = true, .planned = true, .network = figures};
    const tcc_status status = tcc_comm_over(cx, t, out);
    if (status != TCC_OK) destroy(t, 0);
    return status;
}
