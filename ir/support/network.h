/* SPDX-License-Identifier: MIT
 * What a collective takes, by a model of the network between ranks (Hockney 1994): each message takes `latency_ns`, and
 * a rank sends and receives `bytes_a_ns` at the same time.
 *
 * A sum over n ranks is reduced part by part, by exchanges of each rank with all others, and the parts are gathered
 * likewise (runtime/comm/comm.c). Gathering and scattering are half of that. */
#ifndef TCC_SUPPORT_NETWORK_H
#define TCC_SUPPORT_NETWORK_H

typedef struct tcc_network {
    double latency_ns, bytes_a_ns;
} tcc_network;

/* Processes of one machine, by sockets. */
#define TCC_NETWORK_LOCAL ((tcc_network){20e3, 2})

/* Half of an all-reduce of so many bytes: a reduce-scatter of them, or an all-gather to them. */
static inline double tcc_network_half_ns(const tcc_network *n, int ranks, double bytes) {
    return (ranks - 1) * (n->latency_ns + bytes / ranks / n->bytes_a_ns);
}

/* The bytes from which on latency is at most 1/16 of the time of an all-reduce. */
static inline double tcc_network_bucket_bytes(const tcc_network *n, int ranks) {
    enum { SHARE = 16 };
    return (SHARE - 1) * n->latency_ns * n->bytes_a_ns * ranks;
}

#endif
