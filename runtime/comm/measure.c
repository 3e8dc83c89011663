/* SPDX-License-Identifier: MIT
 * What messages between ranks take, by trying: all-gathers of a few bytes give the latency of a message, those of many
 * the bandwidth. Rank 0's medians count for all. They are rounded to a power of 4 times what they are on one machine,
 * so programs, which depend on them, depend little on the moment. */
#include "runtime/comm/comm.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "ir/support/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SMALL_BYTES = 8, MOST_BYTES = 16 << 20, LARGE_BYTES = 1 << 20, SMALLS = 15, LARGES = 5 };

/* The same in all processes that share a kernel and its network, and hardly on another machine. */
static uint64_t hash_host(void) {
    char text[256] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(text, sizeof text, f)) *text = '\0';
    if (f) fclose(f);
    const size_t length = strlen(text);
    const ssize_t n = readlink("/proc/self/ns/net", text + length, sizeof text - length - 1);
    if (n > 0) text[length + (size_t)n] = '\0';
    return tcc_hash_string(0, text);
}

static double median(double *x, int count) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && x[k] < x[k - 1]; k--) {
            const double y = x[k];
            x[k] = x[k - 1];
            x[k - 1] = y;
        }
    return x[count / 2];
}

/* The first one, which may be of another kind, does not count. */
static tcc_status time_gathers(tcc_comm *c, char *memory, int64_t bytes, int count, double *ns) {
    double all[SMALLS];
    for (int i = -1; i < count; i++) {
        const double start = tcc_clock_seconds();
        TCC_TRY(tcc_comm_all_gather(c, memory, memory + bytes, bytes));
        if (i >= 0) all[i] = 1e9 * (tcc_clock_seconds() - start);
    }
    *ns = median(all, count);
    return TCC_OK;
}

static double round_to(double x, double known) {
    return isfinite(x) && x > 0 ? known * pow(4, round(log(x / known) / log(4))) : known;
}

static tcc_status measure(tcc_comm *c, char *memory, int64_t large) {
    const int others = tcc_comm_size(c) - 1;
    double small_ns, large_ns;
    TCC_TRY(time_gathers(c, memory, SMALL_BYTES, SMALLS, &small_ns));
    TCC_TRY(time_gathers(c, memory, large, LARGES, &large_ns));
    const double bytes = (double)(large - SMALL_BYTES) * others;
    tcc_network found = {round_to(small_ns / others, tcc_network_local->latency_ns),
                         round_to(bytes / (large_ns - small_ns), tcc_network_local->bytes_a_ns)};
    TCC_TRY(tcc_comm_broadcast(c, 0, &found, sizeof found));
    tcc_comm_set_network(c, &found);
    return TCC_OK;
}

tcc_status tcc_comm_measure_network(tcc_comm *c) {
    const int64_t size = tcc_comm_size(c), share = MOST_BYTES / size, large = share < LARGE_BYTES ? share : LARGE_BYTES;
    if (size < 2) return TCC_OK;
    char *memory = tcc__calloc((size_t)(size + 1), (size_t)large);
    const tcc_status status = memory ? measure(c, memory, large) : tcc_enomem(&tcc_comm_context(c)->diag);
    tcc__free(memory);
    return status;
}

tcc_status tcc_comm_find_network(tcc_comm *c) {
    const uint64_t own = hash_host();
    bool apart = false;
    uint64_t *all = tcc__calloc((size_t)tcc_comm_size(c), sizeof *all);
    if (!all) return tcc_enomem(&tcc_comm_context(c)->diag);
    const tcc_status status = tcc_comm_all_gather(c, &own, all, sizeof own);
    for (int r = 0; r < tcc_comm_size(c) && status == TCC_OK; r++) apart |= all[r] != own;
    tcc__free(all);
    return status == TCC_OK && apart ? tcc_comm_measure_network(c) : status;
}
